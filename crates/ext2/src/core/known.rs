//! Which files somebody knows of, and of which of them blocks were unmapped lately.
//!
//! 1. A file that is known and has nothing in memory takes one number in a tree: a million of them are tens of megabytes.
//! 2. A read learns whether blocks of its own file were unmapped while it read them; where that is not known any more, it is
//!    told that they may have been.

use std::collections::{BTreeMap, VecDeque};

use super::Core;
use crate::store::Store;

/// Unmappings that are remembered.
const UNMAPPED_MAX: usize = 256;

/// How often each file was told of, and how often it is open.
#[derive(Debug, Default)]
pub(crate) struct Known {
    lookups: BTreeMap<u32, u64>,
    opens: BTreeMap<u32, u64>,
}

impl Known {
    /// Files of which somebody was told.
    pub(crate) fn len(&self) -> usize {
        self.lookups.len()
    }

    /// Whether somebody has it open, or was told of it.
    pub(crate) fn has(&self, number: u32) -> bool {
        self.lookups.contains_key(&number) || self.opens.contains_key(&number)
    }

    /// Nobody knows of anything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// The front was told of it once more.
    pub(crate) fn look_up(&mut self, number: u32) {
        *self.lookups.entry(number).or_default() += 1;
    }

    /// It is open once more.
    pub(crate) fn open(&mut self, number: u32) {
        *self.opens.entry(number).or_default() += 1;
    }

    /// It is open once less.
    pub(crate) fn close(&mut self, number: u32) {
        take_back(&mut self.opens, number, 1);
    }
}

/// Counts less of a file, which goes at zero.
fn take_back(counts: &mut BTreeMap<u32, u64>, number: u32, count: u64) {
    if let Some(counted) = counts.get_mut(&number) {
        *counted = counted.saturating_sub(count);
        if *counted == 0 {
            counts.remove(&number);
        }
    }
}

/// The latest unmappings, each with how many there had been by then.
#[derive(Debug, Default)]
pub(crate) struct Unmapped {
    latest: VecDeque<(u64, u32)>,
    /// Those up to this count are not remembered.
    forgotten: u64,
}

impl Unmapped {
    /// Blocks of a file were unmapped; so many unmappings there were, with this one.
    pub(crate) fn note(&mut self, number: u32, count: u64) {
        if self.latest.len() == UNMAPPED_MAX
            && let Some((count, _)) = self.latest.pop_front()
        {
            self.forgotten = count;
        }
        self.latest.push_back((count, number));
    }

    /// Whether blocks of a file may have been unmapped since there were so many unmappings.
    pub(crate) fn may_have(&self, number: u32, since: u64) -> bool {
        let later = self.latest.iter().rev().take_while(|&&(count, _)| count > since);
        since < self.forgotten || later.into_iter().any(|&(_, unmapped)| unmapped == number)
    }
}

impl<S: Store> Core<S> {
    /// Takes back lookups of a file; whether it may have to be ended.
    pub(crate) fn forget(&mut self, number: u32, lookups: u64) -> bool {
        take_back(&mut self.known.lookups, number, lookups);
        !self.known.has(number) && (self.is_orphan(number) || self.nodes.contains_key(&number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_until_all_its_lookups_are_taken_back_and_it_is_closed() {
        let mut known = Known::default();
        known.look_up(7);
        known.look_up(7);
        known.open(7);
        assert_eq!((known.len(), known.has(7), known.has(8)), (1, true, false));
        take_back(&mut known.lookups, 7, 1);
        take_back(&mut known.lookups, 7, 9);
        assert_eq!((known.len(), known.has(7)), (0, true));
        known.close(7);
        known.close(7);
        assert!(!known.has(7));
    }

    #[test]
    fn what_was_unmapped_is_known_for_a_while_and_feared_behind_it() {
        let mut unmapped = Unmapped::default();
        assert!(!unmapped.may_have(3, 0));
        unmapped.note(3, 5);
        unmapped.note(4, 6);
        assert!(unmapped.may_have(3, 4) && unmapped.may_have(4, 5));
        assert!(!unmapped.may_have(3, 5) && !unmapped.may_have(4, 6) && !unmapped.may_have(5, 0));
        for count in 0..UNMAPPED_MAX as u64 {
            unmapped.note(9, 7 + count);
        }
        assert!(unmapped.may_have(3, 4) && unmapped.may_have(5, 5), "a read from before is not sure");
        assert!(!unmapped.may_have(3, 6) && unmapped.may_have(9, 6));
        assert_eq!(unmapped.latest.len(), UNMAPPED_MAX);
    }
}
