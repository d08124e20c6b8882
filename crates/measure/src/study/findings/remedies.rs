//! What is said of remedies.

use crate::report::format::{number_short, percent};
use crate::study::analysis::remedies::remedy_names;
use crate::study::analysis::{CaseStudy, RemedyEffect};
use crate::study::report::StudyReport;

/// Which sets bring repeats closer together.
pub(super) fn remedies(report: &StudyReport) -> Option<String> {
    let effects = &report.remedy_effects;
    let judged = effects.first()?;
    let ratio = |effect: &&RemedyEffect| effect.rsd_ratio.unwrap_or(f64::INFINITY);
    let mut found: Vec<&RemedyEffect> = effects.iter().filter(|effect| effect.found).collect();
    found.sort_by(|one, other| ratio(one).total_cmp(&ratio(other)));
    let [best, others @ ..] = found.as_slice() else {
        return Some(format!(
            "That remedies bring repeats closer together is not found, of {} by up to {} pairs of runs.",
            crate::report::format::counted(effects.len() as u64, "set"),
            effects.iter().map(|effect| effect.pairs).max().unwrap_or(judged.pairs)
        ));
    };
    let others: Vec<String> = others.iter().map(|effect| in_words(effect)).collect();
    let others = match others.as_slice() {
        [] => String::new(),
        names => format!(" So do {}.", names.join("; ")),
    };
    let widest = report.case_studies.iter().filter_map(|case| ranges(case, &best.remedies));
    let widest =
        widest.max_by(|one, other| one.0.total_cmp(&other.0)).map_or_else(String::new, |(_, words)| words);
    Some(format!(
        "Repeats come closer together with {}: the RSD is {} of that without, over {} pairs of runs{widest}.{others}",
        in_words(best),
        best.rsd_ratio.map_or_else(|| "a part".to_owned(), percent_or_times),
        best.pairs
    ))
}

fn percent_or_times(ratio: f64) -> String {
    if ratio < 1.0 { percent(ratio) } else { format!("{} times", number_short(ratio)) }
}

fn in_words(effect: &RemedyEffect) -> String {
    effect.remedies.replace('+', " and ")
}

/// The range of a case without remedies, and that with the range with these.
fn ranges(case: &CaseStudy, remedies: &str) -> Option<(f64, String)> {
    let without = case.boxes.iter().find(|one| remedy_names(&one.remedies).next().is_none())?;
    let with = case.boxes.iter().find(|one| one.remedies == remedies)?;
    let (before, after) = (without.relative_range?, with.relative_range?);
    let words = format!(
        " (of {} under {}, they range over {} instead of {})",
        case.configuration,
        case.workload,
        percent(after),
        percent(before)
    );
    Some((before, words))
}
