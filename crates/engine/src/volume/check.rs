//! Reading every page and telling which are damaged.

use super::Volume;
use crate::device::Device;
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::PAGE;
use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::page_sum;

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckReport {
    /// Pages with contents that were read and summed.
    pub pages_checked: u64,
    /// Pages without contents.
    pub pages_empty: u64,
    /// Pages that are not what was written, or cannot be read.
    pub damaged_pages: Vec<u64>,
    /// Table pages that are not what was written: what they speak of cannot be checked.
    pub damaged_table_pages: Vec<u64>,
}

impl CheckReport {
    /// Whether nothing is damaged.
    pub fn is_clean(&self) -> bool {
        self.damaged_pages.is_empty() && self.damaged_table_pages.is_empty()
    }
}

/// Takes everything home, then reads every page from the device and compares it with its sum. The volume may
/// be in use meanwhile.
///
/// # Errors
///
/// The volume's failure, if it has one; damage is not an error.
pub async fn check<E: Env, A: Arena, H: Device, L: Device>(
    volume: &Volume<E, A, H, L>,
) -> Result<CheckReport, Error> {
    volume.checkpoint().await?;
    let inner = &volume.0;
    let mut report = CheckReport::default();
    let pages = inner.home.layout.pages;
    let mut page = 0;
    while page < pages {
        let mut held = inner.home.table.hold_none();
        if held.load_for(page).await.is_err() {
            report.damaged_table_pages.push(page / SUMS_PER_TABLE_PAGE);
            page = (page / SUMS_PER_TABLE_PAGE + 1) * SUMS_PER_TABLE_PAGE;
            continue;
        }
        // The turn before the lock, as everywhere: a checkpoint that has the turn may need the page.
        let turn = inner.home_writer.take().await;
        let lock = inner.home.lock(page, page + 1).await;
        match inner.home.table.sum(page) {
            0 => report.pages_empty += 1,
            sum => {
                let mut bytes = [0; PAGE];
                let read = inner.home.device.read(inner.home.layout.page_offset(page), &mut bytes).await;
                report.pages_checked += 1;
                if read.is_err() || page_sum(&bytes) != sum {
                    report.damaged_pages.push(page);
                }
            }
        }
        drop((lock, turn));
        page += 1;
    }
    Ok(report)
}
