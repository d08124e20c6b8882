//! Which volume it is, before anything of it is opened.

use super::superblocks::Superblocks;
use crate::error::Error;
use crate::format::PAGE_BYTES;
use crate::format::layout::SizesBefore;
use crate::format::superblock::Superblock;
use crate::layout::{JournalStore, PageStore, StoreState};

/// What the superblock in force says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The number that the volume was made with.
    pub volume: u64,
    /// Bytes that it offers.
    pub size_bytes: u64,
    /// Largest write that is one commit.
    pub atomic_max_bytes: u64,
    /// Bytes of its log.
    pub log_bytes: u64,
    /// Counts its openings.
    pub epoch: u64,
    /// What the home device had to say of itself.
    pub home_state: StoreState,
    /// Bytes of the home device that it knows of.
    pub home_bytes: u64,
    /// The sizes that it had before it grew.
    pub sizes_before: SizesBefore,
}

/// Bytes of the smallest arena for a volume with atomic writes of so many bytes.
pub fn arena_bytes_min(atomic_max_bytes: u64) -> u64 {
    crate::buffer::arena_bytes_min(atomic_max_bytes)
}

/// Reads which volume is on `home` and `log`, as they are told to [`super::Volume::open`]. Nothing is written.
///
/// # Errors
///
/// [`Error::Unusable`] where they hold none, or each another.
pub async fn identify<H: PageStore, L: JournalStore>(
    home: &H,
    log: &L,
    separate_log: bool,
) -> Result<Identity, Error> {
    Ok(Superblocks::read(home, log, separate_log).await?.superblock.into())
}

impl From<Superblock> for Identity {
    fn from(found: Superblock) -> Self {
        Self {
            volume: found.volume,
            size_bytes: found.pages.saturating_mul(PAGE_BYTES),
            atomic_max_bytes: found.atomic_max_bytes,
            log_bytes: found.log_bytes,
            epoch: found.epoch,
            home_state: found.home_state,
            home_bytes: found.home_bytes,
            sizes_before: found.sizes_before,
        }
    }
}
