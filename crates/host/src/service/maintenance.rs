//! The maintenance of a served mirror: scrubs, and a look for members that are slower than the rest.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::ring::{MemberState, MemberStatus};
use evenkeel_engine::volume::{ScrubMode, ScrubReport};

use super::events::watch::{Watcher, named};
use super::events::{About, Kind};
use super::term::Term;
use crate::event_loop::Loop;
use crate::volume::LocalVolume;
use crate::volume::mirror::Mirror;

/// How often members are compared.
const LOOK_NS: u64 = 5_000_000_000;

/// How long a member has to be slower than the rest before that is said.
const SLOW_FOR_NS: u64 = 60_000_000_000;

/// A member is slow below this share of what the others drain, at their median.
const SLOW_SHARE: f64 = 0.5;

/// How soon after an opening the first scrub begins, as a share of the time between two.
const FIRST_SHARE: f64 = 1.0 / 24.0;

/// How a mirror is scrubbed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScrubOptions {
    /// From the beginning of one scrub to that of the next; `None` for none.
    pub every_s: Option<f64>,
    /// Bytes of copies read in a second, at most.
    pub bytes_per_s: u64,
}

impl Default for ScrubOptions {
    fn default() -> Self {
        Self { every_s: Some(86_400.0), bytes_per_s: 4 << 20 }
    }
}

/// What was found so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Scrubbed {
    /// Pages that the scrub under way has looked at, if one is.
    pub(super) under_way_pages: Option<u64>,
    /// Scrubs that came to their end.
    pub(super) completed: u64,
    /// When the last one did.
    pub(super) ended_ns: Option<u64>,
    /// What scrubs found before the one under way.
    before: ScrubReport,
    /// What the one under way has found.
    current: ScrubReport,
}

impl Scrubbed {
    /// Copies that were looked at.
    pub(super) fn copies_checked(&self) -> u64 {
        self.before.copies_checked + self.current.copies_checked
    }

    /// Copies that were wrong, and were repaired.
    pub(super) fn wrong_copies(&self) -> u64 {
        self.before.wrong_copies + self.current.wrong_copies
    }

    /// Pages of which no copy was right, as far as the last scrub knows.
    pub(super) fn damaged_pages(&self) -> u64 {
        let damaged = match self.under_way_pages {
            Some(_) => self.current.damaged_pages.len().max(self.before.damaged_pages.len()),
            None => self.before.damaged_pages.len(),
        };
        damaged as u64
    }

    fn end(&mut self, now_ns: u64) {
        let current = std::mem::take(&mut self.current);
        self.before.copies_checked += current.copies_checked;
        self.before.wrong_copies += current.wrong_copies;
        self.before.damaged_pages = current.damaged_pages;
        (self.under_way_pages, self.ended_ns) = (None, Some(now_ns));
    }
}

/// What is known of an open mirror besides what it says itself. A clone is another handle to the same.
#[derive(Debug, Clone, Default)]
pub(super) struct Maintenance {
    pub(super) scrubbed: Rc<RefCell<Scrubbed>>,
    slow: Rc<RefCell<Slowness>>,
}

impl Maintenance {
    /// Begins the maintenance of a mirror, for this term.
    pub(super) fn begin(
        event_loop: &Loop,
        term: &Term,
        volume: &LocalVolume,
        mirror: &Mirror,
        scrub: ScrubOptions,
        watcher: &Watcher,
    ) -> Self {
        let maintenance = Self::default();
        let (slow, env, mirror) = (Rc::clone(&maintenance.slow), event_loop.clone(), mirror.clone());
        let looking = watcher.clone();
        term.spawn(async move {
            loop {
                env.sleep(LOOK_NS).await;
                let (now_ns, members) = (env.now_ns(), mirror.ring.members());
                let changed = slow.borrow_mut().look(now_ns, &members);
                report_slow(&looking, &changed, &members);
            }
        });
        if let Some(every_s) = scrub.every_s {
            let (scrubbed, env, volume) =
                (Rc::clone(&maintenance.scrubbed), event_loop.clone(), volume.clone());
            let watcher = watcher.clone();
            term.spawn(async move {
                let every_ns = (every_s * 1e9) as u64;
                env.sleep((every_ns as f64 * FIRST_SHARE) as u64).await;
                loop {
                    let began_ns = env.now_ns();
                    scrub_once(&env, &volume, &scrubbed, scrub.bytes_per_s, &watcher).await;
                    let took_ns = env.now_ns().saturating_sub(began_ns);
                    env.sleep(every_ns.saturating_sub(took_ns).max(LOOK_NS)).await;
                }
            });
        }
        maintenance
    }

    /// Which members have been slower than the rest for long.
    pub(super) fn slow(&self, now_ns: u64) -> Vec<bool> {
        self.slow.borrow().slow(now_ns)
    }
}

/// Reports members that have become slow, and those that are not any more.
fn report_slow(watcher: &Watcher, changed: &[(usize, bool)], members: &[MemberStatus]) {
    for &(place, is_slow) in changed {
        let ((name, about), drains) = (watcher.member(place), members[place].drain_bytes_per_s >> 10);
        let (kind, what) = match is_slow {
            true => (Kind::MemberSlow, "has taken less than half of what the others take for a minute"),
            false => (Kind::MemberSlowEnded, "is not slower than the others any more, or takes no part"),
        };
        watcher.reporter.report(kind, &about, format!("{name} {what}: {drains} KiB/s"));
    }
}

/// Reports what a scrub found that the one before it did not.
fn report_found(watcher: &Watcher, repaired: u64, known: &[u64], damaged: &[u64]) {
    let about = About::default();
    if repaired > 0 {
        let message = format!("scrub: {repaired} copies of pages were wrong, and were repaired from others");
        watcher.reporter.report_many(Kind::CopiesMended, repaired, &about, message);
    }
    let new: Vec<u64> = damaged.iter().copied().filter(|page| !known.contains(page)).collect();
    if !new.is_empty() {
        let (count, named) = (new.len(), named(&new));
        let message =
            format!("scrub: no copy of {count} pages is right: {named}; write them anew from a backup");
        watcher.reporter.report_many(Kind::PagesDamaged, count as u64, &about, message);
    }
}

async fn scrub_once(
    env: &Loop,
    volume: &LocalVolume,
    scrubbed: &RefCell<Scrubbed>,
    bytes_per_s: u64,
    watcher: &Watcher,
) {
    scrubbed.borrow_mut().under_way_pages = Some(0);
    let tell = |page: u64, report: &ScrubReport| {
        let mut scrubbed = scrubbed.borrow_mut();
        scrubbed.under_way_pages = Some(page + 1);
        if scrubbed.current.damaged_pages.len() < report.damaged_pages.len() {
            scrubbed.current.damaged_pages.clone_from(&report.damaged_pages);
        }
        scrubbed.current.copies_checked = report.copies_checked;
        scrubbed.current.wrong_copies = report.wrong_copies;
    };
    let ended = volume.scrub_telling(ScrubMode::Repair, bytes_per_s, tell).await;
    let mut scrubbed = scrubbed.borrow_mut();
    let (repaired, known) = (scrubbed.current.wrong_copies, scrubbed.before.damaged_pages.clone());
    scrubbed.end(env.now_ns());
    scrubbed.completed += u64::from(ended.is_ok());
    report_found(watcher, repaired, &known, &scrubbed.before.damaged_pages);
}

/// Members that are slower than the rest, and since when.
#[derive(Debug, Default)]
struct Slowness {
    since_ns: Vec<Option<u64>>,
    /// What each one took at the last look: bytes ever, and a second.
    seen: Vec<(u64, u64)>,
    /// What was said of each one at the last look.
    said: Vec<bool>,
}

impl Slowness {
    /// Compares the members that had something to write since the last look; of others nothing new is known. Of which of
    /// them it is another answer now whether they are slow, and which.
    fn look(&mut self, now_ns: u64, members: &[MemberStatus]) -> Vec<(usize, bool)> {
        self.since_ns.resize(members.len(), None);
        self.seen.resize(members.len(), (0, 0));
        let drains =
            |member: &MemberStatus| member.state == MemberState::InSync && member.drain_bytes_per_s > 0;
        for (place, member) in members.iter().enumerate() {
            if !drains(member) {
                self.since_ns[place] = None;
                continue;
            }
            let now = (member.written_bytes, member.drain_bytes_per_s);
            if std::mem::replace(&mut self.seen[place], now) == now {
                continue;
            }
            let others =
                members.iter().enumerate().filter(|(other, member)| *other != place && drains(member));
            let mut others: Vec<u64> = others.map(|(_, member)| member.drain_bytes_per_s).collect();
            others.sort_unstable();
            let is_slow = others
                .get(others.len() / 2)
                .is_some_and(|&median| (member.drain_bytes_per_s as f64) < median as f64 * SLOW_SHARE);
            self.since_ns[place] = if is_slow { self.since_ns[place].or(Some(now_ns)) } else { None };
        }
        let slow = self.slow(now_ns);
        let said = std::mem::replace(&mut self.said, slow.clone());
        let was_slow = |place: usize| said.get(place).copied().unwrap_or(false);
        slow.into_iter().enumerate().filter(|(place, is_slow)| was_slow(*place) != *is_slow).collect()
    }

    fn slow(&self, now_ns: u64) -> Vec<bool> {
        let is_long =
            |since_ns: &Option<u64>| since_ns.is_some_and(|since_ns| now_ns - since_ns >= SLOW_FOR_NS);
        self.since_ns.iter().map(is_long).collect()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::device::{Device, Durability, FlushScope, Geometry};
    use evenkeel_engine::format::ring_head::DATA_OFFSET;
    use evenkeel_engine::layout::mirror::MirrorPages;
    use evenkeel_engine::layout::{PageStore, Remembered};
    use evenkeel_engine::ring::{Policy, RebuildFound, RingOptions, Role};
    use evenkeel_sim::cuts::Cuts;
    use evenkeel_sim::drive::{DriveOptions, SimDrive};
    use evenkeel_sim::executor::{Executor, SimEnv};
    use evenkeel_sim::image::Image;
    use evenkeel_sim::latency::Latency;

    use super::*;

    const POLICIES: [Policy; 5] =
        [Policy::Auto, Policy::Turns, Policy::Mixed, Policy::ReadFirst, Policy::ReadAround];

    /// Bytes of a ring that is watched, and of one write to it.
    const RING_BYTES: u64 = 1 << 20;
    const WRITE_BYTES: u64 = 4 << 10;

    fn member(drain_bytes_per_s: u64, written_bytes: u64) -> MemberStatus {
        MemberStatus {
            state: MemberState::InSync,
            role: Role::Reading,
            failure: None,
            queued_bytes: 0,
            read_bytes: 0,
            written_bytes,
            turns: 0,
            drain_bytes_per_s,
            rebuild_found: RebuildFound::default(),
            failed_discards: 0,
            discards_stopped: None,
            lacks_bytes: None,
            away_ns: None,
            copied_bytes: 0,
        }
    }

    #[test]
    fn a_member_is_slow_after_a_minute_below_half_of_the_others_and_not_before() {
        let mut slowness = Slowness::default();
        for look in 1..=12 {
            slowness.look(look * LOOK_NS, &[member(100, look), member(49, look), member(120, look)]);
            assert_eq!(slowness.slow(look * LOOK_NS), [false; 3], "look {look}");
        }
        slowness.look(13 * LOOK_NS, &[member(100, 13), member(49, 13), member(120, 13)]);
        assert_eq!(slowness.slow(13 * LOOK_NS), [false, true, false]);
        slowness.look(14 * LOOK_NS, &[member(100, 14), member(90, 14), member(120, 14)]);
        assert_eq!(slowness.slow(14 * LOOK_NS), [false; 3]);
    }

    #[test]
    fn a_member_that_wrote_nothing_since_is_neither_taken_for_slow_nor_for_quick() {
        let mut slowness = Slowness::default();
        slowness.look(0, &[member(100, 1), member(10, 1)]);
        slowness.look(SLOW_FOR_NS, &[member(15, 2), member(10, 1)]);
        assert_eq!(slowness.slow(SLOW_FOR_NS), [false, true], "the second look knows nothing new");
        let out = MemberStatus { state: MemberState::Out, ..member(10, 2) };
        slowness.look(2 * SLOW_FOR_NS, &[member(100, 2), out]);
        assert_eq!(slowness.slow(2 * SLOW_FOR_NS), [false; 2]);
    }

    #[test]
    fn that_a_member_is_slow_is_told_when_it_begins_and_when_it_ends() {
        let (mut slowness, mut told) = (Slowness::default(), Vec::new());
        for look in 1..=30 {
            let drain = if look < 20 { 10 } else { 100 };
            let changed = slowness.look(look * LOOK_NS, &[member(100, look), member(drain, look)]);
            told.extend(changed.into_iter().map(|(place, is_slow)| (look, place, is_slow)));
        }
        assert_eq!(told, [(13, 1, true), (20, 1, false)]);
    }

    #[test]
    fn one_that_hangs_is_looked_at_though_it_writes_nothing() {
        let mut slowness = Slowness::default();
        slowness.look(0, &[member(100, 1), member(100, 1)]);
        for look in 1..=13 {
            slowness.look(look * LOOK_NS, &[member(100, 1), member(40 / look, 1)]);
        }
        assert_eq!(slowness.slow(13 * LOOK_NS), [false, true]);
    }

    /// What is said of members that take these times for a write, after each look: writers that go on when all members
    /// have theirs, or one that writes from time to time, beside readers.
    fn told(policy: Policy, write_ns: &[u64], writers: u64, pause_ns: u64) -> Vec<Vec<bool>> {
        let mut executor = Executor::new(1);
        let env = executor.env();
        let drive = |(place, &write_ns): (usize, &u64)| {
            let geometry =
                Geometry { size_bytes: RING_BYTES + DATA_OFFSET, sector_bytes: 512, atomic_sectors: true };
            let latency = Latency { write_ns, jitter_ns: write_ns / 10, ..Latency::default() };
            let options = DriveOptions { latency, seed: place as u64, ..DriveOptions::default() };
            Some(SimDrive::open(Image::shared(geometry), env.clone(), Cuts::none(env.stop()), options))
        };
        let drives = write_ns.iter().enumerate().map(drive).collect();
        let options = RingOptions { policy, ..RingOptions::default() };
        let ring = MirrorPages::new(env.clone(), drives, options).unwrap();
        let watched = async move {
            ring.init(1).await.unwrap();
            let state = ring.state();
            ring.resume(Remembered { volume: 1, state, superblock: 0, home_bytes: RING_BYTES }, 1)
                .await
                .unwrap();
            for number in 0..writers {
                let (ring, env) = (ring.clone(), env.clone());
                env.clone().spawn(async move { write_on(&ring, &env, number, pause_ns).await });
            }
            let (readers, clock) = (ring.clone(), env.clone());
            env.spawn(async move {
                let mut bytes = [0; 4096];
                for page in 0.. {
                    readers.read(page % 256 * 4096, &mut bytes).await.unwrap();
                    clock.sleep(20_000_000).await;
                }
            });
            let (mut slowness, mut told) = (Slowness::default(), Vec::new());
            for _ in 0..14 {
                env.sleep(LOOK_NS).await;
                slowness.look(env.now_ns(), &ring.members());
                told.push(slowness.slow(env.now_ns()));
            }
            told
        };
        executor.block_on(watched).unwrap()
    }

    async fn write_on(ring: &MirrorPages<SimEnv, SimDrive>, env: &SimEnv, number: u64, pause_ns: u64) {
        let bytes = vec![number as u8; WRITE_BYTES as usize];
        for write in 0.. {
            let place = (number * 4 + write % 4) * WRITE_BYTES % RING_BYTES;
            ring.write(place, &bytes, Durability::Buffered).await.unwrap();
            if write % 10 == 0 {
                ring.flush(FlushScope::Whole).await.unwrap();
            }
            env.sleep(pause_ns).await;
        }
    }

    #[test]
    fn a_member_slower_than_the_rest_for_a_minute_is_told_of_under_every_policy() {
        for policy in POLICIES {
            for (writers, pause_ns) in [(4, 0), (1, 30_000_000)] {
                let told = told(policy, &[5_000_000, 30_000_000, 5_000_000], writers, pause_ns);
                let (first, last) = (&told[..12], &told[12..]);
                assert!(first.iter().flatten().all(|slow| !slow), "{policy:?}: {told:?}");
                assert_eq!(last, vec![[false, true, false]; 2], "{policy:?}, {writers} writers");
            }
        }
    }

    #[test]
    fn members_that_differ_a_little_are_not_slow_under_any_policy_however_they_wait_for_one_another() {
        for policy in POLICIES {
            for (writers, pause_ns) in [(4, 0), (1, 30_000_000)] {
                let told = told(policy, &[6_000_000, 8_000_000, 7_000_000], writers, pause_ns);
                assert!(told.iter().flatten().all(|slow| !slow), "{policy:?}, {writers} writers: {told:?}");
            }
        }
    }
}
