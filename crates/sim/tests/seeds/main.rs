//! Seeds in numbers: of volumes on one drive, and of rings.

mod common_seeds;

mod mirror;
mod single;
