//! Home: the pages in their places, their sums, and the copies of them in memory.
//!
//! A *frame* holds the committed bytes of a page: what the log and the home device together make of it, and
//! nothing that is not durable.
//!
//! 1. Every page read from the device is checked against its sum before a byte of it is used. What the system keeps
//!    of the device in memory is never the reason to call a page damaged: the medium is.
//! 2. A frame whose bytes are not home yet stays in memory until they are.
//! 3. A page is never read from the device while it is written, and into a frame by one task at a time.

mod clean;
mod frames;
mod locks;
mod read;
mod root;
mod table;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::counters::Counters;
use crate::device::Extent;
use crate::error::Error;
use crate::format::layout::{Layout, SUMS_PER_TABLE_PAGE};
use crate::format::record::Tag;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::layout::{Expected, PageStore};
use crate::options::{CACHED_PAGES_MIN, OpenOptions, clean_min, table_pages_max};

use frames::{Frame, Frames, Put};
pub(crate) use frames::{Outgoing, PageBytes};
pub(crate) use locks::PageLock;
use locks::PageLocks;
pub(crate) use root::Root;
pub(crate) use table::{Held, Table, TableBytes};

/// The layout as it is now: one that a volume has outgrown is not changed, but left to whoever still holds it.
pub(crate) type LayoutNow = Rc<RefCell<Rc<Layout>>>;

/// The home device and what is known of it.
pub(crate) struct Home<H> {
    pub(crate) device: Rc<H>,
    layout: LayoutNow,
    pub(crate) table: Table<H>,
    frames: RefCell<Frames>,
    cached_pages_max: Cell<usize>,
    /// Longest read that stays in the frames.
    kept_pages_max: u64,
    /// Whether the system keeps what longer ones bring.
    system_keeps_long_reads: bool,
    locks: PageLocks,
    counters: Rc<Counters>,
}

/// A page of zeros in memory that nobody counts.
#[cfg(test)]
pub(crate) fn test_page() -> PageBytes {
    frames::Page::new(&[0; PAGE], &Rc::default())
}

impl<H: PageStore> Home<H> {
    pub(crate) fn new(
        device: Rc<H>,
        layout: Layout,
        root: Root,
        options: &OpenOptions,
        counters: Rc<Counters>,
    ) -> Self {
        let cached_pages_max = options.cached_pages_max.max(CACHED_PAGES_MIN);
        let table_pages_max = options.tuning.table_pages_max.unwrap_or(table_pages_max(cached_pages_max));
        let layout = Rc::new(RefCell::new(Rc::new(layout)));
        Self {
            table: Table::new(
                Rc::clone(&device),
                Rc::clone(&layout),
                root,
                table_pages_max,
                Rc::clone(&counters),
            ),
            device,
            layout,
            frames: RefCell::new(Frames::new(cached_pages_max, clean_min(cached_pages_max))),
            cached_pages_max: Cell::new(cached_pages_max),
            kept_pages_max: options.tuning.kept_pages_max,
            system_keeps_long_reads: options.tuning.system_keeps_long_reads,
            locks: PageLocks::default(),
            counters,
        }
    }

    /// Where its zones lie.
    pub(crate) fn layout(&self) -> Rc<Layout> {
        Rc::clone(&self.layout.borrow())
    }

    /// It has grown to `layout`, in which everything that is there stays where it is.
    pub(crate) fn grow(&self, layout: Rc<Layout>) {
        let before = self.layout.replace(Rc::clone(&layout));
        if before.roots != layout.roots {
            self.table.move_root((layout.roots[0].len / PAGE_BYTES) as usize);
        }
    }

    /// Pages in memory, now and at most so far.
    pub(crate) fn pages_in_memory(&self) -> (usize, usize) {
        self.frames.borrow().in_memory()
    }

    /// Pages that there may be in memory where so many may be dirty: as many again may be on their way home, and
    /// some clean ones stay in any case.
    pub(crate) fn pages_max(&self, dirty_pages_max: usize) -> usize {
        let cached_pages_max = self.cached_pages_max.get();
        cached_pages_max.max(2 * dirty_pages_max + clean_min(cached_pages_max))
    }

    /// Pages that are kept in memory while there are clean ones to make room.
    pub(crate) fn cached_pages_max(&self) -> usize {
        self.cached_pages_max.get()
    }

    /// From now on so many are.
    pub(crate) fn set_cached_pages_max(&self, pages_max: usize) {
        self.cached_pages_max.set(pages_max);
        self.frames.borrow_mut().set_max(pages_max);
    }

    /// Lets clean pages go that are more than that, no more than `going_max`; whether there are others to go.
    pub(crate) fn shrink(&self, going_max: usize) -> bool {
        self.frames.borrow_mut().shrink(going_max)
    }

    /// Frames with something that is not home yet.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.frames.borrow().dirty()
    }

    /// Pages on their way home.
    pub(crate) fn writing_pages(&self) -> usize {
        self.frames.borrow().writing()
    }

    /// Dirty frames of which the log does not hold every byte.
    pub(crate) fn uncovered_pages(&self) -> usize {
        self.frames.borrow().uncovered()
    }

    /// How many pages, and how many of the table, a checkpoint has to log an image of where it logs images.
    pub(crate) fn images_due(&self) -> (usize, usize) {
        let unlogged = self.frames.borrow_mut().unlogged();
        let changed = unlogged.iter().map(|&(page, _)| page / SUMS_PER_TABLE_PAGE);
        let tables: BTreeSet<u64> = changed.chain(self.table.unlogged()).collect();
        (unlogged.iter().filter(|(_, is_held)| !is_held).count(), tables.len())
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
        self.with_page_if_known(page, look).expect("the caller loaded the page")
    }

    /// The same; `None` where not every byte of it is in memory.
    pub(crate) fn with_page_if_known<T>(&self, page: u64, look: impl FnOnce(&[u8; PAGE]) -> T) -> Option<T> {
        let frames = self.frames.borrow();
        let frame = frames.get(page).filter(|frame| frame.known.is_full())?;
        frames.note_use(page, frame);
        Some(look(&frame.bytes))
    }

    /// Takes the changes of a commit, in the order of commits; `record` is the number of its record, or 0 where nobody
    /// has to know.
    pub(crate) fn apply(&self, tags: &[Tag], payload: &[u8], record: u64) {
        let mut frames = self.frames.borrow_mut();
        let mut payload = payload;
        for tag in tags {
            let (bytes, rest) = payload.split_at(tag.payload_bytes());
            payload = rest;
            match *tag {
                Tag::Delta { page, offset, .. } => frames.patch(page, usize::from(offset), bytes, record),
                Tag::Zero { page, offset, len } => {
                    frames.zero(page, usize::from(offset), usize::from(offset + len), record);
                }
                Tag::Discard { page, count } => {
                    let how = Put { record, empty: true, covered: true, logged_sum: None };
                    for page in page..page + u64::from(count) {
                        frames.put(page, &[0; PAGE], how);
                    }
                }
                Tag::Units { .. } | Tag::Page { .. } | Tag::TablePage { .. } => {}
            }
        }
    }

    /// Puts the whole of a page in place, as recovery found it; `logged_sum` where the log holds its sum.
    pub(crate) fn recover(&self, page: u64, bytes: &[u8; PAGE], empty: bool, logged_sum: Option<u64>) {
        self.frames.borrow_mut().put(page, bytes, Put { empty, logged_sum, ..Put::default() });
    }

    /// Waits until nobody reads or writes any of the pages on the device, and keeps it so.
    pub(crate) async fn lock(&self, first: u64, end: u64) -> PageLock<'_> {
        self.lock_pages((first..end).collect()).await
    }

    /// As [`Self::lock`].
    pub(crate) async fn lock_pages(&self, pages: Vec<u64>) -> PageLock<'_> {
        self.locks.lock(pages).await
    }

    /// Pages with something that is not home, ascending, each with whether every byte of it is in memory.
    pub(crate) fn dirty_list(&self) -> Vec<(u64, bool)> {
        self.frames.borrow_mut().dirty_list()
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

    /// The page did not go home, and is as dirty as before.
    pub(crate) fn stays(&self, page: Outgoing) {
        self.frames.borrow_mut().stays(page);
    }

    /// What is known of these dirty pages is in this record, all of it.
    pub(crate) fn note_logged(&self, pages: &[u64], record: u64) {
        self.frames.borrow_mut().note_logged(pages, record);
    }

    /// The page was written home directly: what memory holds of it, which must be clean, is out of date.
    pub(crate) fn forget(&self, page: u64) {
        self.frames.borrow_mut().forget(page);
    }

    /// What the page at `offset` of the device is known to hold.
    pub(crate) async fn expects(&self, offset: u64) -> Expected {
        let at = Extent::new(offset, PAGE_BYTES);
        let number_in = |zone: &Extent| zone.holds(&at).then(|| (offset - zone.offset) / PAGE_BYTES);
        let layout = self.layout();
        if let Some(page) = layout.page_at(offset) {
            let mut held = self.table.hold_none();
            return match held.load_for(page).await {
                Ok(()) => Expected::of(self.table.sums(page), !self.is_dirty(page, page + 1)),
                Err(_) => Expected::UNTOLD,
            };
        }
        if let Some(number) = layout.table_page_at(offset) {
            return Expected::of(self.table.root_sums(number), self.table.is_settled(number));
        }
        let in_root = (0..).zip(&layout.roots).find_map(|(slot, zone)| Some((slot, number_in(zone)?)));
        in_root.map_or(Expected::NOTHING, |(slot, page)| self.table.expected_of_root(slot, page as usize))
    }

    /// What is about to be written at `offset` of the device, where memory has all of it and the table its sum.
    pub(crate) fn coming(&self, offset: u64) -> Option<[u8; PAGE]> {
        let page = self.layout().page_at(offset).filter(|&page| self.table.is_loaded(page))?;
        let frames = self.frames.borrow();
        let is_coming = |frame: &&Frame| {
            (frame.dirty || frame.writing)
                && frame.known.is_full()
                && page_sum(&frame.bytes[..]) == self.table.sum(page)
        };
        frames.get(page).filter(is_coming).map(|frame| **frame.bytes)
    }

    /// As [`Self::is_allocated`], of a page whose sum is known.
    pub(crate) fn has_contents(&self, page: u64) -> bool {
        let in_memory = self.frames.borrow().get(page).map(|frame| !frame.empty);
        in_memory.unwrap_or_else(|| self.table.sum(page) != 0)
    }

    /// How many pages from this one on are known never to have been written, without a look at the device.
    pub(crate) fn never_written(&self, page: u64) -> u64 {
        let pages = self.table.never_written(page);
        let frames = self.frames.borrow();
        (page..page + pages).take_while(|&page| frames.get(page).is_none()).count() as u64
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
