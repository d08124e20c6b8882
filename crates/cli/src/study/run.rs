//! `evenkeel study run`.

use std::fs;
use std::path::{Path, PathBuf};

use evenkeel_host::{block_device, loop_device, program, stack};
use evenkeel_measure::report::format;
use evenkeel_measure::study::plan::options::SCHEDULER;
use evenkeel_measure::study::plan::space::Configuration;
use evenkeel_measure::study::plan::{Kind, Plan};
use evenkeel_measure::study::runner::{self, Observer, Progress, RunError};
use evenkeel_measure::study::stage::HostStage;
use evenkeel_measure::study::store::Tally;
use indicatif::{ProgressBar, ProgressStyle};

use super::database::{self, Place};
use super::lock::FolderLock;
use super::{chosen, text};
use crate::args::StudyRunArgs;
use crate::failure::Failure;
use crate::sim::listen;
use crate::stdout::{complain, say};

/// What a file system below keeps free beside a loop device's file.
const SPACE_TO_SPARE_BYTES: u64 = 64 << 20;

/// Runs a study to its end, or up to Ctrl-C.
pub(crate) fn run(args: &StudyRunArgs) -> Result<(), Failure> {
    let plan = chosen(&args.which)?;
    let sampled = plan.sampled().map_err(|error| Failure::Unusable(error.to_string()))?;
    let database = Place::of(args)?;
    if !program::is_root() {
        return Err(Failure::Unusable("study run makes and mounts file systems: run it as root".to_owned()));
    }
    check_programs(&plan, &sampled.configurations)?;
    let interrupt = listen()?;
    fs::create_dir_all(&args.out).map_err(|error| Failure::about(&args.out, error))?;
    let _lock = FolderLock::take(&args.out)?;
    let scratch = args.out.join(text::SCRATCH_FOLDER);
    let worker = vec![own_path()?, "study".into(), "worker".into()];
    let mut stage = HostStage::new(&plan, &scratch, worker, interrupt.clone())
        .map_err(|error| Failure::about(&scratch, error))?;
    check_devices(&plan, &sampled.configurations, &scratch)?;
    let mut store = database::open(&database, args, &plan, &sampled.configurations, &interrupt)?;
    say(&text::summary(&plan, &sampled))?;
    let mut shown = Shown::new();
    let ended = runner::run(&plan, &sampled.configurations, &mut *store, &mut stage, &mut shown, &interrupt);
    shown.bar.finish_and_clear();
    drop(stage);
    match ended {
        Ok(tally) => conclude(&tally, &database),
        Err(RunError::Interrupted) => Err(Failure::Stopped(stopped(store.tally().ok(), args))),
        // A server that is gone was waited for until then.
        Err(RunError::Store(error)) if interrupt.is_asked() => {
            complain(&format!("evenkeel: {error}"));
            Err(Failure::Stopped(stopped(None, args)))
        }
        Err(RunError::Passing(why)) => {
            Err(Failure::Passing(format!("{why}; what was done is kept, and --resume goes on from there")))
        }
        Err(other) => {
            Err(Failure::Unusable(format!("{other}; what was done is kept, and --resume goes on from there")))
        }
    }
}

fn own_path() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(|error| Failure::Unusable(format!("where this program is: {error}")))
}

/// That all programs are there: found out now, and not in the middle of a night.
fn check_programs(plan: &Plan, configurations: &[Configuration]) -> Result<(), Failure> {
    let mut needed = vec![("mount".to_owned(), "mount"), ("losetup".to_owned(), "mount")];
    for configuration in configurations {
        let package = match configuration.file_system.as_str() {
            "xfs" => "xfsprogs",
            "btrfs" => "btrfs-progs",
            "ext2" | "ext3" | "ext4" => "e2fsprogs",
            _ => "",
        };
        needed.push((format!("mkfs.{}", configuration.file_system), package));
        if configuration.remedies.null_hash_seed {
            needed.push(("debugfs".to_owned(), "e2fsprogs"));
        }
    }
    if plan.workloads.iter().any(|workload| matches!(workload.kind, Kind::Fio(_))) {
        needed.push(("fio".to_owned(), "fio"));
    }
    match needed.iter().find(|(name, _)| !program::exists(name)) {
        None => Ok(()),
        Some((name, "")) => {
            Err(Failure::Unusable(format!("{name} is missing; install the programs of that file system")))
        }
        Some((name, package)) => {
            Err(Failure::Unusable(format!("{name} is missing; `apt-get install {package}` installs it")))
        }
    }
}

/// That loop devices have room, that nobody uses the block devices, that those are large enough, and that the kernel
/// offers their I/O schedulers.
fn check_devices(plan: &Plan, configurations: &[Configuration], scratch: &Path) -> Result<(), Failure> {
    for configuration in configurations {
        let device = Path::new(&configuration.device);
        if configuration.device == "loop" {
            let folder = plan.loop_folder.as_deref().unwrap_or(scratch);
            let free_bytes = stack::StackProbe::of(folder).ok().and_then(|probe| probe.stack.free_bytes);
            let needed_bytes = plan.loop_bytes.saturating_add(SPACE_TO_SPARE_BYTES);
            if let Some(free_bytes) = free_bytes.filter(|free_bytes| *free_bytes < needed_bytes) {
                let (free, size) = (format::bytes(free_bytes), format::bytes(plan.loop_bytes));
                return Err(Failure::about(
                    folder,
                    format!("{free} free, and the loop device takes {size}; name another folder in [loop]"),
                ));
            }
        } else {
            loop_device::check_unused(device)
                .map_err(|error| Failure::about(device, format!("in use, or unusable: {error}")))?;
            if let Some(bytes) = block_device::size_bytes(device) {
                plan.check_size(&configuration.device, bytes).map_err(Failure::Unusable)?;
            }
        }
        let settings = configuration.options.settings.iter();
        for (_, value) in settings.filter(|(path, _)| path == SCHEDULER) {
            check_scheduler(&configuration.device, value)?;
        }
    }
    Ok(())
}

/// That the kernel offers an I/O scheduler for a device.
fn check_scheduler(device: &str, value: &str) -> Result<(), Failure> {
    // The study's own loop device comes later; all of them have the same.
    let node = Path::new(if device == "loop" { "/dev/loop0" } else { device });
    let offered = block_device::schedulers(node);
    if offered.is_empty()
        || offered.iter().any(|one| one == value)
        || block_device::has_scheduler_module(value)
    {
        return Ok(());
    }
    Err(Failure::Unusable(format!(
        "factor io_scheduler: `{value}` is not offered by this kernel for {device}; there are {}",
        offered.join(", ")
    )))
}

fn conclude(tally: &Tally, database: &Place) -> Result<(), Failure> {
    say(&format!(
        "{} done, {} skipped, {} failed: {database}\n",
        format::counted(tally.done, "run"),
        format::count(tally.skipped),
        format::count(tally.failed),
    ))?;
    let left_out = [(tally.failed, "failed"), (tally.skipped, "skipped")];
    let said: Vec<String> = left_out
        .iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{} {what}", format::counted(*count, "run")))
        .collect();
    match said.is_empty() {
        true => Ok(()),
        false => Err(Failure::No(format!(
            "{}; `{}` says why, and --resume --retry-failed tries again",
            said.join(" and "),
            database.query("SELECT id, state, message FROM run WHERE state IN ('failed', 'skipped')")
        ))),
    }
}

fn stopped(tally: Option<Tally>, args: &StudyRunArgs) -> String {
    // A server may be gone.
    let after =
        tally.map_or_else(String::new, |tally| format!(" after {}", format::counted(tally.settled(), "run")));
    format!(
        "interrupted{after}; everything is unmounted. `evenkeel study run ... --out {} --resume` goes on",
        args.out.display()
    )
}

/// The line that says how far the study is; what is to be known stands above it.
struct Shown {
    bar: ProgressBar,
}

impl Shown {
    fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{bar:30} {pos}/{len} runs  {msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(std::time::Duration::from_millis(500));
        Self { bar }
    }
}

impl Observer for Shown {
    fn progress(&mut self, progress: &Progress<'_>) {
        self.bar.set_length(progress.all);
        self.bar.set_position(progress.settled);
        let left =
            progress.left_s.map_or_else(String::new, |left_s| format!("{} left, ", format::duration(left_s)));
        self.bar.set_message(format!("{left}{} {}", progress.workload, progress.configuration));
    }

    fn waiting(&mut self, settled: u64, all: u64) {
        self.bar.set_length(all);
        self.bar.set_position(settled);
        self.bar.set_message("with other machines");
    }

    fn note(&mut self, line: &str) {
        self.bar.suspend(|| complain(&format!("evenkeel: {line}")));
    }
}
