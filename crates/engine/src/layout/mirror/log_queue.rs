//! What is under way on a log device: no more at a time than a slow one answers within the time that it has.
//!
//! 1. Writes of a lane begin in the order of their coming.
//! 2. No more than a lane's bytes are under way of it, or one write.
//! 3. Clients wait behind what is under way of the log of stripes, and not behind what waits of it: a checkpoint may have a
//!    hundred times as much.

use crate::byte_budget::{ByteBudget, Taken};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    /// Records and superblocks of the journal: clients wait for them.
    Journal,
    /// Records of the log of stripes, on their way home.
    Stripes,
}

impl Lane {
    /// Bytes under way. A device that writes 1 MB/s answers those of both within seven seconds, whatever it does first; one that
    /// writes 4 GB/s is still at work for half a millisecond.
    const fn under_way_max_bytes(self) -> u64 {
        match self {
            Self::Journal => 4 << 20,
            Self::Stripes => 2 << 20,
        }
    }

    /// Bytes of a write, at most: a larger one is several. Each may cost a flush of its own, so they are not small.
    pub(super) const fn piece_bytes(self) -> usize {
        match self {
            Self::Journal => 4 << 20,
            // Two at a time: one is there while the next is on its way.
            Self::Stripes => 1 << 20,
        }
    }
}

/// The writes of one device.
#[derive(Debug)]
pub(super) struct LogQueue {
    journal: ByteBudget,
    stripes: ByteBudget,
}

impl Default for LogQueue {
    fn default() -> Self {
        let of = |lane: Lane| ByteBudget::of(lane.under_way_max_bytes());
        Self { journal: of(Lane::Journal), stripes: of(Lane::Stripes) }
    }
}

impl LogQueue {
    /// Waits until a write of so many bytes may begin; it is under way until what this answers is dropped.
    pub(super) async fn begin(&self, lane: Lane, len: u64) -> Taken<'_> {
        match lane {
            Lane::Journal => self.journal.take(len).await,
            Lane::Stripes => self.stripes.take(len).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn ask<'a>(beginning: impl Future<Output = Taken<'a>>) -> Option<Taken<'a>> {
        match pin!(beginning).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(taken) => Some(taken),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_record_of_the_journal_waits_for_none_of_the_stripes() {
        let queue = LogQueue::default();
        let piece_bytes = Lane::Stripes.piece_bytes() as u64;
        let stripes: Vec<_> = (0..60).map_while(|_| ask(queue.begin(Lane::Stripes, piece_bytes))).collect();
        assert_eq!(stripes.len(), 2, "the others wait");
        assert!(ask(queue.begin(Lane::Journal, 4096)).is_some());
    }
}
