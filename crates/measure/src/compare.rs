//! Whether two probes really differ, buffer size by buffer size.
//!
//! Per size, Welch's t-test on the runs' throughput with the paper's threshold p < 0.001, corrected by Holm
//! over the sizes; the ratio of means with its interval by Fieller; and the Mann-Whitney test as a second
//! opinion that assumes no distribution. A difference is claimed only where Welch's test shows one; where
//! the rank test does not see it, the verdict says so.

mod csv;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::probe::report::{Point, ProbeReport};
use crate::report::format;
use crate::stats;

pub use csv::comparisons_csv;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.compare/1";

/// Level below which a difference is taken as real: Mingardi and Vieira, section 4.
pub const SIGNIFICANCE: f64 = 0.001;

/// Several probes, each compared with the same first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparisons {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// One entry a further probe.
    pub comparisons: Vec<Comparison>,
}

/// Two probes side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Name of the first probe, the base of every ratio.
    pub a: String,
    /// Name of the second probe.
    pub b: String,
    /// One entry a buffer size, ascending.
    pub points: Vec<PointComparison>,
    /// The whole in one sentence.
    pub overall: String,
}

/// Two probes at one buffer size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointComparison {
    /// Bytes handed to each synchronous write.
    pub buffer_bytes: u64,
    /// Mean throughput of the first probe.
    pub a_throughput_bytes_per_s: f64,
    /// Mean throughput of the second probe.
    pub b_throughput_bytes_per_s: f64,
    /// Throughput of the second over that of the first.
    pub throughput_ratio: f64,
    /// 95 % interval of `throughput_ratio` by Fieller's theorem.
    pub throughput_ratio_ci95: Option<[f64; 2]>,
    /// Mean latency of the second over that of the first.
    pub latency_ratio: f64,
    /// 95 % interval of `latency_ratio` by Fieller's theorem.
    pub latency_ratio_ci95: Option<[f64; 2]>,
    /// Welch's t of the throughput, and its degrees of freedom; `null` with fewer than two runs.
    pub welch_t: Option<f64>,
    /// Degrees of freedom of `welch_t`.
    pub welch_degrees_of_freedom: Option<f64>,
    /// Two-sided p of Welch's test, corrected by Holm over the sizes.
    pub welch_p_holm: Option<f64>,
    /// Two-sided p of the Mann-Whitney test, corrected by Holm over the sizes.
    pub mann_whitney_p_holm: Option<f64>,
    /// What follows.
    pub verdict: Verdict,
    /// The verdict in words.
    pub words: String,
}

/// What a comparison at one size shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second is faster.
    Faster,
    /// The second is slower.
    Slower,
    /// No difference can be shown with these runs.
    NoDifferenceShown,
}

/// Why two probes cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlike {
    reason: String,
}

impl fmt::Display for Unlike {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)
    }
}

impl std::error::Error for Unlike {}

/// Compares `b` with `a`, each with a name to be called by; with `common_sizes`, at the sizes that both have.
///
/// # Errors
///
/// Where the two measured unlike things: another method, file state, number of writers or, unless
/// `common_sizes`, other sizes.
pub fn compare(
    (a_name, a): (&str, &ProbeReport),
    (b_name, b): (&str, &ProbeReport),
    common_sizes: bool,
) -> Result<Comparison, Unlike> {
    alike("method", a.method, b.method)?;
    alike("file state", a.file_state, b.file_state)?;
    alike("number of writers", a.writers, b.writers)?;
    let pairs = pairs(a, b, common_sizes)?;

    let welch: Vec<_> = pairs.iter().map(|(a, b)| stats::welch(&throughputs(b), &throughputs(a))).collect();
    let welch_p = corrected(welch.iter().map(|test| test.as_ref().map(|test| test.p_two_sided)));
    let rank_p =
        corrected(pairs.iter().map(|(a, b)| {
            stats::mann_whitney(&throughputs(b), &throughputs(a)).map(|test| test.p_two_sided)
        }));

    let mut points = Vec::new();
    for (place, (a, b)) in pairs.iter().enumerate() {
        let least_rank_p = stats::least_mann_whitney_p(throughputs(a).len(), throughputs(b).len());
        let can_rank = least_rank_p * pairs.len() as f64 <= SIGNIFICANCE;
        let throughput = stats::ratio_of_means(&throughputs(b), &throughputs(a));
        let latency = stats::ratio_of_means(&latencies(b), &latencies(a));
        let throughput_ratio = throughput.map_or(f64::NAN, |ratio| ratio.ratio);
        let verdict = match welch_p[place] {
            Some(p) if p < SIGNIFICANCE && throughput_ratio > 1.0 => Verdict::Faster,
            Some(p) if p < SIGNIFICANCE => Verdict::Slower,
            _ => Verdict::NoDifferenceShown,
        };
        let interval = throughput.and_then(|ratio| ratio.ci95);
        points.push(PointComparison {
            buffer_bytes: a.buffer_bytes,
            a_throughput_bytes_per_s: a.throughput_bytes_per_s.mean,
            b_throughput_bytes_per_s: b.throughput_bytes_per_s.mean,
            throughput_ratio,
            throughput_ratio_ci95: interval,
            latency_ratio: latency.map_or(f64::NAN, |ratio| ratio.ratio),
            latency_ratio_ci95: latency.and_then(|ratio| ratio.ci95),
            welch_t: welch[place].as_ref().map(|test| test.t),
            welch_degrees_of_freedom: welch[place].as_ref().map(|test| test.degrees_of_freedom),
            welch_p_holm: welch_p[place],
            mann_whitney_p_holm: rank_p[place],
            verdict,
            words: words(
                (a_name, b_name),
                verdict,
                throughput_ratio,
                interval,
                rank_p[place].filter(|_| can_rank),
            ),
        });
    }
    Ok(Comparison {
        a: a_name.to_owned(),
        b: b_name.to_owned(),
        overall: overall((a_name, b_name), &points),
        points,
    })
}

fn alike<T: PartialEq + fmt::Display>(what: &str, a: T, b: T) -> Result<(), Unlike> {
    if a == b {
        return Ok(());
    }
    Err(Unlike { reason: format!("the {what} differs: {a} and {b}; measure both the same way") })
}

fn pairs<'a>(
    a: &'a ProbeReport,
    b: &'a ProbeReport,
    common_sizes: bool,
) -> Result<Vec<(&'a Point, &'a Point)>, Unlike> {
    let sizes =
        |report: &ProbeReport| -> Vec<u64> { report.points.iter().map(|point| point.buffer_bytes).collect() };
    if !common_sizes && sizes(a) != sizes(b) {
        let reason = "the buffer sizes differ; measure the same --sizes, or compare those that both have with \
                      --common-sizes";
        return Err(Unlike { reason: reason.to_owned() });
    }
    let at = |size| b.points.iter().find(|point| point.buffer_bytes == size);
    let mut pairs = Vec::new();
    for point in &a.points {
        let Some(other) = at(point.buffer_bytes) else {
            continue;
        };
        let size = format::bytes(point.buffer_bytes);
        alike(&format!("method used at {size}"), point.method, other.method)?;
        if throughputs(point).is_empty() || throughputs(other).is_empty() {
            return Err(Unlike { reason: format!("no run counts at {size}; measure again") });
        }
        pairs.push((point, other));
    }
    if pairs.is_empty() {
        return Err(Unlike { reason: "the two have no buffer size in common".to_owned() });
    }
    Ok(pairs)
}

fn throughputs(point: &Point) -> Vec<f64> {
    point.run_data.iter().filter(|run| run.counted).map(|run| run.throughput_bytes_per_s).collect()
}

fn latencies(point: &Point) -> Vec<f64> {
    point.run_data.iter().filter(|run| run.counted).map(|run| run.latency_s).collect()
}

/// Holm's correction over the p-values there are.
fn corrected(p_values: impl Iterator<Item = Option<f64>>) -> Vec<Option<f64>> {
    let all: Vec<Option<f64>> = p_values.collect();
    let mut adjusted = stats::holm(&all.iter().flatten().copied().collect::<Vec<_>>()).into_iter();
    all.into_iter().map(|p| p.and_then(|_| adjusted.next())).collect()
}

fn words(
    (a, b): (&str, &str),
    verdict: Verdict,
    ratio: f64,
    interval: Option<[f64; 2]>,
    rank_p: Option<f64>,
) -> String {
    let between = interval.map_or(String::new(), |[low, high]| format!(" (95 %: {low:.2} to {high:.2})"));
    let second_opinion = match (verdict, rank_p.map(|p| p < SIGNIFICANCE)) {
        (Verdict::NoDifferenceShown, Some(true)) => "; the rank test sees one, so look for outlier runs",
        (Verdict::Faster | Verdict::Slower, Some(false)) => "; the rank test does not confirm it",
        (Verdict::Faster | Verdict::Slower, None) => "; too few runs for the rank test",
        _ => "",
    };
    let claim = match verdict {
        Verdict::Faster => format!("{b} has {ratio:.2} times the throughput of {a}{between}"),
        Verdict::Slower => format!("{b} has only {ratio:.2} times the throughput of {a}{between}"),
        Verdict::NoDifferenceShown => format!("no difference shown: ratio {ratio:.2}{between}"),
    };
    claim + second_opinion
}

fn overall((a, b): (&str, &str), points: &[PointComparison]) -> String {
    let count = |verdict| points.iter().filter(|point| point.verdict == verdict).count();
    let (faster, slower) = (count(Verdict::Faster), count(Verdict::Slower));
    let (all, alike) = (points.len(), count(Verdict::NoDifferenceShown));
    let ratios = || points.iter().filter(|point| point.verdict != Verdict::NoDifferenceShown);
    let range =
        ratios().map(|point| point.throughput_ratio).fold(None, |range: Option<(f64, f64)>, ratio| {
            Some(range.map_or((ratio, ratio), |(low, high)| (low.min(ratio), high.max(ratio))))
        });
    let span = match range {
        Some((low, high)) if high - low < 0.005 => format!(", by a factor of {low:.2}"),
        Some((low, high)) => format!(", by factors from {low:.2} to {high:.2}"),
        None => String::new(),
    };
    let unknown = if alike > 0 { format!("; at {alike} none can be shown") } else { String::new() };
    match (faster, slower) {
        (0, 0) => format!("no difference between {a} and {b} can be shown at any of {all} sizes"),
        (_, 0) => {
            format!("{b} is faster than {a} at {faster} of {all} sizes{span}{unknown}")
        }
        (0, _) => {
            format!("{b} is slower than {a} at {slower} of {all} sizes{span}{unknown}")
        }
        _ => format!(
            "neither wins: {b} is faster than {a} at {faster} of {all} sizes and slower at {slower}{span}{unknown}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use evenkeel_host::interrupt::Interrupt;
    use evenkeel_host::method::Method;

    use super::*;
    use crate::probe::settings::Settings;
    use crate::probe::tests::{PLAIN, VirtualStack, probe_of};

    fn probe(fixed_s: f64, noise: fn(usize) -> f64) -> ProbeReport {
        let mut stack = VirtualStack::new(fixed_s, 1e9);
        stack.noise = noise;
        probe_of(&Settings::paper(PLAIN), &mut stack, &Interrupt::default())
    }

    const QUIET: fn(usize) -> f64 = |run| (run * 7919 % 101) as f64 / 101.0 * 0.02;
    const OTHER_QUIET: fn(usize) -> f64 = |run| (run * 6007 % 103) as f64 / 103.0 * 0.02;

    #[test]
    fn a_real_difference_is_found_where_it_is_and_nowhere_else() {
        // Twice the fixed cost matters at 4 KiB and is lost in 16 MiB.
        let found = compare(("a", &probe(100e-6, QUIET)), ("b", &probe(200e-6, OTHER_QUIET)), false).unwrap();
        assert_eq!(found.points.first().unwrap().verdict, Verdict::Slower);
        assert!((found.points[0].throughput_ratio - 0.51).abs() < 0.02);
        let [low, high] = found.points[0].throughput_ratio_ci95.unwrap();
        assert!(low < found.points[0].throughput_ratio && found.points[0].throughput_ratio < high);
        assert!(found.overall.starts_with("b is slower than a at "), "{}", found.overall);
    }

    #[test]
    fn the_same_stack_twice_shows_no_difference() {
        let found = compare(("a", &probe(100e-6, QUIET)), ("b", &probe(100e-6, OTHER_QUIET)), false).unwrap();
        assert!(found.points.iter().all(|point| point.verdict == Verdict::NoDifferenceShown));
        assert_eq!(found.overall, "no difference between a and b can be shown at any of 13 sizes");
    }

    #[test]
    fn unlike_measurements_are_refused_with_the_reason() {
        let a = probe(100e-6, QUIET);
        let refused = |b: &ProbeReport| compare(("a", &a), ("b", b), false).unwrap_err().to_string();
        let method = ProbeReport { method: Method::Fsync, ..a.clone() };
        assert_eq!(refused(&method), "the method differs: direct-dsync and fsync; measure both the same way");
        let writers = ProbeReport { writers: 2, ..a.clone() };
        assert!(refused(&writers).starts_with("the number of writers differs"));
        let mut sizes = a.clone();
        sizes.points.remove(0);
        assert!(refused(&sizes).starts_with("the buffer sizes differ"));
        assert_eq!(compare(("a", &a), ("b", &sizes), true).unwrap().points.len(), 12);
        let mut fell_back = a.clone();
        fell_back.points[0].method = Method::Dsync;
        assert!(refused(&fell_back).starts_with("the method used at 4 KiB differs"));
        sizes.points.clear();
        assert!(compare(("a", &a), ("b", &sizes), true).is_err());
    }

    #[test]
    fn rows_of_the_csv_match_the_points() {
        let comparison = compare(("a", &probe(1e-4, QUIET)), ("b", &probe(2e-4, QUIET)), false).unwrap();
        let all = Comparisons { schema: SCHEMA.to_owned(), comparisons: vec![comparison] };
        assert_eq!(comparisons_csv(&all).unwrap().lines().count(), 1 + 13);
    }
}
