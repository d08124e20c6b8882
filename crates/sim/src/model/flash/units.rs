//! Units at work: which of its tasks a unit takes up next, and what follows when it is done.

use std::collections::VecDeque;

use super::super::schedule::NEVER;
use super::buffer::SlotState;
use super::ftl::{NONE, SLOT};
use super::shape::Collection;
use super::{Flash, READS_IN_A_ROW};

/// A page, or a part of one, to be read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReadJob {
    pub(crate) frame: u32,
    /// What crosses the channel.
    pub(crate) bytes: u32,
    /// The request, or [`SLOT`] and the slot that is completed by it.
    pub(crate) owner: u32,
}

/// How far the drive is with making room.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Stop {
    /// There is room.
    #[default]
    None,
    /// So many units collect a block, and nothing else is done.
    Round(u32),
    /// So many requests are answered before the next round.
    Between(u32),
}

/// A block that is being collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CollectJob {
    pub(crate) block: u32,
    pub(crate) plane: u32,
    /// Frames before this one have been moved.
    pub(super) next: u32,
}

/// What a unit does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum State {
    #[default]
    Idle,
    Sensing,
    Sending,
    Programming,
    MoveSensing,
    MoveProgramming,
    Erasing,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Unit {
    pub(crate) state: State,
    pub(crate) reads: VecDeque<ReadJob>,
    /// Parts of the one page that is being read.
    current: Vec<ReadJob>,
    reads_in_a_row: u32,
    /// Slots being programmed, and where.
    pub(crate) batch: Vec<(u32, u32)>,
    /// When the cells began to be programmed or erased.
    pub(crate) began_ns: u64,
    pub(crate) ends_ns: u64,
    /// What was suspended, and what is left of it.
    suspended: Option<(State, u64)>,
    pub(crate) collecting: Option<CollectJob>,
    /// Whether the drive waits for it to collect a block.
    pub(crate) in_round: bool,
    /// Frames being moved: from where, to where.
    pub(crate) moves: Vec<(u32, u32)>,
    /// Frames that collection is to move before the next write, when it is paced; scaled by 256.
    pub(crate) owed: i64,
    /// Pages freed since the last erase of a block of the drive before it was scaled.
    pub(crate) erase_debt: u32,
    /// The plane that is written to next.
    pub(crate) next_plane: u32,
}

impl Unit {
    /// What was suspended for a read.
    pub(crate) fn suspended(&self) -> Option<State> {
        self.suspended.map(|(state, _)| state)
    }
}

impl Flash {
    /// `unit` is busy with `state` until `ends_ns`.
    pub(crate) fn begin(&mut self, unit: usize, state: State, ends_ns: u64) {
        let at = &mut self.units[unit];
        if at.state == State::Idle {
            self.idle[unit / 64] &= !(1 << (unit % 64));
        }
        at.state = state;
        at.ends_ns = ends_ns;
        self.schedule.set(unit, ends_ns);
    }

    fn rest_unit(&mut self, unit: usize) {
        self.units[unit].state = State::Idle;
        self.idle[unit / 64] |= 1 << (unit % 64);
        self.schedule.set(unit, NEVER);
    }

    pub(crate) fn enqueue_read(&mut self, job: ReadJob) {
        let unit_number = usize::from(self.unit_of[self.ftl.block_of(job.frame) as usize]);
        let frames_a_page = self.shape.frames_a_page();
        let unit = &mut self.units[unit_number];
        match unit.state {
            _ if matches!(self.stop, Stop::Round(_)) => unit.reads.push_back(job),
            State::Idle => {
                unit.reads.push_back(job);
                self.start_read(unit_number);
            }
            State::Sensing
                if frames_a_page > 1
                    && unit.current[0].frame / frames_a_page == job.frame / frames_a_page =>
            {
                unit.current.push(job);
            }
            _ => {
                unit.reads.push_back(job);
                self.suspend(unit_number);
            }
        }
    }

    pub(crate) fn start_read(&mut self, unit_number: usize) {
        let frames_a_page = self.shape.frames_a_page();
        let unit = &mut self.units[unit_number];
        let first = unit.reads.pop_front().expect("a page is to be read");
        unit.current.clear();
        unit.current.push(first);
        if frames_a_page > 1 {
            while let Some(next) = unit.reads.front()
                && next.frame / frames_a_page == first.frame / frames_a_page
            {
                unit.current.push(*next);
                unit.reads.pop_front();
            }
        }
        unit.reads_in_a_row += 1;
        let is_fetch = first.owner & SLOT != 0;
        self.counters.pages_read += u64::from(!is_fetch);
        self.counters.pages_fetched += u64::from(is_fetch);
        // The command crosses the channel too: not while a page does.
        let begins_ns = self.channel(unit_number, 0);
        self.begin(unit_number, State::Sensing, begins_ns + self.shape.read_ns);
    }

    /// Suspends what `unit` does for the read that has just come, if it can.
    fn suspend(&mut self, unit_number: usize) {
        let Some(suspend_ns) = self.shape.suspend_ns else { return };
        let unit = &mut self.units[unit_number];
        let can_be = matches!(unit.state, State::Programming | State::MoveProgramming | State::Erasing);
        let is_worth_it = unit.ends_ns > self.now_ns + suspend_ns && unit.began_ns <= self.now_ns;
        if !can_be || !is_worth_it || unit.suspended.is_some() || unit.reads_in_a_row >= READS_IN_A_ROW {
            return;
        }
        unit.suspended = Some((unit.state, unit.ends_ns - self.now_ns + suspend_ns));
        self.counters.suspensions += 1;
        self.start_read(unit_number);
    }

    pub(crate) fn unit_event(&mut self, unit_number: usize) {
        match self.units[unit_number].state {
            State::Idle => unreachable!("nothing happens at an idle unit"),
            State::Sensing => {
                let bytes = self.units[unit_number].current.iter().map(|job| u64::from(job.bytes)).sum();
                let ends_ns = self.channel(unit_number, bytes);
                self.begin(unit_number, State::Sending, ends_ns);
                return;
            }
            State::Sending => self.finish_read(unit_number),
            State::Programming => self.finish_program(unit_number),
            State::MoveSensing => {
                self.program_move(unit_number);
                return;
            }
            State::MoveProgramming => self.finish_move(unit_number),
            State::Erasing => self.finish_erase(unit_number),
        }
        self.dispatch(unit_number);
    }

    fn finish_read(&mut self, unit_number: usize) {
        let mut current = std::mem::take(&mut self.units[unit_number].current);
        for job in current.drain(..) {
            if job.owner & SLOT == 0 {
                self.advance(job.owner);
                continue;
            }
            let slot = job.owner & !SLOT;
            self.fetching -= 1;
            self.complete_bytes(slot);
            let full = self.full_mask();
            let at = &mut self.buffer.slots[slot as usize];
            at.mask = full;
            if at.logical == NONE {
                // Its contents were discarded meanwhile.
                self.drop_slot(slot);
            } else {
                self.buffer.enqueue(slot, SlotState::Ready);
            }
        }
        self.units[unit_number].current = current;
    }

    /// A unit that has just finished something takes up the next thing.
    fn dispatch(&mut self, unit_number: usize) {
        if !self.take_up_next(unit_number) {
            self.rest_unit(unit_number);
            self.set_age_timer();
        }
        if self.buffer.first(SlotState::Ready).is_some() {
            self.kick();
        }
    }

    /// Whether the unit found something to do.
    fn take_up_next(&mut self, unit_number: usize) -> bool {
        if self.is_stopped() {
            if self.collect_in_round(unit_number) {
                return true;
            }
            if self.is_stopped() {
                return false;
            }
        }
        let is_blocked =
            self.shape.collection == Collection::Blocking && self.units[unit_number].collecting.is_some();
        let unit = &self.units[unit_number];
        if !unit.reads.is_empty() && !is_blocked && unit.reads_in_a_row < READS_IN_A_ROW {
            self.start_read(unit_number);
            return true;
        }
        if self.units[unit_number].reads.is_empty() || is_blocked {
            self.units[unit_number].reads_in_a_row = 0;
        }
        if let Some((state, left_ns)) = self.units[unit_number].suspended.take() {
            self.units[unit_number].began_ns = self.now_ns;
            self.begin(unit_number, state, self.now_ns + left_ns);
            return true;
        }
        if self.collect_now(unit_number) || self.program_next(unit_number) {
            self.units[unit_number].reads_in_a_row = 0;
            return true;
        }
        if !self.units[unit_number].reads.is_empty() {
            self.start_read(unit_number);
            return true;
        }
        self.collect_meanwhile(unit_number)
    }
}
