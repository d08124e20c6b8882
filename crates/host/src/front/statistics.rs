//! What a front end did, counted, in all and for each connection.

use std::cell::Cell;
use std::rc::Rc;

/// Bounds of the latency histogram: bucket `n` holds what took at least 2^n ns and less than twice that.
pub const LATENCY_BUCKETS: usize = 40;

/// Kinds of requests that are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Flushes of everything.
    Flush,
    /// Flushes of a range.
    RangeFlush,
    /// Trims.
    Trim,
    /// Writes of zeros.
    WriteZeroes,
    /// Questions about allocation.
    BlockStatus,
    /// What no client may send.
    Invalid,
}

impl CommandKind {
    /// All of them, in the order of [`Statistics::commands`].
    pub const ALL: [Self; 8] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::RangeFlush,
        Self::Trim,
        Self::WriteZeroes,
        Self::BlockStatus,
        Self::Invalid,
    ];

    /// A name for a page or a metric.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::RangeFlush => "range_flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
            Self::BlockStatus => "block_status",
            Self::Invalid => "invalid",
        }
    }
}

/// One kind's figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandStatistics {
    /// Requests answered.
    pub requests: u64,
    /// Requests among them that failed.
    pub errors: u64,
    /// Bytes that the others named.
    pub bytes: u64,
    /// From the request's last byte to the reply's first, summed over those that were carried out.
    pub latency_sum_ns: u64,
    /// How many of them took how long.
    pub latency: [u64; LATENCY_BUCKETS],
}

impl Default for CommandStatistics {
    fn default() -> Self {
        Self { requests: 0, errors: 0, bytes: 0, latency_sum_ns: 0, latency: [0; LATENCY_BUCKETS] }
    }
}

impl CommandStatistics {
    /// Requests that were carried out, well or not: all but those that were refused.
    pub fn timed(&self) -> u64 {
        self.latency.iter().sum()
    }

    /// A bound that the share `quantile` of the requests stayed below; `None` where there were none.
    pub fn latency_quantile_ns(&self, quantile: f64) -> Option<u64> {
        quantile_bound_ns(&self.latency, quantile)
    }
}

/// A bound that the share `quantile` of what a histogram of latencies counts stayed below; `None` where it counts nothing.
/// Buckets beyond [`LATENCY_BUCKETS`] are passed over.
pub fn quantile_bound_ns(latency: &[u64], quantile: f64) -> Option<u64> {
    let latency = &latency[..latency.len().min(LATENCY_BUCKETS)];
    let timed = latency.iter().fold(0_u64, |sum, &requests| sum.saturating_add(requests));
    let rank = (timed as f64 * quantile).ceil().max(1.0) as u64;
    let mut seen = 0_u64;
    let bucket = latency.iter().position(|&requests| {
        seen = seen.saturating_add(requests);
        seen >= rank
    })?;
    Some(2 << bucket)
}

/// The figures of a connection, or of a front end, at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statistics {
    /// One for each of [`CommandKind::ALL`].
    pub commands: [CommandStatistics; CommandKind::ALL.len()],
}

impl Statistics {
    /// The figures of `kind`.
    pub fn of(&self, kind: CommandKind) -> &CommandStatistics {
        &self.commands[kind as usize]
    }
}

/// The seconds over which a rate is taken.
const LATELY_S: u64 = 10;

const NS_PER_S: u64 = 1_000_000_000;

/// How much of something there was in each of the last seconds.
pub(crate) struct Lately {
    began_ns: u64,
    /// A second of the clock, and how much there was in it: each in the place of its remainder.
    seconds: [Cell<(u64, u64)>; LATELY_S as usize + 1],
}

impl Lately {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self { began_ns: now_ns, seconds: [const { Cell::new((0, 0)) }; LATELY_S as usize + 1] }
    }

    /// There was one more.
    pub(crate) fn count(&self, now_ns: u64) {
        let second = now_ns / NS_PER_S;
        let cell = &self.seconds[(second % (LATELY_S + 1)) as usize];
        let (of, count) = cell.get();
        cell.set((second, if of == second { count + 1 } else { 1 }));
    }

    /// How many there were a second, in the last ten whole ones or, at first, since the beginning.
    pub(crate) fn per_s(&self, now_ns: u64) -> f64 {
        let second = now_ns / NS_PER_S;
        let seconds = (second - self.began_ns / NS_PER_S).min(LATELY_S);
        let counted = self.seconds.iter().map(Cell::get);
        let counted = counted.filter(|&(of, _)| of < second && of + seconds >= second);
        counted.map(|(_, count)| count).sum::<u64>() as f64 / seconds.max(1) as f64
    }
}

/// Figures that grow. A clone counts into the same ones.
#[derive(Clone)]
pub(crate) struct Counting(Rc<[KindCells; CommandKind::ALL.len()]>);

struct KindCells {
    requests: Cell<u64>,
    errors: Cell<u64>,
    bytes: Cell<u64>,
    latency_sum_ns: Cell<u64>,
    latency: [Cell<u64>; LATENCY_BUCKETS],
}

fn add(cell: &Cell<u64>, more: u64) {
    cell.set(cell.get().wrapping_add(more));
}

impl Counting {
    pub(crate) fn new() -> Self {
        Self(Rc::new(std::array::from_fn(|_| KindCells {
            requests: Cell::new(0),
            errors: Cell::new(0),
            bytes: Cell::new(0),
            latency_sum_ns: Cell::new(0),
            latency: [const { Cell::new(0) }; LATENCY_BUCKETS],
        })))
    }

    /// A request was answered, `latency_ns` after it came; `None` where it was refused.
    pub(crate) fn count(&self, kind: CommandKind, bytes: u64, is_error: bool, latency_ns: Option<u64>) {
        let cells = &self.0[kind as usize];
        add(&cells.requests, 1);
        match is_error {
            true => add(&cells.errors, 1),
            false => add(&cells.bytes, bytes),
        }
        let Some(latency_ns) = latency_ns else { return };
        add(&cells.latency_sum_ns, latency_ns);
        let bucket = (latency_ns.max(1).ilog2() as usize).min(LATENCY_BUCKETS - 1);
        add(&cells.latency[bucket], 1);
    }

    pub(crate) fn snapshot(&self) -> Statistics {
        Statistics {
            commands: std::array::from_fn(|kind| {
                let cells = &self.0[kind];
                CommandStatistics {
                    requests: cells.requests.get(),
                    errors: cells.errors.get(),
                    bytes: cells.bytes.get(),
                    latency_sum_ns: cells.latency_sum_ns.get(),
                    latency: std::array::from_fn(|bucket| cells.latency[bucket].get()),
                }
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_that_of_the_last_ten_whole_seconds() {
        let lately = Lately::new(5 * NS_PER_S);
        assert_eq!(lately.per_s(5 * NS_PER_S), 0.0);
        for _ in 0..30 {
            lately.count(5 * NS_PER_S + 17);
        }
        // The second is not over yet; then one is; then three are.
        assert_eq!(lately.per_s(6 * NS_PER_S - 1), 0.0);
        assert_eq!(lately.per_s(6 * NS_PER_S), 30.0);
        assert_eq!(lately.per_s(8 * NS_PER_S), 10.0);
        for second in 6..=20 {
            lately.count(second * NS_PER_S);
        }
        assert_eq!(lately.per_s(20 * NS_PER_S), 1.0);
        assert_eq!(lately.per_s(26 * NS_PER_S), 0.5);
        assert_eq!(lately.per_s(40 * NS_PER_S), 0.0);
    }
}
