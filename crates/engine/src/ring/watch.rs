//! What is observed of a ring while it is at work, and the decision whether its members take turns ([`super::auto`]).
//!
//! 1. Nothing is observed while nothing waits to be written, and nothing is decided.
//! 2. In turns, small reads of our own tell what reads of a member that writes would take: nobody else's meet it.
//!
//! This file and `turns` import each other: members are probed within a frame, and turns ask here for the mode.

use std::future::Future;
use std::rc::{Rc, Weak};

use super::auto::{Auto, Observed, READS_MIN};
use super::backlog::{Backlog, Forecast};
use super::member::{Member, Role};
use super::turns::TakesTurns;
use super::{Policy, Ring, drain};
use crate::device::Drive;
use crate::env::Env;
use crate::join;

/// Decisions in the time of a turn.
const DECISIONS: u64 = 8;

/// Probes of members that write, in the time of a turn.
const PROBES: u64 = 250;

/// No two of them come closer.
const PROBE_INTERVAL_MIN_NS: u64 = 1_000_000;

/// What a member wrote still costs reads for so long.
const AFTER_NS: u64 = 100_000_000;

/// Larger reads say more of their size than of what they met.
const SMALL_READ_BYTES: usize = 64 << 10;

/// After so many turns half of what came is forgotten.
const HALF_LIFE_TURNS: f64 = 8.0;

/// How fast bytes come for the members, as a mean that forgets.
#[derive(Debug, Default)]
struct Rate {
    bytes: f64,
    seconds: f64,
    came_bytes: u64,
    at_ns: u64,
}

impl Rate {
    fn note(&mut self, now_ns: u64, came_bytes: u64, half_life_s: f64) {
        let since_s = now_ns.saturating_sub(self.at_ns) as f64 / 1e9;
        if self.at_ns > 0 {
            let left = 0.5_f64.powf(since_s / half_life_s);
            self.bytes = self.bytes * left + came_bytes.saturating_sub(self.came_bytes) as f64;
            self.seconds = self.seconds * left + since_s;
        }
        (self.came_bytes, self.at_ns) = (came_bytes, now_ns);
    }

    fn bytes_per_s(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes / self.seconds } else { 0.0 }
    }
}

/// What was seen at the last decision.
#[derive(Default)]
struct Seen {
    rate: Rate,
    reads: u64,
    records: u64,
    decisions: u64,
    room: Backlog,
    /// How much more of the room is taken until what waits is home, as it was a turn ago at most.
    more: f64,
}

/// From here on it is decided, again and again, whether members take turns.
pub(super) fn start<L: TakesTurns>(layout: &Rc<L>) {
    let ring = layout.ring();
    if ring.options.policy != Policy::Auto {
        return;
    }
    let (env, changed, weak) = (ring.env.clone(), Rc::clone(&ring.changed), Rc::downgrade(layout));
    let turn_ns = ring.options.turn_ns;
    ring.env.spawn(async move {
        let mut auto = Auto::new(turn_ns);
        let mut seen = Seen::default();
        while changed.until(|| is_at_work(&weak, seen.records)).await {
            env.sleep((turn_ns / DECISIONS).max(1)).await;
            let Some(layout) = weak.upgrade() else { return };
            let ring = layout.ring();
            let records = layout.records();
            let mode = auto.decide(Observed {
                records: records - std::mem::replace(&mut seen.records, records),
                ..ring.observed(&mut seen)
            });
            if ring.mode.replace(mode) != mode {
                ring.changed.all();
            }
        }
    });
}

/// True once something waits to be written, or came beyond so many records; false once nobody has the layout any more.
fn is_at_work<L: TakesTurns>(layout: &Weak<L>, records: u64) -> Option<bool> {
    let Some(layout) = layout.upgrade() else { return Some(false) };
    if layout.records() > records {
        return Some(true);
    }
    let has_work = |place: usize| {
        let gate = &layout.ring().members[place].gate;
        gate.has_queued() || gate.under_way() > 0 || layout.wants_turn(place)
    };
    (0..layout.ring().members.len()).any(has_work).then_some(true)
}

/// Probes members that write for as long as this lasts, and answers what it does.
pub(super) async fn probed<E: Env, M: Drive, T>(ring: &Ring<E, M>, frame: impl Future<Output = T>) -> T {
    if ring.options.policy != Policy::Auto || ring.members.len() < 2 {
        return frame.await;
    }
    let interval_ns = (ring.options.turn_ns / PROBES).max(PROBE_INTERVAL_MIN_NS);
    let probes = async {
        let mut reads = ring.client_reads.get();
        let mut turn = 0;
        loop {
            ring.env.sleep(interval_ns).await;
            turn += 1;
            let member = &ring.members[turn % ring.members.len()];
            let is_wanted =
                member.role.get() == Role::Writing && member.is_in_sync() && ring.is_disturbed(member);
            // Where nobody reads, nobody wants to know.
            if !is_wanted || (ring.client_reads.get() == reads && turn % 16 != 0) {
                continue;
            }
            reads = ring.client_reads.get();
            if let Some(took_ns) = ring.probe(member).await {
                ring.tails.note(true, took_ns);
            }
        }
    };
    join::first(frame, probes).await.expect("probes come to no end")
}

impl<E: Env, M: Drive> Ring<E, M> {
    /// Whether a read of the member would meet writes, or what they left to do.
    pub(super) fn is_disturbed(&self, member: &Member<M>) -> bool {
        member.drain.borrow().was_busy_within(self.env.now_ns(), AFTER_NS.min(self.options.turn_ns))
    }

    /// A read ended that met writes when it began, or met them later, or did not.
    pub(super) fn note_read(&self, member: &Member<M>, began_ns: u64, met_writes: bool, bytes: usize) {
        if self.options.policy == Policy::Auto && bytes <= SMALL_READ_BYTES {
            let is_disturbed = met_writes || self.is_disturbed(member);
            self.tails.note(is_disturbed, self.env.now_ns().saturating_sub(began_ns));
        }
    }

    fn observed(&self, seen: &mut Seen) -> Observed {
        let now_ns = self.env.now_ns();
        let in_sync = || self.members.iter().filter(|member| member.is_in_sync());
        let came_bytes = in_sync().map(|member| member.gate.came_bytes()).max().unwrap_or(0);
        let turn_s = self.options.turn_ns as f64 / 1e9;
        seen.rate.note(now_ns, came_bytes, HALF_LIFE_TURNS * turn_s);
        let reads = self.client_reads.get();
        let members = in_sync().count();
        let took = drain::bytes_per_s(in_sync().map(|member| member.drain.borrow().took(now_ns))) as f64;
        let rested_s = in_sync().map(|member| member.idle_latency.rested_ns.get() as f64 / 1e9).sum::<f64>();
        let rest_s = rested_s / members.max(1) as f64;
        let writers_max = members.saturating_sub(self.readers_min()).max(1);
        let writing = writers_max.min(members) as f64 / members.max(1) as f64;
        let home_bytes_per_s = took * writing * turn_s / (turn_s + rest_s);
        Observed {
            now_ns,
            members,
            writers_max,
            reads: reads - std::mem::replace(&mut seen.reads, reads),
            records: 0,
            forecast: self.room(seen),
            load: if home_bytes_per_s > 0.0 { seen.rate.bytes_per_s() / home_bytes_per_s } else { 0.0 },
            harmed: self.tails.disturbed_share(READS_MIN),
        }
    }

    /// How full the room is now, and how much more of it is taken: that is looked at once a turn, as what comes in less time
    /// says little of the next seconds.
    fn room(&self, seen: &mut Seen) -> Forecast {
        let now = self.backlog.now();
        if seen.decisions.is_multiple_of(DECISIONS) {
            seen.room.note_fill(now.fill);
            seen.more = seen.room.forecast(self.env.now_ns(), self.needed_s()).more;
        }
        seen.decisions += 1;
        Forecast { more: seen.more, ..now }
    }
}
