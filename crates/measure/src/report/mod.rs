//! Reports: figures for people (`format`), charts as SVG, tables as Markdown, and the frame of a page.
//!
//! A leaf: it knows numbers, units and series, and nothing of what was measured. A probe, a comparison, a study and the
//! papers' figures make pages of their own from it. Everything here is a pure function; no content makes it panic.

pub mod charts;
mod figure;
pub mod format;
pub(crate) mod markdown;
pub(crate) mod page;

pub use figure::{Chart, Scale, Series, Unit};

/// What marks text that must be escaped.
#[cfg(test)]
pub(crate) const HOSTILE: &str = "<script>alert('1')</script>\"&'--><img src=x>";
