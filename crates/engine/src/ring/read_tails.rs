//! How often small reads take long, of members that write and of members that do not.
//!
//! 1. A read that met a write, a flush, or what they left to do counts as one of a member that writes.
//! 2. What was a while ago counts less: half of it is forgotten with each so many reads.
//! 3. A share is known once there are enough reads to tell it.

use std::cell::RefCell;

/// Classes of durations: four to a doubling, from a microsecond on.
const CLASSES: usize = 128;

/// Reads of which half are forgotten.
const REMEMBERED: u64 = 20_000;

/// How long reads took.
#[derive(Debug)]
pub(super) struct Durations {
    counts: [u64; CLASSES],
    total: u64,
}

impl Default for Durations {
    fn default() -> Self {
        Self { counts: [0; CLASSES], total: 0 }
    }
}

/// Of members that write, and of others.
#[derive(Debug, Default)]
pub(super) struct ReadTails {
    quiet: RefCell<Durations>,
    disturbed: RefCell<Durations>,
}

fn class_of(took_ns: u64) -> usize {
    let quarters = ((took_ns.max(1000) as f64 / 1000.0).log2() * 4.0) as usize;
    quarters.min(CLASSES - 1)
}

impl Durations {
    fn note(&mut self, took_ns: u64) {
        if self.total >= REMEMBERED {
            self.counts.iter_mut().for_each(|count| *count /= 2);
            self.total = self.counts.iter().sum();
        }
        self.counts[class_of(took_ns)] += 1;
        self.total += 1;
    }

    /// The class that this share of the reads does not exceed.
    fn class_at(&self, share: f64) -> usize {
        let beyond = (self.total as f64 * (1.0 - share)) as u64;
        let mut above = 0;
        for (class, &count) in self.counts.iter().enumerate().rev() {
            above += count;
            if above > beyond {
                return class;
            }
        }
        0
    }

    /// The share of the reads in classes above this one.
    fn share_above(&self, class: usize) -> f64 {
        let above: u64 = self.counts.iter().skip(class + 1).sum();
        above as f64 / self.total.max(1) as f64
    }
}

impl ReadTails {
    /// A read took so long.
    pub(super) fn note(&self, is_disturbed: bool, took_ns: u64) {
        let durations = if is_disturbed { &self.disturbed } else { &self.quiet };
        durations.borrow_mut().note(took_ns);
    }

    /// Of the reads that met writes, the share that took longer than all but one in a thousand of the others; `None`
    /// where there are fewer than so many of either.
    pub(super) fn disturbed_share(&self, reads_min: u64) -> Option<f64> {
        let (quiet, disturbed) = (self.quiet.borrow(), self.disturbed.borrow());
        let is_known = quiet.total >= reads_min && disturbed.total >= reads_min;
        is_known.then(|| disturbed.share_above(quiet.class_at(0.999)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    #[test]
    fn nothing_is_told_of_few() {
        let tails = ReadTails::default();
        (0..99).for_each(|_| tails.note(false, 100 * US));
        (0..500).for_each(|_| tails.note(true, 100 * US));
        assert_eq!(tails.disturbed_share(100), None);
        tails.note(false, 100 * US);
        assert_eq!(tails.disturbed_share(100), Some(0.0));
    }

    #[test]
    fn reads_that_met_writes_are_compared_with_the_slowest_of_the_others() {
        let tails = ReadTails::default();
        for number in 0..2000 {
            tails.note(false, if number % 100 == 0 { 5000 * US } else { 100 * US });
            // Slower than most of the others, and no slower than one in a hundred of them.
            tails.note(true, if number % 10 == 0 { 4000 * US } else { 120 * US });
        }
        assert_eq!(tails.disturbed_share(1000), Some(0.0));
        (0..20).for_each(|_| tails.note(true, 20_000 * US));
        let share = tails.disturbed_share(1000).unwrap();
        assert!((0.009..0.011).contains(&share), "{share}");
    }

    #[test]
    fn what_was_long_ago_is_forgotten() {
        let tails = ReadTails::default();
        (0..1000).for_each(|_| tails.note(false, 100 * US));
        (0..10_000).for_each(|_| tails.note(true, 9000 * US));
        (0..400_000).for_each(|_| tails.note(true, 100 * US));
        assert!(tails.disturbed_share(1000).unwrap() < 0.001);
    }
}
