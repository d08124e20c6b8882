//! How many members read: a decision a turn, from the load that both kinds of requests put on them.
//!
//! 1. As long as anybody reads, one member at least does nothing else; as long as anything waits to be written, one
//!    at least writes. A ring of one member has no choice.
//! 2. Readers are not given up for writers before those have fallen behind for several turns, nor taken back before
//!    they have long been ahead: a drive that has just written is not yet a good reader.
//! 3. When nobody has read for long, and those that write have fallen behind, all write; the first read ends that with
//!    the turn.

use super::backlog::Forecast;

/// When to change how many members read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct WindowOptions {
    /// How many read as long as anybody does; `None` to choose by the load.
    pub fixed: Option<usize>,
    /// How full, of 1, the room for what is not home would be once the members have taken home what waits for them, beyond
    /// which writers are too few.
    pub behind_fill: f64,
    /// And below which one writer fewer is enough, as full as it would be then.
    pub ahead_fill: f64,
    /// So many turns one after another must say the same before it is heeded: too few writers,
    pub behind_turns: u32,
    /// or too many.
    pub ahead_turns: u32,
    /// After so many turns without a read all may write, if writers are too few.
    pub unread_turns: u32,
}

impl Default for WindowOptions {
    fn default() -> Self {
        Self {
            fixed: None,
            behind_fill: 1.1,
            ahead_fill: 0.9,
            behind_turns: 2,
            ahead_turns: 6,
            unread_turns: 30,
        }
    }
}

/// What happened since the turn before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Load {
    /// Members that take part and may be read.
    pub(super) members: usize,
    /// Reads.
    pub(super) reads: u64,
    /// How full the room for what is not home gets.
    pub(super) forecast: Forecast,
}

/// How many members read, turn by turn.
#[derive(Debug)]
pub(super) struct Window {
    options: WindowOptions,
    /// Members beyond one that write.
    more_writers: usize,
    behind: u32,
    ahead: u32,
    unread: u32,
    /// Whether all write, until somebody reads.
    all_write: bool,
}

impl Window {
    pub(super) fn new(options: WindowOptions) -> Self {
        Self { options, more_writers: 0, behind: 0, ahead: 0, unread: 0, all_write: false }
    }

    /// How many members read in the next turn.
    pub(super) fn readers(&mut self, load: Load) -> usize {
        let most = load.members.saturating_sub(1);
        self.unread = if load.reads == 0 { self.unread.saturating_add(1) } else { 0 };
        self.note(load);
        let is_unread = self.unread >= self.options.unread_turns;
        self.all_write = is_unread && (self.all_write || self.behind >= self.options.behind_turns);
        if self.all_write {
            return 0;
        }
        if let Some(fixed) = self.options.fixed {
            return fixed.min(most);
        }
        let writers_max = most.max(1); // one reads
        if self.behind >= self.options.behind_turns && 1 + self.more_writers < writers_max {
            (self.more_writers, self.behind) = (self.more_writers + 1, 0);
        }
        if self.ahead >= self.options.ahead_turns {
            (self.more_writers, self.ahead) = (self.more_writers.saturating_sub(1), 0);
        }
        self.more_writers = self.more_writers.min(writers_max - 1);
        load.members.saturating_sub(1 + self.more_writers)
    }

    fn note(&mut self, Load { members, forecast, .. }: Load) {
        let writers = if self.all_write { members } else { 1 + self.more_writers };
        let is_behind = forecast.is_full || forecast.fill_with(writers) > self.options.behind_fill;
        let is_ahead = !forecast.is_full && forecast.fill_with(writers - 1) < self.options.ahead_fill;
        self.behind = if is_behind { self.behind + 1 } else { 0 };
        self.ahead = if is_ahead { self.ahead + 1 } else { 0 };
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A load whose writes fill the room so far, by the time that one writer alone has taken them home.
    fn load(members: usize, reads: u64, fill_then: f64) -> Load {
        Load { members, reads, forecast: Forecast { is_full: false, fill: 0.0, more: fill_then } }
    }

    #[test]
    fn writers_that_stay_behind_get_help_and_give_it_back_only_after_long() {
        let mut window = Window::new(WindowOptions::default());
        let mut readers = |fill_then: f64, turns: usize| {
            (0..turns).map(|_| window.readers(load(4, 9, fill_then))).collect::<Vec<_>>()
        };
        assert_eq!(readers(5.0, 5), [3, 2, 2, 1, 1], "one always reads");
        assert_eq!(readers(2.5, 9), [1; 9], "three are enough, two are not: nothing changes");
        assert_eq!(readers(1.5, 20)[19], 2, "two are enough, one is not");
        assert_eq!(readers(0.5, 7), [2, 2, 2, 2, 2, 3, 3]);
    }

    #[test]
    fn room_that_is_full_is_behind_though_it_grows_no_more() {
        let mut window = Window::new(WindowOptions::default());
        let full = Load { members: 3, reads: 9, forecast: Forecast { is_full: true, fill: 1.0, more: 0.0 } };
        assert_eq!((0..20).map(|_| window.readers(full)).collect::<Vec<_>>()[..3], [2, 1, 1]);
    }

    #[test]
    fn a_load_that_swings_does_not_swing_the_window() {
        let mut window = Window::new(WindowOptions::default());
        let readers: Vec<_> =
            (0..20).map(|turn| window.readers(load(3, 9, if turn % 2 == 0 { 9.0 } else { 0.0 }))).collect();
        assert_eq!(readers, [2; 20]);
    }

    #[test]
    fn all_write_when_nobody_reads_and_writers_are_behind_until_somebody_does() {
        let options = WindowOptions { unread_turns: 4, fixed: Some(2), ..WindowOptions::default() };
        let readers = |loads: [(u64, f64); 8]| {
            let mut window = Window::new(options);
            loads.map(|(reads, fill_then)| window.readers(load(3, reads, fill_then)))
        };
        let read = [5, 0, 0, 0, 0, 0, 1, 0];
        assert_eq!(readers(read.map(|reads| (reads, 4.0))), [2, 2, 2, 2, 0, 0, 2, 2]);
        assert_eq!(readers(read.map(|reads| (reads, 1.0))), [2; 8], "one writer is enough");
        let mut caught_up = read.map(|reads| (reads, 4.0));
        caught_up[5] = (0, 0.0);
        assert_eq!(readers(caught_up), [2, 2, 2, 2, 0, 0, 2, 2], "what all do is enough for all");
    }

    proptest! {
        #[test]
        fn somebody_writes_and_whoever_reads_is_served(
            loads in proptest::collection::vec((1..6usize, 0..3u64, 0.0..9.0f64), 1..200),
            fixed in proptest::option::of(0..8usize),
        ) {
            let mut window = Window::new(WindowOptions { fixed, ..WindowOptions::default() });
            for (members, reads, fill_then) in loads {
                let readers = window.readers(load(members, reads, fill_then));
                prop_assert!(readers < members, "somebody writes");
                let must_read = members > 1 && reads > 0 && fixed != Some(0);
                prop_assert!(!must_read || readers > 0, "somebody reads");
            }
        }
    }
}
