//! `evenkeel compare`.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_measure::compare::{
    Comparison, Comparisons, PointComparison, SCHEMA as COMPARE_SCHEMA, compare, comparisons_csv,
};
use evenkeel_measure::probe::report::{ProbeReport, SCHEMA};
use evenkeel_measure::report::format;
use evenkeel_measure::report::html::{self, Verdict};

use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::outputs::{Outputs, is_same_file, write_whole};
use crate::stdout::say;
use crate::table;

/// Compares every further probe with the first, prints the verdicts, writes what was asked for.
pub(crate) fn run(args: &CompareArgs) -> Result<(), Failure> {
    let outputs = match &args.out {
        Some(folder) => Some(Outputs::choose("compare", Some(folder), args.force)?),
        None => None,
    };
    if let Some(page) = args.html.as_ref().filter(|page| page.exists() && !args.force) {
        return Err(Failure::about(
            page,
            "it exists; name another file with --html, or replace it with --force",
        ));
    }
    let mut paths = vec![args.base.clone()];
    paths.extend(args.others.iter().cloned());
    if let Some(page) = args.html.as_ref().filter(|page| paths.iter().any(|path| is_same_file(path, page))) {
        return Err(Failure::about(
            page,
            "it is one of the probes to compare; name another file with --html",
        ));
    }
    let reports = paths.iter().map(|path| read(path)).collect::<Result<Vec<_>, _>>()?;
    let labels = labels(&paths);

    let mut comparisons = Vec::new();
    for (place, other) in reports.iter().enumerate().skip(1) {
        let compared = compare((&labels[0], &reports[0]), (&labels[place], other), args.common_sizes)
            .map_err(|unlike| Failure::about(&paths[place], format!("cannot be compared: {unlike}")))?;
        say(&comparison_text(&compared))?;
        comparisons.push(compared);
    }

    let labelled: Vec<(String, &ProbeReport)> = labels.into_iter().zip(&reports).collect();
    let page = || html::comparison_page(&labelled, &comparisons.iter().map(verdict).collect::<Vec<_>>());
    if let Some(path) = &args.html {
        write_whole(path, &page())?;
        say(&format!("Wrote {}.\n", path.display()))?;
    }
    if let Some(outputs) = outputs {
        let unwritable =
            |error: &dyn std::fmt::Display| Failure::Unusable(format!("cannot write the results: {error}"));
        let page = page();
        let all = Comparisons { schema: COMPARE_SCHEMA.to_owned(), comparisons };
        let json = serde_json::to_string_pretty(&all).map_err(|error| unwritable(&error))?;
        let csv = comparisons_csv(&all).map_err(|error| unwritable(&error))?;
        let written = outputs.write(&(json + "\n"), &csv, &page)?;
        let names = written.map(|path| path.display().to_string()).join(", ");
        say(&format!(
            "Wrote {names}.
"
        ))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<ProbeReport, Failure> {
    let text = fs::read_to_string(path).map_err(|error| {
        Failure::about(path, format!("{error}; name a probe.json that `evenkeel probe` wrote"))
    })?;
    let unreadable = |error: serde_json::Error| {
        Failure::about(path, format!("not a probe.json ({error}); make one with `evenkeel probe`"))
    };
    let value: serde_json::Value = serde_json::from_str(&text).map_err(unreadable)?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => serde_json::from_value(value).map_err(unreadable),
        Some(other) => Err(Failure::about(
            path,
            format!("its schema is {other:?}, and {SCHEMA:?} is needed; probe again with this version"),
        )),
        None => {
            Err(Failure::about(path, "not a probe.json: it names no schema; make one with `evenkeel probe`"))
        }
    }
}

/// What to call each probe: the last folder or file name that tells all of them apart, else the whole path.
fn labels(paths: &[PathBuf]) -> Vec<String> {
    let folder = |path: &PathBuf| path.parent()?.file_name().map(|name| name.to_string_lossy().into_owned());
    let stem = |path: &PathBuf| path.file_stem().map(|name| name.to_string_lossy().into_owned());
    let distinct = |names: Vec<Option<String>>| -> Option<Vec<String>> {
        let names = names.into_iter().collect::<Option<Vec<_>>>()?;
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        (sorted.len() == names.len()).then_some(names)
    };
    distinct(paths.iter().map(folder).collect())
        .or_else(|| distinct(paths.iter().map(stem).collect()))
        .unwrap_or_else(|| paths.iter().map(|path| path.display().to_string()).collect())
}

fn comparison_text(comparison: &Comparison) -> String {
    let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), p_value);
    let rows: Vec<_> = comparison
        .points
        .iter()
        .map(|point| {
            [
                format::bytes(point.buffer_bytes),
                format::rate(point.a_throughput_bytes_per_s),
                format::rate(point.b_throughput_bytes_per_s),
                or_dash(point.welch_p_holm),
                or_dash(point.mann_whitney_p_holm),
                point.words.clone(),
            ]
        })
        .collect();
    let header = ["buffer", comparison.a.as_str(), comparison.b.as_str(), "p (Welch)", "p (rank)", "verdict"];
    format!("{}\nOverall: {}.\n\n", table::lay_out_with_text(header, &rows), comparison.overall)
}

fn p_value(p: f64) -> String {
    if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
}

fn verdict(comparison: &Comparison) -> Verdict {
    let line = |point: &PointComparison| format!("{}: {}", format::bytes(point.buffer_bytes), point.words);
    Verdict {
        heading: format!("{} against {}: {}", comparison.b, comparison.a, comparison.overall),
        lines: comparison.points.iter().map(line).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_are_called_by_what_tells_them_apart() {
        let of = |paths: &[&str]| labels(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
        assert_eq!(of(&["xfs/probe.json", "ext4/probe.json"]), ["xfs", "ext4"]);
        assert_eq!(of(&["probe.json", "probe-2.json"]), ["probe", "probe-2"]);
        assert_eq!(of(&["a/x/probe.json", "b/x/probe.json"]), ["a/x/probe.json", "b/x/probe.json"]);
    }
}
