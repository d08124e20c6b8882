//! Several probes beside each other.

mod forest;
mod markdown;

use maud::{Markup, PreEscaped, html};

use self::forest::forest_chart;
use super::{Comparison, Comparisons, Design};
use crate::probe::page::spread::spread;
use crate::probe::page::{Labelled, charts, words};
use crate::probe::report::{Point, ProbeReport, Warning, WarningCode};
use crate::report::charts::{Swatch, swatch};
use crate::report::format;
use crate::report::page::{self as shell, Fact, card};

/// The page of several probes on shared axes, one colour and marker a stack, with the verdicts on top.
pub fn comparison_page(reports: &[Labelled<'_>], found: &Comparisons) -> String {
    let title = match reports.len() {
        1 => "One storage stack".to_owned(),
        many => format!("{many} storage stacks compared"),
    };
    let entries = reports.iter().enumerate().map(|(at, (label, _))| (Swatch::Series(at), label.clone()));
    let ring = [(Swatch::RecommendedPeak, "recommended buffer".to_owned())];
    let entries: Vec<_> = entries.chain(ring).collect();
    let content = html! {
        header.top {
            p.eyebrow {
                @match found.design {
                    Design::Pairs => "evenkeel probe, in alternating runs",
                    Design::Sessions => "evenkeel compare",
                }
            }
            h1 { (title) }
        }
        (findings(found))
        (words::warnings(&labelled_warnings(reports)))
        (charts::figures(|figure| charts::comparison_chart(reports, figure)))
        (shell::legend(&entries))
        (spread(reports))
        (summary(reports))
        (sizes(reports))
        (stacks(reports))
        (words::how_to_read())
    };
    let provenance = html! {
        @for (label, report) in reports {
            div.source { b { (label) } (words::provenance(report)) }
        }
    };
    shell::page(&title, content, provenance)
}

fn findings(found: &Comparisons) -> Markup {
    html! {
        @if !found.comparisons.is_empty() {
            div.verdicts {
                @for comparison in &found.comparisons { (finding(comparison)) }
            }
            p.muted { (rate(found)) }
        }
    }
}

fn finding(comparison: &Comparison) -> Markup {
    html! {
        section.card.verdict {
            h2 { (comparison.b) " against " (comparison.a) ": " (comparison.overall) }
            div.scroll { (PreEscaped(forest_chart(comparison))) }
            (shell::legend(&[
                (Swatch::Dot(0), "throughput".to_owned()),
                (Swatch::Dot(1), "speed by p99 latency".to_owned()),
            ]))
            div.copies { (shell::copy_markdown(&markdown::ratios(comparison))) }
            details {
                summary { "In words, size by size" }
                @for point in &comparison.points {
                    p { (format::bytes(point.buffer_bytes)) ": " (point.words) }
                }
            }
        }
    }
}

/// How often such a page is wrong.
fn rate(found: &Comparisons) -> String {
    let rate = format::percent(found.error_rate);
    let design = match found.design {
        Design::Pairs => {
            "The probes were measured in alternating runs, and pairs of runs are judged.".to_owned()
        }
        Design::Sessions => {
            let drift = found.drift.map_or_else(
                || "as repeated sessions show it".to_owned(),
                |drift| match found.comparisons.iter().any(|found| found.drift.is_none()) {
                    true => format!(
                        "{} where each side has one, else as repeated ones do",
                        format::percent(drift)
                    ),
                    false => format!("{} as stated", format::percent(drift)),
                },
            );
            format!("Sessions are judged; the intervals hold what two of one stack may differ by, {drift}.")
        }
    };
    format!(
        "{design} Of such pages on stacks that do not differ, at most {rate} claim any difference: each of the {} \
         intervals here is widened for that.",
        found.judged
    )
}

/// Every warning with the stack that it is about, but for the conclusions that its own page draws: this page has one error
/// rate, that of the comparison.
fn labelled_warnings<'a>(reports: &'a [Labelled<'_>]) -> Vec<(Option<&'a str>, &'a Warning)> {
    let is_fact = |warning: &&Warning| warning.code != WarningCode::ModelDisagrees;
    let of = |(label, report): &'a Labelled<'_>| {
        report.warnings.iter().filter(is_fact).map(|warning| (Some(label.as_str()), warning))
    };
    reports.iter().flat_map(of).collect()
}

/// What [`summarised`] gives, in its order.
const SUMMARY: [&str; 8] = [
    "Recommended",
    "Throughput there",
    "Latency there",
    "Highest throughput",
    "Lowest latency",
    "Fixed latency l",
    "Bandwidth B of a writer",
    "l × B",
];

fn summary(reports: &[Labelled<'_>]) -> Markup {
    let content = html! {
        div.scroll {
            table {
                thead {
                    tr {
                        th.text scope="col" { "Stack" }
                        @for name in SUMMARY { th scope="col" { (name) } }
                    }
                }
                tbody {
                    @for (at, (label, report)) in reports.iter().enumerate() {
                        tr {
                            @let line = PreEscaped(swatch(Swatch::Series(at)));
                            th.text scope="row" { (line) " " (label) }
                            @for figure in summarised(report) { (optional(figure)) }
                        }
                    }
                }
            }
        }
    };
    card("In short", content)
}

fn summarised(report: &ProbeReport) -> [Option<String>; 8] {
    let chosen = report.recommendation.as_ref().and_then(|recommendation| recommendation.buffer_bytes);
    let point = chosen.and_then(|size| at(report, size));
    let [fixed, bandwidth, optimum] = match &report.model {
        Some(model) => words::parameters(model).map(Some),
        None => [const { None }; 3],
    };
    let over = |figure: fn(&Point) -> f64, better: fn(f64, f64) -> f64| {
        report.points.iter().map(figure).filter(|value| value.is_finite()).reduce(better)
    };
    [
        chosen.map(format::bytes),
        point.map(|point| format::rate(point.throughput_bytes_per_s.mean)),
        point.map(|point| format::seconds(point.latency_s.mean)),
        over(|point| point.throughput_bytes_per_s.mean, f64::max).map(format::rate),
        over(|point| point.latency_s.mean, f64::min).map(format::seconds),
        fixed,
        bandwidth,
        optimum,
    ]
}

fn at(report: &ProbeReport, buffer_bytes: u64) -> Option<&Point> {
    report.points.iter().find(|point| point.buffer_bytes == buffer_bytes)
}

fn optional(figure: Option<String>) -> Markup {
    match figure {
        Some(figure) => html! { td { (figure) } },
        None => html! { td.muted { (format::NOT_AVAILABLE) } },
    }
}

fn sizes(reports: &[Labelled<'_>]) -> Markup {
    let points = reports.iter().flat_map(|(_, report)| &report.points);
    let mut sizes: Vec<u64> = points.map(|point| point.buffer_bytes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let columns = [("Throughput", 0), ("Latency of a write", 1)];
    let content = html! {
        div.scroll {
            table.numbers {
                thead {
                    tr {
                        th rowspan="2" scope="col" { "Buffer" }
                        @for (name, _) in columns {
                            th.group colspan=(reports.len()) scope="colgroup" { (name) }
                        }
                    }
                    tr {
                        @for _ in columns {
                            @for (place, (label, _)) in reports.iter().enumerate() {
                                th.first[place == 0] scope="col" { (label) }
                            }
                        }
                    }
                }
                tbody {
                    @for &size in &sizes {
                        tr {
                            th scope="row" { (format::bytes(size)) }
                            @for (_, which) in columns {
                                @for (place, (_, report)) in reports.iter().enumerate() {
                                    (cell(at(report, size), which, place == 0))
                                }
                            }
                        }
                    }
                }
            }
        }
    };
    card("Size by size", content)
}

fn cell(point: Option<&Point>, which: usize, first: bool) -> Markup {
    let Some(point) = point else {
        return html! { td.muted.first[first] { (format::NOT_AVAILABLE) } };
    };
    let (throughput, latency) = (&point.throughput_bytes_per_s, &point.latency_s);
    let (figure, mean, ci95) = match which {
        0 => (format::rate(throughput.mean), throughput.mean, throughput.ci95),
        _ => (format::seconds(latency.mean), latency.mean, latency.ci95),
    };
    html! {
        td.first[first] {
            (figure)
            @if ci95.is_some() { " " span.muted { (format::interval(mean, ci95)) } }
        }
    }
}

/// What the stacks are, side by side.
fn stacks(reports: &[Labelled<'_>]) -> Markup {
    let facts: Vec<Vec<Fact>> = reports
        .iter()
        .map(|(_, report)| {
            [words::stack_facts(report), words::model_facts(report), words::phase_facts(report)].concat()
        })
        .collect();
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in facts.iter().flatten() {
        if !names.contains(name) {
            names.push(name);
        }
    }
    let fact = |of: &[Fact], wanted: &str| {
        of.iter().find(|(name, _)| *name == wanted).map(|(_, fact)| fact.clone().into_string())
    };
    let rows =
        names.into_iter().map(|name| (name, facts.iter().map(|of| fact(of, name)).collect::<Vec<_>>()));
    // What was measured always differs a little.
    let settings: Vec<&str> =
        reports.iter().flat_map(|(_, report)| words::stack_facts(report)).map(|(name, _)| name).collect();
    let differs = |name: &str, each: &[Option<String>]| {
        settings.contains(&name) && name != "Space left" && each.windows(2).any(|pair| pair[0] != pair[1])
    };
    let content = html! {
        p.muted { "Settings in which the stacks differ are in bold." }
        div.scroll {
            table.facts {
                thead {
                    tr {
                        th { }
                        @for (label, _) in reports { th scope="col" { (label) } }
                    }
                }
                tbody {
                    @for (name, each) in rows {
                        tr.differ[differs(name, &each)] {
                            th scope="row" { (name) }
                            @for fact in &each {
                                td { @if let Some(fact) = fact { (PreEscaped(fact)) } @else { "–" } }
                            }
                        }
                    }
                }
            }
        }
    };
    card("The stacks", content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_pairs;
    use crate::probe::sample;
    use crate::report::HOSTILE;
    use crate::report::page::assert_sound;

    fn compared(reports: &[ProbeReport]) -> String {
        let labelled: Vec<_> =
            reports.iter().enumerate().map(|(at, report)| (format!("stack {at}"), report)).collect();
        comparison_page(&labelled, &compare_pairs(&labelled))
    }

    #[test]
    fn pages_of_every_sample_are_whole_small_and_refer_to_nothing() {
        assert_sound(&compared(&sample::all()));
        assert_sound(&compared(&[]));
        assert_sound(&compared(&vec![sample::disk(); 8]));
    }

    #[test]
    fn nothing_from_the_machine_becomes_markup() {
        let report = sample::hostile();
        let labelled = [(HOSTILE.to_owned(), &report), (HOSTILE.to_owned(), &report)];
        let page = comparison_page(&labelled, &compare_pairs(&labelled));
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "markup came through");
        assert!(page.contains("&lt;script&gt;alert"));
        // The page's own and only script.
        assert!(page.matches("<script>").count() <= 1);
    }

    #[test]
    fn a_comparison_names_every_stack_and_shows_the_verdicts() {
        let page = compared(&[sample::disk(), sample::flash(), sample::network()]);
        for word in ["stack 0", "stack 1", "stack 2", "stack 1 against stack 0", "/mnt/flash", "128 KiB"] {
            assert!(page.contains(word), "{word}");
        }
    }
}
