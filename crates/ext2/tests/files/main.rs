//! The file system on a store in memory.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/exercise.rs"]
mod exercise;

mod cuts;
mod hostile;
mod large;
mod many;
mod operations;
mod unreadable;
