//! The copies of pages in memory.
//!
//! 1. A page is found at the same cost however many there are, and nothing depends on the order of the map.
//! 2. A dirty frame, and one that a checkpoint writes, stays. Clean ones make room for others, in the order of
//!    [`super::clean`], as soon as all pages together are as many as there may be.
//! 3. The memory of a page that goes is used again for the next one: at a steady load no write allocates.
//! 4. Every page counts from its allocation to the moment when its memory is given back, whoever holds it.
//! 5. Where fewer may be in memory than there are, each that comes lets a few go, so that nobody waits for all of them.
//! 6. To list the dirty ones takes no longer the more clean ones there are.

use std::cell::Cell;
use std::collections::hash_map::Entry;
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use super::clean::{Choice, CleanPages, Mark};
use crate::format::PAGE;
use crate::page_map::PageMap;
use crate::ranges::PageRanges;

/// Pages that go at most, to make room for one.
const GOING_MAX: usize = 64;

/// The bytes of a page. Shared with a checkpoint while it writes them; a change meanwhile makes a copy.
pub(crate) type PageBytes = Rc<Page>;

/// A page's memory, counted for as long as it lives.
pub(crate) struct Page {
    bytes: [u8; PAGE],
    counted: Rc<PagesInMemory>,
}

/// Pages in memory.
#[derive(Default)]
pub(super) struct PagesInMemory {
    /// Now.
    pub(super) now: Cell<usize>,
    /// The most there were.
    pub(super) peak: Cell<usize>,
}

impl Page {
    pub(super) fn new(bytes: &[u8; PAGE], counted: &Rc<PagesInMemory>) -> PageBytes {
        counted.now.set(counted.now.get() + 1);
        counted.peak.set(counted.peak.get().max(counted.now.get()));
        Rc::new(Self { bytes: *bytes, counted: Rc::clone(counted) })
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        self.counted.now.set(self.counted.now.get() - 1);
    }
}

impl Deref for Page {
    type Target = [u8; PAGE];

    fn deref(&self) -> &[u8; PAGE] {
        &self.bytes
    }
}

impl DerefMut for Page {
    fn deref_mut(&mut self) -> &mut [u8; PAGE] {
        &mut self.bytes
    }
}

/// A page in memory.
pub(super) struct Frame {
    pub(super) bytes: PageBytes,
    /// Which of `bytes` are known; the others are as they are home.
    pub(super) known: PageRanges,
    /// Whether the page has no contents: it reads as zeros and takes no room home.
    pub(super) empty: bool,
    /// Whether something of it is not home yet.
    pub(super) dirty: bool,
    /// While it is dirty, the first record with a change of it that is not home, and on no way there.
    dirty_since: u64,
    /// Whether a checkpoint is writing it.
    pub(super) writing: bool,
    /// While it is dirty, which of its bytes the log holds by themselves: those that commits changed since the last
    /// checkpoint took the page.
    covered: PageRanges,
    /// Its sum, where the log holds it since the last change.
    logged_sum: Option<u64>,
    /// Its place among the clean ones.
    mark: Mark,
}

/// A page that a checkpoint takes home.
pub(crate) struct Outgoing {
    pub(crate) page: u64,
    pub(crate) bytes: PageBytes,
    /// Whether the page has no contents.
    pub(crate) empty: bool,
    /// Whether the log holds every byte of it: an image in the log would be one more.
    pub(crate) covered: bool,
    /// Its sum, where the log holds it already.
    pub(crate) logged_sum: Option<u64>,
    /// The first record with a change of it that is not home; 0 where that is not known.
    pub(crate) dirty_since: u64,
}

/// What is said of a page that is put in place whole.
#[derive(Clone, Copy, Default)]
pub(super) struct Put {
    /// The record that has it; 0 where that is not known.
    pub(super) record: u64,
    /// Whether the page has no contents.
    pub(super) empty: bool,
    /// Whether the log holds all of it.
    pub(super) covered: bool,
    /// Its sum, where the log holds it.
    pub(super) logged_sum: Option<u64>,
}

/// All frames, and which of them may go.
pub(super) struct Frames {
    map: PageMap<Frame>,
    dirty: usize,
    /// Pages that became dirty; some are no more, or are here twice.
    became_dirty: Vec<u64>,
    /// Pages on their way home.
    writing: usize,
    /// Dirty frames of which the log does not hold every byte.
    uncovered: usize,
    clean: CleanPages,
    spare: Spare,
}

impl Frames {
    /// None yet. Clean ones beyond `clean_min` go where there are more than `pages_max` pages.
    pub(super) fn new(pages_max: usize, clean_min: usize) -> Self {
        Self {
            map: PageMap::default(),
            dirty: 0,
            became_dirty: Vec::new(),
            writing: 0,
            uncovered: 0,
            clean: CleanPages::new(clean_min),
            spare: Spare { pages: Vec::new(), max: pages_max, counted: Rc::default() },
        }
    }

    /// The frame of a page.
    pub(super) fn get(&self, page: u64) -> Option<&Frame> {
        self.map.get(page)
    }

    /// Puts what is known of a page over `base`, which is what is home.
    pub(super) fn lay_over(&self, page: u64, base: &mut [u8]) {
        if let Some(frame) = self.map.get(page) {
            for (start, end) in frame.known.held() {
                base[start..end].copy_from_slice(&frame.bytes[start..end]);
            }
        }
    }

    /// Pages in memory, now and at most so far.
    pub(super) fn in_memory(&self) -> (usize, usize) {
        (self.spare.counted.now.get(), self.spare.counted.peak.get())
    }

    /// Number of dirty frames.
    pub(super) fn dirty(&self) -> usize {
        self.dirty
    }

    /// Number of pages on their way home.
    pub(super) fn writing(&self) -> usize {
        self.writing
    }

    /// Number of dirty frames of which the log does not hold every byte.
    pub(super) fn uncovered(&self) -> usize {
        self.uncovered
    }

    /// Pages of the dirty frames, ascending, each with whether every byte of it is known.
    pub(super) fn dirty_list(&mut self) -> Vec<(u64, bool)> {
        self.became_dirty.sort_unstable();
        self.became_dirty.dedup();
        let mut list = Vec::with_capacity(self.dirty);
        self.became_dirty.retain(|page| {
            let frame = self.map.get(*page).filter(|frame| frame.dirty);
            list.extend(frame.map(|frame| (*page, frame.known.is_full())));
            frame.is_some()
        });
        debug_assert_eq!(list.len(), self.dirty, "what is dirty became so");
        list
    }

    /// Puts `bytes` at `start` of a page, as this record has it.
    pub(super) fn patch(&mut self, page: u64, start: usize, bytes: &[u8], record: u64) {
        if let Ok(whole) = <&[u8; PAGE]>::try_from(bytes) {
            return self.put(page, whole, Put { record, covered: true, ..Put::default() });
        }
        let end = start + bytes.len();
        let (frame, spare) = self.change(page, start, end, record);
        spare.own(&mut frame.bytes)[start..end].copy_from_slice(bytes);
    }

    /// Dirty pages whose sum, or image, the log does not hold, each with whether it holds every byte of them all the same.
    pub(super) fn unlogged(&mut self) -> Vec<(u64, bool)> {
        let dirty = self
            .dirty_list()
            .into_iter()
            .map(|(page, _)| (page, self.map.get(page).expect("what is dirty has a frame")));
        let unlogged = dirty.filter(|(_, frame)| frame.logged_sum.is_none());
        unlogged.map(|(page, frame)| (page, frame.empty || frame.covered.is_full())).collect()
    }

    /// Puts zeros from `start` to before `end` of a page, as this record has it.
    pub(super) fn zero(&mut self, page: u64, start: usize, end: usize, record: u64) {
        let (frame, spare) = self.change(page, start, end, record);
        spare.own(&mut frame.bytes)[start..end].fill(0);
    }

    /// Puts the whole of a page in place.
    pub(super) fn put(&mut self, page: u64, bytes: &[u8; PAGE], how: Put) {
        let Put { record, empty, covered, logged_sum } = how;
        self.make_room();
        let frame = match self.map.entry(page) {
            Entry::Occupied(entry) => {
                let frame = entry.into_mut();
                self.clean.take(&frame.mark);
                match Rc::get_mut(&mut frame.bytes) {
                    Some(own) => own.copy_from_slice(bytes),
                    None => frame.bytes = self.spare.copy_of(bytes),
                }
                frame
            }
            Entry::Vacant(entry) => {
                entry.insert(Frame::new(self.spare.copy_of(bytes), PageRanges::default()))
            }
        };
        frame.known = PageRanges::full();
        frame.empty = empty;
        self.uncovered -= usize::from(frame.is_uncovered());
        if !frame.dirty {
            frame.dirty = true;
            frame.dirty_since = record;
            self.dirty += 1;
            self.became_dirty.push(page);
        }
        frame.covered = if covered { PageRanges::full() } else { PageRanges::default() };
        self.uncovered += usize::from(frame.is_uncovered());
        frame.logged_sum = logged_sum;
    }

    /// The frame of a page that is about to change from `start` to before `end` by this record.
    fn change(&mut self, page: u64, start: usize, end: usize, record: u64) -> (&mut Frame, &mut Spare) {
        self.make_room();
        let frame = self.map.entry(page).or_insert_with(|| {
            let nothing = self.spare.copy_of(&[0; PAGE]);
            Frame::new(nothing, PageRanges::default())
        });
        self.clean.take(&frame.mark);
        self.uncovered -= usize::from(frame.is_uncovered());
        if !frame.dirty {
            frame.dirty = true;
            frame.dirty_since = record;
            frame.covered = PageRanges::default();
            self.dirty += 1;
            self.became_dirty.push(page);
        }
        frame.known.insert(start as u16, end as u16);
        frame.covered.insert(start as u16, end as u16);
        self.uncovered += usize::from(frame.is_uncovered());
        frame.empty = false;
        frame.logged_sum = None;
        (frame, &mut self.spare)
    }

    /// Fills in what the frame of a page does not know from what is home.
    pub(super) fn merge_base(&mut self, page: u64, base: &[u8; PAGE], empty: bool) {
        self.make_room();
        match self.map.entry(page) {
            Entry::Occupied(entry) => {
                let frame = entry.into_mut();
                let bytes = self.spare.own(&mut frame.bytes);
                for (start, end) in frame.known.gaps() {
                    bytes[start..end].copy_from_slice(&base[start..end]);
                }
                frame.known = PageRanges::full();
            }
            Entry::Vacant(entry) => {
                let frame = entry.insert(Frame::new(self.spare.copy_of(base), PageRanges::full()));
                frame.empty = empty;
                self.clean.add(page, &frame.mark);
                self.bound();
            }
        }
    }

    /// Takes the dirty ones of `pages`, all of them known, for a checkpoint, in the order given.
    pub(super) fn take_outgoing(&mut self, pages: &[u64]) -> Vec<Outgoing> {
        let mut outgoing = Vec::with_capacity(pages.len());
        for &page in pages {
            let Some(frame) = self.map.get_mut(page).filter(|frame| frame.dirty) else { continue };
            debug_assert!(frame.known.is_full());
            let covered = frame.covered.is_full();
            self.uncovered -= usize::from(!covered);
            frame.dirty = false;
            frame.writing = true;
            self.dirty -= 1;
            self.writing += 1;
            let Frame { empty, logged_sum, dirty_since, .. } = *frame;
            let bytes = Rc::clone(&frame.bytes);
            outgoing.push(Outgoing { page, bytes, empty, covered, logged_sum, dirty_since });
        }
        outgoing
    }

    /// The page is home as it was taken.
    pub(super) fn done_outgoing(&mut self, gone: Outgoing) {
        let Some(frame) = self.map.get_mut(gone.page) else { return };
        frame.writing = false;
        self.writing -= 1;
        frame.logged_sum = frame.logged_sum.filter(|_| frame.dirty);
        self.spare.take_back(gone.bytes);
        if !frame.dirty {
            self.clean.add(gone.page, &frame.mark);
            self.bound();
        }
    }

    /// The page did not go home: what was taken is dirty once more, if it has not become so meanwhile.
    pub(super) fn stays(&mut self, page: Outgoing) {
        let Outgoing { page: number, bytes, covered, dirty_since, .. } = page;
        let frame = self.map.get_mut(number).expect("a page on its way home has a frame");
        frame.writing = false;
        self.writing -= 1;
        self.uncovered -= usize::from(frame.is_uncovered());
        if !frame.dirty {
            frame.dirty = true;
            self.dirty += 1;
            self.became_dirty.push(number);
            frame.covered = if covered { PageRanges::full() } else { PageRanges::default() };
        }
        frame.dirty_since = dirty_since;
        // A sum in the log is not that of what is home.
        frame.logged_sum = None;
        self.uncovered += usize::from(frame.is_uncovered());
        self.spare.take_back(bytes);
    }

    /// What is known of these dirty pages is in this record, all of it.
    pub(super) fn note_logged(&mut self, pages: &[u64], record: u64) {
        for &page in pages {
            if let Some(frame) = self.map.get_mut(page).filter(|frame| frame.dirty) {
                frame.dirty_since = record;
            }
        }
    }

    /// The page was written home by another way: what is here of it, which must be clean, is out of date.
    pub(super) fn forget(&mut self, page: u64) {
        if let Some(frame) = self.map.remove(page) {
            debug_assert!(!frame.dirty && !frame.writing);
            self.clean.take(&frame.mark);
            self.spare.take_back(frame.bytes);
        }
    }

    /// The page was read from its frame.
    pub(super) fn note_use(&self, page: u64, frame: &Frame) {
        self.clean.note_use(page, &frame.mark);
    }

    /// From now on so many pages may be in memory. What is there beyond them goes with [`Self::shrink`], or as others come.
    pub(super) fn set_max(&mut self, pages_max: usize) {
        self.spare.max = pages_max;
    }

    /// Lets pages go that are more than there may be, no more than `going_max`; whether there may be others to go.
    pub(super) fn shrink(&mut self, going_max: usize) -> bool {
        for _ in 0..going_max {
            if self.spare.counted.now.get() <= self.spare.max {
                return false;
            }
            if self.spare.pages.pop().is_some() {
                continue;
            }
            match self.evict() {
                Choice::Page(_) => {}
                Choice::Later => return true,
                Choice::Nobody => return false,
            }
        }
        true
    }

    /// Lets clean ones go, and what is kept of those that are clean no more.
    fn bound(&mut self) {
        self.shrink(GOING_MAX);
        let map = &self.map;
        self.clean.tidy(|page| map.get(page).map(|frame| &frame.mark));
    }

    /// Sees to it that one more page is within bounds, if clean ones can make room.
    fn make_room(&mut self) {
        for _ in 0..GOING_MAX {
            let is_full = self.spare.pages.is_empty() && self.spare.counted.now.get() >= self.spare.max;
            if !is_full || !matches!(self.evict(), Choice::Page(_)) {
                return;
            }
        }
    }

    /// Lets a clean frame go; which.
    fn evict(&mut self) -> Choice {
        let map = &self.map;
        let choice = self.clean.next_out(|page| map.get(page).map(|frame| &frame.mark));
        if let Choice::Page(page) = choice {
            let frame = self.map.remove(page).expect("a clean page has a frame");
            self.spare.take_back(frame.bytes);
        }
        choice
    }
}

impl Frame {
    /// Whether the log holds less than all of what has to go home.
    pub(super) fn is_uncovered(&self) -> bool {
        self.dirty && !self.covered.is_full()
    }

    fn new(bytes: PageBytes, known: PageRanges) -> Self {
        Self {
            bytes,
            known,
            empty: false,
            dirty: false,
            dirty_since: 0,
            writing: false,
            covered: PageRanges::default(),
            logged_sum: None,
            mark: Mark::default(),
        }
    }
}

/// Memory of pages that went.
struct Spare {
    pages: Vec<PageBytes>,
    /// None is kept beyond so many pages in memory.
    max: usize,
    counted: Rc<PagesInMemory>,
}

impl Spare {
    fn copy_of(&mut self, bytes: &[u8; PAGE]) -> PageBytes {
        if let Some(mut page) = self.pages.pop()
            && let Some(own) = Rc::get_mut(&mut page)
        {
            own.bytes = *bytes;
            return page;
        }
        Page::new(bytes, &self.counted)
    }

    /// The bytes for a change: a copy of them where a checkpoint has them too.
    fn own<'a>(&mut self, bytes: &'a mut PageBytes) -> &'a mut [u8; PAGE] {
        if Rc::get_mut(bytes).is_none() {
            *bytes = self.copy_of(bytes);
        }
        Rc::get_mut(bytes).expect("a copy has one owner")
    }

    fn take_back(&mut self, page: PageBytes) {
        if self.counted.now.get() <= self.max && Rc::strong_count(&page) == 1 {
            self.pages.push(page);
        }
    }
}
