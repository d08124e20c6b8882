//! How many members read: a decision a turn, from the load that both kinds of requests put on them.
//!
//! 1. As long as anybody reads, as many members as a read needs at least do nothing else: one, or K where they hold stripes
//!    of K data shards. As long as anything waits to be written, one at least writes, though too few read then.
//! 2. Readers are not given up for writers before those have fallen behind for several turns, nor taken back before
//!    they have long been ahead: a drive that has just written is not yet a good reader. They are given up before the room is
//!    full, and before turns are ([`super::auto`]): that all write at once costs reads far more.
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
            behind_fill: 0.9,
            ahead_fill: 0.7,
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
    /// So many of them have to read for every read to be served by such as do nothing else.
    pub(super) readers_min: usize,
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
    /// Whether as many write at once as are needed, not one more at a time; whether all do is decided elsewhere.
    is_prompt: bool,
}

impl Window {
    pub(super) fn new(options: WindowOptions, is_prompt: bool) -> Self {
        Self { options, more_writers: 0, behind: 0, ahead: 0, unread: 0, all_write: false, is_prompt }
    }

    /// How many members read in the next turn.
    pub(super) fn readers(&mut self, load: Load) -> usize {
        let most = load.members.saturating_sub(1);
        self.unread = if load.reads == 0 { self.unread.saturating_add(1) } else { 0 };
        self.note(load);
        let is_unread = self.unread >= self.options.unread_turns && !self.is_prompt;
        self.all_write = is_unread && (self.all_write || self.behind >= self.options.behind_turns);
        if self.all_write {
            return 0;
        }
        if let Some(fixed) = self.options.fixed {
            return fixed.min(most);
        }
        let writers_max = load.members.saturating_sub(load.readers_min).max(1);
        if self.is_prompt {
            let is_enough = |writers: &usize| load.forecast.fill_with(*writers) <= self.options.behind_fill;
            let needed = (1..writers_max).find(is_enough).unwrap_or(writers_max);
            self.more_writers = self.more_writers.max(needed - 1);
            self.behind = 0;
        }
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
        let forecast = Forecast { is_full: false, fill: 0.0, more: fill_then };
        Load { members, readers_min: 1, reads, forecast }
    }

    #[test]
    fn writers_that_stay_behind_get_help_and_give_it_back_only_after_long() {
        let mut window = Window::new(WindowOptions::default(), false);
        let mut readers = |fill_then: f64, turns: usize| {
            (0..turns).map(|_| window.readers(load(4, 9, fill_then))).collect::<Vec<_>>()
        };
        assert_eq!(readers(5.0, 5), [3, 2, 2, 1, 1], "one always reads");
        assert_eq!(readers(2.5, 9), [1; 9], "three are enough, two are not: nothing changes");
        assert_eq!(readers(1.3, 20)[19], 2, "two are enough, one is not");
        assert_eq!(readers(0.5, 7), [2, 2, 2, 2, 2, 3, 3]);
    }

    #[test]
    fn as_many_write_at_once_as_are_needed_where_that_is_asked_for() {
        let mut window = Window::new(WindowOptions::default(), true);
        let mut readers = |fill_then: f64, turns: usize| {
            (0..turns).map(|_| window.readers(load(5, 9, fill_then))).collect::<Vec<_>>()
        };
        assert_eq!(readers(2.5, 2), [2, 2]);
        assert_eq!(readers(9.0, 2), [1, 1], "one always reads");
        assert_eq!(readers(0.5, 7), [1, 1, 1, 1, 1, 2, 2], "and they are given back only after long");
    }

    #[test]
    fn no_more_write_than_leave_enough_for_every_read_and_one_does_whoever_is_lost() {
        for is_prompt in [false, true] {
            let mut window = Window::new(WindowOptions::default(), is_prompt);
            let mut readers = |members: usize| {
                let load = Load { readers_min: 4, ..load(members, 9, 9.0) };
                (0..5).map(|_| window.readers(load)).last().unwrap()
            };
            assert_eq!([6, 5, 4].map(&mut readers), [4, 4, 3]);
        }
    }

    #[test]
    fn room_that_is_full_is_behind_though_it_grows_no_more() {
        let mut window = Window::new(WindowOptions::default(), false);
        let forecast = Forecast { is_full: true, fill: 1.0, more: 0.0 };
        let full = Load { members: 3, readers_min: 1, reads: 9, forecast };
        assert_eq!((0..20).map(|_| window.readers(full)).collect::<Vec<_>>()[..3], [2, 1, 1]);
    }

    #[test]
    fn a_load_that_swings_does_not_swing_the_window() {
        let mut window = Window::new(WindowOptions::default(), false);
        let readers: Vec<_> =
            (0..20).map(|turn| window.readers(load(3, 9, if turn % 2 == 0 { 9.0 } else { 0.0 }))).collect();
        assert_eq!(readers, [2; 20]);
    }

    #[test]
    fn all_write_when_nobody_reads_and_writers_are_behind_until_somebody_does() {
        let options = WindowOptions { unread_turns: 4, fixed: Some(2), ..WindowOptions::default() };
        let readers = |loads: [(u64, f64); 8]| {
            let mut window = Window::new(options, false);
            loads.map(|(reads, fill_then)| window.readers(load(3, reads, fill_then)))
        };
        let read = [5, 0, 0, 0, 0, 0, 1, 0];
        assert_eq!(readers(read.map(|reads| (reads, 4.0))), [2, 2, 2, 2, 0, 0, 2, 2]);
        assert_eq!(readers(read.map(|reads| (reads, 0.8))), [2; 8], "one writer is enough");
        let mut caught_up = read.map(|reads| (reads, 4.0));
        caught_up[5] = (0, 0.0);
        assert_eq!(readers(caught_up), [2, 2, 2, 2, 0, 0, 2, 2], "what all do is enough for all");
    }

    proptest! {
        #[test]
        fn somebody_writes_and_whoever_reads_is_served(
            loads in proptest::collection::vec((1..6usize, 0..3u64, 0.0..9.0f64), 1..200), readers_min in 1..4usize,
            fixed in proptest::option::of(0..8usize),
            is_prompt in any::<bool>(),
        ) {
            let mut window = Window::new(WindowOptions { fixed, ..WindowOptions::default() }, is_prompt);
            for (members, reads, fill_then) in loads {
                let readers = window.readers(Load { readers_min, ..load(members, reads, fill_then) });
                prop_assert!(readers < members, "somebody writes");
                let must_read = members > 1 && reads > 0 && fixed.is_none();
                let enough = readers_min.min(members - 1);
                prop_assert!(!must_read || readers >= enough, "every read is served");
                prop_assert!(members == 1 || reads == 0 || fixed == Some(0) || readers > 0, "somebody reads");
            }
        }
    }
}
