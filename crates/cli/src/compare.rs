//! `evenkeel compare`.

use std::fs;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use evenkeel_measure::compare::page::comparison_page;
use evenkeel_measure::compare::{
    Comparison, Comparisons, Design, Judged, Options, PointComparison, Verdict, compare_sessions,
    comparisons_csv,
};
use evenkeel_measure::probe::report::{ProbeReport, SCHEMA};
use evenkeel_measure::report::format;

use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::outputs::{Outputs, is_same_file, write_whole};
use crate::stdout::{say, tell};
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

    let labelled: Vec<(String, &ProbeReport)> = labels.into_iter().zip(&reports).collect();
    let options = Options { common_sizes: args.common_sizes, drift: args.drift };
    let all = compare_sessions(&labelled, &options)
        .map_err(|unlike| Failure::about(&paths[unlike.place], format!("cannot be compared: {unlike}")))?;
    tell(&comparisons_text(&all))?;

    let page = || comparison_page(&labelled, &all);
    if let Some(path) = &args.html {
        write_whole(path, &page())?;
        say(&format!("Wrote {}.\n", path.display()))?;
    }
    if let Some(outputs) = outputs {
        let json = serde_json::to_string_pretty(&all).map_err(|error| unwritable(&error))?;
        let csv = comparisons_csv(&all).map_err(|error| unwritable(&error))?;
        let written = outputs.write(&(json + "\n"), &csv, &page())?;
        let names = written.map(|path| path.display().to_string()).join(", ");
        say(&format!("Wrote {names}.\n"))?;
    }
    judge(&all, args.fail_if_slower)
}

fn unwritable(error: &dyn std::fmt::Display) -> Failure {
    Failure::Unusable(format!("cannot write the results: {error}"))
}

/// Ends the command as `--fail-if-slower` wants it.
pub(crate) fn judge(all: &Comparisons, fail_if_slower: Option<f64>) -> Result<(), Failure> {
    let Some(share) = fail_if_slower else { return Ok(()) };
    match (all.slower_by(share), all.withheld()) {
        (Some(what), _) => Err(Failure::No(what)),
        (None, Some(why)) => Err(Failure::Unusable(format!("no verdict for --fail-if-slower: {why}"))),
        (None, None) => match all.untold() {
            None => Ok(()),
            Some((a, b)) => Err(Failure::Unusable(format!(
                "no verdict for --fail-if-slower: there are too few runs to tell whether {b} is slower than {a}: add --runs, \
                 and the --time for them"
            ))),
        },
    }
}

/// Results of weeks have some MB.
const RESULTS_MAX_BYTES: u64 = 256 << 20;

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(path)?.take(RESULTS_MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 <= RESULTS_MAX_BYTES {
        true => Ok(text),
        false => Err(io::Error::other("it is larger than any results")),
    }
}

fn read(path: &Path) -> Result<ProbeReport, Failure> {
    let text = read_bounded(path).map_err(|error| {
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

/// All comparisons as the terminal shows them.
pub(crate) fn comparisons_text(all: &Comparisons) -> String {
    let mut text: String = all.comparisons.iter().map(comparison_text).collect();
    let rate = format!("at most {}", format::percent(all.error_rate));
    text += &match (all.design, all.drift) {
        (Design::Pairs, _) => format!(
            "Pairs of alternating runs were judged. Where nothing differs, {rate} of such outputs claim anything.\n"
        ),
        (Design::Sessions, Some(drift)) if all.comparisons.iter().any(|found| found.drift.is_none()) => {
            format!(
                "Sessions were judged: those of which there is one on each side may differ by {} on one stack (--drift), others by \
             as much as repeated ones do. Where nothing differs by more, {rate} of such outputs claim anything. Sharper: \
             evenkeel probe A B.\n",
                format::percent(drift)
            )
        }
        (Design::Sessions, Some(drift)) => format!(
            "Sessions were judged, which may differ by {} on one stack (--drift). Where nothing differs by more, {rate} of \
             such outputs claim anything. Sharper: evenkeel probe A B.\n",
            format::percent(drift)
        ),
        (Design::Sessions, None) => format!(
            "Sessions were judged by how much repeated ones differ. Where nothing differs, {rate} of such outputs claim \
             anything.\n"
        ),
    };
    text
}

fn comparison_text(comparison: &Comparison) -> String {
    let row = |point: &PointComparison| {
        let p99 = point.p99.as_ref();
        [
            format::bytes(point.buffer_bytes),
            format::rate(point.a_throughput_bytes_per_s),
            format::rate(point.b_throughput_bytes_per_s),
            ratio(&point.throughput),
            interval(&point.throughput),
            verdict(&point.throughput).to_owned(),
            p99.map_or_else(dash, ratio),
            p99.map_or("-", verdict).to_owned(),
        ]
    };
    let mut rows: Vec<_> = comparison.points.iter().map(row).collect();
    let all = &comparison.throughout;
    let (none, all) = (String::new, [ratio(all), interval(all), verdict(all).to_owned()]);
    let [whole_ratio, whole_interval, whole_verdict] = all;
    rows.push(["all".to_owned(), none(), none(), whole_ratio, whole_interval, whole_verdict, none(), none()]);
    let header = ["buffer", "A", "B", "B / A", "interval", "B is", "p99", "B is"];
    format!(
        "A: {}, B: {}\n{}\nOverall: {}.\n\n",
        comparison.a,
        comparison.b,
        table::lay_out(header, &rows),
        comparison.overall
    )
}

fn dash() -> String {
    "-".to_owned()
}

fn ratio(judged: &Judged) -> String {
    if judged.ratio.is_finite() { format!("{:.2}", judged.ratio) } else { dash() }
}

fn interval(judged: &Judged) -> String {
    judged.interval.map_or_else(dash, |[low, high]| format!("{low:.2} to {high:.2}"))
}

fn verdict(judged: &Judged) -> &'static str {
    match judged.verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown => "-",
        Verdict::Withheld => "withheld",
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
