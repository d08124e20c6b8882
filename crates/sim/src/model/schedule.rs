//! Which of a fixed number of things happens next: a tournament of their times.
//!
//! 1. Each has one time, [`NEVER`] or later.
//! 2. Of two at one time the one with the lower number is first.
//!
//! A change costs one comparison for each doubling of their number, and no memory: cheaper than a heap when
//! each has at most one event ahead.

/// The time of what is not going to happen.
pub(crate) const NEVER: u64 = u64::MAX;

#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    /// `times[leaf]`; a power of two of them.
    times: Vec<u64>,
    /// `winners[node]`: the earliest leaf below; the root is 1, the children of n are 2n and 2n + 1.
    winners: Vec<u32>,
}

impl Schedule {
    pub(crate) fn new(things: usize) -> Self {
        let leaves = things.next_power_of_two().max(2);
        let mut winners = vec![0; leaves];
        for node in (1..leaves).rev() {
            winners[node] = match node < leaves / 2 {
                true => winners[2 * node],
                false => (2 * node - leaves) as u32,
            };
        }
        Self { times: vec![NEVER; leaves], winners }
    }

    /// The earliest: when, and which.
    pub(crate) fn first(&self) -> (u64, usize) {
        let winner = self.winners[1] as usize;
        (self.times[winner], winner)
    }

    pub(crate) fn set(&mut self, thing: usize, at_ns: u64) {
        if self.times[thing] == at_ns {
            return;
        }
        self.times[thing] = at_ns;
        let leaves = self.times.len();
        let pair = thing & !1;
        let mut winner = if self.times[pair + 1] < self.times[pair] { pair + 1 } else { pair };
        let mut node = (leaves + thing) / 2;
        self.winners[node] = winner as u32;
        while node > 1 {
            let other = self.winners[node ^ 1] as usize;
            let (left, right) = if node & 1 == 0 { (winner, other) } else { (other, winner) };
            winner = if self.times[right] < self.times[left] { right } else { left };
            node /= 2;
            self.winners[node] = winner as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_first_is_the_earliest_and_of_these_the_lowest() {
        let mut random = Random::new(7);
        for things in [1, 2, 3, 64, 69, 300] {
            let mut schedule = Schedule::new(things);
            let mut times = vec![NEVER; things];
            for _ in 0..3_000 {
                let thing = random.index(things);
                times[thing] = if random.coin() { random.below(50) } else { NEVER };
                schedule.set(thing, times[thing]);
                let (at, first) = schedule.first();
                let least = *times.iter().min().unwrap();
                assert_eq!(at, least);
                if least != NEVER {
                    assert_eq!(first, times.iter().position(|&time| time == least).unwrap());
                }
            }
        }
    }
}
