//! `evenkeel probe`.

mod leftovers;
mod soak;
mod text;
mod together;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_host::conditions::Machine;
use evenkeel_host::durable_file::{is_block_device, size_bytes};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::{FileState, Method};
use evenkeel_host::stack::StackProbe;
use evenkeel_measure::probe::csv::probe_csv;
use evenkeel_measure::probe::like::Enough;
use evenkeel_measure::probe::page::probe_page;
use evenkeel_measure::probe::report::ProbeReport;
use evenkeel_measure::probe::settings::{
    Combination, DEFAULT_RUNS, DEFAULT_SIZES, Goals, LatencyBound, Records, Settings,
};
use evenkeel_measure::probe::{self, HostTarget, Place, check_room};
use evenkeel_measure::report::format;

use crate::args::{PercentileArg, ProbeArgs};
use crate::failure::Failure;
use crate::outputs::Outputs;
use crate::progress::ProbeProgress;
use crate::stdout::{say, tell};
use text::{report_text, stack_line};

/// Time for everything where somebody watches.
const TERMINAL_TIME_S: f64 = 120.0;

/// Time for everything with `--quick`: "under 20 seconds" with room for the last run and the report.
const QUICK_TIME_S: f64 = 14.0;

/// Runs where there is little time or much to measure.
const FEWER_RUNS: u32 = 10;

/// Measures, writes the results, prints them.
pub(crate) fn run(args: &ProbeArgs) -> Result<(), Failure> {
    let [path] = args.paths.as_slice() else {
        return together::run(args);
    };
    let place = choose_place(args, path)?;
    let settings = settings(args, &place)?;
    if args.fail_if_slower.is_some() {
        return Err(Failure::about(path, "--fail-if-slower compares: name two paths or more"));
    }
    let settings = if args.soak.is_some() { soak::settings(args, &place, settings)? } else { settings };
    if args.dry_run {
        return dry_run(&place, &settings);
    }
    if let Some(time_s) = args.soak {
        return soak::run(args, place, &settings, time_s);
    }
    let outputs = Outputs::choose("probe", args.out.as_deref(), args.force)?;
    let interrupt = listen()?;
    refuse_read_only(&place)?;
    leftovers::clear(&place, false)?;
    let mut target = HostTarget::new(place, &settings, interrupt.clone())?;
    let stack = target.stack().stack.clone();
    tell(&format!("{}\n", stack_line(&stack)))?;
    let report = {
        let mut progress = ProbeProgress::new();
        probe::run(&settings, &mut target, stack, &interrupt, &mut progress)
    };
    drop(target);
    let report = signed(report?);
    let written = write_results(&outputs, &report)?;
    let names = written.map(|path| path.display().to_string()).join(", ");
    tell(&format!("{}\nWrote {names}.\n", report_text(&report, args.wide)))?;
    if let (Some(record_bytes), None, Some(chosen)) = (args.record_size, &report.batching, buffer(&report)) {
        let (record, chosen) = (format::bytes(record_bytes), format::bytes(chosen));
        tell(&format!("A record of {record} does not fit in a buffer of {chosen}.\n"))?;
    }
    unmet(&report).map_or(Ok(()), |what| Err(Failure::No(what)))
}

/// What was asked for and is not so: that a program has enough, or a goal.
fn unmet(report: &ProbeReport) -> Option<String> {
    let fails = report.like.as_ref().filter(|like| like.verdict == Some(Enough::Fail));
    let none = report.recommendation.as_ref().filter(|it| it.buffer_bytes.is_none());
    fails.map(|like| like.sentence()).or_else(|| none.map(|it| it.reason.clone()))
}

fn listen() -> Result<Interrupt, Failure> {
    Interrupt::on_signals().map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))
}

/// The report with the machine and the command that made it.
fn signed(report: ProbeReport) -> ProbeReport {
    ProbeReport { host: Some(Machine::this().name), command: Some(command_line()), ..report }
}

/// The command as it was typed, as far as the shell left it so.
fn command_line() -> String {
    let words: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    words.join(" ")
}

fn choose_place(args: &ProbeArgs, path: &Path) -> Result<Place, Failure> {
    let found = match path.metadata() {
        Ok(found) => Some(found),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::about(path, error)),
    };
    let overwrites = found.as_ref().is_some_and(|found| !found.is_dir());
    if let Some(destroy) = &args.destroy {
        if !overwrites {
            let what = "--destroy is for a block device or a file that exists; leave it out";
            return Err(Failure::about(path, what));
        }
        if destroy != path {
            let what = format!("--destroy names {} instead; repeat the same name", destroy.display());
            return Err(Failure::about(path, what));
        }
    }
    if let (true, Some(_)) = (args.new_file, &found) {
        return Err(Failure::about(path, "it exists, and --new-file is for one to be made; name another"));
    }
    match found {
        Some(found) if found.is_dir() => Ok(Place::Folder(path.to_owned())),
        Some(found) if !found.is_file() && !is_block_device(path) => {
            Err(Failure::about(path, "neither a folder, nor a file, nor a block device; name one of these"))
        }
        Some(_) if args.destroy.is_none() => Err(Failure::about(
            path,
            format!(
                "it exists and would be overwritten; to lose what it holds, add --destroy {}",
                path.display()
            ),
        )),
        Some(_) => Ok(Place::Existing(path.to_owned())),
        None if path.is_symlink() => {
            Err(Failure::about(path, "it is a link to nowhere; make what it points to, or name another"))
        }
        None if !args.new_file => Err(Failure::about(
            path,
            "there is no such folder; name one that exists, or add --new-file to make a file of that name",
        )),
        None => match names_a_file(path) && Place::NewFile(path.to_owned()).existing().is_dir() {
            true => Ok(Place::NewFile(path.to_owned())),
            false => Err(Failure::about(
                path,
                "there is no folder for such a file; name a file in one that exists",
            )),
        },
    }
}

/// Whether the path does not end like a folder's.
fn names_a_file(path: &Path) -> bool {
    !path.as_os_str().as_encoded_bytes().ends_with(b"/")
}

fn settings(args: &ProbeArgs, place: &Place) -> Result<Settings, Failure> {
    let in_place = matches!(place, Place::Existing(_));
    let states = match args.file_state.map(FileState::from) {
        Some(state) if in_place && state != FileState::Written => {
            let what = format!("what exists is overwritten, so --file-state {state} cannot be had of it");
            return Err(Failure::about(place.existing(), what));
        }
        Some(state) => vec![state],
        None if in_place => vec![FileState::Written],
        None if args.matrix => FileState::ALL.to_vec(),
        None => vec![FileState::Fresh],
    };
    let methods = if args.matrix { Method::ALL.to_vec() } else { vec![args.method.into()] };
    let combinations = states
        .iter()
        .flat_map(|&file_state| methods.iter().map(move |&method| Combination { method, file_state }))
        .collect();
    let default_sizes = || match args.matrix {
        true => vec![4 << 10, 64 << 10, 1 << 20],
        false => DEFAULT_SIZES.map(|power| 1 << power).collect(),
    };
    let watched = std::io::stderr().is_terminal() || std::io::stdout().is_terminal();
    let default_time_s = match (args.quick, watched) {
        (true, _) => Some(QUICK_TIME_S),
        (false, true) => Some(TERMINAL_TIME_S),
        (false, false) => None,
    };
    let few_runs = args.quick || args.matrix;
    let runs = args.runs.unwrap_or(if few_runs { FEWER_RUNS } else { DEFAULT_RUNS });
    let time_budget_s = args.time.or(default_time_s);
    if let Some(program) = args.like {
        let seed = args.seed.unwrap_or_else(clock_seed);
        let (sessions, every_s, quick, precision) = (args.sessions, args.every, args.quick, args.precision);
        let as_asked = Settings::like(program.into());
        return Ok(Settings { runs, time_budget_s, seed, sessions, every_s, quick, precision, ..as_asked });
    }
    Ok(Settings {
        buffer_sizes: args.sizes.clone().map_or_else(default_sizes, |sizes| sizes.0),
        combinations,
        runs,
        writers: args.writers,
        time_budget_s,
        precision: args.precision,
        seed: args.seed.unwrap_or_else(clock_seed),
        quick: args.quick,
        goals: Goals {
            min_throughput_bytes_per_s: args.min_throughput,
            max_latency_s: args.max_latency,
            bound: match args.percentile {
                PercentileArg::Mean => LatencyBound::Mean,
                PercentileArg::P50 => LatencyBound::P50,
                PercentileArg::P99 => LatencyBound::P99,
                PercentileArg::P999 => LatencyBound::P999,
            },
        },
        records: args
            .record_size
            .map(|record_bytes| Records { record_bytes, arrival_rate_per_s: args.arrival_rate }),
        sessions: args.sessions,
        every_s: args.every,
        like: None,
        window_max_bytes: None,
    })
}

fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |passed| u64::from(passed.subsec_nanos()))
}

fn refuse_read_only(place: &Place) -> Result<(), Failure> {
    let path = place.existing();
    let stack = StackProbe::of(path).map_err(|error| Failure::about(path, error))?;
    if stack.read_only {
        let what = "the file system is mounted read-only; choose another, or remount it writable";
        return Err(Failure::about(path, what));
    }
    Ok(())
}

fn buffer(report: &ProbeReport) -> Option<u64> {
    report.recommendation.as_ref()?.buffer_bytes
}

fn dry_run(place: &Place, settings: &Settings) -> Result<(), Failure> {
    let path = place.existing();
    let stack = StackProbe::of(path).map_err(|error| Failure::about(path, error))?;
    leftovers::clear(place, true)?;
    check_room(place, settings)?;
    let sizes: Vec<String> = settings.buffer_sizes.iter().map(|&size| format::bytes(size)).collect();
    let plan = format!(
        "{}\nWould measure {} ({}) in {} of method and file state, {} each, with {}.\n",
        stack_line(&stack.stack),
        format::counted(sizes.len() as u64, "size"),
        sizes.join(", "),
        format::counted(settings.combinations.len() as u64, "combination"),
        format::counted(u64::from(settings.runs), "run"),
        format::counted(u64::from(settings.writers), "writer"),
    );
    let room = format::bytes(settings.room_bytes());
    let effect = match place {
        Place::Existing(path) => {
            let size = size_bytes(path).map_err(|error| Failure::about(path, error))?;
            format!(
                "Would overwrite the first {room} of {}, which is {} large. What is there is lost.",
                path.display(),
                format::bytes(size)
            )
        }
        Place::Folder(_) | Place::NewFile(_) => {
            format!("Would write files of up to {room} in all in {}, and remove them again.", path.display())
        }
    };
    say(&format!("{plan}{effect}\nNothing was written.\n"))
}

fn write_results(outputs: &Outputs, report: &ProbeReport) -> Result<[PathBuf; 3], Failure> {
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::Unusable(format!("cannot write the report: {error}"));
    let json = serde_json::to_string_pretty(report).map_err(|error| unwritable(&error))?;
    let csv = probe_csv(report).map_err(|error| unwritable(&error))?;
    outputs.write(&(json + "\n"), &csv, &probe_page(report))
}
