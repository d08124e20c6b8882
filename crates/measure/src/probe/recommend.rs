//! The buffer to use.
//!
//! With a fixed cost l per synchronous write and bandwidth B, latency is l + x/B and throughput
//! x / (l + x/B); their ratio x / (l + x/B)^2 is greatest at x = l B, where the throughput is B/2 and the
//! latency 2 l: half of the stack's top throughput at twice its least latency. A user with a goal of either
//! kind gets the buffer that meets it, one who tells of records the one that group commit needs, and a user without
//! either the best ratio.
//!
//! 1. Of sizes that cannot be told apart, and are about as good, the smallest is chosen.
//! 2. A few slow runs, which make a mean, do not make the choice: medians over runs decide, and where the mean lies far from
//!    them, the words say so.
//! 3. "The smallest" and "the largest" are said only where no size beyond went unmeasured.
//! 4. What the runs do not tell is said to be so: sizes that may do as well, and goals that may be met or missed, are named.
//!    All that is said shares one error rate ([`apart`]).

use super::report::{Point, Recommendation, Rule, RunData};
use super::settings::Settings;
use super::{apart, goals, group_commit};
use crate::report::format;
use crate::stats;

/// A size is advised in the place of the best only where its figure is at least this share of the best one's: few runs that
/// cannot tell sizes apart must not advise one that is far off.
const AS_GOOD: f64 = 0.8;

/// Mean and median over runs lie apart from this share on.
const OUTLIERS_MOVE: f64 = 0.1;

/// Chooses among measured points; `None` where there are none. Sizes that were asked for and not measured are
/// `unmeasured`. Where no size differs, or goals are just met or missed, anything false is said with a chance of at most
/// `level`.
pub(super) fn recommend(
    points: &[Point],
    settings: &Settings,
    unmeasured: &[u64],
    level: f64,
) -> Option<Recommendation> {
    let best = best(points)?;
    if settings.goals.are_any() {
        return Some(goals::recommend(points, &settings.goals, unmeasured, level));
    }
    let by_records = || by_records(points, settings, level);
    Some(by_records().unwrap_or_else(|| best_ratio(points, best, settings, level)))
}

/// The place of the highest ratio, by typical runs.
pub(super) fn best(points: &[Point]) -> Option<usize> {
    (0..points.len()).max_by(|&a, &b| typical_ratio(&points[a]).total_cmp(&typical_ratio(&points[b])))
}

/// Of each point, whether its ratio is shown to be lower than that of the point at `best`.
pub(super) fn shown_below(points: &[Point], best: usize, level: f64) -> Vec<bool> {
    let ratio = |run: &RunData| run.throughput_bytes_per_s / run.latency_s.max(1e-12);
    apart::shown_below(points, best, ratio, level)
}

/// Throughput and latency of a typical run: medians over the runs that count, or the means where there are none.
pub(super) fn typical(point: &Point) -> (f64, f64) {
    let median = |figure: fn(&RunData) -> f64| {
        let runs = point.run_data.iter().filter(|run| run.counted);
        stats::median(&runs.map(figure).collect::<Vec<_>>())
    };
    (
        median(|run| run.throughput_bytes_per_s).unwrap_or(point.throughput_bytes_per_s.mean),
        median(|run| run.latency_s).unwrap_or(point.latency_s.mean),
    )
}

fn typical_ratio(point: &Point) -> f64 {
    let (throughput, latency_s) = typical(point);
    throughput / latency_s.max(1e-12)
}

/// Whether a few runs make the means something else than the typical run.
fn has_outliers(point: &Point) -> bool {
    let (throughput, latency_s) = typical(point);
    let apart = |mean: f64, median: f64| (mean / median - 1.0).abs() > OUTLIERS_MOVE;
    apart(point.throughput_bytes_per_s.mean, throughput) || apart(point.latency_s.mean, latency_s)
}

fn by_records(points: &[Point], settings: &Settings, level: f64) -> Option<Recommendation> {
    let records = settings.records.filter(|records| records.arrival_rate_per_s.is_some())?;
    let (point, ties) = group_commit::choose(points, &records, settings.writers, level)?;
    let durable_s = group_commit::durable_s(point, &records, settings.writers)?;
    let reason = format!(
        "write {}; by group commit, what arrives during a write joins the next, and a record is durable {} after it \
         arrives, on average{}",
        at_a_time(point),
        format::seconds(durable_s),
        ties.words()
    );
    Some(ties.chosen(point, Rule::GroupCommit, reason))
}

/// The sizes that cannot be told from the best one.
pub(super) struct Ties {
    /// About as good, the smallest of them chosen.
    also: Vec<u64>,
    /// The others.
    undecided: Vec<u64>,
    /// Whether any size is shown to be less good.
    tells_some: bool,
    /// Runs of the size that has fewest.
    runs: u32,
}

impl Ties {
    /// Of `points`, of which the one at `best` is best and `below` are shown to be less good, the place of the one to use; a
    /// `share` is a point's typical figure as one of the best.
    pub(super) fn of(
        points: &[Point],
        best: usize,
        below: &[bool],
        share: impl Fn(&Point) -> f64,
    ) -> (usize, Self) {
        let is_as_good = |place: &usize| !below[*place] && share(&points[*place]) >= AS_GOOD;
        let smallest = (0..best).rev().take_while(is_as_good).last().unwrap_or(best);
        let beyond = (best + 1..points.len()).take_while(is_as_good).last().unwrap_or(best);
        let sizes = |is: &dyn Fn(usize) -> bool| -> Vec<u64> {
            (0..points.len()).filter(|&place| is(place)).map(|place| points[place].buffer_bytes).collect()
        };
        let is_within = |place: usize| (smallest..=beyond).contains(&place);
        let ties = Self {
            also: sizes(&|place| is_within(place) && place != smallest),
            undecided: sizes(&|place| !is_within(place) && !below[place]),
            tells_some: below.iter().any(|&is_below| is_below),
            runs: points.iter().map(|point| point.runs).min().unwrap_or(0),
        };
        (smallest, ties)
    }

    fn words(&self) -> String {
        let mut words = String::new();
        if !self.also.is_empty() {
            words += &format!("; {} cannot be told apart from it", names(&self.also));
        }
        if !self.undecided.is_empty() {
            let runs = format::counted(u64::from(self.runs), "run") + " a size";
            let undecided = names(&self.undecided);
            words += &match self.tells_some {
                true => format!("; {runs} do not tell whether {undecided} would do as well"),
                false => format!("; {runs} tell no size from another: {undecided} may do as well"),
            };
        }
        words
    }

    fn chosen(self, point: &Point, rule: Rule, reason: String) -> Recommendation {
        Recommendation { undecided_bytes: self.undecided, ..chosen(Some(point), self.also, rule, reason) }
    }
}

pub(super) fn names(sizes: &[u64]) -> String {
    let names: Vec<String> = sizes.iter().map(|&size| format::bytes(size)).collect();
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
        None => String::new(),
    }
}

fn best_ratio(points: &[Point], best: usize, settings: &Settings, level: f64) -> Recommendation {
    let below = shown_below(points, best, level);
    let share = |point: &Point| typical_ratio(point) / typical_ratio(&points[best]);
    let (smallest, ties) = Ties::of(points, best, &below, share);
    let mut reason = format!("write {}", at_a_time(&points[smallest]));
    let larger_below = below.iter().rev().take_while(|&&is_below| is_below).count();
    if larger_below == 0 && points.len() > 1 {
        reason.push_str("; larger buffers than those measured may do better, so measure them");
    } else if larger_below > 0 {
        let which =
            if larger_below + best + 1 == points.len() { "larger buffers" } else { "the largest buffers" };
        reason.push_str(&format!("; {which} add more latency than throughput"));
    }
    reason += &ties.words();
    if let Some(rate) = settings.records.and_then(|records| records.arrival_rate_per_s) {
        let rate = format::number(rate);
        reason.push_str(&format!("; no measured buffer keeps up with {rate} records/s"));
    }
    ties.chosen(&points[smallest], Rule::BestRatio, reason)
}

pub(super) fn at_a_time(point: &Point) -> String {
    let size = format::bytes(point.buffer_bytes);
    let (mean, mean_s) = (point.throughput_bytes_per_s.mean, point.latency_s.mean);
    if has_outliers(point) {
        let (throughput, latency_s) = typical(point);
        let (throughput, latency) = (format::rate(throughput), format::seconds(latency_s));
        let means = format::seconds(mean_s);
        return format!(
            "{size} at a time: {throughput} at {latency} by the median run (a few make the mean {means})"
        );
    }
    format!("{size} at a time: {} at {}", format::rate(mean), format::seconds(mean_s))
}

pub(super) fn chosen(
    point: Option<&Point>,
    also_bytes: Vec<u64>,
    rule: Rule,
    reason: String,
) -> Recommendation {
    Recommendation {
        buffer_bytes: point.map(|point| point.buffer_bytes),
        also_bytes,
        undecided_bytes: Vec::new(),
        rule,
        reason,
    }
}
