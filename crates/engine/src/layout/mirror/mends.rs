//! Bytes that are put once more where they belong, behind the back of whoever found them wrong elsewhere.
//!
//! A member that rotted is found wrong quicker than it takes its turns to write.
//!
//! 1. No more than [`MENDS_MAX`] are under way. A reader does not wait for that: what it finds beyond them is found again.
//! 2. A scrub waits for it, and mends all that it finds.

use super::{Inner, MirrorPages};
use crate::device::Drive;
use crate::env::Env;

/// That many pages are 4 MiB, and a change of stripes each.
const MENDS_MAX: usize = 1024;

/// One that is under way, until this is dropped.
pub(super) struct Mend<E: Env, M: Drive>(MirrorPages<E, M>);

impl<E: Env, M: Drive> Mend<E, M> {
    /// The ring.
    pub(super) fn ring(&self) -> &MirrorPages<E, M> {
        &self.0
    }
}

impl<E: Env, M: Drive> Drop for Mend<E, M> {
    fn drop(&mut self) {
        let inner = &self.0.0;
        inner.mends.set(inner.mends.get() - 1);
        inner.ring.changed.all();
    }
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// One more is under way; `None` if it would be too many.
    pub(super) fn begin_mend(&self) -> Option<Mend<E, M>> {
        let under_way = self.0.mends.get();
        (under_way < MENDS_MAX).then(|| {
            self.0.mends.set(under_way + 1);
            Mend(self.clone())
        })
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Ends once another may be begun.
    pub(super) async fn until_mend_may_begin(&self) {
        self.ring.changed.until(|| (self.mends.get() < MENDS_MAX).then_some(())).await;
    }
}
