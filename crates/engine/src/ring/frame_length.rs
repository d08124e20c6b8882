//! How long members write before one of them leaves its turn that has more to write.
//!
//! Were each to write all it has before the next, the last of them would write by themselves. Where two of three write at
//! once, half of it each is enough for nobody to wait:
//!
//! ```text
//!   member 1 │ x x           │ member 1 │ x   x         x: half of what it has
//!   member 2 │ x x           │ member 2 │ x x
//!   member 3 │     x x       │ member 3 │   x x
//!            └─────────► time           └───────► time
//! ```
//!
//! 1. No frame is longer than a turn may be.
//! 2. Members leave with more to write only where all have written sooner for it, though each of them leaves more often:
//!    leaving takes a flush and a rest.

use std::cell::Cell;

/// Turns over which the moving mean goes of how long members take to leave them.
const LEAVING_MEAN_OVER: u64 = 8;

/// What is known of the members' turns.
#[derive(Debug, Default)]
pub(super) struct FrameLength {
    /// How long the one needs that has most to write, at most since none had anything.
    longest_ns: Cell<u64>,
    /// How long they take to leave, as a moving mean.
    leaving_ns: Cell<u64>,
}

impl FrameLength {
    /// Nobody writes: what comes is new.
    pub(super) fn begin(&self) {
        self.longest_ns.set(0);
    }

    /// A member took so long to leave its turn.
    pub(super) fn note_left(&self, took_ns: u64) {
        self.leaving_ns.set((self.leaving_ns.get() * (LEAVING_MEAN_OVER - 1) + took_ns) / LEAVING_MEAN_OVER);
    }

    /// The length of the next frame, in which `writers` of `members` may write, and the one with most to write needs `longest_ns`
    /// for that; `turn_ns` is the longest.
    pub(super) fn choose(&self, members: usize, writers: usize, longest_ns: u64, turn_ns: u64) -> u64 {
        let longest_ns = longest_ns.max(self.longest_ns.get());
        self.longest_ns.set(longest_ns);
        let leaving_ns = self.leaving_ns.get();
        let Some(share_ns) = longest_ns.checked_div(writers as u64).map(|share_ns| share_ns.max(leaving_ns))
        else {
            return turn_ns;
        };
        // Where the last to leave write by themselves all the same, nothing is won.
        let in_shares = (members as u64).saturating_mul(share_ns.saturating_add(leaving_ns));
        let in_full =
            (members.div_ceil(writers) as u64).saturating_mul(longest_ns.saturating_add(leaving_ns));
        if in_shares < in_full { share_ns.min(turn_ns) } else { turn_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;
    const TURN_NS: u64 = 1000 * MS;

    /// Frames of members that leave in so long, in ms, where all have so much to write, and then less.
    fn frames(members: usize, writers: usize, leaving_ms: u64, longest_ms: &[u64]) -> Vec<u64> {
        let length = FrameLength::default();
        (0..100).for_each(|_| length.note_left(leaving_ms * MS));
        let choose = |ms: &u64| length.choose(members, writers, ms * MS, TURN_NS).div_ceil(MS);
        longest_ms.iter().map(choose).collect()
    }

    #[test]
    fn each_writes_a_share_of_what_came_where_leaving_takes_little() {
        assert_eq!(frames(3, 2, 50, &[400, 300, 200]), [200, 200, 200]);
        assert_eq!(frames(5, 4, 10, &[400, 300]), [100, 100]);
        assert_eq!(frames(5, 4, 10, &[9000]), [1000], "no longer than a turn");
    }

    #[test]
    fn members_leave_with_more_to_write_only_where_that_pays() {
        assert_eq!(frames(3, 2, 300, &[400]), [1000], "leaving takes as long as writing");
        assert_eq!(frames(3, 1, 50, &[400]), [1000], "one writes at a time");
        assert_eq!(frames(6, 2, 10, &[400]), [1000], "there is no last one");
        assert_eq!(frames(3, 2, 0, &[0]), [1000], "nothing is to be written");
        assert_eq!(frames(3, 0, 50, &[400]), [1000]);
    }

    #[test]
    fn what_comes_once_nobody_writes_is_looked_at_anew() {
        let length = FrameLength::default();
        assert_eq!(length.choose(3, 2, 400 * MS, TURN_NS), 200 * MS);
        length.begin();
        assert_eq!(length.choose(3, 2, 100 * MS, TURN_NS), 50 * MS);
    }
}
