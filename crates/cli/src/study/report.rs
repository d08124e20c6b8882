//! `evenkeel study report`.

use std::path::{Path, PathBuf};

use evenkeel_measure::report::format;
use evenkeel_measure::study::data::{MACHINE, Study};
use evenkeel_measure::study::findings::Finding;
use evenkeel_measure::study::page::study_page;
use evenkeel_measure::study::report::{StudyReport, analyse, set_window};
use evenkeel_measure::study::store::DATABASE;
use evenkeel_measure::study::tables::tables;
use evenkeel_measure::{
    stats,
    study::read::{read, read_postgres},
};

use super::address;
use crate::args::StudyReportArgs;
use crate::failure::Failure;
use crate::outputs::write_whole;
use crate::stdout::{say, tell};
use crate::table::lay_out_with_text;

/// Reads a study, says what it found, and writes the report.
pub(crate) fn run(args: &StudyReportArgs) -> Result<(), Failure> {
    let (study, folder) = match (&args.db, &args.folder) {
        (Some(text), _) => {
            let address = address(text)?;
            let study =
                read_postgres(&address).map_err(|error| Failure::Unusable(format!("{address}: {error}")))?;
            (study, args.out.as_deref().unwrap_or(Path::new(".")))
        }
        (None, Some(folder)) => (of_folder(folder)?, args.out.as_deref().unwrap_or(folder)),
        (None, None) => return Err(Failure::Unusable("name the folder of a study, or --db".to_owned())),
    };
    let mut report = analyse(&study);
    if let Some(window_s) = args.window {
        set_window(&mut report, &study, window_s)
            .map_err(|what| Failure::Unusable(format!("--window: {what}")))?;
    }
    std::fs::create_dir_all(folder).map_err(|error| Failure::about(folder, error))?;
    tell(&summary(&report))?;
    let files = write(&report, folder)?;
    let [first, others @ ..] = &files[..] else { return Ok(()) };
    say(&format!("Wrote {} and {} more beside it.\n", first.display(), others.len()))
}

fn of_folder(folder: &Path) -> Result<Study, Failure> {
    let database = folder.join(DATABASE);
    if !database.is_file() {
        let what = "there is no study.db here; name the folder that `evenkeel study run --out` was given";
        return Err(Failure::about(folder, what));
    }
    read(&database).map_err(|error| Failure::about(&database, error))
}

/// All files, the page first.
fn write(report: &StudyReport, folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::Unusable(format!("cannot write the report: {error}"));
    let json = serde_json::to_string_pretty(report).map_err(|error| unwritable(&error))?;
    let mut files =
        vec![(folder.join("study.html"), study_page(report)), (folder.join("study.json"), json + "\n")];
    for table in tables(report) {
        let rows = table.csv().map_err(|error| unwritable(&error))?;
        files.push((folder.join(format!("study-{}.csv", table.name)), rows));
    }
    for (path, text) in &files {
        write_whole(path, text)?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

fn summary(report: &StudyReport) -> String {
    let study = &report.study;
    let counted = |many: usize, what| format::counted(many as u64, what);
    let mut text = format!(
        "{}: {}{}, {}, {}\n\n",
        study.name,
        counted(study.configurations.len(), "configuration"),
        if study.factors.iter().any(|factor| factor.name == MACHINE) {
            " (each machine's apart)"
        } else {
            ""
        },
        counted(study.workloads.len(), "workload"),
        counted(study.runs_done, "run")
    );
    // What there is to distrust comes before any figure.
    let (warnings, findings): (Vec<&Finding>, Vec<&Finding>) =
        report.findings.iter().partition(|finding| matches!(finding.about, "too_small" | "busy"));
    for warning in warnings {
        text += &warning.words;
        text += "\n\n";
    }
    let rows = by_file_system(report);
    if !rows.is_empty() {
        let header = ["configurations", "median", "RSD", "range", "widest", "file system and workload"];
        text += &lay_out_with_text(header, &rows);
        text += "\nmedian of throughput, RSD and range: medians over the configurations\n\n";
    }
    for finding in findings {
        text += &finding.words;
        text += "\n\n";
    }
    text
}

/// A row for each file system and workload.
fn by_file_system(report: &StudyReport) -> Vec<[String; 6]> {
    let mut rows = Vec::new();
    let mut names: Vec<&str> = report.variation.iter().map(|row| row.file_system.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        for workload in &report.study.workloads {
            let of_it: Vec<_> = report
                .variation
                .iter()
                .filter(|row| row.file_system == name && row.workload == *workload)
                .collect();
            let ranges: Vec<f64> = of_it.iter().filter_map(|row| row.relative_range).collect();
            let spreads: Vec<f64> = of_it.iter().filter_map(|row| row.rsd).collect();
            let rates: Vec<f64> = of_it.iter().map(|row| row.median_operations_per_s).collect();
            let percent = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), format::percent);
            if of_it.is_empty() {
                continue;
            }
            rows.push([
                of_it.len().to_string(),
                stats::median(&rates)
                    .map_or_else(|| "-".to_owned(), |rate| format!("{}/s", format::number(rate))),
                percent(stats::median(&spreads)),
                percent(stats::median(&ranges)),
                percent(ranges.iter().copied().reduce(f64::max)),
                format!("{name} {workload}"),
            ]);
        }
    }
    rows
}
