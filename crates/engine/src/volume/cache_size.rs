//! How many pages stay in memory, changed while the volume is open: more where memory is free, fewer where others need it.
//!
//! 1. What is dirty, or on its way home, stays: only clean pages go.
//! 2. Nobody waits for it: pages go some at a time, and others have their turn between.

use super::Volume;
use crate::env::{Arena, Env};
use crate::layout::{JournalStore, PageStore};
use crate::options::CACHED_PAGES_MIN;

/// Pages that go before others have their turn: some tens of microseconds.
const GOING_AT_ONCE: usize = 256;

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// Pages that stay in memory while there are clean ones to make room for others.
    pub fn cached_pages_max(&self) -> usize {
        self.0.home.cached_pages_max()
    }

    /// From now on so many stay, 16 at least. Ends when those that are more have gone, as far as they may.
    pub async fn resize_cache(&self, pages_max: usize) {
        let pages_max = pages_max.max(CACHED_PAGES_MIN);
        self.0.home.set_cached_pages_max(pages_max);
        while self.cached_pages_max() == pages_max && self.0.home.shrink(GOING_AT_ONCE) {
            self.0.env.sleep(0).await;
        }
    }
}
