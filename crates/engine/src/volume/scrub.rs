//! Reading every copy of everything, while the volume is used, and repairing what has rotted.
//!
//! 1. A copy is repaired only with bytes that have the sum that they should have.
//! 2. Nobody waits for it: no more than so many bytes a second are read, each where it is in nobody's way.

use super::{Inner, Volume};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::layout::{JournalStore, PageStore};

/// Damaged pages that a report names; more are looked at, too.
const NAMED_MAX: usize = 10_000;

/// What a scrub found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ScrubReport {
    /// Copies of pages, and of pages of the table of sums and its root, that were read.
    pub copies_checked: u64,
    /// Those that were not what was written, or could not be read, while another copy was right.
    pub wrong_copies: u64,
    /// The same, of each copy that the device keeps, by its number.
    pub wrong_by_copy: Vec<u64>,
    /// Pages of which no copy is what was written; no more than the first 10,000.
    pub damaged_pages: Vec<u64>,
    /// Pages of the table of sums of which no copy is. What they speak of could not be checked.
    pub damaged_table_pages: Vec<u64>,
}

impl ScrubReport {
    /// Whether there may be more damaged pages than are named.
    pub fn names_some(&self) -> bool {
        self.damaged_pages.len() >= NAMED_MAX
    }

    fn name_damaged(&mut self, page: u64) {
        if !self.names_some() {
            self.damaged_pages.push(page);
        }
    }
}

/// What is done about copies that are wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScrubMode {
    /// They are written anew, from one that is right.
    Repair,
    /// They are counted.
    ReadOnly,
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// Reads every copy of every page that is home, once, at most so many bytes a second. Pages that are on their way
    /// home meanwhile are passed over: they are about to be written anew.
    ///
    /// # Errors
    ///
    /// The volume's failure, if it has one; damage is not an error.
    pub async fn scrub(&self, mode: ScrubMode, bytes_per_s: u64) -> Result<ScrubReport, Error> {
        self.scrub_telling(mode, bytes_per_s, |_, _| ()).await
    }

    /// As [`Self::scrub`]; `tell` is told of each page, by its number, when it has been looked at, and what was found so
    /// far.
    ///
    /// # Errors
    ///
    /// As [`Self::scrub`].
    pub async fn scrub_telling(
        &self,
        mode: ScrubMode,
        bytes_per_s: u64,
        mut tell: impl FnMut(u64, &ScrubReport),
    ) -> Result<ScrubReport, Error> {
        let inner = &self.0;
        let mut report = ScrubReport::default();
        let began_ns = inner.env.now_ns();
        for (slot, page) in [0, 1]
            .into_iter()
            .flat_map(|slot| (0..inner.home.table.root_pages()).map(move |page| (slot, page)))
        {
            inner.check_readable()?;
            inner.scrub_root_page(slot, page, mode, &mut report).await;
            inner.rest_after(&report, began_ns, bytes_per_s).await;
        }
        let layout = inner.home.layout(); // what comes meanwhile was just made
        for number in 0..layout.table_pages() {
            inner.scrub_table_page(number, mode, &mut report).await;
            let first = number * SUMS_PER_TABLE_PAGE;
            for page in first..(first + SUMS_PER_TABLE_PAGE).min(layout.pages) {
                inner.check_readable()?;
                inner.scrub_page(page, mode, &mut report).await;
                tell(page, &report);
                inner.rest_after(&report, began_ns, bytes_per_s).await;
            }
        }
        Ok(report)
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Waits until as much may have been read.
    async fn rest_after(&self, report: &ScrubReport, began_ns: u64, bytes_per_s: u64) {
        let read_bytes = u128::from(report.copies_checked) * u128::from(PAGE_BYTES);
        let due_ns = read_bytes * 1_000_000_000 / u128::from(bytes_per_s.max(1));
        let took_ns = self.env.now_ns().saturating_sub(began_ns);
        let ahead_ns = u64::try_from(due_ns).unwrap_or(u64::MAX).saturating_sub(took_ns);
        if ahead_ns > 0 {
            self.env.sleep(ahead_ns).await;
        }
    }

    /// What is wrong in a place of the root is right in memory.
    async fn scrub_root_page(&self, slot: u8, page: usize, mode: ScrubMode, report: &mut ScrubReport) {
        let table = &self.home.table;
        let sum = table.root_page_sum_at(slot, page);
        let is_settled =
            || table.expected_of_root(slot, page).is_settled && table.root_page_sum_at(slot, page) == sum;
        let offset = self.home.layout().roots[usize::from(slot)].offset + page as u64 * PAGE_BYTES;
        if sum != 0 && self.scrub_copies(offset, sum, is_settled, mode, report).await {
            report.wrong_copies += 1;
            if mode == ScrubMode::Repair && is_settled() {
                table.rewrite_root_page(slot, page);
            }
        }
    }

    async fn scrub_table_page(&self, number: u64, mode: ScrubMode, report: &mut ScrubReport) {
        let sum = self.home.table.root_sum(number);
        let is_settled = || self.home.table.is_settled(number) && self.home.table.root_sum(number) == sum;
        if sum != 0
            && self.scrub_copies(self.home.layout().table_offset(number), sum, is_settled, mode, report).await
        {
            report.damaged_table_pages.push(number);
        }
    }

    async fn scrub_page(&self, page: u64, mode: ScrubMode, report: &mut ScrubReport) {
        let mut held = self.home.table.hold_none();
        if held.load_for(page).await.is_err() {
            return; // said of the table's page
        }
        let sum = self.home.table.sum(page);
        let is_settled = || !self.home.is_dirty(page, page + 1) && self.home.table.sum(page) == sum;
        if sum != 0
            && self.scrub_copies(self.home.layout().page_offset(page), sum, is_settled, mode, report).await
        {
            report.name_damaged(page);
        }
    }

    /// Looks at every copy of what is at `offset` of the home device, while it `is_settled` that it has this sum; answers
    /// whether none is right, of which all have to be looked at.
    async fn scrub_copies(
        &self,
        offset: u64,
        sum: u64,
        is_settled: impl Fn() -> bool,
        mode: ScrubMode,
        report: &mut ScrubReport,
    ) -> bool {
        let device = &*self.home.device;
        let is_right = |bytes: &[u8]| page_sum(bytes) == sum;
        let mut bytes = [0; PAGE];
        let (mut checked, mut wrong) = (0, Vec::new());
        for copy in 0..device.replicas() {
            device.replica_idle(copy).await;
            if !is_settled() {
                return false;
            }
            if !device.has_replica(copy) {
                continue;
            }
            let read = device.read_replica(copy, offset, &mut bytes).await;
            report.copies_checked += 1;
            if !is_settled() {
                return false; // written meanwhile
            }
            if !device.has_replica(copy) {
                continue; // gone meanwhile
            }
            checked += 1;
            if read.is_err() || !is_right(&bytes) {
                wrong.push(copy);
            }
        }
        if wrong.is_empty() {
            return false;
        }
        if wrong.len() < checked {
            report.wrong_copies += wrong.len() as u64;
            report.wrong_by_copy.resize(device.replicas(), 0);
            wrong.iter().for_each(|&copy| report.wrong_by_copy[copy] += 1);
            if mode == ScrubMode::Repair {
                self.repair_settled(offset, is_right, is_settled).await;
            }
        }
        let there = (0..device.replicas()).filter(|&copy| device.has_replica(copy)).count();
        wrong.len() == checked && checked >= there
    }

    /// Repairs what is at `offset` from the first copy that is right, unless somebody writes there meanwhile.
    async fn repair_settled(
        &self,
        offset: u64,
        is_right: impl Fn(&[u8]) -> bool,
        is_settled: impl Fn() -> bool,
    ) {
        let device = &*self.home.device;
        for copy in 0..device.replicas() {
            let mut bytes = [0; PAGE];
            let read = device.read_replica(copy, offset, &mut bytes).await;
            if read.is_ok() && is_right(&bytes) && is_settled() {
                // A device that cannot take it says so itself, and takes part no more.
                let _left_out = device.repair(offset, &bytes).await;
                return;
            }
        }
    }
}
