//! Making the log of a volume once more, that was stopped in order and lost it.
//!
//! 1. The home device is not written. It has to say that everything is home: then a log holds nothing that counts.
//! 2. A log that may hold anything that home lacks is left alone, as is one that belongs to home.
//! 3. The superblocks come last, behind zeros that are durable: cut before that, the device holds no log, and the same
//!    can be done again.

use super::open::check_log_sectors;
use super::superblocks::{read_home, read_log};
use crate::device::{Durability, Extent, FlushScope};
use crate::error::Error;
use crate::format::layout::{HOME_BYTES_MIN, log_bytes_with_superblocks, log_copy_offset};
use crate::format::superblock::Superblock;
use crate::layout::{JournalStore, PageStore};
use crate::size_text::exact_size;

/// A log that is to be made once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRenewal {
    /// The number that the volume was made with.
    pub volume: u64,
    /// Bytes that the log device must have.
    pub device_bytes: u64,
}

/// What it takes to make the log of the volume on `home` once more. Nothing is written.
///
/// # Errors
///
/// [`Error::Unusable`] where the volume was not stopped in order, or has no log device of its own.
pub async fn plan_log_renewal<H: PageStore>(home: &H) -> Result<LogRenewal, Error> {
    let superblock = closed(home).await?;
    Ok(LogRenewal {
        volume: superblock.volume,
        device_bytes: log_bytes_with_superblocks(superblock.log_bytes),
    })
}

/// That `log` is not the log of the volume on `home`: it may be overwritten. Nothing is written.
///
/// # Errors
///
/// [`Error::Unusable`] where it is; as [`plan_log_renewal`].
pub async fn check_log_is_lost<H: PageStore, L: JournalStore>(home: &H, log: &L) -> Result<(), Error> {
    check_is_lost(home, log, log.geometry().size_bytes).await
}

/// The same of a log device that was `found_bytes` long when it was found.
async fn check_is_lost<H: PageStore, L: JournalStore>(
    home: &H,
    log: &L,
    found_bytes: u64,
) -> Result<(), Error> {
    let at_home = closed(home).await?;
    let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
    // One that was cut short, as by a copy onto a full disk, is as good as gone.
    let is_all_there = found_bytes >= log_bytes_with_superblocks(at_home.log_bytes);
    match read_log(log).await? {
        Some(at_log) if at_log.volume != at_home.volume => Ok(()),
        Some(at_log) if at_log.generation > at_home.generation => unusable(
            "its log is newer than the home device, and holds what that lacks: bring back the home device that belongs to \
             this log",
        ),
        Some(at_log) if at_log.generation + 1 >= at_home.generation && is_all_there => {
            unusable("its log is there and belongs to it: it does not have to be made again")
        }
        _ => Ok(()),
    }
}

/// Makes `log` an empty log of the volume on `home`. What it held is lost. It was `found_bytes` long when it was found:
/// a file may have been made longer since.
///
/// # Errors
///
/// As [`check_log_is_lost`]; [`Error::Unusable`] for a device that is too small or writes too much at once; those of the
/// devices.
pub async fn renew_log<H: PageStore, L: JournalStore>(
    home: &H,
    log: &L,
    found_bytes: u64,
) -> Result<(), Error> {
    let superblock = closed(home).await?;
    check_is_lost(home, log, found_bytes).await?;
    let geometry = log.geometry();
    check_log_sectors(&superblock, geometry.sector_bytes)?;
    let needed = log_bytes_with_superblocks(superblock.log_bytes);
    if geometry.size_bytes < needed {
        return Err(Error::Unusable(format!("its log needs {} of the log device", exact_size(needed))));
    }
    JournalStore::init(log, superblock.volume).await?;
    log.write_zeroes(Extent::new(0, needed), Durability::Buffered).await?;
    log.flush(FlushScope::Whole).await?;
    // Both copies: the next opening overwrites one of them, and a cut may tear that.
    for generation in superblock.generation.saturating_sub(1)..=superblock.generation {
        let page = Superblock { generation, ..superblock }.encode();
        log.write(log_copy_offset((generation % 2) as usize), &page, Durability::Durable).await?;
    }
    Ok(())
}

/// The superblock on the home device, of a volume that was stopped in order.
async fn closed<H: PageStore>(home: &H) -> Result<Superblock, Error> {
    let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
    if !home.traits().holds_superblocks {
        return unusable("it is a mirror, whose log devices alone say whether it was stopped in order");
    }
    let home_bytes = home.geometry().size_bytes;
    let found = match home_bytes < HOME_BYTES_MIN {
        true => None,
        false => read_home(home, home_bytes).await?,
    };
    match found {
        None => unusable("the home device holds no whole superblock"),
        Some(found) if !found.separate_log => unusable("its log lies on the home device, and has no other"),
        Some(found) if !found.is_closed => {
            unusable("it was not stopped in order: its log held writes that are nowhere else")
        }
        Some(found) => Ok(found),
    }
}
