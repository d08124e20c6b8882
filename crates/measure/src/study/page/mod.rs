//! The page of a study: what it says, the paper's figures, and the tables behind them.

mod figures;
mod parts;

use maud::{Markup, html};

use crate::report::format;
use crate::report::page::{self, card};
use crate::study::report::StudyReport;
use crate::study::tables::{Table, tables};

/// Rows of a table that the page shows; the file has all.
const ROWS_MAX: usize = 150;
/// Tables that are on the page elsewhere, or only in files.
const NOT_AS_TABLES: [&str; 2] = ["configurations", "explained"];

/// What stands before anything else that a page says, and its heading.
const WARNINGS: [(&str, &str); 2] =
    [("too_small", "Too small to conclude from"), ("busy", "The machine was busy")];

/// The whole page.
pub fn study_page(report: &StudyReport) -> String {
    let said = |about: &str| report.findings.iter().find(|finding| finding.about == about);
    let title = format!("How much {} varies, and why", report.study.name);
    let content = html! {
        header.top {
            p.eyebrow { "evenkeel study · " (report.study.name) " · " (report.study.created_at) }
            h1 { (headline(report)) }
            @for (about, heading) in WARNINGS {
                @if let Some(finding) = said(about) {
                    aside.callout role="note" { h2 { (heading) } p { (finding.words) } }
                }
            }
            @for about in ["variation", "parameter"] {
                @if let Some(finding) = said(about) { p.reason { (finding.words) } }
            }
            (tiles(report))
        }
        (sayings(report))
        @if let Some(finding) = said("left_out") {
            aside.callout role="note" { h2 { "Not all runs have figures" } p { (finding.words) } }
        }
        (figures::all(report))
        @for table in tables(report) {
            @if !NOT_AS_TABLES.contains(&table.name) && !table.rows.is_empty() { (table_card(&table)) }
        }
        (parts::studied(report))
        (parts::how_to_read())
    };
    let provenance = html! {
        p {
            "Run by evenkeel " (report.study.evenkeel_version) ", reported by " (report.evenkeel_version)
            ", seed " (report.study.seed) " · the same database gives the same page"
        }
    };
    page::page(&title, content, provenance)
}

/// The answer in a line: what is claimed, if anything is.
fn headline(report: &StudyReport) -> String {
    let words = |about: &str, begin: &str| {
        let finding = report.findings.iter().find(|finding| finding.about == about)?;
        let first = finding.words.split([':', ';', '.', '(']).next()?.trim().to_owned();
        first.starts_with(begin).then_some(first)
    };
    let none = || match report.study.runs_done {
        0 => "No run has figures yet".to_owned(),
        _ => format!("How much {} varies", report.study.name),
    };
    words("too_small", "Too small")
        .or_else(|| words("busy", "The machine was busy"))
        .or_else(|| words("parameter", "To vary less"))
        .or_else(|| words("placement", "Throughput depends"))
        .or_else(|| words("remedies", "Repeats come closer"))
        .unwrap_or_else(none)
}

fn tiles(report: &StudyReport) -> Markup {
    let ranges: Vec<f64> = report.variation.iter().filter_map(|row| row.relative_range).collect();
    let median =
        crate::stats::median(&ranges).map_or_else(|| format::NOT_AVAILABLE.to_owned(), format::percent);
    let worst = ranges.iter().copied().reduce(f64::max);
    let worst = worst.map_or_else(|| format::NOT_AVAILABLE.to_owned(), format::percent);
    let count = |many: usize| format::count(many as u64);
    let tiles = [
        ("Configurations", count(report.study.configurations.len())),
        ("Workloads", count(report.study.workloads.len())),
        ("Runs done", count(report.study.runs_done)),
        ("Median range", median),
        ("Widest range", worst),
        ("Windows", count(report.study.windows)),
    ];
    html! {
        div.tiles {
            @for (name, figure) in tiles {
                div.tile { p.name { (name) } p.figure { (figure) } }
            }
        }
    }
}

/// What is said besides the headline's part.
fn sayings(report: &StudyReport) -> Markup {
    let headed = ["variation", "parameter", "left_out", "too_small", "busy"];
    let others: Vec<_> = report.findings.iter().filter(|finding| !headed.contains(&finding.about)).collect();
    let heading = |about: &str| match about {
        "placement" => "Where data lie",
        "remedies" => "Remedies",
        "operation" => "Operations",
        "throughput" => "Speed",
        "windows" => "Windows",
        "repetitions" => "How many runs",
        "steadiness" => "Steadiness",
        "outliers" => "Outliers",
        "conditions" => "The machine",
        _ => "Order",
    };
    html! {
        @if !others.is_empty() {
            (card("What it says", html! {
                div.reading {
                    @for finding in others { p { b { (heading(finding.about)) ". " } (finding.words) } }
                }
            }))
        }
    }
}

fn table_card(table: &Table) -> Markup {
    let left = table.rows.len().saturating_sub(ROWS_MAX);
    let is_words = |at: usize| matches!(table.rows[0][at], crate::study::tables::Cell::Text(_));
    let content = html! {
        div.scroll {
            table.numbers.studied {
                thead {
                    tr {
                        @for (at, (_, heading)) in table.columns.iter().enumerate() {
                            @if is_words(at) { th.text scope="col" { (heading) } } @else { th scope="col" { (heading) } }
                        }
                    }
                }
                tbody {
                    @for row in table.rows.iter().take(ROWS_MAX) {
                        tr {
                            @for (at, cell) in row.iter().enumerate() {
                                @if at == 0 { th.text scope="row" { (cell.shown()) } }
                                @else if is_words(at) { td.text { (cell.shown()) } }
                                @else { td { (cell.shown()) } }
                            }
                        }
                    }
                }
            }
        }
        @if left > 0 {
            p.muted { "And " (format::count(left as u64)) " more rows, in " code { "study-" (table.name) ".csv" } "." }
        }
    };
    card(table.title, content)
}

#[cfg(test)]
mod tests;
