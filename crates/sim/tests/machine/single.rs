//! Machines with one drive, and perhaps another for the log.

use std::rc::Rc;

use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout;
use evenkeel_engine::options::Journaling;
use evenkeel_sim::drive::SimDrive;
use evenkeel_sim::image::SharedImage;
use evenkeel_sim::testbed::{Single, Testbed, VolumeOn, home_and_log};

use super::{Disks, Layout, MachineOn, PlanOn, RunOn};

pub type SimVolume = VolumeOn<Single>;
pub type Plan = PlanOn<Single>;
pub type Machine = MachineOn<Single>;
pub type Run = RunOn<Single>;

impl Plan {
    /// A small volume of `pages` pages with a log of its own.
    pub fn of_pages(pages: u64) -> Self {
        Self::of_pages_on(Single { separate_log: true }, pages)
    }

    /// The same with a drive for the log, or without.
    pub fn with_separate_log(mut self, separate_log: bool) -> Self {
        self.testbed.separate_log = separate_log;
        self
    }

    /// The same volume in every way that the promises must not depend on.
    pub fn every_kind(pages: u64) -> Vec<Self> {
        let mut plans = Vec::new();
        let journalings = [
            Journaling::Wasteless,
            Journaling::Selective { threshold_bytes: 16384 },
            Journaling::WholePages,
            Journaling::Ordered,
        ];
        for journaling in journalings {
            for (separate_log, sector_bytes) in [(true, 512), (false, 4096)] {
                for (atomic_sectors, log_bytes) in [(true, 256 << 10), (false, 1 << 20)] {
                    let mut plan = Self::of_pages(pages);
                    plan.separate_log = separate_log;
                    plan.sector_bytes = sector_bytes;
                    plan.atomic_sectors = atomic_sectors;
                    plan.create.log_bytes = log_bytes;
                    plan.open.journaling = journaling;
                    plan.open.cached_pages_max = 4;
                    plans.push(plan);
                }
            }
        }
        plans
    }

    /// Where the zones lie.
    pub fn layout(&self) -> layout::Layout {
        self.testbed.layout(&self.create)
    }
}

/// The drives, or what outlives them. Where the log has no drive of its own, both are the same.
pub struct HomeAndLog<D> {
    pub home: D,
    pub log: D,
}

impl<D: Clone> HomeAndLog<D> {
    fn of(drives: &[D]) -> Self {
        let (home, log) = home_and_log(drives);
        Self { home, log }
    }
}

impl Disks for HomeAndLog<SharedImage> {
    fn images(&self) -> Vec<SharedImage> {
        let log = Some(&self.log).filter(|log| !Rc::ptr_eq(log, &self.home));
        [&self.home].into_iter().chain(log).cloned().collect()
    }
}

impl Layout for Single {
    type Disks = HomeAndLog<SharedImage>;
    type Drives = HomeAndLog<Rc<SimDrive>>;
    type Volume = SimVolume;

    fn disks(&self, images: Vec<SharedImage>) -> Self::Disks {
        HomeAndLog::of(&images)
    }

    fn named(&self, drives: &[SimDrive]) -> Self::Drives {
        HomeAndLog::of(&drives.iter().cloned().map(Rc::new).collect::<Vec<_>>())
    }

    fn volume(&self, volume: SimVolume, _home: SimDrive) -> SimVolume {
        volume
    }

    fn of(volume: &SimVolume) -> &SimVolume {
        volume
    }
}

/// What is there.
pub async fn read(volume: &SimVolume, offset: u64, len: usize) -> Result<Vec<u8>, Error> {
    let mut found = vec![0; len];
    volume.read(offset, &mut found).await.map(|()| found)
}
