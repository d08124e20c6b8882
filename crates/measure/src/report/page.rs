//! The frame of a page, and the pieces that pages share: cards, lists of facts and legends.
//!
//! A page refers to nothing outside itself and asks the browser to refuse it if it did; every text that comes from the
//! machine measured is escaped. It follows the reader's preference for light or dark, fits narrow screens, and prints.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use super::charts::{self, Swatch};

const STYLE: &str = include_str!("page/style.css");
/// Copies tables, keeps charts, chooses sizes: the page says all it has to say without them.
const SCRIPTS: [&str; 3] =
    [include_str!("page/copy.js"), include_str!("page/keep_charts.js"), include_str!("page/choose_size.js")];
/// Nothing but what is written in the page itself, and pictures that it makes of its own charts.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
                      img-src blob:";

/// A whole page.
pub(crate) fn page(title: &str, content: Markup, provenance: Markup) -> String {
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

/// A part of the page under its heading.
pub(crate) fn card(heading: &str, content: Markup) -> Markup {
    html! {
        section.card {
            h2 { (heading) }
            (content)
        }
    }
}

/// A button that copies a table as Markdown.
pub(crate) fn copy_markdown(table: &str) -> Markup {
    html! {
        button.copy type="button" hidden data-text=(table) title="as Markdown, rounded as here" { "Copy as Markdown" }
    }
}

/// A name and what it is.
pub(crate) type Fact = (&'static str, Markup);

/// Names and what they are, as a list.
pub(crate) fn facts(facts: &[Fact]) -> Markup {
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
pub(crate) fn known(text: Option<&str>) -> Markup {
    match text {
        Some(text) => html! { (text) },
        None => html! { span.muted { "not known" } },
    }
}

/// What the charts' strokes and shades stand for.
pub(crate) fn legend(entries: &[(Swatch, String)]) -> Markup {
    html! {
        ul.legend {
            @for (which, text) in entries {
                li { (PreEscaped(charts::swatch(*which))) span { (text) } }
            }
        }
    }
}

/// Asserts that a page is whole, small, and refers to nothing.
#[cfg(test)]
pub(crate) fn assert_sound(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert!(page.len() < 450_000, "{} bytes", page.len());
    assert!(!page.contains("NaN"), "a figure is no number");
    for reference in ["http://", "https://", "src=\"", "@import", "url("] {
        assert!(!page.contains(reference), "{reference}");
    }
}
