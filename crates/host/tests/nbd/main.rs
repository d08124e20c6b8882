//! The NBD server and client, over connections in memory, in virtual time.

#![allow(clippy::print_stderr)] // The rate of a long run, to whoever asked for one.

mod commands;
mod device;
mod disconnects;
mod fixture;
mod fuzz;
mod handshake;
mod hostile_server;
mod limits;
mod model;
mod tls;
mod volume;
mod writers;

#[path = "../support/mod.rs"]
mod support;
