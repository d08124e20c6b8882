//! Whose turn it is to write.
//!
//! ```text
//!   reads under way end │ writes │ those under way end │ flush │ head │ rest │ reads
//!   └──── enter ────────┘        └───────────────── leave ──────────────────┘
//! ```
//!
//! 1. A member is not read from the moment when it enters its turn until it has rested behind it. Where all write, since
//!    nobody has read for long, they do not rest.
//! 2. The next one enters when the one before has left: so many read as were chosen, during the change too.
//! 3. A turn ends early when nothing is left to write. While nothing waits, all read.

use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use super::member::{Member, Role, Standing};
use super::window::Load;
use super::{Inner, Policy, Ring, drain};
use crate::device::Drive;
use crate::env::Env;
use crate::join;
use crate::planted::{Bug, is_planted};

/// How long a member that is about to write waits for its last reads.
const READS_END_MAX_NS: u64 = 100_000_000;

/// A turn where none are kept: about as long as a drive takes for what is under way.
const QUANTUM_NS: u64 = 5_000_000;

impl<E: Env, M: Drive> Ring<E, M> {
    /// It is known who may be trusted: from here on the policy holds.
    pub(crate) fn start_turns(&self) {
        let ring = &*self.0;
        ring.resumed.set(true);
        match ring.options.policy {
            Policy::Turns | Policy::ReadAround => {
                ring.members.iter().for_each(|member| member.gate.close());
                let (changed, weak) = (Rc::clone(&ring.changed), Rc::downgrade(&self.0));
                ring.env.spawn(async move {
                    let mut writers = VecDeque::new();
                    loop {
                        // Whoever is in its turn leaves it, though it has finished while the one before left.
                        let next = match writers.is_empty() {
                            true => changed.until(|| next_work(&weak)).await,
                            false => weak.upgrade(),
                        };
                        let Some(ring) = next else { return };
                        ring.frame(&mut writers).await;
                    }
                });
            }
            Policy::Mixed | Policy::ReadFirst => {}
        }
        self.rebuild_stale();
    }
}

/// The ring, once it has something to write; `None` once nobody has it any more.
#[allow(
    clippy::option_option,
    reason = "whether to go on waiting, and then whether there is anything to come"
)]
fn next_work<E: Env, M: Drive>(ring: &Weak<Inner<E, M>>) -> Option<Option<Rc<Inner<E, M>>>> {
    match ring.upgrade() {
        None => Some(None),
        Some(ring) => {
            let has_work = (0..ring.members.len()).any(|place| ring.has_work(place));
            has_work.then_some(Some(ring))
        }
    }
}

impl<E: Env, M: Drive> Inner<E, M> {
    /// Whether a member has something to write, or to make durable for somebody who waits.
    fn has_work(&self, place: usize) -> bool {
        let member = &self.members[place];
        let is_behind = || {
            let mark = member.mark.get();
            let wanted = self.flush_wanted.get();
            wanted > 0 && (mark.epoch < self.epoch.get() || mark.through < wanted)
        };
        member.is_in_sync() && (member.gate.has_queued() || is_behind() || self.wants_log())
    }

    /// One frame: the window moves on by one place.
    async fn frame(&self, writers: &mut VecDeque<usize>) {
        writers.retain(|&place| self.members[place].is_in_sync());
        let in_sync = self.members.iter().filter(|member| member.is_in_sync()).count();
        let readers = match self.options.policy {
            Policy::ReadAround => usize::from(in_sync > 1),
            _ => self.window.borrow_mut().readers(self.load(in_sync)),
        };
        while writers.len() + readers < in_sync {
            let Some(place) = self.next_writer(writers) else { break };
            self.enter(place).await;
            writers.push_back(place);
        }
        self.write_until_the_end(writers).await;
        // All that have nothing left leave; else the one that has written longest.
        let mut leaving: Vec<usize> =
            writers.iter().copied().filter(|&place| !self.members[place].gate.has_queued()).collect();
        if leaving.is_empty() {
            leaving.extend(writers.front());
        }
        writers.retain(|place| !leaving.contains(place));
        let rests = self.rests() && readers > 0;
        join::all(leaving.into_iter().map(|place| self.leave(place, rests))).await;
    }

    /// The next member in the order of the ring that has something to write.
    fn next_writer(&self, writers: &VecDeque<usize>) -> Option<usize> {
        let (first, places) = (self.next_writer.get(), self.members.len());
        let mut in_order = (first..first + places).map(|place| place % places);
        let next = in_order.find(|place| !writers.contains(place) && self.has_work(*place))?;
        self.next_writer.set((next + 1) % places);
        Some(next)
    }

    fn load(&self, members: usize) -> Load {
        let forecast = self.backlog.forecast(self.env.now_ns(), self.needed_s());
        let reads = self.reads.get();
        Load { members, reads: reads - self.reads_before.replace(reads), forecast }
    }

    /// How long the members need for what waits for them, one after the other.
    fn needed_s(&self) -> f64 {
        let in_sync = || self.members.iter().filter(|member| member.is_in_sync());
        let now_ns = self.env.now_ns();
        // All together are known better than each: some may not have had a turn of late.
        let bytes_per_s = drain::bytes_per_s(in_sync().map(|member| member.drain.borrow().took(now_ns)));
        let seconds_of = |member: &Member<M>| match member.gate.queued_bytes() {
            0 => 0.0,
            queued => queued as f64 / bytes_per_s as f64 + member.looks.rested_ns.get() as f64 / 1e9,
        };
        if bytes_per_s == 0 { 0.0 } else { in_sync().map(seconds_of).sum() }
    }

    /// Whether members rest behind their turns: others are read meanwhile.
    fn rests(&self) -> bool {
        self.options.policy == Policy::Turns && self.members.len() > 1 && self.options.rest_ns > 0
    }

    async fn enter(&self, place: usize) {
        let member = &self.members[place];
        member.role.set(Role::Writing);
        if self.options.policy == Policy::Turns && self.window().0 > 0 {
            let ended = self.changed.until(|| (member.reads_under_way.get() == 0).then_some(()));
            join::first(ended, self.env.sleep(READS_END_MAX_NS)).await;
        }
        if self.rests() {
            self.look_at_rest(member).await;
        }
        member.turns.set(member.turns.get() + 1);
        member.gate.open();
        member.region.used.set(false);
        member.region.open.set(member.is_in_sync());
        self.changed.all();
    }

    async fn write_until_the_end(&self, writers: &VecDeque<usize>) {
        let turn_ns = match self.options.policy {
            Policy::ReadAround => QUANTUM_NS,
            _ => self.options.turn_ns,
        };
        // Whoever had a record written has another one soon: its turn lasts.
        let is_done = |place: &usize| {
            let Member { gate, region, .. } = &self.members[*place];
            let is_logged = region.used.get() || self.has_log_waiting();
            let is_idle = !gate.has_queued() && gate.under_way() == 0 && !is_logged;
            !self.members[*place].is_in_sync() || is_idle
        };
        let all_done = self.changed.until(|| writers.iter().all(is_done).then_some(()));
        join::first(all_done, self.env.sleep(turn_ns)).await;
    }

    async fn leave(&self, place: usize, rests: bool) {
        let member = &self.members[place];
        // One that was replaced in its turn is being rebuilt, and takes writes at all times.
        if member.standing.get().takes_writes() && !member.is_in_sync() {
            return;
        }
        member.gate.close();
        member.region.open.set(false);
        if !is_planted(Bug::RingLeavesUndrained) {
            member.gate.drained().await;
            self.changed.until(|| (member.region.under_way.get() == 0).then_some(())).await;
        }
        if member.is_in_sync() && (self.options.policy == Policy::Turns || self.has_work(place)) {
            self.settle(place).await;
        }
        if rests {
            self.rest(member).await;
        }
        if member.standing.get() == Standing::InSync {
            member.role.set(Role::Reading);
        }
        self.changed.all();
    }
}
