//! Studies that never ran, with a truth that is known: how often a page says what is false, and how often it misses what
//! is so. `cargo xtask synthetic` prints the table.
//!
//! Pages are made by the very code that makes those of measured studies, and judged by what they claim.

pub mod audit;
pub mod studies;

pub use audit::{Rates, audit};
pub use studies::{Effect, Noise, Plan, Synthetic};
