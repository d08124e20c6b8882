//! Probes that were measured in alternating runs, judged by pairs of runs.
//!
//! 1. The runs of one number at one size were made one after another, in an order that chance decided. Whatever the
//!    machine did, it was a coin that decided whom it met: under the hypothesis that the two do not differ, the sign of
//!    each pair's difference is that coin. The signed-rank test is then exact, however the machine drifts and whatever
//!    the runs' distribution.
//! 2. Pairs of which a run was disturbed are left out as long as most pairs remain; otherwise all of them count, since
//!    the coin holds for them too.
//! 3. A difference below half a percent is not told of.
//! 4. All verdicts of all comparisons share one error rate, by Bonferroni.

use super::report::{Comparison, Comparisons, Design, Judged, PointComparison, SCHEMA};
use super::{Labelled, judged, words};
use crate::probe::report::{Point, ProbeReport, RunData};
use crate::stats;

/// Two files of one folder differ by some tenths of a percent, as two places of one disk do: thousands of runs would show it. It is
/// none that counts, and nothing is claimed of it.
pub const LEAST_DIFFERENCE: f64 = 0.005;

/// Logarithms of the ratios of pairs, at one size.
struct Pairs {
    throughput: Vec<f64>,
    p99: Vec<f64>,
}

/// Compares each further report with the first. All come from one [`run_together`](crate::probe::run_together).
pub fn compare_pairs(reports: &[Labelled<'_>]) -> Comparisons {
    let (base, others) = reports.split_first().map_or((None, &[][..]), |(base, others)| (Some(base), others));
    let paired: Vec<Vec<(&Point, &Point, Pairs)>> =
        others.iter().filter_map(|(_, other)| base.map(|(_, base)| pairs_of(base, other))).collect();
    let verdicts = |sizes: &Vec<(&Point, &Point, Pairs)>| {
        1 + sizes.iter().map(|(_, _, pairs)| 1 + usize::from(!pairs.p99.is_empty())).sum::<usize>()
    };
    let judged = paired.iter().map(verdicts).sum::<usize>() as u32;
    let alpha = super::PAIRS_ERROR_RATE / f64::from(judged.max(1));
    let comparisons = others
        .iter()
        .zip(&paired)
        .filter_map(|(other, sizes)| base.map(|base| comparison(base, other, sizes, alpha)))
        .collect();
    Comparisons {
        schema: SCHEMA.to_owned(),
        design: Design::Pairs,
        error_rate: super::PAIRS_ERROR_RATE,
        judged,
        drift: None,
        comparisons,
    }
}

fn comparison(
    (a, base): &Labelled<'_>,
    (b, other): &Labelled<'_>,
    sizes: &[(&Point, &Point, Pairs)],
    alpha: f64,
) -> Comparison {
    let all: Vec<f64> = sizes.iter().flat_map(|(_, _, pairs)| &pairs.throughput).copied().collect();
    let points = sizes
        .iter()
        .map(|(a_point, b_point, pairs)| {
            let throughput = judge(&pairs.throughput, alpha, false);
            let p99 = (!pairs.p99.is_empty()).then(|| judge(&pairs.p99, alpha, true));
            PointComparison {
                buffer_bytes: a_point.buffer_bytes,
                a_throughput_bytes_per_s: a_point.throughput_bytes_per_s.mean,
                b_throughput_bytes_per_s: b_point.throughput_bytes_per_s.mean,
                a_p99_s: a_point.latency_s.p99,
                b_p99_s: b_point.latency_s.p99,
                throughput,
                p99,
                words: words::at_size((a, b), &throughput, p99.as_ref()),
            }
        })
        .collect();
    let mut found = Comparison {
        a: a.clone(),
        b: b.clone(),
        unlike: super::unlike(base, other),
        sessions: [base.sessions, other.sessions],
        drift: None,
        disturbed_share: [super::disturbed_share(base), super::disturbed_share(other)],
        withheld: None,
        throughout: judge(&all, alpha, false),
        points,
        overall: String::new(),
    };
    found.overall = words::overall(Design::Pairs, &found);
    found
}

fn judge(differences: &[f64], alpha: f64, less_is_faster: bool) -> Judged {
    match stats::signed_rank(differences, alpha) {
        Some(found) => judged(found.estimate, found.interval, less_is_faster, LEAST_DIFFERENCE),
        None => judged(f64::NAN, None, less_is_faster, LEAST_DIFFERENCE),
    }
}

/// The pairs at each size that both have.
fn pairs_of<'a>(base: &'a ProbeReport, other: &'a ProbeReport) -> Vec<(&'a Point, &'a Point, Pairs)> {
    let at = |size| other.points.iter().find(|point| point.buffer_bytes == size);
    base.points
        .iter()
        .filter_map(|point| at(point.buffer_bytes).map(|other| (point, other, pairs(point, other))))
        .collect()
}

fn pairs(a: &Point, b: &Point) -> Pairs {
    let all: Vec<(&RunData, &RunData)> = a.run_data.iter().zip(&b.run_data).collect();
    let is_clean = |(a, b): &&(&RunData, &RunData)| a.disturbance.is_none() && b.disturbance.is_none();
    let clean: Vec<_> = all.iter().filter(is_clean).copied().collect();
    let counted = if 2 * clean.len() > all.len() { clean } else { all };
    let log = |ratio: f64| Some(ratio.ln()).filter(|log| log.is_finite());
    let p99 = |(a, b): &(&RunData, &RunData)| log(b.latency_p99_s? / a.latency_p99_s?);
    Pairs {
        throughput: counted
            .iter()
            .filter_map(|(a, b)| log(b.throughput_bytes_per_s / a.throughput_bytes_per_s))
            .collect(),
        p99: counted.iter().filter_map(p99).collect(),
    }
}
