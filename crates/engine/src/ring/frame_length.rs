//! How long members write before one of them leaves its turn that has more to write.
//!
//! Were each to write all it has before the next, the last of them would write by themselves. Where two of three write at
//! once, and each writes half of what it has at a time, two write throughout:
//!
//! ```text
//!   member 1 │ x x           │ member 1 │ x   x         x: half of what it has
//!   member 2 │ x x           │ member 2 │ x x
//!   member 3 │     x x       │ member 3 │   x x
//!            └─────────► time           └───────► time
//! ```
//!
//! 1. No frame is longer than a turn may be.
//! 2. Members leave with more to write only where all are done sooner for it, though each of them leaves more often: that takes
//!    a flush and a rest.

use std::cell::Cell;
use std::collections::VecDeque;

/// Turns over which the moving mean goes of how long members take to leave them.
const LEAVING_MEAN_OVER: u64 = 8;

/// What is known of the members' turns.
#[derive(Debug, Default)]
pub(super) struct FrameLength {
    /// How long the one needs that has most to write, at most since nobody was in its turn.
    longest_ns: Cell<u64>,
    /// How long they take to leave, as moving means: until all is durable, and with the rest behind that.
    settling_ns: Cell<u64>,
    leaving_ns: Cell<u64>,
}

impl FrameLength {
    /// Nobody is in its turn: what is to be written is new, or left to those that write by themselves.
    pub(super) fn begin(&self) {
        self.longest_ns.set(0);
    }

    /// A member took so long to leave its turn: until all was durable, and with the rest behind that.
    pub(super) fn note_left(&self, settled_ns: u64, left_ns: u64) {
        for (mean, took_ns) in [(&self.settling_ns, settled_ns), (&self.leaving_ns, left_ns)] {
            mean.set(match mean.get() {
                0 => took_ns,
                mean_ns => (mean_ns * (LEAVING_MEAN_OVER - 1) + took_ns) / LEAVING_MEAN_OVER,
            });
        }
    }

    /// The length of the next frame, in which `writers` may write of `members` that have something to write, or are done with it
    /// and have not left. The one with most to write needs `longest_ns` for that and its flush. `turn_ns` is the longest frame.
    pub(super) fn choose(&self, members: usize, writers: usize, longest_ns: u64, turn_ns: u64) -> u64 {
        let longest_ns = longest_ns.max(self.longest_ns.get());
        self.longest_ns.set(longest_ns);
        let has_last_ones = members > writers && !members.is_multiple_of(writers);
        if writers < 2 || !has_last_ones || longest_ns == 0 {
            return turn_ns;
        }
        let leaving_ns = self.leaving_ns.get();
        let written_ns = longest_ns.saturating_sub(self.settling_ns.get());
        let share_ns = written_ns.div_ceil(writers as u64).max(leaving_ns).clamp(1, turn_ns.max(1));
        let done_ns = |frame_ns: u64| all_done_ns((members, writers), written_ns, frame_ns, leaving_ns);
        // What takes longer than a turn is written in shares as it is.
        if written_ns <= turn_ns && done_ns(share_ns) < done_ns(turn_ns) { share_ns } else { turn_ns }
    }
}

/// When all of `members` have written for `written_ns` and left, where up to `writers` of them write at once: in frames as
/// [`super::turns`] has them. While some leave, the others write on, and none begins.
fn all_done_ns((members, writers): (usize, usize), written_ns: u64, frame_ns: u64, leaving_ns: u64) -> u64 {
    let mut waiting: VecDeque<u64> = std::iter::repeat_n(written_ns, members).collect();
    let (mut writing, mut now_ns) = (VecDeque::new(), 0_u64);
    loop {
        let beginning = waiting.len().min(writers - writing.len());
        writing.extend(waiting.drain(..beginning));
        let Some(&longest_ns) = writing.iter().max() else { return now_ns };
        let write_on = |writing: &mut VecDeque<u64>, for_ns: u64| {
            writing.iter_mut().for_each(|left_ns| *left_ns = left_ns.saturating_sub(for_ns));
        };
        write_on(&mut writing, frame_ns.min(longest_ns));
        match writing.contains(&0) {
            true => writing.retain(|&left_ns| left_ns > 0),
            false => waiting.extend(writing.pop_front()),
        }
        write_on(&mut writing, leaving_ns);
        now_ns = now_ns.saturating_add(frame_ns.min(longest_ns)).saturating_add(leaving_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TURN_NS: u64 = 1000 * MS;

    /// Frames of members that rest for so long, in ms, where all have so much to write, and then less.
    fn frames(members: usize, writers: usize, rest_ms: u64, longest_ms: &[u64]) -> Vec<u64> {
        let length = FrameLength::default();
        length.note_left(0, rest_ms * MS);
        let choose = |ms: &u64| length.choose(members, writers, ms * MS, TURN_NS).div_ceil(MS);
        longest_ms.iter().map(choose).collect()
    }

    #[test]
    fn each_writes_a_share_of_what_came_where_leaving_takes_little() {
        assert_eq!(frames(3, 2, 50, &[400, 300, 200]), [200, 200, 200]);
        assert_eq!(frames(5, 4, 10, &[400, 300]), [100, 100]);
        assert_eq!(frames(5, 4, 10, &[9000]), [1000], "a turn is a share of that already");
    }

    #[test]
    fn members_leave_with_more_to_write_only_where_that_pays() {
        assert_eq!(frames(3, 2, 300, &[400]), [1000], "leaving takes as long as writing");
        assert_eq!(frames(3, 1, 50, &[400]), [1000], "one writes at a time");
        assert_eq!(frames(6, 2, 10, &[400]), [1000], "there is no last one");
        assert_eq!(frames(1, 2, 10, &[400]), [1000], "nor where only one has something");
        assert_eq!(frames(3, 2, 0, &[0]), [1000], "nothing is to be written");
        assert_eq!(frames(3, 0, 50, &[400]), [1000]);
    }

    #[test]
    fn a_flush_counts_where_a_member_leaves_and_not_where_it_writes() {
        let length = FrameLength::default();
        length.note_left(200 * MS, 300 * MS);
        // Two thirds of a second to write: two turns take less than three shares of that, of which each takes as long to leave.
        assert_eq!(length.choose(3, 2, 600 * MS, TURN_NS), TURN_NS);
        assert_eq!(length.choose(3, 2, 1100 * MS, TURN_NS), 450 * MS);
    }

    #[test]
    fn when_all_are_done_is_as_in_turns() {
        let done = |of, frame_ns| all_done_ns(of, 36, frame_ns, 15);
        assert_eq!(done((2, 1), 100), 2 * (36 + 15));
        assert_eq!(done((3, 2), 100), 2 * (36 + 15), "the third writes by itself");
        // The first leaves with 18 to write, the second writes on and is done by the next frame, the third and the first by the last.
        assert_eq!(done((3, 2), 18), 3 * (18 + 15));
        assert_eq!(all_done_ns((5, 4), 400, 100, 0), 500);
        // Three of five write, and leaving takes nearly as long: most is written while others leave.
        assert_eq!([100, 40].map(|frame_ns| all_done_ns((5, 3), 50, frame_ns, 40)), [180, 280]);
    }

    #[test]
    fn how_long_they_take_to_leave_is_a_mean_from_the_first_time_on() {
        let length = FrameLength::default();
        length.note_left(8, 80);
        length.note_left(16, 160);
        assert_eq!((length.settling_ns.get(), length.leaving_ns.get()), (9, 90));
    }

    #[test]
    fn where_leaving_takes_no_time_a_share_is_not_rounded_to_nothing() {
        assert_eq!(FrameLength::default().choose(3, 2, 1, TURN_NS), TURN_NS);
        assert_eq!(FrameLength::default().choose(4, 2, 3, TURN_NS), TURN_NS);
        assert_eq!(FrameLength::default().choose(3, 2, 101, TURN_NS), 51);
    }

    #[test]
    fn what_comes_once_nobody_writes_is_looked_at_anew() {
        let length = FrameLength::default();
        assert_eq!(length.choose(3, 2, 400 * MS, TURN_NS), 200 * MS);
        length.begin();
        assert_eq!(length.choose(3, 2, 100 * MS, TURN_NS), 50 * MS);
    }
}
