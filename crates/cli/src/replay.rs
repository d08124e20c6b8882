//! `evenkeel replay`.

mod model;
mod target;
mod text;

use std::fs::File;
use std::io::{self, Seek};
use std::path::Path;
use std::rc::Rc;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_engine::env::Env;
use evenkeel_host::event_loop::{Backend, EventLoop, Loop, race};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_measure::replay::host_target::{HostTarget, Place};
use evenkeel_measure::replay::report::{ReplayReport, TargetFacts, TraceFacts};
use evenkeel_measure::replay::{Ending, Measured, Pace, Requests, Settings, run as replay};
use evenkeel_measure::report::format;
use evenkeel_sim::executor::Executor;
use evenkeel_trace::placement::Placement;
use evenkeel_trace::survey::Survey;
use evenkeel_trace::{Format, TraceReader};

use crate::args::{ReplayArgs, Speed};
use crate::failure::Failure;
use crate::outputs::{is_same_file, write_whole};
use crate::progress::ReplayProgress;
use crate::stdout::say;
use model::{ModelPlace, ModelTarget};
use target::Chosen;

/// Requests under way as fast as possible, unless told otherwise.
const DEPTH: u32 = 32;

/// How much too late a timer wakes who sleeps, with some room: the rest of the time until a request is due is spent
/// looking at the clock.
const WATCH_NS: u64 = 150_000;

/// The same where timers have a resolution of a millisecond.
const WATCH_COARSE_NS: u64 = 1_500_000;

/// Between two looks at whether Ctrl-C came, while a target is opened.
const LOOK_NS: u64 = 50_000_000;

/// The same on the clock of a simulated drive, which passes days without a request in no time.
const LOOK_SIMULATED_NS: u64 = 10_000_000_000;

/// Replays a trace, writes the figures, prints them.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let pace = pace(args)?;
    if let Some(json) = args.json.as_ref().filter(|json| !args.force && json.symlink_metadata().is_ok()) {
        let what = "older results are here; name another file with --json, or replace it with --force";
        return Err(Failure::about(json, what));
    }
    check_apart(args)?;
    let interrupt = Interrupt::on_signals()
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    let mut file = open(&args.trace)?;
    let survey = survey(args, &mut file, &interrupt)?;
    let placement =
        Placement::of(&survey, &args.device).map_err(|error| Failure::about(&args.trace, error))?;
    let path = args.trace.display().to_string();
    let trace = TraceFacts::new(path, &survey, |device| placement.has(device), placement.reach_bytes());
    let chosen = target::choose(args, trace.writes > 0, placement.reach_bytes())?;
    say(&text::trace_text(&trace))?;
    if args.dry_run {
        return say(&format!("{}\nNothing was sent.\n", what_would_be_lost(&chosen, trace.writes > 0)));
    }
    let settings = Settings {
        pace,
        writes: args.writes.into(),
        seed: args.seed.unwrap_or_else(|| match chosen {
            Chosen::Host(_) => clock_seed(),
            // The same figures every time.
            Chosen::Model(_) => 1,
        }),
        window_ns: nanoseconds(args.window),
        time_max_ns: args.time.map(nanoseconds),
        look_ns: LOOK_SIMULATED_NS,
        watch_ns: 0,
    };
    let job = Job { args, file, format: survey.format, placement, trace, settings, interrupt };
    match chosen {
        Chosen::Host(place) => job.onto_host(&place),
        Chosen::Model(place) => job.onto_model(&place),
    }
}

/// A replay whose trace is known.
struct Job<'a> {
    args: &'a ReplayArgs,
    file: File,
    format: Format,
    placement: Placement,
    trace: TraceFacts,
    settings: Settings,
    interrupt: Interrupt,
}

impl Job<'_> {
    /// In real time, onto something of this machine.
    fn onto_host(mut self, place: &Place) -> Result<(), Failure> {
        let event_loop = EventLoop::new(Backend::Auto)
            .map_err(|error| Failure::Unusable(format!("cannot ask the kernel for I/O: {error}")))?;
        let handle = event_loop.handle();
        self.settings.look_ns = 2 * LOOK_NS;
        self.settings.watch_ns = if handle.backend() == Backend::Uring { WATCH_NS } else { WATCH_COARSE_NS };
        let opening = open_target(&handle, place, self.trace.writes > 0, &self.interrupt);
        let opened = event_loop.block_on(opening)?;
        let facts = opened.facts();
        say(&text::target_text(&facts))?;
        let placement = match self.placed(&facts) {
            Ok(placement) => placement,
            Err(failure) => {
                event_loop.block_on(opened.close())?;
                return Err(failure);
            }
        };
        let mut requests = self.requests(&placement)?;
        let opened = Rc::new(opened);
        let (started_unix_s, progress) = (unix_s(), ReplayProgress::new(&self.trace, &self.settings));
        let stops = || self.interrupt.is_asked();
        let running = replay(&handle, &opened, &mut requests, &self.settings, stops, |at| progress.tell(at));
        let measured = event_loop.block_on(running);
        drop(progress);
        let retimed = requests.retimed();
        let report = self.report(started_unix_s, facts, &measured, retimed)?;
        let opened = Rc::try_unwrap(opened).expect("every request has ended, and with it its handle");
        let closed = event_loop.block_on(opened.close());
        ended(measured.ending, &report).and(closed.map_err(Failure::from))
    }

    /// In virtual time, onto a simulated drive.
    fn onto_model(self, place: &ModelPlace) -> Result<(), Failure> {
        let model = place.build()?.without_contents();
        let facts = place.facts();
        say(&text::target_text(&facts))?;
        let placement = self.placed(&facts)?;
        let mut requests = self.requests(&placement)?;
        let mut executor = Executor::new(self.settings.seed);
        let env = executor.env();
        let target = Rc::new(ModelTarget::new(model, env.clone()));
        let (started_unix_s, progress) = (unix_s(), ReplayProgress::in_virtual_time(&self.trace));
        let stops = || self.interrupt.is_asked();
        let running = replay(&env, &target, &mut requests, &self.settings, stops, |at| progress.tell(at));
        let measured = executor.block_on(running).expect("nobody stops it, and drives answer");
        drop(progress);
        let retimed = requests.retimed();
        let report = self.report(started_unix_s, facts, &measured, retimed)?;
        ended(measured.ending, &report)
    }

    /// Where the requests lie on a target.
    fn placed(&self, target: &TargetFacts) -> Result<Placement, Failure> {
        let placed = self.placement.clone().onto(target.size_bytes, self.args.fit.into());
        placed.map_err(|error| Failure::about(Path::new(&self.args.target), error))
    }

    /// The trace from its beginning.
    fn requests<'p>(&self, placement: &'p Placement) -> Result<Requests<'p, &File>, Failure> {
        let about = |error: io::Error| Failure::about(&self.args.trace, error);
        (&self.file).rewind().map_err(about)?;
        let reader = TraceReader::new(&self.file, Some(self.format))
            .map_err(|error| Failure::about(&self.args.trace, error))?;
        Ok(Requests::new(reader, placement))
    }

    /// Says what was measured, and writes it.
    fn report(
        &self,
        started_unix_s: u64,
        target: TargetFacts,
        measured: &Measured,
        retimed: u64,
    ) -> Result<ReplayReport, Failure> {
        let fit = self.args.fit.into();
        let trace = self.trace.clone();
        let report = ReplayReport::new(started_unix_s, trace, target, fit, &self.settings, measured, retimed);
        say(&text::report_text(&report))?;
        if let Some(json) = &self.args.json {
            write_json(json, &report)?;
        }
        Ok(report)
    }
}

/// What an ending means for the command.
fn ended(ending: Ending, report: &ReplayReport) -> Result<(), Failure> {
    match ending {
        Ending::Complete | Ending::TimeUp => Ok(()),
        Ending::Interrupted => Err(Failure::Stopped(format!(
            "interrupted after {} of {} requests; the figures are of those",
            format::count(report.sent),
            format::count(report.trace.requests)
        ))),
        Ending::Failed(why) => Err(Failure::Unusable(format!(
            "{why}; stopped after {} of {} requests",
            format::count(report.sent),
            format::count(report.trace.requests)
        ))),
    }
}

fn pace(args: &ReplayArgs) -> Result<Pace, Failure> {
    match (args.speed, args.depth) {
        (Speed::Times(_), Some(_)) => Err(Failure::Unusable(
            "--depth is for --speed max: as recorded, requests are sent when they are due; leave it out"
                .to_owned(),
        )),
        (Speed::Times(speed), None) => Ok(Pace::Recorded { speed }),
        (Speed::Max, depth) => Ok(Pace::Max { depth: depth.unwrap_or(DEPTH) as usize }),
    }
}

/// That trace, target and results are three files.
fn check_apart(args: &ReplayArgs) -> Result<(), Failure> {
    let (trace, target) = (&args.trace, Path::new(&args.target));
    if is_same_file(trace, target) {
        return Err(Failure::about(target, "it is the trace itself; name another target"));
    }
    match &args.json {
        Some(json) if is_same_file(json, trace) => {
            Err(Failure::about(json, "it is the trace itself; name another file with --json"))
        }
        Some(json) if is_same_file(json, target) => {
            Err(Failure::about(json, "it is the target; name another file with --json"))
        }
        _ => Ok(()),
    }
}

/// The trace's file. It is read twice, so it has to be one.
fn open(path: &Path) -> Result<File, Failure> {
    let found = path.metadata().map_err(|error| Failure::about(path, error))?;
    match found.is_file() {
        true => File::open(path).map_err(|error| Failure::about(path, error)),
        false if found.is_dir() => Err(Failure::about(path, "a folder; name a file that holds a trace")),
        // To open a pipe waits for who writes into it.
        false => Err(Failure::about(path, "a trace is read twice; name a file that holds one")),
    }
}

fn survey(args: &ReplayArgs, file: &mut File, interrupt: &Interrupt) -> Result<Survey, Failure> {
    let about = |error| Failure::about(&args.trace, error);
    let mut reader = TraceReader::new(file, args.format.map(Into::into)).map_err(about)?;
    let surveyed = Survey::of(&mut reader, || !interrupt.is_asked()).map_err(about)?;
    surveyed.ok_or(Failure::Interrupted)
}

/// Opens the target, until Ctrl-C.
async fn open_target(
    event_loop: &Loop,
    place: &Place,
    writes: bool,
    interrupt: &Interrupt,
) -> Result<HostTarget, Failure> {
    let bar = ReplayProgress::filling();
    let opening = async {
        let opened = HostTarget::open(event_loop, place, writes, |done, all| bar.filled(done, all)).await;
        opened.map_err(Failure::from)
    };
    let interrupted = async {
        while !interrupt.is_asked() {
            event_loop.sleep(LOOK_NS).await;
        }
        Err(Failure::Interrupted)
    };
    race(opening, interrupted).await
}

fn what_would_be_lost(chosen: &Chosen, writes: bool) -> String {
    let place = match chosen {
        Chosen::Host(place) => place,
        Chosen::Model(place) => {
            let size = format::bytes_f64(place.size_bytes() as f64);
            return format!("Would simulate {place}, {size}, and touch nothing.");
        }
    };
    match place {
        Place::New { size_bytes, .. } => {
            let size = format::bytes_f64(*size_bytes as f64);
            format!("Would make {place}, {size}, and remove it again.")
        }
        _ if writes => format!("Would overwrite {place}. What is there is lost."),
        _ => format!("Would read {place}, and write nothing."),
    }
}

fn write_json(path: &Path, report: &ReplayReport) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report)
        .map_err(|error| Failure::about(path, io::Error::other(error)))?;
    write_whole(path, &(json + "\n"))?;
    say(&format!("Wrote {}.\n", path.display()))
}

fn nanoseconds(time_s: f64) -> u64 {
    (time_s * 1e9) as u64
}

fn unix_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs())
}

fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |passed| u64::from(passed.subsec_nanos()))
}
