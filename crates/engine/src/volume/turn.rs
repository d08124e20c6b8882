//! A turn that one task has at a time.

use std::cell::Cell;

use crate::notify::Notify;

/// A turn that one task has at a time.
#[derive(Default)]
pub(super) struct Turn {
    taken: Cell<bool>,
    free: Notify,
}

/// The turn, until this is dropped.
pub(super) struct TurnGuard<'a>(&'a Turn);

impl Turn {
    /// Waits for the turn.
    pub(super) async fn take(&self) -> TurnGuard<'_> {
        self.free.until(|| (!self.taken.replace(true)).then_some(())).await;
        TurnGuard(self)
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.taken.set(false);
        self.0.free.all();
    }
}
