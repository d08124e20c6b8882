//! The frame of a page, and the pieces that pages share: cards, charts and legends.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::probe::report::ProbeReport;
use crate::report::charts::{self, Figure, Swatch};

const STYLE: &str = include_str!("style.css");
/// Copies tables, keeps charts, chooses sizes: the page says all it has to say without them.
const SCRIPTS: [&str; 3] =
    [include_str!("copy.js"), include_str!("keep_charts.js"), include_str!("choose_size.js")];
/// Nothing but what is written in the page itself, and pictures that it makes of its own charts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src blob:";

/// A whole page.
pub(super) fn page(title: &str, content: Markup, provenance: Markup) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                title { (title) " · evenkeel" }
                style { (PreEscaped(STYLE)) }
            }
            body {
                main { (content) }
                footer { (provenance) }
                script { (PreEscaped(SCRIPTS.concat())) }
            }
        }
    }
    .into_string()
}

/// A probe with the name to call it by.
pub(super) type Labelled<'a> = (String, &'a ProbeReport);

/// A part of the page under its heading.
pub(super) fn card(heading: &str, content: Markup) -> Markup {
    html! {
        section.card {
            h2 { (heading) }
            (content)
        }
    }
}

/// A button that copies a table as Markdown.
pub(super) fn copy_markdown(table: &str) -> Markup {
    html! {
        button.copy type="button" hidden data-text=(table) title="as Markdown, rounded as here" { "Copy as Markdown" }
    }
}

/// A name and what it is.
pub(super) type Fact = (&'static str, Markup);

/// Names and what they are, as a list.
pub(super) fn facts(facts: &[Fact]) -> Markup {
    html! {
        dl {
            @for (name, fact) in facts {
                dt { (name) }
                dd { (fact) }
            }
        }
    }
}

/// A text, or that it is not known.
pub(super) fn known(text: Option<&str>) -> Markup {
    match text {
        Some(text) => html! { (text) },
        None => html! { span.muted { "not known" } },
    }
}

/// The three charts of one probe with their legend.
pub(super) fn charts(report: &ProbeReport) -> Markup {
    let measured = |held: fn(&crate::probe::report::Point) -> bool| report.points.iter().any(held);
    let mut entries = vec![(Swatch::Series(0), "measured mean and 95 % interval".to_owned())];
    if measured(|point| point.latency_s.p50.is_some() && point.latency_s.p99.is_some()) {
        entries.push((Swatch::Band, "median to 99th percentile of single writes (latency)".to_owned()));
    }
    if report.model.is_some() {
        entries.push((Swatch::Model, "fitted line l + x/B".to_owned()));
    }
    if report.recommendation.as_ref().is_some_and(|chosen| chosen.buffer_bytes.is_some()) {
        entries.push((Swatch::Recommended, "recommended buffer".to_owned()));
    }
    if let Some(phases) = &report.phases {
        let each = [
            (phases.constant_latency, "I constant latency"),
            (phases.both_grow, "II both grow"),
            (phases.constant_throughput, "III constant throughput"),
        ];
        for (which, (range, name)) in (0u8..).zip(each) {
            if range.is_some() {
                entries.push((Swatch::Phase(which), name.to_owned()));
            }
        }
    }
    html! {
        (figures(|figure| charts::probe_chart(report, figure)))
        (legend(&entries))
    }
}

/// A card a figure.
pub(super) fn figures(chart: impl Fn(Figure) -> String) -> Markup {
    html! {
        div.figures {
            @for figure in Figure::ALL {
                figure.card {
                    figcaption {
                        h2 { (figure.title()) }
                        p { (figure.meaning()) }
                    }
                    div.scroll { (PreEscaped(chart(figure))) }
                }
            }
        }
    }
}

/// What the charts' strokes and shades stand for.
pub(super) fn legend(entries: &[(Swatch, String)]) -> Markup {
    html! {
        ul.legend {
            @for (which, text) in entries {
                li { (PreEscaped(charts::swatch(*which))) span { (text) } }
            }
        }
    }
}
