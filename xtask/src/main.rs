//! The project's own chores: `cargo xtask COMMAND`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore's output is for whoever runs it")]

mod bench;
mod check;
mod fuzz;
mod guests;
mod loopfs;
mod md;
mod package;
mod peers;
mod planted;
mod prove;
mod run;
mod slow;
mod synthetic;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use run::Outcome;

const EXAMPLES: &str = "\
Examples:
  cargo xtask check                                 formatting and lints
  cargo xtask test -- -p evenkeel-measure           the tests of one crate
  cargo xtask test --slow seeds                     rare faults, for hours
  cargo xtask bench nbd -- --help                   what a benchmark can be told
  sudo -E cargo xtask loopfs up /tmp/fs --fs ext4   a file system to try things on
  cargo xtask synthetic --pages 1000 --page pairs   how often a comparison is wrong";

/// The project's own chores.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check formatting and lints, as errors
    Check,
    /// Install what the tests need (as root, with apt-get), run them, tell what was skipped
    Test(test::Args),
    /// Run one benchmark, or all
    Bench(bench::Args),
    /// Make file systems in image files, or remove them; needs root
    #[command(subcommand)]
    Loopfs(loopfs::Action),
    /// Run the probe beside fio and iozone in each folder, in turns, and print a table
    Peers(peers::Args),
    /// Run databases on a mounted volume and on what people have instead, alone and beside neighbours, and print tables
    Prove(prove::Args),
    /// Plant bugs in the engine, one after the other, and show that the simulator sees each
    Planted(planted::Args),
    /// Print how often reports of synthetic studies, probes and comparisons say anything false, or miss what is so
    Synthetic(synthetic::Args),
    /// Have virtual machines write to a served volume through the kernel's NBD client, and cut them
    Guests(guests::Args),
    /// Compare what a client sees when a member is lost and comes back, on Linux md and on evenkeel, and print tables
    Md(md::Args),
    /// Make what a release consists of: a Debian package, a static program, man pages, completions, checksums
    Package(package::Args),
    /// Run one fuzz target, or all
    Fuzz(fuzz::Args),
}

fn main() -> ExitCode {
    match dispatch(Cli::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn dispatch(command: Command) -> Outcome {
    match command {
        Command::Check => check::main(),
        Command::Test(args) => test::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Loopfs(action) => loopfs::main(action),
        Command::Peers(args) => peers::main(&args),
        Command::Prove(args) => prove::main(&args),
        Command::Planted(args) => planted::main(&args),
        Command::Synthetic(args) => synthetic::main(&args),
        Command::Guests(args) => guests::main(&args),
        Command::Md(args) => md::main(&args),
        Command::Package(args) => package::main(&args),
        Command::Fuzz(args) => fuzz::main(&args),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use clap::error::ErrorKind;

    fn refused(words: &[&str]) -> Option<ErrorKind> {
        Cli::try_parse_from([&["xtask"], words].concat()).err().map(|error| error.kind())
    }

    #[test]
    fn the_commands_are_sound_and_have_examples() {
        Cli::command().debug_assert();
        for command in Cli::command().get_subcommands() {
            assert!(command.get_about().is_some(), "{}", command.get_name());
            assert!(
                command.get_after_help().is_some() || command.get_name() == "check",
                "{}",
                command.get_name()
            );
        }
    }

    #[test]
    fn what_is_asked_wrongly_is_refused() {
        for words in [
            &["frobnicate"][..],
            &[],
            &["check", "x"],
            &["test", "--nocapture"],
            &["test", "seeds"],
            &["test", "--list"],
            &["test", "--slow", "--", "--nocapture"],
            &["bench", "probe-overhead", "other"],
            &["peers"],
            &["peers", "/nowhere"],
            &["peers", "/", "--rounds", "0"],
            &["fuzz", "--time", "0s"],
            &["fuzz", "--time"],
            &["fuzz", "record", "log"],
            &["synthetic", "--studies", "0"],
            &["synthetic", "--page", "pairs"],
            &["loopfs"],
            &["loopfs", "up"],
            &["loopfs", "down", "d", "--size", "1g"],
            &["loopfs", "up", "d", "e"],
            &["loopfs", "up", "d", "--size", "1gb"],
            &["loopfs", "up", "d", "--fs", "xfs,"],
            &["loopfs", "up", ""],
        ] {
            assert!(refused(words).is_some(), "{words:?}");
        }
        for words in [
            &["check"][..],
            &["test", "--", "-p", "x"],
            &["test", "--slow", "--list"],
            &["bench", "nbd", "--", "--help"],
            &["peers", "/", "--rounds", "3"],
            &["fuzz", "record", "--time", "3s"],
            &["synthetic", "--pages", "10", "--page", "pairs", "--noise", "normal"],
            &["loopfs", "up", "--size=512m", "--fs", "btrfs,xfs", "--dry-run", "d", "--backing-dir", "b"],
        ] {
            assert_eq!(refused(words), None, "{words:?}");
        }
    }
}
