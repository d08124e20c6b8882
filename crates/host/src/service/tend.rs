//! What the server of a mirror does of itself: it looks for rot, and for members that are slower than the rest.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_engine::ring::{MemberStatus, Standing};
use evenkeel_engine::volume::{Mending, ScrubReport};

use super::Told;
use crate::event_loop::Loop;
use crate::volume::mirror::Mirror;

/// How often members are compared.
const LOOK_NS: u64 = 5_000_000_000;

/// How long a member has to be slower than the rest before that is said.
const SLOW_FOR_NS: u64 = 60_000_000_000;

/// A member is slow below this share of what the others drain, at their median.
const SLOW_SHARE: f64 = 0.5;

/// How soon after an opening the first search for rot begins, as a share of the time between two.
const FIRST_SHARE: f64 = 1.0 / 24.0;

/// How rot is looked for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ScrubOptions {
    /// From the beginning of one search to that of the next; `None` for none.
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
    /// Pages looked at by the search that is under way, if one is.
    pub(super) under_way_pages: Option<u64>,
    /// Searches that came to their end.
    pub(super) completed: u64,
    /// When the last one did.
    pub(super) ended_ns: Option<u64>,
    /// What was found before the search that is under way.
    before: ScrubReport,
    /// And by it.
    current: ScrubReport,
}

impl Scrubbed {
    /// Copies that were looked at.
    pub(super) fn copies_checked(&self) -> u64 {
        self.before.copies_checked + self.current.copies_checked
    }

    /// Copies that were wrong, and were mended.
    pub(super) fn wrong_copies(&self) -> u64 {
        self.before.wrong_copies + self.current.wrong_copies
    }

    /// Pages of which no copy was right, as far as the last search knows.
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
pub(super) struct Tended {
    pub(super) scrubbed: Rc<RefCell<Scrubbed>>,
    slow: Rc<RefCell<Slowness>>,
}

impl Tended {
    /// Begins to tend the mirror, for as long as the loop runs.
    pub(super) fn begin(event_loop: &Loop, volume: &Told, mirror: &Mirror, scrub: ScrubOptions) -> Self {
        let tended = Self::default();
        let (slow, env, mirror) = (Rc::clone(&tended.slow), event_loop.clone(), mirror.clone());
        event_loop.spawn(async move {
            loop {
                env.sleep(LOOK_NS).await;
                slow.borrow_mut().look(env.now_ns(), &mirror.ring.members());
            }
        });
        if let Some(every_s) = scrub.every_s {
            let (scrubbed, env, volume) = (Rc::clone(&tended.scrubbed), event_loop.clone(), volume.clone());
            event_loop.spawn(async move {
                let every_ns = (every_s * 1e9) as u64;
                env.sleep((every_ns as f64 * FIRST_SHARE) as u64).await;
                loop {
                    let began_ns = env.now_ns();
                    search(&env, &volume, &scrubbed, scrub.bytes_per_s).await;
                    let took_ns = env.now_ns().saturating_sub(began_ns);
                    env.sleep(every_ns.saturating_sub(took_ns).max(LOOK_NS)).await;
                }
            });
        }
        tended
    }

    /// Which members have been slower than the rest for long.
    pub(super) fn slow(&self, now_ns: u64) -> Vec<bool> {
        self.slow.borrow().slow(now_ns)
    }
}

async fn search(env: &Loop, volume: &Told, scrubbed: &RefCell<Scrubbed>, bytes_per_s: u64) {
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
    let ended = volume.scrub_telling(Mending::Mend, bytes_per_s, tell).await;
    let mut scrubbed = scrubbed.borrow_mut();
    scrubbed.end(env.now_ns());
    scrubbed.completed += u64::from(ended.is_ok());
}

/// Since when each member is slower than the rest.
#[derive(Debug, Default)]
struct Slowness {
    since_ns: Vec<Option<u64>>,
    turns: Vec<u64>,
}

impl Slowness {
    /// Compares the members that had a turn since the last look; of others nothing new is known.
    fn look(&mut self, now_ns: u64, members: &[MemberStatus]) {
        self.since_ns.resize(members.len(), None);
        self.turns.resize(members.len(), 0);
        let drains =
            |member: &MemberStatus| member.standing == Standing::InSync && member.drain_bytes_per_s > 0;
        for (place, member) in members.iter().enumerate() {
            if !drains(member) {
                self.since_ns[place] = None;
                continue;
            }
            if std::mem::replace(&mut self.turns[place], member.turns) == member.turns {
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
    }

    fn slow(&self, now_ns: u64) -> Vec<bool> {
        let is_long =
            |since_ns: &Option<u64>| since_ns.is_some_and(|since_ns| now_ns - since_ns >= SLOW_FOR_NS);
        self.since_ns.iter().map(is_long).collect()
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_engine::ring::Role;

    use super::*;

    fn member(drain_bytes_per_s: u64, turns: u64) -> MemberStatus {
        MemberStatus {
            standing: Standing::InSync,
            role: Role::Reading,
            failure: None,
            queued_bytes: 0,
            read_bytes: 0,
            written_bytes: 0,
            turns,
            drain_bytes_per_s,
        }
    }

    #[test]
    fn a_member_is_slow_after_a_minute_below_half_of_the_others_and_not_before() {
        let mut slowness = Slowness::default();
        for turn in 1..=12 {
            slowness.look(turn * LOOK_NS, &[member(100, turn), member(49, turn), member(120, turn)]);
            assert_eq!(slowness.slow(turn * LOOK_NS), [false; 3], "turn {turn}");
        }
        slowness.look(13 * LOOK_NS, &[member(100, 13), member(49, 13), member(120, 13)]);
        assert_eq!(slowness.slow(13 * LOOK_NS), [false, true, false]);
        slowness.look(14 * LOOK_NS, &[member(100, 14), member(90, 14), member(120, 14)]);
        assert_eq!(slowness.slow(14 * LOOK_NS), [false; 3]);
    }

    #[test]
    fn a_member_without_turns_is_neither_taken_for_slow_nor_for_quick() {
        let mut slowness = Slowness::default();
        slowness.look(0, &[member(100, 1), member(10, 1)]);
        slowness.look(SLOW_FOR_NS, &[member(100, 1), member(99, 1)]);
        assert_eq!(slowness.slow(SLOW_FOR_NS), [false, true], "the second look knows nothing new");
        let out = MemberStatus { standing: Standing::Out, ..member(10, 2) };
        slowness.look(2 * SLOW_FOR_NS, &[member(100, 2), out]);
        assert_eq!(slowness.slow(2 * SLOW_FOR_NS), [false; 2]);
    }
}
