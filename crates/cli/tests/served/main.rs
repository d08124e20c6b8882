//! Volumes that are served: clients, kills, limits, files, pages, services and events.

mod arenas;
mod cache;
mod clients;
mod cut_short;
mod daemon;
mod discards;
mod events;
mod fences;
mod file_systems;
mod files;
mod http;
mod kills;
mod limits;
mod members;
mod memory;
mod monitoring;
mod older_states;
mod page;
mod postgres;
mod power_cuts;
mod removed;
mod rescue;
mod rules;
mod service;
mod sockets;
mod tls;
mod waiting_writes;
mod wakefulness;
mod watch;

#[path = "../support/mod.rs"]
mod support;
