//! Reading everything and telling what is damaged.
//!
//! 1. What is read is what the devices hold, not what memory does.
//! 2. Superblocks, roots and the log are read before anything is written: what a checkpoint writes anew would be whole
//!    however damaged it was before.
//! 3. What a cut may leave is no damage: an opening has written every copy of the superblock anew by its end, and of the
//!    root what either place lacked, and of the log only records that were acknowledged are looked at.

use std::ops::Range;

use super::roots::runs_of;
use super::{Inner, SuperblockCopy, Volume};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::layout::{JournalStore, PageStore};

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Pages with contents that were read and summed.
    pub pages_checked: u64,
    /// Pages without contents.
    pub pages_empty: u64,
    /// Pages that are not what was written, or cannot be read.
    pub damaged_pages: Vec<u64>,
    /// Pages of the table of sums that were read and compared with the root.
    pub table_pages_checked: u64,
    /// Those that are not what was written, or cannot be read. Unless memory holds one still, the pages it speaks of
    /// cannot be checked.
    pub damaged_table_pages: Vec<u64>,
    /// Copies of the superblock that were read, on both devices.
    pub superblocks_checked: u64,
    /// Those that are not what was written last to their place, or cannot be read. One is enough to open the volume.
    pub damaged_superblocks: Vec<SuperblockCopy>,
    /// Places of the root of the table of sums that were read, of the two.
    pub roots_checked: u64,
    /// Those that do not hold what was written there last, or cannot be read. The volume opens with what each of them
    /// has right; not if a piece is damaged in both.
    pub damaged_roots: Vec<u8>,
    /// Records of the log, from its tail to the newest acknowledged one, that were read and summed.
    pub log_records_checked: u64,
    /// Numbers of those that are not what was written, or cannot be read. The volume would not open after a cut now;
    /// what they hold is in memory still, and goes home with the next checkpoint.
    pub damaged_log_records: Vec<u64>,
    /// Whether more pages are damaged under changes than can be carried, so that the volume takes no writes.
    pub read_only: bool,
}

impl CheckReport {
    /// Whether nothing is damaged.
    pub fn is_clean(&self) -> bool {
        self.damaged_pages.is_empty()
            && self.damaged_table_pages.is_empty()
            && self.damaged_superblocks.is_empty()
            && self.damaged_roots.is_empty()
            && self.damaged_log_records.is_empty()
    }
}

/// Reads every copy of the superblock, both roots, the log from its tail on and the table of sums from the devices, then
/// takes everything home and reads every page; compares each with its sum. The volume may be in use meanwhile.
///
/// # Errors
///
/// The volume's failure, if it has one; damage is not an error, nor is a failure that came of it.
pub async fn check<E: Env, A: Arena, H: PageStore, L: JournalStore>(
    volume: &Volume<E, A, H, L>,
) -> Result<CheckReport, Error> {
    let inner = &volume.0;
    inner.check_readable()?;
    let mut report = CheckReport::default();
    inner.check_superblocks(&mut report).await;
    inner.check_roots(&mut report).await;
    inner.check_log(&mut report).await;
    inner.check_table(&mut report).await;
    inner.check_readable()?;
    if inner.log.failure().is_none() {
        match volume.checkpoint().await {
            Ok(()) | Err(Error::Damaged { .. } | Error::Blocked(_)) => {}
            Err(error) => return Err(error),
        }
    }
    inner.check_pages(&mut report).await;
    inner.check_readable()?;
    report.read_only = inner.log.failure().is_some();
    Ok(report)
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Fails unless what memory and devices hold belongs together: a volume that takes no writes any more because too
    /// much of it is damaged can be checked as any other.
    pub(super) fn check_readable(&self) -> Result<(), Error> {
        match self.log.failure() {
            Some(Error::Damaged { .. } | Error::Blocked(_)) => Ok(()),
            _ => self.check_alive(),
        }
    }

    // Each for as long as it takes to read a little: whoever has the turn of writing home is the only one who writes
    // superblocks, roots and the table, and who moves the tail of the log; while it is held, commits may have to wait.

    async fn check_superblocks(&self, report: &mut CheckReport) {
        let turn = self.write_back.writer.take().await;
        for copy in self.superblocks.copies() {
            report.superblocks_checked += 1;
            if !self.superblocks.is_whole(copy).await {
                report.damaged_superblocks.push(copy);
            }
        }
        drop(turn);
    }

    /// Of each place of the root the pages of which it is known what was written there last.
    async fn check_roots(&self, report: &mut CheckReport) {
        for slot in [0, 1] {
            let (mut is_known, mut is_damaged) = (false, false);
            for run in runs_of(self.home.table.root_pages()) {
                let turn = self.write_back.writer.take().await;
                let found = self.check_root_run(slot, run).await;
                drop(turn);
                is_known |= found.is_some();
                is_damaged |= found == Some(false);
            }
            report.roots_checked += u64::from(is_known);
            if is_damaged {
                report.damaged_roots.push(slot);
            }
        }
    }

    /// Whether these pages of a place of the root are right; `None` where nothing is known of them.
    async fn check_root_run(&self, slot: u8, run: Range<usize>) -> Option<bool> {
        let sums: Vec<u64> = run.clone().map(|page| self.home.table.root_page_sum_at(slot, page)).collect();
        if sums.iter().all(|&sum| sum == 0) {
            return None;
        }
        let mut bytes = vec![0; run.len() * PAGE];
        let offset = self.home.layout().roots[usize::from(slot)].offset + run.start as u64 * PAGE_BYTES;
        let read = self.home.device.read(offset, &mut bytes).await;
        let mut pages = bytes.chunks_exact(PAGE).zip(&sums).filter(|(_, sum)| **sum != 0);
        Some(read.is_ok() && pages.all(|(page, &sum)| page_sum(page) == sum))
    }

    async fn check_log(&self, report: &mut CheckReport) {
        let newest = self.log.acknowledged();
        let mut next = 0;
        while next <= newest {
            let turn = self.write_back.writer.take().await;
            let Some(record) = self.log.live_from(next) else { return };
            report.log_records_checked += 1;
            if !self.log.is_whole(record).await {
                report.damaged_log_records.push(record.0);
            }
            next = record.0 + 1;
            drop(turn);
        }
    }

    async fn check_table(&self, report: &mut CheckReport) {
        for number in 0..self.home.layout().table_pages() {
            let turn = self.write_back.writer.take().await;
            report.table_pages_checked += u64::from(self.home.table.root_sum(number) != 0);
            if !self.home.table.is_whole_home(number).await {
                report.damaged_table_pages.push(number);
            }
            drop(turn);
        }
    }

    async fn check_pages(&self, report: &mut CheckReport) {
        let pages = self.home.layout().pages;
        let mut page = 0;
        while page < pages {
            let mut held = self.home.table.hold_none();
            if held.load_for(page).await.is_err() {
                let table_page = page / SUMS_PER_TABLE_PAGE;
                if !report.damaged_table_pages.contains(&table_page) {
                    report.damaged_table_pages.push(table_page);
                }
                page = (table_page + 1) * SUMS_PER_TABLE_PAGE;
                continue;
            }
            // The turn before the lock, as everywhere: a checkpoint that has the turn may need the page.
            let turn = self.write_back.writer.take().await;
            let lock = self.home.lock(page, page + 1).await;
            match self.home.table.sum(page) {
                // It cannot go home for now, and the log has all of it.
                _ if self.home.is_dirty(page, page + 1) && self.home.is_known(page) => {
                    report.pages_checked += 1;
                }
                0 => report.pages_empty += 1,
                sum => {
                    let mut bytes = [0; PAGE];
                    let read = self.home.device.read(self.home.layout().page_offset(page), &mut bytes).await;
                    report.pages_checked += 1;
                    if read.is_err() || page_sum(&bytes) != sum {
                        report.damaged_pages.push(page);
                    }
                }
            }
            drop((lock, turn));
            page += 1;
        }
    }
}
