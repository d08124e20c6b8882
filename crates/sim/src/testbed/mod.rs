//! A layout under simulation.
//!
//! 1. A testbed says which drives a layout has, how a volume comes to lie on them, what the open layout says of each, and
//!    how many of each kind are enough. Seeds ([`crate::seeds`]), the search through every crash ([`crate::exhaustive`])
//!    and stories ask nothing else of a layout.
//! 2. A new layout is a file here and a draw of its seeds ([`crate::seeds::Seeded`]): it gets every fault that its
//!    redundancy bears, and the same ground truth.

mod mirror;
mod single;
mod watch;

use std::fmt::Debug;
use std::future::Future;

use evenkeel_engine::conversion::SwitchedVolume;
use evenkeel_engine::device::Extent;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::{LOG_COPIES, Layout, log_bytes_with_superblocks, log_copy_offset};
use evenkeel_engine::layout::{JournalStore, PageStore};
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::ring::MemberState;
use evenkeel_engine::volume::Volume;

use crate::arena::SimArena;
use crate::drive::SimDrive;
use crate::executor::SimEnv;
use crate::random::Random;

pub use mirror::{Mirror, OpenMirror, SimLogs, SimRing};
pub use single::{Single, home_and_log};
pub use watch::WatchedDrive;

/// The volume on the drives of a testbed.
pub type VolumeOn<T> = Volume<SimEnv, SimArena, <T as Testbed>::Home, <T as Testbed>::Log>;

/// What stands before it, so that another one can take its place.
pub type SwitchedOn<T> = SwitchedVolume<VolumeOn<T>>;

/// What a drive is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It holds pages.
    Pages,
    /// It holds the log, and nothing else.
    Log,
}

/// What an open layout says of a drive.
#[derive(Debug, Clone, Copy)]
pub struct Status {
    /// What it is good for. A log device is in sync, foreign or out.
    pub state: MemberState,
    /// Whether it takes no part because it failed.
    pub has_failed: bool,
    /// Whether it was given only what it had missed when it came back last.
    pub is_caught_up: bool,
}

/// Some drives and how a volume comes to lie on them. Drives have numbers: those with pages first, then those of the log.
pub trait Testbed: Debug + Copy + 'static {
    /// Where the pages are.
    type Home: PageStore;
    /// Where the log is.
    type Log: JournalStore;
    /// What tells of the drives while the volume is open.
    type Opened: Clone + 'static;

    /// Whether drives stand in for each other, so that some may be lost.
    const IS_REDUNDANT: bool;

    /// The drives, and the bytes of each.
    fn drives(&self, create: &CreateOptions) -> Vec<(Kind, u64)>;

    /// How many drives hold pages.
    fn page_drives(&self) -> usize;

    /// How many drives hold the log and nothing else.
    fn log_drives(&self) -> usize;

    /// What a drive is called.
    fn name(&self, number: usize) -> String;

    /// Of the drives of this kind, as many are enough.
    fn needed(&self, kind: Kind) -> usize;

    /// Whether the log lies beside the pages, for all that the format knows: on drives of its own, or in a zone of each.
    fn has_separate_log(&self) -> bool;

    /// Whether a record is on some of the drives only, so that a volume may refuse to open where one is missing.
    fn is_log_spread(&self) -> bool;

    /// Where on a drive of this kind the zones of the layout begin.
    fn data_offset(&self, kind: Kind) -> u64;

    /// Where on the log's drives changes of stripes are logged, if they are.
    fn stripe_log(&self) -> Option<Extent>;

    /// Where on a drive of this kind the superblocks are.
    fn superblocks(&self, kind: Kind, layout: &Layout) -> Vec<u64>;

    /// Any part of what a drive of this kind holds.
    fn any_zone(&self, kind: Kind, layout: &Layout, random: &mut Random) -> Extent;

    /// Makes a volume.
    fn create(
        &self,
        env: SimEnv,
        drives: Vec<Option<SimDrive>>,
        options: CreateOptions,
        volume: u64,
    ) -> impl Future<Output = Result<(), Error>>;

    /// Opens it; `None` is a drive that is not there.
    fn open(
        &self,
        env: SimEnv,
        arena: SimArena,
        drives: Vec<Option<SimDrive>>,
        options: OpenOptions,
    ) -> impl Future<Output = Result<(VolumeOn<Self>, Self::Opened), Error>>;

    /// What an open layout says of a drive.
    fn status(&self, opened: &Self::Opened, number: usize) -> Status;

    /// Bytes that each drive with pages needs behind [`Self::data_offset`], for so many of the layout.
    fn share_bytes(&self, home_bytes: u64) -> u64;

    /// Bytes that an open layout offers for pages, and what belongs to them.
    fn offered_bytes(&self, opened: &Self::Opened) -> u64;

    /// Tells an open layout that a drive failed.
    fn fail(&self, opened: &Self::Opened, number: usize, error: DeviceError);

    /// Puts another drive in the place of one with pages, while the volume is open.
    fn replace(
        &self,
        opened: &Self::Opened,
        number: usize,
        drive: SimDrive,
    ) -> impl Future<Output = Result<(), Error>>;

    /// Puts another drive in the place of one of the log's, while the volume is open; ends when it has the place, or was
    /// given up. `name` is told that it counts, and has the place from then on.
    fn replace_log(
        &self,
        opened: &Self::Opened,
        number: usize,
        drive: SimDrive,
        name: impl FnOnce(),
    ) -> impl Future<Output = Result<(), Error>>;

    /// Has a drive with pages that was away take part again, while the volume is open.
    fn rejoin(
        &self,
        opened: &Self::Opened,
        number: usize,
        drive: SimDrive,
    ) -> impl Future<Output = Result<(), Error>>;

    /// Makes a blank drive one of the log's of this volume, which lacks everything.
    fn init_log(
        &self,
        number: usize,
        drive: &SimDrive,
        volume: u64,
    ) -> impl Future<Output = Result<(), DeviceError>>;

    /// From now on nothing is wrong with any drive, until [`Self::end_watch`]: whom it reads while who writes is watched,
    /// where this layout promises something of that.
    fn begin_watch(&self, _opened: &Self::Opened) {}

    /// Nobody watches any more.
    fn end_watch(&self, _opened: &Self::Opened) {}

    /// Reads that were watched, and what was wrong with one, if so.
    fn watched(&self, _opened: &Self::Opened) -> (u64, Option<String>) {
        (0, None)
    }

    /// What this drive is for.
    fn kind(&self, number: usize) -> Kind {
        if number < self.page_drives() { Kind::Pages } else { Kind::Log }
    }

    /// Which of its kind this drive is.
    fn place(&self, number: usize) -> usize {
        number.checked_sub(self.page_drives()).unwrap_or(number)
    }

    /// Bytes of the device that a volume of so many pages needs for all but a separate log.
    fn home_bytes(&self, create: &CreateOptions) -> u64 {
        Layout::home_bytes_for(create.size_bytes / PAGE_BYTES, create.log_bytes, self.has_separate_log())
    }

    /// Where the zones of a new volume lie.
    fn layout(&self, create: &CreateOptions) -> Layout {
        let (pages, home_bytes) = (create.size_bytes / PAGE_BYTES, self.home_bytes(create));
        let layout = Layout::plan(pages, home_bytes, create.log_bytes, self.has_separate_log());
        layout.expect("a volume is made with it")
    }
}

/// Bytes of a log with its superblocks, beside the pages.
fn log_drive_bytes(create: &CreateOptions) -> u64 {
    log_bytes_with_superblocks(create.log_bytes.next_multiple_of(PAGE_BYTES))
}

/// Where the superblocks of a log are that lies beside the pages from this offset on.
fn log_superblocks(offset: u64) -> Vec<u64> {
    (0..LOG_COPIES).map(|copy| offset + log_copy_offset(copy)).collect()
}
