//! The workloads: what threads do to files, and how often and how long each operation took.

pub mod engine;
pub mod files;
pub mod operation;
pub mod payload;
pub mod pool;
pub mod recorder;
pub mod spec;
#[cfg(test)]
mod tests;
pub mod tree;
