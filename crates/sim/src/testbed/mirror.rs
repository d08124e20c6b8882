//! A ring of members that mirror each other, and its log devices, or with the log on the members.

use std::rc::Rc;

use evenkeel_engine::device::{Device, Extent};
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::layout::{LOG_COPIES, Layout, log_copy_offset};
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::format::{PAGE_BYTES, log_head, ring_head};
use evenkeel_engine::layout::mirror::MirrorJournal;
use evenkeel_engine::layout::mirror::MirrorPages;
use evenkeel_engine::layout::mirror::log_devices::{LogDeviceState, found_log};
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::ring::{MemberState, Policy, RingOptions};
use evenkeel_engine::volume::{Volume, create};

use super::watch::{Watch, WatchedDrive};
use super::{Kind, Status, Testbed, VolumeOn, log_drive_bytes, log_superblocks};
use crate::arena::SimArena;
use crate::drive::SimDrive;
use crate::executor::SimEnv;
use crate::random::Random;

/// The ring of a simulated volume.
pub type SimRing = MirrorPages<SimEnv, WatchedDrive>;
/// Its log.
pub type SimLogs = MirrorJournal<SimEnv, SimDrive, WatchedDrive>;

/// The members, then the log devices. One of each is enough.
#[derive(Debug, Clone, Copy)]
pub struct Mirror {
    /// Members of the ring.
    pub members: usize,
    /// Log devices; 0 where the log is on the members ([`RingOptions::log_bytes`]).
    pub logs: usize,
    /// How the ring is run.
    pub ring: RingOptions,
    /// Bytes of the journal on each log device, with its superblocks: behind them lies the log of stripes, however large the
    /// device is.
    pub journal_bytes: u64,
}

/// How many of the largest changes a log of stripes has room for.
const LARGEST_CHANGES: u64 = 8;

/// An open mirror.
#[derive(Clone)]
pub struct OpenMirror {
    /// The ring.
    pub ring: SimRing,
    /// Its log.
    pub logs: SimLogs,
    watch: Rc<Watch>,
}

impl Mirror {
    /// Bytes behind the journal of each log device, where changes of stripes are logged: as few as a volume is made with, so
    /// that they are used again soon.
    fn stripe_log_bytes(&self) -> u64 {
        let largest_bytes = |it: Stripes| PAGE_BYTES + it.members() as u64 * it.shard_bytes();
        self.ring.stripes.map_or(0, |stripes| LARGEST_CHANGES * largest_bytes(stripes))
    }

    /// Where the log of stripes is, from the begin of each log device's journal.
    fn stripe_log_zone(&self) -> Extent {
        Extent::new(self.journal_bytes, self.stripe_log_bytes())
    }

    /// The same for a volume that is made so.
    pub fn with_journal_of(self, create: &CreateOptions) -> Self {
        Self { journal_bytes: log_drive_bytes(create), ..self }
    }

    /// The same without log devices: the log is on the members, of a volume that is made so.
    pub(crate) fn with_log_on_members(self, create: &CreateOptions) -> Self {
        let ring = RingOptions { log_bytes: log_drive_bytes(create), ..self.ring };
        Self { logs: 0, ring, ..self }
    }

    fn watch(&self) -> Rc<Watch> {
        let superblocks = if self.is_log_spread() { LOG_COPIES as u64 * PAGE_BYTES } else { 0 };
        Rc::new(Watch::new(
            self.needed(Kind::Pages),
            self.data_offset(Kind::Pages),
            ring_head::DATA_OFFSET + superblocks,
        ))
    }

    fn ring_and_devices(
        &self,
        env: SimEnv,
        watch: &Rc<Watch>,
        mut drives: Vec<Option<SimDrive>>,
    ) -> Result<(SimRing, Vec<Option<SimDrive>>), Error> {
        let devices = drives.split_off(self.members);
        let member =
            |(place, drive): (usize, Option<SimDrive>)| Some(WatchedDrive::new(drive?, place, watch));
        let members = drives.into_iter().enumerate().map(member).collect();
        Ok((MirrorPages::new(env, members, self.ring)?, devices))
    }
}

impl Testbed for Mirror {
    type Home = SimRing;
    type Log = SimLogs;
    type Opened = OpenMirror;

    const IS_REDUNDANT: bool = true;

    fn drives(&self, create: &CreateOptions) -> Vec<(Kind, u64)> {
        let share_bytes = self.share_bytes(self.home_bytes(create));
        let member = (Kind::Pages, share_bytes + self.data_offset(Kind::Pages));
        let journal_bytes = log_drive_bytes(create);
        let is_told = self.ring.stripes.is_none() || self.journal_bytes == journal_bytes;
        assert!(is_told, "the log of stripes lies behind the journal");
        let log = (Kind::Log, journal_bytes + self.data_offset(Kind::Log) + self.stripe_log_bytes());
        [vec![member; self.members], vec![log; self.logs]].concat()
    }

    fn page_drives(&self) -> usize {
        self.members
    }

    fn log_drives(&self) -> usize {
        self.logs
    }

    fn name(&self, number: usize) -> String {
        let word = if self.kind(number) == Kind::Pages { "member" } else { "log" };
        format!("{word} {}", self.place(number))
    }

    fn needed(&self, kind: Kind) -> usize {
        match (kind, self.ring.stripes) {
            (Kind::Pages, Some(stripes)) => stripes.data(),
            _ => 1,
        }
    }

    fn has_separate_log(&self) -> bool {
        true
    }

    fn is_log_spread(&self) -> bool {
        self.logs == 0
    }

    fn data_offset(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Pages => ring_head::DATA_OFFSET + self.ring.log_bytes,
            Kind::Log => log_head::DATA_OFFSET,
        }
    }

    fn stripe_log(&self) -> Option<Extent> {
        let Extent { offset, len } = self.stripe_log_zone();
        (len > 0).then(|| Extent::new(offset + self.data_offset(Kind::Log), len))
    }

    fn superblocks(&self, kind: Kind, _layout: &Layout) -> Vec<u64> {
        match kind {
            Kind::Pages if self.is_log_spread() => log_superblocks(ring_head::DATA_OFFSET),
            Kind::Pages => Vec::new(),
            Kind::Log => log_superblocks(log_head::DATA_OFFSET),
        }
    }

    fn any_zone(&self, kind: Kind, layout: &Layout, random: &mut Random) -> Extent {
        let shifted = |zone: Extent| Extent::new(zone.offset + self.data_offset(kind), zone.len);
        if kind == Kind::Pages && self.ring.stripes.is_some() {
            let share_bytes = self.share_bytes(layout.home_bytes);
            let page = random.below(share_bytes / PAGE_BYTES);
            return shifted(Extent::new(page * PAGE_BYTES, PAGE_BYTES));
        }
        match (kind, random.below(10)) {
            (Kind::Pages, 0 | 1) => Extent::new(0, ring_head::DATA_OFFSET),
            (Kind::Pages, 2) => shifted(layout.segments[0].table),
            (Kind::Pages, 3) => shifted(*random.pick(&layout.roots)),
            (Kind::Pages, _) => shifted(layout.segments[0].data),
            (Kind::Log, 0 | 1) => Extent::new(0, log_head::DATA_OFFSET),
            (Kind::Log, 2) => shifted(Extent::new(log_copy_offset(random.index(LOG_COPIES)), PAGE_BYTES)),
            (Kind::Log, _) => shifted(layout.log),
        }
    }

    async fn create(
        &self,
        env: SimEnv,
        drives: Vec<Option<SimDrive>>,
        options: CreateOptions,
        volume: u64,
    ) -> Result<(), Error> {
        let (ring, devices) = self.ring_and_devices(env.clone(), &self.watch(), drives)?;
        let logs = SimLogs::new(env, devices, ring.clone(), self.ring.answer_max_ns)?;
        create(&ring, &logs, true, options, volume).await
    }

    async fn open(
        &self,
        env: SimEnv,
        arena: SimArena,
        drives: Vec<Option<SimDrive>>,
        options: OpenOptions,
    ) -> Result<(VolumeOn<Self>, OpenMirror), Error> {
        let watch = self.watch();
        let (ring, devices) = self.ring_and_devices(env.clone(), &watch, drives)?;
        let logs = SimLogs::open(env.clone(), devices, ring.clone(), self.ring.answer_max_ns).await?;
        logs.log_stripes_of(&ring, self.stripe_log_zone());
        let (home, log) = (Rc::new(ring.clone()), Rc::new(logs.clone()));
        let volume = Volume::open(env, arena, home, log, true, options).await?;
        Ok((volume, OpenMirror { ring, logs, watch }))
    }

    fn status(&self, opened: &OpenMirror, number: usize) -> Status {
        let place = self.place(number);
        match self.kind(number) {
            Kind::Pages => {
                let member = opened.ring.members()[place];
                Status {
                    state: member.state,
                    has_failed: member.failure.is_some(),
                    is_caught_up: member.lacks_bytes.is_some(),
                }
            }
            Kind::Log => {
                let (state, failure) = opened.logs.states()[place];
                let state = match state {
                    LogDeviceState::InSync => MemberState::InSync,
                    LogDeviceState::Foreign => MemberState::Foreign,
                    LogDeviceState::Stale | LogDeviceState::Out => MemberState::Out,
                };
                Status { state, has_failed: failure.is_some(), is_caught_up: false }
            }
        }
    }

    fn share_bytes(&self, home_bytes: u64) -> u64 {
        self.ring.stripes.map_or(home_bytes, |it| it.member_bytes(home_bytes).expect("it fits"))
    }

    fn offered_bytes(&self, opened: &OpenMirror) -> u64 {
        opened.ring.geometry().size_bytes
    }

    fn fail(&self, opened: &OpenMirror, number: usize, error: DeviceError) {
        let place = self.place(number);
        match self.kind(number) {
            Kind::Pages => opened.ring.fail(place, error),
            Kind::Log => opened.logs.fail(place, error),
        }
    }

    async fn replace(&self, opened: &OpenMirror, number: usize, drive: SimDrive) -> Result<(), Error> {
        opened.ring.replace(number, WatchedDrive::new(drive, number, &opened.watch)).await
    }

    async fn replace_log(
        &self,
        opened: &OpenMirror,
        number: usize,
        drive: SimDrive,
        name: impl FnOnce(),
    ) -> Result<(), Error> {
        let copy = opened.logs.replace(self.place(number), drive).await?;
        let named = || {
            name();
            Ok(())
        };
        copy.complete(self.ring.rebuild_bytes_per_s, named).await
    }

    async fn rejoin(&self, opened: &OpenMirror, number: usize, drive: SimDrive) -> Result<(), Error> {
        opened.ring.rejoin(number, WatchedDrive::new(drive, number, &opened.watch)).await.map(drop)
    }

    async fn init_log(&self, number: usize, drive: &SimDrive, volume: u64) -> Result<(), DeviceError> {
        found_log(drive, volume, self.place(number) as u16, self.logs as u16).await
    }

    fn begin_watch(&self, opened: &OpenMirror) {
        if matches!(self.ring.policy, Policy::Turns | Policy::ReadAround) {
            opened.watch.begin(opened.ring.clone());
        }
    }

    fn end_watch(&self, opened: &OpenMirror) {
        opened.watch.end();
    }

    fn watched(&self, opened: &OpenMirror) -> (u64, Option<String>) {
        (opened.watch.reads(), opened.watch.offence())
    }
}
