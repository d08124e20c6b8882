//! Opening a volume: recovery, and the first moment of a new epoch.
//!
//! The order, and why:
//!
//! 1. Both devices are flushed: after a mere kill the log may be in a volatile cache, and what recovery serves
//!    must not be taken back by a power cut.
//! 2. The log is read up to its end and every page it speaks of is made whole, in memory.
//! 3. A superblock with the next epoch is made durable before any record of that epoch is written. The arena
//!    is told before and after, so that a kill in between leaves it known.
//!    An arena that holds writes of another volume, or knows of a later state of this one, ends the opening before that:
//!    nothing was written.
//! 4. A checkpoint takes everything home. Cut at any point, all of this is done again with the same result.
//! 5. From then on the home device can ask what it should hold.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use super::admission::Admission;
use super::commit::GroupCommit;
use super::fresh::may_take_fresh;
use super::limits::Limits;
use super::recover::{durable_units, replay};
use super::roots::read_root;
use super::superblocks::{InForce, Superblocks};
use super::write_back::WriteBack;
use super::{Inner, Volume};
use crate::buffer::{ArenaContents, Buffer, Opening, arena_bytes_min, is_of_other_version};
use crate::counters::{Counters, add};
use crate::device::{Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::layout::Layout;
use crate::format::record::RecordKind;
use crate::format::superblock::Superblock;
use crate::format::unit::UnitExtent;
use crate::format::{PAGE, PAGE_BYTES};
use crate::home::Home;
use crate::layout::{Expected, JournalStore, LiveRecord, LiveRecords, PageStore, Verifier};
use crate::log::Log;
use crate::log::cases::Decision;
use crate::log::scan::{Scan, Scanned, scan};
use crate::notify::Notify;
use crate::options::OpenOptions;
use crate::planted::{Bug, is_planted};
use crate::size_text::exact_size;

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// Opens the volume on `home`, with its log on `log` where `separate_log`, else on `home` too: then `log`
    /// is another handle to the same device. `arena` holds what a killed process left, or nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Unusable`] and [`Error::Damaged`] where the devices do not hold a volume that is whole;
    /// [`Error::ForeignWrites`] and [`Error::OlderDevices`] where the arena is not theirs; those of the devices.
    pub async fn open(
        env: E,
        arena: A,
        home: Rc<H>,
        log: Rc<L>,
        separate_log: bool,
        options: OpenOptions,
    ) -> Result<Self, Error> {
        let options = OpenOptions { tuning: options.tuning.sound(), ..options };
        let counters = Rc::new(Counters::default());
        if !is_planted(Bug::NoFlushAtOpen) {
            home.flush(FlushScope::Whole).await?;
            if separate_log {
                log.flush(FlushScope::Whole).await?;
            }
        }
        home.note_readers(false);
        let InForce { superblock, log_lags } = Superblocks::read(&*home, &*log, separate_log).await?;
        let epoch = if is_planted(Bug::EpochStays) { superblock.epoch } else { superblock.epoch + 1 };
        let too_small = || Error::Unusable("the devices are smaller than the volume on them".to_owned());
        let is_large_enough = |layout: &Layout| layout.home_bytes <= home.geometry().size_bytes;
        // Members know of their volume's size from what follows.
        let knows_its_size = home.traits().holds_superblocks;
        let layout = superblock
            .layout()
            .filter(|layout| !knows_its_size || is_large_enough(layout))
            .filter(|layout| !separate_log || layout.log.end() <= log.geometry().size_bytes)
            .ok_or_else(too_small)?;
        check_log_sectors(&superblock, log.geometry().sector_bytes)?;
        // What can refuse comes before anything is changed: one of several logs that has it whole may only be away.
        let found = scan(&*log, layout.log, &superblock).await;
        if found.ended == Decision::Damaged {
            return Err(Error::Unusable(format!(
                "record {} of the log is damaged, and was acknowledged",
                found.next.sequence
            )));
        }
        let log_limits = limits_of(&layout, &superblock, &options);
        let limits_of_log = log_limits(!home.geometry().atomic_sectors);
        let limits = match may_take_fresh(&*home, options.journaling) {
            true => limits_of_log.with_direct_tables(superblock.atomic_max_bytes, layout.log.len),
            false => limits_of_log,
        };
        let limits = limits.within(options.dirty_pages_max, superblock.atomic_max_bytes);
        limits.check_suffice(superblock.atomic_max_bytes, layout.log.len)?;

        let arena_bytes_min = arena_bytes_min(superblock.atomic_max_bytes);
        if (arena.len() as u64) < arena_bytes_min {
            return Err(Error::Unsuited(format!(
                "the memory for writes that are not durable is smaller than one: {} at least",
                exact_size(arena_bytes_min)
            )));
        }
        let (is_beyond_log, largest_pages) = (Cell::new(false), Cell::new(0));
        let is_sound = |extents: &[UnitExtent]| {
            let is_ours = is_of_volume(extents, superblock.pages * PAGE_BYTES);
            // By what the log allows: the last opening may have had more memory than this one.
            match limits_of_log.pages_of_unit(extents, superblock.atomic_max_bytes).filter(|_| is_ours) {
                Some(pages) => largest_pages.set(pages.max(largest_pages.get())),
                None => is_beyond_log.set(is_beyond_log.get() || is_ours),
            }
            is_ours && !is_beyond_log.get()
        };
        if is_of_other_version(&arena) {
            return Err(Error::Unsuited(
                "the memory for writes that are not durable was used by another version: open the volume with that one"
                    .to_owned(),
            ));
        }
        let opening = Opening {
            volume: superblock.volume,
            epoch: superblock.epoch,
            next_epoch: epoch,
            log_end: found.next.sequence - 1,
        };
        let opened = Buffer::open(arena, opening, durable_units(&found.records), is_sound);
        let (mut buffer, replayed, durable) = match opened {
            Ok(opened) => opened,
            Err(held) => {
                let refused = refused(&held, &opening);
                // Whoever is missing of the log is named instead: it may have what the arena knows of.
                if held.volume == superblock.volume {
                    log.check_complete().await?;
                }
                return Err(refused);
            }
        };
        if is_beyond_log.get() {
            return Err(Error::Unusable("the arena holds a write that the log could never take".to_owned()));
        }
        PageStore::resume(&*home, superblock.remembered(), epoch).await?;
        if !is_large_enough(&layout) {
            return Err(too_small());
        }
        let mut root = read_root(&*home, &layout, &superblock).await?;
        let root_sums = root.root_sums();

        log.check_complete().await?;
        if log.replicas() > 1 && !is_planted(Bug::LogNotMended) {
            // What is taken from one copy now must not be missing where another is all that is left.
            for record in &found.records {
                record.repair(&*log, layout.log).await?;
            }
        }
        count_replayed(&counters, &found.records);
        let home_pages = Home::new(Rc::clone(&home), layout.clone(), root, &options, Rc::clone(&counters));
        // The volume may come from a drive of the other kind.
        let dirty_pages_max = log_limits(true).dirty_pages_max.max(log_limits(false).dirty_pages_max);
        replay(&home_pages, &found.records, dirty_pages_max, limits.needs_images, None).await?;
        let log_now = (layout.log.len, used_bytes(&found, layout.log.len), found.next.offset);
        let images = home_pages.images_due();
        let log_sector_bytes = superblock.log_sector_bytes as usize;
        if !limits.has_room_for_images(log_now, log_sector_bytes, options.tuning.announced_max_bytes, images)
        {
            return Err(Error::Unsuited(format!(
                "its log has no room for the images of {} pages, which this drive needs since it is not known to keep \
                 sectors whole in a power cut: open it where it was used, and close it there in order",
                images.0
            )));
        }

        let limits = limits.with_commit_of(largest_pages.get());
        add(&counters.replayed_units, replayed);
        let superblocks =
            Superblocks::new(Rc::clone(&home), Rc::clone(&log), superblock, Rc::clone(&counters));
        if log_lags {
            superblocks.catch_up().await?;
        }
        // As late as can be: until here nothing was written over it.
        if found.goes_on(&*log, layout.log, &superblock).await {
            return Err(Error::Unusable(
                "the end of the log could not be read, and can be read by now: open the volume again"
                    .to_owned(),
            ));
        }
        JournalStore::resume(&*log, superblock.remembered(), found.next.sequence).await?;
        // Not before: what is on one of several logs alone is lost again if that one does not count in the end.
        buffer.leave_to_log(&durable);
        superblocks
            .advance(|next| {
                next.epoch = epoch;
                next.epoch_sequence = found.next.sequence;
                // Where it was of an older version: the root there is the same.
                next.whole_root_sum = None;
                next.root_sums = root_sums;
                // What was found is served from now on: a log that ends before it lost something.
                next.acknowledged = next.acknowledged.max(found.next.sequence - 1);
            })
            .await?;
        home.begin().await?;
        buffer.tune(options.tuning);
        buffer.begin_epoch();

        let live: Vec<(u64, u64)> = found.records.iter().map(|record| record.place).collect();
        let log = Log::new(
            log,
            layout.log,
            superblock.log_sector_bytes as usize,
            superblock.volume,
            epoch,
            &live,
            found.next,
            Rc::clone(&counters),
        );
        let batch_max_bytes = limits.batch_max_bytes(options.batch_max_bytes);
        let inner = Rc::new(Inner {
            env,
            options: OpenOptions { batch_max_bytes, ..options },
            admission: Admission::new(limits),
            follows_stop: superblock.follows_stop(),
            atomic_max_bytes: superblock.atomic_max_bytes,
            size_bytes: Cell::new(superblock.pages * PAGE_BYTES),
            buffer: RefCell::new(buffer),
            log,
            home: home_pages,
            superblocks,
            group_commit: GroupCommit::default(),
            write_back: WriteBack::new(options.tuning),
            counters,
            events: Rc::default(),
            failure_told: Cell::default(),
            changed: Notify::default(),
        });
        inner.watch_log();
        let verifier: Rc<dyn Verifier> = Rc::<Inner<E, A, H, L>>::clone(&inner);
        inner.home.device.verify_with(Rc::downgrade(&verifier));
        let records: Rc<dyn LiveRecords> = Rc::<Inner<E, A, H, L>>::clone(&inner);
        inner.log.copy_with(Rc::downgrade(&records));
        match inner.checkpoint().await {
            // More pages are damaged under changes than can be carried. What is whole can be read; nothing is written
            // any more, and the log keeps what it holds.
            Ok(()) | Err(Error::Damaged { .. }) => {}
            // Nor where a page of sums is stored with what cannot be read now.
            Err(Error::Blocked(_)) => {}
            Err(error) => return Err(error),
        }
        inner.home.device.note_readers(true);
        Ok(Self(inner))
    }
}

/// What a volume on drives that need images of pages, or need none, may have under way.
pub(super) fn limits_of(
    layout: &Layout,
    superblock: &Superblock,
    options: &OpenOptions,
) -> impl Fn(bool) -> Limits + use<> {
    let (log_bytes, sector_bytes) = (layout.log.len, superblock.log_sector_bytes as usize);
    let (table_pages, announced_max_bytes) = (layout.table_pages(), options.tuning.announced_max_bytes);
    move |needs_images| Limits::of(log_bytes, sector_bytes, table_pages, needs_images, announced_max_bytes)
}

/// Why a volume that is about to be opened so does not go with what the arena holds.
fn refused(held: &ArenaContents, opening: &Opening) -> Error {
    let ArenaContents { volume, writes, acknowledged, .. } = *held;
    match volume == opening.volume {
        false => Error::ForeignWrites { writes, is_later: false },
        true if held.are_of(opening.volume, opening.epoch) => {
            Error::OlderDevices { writes, acknowledged, log_end: opening.log_end }
        }
        true => Error::ForeignWrites { writes, is_later: true },
    }
}

/// Counts the records that bring something. A checkpoint's own record stays in the log behind it, and brings nothing that is
/// not home.
pub(super) fn count_replayed(counters: &Counters, records: &[Scanned]) {
    let brings = |record: &&Scanned| matches!(record.header.kind, RecordKind::Commit | RecordKind::Intent);
    add(&counters.replayed_records, records.iter().filter(brings).count() as u64);
}

/// That the log may lie on a drive that writes so many bytes at once.
pub(super) fn check_log_sectors(superblock: &Superblock, sector_bytes: u32) -> Result<(), Error> {
    if sector_bytes <= superblock.log_sector_bytes || is_planted(Bug::SmallerSectorsKept) {
        return Ok(());
    }
    Err(Error::Unsuited(format!(
        "its log was made for sectors of {} bytes, and this drive writes {sector_bytes} at once, so that a power cut could \
         take what was acknowledged before: move the log to a drive with sectors of {} bytes or less, or make a volume for \
         this one and copy the contents",
        superblock.log_sector_bytes, superblock.log_sector_bytes
    )))
}

/// Bytes of the log from the first record to the end, with what is skipped between them.
fn used_bytes(found: &Scan, log_bytes: u64) -> u64 {
    let Some(first) = found.records.first() else { return 0 };
    match (found.next.offset + log_bytes - first.place.0) % log_bytes {
        0 => log_bytes,
        used => used,
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Verifier for Inner<E, A, H, L> {
    fn expects(&self, offset: u64) -> Pin<Box<dyn Future<Output = Expected> + '_>> {
        Box::pin(self.home.expects(offset))
    }

    fn coming(&self, offset: u64) -> Option<[u8; PAGE]> {
        self.home.coming(offset)
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> LiveRecords for Inner<E, A, H, L> {
    fn room_end(&self) -> u64 {
        self.home.layout().log.end()
    }

    fn durable_by_now(&self) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + '_>> {
        let next = self.log.next_sequence();
        Box::pin(async move { self.log.wait_acknowledged(next - 1).await.map(|()| next) })
    }

    fn first_from(&self, sequence: u64) -> Option<LiveRecord> {
        self.log.first_live_from(sequence)
    }

    fn is_it(&self, record: LiveRecord, bytes: &[u8]) -> bool {
        self.log.is_record(record, bytes)
    }
}

/// Whether a unit of the arena speaks of bytes, and of none but those of the volume. No volume stores another: it and
/// what follows it are someone else's, and are not taken for acknowledged writes.
pub(super) fn is_of_volume(extents: &[UnitExtent], size_bytes: u64) -> bool {
    let is_within = |extent: &UnitExtent| {
        extent.len > 0 && Extent { offset: extent.offset, len: extent.len }.fits(size_bytes)
    };
    !extents.is_empty() && extents.iter().all(is_within)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::unit::Content;

    #[test]
    fn a_unit_that_speaks_of_no_bytes_or_of_others_is_of_no_volume() {
        let unit = |parts: &[(u64, u64)]| {
            let extent = |&(offset, len)| UnitExtent { offset, len, content: Content::Data };
            is_of_volume(&parts.iter().map(extent).collect::<Vec<_>>(), 8192)
        };
        assert!(unit(&[(0, 1)]) && unit(&[(0, 8192)]) && unit(&[(8191, 1), (0, 100)]));
        assert!(!unit(&[]) && !unit(&[(5, 0)]) && !unit(&[(0, 1), (5, 0)]), "no bytes");
        assert!(!unit(&[(8192, 1)]) && !unit(&[(0, 1), (1, 8192)]) && !unit(&[(u64::MAX, 1)]), "others");
    }
}
