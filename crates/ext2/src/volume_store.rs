//! An open volume as a store, alone or behind what another one can take its place in.

use evenkeel_engine::conversion::SwitchedVolume;
use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::env::{Arena, Env};
use evenkeel_engine::error::Error;
use evenkeel_engine::layout::{JournalStore, PageStore};
use evenkeel_engine::volume::Volume;

use crate::error::StoreError;
use crate::store::{Change, CommitLimits, Extent, Store};

/// What is asked of a volume alike, whichever stands for it.
macro_rules! requests {
    () => {
        async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
            Self::read(self, offset, into).await.map_err(told)
        }

        async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
            Self::write(self, offset, bytes, Durability::Buffered).await.map_err(told)
        }

        async fn write_fresh(&self, offset: u64, blocks: &[&[u8]]) -> Result<(), StoreError> {
            Self::write_fresh(self, offset, blocks).await.map_err(told)
        }

        async fn zero(&self, extent: Extent) -> Result<(), StoreError> {
            self.write_zeroes(extent, Durability::Buffered).await.map_err(told)
        }

        async fn flush(&self, ranges: &[Extent]) -> Result<(), StoreError> {
            Self::flush(self, FlushScope::Ranges(ranges)).await.map_err(told)
        }

        async fn commit(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
            self.commit_changes(changes).await.map_err(told)
        }

        async fn commit_in_background(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
            Self::commit_in_background(self, changes).await.map_err(told)
        }
    };
}

fn told(error: Error) -> StoreError {
    StoreError(error.to_string())
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Store for Volume<E, A, H, L> {
    fn size_bytes(&self) -> u64 {
        Self::size_bytes(self)
    }

    fn limits(&self) -> CommitLimits {
        CommitLimits { bytes: self.commit_max_bytes(), pages: self.commit_pages_max() }
    }

    requests!();

    async fn wait_beside_small_commits(&self) -> bool {
        self.wait_beside_small_writes().await
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Store for SwitchedVolume<Volume<E, A, H, L>> {
    fn size_bytes(&self) -> u64 {
        self.now().size_bytes()
    }

    /// What takes the place of the volume takes commits as large.
    fn limits(&self) -> CommitLimits {
        self.tells_limits();
        Store::limits(&self.now())
    }

    requests!();

    async fn wait_beside_small_commits(&self) -> bool {
        self.now().wait_beside_small_writes().await
    }
}
