//! What the size of the log and the kind of its drives allow.

use super::checkpoint_due::Room;
use super::write::ZERO_CHUNK_PAGES;
use crate::error::Error;
use crate::format::layout::SUMS_PER_TABLE_PAGE;
use crate::format::record::{HEADER_BYTES, RECORD_BYTES_MAX, TAG_BYTES, record_bytes};
use crate::format::unit::{Content, UnitExtent};
use crate::format::{PAGE, PAGE_BYTES};
use crate::options::Tuning;
use crate::planted::{Bug, is_planted};
use crate::size_text::exact_size;

/// Largest commit, so that its record with all its tags is one that a reader takes for a record.
const COMMIT_MAX_BYTES: usize = RECORD_BYTES_MAX / 2;

/// Most dirty pages: a record may have to name all of them.
const DIRTY_PAGES_MAX: usize = RECORD_BYTES_MAX / TAG_BYTES / 4;

/// One of so many frames is given up for pages of the table that direct writes change, where the log has no room for all of them.
const DIRECT_SHARE: usize = 8;

/// Frames without which a volume could not take a write of its largest atomic size beside others.
const DIRTY_PAGES_MIN: usize = 16;

/// Largest `atomic_max_bytes` of a volume: a record holds no more.
pub const ATOMIC_MAX_BYTES: u64 = COMMIT_MAX_BYTES as u64;

/// Bytes of the smallest log for a disk of `size_bytes` with writes of up to `atomic_max_bytes` in one piece, on a drive
/// that writes `sector_bytes` at once; `atomic_sectors` is what its home promises. `None` beyond [`ATOMIC_MAX_BYTES`].
pub fn log_bytes_min(
    size_bytes: u64,
    atomic_max_bytes: u64,
    sector_bytes: u32,
    atomic_sectors: bool,
) -> Option<u64> {
    if atomic_max_bytes > ATOMIC_MAX_BYTES {
        return None;
    }
    let table_pages = size_bytes.div_ceil(PAGE_BYTES).div_ceil(SUMS_PER_TABLE_PAGE);
    let suffices = |pages: u64| {
        let log_bytes = pages * PAGE_BYTES;
        let limits = limits_of(log_bytes, sector_bytes, table_pages, atomic_sectors);
        log_bytes >= atomic_max_bytes && limits.check_suffice(atomic_max_bytes, log_bytes).is_ok()
    };
    let enough = (0..40).map(|bits| 1u64 << bits).find(|&pages| suffices(pages))?;
    let mut between = enough / 2..enough;
    while between.start < between.end {
        let middle = between.start.midpoint(between.end);
        match suffices(middle) {
            true => between.end = middle,
            false => between.start = middle + 1,
        }
    }
    Some(between.start * PAGE_BYTES)
}

/// Pages of the table that speak of so many pages in a row, at most.
fn tables_touched_max(pages: usize) -> usize {
    pages / SUMS_PER_TABLE_PAGE as usize + 2
}

/// With portions as nobody chose them.
fn limits_of(log_bytes: u64, sector_bytes: u32, table_pages: u64, atomic_sectors: bool) -> Limits {
    let announced_max_bytes = Tuning::default().announced_max_bytes;
    Limits::of(log_bytes, sector_bytes as usize, table_pages, !atomic_sectors, announced_max_bytes)
}

/// Pages in memory that are not home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waiting {
    /// Those that wait for a checkpoint,
    pub(super) dirty: usize,
    /// those that one writes,
    pub(super) writing: usize,
    /// and of the first, those of which the log does not hold every byte.
    pub(super) uncovered: usize,
}

/// What the size of the log allows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Bytes of the log that commits may fill; the rest is kept for checkpoints and direct writes.
    pub(super) commit_used_max: u64,
    /// Frames that may wait for a checkpoint where it takes all of them before any comes home.
    pub(super) dirty_pages_max: usize,
    /// Pages that one checkpoint may name.
    named_pages_max: usize,
    /// Of them, those that it may have to log an image of.
    pub(super) image_pages_max: usize,
    /// Largest record that a checkpoint may log of pages that cannot go home.
    pub(super) carried_max: u64,
    /// Bytes of the log that the records of direct writes side by side may take; a single one may take more.
    pub(super) direct_log_max_bytes: u64,
    /// Whether checkpoints log whole pages before they write them.
    pub(super) needs_images: bool,
    /// Pages of the table that a checkpoint may have to take home for direct writes, beside those of its frames, where that is
    /// all that the log has room for.
    direct_tables: Option<usize>,
    /// Whether pages without contents may be written straight home: a checkpoint has room for their sums.
    pub(super) takes_fresh: bool,
}

impl Limits {
    /// What a log of this size and these drives allow.
    ///
    /// A checkpoint logs a sum of each page that it takes home and of its table page; where drives may tear sectors,
    /// an image of each table page, and of each page of which the log does not hold every byte. Kept free is room
    /// for four times such records of the largest kind: those of the last checkpoint, which stay until the next tail;
    /// those of the next; once more of a recovery; and the records of direct writes.
    pub(super) fn of(
        log_bytes: u64,
        sector_bytes: usize,
        table_pages: u64,
        needs_images: bool,
        announced_max_bytes: usize,
    ) -> Self {
        let record_max = log_bytes / if needs_images { 6 } else { 16 };
        // Sums of all pages; or images of pages, sums of others, and images of the table: each cut into pieces.
        let full_bytes = |entry: usize| (announced_max_bytes / entry).max(1) * entry;
        let (kinds, full_bytes) = match needs_images {
            false => (1, full_bytes(TAG_BYTES)),
            true => (3, full_bytes(TAG_BYTES).min(full_bytes(TAG_BYTES + PAGE))),
        };
        let beside = HEADER_BYTES + sector_bytes; // the last sector is seldom full
        let of_full_records = (record_max as usize).saturating_sub(kinds * beside) as u128;
        let half = (of_full_records * full_bytes as u128 / (full_bytes + beside) as u128) as usize / 2;
        // One half is for the pages, the other for the table's, of which each page may change one.
        let (image_pages_max, dirty_pages_max, takes_fresh) = match needs_images {
            false => (usize::MAX, half / TAG_BYTES, true),
            true => {
                let image = TAG_BYTES + PAGE;
                let whole_table = usize::try_from(table_pages).unwrap_or(usize::MAX).saturating_mul(image);
                let is_table_small = whole_table <= half / 2;
                let others = match is_table_small {
                    true => (half - whole_table) / TAG_BYTES,
                    false => half / (image + TAG_BYTES),
                };
                (half / image, others, is_table_small)
            }
        };
        let kept_bytes = if is_planted(Bug::NoReserve) { 0 } else { 4 * record_max };
        Self {
            commit_used_max: log_bytes - kept_bytes,
            dirty_pages_max: dirty_pages_max.min(DIRTY_PAGES_MAX),
            named_pages_max: dirty_pages_max.min(DIRTY_PAGES_MAX),
            image_pages_max,
            // Records of checkpoints take half of what is kept for them: `dirty_pages_max` is half of what fits.
            carried_max: (record_max / 2).min(COMMIT_MAX_BYTES as u64),
            direct_log_max_bytes: record_max / 2,
            needs_images: needs_images && !is_planted(Bug::NoImages),
            direct_tables: None,
            takes_fresh,
        }
    }

    /// The same with room for what direct writes change of the table, if what it leaves is enough for writes of
    /// `atomic_max_bytes`. Where a frame counts as a page of the table too, each that is given up makes room for one.
    pub(super) fn with_direct_tables(self, atomic_max_bytes: u64, log_bytes: u64) -> Self {
        if self.takes_fresh {
            return self;
        }
        let tables = self.dirty_pages_max.div_ceil(DIRECT_SHARE);
        let left = self.dirty_pages_max - tables;
        let (dirty_pages_max, named_pages_max) = (left, self.named_pages_max.min(left));
        let shared =
            Self { dirty_pages_max, named_pages_max, direct_tables: Some(tables), takes_fresh: true, ..self };
        let is_enough = shared.check_suffice(atomic_max_bytes, log_bytes).is_ok()
            && tables >= tables_touched_max(left / 2);
        if is_enough { shared } else { self }
    }

    /// Pages of the table that direct writes may change between two checkpoints: as many as the log has room for beside those of
    /// the frames, and half as many as there may be frames in memory.
    pub(super) fn direct_tables_max(&self) -> usize {
        self.direct_tables.unwrap_or(self.named_pages_max / 4).min(self.dirty_pages_max / 2)
    }

    /// The same with no more dirty pages than `dirty_pages_max`, if that is enough for writes of `atomic_max_bytes`.
    pub(super) fn within(self, dirty_pages_max: usize, atomic_max_bytes: u64) -> Self {
        let needed = 2 * (atomic_max_bytes as usize).div_ceil(PAGE) + 4;
        let bound = dirty_pages_max.max(needed).max(DIRTY_PAGES_MIN);
        Self { dirty_pages_max: self.dirty_pages_max.min(bound), ..self }
    }

    /// The same, with frames for a commit of `pages` that an earlier opening, with more memory, let in.
    pub(super) fn with_commit_of(self, pages: u64) -> Self {
        // A quarter of the frames may be stuck.
        let needed = usize::try_from(pages).unwrap_or(usize::MAX).saturating_add(2).saturating_mul(4) / 3;
        Self { dirty_pages_max: self.dirty_pages_max.max(needed), ..self }
    }

    /// Largest record of a commit that carries more than one unit. Half of it is something, too: the share of who wants
    /// little.
    pub(super) fn batch_max_bytes(&self, wanted_bytes: usize) -> usize {
        wanted_bytes.clamp(2, COMMIT_MAX_BYTES).min(self.commit_used_max as usize / 4)
    }

    /// Pages that a commit of more than one unit may change.
    pub(super) fn batch_pages_max(&self) -> usize {
        (self.dirty_pages_max.min(self.image_pages_max) / 4).max(1)
    }

    /// Pages that one commit may change: it finds frames once a checkpoint has freed all but those that are stuck.
    pub(super) fn commit_pages_max(&self) -> usize {
        self.dirty_pages_max.min(self.image_pages_max) - self.stuck_pages_max()
    }

    /// How full the fullest is, of 1, where pages come home one after the other: the log, memory, or what a checkpoint may
    /// have to log an image of.
    pub(super) fn fill(&self, log_used_bytes: u64, waiting: Waiting) -> f64 {
        let of = |used: u64, max: u64| used as f64 / max.max(1) as f64;
        let Waiting { dirty, uncovered, .. } = waiting;
        let [log, memory] = self.used(log_used_bytes, waiting);
        log.max(memory)
            .max(of(dirty as u64, self.named_pages_max as u64))
            .max(of(uncovered as u64, self.image_pages_max as u64))
    }

    /// What is used of the log and of memory for pages, each of 1.
    pub(super) fn used(&self, log_used_bytes: u64, waiting: Waiting) -> Room {
        let of = |used: u64, max: u64| used as f64 / max.max(1) as f64;
        let held_pages = (waiting.dirty + waiting.writing) as u64;
        [of(log_used_bytes, self.commit_used_max), of(held_pages, self.held_pages_max() as u64)]
    }

    /// Whether there may be so many pages in memory that are not home. Where they come home one after the other, those on
    /// their way and those that wait share the memory of both.
    pub(super) fn has_frames(&self, waiting: Waiting, defers_writes: bool) -> bool {
        let Waiting { dirty, writing, uncovered } = waiting;
        let has_memory = !defers_writes || dirty + writing <= self.held_pages_max();
        has_memory && dirty <= self.dirty_max(defers_writes) && uncovered <= self.image_pages_max
    }

    /// Frames that may wait for a checkpoint: where pages come home one after the other, as many as one may name.
    pub(super) fn dirty_max(&self, defers_writes: bool) -> usize {
        match defers_writes {
            false => self.dirty_pages_max,
            true => self.named_pages_max.max(self.dirty_pages_max).min(self.held_pages_max()),
        }
    }

    /// Pages that may be in memory for a checkpoint, under way or next.
    fn held_pages_max(&self) -> usize {
        self.dirty_pages_max.saturating_mul(2)
    }

    /// Whether a checkpoint is due, so that no commit has to wait for it.
    pub(super) fn is_half_full(
        &self,
        log_used_bytes: u64,
        dirty_pages: usize,
        uncovered_pages: usize,
    ) -> bool {
        log_used_bytes > self.commit_used_max / 2
            || dirty_pages > self.dirty_pages_max / 2
            || uncovered_pages > self.image_pages_max / 2
    }

    /// Whether a log of `log_bytes`, with `used_bytes` of them in use up to `next`, takes so many images of pages and of the
    /// table. What drives of this kind left there always does; others may have left much more to do.
    pub(super) fn has_room_for_images(
        &self,
        (log_bytes, used_bytes, next): (u64, u64, u64),
        sector_bytes: usize,
        announced_max_bytes: usize,
        (pages, tables): (usize, usize),
    ) -> bool {
        if !self.needs_images {
            return true;
        }
        let in_record = (announced_max_bytes / (TAG_BYTES + PAGE)).max(1);
        let largest = record_bytes(in_record, in_record * PAGE, sector_bytes) as u64;
        let bytes_of = |images: usize| {
            let (full, rest) = (images / in_record, images % in_record);
            let rest = if rest == 0 { 0 } else { record_bytes(rest, rest * PAGE, sector_bytes) as u64 };
            full as u64 * largest + rest
        };
        let needed = bytes_of(pages) + bytes_of(tables);
        let skipped = if next + needed > log_bytes { largest } else { 0 };
        used_bytes + needed + skipped <= log_bytes
    }

    /// Pages that may be unable to go home while the volume takes writes.
    pub(super) fn stuck_pages_max(&self) -> usize {
        self.dirty_pages_max.min(self.image_pages_max) / 4
    }

    /// Whether a volume can take atomic writes of this size, checkpoints beside them.
    pub(super) fn check_suffice(&self, atomic_max_bytes: u64, log_bytes: u64) -> Result<(), Error> {
        if self.dirty_pages_max.min(self.image_pages_max) >= DIRTY_PAGES_MIN
            && self.unit_max_bytes() as u64 >= atomic_max_bytes
        {
            return Ok(());
        }
        if atomic_max_bytes > COMMIT_MAX_BYTES as u64 {
            return Err(Error::Unusable(format!(
                "atomic writes of {} are more than a record holds: {} at most",
                exact_size(atomic_max_bytes),
                exact_size(COMMIT_MAX_BYTES as u64)
            )));
        }
        Err(Error::Unusable(format!(
            "a log of {} is too small for atomic writes of {}",
            exact_size(log_bytes),
            exact_size(atomic_max_bytes)
        )))
    }

    /// How many pages a commit changes that carries a unit of the arena, by what it says of itself, of a volume with
    /// atomic writes of up to `atomic_max_bytes`. All that the volume stores can be carried; `None` for what could not, and
    /// would wait for room for ever.
    pub(super) fn pages_of_unit(&self, extents: &[UnitExtent], atomic_max_bytes: u64) -> Option<u64> {
        let contentless_max = ZERO_CHUNK_PAGES.max(atomic_max_bytes / PAGE_BYTES) + 2;
        let (mut pages, mut contentless_pages, mut bytes) = (0, 0, HEADER_BYTES as u64 + PAGE_BYTES);
        for extent in extents.iter().filter(|extent| extent.content != Content::Superseded) {
            let end = extent.offset.checked_add(extent.len)?;
            let touched = end.div_ceil(PAGE_BYTES) - extent.offset / PAGE_BYTES;
            pages += touched;
            let of_tags = touched.saturating_mul(TAG_BYTES as u64);
            bytes = bytes.saturating_add(of_tags).saturating_add(extent.payload_bytes());
            contentless_pages += if extent.content == Content::Data { 0 } else { touched };
            let is_too_large = pages > self.commit_pages_max() as u64
                || contentless_pages > contentless_max
                || bytes > self.commit_used_max.min(RECORD_BYTES_MAX as u64);
            if is_too_large {
                return None;
            }
        }
        Some(pages)
    }

    /// Largest payload of one commit, with 64 bytes for each of its extents.
    pub(super) fn unit_max_bytes(&self) -> usize {
        let by_pages = self.dirty_pages_max.min(self.image_pages_max).saturating_sub(2) / 2 * PAGE;
        by_pages.min(self.commit_used_max as usize / 3).min(COMMIT_MAX_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::format::record::record_bytes;

    #[test]
    fn a_checkpoint_is_due_once_half_of_anything_is_used() {
        let limits = Limits::of(64 << 20, 512, 1, true, 128 << 10);
        let (log, pages, images) =
            (limits.commit_used_max / 2, limits.dirty_pages_max / 2, limits.image_pages_max / 2);
        assert!(!limits.is_half_full(log, pages, images));
        let waiting = |dirty, uncovered| Waiting { dirty, writing: 0, uncovered };
        assert!(limits.fill(log, waiting(pages, images)) <= 0.5);
        for (log, pages, images) in [(log + 1, 0, 0), (0, pages + 1, 0), (0, 0, images + 1)] {
            assert!(limits.is_half_full(log, pages, images), "{log} bytes, {pages} pages, {images} images");
            let fill = limits.fill(log, waiting(pages, images));
            assert!((0.5..0.51).contains(&fill), "{fill} by {log} bytes, {pages} pages, {images} images");
        }
    }

    #[test]
    fn pages_that_come_home_one_after_the_other_leave_their_memory_to_those_that_wait() {
        let limits = Limits::of(64 << 20, 512, 1, false, 128 << 10).within(1000, 4096);
        let has_frames =
            |dirty, writing, defers| limits.has_frames(Waiting { dirty, writing, uncovered: 0 }, defers);
        assert!(has_frames(1000, 1000, true) && !has_frames(1000, 1001, true));
        assert!(has_frames(1900, 100, true) && !has_frames(1900, 101, true));
        assert!(
            has_frames(1000, 1000, false) && !has_frames(1001, 0, false),
            "all of them come home at once"
        );
        assert_eq!(limits.fill(0, Waiting { dirty: 500, writing: 500, uncovered: 0 }), 0.5);
        assert_eq!((limits.dirty_max(true), limits.dirty_max(false)), (2000, 1000));
    }

    /// Bytes of the log that announcing so many of one kind takes, as a checkpoint cuts them into records.
    fn announced_bytes(count: usize, entry: usize, announced_max_bytes: usize, sector: usize) -> usize {
        let at_once = (announced_max_bytes / entry).max(1);
        let (full, rest) = (count / at_once, count % at_once);
        let record = |entries: usize| record_bytes(0, entries * entry, sector);
        full * record(at_once) + if rest > 0 { record(rest) } else { 0 }
    }

    proptest! {
        #[test]
        fn what_a_checkpoint_says_of_all_that_may_be_dirty_fits_what_is_kept_for_it(
            log_pages in 24..100_000u64, sector_bits in 9..=12u32, table_pages in 1..100_000u64,
            needs_images in any::<bool>(),
            announced_max_bytes in prop_oneof![Just(Tuning::default().announced_max_bytes), 1..10_000usize],
        ) {
            let (log_bytes, sector) = (log_pages * PAGE_BYTES, 1 << sector_bits);
            let limits = Limits::of(log_bytes, sector, table_pages, needs_images, announced_max_bytes)
                .with_direct_tables(PAGE_BYTES, log_bytes);
            let of = |count, entry| announced_bytes(count, entry, announced_max_bytes, sector);
            let pages = limits.dirty_pages_max;
            let of_direct_writes = limits.direct_tables.unwrap_or(0);
            let table = (pages + of_direct_writes).min(table_pages as usize);
            let announced = match needs_images {
                false => of(pages + table, TAG_BYTES),
                true => {
                    let images = limits.image_pages_max.min(pages);
                    of(images, TAG_BYTES + PAGE) + of(pages - images, TAG_BYTES) + of(table, TAG_BYTES + PAGE)
                }
            };
            let record_max = log_bytes as usize / if needs_images { 6 } else { 16 };
            prop_assert!(announced <= record_max, "{announced} of {record_max} for {limits:?}");
        }
    }

    #[test]
    fn a_volume_takes_fresh_pages_however_large_it_is_unless_its_log_hardly_suffices() {
        for size_bytes in [1 << 30, 64 << 30, 16 << 40_u64] {
            let log_bytes = 64 << 20;
            let table_pages = size_bytes / (PAGE_BYTES * SUMS_PER_TABLE_PAGE);
            let limits = limits_of(log_bytes, 512, table_pages, false);
            let shared = limits.with_direct_tables(16 << 10, log_bytes);
            assert!(shared.takes_fresh, "{size_bytes}");
            assert!(shared.direct_tables_max() >= tables_touched_max(shared.dirty_pages_max / 2));
            assert_eq!(shared.dirty_pages_max == limits.dirty_pages_max, limits.takes_fresh, "{size_bytes}");
        }
        let atomic_max_bytes = 1 << 20;
        let least = log_bytes_min(1 << 40, atomic_max_bytes, 512, false).unwrap();
        let shared = limits_of(least, 512, 1 << 19, false).with_direct_tables(atomic_max_bytes, least);
        assert!(shared.check_suffice(atomic_max_bytes, least).is_ok() && !shared.takes_fresh);
    }

    #[test]
    fn the_smallest_log_suffices_and_one_page_less_does_not() {
        for size_bytes in [1 << 20, 8 << 30, 100 << 40_u64] {
            for atomic_max_bytes in [PAGE_BYTES, 16 << 10, 1 << 20, ATOMIC_MAX_BYTES] {
                for (sector_bytes, atomic_sectors) in [(512, true), (512, false), (4096, true), (4096, false)]
                {
                    let least =
                        log_bytes_min(size_bytes, atomic_max_bytes, sector_bytes, atomic_sectors).unwrap();
                    let table_pages = size_bytes.div_ceil(PAGE_BYTES * SUMS_PER_TABLE_PAGE);
                    let suffices = |log_bytes: u64| {
                        limits_of(log_bytes, sector_bytes, table_pages, atomic_sectors)
                            .check_suffice(atomic_max_bytes, log_bytes)
                            .is_ok()
                    };
                    assert!(suffices(least) && !suffices(least - PAGE_BYTES), "{least} for {size_bytes}");
                }
            }
        }
        assert_eq!(log_bytes_min(1 << 20, ATOMIC_MAX_BYTES + 1, 512, true), None);
    }
}
