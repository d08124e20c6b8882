//! What of the superblocks and the root is damaged, before anything of a volume is opened: an opening writes them anew.
//!
//! 1. Nothing is written.
//! 2. What a cut may leave is no damage: where the volume was not stopped in order, one copy of the superblock may be torn,
//!    and the place of the root that is not named may hold anything.

use super::roots::wrong_pieces;
use super::superblocks::{SuperblockCopy, Superblocks};
use crate::error::Error;
use crate::format::PAGE;
use crate::format::layout::{HOME_COPIES, LOG_COPIES, home_copy_offset, log_copy_offset};
use crate::format::superblock::Superblock;
use crate::layout::{JournalStore, PageStore, Replicated};

/// What is damaged of the superblocks and the root, as the devices hold them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Inspection {
    /// Each with the number of the device among those of its kind.
    pub damaged_superblocks: Vec<(SuperblockCopy, usize)>,
    /// Places of the root. Not where there are replicas, of which some may lack writes.
    pub damaged_roots: Vec<u8>,
    /// Whether the volume was stopped in order.
    pub is_closed: bool,
}

/// Reads every copy of the superblock and of the root on `home` and `log`, as they are told to
/// [`super::Volume::open`].
///
/// # Errors
///
/// [`Error::Unusable`] where they hold no volume, or each another.
pub async fn inspect<H: PageStore, L: JournalStore>(
    home: &H,
    log: &L,
    separate_log: bool,
) -> Result<Inspection, Error> {
    let superblock = Superblocks::read(home, log, separate_log).await?.superblock;
    let mut found = Inspection { is_closed: superblock.is_closed, ..Inspection::default() };
    let mut torn = Vec::new();
    if home.traits().holds_superblocks {
        for copy in 0..HOME_COPIES {
            let offset = home_copy_offset(superblock.home_bytes, copy);
            let at = (SuperblockCopy::Home(copy), 0);
            examine(home, 0, offset, at, &superblock, &mut found, &mut torn).await;
        }
    }
    // Of a log that is scattered each replica has what came in its turn.
    if separate_log && !log.is_scattered() {
        for device in (0..log.replicas()).filter(|&device| log.has_replica(device)) {
            for copy in 0..LOG_COPIES {
                let at = (SuperblockCopy::Log(copy), device);
                examine(log, device, log_copy_offset(copy), at, &superblock, &mut found, &mut torn).await;
            }
        }
    }
    if torn.len() > 1 || superblock.is_closed {
        found.damaged_superblocks.append(&mut torn);
    }
    // Of replicas some may lack writes, which only an opening finds out.
    if !home.traits().is_replicated
        && let Some(layout) = superblock.layout()
        && layout.home_bytes <= home.geometry().size_bytes
    {
        let slots = match superblock.is_closed {
            true => vec![superblock.root_slot, 1 - superblock.root_slot],
            false => vec![superblock.root_slot],
        };
        for slot in slots {
            if wrong_pieces(home, &layout, &superblock, slot).await {
                found.damaged_roots.push(slot);
            }
        }
    }
    found.damaged_superblocks.sort_unstable();
    Ok(found)
}

/// Reads one copy; one that is not whole, though it can be read, may be torn.
async fn examine<D: Replicated>(
    device: &D,
    copy: usize,
    offset: u64,
    at: (SuperblockCopy, usize),
    newest: &Superblock,
    found: &mut Inspection,
    torn: &mut Vec<(SuperblockCopy, usize)>,
) {
    let number = match at.0 {
        SuperblockCopy::Home(number) | SuperblockCopy::Log(number) => number as u64,
    };
    // The opening that ended in order wrote every copy.
    let expected = match number % 2 == newest.generation % 2 {
        true => newest.generation,
        false => newest.generation.saturating_sub(1),
    };
    let mut page = [0; PAGE];
    if device.read_replica(copy, offset, &mut page).await.is_err() {
        found.damaged_superblocks.push(at);
        return;
    }
    match Superblock::decode(&page) {
        None => torn.push(at),
        Some(it) if it.volume != newest.volume || (newest.is_closed && it.generation != expected) => {
            found.damaged_superblocks.push(at);
        }
        Some(_) => {}
    }
}
