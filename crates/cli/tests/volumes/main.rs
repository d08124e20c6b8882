//! Volumes that are made, described, checked, grown, moved, salvaged and destroyed.

mod arena_folders;
mod arenas;
mod check;
mod convert;
mod convert_served;
mod create_exports;
mod create_rules;
mod description_rules;
mod destroy;
mod formats;
mod grow;
mod moved_sectors;
mod salvage;

#[path = "../support/mod.rs"]
mod support;
