//! Collection for which the whole drive stops, as drives do whose firmware collects in the foreground.
//!
//! 1. When a plane runs short, a round begins: every unit that wants room collects one block of its own. Until all of
//!    them are done nothing else is begun: no command is taken up, nothing is read or programmed for the host.
//! 2. After a round the drive answers as many requests as were waiting. Then the next round begins, until every plane
//!    has free blocks for its part of a buffer full of writes, or nothing is left to gain, or reads come while nothing
//!    waits for room and the drive is one that yields to them.
//! 3. A round is as long as the longest of its collections: a block's moves and its erase.

use super::buffer::SlotState;
use super::units::{State, Stop};
use super::{ARRIVAL, Collection, Flash};

impl Flash {
    /// Whether nothing is done but collection.
    pub(crate) fn is_stopped(&self) -> bool {
        matches!(self.stop, Stop::Round(_))
    }

    /// A unit has written for the host.
    pub(crate) fn stop_if_short(&mut self, unit: usize) {
        let stops = self.shape.collection == Collection::Stopping && self.stop == Stop::None;
        if stops && self.planes_of(unit).any(|plane| self.ftl.is_short(plane)) {
            self.begin_round();
        }
    }

    /// A unit found no room to write for the host: the drive stops, if it is one that does.
    pub(crate) fn stop_without_room(&mut self) {
        if self.shape.collection == Collection::Stopping && !self.is_stopped() {
            self.begin_round();
        }
    }

    /// Begins another round, unless reads come and nothing waits for room.
    fn next_round(&mut self) {
        let is_wanted =
            [SlotState::Ready, SlotState::Urgent].iter().any(|&queue| self.buffer.first(queue).is_some());
        if self.reads_have_it() && !is_wanted {
            self.stop = Stop::None;
        } else {
            self.begin_round();
        }
    }

    /// Every unit that wants room and can gain some collects a block.
    fn begin_round(&mut self) {
        if self.stop == Stop::None {
            self.ftl.refill();
        }
        let mut units = 0;
        for unit in 0..self.units.len() {
            let can_gain = self.units[unit].collecting.is_some()
                || self
                    .planes_of(unit)
                    .any(|plane| self.ftl.wants_room(plane) && self.ftl.victim(plane).is_some());
            self.units[unit].in_round = can_gain;
            units += u32::from(can_gain);
        }
        if units == 0 {
            self.stop = Stop::None;
            return;
        }
        self.stop = Stop::Round(units);
        self.counters.stops += 1;
        for unit in 0..self.units.len() {
            if self.units[unit].state == State::Idle && self.units[unit].in_round {
                self.collect_in_round(unit);
            }
        }
    }

    /// A unit that is free during a round; whether it has a part in it.
    pub(crate) fn collect_in_round(&mut self, unit: usize) -> bool {
        if !self.units[unit].in_round {
            return false;
        }
        let is_collecting = self.collect(unit);
        if !is_collecting {
            // What it was programming has filled up the only block that was worth it.
            self.finish_in_round(unit);
        }
        is_collecting
    }

    /// A unit has done its part.
    pub(crate) fn finish_in_round(&mut self, unit: usize) {
        let Stop::Round(left) = self.stop else { return };
        if !std::mem::take(&mut self.units[unit].in_round) {
            return;
        }
        self.stop = Stop::Round(left - 1);
        if left > 1 {
            return;
        }
        let waiting = self.pending.len() - self.pending_free.len();
        self.stop = Stop::Between(waiting as u32);
        if waiting == 0 {
            self.next_round();
        }
        if self.is_stopped() {
            return;
        }
        if let Some(&(at_ns, _)) = self.arrivals.front() {
            self.set_source(ARRIVAL, at_ns.max(self.now_ns));
        }
        for other in 0..self.units.len() {
            let at = &self.units[other];
            if at.state == State::Idle && !at.reads.is_empty() {
                self.start_read(other);
            }
        }
        self.kick();
    }

    /// A request was answered.
    pub(crate) fn answered(&mut self) {
        if let Stop::Between(left) = self.stop {
            self.stop = Stop::Between(left.saturating_sub(1));
            if left <= 1 {
                self.next_round();
            }
        }
    }
}
