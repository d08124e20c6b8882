//! What a study says, in sentences.

use schemars::JsonSchema;
use serde::Serialize;

use super::analysis::remedies::remedy_names;
use super::analysis::{CaseStudy, Explained, Explanation, Figure, RemedyBox};
use super::report::StudyReport;
use crate::report::format::{bytes_f64, number, number_short, percent, seconds};
use crate::stats;

/// A coefficient from which on the paper calls a correlation strong.
pub const STRONG: f64 = 0.7;
/// The chance below which the order of execution is said to show.
const LEVEL: f64 = 0.05;

/// A condition that goes with less than this share of the variance of ranks is not worth a word.
const CONDITION_SHARE_MIN: f64 = 0.05;

/// One thing that the study says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Finding {
    /// What it is about: `variation`, `parameter`, `throughput`, `remedies`, `operation`, `windows`, `repetitions`,
    /// `steadiness`, `outliers`, `conditions`, `order` or `left_out`.
    pub about: &'static str,
    /// A sentence or two.
    pub words: String,
}

/// Everything there is to say.
pub(super) fn findings(report: &StudyReport) -> Vec<Finding> {
    let parts: [(&'static str, Option<String>); 12] = [
        ("variation", variation(report)),
        ("parameter", parameter(report)),
        ("remedies", remedies(report)),
        ("operation", operation(report)),
        ("throughput", throughput(report)),
        ("windows", windows(report)),
        ("repetitions", repetitions(report)),
        ("steadiness", steadiness(report)),
        ("outliers", outliers(report)),
        ("conditions", conditions(report)),
        ("order", order(report)),
        ("left_out", left_out(report)),
    ];
    let said = parts.into_iter().filter_map(|(about, words)| Some(Finding { about, words: words? }));
    said.collect()
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
            "The throughput of {} ranges over {} between repeats",
            most.file_system,
            percent(most.median)
        ),
        _ => {
            let others: Vec<String> =
                each[1..].iter().map(|one| format!("{} {}", one.file_system, percent(one.median))).collect();
            let others = others.join(", ");
            format!(
                "{} varies most: its throughput ranges over {} between repeats ({others})",
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
            "Which parameter to change against variation cannot be told from {} configurations.",
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
    let repeats = explained.between_repeats.map_or_else(String::new, |share| {
        format!(" Repeats of the same configuration make {} of the variance.", percent(share))
    });
    Some(match best {
        None => format!("No parameter is found that explains how fast a configuration is.{repeats}"),
        Some(best) => {
            let faster = outermost(best).map_or_else(String::new, |(fast, slow, times)| {
                format!("; {fast} is {} times as fast as {slow}", number_short(times))
            });
            format!(
                "How fast a configuration is depends most on {}, which explains {}{} of the variance of throughput{faster}.{repeats}",
                best.name(),
                percent(best.share.unwrap_or(0.0)),
                interval(best.ci95)
            )
        }
    })
}

fn remedies(report: &StudyReport) -> Option<String> {
    let said: Vec<String> = report.case_studies.iter().filter_map(one_remedy).collect();
    (!said.is_empty()).then(|| said.join(" "))
}

fn one_remedy(case: &CaseStudy) -> Option<String> {
    let range = |one: &RemedyBox| one.relative_range;
    let without = case.boxes.iter().find(|one| remedy_names(&one.remedies).next().is_none())?;
    let with = case.boxes.iter().filter(|one| one.remedies != without.remedies && range(one).is_some());
    let best = with.min_by(|one, other| range(one).unwrap_or(0.0).total_cmp(&range(other).unwrap_or(0.0)))?;
    let (before, after) = (range(without)?, range(best)?);
    // The intervals of the deviations say whether that may be chance; ranges have none.
    let apart = match (without.rsd_ci95, best.rsd_ci95) {
        (Some(one), Some(other)) if one[0] > other[1] => "",
        (Some(_), Some(_)) => ", which may be chance: the intervals of their deviations overlap",
        _ => ", of too few runs to tell from chance",
    };
    Some(match after < before {
        true => format!(
            "Of {} under {}, {} bring the range of throughput from {} to {}{apart}.",
            case.configuration,
            case.workload,
            best.remedies.replace('+', " and "),
            percent(before),
            percent(after)
        ),
        false => format!(
            "Of {} under {}, no remedy narrows the range of throughput, {} without any.",
            case.configuration,
            case.workload,
            percent(before)
        ),
    })
}

fn operation(report: &StudyReport) -> Option<String> {
    let rows = &report.operation_correlations;
    let is_sure = |row: &&super::analysis::OperationCorrelation| {
        row.coefficient >= STRONG && row.ci95.is_some_and(|[low, _]| low > 0.0)
    };
    let best = rows.iter().filter(is_sure).max_by(|one, other| {
        let low = |row: &super::analysis::OperationCorrelation| row.ci95.map_or(-1.0, |ends| ends[0]);
        low(one).total_cmp(&low(other))
    });
    let Some(best) = best else {
        let most = rows.iter().map(|row| row.configurations).max()?;
        return Some(format!(
            "For no operation does the range of its latency go with the range of throughput surely ({STRONG} or more, the \
             interval above 0), among up to {most} configurations of a file system."
        ));
    };
    let sure = rows.iter().filter(is_sure).count();
    Some(format!(
        "On {} under {}, the range of throughput goes with that of the latency of {}: r = {} over {} configurations{}; so \
         surely for {sure} of {} operations, workloads and file systems.",
        best.file_system,
        best.workload,
        best.operation,
        number_short(best.coefficient),
        best.configurations,
        best.ci95.map_or_else(String::new, |[low, high]| format!(
            " (95 % interval {} to {})",
            number_short(low),
            number_short(high)
        )),
        rows.len()
    ))
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
                "What a short look says need not hold for a long one: on {} under {}, repeats range over {} in windows of {} \
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
    let needed = |of: fn(&super::analysis::Variation) -> Option<super::analysis::RunsNeeded>| {
        let many: Vec<f64> = report
            .variation
            .iter()
            .filter_map(of)
            .map(|needed| needed.runs.map_or(f64::MAX, |runs| runs as f64))
            .collect();
        let median = stats::median(&many)?;
        Some(if median > stats::repetitions::MOST_RUNS as f64 {
            "more than 10,000".to_owned()
        } else {
            format!("at least {}", number(median.round()))
        })
    };
    Some(format!(
        "For a median within 1 %, half of the configurations and workloads need {} runs; within 5 %, {}.",
        needed(|row| row.runs_for_1_percent)?,
        needed(|row| row.runs_for_5_percent)?
    ))
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
    Some(format!(
        "{} of the runs change their level of throughput: {} warm up{for_s}, and {} are not steady before their second half. \
         In {}, windows resemble their neighbours.",
        share(sum(|row| row.runs_that_change)),
        share(sum(|row| row.runs_that_warm_up)),
        share(sum(|row| row.runs_never_steady)),
        share(sum(|row| row.runs_serially_correlated))
    ))
}

fn outliers(report: &StudyReport) -> Option<String> {
    let (all, odd) =
        (report.outliers.len(), report.outliers.iter().filter(|run| !run.odd_conditions.is_empty()).count());
    let by_chance = number_short(report.variation.iter().filter(|row| row.runs > 5).count() as f64 / 100.0);
    (all > 0).then(|| {
        format!(
            "{all} of {} runs do not belong to their repeats ({by_chance} would by chance); in {odd} of them the machine was \
             unlike itself.",
            report.study.runs_done
        )
    })
}

/// A condition in the unit that its name ends in.
pub(super) fn condition(name: &str, value: f64) -> String {
    match name.rsplit('_').next() {
        Some("bytes") => bytes_f64(value),
        Some("share") => percent(value),
        Some("s") => seconds(value),
        Some("hz") => format!("{} GHz", number(value / 1e9)),
        Some("c") => format!("{} °C", number(value)),
        _ => number(value),
    }
}

fn conditions(report: &StudyReport) -> Option<String> {
    let most = report.condition_correlations.first()?;
    let [low, high] = most.ci95?;
    let is_sure = low * high > 0.0 && most.coefficient.powi(2) >= CONDITION_SHARE_MIN;
    let interval = format!("95 % interval {} to {}", number_short(low), number_short(high));
    Some(match is_sure {
        true => format!(
            "What else the machine did matters: runs with more {} than their repeats are {} (rank correlation {}, {interval}, \
             over {} runs; it was {} by the median, from {} to {}).",
            most.condition,
            if most.coefficient < 0.0 { "slower" } else { "faster" },
            number_short(most.coefficient),
            most.runs,
            condition(&most.condition, most.median),
            condition(&most.condition, most.least),
            condition(&most.condition, most.most)
        ),
        false => format!(
            "Nothing that is known of the machine goes with the throughput of its runs; the nearest is {} (rank correlation {}, \
             {interval}).",
            most.condition,
            number_short(most.coefficient)
        ),
    })
}

fn order(report: &StudyReport) -> Option<String> {
    let order = report.order.as_ref()?;
    let how = format!(
        "correlation of neighbours {}, p = {}",
        number_short(order.of_neighbours),
        number(order.p_two_sided)
    );
    Some(match (order.p_two_sided < LEVEL, order.of_neighbours > 0.0) {
        (true, true) => format!(
            "The order of execution shows: runs resemble the ones before them, whatever was run ({how}). It was shuffled, so no \
             configuration gains by it, but repeats are less independent than the intervals take them for."
        ),
        (true, false) => format!(
            "The order of execution shows: runs differ from the ones before them more than chance would have it ({how})."
        ),
        (false, _) => format!("The order of execution does not show ({how})."),
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
