//! The `evenkeel` command: parse, call, print.
//!
//! Exit codes: 0 done, 1 the answer is no, 2 wrong usage or unusable input, 75 stopped by what may pass (`study run` only),
//! 130 interrupted; whatever is not 0 comes with one line on standard error that says what to do next. As `mount.evenkeel` it
//! ends as mount(8) does; as `evenkeeld` it is `evenkeel daemon`.

mod args;
mod compare;
mod drive;
mod failure;
mod logging;
mod manual;
mod models;
mod mount_helper;
mod outputs;
mod probe;
mod progress;
mod replay;
mod reproduce;
mod schema;
mod screen;
mod sim;
mod stdout;
mod study;
mod table;
mod units;
mod volume;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};

/// The name under which this program is `evenkeel daemon`.
const DAEMON: &str = "evenkeeld";

/// What was typed: as `evenkeeld` this is `evenkeel daemon`.
fn typed() -> Vec<OsString> {
    let mut typed: Vec<OsString> = std::env::args_os().collect();
    if typed.first().and_then(|name| Path::new(name).file_name()).is_some_and(|name| name == DAEMON) {
        typed.insert(1, "daemon".into());
    }
    typed
}

fn main() -> ExitCode {
    if mount_helper::is_meant() {
        return mount_helper::run();
    }
    let answer = match Args::parse_from(typed()).command {
        Command::Probe(args) => probe::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Create(args) => volume::create(&args),
        Command::Mount(args) => volume::mount(&args),
        Command::Serve(args) => volume::serve(&args),
        Command::Daemon(args) => volume::daemon(&args),
        Command::Convert(args) => volume::convert(&args),
        Command::Status(args) => volume::status(&args),
        Command::Tune(args) => volume::tune(&args),
        Command::Check(args) => volume::check(&args),
        Command::Grow(args) => volume::grow(&args),
        Command::Replace(args) => volume::replace(&args),
        Command::Salvage(args) => volume::salvage(&args),
        Command::RenewLog(args) => volume::renew_log(&args),
        Command::Arenas(args) => volume::arenas(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Drive(args) => drive::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Study(args) => study::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::pages(&args),
    };
    match answer {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !logging::tell_end(&failure) {
                stdout::complain(&format!("evenkeel: {failure}"));
            }
            failure.exit_code()
        }
    }
}
