//! What goes to the drive, and what waits for a flush that holds it back.

use evenkeel_engine::device::Extent;

use super::{Barrier, File, FileSystem, FlushQueueing, PAGE_BYTES};
use crate::model::Operation;

impl FileSystem {
    /// A request for pages of the drive, for a file's stream.
    pub(super) async fn ask(
        &self,
        file: File,
        operation: Operation,
        first: u64,
        pages: u64,
        bytes: Option<&[u8]>,
    ) {
        let state = &*self.0;
        state.is_free.until(|| (!state.holds_back.get()).then_some(())).await;
        state.under_way.set(state.under_way.get() + 1);
        let extent = Extent::new(first * PAGE_BYTES, pages * PAGE_BYTES);
        // Who is not told that it is done was cut off with the power.
        state.pump.ask_for(file.0, operation, extent, bytes).await;
        state.under_way.set(state.under_way.get() - 1);
        if state.holds_back.get() {
            state.is_free.all();
        }
    }

    /// Makes durable what was written for `file`, and perhaps everything else.
    pub(super) async fn barrier(&self, file: File) {
        let state = &*self.0;
        self.count(|counters| counters.flushes += 1);
        let operation = match state.setup.barrier {
            Barrier::Flush => Operation::Flush,
            Barrier::RangeFlush => Operation::FlushStream,
        };
        if state.setup.queueing == FlushQueueing::Queued {
            self.ask(file, operation, 0, 0, None).await;
            return;
        }
        let holds = || (!state.holds_back.replace(true)).then_some(());
        state.is_free.until(holds).await;
        state.is_free.until(|| (state.under_way.get() == 0).then_some(())).await;
        state.pump.ask_for(file.0, operation, Extent::new(0, 0), None).await;
        state.holds_back.set(false);
        state.is_free.all();
    }
}
