//! What every command shares: help, refusals, warnings, signals, and the documents beside it.

mod documents;
mod help;
mod interrupt;
mod refusals;
mod warnings;

#[path = "../support/mod.rs"]
mod support;
