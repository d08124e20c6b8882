//! Home: the pages in their places, their sums, and the copies of them in memory.
//!
//! A *frame* holds the committed bytes of a page: what the log and the home device together make of it, and
//! nothing that is not durable.
//!
//! 1. Every page read from the device is checked against its sum before a byte of it is used.
//! 2. A frame whose bytes are not home yet stays in memory until they are.
//! 3. A page is read from the device by one task at a time, and never while it is written.

mod frames;
mod table;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::counters::{Counters, add};
use crate::device::Device;
use crate::error::Error;
use crate::format::layout::Layout;
use crate::format::record::Tag;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::notify::Notify;

use frames::Frames;
pub(crate) use frames::{Outgoing, PageBytes};
pub(crate) use table::Table;

/// Pages read from the device at once.
const READ_PAGES_MAX: u64 = 64;

/// Fewest pages kept: half of them must hold what one operation loads.
const CACHED_PAGES_MIN: usize = 16;

/// The home device and what is known of it.
pub(crate) struct Home<H> {
    pub(crate) device: Rc<H>,
    pub(crate) layout: Layout,
    pub(crate) table: Table<H>,
    frames: RefCell<Frames>,
    cached_pages_max: usize,
    locked: RefCell<BTreeSet<u64>>,
    unlocked: Notify,
    counters: Rc<Counters>,
}

/// Pages that nobody else reads from the device or writes to it.
pub(crate) struct PageLock<'a, H: Device> {
    home: &'a Home<H>,
    pages: Vec<u64>,
}

impl<H: Device> Drop for PageLock<'_, H> {
    fn drop(&mut self) {
        let mut locked = self.home.locked.borrow_mut();
        for page in &self.pages {
            locked.remove(page);
        }
        drop(locked);
        self.home.unlocked.all();
    }
}

impl<H: Device> Home<H> {
    pub(crate) fn new(
        device: Rc<H>,
        layout: Layout,
        root: Vec<u64>,
        cached_pages_max: usize,
        counters: Rc<Counters>,
    ) -> Self {
        let cached_pages_max = cached_pages_max.max(CACHED_PAGES_MIN);
        Self {
            table: Table::new(Rc::clone(&device), layout.clone(), root),
            device,
            layout,
            frames: RefCell::new(Frames::new(cached_pages_max)),
            cached_pages_max,
            locked: RefCell::default(),
            unlocked: Notify::default(),
            counters,
        }
    }

    /// Frames with something that is not home yet.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.frames.borrow().dirty()
    }

    /// Those of them of which the log does not hold every byte.
    pub(crate) fn uncovered_pages(&self) -> usize {
        self.frames.borrow().uncovered()
    }

    /// Whether the page is dirty, and the log holds every byte of it.
    pub(crate) fn is_covered(&self, page: u64) -> bool {
        self.frames.borrow().get(page).is_some_and(|frame| frame.dirty && !frame.is_uncovered())
    }

    /// Whether any page from `first` to before `end` has something that is not home yet.
    pub(crate) fn is_dirty(&self, first: u64, end: u64) -> bool {
        let frames = self.frames.borrow();
        (first..end).any(|page| frames.get(page).is_some_and(|frame| frame.dirty || frame.writing))
    }

    /// Pages that can be loaded together and are then all there.
    pub(crate) fn load_pages_max(&self) -> u64 {
        READ_PAGES_MAX.min(self.cached_pages_max as u64 / 2)
    }

    /// Whether every byte of the page is in memory.
    pub(crate) fn is_known(&self, page: u64) -> bool {
        self.frames.borrow().get(page).is_some_and(|frame| frame.known.is_full())
    }

    /// Copies committed bytes of a page that is known.
    pub(crate) fn copy(&self, page: u64, start: usize, into: &mut [u8]) {
        self.with_page(page, |bytes| into.copy_from_slice(&bytes[start..start + into.len()]));
    }

    /// What `look` finds in the committed bytes of a page that is known.
    pub(crate) fn with_page<T>(&self, page: u64, look: impl FnOnce(&[u8; PAGE]) -> T) -> T {
        let frames = self.frames.borrow();
        let frame = frames.get(page).expect("the caller loaded the page");
        debug_assert!(frame.known.is_full());
        look(&frame.bytes)
    }

    /// Makes every page from `first` to before `end` known; of more than [`Self::load_pages_max`], the clean ones may
    /// be gone again.
    ///
    /// # Errors
    ///
    /// Those of the device; [`Error::Damaged`] for a page that is not what was written.
    pub(crate) async fn load(&self, first: u64, end: u64) -> Result<(), Error> {
        let is_unknown = |page: &u64| !self.is_known(*page);
        let mut next = first;
        while let Some(start) = (next..end).find(is_unknown) {
            let limit = end.min(start + self.load_pages_max());
            let stop = (start..limit).find(|page| !is_unknown(page)).unwrap_or(limit);
            let lock = self.lock(start, stop).await;
            self.load_locked(start, stop).await?;
            drop(lock);
            // What was there at the first look may have made room for others meanwhile.
            next = if end - first <= self.load_pages_max() { first } else { stop };
        }
        Ok(())
    }

    /// As [`Self::load`], for a caller that holds the lock of all these pages.
    pub(crate) async fn load_locked(&self, first: u64, end: u64) -> Result<(), Error> {
        for page in first..end {
            self.table.load_for(page).await?;
        }
        let mut next = first;
        while next < end {
            if self.is_known(next) {
                next += 1;
                continue;
            }
            let is_stored = |page: u64| !self.is_known(page) && self.table.sum(page) != 0;
            if !is_stored(next) {
                self.frames.borrow_mut().merge_base(next, &[0; PAGE], true);
                next += 1;
                continue;
            }
            let stop = (next..end).find(|&page| !is_stored(page)).unwrap_or(end);
            next = self.read_stored(next, stop).await?;
        }
        Ok(())
    }

    /// Reads pages that have contents; answers the page up to which they are known.
    async fn read_stored(&self, first: u64, end: u64) -> Result<u64, Error> {
        let sums: Vec<u64> = (first..end).map(|page| self.table.sum(page)).collect();
        let mut bytes = vec![0; ((end - first) * PAGE_BYTES) as usize];
        self.device.read(self.layout.page_offset(first), &mut bytes).await?;
        add(&self.counters.home_reads, end - first);
        for ((page, base), sum) in (first..end).zip(bytes.chunks_exact(PAGE)).zip(sums) {
            if self.is_known(page) {
                continue; // written whole meanwhile
            }
            if self.table.sum(page) != sum {
                return Ok(page); // written whole, taken home and forgotten meanwhile: what was read says nothing
            }
            if page_sum(base) != sum {
                return Err(Error::Damaged { page });
            }
            let base: &[u8; PAGE] = base.try_into().expect("chunks are pages");
            self.frames.borrow_mut().merge_base(page, base, false);
        }
        Ok(end)
    }

    /// Takes the changes of a commit, in the order of commits.
    pub(crate) fn apply(&self, tags: &[Tag], payload: &[u8]) {
        let mut frames = self.frames.borrow_mut();
        let mut payload = payload;
        for tag in tags {
            let (bytes, rest) = payload.split_at(tag.payload_bytes());
            payload = rest;
            match *tag {
                Tag::Delta { page, offset, .. } => frames.patch(page, usize::from(offset), bytes),
                Tag::Zero { page, offset, len } => {
                    frames.zero(page, usize::from(offset), usize::from(offset + len));
                }
                Tag::Discard { page, count } => {
                    for page in page..page + u64::from(count) {
                        frames.put(page, &[0; PAGE], true, true, None);
                    }
                }
                Tag::Units { .. } | Tag::Page { .. } | Tag::TablePage { .. } => {}
            }
        }
    }

    /// Puts the whole of a page in place, as recovery found it; `logged_sum` where the log holds its sum.
    pub(crate) fn recover(&self, page: u64, bytes: &[u8; PAGE], empty: bool, logged_sum: Option<u64>) {
        self.frames.borrow_mut().put(page, bytes, empty, false, logged_sum);
    }

    /// Waits until nobody reads or writes any of the pages on the device, and keeps it so.
    pub(crate) async fn lock(&self, first: u64, end: u64) -> PageLock<'_, H> {
        self.lock_pages((first..end).collect()).await
    }

    /// As [`Self::lock`].
    pub(crate) async fn lock_pages(&self, pages: Vec<u64>) -> PageLock<'_, H> {
        self.unlocked
            .until(|| {
                let mut locked = self.locked.borrow_mut();
                if pages.iter().any(|page| locked.contains(page)) {
                    return None;
                }
                locked.extend(&pages);
                Some(())
            })
            .await;
        PageLock { home: self, pages }
    }

    /// Pages with something that is not home, ascending.
    pub(crate) fn dirty_list(&self) -> Vec<u64> {
        self.frames.borrow().dirty_list()
    }

    /// The known parts of a dirty page, each with its place; `None` where it is not dirty.
    pub(crate) fn known_parts(&self, page: u64) -> Option<Vec<(u16, Vec<u8>)>> {
        let frames = self.frames.borrow();
        let frame = frames.get(page).filter(|frame| frame.dirty)?;
        let part = |(start, end): (usize, usize)| (start as u16, frame.bytes[start..end].to_vec());
        Some(frame.known.held().map(part).collect())
    }

    /// Takes the dirty ones of `pages`, all of them known, for a checkpoint, in order of address.
    pub(crate) fn take_outgoing(&self, pages: &[u64]) -> Vec<Outgoing> {
        self.frames.borrow_mut().take_outgoing(pages)
    }

    /// These pages are home.
    pub(crate) fn done_outgoing(&self, outgoing: impl Iterator<Item = Outgoing>) {
        let mut frames = self.frames.borrow_mut();
        for gone in outgoing {
            frames.done_outgoing(gone);
        }
    }

    /// The page was written home directly: what memory holds of it, which must be clean, is out of date.
    pub(crate) fn forget(&self, page: u64) {
        self.frames.borrow_mut().forget(page);
    }

    /// Whether the page has contents, by the table and what is not home yet.
    pub(crate) async fn is_allocated(&self, page: u64) -> Result<bool, Error> {
        let in_memory = self.frames.borrow().get(page).map(|frame| frame.empty);
        if let Some(empty) = in_memory {
            return Ok(!empty);
        }
        self.table.load_for(page).await?;
        Ok(self.table.sum(page) != 0)
    }
}
