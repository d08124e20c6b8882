//! `evenkeel tune`, and `create --tune`.

use std::fmt::Write as _;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_engine::options::{Journaling, OpenOptions};
use evenkeel_host::event_loop::Backend;
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::volume::create::Request;
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::tuned::{ChosenBytes, ChosenTime, Tuned};
use evenkeel_host::volume::{LockedVolume, RunOptions};
use evenkeel_measure::report::format;
use evenkeel_measure::tune::bench::{Bench, Halted};
use evenkeel_measure::tune::host_bench::{HostBench, Means, left_behind};
use evenkeel_measure::tune::load::{Access, Load};
use evenkeel_measure::tune::model_bench::ModelBench;
use evenkeel_measure::tune::report::TuneReport;
use evenkeel_measure::tune::search::{Found, Match, Progress, ROUNDS, Search, Swept, Tried};
use evenkeel_measure::tune::sizes::{Drives, Sizes, TimedWrite};
use evenkeel_measure::tune::turns::{RUN_MIN_S, Turns};
use evenkeel_measure::tune::{Candidate, Goals};
use evenkeel_trace::{self as trace, Op, TraceReader};

use super::serve::{STRAIGHT_HOME_BYTES, cache_options, default_turn_s, ring_cache_bytes};
use super::{progress_bar, quoted, show};
use crate::args::{GoalArgs, TuneArgs};
use crate::failure::Failure;
use crate::outputs::write_whole;
use crate::stdout::say;
use crate::table::lay_out;

/// Trials of each round in which the best is looked for, and of those in which it meets the default: what the time is divided by.
const TRIALS_OF_ROUND: f64 = 16.0;
const TRIALS_OF_MATCH: f64 = 16.0;

/// Share of the time in which members of a ring are written to before the trials, and the most of it.
const SAMPLED_SHARE: f64 = 1.0 / 3.0;
const SAMPLED_MAX_S: f64 = 20.0;

/// What a trial takes beside the time in which it writes, about: opening, and everything home.
const BESIDE: f64 = 1.4;

/// Shortest time in which a trial writes.
const TRIAL_MIN_S: f64 = 0.02;

/// Rounds in which the best is looked for: as many where there is time for so much each.
const LOOKED_MAX: usize = 5;
const ROUND_S: f64 = 6.0;

/// Requests of a recorded load that are used.
const REQUESTS_MAX: usize = 1 << 20;

/// Largest atomic write of the volume on a simulated drive.
const ATOMIC_MAX_BYTES: u64 = 16 << 10;

/// Of the simulated drives.
const SEED: u64 = 1;

/// Chooses the settings of a volume.
pub(crate) fn run(args: &TuneArgs) -> Result<(), Failure> {
    if let Some(json) = args.json.as_ref().filter(|json| !args.force && json.symlink_metadata().is_ok()) {
        let what = "older results are here; name another file with --json, or replace it with --force";
        return Err(Failure::about(json, what));
    }
    let model = args.volume.to_str().and_then(|text| text.strip_prefix("sim:"));
    if args.forget {
        if model.is_some() {
            return Err(Failure::about(&args.volume, "a simulated drive keeps nothing; leave --forget out"));
        }
        let locked = LockedVolume::lock(&args.volume)?;
        locked.set_tuned(None)?;
        return say(&format!("{}: runs with the defaults again\n", args.volume.display()));
    }
    let interrupt = interrupt()?;
    let (load, recorded) = load(&args.goals, &interrupt)?;
    if let Some(name) = model {
        let halted = |halted| failure(&args.volume, halted);
        let bench = || ModelBench::new(name, SEED, interrupt.clone()).map_err(halted);
        let search = search(&args.goals, load, ATOMIC_MAX_BYTES, false, 0.0);
        let turns = match sampled_s(&args.goals) {
            0.0 => None,
            sampled_s => Some(bench()?.turns((sampled_s * 1e9) as u64).map_err(halted)?),
        };
        let found = tuned(args, &search, &mut bench()?, turns.as_ref(), recorded.as_ref(), true)?;
        return reached(&search, &found);
    }
    let locked = LockedVolume::lock(&args.volume)?;
    let description = locked.description();
    let left = left_behind(&args.volume, &description);
    if let Some(left) = left.first() {
        let what = "left by trials that were killed, if no `evenkeel tune` runs; remove it";
        return Err(Failure::about(left, what));
    }
    let is_ring = description.layout.is_ring();
    let sampled_s = if is_ring { sampled_s(&args.goals) } else { 0.0 };
    let search = search(&args.goals, load, description.atomic_max_bytes, is_ring, sampled_s);
    let bar = progress_bar();
    let means = means(is_ring, interrupt.clone(), sampled_s);
    let bench =
        HostBench::beside(&args.volume, &description, means, |doing, done, all| show(&bar, doing, done, all));
    bar.finish_and_clear();
    let mut bench = bench.map_err(|halted| failure(&args.volume, halted))?;
    let atomic_sectors = description.members.iter().all(|member| member.atomic_sectors);
    let turns = bench.turns().cloned();
    let found = tuned(args, &search, &mut bench, turns.as_ref(), recorded.as_ref(), atomic_sectors)?;
    drop(bench);
    if args.dry_run {
        return say("Nothing was changed.\n").and_then(|()| reached(&search, &found));
    }
    let turn = match &turns {
        Some(turns) => chosen_turn(turns),
        None => description.tuned.as_ref().and_then(|tuned| tuned.turn.clone()),
    };
    let section = section(&search, &args.goals, &found, turn);
    let is_default = section.is_none();
    if interrupt.is_asked() {
        return Err(Failure::Interrupted);
    }
    locked.set_tuned(section)?;
    let volume = quoted(&args.volume);
    say(&match is_default {
        true => format!("{volume} runs with the defaults.\n"),
        false => format!(
            "Written into volume.toml: `evenkeel serve {volume}` and `mount` run so from the next start on.\n"
        ),
    })?;
    reached(&search, &found)
}

/// What `create --tune` finds before it makes the volume; `None` where the defaults are best.
pub(super) fn before(request: &Request, goals: &GoalArgs) -> Result<Option<Tuned>, Failure> {
    let is_ring = request.layout.is_ring();
    let has_room = request.plan().is_ok_and(|plan| plan.members.iter().any(|it| it.place.path().is_some()));
    let sampled_s = if is_ring && has_room { sampled_s(goals) } else { 0.0 };
    let interrupt = interrupt()?;
    let (load, _) = load(goals, &interrupt)?;
    let search = search(goals, load, request.atomic_max_bytes, is_ring, sampled_s);
    let bar = progress_bar();
    let means = means(is_ring, interrupt, sampled_s);
    let bench = HostBench::before(request, means, |doing, done, all| show(&bar, doing, done, all));
    bar.finish_and_clear();
    let mut bench = bench.map_err(|halted| failure(&request.folder, halted))?;
    let found = looked_for(&search, &mut bench).map_err(|halted| failure(&request.folder, halted))?;
    say(&text(&search, &found, bench.turns()))?;
    Ok(section(&search, goals, &found, bench.turns().and_then(chosen_turn)))
}

/// How a volume is run unless something else was chosen.
fn default(atomic_max_bytes: u64) -> Candidate {
    let batch_max_bytes = OpenOptions::default().batch_max_bytes as u64;
    Candidate { batch_max_bytes, threshold_bytes: Some(STRAIGHT_HOME_BYTES.max(atomic_max_bytes)) }
}

fn interrupt() -> Result<Interrupt, Failure> {
    Interrupt::on_signals().map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))
}

fn means(is_ring: bool, interrupt: Interrupt, sampled_s: f64) -> Means {
    let run = RunOptions::from(cache_options(is_ring, Journaling::Wasteless));
    Means { run, backend: Backend::Auto, interrupt, sampled_ns: (sampled_s * 1e9) as u64 }
}

/// How long members of a ring are written to before the trials: 0 where that is too short to see how steady they are.
fn sampled_s(goals: &GoalArgs) -> f64 {
    let sampled_s = (goals.time * SAMPLED_SHARE).min(SAMPLED_MAX_S);
    if sampled_s < RUN_MIN_S { 0.0 } else { sampled_s }
}

fn search(goals: &GoalArgs, load: Load, atomic_max_bytes: u64, is_ring: bool, sampled_s: f64) -> Search {
    let time_s = goals.time - sampled_s;
    let rounds = ((time_s / ROUND_S).ceil() as usize).clamp(1, LOOKED_MAX);
    let trials = rounds as f64 * TRIALS_OF_ROUND + TRIALS_OF_MATCH;
    Search {
        goals: Goals { latency_max_s: goals.max_latency, throughput_min_bytes_per_s: goals.min_throughput },
        default: default(atomic_max_bytes),
        threshold_min_bytes: (!is_ring).then_some(atomic_max_bytes),
        load,
        trial_s: (time_s / trials / BESIDE).max(TRIAL_MIN_S),
        rounds,
    }
}

/// A recorded load.
#[derive(Debug)]
struct Recorded {
    path: PathBuf,
    interrupt: Interrupt,
    /// Its requests, and those of them that trials use.
    requests: usize,
    used: usize,
    /// When the last write came.
    last_ns: u64,
}

impl Recorded {
    /// All of them in their order, until Ctrl-C.
    fn requests(
        path: &Path,
        interrupt: &Interrupt,
    ) -> Result<impl Iterator<Item = Result<trace::Access, Failure>> + use<>, Failure> {
        let file = File::open(path).map_err(|error| Failure::about(path, error))?;
        let reader = TraceReader::new(file, None).map_err(|error| Failure::about(path, error))?;
        let (path, interrupt) = (path.to_owned(), interrupt.clone());
        Ok(reader.map(move |access| match interrupt.is_asked() {
            true => Err(Failure::Interrupted),
            false => access.map_err(|error| Failure::about(&path, error)),
        }))
    }

    /// What all of it asks of log and buffer: it is read once more.
    fn sizes(&self, drives: Drives) -> Result<Sizes, Failure> {
        let mut failure = None;
        let accesses = Self::requests(&self.path, &self.interrupt)?
            .map_while(|access| access.map_err(|error| failure = Some(error)).ok());
        let writes = accesses.filter(|access| access.op == Op::Write);
        let timed =
            writes.map(|access| TimedWrite { time_ns: access.time_ns, bytes: access.len_bytes.into() });
        let sizes = Sizes::of(timed, self.last_ns, drives);
        failure.map_or(Ok(sizes), Err)
    }

    /// That trials do not use all of it, where it is so.
    fn said(&self) -> String {
        match self.used < self.requests {
            true => format!("Trials used the first {} of its {} requests. ", self.used, self.requests),
            false => String::new(),
        }
    }
}

/// What is written meanwhile.
fn load(goals: &GoalArgs, interrupt: &Interrupt) -> Result<(Load, Option<Recorded>), Failure> {
    let Some(path) = &goals.load else { return Ok((Load::Mixture, None)) };
    // To open a pipe waits for who writes into it.
    if !path.metadata().map_err(|error| Failure::about(path, error))?.is_file() {
        return Err(Failure::about(path, "no file; name one that holds a trace"));
    }
    let mut used = Vec::new();
    let (mut requests, mut last_ns) = (0, None);
    for access in Recorded::requests(path, interrupt)? {
        let access = access?;
        if access.op == Op::Flush {
            continue;
        }
        requests += 1;
        if used.len() < REQUESTS_MAX {
            used.push(Access { op: access.op, offset: access.offset, len: access.len_bytes.into() });
        }
        if access.op == Op::Write {
            last_ns = last_ns.max(Some(access.time_ns));
        }
    }
    if !used.iter().any(|access| access.op == Op::Write) {
        let which = if last_ns.is_some() {
            format!("in its first {REQUESTS_MAX} requests")
        } else {
            "in it".to_owned()
        };
        return Err(Failure::about(
            path,
            format!("nothing is written {which}: there is nothing to choose for it"),
        ));
    }
    let recorded = Recorded {
        path: path.clone(),
        interrupt: interrupt.clone(),
        requests,
        used: used.len(),
        last_ns: last_ns.unwrap_or_default(),
    };
    Ok((Load::Recorded(used.into()), Some(recorded)))
}

fn failure(volume: &Path, halted: Halted) -> Failure {
    match halted {
        Halted::Stopped => Failure::Interrupted,
        Halted::Unavailable(why) => Failure::about(volume, why),
    }
}

fn looked_for(search: &Search, bench: &mut impl Bench) -> Result<Found, Halted> {
    let bar = progress_bar();
    let found = search.run(bench, &mut |progress: Progress| {
        show(&bar, "trying settings", progress.done as u64, progress.all as u64);
    });
    bar.finish_and_clear();
    found
}

/// Looks for the best settings, says what was found, and writes it where that is asked for.
fn tuned(
    args: &TuneArgs,
    search: &Search,
    bench: &mut impl Bench,
    turns: Option<&Turns>,
    recorded: Option<&Recorded>,
    atomic_sectors: bool,
) -> Result<Found, Failure> {
    let halted = |halted| failure(&args.volume, halted);
    let found = looked_for(search, bench).map_err(halted)?;
    say(&text(search, &found, turns))?;
    let home_bytes_per_s =
        found.tried(found.chosen).map_or(0.0, |tried| tried.outcome.throughput_bytes_per_s);
    let is_ring = search.threshold_min_bytes.is_none();
    let drives = Drives { home_bytes_per_s, atomic_sectors, is_ring };
    let sizes = recorded.map(|recorded| recorded.sizes(drives)).transpose()?;
    if let (Some(sizes), Some(recorded)) = (&sizes, recorded) {
        say(&(recorded.said() + &sizes_text(sizes)))?;
    }
    let sweep = match args.sweep {
        false => None,
        true => {
            let bar = progress_bar();
            let swept = search.sweep(bench, &found, &mut |progress| {
                show(&bar, "trying every setting", progress.done as u64, progress.all as u64);
            });
            bar.finish_and_clear();
            Some(swept.map_err(halted)?)
        }
    };
    let place = args.volume.display().to_string();
    let load = load_name(&args.goals);
    let report = TuneReport::new(place, load, search, &found, turns.cloned(), sizes, sweep);
    if let Some(swept) = &report.sweep {
        say(&sweep_text(swept))?;
    }
    if let Some(json) = &args.json {
        write_whole(json, &report.to_json())?;
        say(&format!("Wrote {}.\n", json.display()))?;
    }
    Ok(found)
}

/// What a recorded load asks of log and buffer.
fn sizes_text(sizes: &Sizes) -> String {
    let busiest = format::bytes_f64(sizes.busiest_second_bytes as f64);
    let backlog = format::bytes_f64(sizes.backlog_max_bytes as f64);
    let log = match sizes.log_bytes {
        _ if sizes.grows_without_end => {
            "it writes more than these drives take home: no log is large enough".to_owned()
        }
        None => format!(
            "up to {backlog} are not home yet at these drives' rate, beside what waits for turns: docs/ring.md, How much it takes"
        ),
        Some(log_bytes) => format!(
            "up to {backlog} are not home yet at these drives' rate: a log of {} holds them (create --log-size)",
            format::bytes_f64(log_bytes as f64)
        ),
    };
    format!(
        "As recorded, the load writes {busiest} in its busiest second (create --buffer, if it does not flush), and {log}.\n"
    )
}

/// How far a choice is from the best of all.
fn sweep_text(swept: &Swept) -> String {
    let all = swept.tried.len();
    match &swept.beside_choice {
        None => format!("Of {all} settings it is the best.\n"),
        Some(it) => format!(
            "Of {all} settings {} did best; in {ROUNDS} rounds beside the choice: {}, {} for the choice, whose score is {} of that.\n",
            settings(it.best.settings),
            outcome(&it.best),
            outcome(&it.other),
            format::percent(swept.share_of_best())
        ),
    }
}

fn load_name(goals: &GoalArgs) -> String {
    goals.load.as_ref().map_or_else(|| "mixture".to_owned(), |path| path.display().to_string())
}

/// A goal that nothing reaches is an answer of its own.
fn reached(search: &Search, found: &Found) -> Result<(), Failure> {
    match found.tried(found.chosen).is_none_or(|tried| search.goals.are_reached(&tried.outcome)) {
        true => Ok(()),
        false => Err(Failure::No(
            "no setting reaches the goal on these drives; the choice comes closest: ask for less, or put the log on a faster drive"
                .to_owned(),
        )),
    }
}

fn settings(candidate: Candidate) -> String {
    let threshold = candidate.threshold_bytes.map_or_else(
        || "nothing straight home".to_owned(),
        |bytes| format!("straight home from {}", format::bytes(bytes)),
    );
    format!("batches of up to {}, {threshold}", format::bytes(candidate.batch_max_bytes))
}

fn outcome(tried: &Tried) -> String {
    format!(
        "{} durable and home, small writes within {} in the mean and {} for 99 %",
        format::rate(tried.outcome.throughput_bytes_per_s),
        format::seconds(tried.outcome.small_mean_s),
        format::seconds(tried.outcome.small_p99_s)
    )
}

/// What the winner gains, and how surely.
fn beside(found: &Match) -> String {
    let ratios: Vec<f64> = found.ratios.iter().copied().flatten().collect();
    let spread = match (ratios.iter().copied().reduce(f64::min), ratios.iter().copied().reduce(f64::max)) {
        (Some(least), Some(most)) if ratios.len() == found.ratios.len() => {
            format!("{} to {} times as good", format::number(least), format::number(most))
        }
        _ => "one of them reaches the goal, the other does not".to_owned(),
    };
    format!("in {ROUNDS} rounds beside the default {spread}")
}

/// What was found, for people.
fn text(search: &Search, found: &Found, turns: Option<&Turns>) -> String {
    let mut text = format!("Wanted: {}.\n", search.goals.words());
    if let Some(model) = &found.model {
        writeln!(
            text,
            "A durable write to the log takes {} and {} for each MiB: l x B is {}.",
            format::seconds(model.fixed_latency_s),
            format::seconds(f64::from(1 << 20) / model.bandwidth_bytes_per_s),
            format::bytes_f64(model.optimum_bytes)
        )
        .expect("a string takes all");
    }
    let row = |tried: &Tried| {
        let threshold = tried.settings.threshold_bytes.map_or_else(|| "never".to_owned(), format::bytes);
        [
            format::bytes(tried.settings.batch_max_bytes),
            threshold,
            format::rate(tried.outcome.throughput_bytes_per_s),
            format::seconds(tried.outcome.small_mean_s),
            format::seconds(tried.outcome.small_p99_s),
        ]
    };
    let mut rows: Vec<[String; 5]> = found.thresholds.iter().map(row).collect();
    rows.extend(found.batches.iter().map(row));
    rows.dedup();
    let header = ["batch up to", "straight home from", "durable and home", "small writes", "99 % within"];
    text.push_str(&lay_out(header, &rows));
    let end = match &found.beside_default {
        None => format!("The default stays, which was best: {}.\n", settings(search.default)),
        Some(it) if it.wins => format!(
            "Chosen: {}; {}.\n  {}\n  instead of {}\n",
            settings(found.chosen),
            beside(it),
            outcome(&it.best),
            outcome(&it.other)
        ),
        Some(it) => format!(
            "The default stays, {}: {} did best first, but {}.\n",
            settings(search.default),
            settings(it.best.settings),
            beside(it)
        ),
    };
    text + &end + &turns_text(search, turns)
}

/// For how long members of a ring are to write, for people.
fn turns_text(search: &Search, turns: Option<&Turns>) -> String {
    let is_ring = search.threshold_min_bytes.is_none();
    let Some(turns) = turns else {
        let stay = "Turns stay as they are: how steadily members are written is seen on files and devices, with --time 30s or more.\n";
        return if is_ring { stay.to_owned() } else { String::new() };
    };
    let (turn, home) = (format::seconds(turns.turn_s), format::rate(turns.bytes_per_s));
    let memory = match turns.turn_s > default_turn_s() {
        true => format!(
            "; pages take up to {} of memory (serve --cache)",
            format::bytes_f64(ring_cache_bytes(turns.turn_s) as f64)
        ),
        false => String::new(),
    };
    format!("As a member of a ring: turns of {turn}, {home} of pages home; {}{memory}.\n", turns.reason)
}

/// What a description says of turns; nothing where the default is best.
fn chosen_turn(turns: &Turns) -> Option<ChosenTime> {
    let is_chosen = turns.turn_s != default_turn_s();
    is_chosen.then(|| ChosenTime { ms: (turns.turn_s * 1e3) as u64, reason: turns.reason.clone() })
}

/// What a description says of a choice; nothing where the defaults are best.
fn section(search: &Search, goals: &GoalArgs, found: &Found, turn: Option<ChosenTime>) -> Option<Tuned> {
    if found.chosen == search.default && turn.is_none() {
        return None;
    }
    let won = found.beside_default.as_ref().filter(|it| it.wins);
    let (measured, line) = match (won, &found.model) {
        (Some(it), model) => (
            format!("{}; default: {}; {}", outcome(&it.best), outcome(&it.other), beside(it)),
            model
                .as_ref()
                .map(|model| format!("; l x B of the log is {}", format::bytes_f64(model.optimum_bytes))),
        ),
        (None, _) => (found.tried(found.chosen).map_or_else(String::new, outcome), None),
    };
    let Candidate { batch_max_bytes, threshold_bytes } = found.chosen;
    let best = if won.is_some() { "the best first" } else { "of which none won against the default" };
    let tried = |tried: &[Tried], name: fn(Candidate) -> String| {
        let mut each: Vec<String> = Vec::new();
        for name in tried.iter().map(|tried| name(tried.settings)) {
            if !each.contains(&name) {
                each.push(name);
            }
        }
        each.join(", ")
    };
    let batches = tried(&found.batches, |it| format::bytes(it.batch_max_bytes));
    let thresholds =
        tried(&found.thresholds, |it| it.threshold_bytes.map_or_else(|| "never".to_owned(), format::bytes));
    Some(Tuned {
        unix_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs()),
        goal: search.goals.words(),
        load: load_name(goals).chars().take(200).collect(),
        measured,
        batch_max: ChosenBytes {
            bytes: Some(batch_max_bytes),
            reason: format!("of {batches}, {best}{}", line.unwrap_or_default()),
        },
        threshold: ChosenBytes { bytes: threshold_bytes, reason: format!("of {thresholds}, {best}") },
        turn,
    })
}

/// What a description's choice is, in a line.
pub(super) fn said(tuned: &Tuned) -> String {
    let batch_max_bytes = tuned.batch_max.bytes.unwrap_or_default();
    let candidate = Candidate { batch_max_bytes, threshold_bytes: tuned.threshold.bytes };
    let turn = tuned.turn.as_ref();
    let turn =
        turn.map_or_else(String::new, |it| format!(", turns of {}", format::seconds(it.ms as f64 / 1e3)));
    format!("{}{turn}, for {}", settings(candidate), tuned.goal)
}

/// For how long a member of a volume of this description writes at most, where that was chosen.
pub(super) fn chosen_turn_s(description: &Description) -> Option<f64> {
    Some(description.tuned.as_ref()?.turn.as_ref()?.ms as f64 / 1e3)
}

/// How a volume of this description is run, as far as that was chosen by trying.
pub(super) fn chosen(description: &Description) -> Option<Candidate> {
    let tuned = description.tuned.as_ref()?;
    Some(Candidate { batch_max_bytes: tuned.batch_max.bytes?, threshold_bytes: tuned.threshold.bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_without_writes_is_refused_and_flushes_are_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("trace.csv");
        let goals = GoalArgs { max_latency: None, min_throughput: None, load: Some(path.clone()), time: 1.0 };
        std::fs::write(&path, "0,0,4096,r,0.0\n0,8,4096,r,0.1\n").unwrap();
        let Err(Failure::Unusable(line)) = load(&goals, &Interrupt::default()) else {
            panic!("nothing is written")
        };
        assert!(line.contains("nothing is written"), "{line}");
        std::fs::write(&path, "0,0,4096,r,0.0\n0,8,4096,w,0.1\n").unwrap();
        let Ok((Load::Recorded(requests), Some(recorded))) = load(&goals, &Interrupt::default()) else {
            panic!("it is a load")
        };
        assert_eq!((requests.len(), recorded.requests, recorded.last_ns), (2, 2, 100_000_000));
        let drives = Drives { home_bytes_per_s: 1e9, atomic_sectors: true, is_ring: false };
        assert_eq!(recorded.sizes(drives).ok().map(|it| it.busiest_second_bytes), Some(4096));
    }
}
