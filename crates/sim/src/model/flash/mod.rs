//! A flash drive: channels, chips, dies and planes, a page-mapping translation layer, and a RAM buffer.
//!
//! 1. A unit (a die, or a chip whose dies take turns) does one thing at a time: it reads, programs, moves a page or
//!    erases a block. A page on its way to or from the controller has its unit and its channel; a channel serves in
//!    the order of asking.
//! 2. Writes are done when they are in the buffer; what is in the buffer goes to the unit that is free first,
//!    beginning with what a flush asked for. A full buffer makes writes wait.
//! 3. A flush is done when all it asked for is in the cells. A flush of a range or a stream asks for nothing else.
//! 4. Reads go before programs, but not for ever: after [`READS_IN_A_ROW`] of them on a unit it is the turn of
//!    what else it has to do.
//! 5. Old versions stay valid in the cells until the new one is in them.

mod admit;
mod buffer;
mod collect;
mod contents;
mod ftl;
mod power;
mod precondition;
pub(super) mod presets;
mod program;
pub mod shape;
pub mod snapshot;
mod stopping;
mod units;

use std::collections::VecDeque;

use super::schedule::{NEVER, Schedule};
use super::{Completion, Model, Operation, Request, SECTOR_BYTES, Storage};
use crate::random::Random;
use buffer::Buffer;
use contents::Contents;
use ftl::{Ftl, NONE, SLOT};
use shape::{Collection, Shape};
use units::Stop;
use units::{ReadJob, Unit};

/// Reads of one unit that go before other work of it.
pub const READS_IN_A_ROW: u32 = 16;

/// What a drive did since it was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Reads that were done.
    pub reads: u64,
    /// Writes that were done, durable ones too.
    pub writes: u64,
    /// Flushes that were done, of ranges and streams too.
    pub flushes: u64,
    /// Frames written by the host; a part of a frame counts as one.
    pub host_frames: u64,
    /// Pages read for the host.
    pub pages_read: u64,
    /// Pages read to complete a frame that was written in part.
    pub pages_fetched: u64,
    /// Pages programmed for the host's writes.
    pub pages_programmed: u64,
    /// Frames in them.
    pub frames_programmed: u64,
    /// Frames that garbage collection moved.
    pub frames_moved: u64,
    /// Pages it programmed for that.
    pub pages_moved: u64,
    /// Blocks erased.
    pub erases: u64,
    /// Reads of frames that the buffer held.
    pub buffer_read_hits: u64,
    /// Writes to frames that the buffer held.
    pub buffer_write_hits: u64,
    /// Programs and erases suspended for a read.
    pub suspensions: u64,
    /// Times for which the whole drive stopped to collect.
    pub stops: u64,
}

impl Counters {
    /// Frames programmed for each that the host's writes needed: 1 without garbage collection.
    pub fn write_amplification(&self) -> f64 {
        (self.frames_programmed + self.frames_moved) as f64 / self.frames_programmed.max(1) as f64
    }
}

/// A request under way.
#[derive(Debug, Clone, Copy)]
struct Pending {
    request: Request,
    /// What it still waits for.
    left: u32,
}

/// A flash drive.
#[derive(Debug, Clone)]
pub struct Flash {
    shape: Shape,
    ftl: Ftl,
    buffer: Buffer,
    units: Vec<Unit>,
    /// By block.
    unit_of: Vec<u16>,
    /// Units that have nothing to do, a bit each.
    idle: Vec<u64>,
    /// The unit that writes next, if it is idle.
    next_unit: usize,
    /// By channel, when it is free.
    channels_free_ns: Vec<u64>,
    /// When the link is free, from the host and to it.
    link_free_ns: [u64; 2],
    command_free_ns: u64,
    schedule: Schedule,
    pending: Vec<Pending>,
    pending_free: Vec<u32>,
    /// Requests that the controller takes up, and when.
    arrivals: VecDeque<(u64, u32)>,
    /// Writes that have crossed the link, and when.
    landings: VecDeque<(u64, u32)>,
    done_reads: VecDeque<Completion>,
    done_others: VecDeque<Completion>,
    /// Writes that wait for slots of the buffer, and the next frame of each.
    waiting: VecDeque<(u32, u32)>,
    /// Frames being completed.
    fetching: u32,
    /// Slots in use above which the rest is written back.
    write_back_above: usize,
    stop: Stop,
    /// When the last read was taken up.
    last_read_ns: Option<u64>,
    counters: Counters,
    now_ns: u64,
    scratch: Vec<u32>,
    frame_shift: u32,
    contents: Option<Box<Contents>>,
}

/// What happens beside the units' work; their places in the schedule follow the units'.
const ARRIVAL: usize = 0;
const LANDING: usize = 1;
const DONE_READ: usize = 2;
const DONE_OTHER: usize = 3;
const AGE: usize = 4;
const SOURCES: usize = 5;

const TO_DRIVE: usize = 0;
const TO_HOST: usize = 1;

impl Flash {
    /// A drive that was never written.
    pub fn new(shape: Shape) -> Self {
        shape.assert_sound();
        let units = shape.units() as usize;
        let blocks_a_unit = (shape.unit_planes() * shape.blocks) as usize;
        let mut idle = vec![0_u64; units.div_ceil(64)];
        (0..units).for_each(|unit| idle[unit / 64] |= 1 << (unit % 64));
        Self {
            ftl: Ftl::new(&shape),
            buffer: Buffer::new(shape.buffer_frames()),
            units: (0..units).map(|_| Unit::default()).collect(),
            unit_of: (0..units * blocks_a_unit).map(|block| (block / blocks_a_unit) as u16).collect(),
            idle,
            next_unit: 0,
            channels_free_ns: vec![0; shape.channels as usize],
            link_free_ns: [0; 2],
            command_free_ns: 0,
            schedule: Schedule::new(units + SOURCES),
            pending: Vec::new(),
            pending_free: Vec::new(),
            arrivals: VecDeque::new(),
            landings: VecDeque::new(),
            done_reads: VecDeque::new(),
            done_others: VecDeque::new(),
            waiting: VecDeque::new(),
            fetching: 0,
            write_back_above: (u64::from(shape.buffer_frames()) * u64::from(shape.write_back_percent) / 100)
                as usize,
            stop: Stop::None,
            last_read_ns: None,
            counters: Counters::default(),
            now_ns: 0,
            scratch: Vec::new(),
            frame_shift: shape.frame_bytes.trailing_zeros(),
            contents: None,
            shape,
        }
    }

    /// What it is made of.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// What it did so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// How often each block was erased, as the least, the mean and the most of all blocks.
    pub fn wear(&self) -> (u32, f64, u32) {
        let wear = self.ftl.blocks.iter().map(|block| block.wear);
        let (least, most) = (wear.clone().min().unwrap_or(0), wear.clone().max().unwrap_or(0));
        (least, wear.map(f64::from).sum::<f64>() / self.ftl.blocks.len() as f64, most)
    }

    /// Checks that the mapping holds together; a mistake of the model panics.
    pub fn assert_consistent(&self) {
        let mut counts = vec![0; self.ftl.blocks.len()];
        for (logical, &place) in self.ftl.map.iter().enumerate() {
            let frame = match place {
                NONE => continue,
                place if place & SLOT != 0 => {
                    let slot = &self.buffer.slots[(place & !SLOT) as usize];
                    assert_eq!(slot.logical as usize, logical, "the map names another's slot");
                    slot.old
                }
                frame => frame,
            };
            if frame == NONE {
                continue;
            }
            assert!(self.ftl.is_valid(frame), "the map names a frame that is not valid");
            assert_eq!(self.ftl.owners[frame as usize] as usize, logical, "the map names another's frame");
            counts[self.ftl.block_of(frame) as usize] += 1;
        }
        for (block, count) in self.ftl.blocks.iter().zip(counts) {
            assert_eq!(block.count, count, "a block's count of valid frames is wrong");
        }
    }

    /// Requests that were submitted and are not done.
    pub fn under_way(&self) -> usize {
        self.pending.len() - self.pending_free.len() + self.done_reads.len() + self.done_others.len()
    }

    /// Bytes of frames in the buffer that are not in the cells.
    pub fn dirty_bytes(&self) -> u64 {
        self.buffer.used().len() as u64 * u64::from(self.shape.frame_bytes)
    }

    /// Takes a request; answers by which number it goes here.
    fn enter(&mut self, now_ns: u64, request: Request) -> u32 {
        let Request { operation, offset, len, .. } = request;
        assert!(now_ns >= self.now_ns && self.schedule.first().0 >= now_ns, "time runs forwards");
        let is_sound = offset.is_multiple_of(SECTOR_BYTES) && len.is_multiple_of(SECTOR_BYTES);
        assert!(is_sound, "{request:?} is not made of whole sectors");
        assert!(
            offset.checked_add(len).is_some_and(|end| end <= self.shape.size_bytes),
            "{request:?} lies outside"
        );
        self.now_ns = now_ns;
        let pending = self.pending_free.pop().unwrap_or_else(|| {
            self.pending.push(Pending { request, left: 0 });
            (self.pending.len() - 1) as u32
        });
        self.pending[pending as usize] = Pending { request, left: 0 };
        let command_ns = match operation {
            Operation::Write | Operation::DurableWrite => self.shape.write_command_ns,
            _ => self.shape.command_ns,
        };
        let at_ns = self.command_free_ns.max(now_ns) + command_ns;
        self.command_free_ns = at_ns;
        if at_ns == now_ns && self.arrivals.is_empty() && operation == Operation::Read && !self.is_stopped() {
            self.take_up(pending);
            return pending;
        }
        self.arrivals.push_back((at_ns, pending));
        if self.arrivals.len() == 1 {
            self.set_source(ARRIVAL, at_ns);
        }
        pending
    }

    fn set_source(&mut self, source: usize, at_ns: u64) {
        self.schedule.set(self.units.len() + source, at_ns);
    }

    /// The frames of a request, first and end.
    fn frames_of(&self, request: &Request) -> std::ops::Range<u32> {
        let first = request.offset >> self.frame_shift;
        let end = (request.offset + request.len).div_ceil(u64::from(self.shape.frame_bytes));
        first as u32..end as u32
    }

    /// The sectors of `frame` that a request has, a bit each.
    fn mask_of(&self, request: &Request, frame: u32) -> u32 {
        let start = u64::from(frame) << self.frame_shift;
        let from = request.offset.saturating_sub(start) / SECTOR_BYTES;
        let to = (request.offset + request.len - start).min(u64::from(self.shape.frame_bytes)) / SECTOR_BYTES;
        (((1_u64 << to) - 1) & !((1_u64 << from) - 1)) as u32
    }

    fn full_mask(&self) -> u32 {
        ((1_u64 << (u64::from(self.shape.frame_bytes) / SECTOR_BYTES)) - 1) as u32
    }

    /// Grants the channel of `unit` for so many bytes, from now on; answers when they have passed.
    fn channel(&mut self, unit: usize, bytes: u64) -> u64 {
        let ns = self.shape.channel_ns(bytes);
        let channel = unit % self.channels_free_ns.len();
        let free = &mut self.channels_free_ns[channel];
        *free = self.now_ns.max(*free) + ns;
        *free
    }

    fn link(&mut self, way: usize, bytes: u64) -> u64 {
        let way = if self.shape.link_duplex { way } else { TO_DRIVE };
        let ns = self.shape.link_ns(bytes);
        let free = &mut self.link_free_ns[way];
        *free = self.now_ns.max(*free) + ns;
        *free
    }

    fn arrival(&mut self) {
        if self.is_stopped() {
            return self.set_source(ARRIVAL, NEVER); // Taken up after the round.
        }
        let (_, pending) = self.arrivals.pop_front().expect("an arrival was due");
        // Those that came during a round are overdue.
        let next = self.arrivals.front().map_or(NEVER, |&(at_ns, _)| at_ns.max(self.now_ns));
        self.set_source(ARRIVAL, next);
        self.take_up(pending);
    }

    /// The controller takes up a request.
    fn take_up(&mut self, pending: u32) {
        let request = self.pending[pending as usize].request;
        match request.operation {
            Operation::Read => self.read(pending, &request),
            Operation::Write | Operation::DurableWrite => {
                let at_ns = self.link(TO_DRIVE, request.len);
                self.landings.push_back((at_ns, pending));
                if self.landings.len() == 1 {
                    self.set_source(LANDING, at_ns);
                }
            }
            Operation::Flush | Operation::FlushRange | Operation::FlushStream => {
                self.flush(pending, &request);
            }
            Operation::Discard => self.discard(pending, &request),
        }
    }

    fn landing(&mut self) {
        let (_, pending) = self.landings.pop_front().expect("a landing was due");
        let next = self.landings.front().map_or(NEVER, |&(at_ns, _)| at_ns);
        self.set_source(LANDING, next);
        self.land(pending);
        self.kick();
    }

    fn read(&mut self, pending: u32, request: &Request) {
        self.counters.reads += 1;
        self.last_read_ns = Some(self.now_ns);
        let frame_bytes = u64::from(self.shape.frame_bytes);
        let mut left = 0;
        for logical in self.frames_of(request) {
            let place = self.ftl.map[logical as usize];
            if place == NONE {
                continue;
            }
            let wanted = self.mask_of(request, logical);
            let (frame, missing) = if place & SLOT != 0 {
                let slot = &self.buffer.slots[(place & !SLOT) as usize];
                (slot.old, wanted & !slot.mask)
            } else {
                (place, wanted)
            };
            if missing == 0 || frame == NONE {
                self.counters.buffer_read_hits += 1;
                continue;
            }
            left += 1;
            let bytes = if missing.count_ones() == 32 {
                frame_bytes
            } else {
                u64::from(missing.count_ones()) * SECTOR_BYTES
            };
            self.enqueue_read(ReadJob { frame, bytes: bytes as u32, owner: pending });
        }
        self.pending[pending as usize].left = left;
        if left == 0 {
            self.complete(pending);
        }
    }

    /// One of the things that a request waits for has happened.
    fn advance(&mut self, pending: u32) {
        let left = &mut self.pending[pending as usize].left;
        *left -= 1;
        if *left == 0 {
            self.complete(pending);
        }
    }

    fn complete(&mut self, pending: u32) {
        let Request { tag, operation, len, .. } = self.pending[pending as usize].request;
        self.pending_free.push(pending);
        self.answered();
        if operation == Operation::Read {
            let at_ns = self.link(TO_HOST, len) + self.shape.latency_ns;
            self.done_reads.push_back(Completion { tag, at_ns });
            if self.done_reads.len() == 1 {
                self.set_source(DONE_READ, at_ns);
            }
        } else {
            let at_ns = self.now_ns + self.shape.latency_ns;
            self.done_others.push_back(Completion { tag, at_ns });
            if self.done_others.len() == 1 {
                self.set_source(DONE_OTHER, at_ns);
            }
        }
    }

    fn happen(&mut self, what: usize, done: &mut Vec<Completion>) {
        let Some(source) = what.checked_sub(self.units.len()) else {
            self.unit_event(what);
            return;
        };
        match source {
            ARRIVAL => self.arrival(),
            LANDING => self.landing(),
            DONE_READ | DONE_OTHER => {
                let queue = if source == DONE_READ { &mut self.done_reads } else { &mut self.done_others };
                done.push(queue.pop_front().expect("a completion was due"));
                let next = queue.front().map_or(NEVER, |completion| completion.at_ns);
                self.set_source(source, next);
            }
            _ => {
                self.set_source(AGE, NEVER);
                self.kick();
            }
        }
    }
}

impl Model for Flash {
    fn size_bytes(&self) -> u64 {
        self.shape.size_bytes
    }

    fn now_ns(&self) -> u64 {
        self.now_ns
    }

    fn submit(&mut self, now_ns: u64, request: Request) {
        self.enter(now_ns, request);
    }

    fn next_event_ns(&self) -> Option<u64> {
        let (at_ns, _) = self.schedule.first();
        (at_ns != NEVER).then_some(at_ns)
    }

    fn run_until(&mut self, now_ns: u64, done: &mut Vec<Completion>) {
        loop {
            let (at_ns, what) = self.schedule.first();
            if at_ns > now_ns || at_ns == NEVER {
                break;
            }
            debug_assert!(at_ns >= self.now_ns, "time runs forwards");
            self.now_ns = at_ns;
            self.happen(what, done);
        }
        self.now_ns = self.now_ns.max(now_ns);
    }
}

impl Storage for Flash {
    fn submit_write(&mut self, now_ns: u64, request: Request, bytes: &[u8]) {
        assert_eq!(request.len, bytes.len() as u64, "a write of other bytes than it says");
        let pending = self.enter(now_ns, request);
        self.hold_write(pending, bytes);
    }

    fn read_contents(&self, offset: u64, into: &mut [u8]) {
        Flash::read_contents(self, offset, into);
    }

    fn power_cut(&mut self, random: &mut Random) -> u64 {
        Flash::power_cut(self, random)
    }

    fn has_atomic_sectors(&self) -> bool {
        true
    }
}
