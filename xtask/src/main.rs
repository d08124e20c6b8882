//! The project's own chores: `cargo xtask COMMAND`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a chore's output is for whoever runs it")]

mod bench;
mod check;
mod fuzz;
mod guests;
mod loopfs;
mod peers;
mod planted;
mod run;
mod slow;
mod synthetic;
mod test;

use std::process::ExitCode;

use run::{Failure, Outcome};

/// What `cargo xtask help` shows.
const HELP: &str = "\
cargo xtask COMMAND

  check                 formatting and lints, as errors
  test [-- ARGS]        install what the tests need (as root, with apt-get), run them, tell what was skipped
  test --slow [--list] [NAME...]
                        look for rare faults for hours: seeds, crash states, kills, sessions, fuzz targets, guests, planted bugs; all,
                        or those whose names begin so; prints how much was tried
  bench [NAME] [-- ARGS]
                        run one benchmark, or all; --list names them
  loopfs up DIR [--size 1g] [--fs xfs,ext4,btrfs] [--backing-dir D] [--dry-run]
                        make file systems in image files and mount them at DIR/xfs, DIR/ext4, DIR/btrfs
  loopfs down DIR [--dry-run]
                        remove what `loopfs up` made
  peers DIR... [--rounds 15]
                        the probe beside fio and iozone in each folder, in turns; prints a table
  planted [NAME...]     plant bugs in the engine, one after the other, and show that the simulator sees each: all, or those
                        whose names begin so
  synthetic [--studies 1000] [--from SEED] [--noise NAME]... [--effect NAME]...
  synthetic --pages 1000 [--from SEED] [--noise NAME]... [--page NAME]...
                        make studies up of each kind of noise and effect, or probes and comparisons, and print how many
                        of their reports say anything false, and how many miss what is so
  guests [--rounds 4]   virtual machines write to a served volume through the kernel's NBD client, and are cut; gets Debian's
                        kernel, QEMU, busybox and nbd-client with apt-get
  fuzz [TARGET] [--time 10s]
                        run one fuzz target, or all; --list names them
  help                  this text
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match dispatch(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

/// Runs the command that the first argument names.
fn dispatch(args: &[String]) -> Outcome {
    let Some((name, rest)) = args.split_first() else {
        print!("{HELP}");
        return Ok(());
    };
    match name.as_str() {
        "check" => check::main(rest),
        "test" => test::main(rest),
        "bench" => bench::main(rest),
        "loopfs" => loopfs::main(rest),
        "peers" => peers::main(rest),
        "planted" => planted::main(rest),
        "fuzz" => fuzz::main(rest),
        "guests" => guests::main(rest),
        "synthetic" => synthetic::main(rest),
        "help" | "--help" | "-h" => {
            print!("{HELP}");
            Ok(())
        }
        other => Err(Failure::Usage(format!("unknown command `{other}`; `cargo xtask help` lists them"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_command_is_a_usage_error_of_one_line() {
        let Err(Failure::Usage(text)) = dispatch(&["frobnicate".to_owned()]) else {
            panic!("not a usage error");
        };
        assert!(text.contains("frobnicate") && !text.contains('\n'), "{text}");
    }

    #[test]
    fn help_names_every_command() {
        for name in [
            "check",
            "test",
            "bench",
            "loopfs up",
            "loopfs down",
            "planted",
            "synthetic",
            "guests",
            "fuzz",
            "help",
        ] {
            assert!(HELP.contains(&format!("\n  {name} ")), "{name}");
        }
    }
}
