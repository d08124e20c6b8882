//! What a figure yields: charts, tables and claims.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claim::Claim;
use crate::report::Chart;

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

/// What a figure yields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Figure {
    /// Line charts.
    pub charts: Vec<Chart>,
    /// Tables.
    pub tables: Vec<Table>,
    /// What the paper claims of it.
    pub claims: Vec<Claim>,
    /// What a reader should know of the outcome: a sentence each.
    pub notes: Vec<String>,
}
