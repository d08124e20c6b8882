//! One drive with the pages, and perhaps another with the log.

use std::rc::Rc;

use evenkeel_engine::device::{Device, Extent};
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::layout::{HOME_COPIES, Layout};
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::ring::MemberState;
use evenkeel_engine::volume::{Volume, create};

use super::{Kind, Status, Testbed, VolumeOn, log_drive_bytes, log_superblocks};
use crate::arena::SimArena;
use crate::drive::SimDrive;
use crate::executor::SimEnv;
use crate::random::Random;

/// The drive with the pages, then that of the log where it has one of its own. Neither stands in for the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Single {
    /// Whether the log has a drive of its own.
    pub separate_log: bool,
}

/// The drive with the pages, and that with the log, which may be the same.
pub fn home_and_log<D: Clone>(drives: &[D]) -> (D, D) {
    let (Some(home), Some(log)) = (drives.first(), drives.last()) else {
        unreachable!("a volume has a drive");
    };
    (home.clone(), log.clone())
}

fn all_there(drives: Vec<Option<SimDrive>>) -> Vec<SimDrive> {
    drives.into_iter().map(|drive| drive.expect("a single drive is never lost")).collect()
}

impl Testbed for Single {
    type Home = SimDrive;
    type Log = SimDrive;
    type Opened = SimDrive;

    const IS_REDUNDANT: bool = false;

    fn drives(&self, create: &CreateOptions) -> Vec<(Kind, u64)> {
        let log = self.separate_log.then(|| (Kind::Log, log_drive_bytes(create)));
        [(Kind::Pages, self.home_bytes(create))].into_iter().chain(log).collect()
    }

    fn page_drives(&self) -> usize {
        1
    }

    fn log_drives(&self) -> usize {
        usize::from(self.separate_log)
    }

    fn name(&self, number: usize) -> String {
        ["home", "log"][number].to_owned()
    }

    fn needed(&self, _kind: Kind) -> usize {
        1
    }

    fn has_separate_log(&self) -> bool {
        self.separate_log
    }

    fn is_log_spread(&self) -> bool {
        false
    }

    fn data_offset(&self, _kind: Kind) -> u64 {
        0
    }

    fn stripe_log(&self) -> Option<Extent> {
        None
    }

    fn superblocks(&self, kind: Kind, layout: &Layout) -> Vec<u64> {
        match kind {
            Kind::Pages => (0..HOME_COPIES).map(|copy| layout.home_copy_offset(copy)).collect(),
            Kind::Log => log_superblocks(0),
        }
    }

    fn any_zone(&self, kind: Kind, layout: &Layout, _random: &mut Random) -> Extent {
        if kind == Kind::Pages { layout.segments[0].data } else { layout.log }
    }

    async fn create(
        &self,
        _env: SimEnv,
        drives: Vec<Option<SimDrive>>,
        options: CreateOptions,
        volume: u64,
    ) -> Result<(), Error> {
        let (home, log) = home_and_log(&all_there(drives));
        create(&home, &log, self.separate_log, options, volume).await
    }

    async fn open(
        &self,
        env: SimEnv,
        arena: SimArena,
        drives: Vec<Option<SimDrive>>,
        options: OpenOptions,
    ) -> Result<(VolumeOn<Self>, SimDrive), Error> {
        let (home, log) = home_and_log(&all_there(drives));
        let (pages, log) = (Rc::new(home.clone()), Rc::new(log));
        Ok((Volume::open(env, arena, pages, log, self.separate_log, options).await?, home))
    }

    fn status(&self, _home: &SimDrive, _number: usize) -> Status {
        Status { state: MemberState::InSync, has_failed: false, is_caught_up: false }
    }

    fn share_bytes(&self, home_bytes: u64) -> u64 {
        home_bytes
    }

    fn offered_bytes(&self, home: &SimDrive) -> u64 {
        home.geometry().size_bytes
    }

    fn fail(&self, _home: &SimDrive, _number: usize, _error: DeviceError) {}

    async fn replace(&self, _home: &SimDrive, number: usize, _drive: SimDrive) -> Result<(), Error> {
        unreachable!("nothing stands in for {}", self.name(number))
    }

    async fn replace_log(
        &self,
        _home: &SimDrive,
        number: usize,
        _drive: SimDrive,
        _name: impl FnOnce(),
    ) -> Result<(), Error> {
        unreachable!("nothing stands in for {}", self.name(number))
    }

    async fn rejoin(&self, _home: &SimDrive, number: usize, _drive: SimDrive) -> Result<(), Error> {
        unreachable!("nothing stands in for {}", self.name(number))
    }

    async fn init_log(&self, number: usize, _drive: &SimDrive, _volume: u64) -> Result<(), DeviceError> {
        unreachable!("nothing stands in for {}", self.name(number))
    }
}
