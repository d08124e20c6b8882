//! Reading pages: from the frames, from what the system keeps of the device in memory, from the device.
//!
//! 1. Whoever reads for a user takes what is there at once, if it has the sum that it should have. Only what is not
//!    there, or is not right, is waited for.
//! 2. A page that is not what it should be, though it came from the system's memory, is read from the medium before it
//!    counts as damaged; and it is what it should be if it is with the changes that are not home yet.
//! 3. Short reads stay in the frames, so that a write of the same page is no longer than its change. Long ones go where
//!    they are wanted and leave the frames as they are: one large read does not drive out what is used often. They go by
//!    way of the system, which reads ahead, and which is told to give it up again where whoever asks keeps it.

use std::ops::Range;

use smallvec::SmallVec;

use super::Home;
use crate::counters::add;
use crate::device::Extent;
use crate::error::Error;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::layout::{PageStore, read_another};
use crate::options::READ_PAGES_MAX;
use crate::planted::{Bug, is_planted};

/// Where bytes of the device may come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// What the system has in memory already, else the medium, of which nothing is kept there: for pages that are
    /// about to be written.
    Medium,
    /// What the system has in memory, which then holds it for the next reader.
    Cache,
}

impl<H: PageStore> Home<H> {
    /// Pages that can be loaded together and are then all there.
    pub(crate) fn load_pages_max(&self) -> u64 {
        READ_PAGES_MAX.min(self.cached_pages_max.get() as u64 / 2)
    }

    /// Makes every page from `first` to before `end` known; of more than [`Self::load_pages_max`], the clean ones may
    /// be gone again.
    ///
    /// # Errors
    ///
    /// Those of the device; [`Error::Damaged`] for a page that is not what was written.
    pub(crate) async fn load(&self, first: u64, end: u64) -> Result<(), Error> {
        self.load_from(first, end, Source::Medium).await
    }

    async fn load_from(&self, first: u64, end: u64, source: Source) -> Result<(), Error> {
        let is_unknown = |page: &u64| !self.is_known(*page);
        let mut next = first;
        while let Some(start) = (next..end).find(is_unknown) {
            let limit = end.min(start + self.load_pages_max());
            let stop = (start..limit).find(|page| !is_unknown(page)).unwrap_or(limit);
            let lock = self.lock(start, stop).await;
            self.load_locked(start, stop, source).await?;
            drop(lock);
            // What was there at the first look may have made room for others meanwhile. A reader goes past the frames
            // then: with more readers than there is room for, each would drive out what the other waits for.
            let is_again = source == Source::Medium && end - first <= self.load_pages_max();
            next = if is_again { first } else { stop };
        }
        Ok(())
    }

    /// For a caller that holds the lock of all these pages.
    async fn load_locked(&self, first: u64, end: u64, source: Source) -> Result<(), Error> {
        let mut sums = self.table.hold_none();
        for page in first..end {
            if is_planted(Bug::HeldTablePageGoes) {
                self.table.load_for(page).await?;
            } else {
                sums.load_for(page).await?;
            }
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
            let end_of_run = self.layout().run_end(next, end);
            let stop = (next..end_of_run).find(|&page| !is_stored(page)).unwrap_or(end_of_run);
            let mut bytes = vec![0; ((stop - next) * PAGE_BYTES) as usize];
            let read = self.read_stored(next, stop, &mut bytes, source).await?;
            let mut frames = self.frames.borrow_mut();
            for (page, base) in (next..read).zip(bytes.chunks_exact(PAGE)) {
                if frames.get(page).is_none_or(|frame| !frame.known.is_full()) {
                    frames.merge_base(page, base.try_into().expect("chunks are pages"), false);
                }
            }
            next = read;
        }
        Ok(())
    }

    /// Reads pages that have contents and lie in a row, and whose lock and sums the caller holds; answers up to which page `into` is what the
    /// table says. The next one was written whole meanwhile, and what was read says nothing of it.
    async fn read_stored(&self, first: u64, end: u64, into: &mut [u8], source: Source) -> Result<u64, Error> {
        let sums: SmallVec<[u64; READ_PAGES_MAX as usize]> =
            (first..end).map(|page| self.table.sum(page)).collect();
        let at = self.layout().page_offset(first);
        let is_cached = match source {
            Source::Medium => self.device.try_read_kept(at, into) == into.len(),
            // Whoever waits for that was not lucky at once.
            Source::Cache => true,
        };
        match (source, is_cached) {
            (Source::Medium, true) => add(&self.counters.cached_reads, end - first),
            (Source::Medium, false) => {
                add(&self.counters.home_reads, end - first);
                self.device.read(at, into).await?;
            }
            (Source::Cache, _) => {
                add(&self.counters.home_reads, end - first);
                self.device.read_cached(at, into).await?;
            }
        }
        for ((page, base), sum) in (first..end).zip(into.as_chunks_mut::<PAGE>().0).zip(sums) {
            let has_changed = || self.is_known(page) || self.table.sum(page) != sum;
            let is_taken = is_cached && is_planted(Bug::CachedUnchecked);
            if page_sum(base) != sum && !has_changed() && is_cached && !is_taken {
                add(&self.counters.home_reads, 1);
                self.device.read(self.layout().page_offset(page), base).await?;
            }
            if self.device.traits().is_replicated && page_sum(base) != sum && !has_changed() {
                let (at, is_right) = (self.layout().page_offset(page), |bytes: &[u8]| page_sum(bytes) == sum);
                let is_found = Box::pin(read_another(&*self.device, at, base, is_right, Ok(()))).await?;
                add(&self.counters.other_copies, u64::from(is_found));
            }
            let is_taken = is_taken || (self.device.traits().is_replicated && is_planted(Bug::CopyUnchecked));
            let is_right = page_sum(base) == sum || is_taken || self.is_right_with_changes(page, base, sum);
            if is_right && self.table.sum(page) == sum {
                continue;
            }
            return if has_changed() { Ok(page) } else { Err(Error::Damaged { page }) };
        }
        Ok(end)
    }

    /// Whether `base` has this sum once what is known of the page is laid over it: so it is with a page that a checkpoint
    /// was cut off in writing and that could not be read while the log was.
    fn is_right_with_changes(&self, page: u64, base: &[u8; PAGE], sum: u64) -> bool {
        let frames = self.frames.borrow();
        frames.get(page).is_some_and(|frame| frame.dirty) && {
            let mut whole = *base;
            frames.lay_over(page, &mut whole);
            page_sum(&whole) == sum
        }
    }

    /// Fills `into` with committed bytes from `offset` on; false where something had to be waited for.
    pub(crate) fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        let extent = Extent::new(offset, into.len() as u64);
        let pages = crate::buffer::pages_of(&extent);
        let keeps = pages.end - pages.start <= self.kept_pages_max;
        let mut page = pages.start;
        while page < pages.end {
            let stop = if self.is_at_home(page) {
                let end = self.layout.borrow().run_end(page, pages.end);
                (page + 1..end).find(|&next| !self.is_at_home(next)).unwrap_or(end)
            } else {
                page + 1
            };
            // A page of which only a part is wanted is read by itself.
            let run = Extent::new(page * PAGE_BYTES, (stop - page) * PAGE_BYTES);
            let shared = extent.intersection(&run).expect("the pages lie in the range");
            let target = &mut into[(shared.offset - offset) as usize..][..shared.len as usize];
            let is_there = match shared.len.is_multiple_of(PAGE_BYTES) && shared.offset == run.offset {
                true => self.try_read_whole(page, target, keeps),
                false => self.try_read_parts(page, shared.offset, target),
            };
            if !is_there {
                return false;
            }
            page = stop;
        }
        if !keeps {
            self.give_up(&pages);
        }
        true
    }

    /// Tells the system that these pages are not wanted in its memory once they were read, unless it is to keep them.
    fn give_up(&self, pages: &Range<u64>) {
        if !self.system_keeps_long_reads && pages.start < pages.end {
            let layout = self.layout.borrow();
            let (first, last) = (layout.page_offset(pages.start), layout.page_offset(pages.end - 1));
            self.device.give_up_kept(Extent::new(first, last + PAGE_BYTES - first));
        }
    }

    /// Whether bytes of the page have to come from the device, and nothing keeps them from being read now.
    fn is_at_home(&self, page: u64) -> bool {
        !self.is_known(page)
            && !self.locks.contains(page)
            && self.table.is_loaded(page)
            && self.table.sum(page) != 0
    }

    /// As [`Self::try_read`], of pages from `page` on of which some are wanted in part only.
    fn try_read_parts(&self, page: u64, offset: u64, into: &mut [u8]) -> bool {
        let extent = Extent::new(offset, into.len() as u64);
        let mut whole = [0; PAGE];
        for page in page..crate::buffer::pages_of(&extent).end {
            if !self.try_read_whole(page, &mut whole, true) {
                return false;
            }
            let at = page * PAGE_BYTES;
            let shared = extent.intersection(&Extent::new(at, PAGE_BYTES)).expect("pages of the range");
            into[(shared.offset - offset) as usize..][..shared.len as usize]
                .copy_from_slice(&whole[(shared.offset - at) as usize..][..shared.len as usize]);
        }
        true
    }

    /// As [`Self::try_read`], of whole pages that are alike: either all of them are at home, or it is one.
    fn try_read_whole(&self, first: u64, into: &mut [u8], keeps: bool) -> bool {
        if self.is_known(first) {
            self.copy(first, 0, into);
            return true;
        }
        if !self.is_at_home(first) {
            let is_empty =
                self.table.is_loaded(first) && !self.locks.contains(first) && self.table.sum(first) == 0;
            if is_empty {
                into.fill(0);
                self.frames.borrow().lay_over(first, into);
            }
            return is_empty;
        }
        if self.device.try_read_cached(self.layout.borrow().page_offset(first), into) != into.len() {
            return false;
        }
        let pages = first..first + into.len() as u64 / PAGE_BYTES;
        add(&self.counters.cached_reads, pages.end - pages.start);
        let mut frames = self.frames.borrow_mut();
        for (page, base) in pages.zip(into.as_chunks_mut::<PAGE>().0) {
            if page_sum(base) != self.table.sum(page) && !is_planted(Bug::CachedUnchecked) {
                return false; // the medium is asked
            }
            if keeps {
                frames.merge_base(page, base, false);
            }
            frames.lay_over(page, base);
        }
        true
    }

    /// Fills `into` with committed bytes from `offset` on if it can be had now, whatever may be waited for; false
    /// where it has to be tried again because others changed the pages meanwhile. Up to [`Self::load_pages_max`]
    /// pages. What it answers holds until something else runs.
    ///
    /// # Errors
    ///
    /// As [`Self::load`].
    pub(crate) async fn read(&self, offset: u64, into: &mut [u8]) -> Result<bool, Error> {
        let pages = crate::buffer::pages_of(&Extent::new(offset, into.len() as u64));
        if pages.end - pages.start <= self.kept_pages_max {
            self.load_from(pages.start, pages.end, Source::Cache).await?;
            if self.try_read(offset, into) {
                return Ok(true);
            }
        }
        let is_read = if offset.is_multiple_of(PAGE_BYTES) && into.len().is_multiple_of(PAGE) {
            self.read_past_frames(pages.clone(), into).await?
        } else {
            let mut whole = vec![0; (pages.end - pages.start) as usize * PAGE];
            let is_read = self.read_past_frames(pages.clone(), &mut whole).await?;
            into.copy_from_slice(&whole[(offset - pages.start * PAGE_BYTES) as usize..][..into.len()]);
            is_read
        };
        if pages.end - pages.start > self.kept_pages_max {
            self.give_up(&pages);
        }
        Ok(is_read)
    }

    /// As [`Self::read`], of whole pages, of which those that are not in the frames leave these as they are.
    async fn read_past_frames(&self, pages: Range<u64>, into: &mut [u8]) -> Result<bool, Error> {
        let lock = self.locks.share(pages.clone().collect()).await;
        let mut held = self.table.hold_none();
        for page in pages.clone() {
            held.load_for(page).await?;
        }
        // What each page's bytes in `into` have as their sum, where they are from home.
        let mut sums: SmallVec<[u64; READ_PAGES_MAX as usize]> = SmallVec::new();
        while let Some(page) = Some(pages.start + sums.len() as u64).filter(|page| *page < pages.end) {
            let is_wanted = |page: u64| !self.is_known(page) && self.table.sum(page) != 0;
            if !is_wanted(page) {
                sums.push(0);
                continue;
            }
            let end = self.layout().run_end(page, pages.end);
            let stop = (page..end).find(|&next| !is_wanted(next)).unwrap_or(end);
            let target = &mut into[sums.len() * PAGE..][..((stop - page) * PAGE_BYTES) as usize];
            sums.extend((page..stop).map(|page| self.table.sum(page)));
            if self.read_stored(page, stop, target, Source::Cache).await? < stop {
                return Ok(false);
            }
        }
        drop(lock);
        let frames = self.frames.borrow();
        for ((page, target), sum) in pages.zip(into.as_chunks_mut::<PAGE>().0).zip(sums) {
            match frames.get(page).filter(|frame| frame.known.is_full()) {
                Some(frame) => target.copy_from_slice(&frame.bytes[..]),
                None if self.table.sum(page) != sum => return Ok(false),
                None => {
                    if sum == 0 {
                        target.fill(0);
                    }
                    frames.lay_over(page, target);
                }
            }
        }
        Ok(true)
    }
}
