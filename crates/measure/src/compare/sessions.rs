//! Probes that were measured one after another, judged by sessions.
//!
//! 1. The runs of one session share what the machine did then: however many they are, they say nothing about another
//!    time. What two sessions of one stack may differ by enters every interval: as the probes' own repeated sessions
//!    show it (Student's t over sessions, pooled over the two), or, where neither was repeated, as a stated bound.
//!    Neighbouring sessions are taken to resemble each other, so that their spread is not taken for all of it, and a trend
//!    that they show to go on until the others were measured.
//! 2. Where most runs of either were disturbed, nothing is claimed.
//! 3. All verdicts of all comparisons share one error rate, by Bonferroni.

use std::fmt;

use super::report::{Comparison, Comparisons, Design, Judged, PointComparison, SCHEMA, Verdict};
use super::{Labelled, disturbed_share, judged, unlike, words};
use crate::probe::report::{Point, ProbeReport, RunData};
use crate::report::format;
use crate::stats;

/// The chance of any false verdict in all that is said.
pub const SESSIONS_ERROR_RATE: f64 = 0.05;

/// By how much sessions of one stack may differ, unless it was measured or stated.
pub const DRIFT: f64 = 0.30;

/// Above this share of disturbed runs nothing is claimed.
const DISTURBED_MAX: f64 = 0.5;

/// What to compare, and what to reckon with.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Options {
    /// Compare at the sizes that both have; otherwise both must have the same.
    pub common_sizes: bool,
    /// By how much sessions of one stack may differ, beside what repeated sessions show.
    pub drift: Option<f64>,
}

/// Why probes cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unlike {
    /// Which of them, from 0, is unlike the first.
    pub place: usize,
    reason: String,
}

impl fmt::Display for Unlike {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.reason)
    }
}

impl std::error::Error for Unlike {}

/// Compares each further report with the first.
///
/// # Errors
///
/// Where two have another number of writers or, unless `common_sizes`, other sizes.
pub fn compare_sessions(reports: &[Labelled<'_>], options: &Options) -> Result<Comparisons, Unlike> {
    let (base, others) = reports.split_first().map_or((None, &[][..]), |(base, others)| (Some(base), others));
    let mut sized = Vec::new();
    let mut statements = 0;
    for (number, (_, other)) in others.iter().enumerate() {
        let Some((_, base)) = base else { continue };
        let sizes = common(base, other, options.common_sizes)
            .map_err(|reason| Unlike { place: number + 1, reason })?;
        statements += 1 + sizes.iter().map(|(a, b)| 1 + usize::from(has_p99(a) && has_p99(b))).sum::<usize>();
        sized.push(sizes);
    }
    let alpha = SESSIONS_ERROR_RATE / statements.max(1) as f64;
    let mut drift_used = options.drift;
    let mut comparisons = Vec::new();
    for (other, sizes) in others.iter().zip(&sized) {
        let Some(base) = base else { continue };
        let repeated = base.1.sessions > 1 || other.1.sessions > 1;
        let drift = options.drift.or((!repeated).then_some(DRIFT));
        drift_used = drift_used.or(drift);
        comparisons.push(comparison(base, other, sizes, drift, alpha));
    }
    Ok(Comparisons {
        schema: SCHEMA.to_owned(),
        design: Design::Sessions,
        error_rate: SESSIONS_ERROR_RATE,
        judged: statements as u32,
        drift: drift_used,
        comparisons,
    })
}

fn comparison(
    (a, base): &Labelled<'_>,
    (b, other): &Labelled<'_>,
    sizes: &[(&Point, &Point)],
    drift: Option<f64>,
    alpha: f64,
) -> Comparison {
    let judge = Judge { alpha, drift: drift.unwrap_or(0.0) };
    let disturbed = [disturbed_share(base), disturbed_share(other)];
    let withheld = withheld((a, b), disturbed);
    let held_back = |judged: Judged| match withheld {
        Some(_) => Judged { verdict: Verdict::Withheld, ..judged },
        None => judged,
    };
    let points = sizes
        .iter()
        .map(|(a_point, b_point)| {
            let sessions = |figure: fn(&RunData) -> Option<f64>, less_is_faster| {
                let (a, b) = (by_session(base, a_point, figure), by_session(other, b_point, figure));
                held_back(judge.judge(&a, &b, less_is_faster))
            };
            let by_rate = sessions(|run| Some(run.throughput_bytes_per_s), false);
            let by_p99 =
                (has_p99(a_point) && has_p99(b_point)).then(|| sessions(|run| run.latency_p99_s, true));
            PointComparison {
                buffer_bytes: a_point.buffer_bytes,
                a_throughput_bytes_per_s: a_point.throughput_bytes_per_s.mean,
                b_throughput_bytes_per_s: b_point.throughput_bytes_per_s.mean,
                a_p99_s: a_point.latency_s.p99,
                b_p99_s: b_point.latency_s.p99,
                throughput: by_rate,
                p99: by_p99,
                words: words::at_size((a, b), &by_rate, by_p99.as_ref()),
            }
        })
        .collect();
    let mut found = Comparison {
        a: a.clone(),
        b: b.clone(),
        unlike: unlike(base, other),
        sessions: [base.sessions, other.sessions],
        drift,
        disturbed_share: disturbed,
        throughout: held_back(judge.throughout([base, other], sizes)),
        withheld,
        points,
        overall: String::new(),
    };
    found.overall = words::overall(Design::Sessions, &found);
    found
}

fn withheld((a, b): (&str, &str), disturbed: [f64; 2]) -> Option<String> {
    let (name, share) = if disturbed[1] > disturbed[0] { (b, disturbed[1]) } else { (a, disturbed[0]) };
    (share > DISTURBED_MAX).then(|| {
        format!(
            "{} of the runs of {name} were disturbed from outside; measure both together with `evenkeel probe A B`, or \
             again on a quiet machine",
            format::percent(share)
        )
    })
}

/// The logarithms of one figure in one session.
#[derive(Debug, Clone, Copy)]
struct Session {
    /// When it was, in seconds: the mean start of its runs.
    at_s: f64,
    /// Mean over runs.
    mean: f64,
    /// Squared standard error of that; 0 for a single run, which has no degrees of freedom.
    squared_error: f64,
    /// Degrees of freedom of that.
    freedom: f64,
}

struct Judge {
    alpha: f64,
    drift: f64,
}

impl Judge {
    /// Over all sizes: each session's mean over them.
    fn throughout(&self, [base, other]: [&ProbeReport; 2], sizes: &[(&Point, &Point)]) -> Judged {
        let throughput = |run: &RunData| Some(run.throughput_bytes_per_s);
        let over = |report: &ProbeReport, points: Vec<&Point>| -> Vec<Session> {
            let all: Vec<Vec<Session>> =
                points.iter().map(|point| by_session(report, point, throughput)).collect();
            let sessions = all.iter().map(Vec::len).min().unwrap_or(0);
            let count = all.len() as f64;
            (0..sessions)
                .map(|session| {
                    let of = || all.iter().map(|sizes| sizes[session]);
                    Session {
                        at_s: of().map(|each| each.at_s).sum::<f64>() / count,
                        mean: of().map(|each| each.mean).sum::<f64>() / count,
                        squared_error: of().map(|each| each.squared_error).sum::<f64>() / (count * count),
                        freedom: of().map(|each| each.freedom).fold(f64::INFINITY, f64::min),
                    }
                })
                .collect()
        };
        let (a, b) = sizes.iter().copied().unzip();
        self.judge(&over(base, a), &over(other, b), false)
    }

    fn judge(&self, a: &[Session], b: &[Session], less_is_faster: bool) -> Judged {
        let difference = mean(b) - mean(a);
        let half = match (a.len(), b.len()) {
            (0, _) | (_, 0) => None,
            (1, 1) => self.within_sessions(a[0], b[0]),
            _ => self.between_sessions(a, b),
        };
        let interval = half.map(|half| {
            let half = half + self.drift.ln_1p();
            [difference - half, difference + half]
        });
        judged(difference, interval, less_is_faster, 0.0)
    }

    /// The half width that the runs of two single sessions leave. The degrees of freedom are those of the smaller sample,
    /// which Welch's never fall below.
    fn within_sessions(&self, a: Session, b: Session) -> Option<f64> {
        let error = (a.squared_error + b.squared_error).sqrt();
        Some(error * stats::t_factor(a.freedom.min(b.freedom), self.alpha)?)
    }

    /// The half width that the spread over sessions leaves, pooled over both.
    fn between_sessions(&self, a: &[Session], b: &[Session]) -> Option<f64> {
        let squares = |sessions: &[Session]| {
            let mean = mean(sessions);
            sessions.iter().map(|session| (session.mean - mean).powi(2)).sum::<f64>()
        };
        let freedom = (a.len() + b.len() - 2) as f64;
        let variance = (squares(a) + squares(b)) / freedom;
        let error = (variance * (1.0 / a.len() as f64 + 1.0 / b.len() as f64)).sqrt();
        let correlated = ((1.0 + SESSION_CORRELATION) / (1.0 - SESSION_CORRELATION)).sqrt();
        Some(error * correlated * stats::t_factor(freedom, self.alpha)? + trend(a, b))
    }
}

/// How much neighbouring sessions are taken to resemble each other: stated, not measured. The factor is that of the
/// standard error of a mean of values with such a correlation from one to the next.
const SESSION_CORRELATION: f64 = 0.5;

/// By how much the two would differ by a trend that the sessions of both show, if it went on from one to the other; but for
/// no longer than all of them lasted.
fn trend(a: &[Session], b: &[Session]) -> f64 {
    let middle = |sessions: &[Session]| {
        sessions.iter().map(|session| session.at_s).sum::<f64>() / sessions.len() as f64
    };
    let (mut products, mut squares, mut lasted_s) = (0.0, 0.0, 0.0);
    for sessions in [a, b] {
        let (middle_s, mean) = (middle(sessions), mean(sessions));
        for session in sessions {
            products += (session.at_s - middle_s) * (session.mean - mean);
            squares += (session.at_s - middle_s).powi(2);
        }
        let times = sessions.iter().map(|session| session.at_s);
        let [first, last] = [times.clone().fold(f64::INFINITY, f64::min), times.fold(0.0, f64::max)];
        // A session of its own length follows the last one.
        lasted_s += (last - first) * sessions.len() as f64 / (sessions.len() as f64 - 1.0).max(1.0);
    }
    if squares <= 0.0 {
        return 0.0;
    }
    (products / squares).abs() * (middle(b) - middle(a)).abs().min(lasted_s)
}

fn mean(sessions: &[Session]) -> f64 {
    sessions.iter().map(|session| session.mean).sum::<f64>() / sessions.len() as f64
}

fn by_session(report: &ProbeReport, point: &Point, figure: impl Fn(&RunData) -> Option<f64>) -> Vec<Session> {
    let last = point.run_data.iter().map(|run| run.session).max().unwrap_or(0);
    (0..=last.min(SESSIONS_MAX))
        .filter_map(|session| {
            let runs = point.run_data.iter().filter(|run| run.counted && run.session == session);
            let known = runs.filter_map(|run| Some((run.started_s, figure(run)?.ln())));
            let (starts, logs): (Vec<f64>, Vec<f64>) = known.filter(|(_, log)| log.is_finite()).unzip();
            let count = logs.len() as f64;
            let at_s = report.started_unix_s as f64 + starts.iter().sum::<f64>() / count;
            let mean = logs.iter().sum::<f64>() / count;
            let squares = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>();
            let freedom = count - 1.0;
            let squared_error = if freedom > 0.0 { squares / freedom / count } else { 0.0 };
            (!logs.is_empty()).then_some(Session { at_s, mean, squared_error, freedom })
        })
        .collect()
}

/// Sessions beyond this number are no probe's.
const SESSIONS_MAX: u32 = 10_000;

fn has_p99(point: &Point) -> bool {
    point.run_data.iter().any(|run| run.counted && run.latency_p99_s.is_some())
}

fn common<'a>(
    a: &'a ProbeReport,
    b: &'a ProbeReport,
    common_sizes: bool,
) -> Result<Vec<(&'a Point, &'a Point)>, String> {
    if a.writers != b.writers {
        let (a, b) = (a.writers, b.writers);
        return Err(format!("the number of writers differs: {a} and {b}; measure both with as many"));
    }
    let sizes =
        |report: &ProbeReport| report.points.iter().map(|point| point.buffer_bytes).collect::<Vec<_>>();
    if !common_sizes && sizes(a) != sizes(b) {
        return Err(
            "the buffer sizes differ; measure the same --sizes, or compare those that both have with \
                    --common-sizes"
                .to_owned(),
        );
    }
    let mut found = Vec::new();
    for point in &a.points {
        let Some(other) = b.points.iter().find(|other| other.buffer_bytes == point.buffer_bytes) else {
            continue;
        };
        if [point, other].iter().any(|point| !point.run_data.iter().any(|run| run.counted)) {
            return Err(format!("no run counts at {}; measure again", format::bytes(point.buffer_bytes)));
        }
        found.push((point, other));
    }
    if found.is_empty() {
        return Err("the two have no buffer size in common".to_owned());
    }
    Ok(found)
}
