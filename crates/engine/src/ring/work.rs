//! What a ring does in the background, and its end: once a volume is closed in order, nothing that writes is under way on its
//! members, so that whoever opens them next, in this process or another, meets nobody.
//!
//! ```text
//! at work ──► none begins: rebuilds and mends end ──► none settles ──► nothing leaves for a member: over
//! ```
//!
//! 1. Who is at work ends by itself, and soon: a rebuild at its next piece.
//! 2. As long as one is at work, members settle: it may wait for that. Who waits for it later is told that it was closed.

use std::cell::Cell;

use super::{EIO, Ring};
use crate::device::Drive;
use crate::env::Env;
use crate::error::DeviceError;
use crate::join;
use crate::notify::Notify;

/// What is under way of it.
#[derive(Debug, Default)]
pub(crate) struct Work {
    stage: Cell<Stage>,
    rebuilds_and_mends: Cell<usize>,
    settling: Cell<usize>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    #[default]
    AtWork,
    NoneBegins,
    NoneSettles,
    Over,
}

/// One is at work until this is dropped.
#[derive(Debug)]
pub(crate) struct AtWork<'a> {
    count: &'a Cell<usize>,
    changed: &'a Notify,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.changed.all();
    }
}

impl Work {
    /// Whether nothing is to be done any more.
    pub(crate) fn is_over(&self) -> bool {
        self.stage.get() == Stage::Over
    }

    /// Whether no member settles any more.
    pub(crate) fn none_settles(&self) -> bool {
        self.stage.get() >= Stage::NoneSettles
    }

    /// Whether a rebuild or a mend is to end.
    pub(crate) fn ends(&self) -> bool {
        self.stage.get() > Stage::AtWork
    }
}

fn check(is_open: bool) -> Result<(), DeviceError> {
    let closed = DeviceError { doing: "use a ring that was closed", errno: EIO };
    if is_open { Ok(()) } else { Err(closed) }
}

impl<E: Env, M: Drive> Ring<E, M> {
    fn begin<'a>(&'a self, count: &'a Cell<usize>, last: Stage) -> Option<AtWork<'a>> {
        let may_begin = self.work.stage.get() < last;
        may_begin.then(|| {
            count.set(count.get() + 1);
            AtWork { count, changed: &self.changed }
        })
    }

    /// Begins a rebuild or a mend; `None` where none may begin any more.
    pub(crate) fn begin_work(&self) -> Option<AtWork<'_>> {
        self.begin(&self.work.rebuilds_and_mends, Stage::NoneBegins)
    }

    /// Begins to settle a member; `None` where none may any more.
    pub(crate) fn begin_to_settle(&self) -> Option<AtWork<'_>> {
        self.begin(&self.work.settling, Stage::NoneSettles)
    }

    /// That it was not closed.
    pub(crate) fn check_open(&self) -> Result<(), DeviceError> {
        check(!self.work.is_over())
    }

    /// That members settle still: a flush waits for that.
    pub(crate) fn check_settles(&self) -> Result<(), DeviceError> {
        check(!self.work.none_settles())
    }

    /// Rests for so long, or until work ends.
    pub(crate) async fn rest_at_work(&self, duration_ns: u64) {
        let ends = self.changed.until(|| self.work.ends().then_some(()));
        join::first(ends, self.env.sleep(duration_ns)).await;
    }

    /// Ends everything; nothing that writes is under way on any member then.
    pub(crate) async fn quiesce(&self) {
        let work = &self.work;
        self.reach(Stage::NoneBegins, || work.rebuilds_and_mends.get() == 0).await;
        self.reach(Stage::NoneSettles, || work.settling.get() == 0).await;
        self.members.iter().for_each(|member| member.gate.set_failed(true));
        self.reach(Stage::Over, || true).await;
        join::all(self.members.iter().map(|member| member.gate.drained())).await;
    }

    async fn reach(&self, stage: Stage, is_reached: impl Fn() -> bool) {
        // Of two that close it neither goes back.
        self.work.stage.set(self.work.stage.get().max(stage));
        self.changed.all();
        self.changed.until(|| is_reached().then_some(())).await;
    }
}
