//! The points of a probe as a table.

use maud::{Markup, html};

use super::markdown;
use crate::probe::csv::points_tsv;
use crate::probe::report::{Point, ProbeReport};
use crate::report::format::{self, NOT_AVAILABLE};
use crate::report::page::{card, copy_markdown};

/// What is shown of throughput, latency and ratio; each begins with its mean.
const FIGURES: [&str; 11] =
    ["mean", "95 %", "writes/s", "mean", "95 %", "p50", "p99", "p99.9", "max", "mean", "95 %"];

/// Every point with its figures, and a button that copies them for a spreadsheet.
pub(super) fn points(report: &ProbeReport) -> Markup {
    let fell_back = report.points.iter().any(|point| point.method != report.method);
    let counted = report.points.iter().any(|point| {
        point.device_writes_per_op.is_some()
            || point.device_flushes_per_op.is_some()
            || point.device_bytes_per_user_byte.is_some()
    });
    let chosen = report.recommendation.as_ref().and_then(|recommendation| recommendation.buffer_bytes);
    let content = html! {
        div.copies {
            // An error leaves the button out; the table can still be selected.
            @if let Ok(tsv) = points_tsv(report) {
                button.copy type="button" hidden data-text=(tsv)
                    title="tab-separated, in seconds and bytes, with full precision" { "Copy table" }
            }
            (copy_markdown(&markdown::points(report)))
        }
        div.scroll {
            table.numbers {
                thead {
                    tr {
                        th rowspan="2" scope="col" { "Buffer" }
                        @if fell_back { th.text rowspan="2" scope="col" { "Method" } }
                        th.group colspan="3" scope="colgroup" { "Throughput" }
                        th.group colspan="6" scope="colgroup" { "Latency of a write" }
                        th.group colspan="2" scope="colgroup" { "MB/s per ms" }
                        @if counted { th.group colspan="3" scope="colgroup" { "Device" } }
                        th.group colspan="3" scope="colgroup" { "Measured" }
                    }
                    tr {
                        @for name in FIGURES {
                            th.first[name == "mean"] scope="col" { (name) }
                        }
                        @if counted {
                            th.first scope="col" { "writes" br; "per write" }
                            th scope="col" { "flushes" br; "per write" }
                            th scope="col" { "bytes" br; "per byte" }
                        }
                        th.first scope="col" { "writes" }
                        th scope="col" { "runs" }
                        th scope="col" { "disturbed" }
                    }
                }
                tbody {
                    @for point in &report.points {
                        tr.chosen[Some(point.buffer_bytes) == chosen] {
                            th scope="row" { (format::bytes(point.buffer_bytes)) }
                            @if fell_back { td.text { code { (point.method.name()) } } }
                            (row(point, counted))
                        }
                    }
                }
            }
        }
    };
    card("The numbers", content)
}

fn row(point: &Point, counted: bool) -> Markup {
    let (throughput, latency) = (&point.throughput_bytes_per_s, &point.latency_s);
    html! {
        td.first { (format::rate(throughput.mean)) }
        (quiet(&format::interval(throughput.mean, throughput.ci95)))
        td { (format::number(point.writes_per_s())) }
        td.first { (format::seconds(latency.mean)) }
        (quiet(&format::interval(latency.mean, latency.ci95)))
        @for percentile in [latency.p50, latency.p99, latency.p999, Some(latency.max)] {
            (optional(percentile, format::seconds))
        }
        td.first { (format::number(point.ratio / format::RATIO_UNIT)) }
        (quiet(&format::interval(point.ratio, point.ratio_ci95)))
        @if counted {
            @for (at, figure) in
                [point.device_writes_per_op, point.device_flushes_per_op, point.device_bytes_per_user_byte]
                    .into_iter()
                    .enumerate()
            {
                td.first[at == 0].muted[figure.is_none()] {
                    (figure.map_or_else(|| NOT_AVAILABLE.to_owned(), format::number_short))
                }
            }
        }
        td.first { (format::count(point.writes)) }
        td { (format::count(u64::from(point.runs))) }
        td.attention[point.disturbed_runs > 0] { (format::count(u64::from(point.disturbed_runs))) }
    }
}

fn quiet(text: &str) -> Markup {
    html! { td.muted { (text) } }
}

fn optional(figure: Option<f64>, show: fn(f64) -> String) -> Markup {
    match figure {
        Some(figure) => html! { td { (show(figure)) } },
        None => quiet(NOT_AVAILABLE),
    }
}
