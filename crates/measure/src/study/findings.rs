//! What a study says, in sentences: what its claims are, and besides that a description of the runs that there are.

use schemars::JsonSchema;
use serde::Serialize;

use super::analysis::{Explained, Explanation, Figure};
use super::claims::Claim;
use super::report::StudyReport;
use crate::report::format::{counted, number, number_short, percent, seconds};
use crate::stats;
use crate::stats::change_points::STEADY_THAT_PASS;

mod machine;
mod operations;
mod remedies;

pub(super) use machine::condition;

/// Fewer runs of each configuration than this leave nothing to conclude from.
const RUNS_TO_CONCLUDE: usize = 6;

/// One thing that the study says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What it is about: `too_small`, `busy`, `variation`, `parameter`, `placement`, `throughput`, `remedies`, `operation`,
    /// `windows`, `repetitions`, `steadiness`, `outliers`, `conditions`, `order` or `left_out`.
    pub about: &'static str,
    /// A sentence or two.
    pub words: String,
}

/// Everything there is to say.
pub(super) fn findings(report: &StudyReport) -> Vec<Finding> {
    let parts: [(&'static str, Option<String>); 15] = [
        ("too_small", too_small(report)),
        ("busy", machine::busy(report)),
        ("variation", variation(report)),
        ("parameter", parameter(report)),
        ("placement", machine::placement(report)),
        ("remedies", remedies::remedies(report)),
        ("operation", operations::operations(report)),
        ("throughput", throughput(report)),
        ("windows", windows(report)),
        ("repetitions", repetitions(report)),
        ("steadiness", steadiness(report)),
        ("outliers", outliers(report)),
        ("conditions", machine::conditions(report)),
        ("order", machine::order(report)),
        ("left_out", left_out(report)),
    ];
    let said = parts.into_iter().filter_map(|(about, words)| Some(Finding { about, words: words? }));
    said.collect()
}

fn too_small(report: &StudyReport) -> Option<String> {
    let runs: Vec<f64> = report.variation.iter().map(|row| row.runs as f64).collect();
    let typical = stats::median(&runs)?;
    (typical < RUNS_TO_CONCLUDE as f64).then(|| {
        format!(
            "Too small to conclude from: {} of each configuration under each workload, where an interval takes {RUNS_TO_CONCLUDE} \
             and how much they vary takes more. What follows describes these runs.",
            counted(typical as u64, "run")
        )
    })
}

/// The ranges of a file system, with where the largest is.
struct Ranges<'a> {
    file_system: &'a str,
    median: f64,
    largest: f64,
    at: String,
}

fn variation(report: &StudyReport) -> Option<String> {
    let mut each: Vec<Ranges<'_>> = Vec::new();
    let mut names: Vec<&str> = report.variation.iter().map(|row| row.file_system.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for file_system in names {
        let of_it = report.variation.iter().filter(|row| row.file_system == file_system);
        let rows: Vec<_> = of_it.filter_map(|row| Some((row.relative_range?, row))).collect();
        let ranges: Vec<f64> = rows.iter().map(|(range, _)| *range).collect();
        let (Some(median), Some((largest, row))) =
            (stats::median(&ranges), rows.iter().max_by(|one, other| one.0.total_cmp(&other.0)))
        else {
            continue;
        };
        let at = format!("{} under {}", row.configuration, row.workload);
        each.push(Ranges { file_system, median, largest: *largest, at });
    }
    each.sort_by(|one, other| other.median.total_cmp(&one.median));
    let most = each.first()?;
    let all: Vec<f64> = report.variation.iter().filter_map(|row| row.relative_range).collect();
    let above = all.iter().filter(|&&range| range > 0.1).count() as f64 / all.len() as f64;
    let mut words = match each.len() {
        1 => format!(
            "In these runs, the throughput of {} ranges over {} between repeats",
            most.file_system,
            percent(most.median)
        ),
        _ => {
            let others: Vec<String> =
                each[1..].iter().map(|one| format!("{} {}", one.file_system, percent(one.median))).collect();
            let others = others.join(", ");
            format!(
                "In these runs, the throughput of {} ranges over {} between repeats ({others})",
                most.file_system,
                percent(most.median)
            )
        }
    };
    words += &format!(
        ", by the median of its configurations and workloads; at worst over {} ({}). {} of all range over more than 10 %.",
        percent(most.largest),
        most.at,
        percent(above)
    );
    if let Some(worst) = each.iter().skip(1).find(|one| one.largest > most.largest) {
        words += &format!(" The widest of all is {}: {}.", worst.at, percent(worst.largest));
    }
    Some(words)
}

/// What explains a figure over all workloads, or the only one.
fn over_all(report: &StudyReport, figure: Figure) -> Option<&Explained> {
    let mut of_figure = report.explained.iter().filter(|one| one.figure == figure);
    of_figure.clone().find(|one| one.workload.is_none()).or_else(|| of_figure.next())
}

fn interval(ci95: Option<[f64; 2]>) -> String {
    ci95.map_or_else(String::new, |[low, high]| {
        format!(" (95 % interval {} to {})", percent(low), percent(high))
    })
}

/// The outermost levels of a term and how many times apart they are.
fn outermost(term: &Explanation) -> Option<(&str, &str, f64)> {
    let (first, last) = (term.levels.first()?, term.levels.last()?);
    let times = (last.typical / first.typical).max(first.typical / last.typical);
    (term.levels.len() > 1 && times.is_finite()).then_some((&first.value, &last.value, times))
}

fn parameter(report: &StudyReport) -> Option<String> {
    let explained = over_all(report, Figure::Variation)?;
    let Some(best) = explained.terms.first().filter(|term| term.found) else {
        return Some(nothing_found(explained));
    };
    let share = percent(best.share.unwrap_or(0.0));
    let interval = interval(best.ci95);
    let why = format!("explains {share}{interval} of why some configurations vary more than others");
    // A pair that is found comes after its factors, which may have no effect of their own.
    let found: Vec<_> = explained.terms.iter().filter(|term| term.found).collect();
    let best = match found.iter().find(|term| term.factors.len() == 2) {
        Some(pair) if pair.share > best.share => pair,
        _ => best,
    };
    Some(match (best.factors.len(), outermost(best)) {
        (1, Some((steady, unsteady, times))) => format!(
            "To vary less, change {}: it {why}; runs with {unsteady} deviate {} times as much as runs with {steady}.",
            best.factors[0],
            number_short(times)
        ),
        _ => format!(
            "To vary less, change {}: together they explain {}{} of why some configurations vary more than others.",
            best.name(),
            percent(best.share.unwrap_or(0.0)),
            self::interval(best.ci95)
        ),
    })
}

fn nothing_found(explained: &Explained) -> String {
    let single = explained.terms.iter().filter(|term| term.factors.len() == 1);
    let judged: Vec<&Explanation> = single.filter(|term| term.share.is_some()).collect();
    match judged.first() {
        None => format!(
            "Which parameter to change against variation cannot be told from {} configurations: a study this small names \
             none. Give a factor more values.",
            explained.configurations
        ),
        Some(most) => format!(
            "No parameter is found that explains why some configurations vary more than others; the largest share is that \
             of {}, {}{}.",
            most.name(),
            percent(most.share.unwrap_or(0.0)),
            interval(most.ci95)
        ),
    }
}

fn throughput(report: &StudyReport) -> Option<String> {
    let explained = over_all(report, Figure::Throughput)?;
    let found: Vec<&Explanation> = explained.terms.iter().filter(|term| term.found).collect();
    let best =
        found.iter().max_by(|one, other| one.share.unwrap_or(0.0).total_cmp(&other.share.unwrap_or(0.0)));
    let of_workload =
        |one: &Explained| Some(format!("{} under {}", percent(one.between_repeats?), one.workload.as_ref()?));
    let repeats: Vec<String> = report
        .explained
        .iter()
        .filter(|one| one.figure == Figure::Throughput)
        .filter_map(of_workload)
        .collect();
    let repeats = match repeats.as_slice() {
        [] => String::new(),
        all => format!(" Repeats of the same configuration make {} of the variance.", all.join(", ")),
    };
    Some(match best {
        None if explained.terms.iter().all(|term| term.share.is_none()) => format!(
            "What makes a configuration fast cannot be told from {} configurations, of any parameter.{repeats}",
            explained.configurations
        ),
        None => format!("No parameter is found that explains how fast a configuration is.{repeats}"),
        Some(best) => {
            let faster = outermost(best).map_or_else(String::new, |(fast, slow, times)| {
                format!("; {fast} is {} times as fast as {slow}", number_short(times))
            });
            format!(
                "How fast a configuration is depends on {}, which explains {}{} of the variance of throughput{faster}.{repeats}",
                best.name(),
                percent(best.share.unwrap_or(0.0)),
                interval(best.ci95)
            )
        }
    })
}

fn windows(report: &StudyReport) -> Option<String> {
    let mut most: Option<(String, f64)> = None;
    for row in &report.window_ranges {
        let same = |other: &&super::analysis::WindowRanges| {
            other.workload == row.workload && other.file_system == row.file_system
        };
        let of_all = report.window_ranges.iter().filter(same);
        let longest = of_all.max_by(|one, other| one.window_s.total_cmp(&other.window_s))?;
        let times = row.median / longest.median;
        if times.is_finite() && most.as_ref().is_none_or(|(_, known)| times > *known) {
            let words = format!(
                "What a short look says need not hold for a long one: in these runs, on {} under {}, repeats range over {} in windows of {} \
                 (median), and over {} in those of {}.",
                row.file_system,
                row.workload,
                percent(row.median),
                seconds(row.window_s),
                percent(longest.median),
                seconds(longest.window_s)
            );
            most = Some((words, times));
        }
    }
    most.filter(|(_, times)| *times > 1.5).map(|(words, _)| words)
}

fn repetitions(report: &StudyReport) -> Option<String> {
    /// What one error takes.
    type Of = fn(&super::analysis::Variation) -> Option<super::analysis::RunsNeeded>;
    let all = report.variation.len();
    let needed = |of: Of, within: &str| {
        let judged: Vec<_> = report.variation.iter().filter_map(of).collect();
        let told: Vec<f64> = judged
            .iter()
            .filter(|needed| needed.runs.is_some() || needed.more_than_10000)
            .map(|needed| needed.runs.map_or(f64::MAX, |runs| runs as f64))
            .collect();
        let median = stats::median(&told)?;
        let many = match median > stats::repetitions::MOST_RUNS as f64 {
            true => "more than 10,000".to_owned(),
            false => number(median.round()),
        };
        Some(format!("within {within}, {many} runs by the median ({} of {all})", told.len()))
    };
    report.variation.iter().find_map(|row| row.runs_for_1_percent)?;
    let said: Vec<String> =
        [needed(|row| row.runs_for_1_percent, "1 %"), needed(|row| row.runs_for_5_percent, "5 %")]
            .into_iter()
            .flatten()
            .collect();
    Some(match said.as_slice() {
        [] => format!(
            "How many runs it takes for a median within 1 % or 5 % cannot be said from these: that takes {} or more of a \
             configuration.",
            stats::repetitions::LEAST_TO_TELL
        ),
        said => format!(
            "For a median {}, of the configurations and workloads of which it can be said.",
            said.join("; ")
        ),
    })
}

fn steadiness(report: &StudyReport) -> Option<String> {
    let sum = |of: fn(&super::analysis::Steadiness) -> usize| report.steadiness.iter().map(of).sum::<usize>();
    let runs = sum(|row| row.runs);
    if runs == 0 {
        return None;
    }
    let share = |count: usize| percent(count as f64 / runs as f64);
    let warm: Vec<f64> = report.steadiness.iter().filter_map(|row| row.warm_up_s).collect();
    let for_s = stats::median(&warm)
        .map_or_else(String::new, |time| format!(", for {} by the median", seconds(time)));
    let claims = |claim: Claim| report.claims.contains(&claim);
    let passes = format!("as up to {} of steady ones do too", percent(STEADY_THAT_PASS));
    let change = match claims(Claim::LevelsChange) {
        true => "change their level of throughput".to_owned(),
        false => format!("look as if they changed their level of throughput, {passes}"),
    };
    let warm_up = match claims(Claim::WarmUp) {
        true => format!("{} warm up{for_s}", share(sum(|row| row.runs_that_warm_up))),
        false => format!("{} look as if they warmed up", share(sum(|row| row.runs_that_warm_up))),
    };
    let late = match claims(Claim::LevelsChange) {
        true => "are not steady before their second half",
        false => "look as if they were not steady before their second half",
    };
    let alike = share(sum(|row| row.runs_serially_correlated));
    let windows = match claims(Claim::WindowsAlike) {
        true => format!("In {alike}, windows resemble their neighbours."),
        false => format!("That windows resemble their neighbours is not found ({alike} look so)."),
    };
    Some(format!(
        "{} of the runs {change}; {warm_up}, and {} {late}. {windows}",
        share(sum(|row| row.runs_that_change)),
        share(sum(|row| row.runs_never_steady)),
    ))
}

fn outliers(report: &StudyReport) -> Option<String> {
    let (all, odd) =
        (report.outliers.len(), report.outliers.iter().filter(|run| !run.odd_conditions.is_empty()).count());
    (all > 0).then(|| {
        format!(
            "{all} of {} runs lie apart from their repeats, farther than normal noise would take any. During {odd} of them, a \
             condition of the machine was far from its usual, as one of many conditions is during other runs too.",
            report.study.runs_done
        )
    })
}

fn left_out(report: &StudyReport) -> Option<String> {
    let skipped = report.study.runs_skipped;
    let (failed, planned) = (report.study.runs_failed, report.study.runs_planned);
    (skipped + failed + planned > 0).then(|| {
        let parts = [
            (skipped, "were skipped, since mkfs or mount failed"),
            (failed, "failed"),
            (planned, "are still to come"),
        ];
        let said =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        format!("Of all runs, {}.", said.collect::<Vec<_>>().join(", "))
    })
}
