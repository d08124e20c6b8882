//! Machines with several members and log devices.

use evenkeel_engine::device::{Device, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::format::layout::log_bytes_with_superblocks;
use evenkeel_engine::ring::{MemberState, Policy, RingOptions, WindowOptions};
use evenkeel_sim::drive::SimDrive;
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::SharedImage;
use evenkeel_sim::testbed::{Kind, Mirror, OpenMirror, Testbed, VolumeOn};

use super::{Disks, Layout, MachineOn, PlanOn, RunOn};
pub use super::{PAGE, WHOLE_RUN, filled, noise};
use evenkeel_engine::format::stripes::Stripes;

pub use evenkeel_sim::testbed::{SimLogs, SimRing};
pub type RingVolume = VolumeOn<Mirror>;
pub type Plan = PlanOn<Mirror>;
pub type Machine = MachineOn<Mirror>;
pub type Run = RunOn<Mirror>;

impl Plan {
    /// A small mirror.
    pub fn mirror(members: usize, logs: usize) -> Self {
        let ring = RingOptions {
            turn_ns: 5_000_000,
            rest_ns: 200_000,
            rest_max_ns: 5_000_000,
            depth_max: 4,
            answer_max_ns: 1_000_000_000,
            rebuild_bytes_per_s: 1 << 40,
            window: WindowOptions::default(),
            policy: Policy::Turns,
            ..RingOptions::default()
        };
        let mut plan = Self::of_pages_on(Mirror { members, logs, ring, journal_bytes: 0 }, 64);
        plan.open.cached_pages_max = 16;
        plan
    }

    /// A small volume on a ring with stripes.
    pub fn striped(data: usize, parity: usize, logs: usize) -> Self {
        let mut plan = Self::mirror(data + parity, logs);
        plan.ring.stripes = Stripes::new(data, parity, 4096);
        plan.testbed = plan.testbed.with_journal_of(&plan.create);
        plan
    }

    /// The same with its log on the members.
    pub fn with_log_on_members(members: usize) -> Self {
        let mut plan = Self::mirror(members, 0);
        plan.ring.log_bytes = log_bytes_with_superblocks(plan.create.log_bytes);
        plan
    }

    /// Where on a member its pages begin.
    pub fn data_offset(&self) -> u64 {
        self.testbed.data_offset(Kind::Pages)
    }
}

/// The drives between two runs.
pub struct Ring {
    pub members: Vec<SharedImage>,
    pub logs: Vec<SharedImage>,
    /// Which are not there in the next runs.
    pub members_gone: Vec<usize>,
    pub logs_gone: Vec<usize>,
    /// What they do wrong in the next runs.
    pub member_faults: Vec<Faults>,
    pub log_faults: Vec<Faults>,
}

impl Disks for Ring {
    fn images(&self) -> Vec<SharedImage> {
        self.members.iter().chain(&self.logs).cloned().collect()
    }

    fn faults(&self, number: usize) -> Option<Faults> {
        let (place, gone, faults) = match number.checked_sub(self.members.len()) {
            None => (number, &self.members_gone, &self.member_faults),
            Some(place) => (place, &self.logs_gone, &self.log_faults),
        };
        Some(faults[place].clone()).filter(|_| !gone.contains(&place))
    }
}

/// The drives in a run.
pub struct Drives {
    pub members: Vec<SimDrive>,
    pub logs: Vec<SimDrive>,
}

impl Layout for Mirror {
    type Disks = Ring;
    type Drives = Drives;
    type Volume = (RingVolume, SimRing, SimLogs);

    fn disks(&self, mut images: Vec<SharedImage>) -> Ring {
        let logs = images.split_off(self.members);
        Ring {
            members: images,
            logs,
            members_gone: Vec::new(),
            logs_gone: Vec::new(),
            member_faults: vec![Faults::default(); self.members],
            log_faults: vec![Faults::default(); self.logs],
        }
    }

    fn named(&self, drives: &[SimDrive]) -> Drives {
        let (members, logs) = drives.split_at(self.members);
        Drives { members: members.to_vec(), logs: logs.to_vec() }
    }

    fn volume(&self, volume: RingVolume, opened: OpenMirror) -> Self::Volume {
        (volume, opened.ring, opened.logs)
    }

    fn of(volume: &Self::Volume) -> &RingVolume {
        &volume.0
    }
}

impl Machine {
    /// Where on a member a page of the volume is.
    pub fn page_on_member(&self, page: u64) -> Extent {
        let layout = self.plan.testbed.layout(&self.plan.create);
        Extent::new(self.plan.data_offset() + layout.page_offset(page), PAGE)
    }

    /// What one member holds where the volume's pages are.
    pub fn member_pages(&self, place: usize) -> Vec<u8> {
        let mut bytes = vec![0; self.plan.create.size_bytes as usize];
        self.members[place].borrow().read_durable(self.page_on_member(0).offset, &mut bytes);
        bytes
    }
}

/// A drive that answers no more.
pub fn silent(from: u64) -> Faults {
    Faults { silent_operations: from..u64::MAX, ..Faults::default() }
}

/// Waits until every member counts.
pub async fn whole(ring: &SimRing, env: &impl Env) {
    while ring.members().iter().any(|member| member.state != MemberState::InSync) {
        env.sleep(1_000_000).await;
    }
}

/// A drive that fails whatever it is asked.
pub fn dead() -> Faults {
    Faults { failing_operations: 0..u64::MAX, ..Faults::default() }
}

/// Bytes that a device offers.
pub fn size_of(device: &impl Device) -> u64 {
    device.geometry().size_bytes
}
