//! What waits for its commit, in two lanes: who wants little does not wait for who wants much.
//!
//! 1. Within a lane, tickets are given in the order of queueing and become durable in that order.
//! 2. A unit that waits in the bulk lane and is wanted as one of few changes lanes. What it left behind there, a ticket
//!    without a unit, is durable once the unit is, by its new ticket.

use std::collections::VecDeque;

use crate::planted::{Bug, is_planted};

/// Where a unit waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// It is one of few.
    Small,
    /// It is one of many, or nobody waits for it.
    Bulk,
}

impl Lane {
    /// Both, in the order in which a commit takes from them.
    pub(crate) const ALL: [Self; 2] = [Self::Small, Self::Bulk];

    /// The lane for whoever asks for so many bytes, where up to `small_max_bytes` count as little.
    pub(crate) fn for_bytes(bytes: u64, small_max_bytes: u64) -> Self {
        if bytes <= small_max_bytes { Self::Small } else { Self::Bulk }
    }
}

/// A place in a lane.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) lane: Lane,
    pub(crate) number: u64,
}

/// The last ticket of each lane that someone waits for, or that is durable; 0 where there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tickets([u64; 2]);

impl Tickets {
    /// That of a lane.
    pub(crate) fn of(self, lane: Lane) -> u64 {
        self.0[lane as usize]
    }

    /// With this one too.
    pub(crate) fn and(mut self, ticket: Ticket) -> Self {
        let last = &mut self.0[ticket.lane as usize];
        *last = ticket.number.max(*last);
        self
    }

    /// With those too.
    pub(crate) fn and_all(mut self, others: Self) -> Self {
        self.0.iter_mut().zip(others.0).for_each(|(last, other)| *last = other.max(*last));
        self
    }

    /// Whether all of them are durable, where `durable` are.
    #[cfg(test)]
    pub(crate) fn are_within(self, durable: Self) -> bool {
        self.0.iter().zip(durable.0).all(|(&wanted, durable)| wanted <= durable)
    }

    /// One that is durable with all of these, where there are any.
    pub(crate) fn any(self) -> Option<Ticket> {
        let ticket = |lane| Ticket { lane, number: self.of(lane) };
        Lane::ALL.into_iter().map(ticket).find(|ticket| ticket.number > 0)
    }
}

/// The two lanes.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    lanes: [VecDeque<(u64, u64)>; 2],
    /// Tickets given so far.
    given: Tickets,
    durable: Tickets,
    /// The last small ticket of a unit that left the bulk lane.
    promoted: u64,
    /// Bulk tickets whose commits are durable, each with the small ticket that must be before it may be said.
    untold: VecDeque<(u64, u64)>,
}

/// What a commit takes from the queue.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Taken {
    pub(crate) tickets: Tickets,
    /// The small ticket without which its bulk ticket says nothing.
    needs: u64,
}

impl Taken {
    /// What the planted bug that acknowledges too much takes.
    pub(crate) fn too_far(mut self) -> Self {
        self.tickets.0.iter_mut().filter(|ticket| **ticket > 0).for_each(|ticket| *ticket += 1);
        self
    }
}

impl Queue {
    /// Puts a unit behind all others of its lane.
    pub(crate) fn push(&mut self, lane: Lane, sequence: u64) -> Ticket {
        let ticket = Ticket { lane, number: self.given.of(lane) + 1 };
        self.given = self.given.and(ticket);
        self.lanes[lane as usize].push_back((ticket.number, sequence));
        ticket
    }

    /// Gives a unit that waits in the bulk lane a place in the small one.
    pub(crate) fn promote(&mut self, sequence: u64) -> Ticket {
        let ticket = self.push(Lane::Small, sequence);
        if !is_planted(Bug::LaneLeftIsDurable) {
            self.promoted = ticket.number;
        }
        ticket
    }

    /// The first of a lane, which may be a ticket without a unit.
    pub(crate) fn front(&self, lane: Lane) -> Option<(Ticket, u64)> {
        let &(number, sequence) = self.lanes[lane as usize].front()?;
        Some((Ticket { lane, number }, sequence))
    }

    /// Takes the first of a lane.
    pub(crate) fn take(&mut self, lane: Lane, taken: &mut Taken) {
        let Some((number, _)) = self.lanes[lane as usize].pop_front() else { return };
        taken.tickets = taken.tickets.and(Ticket { lane, number });
        taken.needs = self.promoted;
    }

    /// How many wait in a lane.
    #[cfg(test)]
    pub(crate) fn len(&self, lane: Lane) -> usize {
        self.lanes[lane as usize].len()
    }

    /// Whether nothing waits in a lane.
    pub(crate) fn is_lane_empty(&self, lane: Lane) -> bool {
        self.lanes[lane as usize].is_empty()
    }

    /// The newest tickets that are durable.
    pub(crate) fn durable(&self) -> Tickets {
        self.durable
    }

    /// What was taken is durable, as is all that was taken before it.
    pub(crate) fn complete(&mut self, taken: Taken) {
        let ticket = |lane, number| Ticket { lane, number };
        self.durable = self.durable.and(ticket(Lane::Small, taken.tickets.of(Lane::Small)));
        if is_planted(Bug::LanesMixed) {
            self.durable = self.durable.and(ticket(Lane::Bulk, taken.tickets.of(Lane::Small)));
        }
        self.untold.push_back((taken.tickets.of(Lane::Bulk), taken.needs));
        while let Some(&(number, needs)) = self.untold.front()
            && needs <= self.durable.of(Lane::Small)
        {
            self.durable = self.durable.and(ticket(Lane::Bulk, number));
            self.untold.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(queue: &mut Queue, lanes: &[Lane]) -> Taken {
        let mut taken = Taken::default();
        lanes.iter().for_each(|&lane| queue.take(lane, &mut taken));
        taken
    }

    #[test]
    fn what_a_unit_leaves_in_the_bulk_lane_is_durable_with_the_unit_and_not_before() {
        let mut queue = Queue::default();
        let left = queue.push(Lane::Bulk, 7);
        let new = queue.promote(7);
        // The bulk lane gets ahead of the small one, as it may where a commit is full of others.
        let first = taken(&mut queue, &[Lane::Bulk]);
        let second = taken(&mut queue, &[Lane::Small]);
        queue.complete(first);
        assert!(!Tickets::default().and(left).are_within(queue.durable()));
        queue.complete(second);
        assert!(Tickets::default().and(left).and(new).are_within(queue.durable()));
    }

    #[test]
    fn neither_lane_says_what_the_other_has_made_durable() {
        let mut queue = Queue::default();
        let (few, many) = (queue.push(Lane::Small, 1), queue.push(Lane::Bulk, 2));
        let small = taken(&mut queue, &[Lane::Small]);
        queue.complete(small);
        assert!(Tickets::default().and(few).are_within(queue.durable()));
        assert!(!Tickets::default().and(many).are_within(queue.durable()));
        let bulk = taken(&mut queue, &[Lane::Bulk]);
        queue.complete(bulk);
        assert!(Tickets::default().and(many).are_within(queue.durable()) && queue.is_lane_empty(Lane::Bulk));
    }
}
