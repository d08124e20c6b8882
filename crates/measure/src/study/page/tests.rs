//! The page of studies of any kind.

use super::study_page;
use crate::report::HOSTILE;
use crate::study::data::{Configuration, Run, State, Study, Window};
use crate::study::report::{analyse, set_window};

/// A study of two configurations of each of two file systems, with this text wherever a text may be.
fn study(text: &str) -> Study {
    let configuration = |number: usize| Configuration {
        label: format!("{text}-{number}"),
        settings: vec![
            ("file_system".to_owned(), format!("{text}{}", number % 2)),
            (text.to_owned(), (number % 2).to_string()),
            ("remedies".to_owned(), if number < 2 { "none" } else { "unmount" }.to_owned()),
        ],
    };
    let mut runs = Vec::new();
    for repeat in 0..8_u32 {
        for configuration in 0..4_usize {
            let rate = 100.0 + f64::from(repeat * repeat) * (configuration + 1) as f64;
            let windows = (0..30_u32).map(|at| Window {
                start_s: f64::from(at),
                length_s: 1.0,
                operations: (rate + f64::from(at % 7)) as u64,
            });
            runs.push(Run {
                configuration,
                workload: text.to_owned(),
                repeat: repeat.into(),
                place: i64::from(repeat) * 4 + configuration as i64,
                state: if repeat == 7 { State::Failed } else { State::Done },
                operations_per_s: Some(rate),
                message: Some(text.to_owned()),
                started_at: Some(text.to_owned()),
                conditions: vec![(text.to_owned(), f64::from(repeat))],
                windows: windows.collect(),
                ..Run::default()
            });
        }
    }
    Study {
        name: text.to_owned(),
        interval_s: 1.0,
        created_at: text.to_owned(),
        evenkeel_version: text.to_owned(),
        configurations: (0..4).map(configuration).collect(),
        runs,
        ..Study::default()
    }
}

fn sound(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert!(!page.contains("NaN") && !page.contains(">inf"), "a figure is no number");
    assert!(!page.contains("\"#0100") && !page.contains("2147483647"), "a chart is broken");
    for reference in ["http://", "https://", "src=\"", "@import", "url("] {
        assert!(!page.contains(reference), "{reference}");
    }
}

#[test]
fn the_page_has_the_figures_that_there_are_data_for_and_refers_to_nothing() {
    let page = study_page(&analyse(&study("words")));
    sound(&page);
    for heading in ["Figure 1", "Figure 2", "Figure 3", "Figure 5", "Figure 6", "Figure 7", "What it says"] {
        assert!(page.contains(heading), "{heading}");
    }
    for heading in ["Figure 4:", "Figure 8:", "Figure 9:"] {
        assert!(!page.contains(heading), "{heading}");
    }
    assert!(page.contains("Runs without figures") && page.contains("4 failed"));
}

#[test]
fn nothing_from_a_study_becomes_markup() {
    let page = study_page(&analyse(&study(HOSTILE)));
    sound(&page);
    assert!(!page.contains("<script>alert") && !page.contains("<img"), "markup came through");
    assert!(page.contains("&lt;script&gt;alert"));
}

#[test]
fn a_study_without_runs_is_a_page_too() {
    let page = study_page(&analyse(&Study { interval_s: 1.0, ..study("words").clone() }));
    sound(&page);
    let none = Study { runs: Vec::new(), ..study("words") };
    let page = study_page(&analyse(&none));
    sound(&page);
    assert!(page.contains("No run has figures yet"));
}

#[test]
fn a_busy_machine_and_a_study_too_small_are_said_before_anything_else() {
    let mut study = study("words");
    for run in &mut study.runs {
        run.conditions = vec![("foreign_cpu_share".to_owned(), 0.40 + 0.02 * (run.repeat % 3) as f64)];
    }
    let report = analyse(&study);
    assert_eq!(report.findings[0].about, "busy");
    let said = "The machine was busy: other programs took 42 % of the processors by the median of the runs, and up to 44 %.";
    assert!(report.findings[0].words.starts_with(said), "{:?}", report.findings[0]);
    let shown = study_page(&report);
    assert!(shown.contains("<h1>The machine was busy</h1>"));
    let first = |words: &str| shown.find(words).unwrap_or_else(|| panic!("no {words}"));
    assert!(first(said) < first("In these runs, the throughput of"));

    study.runs.retain(|run| run.repeat < 3);
    let report = analyse(&study);
    let about: Vec<&str> = report.findings.iter().take(2).map(|finding| finding.about).collect();
    assert_eq!(about, ["too_small", "busy"]);
    assert!(study_page(&report).contains("<h1>Too small to conclude from</h1>"));

    for run in &mut study.runs {
        run.conditions = vec![("foreign_cpu_share".to_owned(), 0.01)];
    }
    assert!(analyse(&study).findings.iter().all(|finding| finding.about != "busy"));
}

/// The part of a page under a heading.
fn under<'a>(page: &'a str, heading: &str) -> &'a str {
    let from = page.find(heading).unwrap_or_else(|| panic!("no {heading}"));
    let rest = &page[from..];
    &rest[..rest.find("<h2 class=\"of\">").unwrap_or(rest.len())]
}

#[test]
fn file_systems_are_told_apart_by_device_where_there_are_several() {
    let mut two = study("ext4");
    for (number, configuration) in two.configurations.iter_mut().enumerate() {
        let device = if number < 2 { "loop" } else { "/dev/sdb" };
        configuration.settings = vec![
            ("file_system".to_owned(), if number % 2 == 0 { "xfs" } else { "ext4" }.to_owned()),
            ("device".to_owned(), device.to_owned()),
        ];
    }
    let report = study_page(&analyse(&two));
    for figure in ["Figure 1: ", "Figure 6: "] {
        let shown = under(&report, figure);
        for name in ["xfs on loop", "xfs on sdb", "ext4 on loop", "ext4 on sdb"] {
            assert!(shown.contains(name), "{figure}{name}");
        }
    }
    for configuration in &mut two.configurations {
        configuration.settings.pop();
    }
    assert!(!study_page(&analyse(&two)).contains(" on sdb"));
}

#[test]
fn throughput_over_time_has_the_windows_that_are_asked_for() {
    let study = study("ext4");
    let mut report = analyse(&study);
    assert_eq!((report.bands[0].window_s, report.bands[0].points.len()), (1.0, 30));
    set_window(&mut report, &study, 10.0).unwrap();
    assert_eq!((report.bands[0].window_s, report.bands[0].points.len()), (10.0, 3));
    let mean = |points: &[crate::study::analysis::BandPoint]| points[0].mean_operations_per_s;
    let of_ten = mean(&report.bands[0].points);
    assert!(under(&study_page(&report), "Figure 5: ").contains("in windows of 10 s"));
    // Whatever is asked for, a window is a part of the run.
    set_window(&mut report, &study, 1e9).unwrap();
    assert_eq!((report.bands[0].window_s, report.bands[0].points.len()), (30.0, 1));
    assert!((mean(&report.bands[0].points) - of_ten).abs() < 5.0);
    let said = set_window(&mut report, &study, 0.5).unwrap_err();
    assert_eq!(said, "windows of 500 ms: throughput was kept for each 1 s, name as much at least");
}

#[test]
fn an_operation_looks_the_same_under_every_workload() {
    let mut study = study("ext4");
    let steps = || crate::stats::Steps::of_counts((1..500).map(|at| (f64::from(at) * 1e-6, 1)));
    let latency = |operation: &str| crate::study::data::Latency {
        operation: operation.to_owned(),
        operations: 499,
        mean_s: 250e-6,
        steps: steps(),
    };
    for run in &mut study.runs {
        run.latencies = ["append", "open", "read"].map(latency).into();
    }
    let others: Vec<Run> = study
        .runs
        .iter()
        .map(|run| Run {
            workload: "web".to_owned(),
            latencies: ["open", "read"].map(latency).into(),
            ..run.clone()
        })
        .collect();
    study.runs.extend(others);
    let report = study_page(&analyse(&study));
    let figure = under(&report, "Figure 8: ");
    // What stands before each name in a legend.
    let swatches = |name: &str| -> Vec<&str> {
        let end = format!("<span>{name}</span>");
        let parts: Vec<&str> = figure.split(&end).collect();
        parts[..parts.len() - 1].iter().map(|part| &part[part.rfind("<li>").unwrap()..]).collect()
    };
    let (open, read) = (swatches("open"), swatches("read"));
    assert_eq!((open.len(), read.len()), (2, 2));
    assert!(open[0] == open[1] && read[0] == read[1] && open[0] != read[0]);
}
