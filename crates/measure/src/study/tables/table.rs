//! A table with its cells, for the page and for a file.

use crate::report::Unit;
use crate::report::format::NOT_AVAILABLE;

/// A table.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its name in the name of its file.
    pub name: &'static str,
    /// Its heading on the page.
    pub title: &'static str,
    /// Its columns: name in the file, heading on the page. Those of intervals, and no others, end in `_ci95`.
    pub columns: Vec<(&'static str, &'static str)>,
    /// As many cells as there are columns.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    /// Words.
    Text(String),
    /// A figure, if it could be had.
    Figure(Option<f64>, Unit),
    /// An interval, two columns of the file.
    Interval(Option<[f64; 2]>, Unit),
}

impl Cell {
    /// For people.
    pub fn shown(&self) -> String {
        let missing = || NOT_AVAILABLE.to_owned();
        match self {
            Self::Text(text) => text.clone(),
            Self::Figure(value, unit) => value.map_or_else(missing, |value| unit.show(value)),
            Self::Interval(ends, unit) => {
                ends.map_or_else(missing, |[low, high]| format!("{} to {}", unit.show(low), unit.show(high)))
            }
        }
    }

    /// For programs: one field, or two.
    fn fields(&self) -> Vec<String> {
        let field = |value: Option<f64>| {
            value.filter(|value| value.is_finite()).map_or_else(String::new, |value| format!("{value:?}"))
        };
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Figure(value, _) => vec![field(*value)],
            Self::Interval(ends, _) => vec![field(ends.map(|ends| ends[0])), field(ends.map(|ends| ends[1]))],
        }
    }
}

impl Table {
    /// The table as comma-separated values, with a heading.
    ///
    /// # Errors
    ///
    /// None in practice: the text is made in memory.
    pub fn csv(&self) -> Result<String, csv::Error> {
        let mut writer = csv::Writer::from_writer(Vec::new());
        let is_interval =
            |at: usize| matches!(self.rows.first().map(|row| &row[at]), Some(Cell::Interval(..)));
        let header = self.columns.iter().enumerate().flat_map(|(at, (name, _))| match is_interval(at) {
            true => vec![format!("{name}_low"), format!("{name}_high")],
            false => vec![(*name).to_owned()],
        });
        writer.write_record(header)?;
        for row in &self.rows {
            writer.write_record(row.iter().flat_map(Cell::fields))?;
        }
        let bytes = writer.into_inner().map_err(|error| std::io::Error::from(error.error().kind()))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
