//! What befalls a device, and when.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::format::layout::{LOG_COPIES, Layout, log_copy_offset};
use evenkeel_engine::format::{PAGE_BYTES, log_head, ring_head};
use evenkeel_engine::ring::Standing;

use super::Tally;
use super::account::{Account, Kind};
use super::watch::{Member, Watch};
use crate::cuts::Cuts;
use crate::drive::{Counters, DriveOptions, SimDrive};
use crate::executor::SimEnv;
use crate::faults::{EIO, Faults};
use crate::image::{Image, SharedImage};
use crate::oracle::Violation;
use crate::random::Random;

/// Bytes that rot together, at most.
const ROT_BYTES_MAX: u64 = 48;

/// What befalls a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mishap {
    /// Everything that it is asked fails from now on.
    Dies,
    /// It answers no more.
    FallsSilent,
    /// A write fails, and part of it arrived.
    FailsWrite,
    /// From some write on it is full.
    IsFull,
    /// A flush fails.
    FailsFlush,
    /// Whoever provides it says that it failed.
    IsLeftOut,
    /// What it calls durable is not.
    Lies,
    /// A write never happens.
    LosesWrite,
    /// A write lands at another place.
    MisdirectsWrite,
    /// Bits change.
    Rots,
    /// A sector cannot be read until it is written again.
    CannotRead,
}

impl Mishap {
    /// Any.
    pub(super) fn draw(random: &mut Random) -> Self {
        match random.below(14) {
            0..4 => Self::draw_death(random),
            4 => Self::IsLeftOut,
            5 | 6 => Self::Lies,
            7 => Self::LosesWrite,
            8 => Self::MisdirectsWrite,
            9..12 => Self::Rots,
            _ => Self::CannotRead,
        }
    }

    /// Any that takes nothing from a log of which each record is on one device only.
    pub(super) fn draw_sparing_log(random: &mut Random) -> Self {
        match Self::draw(random) {
            Self::Lies | Self::LosesWrite | Self::MisdirectsWrite => Self::Rots,
            other => other,
        }
    }

    /// One after which the device takes part no more, and which it does not hide.
    pub(super) fn draw_death(random: &mut Random) -> Self {
        let ways = [Self::Dies, Self::FallsSilent, Self::FailsWrite, Self::IsFull, Self::FailsFlush];
        *random.pick(&ways)
    }

    /// Whether it makes wrong what the device holds, and nobody is told.
    pub(super) fn harms(self) -> bool {
        use Mishap::{CannotRead, Lies, LosesWrite, MisdirectsWrite, Rots};
        matches!(self, Lies | LosesWrite | MisdirectsWrite | Rots | CannotRead)
    }

    /// What the drive does wrong then, some operations from `now` on.
    pub(super) fn faults(self, now: Counters, after_max: u64, random: &mut Random) -> Faults {
        let mut after = || random.below(after_max);
        let once = |number: u64| number..number + 1;
        match self {
            Self::Dies => {
                Faults { failing_operations: now.operations + after()..u64::MAX, ..Faults::default() }
            }
            Self::FallsSilent => {
                Faults { silent_operations: now.operations + after()..u64::MAX, ..Faults::default() }
            }
            Self::FailsWrite => Faults { failing_writes: once(now.writes + after()), ..Faults::default() },
            Self::IsFull => Faults { full_writes: now.writes + after()..u64::MAX, ..Faults::default() },
            Self::FailsFlush => {
                Faults { failing_flushes: once(now.flushes + after() / 4), ..Faults::default() }
            }
            Self::Lies => Faults {
                lying_durable_writes: now.writes..u64::MAX,
                lying_flushes: now.flushes..u64::MAX,
                ..Faults::default()
            },
            Self::LosesWrite => Faults { lost_writes: once(now.writes + after()), ..Faults::default() },
            Self::MisdirectsWrite => {
                Faults { misdirected_writes: once(now.writes + after()), ..Faults::default() }
            }
            Self::IsLeftOut | Self::Rots | Self::CannotRead => Faults::default(),
        }
    }
}

/// Any part of what a device of this kind holds.
pub(super) fn any_zone(kind: Kind, layout: &Layout, data_offset: u64, random: &mut Random) -> Extent {
    let shifted = |zone: Extent, by: u64| Extent::new(zone.offset + by, zone.len);
    match kind {
        Kind::Member => match random.below(10) {
            0 | 1 => Extent::new(0, ring_head::DATA_OFFSET),
            2 => shifted(layout.segments[0].table, data_offset),
            3 => shifted(*random.pick(&layout.roots), data_offset),
            _ => shifted(layout.segments[0].data, data_offset),
        },
        Kind::Log => match random.below(10) {
            0 | 1 => Extent::new(0, log_head::DATA_OFFSET),
            2 => {
                let copy = log_copy_offset(random.index(LOG_COPIES));
                shifted(Extent::new(copy, PAGE_BYTES), log_head::DATA_OFFSET)
            }
            _ => shifted(layout.log, log_head::DATA_OFFSET),
        },
    }
}

/// Does to a medium what needs no drive.
pub(super) fn harm(image: &SharedImage, mishap: Mishap, zone: Extent, random: &mut Random) {
    match mishap {
        Mishap::Rots => {
            let len = 1 + random.below(ROT_BYTES_MAX.min(zone.len));
            let offset = zone.offset + random.below(zone.len - len + 1);
            image.borrow_mut().rot(offset, len, random);
        }
        Mishap::CannotRead => {
            let offset = zone.offset + random.below(zone.len);
            image.borrow_mut().make_unreadable(Extent::new(offset, 1));
        }
        _ => {}
    }
}

/// A life in which things happen to devices.
pub(super) struct Scene {
    pub(super) env: SimEnv,
    pub(super) cuts: Cuts,
    pub(super) account: RefCell<Account>,
    pub(super) watch: Rc<Watch>,
    pub(super) layout: Layout,
    /// Where on a member what the layout speaks of begins.
    pub(super) data_offset: u64,
    pub(super) tally: RefCell<Tally>,
    pub(super) violation: Rc<RefCell<Option<Violation>>>,
    /// Whether more may be lost than the redundancy bears: of this kind, or of both.
    pub(super) loses_all: Option<Vec<Kind>>,
    /// What happened, if anyone wants to know.
    pub(super) story: RefCell<Vec<String>>,
    pub(super) volume_is_closed: Cell<bool>,
}

impl Scene {
    fn note(&self, what: String) {
        self.story.borrow_mut().push(format!("  at {} ns: {what}", self.env.now_ns()));
    }

    /// Things happen, one after the other.
    pub(super) async fn go_on(self: Rc<Self>, times: u64, mut random: Random) {
        for _ in 0..times {
            // From 10 us to 100 ms.
            let gap_ns = 10_000u64 << random.below(14);
            self.env.sleep(random.below(gap_ns)).await;
            if self.env.is_stopped() || self.violation.borrow().is_some() {
                return;
            }
            match &self.loses_all {
                Some(kinds) => {
                    let devices = self.account.borrow().devices.len();
                    for number in 0..devices {
                        let kind = self.account.borrow().devices[number].kind;
                        if kinds.contains(&kind) {
                            self.env.sleep(random.below(gap_ns)).await;
                            self.befall(number, Mishap::draw_death(&mut random), &mut random);
                        }
                    }
                }
                None => self.happen(&mut random).await,
            }
        }
    }

    /// Something happens to some device.
    async fn happen(&self, random: &mut Random) {
        let devices = self.account.borrow().devices.len();
        if let Some(rebuilt) = (0..devices).find(|&number| self.is_rebuilt(number))
            && random.chance(0.4)
        {
            // Another drive in the middle of a rebuild.
            self.befall(rebuilt, Mishap::IsLeftOut, random);
            self.replace(rebuilt, random).await;
            return;
        }
        let number = random.index(devices);
        if self.may_be_replaced(number) && random.chance(0.7) {
            self.replace(number, random).await;
            return;
        }
        let is_there = self.account.borrow().devices[number].is_there;
        if is_there && self.account.borrow().may_lose(number) {
            let mishap = match self.account.borrow().of(Kind::Log).next() {
                Some(_) => Mishap::draw(random),
                None => Mishap::draw_sparing_log(random),
            };
            self.befall(number, mishap, random);
        }
    }

    fn befall(&self, number: usize, mishap: Mishap, random: &mut Random) {
        let mut account = self.account.borrow_mut();
        let (kind, place) = (account.devices[number].kind, account.devices[number].place);
        self.note(format!("{kind:?} {place}: {mishap:?}"));
        self.tally.borrow_mut().count(mishap);
        self.watch.end();
        let device = &mut account.devices[number];
        match mishap {
            Mishap::Rots | Mishap::CannotRead => {
                harm(&device.image, mishap, any_zone(kind, &self.layout, self.data_offset, random), random);
            }
            Mishap::IsLeftOut => device.is_well = false,
            _ => {
                device.is_well = false;
                device.drive.set_faults(mishap.faults(device.drive.counters(), 8, random));
            }
        }
        device.is_harmed |= mishap.harms();
        let opened = account.opened.clone();
        drop(account);
        if let Some((ring, logs)) = opened.filter(|_| mishap == Mishap::IsLeftOut) {
            let error = DeviceError { doing: "be told of it", errno: EIO };
            match kind {
                Kind::Member => ring.leave_out(place, error),
                Kind::Log => logs.leave_out(place, error),
            }
        }
    }

    /// Whether it is a member that takes no part, and may get another drive.
    pub(super) fn may_be_replaced(&self, number: usize) -> bool {
        let account = self.account.borrow();
        let device = &account.devices[number];
        let Some((ring, _)) = account.opened.as_ref().filter(|_| device.kind == Kind::Member) else {
            return false;
        };
        matches!(ring.members()[device.place].standing, Standing::Out | Standing::Foreign)
    }

    /// Whether it is a member that is rebuilt now.
    fn is_rebuilt(&self, number: usize) -> bool {
        let account = self.account.borrow();
        let device = &account.devices[number];
        let standing = account.opened.as_ref().map(|(ring, _)| ring.members());
        device.kind == Kind::Member
            && standing
                .is_some_and(|members| matches!(members[device.place].standing, Standing::Rebuilding { .. }))
    }

    /// Puts a blank drive in the place of a member, or the one that was there.
    pub(super) async fn replace(&self, number: usize, random: &mut Random) {
        let Some((ring, _)) = self.account.borrow().opened.clone() else { return };
        let member = self.another(number, random);
        let place = member.place;
        self.note(format!("Member {place}: replaced"));
        self.tally.borrow_mut().replaced += 1;
        self.watch.end();
        if let Err(error) = ring.replace(place, member).await {
            let what = format!("member {place} cannot be replaced: {error}");
            self.violation.borrow_mut().get_or_insert(Violation { what });
        }
    }

    /// The drive to put in the place of a member, which the account has from now on.
    fn another(&self, number: usize, random: &mut Random) -> Member {
        let mut account = self.account.borrow_mut();
        let device = &account.devices[number];
        let place = device.place;
        // What hangs in a drive that fell silent may happen at any time.
        let may_stay = device.image.borrow().in_flight() == 0;
        let (image, drive) = match may_stay && random.coin() {
            true => {
                // Whoever was away is connected to now.
                device.image.borrow_mut().fence(random);
                (Rc::clone(&device.image), device.drive.clone())
            }
            false => {
                let image = Image::shared(device.image.borrow().geometry());
                let options = DriveOptions { seed: random.number(), ..DriveOptions::default() };
                let drive = SimDrive::open(Rc::clone(&image), self.env.clone(), self.cuts.clone(), options);
                (image, drive)
            }
        };
        drive.set_faults(Faults::default());
        account.replaced(number, image, drive.clone());
        Member { drive, place, watch: Rc::clone(&self.watch) }
    }
}
