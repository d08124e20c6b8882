//! What a figure yields: charts, tables and claims.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claim::Claim;
use crate::report::{Chart, Series};

/// Figures in rows, as they are to be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// Names of the columns; the first is that of the rows' names.
    pub header: Vec<String>,
    /// As many cells as there are columns.
    pub rows: Vec<Vec<String>>,
}

/// Values that the paper names, to be drawn into a chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PaperValues {
    /// Title of the chart.
    pub chart: String,
    /// What they are of, and the values.
    pub series: Series,
}

/// What a figure yields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Line charts.
    pub charts: Vec<Chart>,
    /// What the paper has in them.
    #[serde(default)]
    pub paper_values: Vec<PaperValues>,
    /// Tables.
    pub tables: Vec<Table>,
    /// What the paper claims of it.
    pub claims: Vec<Claim>,
    /// What a reader should know of the outcome: a sentence each.
    pub notes: Vec<String>,
}

impl Figure {
    /// Draws values that the paper names into the chart of that title.
    pub(super) fn draw_paper(&mut self, chart: &str, name: &str, points: &[(f64, f64)]) {
        let name = format!("the paper: {name}");
        let series = Series { name, points: points.to_vec() };
        self.paper_values.push(PaperValues { chart: chart.to_owned(), series });
    }
}
