//! What the file system stands on: a volume, or ext3's journal.

use std::rc::Rc;

use evenkeel_ext2::store::{Change, CommitLimits, Extent};
use evenkeel_ext2::{Store, StoreError};

use super::super::bed::SiteVolume;
use super::super::written::Traffic;
use super::jbd::Jbd;

/// One of the two. A clone is another handle to the same.
#[derive(Clone)]
pub(super) enum Journaled {
    Volume(SiteVolume),
    Blocks(Rc<Jbd>),
}

impl Journaled {
    /// Takes home what is dirty.
    pub(super) async fn write_back(&self) {
        match self {
            Self::Volume(volume) => volume.checkpoint().await.expect("a healthy disk takes a checkpoint"),
            Self::Blocks(journal) => journal.checkpoint().await,
        }
    }

    /// Bytes written so far. What users wrote of them, it does not know.
    pub(super) fn traffic(&self) -> Traffic {
        match self {
            Self::Volume(volume) => Traffic { user_bytes: 0, writes: 0, ..volume.counters().into() },
            Self::Blocks(journal) => journal.traffic(),
        }
    }
}

impl Store for Journaled {
    fn size_bytes(&self) -> u64 {
        match self {
            Self::Volume(volume) => Store::size_bytes(volume),
            Self::Blocks(journal) => journal.size_bytes(),
        }
    }

    fn limits(&self) -> CommitLimits {
        match self {
            Self::Volume(volume) => volume.limits(),
            Self::Blocks(journal) => journal.limits(),
        }
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        match self {
            Self::Volume(volume) => Store::read(volume, offset, into).await,
            Self::Blocks(journal) => {
                journal.read(offset, into);
                Ok(())
            }
        }
    }

    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        match self {
            Self::Volume(volume) => Store::write(volume, offset, bytes).await,
            Self::Blocks(journal) => {
                journal.write(offset, bytes).await;
                Ok(())
            }
        }
    }

    async fn write_fresh(&self, offset: u64, blocks: &[&[u8]]) -> Result<(), StoreError> {
        match self {
            Self::Volume(volume) => Store::write_fresh(volume, offset, blocks).await,
            Self::Blocks(journal) => {
                journal.write(offset, &blocks.concat()).await;
                Ok(())
            }
        }
    }

    async fn zero(&self, extent: Extent) -> Result<(), StoreError> {
        match self {
            Self::Volume(volume) => Store::zero(volume, extent).await,
            Self::Blocks(journal) => {
                journal.zero(extent);
                Ok(())
            }
        }
    }

    async fn flush(&self, ranges: &[Extent]) -> Result<(), StoreError> {
        match self {
            Self::Volume(volume) => Store::flush(volume, ranges).await,
            // The disk's write cache is off.
            Self::Blocks(_) => Ok(()),
        }
    }

    async fn commit(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Volume(volume) => Store::commit(volume, changes).await,
            Self::Blocks(journal) => {
                journal.commit(changes).await;
                Ok(())
            }
        }
    }

    async fn commit_in_background(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        match self {
            Self::Volume(volume) => Store::commit_in_background(volume, changes).await,
            Self::Blocks(_) => self.commit(changes).await,
        }
    }

    async fn wait_beside_small_commits(&self) -> bool {
        match self {
            Self::Volume(volume) => volume.wait_beside_small_commits().await,
            Self::Blocks(_) => false,
        }
    }
}
