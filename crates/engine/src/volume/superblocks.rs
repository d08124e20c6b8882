//! The superblocks of an open volume: read once, written in turns.
//!
//! 1. A new generation goes to the copies of its parity, home device first, each durably: a cut leaves the
//!    generation before it whole, and a home device never legitimately older than the log device.
//! 2. The log device never lags by more than one generation: the next one is not begun before it holds the last one,
//!    neither after a failure nor by the next opening. Else a cut that tore its newer copy and one that tears its older
//!    copy would together leave it none. A log that lags by more was put back, or lost what it had called durable.
//! 3. Where the home is a ring, whose members are written only in their turns, the log devices alone hold it, with what
//!    the ring wants remembered. The newest on any of them counts, and the others catch up before it is used.
//!    The ring is told of each, and its members say so by the next flush or stop: no older one is taken for it later.
//!    The last one of an opening that ends in order goes to the members too, once the log devices have it: no opening reads
//!    it there, and it can be told from it that the log devices are not needed ([`super::renew_mirror_logs`]).
//! 4. A copy that does not decode is never taken for anything, nor repaired by being overwritten out of turn.

use std::cell::Cell;
use std::rc::Rc;

use crate::counters::{Counters, add};
use crate::device::{Device, Durability};
use crate::error::Error;
use crate::format::layout::{HOME_BYTES_MIN, HOME_COPIES, LOG_COPIES, home_copy_offset, log_copy_offset};
use crate::format::superblock::Superblock;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::{JournalStore, PageStore, Replicated};
use crate::planted::{Bug, is_planted};

/// Generations by which a log device may lag behind the home device.
const LAG_MAX: u64 = 1;

/// What the devices hold.
pub(super) struct InForce {
    pub(super) superblock: Superblock,
    /// Whether the log device does not hold it: a cut came between the two devices.
    pub(super) log_lags: bool,
}

/// The superblock in force, and where it is written.
pub(super) struct Superblocks<H, L> {
    home: Rc<H>,
    log: Rc<L>,
    current: Cell<Superblock>,
    /// The one before, where this opening wrote it.
    previous: Cell<Option<Superblock>>,
    counters: Rc<Counters>,
}

/// A copy of the superblock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SuperblockCopy {
    /// On the home device.
    Home(usize),
    /// On the log device.
    Log(usize),
}

impl SuperblockCopy {
    fn number(self) -> usize {
        match self {
            Self::Home(copy) | Self::Log(copy) => copy,
        }
    }
}

impl<H: PageStore, L: JournalStore> Superblocks<H, L> {
    pub(super) fn new(home: Rc<H>, log: Rc<L>, current: Superblock, counters: Rc<Counters>) -> Self {
        Self { home, log, current: Cell::new(current), previous: Cell::default(), counters }
    }

    /// The one in force.
    pub(super) fn current(&self) -> Superblock {
        self.current.get()
    }

    /// Reads every copy and answers the one in force.
    pub(super) async fn read(home: &H, log: &L, separate_log: bool) -> Result<InForce, Error> {
        let unusable = |why: &str| Err(Error::Unusable(why.to_owned()));
        if !home.traits().holds_superblocks {
            let Some(superblock) = read_log(log).await?.filter(|found| found.separate_log) else {
                return unusable("no log device holds a whole superblock");
            };
            return Ok(InForce { superblock, log_lags: true });
        }
        let home_bytes = home.geometry().size_bytes;
        if home_bytes < HOME_BYTES_MIN {
            return unusable("the home device is too small to hold one");
        }
        let Some(at_home) = read_home(home, home_bytes).await? else {
            return unusable("the home device holds no whole superblock");
        };
        if at_home.separate_log != separate_log {
            return unusable("its log is not where it was said to be");
        }
        if !separate_log {
            return Ok(InForce { superblock: at_home, log_lags: false });
        }
        let Some(at_log) = read_log(log).await? else {
            return unusable("the log device holds no whole superblock");
        };
        match (at_home, at_log) {
            (home, log) if home.volume != log.volume => unusable("home and log belong to different volumes"),
            (home, log) if home.generation < log.generation => unusable(
                "the home device is older than the log: it lost writes that it had called durable; bring back the \
                     home device that belongs to this log",
            ),
            (home, log) if home.generation - log.generation > LAG_MAX && !is_planted(Bug::StaleLogTaken) => {
                Err(Error::Unusable(format!(
                    "the log is older than the home device (superblock {}, and {} there), and lacks writes that it had \
                     called durable: bring back the log that belongs to this home device, or both of them as they were \
                     at one moment",
                    log.generation, home.generation
                )))
            }
            (home, log) => Ok(InForce { superblock: home, log_lags: log.generation < home.generation }),
        }
    }

    /// Writes the superblock in force to the log device, or to those of them, that do not hold it.
    pub(super) async fn catch_up(&self) -> Result<(), Error> {
        let current = self.current.get();
        match self.home.traits().holds_superblocks {
            true => Ok(self.log.write_superblock(&current).await?),
            // Where it is the only one, what holds it is not written over.
            false => {
                let offset = log_copy_offset((current.generation % 2) as usize);
                Ok(self.log.repair(offset, &current.encode()).await?)
            }
        }
    }

    /// Makes a changed superblock durable, and the one in force.
    pub(super) async fn advance(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), Error> {
        let mut next = self.current.get();
        next.is_closed = false;
        change(&mut next);
        next.generation += 1;
        write_generation(&*self.home, &*self.log, &next).await?;
        self.home.note_superblock(next.generation, next.home_state);
        add(&self.counters.table_bytes, 2 * PAGE_BYTES);
        self.previous.set(Some(self.current.replace(next)));
        Ok(())
    }

    /// Every copy.
    pub(super) fn copies(&self) -> Vec<SuperblockCopy> {
        let log_copies = if self.current.get().separate_log { LOG_COPIES } else { 0 };
        let home_copies = home_copies(&*self.home);
        (0..home_copies).map(SuperblockCopy::Home).chain((0..log_copies).map(SuperblockCopy::Log)).collect()
    }

    /// Whether a copy holds what was last written to it: the superblock in force or, where its number is of the other
    /// parity, the one before. An opening writes both in its course, so what a cut tore before is no damage by then;
    /// of one that did not get as far, the one before is not known, and any that is whole will do.
    pub(super) async fn is_whole(&self, copy: SuperblockCopy) -> bool {
        let current = self.current.get();
        let found = match copy {
            SuperblockCopy::Home(copy) => {
                read_copy(&*self.home, home_copy_offset(current.home_bytes, copy)).await
            }
            SuperblockCopy::Log(copy) if self.log.is_scattered() => {
                newest_replica(&*self.log, log_copy_offset(copy)).await
            }
            SuperblockCopy::Log(copy) => read_copy(&*self.log, log_copy_offset(copy)).await,
        };
        let is_current = copy.number() as u64 % 2 == current.generation % 2;
        match (found, self.previous.get()) {
            (Some(found), _) if is_current => found == current,
            (Some(found), Some(previous)) => found == previous,
            (found, _) => found.is_some(),
        }
    }

    /// The root that does not count.
    pub(super) fn inactive_root(&self) -> u8 {
        1 - self.current.get().root_slot
    }
}

/// Writes the copies of a superblock's parity.
pub(super) async fn write_generation<H: PageStore, L: JournalStore>(
    home: &H,
    log: &L,
    superblock: &Superblock,
) -> Result<(), Error> {
    let page = superblock.encode();
    let parity = if is_planted(Bug::SuperblockInPlace) { 0 } else { (superblock.generation % 2) as usize };
    let durability =
        if is_planted(Bug::SuperblockBuffered) { Durability::Buffered } else { Durability::Durable };
    for copy in (parity..home_copies(home)).step_by(2) {
        home.write(home_copy_offset(superblock.home_bytes, copy), &page, durability).await?;
    }
    if superblock.separate_log {
        log.write_superblock(superblock).await?;
    }
    Ok(())
}

/// The newest that the log device holds, or any of its copies.
pub(super) async fn read_log<L: Replicated>(log: &L) -> Result<Option<Superblock>, Error> {
    read_log_from(log, 0).await
}

/// The same of a log that begins at `start`.
pub(super) async fn read_log_from<L: Replicated>(log: &L, start: u64) -> Result<Option<Superblock>, Error> {
    let mut best = None;
    for offset in (0..LOG_COPIES).map(|copy| start + log_copy_offset(copy)) {
        for copy in (0..log.replicas()).filter(|&copy| log.has_replica(copy)) {
            let mut page = [0; PAGE];
            if log.read_replica(copy, offset, &mut page).await.is_ok() {
                newest(&mut best, decode(&page)?);
            }
        }
    }
    Ok(best)
}

/// The newest that the home device holds: at its beginning, at its end, and where the end was before the device became
/// larger. What stands at an end counts only if it was written there, and with this volume: it may be what is left of
/// another one, in room that was added.
pub(super) async fn read_home<H: PageStore>(home: &H, home_bytes: u64) -> Result<Option<Superblock>, Error> {
    let mut best = None;
    for copy in 0..HOME_COPIES / 2 {
        let page = read_page(home, home_copy_offset(home_bytes, copy)).await;
        newest(&mut best, page.as_ref().map(decode).transpose()?.flatten());
    }
    let first = best;
    let planned = first.map(|found: Superblock| found.home_bytes).filter(|&planned| planned < home_bytes);
    for end in [home_bytes].into_iter().chain(planned) {
        let is_its_end = |found: &Superblock| found.home_bytes / PAGE_BYTES == end / PAGE_BYTES;
        let is_ours = |found: &Superblock| first.is_none_or(|first| first.volume == found.volume);
        for copy in HOME_COPIES / 2..HOME_COPIES {
            let Some(page) = read_page(home, home_copy_offset(end, copy)).await else { continue };
            let found = if first.is_some() { Superblock::decode(&page) } else { decode(&page)? };
            newest(&mut best, found.filter(is_its_end).filter(is_ours));
        }
    }
    Ok(best)
}

/// How many copies the page store has.
fn home_copies<H: PageStore>(home: &H) -> usize {
    if home.traits().holds_superblocks { HOME_COPIES } else { 0 }
}

/// The newest that any replica holds at this place.
async fn newest_replica<D: Replicated>(device: &D, offset: u64) -> Option<Superblock> {
    let mut best = None;
    for replica in (0..device.replicas()).filter(|&replica| device.has_replica(replica)) {
        let mut page = [0; PAGE];
        if device.read_replica(replica, offset, &mut page).await.is_ok() {
            newest(&mut best, Superblock::decode(&page));
        }
    }
    best
}

async fn read_copy<D: Device>(device: &D, offset: u64) -> Option<Superblock> {
    Superblock::decode(&read_page(device, offset).await?)
}

async fn read_page<D: Device>(device: &D, offset: u64) -> Option<[u8; PAGE]> {
    let mut page = [0; PAGE];
    device.read(offset, &mut page).await.ok().map(|()| page)
}

/// The superblock in a page, if there is one that is whole. One of a newer version is not passed over: an older one
/// beside it speaks of a volume as it was before.
fn decode(page: &[u8; PAGE]) -> Result<Option<Superblock>, Error> {
    match Superblock::newer_version(page) {
        None => Ok(Superblock::decode(page)),
        Some(version) => Err(Error::Unsuited(format!(
            "it is of version {version} of the format, and this program knows {} at most: open it with the program that \
             wrote it, or a newer one",
            Superblock::newest_version()
        ))),
    }
}

fn newest(best: &mut Option<Superblock>, found: Option<Superblock>) {
    if let Some(found) = found
        && best.is_none_or(|best| best.generation < found.generation)
    {
        *best = Some(found);
    }
}
