//! Hours of writes: latency and throughput over time, and what stalled.

use maud::{PreEscaped, html};

use crate::probe::soak::{SoakReport, Stall};
use crate::probe::soak_window::Window;
use crate::report::charts::{self, Swatch};
use crate::report::format;
use crate::report::page::{self, card};
use crate::report::{Chart, Scale, Series, Unit};

/// Points that a line has at most: of more windows the worst of each few is drawn.
const POINTS: usize = 600;

/// Stalls that a page lists: the longest.
const STALLS_LISTED: usize = 40;

/// A line over time: its name, and the figure of a window.
type Line = (&'static str, fn(&Window) -> Option<f64>);

const LATENCIES: [Line; 3] = [
    ("p50", |window| Some(window.p50_s)),
    ("p99", |window| window.p99_s),
    ("slowest", |window| Some(window.max_s)),
];

const RATES: [Line; 1] = [("throughput", |window| Some(window.throughput_bytes_per_s))];

/// The whole page.
/// The page of hours of writes.
pub fn soak_page(report: &SoakReport) -> String {
    let (latency, rate) = (latencies(report), rates(report));
    let entries: Vec<_> =
        LATENCIES.iter().enumerate().map(|(at, (name, _))| (Swatch::Line(at), (*name).to_owned())).collect();
    let mut longest: Vec<&Stall> = report.stalls.iter().collect();
    longest.sort_by(|a, b| b.latency_s.total_cmp(&a.latency_s));
    longest.truncate(STALLS_LISTED);
    let stalls = html! {
        div.scroll {
            table.numbers {
                thead {
                    tr {
                        th scope="col" { "After" }
                        th scope="col" { "Latency" }
                        th scope="col" { "Times the median" }
                        th.text scope="col" { "Meanwhile" }
                    }
                }
                tbody {
                    @for stall in &longest {
                        tr {
                            td { (format::duration(stall.started_s)) }
                            td { (format::seconds(stall.latency_s)) }
                            td { (format::number(stall.times_median)) }
                            td.text { (stall.meanwhile.as_deref().unwrap_or("nothing was seen of others")) }
                        }
                    }
                }
            }
        }
    };
    let content = html! {
        header.top {
            p.eyebrow {
                "evenkeel probe --soak of " code { (report.stack.path) } " · " (report.stack.file_system) " on "
                code { (report.stack.device) } " · " (report.method.name()) " over a " (report.file_state.name()) " file"
            }
            h1 {
                (format::count(report.stalls_10x)) " of " (format::count(report.writes))
                " writes took 10 times the median"
            }
            p.reason {
                "Median " (format::seconds(report.p50_s)) ", slowest " (format::seconds(report.max_s)) "; "
                (format::count(report.stalls_100x)) " took 100 times the median, in "
                (format::duration(report.duration_s)) " of " (format::bytes(report.buffer_bytes)) " at a time."
            }
            @if let Some(fall) = &report.fall { p.reason { b { (format::sentence(&fall.sentence())) } } }
        }
        div.figures {
            @for chart in [&latency, &rate] {
                figure.card {
                    figcaption { h2 { (chart.title) } p { (chart.meaning) } }
                    div.scroll { (PreEscaped(charts::line_chart(chart))) }
                }
            }
        }
        (page::legend(&entries))
        @if !longest.is_empty() { (card("The longest stalls", stalls)) }
    };
    let provenance = html! {
        p { "Measured by evenkeel " (report.evenkeel_version) ", Linux " (report.stack.kernel) "." }
    };
    page::page(&format!("Soak of {}", report.stack.path), content, provenance)
}

fn latencies(report: &SoakReport) -> Chart {
    Chart {
        title: "Latency of a write".to_owned(),
        meaning: meaning(report),
        x_name: "time".to_owned(),
        x_unit: Unit::S,
        x_scale: Scale::Linear,
        y_name: "latency".to_owned(),
        y_unit: Unit::S,
        y_scale: Scale::Log,
        series: LATENCIES.iter().map(|line| series(report, line, f64::max)).collect(),
    }
}

fn rates(report: &SoakReport) -> Chart {
    Chart {
        title: "Throughput".to_owned(),
        y_name: "throughput".to_owned(),
        y_unit: Unit::BytesPerS,
        y_scale: Scale::Linear,
        series: RATES.iter().map(|line| series(report, line, f64::min)).collect(),
        ..latencies(report)
    }
}

fn meaning(report: &SoakReport) -> String {
    match windows_a_point(report) {
        1 => "A point a window of about a second.".to_owned(),
        few => format!("A point is the worst of {few} windows of about a second."),
    }
}

fn windows_a_point(report: &SoakReport) -> usize {
    report.windows.len().div_ceil(POINTS).max(1)
}

fn series(report: &SoakReport, (name, figure): &Line, worse: fn(f64, f64) -> f64) -> Series {
    let point = |windows: &[Window]| {
        windows.iter().filter_map(figure).reduce(worse).map(|worst| (windows[0].started_s, worst))
    };
    Series {
        name: (*name).to_owned(),
        points: report.windows.chunks(windows_a_point(report)).filter_map(point).collect(),
    }
}
