//! From a write to units of the buffer: cut into pieces, compared with what is durable, let in when there is room.
//!
//! 1. A piece is one unit: durable in one commit, or not at all. So is what is zeroed, up to the same size.
//! 2. Bytes that are durable already, and that no unit touches, are not buffered again.
//! 3. Nothing is buffered in a range that a direct write holds.

use std::rc::Rc;

use smallvec::SmallVec;

use super::Inner;
use super::differences::differences;
use super::fair_lock::FairGuard;
use crate::counters::add;
use crate::device::Extent;
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::unit::{Content, UnitExtent, unit_bytes};
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::{JournalStore, PageStore};
use crate::planted::{Bug, is_planted};

/// Pages that one unit zeroes at most.
pub(super) const ZERO_CHUNK_PAGES: u64 = 64;

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    pub(super) async fn write_buffered(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for (number, (offset, piece)) in pieces(offset, bytes, self.atomic_max_bytes).enumerate() {
            if number > 0 {
                self.env.sleep(0).await; // whoever writes little has a turn in between
            }
            self.buffer_changes(offset, piece).await?;
        }
        Ok(())
    }

    /// Buffers what differs from the durable bytes as one unit.
    pub(super) async fn buffer_changes(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let extent = Extent::new(offset, bytes.len() as u64);
        let mut place = None;
        loop {
            self.wait_not_direct(&extent).await?;
            self.wait_in_line(&mut place, false).await;
            let changed = self.changed_extents(&extent, bytes);
            if changed.is_empty() {
                return Ok(());
            }
            let parts: SmallVec<[&[u8]; 2]> = changed
                .iter()
                .map(|part| &bytes[(part.offset - offset) as usize..][..part.len as usize])
                .collect();
            if self.try_buffer(&changed, &parts)?.is_some() {
                return Ok(());
            }
            if !self.wait_in_line(&mut place, true).await {
                self.wait_for_room(&changed, &parts).await?;
            }
        }
    }

    /// Waits for a place in front of all who wait for room, where writes are deferred: if there is none, or if somebody waits
    /// already. Answers whether it waited. Nobody writes straight home there, so that the first waits for none of the others.
    async fn wait_in_line<'a>(&'a self, place: &mut Option<FairGuard<'a>>, is_full: bool) -> bool {
        let line = &self.admission.room;
        let waits =
            place.is_none() && self.home.device.traits().defers_writes && (is_full || !line.is_free());
        if waits {
            *place = Some(line.take().await);
        }
        waits
    }

    /// The parts of a write that differ from what is durable. Bytes that a unit not yet durable touches count as
    /// different.
    pub(super) fn changed_extents(&self, extent: &Extent, bytes: &[u8]) -> SmallVec<[UnitExtent; 2]> {
        let mut changed: SmallVec<[UnitExtent; 2]> = SmallVec::new();
        let mut add_change = |offset: u64, len: u64| match changed.last_mut() {
            Some(last) if last.offset + last.len == offset => last.len += len,
            _ => changed.push(UnitExtent { offset, len, content: Content::Data }),
        };
        let buffer = self.buffer.borrow();
        let mut equal_bytes = 0;
        for page in crate::buffer::pages_of(extent) {
            let shared = extent.intersection(&Extent::new(page * PAGE_BYTES, PAGE_BYTES));
            let shared = shared.expect("the page lies in the range");
            let is_newer = buffer.touches(page, page + 1)
                && !is_planted(Bug::DiffIgnoresBuffer)
                && !is_planted(Bug::EqualIsDurable);
            let new = &bytes[(shared.offset - extent.offset) as usize..][..shared.len as usize];
            let in_page = (shared.offset % PAGE_BYTES) as usize;
            let compare = |old: &[u8; PAGE]| {
                let old = &old[in_page..in_page + new.len()];
                if !is_planted(Bug::EqualIsDurable) {
                    return differences(old, new);
                }
                let mut newest = old.to_vec();
                buffer.overlay(page, in_page, &mut newest);
                differences(&newest, new)
            };
            let known = (!is_newer).then(|| self.home.with_page_if_known(page, compare));
            let Some(different) = known.flatten() else {
                add_change(shared.offset, shared.len);
                continue;
            };
            let is_image_due = self.admission.limits.get().needs_images && !self.home.is_covered(page);
            if is_image_due && new.len() == PAGE && !different.is_empty() {
                // The whole page costs less than the change and the image that it would ask for.
                add_change(shared.offset, shared.len);
                continue;
            }
            let mut differing = 0;
            for (start, end) in different {
                add_change(shared.offset + start as u64, (end - start) as u64);
                differing += end - start;
            }
            equal_bytes += new.len() - differing;
        }
        add(&self.counters.equal_bytes, equal_bytes as u64);
        changed
    }

    /// The whole pages that a write makes, as one unit a piece: the baseline of data journaling.
    pub(super) async fn write_whole_pages(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for (offset, piece) in pieces(offset, bytes, self.atomic_max_bytes) {
            let extent = Extent::new(offset, piece.len() as u64);
            loop {
                self.wait_not_direct(&extent).await?;
                let pages = crate::buffer::pages_of(&extent);
                self.load_around(&extent).await?;
                let whole = self.compose(&extent, piece);
                let unit = UnitExtent {
                    offset: pages.start * PAGE_BYTES,
                    len: whole.len() as u64,
                    content: Content::Data,
                };
                if self.try_buffer(&[unit], &[&whole])?.is_some() {
                    break;
                }
                self.wait_for_room(&[unit], &[&whole]).await?;
            }
        }
        Ok(())
    }

    /// Makes the pages known that `extent` touches. Of more than fit in memory at once those that it holds whole, which
    /// nobody needs, stay unknown.
    async fn load_around(&self, extent: &Extent) -> Result<(), Error> {
        let pages = crate::buffer::pages_of(extent);
        if pages.end - pages.start <= self.home.load_pages_max() {
            return self.home.load(pages.start, pages.end).await;
        }
        let is_needed = |page: &u64| !holds_page(extent, *page) && !self.home.is_known(*page);
        while let Some(page) = [pages.start, pages.end - 1].into_iter().find(is_needed) {
            self.home.load(page, page + 1).await?;
        }
        Ok(())
    }

    /// The pages that `extent` touches, with `bytes` in place; known are those of which it holds a part.
    pub(super) fn compose(&self, extent: &Extent, bytes: &[u8]) -> Vec<u8> {
        let pages = crate::buffer::pages_of(extent);
        let mut whole = vec![0; ((pages.end - pages.start) * PAGE_BYTES) as usize];
        let buffer = self.buffer.borrow();
        let in_part = |(page, _): &(u64, &mut [u8])| !holds_page(extent, *page);
        for (page, target) in pages.clone().zip(whole.chunks_exact_mut(PAGE)).filter(in_part) {
            self.home.copy(page, 0, target);
            buffer.overlay(page, 0, target);
        }
        let start = (extent.offset - pages.start * PAGE_BYTES) as usize;
        whole[start..start + bytes.len()].copy_from_slice(bytes);
        whole
    }

    /// Zeroes a range: up to the largest atomic size as one unit, of which whole pages that have no contents are left out.
    pub(super) async fn zero(self: &Rc<Self>, extent: Extent) -> Result<(), Error> {
        if extent.len > self.atomic_max_bytes || is_planted(Bug::ZeroSplit) {
            return self.zero_in_parts(extent).await;
        }
        loop {
            self.wait_not_direct(&extent).await?;
            let mut sums = self.home.table.hold_none();
            for page in crate::buffer::pages_of(&extent).filter(|&page| holds_page(&extent, page)) {
                sums.load_for(page).await?;
            }
            // From here to the unit nobody else has a turn: what has no contents gets none.
            if self.is_direct(&extent) {
                continue;
            }
            let parts = self.zeroed_parts(&extent);
            if parts.is_empty() || self.try_buffer(&parts, &[])?.is_some() {
                return Ok(());
            }
            drop(sums);
            self.wait_for_room(&parts, &[]).await?;
        }
    }

    /// What zeroing a range changes, of whose pages the sums are known: whole pages that have contents, and the rest.
    fn zeroed_parts(&self, extent: &Extent) -> SmallVec<[UnitExtent; 4]> {
        let buffer = self.buffer.borrow();
        let mut parts: SmallVec<[UnitExtent; 4]> = SmallVec::new();
        for page in crate::buffer::pages_of(extent) {
            let shared = extent.intersection(&Extent::new(page * PAGE_BYTES, PAGE_BYTES));
            let Extent { offset, len } = shared.expect("the page lies in the range");
            let content = if holds_page(extent, page) { Content::Discard } else { Content::Zero };
            if content == Content::Discard && !buffer.touches(page, page + 1) && !self.home.has_contents(page)
            {
                continue;
            }
            match parts.last_mut() {
                Some(last) if last.content == content && last.offset + last.len == offset => last.len += len,
                _ => parts.push(UnitExtent { offset, len, content }),
            }
        }
        parts
    }

    /// Zeroes a range in several units: the part of a page at its begin, whole pages, and the part of a page at its end.
    async fn zero_in_parts(self: &Rc<Self>, extent: Extent) -> Result<(), Error> {
        let first_whole = extent.offset.next_multiple_of(PAGE_BYTES);
        let end_whole = extent.end() / PAGE_BYTES * PAGE_BYTES;
        if first_whole >= end_whole {
            return self.buffer_content(extent, Content::Zero).await;
        }
        self.buffer_content(Extent::new(extent.offset, first_whole - extent.offset), Content::Zero).await?;
        let mut page = first_whole / PAGE_BYTES;
        while page < end_whole / PAGE_BYTES {
            let _sizing = self.begin_sizing();
            let end = (end_whole / PAGE_BYTES).min(page + ZERO_CHUNK_PAGES.min(self.zero_pages_max()));
            // What has no contents already needs no tag: discarding a new volume costs nothing.
            let mut has_contents = self.buffer.borrow().touches(page, end);
            for each in page..end {
                has_contents = has_contents || self.home.is_allocated(each).await?;
            }
            if has_contents {
                let whole = Extent::new(page * PAGE_BYTES, (end - page) * PAGE_BYTES);
                self.buffer_content(whole, Content::Discard).await?;
            }
            page = end;
        }
        self.buffer_content(Extent::new(end_whole, extent.end() - end_whole), Content::Zero).await
    }

    pub(super) fn zero_pages_max(&self) -> u64 {
        (self.unit_max_bytes() as u64 / PAGE_BYTES).max(1)
    }

    pub(super) async fn buffer_content(
        self: &Rc<Self>,
        extent: Extent,
        content: Content,
    ) -> Result<(), Error> {
        if extent.len == 0 {
            return Ok(());
        }
        self.buffer_unit(&[UnitExtent { offset: extent.offset, len: extent.len, content }], &[])
            .await
            .map(drop)
    }

    /// Buffers a unit, waiting for room; answers its sequence number.
    pub(super) async fn buffer_unit(
        self: &Rc<Self>,
        extents: &[UnitExtent],
        bytes: &[&[u8]],
    ) -> Result<u64, Error> {
        let mut place = None;
        loop {
            for extent in extents {
                self.wait_not_direct(&Extent::new(extent.offset, extent.len)).await?;
            }
            self.wait_in_line(&mut place, false).await;
            let is_free = |extent: &UnitExtent| !self.is_direct(&Extent::new(extent.offset, extent.len));
            if !extents.iter().all(is_free) {
                continue;
            }
            if let Some(sequence) = self.try_buffer(extents, bytes)? {
                return Ok(sequence);
            }
            if !self.wait_in_line(&mut place, true).await {
                self.wait_for_room(extents, bytes).await?;
            }
        }
    }

    pub(super) fn try_buffer(
        self: &Rc<Self>,
        extents: &[UnitExtent],
        bytes: &[&[u8]],
    ) -> Result<Option<u64>, Error> {
        self.check_alive()?;
        let payload_bytes: usize = bytes.iter().map(|part| part.len()).sum();
        let mut buffer = self.buffer.borrow_mut();
        if is_planted(Bug::WriteSplit) && extents.len() > 1 && bytes.len() == extents.len() {
            for (extent, part) in extents.iter().zip(bytes).skip(1) {
                buffer.write(&[*extent], &[*part], part.len());
            }
            return Ok(buffer.write(&extents[..1], &bytes[..1], bytes[0].len()));
        }
        let sequence = buffer.write(extents, bytes, payload_bytes);
        let (used, capacity) = buffer.fill();
        if used > capacity / 2 {
            // Smooth back-pressure: the oldest leave before the room is needed.
            buffer.want_oldest(capacity * 3 / 8);
        }
        drop(buffer);
        if used > capacity / 2 {
            Self::pump(self);
        }
        Ok(sequence)
    }

    pub(super) async fn wait_for_room(
        self: &Rc<Self>,
        extents: &[UnitExtent],
        bytes: &[&[u8]],
    ) -> Result<(), Error> {
        add(&self.counters.buffer_waits, 1);
        let payload_bytes: usize = bytes.iter().map(|part| part.len()).sum();
        let needed = unit_bytes(extents.len(), payload_bytes);
        let released = {
            let mut buffer = self.buffer.borrow_mut();
            let (used, capacity) = buffer.fill();
            buffer.want_oldest((capacity * 3 / 8).min(used.saturating_sub(needed)));
            buffer.released()
        };
        Self::pump(self);
        self.changed
            .until(|| match self.log.failure() {
                Some(_) => Some(self.check_alive()),
                None => (self.buffer.borrow().released() != released).then_some(Ok(())),
            })
            .await
    }

    pub(super) fn is_direct(&self, extent: &Extent) -> bool {
        self.write_back.direct.holds_some_of(extent)
    }

    /// Waits until no direct write holds the range.
    pub(super) async fn wait_not_direct(&self, extent: &Extent) -> Result<(), Error> {
        self.changed
            .until(|| match self.log.failure() {
                Some(_) => Some(self.check_alive()),
                None => (!self.is_direct(extent)).then_some(Ok(())),
            })
            .await
    }
}

fn holds_page(extent: &Extent, page: u64) -> bool {
    extent.holds(&Extent::new(page * PAGE_BYTES, PAGE_BYTES))
}

/// A write as pieces of up to `piece_max` bytes, cut at page boundaries; in one piece if it is no larger.
pub(super) fn pieces(offset: u64, bytes: &[u8], piece_max: u64) -> impl Iterator<Item = (u64, &[u8])> {
    let mut rest = Some((offset, bytes)).filter(|(_, bytes)| !bytes.is_empty());
    std::iter::from_fn(move || {
        let (offset, bytes) = rest?;
        let end = offset + bytes.len() as u64;
        let cut = match bytes.len() as u64 {
            len if len <= piece_max => end,
            _ => (offset + piece_max) / PAGE_BYTES * PAGE_BYTES,
        };
        let (piece, after) = bytes.split_at((cut - offset) as usize);
        rest = (!after.is_empty()).then_some((cut, after));
        Some((offset, piece))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_make_up_the_write_and_are_cut_at_pages(offset in 0..10_000u64, len in 0..100_000usize) {
            let bytes = vec![7; len];
            let mut next = offset;
            for (at, piece) in pieces(offset, &bytes, 16384) {
                prop_assert_eq!(at, next);
                prop_assert!(!piece.is_empty() && piece.len() <= 16384);
                next += piece.len() as u64;
                prop_assert!(next == offset + len as u64 || next % PAGE_BYTES == 0);
            }
            prop_assert_eq!(next, offset + len as u64);
        }
    }
}
