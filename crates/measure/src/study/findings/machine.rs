//! What is said of the machine: whether it was busy, what of it goes with throughput, where the data lie, and the order.

use crate::report::format::{bytes_f64, number, number_short, percent, seconds};
use crate::study::analysis::ConditionCorrelation;
use crate::study::analysis::conditions::DATA_PLACE;
use crate::study::report::StudyReport;

/// A machine of which others take this share of the processors by the median was not the study's own.
const BUSY_SHARE: f64 = 0.05;

/// A condition in the unit that its name ends in.
pub(in crate::study) fn condition(name: &str, value: f64) -> String {
    match name.rsplit('_').next() {
        Some("bytes") => bytes_f64(value),
        Some("share") => percent(value),
        Some("s") => seconds(value),
        Some("hz") => format!("{} GHz", number(value / 1e9)),
        Some("c") => format!("{} °C", number(value)),
        _ => number(value),
    }
}

/// A warning where others had a good part of the machine.
pub(super) fn busy(report: &StudyReport) -> Option<String> {
    let taken = |name: &str, who: &str| {
        let row = report.taken_by_others.iter().find(|row| row.condition == name)?;
        (row.median >= BUSY_SHARE).then(|| {
            format!(
                "{who} took {} of the processors by the median of the runs, and up to {}",
                percent(row.median),
                percent(row.most)
            )
        })
    };
    let said: Vec<String> =
        [taken("foreign_cpu_share", "other programs"), taken("steal_share", "other virtual machines")]
            .into_iter()
            .flatten()
            .collect();
    (!said.is_empty()).then(|| {
        format!(
            "The machine was busy: {}. What follows is as much about them; repeat it on a machine to itself.",
            said.join("; ")
        )
    })
}

/// Runs with more of it than their repeats over those with less.
fn by_how_much(row: &ConditionCorrelation) -> String {
    let share = |ratio: f64| {
        let much = percent((ratio - 1.0).abs());
        if ratio < 1.0 { format!("{much} slower") } else { format!("{much} faster") }
    };
    row.more_over_less.map_or_else(String::new, share)
}

/// What says so.
fn how_surely(row: &ConditionCorrelation) -> String {
    let how = if row.between_repeats.is_some() { "between repeats" } else { "from run to run" };
    format!("{how}, {} of -1 to 1", number_short(row.judged_by().unwrap_or(0.0)))
}

/// Whether it matters where a data set lies.
pub(super) fn placement(report: &StudyReport) -> Option<String> {
    let row = report.condition_correlations.iter().find(|row| row.condition == DATA_PLACE)?;
    Some(match row.found {
        true => format!(
            "Throughput depends on where the data lie on the device: runs whose data lie farther up than those of their \
             repeats are {} by the median ({}; {} runs whose data move, from {} to {}). What lays the data out anew each \
             time, or always alike, decides how much repeats vary.",
            by_how_much(row),
            how_surely(row),
            row.runs,
            bytes_f64(row.least),
            bytes_f64(row.most)
        ),
        false => format!(
            "Data sets do not always lie at the same place of the device; that throughput follows is not found ({} runs).",
            row.runs
        ),
    })
}

/// Whether anything else that is known of the machine goes with throughput.
pub(super) fn conditions(report: &StudyReport) -> Option<String> {
    let mut rows = report.condition_correlations.iter().filter(|row| row.condition != DATA_PLACE);
    let most = rows.clone().next()?;
    let found: Vec<String> = rows
        .by_ref()
        .filter(|row| row.found)
        .map(|row| {
            let slower = row.judged_by().is_some_and(|found| found < 0.0);
            format!(
                "with more {} than their repeats are {} ({}; it was {} by the median, from {} to {})",
                row.condition,
                if slower { "slower" } else { "faster" },
                how_surely(row),
                condition(&row.condition, row.median),
                condition(&row.condition, row.least),
                condition(&row.condition, row.most)
            )
        })
        .collect();
    Some(match found.as_slice() {
        [] => format!(
            "Nothing that is known of the machine is found to go with the throughput of its runs; the nearest is {} (rank \
             correlation {}).",
            most.condition,
            number_short(most.coefficient)
        ),
        all => format!("What else the machine did matters: runs {}.", all.join("; runs ")),
    })
}

/// Whether the order of execution shows.
pub(super) fn order(report: &StudyReport) -> Option<String> {
    let order = report.order.as_ref()?;
    let how = format!(
        "correlation of neighbours {}, p = {}",
        number_short(order.of_neighbours),
        number(order.p_two_sided)
    );
    Some(match (order.found, order.of_neighbours > 0.0) {
        (true, true) => format!(
            "The order of execution shows: runs resemble the ones before them, whatever was run ({how}). It was shuffled, so no \
             configuration gains by it, but repeats are less independent than the intervals take them for."
        ),
        (true, false) => format!(
            "The order of execution shows: runs differ from the ones before them more than chance would have it ({how})."
        ),
        (false, _) => format!("That the order of execution shows is not found ({how})."),
    })
}
