//! Opening a volume in memory alone: nothing is written to its devices, then or later.
//!
//! 1. It is opened from what the caller found, whole or not. A page of the table for which the log does not vouch is told
//!    to the caller, and taken as it is.
//! 2. What the log and the arena hold stays in memory, over what is home. The volume takes no writes.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use super::admission::Admission;
use super::commit::GroupCommit;
use super::limits::Limits;
use super::open::is_of_volume;
use super::recover::{UnverifiedTable, durable_units, replay};
use super::superblocks::Superblocks;
use super::write_back::WriteBack;
use super::{Inner, Volume};
use crate::buffer::{Buffer, Opening};
use crate::counters::{Counters, add};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::PAGE_BYTES;
use crate::format::layout::Layout;
use crate::format::record::RecordKind;
use crate::format::superblock::Superblock;
use crate::home::{Home, Root};
use crate::layout::{JournalStore, PageStore};
use crate::log::scan::Scanned;
use crate::log::{Log, Position};
use crate::notify::Notify;
use crate::options::OpenOptions;

/// What a volume is opened from.
pub(crate) struct Basis<H, L> {
    pub(crate) home: Rc<H>,
    pub(crate) log: Rc<L>,
    pub(crate) superblock: Superblock,
    pub(crate) layout: Layout,
    /// The sums of the table's pages, and zeros up to the end of the root's last page.
    pub(crate) root: Vec<u64>,
    pub(crate) records: Vec<Scanned>,
    /// Where the next record would go.
    pub(crate) next: Position,
    /// Pages of the table for which no root vouches.
    pub(crate) unvouched: BTreeSet<u64>,
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// Opens the volume; `arena` is this process's own. Answers with it the pages of the table for which the log does not
    /// vouch.
    ///
    /// # Errors
    ///
    /// [`Error::ForeignWrites`] where the arena is not its; [`Error::Unusable`] for a log or an arena that no volume of this
    /// size writes; those of the devices.
    pub(crate) async fn open_read_only(
        env: E,
        arena: A,
        basis: Basis<H, L>,
        options: OpenOptions,
    ) -> Result<(Self, UnverifiedTable), Error> {
        let options = OpenOptions { tuning: options.tuning.sound(), ..options };
        let Basis { home, log, superblock, layout, root, records, next, unvouched } = basis;
        let counters = Rc::new(Counters::default());
        let limits = |needs_images| {
            Limits::of(
                layout.log.len,
                superblock.log_sector_bytes as usize,
                layout.table_pages(),
                needs_images,
                options.tuning.announced_max_bytes,
            )
        };
        let brings =
            |record: &&Scanned| matches!(record.header.kind, RecordKind::Commit | RecordKind::Intent);
        add(&counters.replayed_records, records.iter().filter(brings).count() as u64);
        let home_pages =
            Home::new(Rc::clone(&home), layout.clone(), Root::of(root), &options, Rc::clone(&counters));
        let dirty_pages_max = limits(true).dirty_pages_max.max(limits(false).dirty_pages_max);
        let doubts = RefCell::new(UnverifiedTable { unvouched, ..UnverifiedTable::default() });
        replay(&home_pages, &records, dirty_pages_max, false, Some(&doubts)).await?;

        let durable = durable_units(&records);
        let is_durable = |unit: u64| {
            let next = durable.partition_point(|range| range.start <= unit);
            next > 0 && durable[next - 1].contains(&unit)
        };
        let is_beyond_log = Cell::new(false);
        let is_sound = |extents: &[_]| {
            let is_ours = is_of_volume(extents, superblock.pages * PAGE_BYTES);
            let fits = |limits: Limits| limits.pages_of_unit(extents, superblock.atomic_max_bytes).is_some();
            is_beyond_log
                .set(is_beyond_log.get() || (is_ours && !fits(limits(true)) && !fits(limits(false))));
            is_ours && !is_beyond_log.get()
        };
        let epoch = superblock.epoch;
        let (volume, log_end) = (superblock.volume, next.sequence - 1);
        let opening = Opening { volume, epoch, next_epoch: epoch + 1, log_end };
        let opened = Buffer::open(arena, opening, is_durable, is_sound);
        let (mut buffer, replayed, durable) = opened.map_err(|found| Error::ForeignWrites {
            writes: found.writes,
            is_later: found.volume == superblock.volume,
        })?;
        if is_beyond_log.get() {
            return Err(Error::Unusable("the arena holds a write that the log could never take".to_owned()));
        }
        add(&counters.replayed_units, replayed);
        buffer.leave_to_log(&durable);

        let live: Vec<(u64, u64)> = records.iter().map(|record| record.place).collect();
        let superblocks =
            Superblocks::new(Rc::clone(&home), Rc::clone(&log), superblock, Rc::clone(&counters));
        let sector_bytes = superblock.log_sector_bytes as usize;
        let (zone, volume) = (layout.log, superblock.volume);
        let log = Log::new(log, zone, sector_bytes, volume, epoch, &live, next, Rc::clone(&counters));
        let limits = limits(true);
        let inner = Rc::new(Inner {
            env,
            options,
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
            // It is no failure.
            failure_told: Cell::new(true),
            changed: Notify::default(),
        });
        inner.latch(Error::Latched("it is opened to be read only".into()));
        Ok((Self(inner), doubts.into_inner()))
    }

    /// Its pages and their sums.
    pub(crate) fn home(&self) -> &Home<H> {
        &self.0.home
    }
}
