//! Pages: one probe, several beside each other, the papers' figures, or a study, as a single HTML file.
//!
//! A page refers to nothing outside itself and asks the browser to refuse it if it did; every text that
//! comes from the machine measured is escaped. It follows the reader's preference for light or dark, fits
//! narrow screens, and prints.

mod comparison;
mod extras;
mod gallery;
mod numbers;
mod shell;
mod soak;
mod spread;
mod study;
mod words;

use maud::html;

use crate::compare::Comparisons;
use crate::probe::report::ProbeReport;
use crate::probe::soak::SoakReport;
use crate::reproduce::Gallery;
use crate::study::report::StudyReport;

use super::format;

/// The page of one probe: recommendation, warnings, charts, numbers, and how to read them.
pub fn probe_page(report: &ProbeReport) -> String {
    let chosen = report.recommendation.as_ref().and_then(|recommendation| recommendation.buffer_bytes);
    let title = match chosen {
        Some(size) => format!("{} for {}", format::bytes(size), report.stack.path),
        None => report.stack.path.clone(),
    };
    let content = html! {
        (words::headline(report))
        (words::warnings(&report.warnings.iter().map(|warning| (None, warning)).collect::<Vec<_>>()))
        (shell::charts(report))
        (spread::spread(&[(report.stack.path.clone(), report)]))
        (numbers::points(report))
        div.pair {
            (words::stack(report))
            div {
                (words::model(report))
                (extras::batching(report))
            }
        }
        (extras::matrix(report))
        (extras::disturbed_runs(report))
        (words::how_to_read())
    };
    shell::page(&title, content, words::provenance(report))
}

/// The page of several probes on shared axes, one colour and marker a stack, with the verdicts on top.
pub fn comparison_page(reports: &[(String, &ProbeReport)], found: &Comparisons) -> String {
    comparison::page(reports, found)
}

/// The page of hours of writes.
pub fn soak_page(report: &SoakReport) -> String {
    soak::page(report)
}

/// The page of the papers' figures: every claim in one table, then each figure with its charts.
pub fn gallery_page(gallery: &Gallery) -> String {
    gallery::page(gallery)
}

/// The page of a study: what it says, the paper's figures, and the tables behind them.
pub fn study_page(report: &StudyReport) -> String {
    study::page(report)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_pairs;
    use crate::report::sample::{self, HOSTILE};

    fn compared(reports: &[ProbeReport]) -> String {
        let labelled: Vec<_> =
            reports.iter().enumerate().map(|(at, report)| (format!("stack {at}"), report)).collect();
        comparison_page(&labelled, &compare_pairs(&labelled))
    }

    fn sound(page: &str) {
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
        assert!(page.len() < 450_000, "{} bytes", page.len());
        assert!(!page.contains("NaN"), "a figure is no number");
        for reference in ["http://", "https://", "src=\"", "@import", "url("] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    #[test]
    fn pages_of_every_sample_are_whole_small_and_refer_to_nothing() {
        for report in sample::all() {
            sound(&probe_page(&report));
        }
        sound(&compared(&sample::all()));
        sound(&compared(&[]));
        sound(&compared(&vec![sample::disk(); 8]));
    }

    #[test]
    fn the_figures_of_every_point_are_on_the_page() {
        let report = sample::disk();
        let page = probe_page(&report);
        for point in &report.points {
            for figure in [
                format::bytes(point.buffer_bytes),
                format::rate(point.throughput_bytes_per_s.mean),
                format::seconds(point.latency_s.mean),
                format::interval(point.latency_s.mean, point.latency_s.ci95),
                format::seconds(point.latency_s.max),
                format::count(point.writes),
            ] {
                assert!(page.contains(&figure), "{figure} of {}", point.buffer_bytes);
            }
        }
        for part in [
            "over a written file, 512 KiB at a time",
            "7,245,861,122,908",
            "2026-01-31 12:00 UTC",
            "209.7 MB/s",
        ] {
            let part = part.replace("209.7", "210");
            assert!(page.contains(&part), "{part}");
        }
        for warning in &report.warnings {
            assert!(page.contains(&warning.message), "{}", warning.message);
        }
        assert!(page.contains("other processes wrote 38 MiB to the device"));
    }

    #[test]
    fn nothing_from_the_machine_becomes_markup() {
        let report = sample::hostile();
        let labelled = [(HOSTILE.to_owned(), &report), (HOSTILE.to_owned(), &report)];
        for page in [probe_page(&report), comparison_page(&labelled, &compare_pairs(&labelled))] {
            assert!(!page.contains("<script>alert") && !page.contains("<img"), "markup came through");
            assert!(page.contains("&lt;script&gt;alert"));
            // The page's own and only script.
            assert!(page.matches("<script>").count() <= 1);
        }
    }

    #[test]
    fn parts_that_were_not_measured_are_absent() {
        let page = probe_page(&sample::bare());
        for heading in ["Batching", "Methods and file states", "Disturbed runs"] {
            assert!(!page.contains(&format!("{heading}</h2>")), "{heading}");
        }
        assert!(page.contains("No buffer is recommended"));
        assert!(page.contains("Too little was measured"));
    }

    #[test]
    fn a_comparison_names_every_stack_and_shows_the_verdicts() {
        let page = compared(&[sample::disk(), sample::flash(), sample::network()]);
        for word in ["stack 0", "stack 1", "stack 2", "stack 1 against stack 0", "/mnt/flash", "128 KiB"] {
            assert!(page.contains(word), "{word}");
        }
    }
}
