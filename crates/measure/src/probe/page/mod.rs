//! The page of a probe, and the parts of it that a comparison shows too.

pub(crate) mod charts;
mod extras;
mod figure;
mod markdown;
mod numbers;
mod plot;
mod soak;
pub(crate) mod spread;
pub(crate) mod words;

use maud::html;

use super::report::ProbeReport;
use crate::report::format;
use crate::report::page::page;

pub use soak::soak_page;

/// A probe with the name to call it by.
pub(crate) type Labelled<'a> = (String, &'a ProbeReport);

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
        (charts::charts(report))
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
    page(&title, content, words::provenance(report))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sample;
    use crate::report::page::assert_sound;

    #[test]
    fn pages_of_every_sample_are_whole_small_and_refer_to_nothing() {
        for report in sample::all() {
            assert_sound(&probe_page(&report));
        }
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
            "201 MB/s to 216 MB/s",
        ] {
            assert!(page.contains(part), "{part}");
        }
        for warning in &report.warnings {
            assert!(page.contains(&warning.message), "{}", warning.message);
        }
        assert!(page.contains("other processes wrote 38 MiB to the device"));
    }

    #[test]
    fn nothing_from_the_machine_becomes_markup() {
        let report = sample::hostile();
        let page = probe_page(&report);
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "markup came through");
        assert!(page.contains("&lt;script&gt;alert"));
        // The page's own and only script.
        assert!(page.matches("<script>").count() <= 1);
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
}
