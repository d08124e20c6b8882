//! What was read through the page cache and is kept by whoever read it: the system is told to give it up.
//!
//! ```text
//!          block         block         block
//!   ├─────────────┼─────────────┼─────────────┤
//!      given up      stays            ▲ a read comes here: nobody is left in the first
//! ```
//!
//! 1. Memory is given up by blocks as large as the largest page of a page cache, and as they are aligned: one of which a part
//!    is still to be read is not dropped, since it would be read once more.
//! 2. A read into a new block gives up the one before the last. Reads that are under way at once may be out of order by so much.
//! 3. Nobody waits for it, and at most [`UNDER_WAY_MAX`] are under way; what is left stays until the system wants the memory.

use std::cell::Cell;
use std::num::NonZeroU64;
use std::rc::Rc;

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Env;
use rustix::fs::{Advice, fadvise};

use crate::event_loop::{Loop, SharedFd};

/// Bytes of a block: a huge page.
const BLOCK_BYTES: NonZeroU64 = NonZeroU64::new(2 << 20).expect("it is not 0");

/// Blocks that are being given up.
const UNDER_WAY_MAX: usize = 4;

/// What is being given up of one file.
#[derive(Debug, Default)]
pub(super) struct DropBehind {
    under_way: Rc<Cell<usize>>,
}

impl DropBehind {
    /// `extent` was read.
    pub(super) fn read(&self, event_loop: &Loop, file: &SharedFd, extent: Extent) {
        let Some(block) = left_by(extent) else { return };
        if self.under_way.get() == UNDER_WAY_MAX {
            return;
        }
        // Without a descriptor of its own it stays in memory.
        let Ok(own) = file.try_clone() else { return };
        self.under_way.set(self.under_way.get() + 1);
        let (under_way, threads) = (Rc::clone(&self.under_way), event_loop.clone());
        event_loop.spawn(async move {
            let advised = threads
                .blocking(move || fadvise(own, block.offset, NonZeroU64::new(block.len), Advice::DontNeed));
            let _or_it_stays_in_memory = advised.await;
            under_way.set(under_way.get() - 1);
        });
    }
}

/// The block that nobody is in any more, where a read of `extent` has come to another block.
fn left_by(extent: Extent) -> Option<Extent> {
    let block = BLOCK_BYTES.get();
    let came_to = (extent.offset + extent.len) / block;
    let was_in = extent.offset / block;
    (came_to > was_in && came_to >= 2).then(|| Extent::new((came_to - 2) * block, block))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_in_a_row_give_up_each_block_once_but_the_last_two() {
        const BLOCK: u64 = BLOCK_BYTES.get();
        let reads = (0..80).map(|number| Extent::new(number * (128 << 10), 128 << 10));
        let given_up: Vec<_> = reads.filter_map(left_by).collect();
        assert_eq!(given_up, (0..4).map(|number| Extent::new(number * BLOCK, BLOCK)).collect::<Vec<_>>());
        assert_eq!(left_by(Extent::new(9 * BLOCK + 4096, 64 << 10)), None);
    }
}
