//! One drive, and perhaps another for the log.

use std::rc::Rc;

use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::volume::{Volume, create};

use super::bed::{Bed, Drives, VolumeOn};
use super::lives::Machine;
use crate::arena::SimArena;
use crate::drive::SimDrive;
use crate::executor::SimEnv;
use crate::oracle::Violation;

/// The drive with the pages, then that of the log: a page that nobody uses, if the first has the log too.
#[derive(Clone, Copy)]
pub(super) struct Single {
    pub(super) separate_log: bool,
    /// Whether the system keeps what was read of the first drive in memory, as it was then.
    pub(super) cache: bool,
}

impl Single {
    fn home_and_log(self, drives: Vec<Option<SimDrive>>) -> (SimDrive, SimDrive) {
        let mut drives = drives.into_iter().flatten();
        let (home, log) = (drives.next(), drives.next());
        let home = home.expect("a single drive is never lost");
        let log = log.filter(|_| self.separate_log).unwrap_or_else(|| home.clone());
        (home, log)
    }
}

impl Bed for Single {
    type Home = SimDrive;
    type Log = SimDrive;
    type Parts = ();

    const IS_REDUNDANT: bool = false;

    fn drive_bytes(&self, create: &CreateOptions) -> Vec<u64> {
        let home_bytes =
            Layout::home_bytes_for(create.size_bytes / 4096, create.log_bytes, self.separate_log);
        let log_bytes = if self.separate_log { create.log_bytes + 2 * 4096 } else { 4096 };
        vec![home_bytes, log_bytes]
    }

    fn name(&self, drive: usize) -> String {
        ["home", "log"][drive].to_owned()
    }

    fn kind(&self, drive: usize) -> usize {
        drive
    }

    fn kinds_without_max(&self) -> usize {
        0
    }

    fn is_cached(&self, drive: usize) -> bool {
        self.cache && drive == 0
    }

    async fn create(
        &self,
        _env: SimEnv,
        drives: Vec<Option<SimDrive>>,
        options: CreateOptions,
        number: u64,
    ) -> Result<(), Error> {
        let (home, log) = self.home_and_log(drives);
        create(&home, &log, self.separate_log, options, number).await
    }

    async fn open(
        &self,
        env: SimEnv,
        arena: SimArena,
        drives: Vec<Option<SimDrive>>,
        options: OpenOptions,
    ) -> Result<(VolumeOn<Self>, ()), Error> {
        let (home, log) = self.home_and_log(drives);
        let volume =
            Volume::open(env, arena, Rc::new(home), Rc::new(log), self.separate_log, options).await?;
        Ok((volume, ()))
    }

    fn have_all(&self, (): &()) -> Vec<bool> {
        vec![true; 2]
    }

    fn may_refuse(&self, _drives: &Drives, _there: &[bool]) -> bool {
        false
    }

    fn there_before(&self) -> Option<Vec<bool>> {
        None
    }

    fn there(&self) -> Vec<bool> {
        vec![true; 2]
    }

    async fn go_on(_machine: Rc<Machine<Self>>) {}

    async fn settle(_machine: &Machine<Self>, _volume: &VolumeOn<Self>) -> Result<(), Violation> {
        Ok(())
    }
}
