//! Who has everything: the ground truth of what may still be lost, of any layout.
//!
//! 1. A device has everything if it was there and well all the time since it was last known to have it, and the engine
//!    counts it: one that is said to be in sync, and did nothing wrong, must count for all that the layout promises.
//! 2. Within the redundancy as many devices of each kind have everything at every moment as the layout needs
//!    ([`Testbed::needed`]); whatever befalls the others must not matter.
//! 3. One that lied, rotted or lost writes is not clean, and has not everything however much the engine counts it: until
//!    it was rebuilt, until a log was opened with it, or until it was healed. One that is rebuilt gets nothing of what is
//!    wrong on others. One that was away and took only what it had missed is as clean as it was.

use std::rc::Rc;

use evenkeel_engine::ring::MemberState;

use crate::drive::SimDrive;
use crate::image::{Image, SharedImage};
use crate::testbed::{Kind, Testbed};

/// What is known of a device between two runs.
#[derive(Clone)]
pub(crate) struct Disk {
    pub(crate) image: SharedImage,
    /// Whether nothing of what it said it holds is wrong; it may lack what came later.
    pub(crate) is_clean: bool,
    /// Whether it has everything.
    pub(crate) is_complete: bool,
    /// Whether it has so only since the last run.
    pub(crate) is_fresh: bool,
}

impl Disk {
    /// One that has everything, or is blank.
    pub(crate) fn clean(image: SharedImage, is_complete: bool) -> Self {
        Self { image, is_clean: true, is_complete, is_fresh: false }
    }
}

/// What is known of a device in a run.
pub(crate) struct Device {
    pub(crate) kind: Kind,
    pub(crate) before: Disk,
    pub(crate) image: SharedImage,
    pub(crate) drive: SimDrive,
    pub(crate) is_there: bool,
    /// Whether it does what it is asked, or says that it does not.
    pub(crate) is_well: bool,
    /// How often something went wrong with it in this run, other than with what it holds.
    pub(crate) failures: u32,
    /// Whether what it holds was harmed in this run.
    pub(crate) is_harmed: bool,
    /// Whether it lacked writes, and has to be rebuilt.
    pub(crate) lacks: bool,
    /// Whether another took its place in this run.
    pub(crate) was_replaced: bool,
}

impl Device {
    /// One that is well, if it is there.
    pub(crate) fn new(kind: Kind, before: Disk, drive: SimDrive, is_there: bool) -> Self {
        let image = Rc::clone(&before.image);
        let (is_well, failures, is_harmed, lacks, was_replaced) = (true, 0, false, false, false);
        Self { kind, before, image, drive, is_there, is_well, failures, is_harmed, lacks, was_replaced }
    }

    /// Whether nothing is wrong with it since the run began.
    pub(crate) fn is_fine(&self) -> bool {
        self.is_there && self.is_well && !self.is_harmed
    }
}

/// All of them, in one run.
pub(crate) struct GroundTruth<T: Testbed> {
    pub(crate) testbed: T,
    pub(crate) devices: Vec<Device>,
    /// What tells of the devices, once the volume is open.
    pub(crate) opened: Option<T::Opened>,
    /// Whether, since the volume was last open before this run, a device was replaced that may have held what no other
    /// has.
    lacked: bool,
    /// What was of the log until another one took its place in this run, and its place.
    pub(crate) retired: Option<(usize, SharedImage)>,
}

impl<T: Testbed> GroundTruth<T> {
    /// Of a run that is about to begin.
    pub(crate) fn new(testbed: T, devices: Vec<Device>, lacked: bool) -> Self {
        Self { testbed, devices, opened: None, lacked, retired: None }
    }

    /// The numbers of those of one kind.
    pub(crate) fn of(&self, kind: Kind) -> impl Iterator<Item = usize> + use<'_, T> {
        (0..self.devices.len()).filter(move |&number| self.devices[number].kind == kind)
    }

    /// What the engine says of a device, once the volume is open.
    pub(crate) fn state(&self, number: usize) -> Option<MemberState> {
        self.opened.as_ref().map(|opened| self.testbed.status(opened, number).state)
    }

    /// Whether the engine counts it.
    pub(crate) fn is_in_sync(&self, number: usize) -> bool {
        self.state(number) == Some(MemberState::InSync)
    }

    /// Whether it must count, if the run ended now.
    pub(crate) fn is_complete(&self, number: usize) -> bool {
        let device = &self.devices[number];
        device.is_fine()
            && match (&self.opened, device.kind) {
                (None, _) => device.before.is_complete,
                (Some(_), Kind::Log) => self.is_in_sync(number),
                (Some(_), Kind::Pages) => {
                    (self.is_rebuilt(number) || device.before.is_clean) && self.is_in_sync(number)
                }
            }
    }

    /// Whether all that it holds was copied to it in this run, or is about to be.
    fn is_rebuilt(&self, number: usize) -> bool {
        let is_caught_up = |opened: &T::Opened| self.testbed.status(opened, number).is_caught_up;
        self.devices[number].lacks && !self.opened.as_ref().is_some_and(is_caught_up)
    }

    /// The numbers of those of one kind that are there and do not what they are asked.
    pub(crate) fn fallen(&self, kind: Kind) -> Vec<usize> {
        let has_fallen = |&number: &usize| self.devices[number].is_there && !self.devices[number].is_well;
        self.of(kind).filter(has_fallen).collect()
    }

    /// Whether enough others of its kind have everything, so that it may be lost.
    pub(crate) fn may_lose(&self, lost: usize) -> bool {
        let kind = self.devices[lost].kind;
        let others = self.of(kind).filter(|&other| other != lost && self.is_complete(other));
        others.count() >= self.testbed.needed(kind)
    }

    /// Whether nothing is or was wrong with any device so far.
    pub(crate) fn is_spotless(&self) -> bool {
        self.devices.iter().all(|device| device.is_fine() && device.before.is_clean && !device.lacks)
    }

    /// Whether some device is missing, or was harmed, that may have held what no other has.
    pub(crate) fn may_lack_log(&self) -> bool {
        self.lacked || self.devices.iter().any(|device| !device.is_fine() || !device.before.is_clean)
    }

    /// Whether, since the volume was last open, a device was replaced that may have held what no other has.
    pub(crate) fn lacks(&self) -> bool {
        self.lacked && self.opened.is_none() || self.devices.iter().any(|device| device.was_replaced)
    }

    /// The volume is open: who lacks writes is known.
    pub(crate) fn open(&mut self, opened: T::Opened) {
        self.opened = Some(opened);
        for number in 0..self.devices.len() {
            self.devices[number].lacks = self.devices[number].kind == Kind::Pages && !self.is_in_sync(number);
        }
    }

    /// Another drive was put in the place of this one.
    pub(crate) fn replaced(&mut self, number: usize, image: SharedImage, drive: SimDrive) {
        let device = &mut self.devices[number];
        (device.image, device.drive) = (image, drive);
        (device.is_there, device.is_well, device.is_harmed) = (true, true, false);
        (device.lacks, device.was_replaced) = (true, true);
    }

    /// Another drive has everything of the log, and takes the place of this one.
    pub(crate) fn log_replaced(&mut self, number: usize, image: SharedImage, drive: SimDrive, is_well: bool) {
        let device = &mut self.devices[number];
        let before = std::mem::replace(&mut device.image, image);
        if !Rc::ptr_eq(&before, &device.image) {
            self.retired = Some((number, before));
        }
        device.drive = drive;
        (device.is_there, device.is_well, device.is_harmed) = (true, is_well, false);
    }

    /// The drive of this one, which was away, is there again. `failures` came before that: one that came since lasts.
    pub(crate) fn rejoined(&mut self, number: usize, failures: u32) {
        let device = &mut self.devices[number];
        let is_well = device.failures == failures;
        (device.is_there, device.is_well, device.lacks) = (true, is_well, true);
    }

    /// What the run leaves.
    pub(crate) fn settle(&self) -> Vec<Disk> {
        let settled = self.devices.iter().enumerate().map(|(number, device)| {
            let is_complete = self.is_complete(number);
            let is_rebuilt = self.is_rebuilt(number) && self.is_in_sync(number);
            Disk {
                image: Rc::clone(&device.image),
                is_clean: !device.is_harmed && (is_complete || is_rebuilt || device.before.is_clean),
                is_complete,
                is_fresh: is_complete && !device.before.is_complete,
            }
        });
        settled.collect()
    }

    /// What a cut would leave now: the drives, and which of them have everything.
    pub(crate) fn snapshot(&self) -> Drives {
        Drives {
            images: self.devices.iter().map(|device| device.image.borrow().clone()).collect(),
            have_all: (0..self.devices.len()).map(|number| self.is_complete(number)).collect(),
            may_lack: self.lacks(),
        }
    }
}

/// Copies of drives between two runs, or at a moment of one.
#[derive(Clone)]
pub(crate) struct Drives {
    pub(crate) images: Vec<Image>,
    /// Which of them have everything: of each kind, as many as are needed of these are enough.
    pub(crate) have_all: Vec<bool>,
    /// Whether one was taken away for good that may have held what no other does.
    pub(crate) may_lack: bool,
}
