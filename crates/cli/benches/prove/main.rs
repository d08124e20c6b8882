//! Databases on a mounted volume and on what people have instead: `cargo xtask prove [-- OPTIONS]`.
//!
//! ```text
//! main           what to run; rounds
//!   stacks       where the files of databases are: a mounted volume, a folder, ext4 over NBD servers
//!     attached   an NBD server, nbdfuse, a loop device, ext4
//!     modelled   a mounted volume on modelled drives
//!   database     what a database does here, and what is counted of it
//!     postgres   pgbench
//!     sqlite     inserts, one after the other
//!     etcd       puts of eight clients
//!   beside       what a neighbour in the same file system does meanwhile
//!   table        rounds become figures
//! ```
//!
//! 1. In each round every database has its turn on every stack, in shuffled order. Only one stack has work.
//! 2. All files are on the same disk, in one folder. Every transaction is durable when it ends.
//! 3. Beside a neighbour what was under way while it was at work counts, and nothing else.
//! 4. A turn ends when what it left to be written is written: nobody pays for another's.
//! 5. A ratio is taken within a round; what is told of it is the median and the extremes over the rounds.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    reason = "a benchmark's output is for its reader"
)]

mod attached;
mod beside;
mod database;
mod etcd;
mod modelled;
mod postgres;
mod sqlite;
mod stacks;
mod table;

#[path = "../common/mod.rs"]
mod common;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use evenkeel_host::interrupt::{EXIT_INTERRUPTED, Interrupt};
use evenkeel_host::kernel_setting::drop_caches;
use evenkeel_host::program::is_root;
use evenkeel_host::undo::Undo;

use beside::Neighbour;
use common::{Outcome, ended, neighbours, picture, places, process, rounds};
use database::Database;
use stacks::{Stack, StackKind};
use table::{Figures, Measured};

/// Databases on a mounted volume and on what people have instead.
#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask prove --",
    after_help = "Examples:
  cargo xtask prove                                            everything, as root: 40 minutes, 20 GiB of disk
  cargo xtask prove -- sqlite --rounds 1                       one database, once
  cargo xtask prove -- --stack mount --stack folder            two stacks
  cargo xtask prove -- postgres --drive sata-2011 --size-mib 3072 --scale 60
                                                               one drive, and mirrors of two
  cargo xtask prove -- --folder /data --svg databases.svg      on another disk, with a picture

What is not installed is named with the package that has it, and left out."
)]
struct Args {
    /// Databases: postgres, sqlite, etcd; all if none is named
    #[arg(value_parser = ["postgres", "sqlite", "etcd"])]
    databases: Vec<String>,
    /// Where their files are; all if none is named
    #[arg(long = "stack", value_enum)]
    stacks: Vec<StackKind>,
    /// Folder for everything that is written; its file system and disk are what is measured
    #[arg(long, default_value = env!("CARGO_TARGET_TMPDIR"))]
    folder: PathBuf,
    /// Pages on modelled drives, which have garbage to collect, and the log on the disk; `evenkeel drive --list` names them. The
    /// kernel forgets what it keeps of all files before each load
    #[arg(long, value_name = "MODEL")]
    drive: Option<String>,
    /// Rounds
    #[arg(long, default_value_t = 3, value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..))]
    rounds: usize,
    /// Length of a load, 2 at least: a neighbour begins after 1
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(2..=3600))]
    seconds: u64,
    /// Size of each volume and of each file behind a server
    #[arg(long, default_value_t = 4096)]
    size_mib: u64,
    /// pgbench's scale: 15 MB each
    #[arg(long, default_value_t = 20)]
    scale: usize,
    /// Bytes that a neighbour streams, again and again
    #[arg(long, default_value_t = 512)]
    stream_mib: usize,
    /// Files that a neighbour removes
    #[arg(long, default_value_t = 20_000)]
    removed_files: usize,
    /// Where the order comes from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// More arguments for `evenkeel mount`, divided by spaces
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    mount_args: String,
    /// More arguments for `evenkeel serve`
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    serve_args: String,
    /// File for a picture of the 99th percentiles
    #[arg(long, value_name = "FILE", value_parser = common::file_to_write)]
    svg: Option<PathBuf>,
    /// cargo's own
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() -> ExitCode {
    let args = Args::parse();
    let interrupt = match Interrupt::on_signals() {
        Ok(interrupt) => interrupt,
        Err(error) => {
            eprintln!("signals: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = run(&args, &interrupt);
    match interrupt.is_asked() {
        true => ExitCode::from(EXIT_INTERRUPTED as u8),
        false => ended(outcome),
    }
}

fn run(args: &Args, interrupt: &Interrupt) -> Outcome {
    if !is_root() {
        return Err(
            "databases have users of their own, and loop devices are root's: run it as root".to_owned()
        );
    }
    let databases = database::wanted(args)?;
    let kinds = stacks::wanted(args)?;
    std::fs::create_dir_all(&args.folder).map_err(|error| format!("{}: {error}", args.folder.display()))?;
    let folder = OpenFolder::new(&args.folder)?;
    // Sockets and messages, which are not measured.
    let scratch = OpenFolder::new(memory())?;
    let mut made = Vec::new();
    for kind in kinds {
        let stack = Stack::make(kind, &folder.path, args, interrupt)?;
        for database in &databases {
            stopped(interrupt)?;
            eprintln!("{}: {} is made", stack.name(), database.name());
            database.make(&stack.folder_of(database.name()), &scratch.path)?;
        }
        stack.settle();
        made.push(stack);
    }
    let bench = Bench { args, interrupt, databases: &databases, stacks: &made, scratch: &scratch.path };
    let mut figures = Figures::new(&databases, &made);
    let outcome = (0..args.rounds).try_for_each(|round| bench.round(round, &mut figures));
    // Rounds that are whole are told, however the others ended.
    if figures.keep_whole_rounds() > 0 {
        table::print(&databases, &figures, args);
        if let Some(path) = &args.svg {
            let picture = table::picture(&databases, &figures);
            std::fs::write(path, picture).map_err(|error| format!("{}: {error}", path.display()))?;
        }
    }
    eprintln!("removing what was made");
    outcome
}

/// What a round consists of.
struct Bench<'a> {
    args: &'a Args,
    interrupt: &'a Interrupt,
    databases: &'a [Box<dyn Database>],
    stacks: &'a [Stack],
    scratch: &'a Path,
}

impl Bench<'_> {
    fn round(&self, round: usize, figures: &mut Figures) -> Outcome {
        let Self { args, databases, stacks, .. } = *self;
        for (place, database) in databases.iter().enumerate() {
            for at in rounds::order(stacks.len(), args.seed, round * databases.len() + place) {
                let (database_name, stack) = (database.name(), stacks[at].name());
                eprintln!("round {} of {}: {database_name} on {stack}", round + 1, args.rounds);
                figures.add(place, at, self.turn(&stacks[at], database.as_ref())?);
            }
        }
        Ok(())
    }

    /// One database on one stack, alone and beside each neighbour.
    fn turn(&self, stack: &Stack, database: &dyn Database) -> Outcome<Vec<Measured>> {
        let Self { args, interrupt, scratch, .. } = *self;
        let running = database.start(&stack.folder_of(database.name()), scratch)?;
        let mut measured = Vec::new();
        for neighbour in database.neighbours() {
            stopped(interrupt)?;
            let beside = stack.folder_of("neighbour");
            if neighbour.prepare(&beside, args)? {
                stack.settle();
            }
            if args.drive.is_some() {
                drop_caches().map_err(|error| format!("the page cache: {error}"))?;
            }
            measured.push(neighbour.beside(running.as_ref(), &beside, args)?);
            Neighbour::clean(&beside)?;
            stack.settle();
        }
        // What it writes at its end is its own.
        drop(running);
        stack.settle();
        Ok(measured)
    }
}

fn stopped(interrupt: &Interrupt) -> Outcome {
    if interrupt.is_asked() { Err("not all rounds were run".to_owned()) } else { Ok(()) }
}

/// Where files are in memory, if anywhere.
fn memory() -> &'static Path {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory } else { Path::new("/tmp") }
}

/// A folder of its own, which other users may enter, and which goes with this.
struct OpenFolder {
    path: PathBuf,
    _made: Undo,
}

impl OpenFolder {
    fn new(parent: &Path) -> Outcome<Self> {
        let make = || {
            let folder = tempfile::Builder::new().prefix("evenkeel-prove-").tempdir_in(parent)?;
            std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755))?;
            Ok::<_, std::io::Error>(folder.keep())
        };
        let undo = |path: &PathBuf| -> Box<dyn FnOnce() + Send> {
            let path = path.clone();
            Box::new(move || {
                if let Err(error) = std::fs::remove_dir_all(&path) {
                    eprintln!("{} stays: {error}", path.display());
                }
            })
        };
        let (made, path) =
            Undo::make(make, undo).map_err(|error| format!("{}: {error}", parent.display()))?;
        Ok(Self { path, _made: made })
    }
}
