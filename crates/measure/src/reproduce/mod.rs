//! The figures of the papers that evenkeel builds on, drawn again from its own engine and models.
//!
//! ```text
//! registry      which figures there are, and what is not reproduced
//!   FigureModule  one figure: its set-up in words, and the function that runs it
//! work          its points, side by side on the processors that there are
//! figure        what comes out: charts, tables, claims
//!   claim         the paper's words, its value, ours, and whether it holds
//! machine       file systems over drives by model in real time, for figures that measure
//! sync_writes, rails, range_flush, okeanos   the figures of papers 1, 3, 4 and 5
//! gallery       all of them, as the document that `reproduce.json` holds; csv.rs its rows
//! ```
//!
//! 1. A figure is a function of [`Settings`] alone: the same settings give the same document, whatever the number of
//!    processors. Only figures that measure this machine differ from run to run; their claims say so
//!    ([`Kind::Measured`]).
//! 2. A claim is judged by data ([`Comparison`]), not by code of the figure.
//! 3. Nothing is tuned for a figure beyond what its paper states; what had to be assumed stands in its set-up.

mod claim;
mod csv;
mod figure;
mod gallery;
mod machine;
pub mod mirrors;
mod okeanos;
pub mod page;
mod rails;
mod range_flush;
mod registry;
mod sync_writes;
mod work;

pub use claim::{Claim, Comparison, Kind, Verdict};
pub use csv::csv;
pub use figure::{Figure, PaperValues, Table};
pub use gallery::{Gallery, Reproduced, SCHEMA};
pub use machine::{FileSystem, Machine, Measuring, Mounted, Wanted};
pub use registry::{NotReproduced, find, modules, not_reproduced, papers};
pub use work::{Halted, Observer, Silent, Work};

pub use crate::report::{Chart, Scale, Series, Unit};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much of a figure is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Extent {
    /// As published.
    Full,
    /// The same shape from a few points, in seconds: for tests and first looks.
    Small,
}

/// What a figure depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Settings {
    /// How much is run.
    pub extent: Extent,
    /// Of all chance in it.
    pub seed: u64,
}

impl Settings {
    /// One of two values, by the extent.
    pub fn pick<T>(&self, full: T, small: T) -> T {
        match self.extent {
            Extent::Full => full,
            Extent::Small => small,
        }
    }
}

/// A publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Paper {
    /// Its number here.
    pub number: u8,
    /// A short name.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Authors, venue and year.
    pub source: &'static str,
}

/// One figure or table of a paper.
#[derive(Debug, Clone, Copy)]
pub struct FigureModule {
    /// What it is called on the command line: the paper's short name first.
    pub name: &'static str,
    /// Its paper's number.
    pub paper: u8,
    /// Which figure of the paper.
    pub place: &'static str,
    /// What it shows.
    pub title: &'static str,
    /// What is run, and what was assumed where the paper does not say: a sentence each.
    pub setup: &'static [&'static str],
    /// Runs it: points go through the [`Work`], which runs them side by side and can be stopped.
    pub run: fn(&Settings, &Work<'_>) -> Result<Figure, Halted>,
}

/// Runs these figures side by side and puts them together, in their order. A figure that cannot be run here is named
/// among what is not reproduced.
///
/// # Errors
///
/// Where the work was stopped.
pub fn run(
    figures: &[&'static FigureModule],
    settings: &Settings,
    work: &Work<'_>,
) -> Result<Gallery, Halted> {
    let results: Vec<_> = std::thread::scope(|scope| {
        let start = |module: &'static FigureModule| scope.spawn(move || (module.run)(settings, work));
        let running: Vec<_> = figures.iter().map(|&module| start(module)).collect();
        let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Figure, Halted>>| match thread.join() {
            Ok(result) => result,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        running.into_iter().map(join).collect()
    });
    let mut gallery = Gallery::new(*settings, work.measuring());
    for (module, result) in figures.iter().zip(results) {
        match result {
            Ok(figure) => gallery.add(module, figure),
            Err(Halted::Unavailable(reason)) => gallery.leave_out(module, reason),
            Err(Halted::Stopped) => return Err(Halted::Stopped),
        }
    }
    Ok(gallery)
}

#[cfg(test)]
mod tests;
