//! What a volume did between two status documents of one server: rates, and latencies of that time alone.
//!
//! 1. Only differences of counters count: what happened before the earlier document is in none of the figures.
//! 2. Two documents of different servers, or in the wrong order, have nothing between them.
//! 3. Percentiles are bounds of the histogram's buckets, each a power of two of nanoseconds: the truth is at most half
//!    as long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::latencies::{Requests, without_last_zeros};
use super::status::Status;
use crate::front::statistics::{CommandKind, LATENCY_BUCKETS, quantile_bound_ns};

/// What a volume did in some time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recent {
    /// How long that time was.
    pub over_s: f64,
    /// Reads.
    pub reads: Activity,
    /// Writes, also of zeros.
    pub writes: Activity,
    /// Calls of fsync and flushes, of everything or of a range.
    pub syncs: Activity,
    /// Commits a second.
    pub commits_per_s: f64,
    /// Writes in a commit; null where there was none.
    pub writes_per_commit: Option<f64>,
    /// Checkpoints a second.
    pub checkpoints_per_s: f64,
    /// Bytes written to the log a second.
    pub log_bytes_per_s: f64,
    /// Bytes of pages and of their table written home a second.
    pub home_bytes_per_s: f64,
}

/// What was done of some kinds of requests.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Activity {
    /// Requests answered a second.
    pub per_s: f64,
    /// Of them, failed.
    pub errors_per_s: f64,
    /// Bytes of the others.
    pub bytes_per_s: f64,
    /// A bound that half of them stayed below, a power of two of nanoseconds; null where none was carried out.
    pub p50_s: Option<f64>,
    /// One that 99 of 100 did.
    pub p99_s: Option<f64>,
    /// One that 999 of 1,000 did.
    pub p999_s: Option<f64>,
    /// How many took how long, as `latency_counts` of `requests`.
    pub latency_counts: Vec<u64>,
}

impl Recent {
    /// What was done between two documents; `None` where they are not of one server, or not in this order.
    pub fn between(earlier: &Status, later: &Status) -> Option<Self> {
        let over_s = later.server.uptime_s - earlier.server.uptime_s;
        let serving = |of: &Status| (of.volume.id.clone(), of.server.pid, of.server.began_unix_ms);
        if serving(earlier) != serving(later) || over_s.is_nan() || over_s <= 0.0 {
            return None;
        }
        let (before, now) = (&earlier.counters, &later.counters);
        let per_s = |before: u64, now: u64| Some(now.checked_sub(before)? as f64 / over_s);
        let commits = now.commits.checked_sub(before.commits)?;
        let units = now.committed_units.checked_sub(before.committed_units)?;
        let activity = |kinds: &[CommandKind]| Activity::between(earlier, later, kinds, over_s);
        Some(Self {
            over_s,
            reads: activity(&[CommandKind::Read])?,
            writes: activity(&[CommandKind::Write, CommandKind::WriteZeroes])?,
            syncs: activity(&[CommandKind::Flush, CommandKind::RangeFlush])?,
            commits_per_s: commits as f64 / over_s,
            writes_per_commit: (commits > 0).then(|| units as f64 / commits as f64),
            checkpoints_per_s: per_s(before.checkpoints, now.checkpoints)?,
            log_bytes_per_s: per_s(before.log_bytes, now.log_bytes)?,
            home_bytes_per_s: per_s(before.home_bytes, now.home_bytes)?
                + per_s(before.table_bytes, now.table_bytes)?,
        })
    }
}

impl Activity {
    fn between(earlier: &Status, later: &Status, kinds: &[CommandKind], over_s: f64) -> Option<Self> {
        let mut sums = [0_u64; 3];
        let mut counts = vec![0_u64; LATENCY_BUCKETS];
        for kind in kinds {
            let of =
                |status: &Status| Some(figures(status.requests.iter().find(|it| it.kind == kind.name())?));
            // A kind that nobody asked for yet is in no document.
            let none = ([0; 3], [0; LATENCY_BUCKETS]);
            let (before, before_counts) = of(earlier).unwrap_or(none);
            let (now, now_counts) = of(later).unwrap_or(none);
            for (sum, (before, now)) in sums.iter_mut().zip(before.into_iter().zip(now)) {
                *sum = sum.checked_add(now.checked_sub(before)?)?;
            }
            for (count, (before, now)) in counts.iter_mut().zip(before_counts.into_iter().zip(now_counts)) {
                *count = count.checked_add(now.checked_sub(before)?)?;
            }
        }
        let below = |share| quantile_bound_ns(&counts, share).map(|ns| ns as f64 / 1e9);
        let [requests, errors, bytes] = sums.map(|sum| sum as f64 / over_s);
        Some(Self {
            per_s: requests,
            errors_per_s: errors,
            bytes_per_s: bytes,
            p50_s: below(0.5),
            p99_s: below(0.99),
            p999_s: below(0.999),
            latency_counts: without_last_zeros(counts),
        })
    }
}

/// Requests, errors and bytes; and how many took how long, whatever a document has of that.
fn figures(of: &Requests) -> ([u64; 3], [u64; LATENCY_BUCKETS]) {
    let count = |bucket: usize| of.latency_counts.get(bucket).copied().unwrap_or(0);
    ([of.requests, of.errors, of.bytes], std::array::from_fn(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::samples::{requests, status};

    /// A server's document: after so long, with these requests of `kind` in these buckets.
    fn document(uptime_s: f64, kinds: &[(&str, &[u64])]) -> Status {
        let mut status = status();
        status.server.uptime_s = uptime_s;
        status.requests = kinds.iter().map(|(kind, counts)| requests(kind, counts)).collect();
        status
    }

    #[test]
    fn only_what_came_between_counts() {
        // Before: a thousand slow reads. Between: ninety-nine of 1 to 2 us, and one of 8 to 16 us.
        let mut slow = vec![0; 31];
        slow[30] = 1000;
        let mut both = slow.clone();
        (both[10], both[13]) = (99, 1);
        let earlier = document(100.0, &[("read", &slow)]);
        let later = document(102.0, &[("read", &both)]);
        let Recent { over_s, reads, writes, .. } = Recent::between(&earlier, &later).unwrap();
        assert_eq!((over_s, reads.per_s, reads.bytes_per_s), (2.0, 50.0, 50.0 * 4096.0));
        let us = |ns: f64| Some(ns / 1e9);
        assert_eq!((reads.p50_s, reads.p99_s, reads.p999_s), (us(2048.0), us(2048.0), us(16384.0)));
        assert_eq!(
            (reads.latency_counts[10], reads.latency_counts[13], reads.latency_counts.len()),
            (99, 1, 14)
        );
        assert_eq!(writes, Activity::default(), "nobody wrote");
    }

    #[test]
    fn what_makes_durable_is_one_whichever_command_it_was() {
        let earlier = document(1.0, &[("flush", &[0, 3])]);
        let later = document(2.0, &[("flush", &[0, 5]), ("range_flush", &[0, 0, 7])]);
        let syncs = Recent::between(&earlier, &later).unwrap().syncs;
        assert_eq!((syncs.per_s, &syncs.latency_counts[..]), (9.0, &[0, 2, 7][..]));
    }

    #[test]
    fn writes_in_a_commit_are_those_of_the_time_between() {
        let mut documents = [document(1.0, &[]), document(3.0, &[]), document(4.0, &[])];
        for (document, (commits, units)) in documents.iter_mut().zip([(10, 1000), (14, 1012), (14, 1012)]) {
            (document.counters.commits, document.counters.committed_units) = (commits, units);
        }
        let [first, second, third] = documents;
        let busy = Recent::between(&first, &second).unwrap();
        assert_eq!((busy.commits_per_s, busy.writes_per_commit), (2.0, Some(3.0)));
        assert_eq!(Recent::between(&second, &third).unwrap().writes_per_commit, None, "there was no commit");
    }

    #[test]
    fn another_server_has_nothing_in_common_with_the_one_before() {
        let earlier = document(100.0, &[("read", &[5])]);
        let mut restarted = document(101.0, &[("read", &[9])]);
        assert!(Recent::between(&earlier, &restarted).is_some());
        restarted.server.pid += 1;
        assert_eq!(Recent::between(&earlier, &restarted), None);
        let mut anew = document(101.0, &[("read", &[9])]);
        anew.server.began_unix_ms += 1;
        assert_eq!(Recent::between(&earlier, &anew), None, "the same process serves it anew");
        let younger = document(3.0, &[("read", &[9])]);
        assert_eq!(Recent::between(&earlier, &younger), None, "a number of a process comes back");
        assert_eq!(Recent::between(&earlier, &earlier), None, "no time has gone by");
    }

    #[test]
    fn counts_that_no_server_gives_are_refused_or_passed_over_and_break_nothing() {
        let earlier = document(1.0, &[("read", &[5])]);
        assert_eq!(Recent::between(&earlier, &document(2.0, &[("read", &[4])])), None, "it went backwards");
        let most = document(2.0, &[("flush", &[u64::MAX]), ("range_flush", &[u64::MAX])]);
        assert_eq!(Recent::between(&document(1.0, &[]), &most), None, "more than can be counted");
        let long = vec![1; 200];
        let reads = Recent::between(&document(1.0, &[]), &document(2.0, &[("read", &long)])).unwrap().reads;
        assert_eq!(reads.latency_counts.len(), LATENCY_BUCKETS);
        for uptime_s in [f64::NAN, f64::NEG_INFINITY] {
            assert_eq!(Recent::between(&earlier, &document(uptime_s, &[])), None);
        }
    }
}
