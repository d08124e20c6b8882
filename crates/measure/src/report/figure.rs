//! What charts are drawn from: named series over two axes, each with a unit and a scale.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format;

/// What a number counts, which decides how it is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A number of things.
    Count,
    /// One value over another.
    Times,
    /// A part of the whole, 1 being all of it.
    Share,
    /// Bytes.
    Bytes,
    /// Bytes a second.
    BytesPerS,
    /// Seconds.
    S,
    /// Things a second.
    PerS,
}

impl Unit {
    /// For people.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Count => format::number(value),
            Self::Times => format!("{}x", format::number_short(value)),
            Self::Share => format::percent(value),
            Self::Bytes => format::bytes_f64(value),
            Self::BytesPerS => format::rate(value),
            Self::S => format::seconds(value),
            Self::PerS => format!("{}/s", format::number(value)),
        }
    }

    /// For the tick of an axis.
    pub fn tick(self, value: f64) -> String {
        match self {
            Self::Bytes if value >= 1.0 => {
                format::bytes_f64(value).replace("iB", "").replace(" B", "").replace(' ', "")
            }
            Self::PerS => format::number(value),
            _ => self.show(value),
        }
    }
}

/// How values lie along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// At even distances, from 0.
    Linear,
    /// By their logarithm: what is not above 0 has no place.
    Log,
}

/// A named line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// What the legend says.
    pub name: String,
    /// Its points, ascending in the first coordinate.
    pub points: Vec<(f64, f64)>,
}

/// A line chart.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Chart {
    /// Its heading.
    pub title: String,
    /// What it shows, in a line.
    pub meaning: String,
    /// What lies along the horizontal axis.
    pub x_name: String,
    /// Its unit.
    pub x_unit: Unit,
    /// Its scale.
    pub x_scale: Scale,
    /// What lies along the vertical axis.
    pub y_name: String,
    /// Its unit.
    pub y_unit: Unit,
    /// Its scale.
    pub y_scale: Scale,
    /// Its lines. A series of a name has its colour by its place, so the charts of a figure name theirs in one order.
    pub series: Vec<Series>,
}

impl Chart {
    /// The series of that name.
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}
