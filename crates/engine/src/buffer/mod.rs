//! The write buffer: writes that are acknowledged and not yet durable.
//!
//! Each write is a *unit*: its extents, and its bytes in the arena, unchanged until they are durable. Reads
//! lay the units of a page over its committed bytes; a flush takes the units that its ranges touch, whole,
//! and no others.
//!
//! 1. A unit becomes durable in one commit or not at all.
//! 2. A unit is taken into a commit only with the bytes that no newer committed unit has overwritten: replay
//!    in the order of records gives the newest bytes.
//! 3. A unit that is wanted has a ticket, and is durable once its ticket is (see [`queue`]).
//! 4. The cost of a flush depends on the units within its ranges, not on how many there are elsewhere, and grows with
//!    their number as it does, however many lie on one page. Of the units of a page that are in no other, those whose
//!    bytes count are at most half of those that are looked at.
//! 5. A unit that nobody waits for goes at once where a single newer one holds all its bytes, and where several do as
//!    soon as its page has many: whoever asks for any of them asks for the newer one too. The arena is not told: a process
//!    killed meanwhile finds both, and the newer one over the older, or marked as durable in its place.

mod arena_contents;
mod batch;
mod fragments;
#[cfg(test)]
mod hostile_tests;
mod index;
#[cfg(test)]
mod model_tests;
mod overwritten;
pub(crate) mod queue;
mod ring;
mod steps;
mod stored;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::device::Extent;
use crate::env::Arena;
use crate::format::PAGE_BYTES;
use crate::format::record::Tag;
use crate::format::unit::{Content, UnitExtent};
use crate::options::Tuning;
use crate::planted::{Bug, is_planted};

pub use arena_contents::{ArenaContents, is_of_other_version};
pub(crate) use batch::{Batch, BatchMax};
pub(crate) use fragments::{Fragment, pages_of};
use fragments::{Fragments, record_bytes_of, tags_of};
use index::Index;
use overwritten::Scratch;
use queue::{Lane, Queue, Ticket, Tickets};
pub(crate) use ring::Opening;
pub(crate) use ring::arena_bytes_min;
use ring::{Found, Mark, Ring};
use steps::Steps;

struct Unit {
    /// What it wrote, for the index.
    extents: SmallVec<[Extent; 2]>,
    /// Whether it only says that its bytes went home by another way; then it is in no list of the index.
    is_mark: bool,
    /// What still counts of it.
    live: Fragments,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nobody asked for it to be durable.
    Idle,
    /// It waits for its commit.
    Queued { ticket: Ticket },
    /// Its commit is under way.
    Committing { ticket: Ticket },
    /// Every byte of it was overwritten by a unit that becomes durable with this ticket.
    Absorbed { ticket: Ticket },
    /// It is durable, or counts for nothing.
    Released,
}

/// The buffer over its arena.
pub(crate) struct Buffer<A> {
    ring: Ring<A>,
    /// Units by sequence number, from that of the ring's oldest.
    units: VecDeque<Unit>,
    first: u64,
    index: Index,
    /// No unit before this one is idle.
    first_idle: u64,
    /// Bytes of the arena that idle units take.
    idle_bytes: usize,
    queue: Queue,
    /// The last commit took nothing of the bulk lane, though something waited there.
    is_bulk_due: bool,
    /// Units released so far.
    released: u64,
    scratch: Scratch,
    steps: Steps,
    tuning: Tuning,
}

impl<A: Arena> Buffer<A> {
    /// Opens the buffer; see [`Ring::open`]. Units left by a process that was killed are in it, idle, up to the first whose
    /// extents are not sound. Answers their number too, and those that are marked as durable or of which `is_durable` says
    /// so: they leave with [`Self::leave_to_log`], and not before whoever holds them in a log is known to count.
    ///
    /// # Errors
    ///
    /// As [`Ring::open`].
    pub(crate) fn open(
        arena: A,
        opening: Opening,
        is_durable: impl Fn(u64) -> bool,
        is_sound: impl Fn(&[UnitExtent]) -> bool,
    ) -> Result<(Self, u64, Vec<u64>), ArenaContents> {
        let (ring, found) = Ring::open(arena, opening, is_sound)?;
        let first = ring.oldest();
        let mut buffer = Self {
            ring,
            units: VecDeque::new(),
            first,
            index: Index::default(),
            first_idle: first,
            idle_bytes: 0,
            queue: Queue::default(),
            is_bulk_due: false,
            released: 0,
            scratch: Scratch::default(),
            steps: Steps::default(),
            tuning: Tuning::default(),
        };
        for unit in &found {
            buffer.add(unit.sequence, &unit.extents, unit.payload_at);
        }
        let counts_no_more = |unit: &&Found| {
            let durable = unit.durable || is_durable(unit.sequence);
            is_mark(&unit.extents) || (durable && !is_planted(Bug::DurableUnitsReplayed))
        };
        let superseding: Vec<u64> = found.iter().filter(counts_no_more).map(|unit| unit.sequence).collect();
        Ok((buffer, found.len() as u64, superseding))
    }

    /// Lets go of these units, which are durable, and of what they supersede.
    pub(crate) fn leave_to_log(&mut self, durable: &[u64]) {
        self.supersede_older_than(durable);
    }

    /// From now on it works in these portions.
    pub(crate) fn tune(&mut self, tuning: Tuning) {
        self.tuning = tuning;
    }

    /// See [`Ring::begin_epoch`].
    pub(crate) fn begin_epoch(&mut self) {
        self.ring.begin_epoch();
    }

    /// See [`Ring::note_acknowledged`].
    pub(crate) fn note_acknowledged(&mut self, record: u64) {
        self.ring.note_acknowledged(record);
    }

    /// Bytes used and bytes in all.
    pub(crate) fn fill(&self) -> (usize, usize) {
        self.ring.fill()
    }

    /// Units released so far: where it grows, there may be room.
    pub(crate) fn released(&self) -> u64 {
        self.released
    }

    /// Largest unit that can be buffered, with its header and extents.
    pub(crate) fn unit_bytes_max(&self) -> usize {
        self.ring.unit_bytes_max()
    }

    /// Whether any unit touches a page from `first` to before `end`.
    pub(crate) fn touches(&self, first: u64, end: u64) -> bool {
        self.index.range(first..end).next().is_some()
    }

    /// Buffers a write; answers its sequence number. `None` where there is no room now.
    pub(crate) fn write(
        &mut self,
        extents: &[UnitExtent],
        bytes: &[&[u8]],
        payload_bytes: usize,
    ) -> Option<u64> {
        let (sequence, payload_at) = self.ring.append(extents, bytes.iter().copied(), payload_bytes)?;
        self.add(sequence, extents, payload_at);
        if is_mark(extents) {
            self.supersede_older_than(&[sequence]);
        } else {
            self.absorb(sequence);
        }
        Some(sequence)
    }

    fn add(&mut self, sequence: u64, extents: &[UnitExtent], mut payload_at: usize) {
        debug_assert_eq!(sequence, self.first + self.units.len() as u64);
        let (mut live, mut touched) = (Fragments::new(), SmallVec::new());
        for extent in extents {
            let UnitExtent { offset, len, content } = *extent;
            live.push(Fragment { offset, len, content, payload_at });
            touched.push(Extent::new(offset, len));
            payload_at += extent.payload_bytes() as usize;
        }
        let is_mark = is_mark(extents);
        if is_mark {
            live.clear();
        } else {
            for page in touched.iter().flat_map(pages_of) {
                self.index.add(page, sequence);
            }
        }
        self.idle_bytes += self.ring.bytes_of(sequence);
        self.units.push_back(Unit { extents: touched, is_mark, live, state: State::Idle });
    }

    /// The unit, unless it is released.
    fn counting(&self, sequence: u64) -> Option<&Unit> {
        let unit = self.units.get(sequence.checked_sub(self.first)? as usize)?;
        (unit.state != State::Released).then_some(unit)
    }

    fn unit(&self, sequence: u64) -> &Unit {
        &self.units[(sequence - self.first) as usize]
    }

    fn unit_mut(&mut self, sequence: u64) -> &mut Unit {
        &mut self.units[(sequence - self.first) as usize]
    }

    /// Lays the bytes of all units over `into`, which holds the committed bytes of `page` from `start`.
    pub(crate) fn overlay(&self, page: u64, start: usize, into: &mut [u8]) {
        let Some(units) = self.index.get(page) else { return };
        let wanted = Extent::new(page * PAGE_BYTES + start as u64, into.len() as u64);
        for unit in units.all().iter().filter_map(|&sequence| self.counting(sequence)) {
            for part in &unit.live {
                let Some(part) = part.within(&wanted) else { continue };
                let place = (part.offset - wanted.offset) as usize;
                let target = &mut into[place..place + part.len as usize];
                match part.content {
                    Content::Data => self.ring.load(part.payload_at, target),
                    Content::Zero | Content::Discard => target.fill(0),
                    Content::Superseded => {}
                }
            }
        }
    }

    /// Queues every unit that touches one of `ranges` for its commit; answers the tickets that must be durable for
    /// all of them to be.
    pub(crate) fn want(&mut self, ranges: &[Extent]) -> Tickets {
        self.want_by(None, ranges)
    }

    /// The same, in this lane.
    pub(crate) fn want_in(&mut self, lane: Lane, ranges: &[Extent]) -> Tickets {
        self.want_by(Some(lane), ranges)
    }

    fn want_by(&mut self, lane: Option<Lane>, ranges: &[Extent]) -> Tickets {
        let mut wanted: SmallVec<[u64; 16]> = SmallVec::new();
        let mut tickets = Tickets::default();
        for extent in ranges.iter().filter(|extent| extent.len > 0) {
            let mut last = (extent.end() - 1) / PAGE_BYTES;
            if is_planted(Bug::FlushMissesEdge) && last > extent.offset / PAGE_BYTES {
                last -= 1;
            }
            for (_, on_page) in self.index.range(extent.offset / PAGE_BYTES..=last) {
                let (unsettled, of_others) = on_page.unsettled(self.tuning.rescanned_max);
                tickets = tickets.and_all(of_others);
                for &sequence in unsettled {
                    self.steps.add(1);
                    let Some(unit) = self.counting(sequence) else { continue };
                    if unit.extents.iter().any(|touched| touched.overlaps(extent)) {
                        wanted.push(sequence);
                    }
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        let bytes = wanted.iter().flat_map(|&sequence| &self.unit(sequence).live).map(|part| part.len).sum();
        let lane = lane.unwrap_or(Lane::for_bytes(bytes, self.tuning.small_max_bytes));
        for sequence in wanted {
            tickets = self.want_unit(sequence, lane).map_or(tickets, |ticket| tickets.and(ticket));
        }
        for extent in ranges {
            let whole_pages = extent.offset.div_ceil(PAGE_BYTES)..extent.end() / PAGE_BYTES;
            if !whole_pages.is_empty() {
                self.index.range_mut(whole_pages).for_each(|on_page| on_page.settle(tickets));
            }
        }
        tickets
    }

    /// Queues one unit; answers the ticket with which it becomes durable, unless it is.
    pub(crate) fn want_unit(&mut self, sequence: u64, lane: Lane) -> Option<Ticket> {
        match self.unit(sequence).state {
            State::Idle => {
                let ticket = self.queue.push(lane, sequence);
                self.leave_idle(sequence, State::Queued { ticket });
                Some(ticket)
            }
            State::Queued { ticket } if ticket.lane == Lane::Bulk && lane == Lane::Small => {
                let ticket = self.queue.promote(sequence);
                self.unit_mut(sequence).state = State::Queued { ticket };
                Some(ticket)
            }
            State::Committing { .. } if is_planted(Bug::CommittingIsDurable) => None,
            State::Queued { ticket } | State::Committing { ticket } | State::Absorbed { ticket } => {
                Some(ticket)
            }
            State::Released => None,
        }
    }

    /// Queues the oldest units until those that remain idle take at most `bytes_max` of the arena.
    pub(crate) fn want_oldest(&mut self, bytes_max: usize) {
        self.first_idle = self.first_idle.max(self.first);
        // Where idle units take bytes there is one.
        while self.idle_bytes > bytes_max {
            self.steps.add(1);
            let sequence = self.first_idle;
            self.first_idle += 1;
            if self.unit(sequence).state == State::Idle {
                self.want_unit(sequence, Lane::Bulk);
            }
        }
    }

    /// The unit, which is idle, is from now on something else.
    fn leave_idle(&mut self, sequence: u64, state: State) {
        self.idle_bytes -= self.ring.bytes_of(sequence);
        self.unit_mut(sequence).state = state;
    }

    /// Whether a commit, with bulk or without, has something to carry.
    pub(crate) fn has_queued(&self, with_bulk: bool) -> bool {
        let mut lanes = Lane::ALL.into_iter().filter(|&lane| with_bulk || lane == Lane::Small);
        lanes.any(|lane| !self.queue.is_lane_empty(lane))
    }

    /// The newest tickets that are durable.
    pub(crate) fn durable(&self) -> Tickets {
        self.queue.durable()
    }

    /// Fills `batch` from the front of the queue, up to what it may hold, and at least one unit.
    pub(crate) fn take_batch(&mut self, most: BatchMax, batch: &mut Batch) {
        batch.clear();
        let mut room = most;
        if self.is_bulk_due {
            self.take_from(Lane::Bulk, most.bulk_bytes, &mut room, batch);
        }
        // Where both wait, each gets its share.
        let bulk_waits = most.bulk_bytes > 0 && !self.queue.is_lane_empty(Lane::Bulk);
        let small_bytes = if bulk_waits { most.bytes / 2 } else { most.bytes };
        self.take_from(Lane::Small, small_bytes, &mut room, batch);
        if !self.is_bulk_due {
            let taken_before = batch.units.len();
            self.take_from(Lane::Bulk, most.bulk_bytes, &mut room, batch);
            self.is_bulk_due = bulk_waits && batch.units.len() == taken_before;
        } else {
            self.is_bulk_due = false;
        }
        batch.units.sort_unstable();
        self.trim_older(batch);
        for &sequence in &batch.units {
            for part in &self.unit(sequence).live {
                tags_of(part, &mut batch.tags, &mut batch.payloads);
            }
        }
        batch.payload_bytes = batch.tags.iter().map(Tag::payload_bytes).sum();
        batch.count_pages();
        batch.name_units();
    }

    /// Takes units of a lane while there is room, up to `lane_bytes` of it.
    fn take_from(&mut self, lane: Lane, lane_bytes: usize, room: &mut BatchMax, batch: &mut Batch) {
        let mut lane_room = lane_bytes.min(room.bytes);
        if lane_bytes == 0 {
            return;
        }
        while let Some((ticket, sequence)) = self.queue.front(lane) {
            let is_here = sequence >= self.first && self.unit(sequence).state == State::Queued { ticket };
            if is_here {
                let unit = self.unit(sequence);
                let bytes: usize = unit.live.iter().map(record_bytes_of).sum();
                let pages: usize = unit.live.iter().map(|part| pages_of(&part.extent()).count()).sum();
                if (bytes > lane_room || pages > room.pages) && !batch.units.is_empty() {
                    return;
                }
                lane_room = lane_room.saturating_sub(bytes);
                room.bytes = room.bytes.saturating_sub(bytes);
                room.pages = room.pages.saturating_sub(pages);
                self.unit_mut(sequence).state = State::Committing { ticket };
                batch.units.push(sequence);
            }
            self.queue.take(lane, &mut batch.taken);
        }
    }

    /// Copies the batch's payload into `out`, which is as long.
    pub(crate) fn fill_payload(&self, batch: &Batch, mut out: &mut [u8]) {
        for (tag, &at) in batch.tags.iter().zip(&batch.payloads) {
            let (target, rest) = out.split_at_mut(tag.payload_bytes());
            if !target.is_empty() {
                self.ring.load(at, target);
            }
            out = rest;
        }
    }

    /// The batch is durable, as all before it: its units leave the buffer.
    pub(crate) fn complete(&mut self, batch: &Batch) {
        self.queue.complete(if is_planted(Bug::TicketTooFar) { batch.taken.too_far() } else { batch.taken });
        for &sequence in batch.units.iter().chain(&batch.absorbed) {
            self.release(sequence, Mark::Durable);
        }
        self.advance();
    }

    /// Marks that older units do not count any more for `extent`: what they wrote there is durable. `None` where
    /// there is no room for the mark now.
    pub(crate) fn supersede(&mut self, extent: &Extent) -> Option<()> {
        if self.units.is_empty() {
            return Some(()); // nothing older is in the arena
        }
        let mark = UnitExtent { offset: extent.offset, len: extent.len, content: Content::Superseded };
        self.write(&[mark], &[], 0).map(drop)
    }

    fn release(&mut self, sequence: u64, mark: Mark) {
        match self.unit(sequence).state {
            State::Released => return,
            State::Idle => self.leave_idle(sequence, State::Released),
            _ => self.unit_mut(sequence).state = State::Released,
        }
        self.released += 1;
        self.ring.release(sequence, mark);
        let (first, pages) = (self.first, &mut self.scratch.pages);
        let unit = &mut self.units[(sequence - first) as usize];
        unit.live.clear();
        pages.clear();
        let extents = std::mem::take(&mut unit.extents);
        pages.extend(extents.iter().filter(|_| !unit.is_mark).flat_map(pages_of));
        pages.sort_unstable();
        pages.dedup();
        let units = &self.units;
        let is_released = |other: u64| {
            other.checked_sub(first).is_none_or(|place| units[place as usize].state == State::Released)
        };
        for &page in pages.iter() {
            self.steps.add(1 + self.index.release(page, is_released));
        }
    }

    /// Lets the room of the oldest units be used again, as far as they are released.
    fn advance(&mut self) {
        self.ring.advance();
        while self.first < self.ring.oldest() {
            self.units.pop_front();
            self.first += 1;
        }
    }
}

/// Whether a unit says only that its bytes went home by another way.
fn is_mark(extents: &[UnitExtent]) -> bool {
    extents.iter().any(|extent| extent.content == Content::Superseded)
}
