//! Tables as Markdown, for a message or a document of one's own: rounded as on the page.

use super::format::{self, NOT_AVAILABLE};
use crate::compare::{Comparison, Judged, Verdict};
use crate::probe::report::{Point, ProbeReport};

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

/// The ratios of a comparison.
pub(super) fn ratios(comparison: &Comparison) -> String {
    let header = ["buffer", "throughput, ratio", "interval", "verdict", "p99, ratio", "interval", "verdict"];
    let judged = |judged: Option<&Judged>| match judged {
        None => ["-", "-", "-"].map(str::to_owned),
        Some(judged) => [
            format::number_short(judged.ratio),
            judged
                .interval
                .map_or_else(|| "-".to_owned(), |ends| ends.map(format::number_short).join(" to ")),
            verdict(judged.verdict).to_owned(),
        ],
    };
    let row = |name: String, throughput: &Judged, p99: Option<&Judged>| {
        [vec![name], judged(Some(throughput)).to_vec(), judged(p99).to_vec()].concat()
    };
    let points = comparison.points.iter();
    let rows =
        points.map(|point| row(format::bytes(point.buffer_bytes), &point.throughput, point.p99.as_ref()));
    let all = std::iter::once(row("all sizes".to_owned(), &comparison.throughout, None));
    let heading =
        format!("{} over {}: {}", cell(&comparison.b), cell(&comparison.a), cell(&comparison.overall));
    format!("{heading}\n\n{}", table(&header, all.chain(rows)))
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown => "no difference shown",
        Verdict::Withheld => "withheld",
    }
}

/// Right-aligned but for the first column.
fn table(header: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = line(&header.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    text += &format!("|---|{}\n", "---:|".repeat(header.len() - 1));
    for row in rows {
        text += &line(&row.iter().map(|text| cell(text)).collect::<Vec<_>>());
    }
    text
}

/// What can be in a cell: a bar or a new line would end it, and markup would become some.
fn cell(text: &str) -> String {
    text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;").replace(['\n', '\r'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_pairs;
    use crate::report::sample::{self, HOSTILE};

    fn sound(table: &str, rows: usize) {
        let lines: Vec<&str> = table.lines().filter(|line| line.starts_with('|')).collect();
        assert_eq!(lines.len(), rows + 2, "{table}");
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        assert!(lines.iter().all(|line| cells(line) == cells(lines[0])), "{table}");
        assert!(!table.contains("NaN"));
    }

    #[test]
    fn tables_of_every_sample_are_sound() {
        for report in sample::all() {
            sound(&points(&report), report.points.len());
            let labelled = [(format!("{HOSTILE}|\nb"), &report), ("b".to_owned(), &report)];
            for comparison in &compare_pairs(&labelled).comparisons {
                let text = ratios(comparison);
                sound(&text, comparison.points.len() + 1);
                assert!(!text.contains("<script"));
            }
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
