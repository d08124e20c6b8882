//! The volume: what users read and write.
//!
//! ```text
//! write ──► buffer ──(wanted)──► commit ──► log ──(durable)──► frames ──► checkpoint ──► home
//!       └──────────────── large, selective: direct ───────────────────────────────────────┘
//! ```
//!
//! 1. A write is acknowledged when it is in the arena; a durable one, when its commit and all before it are in
//!    the log.
//! 2. A read sees the frames, which hold only what is durable, with the buffer laid over them.
//! 3. After a failed write or flush below, nothing is acknowledged as durable in this opening any more, and
//!    nothing is retried.

mod check;
mod checkpoint;
mod commit;
mod create;
mod direct;
mod open;
mod pace;
mod recover;
mod superblocks;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use smallvec::SmallVec;

use crate::buffer::Buffer;
use crate::buffer::queue::{Lane, Tickets};
use crate::counters::{Counters, Snapshot, add};
use crate::device::Device;
use crate::device::{Durability, Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::unit::{Content, UnitExtent, unit_bytes};
use crate::format::{PAGE, PAGE_BYTES};
use crate::home::Home;
use crate::log::Log;
use crate::notify::{Line, Notify};
use crate::options::{Journaling, OpenOptions};
use crate::planted::{Bug, is_planted};

pub use check::{CheckReport, check};
pub use create::create;
pub use superblocks::SuperblockCopy;
use superblocks::Superblocks;

/// Pages that one unit zeroes at most.
const ZERO_CHUNK_PAGES: u64 = 64;

/// Equal bytes shorter than this between two changes are written with them: a tag costs 16.
const EQUAL_RUN_MIN: usize = 32;

/// An open volume. A clone is another handle to it.
pub struct Volume<E, A, H, L>(Rc<Inner<E, A, H, L>>);

impl<E, A, H, L> Clone for Volume<E, A, H, L> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

/// How full the parts of a volume are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Occupancy {
    /// Bytes of the arena that writes take which are not durable.
    pub buffer_used_bytes: u64,
    /// Bytes of the arena.
    pub buffer_bytes: u64,
    /// Bytes of the log from tail to head.
    pub log_used_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Bytes of pages that are durable in the log, and not home.
    pub dirty_bytes: u64,
    /// As many of them as may be.
    pub dirty_max_bytes: u64,
    /// Bytes of the table of sums that are in memory.
    pub table_bytes: u64,
    /// Bytes of all pages in memory.
    pub pages_bytes: u64,
    /// The most there were.
    pub pages_peak_bytes: u64,
    /// As many of them as may be: those cached, or where that is more, those that a checkpoint writes with as many
    /// dirty ones.
    pub pages_max_bytes: u64,
}

struct Inner<E, A, H, L> {
    env: E,
    options: OpenOptions,
    limits: Limits,
    atomic_max_bytes: u64,
    size_bytes: u64,
    buffer: RefCell<Buffer<A>>,
    log: Log<L>,
    home: Home<H>,
    superblocks: Superblocks<H, L>,
    commits: RefCell<commit::Commits>,
    pace: pace::Pace,
    /// Held by whoever writes home: one checkpoint or direct write at a time.
    home_writer: Turn,
    checkpoint_running: Cell<bool>,
    /// Ranges that direct writes hold: nobody else writes there meanwhile.
    direct: RefCell<Vec<Extent>>,
    counters: Rc<Counters>,
    /// Something was released, failed, or a range is free again.
    changed: Notify,
    /// A ticket of this lane is durable, or never will be.
    durable: [Line; 2],
    /// A task is about to start what commits it can.
    pump_comes: Cell<bool>,
}

/// What the size of the log allows.
#[derive(Debug, Clone, Copy)]
struct Limits {
    /// Bytes of the log that commits may fill; the rest is kept for checkpoints and direct writes.
    commit_used_max: u64,
    /// Frames that may wait for a checkpoint.
    dirty_pages_max: usize,
    /// Of them, those that it may have to log an image of.
    image_pages_max: usize,
    /// Largest record that a checkpoint may log of pages that cannot go home.
    carried_max: u64,
    /// Whether checkpoints log whole pages before they write them.
    needs_images: bool,
}

/// A turn that one task has at a time.
#[derive(Default)]
struct Turn {
    taken: Cell<bool>,
    free: Notify,
}

struct TurnGuard<'a>(&'a Turn);

impl Turn {
    async fn take(&self) -> TurnGuard<'_> {
        self.free.until(|| (!self.taken.replace(true)).then_some(())).await;
        TurnGuard(self)
    }
}

impl Drop for TurnGuard<'_> {
    fn drop(&mut self) {
        self.0.taken.set(false);
        self.0.free.all();
    }
}

/// See [`Inner::to_the_end`].
struct ToTheEnd<'a, E: Env, A: Arena, H: Device, L: Device> {
    inner: &'a Rc<Inner<E, A, H, L>>,
    done: bool,
}

impl<E: Env, A: Arena, H: Device, L: Device> ToTheEnd<'_, E, A, H, L> {
    fn done(mut self) {
        self.done = true;
    }
}

impl<E: Env, A: Arena, H: Device, L: Device> Drop for ToTheEnd<'_, E, A, H, L> {
    fn drop(&mut self) {
        if !self.done {
            self.inner.latch(Error::Unusable("an operation was given up halfway; open it again".to_owned()));
        }
    }
}

impl<E: Env, A: Arena, H: Device, L: Device> Volume<E, A, H, L> {
    /// Bytes that it offers.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    /// The number that it was made with.
    pub fn id(&self) -> u64 {
        self.0.superblocks.current().volume
    }

    /// How full it is.
    pub fn occupancy(&self) -> Occupancy {
        let inner = &self.0;
        let (buffer_used, buffer_bytes) = inner.buffer.borrow().fill();
        let (pages, pages_peak) = inner.home.pages_in_memory();
        Occupancy {
            buffer_used_bytes: buffer_used as u64,
            buffer_bytes: buffer_bytes as u64,
            log_used_bytes: inner.log.used_bytes(),
            log_bytes: inner.home.layout.log.len,
            dirty_bytes: inner.home.dirty_pages() as u64 * PAGE_BYTES,
            dirty_max_bytes: inner.limits.dirty_pages_max as u64 * PAGE_BYTES,
            table_bytes: inner.home.table.loaded_pages() as u64 * PAGE_BYTES,
            pages_bytes: pages as u64 * PAGE_BYTES,
            pages_peak_bytes: pages_peak as u64 * PAGE_BYTES,
            pages_max_bytes: inner.home.pages_max(inner.limits.dirty_pages_max) as u64 * PAGE_BYTES,
        }
    }

    /// How it runs.
    pub fn options(&self) -> OpenOptions {
        self.0.options
    }

    /// Largest write that is one commit.
    pub fn atomic_max_bytes(&self) -> u64 {
        self.0.atomic_max_bytes
    }

    /// Pages that one [`Self::commit`] may touch.
    pub fn commit_pages_max(&self) -> usize {
        self.0.limits.commit_pages_max()
    }

    /// Largest [`Self::commit`], with 64 bytes for each of its ranges.
    pub fn commit_max_bytes(&self) -> u64 {
        self.0.unit_max_bytes() as u64
    }

    /// What was done so far.
    pub fn counters(&self) -> Snapshot {
        self.0.counters.snapshot()
    }

    /// Makes it read-only, as a failure below does: whoever provides its devices may know of one before they do. An
    /// earlier failure stays the one that is told.
    pub fn fail(&self, reason: &str) {
        self.0.latch(Error::Latched(reason.into()));
    }

    /// Why it is read-only, if so.
    pub fn failure(&self) -> Option<Error> {
        self.0.log.failure()
    }

    /// Fills `into` from `offset` with the latest acknowledged bytes.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`]; [`Error::Damaged`] where a page is not what was written; those of the device.
    pub async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let inner = &self.0;
        let extent = inner.check_range(offset, into.len() as u64)?;
        if into.is_empty() {
            return Ok(());
        }
        add(&inner.counters.read_bytes, extent.len);
        let mut at = offset;
        while at < extent.end() {
            let chunk_end = (at / PAGE_BYTES + inner.home.load_pages_max()) * PAGE_BYTES;
            let len = chunk_end.min(extent.end()) - at;
            let chunk = &mut into[(at - offset) as usize..][..len as usize];
            // What is there at once is not waited for, and from there to the overlay nothing else runs.
            while !inner.home.try_read(at, chunk) && !inner.home.read(at, chunk).await? {}
            inner.overlay(at, chunk);
            at += len;
        }
        Ok(())
    }

    /// As [`Self::read`], if nothing has to be waited for; false if something has, or it fails.
    pub fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        let inner = &self.0;
        let Ok(extent) = inner.check_range(offset, into.len() as u64) else { return false };
        let is_done = inner.home.try_read(offset, into);
        if is_done {
            add(&inner.counters.read_bytes, extent.len);
            inner.overlay(offset, into);
        }
        is_done
    }

    /// Writes `bytes` at `offset`. One commit up to [`Self::atomic_max_bytes`]; a larger write may tear at
    /// page boundaries.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`]; [`Error::Latched`] or the failure itself after one below.
    pub async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), Error> {
        let inner = &self.0;
        let extent = inner.check_range(offset, bytes.len() as u64)?;
        inner.check_alive()?;
        add(&inner.counters.writes, 1);
        add(&inner.counters.user_bytes, extent.len);
        if is_planted(Bug::EqualIsDurable) && inner.changed_extents(&extent, bytes).is_empty() {
            return Ok(());
        }
        match inner.options.journaling {
            Journaling::Selective { threshold_bytes }
                if extent.len >= threshold_bytes.max(inner.atomic_max_bytes + 1)
                    && inner.may_write_direct() =>
            {
                return inner.write_selective(offset, bytes, durability).await;
            }
            Journaling::Ordered if inner.may_write_direct() => {
                return inner.write_direct_pages(offset, bytes).await;
            }
            Journaling::WholePages => inner.write_whole_pages(offset, bytes).await?,
            _ => inner.write_buffered(offset, bytes).await?,
        }
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => inner.make_durable(&[extent]).await,
        }
    }

    /// Writes all of `ranges`, at once and durably: after a cut all of it is there or none.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; [`Error::TooLarge`] beyond [`Self::commit_max_bytes`] or [`Self::commit_pages_max`].
    pub async fn commit(&self, ranges: &[(u64, &[u8])]) -> Result<(), Error> {
        let inner = &self.0;
        inner.check_alive()?;
        let (mut extents, mut bytes) = (Vec::new(), Vec::new());
        for &(offset, part) in ranges.iter().filter(|(_, part)| !part.is_empty()) {
            let extent = inner.check_range(offset, part.len() as u64)?;
            extents.push(UnitExtent { offset: extent.offset, len: extent.len, content: Content::Data });
            bytes.push(part);
        }
        if extents.is_empty() {
            return Ok(());
        }
        let payload_bytes: usize = bytes.iter().map(|part| part.len()).sum();
        let pages: usize = extents
            .iter()
            .map(|part| crate::buffer::pages_of(&Extent::new(part.offset, part.len)).count())
            .sum();
        let is_too_large = payload_bytes + extents.len() * 64 > inner.unit_max_bytes();
        if is_too_large || pages > inner.limits.commit_pages_max() {
            return Err(Error::TooLarge { max_bytes: inner.unit_max_bytes() as u64 });
        }
        add(&inner.counters.writes, 1);
        add(&inner.counters.user_bytes, payload_bytes as u64);
        let sequence = inner.buffer_unit(&extents, &bytes).await?;
        let lane = Lane::for_bytes(payload_bytes as u64);
        let ticket = inner.buffer.borrow_mut().want_unit(sequence, lane);
        let wanted = ticket.map_or_else(Tickets::default, |ticket| Tickets::default().and(ticket));
        Inner::pump_soon(inner);
        inner.wait_durable(wanted).await
    }

    /// Makes every acknowledged write within `scope` durable, with the rest of any write that would otherwise
    /// be split, and nothing else.
    ///
    /// # Errors
    ///
    /// The failure, after one below.
    pub async fn flush(&self, scope: FlushScope<'_>) -> Result<(), Error> {
        let inner = &self.0;
        inner.check_alive()?;
        add(&inner.counters.flushes, 1);
        match scope {
            FlushScope::Whole => inner.make_durable(&[Extent::new(0, inner.size_bytes)]).await,
            FlushScope::Ranges(ranges) => {
                for range in ranges {
                    inner.check_range(range.offset, range.len)?;
                }
                inner.make_durable(ranges).await
            }
        }
    }

    /// Zeroes `extent`; whole pages in it take no room any more.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub async fn write_zeroes(&self, extent: Extent, durability: Durability) -> Result<(), Error> {
        let inner = &self.0;
        let extent = inner.check_range(extent.offset, extent.len)?;
        inner.check_alive()?;
        inner.zero(extent).await?;
        match durability {
            Durability::Buffered => Ok(()),
            Durability::Durable => inner.make_durable(&[extent]).await,
        }
    }

    /// Whether the page at `page` times 4,096 has contents.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub async fn is_allocated(&self, page: u64) -> Result<bool, Error> {
        let inner = &self.0;
        inner.check_range(page.saturating_mul(PAGE_BYTES), PAGE_BYTES)?;
        if inner.buffer.borrow().touches(page, page + 1) {
            return Ok(true);
        }
        inner.home.is_allocated(page).await
    }

    /// Takes everything that is committed home.
    ///
    /// # Errors
    ///
    /// The failure, after one below.
    pub async fn checkpoint(&self) -> Result<(), Error> {
        self.0.check_alive()?;
        // In a task of its own: whoever gives up waiting does not leave it half done.
        let done = Rc::new((RefCell::new(None), Notify::default()));
        let (inner, told) = (Rc::clone(&self.0), Rc::clone(&done));
        self.0.env.spawn(async move {
            let result = Inner::checkpoint(&inner).await;
            told.0.replace(Some(result));
            told.1.all();
        });
        done.1.until(|| done.0.borrow_mut().take()).await
    }

    /// Makes everything durable and takes it home: nothing is left for a recovery to do.
    ///
    /// # Errors
    ///
    /// The failure, after one below.
    pub async fn close(self) -> Result<(), Error> {
        self.flush(FlushScope::Whole).await?;
        self.checkpoint().await
    }
}

impl<E: Env, A: Arena, H: Device, L: Device> Inner<E, A, H, L> {
    fn check_range(&self, offset: u64, len: u64) -> Result<Extent, Error> {
        let extent = Extent { offset, len };
        if extent.fits(self.size_bytes) { Ok(extent) } else { Err(Error::OutOfRange) }
    }

    /// Lays what is acknowledged and not durable over committed bytes.
    fn overlay(&self, offset: u64, into: &mut [u8]) {
        let extent = Extent::new(offset, into.len() as u64);
        let buffer = self.buffer.borrow();
        for page in crate::buffer::pages_of(&extent) {
            let shared = extent.intersection(&Extent::new(page * PAGE_BYTES, PAGE_BYTES));
            let shared = shared.expect("the page lies in the range");
            let target = &mut into[(shared.offset - offset) as usize..][..shared.len as usize];
            buffer.overlay(page, (shared.offset % PAGE_BYTES) as usize, target);
        }
    }

    fn check_alive(&self) -> Result<(), Error> {
        match self.log.failure() {
            None => Ok(()),
            Some(Error::Latched(reason)) => Err(Error::Latched(reason)),
            Some(error) => Err(Error::Latched(error.to_string().into())),
        }
    }

    /// Nothing is acknowledged as durable any more.
    fn latch(&self, error: Error) {
        self.log.fail(error);
        self.tell_failure();
    }

    /// Latches unless what it guards is carried to its end: an operation that was dropped halfway leaves what is in
    /// memory and what is on the devices at odds.
    fn to_the_end(self: &Rc<Self>) -> ToTheEnd<'_, E, A, H, L> {
        ToTheEnd { inner: self, done: false }
    }

    fn tell_failure(&self) {
        self.changed.all();
        self.durable.iter().for_each(|lane| lane.through(u64::MAX));
    }

    /// Largest payload of one commit, with 64 bytes for each of its extents.
    fn unit_max_bytes(&self) -> usize {
        let by_arena = self.buffer.borrow().unit_bytes_max().saturating_sub(PAGE);
        by_arena.min(self.limits.unit_max_bytes())
    }

    /// Whether pages may be overwritten in place without an image of them in the log: a drive that may leave a
    /// sector neither old nor new would turn a cut into damage.
    fn may_write_direct(&self) -> bool {
        !self.limits.needs_images
    }

    async fn write_buffered(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        for (number, (offset, piece)) in pieces(offset, bytes, self.atomic_max_bytes).enumerate() {
            if number > 0 {
                self.env.sleep(0).await; // whoever writes little has a turn in between
            }
            self.buffer_changes(offset, piece).await?;
        }
        Ok(())
    }

    /// Buffers what differs from the durable bytes as one unit.
    async fn buffer_changes(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        let extent = Extent::new(offset, bytes.len() as u64);
        loop {
            self.wait_not_direct(&extent).await?;
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
            self.wait_for_room(&changed, &parts).await?;
        }
    }

    /// The parts of a write that differ from what is durable. Bytes that a unit not yet durable touches count as
    /// different.
    fn changed_extents(&self, extent: &Extent, bytes: &[u8]) -> SmallVec<[UnitExtent; 2]> {
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
            if !self.home.is_known(page) || is_newer {
                add_change(shared.offset, shared.len);
                continue;
            }
            let new = &bytes[(shared.offset - extent.offset) as usize..][..shared.len as usize];
            let in_page = (shared.offset % PAGE_BYTES) as usize;
            let different = if is_planted(Bug::EqualIsDurable) {
                let old = &mut [0; PAGE][..new.len()];
                self.home.copy(page, in_page, old);
                buffer.overlay(page, in_page, old);
                differences(old, new)
            } else {
                self.home.with_page(page, |old| differences(&old[in_page..in_page + new.len()], new))
            };
            let is_image_due = self.limits.needs_images && !self.home.is_covered(page);
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
    async fn write_whole_pages(self: &Rc<Self>, offset: u64, bytes: &[u8]) -> Result<(), Error> {
        // All pages of a piece are in memory at once.
        let piece_max = self.atomic_max_bytes.min((self.home.load_pages_max() - 1) * PAGE_BYTES);
        for (offset, piece) in pieces(offset, bytes, piece_max) {
            let extent = Extent::new(offset, piece.len() as u64);
            loop {
                self.wait_not_direct(&extent).await?;
                let pages = crate::buffer::pages_of(&extent);
                self.home.load(pages.start, pages.end).await?;
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

    /// The pages that `extent` touches, all of them known, with `bytes` in place.
    fn compose(&self, extent: &Extent, bytes: &[u8]) -> Vec<u8> {
        let pages = crate::buffer::pages_of(extent);
        let mut whole = vec![0; ((pages.end - pages.start) * PAGE_BYTES) as usize];
        let buffer = self.buffer.borrow();
        for (page, target) in pages.clone().zip(whole.chunks_exact_mut(PAGE)) {
            self.home.copy(page, 0, target);
            buffer.overlay(page, 0, target);
        }
        let start = (extent.offset - pages.start * PAGE_BYTES) as usize;
        whole[start..start + bytes.len()].copy_from_slice(bytes);
        whole
    }

    async fn zero(self: &Rc<Self>, extent: Extent) -> Result<(), Error> {
        let first_whole = extent.offset.next_multiple_of(PAGE_BYTES);
        let end_whole = extent.end() / PAGE_BYTES * PAGE_BYTES;
        if first_whole >= end_whole {
            return self.buffer_content(extent, Content::Zero).await;
        }
        self.buffer_content(Extent::new(extent.offset, first_whole - extent.offset), Content::Zero).await?;
        let mut page = first_whole / PAGE_BYTES;
        while page < end_whole / PAGE_BYTES {
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

    fn zero_pages_max(&self) -> u64 {
        (self.unit_max_bytes() as u64 / PAGE_BYTES).max(1)
    }

    async fn buffer_content(self: &Rc<Self>, extent: Extent, content: Content) -> Result<(), Error> {
        if extent.len == 0 {
            return Ok(());
        }
        self.buffer_unit(&[UnitExtent { offset: extent.offset, len: extent.len, content }], &[])
            .await
            .map(drop)
    }

    /// Buffers a unit, waiting for room; answers its sequence number.
    async fn buffer_unit(self: &Rc<Self>, extents: &[UnitExtent], bytes: &[&[u8]]) -> Result<u64, Error> {
        loop {
            for extent in extents {
                self.wait_not_direct(&Extent::new(extent.offset, extent.len)).await?;
            }
            let is_free = |extent: &UnitExtent| !self.is_direct(&Extent::new(extent.offset, extent.len));
            if !extents.iter().all(is_free) {
                continue;
            }
            if let Some(sequence) = self.try_buffer(extents, bytes)? {
                return Ok(sequence);
            }
            self.wait_for_room(extents, bytes).await?;
        }
    }

    fn try_buffer(self: &Rc<Self>, extents: &[UnitExtent], bytes: &[&[u8]]) -> Result<Option<u64>, Error> {
        self.check_alive()?;
        let payload_bytes: usize = bytes.iter().map(|part| part.len()).sum();
        let mut buffer = self.buffer.borrow_mut();
        if is_planted(Bug::WriteSplit) && extents.len() > 1 {
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

    async fn wait_for_room(self: &Rc<Self>, extents: &[UnitExtent], bytes: &[&[u8]]) -> Result<(), Error> {
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

    fn is_direct(&self, extent: &Extent) -> bool {
        self.direct.borrow().iter().any(|held| held.overlaps(extent))
    }

    /// Waits until no direct write holds the range.
    async fn wait_not_direct(&self, extent: &Extent) -> Result<(), Error> {
        self.changed
            .until(|| match self.log.failure() {
                Some(_) => Some(self.check_alive()),
                None => (!self.is_direct(extent)).then_some(Ok(())),
            })
            .await
    }

    /// Queues what the ranges touch and waits until it is durable.
    async fn make_durable(self: &Rc<Self>, ranges: &[Extent]) -> Result<(), Error> {
        let wanted = self.buffer.borrow_mut().want(ranges);
        self.pump_soon();
        self.wait_durable(wanted).await
    }

    async fn wait_durable(&self, wanted: Tickets) -> Result<(), Error> {
        for lane in Lane::ALL {
            self.durable[lane as usize]
                .until(wanted.of(lane), || {
                    if wanted.of(lane) <= self.buffer.borrow().durable().of(lane) {
                        return Some(self.check_alive());
                    }
                    self.log.failure().map(|_| self.check_alive())
                })
                .await?;
        }
        Ok(())
    }
}

/// A write as pieces of up to `piece_max` bytes, cut at page boundaries; in one piece if it is no larger.
fn pieces(offset: u64, bytes: &[u8], piece_max: u64) -> impl Iterator<Item = (u64, &[u8])> {
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

/// Where `new` differs from `old`, which is as long, with short equal runs between two changes taken in.
fn differences(old: &[u8], new: &[u8]) -> SmallVec<[(usize, usize); 4]> {
    const STEP: usize = 16;
    let mut found: SmallVec<[(usize, usize); 4]> = SmallVec::new();
    // Steps that differ, one behind another: where the first change in them begins, and the last of them.
    let mut run: Option<(usize, usize)> = None;
    let mut close = |run: Option<(usize, usize)>| {
        let Some((start, last)) = run else { return };
        let stop = old.len().min(last + STEP);
        let changes = old[last..stop].iter().zip(&new[last..stop]).rposition(|(a, b)| a != b);
        let end = last + changes.map_or(0, |change| change + 1);
        match found.last_mut() {
            Some((_, previous)) if start - *previous < EQUAL_RUN_MIN => *previous = end,
            _ => found.push((start, end)),
        }
    };
    // Compared as one number each, sixteen bytes at a time: a call of memcmp for each would cost more.
    let word = |bytes: &[u8]| bytes.try_into().ok().map(u128::from_ne_bytes);
    for (number, (old, new)) in old.chunks(STEP).zip(new.chunks(STEP)).enumerate() {
        let at = number * STEP;
        let is_equal = match (word(old), word(new)) {
            (Some(old), Some(new)) => old == new,
            _ => old == new,
        };
        run = match run {
            _ if is_equal => {
                close(run);
                None
            }
            Some((start, _)) => Some((start, at)),
            None => Some((at + old.iter().zip(new).position(|(a, b)| a != b).unwrap_or(0), at)),
        };
    }
    close(run);
    found
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn differences_cover_every_changed_byte_and_no_long_equal_run(
            changes in proptest::collection::vec((0..500usize, 1..40usize), 0..8),
        ) {
            let old = vec![0u8; 500];
            let mut new = old.clone();
            for (start, len) in changes {
                let end = (start + len).min(new.len());
                new[start..end].fill(1);
            }
            let mut patched = old.clone();
            let found = differences(&old, &new);
            for &(start, end) in &found {
                prop_assert!(new[start] == 1 && new[end - 1] == 1);
                patched[start..end].copy_from_slice(&new[start..end]);
            }
            prop_assert_eq!(&patched, &new);
            prop_assert!(found.windows(2).all(|pair| pair[1].0 - pair[0].1 >= EQUAL_RUN_MIN));
        }

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
