//! What a user asks of a probe, checked.
//!
//! Files here import one another in a circle: a kind of probe is a setting, and what it found a part of the report.

use evenkeel_host::method::{FileState, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::FirstToGo;
use super::like::Program;

/// Bytes written in one run at one buffer size, as in the paper.
pub const RUN_BYTES: u64 = 16 << 20;

/// Fewest writes in a full run: a size too large for that in [`RUN_BYTES`] gets a larger file.
pub const WRITES_PER_RUN_MIN: u64 = 4;

/// Most writes in a run: their latencies are kept until the end.
pub const WRITES_PER_RUN_MAX: u64 = 1 << 16;

/// Largest file that a run is given for the sake of a percentile.
pub const LARGEST_RUN_BYTES: u64 = 1 << 30;

/// Buffers of the paper: 4 KiB to 16 MiB, doubling.
pub const DEFAULT_SIZES: std::ops::RangeInclusive<u32> = 12..=24;

/// Runs of the paper.
pub const DEFAULT_RUNS: u32 = 30;

/// One way of writing over one state of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Combination {
    /// How each write is made durable.
    pub method: Method,
    /// The file before the writes.
    pub file_state: FileState,
}

/// What the user needs of the buffer to be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Goals {
    /// Least throughput, in bytes per second.
    pub min_throughput_bytes_per_s: Option<f64>,
    /// Greatest latency, in seconds.
    pub max_latency_s: Option<f64>,
    /// The statistic that `max_latency_s` bounds.
    pub bound: LatencyBound,
}

impl Goals {
    /// Whether there is any.
    pub fn are_any(&self) -> bool {
        self.min_throughput_bytes_per_s.is_some() || self.max_latency_s.is_some()
    }
}

/// Which latency a bound speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyBound {
    /// The mean of a run's writes, by the median run.
    #[default]
    Mean,
    /// The median over single writes.
    P50,
    /// The 99th percentile over single writes.
    P99,
    /// The 99.9th percentile over single writes.
    P999,
}

impl LatencyBound {
    /// Single writes without which the statistic is not known: ten beyond a percentile.
    pub fn writes_needed(self) -> u64 {
        match self {
            Self::Mean => 1,
            Self::P50 => 20,
            Self::P99 => 1_000,
            Self::P999 => 10_000,
        }
    }
}

/// A user's records, to translate a buffer into batches.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Records {
    /// Bytes in one record.
    pub record_bytes: u64,
    /// Records arriving per second.
    pub arrival_rate_per_s: Option<f64>,
}

/// All that a probe is told.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Buffer sizes in bytes, ascending, distinct, at least one, none zero.
    pub buffer_sizes: Vec<u64>,
    /// What to measure at each size: one combination, or several for a matrix.
    pub combinations: Vec<Combination>,
    /// Runs of each point.
    pub runs: u32,
    /// Concurrent writers, each with a file of its own.
    pub writers: u32,
    /// Wall-clock time for everything; `None` for as long as it takes.
    pub time_budget_s: Option<f64>,
    /// Wanted half-width of the throughput's 95 % interval, as a share of its mean.
    pub precision: Option<f64>,
    /// Seed of the order of runs and of the bytes written.
    pub seed: u64,
    /// Whether this is a quick look.
    pub quick: bool,
    /// What the buffer must do.
    pub goals: Goals,
    /// What the buffer will carry.
    pub records: Option<Records>,
    /// How often everything is measured, at least once.
    pub sessions: u32,
    /// From the start of one session to that of the next, in seconds.
    pub every_s: f64,
    /// The program whose commits these are.
    pub like: Option<Program>,
    /// Where one size is written for long, bytes of the longest window, per writer.
    pub window_max_bytes: Option<u64>,
}

impl Settings {
    /// The commits of a program, in runs as many as the paper's.
    pub fn like(program: Program) -> Self {
        let profile = program.profile();
        Self {
            buffer_sizes: vec![profile.commit_bytes],
            writers: profile.writers,
            like: Some(program),
            ..Self::paper(profile.combination)
        }
    }

    /// Which sizes are left out first where the time is short.
    pub fn first_to_go(&self) -> FirstToGo {
        match self.goals.are_any() || self.records.is_some() {
            true => FirstToGo::Large,
            false => FirstToGo::Small,
        }
    }

    /// Whether methods and file states are to be compared.
    pub fn is_matrix(&self) -> bool {
        self.combinations.len() > 1
    }

    /// Writes in a full run at this buffer size: a file of [`RUN_BYTES`], with at least [`WRITES_PER_RUN_MIN`]
    /// writes and at most [`WRITES_PER_RUN_MAX`]. Where a percentile decides, as many more as it takes for all
    /// runs together to know it, in a file of at most [`LARGEST_RUN_BYTES`].
    pub fn full_run_writes(&self, buffer_bytes: u64) -> u64 {
        let plain = (RUN_BYTES / buffer_bytes).clamp(WRITES_PER_RUN_MIN, WRITES_PER_RUN_MAX);
        if self.goals.max_latency_s.is_none() {
            return plain;
        }
        let for_percentile = self.goals.bound.writes_needed().div_ceil(u64::from(self.runs));
        plain.max(for_percentile.min(LARGEST_RUN_BYTES / buffer_bytes))
    }

    /// Bytes that the longest run or window writes, per writer.
    fn run_bytes_max(&self) -> u64 {
        if let Some(bytes) = self.window_max_bytes {
            let looks = self.buffer_sizes.iter().map(|&size| size.saturating_mul(short_run_writes(size)));
            return looks.max().unwrap_or(0).max(bytes);
        }
        let run_bytes = |&size: &u64| size.saturating_mul(self.full_run_writes(size));
        self.buffer_sizes.iter().map(run_bytes).max().unwrap_or(0)
    }

    /// Bytes that all files of the longest run take at once, over all writers: a recycled log stays beside the
    /// new files of the other runs.
    pub fn room_bytes(&self) -> u64 {
        let any = |wanted: bool| {
            self.combinations.iter().any(|each| (each.file_state == FileState::Written) == wanted)
        };
        let kinds = u64::from(any(true)) + u64::from(any(false));
        self.run_bytes_max().saturating_mul(u64::from(self.writers)).saturating_mul(kinds)
    }

    /// The paper's experiment: one combination, all sizes, 30 runs, no limits.
    pub fn paper(combination: Combination) -> Self {
        Self {
            buffer_sizes: DEFAULT_SIZES.map(|power| 1 << power).collect(),
            combinations: vec![combination],
            runs: DEFAULT_RUNS,
            writers: 1,
            time_budget_s: None,
            precision: None,
            seed: 1,
            quick: false,
            goals: Goals::default(),
            records: None,
            sessions: 1,
            every_s: 0.0,
            like: None,
            window_max_bytes: None,
        }
    }
}

/// Writes in the shortest run worth timing at this buffer size.
pub fn short_run_writes(buffer_bytes: u64) -> u64 {
    ((1 << 20) / buffer_bytes).clamp(1, 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paper() -> Settings {
        Settings::paper(Combination { method: Method::DirectDsync, file_state: FileState::Fresh })
    }

    #[test]
    fn a_full_run_writes_sixteen_mebibytes_and_at_least_four_times() {
        let settings = paper();
        assert_eq!(settings.full_run_writes(4096), 4096);
        assert_eq!(settings.full_run_writes(4 << 20), 4);
        assert_eq!(settings.full_run_writes(1 << 30), 4);
        assert_eq!(settings.full_run_writes(1), WRITES_PER_RUN_MAX);
    }

    #[test]
    fn where_a_percentile_decides_runs_are_long_enough_to_know_it() {
        let goals = Goals { max_latency_s: Some(1.0), bound: LatencyBound::P99, ..Goals::default() };
        let settings = Settings { goals, ..paper() };
        assert_eq!(settings.full_run_writes(4096), 4096);
        assert!(settings.full_run_writes(16 << 20) * 30 >= 1000);
        assert_eq!(settings.full_run_writes(512 << 20), 4);
    }

    #[test]
    fn the_paper_s_sizes_double_from_4_kib_to_16_mib() {
        let sizes = paper().buffer_sizes;
        assert_eq!((sizes.first(), sizes.last(), sizes.len()), (Some(&4096), Some(&(16 << 20)), 13));
        assert!(sizes.windows(2).all(|pair| pair[1] == 2 * pair[0]));
    }
}
