//! Who has everything: the exact account of what may still be lost.
//!
//! 1. A device has everything if it was there and well all the time since it was last known to have it, and the engine
//!    counts it: a member or a log device that is said to be in sync, and did nothing wrong, must be enough alone.
//! 2. Within the redundancy there is one such member and one such log device at every moment; whatever befalls the
//!    others must not matter.
//! 3. One that lied, rotted or lost writes is not clean, and has not everything however much the engine counts it: until
//!    it was rebuilt, until a log was opened with it, or until it was healed. One that is rebuilt gets nothing of what is
//!    wrong on others.

use std::rc::Rc;

use evenkeel_engine::layout::mirror::log_devices::LogStanding;
use evenkeel_engine::ring::Standing;

use super::watch::{SimLogs, SimRing};
use crate::drive::SimDrive;
use crate::image::SharedImage;

/// What a device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Member,
    Log,
}

/// What is known of a device between two lives.
#[derive(Clone)]
pub(super) struct Disk {
    pub(super) image: SharedImage,
    /// Whether nothing of what it said it holds is wrong; it may lack what came later.
    pub(super) is_clean: bool,
    /// Whether it has everything.
    pub(super) is_complete: bool,
    /// Whether it has so only since the last life.
    pub(super) is_fresh: bool,
}

/// What is known of a device in a life.
pub(super) struct InLife {
    pub(super) kind: Kind,
    pub(super) place: usize,
    pub(super) before: Disk,
    pub(super) image: SharedImage,
    pub(super) drive: SimDrive,
    pub(super) is_there: bool,
    /// Whether it does what it is asked, or says that it does not.
    pub(super) is_well: bool,
    /// Whether what it holds was harmed in this life.
    pub(super) is_harmed: bool,
    /// Whether it lacked writes, and has to be rebuilt.
    pub(super) lacks: bool,
    /// Whether another took its place in this life.
    pub(super) was_replaced: bool,
}

/// All of them, in one life.
pub(super) struct Account {
    pub(super) devices: Vec<InLife>,
    /// The ring and the logs, once the volume is open.
    pub(super) opened: Option<(SimRing, SimLogs)>,
}

impl Account {
    /// Those of one kind.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = &InLife> {
        self.devices.iter().filter(move |device| device.kind == kind)
    }

    /// Whether the engine counts it.
    pub(super) fn is_in_sync(&self, device: &InLife) -> bool {
        let Some((ring, logs)) = &self.opened else { return false };
        match device.kind {
            Kind::Member => ring.members()[device.place].standing == Standing::InSync,
            Kind::Log => logs.standings()[device.place].0 == LogStanding::InSync,
        }
    }

    /// Whether it alone must be enough, if the life ended now.
    pub(super) fn is_complete(&self, device: &InLife) -> bool {
        let is_well = device.is_there && device.is_well && !device.is_harmed;
        is_well
            && match (&self.opened, device.kind) {
                (None, _) => device.before.is_complete,
                (Some(_), Kind::Log) => self.is_in_sync(device),
                (Some(_), Kind::Member) => {
                    let was_right = device.lacks || device.before.is_clean;
                    was_right && self.is_in_sync(device)
                }
            }
    }

    /// Whether another of its kind has everything, so that it may be lost.
    pub(super) fn may_lose(&self, number: usize) -> bool {
        let lost = &self.devices[number];
        let others = self.of(lost.kind).filter(|other| other.place != lost.place);
        others.into_iter().any(|other| self.is_complete(other))
    }

    /// Whether nothing is or was wrong with any device so far.
    pub(super) fn is_spotless(&self) -> bool {
        self.devices.iter().all(|device| {
            device.is_there && device.is_well && !device.is_harmed && device.before.is_clean && !device.lacks
        })
    }

    /// Whether some device is missing, or was harmed, that may have held what no other has.
    pub(super) fn may_lack_log(&self) -> bool {
        self.devices
            .iter()
            .any(|device| !device.is_there || !device.is_well || device.is_harmed || !device.before.is_clean)
    }

    /// The volume is open: who lacks writes is known.
    pub(super) fn open(&mut self, ring: SimRing, logs: SimLogs) {
        self.opened = Some((ring, logs));
        for number in 0..self.devices.len() {
            let device = &self.devices[number];
            let lacks = device.kind == Kind::Member && !self.is_in_sync(device);
            self.devices[number].lacks = lacks;
        }
    }

    /// Another drive was put in the place of this one.
    pub(super) fn replaced(&mut self, number: usize, image: SharedImage, drive: SimDrive) {
        let device = &mut self.devices[number];
        (device.image, device.drive) = (image, drive);
        (device.is_there, device.is_well, device.is_harmed) = (true, true, false);
        (device.lacks, device.was_replaced) = (true, true);
    }

    /// What the life leaves.
    pub(super) fn settle(&self) -> Vec<(Kind, Disk)> {
        let settled = self.devices.iter().map(|device| {
            let is_complete = self.is_complete(device);
            let is_rebuilt = device.lacks && self.is_in_sync(device);
            let is_clean = !device.is_harmed && (is_complete || is_rebuilt || device.before.is_clean);
            let disk = Disk {
                image: Rc::clone(&device.image),
                is_clean,
                is_complete,
                is_fresh: is_complete && !device.before.is_complete,
            };
            (device.kind, disk)
        });
        settled.collect()
    }
}
