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
use std::future::Future;
use std::rc::{Rc, Weak};

use super::member::{Member, MemberState, Role};
use super::window::Load;
use super::{Policy, Ring, drain};
use crate::device::Drive;
use crate::env::Env;
use crate::join;
use crate::planted::{Bug, is_planted};

/// How long a member that is about to write waits for its last reads.
const READS_END_MAX_NS: u64 = 100_000_000;

/// A turn where none are kept: about as long as a drive takes for what is under way.
const QUANTUM_NS: u64 = 5_000_000;

/// A layout whose members take turns: what it has to do in them that their queues do not know of.
pub(crate) trait TakesTurns: Sized + 'static {
    /// Time and chance.
    type Env: Env;
    /// What the members are.
    type Member: Drive;

    /// The members.
    fn ring(&self) -> &Ring<Self::Env, Self::Member>;

    /// Whether a member that is in sync has to take a turn though nothing is in its queue.
    fn wants_turn(&self, place: usize) -> bool;

    /// A member's turn has begun.
    fn begin_turn(&self, place: usize);

    /// Whether the turn of a member lasts though it has written what was in its queue.
    fn prolongs_turn(&self, place: usize) -> bool;

    /// A member's turn is over: the layout begins nothing more in it.
    fn end_turn(&self, place: usize);

    /// Ends when what the layout began in a member's turn has ended.
    fn turn_drained(&self, place: usize) -> impl Future<Output = ()>;

    /// Makes durable what ended on a member, and has it say so. A member that answers with an error fails.
    fn settle(&self, place: usize) -> impl Future<Output = ()>;
}

/// From here on the policy holds: it is known which members may be trusted.
pub(crate) fn start<L: TakesTurns>(layout: &Rc<L>) {
    let ring = layout.ring();
    if !ring.options.keeps_turns() {
        return;
    }
    ring.members.iter().for_each(|member| member.gate.close());
    let (changed, weak) = (Rc::clone(&ring.changed), Rc::downgrade(layout));
    ring.env.spawn(async move {
        let mut writers = VecDeque::new();
        loop {
            // Whoever is in its turn leaves it, though it has finished while the one before left.
            let next = match writers.is_empty() {
                true => changed.until(|| next_work(&weak)).await,
                false => weak.upgrade(),
            };
            let Some(layout) = next else { return };
            frame(&*layout, &mut writers).await;
        }
    });
}

/// The layout, once one of its members has something to write; `None` once nobody has it any more.
#[allow(
    clippy::option_option,
    reason = "whether to go on waiting, and then whether there is anything to come"
)]
fn next_work<L: TakesTurns>(layout: &Weak<L>) -> Option<Option<Rc<L>>> {
    match layout.upgrade() {
        None => Some(None),
        Some(layout) => {
            let has_work = (0..layout.ring().members.len()).any(|place| has_work(&*layout, place));
            has_work.then_some(Some(layout))
        }
    }
}

/// Whether a member has something to write, or to make durable for somebody who waits.
fn has_work<L: TakesTurns>(layout: &L, place: usize) -> bool {
    let member = &layout.ring().members[place];
    member.is_in_sync() && (member.gate.has_queued() || layout.wants_turn(place))
}

/// One frame: the window moves on by one place.
async fn frame<L: TakesTurns>(layout: &L, writers: &mut VecDeque<usize>) {
    let ring = layout.ring();
    writers.retain(|&place| ring.members[place].is_in_sync());
    let in_sync = ring.members.iter().filter(|member| member.is_in_sync()).count();
    let readers = match ring.options.policy {
        Policy::ReadAround => usize::from(in_sync > 1),
        _ => ring.window.borrow_mut().readers(ring.load(in_sync)),
    };
    while writers.len() + readers < in_sync {
        let Some(place) = next_writer(layout, writers) else { break };
        enter(layout, place).await;
        writers.push_back(place);
    }
    write_until_the_end(layout, writers).await;
    // All that have nothing left leave; else the one that has written longest.
    let mut leaving: Vec<usize> =
        writers.iter().copied().filter(|&place| !ring.members[place].gate.has_queued()).collect();
    if leaving.is_empty() {
        leaving.extend(writers.front());
    }
    writers.retain(|place| !leaving.contains(place));
    let rests = ring.rests() && readers > 0;
    join::all(leaving.into_iter().map(|place| leave(layout, place, rests))).await;
}

/// The next member in the order of the ring that has something to write.
fn next_writer<L: TakesTurns>(layout: &L, writers: &VecDeque<usize>) -> Option<usize> {
    let ring = layout.ring();
    let (first, places) = (ring.next_writer.get(), ring.members.len());
    let mut in_order = (first..first + places).map(|place| place % places);
    let next = in_order.find(|place| !writers.contains(place) && has_work(layout, *place))?;
    ring.next_writer.set((next + 1) % places);
    Some(next)
}

async fn enter<L: TakesTurns>(layout: &L, place: usize) {
    let ring = layout.ring();
    let member = &ring.members[place];
    member.role.set(Role::Writing);
    if ring.options.policy == Policy::Turns && ring.window().0 > 0 {
        let ended = ring.changed.until(|| (member.reads_under_way.get() == 0).then_some(()));
        join::first(ended, ring.env.sleep(READS_END_MAX_NS)).await;
    }
    if ring.rests() {
        ring.probe_idle(member).await;
    }
    member.turns.set(member.turns.get() + 1);
    member.gate.open();
    layout.begin_turn(place);
    ring.changed.all();
}

async fn write_until_the_end<L: TakesTurns>(layout: &L, writers: &VecDeque<usize>) {
    let ring = layout.ring();
    let turn_ns = match ring.options.policy {
        Policy::ReadAround => QUANTUM_NS,
        _ => ring.options.turn_ns,
    };
    let is_done = |place: &usize| {
        let member = &ring.members[*place];
        let is_idle = || !member.gate.has_queued() && member.gate.under_way() == 0;
        !member.is_in_sync() || (is_idle() && !layout.prolongs_turn(*place))
    };
    let all_done = ring.changed.until(|| writers.iter().all(is_done).then_some(()));
    join::first(all_done, ring.env.sleep(turn_ns)).await;
}

async fn leave<L: TakesTurns>(layout: &L, place: usize, rests: bool) {
    let ring = layout.ring();
    let member = &ring.members[place];
    // One that was replaced in its turn is being rebuilt, and takes writes at all times.
    if member.state.get().takes_writes() && !member.is_in_sync() {
        return;
    }
    member.gate.close();
    layout.end_turn(place);
    if !is_planted(Bug::RingLeavesUndrained) {
        member.gate.drained().await;
        layout.turn_drained(place).await;
    }
    if member.is_in_sync() && (ring.options.policy == Policy::Turns || has_work(layout, place)) {
        layout.settle(place).await;
    }
    if rests {
        ring.rest(member).await;
    }
    if member.state.get() == MemberState::InSync {
        member.role.set(Role::Reading);
    }
    ring.changed.all();
}

impl<E: Env, M: Drive> Ring<E, M> {
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
            queued => queued as f64 / bytes_per_s as f64 + member.idle_latency.rested_ns.get() as f64 / 1e9,
        };
        if bytes_per_s == 0 { 0.0 } else { in_sync().map(seconds_of).sum() }
    }

    /// Whether members rest behind their turns: others are read meanwhile.
    fn rests(&self) -> bool {
        self.options.policy == Policy::Turns && self.members.len() > 1 && self.options.rest_ns > 0
    }
}
