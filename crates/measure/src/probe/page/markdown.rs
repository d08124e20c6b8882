//! The points of a probe as Markdown, rounded as on the page.

use crate::probe::report::{Point, ProbeReport};
use crate::report::format::{self, NOT_AVAILABLE};
use crate::report::markdown::table;

/// The points of a probe.
pub(super) fn points(report: &ProbeReport) -> String {
    let or_not = |value: Option<f64>| value.map_or_else(|| NOT_AVAILABLE.to_owned(), format::seconds);
    let row = |point: &Point| {
        let (throughput, latency) = (&point.throughput_bytes_per_s, &point.latency_s);
        vec![
            format::bytes(point.buffer_bytes),
            format::rate(throughput.mean),
            format::interval(throughput.mean, throughput.ci95),
            format::number(point.writes_per_s()),
            format::seconds(latency.mean),
            format::interval(latency.mean, latency.ci95),
            or_not(latency.p50),
            or_not(latency.p99),
            format::seconds(latency.max),
            format::count(u64::from(point.runs)),
        ]
    };
    let header = ["buffer", "throughput", "95 %", "writes/s", "latency", "95 %", "p50", "p99", "max", "runs"];
    table(&header, report.points.iter().map(row))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::sample;

    #[test]
    fn tables_of_every_sample_are_sound() {
        for report in sample::all() {
            crate::report::markdown::assert_sound(&points(&report), report.points.len());
        }
    }

    #[test]
    fn a_row_has_the_figures_of_the_page() {
        let table = points(&sample::disk());
        let row = table.lines().find(|line| line.starts_with("| 512 KiB |")).unwrap();
        let point = sample::disk().points.into_iter().find(|point| point.buffer_bytes == 512 << 10).unwrap();
        assert!(row.contains(&format!(" {} ", format::rate(point.throughput_bytes_per_s.mean))), "{row}");
        assert!(row.contains(&format!(" {} ", format::seconds(point.latency_s.p99.unwrap()))), "{row}");
    }
}
