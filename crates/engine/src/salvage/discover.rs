//! Which state of the volume the drives hold: the superblock that is taken, and the root.
//!
//! 1. Every whole superblock of this volume counts as evidence of what there was. An older one is taken only if the log,
//!    from its tail on, leads to the newest record that any of them knows of: so nothing is older than it has to be.
//! 2. Nothing is allocated by a number that a superblock says before the drive is known to be as large.

use super::copies::Copies;
use super::damage::Cause;
use super::mirror::MirrorHeads;
use super::records::{self, LogContents};
use crate::device::Device;
use crate::error::Error;
use crate::format::layout::{
    HOME_COPIES, LOG_COPIES, Layout, Size, SizesBefore, home_copy_offset, log_copy_offset,
};
use crate::format::root::{RootSums, piece_pages};
use crate::format::superblock::Superblock;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::layout::{Replicated, StoreState};
use crate::volume::ATOMIC_MAX_BYTES;

/// Superblocks of different generations of which the root is looked for.
const TRIED_MAX: usize = 8;

/// What is known of a volume without its superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownVolume {
    /// The number that it was made with.
    pub volume: u64,
    /// Bytes that it offers.
    pub size_bytes: u64,
    /// Largest write that is one commit.
    pub atomic_max_bytes: u64,
    /// Bytes of its log, where that is known.
    pub log_bytes: Option<u64>,
    /// The sizes that it had before it grew.
    pub sizes_before: SizesBefore,
    /// Whether the log has a device of its own.
    pub separate_log: bool,
    /// Whether the home device is a ring, whose superblocks are on the log devices.
    pub is_ring: bool,
    /// What the members of a ring know of it.
    pub heads: MirrorHeads,
}

impl KnownVolume {
    /// How it lies on a home device of so many bytes, or would if that were as large as it has to be; `None` where its
    /// numbers are those of no volume.
    fn layout_on(&self, home_bytes: u64) -> Option<Layout> {
        let size = Size { pages: self.size_bytes / PAGE_BYTES, home_bytes };
        let mut sizes = self.sizes_before.as_slice().iter().copied().chain([size]);
        let made = sizes.next()?;
        // A home with the log on it is as large as it has to be, unless it is a block device.
        let beside_log = Layout::home_bytes_for(made.pages, 0, true);
        let log_bytes = match self.log_bytes {
            Some(bytes) => bytes,
            None if self.separate_log => PAGE_BYTES,
            None => made.home_bytes.saturating_sub(beside_log),
        };
        let needed = Layout::home_bytes_for(made.pages, log_bytes, self.separate_log);
        let layout = Layout::plan(made.pages, made.home_bytes.max(needed), log_bytes, self.separate_log)?;
        sizes.try_fold(layout, |layout, size| {
            let needed = layout.home_bytes_to_grow(size.pages)?;
            layout.grown(Size { home_bytes: size.home_bytes.max(needed), ..size })
        })
    }
}

/// What the superblocks say.
#[derive(Debug)]
pub(super) struct Evidence {
    /// Those that are whole, one of each generation, the newest first.
    candidates: Vec<Superblock>,
    /// The one that is taken where nothing leads to the newest state, by its generation.
    base: u64,
    /// The newest record that any of them knows to be acknowledged.
    pub(super) acknowledged: u64,
    /// Whether the home device says of itself that it is older than the log, which is written after it.
    pub(super) is_home_older: bool,
    /// Why all of the volume may be older than it was, or nothing vouches for it.
    pub(super) causes: Vec<Cause>,
}

/// A state of the volume.
#[derive(Debug)]
pub(super) struct State {
    pub(super) superblock: Superblock,
    pub(super) layout: Layout,
    pub(super) root: FoundRoot,
}

/// The sums of the table's pages.
#[derive(Debug)]
pub(super) struct FoundRoot {
    /// Of each page of the table, as far as the last page of the root.
    pub(super) words: Vec<u64>,
    /// Of each page of the root, whether the superblock vouches for it.
    pub(super) is_vouched: Vec<bool>,
}

impl FoundRoot {
    pub(super) fn is_whole(&self) -> bool {
        self.is_vouched.iter().all(|&is| is)
    }

    /// Whether the sum of this page of the table is what the superblock stands for.
    pub(super) fn vouches_for(&self, table_page: u64) -> bool {
        self.is_vouched.get((table_page / (PAGE_BYTES / 8)) as usize).is_some_and(|&is| is)
    }
}

/// Reads every superblock.
pub(super) async fn evidence<D: Device>(
    home: &Copies<D>,
    log: Option<&Copies<D>>,
    known: &KnownVolume,
) -> Evidence {
    let on_log = match log {
        Some(log) => superblocks(log, (0..LOG_COPIES).map(log_copy_offset), known).await,
        None => Vec::new(),
    };
    let home_bytes = home.geometry().size_bytes;
    let on_home = match known.is_ring {
        // What an opening left there that ended in order: it counts where nobody can know of a later one.
        true if on_log.is_empty() => left_behind(home, known).await.into_iter().collect(),
        true => Vec::new(),
        false => {
            let at_start =
                superblocks(home, (0..2).map(|copy| home_copy_offset(home_bytes, copy)), known).await;
            let sizes = on_log.iter().chain(&at_start).map(|found| found.home_bytes).chain([home_bytes]);
            let mut offsets: Vec<u64> = sizes
                .filter(|&bytes| bytes / PAGE_BYTES > HOME_COPIES as u64)
                .flat_map(|bytes| (0..HOME_COPIES).map(move |copy| home_copy_offset(bytes, copy)))
                .collect();
            offsets.sort_unstable();
            offsets.dedup();
            superblocks(home, offsets.into_iter(), known).await
        }
    };
    let mut candidates: Vec<Superblock> = on_log.iter().chain(&on_home).copied().collect();
    candidates.sort_unstable_by_key(|found| std::cmp::Reverse(found.generation));
    candidates.dedup_by_key(|found| found.generation);
    let newest_of = |found: &[Superblock]| found.iter().map(|it| it.generation).max();
    let newest = newest_of(&candidates).unwrap_or(0);
    let mut causes = Vec::new();
    if candidates.is_empty() {
        causes.push(Cause::NoSuperblock);
    }
    match log {
        None if candidates.is_empty() => causes.push(Cause::LogGone),
        _ if !candidates.is_empty() && newest < known.heads.superblock => causes.push(Cause::LogOlder),
        _ => {}
    }
    let is_closed = candidates.first().is_some_and(|newest| newest.is_closed);
    let (at_home, at_log) = (newest_of(&on_home), newest_of(&on_log));
    if known.separate_log && !is_closed && !candidates.is_empty() {
        match (log, at_log) {
            (None, _) => causes.push(Cause::LogLost),
            (Some(_), None) => causes.push(Cause::LogUnknown),
            // A log that lags by one was cut between the two drives.
            (Some(_), Some(at_log)) if at_log + 1 < at_home.unwrap_or(0) => causes.push(Cause::LogOlder),
            _ => {}
        }
    }
    let is_home_older = known.separate_log && at_home.is_some() && at_home < at_log;
    let acknowledged = candidates.iter().map(|it| it.acknowledged).max().unwrap_or(0);
    Evidence { candidates, base: at_home.unwrap_or(newest), acknowledged, is_home_older, causes }
}

/// What an opening that ended in order left on all members of a ring: it counts where nobody can know of a later one.
async fn left_behind<D: Device>(home: &Copies<D>, known: &KnownVolume) -> Option<Superblock> {
    let offsets = (0..2).map(|copy| home_copy_offset(home.geometry().size_bytes, copy));
    let left = if known.heads.are_all { superblocks(home, offsets, known).await } else { Vec::new() };
    left.into_iter().find(|found| found.is_closed && found.generation == known.heads.superblock)
}

/// Whether all members of a ring say that it was stopped in order, and its log devices know less than they: then nothing is
/// needed of these, whatever they are.
pub(super) async fn is_log_outdone<D: Device>(
    home: &Copies<D>,
    log: &Copies<D>,
    known: &KnownVolume,
) -> bool {
    let Some(left) = left_behind(home, known).await else { return false };
    let on_log = superblocks(log, (0..LOG_COPIES).map(log_copy_offset), known).await;
    on_log.iter().all(|found| found.generation < left.generation)
}

/// The state to take, and what the log adds to it: the newest whose root is whole and from which the log leads to the
/// newest record that anything knows of; else the newest on the home device.
///
/// # Errors
///
/// [`Error::Unusable`] where nothing says how the volume lies on the drives.
pub(super) async fn discover<D: Device>(
    home: &Copies<D>,
    log: Option<&Copies<D>>,
    known: &KnownVolume,
    evidence: &Evidence,
) -> Result<(State, LogContents), Error> {
    let cut_short = || {
        Error::Unusable("the drive with the pages ends before their checksums do: nothing of them can be had from it, bring back a copy of it".to_owned())
    };
    let Some(newest) = evidence.candidates.first() else {
        let state = without_superblock(home, known).await?;
        let taken = LogContents::nothing(&state.superblock);
        return Ok((state, taken));
    };
    let take = async |state: &State| match log {
        Some(log) if !state.superblock.is_closed => {
            records::take(log, &state.layout, &state.superblock).await
        }
        _ => LogContents::nothing(&state.superblock),
    };
    // Of one that was smaller the log says nothing of what came since.
    let is_as_large = |it: &&Superblock| (it.pages, it.home_bytes) == (newest.pages, newest.home_bytes);
    for candidate in evidence.candidates.iter().filter(is_as_large).take(TRIED_MAX) {
        let Some(state) = state_of(home, &as_tail_of(newest, candidate)).await else { continue };
        if !state.root.is_whole() {
            continue;
        }
        let taken = take(&state).await;
        if taken.damaged.is_none() && taken.next.sequence > evidence.acknowledged {
            return Ok((state, taken));
        }
    }
    let base = evidence.candidates.iter().find(|it| it.generation == evidence.base).unwrap_or(newest);
    let state = match state_of(home, &as_tail_of(newest, base)).await {
        Some(state) => state,
        None => {
            let mut found = None;
            for candidate in evidence.candidates.iter().take(TRIED_MAX) {
                found = found.or(state_of(home, &as_tail_of(newest, candidate)).await);
            }
            found.ok_or_else(cut_short)?
        }
    };
    let taken = take(&state).await;
    Ok((state, taken))
}

/// The state that a superblock stands for, if its root can lie on this device.
async fn state_of<D: Device>(home: &Copies<D>, superblock: &Superblock) -> Option<State> {
    let size_bytes = home.geometry().size_bytes;
    let layout = superblock.layout().filter(|it| it.roots.iter().all(|root| root.fits(size_bytes)))?;
    let root = find_root(home, &layout, superblock).await;
    Some(State { superblock: *superblock, layout, root })
}

/// An older superblock, from whose tail the log leads on to what the newest stands for: with its openings, so that their
/// records are known.
fn as_tail_of(newest: &Superblock, older: &Superblock) -> Superblock {
    let Superblock { epoch, epoch_sequence, .. } = *newest;
    match older.generation == newest.generation {
        true => *newest,
        false => Superblock { epoch, epoch_sequence, is_closed: false, ..*older },
    }
}

/// Every whole superblock of this volume at one of `offsets`.
async fn superblocks<D: Device>(
    device: &Copies<D>,
    offsets: impl Iterator<Item = u64>,
    known: &KnownVolume,
) -> Vec<Superblock> {
    let mut found = Vec::new();
    for offset in offsets {
        for copy in 0..device.replicas() {
            let mut page = [0; PAGE];
            if device.read_replica(copy, offset, &mut page).await.is_ok() {
                found.extend(Superblock::decode(&page).filter(|it| {
                    let is_sound = it.atomic_max_bytes <= ATOMIC_MAX_BYTES;
                    it.volume == known.volume && it.separate_log == known.separate_log && is_sound
                }));
            }
        }
    }
    found
}

/// The root of this superblock, as far as any copy of either place has it; what is nowhere whole, as it is found where
/// the superblock says that it is.
async fn find_root<D: Device>(home: &Copies<D>, layout: &Layout, superblock: &Superblock) -> FoundRoot {
    let root_pages = (layout.roots[0].len / PAGE_BYTES) as usize;
    let (named, other) = (superblock.root_slot, 1 - superblock.root_slot);
    let piece_pages = match superblock.whole_root_sum {
        Some(_) => root_pages,
        None => piece_pages(root_pages),
    };
    let (mut words, mut is_vouched) =
        (Vec::with_capacity(root_pages * PAGE / 8), Vec::with_capacity(root_pages));
    let mut bytes = Vec::new();
    for (piece, first) in (0..root_pages).step_by(piece_pages).enumerate() {
        let pages = piece_pages.min(root_pages - first);
        bytes.resize(pages * PAGE, 0);
        let is_right = |bytes: &[u8]| match superblock.whole_root_sum {
            Some(sum) => page_sum(bytes) == sum,
            None => {
                let sums: Vec<u64> = bytes.chunks_exact(PAGE).map(page_sum).collect();
                superblock.root_sums.is_right(piece, &sums)
            }
        };
        let mut is_whole = false;
        'found: for slot in [named, other] {
            let offset = layout.roots[usize::from(slot)].offset + (first * PAGE) as u64;
            for copy in 0..home.replicas() {
                is_whole = home.read_replica(copy, offset, &mut bytes).await.is_ok() && is_right(&bytes);
                if is_whole {
                    break 'found;
                }
            }
        }
        if !is_whole {
            let offset = layout.roots[usize::from(named)].offset + (first * PAGE) as u64;
            for (offset, page) in (offset..).step_by(PAGE).zip(bytes.chunks_exact_mut(PAGE)) {
                if home.read(offset, page).await.is_err() {
                    page.fill(0);
                }
            }
        }
        let found = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("words")));
        words.extend(found);
        is_vouched.extend(std::iter::repeat_n(is_whole, pages));
    }
    FoundRoot { words, is_vouched }
}

/// What the description says of the volume, taken for its superblock: nothing vouches for the table of sums.
async fn without_superblock<D: Device>(home: &Copies<D>, known: &KnownVolume) -> Result<State, Error> {
    let unusable = |why: &str| Error::Unusable(why.to_owned());
    let layout = known
        .layout_on(home.geometry().size_bytes / PAGE_BYTES * PAGE_BYTES)
        .filter(|it| it.roots.iter().all(|root| root.fits(home.geometry().size_bytes)))
        .ok_or_else(|| unusable("no superblock can be read, and the drive with the pages is too small"))?;
    let superblock = Superblock {
        volume: known.volume,
        generation: 0,
        epoch: 0,
        pages: layout.pages,
        home_bytes: layout.home_bytes,
        log_bytes: layout.log.len,
        separate_log: known.separate_log,
        root_slot: 0,
        whole_root_sum: None,
        root_sums: RootSums::NONE,
        tail_offset: 0,
        tail_sequence: 1,
        tail_epoch: 0,
        epoch_sequence: 0,
        atomic_max_bytes: known.atomic_max_bytes.min(ATOMIC_MAX_BYTES),
        log_sector_bytes: PAGE as u32,
        acknowledged: 0,
        home_state: StoreState::default(),
        is_closed: false,
        sizes_before: known.sizes_before,
    };
    let root = find_root(home, &layout, &superblock).await;
    Ok(State { superblock, layout, root })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_description_says_is_where_a_volume_lies_that_has_grown_or_not() {
        for separate_log in [true, false] {
            let log_bytes = 64 * PAGE_BYTES;
            let size = |pages| Size { pages, home_bytes: (pages + 2_000) * PAGE_BYTES };
            for sizes in
                [vec![size(100)], vec![size(100), size(600)], vec![size(100), size(600), size(600_000)]]
            {
                let (now, before) = sizes.split_last().unwrap();
                let sizes_before = SizesBefore::of(before).unwrap();
                let layout = Layout::of(*now, &sizes_before, log_bytes, separate_log).unwrap();
                let known = KnownVolume {
                    volume: 1,
                    size_bytes: now.pages * PAGE_BYTES,
                    atomic_max_bytes: PAGE_BYTES,
                    log_bytes: Some(log_bytes),
                    sizes_before,
                    separate_log,
                    is_ring: false,
                    heads: MirrorHeads::default(),
                };
                assert_eq!(known.layout_on(now.home_bytes), Some(layout.clone()));
                // Of a drive that was cut short it is known where all of it was.
                let cut_short = known.layout_on(10 * PAGE_BYTES).unwrap();
                assert_eq!((cut_short.roots, cut_short.segments), (layout.roots, layout.segments));
            }
        }
    }
}
