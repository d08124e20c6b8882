//! Comma-separated values: one row a point of a chart, and one a claim, told apart by `part`.
//!
//! Figures have full precision and the units that the row names; what is `null` in the document is empty here.

use ::csv::{Error, Writer};

use super::gallery::Gallery;

const COLUMNS: [&str; 11] =
    ["part", "paper", "figure", "name", "series", "x", "x_unit", "y", "y_unit", "paper_value", "verdict"];

/// Every point and every claim of the gallery, with a heading.
///
/// # Errors
///
/// None in practice: the text is made in memory.
pub fn csv(gallery: &Gallery) -> Result<String, Error> {
    let mut writer = Writer::from_writer(Vec::new());
    writer.write_record(COLUMNS)?;
    for figure in &gallery.figures {
        let paper = figure.paper.to_string();
        for chart in &figure.figure.charts {
            let (x_unit, y_unit) = (name(&chart.x_unit), name(&chart.y_unit));
            for series in &chart.series {
                for (x, y) in &series.points {
                    let (x, y) = (format!("{x:?}"), format!("{y:?}"));
                    let (figure, chart, series) = (&figure.name, &chart.title, &series.name);
                    writer.write_record([
                        "point", &paper, figure, chart, series, &x, &x_unit, &y, &y_unit, "", "",
                    ])?;
                }
            }
        }
    }
    for claim in &gallery.claims {
        let (paper, unit) = (claim.paper.to_string(), name(&claim.unit));
        let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:?}"));
        let (value, paper_value) = (number(claim.value), number(claim.paper_value));
        let (kind, verdict) = (claim.kind.name(), claim.verdict.name());
        let (figure, words) = (&claim.figure, &claim.words);
        writer.write_record([
            "claim",
            &paper,
            figure,
            words,
            kind,
            "",
            "",
            &value,
            &unit,
            &paper_value,
            verdict,
        ])?;
    }
    let bytes = writer.into_inner().map_err(|error| std::io::Error::from(error.error().kind()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A unit by its name in the document.
fn name(unit: &super::Unit) -> String {
    serde_json::to_value(unit).ok().and_then(|value| Some(value.as_str()?.to_owned())).unwrap_or_default()
}
