//! The papers' figures: what holds, what fails, and the charts.

use maud::{Markup, PreEscaped, html};

use super::{Chart, Claim, Extent, Figure, Gallery, Reproduced, Series, Table, Verdict};
use crate::report::charts::{self, Swatch};
use crate::report::format;
use crate::report::page::{self, card};

/// The whole page.
pub fn gallery_page(gallery: &Gallery) -> String {
    let failing = gallery.failing().count();
    let title = match (gallery.claims.len(), failing) {
        (0, _) => "No claims were checked".to_owned(),
        (all, 0) => format!("All {all} claims hold"),
        (all, failing) => format!("{} of {all} claims hold, {failing} fail", all - failing),
    };
    let content = html! {
        header.top {
            p.eyebrow { "evenkeel reproduce" }
            h1 { (title) }
            p.reason {
                (format::count(gallery.figures.len() as u64))
                " figures of "
                (format::count(gallery.papers.len() as u64))
                @if gallery.papers.len() == 1 { " paper" } @else { " papers" }
                ", drawn again from evenkeel's own engine and models in virtual time."
            }
            @for replaced in &gallery.replaced_drives { p.attention { "With a drive model of your own: " (replaced) "." } }
            @if gallery.settings.extent == Extent::Small {
                p.attention { "A short run of few points: its values are not those of a whole one." }
            }
        }
        (contents(gallery))
        @if !gallery.claims.is_empty() { div.anchor id="claims" { (claims_in_short(gallery)) } }
        @for paper in &gallery.papers {
            h2.of id=(format!("paper-{}", paper.paper)) { (paper.title) }
            p.muted { (paper.source) }
            @for figure in gallery.figures.iter().filter(|figure| figure.paper == paper.paper) {
                (one(gallery, figure))
            }
        }
        @if !gallery.not_reproduced.is_empty() { (left_out(gallery)) }
        div.anchor id="reading" { (how_to_read()) }
    };
    let provenance = html! {
        p {
            "evenkeel " (gallery.evenkeel_version) " · seed " (gallery.settings.seed)
            " · the same seed and version give the same figures, except measured ones"
        }
    };
    page::page(&title, content, provenance)
}

fn claims_in_short(gallery: &Gallery) -> Markup {
    let content = html! {
        div.scroll {
            table.claims {
                thead {
                    tr {
                        th.text scope="col" { "Verdict" }
                        th.text scope="col" { "Figure" }
                        th.text scope="col" { "Claim" }
                        th scope="col" { "Paper" }
                        th scope="col" { "Here" }
                        th.text scope="col" { "Holds if" }
                        th.text scope="col" { "Kind" }
                    }
                }
                tbody {
                    @for claim in &gallery.claims {
                        tr {
                            td.text { (verdict(claim.verdict)) }
                            td.name { a href=(format!("#{}", claim.figure)) { (claim.figure) } }
                            td.words { (claim.words) }
                            (values(claim))
                        }
                    }
                }
            }
        }
    };
    card("Claims", content)
}

fn verdict(verdict: Verdict) -> Markup {
    let class = if verdict == Verdict::Holds { "badge" } else { "badge fails" };
    html! { span class=(class) { (verdict.name()) } }
}

/// The paper's value and ours; none are muted.
fn both_values(claim: &Claim) -> [Markup; 2] {
    let shown = |value: Option<f64>| value.map(|value| claim.unit.show(value));
    let muted = |text: &str| html! { span.muted { (text) } };
    [
        shown(claim.paper_value).map_or_else(|| muted("in words"), |value| html! { (value) }),
        shown(claim.value).map_or_else(|| muted(format::NOT_AVAILABLE), |value| html! { b { (value) } }),
    ]
}

/// The cells of a claim that has a row.
fn values(claim: &Claim) -> Markup {
    let [paper, here] = both_values(claim);
    html! {
        td { (paper) }
        td { (here) }
        td.text { (claim.holds_if.in_words(claim.unit)) }
        td.text { (claim.kind.name()) }
    }
}

/// The same of a claim that has a card: beside each other, or below where it is narrow.
fn values_in_full(claim: &Claim) -> Markup {
    let [paper, here] = both_values(claim);
    let named = [
        ("Paper", paper),
        ("Here", here),
        ("Holds if", html! { (claim.holds_if.in_words(claim.unit)) }),
        ("Kind", html! { (claim.kind.name()) }),
    ];
    html! {
        dl.values {
            @for (name, value) in named { div { dt { (name) } dd { (value) } } }
        }
    }
}

fn one(gallery: &Gallery, figure: &Reproduced) -> Markup {
    let body = &figure.figure;
    html! {
        section.reproduced id=(figure.name) {
            h3.title { (figure.title) }
            p.muted { (figure.place) " · " code { "evenkeel reproduce " (figure.name) } }
            @if !body.charts.is_empty() {
                div.figures {
                    @for chart in &body.charts {
                        @let values = paper_values(body, chart);
                        figure.card {
                            figcaption { h2 { (chart.title) } p { (chart.meaning) } }
                            div.scroll { (PreEscaped(charts::chart_beside(chart, &values, &compared(body, chart)))) }
                            (page::legend(&legend(&chart.series, &values)))
                        }
                    }
                }
            }
            @for table in &body.tables { (table_card(table)) }
            @let claims: Vec<&Claim> = gallery.claims_of(&figure.name).collect();
            @if !claims.is_empty() { (claims_in_full(&claims)) }
            div.card.setup {
                h2 { "Set-up" }
                ul { @for line in &figure.setup { li { (line) } } }
                @if !body.notes.is_empty() {
                    h3 { "What to know of the outcome" }
                    ul { @for line in &body.notes { li { (line) } } }
                }
            }
        }
    }
}

/// What the paper has in a chart.
fn paper_values<'a>(figure: &'a Figure, chart: &Chart) -> Vec<&'a Series> {
    figure
        .paper_values
        .iter()
        .filter(|values| values.chart == chart.title)
        .map(|values| &values.series)
        .collect()
}

/// The other charts of a figure with the same axes: they are read side by side, and have one scale.
fn compared<'a>(figure: &'a Figure, chart: &Chart) -> Vec<&'a Chart> {
    let axes = |chart: &'a Chart| {
        (&chart.x_name, chart.x_unit, chart.x_scale, &chart.y_name, chart.y_unit, chart.y_scale)
    };
    let found = figure.charts.iter().find(|one| *one == chart).map(axes);
    figure.charts.iter().filter(|other| *other != chart && Some(axes(other)) == found).collect()
}

/// The series by name; a line that hides another, because it is the same, says so. Then values that the paper names.
fn legend(series: &[Series], values: &[&Series]) -> Vec<(Swatch, String)> {
    let entry = |(number, one): (usize, &Series)| {
        let hidden = series[..number].iter().rev().find(|other| other.points == one.points);
        let name = match hidden {
            Some(hidden) => format!("{}, which is the same as {}", one.name, hidden.name),
            None => one.name.clone(),
        };
        (Swatch::Line(number), name)
    };
    let ours = series.iter().enumerate().map(entry);
    ours.chain(values.iter().map(|values| (Swatch::Ring, values.name.clone()))).collect()
}

/// Papers and their figures, each with how many of its claims hold.
fn contents(gallery: &Gallery) -> Markup {
    let held = |figure: &Reproduced| {
        let claims: Vec<&Claim> = gallery.claims_of(&figure.name).collect();
        match claims.iter().filter(|claim| claim.verdict == Verdict::Holds).count() {
            _ if claims.is_empty() => "no claims".to_owned(),
            held => format!("{held} of {} hold", claims.len()),
        }
    };
    html! {
        nav.contents aria-label="Contents" {
            @for paper in &gallery.papers {
                section {
                    h2 { a href=(format!("#paper-{}", paper.paper)) { (paper.title) } }
                    ul {
                        @for figure in gallery.figures.iter().filter(|figure| figure.paper == paper.paper) {
                            li {
                                a href=(format!("#{}", figure.name)) { (figure.name) }
                                span.muted { " · " (figure.place) " · " (held(figure)) }
                            }
                        }
                    }
                }
            }
            p.muted {
                a href="#claims" { "Claims" }
                @if !gallery.not_reproduced.is_empty() { " · " a href="#not-reproduced" { "Not reproduced" } }
                " · " a href="#reading" { "How to read this" }
            }
        }
    }
}

fn claims_in_full(claims: &[&Claim]) -> Markup {
    html! {
        div.verdicts {
            @for claim in claims {
                section.card.verdict.fails[claim.verdict == Verdict::Fails].holds[claim.verdict == Verdict::Holds] {
                    h2 { (verdict(claim.verdict)) " " (claim.words) }
                    (values_in_full(claim))
                    @if !claim.note.is_empty() { p.muted { (claim.note) } }
                }
            }
        }
    }
}

fn table_card(table: &Table) -> Markup {
    let content = html! {
        div.scroll {
            table.numbers {
                thead { tr { @for name in &table.header { th scope="col" { (name) } } } }
                tbody {
                    @for row in &table.rows {
                        tr {
                            @for (place, cell) in row.iter().enumerate() {
                                @if place == 0 { th scope="row" { (cell) } } @else { td { (cell) } }
                            }
                        }
                    }
                }
            }
        }
    };
    card(&table.title, content)
}

fn left_out(gallery: &Gallery) -> Markup {
    let content = html! {
        ul {
            @for left in &gallery.not_reproduced {
                li { b { (left.what) } ": " (left.reason) }
            }
        }
    };
    html! { div.left-out.anchor id="not-reproduced" { (card("Not reproduced", content)) } }
}

fn how_to_read() -> Markup {
    let content = html! {
        div.reading {
            p {
                b { "Paper" } " is the number that the paper names; where it says it in words only, so does the table. "
                b { "Here" } " is ours, put beside " b { "Holds if" } "."
            }
            p {
                "Rings in charts are the paper's values. Charts of a figure with the same axes have one scale. Of a run that was \
                 overrun or cut short no claim holds."
            }
            p {
                b { "Measured" } ": on a real file system or device. "
                b { "Predicted" } ": by a model that was not fitted to the figure. "
                b { "Calibrated" } ": by one that was."
            }
        }
    };
    card("How to read this", content)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::HOSTILE;
    use crate::reproduce::{Comparison, Kind, NotReproduced, Scale, Settings, Unit};

    fn gallery(text: &str) -> Gallery {
        let text = || text.to_owned();
        let claim = |value: f64| Claim {
            figure: "okeanos-sample".to_owned(),
            paper: 5,
            ..Claim::new(text(), Unit::Times, Comparison::AtLeast(2.0), Kind::Predicted, value)
                .paper_value(2.0)
                .note(text())
        };
        let chart = crate::reproduce::Chart {
            title: text(),
            meaning: text(),
            x_name: text(),
            x_unit: Unit::Bytes,
            x_scale: Scale::Log,
            y_name: text(),
            y_unit: Unit::BytesPerS,
            y_scale: Scale::Linear,
            series: vec![Series { name: text(), points: vec![(1024.0, 1e6), (4096.0, 3e6)] }],
        };
        let mut figure = Figure {
            charts: vec![chart],
            tables: vec![Table { title: text(), header: vec![text(); 2], rows: vec![vec![text(); 2]] }],
            paper_values: Vec::new(),
            claims: Vec::new(),
            notes: vec![text()],
        };
        figure.draw_paper(&text(), &text(), &[(2048.0, 2e6)]);
        let mut gallery: Gallery = serde_json::from_value(serde_json::json!({
            "schema": crate::reproduce::SCHEMA,
            "evenkeel_version": text(),
            "settings": Settings { extent: Extent::Full, seed: 1 },
            "papers": [{ "paper": 5, "title": text(), "source": text() }],
            "claims": [claim(3.1), claim(1.5), claim(f64::NAN)],
            "figures": [],
            "not_reproduced": [],
        }))
        .unwrap();
        gallery.figures.push(Reproduced {
            name: "okeanos-sample".to_owned(),
            paper: 5,
            place: text(),
            title: text(),
            setup: vec![text()],
            figure,
        });
        gallery.not_reproduced.push(NotReproduced { paper: 5, what: text(), reason: text() });
        gallery
    }

    #[test]
    fn the_page_says_what_holds_and_what_fails_and_refers_to_nothing() {
        let page = gallery_page(&gallery("words of the paper"));
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
        for word in
            ["1 of 3 claims hold, 2 fail", "3.1x", "1.5x", "at least 2x", "predicted", "words of the paper"]
        {
            assert!(page.contains(word), "{word}");
        }
        for reference in ["http://", "https://", "src=\"", "@import", "url("] {
            assert!(!page.contains(reference), "{reference}");
        }
    }

    #[test]
    fn the_contents_lead_to_every_figure_and_say_how_many_of_its_claims_hold() {
        let page = gallery_page(&gallery("words of the paper"));
        let contents = page.split("<nav").nth(1).and_then(|rest| rest.split("</nav>").next()).unwrap();
        for target in ["paper-5", "okeanos-sample", "claims", "not-reproduced", "reading"] {
            assert!(contents.contains(&format!("href=\"#{target}\"")), "{target}: {contents}");
            assert!(page.contains(&format!("id=\"{target}\"")), "{target}");
        }
        assert!(contents.contains("1 of 3 hold"), "{contents}");
        assert!(page.contains("the paper: words of the paper"));
    }

    #[test]
    fn a_line_that_hides_another_says_so() {
        let line = |name: &str, y| Series { name: name.to_owned(), points: vec![(1.0, y)] };
        let entries = legend(
            &[line("data", 2.0), line("wasteless", 1.0), line("selective", 1.0)],
            &[&line("the paper: data", 3.0)],
        );
        let names: Vec<_> = entries.iter().map(|(_, name)| name.as_str()).collect();
        assert_eq!(
            names,
            ["data", "wasteless", "selective, which is the same as wasteless", "the paper: data"]
        );
    }

    #[test]
    fn no_text_becomes_markup() {
        let page = gallery_page(&gallery(HOSTILE));
        assert!(!page.contains("<script>alert") && !page.contains("<img"), "markup came through");
        assert!(page.contains("&lt;script&gt;alert"));
    }
}
