//! `cargo xtask bench`: the benchmarks, by name.

use std::process::Command;

use crate::run::{self, Failure, Outcome};

/// A benchmark.
#[derive(Debug)]
struct Bench {
    /// What it is called here.
    name: &'static str,
    /// Where it is.
    place: Place,
    /// What it measures.
    about: &'static str,
}

/// Where a benchmark is.
#[derive(Debug, PartialEq, Eq)]
enum Place {
    /// A target of a package of this workspace.
    Target(&'static str, &'static str),
    /// A workspace of its own, with what only it depends on.
    Folder(&'static str),
}

/// All benchmarks.
const BENCHES: &[Bench] = &[
    Bench {
        name: "probe-overhead",
        place: Place::Target("evenkeel-measure", "probe_overhead"),
        about: "what the probe itself costs for each write",
    },
    Bench {
        name: "study-workload",
        place: Place::Target("evenkeel-measure", "study_workload"),
        about: "what the workloads of a study cost beside their system calls",
    },
    Bench {
        name: "study-report",
        place: Place::Target("evenkeel-measure", "study_report"),
        about: "how long the report of a study of a million windows takes, and how large it is",
    },
    Bench {
        name: "event-loop",
        place: Place::Target("evenkeel-host", "event_loop"),
        about: "what tasks, drives, messages and stores into the arena cost",
    },
    Bench {
        name: "embedded",
        place: Place::Target("evenkeel-host", "embedded"),
        about: "what the handle of an embedded volume costs",
    },
    Bench {
        name: "raft",
        place: Place::Folder("bench/raft"),
        about: "many logs, durable each: an embedded volume beside the crate raft-engine",
    },
    Bench {
        name: "erasure",
        place: Place::Target("evenkeel-erasure", "erasure"),
        about: "GB/s of the erasure code's kernels: encode, rebuild, update; rounds as an argument",
    },
    Bench {
        name: "engine",
        place: Place::Target("evenkeel-sim", "engine"),
        about: "what the engine costs over drives in memory: bytes, processor, flushes, recovery",
    },
    Bench {
        name: "model",
        place: Place::Target("evenkeel-sim", "model"),
        about: "what the models of drives cost, and what they say; names of drives as arguments",
    },
    Bench {
        name: "ring-board",
        place: Place::Target("evenkeel-measure", "ring_board"),
        about: "reads and writes of mirrors of modelled drives under each policy; drives, loads and members as arguments",
    },
    Bench {
        name: "nbd",
        place: Place::Target("evenkeel", "nbd"),
        about: "the served volume beside nbdkit and qemu-nbd; `-- --help` tells what can be chosen",
    },
    Bench {
        name: "scale",
        place: Place::Target("evenkeel", "scale"),
        about: "what a served volume costs as streams, sizes, members, logs and volumes grow; curves as arguments",
    },
    Bench {
        name: "mount",
        place: Place::Target("evenkeel", "mount"),
        about: "a mounted volume beside other file systems: appends and syncs, alone and beside neighbours; `-- bulk`",
    },
];

/// What is asked of `bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  cargo xtask bench --list                      which there are
  cargo xtask bench engine                      one of them
  cargo xtask bench nbd -- --help               what it can be told")]
pub(crate) struct Args {
    /// The benchmark [default: all]
    name: Option<String>,
    /// Name them
    #[arg(long)]
    list: bool,
    /// Arguments for it
    #[arg(last = true, value_name = "ARGS")]
    passed_on: Vec<String>,
}

/// Runs the benchmark that was named, or all of them.
pub(crate) fn main(args: &Args) -> Outcome {
    if args.list {
        for bench in BENCHES {
            println!("{:<16} {}", bench.name, bench.about);
        }
        return Ok(());
    }
    let chosen: Vec<&Bench> = match &args.name {
        None => BENCHES.iter().collect(),
        Some(name) => vec![find(name)?],
    };
    for bench in chosen {
        if let Some(build) = bench.needed() {
            run::run(&mut run::cargo(build))?;
        }
        run::hand_over(bench.command().args(&args.passed_on))?;
    }
    Ok(())
}

impl Bench {
    /// What cargo builds before it, if anything.
    fn needed(&self) -> Option<&'static [&'static str]> {
        let library =
            &["build", "--release", "--locked", "--package", "evenkeel", "--example", "slow_flush"][..];
        (self.name == "nbd").then_some(library)
    }

    /// What runs it, up to the arguments of its own.
    fn command(&self) -> Command {
        match self.place {
            Place::Target(package, target) => {
                run::cargo(&["bench", "--locked", "--package", package, "--bench", target, "--"])
            }
            Place::Folder(folder) => {
                let manifest = format!("{folder}/Cargo.toml");
                run::cargo(&["run", "--release", "--locked", "--manifest-path", &manifest, "--"])
            }
        }
    }
}

/// The benchmark of that name.
fn find(name: &str) -> Outcome<&'static Bench> {
    BENCHES.iter().find(|bench| bench.name == name).ok_or_else(|| {
        let names: Vec<_> = BENCHES.iter().map(|bench| bench.name).collect();
        Failure::Usage(format!("no benchmark `{name}`; there is: {}", names.join(", ")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn benchmarks_are_found_by_name() {
        let probe = find("probe-overhead").unwrap();
        assert_eq!(probe.place, Place::Target("evenkeel-measure", "probe_overhead"));
        let Err(Failure::Usage(text)) = find("probe") else { panic!("found") };
        assert!(text.contains("probe-overhead"), "{text}");
    }

    #[test]
    fn one_of_another_workspace_is_run_there() {
        let Place::Folder(folder) = find("raft").unwrap().place else { panic!("not a folder") };
        assert!(run::workspace_root().join(folder).join("Cargo.lock").exists());
        assert!(run::shown(&find("raft").unwrap().command()).contains("bench/raft/Cargo.toml"));
    }
}
