//! A ring of members and its log devices, or with the log on the members; and what happens to them.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::layout::{Layout, log_bytes_with_superblocks};
use evenkeel_engine::format::{PAGE_BYTES, log_head, ring_head};
use evenkeel_engine::layout::mirror::MirrorJournal;
use evenkeel_engine::layout::mirror::MirrorPages;
use evenkeel_engine::layout::mirror::log_devices::LogStanding;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::ring::{RingOptions, Standing};
use evenkeel_engine::volume::{Volume, check, create};

use super::bed::{Bed, Drives, VolumeOn, kinds_without};
use super::lives::Machine;
use super::small::Small;
use crate::arena::SimArena;
use crate::drive::SimDrive;
use crate::executor::SimEnv;
use crate::faults::EIO;
use crate::mirror::draw_ring;
use crate::oracle::Violation;
use crate::random::Random;

/// Log devices, where there are any.
const LOGS: usize = 2;

/// Virtual time in which something happens to a drive.
const HAPPENS_WITHIN_NS: u64 = 6_000_000;

/// Virtual time after which a rebuild counts as one that does not end.
const REBUILD_MAX_NS: u64 = 2_000_000_000;

/// What happens to drives beside the cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Event {
    /// Nothing.
    Nothing,
    /// They are gone in the life whose crashes are tried.
    Gone,
    /// They were gone in the life before, and are back.
    Back,
    /// They are left out in the middle of the life.
    LeftOut,
    /// A member is left out, and a blank one takes its place.
    Replaced,
}

type SimRing = MirrorPages<SimEnv, SimDrive>;
type SimLogs = MirrorJournal<SimEnv, SimDrive, SimDrive>;

/// The members, then the log devices.
#[derive(Clone)]
pub(super) struct Mirror {
    members: usize,
    logs: usize,
    options: RingOptions,
    event: Event,
    /// To whom it happens: of each kind, all but one at most.
    to: Vec<bool>,
}

/// The ring and its log.
#[derive(Clone)]
pub(super) struct Parts {
    ring: SimRing,
    logs: SimLogs,
    /// Members that were left out from outside, a bit each.
    left_out: Rc<Cell<u64>>,
}

impl Mirror {
    /// That of the seed: about one in four holds its log on its members.
    pub(super) fn draw(small: &Small, members: usize) -> Self {
        let mut random = Random::new(small.seed ^ 0x4147);
        let has_log_on_members = random.chance(0.25);
        let logs = if has_log_on_members { 0 } else { LOGS };
        let log_bytes = log_bytes_with_superblocks(small.create.log_bytes.next_multiple_of(PAGE_BYTES));
        let options = RingOptions {
            log_bytes: if has_log_on_members { log_bytes } else { 0 },
            ..draw_ring(&mut random)
        };
        let event = match random.below(8) {
            0..2 => Event::Nothing,
            2..4 => Event::Gone,
            4 | 5 => Event::Back,
            6 => Event::LeftOut,
            _ => Event::Replaced,
        };
        let mut to = vec![false; members + logs];
        if members > 1 && (has_log_on_members || random.chance(0.7)) {
            // With the log on the members, half of them go on without the others only with the first.
            to[if has_log_on_members { members - 1 } else { random.index(members) }] = true;
        }
        if logs > 1 && random.chance(0.5) {
            to[members + random.index(logs)] = true;
        }
        Self { members, logs, options, event, to }
    }

    fn has_log_on_members(&self) -> bool {
        self.logs == 0
    }

    /// Whether a life that is cut may come before the one in which drives are gone: not where these may then alone have
    /// what was acknowledged.
    pub(super) fn may_begin_crashed(&self) -> bool {
        !(self.has_log_on_members() && self.event == Event::Gone)
    }

    fn ring_and_devices(
        &self,
        env: SimEnv,
        mut drives: Vec<Option<SimDrive>>,
    ) -> Result<(SimRing, Vec<Option<SimDrive>>), Error> {
        let logs = drives.split_off(self.members);
        Ok((MirrorPages::new(env, drives, self.options)?, logs))
    }
}

impl Bed for Mirror {
    type Home = SimRing;
    type Log = SimLogs;
    type Parts = Parts;

    const IS_REDUNDANT: bool = true;

    fn drive_bytes(&self, create: &CreateOptions) -> Vec<u64> {
        let home_bytes = Layout::home_bytes_for(create.size_bytes / PAGE_BYTES, create.log_bytes, true);
        let log_bytes = log_bytes_with_superblocks(create.log_bytes.next_multiple_of(PAGE_BYTES));
        let mut bytes = vec![home_bytes + ring_head::DATA_OFFSET + self.options.log_bytes; self.members];
        bytes.resize(self.members + self.logs, log_bytes + log_head::DATA_OFFSET);
        bytes
    }

    fn name(&self, drive: usize) -> String {
        match drive.checked_sub(self.members) {
            None => format!("member {drive}"),
            Some(log) => format!("log {log}"),
        }
    }

    fn kind(&self, drive: usize) -> usize {
        usize::from(drive >= self.members)
    }

    fn kinds_without_max(&self) -> usize {
        usize::from(!self.has_log_on_members())
    }

    fn is_cached(&self, _drive: usize) -> bool {
        false
    }

    async fn create(
        &self,
        env: SimEnv,
        drives: Vec<Option<SimDrive>>,
        options: CreateOptions,
        number: u64,
    ) -> Result<(), Error> {
        let (ring, devices) = self.ring_and_devices(env.clone(), drives)?;
        let logs = SimLogs::new(env, devices, ring.clone(), self.options.answer_max_ns)?;
        create(&ring, &logs, true, options, number).await
    }

    async fn open(
        &self,
        env: SimEnv,
        arena: SimArena,
        drives: Vec<Option<SimDrive>>,
        options: OpenOptions,
    ) -> Result<(VolumeOn<Self>, Parts), Error> {
        let (ring, devices) = self.ring_and_devices(env.clone(), drives)?;
        let logs = SimLogs::open(env.clone(), devices, ring.clone(), self.options.answer_max_ns).await?;
        let (home, log) = (Rc::new(ring.clone()), Rc::new(logs.clone()));
        let volume = Volume::open(env, arena, home, log, true, options).await?;
        Ok((volume, Parts { ring, logs, left_out: Rc::default() }))
    }

    fn have_all(&self, parts: &Parts) -> Vec<bool> {
        let members = parts.ring.members().into_iter().map(|member| member.standing == Standing::InSync);
        let logs = parts.logs.standings().into_iter().map(|(standing, _)| standing == LogStanding::InSync);
        members.chain(logs).collect()
    }

    fn may_refuse(&self, drives: &Drives, there: &[bool]) -> bool {
        let is_log_in_parts = self.has_log_on_members() && (drives.may_lack || there.contains(&false));
        is_log_in_parts || kinds_without(self, &drives.have_all, there) > 0
    }

    fn there_before(&self) -> Option<Vec<bool>> {
        (self.event == Event::Back).then(|| self.to.iter().map(|gone| !gone).collect())
    }

    fn there(&self) -> Vec<bool> {
        let is_gone = |gone: &bool| *gone && self.event == Event::Gone;
        self.to.iter().map(|gone| !is_gone(gone)).collect()
    }

    async fn go_on(machine: Rc<Machine<Self>>) {
        let Self { members, event, ref to, .. } = machine.bed;
        if !matches!(event, Event::LeftOut | Event::Replaced) {
            return;
        }
        let mut random = Random::new(machine.seed ^ 0xbef1);
        for drive in (0..to.len()).filter(|&drive| to[drive]) {
            machine.env.sleep(random.below(HAPPENS_WITHIN_NS)).await;
            let Some(Parts { ring, logs, left_out }) = machine.parts() else { return };
            if machine.env.is_stopped() || !machine.may_lose(drive) {
                continue;
            }
            let error = DeviceError { doing: "be told of it", errno: EIO };
            if drive >= members {
                logs.leave_out(drive - members, error);
                continue;
            }
            left_out.set(left_out.get() | 1 << drive);
            ring.leave_out(drive, error);
            if event == Event::Replaced {
                machine.env.sleep(random.below(HAPPENS_WITHIN_NS)).await;
                let blank = machine.replace_blank(drive);
                let replaced = ring.replace(drive, blank).await;
                replaced.expect("a member that takes no part is replaced");
                left_out.set(left_out.get() & !(1 << drive));
            }
        }
    }

    async fn settle(machine: &Machine<Self>, volume: &VolumeOn<Self>) -> Result<(), Violation> {
        let Some(Parts { ring, left_out, .. }) = machine.parts() else { return Ok(()) };
        let until_ns = machine.env.now_ns() + REBUILD_MAX_NS;
        let is_under_way = |standing| matches!(standing, Standing::Rebuilding { .. } | Standing::Stale);
        while ring.members().iter().any(|member| is_under_way(member.standing)) {
            if machine.env.now_ns() > until_ns {
                return Err(Violation::of(format!("a rebuild comes to no end: {:?}", ring.members())));
            }
            machine.env.sleep(500_000).await;
        }
        for (place, member) in ring.members().into_iter().enumerate() {
            // One that was put there just before the cut may not have been told of it.
            let may_be_out = left_out.get() >> place & 1 == 1
                || member.standing == Standing::Foreign && !machine.had_all(place);
            if machine.there[place] && !may_be_out && member.standing != Standing::InSync {
                return Err(Violation::of(format!("member {place} is well, and is {:?}", member.standing)));
            }
        }
        if machine.bed.has_log_on_members() && (left_out.get() != 0 || machine.may_lack()) {
            // The one copy of a record or of a superblock may be on a member that was left out, or is gone.
            return volume.checkpoint().await.map_err(Violation::of);
        }
        let report = check(volume).await.map_err(Violation::of)?;
        match report.is_clean() {
            true => Ok(()),
            false => Err(Violation::of(format!("what recovery left is damaged: {report:?}"))),
        }
    }
}
