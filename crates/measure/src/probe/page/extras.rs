//! The parts that only some probes have: batching, the matrix of methods and file states, disturbed runs.

use evenkeel_host::method::{FileState, Method};
use maud::{Markup, html};

use crate::probe::report::{Matrix, ProbeReport, RunData};
use crate::report::format;
use crate::report::page::{card, facts};

/// Disturbed runs listed on a page; the others are in the JSON document.
const RUNS_LISTED: usize = 60;

/// The recommendation in terms of the user's records.
pub(super) fn batching(report: &ProbeReport) -> Markup {
    let Some(batching) = &report.batching else {
        return html! {};
    };
    let mut list = vec![
        ("Record", html! { (format::bytes(batching.record_bytes)) }),
        ("Records a batch", html! { (format::count(batching.records_per_batch)) }),
    ];
    let mut add = |name, figure: Option<String>| {
        if let Some(figure) = figure {
            list.push((name, html! { (figure) }));
        }
    };
    add("Arriving", batching.arrival_rate_per_s.map(|rate| format!("{} records/s", many(rate))));
    add("A batch is full after", batching.fill_time_s.map(format::seconds));
    add("A record waits, on average", batching.mean_wait_s.map(format::seconds));
    add("Arrival to durable, on average", batching.mean_durable_s.map(format::seconds));
    add("Share of the stack's throughput", batching.utilisation.map(format::percent));
    add("Group commit without a timer", batching.group_commit_records.map(group));
    add("By group commit, arrival to durable", batching.group_commit_durable_s.map(format::seconds));
    let overloaded = batching.utilisation.is_some_and(|share| share >= 1.0);
    let content = html! {
        @if overloaded {
            p.attention { "Records arrive faster than the stack makes them durable at this buffer: \
                           the queue grows without bound." }
        }
        (facts(&list))
        @if batching.group_commit_records.is_some() {
            p.muted { "Group commit without a timer: what arrives during one write joins the next; so many if a write takes l + x/B." }
        }
    };
    card("Batching", content)
}

fn group(records: f64) -> String {
    format!("{} records a write", many(records))
}

fn many(records: f64) -> String {
    if (1e3..1e15).contains(&records) {
        format::count(records.round() as u64)
    } else {
        format::number(records)
    }
}

/// Methods against file states, a table a buffer size, the lowest mean latency marked.
pub(super) fn matrix(report: &ProbeReport) -> Markup {
    let Some(matrix) = &report.matrix else {
        return html! {};
    };
    let mut sizes: Vec<u64> =
        matrix.cells.iter().flat_map(|cell| &cell.points).map(|point| point.buffer_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let content = html! {
        @for advice in &matrix.advice { p { (format::sentence(advice)) } }
        p.muted { "Mean latency of a write with its 95 % interval; the lowest that was measured is marked, at each size." }
        div.tables {
            @for size in sizes { div.scroll { (matrix_table(matrix, size)) } }
        }
        @if !matrix.skipped.is_empty() {
            h3 { "Not measured" }
            ul {
                @for skip in &matrix.skipped {
                    li { code { (skip.method.name()) } " over " (skip.file_state.name()) ": " (skip.reason) }
                }
            }
        }
    };
    card("Methods and file states", content)
}

fn matrix_table(matrix: &Matrix, size: u64) -> Markup {
    let at = |method: Method, state: FileState| {
        let cell = matrix.cells.iter().find(|cell| cell.method == method && cell.file_state == state)?;
        cell.points.iter().find(|point| point.buffer_bytes == size)
    };
    let means = matrix.cells.iter().filter_map(|cell| at(cell.method, cell.file_state));
    let best =
        means.map(|point| point.latency_s.mean).filter(|mean| mean.is_finite()).fold(f64::MAX, f64::min);
    let methods = Method::ALL.into_iter();
    let used = |method: &Method| FileState::ALL.into_iter().any(|state| at(*method, state).is_some());
    let occurs = |state: &FileState| matrix.cells.iter().any(|cell| cell.file_state == *state);
    let states: Vec<_> = FileState::ALL.into_iter().filter(occurs).collect();
    html! {
        table {
            caption { (format::bytes(size)) }
            thead {
                tr {
                    th.text scope="col" { "Method" }
                    @for state in &states { th scope="col" { (state.name()) } }
                }
            }
            tbody {
                @for method in methods.filter(used) {
                    tr {
                        th.text scope="row" { code { (method.name()) } }
                        @for &state in &states {
                            @match at(method, state) {
                                None => td.muted { "–" },
                                Some(point) => {
                                    @let latency = &point.latency_s;
                                    td.best[latency.mean == best] {
                                        @if latency.mean == best { span.badge { "lowest" } " " }
                                        (format::seconds(latency.mean))
                                        @if latency.ci95.is_some() {
                                            " " span.muted { (format::interval(latency.mean, latency.ci95)) }
                                        }
                                        @if point.method != method {
                                            br; span.muted { "as " (point.method.name()) }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The runs marked as disturbed, and by what.
pub(super) fn disturbed_runs(report: &ProbeReport) -> Markup {
    const COLUMNS: [&str; 6] = ["Buffer", "Run", "Begun after", "Throughput", "Latency", "Slowest write"];
    let cells = report.matrix.iter().flat_map(|matrix| &matrix.cells);
    let points = report.points.iter().map(|point| (point, None));
    let points =
        points.chain(cells.flat_map(|cell| cell.points.iter().map(move |point| (point, Some(cell)))));
    let runs: Vec<_> = points
        .flat_map(|(point, cell)| point.run_data.iter().map(move |run| (point, cell, run)))
        .filter(|(.., run)| run.disturbance.is_some())
        .collect();
    if runs.is_empty() {
        return html! {};
    }
    let content = html! {
        div.scroll {
            table {
                thead {
                    tr {
                        @for name in COLUMNS {
                            th scope="col" { (name) }
                        }
                        th.text scope="col" { "Counted" }
                        th.text scope="col" { "What disturbed it" }
                    }
                }
                tbody {
                    @for (point, cell, run) in runs.iter().take(RUNS_LISTED) {
                        tr {
                            th scope="row" { (format::bytes(point.buffer_bytes)) }
                            (disturbed(run))
                            td.text {
                                (run.disturbance.as_deref().unwrap_or_default())
                                @if let Some(cell) = cell {
                                    " " span.muted { "(" (cell.method) " over " (cell.file_state) ")" }
                                }
                            }
                        }
                    }
                }
            }
        }
        @if runs.len() > RUNS_LISTED {
            p.muted { "And " (runs.len() - RUNS_LISTED) " more." }
        }
    };
    card("Disturbed runs", content)
}

fn disturbed(run: &RunData) -> Markup {
    html! {
        td { (run.order) }
        td { (format::duration(run.started_s)) }
        td { (format::rate(run.throughput_bytes_per_s)) }
        td { (format::seconds(run.latency_s)) }
        td { (format::seconds(run.latency_max_s)) }
        td.text { @if run.counted { "yes" } @else { "no" } }
    }
}
