//! What can be had of a volume that is damaged, or of which something is missing.
//!
//! ```text
//! mod              opens it in memory, reads it
//!   discover         the superblock and the root that are taken
//!   records          the log, up to what is damaged of it
//!   table            the pages of sums, and which of them something vouches for
//!     table_rebuild    what is made of those that are damaged
//!   damage           the ranges that are not what they should be
//! copies         drives that hold the same, read and never written
//! mirror         which copies of a mirror there are, and what its heads know
//! striped        the same of a ring with stripes
//!   striped_copy   what such a ring offers, a copy for each way to get it
//! arena          a copy of the memory for writes that are not durable
//! ```
//!
//! 1. Nothing is written, to no device and no arena.
//! 2. Every range whose bytes may be other than what was acknowledged last is named. What no sum and no second copy can
//!    tell is as [`crate::volume::Volume::open`] has it: a log that loses its end looks like one that was cut there.
//! 3. Every page whose sum holds is read: what is damaged costs itself, and nothing beside it. A page whose sum is gone is
//!    read as the drive holds it.
//! 4. What the drives hold is hostile: memory is bounded by their size, and nothing panics.

mod arena;
mod copies;
mod damage;
mod discover;
mod mirror;
mod records;
mod striped;
mod striped_copy;
mod table;
mod table_rebuild;

use std::collections::BTreeSet;
use std::rc::Rc;

pub use arena::MemoryArena;
pub use copies::{Copies, Part};
pub use damage::{Cause, Condition, DamageList, DamagedRange, RANGES_MAX};
pub use discover::KnownVolume;
pub use mirror::{MirrorHeads, find_mirror};
pub use striped::find_striped;
pub use striped_copy::{Source, StripedCopy};

use crate::buffer::{ArenaContents, is_of_other_version};
use crate::device::{Device, Extent};
use crate::env::Env;
use crate::error::Error;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::Replicated;
use crate::layout::mirror::mark_of;
use crate::log::Position;
use crate::options::OpenOptions;
use crate::volume::{Basis, UnverifiedTable, Volume, arena_bytes_min};
use records::LogContents;

/// Sectors in which salvage reads.
const SECTOR_BYTES: u32 = 512;

/// A volume that is opened to be salvaged.
pub type SalvagedVolume<E, D> = Volume<E, MemoryArena, Copies<D>, Copies<D>>;

/// What is there of a volume.
#[derive(Debug)]
pub struct Available<D> {
    /// The home device, or the members of a ring, the one that is most trusted first.
    pub home: Vec<Part<D>>,
    /// The log devices that count, or the regions of the members with the log; not where the log lies on the home device.
    pub log: Vec<Part<D>>,
    /// Whether each part of the log may hold what the others lack.
    pub is_log_in_parts: bool,
    /// A copy of the memory for writes that are not durable, if any was left.
    pub arena: Option<MemoryArena>,
    /// Why all of the volume may be older than it was, as far as whoever found these knows.
    pub causes: Vec<Cause>,
}

/// A volume that was opened, and what is known of it.
pub struct Salvaged<E, D> {
    /// It reads, and takes no writes. Ranges that are lost fail.
    pub volume: SalvagedVolume<E, D>,
    /// What is not what it should be, as far as it is known without reading the pages.
    pub named: DamageList,
    /// Records of the log that were taken.
    pub records: u64,
    /// Writes that were taken from memory.
    pub writes: u64,
    /// Records of checkpoints that are damaged and were not needed.
    pub passed_records: Vec<u64>,
    /// Whether the volume was stopped in order.
    pub is_closed: bool,
    /// The same, or it was never opened, or its superblock cannot tell.
    pub follows_stop: bool,
}

/// Opens what there is of a volume. `progress` is told of the pages of the table that were looked at, and of all.
///
/// # Errors
///
/// [`Error::Unusable`] where nothing says how the volume lies on the drives.
pub async fn open<E: Env, D: Device>(
    env: E,
    available: Available<D>,
    known: &KnownVolume,
    options: OpenOptions,
    progress: impl Fn(u64, u64),
) -> Result<Salvaged<E, D>, Error> {
    let Available { home, log, is_log_in_parts, arena, mut causes } = available;
    let home = Copies::new(home, SECTOR_BYTES, false);
    let mut log = match known.separate_log {
        true => Some(Copies::new(log, SECTOR_BYTES, is_log_in_parts)).filter(|log| log.replicas() > 0),
        false => Some(home.clone()),
    };
    if let Some(devices) = log.as_ref().filter(|_| known.is_ring && !is_log_in_parts)
        && discover::is_log_outdone(&home, devices, known).await
    {
        log = None;
        causes.retain(|&cause| cause != Cause::MemberMissing);
    }
    let mut evidence = discover::evidence(&home, log.as_ref(), known).await;
    let (mut state, mut taken) = discover::discover(&home, log.as_ref(), known, &evidence).await?;
    let is_home_older = evidence.is_home_older && state.root.is_whole() && taken.damaged.is_some();
    let all_causes = &mut evidence.causes;
    all_causes.extend(causes);
    let superblock = state.superblock;
    let is_stale = known.is_ring && !all_causes.contains(&Cause::NoSuperblock) && {
        known.heads.mark.is_some_and(|mark| mark < mark_of(superblock.home_state))
    };
    if is_stale {
        all_causes.push(Cause::MembersStale);
        // What it changed belongs over newer pages.
        taken = LogContents::nothing(&superblock);
    }
    match taken.damaged {
        // What it was to begin with is there no more: newer records are.
        Some(_) if is_home_older => all_causes.push(Cause::HomeOlder),
        Some(record) => all_causes.push(Cause::RecordDamaged(record)),
        // Something knows of a newer record than any that is there.
        None if taken.next.sequence <= evidence.acknowledged && all_causes.is_empty() => {
            all_causes.push(Cause::HomeOlder);
        }
        None => {}
    }
    let mut doubts = UnverifiedTable::default();
    table::fill_root(&home, &state.layout, &mut state.root, &mut doubts).await;

    if arena.as_ref().is_some_and(is_of_other_version) {
        all_causes.push(Cause::ArenaOfOtherVersion);
    }
    // Writes in memory belong over the newest state, and no other.
    let is_ours = |arena: &MemoryArena| {
        ArenaContents::of(arena).is_some_and(|found| found.writes > 0 && found.volume == known.volume)
    };
    let arena = arena.filter(is_ours);
    if arena.is_some() && !all_causes.is_empty() {
        all_causes.push(Cause::ArenaRefused);
    }
    let arena = arena.filter(|_| all_causes.is_empty());
    let log = log.unwrap_or_else(|| Copies::new(Vec::new(), SECTOR_BYTES, false));
    let attempts =
        Attempts { env, home: &home, log: &log, state: &state, unvouched: doubts.unvouched, options };
    let (interrupted, passed_records) = (taken.interrupted(), taken.passed.clone());
    let (opened, refused) = attempts.open(taken, arena).await?;
    all_causes.extend(refused);
    let (volume, doubts) = opened;

    let mut named = DamageList::default();
    let all = Extent::new(0, superblock.pages * PAGE_BYTES);
    all_causes.sort_unstable();
    all_causes.dedup();
    for &cause in all_causes.iter() {
        let condition = match cause {
            Cause::NoSuperblock => Condition::Uncertain,
            _ => Condition::Stale,
        };
        named.add(all, condition, cause);
    }
    for page in interrupted.into_iter().filter(|&page| page < superblock.pages) {
        named.add(records::bytes_of(page), Condition::Uncertain, Cause::WriteInterrupted);
    }
    let is_all_named = is_stale || all_causes.contains(&Cause::NoSuperblock);
    table::vouch(volume.home(), &state.root, is_all_named, &doubts, &mut named, &progress).await;
    let counters = volume.counters();
    Ok(Salvaged {
        volume,
        named,
        records: counters.replayed_records,
        writes: counters.replayed_units,
        passed_records,
        is_closed: superblock.is_closed,
        follows_stop: superblock.follows_stop(),
    })
}

/// What is opened, and how.
struct Attempts<'a, E, D> {
    env: E,
    home: &'a Copies<D>,
    log: &'a Copies<D>,
    state: &'a discover::State,
    /// Pages of the table for which no root vouches.
    unvouched: BTreeSet<u64>,
    options: OpenOptions,
}

type Opened<E, D> = (SalvagedVolume<E, D>, UnverifiedTable);

impl<E: Env, D: Device> Attempts<'_, E, D> {
    /// Opens it with the log and the arena; without what does not belong to it, and why then.
    async fn open(
        &self,
        taken: LogContents,
        arena: Option<MemoryArena>,
    ) -> Result<(Opened<E, D>, Vec<Cause>), Error> {
        let has_arena = arena.is_some();
        let end = taken.next;
        let mut refused = match self.open_with(taken, arena).await {
            Ok(opened) => return Ok((opened, Vec::new())),
            Err(_) if has_arena => vec![Cause::ArenaRefused],
            Err(_) => Vec::new(),
        };
        if has_arena {
            let again = records::take(self.log, &self.state.layout, &self.state.superblock).await;
            if let Ok(opened) = self.open_with(again, None).await {
                return Ok((opened, refused));
            }
        }
        let nothing =
            LogContents { next: Position { ..end }, ..LogContents::nothing(&self.state.superblock) };
        refused.push(Cause::LogUnsound);
        Ok((self.open_with(nothing, None).await?, refused))
    }

    async fn open_with(&self, taken: LogContents, arena: Option<MemoryArena>) -> Result<Opened<E, D>, Error> {
        let superblock = self.state.superblock;
        let arena = arena.unwrap_or_else(|| {
            MemoryArena::empty(
                usize::try_from(arena_bytes_min(superblock.atomic_max_bytes)).unwrap_or(usize::MAX),
            )
        });
        let basis = Basis {
            home: Rc::new(self.home.clone()),
            log: Rc::new(self.log.clone()),
            superblock,
            layout: self.state.layout.clone(),
            root: self.state.root.words.clone(),
            records: taken.records,
            next: taken.next,
            unvouched: self.unvouched.clone(),
        };
        Volume::open_read_only(self.env.clone(), arena, basis, self.options).await
    }
}

impl<E: Env, D: Device> Salvaged<E, D> {
    /// Bytes that it offers.
    pub fn size_bytes(&self) -> u64 {
        self.volume.size_bytes()
    }

    /// Fills `into` from `offset`, both whole pages within the volume. What is lost is zeros there, and named in `lost`.
    pub async fn read(&self, offset: u64, into: &mut [u8], lost: &mut DamageList) {
        debug_assert!(offset.is_multiple_of(PAGE_BYTES) && into.len().is_multiple_of(PAGE));
        if self.volume.read(offset, into).await.is_ok() {
            return;
        }
        for (offset, page) in (offset..).step_by(PAGE).zip(into.chunks_mut(PAGE)) {
            let cause = match self.volume.read(offset, page).await {
                Ok(()) => continue,
                Err(Error::Device(_)) => Cause::PageUnreadable,
                Err(_) => Cause::PageDamaged,
            };
            page.fill(0);
            lost.add(Extent::new(offset, page.len() as u64), Condition::Lost, cause);
        }
    }
}
