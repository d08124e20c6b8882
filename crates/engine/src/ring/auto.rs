//! Whether members take turns now, or write as things come: a decision several times a second, from what is observed.
//!
//! ```text
//!                 nobody reads, and what waits is much        somebody reads
//!            ┌──────────────────────────────────────────►┐ ┌◄──────────────────┐
//!   in turns │ as many writers as it takes, one reads     │ │ all write and read │ mixed
//!            └◄──────────────────────────────────────────┘ └──────────────────►┘
//!                 writes come more slowly than turns take      turns fall behind
//!                 them home, and reads meet writes             reads do not suffer by writes
//! ```
//!
//! 1. Turns are kept where reads are slower at their tail on members that write, and turns take home what comes.
//! 2. As long as nobody reads, all write once the room for what is not home fills, or a record comes for the members.
//! 3. A way that was left for what it did comes back only after a while, and after twice as long each time; what nobody
//!    read is no such reason.

use super::backlog::Forecast;

/// Nobody reads, where no read came for so many turns.
const UNREAD_TURNS: u64 = 1;

/// Where nobody reads, all write once the room is so full, or would be by the time that one writer is done.
const UNREAD_FILL: f64 = 0.3;

/// Turns fall behind where the room would be fuller than this, whoever writes but one,
const BEHIND_FILL: f64 = 1.0;

/// and is so full already: up to here hardly a write waits, and less may be a burst that it has room for,
const BEHIND_FILL_NOW: f64 = 0.85;

/// for so many turns: room comes back in steps, and is nearly full before each. Room that is full is not waited for.
const BEHIND_TURNS: u64 = 1;

/// Turns are enough again for so much of what they take home,
const ENOUGH_SHARE: f64 = 0.8;

/// with so much of the room at least that is free.
const ENOUGH_FILL: f64 = 0.5;

/// Mixed service is kept where fewer of the reads than this are slower for writes,
const UNHARMED_SHARE: f64 = 0.001;

/// and given up where more are.
const HARMED_SHARE: f64 = 0.004;

/// From how many reads that is told.
pub(super) const READS_MIN: u64 = 1000;

/// A change is followed by no other for so many turns,
const HOLD_TURNS: u64 = 2;

/// and for so many at most where changes come one after another.
const HOLD_TURNS_MAX: u64 = 60;

/// One that stood for so many turns was no such: more than the longest hold, which a load that swings waits out.
const STOOD_TURNS: u64 = 2 * HOLD_TURNS_MAX;

/// How members are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Who reads does not write.
    Turns,
    /// All write as things come, and all read.
    Mixed,
}

/// What is observed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Observed {
    pub(super) now_ns: u64,
    /// Members that take part.
    pub(super) members: usize,
    /// As many of them as write at once at most, where they take turns.
    pub(super) writers_max: usize,
    /// Reads since the last decision.
    pub(super) reads: u64,
    /// Records since then that the members hold: in turns each would wait for a writer.
    pub(super) records: u64,
    /// How full the room gets.
    pub(super) forecast: Forecast,
    /// Bytes that came in a second, over those that turns take home in a second.
    pub(super) load: f64,
    /// Of the reads that met writes, the share that was slower for it; `None` where it is not known.
    pub(super) harmed: Option<f64>,
}

/// Why members do not take turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reason {
    Unread,
    Behind,
    Unharmed,
}

/// The decision, and what is remembered for the next.
#[derive(Debug)]
pub(super) struct Auto {
    turn_ns: u64,
    mixed_for: Option<Reason>,
    changed_ns: u64,
    hold_turns: u64,
    read_ns: u64,
    /// Since when turns fall behind, by the forecast.
    behind_since_ns: Option<u64>,
}

impl Auto {
    /// For turns of this length: members take them until something else is known.
    pub(super) fn new(turn_ns: u64) -> Self {
        Self {
            turn_ns,
            mixed_for: None,
            changed_ns: 0,
            hold_turns: HOLD_TURNS,
            read_ns: 0,
            behind_since_ns: None,
        }
    }

    /// How members are shared from now on.
    pub(super) fn decide(&mut self, observed: Observed) -> Mode {
        if observed.reads > 0 {
            self.read_ns = observed.now_ns;
        }
        let Observed { now_ns, forecast, writers_max, .. } = observed;
        let seems_behind = forecast.fill > BEHIND_FILL_NOW && forecast.fill_with(writers_max) > BEHIND_FILL;
        self.behind_since_ns = seems_behind.then(|| self.behind_since_ns.unwrap_or(now_ns));
        let wanted = self.wanted(&observed);
        if wanted.is_some() != self.mixed_for.is_some() {
            self.change(observed.now_ns, wanted);
        } else {
            self.mixed_for = wanted;
        }
        match self.mixed_for {
            Some(_) => Mode::Mixed,
            None => Mode::Turns,
        }
    }

    fn change(&mut self, now_ns: u64, wanted: Option<Reason>) {
        let is_for_silence = wanted.or(self.mixed_for) == Some(Reason::Unread);
        let since_ns = now_ns.saturating_sub(self.changed_ns);
        if !is_for_silence {
            // Falling behind is not waited out: writers would wait with it.
            if wanted != Some(Reason::Behind) && since_ns < self.turns_ns(self.hold_turns) {
                return;
            }
            self.hold_turns = match since_ns < self.turns_ns(STOOD_TURNS) {
                true => (self.hold_turns * 2).min(HOLD_TURNS_MAX),
                false => HOLD_TURNS,
            };
            self.changed_ns = now_ns;
        }
        self.mixed_for = wanted;
    }

    fn turns_ns(&self, turns: u64) -> u64 {
        self.turn_ns.saturating_mul(turns)
    }

    fn wanted(&self, observed: &Observed) -> Option<Reason> {
        let Observed { now_ns, forecast, members, .. } = *observed;
        if members < 2 {
            return Some(Reason::Behind);
        }
        if now_ns.saturating_sub(self.read_ns) >= self.turns_ns(UNREAD_TURNS) {
            let is_much = forecast.is_full || forecast.fill_with(1) > UNREAD_FILL || observed.records > 0;
            let stays = self.mixed_for.is_some() && forecast.fill > 0.0;
            return (is_much || stays).then_some(Reason::Unread);
        }
        let seemed_behind_ns = self.behind_since_ns.map_or(0, |since_ns| now_ns.saturating_sub(since_ns));
        let is_behind = forecast.is_full || seemed_behind_ns >= self.turns_ns(BEHIND_TURNS);
        let is_enough = observed.load < ENOUGH_SHARE && forecast.fill < ENOUGH_FILL;
        let stays_behind = self.mixed_for == Some(Reason::Behind) && !is_enough;
        if is_behind || stays_behind {
            return Some(Reason::Behind);
        }
        let harmed_min = match self.mixed_for {
            Some(Reason::Unharmed) => HARMED_SHARE,
            _ => UNHARMED_SHARE,
        };
        observed.harmed.is_some_and(|share| share < harmed_min).then_some(Reason::Unharmed)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::window::{Load, Window, WindowOptions};
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;
    const TICK_NS: u64 = SECOND_NS / 4;

    fn observed(tick: u64, reads: u64, fill: f64, load: f64, harmed: Option<f64>) -> Observed {
        let forecast = Forecast { is_full: fill >= 0.99, fill, more: 0.0 };
        let now_ns = tick * TICK_NS;
        Observed { now_ns, members: 2, writers_max: 1, reads, records: 0, forecast, load, harmed }
    }

    /// The modes of one observation after another, as letters.
    fn modes(all: impl IntoIterator<Item = (u64, f64, f64, Option<f64>)>) -> String {
        let mut auto = Auto::new(SECOND_NS);
        let mode = |(tick, (reads, fill, load, harmed))| match auto
            .decide(observed(tick, reads, fill, load, harmed))
        {
            Mode::Turns => 't',
            Mode::Mixed => 'm',
        };
        (100..).zip(all).map(mode).collect()
    }

    #[test]
    fn turns_are_kept_where_reads_suffer_and_turns_are_enough() {
        assert_eq!(modes([(9, 0.4, 0.7, Some(0.05)); 20]), "t".repeat(20));
        assert_eq!(modes([(9, 0.4, 0.7, None); 20]), "t".repeat(20), "nothing is known yet");
    }

    #[test]
    fn what_turns_do_not_take_home_is_mixed_at_once_and_until_less_comes() {
        let full = modes([(9, 1.0, 1.5, Some(0.05)); 8]);
        assert_eq!(full, "m".repeat(8));
        let mut all = vec![(9, 1.0, 1.5, Some(0.05)); 4];
        all.extend([(9, 0.4, 0.9, Some(0.05)); 20]);
        assert_eq!(modes(all.clone()), "m".repeat(24), "it is too much for turns still");
        all.extend([(9, 0.4, 0.5, Some(0.05)); 4]);
        assert!(modes(all).ends_with("tttt"));
    }

    #[test]
    fn room_that_is_nearly_full_before_it_comes_back_is_no_reason_to_give_up_turns() {
        let mut auto = Auto::new(SECOND_NS);
        let mut mode = |tick: u64, fill: f64, more: f64| {
            let forecast = Forecast { is_full: false, fill, more };
            auto.decide(Observed { forecast, ..observed(tick, 9, fill, 0.5, Some(0.05)) })
        };
        // As a checkpoint ends, half of it is free at once.
        for round in (100..200).step_by(4) {
            let fills = [0.6, 0.86, 0.96, 0.97];
            assert!((round..).zip(fills).all(|(tick, fill)| mode(tick, fill, 0.3) == Mode::Turns), "{round}");
        }
        assert_eq!(mode(200, 0.6, 0.3), Mode::Turns);
        let stays_so = [(201, Mode::Turns), (204, Mode::Turns), (205, Mode::Mixed)];
        assert_eq!(stays_so.map(|(tick, _)| (tick, mode(tick, 0.97, 0.3))), stays_so);
    }

    #[test]
    fn reads_that_do_not_suffer_are_mixed_until_they_do() {
        let mut all = vec![(9, 0.4, 0.5, Some(0.0)); 10];
        all.extend([(9, 0.4, 0.5, Some(0.002)); 10]);
        assert_eq!(modes(all.clone()), "m".repeat(20));
        all.extend([(9, 0.4, 0.5, Some(0.02)); 10]);
        assert!(modes(all).ends_with("tttt"));
    }

    #[test]
    fn all_write_within_a_second_where_nobody_reads_and_until_somebody_does() {
        let mut all = vec![(9, 0.5, 0.7, Some(0.05))];
        all.extend([(0, 0.5, 0.7, Some(0.05)); 8]);
        all.extend([(1, 0.5, 0.7, Some(0.05)); 2]);
        assert_eq!(modes(all), "ttttmmmmmtt");
    }

    #[test]
    fn all_write_where_nobody_reads_and_records_come_for_the_members() {
        let mut auto = Auto::new(SECOND_NS);
        let mut mode = |tick: u64, reads: u64, records: u64| {
            auto.decide(Observed { records, ..observed(tick, reads, 0.01, 0.1, Some(0.05)) })
        };
        assert_eq!(mode(100, 9, 9), Mode::Turns, "somebody reads");
        assert_eq!(mode(104, 0, 0), Mode::Turns, "none came");
        assert_eq!(mode(105, 0, 9), Mode::Mixed);
        assert_eq!(mode(106, 9, 9), Mode::Turns);
    }

    #[test]
    fn what_swings_is_followed_less_and_less() {
        let swings = (0..2000).map(|tick| (9, if tick / 20 % 2 == 0 { 1.0 } else { 0.1 }, 0.1, Some(0.05)));
        let modes = modes(swings);
        let changes = modes.as_bytes().windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes < 25, "{changes} changes: {modes}");
    }

    proptest! {
        #[test]
        fn turns_are_not_given_up_before_as_many_write_as_may(
            fill in 0.0..0.98f64, more in 0.0..3.0f64, members in 2..9usize, readers_min in 1..8usize,
        ) {
            let writers_max = members.saturating_sub(readers_min).max(1);
            let forecast = Forecast { is_full: false, fill, more };
            let observed = Observed { members, writers_max, forecast, ..observed(100, 9, fill, 0.5, Some(0.05)) };
            let mut window = Window::new(WindowOptions::default(), true);
            let readers = window.readers(Load { members, readers_min, reads: 9, forecast });
            let mut auto = Auto::new(SECOND_NS);
            let later = Observed { now_ns: observed.now_ns + BEHIND_TURNS * SECOND_NS, ..observed };
            let is_mixed = [observed, later].map(|it| auto.decide(it)).contains(&Mode::Mixed);
            prop_assert!(!is_mixed || readers == members - writers_max, "{readers} still read");
        }

        #[test]
        fn writers_never_wait_in_turns_for_a_room_that_is_full(
            all in proptest::collection::vec((0..3u64, 0.0..1.0f64, 0.0..2.0f64, proptest::option::of(0.0..0.1f64)), 1..200),
        ) {
            let mut auto = Auto::new(SECOND_NS);
            for (tick, (reads, fill, load, harmed)) in (0..).zip(all) {
                let mode = auto.decide(observed(tick, reads, fill, load, harmed));
                prop_assert!(fill < 0.99 || mode == Mode::Mixed);
            }
        }
    }
}
