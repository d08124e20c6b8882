//! What a well-known program's log asks of a disk: its records, its system call, the state of its file, and whether the
//! disk is fast enough by the program's own measure.
//!
//! Each profile cites where its figures are from. What depends on the user's data, the size of a record, is a typical
//! one, as the source gives it.

use evenkeel_host::method::{FileState, Method};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::apart;
use super::report::Point;
use super::settings::Combination;
use super::warnings;

/// A program whose commits are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Program {
    /// etcd's write-ahead log.
    Etcd,
    /// PostgreSQL's write-ahead log.
    Postgres,
    /// SQLite in WAL mode with `synchronous=FULL`.
    Sqlite,
    /// A Kafka broker that flushes every batch.
    Kafka,
    /// A log of Raft: hashicorp/raft-wal.
    Raft,
}

/// How a program commits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Bytes of a commit.
    pub commit_bytes: u64,
    /// How it is made durable, over which file.
    pub combination: Combination,
    /// Threads that commit at a time, each to a file of its own.
    pub writers: u32,
    /// The p99 of a commit that the program asks for, in seconds; `None` where its makers name none.
    pub p99_max_s: Option<f64>,
    /// Where this is from.
    pub source: &'static str,
}

/// The answer for one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Like {
    /// The program.
    pub program: Program,
    /// Where its way of committing is from.
    pub source: String,
    /// Bytes of a commit.
    pub commit_bytes: u64,
    /// Commits per second, of all writers together.
    pub commits_per_s: f64,
    /// Median latency of a commit.
    pub p50_s: Option<f64>,
    /// 99th percentile of a commit's latency.
    pub p99_s: Option<f64>,
    /// Interval, of at least 95 %, of the 99th percentile of a typical run, the median one; wider where neighbouring runs
    /// resemble each other. Where most runs were disturbed, the least and the largest of the runs. `null` for fewer than
    /// seven runs.
    pub p99_run_interval_s: Option<[f64; 2]>,
    /// The p99 that the program asks for.
    pub p99_max_s: Option<f64>,
    /// Whether the disk is fast enough; `null` where the program asks for nothing.
    pub verdict: Option<Enough>,
}

/// Whether a disk is fast enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Enough {
    /// The p99 lies below the limit, of all commits together and of typical runs.
    Pass,
    /// It lies above, of both.
    Fail,
    /// The runs do not say.
    Unclear,
}

/// So often the interval of runs that do not remember one another misses. Of runs that each keep 0.9 of the one before, a
/// series of thirty does not tell all of it, and 1 in 20 verdicts at the limit is wrong.
const INTERVAL_ERROR_RATE: f64 = 0.02;

impl Program {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::Postgres => "PostgreSQL",
            Self::Sqlite => "SQLite",
            Self::Kafka => "Kafka",
            Self::Raft => "Raft",
        }
    }

    /// How it commits.
    pub fn profile(self) -> Profile {
        let over = |method, file_state| Combination { method, file_state };
        match self {
            Self::Etcd => Profile {
                commit_bytes: 2300,
                combination: over(Method::Fdatasync, FileState::Allocated),
                writers: 1,
                p99_max_s: Some(10e-3),
                source: "etcd, server/storage/wal/wal.go: segments of 64 MB, allocated in advance, fdatasync after each \
                         batch of one writer; 2,300 bytes a batch as traced by M. Olivi and M. Spreitzer, \"Using Fio to \
                         Tell Whether Your Storage is Fast Enough for Etcd\", 2019; etcd's documentation asks for a p99 of \
                         wal_fsync_duration_seconds below 10 ms",
            },
            Self::Postgres => Profile {
                commit_bytes: 8192,
                combination: over(Method::Fdatasync, FileState::Written),
                writers: 1,
                p99_max_s: None,
                source: "PostgreSQL documentation, \"Write Ahead Log\": blocks of 8 KiB (wal_block_size), wal_sync_method \
                         fdatasync on Linux, segments of 16 MB that are recycled (wal_recycle); one backend flushes for all \
                         that wait; as pg_test_fsync measures it",
            },
            Self::Sqlite => Profile {
                commit_bytes: 4096 + 24,
                combination: over(Method::Fdatasync, FileState::Written),
                writers: 1,
                p99_max_s: None,
                source: "SQLite, \"Database File Format\", section 4: a frame is a header of 24 bytes and a page, 4,096 bytes \
                         by default; os_unix.c: fdatasync at each commit with synchronous=FULL; after a checkpoint the log is \
                         overwritten from its start; one writer at a time",
            },
            Self::Kafka => Profile {
                commit_bytes: 16384,
                combination: over(Method::Fsync, FileState::Fresh),
                writers: 1,
                p99_max_s: None,
                source: "Apache Kafka, producer and broker configuration: batch.size 16384, preallocate=false; a broker with \
                         log.flush.interval.messages=1 forces the segment (FileChannel.force(true), fsync) with every \
                         batch; by default it leaves that to the system",
            },
            Self::Raft => Profile {
                commit_bytes: 1024 + 16,
                combination: over(Method::Fsync, FileState::Allocated),
                writers: 1,
                p99_max_s: None,
                source: "hashicorp/raft-wal, README: segments of 64 MiB, allocated in advance, one fsync a batch; an entry of \
                         1 KiB with the frame headers of 8 bytes of itself and of the commit",
            },
        }
    }

    /// What a point of this program's commits says.
    pub(super) fn judge(self, point: &Point) -> Like {
        let profile = self.profile();
        // Where others disturbed most runs, an interval of the typical run tells of them: every run has to agree.
        let interval = match warnings::is_mostly_disturbed(point) {
            false => apart::typical_interval(point, |run| run.latency_p99_s, INTERVAL_ERROR_RATE),
            true => apart::ends(point, |run| run.latency_p99_s),
        };
        let verdict = profile.p99_max_s.map(|limit_s| match (point.latency_s.p99, interval) {
            (Some(p99_s), Some([_, high_s])) if p99_s < limit_s && high_s < limit_s => Enough::Pass,
            (Some(p99_s), Some([low_s, _])) if p99_s > limit_s && low_s > limit_s => Enough::Fail,
            _ => Enough::Unclear,
        });
        Like {
            program: self,
            source: profile.source.to_owned(),
            commit_bytes: point.buffer_bytes,
            commits_per_s: point.writes_per_s(),
            p50_s: point.latency_s.p50,
            p99_s: point.latency_s.p99,
            p99_run_interval_s: interval,
            p99_max_s: profile.p99_max_s,
            verdict,
        }
    }
}

impl Like {
    /// The answer in one sentence.
    pub fn sentence(&self) -> String {
        use crate::report::format;
        let or_unknown =
            |value: Option<f64>| value.map_or_else(|| format::NOT_AVAILABLE.to_owned(), format::seconds);
        let name = self.program.name();
        let figures = format!(
            "as {name} commits, {} at a time: {} commits/s, p50 {}, p99 {}",
            format::bytes(self.commit_bytes),
            format::number(self.commits_per_s),
            or_unknown(self.p50_s),
            or_unknown(self.p99_s)
        );
        let limit = or_unknown(self.p99_max_s);
        let typical = match self.p99_run_interval_s {
            Some([low_s, high_s]) => {
                let (low, high) = (format::seconds(low_s), format::seconds(high_s));
                format!("the p99 of a typical run lies between {low} and {high} (95 in 100)")
            }
            None => "there are too few runs to say where the p99 of a typical one lies".to_owned(),
        };
        let asks = format!("{name} asks for a p99 below {limit}");
        match self.verdict {
            Some(Enough::Pass) => format!("{figures}; {typical}; PASS, {asks}"),
            Some(Enough::Fail) => format!("{figures}; {typical}; FAIL, {asks}"),
            Some(Enough::Unclear) => format!("{figures}; {typical}; UNCLEAR, {asks}"),
            None => format!("{figures}; {name}'s makers name no limit"),
        }
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_host::interrupt::Interrupt;

    use super::*;
    use crate::probe::settings::Settings;
    use crate::probe::tests::{VirtualStack, probe_of};

    fn of(program: Program, fixed_s: f64, noise: fn(usize) -> f64) -> Like {
        let mut stack = VirtualStack::new(fixed_s, 1e9);
        stack.noise = noise;
        let report = probe_of(&Settings::like(program), &mut stack, &Interrupt::default());
        assert_eq!(report.recommendation, None);
        report.like.unwrap()
    }

    const STEADY: fn(usize) -> f64 = |run| (run % 7) as f64 * 0.01;

    #[test]
    fn etcd_passes_on_a_fast_disk_and_fails_on_a_slow_one() {
        let fast = of(Program::Etcd, 1e-3, STEADY);
        assert_eq!(fast.verdict, Some(Enough::Pass));
        assert!((fast.commits_per_s / 975.0 - 1.0).abs() < 0.02, "{fast:?}");
        assert!(fast.sentence().ends_with("PASS, etcd asks for a p99 below 10 ms"), "{}", fast.sentence());
        assert_eq!(of(Program::Etcd, 12e-3, STEADY).verdict, Some(Enough::Fail));
    }

    #[test]
    fn runs_on_both_sides_of_the_limit_are_unclear() {
        let around = of(Program::Etcd, 10e-3, |run| (run % 11) as f64 * 0.02 - 0.1);
        assert_eq!(around.verdict, Some(Enough::Unclear), "{around:?}");
        // Most runs are fast, but more than a commit in a hundred is not.
        let stalls = of(Program::Etcd, 1e-3, |run| if run % 10 == 3 { 20.0 } else { 0.0 });
        assert_eq!(stalls.verdict, Some(Enough::Unclear), "{stalls:?}");
    }

    #[test]
    fn where_most_runs_are_disturbed_all_of_them_have_to_agree() {
        let mut stack = VirtualStack::new(9e-3, 1e9);
        stack.noise = STEADY;
        let mut report = probe_of(&Settings::like(Program::Etcd), &mut stack, &Interrupt::default());
        let point = &mut report.points[0];
        point.run_data[3].latency_p99_s = Some(11e-3);
        assert_eq!(Program::Etcd.judge(point).verdict, Some(Enough::Pass), "one run of many says little");
        for run in point.run_data.iter_mut().skip(1).step_by(2) {
            run.disturbance = Some("others used the processor".to_owned());
        }
        point.run_data[0].disturbance = Some("others used the processor".to_owned());
        let found = Program::Etcd.judge(point);
        assert_eq!(found.verdict, Some(Enough::Unclear), "{found:?}");
        point.run_data[3].latency_p99_s = Some(9e-3);
        assert_eq!(Program::Etcd.judge(point).verdict, Some(Enough::Pass));
    }

    #[test]
    fn programs_without_a_limit_get_figures_and_no_verdict() {
        for program in [Program::Postgres, Program::Sqlite, Program::Kafka, Program::Raft] {
            let found = of(program, 1e-3, STEADY);
            assert_eq!((found.verdict, found.commit_bytes), (None, program.profile().commit_bytes));
            assert!(found.p99_s.is_some() && !found.source.is_empty());
        }
    }
}
