//! The requests of a volume that can be switched: each is for the volume of its moment, and is under way until it has ended.

use super::changed_pages::ChangedPages;
use super::switched::SwitchedVolume;
use crate::device::{Durability, Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::layout::{JournalStore, PageStore};
use crate::planted::{Bug, is_planted};
use crate::volume::{Change, Volume};

/// Bytes that are zeroed by one request: nobody who holds the volume waits for all of a large range.
const ZEROED_AT_ONCE_BYTES: u64 = 8 << 20;

fn mark_all(pages: &mut ChangedPages, extents: impl Iterator<Item = Extent>) {
    let ranges_max = if is_planted(Bug::ConversionMarksOneRange) { 1 } else { usize::MAX };
    extents.take(ranges_max).for_each(|extent| pages.mark(extent));
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> SwitchedVolume<Volume<E, A, H, L>> {
    /// As [`Volume::read`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        self.enter().await.volume.read(offset, into).await
    }

    /// As [`Volume::try_read`]; false while it is held.
    pub fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        self.begin().is_some_and(|pass| pass.volume.try_read(offset, into))
    }

    /// As [`Volume::write`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), Error> {
        let writing = self.enter_to_write_to(Extent::new(offset, bytes.len() as u64)).await;
        writing.pass.volume.write(offset, bytes, durability).await
    }

    /// As [`Volume::write_fresh`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn write_fresh(&self, offset: u64, pages: &[&[u8]]) -> Result<(), Error> {
        let len = pages.iter().map(|page| page.len() as u64).sum();
        let writing = self.enter_to_write_to(Extent::new(offset, len)).await;
        writing.pass.volume.write_fresh(offset, pages).await
    }

    /// As [`Volume::write_zeroes`], one piece after the other.
    ///
    /// # Errors
    ///
    /// As there; some pieces are zero by then.
    pub async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), Error> {
        let mut left = extent;
        loop {
            let piece = Extent::new(left.offset, left.len.min(ZEROED_AT_ONCE_BYTES));
            let writing = self.enter_to_write_to(piece).await;
            writing.pass.volume.write_zeroes(piece, durability).await?;
            if piece.len == left.len {
                return Ok(());
            }
            left = Extent::new(piece.end(), left.len - piece.len);
        }
    }

    /// As [`Volume::flush`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn flush(&self, scope: FlushScope<'_>) -> Result<(), Error> {
        self.enter().await.volume.flush(scope).await
    }

    /// As [`Volume::commit`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn commit(&self, ranges: &[(u64, &[u8])]) -> Result<(), Error> {
        let extent = |&(offset, bytes): &(u64, &[u8])| Extent::new(offset, bytes.len() as u64);
        let writing = self.enter_to_write(|pages| mark_all(pages, ranges.iter().map(extent))).await;
        writing.pass.volume.commit(ranges).await
    }

    /// As [`Volume::commit_changes`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn commit_changes(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        let writing = self.enter_to_write(|pages| mark_all(pages, changes.iter().map(Change::extent))).await;
        writing.pass.volume.commit_changes(changes).await
    }

    /// As [`Volume::commit_in_background`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn commit_in_background(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        let writing = self.enter_to_write(|pages| mark_all(pages, changes.iter().map(Change::extent))).await;
        writing.pass.volume.commit_in_background(changes).await
    }

    /// As [`Volume::allocation`].
    ///
    /// # Errors
    ///
    /// As there.
    pub async fn allocation(&self, page: u64, pages_max: u64) -> Result<(bool, u64), Error> {
        self.enter().await.volume.allocation(page, pages_max).await
    }
}
