//! What happens to drives that stand in for each other beside the cut, and what must hold once it has.

use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::ring::MemberState;
use evenkeel_engine::volume::check;

use crate::faults::Fault;
use crate::fixture::Fixture;
use crate::oracle::Violation;
use crate::random::Random;
use crate::testbed::{Kind, Testbed, VolumeOn};

/// Virtual time in which something happens to a drive.
const HAPPENS_WITHIN_NS: u64 = 6_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// Nothing.
    Nothing,
    /// They are gone in the run whose crashes are tried.
    Gone,
    /// They were gone in the run before, and are back.
    Back,
    /// They fail in the middle of the run.
    Fail,
    /// They fail, and blank ones take their places.
    Replaced,
}

/// What happens, and to which drives.
#[derive(Debug, Clone)]
pub(super) struct Event {
    what: What,
    /// Of each kind no more than the layout can spare.
    to: Vec<bool>,
}

impl Event {
    /// Nothing happens to the drives of this testbed.
    pub(super) fn nothing<T: Testbed>(testbed: &T) -> Self {
        Self { what: What::Nothing, to: vec![false; testbed.page_drives() + testbed.log_drives()] }
    }

    /// Something happens to one drive of each kind, at most.
    pub(super) fn draw<T: Testbed>(testbed: &T, random: &mut Random) -> Self {
        let what = match random.below(8) {
            0..2 => What::Nothing,
            2..4 => What::Gone,
            4 | 5 => What::Back,
            6 => What::Fail,
            _ => What::Replaced,
        };
        let (pages, logs) = (testbed.page_drives(), testbed.log_drives());
        let mut to = vec![false; pages + logs];
        if pages > testbed.needed(Kind::Pages) && (testbed.is_log_spread() || random.chance(0.7)) {
            // With the log on drives with pages, half of them go on without the others only with the first.
            to[if testbed.is_log_spread() { pages - 1 } else { random.index(pages) }] = true;
        }
        if logs > testbed.needed(Kind::Log) && random.chance(0.5) {
            to[pages + random.index(logs)] = true;
        }
        Self { what, to }
    }

    /// Whether a run that is cut may come before the one in which drives are gone: not where these may then alone have
    /// what was acknowledged.
    pub(super) fn may_begin_crashed<T: Testbed>(&self, testbed: &T) -> bool {
        !(testbed.is_log_spread() && self.what == What::Gone)
    }

    /// Which drives are there in the run before the one whose crashes are tried, if there must be one.
    pub(super) fn there_before(&self) -> Option<Vec<bool>> {
        (self.what == What::Back).then(|| self.to.iter().map(|gone| !gone).collect())
    }

    /// Which are there in that one.
    pub(super) fn there(&self) -> Vec<bool> {
        self.to.iter().map(|gone| !gone || self.what != What::Gone).collect()
    }

    /// What happens to the drives while clients work.
    pub(super) async fn happen<T: Testbed>(&self, fixture: &Rc<Fixture<T>>, seed: u64) {
        if !matches!(self.what, What::Fail | What::Replaced) {
            return;
        }
        let mut random = Random::new(seed ^ 0xbef1);
        for drive in (0..self.to.len()).filter(|&drive| self.to[drive]) {
            fixture.env.sleep(random.below(HAPPENS_WITHIN_NS)).await;
            let Some(opened) = fixture.opened() else { return };
            if fixture.env.is_stopped() || !fixture.truth.borrow().may_lose(drive) {
                continue;
            }
            fixture.inject(drive, Fault::IsFailed, &mut random);
            if self.what == What::Replaced {
                fixture.env.sleep(random.below(HAPPENS_WITHIN_NS)).await;
                match fixture.testbed.kind(drive) {
                    Kind::Pages => fixture.replace_blank(&opened, drive, seed).await,
                    Kind::Log => fixture.replace_log_blank(drive, seed).await,
                }
            }
        }
    }
}

impl<T: Testbed> Fixture<T> {
    /// Waits until every drive that can has everything, and looks at all of them.
    pub(super) async fn settle_all(&self, volume: &VolumeOn<T>) -> Result<(), Violation> {
        if !T::IS_REDUNDANT || self.opened().is_none() {
            return Ok(());
        }
        self.wait_for_rebuilds(500_000).await;
        if let Some(violation) = self.violation.take() {
            return Err(violation);
        }
        let mut may_lack = false;
        {
            let truth = self.truth.borrow();
            for number in truth.of(Kind::Pages) {
                let (device, state) = (&truth.devices[number], truth.state(number));
                // One that was put there just before the cut may not have been told of it.
                let may_be_out =
                    !device.is_well || state == Some(MemberState::Foreign) && !device.before.is_complete;
                if device.is_there && !may_be_out && state != Some(MemberState::InSync) {
                    let name = self.testbed.name(number);
                    return Err(Violation::of(format!("{name} is well, and is {state:?}")));
                }
                may_lack |= !device.is_well;
            }
            may_lack |= truth.lacks();
        }
        if self.testbed.is_log_spread() && may_lack {
            // The one copy of a record or of a superblock may be on a drive that failed, or is gone.
            return volume.checkpoint().await.map_err(Violation::of);
        }
        let report = check(volume).await.map_err(Violation::of)?;
        match report.is_clean() {
            true => Ok(()),
            false => Err(Violation::of(format!("what recovery left is damaged: {report:?}"))),
        }
    }
}
