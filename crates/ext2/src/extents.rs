//! A set of block numbers, kept as runs.

use std::collections::BTreeMap;
use std::ops::Range;

/// Runs of blocks that share none and do not touch.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockSet {
    /// First block to the one behind the last.
    runs: BTreeMap<u32, u32>,
    count: u64,
}

impl BlockSet {
    /// How many blocks there are.
    pub(crate) fn len(&self) -> u64 {
        self.count
    }

    /// Adds a run of which it has no block.
    pub(crate) fn insert(&mut self, run: Range<u32>) {
        if run.is_empty() {
            return;
        }
        debug_assert!(
            self.next_run(run.start).is_none_or(|next| next.start >= run.end),
            "held twice: {run:?}"
        );
        self.count += u64::from(run.end - run.start);
        let (mut start, mut end) = (run.start, run.end);
        if let Some((&before, &before_end)) = self.runs.range(..start).next_back()
            && before_end == start
        {
            self.runs.remove(&before);
            start = before;
        }
        if let Some(after_end) = self.runs.remove(&end) {
            end = after_end;
        }
        self.runs.insert(start, end);
    }

    /// Takes a run out, of which it has every block.
    pub(crate) fn remove(&mut self, run: Range<u32>) {
        if run.is_empty() {
            return;
        }
        let found = self.runs.range(..=run.start).next_back().map(|(&start, &end)| start..end);
        let Some(found) = found.filter(|found| found.end >= run.end) else {
            debug_assert!(false, "not held: {run:?}");
            return;
        };
        self.count -= u64::from(run.end - run.start);
        self.runs.remove(&found.start);
        if found.start < run.start {
            self.runs.insert(found.start, run.start);
        }
        if run.end < found.end {
            self.runs.insert(run.end, found.end);
        }
    }

    /// The run that holds `block`, or else the first one behind it.
    pub(crate) fn next_run(&self, block: u32) -> Option<Range<u32>> {
        let holding = self.runs.range(..=block).next_back().filter(|(_, end)| **end > block);
        holding.or_else(|| self.runs.range(block..).next()).map(|(&start, &end)| start..end)
    }

    /// Takes all runs out.
    pub(crate) fn take(&mut self) -> Vec<Range<u32>> {
        self.count = 0;
        std::mem::take(&mut self.runs).into_iter().map(|(start, end)| start..end).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_touch_become_one_and_come_apart_again() {
        let mut set = BlockSet::default();
        set.insert(10..20);
        set.insert(30..40);
        set.insert(20..30);
        assert_eq!(set.next_run(0), Some(10..40));
        set.remove(15..35);
        assert_eq!(
            (set.next_run(12), set.next_run(15), set.next_run(40)),
            (Some(10..15), Some(35..40), None)
        );
        assert_eq!(set.len(), 10);
        assert_eq!(set.take(), [10..15, 35..40]);
    }
}
