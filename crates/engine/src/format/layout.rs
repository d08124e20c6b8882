//! Where the zones of a volume lie on its devices.
//!
//! ```text
//! home device:  superblocks 0, 1 │ [log] │ root 0 │ root 1 │ table │ pages │ superblocks 2, 3
//! log device:   superblocks 0, 1 │ log
//! grown:        ... pages │ [root 0 │ root 1] │ table │ pages │ superblocks 2, 3
//! ```
//!
//! Superblocks stand at both ends, so that no single damaged stretch takes all. The log lies on the home
//! device only where there is no log device. The table holds each page's sum, the root each table page's, and
//! the superblock those of the root's pieces: so a table page that was lost or put elsewhere is found out, as a page is.
//! The root stands in two places, and both hold the current one but while a checkpoint changes it.
//!
//! A volume that grows gets another [`Segment`] behind the pages that it has: the table of the new pages, and the pages.
//! What was there stays where it is, but for both places of the root where they are too short, and for superblocks 2
//! and 3, which stand at the end of the device again.
//!
//! 1. The layout follows from the sizes that the volume has and had, which the superblock holds; nothing else says
//!    where a zone lies.
//! 2. No zone shares a byte with another. New places of the root do not touch superblocks 2 and 3 as they stood before:
//!    they are written while those still count.

use super::{PAGE, PAGE_BYTES};
use crate::device::Extent;

/// Page sums in one page of the table.
pub const SUMS_PER_TABLE_PAGE: u64 = PAGE_BYTES / 8;

/// Copies of the superblock on the home device.
pub const HOME_COPIES: usize = 4;

/// Least bytes of a home device: no smaller one holds the copies of its superblock and a page beside them.
pub const HOME_BYTES_MIN: u64 = (HOME_COPIES as u64 + 1) * PAGE_BYTES;

/// Copies of the superblock on the log device.
pub const LOG_COPIES: usize = 2;

/// Most times that a volume can grow.
pub const GROWTHS_MAX: usize = 16;

/// Beyond that many pages nothing is planned.
const PAGES_MAX: u64 = u64::MAX / PAGE_BYTES / 4;

/// No volume grows whose home device is said to be larger.
const HOME_BYTES_MAX: u64 = u64::MAX / 4;

/// How large a volume is, or was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Size {
    /// Pages that it offers.
    pub pages: u64,
    /// Bytes of the home device, with the last two copies of the superblock at their end.
    pub home_bytes: u64,
}

/// The sizes that a volume had before it grew, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SizesBefore {
    count: usize,
    sizes: [Size; GROWTHS_MAX],
}

impl SizesBefore {
    /// These sizes; `None` where they are too many.
    pub fn of(sizes: &[Size]) -> Option<Self> {
        let mut found = Self { count: sizes.len(), ..Self::default() };
        found.sizes.get_mut(..sizes.len())?.copy_from_slice(sizes);
        Some(found)
    }

    /// The same and one more behind them; `None` where there are too many.
    pub fn and(&self, size: Size) -> Option<Self> {
        let mut next = *self;
        *next.sizes.get_mut(self.count)? = size;
        next.count += 1;
        Some(next)
    }

    /// All of them.
    pub fn as_slice(&self) -> &[Size] {
        &self.sizes[..self.count]
    }
}

/// Pages that came together: as the volume was made, or as it grew.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Its first page.
    pub first_page: u64,
    /// The first page of its part of the table.
    pub first_table_page: u64,
    /// The page sums that no earlier segment has room for.
    pub table: Extent,
    /// The pages themselves.
    pub data: Extent,
}

impl Segment {
    /// The page behind its last one.
    pub fn end_page(&self) -> u64 {
        self.first_page + self.data.len / PAGE_BYTES
    }
}

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
    /// The table and the pages, in the order of their numbers: as it was made, and what came as it grew.
    pub segments: Vec<Segment>,
    /// Bytes of the home device.
    pub home_bytes: u64,
}

impl Layout {
    /// The layout of a volume of `pages` on these devices; `None` where it does not fit or a number is beyond
    /// reason.
    pub fn plan(pages: u64, home_bytes: u64, log_bytes: u64, separate_log: bool) -> Option<Self> {
        let log_bytes = log_bytes / PAGE_BYTES * PAGE_BYTES;
        let home_bytes = home_bytes / PAGE_BYTES * PAGE_BYTES;
        if pages == 0 || log_bytes == 0 || pages > PAGES_MAX || log_bytes > u64::MAX / 4 {
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
        let segments = vec![Segment { first_page: 0, first_table_page: 0, table, data }];
        (needed <= home_bytes).then_some(Self { pages, separate_log, log, roots, segments, home_bytes })
    }

    /// The layout of a volume of this size that had others before; `None` as [`Self::plan`], and where it never grew so.
    pub fn of(size: Size, before: &SizesBefore, log_bytes: u64, separate_log: bool) -> Option<Self> {
        let mut sizes = before.as_slice().iter().copied().chain([size]);
        let made = sizes.next()?;
        let layout = Self::plan(made.pages, made.home_bytes, log_bytes, separate_log)?;
        sizes.try_fold(layout, |layout, size| layout.grown(size))
    }

    /// The layout once it has grown to `size`; `None` where that is no more pages, or they do not fit.
    pub fn grown(&self, size: Size) -> Option<Self> {
        let home_bytes = size.home_bytes / PAGE_BYTES * PAGE_BYTES;
        let (roots, segment) = self.next_segment(size.pages)?;
        if segment.data.end() + 2 * PAGE_BYTES > home_bytes || home_bytes < self.home_bytes {
            return None;
        }
        let mut segments = self.segments.clone();
        segments.push(segment);
        Some(Self { pages: size.pages, roots, segments, home_bytes, ..*self })
    }

    /// Home bytes that it needs to grow to `pages`; `None` where that is no more than it has, or beyond reason.
    pub fn home_bytes_to_grow(&self, pages: u64) -> Option<u64> {
        let (_, segment) = self.next_segment(pages)?;
        Some((segment.data.end() + 2 * PAGE_BYTES).max(self.home_bytes))
    }

    /// What comes behind the pages that are there as it grows to `pages`, and where the roots are then.
    fn next_segment(&self, pages: u64) -> Option<([Extent; 2], Segment)> {
        // Within these bounds no sum of a few zones overflows.
        if pages <= self.pages || pages > PAGES_MAX || self.home_bytes > HOME_BYTES_MAX {
            return None;
        }
        let (last, first_table_page) = (self.segments.last()?, self.table_pages());
        let table_pages = pages.div_ceil(SUMS_PER_TABLE_PAGE);
        let root_bytes = (table_pages * 8).next_multiple_of(PAGE_BYTES);
        let (mut at, mut roots) = (last.data.end(), self.roots);
        if root_bytes > roots[0].len {
            let copies = Extent::new(self.home_copy_offset(HOME_COPIES - 2), 2 * PAGE_BYTES);
            if copies.overlaps(&Extent::new(at, 2 * root_bytes)) {
                at = self.home_bytes;
            }
            roots = [at, at + root_bytes].map(|offset| Extent::new(offset, root_bytes));
            at = roots[1].end();
        }
        let table = Extent::new(at, (table_pages - first_table_page) * PAGE_BYTES);
        let data = Extent::new(table.end(), (pages - self.pages) * PAGE_BYTES);
        Some((roots, Segment { first_page: self.pages, first_table_page, table, data }))
    }

    /// How large it is.
    pub fn size(&self) -> Size {
        Size { pages: self.pages, home_bytes: self.home_bytes }
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
        self.pages.div_ceil(SUMS_PER_TABLE_PAGE)
    }

    /// The segment of a page.
    fn segment_of(&self, page: u64) -> &Segment {
        let behind = self.segments.partition_point(|segment| segment.first_page <= page);
        &self.segments[behind.max(1) - 1]
    }

    /// Offset of a page on the home device.
    pub fn page_offset(&self, page: u64) -> u64 {
        let segment = self.segment_of(page);
        segment.data.offset + (page - segment.first_page) * PAGE_BYTES
    }

    /// The page behind `page`, up to `end`, that does not lie directly behind those before it on the home device.
    pub fn run_end(&self, page: u64, end: u64) -> u64 {
        end.min(self.segment_of(page).end_page())
    }

    /// Offset of a table page on the home device.
    pub fn table_offset(&self, table_page: u64) -> u64 {
        let behind = self.segments.partition_point(|segment| segment.first_table_page <= table_page);
        let segment = &self.segments[behind.max(1) - 1];
        segment.table.offset + (table_page - segment.first_table_page) * PAGE_BYTES
    }

    /// The page whose place on the home device is `offset`, if it is one's.
    pub fn page_at(&self, offset: u64) -> Option<u64> {
        let at = Extent::new(offset, PAGE_BYTES);
        let segment = self.segments.iter().find(|segment| segment.data.holds(&at))?;
        Some(segment.first_page + (offset - segment.data.offset) / PAGE_BYTES)
    }

    /// The same of a table page.
    pub fn table_page_at(&self, offset: u64) -> Option<u64> {
        let at = Extent::new(offset, PAGE_BYTES);
        let segment = self.segments.iter().find(|segment| segment.table.holds(&at))?;
        Some(segment.first_table_page + (offset - segment.table.offset) / PAGE_BYTES)
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

/// Offset of a superblock copy on a home device of `home_bytes`, which are [`HOME_BYTES_MIN`] at least.
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
                prop_assert!(layout.segments[0].data.fits(home_bytes));
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
            check_zones(&layout);
        }

        #[test]
        fn whatever_it_grows_to_zones_do_not_overlap_and_pages_stay_where_they_are(
            pages in 1..3_000u64, log_pages in 1..100u64, separate in any::<bool>(), spare in 0..2_000u64,
            steps in proptest::collection::vec((1..600_000u64, 0..3000u64, any::<bool>()), 1..=GROWTHS_MAX),
        ) {
            let log_bytes = log_pages * PAGE_BYTES;
            let home_bytes = Layout::home_bytes_for(pages, log_bytes, separate) + spare * PAGE_BYTES;
            let made = Layout::plan(pages, home_bytes, log_bytes, separate).unwrap();
            let (mut layout, mut before) = (made, SizesBefore::default());
            for (more, spare, is_near) in steps {
                // Often within the same page of the table, or of the root.
                let pages = layout.pages + if is_near { 1 + more % 700 } else { more };
                let needed = layout.home_bytes_to_grow(pages).unwrap();
                let too_small = Size { pages, home_bytes: needed - PAGE_BYTES };
                prop_assert_eq!(layout.grown(too_small), None);
                let size = Size { pages, home_bytes: needed + spare * PAGE_BYTES };
                let grown = layout.grown(size).unwrap();
                check_zones(&grown);
                for page in [0, layout.pages / 2, layout.pages - 1] {
                    prop_assert_eq!(grown.page_offset(page), layout.page_offset(page));
                    let table_page = page / SUMS_PER_TABLE_PAGE;
                    prop_assert_eq!(grown.table_offset(table_page), layout.table_offset(table_page));
                }
                let copies = Extent::new(layout.home_copy_offset(2), 2 * PAGE_BYTES);
                prop_assert!(grown.roots.iter().all(|root| !root.overlaps(&copies)));
                before = before.and(layout.size()).unwrap();
                layout = grown;
                let derived = Layout::of(size, &before, log_bytes, separate);
                prop_assert_eq!(derived.as_ref(), Some(&layout));
            }
            prop_assert_eq!(layout.grown(layout.size()), None);
        }

        #[test]
        fn whatever_sizes_are_said_to_have_been_fit_or_are_refused(
            sizes in proptest::collection::vec((numbers(), numbers()), 0..=GROWTHS_MAX), pages in numbers(),
            home_bytes in numbers(), log_bytes in numbers(), separate in any::<bool>(),
        ) {
            let sizes: Vec<Size> =
                sizes.into_iter().map(|(pages, home_bytes)| Size { pages, home_bytes }).collect();
            let before = SizesBefore::of(&sizes).unwrap();
            if let Some(layout) = Layout::of(Size { pages, home_bytes }, &before, log_bytes, separate) {
                prop_assert!(layout.segments.iter().all(|segment| segment.data.fits(home_bytes)));
            }
        }
    }

    /// That every zone fits, has bytes of its own, and holds what it is for.
    fn check_zones(layout: &Layout) {
        let mut zones = vec![layout.roots[0], layout.roots[1]];
        zones.extend(layout.segments.iter().flat_map(|segment| [segment.table, segment.data]));
        if !layout.separate_log {
            zones.push(layout.log);
        }
        zones.extend((0..HOME_COPIES).map(|copy| Extent::new(layout.home_copy_offset(copy), PAGE_BYTES)));
        for (place, zone) in zones.iter().enumerate() {
            assert!(zone.end() <= layout.home_bytes);
            assert!(zones[..place].iter().all(|other| !other.overlaps(zone)));
        }
        assert!(layout.roots[0].len >= layout.table_pages() * 8);
        let (mut page, mut table_page) = (0, 0);
        for segment in &layout.segments {
            assert_eq!((segment.first_page, segment.first_table_page), (page, table_page));
            page = segment.end_page();
            table_page += segment.table.len / PAGE_BYTES;
            assert!(table_page * SUMS_PER_TABLE_PAGE >= page);
            assert_eq!(layout.run_end(segment.first_page, u64::MAX), page);
            for page in [segment.first_page, page - 1] {
                assert!(segment.data.holds(&Extent::new(layout.page_offset(page), PAGE_BYTES)));
                assert_eq!(layout.page_at(layout.page_offset(page)), Some(page));
                let table_page = page / SUMS_PER_TABLE_PAGE;
                assert_eq!(layout.table_page_at(layout.table_offset(table_page)), Some(table_page));
            }
        }
        assert_eq!((page, table_page), (layout.pages, layout.table_pages()));
    }
}
