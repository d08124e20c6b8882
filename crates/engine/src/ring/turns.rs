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
//! 3. A turn ends early when nothing is left to write, nor comes before long, or where all are done sooner for it
//!    ([`super::frame_length`]). While nothing waits, all read.
//! 4. Once turns are kept no more, all write at once, whatever a member that leaves its turn is about. A record that waits
//!    for a member waits for that no longer than half a turn.

use std::collections::VecDeque;
use std::future::{Future, pending};
use std::rc::{Rc, Weak};

use super::member::{Member, MemberState, Role};
use super::window::Load;
use super::{Policy, Ring, drain, watch};
use crate::device::Drive;
use crate::env::Env;
use crate::join;
use crate::planted::{Bug, is_planted};

/// How long a member that is about to write waits for its last reads.
const READS_END_MAX_NS: u64 = 100_000_000;

/// A turn where none are kept: about as long as a drive takes for what is under way.
const QUANTUM_NS: u64 = 5_000_000;

/// So much of a turn a record waits at most for a member that leaves its turn, before another begins.
const RECORD_WAIT_SHARE: u64 = 2;

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

    /// Records that came for the members so far, where they hold the journal: each waits for a member that may write.
    fn records(&self) -> u64;

    /// Whether one of them waits, and no member may be given it.
    fn has_record_waiting(&self) -> bool;

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
    if ring.options.policy != Policy::Turns {
        (0..ring.members.len()).for_each(|place| settle_again_and_again(layout, place));
    }
    if !ring.keeps_turns() {
        return;
    }
    watch::start(layout);
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
            let is_mixed = match layout.ring().keeps_turns() {
                true => watch::probed(layout.ring(), frame(&*layout, &mut writers)).await,
                false => true,
            };
            if is_mixed {
                mix(&*layout, &mut writers);
                drop(layout);
                let Some(layout) = changed.until(|| in_turns_again(&weak)).await else { return };
                part(&*layout, &mut writers).await;
            }
        }
    });
}

/// Where no turn ends, has a member make durable what it was given whenever that is much: what all have durably needs no
/// room elsewhere.
fn settle_again_and_again<L: TakesTurns>(layout: &Rc<L>, place: usize) {
    let (changed, weak) = (Rc::clone(&layout.ring().changed), Rc::downgrade(layout));
    layout.ring().env.spawn(async move {
        while let Some(layout) = changed.until(|| settle_due(&weak, place)).await {
            layout.settle(place).await;
        }
    });
}

/// The layout, once a member should settle; `None` once nobody has it any more, or none settles.
#[allow(
    clippy::option_option,
    reason = "whether to go on waiting, and then whether there is anything to come"
)]
fn settle_due<L: TakesTurns>(layout: &Weak<L>, place: usize) -> Option<Option<Rc<L>>> {
    let Some(layout) = layout.upgrade() else { return Some(None) };
    let (ring, member) = (layout.ring(), &layout.ring().members[place]);
    if ring.work.none_settles() {
        return Some(None);
    }
    let is_due = !ring.keeps_turns() && member.is_in_sync() && member.gate.is_settle_due();
    is_due.then_some(Some(layout))
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
            let ring = layout.ring();
            // How long a turn is, and how many write, is planned for all that comes at once.
            let begins =
                |place| has_work(&*layout, place) && (!ring.more_comes.get() || layout.wants_turn(place));
            let has_work = (0..ring.members.len()).any(begins);
            has_work.then_some(Some(layout))
        }
    }
}

/// Whether a member has something to write, or to make durable for somebody who waits.
fn has_work<L: TakesTurns>(layout: &L, place: usize) -> bool {
    let member = &layout.ring().members[place];
    member.is_in_sync() && (member.gate.has_queued() || layout.wants_turn(place))
}

/// One frame: the window moves on by one place. Answers whether all write from now on.
async fn frame<L: TakesTurns>(layout: &L, writers: &mut VecDeque<usize>) -> bool {
    let ring = layout.ring();
    writers.retain(|&place| ring.members[place].is_in_sync());
    let in_sync = ring.members.iter().filter(|member| member.is_in_sync()).count();
    let readers = match ring.options.policy {
        _ if !ring.has_readers.get() => 0,
        Policy::ReadAround => usize::from(in_sync > 1),
        _ => ring.window.borrow_mut().readers(ring.load(in_sync)),
    };
    if writers.is_empty() {
        ring.frame_length.begin();
    }
    while writers.len() + readers < in_sync {
        let Some(place) = next_writer(layout, writers) else { break };
        enter(layout, place).await;
        writers.push_back(place);
    }
    write_until_the_end(layout, writers, ring.frame_ns(writers, in_sync - readers)).await;
    if !ring.keeps_turns() {
        return true;
    }
    // All that have nothing left leave; else the one that has written longest.
    let mut leaving: Vec<usize> =
        writers.iter().copied().filter(|&place| !ring.members[place].gate.has_queued()).collect();
    if leaving.is_empty() {
        leaving.extend(writers.front());
    }
    writers.retain(|place| !leaving.contains(place));
    let rests = ring.rests() && readers > 0;
    let relief = ring.places_in_sync().into_iter().find(|at| !writers.contains(at) && !leaving.contains(at));
    let (mut is_mixed, mut relieved) = (false, None);
    // A flush takes as long as it takes: those that wait for their turn do not wait for it once all write.
    let mixed = async {
        ring.changed.until(|| (!ring.keeps_turns()).then_some(())).await;
        is_mixed = true;
        mix(layout, writers);
        pending::<()>().await;
    };
    // Nor do records that wait for a member.
    let relieving = async {
        relieve(layout, relief).await;
        relieved = relief;
        pending::<()>().await;
    };
    let meanwhile = async {
        join::first(mixed, relieving).await;
    };
    join::first(join::all(leaving.into_iter().map(|place| leave(layout, place, rests))), meanwhile).await;
    if let Some(place) = relieved.filter(|_| !is_mixed) {
        writers.push_back(place);
    }
    is_mixed
}

/// Begins the turn of this member once a record has waited too long for one that leaves its turn.
async fn relieve<L: TakesTurns>(layout: &L, place: Option<usize>) {
    let Some(place) = place else { return pending().await };
    let ring = layout.ring();
    let mut is_late = false;
    while !is_late {
        ring.changed.until(|| layout.has_record_waiting().then_some(())).await;
        ring.env.sleep(ring.options.turn_ns / RECORD_WAIT_SHARE).await;
        is_late = layout.has_record_waiting();
    }
    begin(layout, place);
}

/// The member writes from now on, and is not read where another can be.
fn begin<L: TakesTurns>(layout: &L, place: usize) {
    let member = &layout.ring().members[place];
    member.role.set(Role::Writing);
    member.turns.set(member.turns.get() + 1);
    member.gate.open();
    layout.begin_turn(place);
    layout.ring().changed.all();
}

/// All write as things come, and all read.
fn mix<L: TakesTurns>(layout: &L, writers: &mut VecDeque<usize>) {
    let ring = layout.ring();
    for (place, member) in ring.members.iter().enumerate().filter(|(_, member)| member.is_in_sync()) {
        member.role.set(Role::Reading);
        if !writers.contains(&place) {
            member.turns.set(member.turns.get() + 1);
            member.gate.open();
            layout.begin_turn(place);
            writers.push_back(place);
        }
    }
    ring.changed.all();
}

/// The layout, once its members take turns again; `None` once nobody has it any more.
#[allow(
    clippy::option_option,
    reason = "whether to go on waiting, and then whether there is anything to come"
)]
fn in_turns_again<L: TakesTurns>(layout: &Weak<L>) -> Option<Option<Rc<L>>> {
    match layout.upgrade() {
        None => Some(None),
        Some(layout) => layout.ring().keeps_turns().then_some(Some(layout)),
    }
}

/// All but one end what they have under way, and rest: from then on they are read, and that one writes.
async fn part<L: TakesTurns>(layout: &L, writers: &mut VecDeque<usize>) {
    let ring = layout.ring();
    writers.clear();
    let mut places = ring.places_in_sync();
    places.iter().for_each(|&place| ring.members[place].role.set(Role::Writing));
    let first = ring.next_writer.get();
    let stays = places.iter().copied().find(|&place| place >= first).or(places.first().copied());
    places.retain(|&place| Some(place) != stays);
    join::all(places.into_iter().map(|place| leave(layout, place, ring.rests()))).await;
    if let Some(place) = stays.filter(|&place| ring.members[place].is_in_sync()) {
        ring.members[place].gate.open();
        layout.begin_turn(place);
        writers.push_back(place);
    }
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
    if ring.has_full_turns() && ring.window().0 > 0 {
        let ended = ring.changed.until(|| (member.reads_under_way.get() == 0).then_some(()));
        join::first(ended, ring.env.sleep(READS_END_MAX_NS)).await;
    }
    if ring.rests() {
        ring.probe_idle(member).await;
    }
    begin(layout, place);
}

async fn write_until_the_end<L: TakesTurns>(layout: &L, writers: &VecDeque<usize>, frame_ns: u64) {
    let ring = layout.ring();
    let is_done = |place: &usize| {
        let member = &ring.members[*place];
        let is_idle = || !member.gate.has_queued() && member.gate.under_way() == 0;
        !member.is_in_sync() || (is_idle() && !layout.prolongs_turn(*place))
    };
    let all_done = ring.changed.until(|| (!ring.keeps_turns() || writers.iter().all(is_done)).then_some(()));
    join::first(all_done, ring.env.sleep(frame_ns)).await;
}

async fn leave<L: TakesTurns>(layout: &L, place: usize, rests: bool) {
    let ring = layout.ring();
    let member = &ring.members[place];
    // One that was replaced in its turn is being rebuilt, and takes writes at all times.
    if member.state.get().takes_writes() && !member.is_in_sync() {
        return;
    }
    let begun_ns = ring.env.now_ns();
    member.gate.close();
    layout.end_turn(place);
    if !is_planted(Bug::RingLeavesUndrained) {
        let drained = async {
            member.gate.drained().await;
            layout.turn_drained(place).await;
        };
        join::first(drained, ring.changed.until(|| (!ring.keeps_turns()).then_some(()))).await;
    }
    if !ring.keeps_turns() {
        return;
    }
    if member.is_in_sync() && (ring.has_full_turns() || has_work(layout, place)) {
        layout.settle(place).await;
    }
    let settled_ns = ring.env.now_ns() - begun_ns;
    if rests {
        ring.rest(member).await;
    }
    ring.frame_length.note_left(settled_ns, ring.env.now_ns() - begun_ns);
    if member.state.get() == MemberState::InSync {
        member.role.set(Role::Reading);
    }
    ring.changed.all();
}

impl<E: Env, M: Drive> Ring<E, M> {
    fn load(&self, members: usize) -> Load {
        let forecast = self.backlog.forecast(self.env.now_ns(), self.needed_s());
        let reads = self.client_reads.get();
        let reads = reads - self.reads_before.replace(reads);
        Load { members, readers_min: self.readers_min(), reads, forecast }
    }

    /// How long members write before one of them leaves that has more, where up to `writers` write at once: a turn, but for
    /// mirrors with log devices. Where members hold the journal, a turn in which something was logged lasts its full time; with
    /// stripes shorter frames were not measured.
    fn frame_ns(&self, writers: &VecDeque<usize>, writers_max: usize) -> u64 {
        let turn_ns = match self.options.policy {
            Policy::ReadAround => return QUANTUM_NS,
            _ => self.options.turn_ns,
        };
        if self.options.stripes.is_some() || self.options.log_bytes > 0 {
            return turn_ns;
        }
        // Who is done and has not left keeps others from their turns.
        let queued_bytes = |place: usize| self.members[place].gate.queued_bytes();
        let mut taking_part = self.places_in_sync();
        taking_part.retain(|place| queued_bytes(*place) > 0 || writers.contains(place));
        let most_bytes = taking_part.iter().map(|&place| queued_bytes(place)).max().unwrap_or(0);
        let longest_ns = u128::from(most_bytes) * 1_000_000_000;
        let longest_ns = longest_ns.checked_div(u128::from(self.drained_bytes_per_s())).unwrap_or(0);
        let longest_ns = u64::try_from(longest_ns).unwrap_or(u64::MAX);
        self.frame_length.choose(taking_part.len(), writers_max, longest_ns, turn_ns)
    }

    /// Bytes that a member takes in a second of being busy. All together are known better than each: some may not have had a
    /// turn of late.
    fn drained_bytes_per_s(&self) -> u64 {
        let now_ns = self.env.now_ns();
        let in_sync = self.members.iter().filter(|member| member.is_in_sync());
        drain::bytes_per_s(in_sync.map(|member| member.drain.borrow().took(now_ns)))
    }

    /// Members that a read needs.
    pub(crate) fn readers_min(&self) -> usize {
        self.options.stripes.map_or(1, |stripes| stripes.data())
    }

    /// How long the members need for what waits for them, one after the other.
    pub(super) fn needed_s(&self) -> f64 {
        let in_sync = || self.members.iter().filter(|member| member.is_in_sync());
        let bytes_per_s = self.drained_bytes_per_s();
        let seconds_of = |member: &Member<M>| match member.gate.queued_bytes() {
            0 => 0.0,
            queued => queued as f64 / bytes_per_s as f64 + member.idle_latency.rested_ns.get() as f64 / 1e9,
        };
        if bytes_per_s == 0 { 0.0 } else { in_sync().map(seconds_of).sum() }
    }

    /// Whether members rest behind their turns: others are read meanwhile.
    fn rests(&self) -> bool {
        self.has_full_turns() && self.members.len() > 1 && self.options.rest_ns > 0
    }
}
