//! The buffer that meets a goal of throughput, of latency, or both.
//!
//! A typical run decides, the median one. A size of which the interval of a typical run holds the goal may meet it or miss
//! it; such sizes are named, the one chosen too. The intervals of all sizes share the error rate of the page.

use super::apart::typical_interval;
use super::recommend::{at_a_time, chosen, names, typical};
use super::report::{Point, Recommendation, Rule, RunData};
use super::settings::{Goals, LatencyBound};
use crate::report::format;

/// What a size does about a goal, and whether the runs say so.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Meets {
    /// By a typical run.
    is_met: bool,
    /// Whether the interval says so too.
    is_sure: bool,
    /// Whether the runs leave it open: the interval holds the goal, or where there are too few runs for one, some meet it and others
    /// do not.
    is_open: bool,
}

impl Meets {
    /// Of a figure whose runs had these, with the interval of a typical run if there is one.
    fn of(is_met: bool, interval: Option<[f64; 2]>, runs: &[f64], meets: impl Fn(f64) -> bool) -> Self {
        let agree = |values: &[f64]| values.iter().all(|&value| meets(value) == is_met);
        Self {
            is_met,
            is_sure: interval.is_some_and(|ends| agree(&ends)),
            is_open: interval.map_or_else(|| !agree(runs), |ends| !agree(&ends)),
        }
    }
}

/// The goals, and the level of the interval of each size.
struct Judge<'a> {
    goals: &'a Goals,
    alpha: f64,
}

/// The buffer to use, of at least one goal.
pub(super) fn recommend(points: &[Point], goals: &Goals, unmeasured: &[u64], level: f64) -> Recommendation {
    let (rate, latency_s) = (goals.min_throughput_bytes_per_s, goals.max_latency_s);
    let many = [rate, latency_s].iter().flatten().count() * points.len();
    let judge = Judge { goals, alpha: level / many.max(1) as f64 };
    let meets: Vec<Meets> = points.iter().map(|point| judge.both(point)).collect();
    let unsure = points.iter().zip(&meets).filter(|(_, meets)| !meets.is_sure);
    let undecided_bytes: Vec<u64> = unsure.map(|(point, _)| point.buffer_bytes).collect();
    let found = Found { points, meets: &meets, undecided: &undecided_bytes, unmeasured, goals };
    let recommendation = match (rate, latency_s) {
        (Some(rate), Some(latency_s)) => found.both(rate, latency_s),
        (None, Some(latency_s)) => found.max_latency(latency_s),
        (rate, None) => found.min_throughput(rate.unwrap_or(0.0)),
    };
    Recommendation { undecided_bytes, ..recommendation }
}

impl Judge<'_> {
    fn both(&self, point: &Point) -> Meets {
        let of = [self.throughput(point), self.latency(point)];
        let fails = of.iter().flatten().any(|one| one.is_sure && !one.is_met);
        Meets {
            is_met: of.iter().flatten().all(|one| one.is_met),
            is_sure: fails || of.iter().flatten().all(|one| one.is_sure),
            is_open: !fails
                && of.iter().flatten().any(|one| one.is_open)
                && of.iter().flatten().all(|one| one.is_met || one.is_open),
        }
    }

    fn throughput(&self, point: &Point) -> Option<Meets> {
        let rate = self.goals.min_throughput_bytes_per_s?;
        let figure = |run: &RunData| Some(run.throughput_bytes_per_s);
        let interval = typical_interval(point, figure, self.alpha);
        let runs = figures(point, figure);
        Some(Meets::of(typical(point).0 >= rate, interval, &runs, |found| found >= rate))
    }

    fn latency(&self, point: &Point) -> Option<Meets> {
        let most_s = self.goals.max_latency_s?;
        let bound = self.goals.bound;
        let is_met = latency(point, bound).is_some_and(|found_s| found_s <= most_s);
        let figure: fn(&RunData) -> Option<f64> = match bound {
            LatencyBound::Mean => |run| Some(run.latency_s),
            LatencyBound::P99 => |run| run.latency_p99_s,
            // Runs do not keep theirs.
            LatencyBound::P50 | LatencyBound::P999 => |_| None,
        };
        let interval = typical_interval(point, figure, self.alpha);
        let runs = figures(point, figure);
        Some(Meets::of(is_met, interval, &runs, |found_s| found_s <= most_s))
    }
}

/// The figures of the runs that count.
fn figures(point: &Point, figure: impl Fn(&RunData) -> Option<f64>) -> Vec<f64> {
    point.run_data.iter().filter(|run| run.counted).filter_map(figure).collect()
}

struct Found<'a> {
    points: &'a [Point],
    meets: &'a [Meets],
    undecided: &'a [u64],
    unmeasured: &'a [u64],
    goals: &'a Goals,
}

impl Found<'_> {
    fn met(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.points.iter().zip(self.meets).filter(|(_, meets)| meets.is_met).map(|(point, _)| point)
    }

    fn is_sure(&self, point: &Point) -> bool {
        !self.undecided.contains(&point.buffer_bytes)
    }

    fn min_throughput(&self, rate: f64) -> Recommendation {
        let wanted = format::rate(rate);
        let Some(point) = self.met().next() else {
            let nearest = nearest_by(self.points, |point| typical(point).0);
            let note = unmeasured_note(self.unmeasured, |_| true).replace(" too", "");
            let measured = if note.is_empty() { "" } else { "measured " };
            let reason = format!(
                "no {measured}buffer reaches {wanted}; nearest is {}{}{note}",
                at_a_time(nearest),
                self.may_note(|_| true).replace(" too", "")
            );
            return chosen(None, Vec::new(), Rule::MinThroughput, reason);
        };
        let is_smaller = |size: u64| size < point.buffer_bytes;
        let note = unmeasured_note(self.unmeasured, is_smaller);
        let which = if note.is_empty() { "the smallest buffer that reaches" } else { "it reaches" };
        let mut reason = format!("write {}: {which} {wanted}", at_a_time(point));
        reason += self.only_just(point);
        reason += &self.may_note(is_smaller);
        reason += &note;
        chosen(Some(point), Vec::new(), Rule::MinThroughput, reason)
    }

    fn max_latency(&self, latency_s: f64) -> Recommendation {
        let bound = self.goals.bound;
        let wanted = format!("{} within {}", bound_name(bound), format::seconds(latency_s));
        let Some(point) = self.met().next_back() else {
            let nearest = nearest_by(self.points, |point| -latency(point, bound).unwrap_or(f64::INFINITY));
            let note = unmeasured_note(self.unmeasured, |_| true).replace(" too", "");
            let measured = if note.is_empty() { "" } else { "measured " };
            let reason = format!(
                "no {measured}buffer keeps {wanted}; nearest is {}{}{note}{}",
                at_a_time(nearest),
                self.may_note(|_| true).replace(" too", ""),
                unknown_note(self.points, bound)
            );
            return chosen(None, Vec::new(), Rule::MaxLatency, reason);
        };
        let is_larger = |size: u64| size > point.buffer_bytes;
        let mut beyond = self.points.iter().filter(|other| is_larger(other.buffer_bytes));
        let all_known = beyond.all(|other| latency(other, bound).is_some());
        let all_known = all_known && !self.unmeasured.iter().any(|&size| is_larger(size));
        let known = if all_known { "that keeps" } else { "known to keep" };
        let mut reason = format!("write {}: the largest buffer {known} {wanted}", at_a_time(point));
        reason += self.only_just(point);
        reason += &self.may_note(is_larger);
        reason += &unmeasured_note(self.unmeasured, is_larger);
        reason += &unknown_note(self.points, bound);
        chosen(Some(point), Vec::new(), Rule::MaxLatency, reason)
    }

    fn both(&self, rate: f64, latency_s: f64) -> Recommendation {
        let bound = self.goals.bound;
        let wanted = format!(
            "{} with {} within {}",
            format::rate(rate),
            bound_name(bound),
            format::seconds(latency_s)
        );
        let fit: Vec<&Point> = self.met().collect();
        let Some((smallest, others)) = fit.split_first() else {
            // How far a buffer misses its goals, as the worse of the two factors.
            let misses = |point: &Point| {
                let short = rate / typical(point).0.max(1e-9);
                let late = latency(point, bound).unwrap_or(f64::INFINITY) / latency_s;
                short.max(late)
            };
            let nearest = nearest_by(self.points, |point| -misses(point));
            let note = unmeasured_note(self.unmeasured, |_| true).replace(" too", "");
            let measured = if note.is_empty() { "" } else { "measured " };
            let reason = format!(
                "no {measured}buffer does both {wanted}; nearest is {}{}{note}{}",
                at_a_time(nearest),
                self.may_note(|_| true).replace(" too", ""),
                unknown_note(self.points, bound)
            );
            return chosen(None, Vec::new(), Rule::Both, reason);
        };
        let mut reason = match others.last() {
            Some(_) => {
                let sizes: Vec<String> = fit.iter().map(|point| format::bytes(point.buffer_bytes)).collect();
                format!("write {}: {} give {wanted}", at_a_time(smallest), sizes.join(", "))
            }
            None => format!("write {}: the only buffer measured that gives {wanted}", at_a_time(smallest)),
        };
        let just: Vec<u64> =
            fit.iter().filter(|point| !self.is_sure(point)).map(|point| point.buffer_bytes).collect();
        if !just.is_empty() {
            reason += &format!("; these runs leave it open for {}", names(&just));
        }
        let is_fit = |size: u64| fit.iter().any(|point| point.buffer_bytes == size);
        reason += &self.may_note(|size| !is_fit(size));
        reason += &unmeasured_note(self.unmeasured, |size| size < smallest.buffer_bytes);
        let others = others.iter().map(|point| point.buffer_bytes).collect();
        chosen(Some(smallest), others, Rule::Both, reason)
    }

    fn only_just(&self, point: &Point) -> &'static str {
        if self.is_sure(point) {
            ""
        } else {
            "; by the typical run, and these runs leave open whether that is so"
        }
    }

    /// Sizes that miss a goal, though the runs leave that open.
    fn may_note(&self, is_asked: impl Fn(u64) -> bool) -> String {
        let misses = self.points.iter().zip(self.meets).filter(|(_, meets)| !meets.is_met && meets.is_open);
        let known = misses.filter(|(point, _)| match self.goals.max_latency_s {
            Some(_) => latency(point, self.goals.bound).is_some(),
            None => true,
        });
        let may: Vec<u64> =
            known.map(|(point, _)| point.buffer_bytes).filter(|&size| is_asked(size)).collect();
        if may.is_empty() { String::new() } else { format!("; {} may do so too, by these runs", names(&may)) }
    }
}

/// Sizes that were not measured and may do better than the one chosen.
fn unmeasured_note(unmeasured: &[u64], is_better: impl Fn(u64) -> bool) -> String {
    let better: Vec<u64> = unmeasured.iter().copied().filter(|&size| is_better(size)).collect();
    if better.is_empty() {
        return String::new();
    }
    format!("; {} not measured for want of time, and may do so too: give more --time", names(&better))
}

fn latency(point: &Point, bound: LatencyBound) -> Option<f64> {
    match bound {
        LatencyBound::Mean => Some(typical(point).1),
        LatencyBound::P50 => point.latency_s.p50,
        LatencyBound::P99 => point.latency_s.p99,
        LatencyBound::P999 => point.latency_s.p999,
    }
}

fn unknown_note(points: &[Point], bound: LatencyBound) -> String {
    let unknown = points.iter().filter(|point| latency(point, bound).is_none()).count();
    match unknown {
        0 => String::new(),
        _ => format!(
            "; {unknown} of the sizes have too few writes to know their {}: add --runs, and the --time for them",
            bound_name(bound)
        ),
    }
}

fn bound_name(bound: LatencyBound) -> &'static str {
    match bound {
        LatencyBound::Mean => "mean latency",
        LatencyBound::P50 => "p50 latency",
        LatencyBound::P99 => "p99 latency",
        LatencyBound::P999 => "p99.9 latency",
    }
}

fn nearest_by(points: &[Point], value: impl Fn(&Point) -> f64) -> &Point {
    points.iter().max_by(|a, b| value(a).total_cmp(&value(b))).expect("recommend is given points")
}
