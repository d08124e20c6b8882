//! Stories of drives, that keep what they promise and that take their time.

mod common;
mod common_models;

mod disk_models;
mod drive;
mod drive_contents;
mod drive_models;
mod drive_states;
mod drive_stops;
mod faults;
mod file_system;
mod model;
