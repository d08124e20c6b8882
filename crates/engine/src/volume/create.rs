//! Making a volume.

use super::checkpoint::ANNOUNCED_MAX_BYTES;
use super::superblocks::write_generation;
use super::{Limits, ZERO_CHUNK_PAGES};
use crate::device::{Device, Durability, FlushScope};
use crate::error::Error;
use crate::format::layout::Layout;
use crate::format::record::{HEADER_BYTES, TAG_BYTES};
use crate::format::superblock::Superblock;
use crate::format::unit::{Content, UnitExtent};
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::options::CreateOptions;
use crate::planted::{Bug, is_planted};

/// Bytes of zeros written at once.
const ZEROS: usize = 256 << 10;

/// Frames without which a volume could not take a write of its largest atomic size beside others.
const DIRTY_PAGES_MIN: usize = 16;

/// Makes a volume on `home`, with its log on `log` where `separate_log`, else on `home` too (then `log` is not
/// looked at). `volume` is a number that no other volume has. What the devices held is lost.
///
/// # Errors
///
/// [`Error::Unusable`] where it does not fit or the log is too small; those of the devices.
pub async fn create<H: Device, L: Device>(
    home: &H,
    log: &L,
    separate_log: bool,
    options: CreateOptions,
    volume: u64,
) -> Result<(), Error> {
    let unusable = |why: String| Err(Error::Unusable(why));
    let (home_geometry, log_geometry) = (home.geometry(), log.geometry());
    let pages = options.size_bytes / PAGE_BYTES;
    if pages == 0 || !options.size_bytes.is_multiple_of(PAGE_BYTES) {
        return unusable(format!("its size is a multiple of {PAGE} bytes and not 0"));
    }
    let Some(layout) = Layout::plan(pages, home_geometry.size_bytes, options.log_bytes, separate_log) else {
        let needed = Layout::home_bytes_for(pages, options.log_bytes, separate_log);
        return unusable(format!("it needs {needed} bytes of home and a log of at least a page"));
    };
    let log_sector_bytes = if separate_log { log_geometry.sector_bytes } else { home_geometry.sector_bytes };
    if separate_log && layout.log.end() > log_geometry.size_bytes {
        return unusable(format!("its log needs {} bytes of the log device", layout.log.end()));
    }
    let limits = Limits::of(
        layout.log.len,
        log_sector_bytes as usize,
        layout.table_pages(),
        !home_geometry.atomic_sectors,
    );
    if options.atomic_max_bytes < PAGE_BYTES {
        return unusable(format!("its largest atomic write has at least {PAGE} bytes"));
    }
    limits.check_suffice(options.atomic_max_bytes, layout.log.len)?;

    // Written before use, not merely allocated: a durable write to the log changes no metadata below.
    let zeros = vec![0; ZEROS];
    let mut offset = layout.log.offset;
    while offset < layout.log.end() {
        let piece = (layout.log.end() - offset).min(ZEROS as u64) as usize;
        if separate_log {
            log.write(offset, &zeros[..piece], Durability::Buffered).await?;
        } else {
            home.write(offset, &zeros[..piece], Durability::Buffered).await?;
        }
        offset += piece as u64;
    }
    let root = vec![0; layout.roots[0].len as usize];
    for zone in layout.roots {
        home.write(zone.offset, &root, Durability::Buffered).await?;
    }
    home.flush(FlushScope::Whole).await?;
    if separate_log {
        log.flush(FlushScope::Whole).await?;
    }
    for generation in [0, 1] {
        let superblock = Superblock {
            volume,
            generation,
            epoch: 0,
            pages,
            home_bytes: layout.home_bytes,
            log_bytes: layout.log.len,
            separate_log,
            root_slot: 0,
            root_sum: page_sum(&root),
            tail_offset: 0,
            tail_sequence: 1,
            tail_epoch: 0,
            atomic_max_bytes: options.atomic_max_bytes,
            log_sector_bytes,
            acknowledged: 0,
        };
        write_generation(home, log, &superblock).await?;
    }
    Ok(())
}

impl Limits {
    /// What a log of this size and these drives allow.
    ///
    /// A checkpoint logs a sum of each page that it takes home and of its table page; where drives may tear sectors,
    /// an image of each table page, and of each page of which the log does not hold every byte. Kept free is room
    /// for four times such records of the largest kind: those of the last checkpoint, which stay until the next tail;
    /// those of the next; once more of a recovery; and the records of a direct write.
    pub(super) fn of(log_bytes: u64, sector_bytes: usize, table_pages: u64, needs_images: bool) -> Self {
        let record_max = log_bytes / if needs_images { 6 } else { 16 };
        // Sums of all pages; or images of pages, sums of others, and images of the table: each cut into pieces.
        let kinds = if needs_images { 3 } else { 1 };
        let records = record_max as usize / ANNOUNCED_MAX_BYTES + kinds;
        let half = (record_max as usize).saturating_sub(records * (HEADER_BYTES + sector_bytes)) / 2;
        // One half is for the pages, the other for the table's, of which each page may change one.
        let (image_pages_max, dirty_pages_max) = match needs_images {
            false => (usize::MAX, half / TAG_BYTES),
            true => {
                let image = TAG_BYTES + PAGE;
                let whole_table = usize::try_from(table_pages).unwrap_or(usize::MAX).saturating_mul(image);
                let others = match whole_table <= half / 2 {
                    true => (half - whole_table) / TAG_BYTES,
                    false => half / (image + TAG_BYTES),
                };
                (half / image, others)
            }
        };
        let kept_bytes = if is_planted(Bug::NoReserve) { 0 } else { 4 * record_max };
        Self {
            commit_used_max: log_bytes - kept_bytes,
            dirty_pages_max,
            image_pages_max,
            // Records of checkpoints take half of what is kept for them: `dirty_pages_max` is half of what fits.
            carried_max: record_max / 2,
            needs_images: needs_images && !is_planted(Bug::NoImages),
        }
    }

    /// The same with no more dirty pages than `dirty_pages_max`, if that is enough for writes of `atomic_max_bytes`.
    pub(super) fn within(self, dirty_pages_max: usize, atomic_max_bytes: u64) -> Self {
        let needed = 2 * (atomic_max_bytes as usize).div_ceil(PAGE) + 4;
        let bound = dirty_pages_max.max(needed).max(DIRTY_PAGES_MIN);
        Self { dirty_pages_max: self.dirty_pages_max.min(bound), ..self }
    }

    /// Pages that one commit may change: it finds frames once a checkpoint has freed all but those that are stuck.
    pub(super) fn commit_pages_max(&self) -> usize {
        self.dirty_pages_max.min(self.image_pages_max) - self.stuck_pages_max()
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
        Err(Error::Unusable(format!(
            "a log of {log_bytes} bytes is too small for atomic writes of {atomic_max_bytes} bytes"
        )))
    }

    /// Whether a commit can carry a unit of the arena, by what it says of itself. All that the volume stores can be
    /// carried; what could not would wait for room for ever.
    pub(super) fn fit_unit(&self, extents: &[UnitExtent]) -> bool {
        let (mut pages, mut contentless_pages, mut bytes) = (0, 0, HEADER_BYTES as u64 + PAGE_BYTES);
        for extent in extents.iter().filter(|extent| extent.content != Content::Superseded) {
            let Some(end) = extent.offset.checked_add(extent.len) else { return false };
            let touched = end.div_ceil(PAGE_BYTES) - extent.offset / PAGE_BYTES;
            pages += touched;
            let of_tags = touched.saturating_mul(TAG_BYTES as u64);
            bytes = bytes.saturating_add(of_tags).saturating_add(extent.payload_bytes());
            contentless_pages += if extent.content == Content::Data { 0 } else { touched };
            let is_too_large = pages > self.commit_pages_max() as u64
                || contentless_pages > ZERO_CHUNK_PAGES + 2
                || bytes > self.commit_used_max;
            if is_too_large {
                return false;
            }
        }
        true
    }

    /// Largest payload of one commit, with 64 bytes for each of its extents.
    pub(super) fn unit_max_bytes(&self) -> usize {
        let by_pages = self.dirty_pages_max.min(self.image_pages_max).saturating_sub(2) / 2 * PAGE;
        by_pages.min(self.commit_used_max as usize / 3)
    }
}
