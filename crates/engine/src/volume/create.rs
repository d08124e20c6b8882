//! Making a volume.

use super::limits::Limits;
use super::superblocks::write_generation;
use crate::device::{Durability, FlushScope};
use crate::error::Error;
use crate::format::layout::{Layout, SizesBefore};
use crate::format::root::RootSums;
use crate::format::superblock::Superblock;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::layout::{JournalStore, PageStore};
use crate::options::{CreateOptions, Tuning};
use crate::size_text::exact_size;

/// Makes a volume on `home`, with its log on `log` where `separate_log`, else on `home` too (then `log` is not
/// looked at). `volume` is a number that no other volume has. What the devices held is lost.
///
/// # Errors
///
/// [`Error::Unusable`] where it does not fit or the log is too small; those of the devices.
pub async fn create<H: PageStore, L: JournalStore>(
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
        return unusable(format!("it needs {} of home and a log of at least a page", exact_size(needed)));
    };
    let log_sector_bytes = if separate_log { log_geometry.sector_bytes } else { home_geometry.sector_bytes };
    if separate_log && layout.log.end() > log_geometry.size_bytes {
        return unusable(format!("its log needs {} of the log device", exact_size(layout.log.end())));
    }
    let limits = Limits::of(
        layout.log.len,
        log_sector_bytes as usize,
        layout.table_pages(),
        !home_geometry.atomic_sectors,
        Tuning::default().announced_max_bytes,
    );
    if options.atomic_max_bytes < PAGE_BYTES {
        return unusable(format!("its largest atomic write has at least {PAGE} bytes"));
    }
    limits.check_suffice(options.atomic_max_bytes, layout.log.len)?;

    if !separate_log && !home.traits().holds_superblocks {
        return unusable("its pages are where no superblock is: it needs a log of its own".to_owned());
    }
    PageStore::init(home, volume).await?;
    if separate_log {
        JournalStore::init(log, volume).await?;
    }
    // Written before use, not merely allocated: a durable write to the log changes no metadata below.
    if separate_log {
        log.write_zeroes(layout.log, Durability::Buffered).await?;
    } else {
        home.write_zeroes(layout.log, Durability::Buffered).await?;
    }
    for zone in layout.roots {
        home.write_zeroes(zone, Durability::Buffered).await?;
    }
    home.flush(FlushScope::Whole).await?;
    if separate_log {
        log.flush(FlushScope::Whole).await?;
    }
    let root_sums = RootSums::of(&vec![page_sum(&[0; PAGE]); (layout.roots[0].len / PAGE_BYTES) as usize]);
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
            whole_root_sum: None,
            root_sums,
            tail_offset: 0,
            tail_sequence: 1,
            tail_epoch: 0,
            epoch_sequence: 0,
            atomic_max_bytes: options.atomic_max_bytes,
            log_sector_bytes,
            acknowledged: 0,
            home_state: home.state(),
            sizes_before: SizesBefore::default(),
            is_closed: false,
        };
        write_generation(home, log, &superblock).await?;
    }
    Ok(())
}
