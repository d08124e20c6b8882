//! Large writes that go straight home, without passing through the log.
//!
//! The order, and the crash that each step survives:
//!
//! 1. What the buffer holds of these pages is made durable and taken home, so that no delta older than the
//!    intent is needed any more.
//! 2. An intent with the new sums is made durable. From now on a page here may be old, new, or, within a page
//!    that the cut met, some sectors of each: recovery sums what it finds anew.
//! 3. The pages are written and flushed.
//! 4. A completion with their sums is made durable, and only then the write is acknowledged.

use std::rc::Rc;

use super::Inner;
use super::write::pieces;
use crate::counters::add;
use crate::device::{Durability, Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::record::{RecordBuilder, RecordKind, Tag};
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::layout::{JournalStore, PageStore};
use crate::log::HeaderFields;
use crate::planted::{Bug, is_planted};

/// A range that nobody else writes to.
struct Hold<'a, E, A, H, L> {
    inner: &'a Inner<E, A, H, L>,
    extent: Extent,
}

impl<E, A, H, L> Drop for Hold<'_, E, A, H, L> {
    fn drop(&mut self) {
        self.inner.write_back.direct.borrow_mut().retain(|held| *held != self.extent);
        self.inner.changed.all();
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Whole pages straight home, the parts of pages at both ends through the log.
    pub(super) async fn write_selective(
        self: &Rc<Self>,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> Result<(), Error> {
        let end = offset + bytes.len() as u64;
        let first_whole = offset.next_multiple_of(PAGE_BYTES);
        let end_whole = end / PAGE_BYTES * PAGE_BYTES;
        let (head, rest) = bytes.split_at((first_whole - offset) as usize);
        let (whole, tail) = rest.split_at((end_whole - first_whole) as usize);
        self.write_buffered(offset, head).await?;
        self.write_direct(first_whole, whole).await?;
        self.write_buffered(end_whole, tail).await?;
        match durability {
            Durability::Buffered => Ok(()),
            // Both ends, and what could not go straight home.
            Durability::Durable => self.make_durable(&[Extent::new(offset, bytes.len() as u64)]).await,
        }
    }

    /// Every page that the write touches straight home, whole: the baseline of ordered journaling.
    pub(super) async fn write_direct_pages(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let piece_max = (self.home.load_pages_max() - 1) * PAGE_BYTES;
        for (offset, piece) in pieces(offset, bytes, piece_max) {
            self.write_direct_piece(offset, piece).await?;
        }
        Ok(())
    }

    async fn write_direct_piece(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let extent = Extent::new(offset, bytes.len() as u64);
        let pages = crate::buffer::pages_of(&extent);
        let whole = Extent::new(pages.start * PAGE_BYTES, (pages.end - pages.start) * PAGE_BYTES);
        let hold = self.hold(whole).await?;
        self.home.load(pages.start, pages.end).await?;
        let composed = self.compose(&extent, bytes);
        let is_home = self.write_held(whole.offset, &composed).await?;
        drop(hold);
        if is_home { Ok(()) } else { self.write_buffered(offset, bytes).await }
    }

    async fn write_direct(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let piece_max = (self.admission.limits.get().dirty_pages_max / 2).max(1) * PAGE;
        let mut offset = offset;
        for piece in bytes.chunks(piece_max) {
            let hold = self.hold(Extent::new(offset, piece.len() as u64)).await?;
            let is_home = self.write_held(offset, piece).await?;
            drop(hold);
            if !is_home {
                self.write_buffered(offset, piece).await?;
            }
            offset += piece.len() as u64;
        }
        Ok(())
    }

    async fn hold(&self, extent: Extent) -> Result<Hold<'_, E, A, H, L>, Error> {
        loop {
            self.wait_not_direct(&extent).await?;
            if !self.is_direct(&extent) {
                self.write_back.direct.borrow_mut().push(extent);
                return Ok(Hold { inner: self, extent });
            }
        }
    }

    /// Writes whole pages of a range that is held; answers false where that cannot be, because changes of a damaged
    /// page are still in the log.
    async fn write_held(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<bool, Error> {
        let extent = Extent::new(offset, bytes.len() as u64);
        let (first, end) = (offset / PAGE_BYTES, extent.end() / PAGE_BYTES);
        if !is_planted(Bug::DirectBeforeBuffered) {
            self.make_durable(&[extent]).await?;
        }
        self.mark_superseded(&extent).await?;
        let turn = self.write_back.writer.take().await;
        let guard = self.to_the_end();
        let done = self.write_home(first, end, bytes).await;
        guard.done();
        drop(turn);
        if let Err(error) = &done {
            self.latch(error.clone());
        }
        done
    }

    /// A process that is killed from now on does not replay older writes over these pages.
    async fn mark_superseded(self: &Rc<Self>, extent: &Extent) -> Result<(), Error> {
        loop {
            if self.buffer.borrow_mut().supersede(extent).is_some() {
                return Ok(());
            }
            self.wait_for_room(&[], &[]).await?;
        }
    }

    /// Writes whole pages home, in as many pieces as they lie in there; answers where.
    async fn write_runs(&self, first: u64, bytes: &[u8]) -> Result<Vec<Extent>, Error> {
        let (layout, end) = (self.home.layout(), first + (bytes.len() / PAGE) as u64);
        let (mut page, mut rest, mut runs) = (first, bytes, Vec::new());
        while page < end {
            let stop = layout.run_end(page, end);
            let run;
            (run, rest) = rest.split_at((stop - page) as usize * PAGE);
            let at = Extent::new(layout.page_offset(page), run.len() as u64);
            self.home.device.write(at.offset, run, Durability::Buffered).await?;
            runs.push(at);
            page = stop;
        }
        Ok(runs)
    }

    async fn write_home(self: &Rc<Self>, first: u64, end: u64, bytes: &[u8]) -> Result<bool, Error> {
        self.check_alive()?;
        let log_is_full = self.log.used_bytes() > self.admission.limits.get().commit_used_max;
        let table_is_full = self.home.table.dirty_pages() > self.admission.limits.get().dirty_pages_max / 2;
        if log_is_full || table_is_full || self.home.is_dirty(first, end) {
            // Boxed: it holds superblocks, for which every write would carry room.
            Box::pin(self.checkpoint_in_turn()).await?;
        }
        if self.home.is_dirty(first, end) {
            return Ok(false);
        }
        let lock = self.home.lock(first, end).await;
        let mut held = self.home.table.hold_none();
        for page in first..end {
            held.load_for(page).await?;
        }
        let sums: Vec<u64> = bytes.chunks_exact(PAGE).map(page_sum).collect();
        let mut builder = RecordBuilder::default();
        builder.clear();
        for (page, &sum) in (first..end).zip(&sums) {
            builder.tag(&Tag::Page { page, sum });
        }
        let meaning = HeaderFields { kind: RecordKind::Intent, through: 0 };
        let intent = match is_planted(Bug::NoIntent) {
            true => 0,
            false => self.append_control(meaning, &mut builder).await?,
        };

        let at_home = self.write_runs(first, bytes).await?;
        if !is_planted(Bug::NoDirectFlush) {
            self.home.device.flush(FlushScope::Ranges(&at_home)).await?;
        }
        add(&self.counters.home_bytes, bytes.len() as u64);
        add(&self.counters.home_flushes, 1);

        builder.clear();
        for (page, &sum) in (first..end).zip(&sums) {
            self.home.table.set_sum(page, sum);
            builder.tag(&Tag::Page { page, sum });
        }
        for (page, sum) in self.home.table.table_sums(first..end) {
            builder.tag(&Tag::TablePage { page, sum });
        }
        let meaning = HeaderFields { kind: RecordKind::Complete, through: intent };
        if !is_planted(Bug::NoCompletion) {
            self.append_control(meaning, &mut builder).await?;
        }
        for page in (first..end).filter(|_| !is_planted(Bug::FrameKept)) {
            self.home.forget(page);
        }
        drop(lock);
        add(&self.counters.direct_writes, 1);
        Ok(true)
    }
}
