//! Synchronous writes against buffer size: throughput, latency and their ratio (paper 1).
//!
//! ```text
//! hdd, ssd, sdcard   figures 1 to 9, a device each: throughput, latency, ratio
//! balance            section 4.4: the devices beside each other
//!   device           the models, and how requests get to them
//!   stack            a synchronous write through a file system: the requests it is made of
//!   curve            the sweep over buffer sizes, its phases, its fitted line and its peak
//!   drawing          charts and the table of a device
//!   measured         the sweep on real file systems, where that was asked for
//! ```

mod balance;
mod curve;
mod device;
mod drawing;
mod hdd;
mod measured;
mod sdcard;
mod ssd;
mod stack;

use super::{Claim, Comparison, FigureModule, Kind, Unit};

/// The paper's figures.
pub(super) const MODULES: &[FigureModule] = &[hdd::MODULE, ssd::MODULE, sdcard::MODULE, balance::MODULE];

/// A claim from models that were not fitted to it.
fn claim(words: &str, unit: Unit, holds_if: Comparison, value: f64, note: &str) -> Claim {
    Claim::new(words, unit, holds_if, Kind::Predicted, value).note(note)
}

/// iozone's kilobytes.
fn kb(kilobytes: f64) -> f64 {
    kilobytes * 1024.0
}

#[cfg(test)]
mod tests;
