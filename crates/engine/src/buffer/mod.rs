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
//! 4. The cost of a flush depends on the units within its ranges, not on how many there are elsewhere.

pub(crate) mod queue;
mod ring;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;

use crate::device::Extent;
use crate::env::Arena;
use crate::format::record::Tag;
use crate::format::unit::{Content, UnitExtent};
use crate::format::{PAGE, PAGE_BYTES};
use crate::planted::{Bug, is_planted};

use queue::{Lane, Queue, Taken, Ticket, Tickets};
use ring::Ring;

/// Part of a unit that still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) content: Content,
    /// Where its bytes are in the arena; meaningless without bytes.
    payload_at: usize,
}

impl Part {
    fn extent(&self) -> Extent {
        Extent::new(self.offset, self.len)
    }

    /// The part of this one that lies within `extent`.
    fn within(&self, extent: &Extent) -> Option<Self> {
        let shared = self.extent().intersection(extent)?;
        let skipped = (shared.offset - self.offset) as usize;
        Some(Self { offset: shared.offset, len: shared.len, payload_at: self.payload_at + skipped, ..*self })
    }
}

type Parts = SmallVec<[Part; 2]>;

struct Unit {
    /// What it wrote, for the index.
    extents: SmallVec<[Extent; 2]>,
    /// What still counts of it.
    live: Parts,
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
    /// Units that are not released, by each page they touch, oldest first.
    index: BTreeMap<u64, SmallVec<[u64; 3]>>,
    queue: Queue,
    /// The last commit took nothing of the bulk lane, though something waited there.
    is_bulk_due: bool,
    /// Units released so far.
    released: u64,
}

/// What one commit may carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchMax {
    /// Bytes of record.
    pub(crate) bytes: usize,
    /// Of them, bytes of the bulk lane; none of it where this is 0.
    pub(crate) bulk_bytes: usize,
    /// Pages.
    pub(crate) pages: usize,
}

/// What one commit carries of the buffer.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Units in it, in order.
    pub(crate) units: Vec<u64>,
    /// Units that it makes superfluous.
    absorbed: Vec<u64>,
    /// The tickets that become durable with it.
    taken: Taken,
    /// Its changes.
    pub(crate) tags: Vec<Tag>,
    /// Where the bytes of each tag are in the arena.
    payloads: Vec<usize>,
    /// Bytes of its payload.
    pub(crate) payload_bytes: usize,
    /// Pages that it changes.
    pub(crate) pages: usize,
    /// Of them, those of which it does not change every byte at once.
    pub(crate) partial_pages: usize,
    scratch: Vec<u64>,
}

impl<A: Arena> Buffer<A> {
    /// Opens the buffer; see [`Ring::open`]. Units left by a process that was killed are in it, idle, unless they
    /// are marked as durable or `is_durable` says so.
    /// Answers their number too.
    pub(crate) fn open(
        arena: A,
        volume: u64,
        epoch: u64,
        next_epoch: u64,
        is_durable: impl Fn(u64) -> bool,
    ) -> (Self, u64) {
        let (ring, found) = Ring::open(arena, volume, epoch, next_epoch);
        let first = ring.oldest();
        let mut buffer = Self {
            ring,
            units: VecDeque::new(),
            first,
            index: BTreeMap::new(),
            queue: Queue::default(),
            is_bulk_due: false,
            released: 0,
        };
        let count = found.len() as u64;
        for unit in found {
            buffer.add(unit.sequence, &unit.extents, unit.payload_at);
            let is_here = unit.sequence >= buffer.first && buffer.unit(unit.sequence).state == State::Idle;
            let durable = unit.durable || is_durable(unit.sequence);
            if is_here && durable && !is_planted(Bug::DurableUnitsReplayed) {
                buffer.supersede_older(unit.sequence);
                buffer.advance();
            }
        }
        (buffer, count)
    }

    /// See [`Ring::begin_epoch`].
    pub(crate) fn begin_epoch(&mut self) {
        self.ring.begin_epoch();
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
        Some(sequence)
    }

    fn add(&mut self, sequence: u64, extents: &[UnitExtent], mut payload_at: usize) {
        debug_assert_eq!(sequence, self.first + self.units.len() as u64);
        let (mut live, mut touched) = (Parts::new(), SmallVec::new());
        for extent in extents {
            let UnitExtent { offset, len, content } = *extent;
            live.push(Part { offset, len, content, payload_at });
            touched.push(Extent::new(offset, len));
            payload_at += extent.payload_bytes() as usize;
        }
        if extents.iter().all(|extent| extent.content == Content::Superseded) {
            live.clear();
        }
        for extent in &touched {
            for page in pages_of(extent) {
                let units = self.index.entry(page).or_default();
                if units.last() != Some(&sequence) {
                    units.push(sequence);
                }
            }
        }
        self.units.push_back(Unit { extents: touched, live, state: State::Idle });
        if extents.iter().any(|extent| extent.content == Content::Superseded) {
            self.supersede_older(sequence);
            self.advance();
        }
    }

    /// Older units do not count any more for the bytes of this one, which is durable, or a mark that they went
    /// home by another way. It is released at once: it stays in the ring, for a reader to find, as long as any
    /// older unit does.
    fn supersede_older(&mut self, sequence: u64) {
        for extent in self.unit(sequence).extents.clone() {
            for page in pages_of(&extent) {
                for older in self.older_on(page, sequence) {
                    let unit = self.unit_mut(older);
                    trim(&mut unit.live, &extent);
                    if unit.live.is_empty() && unit.state == State::Idle {
                        self.release(older);
                    }
                }
            }
        }
        self.release(sequence);
    }

    fn older_on(&self, page: u64, sequence: u64) -> SmallVec<[u64; 8]> {
        let units = self.index.get(&page).into_iter().flatten();
        units.copied().take_while(|&older| older < sequence).collect()
    }

    fn unit(&self, sequence: u64) -> &Unit {
        &self.units[(sequence - self.first) as usize]
    }

    fn unit_mut(&mut self, sequence: u64) -> &mut Unit {
        &mut self.units[(sequence - self.first) as usize]
    }

    /// Lays the bytes of all units over `into`, which holds the committed bytes of `page` from `start`.
    pub(crate) fn overlay(&self, page: u64, start: usize, into: &mut [u8]) {
        let Some(units) = self.index.get(&page) else { return };
        let wanted = Extent::new(page * PAGE_BYTES + start as u64, into.len() as u64);
        for &sequence in units {
            for part in &self.unit(sequence).live {
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
        let mut wanted: SmallVec<[u64; 16]> = SmallVec::new();
        for extent in ranges.iter().filter(|extent| extent.len > 0) {
            let mut last = (extent.end() - 1) / PAGE_BYTES;
            if is_planted(Bug::FlushMissesEdge) && last > extent.offset / PAGE_BYTES {
                last -= 1;
            }
            for (_, units) in self.index.range(extent.offset / PAGE_BYTES..=last) {
                for &sequence in units {
                    if self.unit(sequence).extents.iter().any(|touched| touched.overlaps(extent)) {
                        wanted.push(sequence);
                    }
                }
            }
        }
        wanted.sort_unstable();
        wanted.dedup();
        let bytes = wanted.iter().flat_map(|&sequence| &self.unit(sequence).live).map(|part| part.len).sum();
        let lane = Lane::for_bytes(bytes);
        wanted.into_iter().fold(Tickets::default(), |tickets, sequence| {
            self.want_unit(sequence, lane).map_or(tickets, |ticket| tickets.and(ticket))
        })
    }

    /// Queues one unit; answers the ticket with which it becomes durable, unless it is.
    pub(crate) fn want_unit(&mut self, sequence: u64, lane: Lane) -> Option<Ticket> {
        let place = (sequence - self.first) as usize;
        let unit = &mut self.units[place];
        match unit.state {
            State::Idle => {
                let ticket = self.queue.push(lane, sequence);
                unit.state = State::Queued { ticket };
                Some(ticket)
            }
            State::Queued { ticket } if ticket.lane == Lane::Bulk && lane == Lane::Small => {
                let ticket = self.queue.promote(sequence);
                unit.state = State::Queued { ticket };
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
        let (mut used, _) = self.ring.fill();
        for place in 0..self.units.len() {
            if used <= bytes_max {
                break;
            }
            let unit = &self.units[place];
            if unit.state != State::Released {
                let bytes: u64 = unit.live.iter().map(|part| part.len).sum();
                used = used.saturating_sub(bytes as usize + 64);
                self.want_unit(self.first + place as u64, Lane::Bulk);
            }
        }
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

    /// Takes from every older unit that has no commit yet what the batch overwrites (invariant 2).
    fn trim_older(&mut self, batch: &mut Batch) {
        if is_planted(Bug::NoTrim) {
            return;
        }
        let Some(ticket) = batch.taken.tickets.any() else { return };
        for &sequence in batch.units.iter().rev() {
            let live = self.unit(sequence).live.clone();
            for part in &live {
                for page in pages_of(&part.extent()) {
                    for older in self.older_on(page, sequence) {
                        let in_batch = batch.units.binary_search(&older).is_ok();
                        let unit = self.unit_mut(older);
                        if matches!(unit.state, State::Committing { .. }) && !in_batch {
                            continue; // an earlier record carries it
                        }
                        if unit.live.is_empty() {
                            continue;
                        }
                        trim(&mut unit.live, &part.extent());
                        if unit.live.is_empty() && unit.state == State::Idle {
                            unit.state = State::Absorbed { ticket };
                            batch.absorbed.push(older);
                        }
                    }
                }
            }
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
            self.release(sequence);
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

    fn release(&mut self, sequence: u64) {
        let place = (sequence - self.first) as usize;
        let unit = &mut self.units[place];
        if unit.state == State::Released {
            return;
        }
        unit.state = State::Released;
        self.released += 1;
        unit.live.clear();
        for extent in std::mem::take(&mut unit.extents) {
            for page in pages_of(&extent) {
                if let Some(units) = self.index.get_mut(&page) {
                    units.retain(|other| *other != sequence);
                    if units.is_empty() {
                        self.index.remove(&page);
                    }
                }
            }
        }
        self.ring.release(sequence);
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

impl Batch {
    /// Whether it carries something of the bulk lane.
    pub(crate) fn has_bulk(&self) -> bool {
        self.taken.tickets.of(Lane::Bulk) > 0
    }

    /// Whether it carries something of the small lane.
    pub(crate) fn has_small(&self) -> bool {
        self.taken.tickets.of(Lane::Small) > 0
    }

    /// Says in the record which units it makes durable: a process killed before it could mark them in the arena
    /// must not replay them over newer ones.
    fn name_units(&mut self) {
        self.scratch.clear();
        self.scratch.extend(self.units.iter().chain(&self.absorbed));
        self.scratch.sort_unstable();
        let mut run: Option<(u64, u32)> = None;
        for &sequence in &self.scratch {
            match &mut run {
                Some((first, count)) if *first + u64::from(*count) == sequence => *count += 1,
                _ => {
                    let ended = run.replace((sequence, 1));
                    self.tags.extend(ended.map(|(sequence, count)| Tag::Units { sequence, count }));
                }
            }
        }
        self.tags.extend(run.map(|(sequence, count)| Tag::Units { sequence, count }));
        self.payloads.resize(self.tags.len(), 0);
    }

    fn count_pages(&mut self) {
        self.scratch.clear();
        let mut discarded = 0;
        for tag in &self.tags {
            match *tag {
                Tag::Delta { page, .. } | Tag::Zero { page, .. } => self.scratch.push(page),
                Tag::Discard { count, .. } => discarded += count as usize,
                Tag::Units { .. } | Tag::Page { .. } | Tag::TablePage { .. } => {}
            }
        }
        self.scratch.sort_unstable();
        self.scratch.dedup();
        self.pages = self.scratch.len() + discarded;
        self.scratch.clear();
        self.scratch.extend(self.tags.iter().filter_map(|tag| match *tag {
            Tag::Delta { page, len, .. } if usize::from(len) == PAGE => Some(page),
            _ => None,
        }));
        self.scratch.sort_unstable();
        self.scratch.dedup();
        self.partial_pages = self.pages - discarded - self.scratch.len();
    }

    fn clear(&mut self) {
        self.units.clear();
        self.absorbed.clear();
        self.tags.clear();
        self.payloads.clear();
        self.payload_bytes = 0;
        self.taken = Taken::default();
    }
}

/// Numbers of the pages that `extent` touches.
pub(crate) fn pages_of(extent: &Extent) -> std::ops::Range<u64> {
    if extent.len == 0 {
        return 0..0;
    }
    extent.offset / PAGE_BYTES..(extent.end() - 1) / PAGE_BYTES + 1
}

/// Takes `extent` out of `parts`.
fn trim(parts: &mut Parts, extent: &Extent) {
    let mut kept = Parts::new();
    for part in parts.iter() {
        if !part.extent().overlaps(extent) {
            kept.push(*part);
            continue;
        }
        let before = Extent::new(part.offset, extent.offset.saturating_sub(part.offset));
        let after_start = match is_planted(Bug::TrimKeepsFront) {
            true => part.extent().end(),
            false => extent.end().max(part.offset),
        };
        let after = Extent::new(after_start, part.extent().end().saturating_sub(after_start));
        kept.extend([before, after].iter().filter(|rest| rest.len > 0).filter_map(|rest| part.within(rest)));
    }
    *parts = kept;
}

fn record_bytes_of(part: &Part) -> usize {
    let tags = pages_of(&part.extent()).count();
    let payload = if part.content == Content::Data { part.len as usize } else { 0 };
    tags * crate::format::record::TAG_BYTES + payload
}

/// The tags of a part, one a page (one for neighbouring pages that are discarded whole), and where their bytes
/// are.
fn tags_of(part: &Part, tags: &mut Vec<Tag>, payloads: &mut Vec<usize>) {
    for page in pages_of(&part.extent()) {
        let Some(piece) = part.within(&Extent::new(page * PAGE_BYTES, PAGE_BYTES)) else { continue };
        let (offset, len) = ((piece.offset % PAGE_BYTES) as u16, piece.len as u16);
        debug_assert!(usize::from(offset) + usize::from(len) <= PAGE);
        let tag = match part.content {
            Content::Data => Tag::Delta { page, offset, len },
            Content::Discard if piece.len == PAGE_BYTES => match tags.last_mut() {
                Some(Tag::Discard { page: first, count }) if *first + u64::from(*count) == page => {
                    *count += 1;
                    continue;
                }
                _ => Tag::Discard { page, count: 1 },
            },
            // What a newer write left of a discarded page reads as zeros, and its contents are that write's.
            _ => Tag::Zero { page, offset, len },
        };
        tags.push(tag);
        payloads.push(piece.payload_at);
    }
}
