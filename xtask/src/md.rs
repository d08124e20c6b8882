//! `cargo xtask md`: what a client sees when a member is lost and comes back, on Linux md and on evenkeel.
//!
//! 1. Every trial has a virtual machine with Debian's kernel and members of its own. Contenders take turns, round by round.
//! 2. What is measured is written down whoever looks better by it. A trial that cannot be finished fails the chore.
//! 3. What cannot be had here is a `skipped: REASON`, and no failure.

mod contenders;
mod guest;
mod load;
mod members;
mod table;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::guests::initramfs::{self, Contents, found};
use crate::guests::machine::{self, Kernel};
use crate::run::{self, Outcome, context};
use contenders::{LAYOUTS, Layout};
use table::Rounds;
use trial::{AFTER_S, AWAY_S, BEFORE_S, SECOND_BEFORE_S, SECOND_S};

/// Rounds unless told otherwise.
const ROUNDS: u64 = 2;

/// What folders of members are called, before the number of their process.
const MEMBERS: &str = "evenkeel-md-";

/// What it takes: Debian packages, and a program of each.
const NEEDS: &[(&str, &str)] = &[
    ("qemu-system-x86", "qemu-system-x86_64"),
    ("busybox-static", "busybox"),
    ("nbd-client", "nbd-client"),
    ("nbdkit", "nbdkit"),
    ("mdadm", "mdadm"),
    ("fio", "fio"),
];

/// What md takes, each after what it needs.
const MODULES: &[&str] = &[
    "crypto/crc32c_generic.ko",
    "lib/libcrc32c.ko",
    "lib/raid6/raid6_pq.ko",
    "crypto/xor.ko",
    "crypto/async_tx/async_tx.ko",
    "crypto/async_tx/async_memcpy.ko",
    "crypto/async_tx/async_xor.ko",
    "crypto/async_tx/async_pq.ko",
    "crypto/async_tx/async_raid6_recov.ko",
    "drivers/md/md-mod.ko",
    "drivers/md/raid1.ko",
    "drivers/md/raid456.ko",
];

/// What is asked of `md`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Gets Debian's kernel, QEMU, busybox, nbd-client, nbdkit, mdadm and fio with apt-get, as root.

Examples:
  cargo xtask md                             two rounds of eight contenders, in 45 minutes
  cargo xtask md --rounds 5 --only evenkeel  only those with this in their name
  cargo xtask md --only '4+2 '               only those of this layout: 4+2 or mirror"
)]
pub(crate) struct Args {
    /// How often each contender has its turn
    #[arg(long, default_value_t = ROUNDS, value_parser = clap::value_parser!(u64).range(1..))]
    rounds: u64,

    /// Only contenders whose layout and name have this in them
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// A program to compare instead of building one
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Where members lie: memory, so that only their delays count
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    members: PathBuf,
}

/// Compares them.
pub(crate) fn main(args: &Args) -> Outcome {
    let folder = run::workspace_root().join("target/guests");
    fs::create_dir_all(&folder).map_err(context(format!("cannot make {}", folder.display())))?;
    let kernel = match machine::get_programs(NEEDS).and_then(|()| machine::get_kernel(&folder)) {
        Ok(kernel) => kernel,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(());
        }
    };
    let image = folder.join("initramfs-md");
    let program = without_symbols(&program(args)?, &folder)?;
    fs::write(&image, initramfs_for(&kernel, &program)?)
        .map_err(context(format!("cannot write {}", image.display())))?;
    for left in left_behind(&args.members) {
        eprintln!("{}: members of a run that was killed; remove it", left.display());
    }
    let members = args.members.join(format!("{MEMBERS}{}", std::process::id()));
    fs::create_dir_all(&members).map_err(context(format!("cannot make {}", members.display())))?;
    let done = compare(args, &kernel, &image, &members);
    let removed = fs::remove_dir_all(&members).map_err(context("cannot remove the members"));
    done.and(removed)
}

/// Folders of members whose process is gone.
fn left_behind(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let is_left = |name: &str| {
        let process = name.strip_prefix(MEMBERS).filter(|number| number.parse::<u32>().is_ok());
        process.is_some_and(|number| !Path::new("/proc").join(number).exists())
    };
    entries
        .filter(|entry| entry.file_name().to_str().is_some_and(is_left))
        .map(|entry| entry.path())
        .collect()
}

/// The program that is compared.
fn program(args: &Args) -> Outcome<PathBuf> {
    if let Some(program) = &args.program {
        return Ok(program.clone());
    }
    let build = &["build", "--release", "--locked", "--quiet", "-p", "evenkeel"];
    run::run(run::cargo(build).stdin(Stdio::null()))?;
    let target = std::env::var("CARGO_TARGET_DIR")
        .map_or_else(|_| run::workspace_root().join("target"), PathBuf::from);
    Ok(target.join("release/evenkeel"))
}

/// The program as a guest has it: it starts sooner without what only a debugger reads.
fn without_symbols(program: &Path, folder: &Path) -> Outcome<PathBuf> {
    if !run::has_program("strip") {
        return Ok(program.to_owned());
    }
    let stripped = folder.join("evenkeel-md");
    run::run(run::system("strip", &["-o"]).arg(&stripped).arg(program))?;
    Ok(stripped)
}

fn initramfs_for(kernel: &Kernel, program: &Path) -> Outcome<Vec<u8>> {
    let programs = [
        ("nbd-client", found("nbd-client")?),
        ("mdadm", found("mdadm")?),
        ("fio", found("fio")?),
        // busybox's has no fractions of a second.
        ("now", found("date")?),
        ("evenkeel", program.to_owned()),
    ];
    initramfs::image(kernel, &Contents { work: guest::WORK, modules: MODULES, programs: &programs })
}

fn compare(args: &Args, kernel: &Kernel, image: &Path, members: &Path) -> Outcome {
    let mut results: Vec<(&Layout, Vec<Rounds>)> = Vec::new();
    for layout in &LAYOUTS {
        let names = layout.contenders.iter().map(|&contender| (layout.called(contender), Vec::new()));
        results.push((layout, names.collect()));
    }
    for round in 1..=args.rounds {
        for (layout, measured) in &mut results {
            for (&contender, (name, measured)) in layout.contenders.iter().zip(measured) {
                if format!("{} {name}", layout.name).contains(&args.only) {
                    eprintln!("round {round}: {name}");
                    let one = trial::trial(kernel, image, members, layout, contender)?;
                    eprintln!("{}", one.summary());
                    measured.push(one);
                }
            }
        }
    }
    println!("{}", legend(args.rounds));
    for (layout, mut measured) in results {
        measured.retain(|(_, rounds)| !rounds.is_empty());
        if !measured.is_empty() {
            println!("{}", table::tables(layout, &measured));
        }
    }
    Ok(())
}

/// What the tables show.
fn legend(rounds: u64) -> String {
    [
        format!("Rounds: {rounds}, contenders in turns."),
        format!("Drives: exports in memory, each request {} later.", members::DELAY),
        format!(
            "Load: {} reads of {} KiB and {} durable writes of {} KiB a second.",
            load::READS_S,
            load::READ_KIB,
            load::WRITES_S,
            load::WRITE_KIB
        ),
        format!("Before: {BEFORE_S} s. Lost: {AWAY_S} s without one member. Back: until all have everything."),
        format!("Whole: until {AFTER_S} s after the return, or later."),
        format!(
            "Others lost: as many as may be, {SECOND_BEFORE_S} s after the start of a second load of {SECOND_S} s."
        ),
        "Back in md: a script attaches the member and says `--re-add` at once. evenkeel is told nothing.".to_owned(),
        "By the load: what the same time took before the loss.".to_owned(),
    ]
    .join("\n")
        + "\n"
}
