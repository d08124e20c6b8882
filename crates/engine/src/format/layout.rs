//! Where the zones of a volume lie on its devices.
//!
//! ```text
//! home device:  superblocks 0, 1 │ [log] │ root 0 │ root 1 │ table │ pages │ superblocks 2, 3
//! log device:   superblocks 0, 1 │ log
//! ```
//!
//! Superblocks stand at both ends, so that no single damaged stretch takes all. The log lies on the home
//! device only where there is no log device. The table holds each page's sum, the root each table page's, and
//! the superblock those of the root's pieces: so a table page that was lost or put elsewhere is found out, as a page is.
//! The root stands in two places, and both hold the current one but while a checkpoint changes it.

use super::{PAGE, PAGE_BYTES};
use crate::device::Extent;

/// Page sums in one page of the table.
pub const SUMS_PER_TABLE_PAGE: u64 = PAGE_BYTES / 8;

/// Copies of the superblock on the home device.
pub const HOME_COPIES: usize = 4;

/// Copies of the superblock on the log device.
pub const LOG_COPIES: usize = 2;

/// The zones of one volume, as byte ranges of its devices.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// Pages that the volume offers.
    pub pages: u64,
    /// Whether the log has a device of its own.
    pub separate_log: bool,
    /// The log, on the log device or the home device.
    pub log: Extent,
    /// The two places of the root.
    pub roots: [Extent; 2],
    /// The page sums.
    pub table: Extent,
    /// The pages themselves.
    pub data: Extent,
    /// Bytes of the home device.
    pub home_bytes: u64,
}

impl Layout {
    /// The layout of a volume of `pages` on these devices; `None` where it does not fit or a number is beyond
    /// reason.
    pub fn plan(pages: u64, home_bytes: u64, log_bytes: u64, separate_log: bool) -> Option<Self> {
        let log_bytes = log_bytes / PAGE_BYTES * PAGE_BYTES;
        let home_bytes = home_bytes / PAGE_BYTES * PAGE_BYTES;
        if pages == 0 || log_bytes == 0 || pages > u64::MAX / PAGE_BYTES / 4 || log_bytes > u64::MAX / 4 {
            return None;
        }
        let table_bytes = pages.div_ceil(SUMS_PER_TABLE_PAGE).checked_mul(PAGE_BYTES)?;
        let root_bytes = (table_bytes / PAGE_BYTES * 8).next_multiple_of(PAGE_BYTES);
        let log = Extent::new(2 * PAGE_BYTES, log_bytes);
        let after_log = if separate_log { log.offset } else { log.end() };
        let roots = [after_log, after_log + root_bytes].map(|offset| Extent::new(offset, root_bytes));
        let table = Extent::new(roots[1].end(), table_bytes);
        let data = Extent::new(table.end(), pages * PAGE_BYTES);
        let needed = data.end().checked_add(2 * PAGE_BYTES)?;
        (needed <= home_bytes).then_some(Self { pages, separate_log, log, roots, table, data, home_bytes })
    }

    /// Home bytes that a volume of `pages` needs.
    pub fn home_bytes_for(pages: u64, log_bytes: u64, separate_log: bool) -> u64 {
        let table_pages = pages.div_ceil(SUMS_PER_TABLE_PAGE);
        let root_pages = (table_pages * 8).div_ceil(PAGE_BYTES);
        let log_pages = if separate_log { 0 } else { log_bytes.div_ceil(PAGE_BYTES) };
        (4 + log_pages + 2 * root_pages + table_pages + pages).saturating_mul(PAGE_BYTES)
    }

    /// Pages of the table.
    pub fn table_pages(&self) -> u64 {
        self.table.len / PAGE_BYTES
    }

    /// Offset of a page on the home device.
    pub fn page_offset(&self, page: u64) -> u64 {
        self.data.offset + page * PAGE_BYTES
    }

    /// Offset of a table page on the home device.
    pub fn table_offset(&self, table_page: u64) -> u64 {
        self.table.offset + table_page * PAGE_BYTES
    }

    /// Offset of a superblock copy on the home device.
    pub fn home_copy_offset(&self, copy: usize) -> u64 {
        home_copy_offset(self.home_bytes, copy)
    }
}

/// Bytes of a log device with a log of so many bytes.
pub fn log_bytes_with_superblocks(log_bytes: u64) -> u64 {
    (LOG_COPIES as u64).saturating_mul(PAGE_BYTES).saturating_add(log_bytes)
}

/// Offset of a superblock copy on a home device of `home_bytes`.
pub fn home_copy_offset(home_bytes: u64, copy: usize) -> u64 {
    let pages = home_bytes / PAGE_BYTES;
    match copy {
        0 | 1 => copy as u64 * PAGE_BYTES,
        _ => (pages - (HOME_COPIES - copy) as u64) * PAGE_BYTES,
    }
}

/// Offset of a superblock copy on a log device.
pub fn log_copy_offset(copy: usize) -> u64 {
    (copy * PAGE) as u64
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of every size, those at the end of what 64 bits hold too.
    fn numbers() -> impl Strategy<Value = u64> {
        (0..64u32, any::<u64>(), any::<bool>()).prop_map(|(bits, number, from_end)| {
            let number = number >> bits;
            if from_end { u64::MAX - number } else { number }
        })
    }

    proptest! {
        #[test]
        fn whatever_is_asked_for_fits_or_is_refused(
            pages in numbers(), home_bytes in numbers(), log_bytes in numbers(), separate in any::<bool>(),
        ) {
            if let Some(layout) = Layout::plan(pages, home_bytes, log_bytes, separate) {
                prop_assert!(layout.data.fits(home_bytes));
                prop_assert!(separate || layout.log.fits(home_bytes));
                prop_assert!(layout.log.fits(u64::MAX));
            }
        }

        #[test]
        fn zones_do_not_overlap_and_fit(
            pages in 1..100_000u64, log_pages in 1..1000u64, separate in any::<bool>(), spare in 0..10u64,
        ) {
            let log_bytes = log_pages * PAGE_BYTES;
            let needed = Layout::home_bytes_for(pages, log_bytes, separate);
            prop_assert_eq!(Layout::plan(pages, needed - 1, log_bytes, separate), None);
            let layout = Layout::plan(pages, needed + spare * PAGE_BYTES, log_bytes, separate).unwrap();
            let mut zones = vec![layout.roots[0], layout.roots[1], layout.table, layout.data];
            if !separate {
                zones.push(layout.log);
            }
            zones.extend((0..HOME_COPIES).map(|copy| Extent::new(layout.home_copy_offset(copy), PAGE_BYTES)));
            for (place, zone) in zones.iter().enumerate() {
                prop_assert!(zone.end() <= layout.home_bytes);
                prop_assert!(zones[..place].iter().all(|other| !other.overlaps(zone)));
            }
            prop_assert!(layout.roots[0].len >= layout.table_pages() * 8);
            prop_assert!(layout.table_pages() * SUMS_PER_TABLE_PAGE >= pages);
        }
    }
}
