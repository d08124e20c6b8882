//! `evenkeel replay`.

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
use evenkeel_measure::replay::report::{ReplayReport, TraceFacts};
use evenkeel_measure::replay::target::Target;
use evenkeel_measure::replay::{Ending, Pace, Placement, Requests, Settings, run as replay};
use evenkeel_measure::report::format;
use evenkeel_measure::trace::TraceReader;
use evenkeel_measure::trace::survey::Survey;

use crate::args::{ReplayArgs, Speed};
use crate::failure::Failure;
use crate::outputs::write_whole;
use crate::progress::ReplayProgress;
use crate::stdout::say;

/// Requests under way as fast as possible, unless told otherwise.
const DEPTH: u32 = 32;

/// How much too late a timer wakes who sleeps, with some room: the rest of the time until a request is due is spent
/// looking at the clock.
const WATCH_NS: u64 = 150_000;

/// The same where timers have a resolution of a millisecond.
const WATCH_COARSE_NS: u64 = 1_500_000;

/// Between two looks at whether Ctrl-C came, while a target is opened.
const LOOK_NS: u64 = 50_000_000;

/// Replays a trace, writes the figures, prints them.
pub(crate) fn run(args: &ReplayArgs) -> Result<(), Failure> {
    let pace = pace(args)?;
    if let Some(json) = args.json.as_ref().filter(|json| !args.force && json.symlink_metadata().is_ok()) {
        let what = "older results are here; name another file with --json, or replace it with --force";
        return Err(Failure::about(json, what));
    }
    let interrupt = Interrupt::on_signals()
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    let mut file = open(&args.trace)?;
    let survey = survey(args, &mut file, &interrupt)?;
    let placement =
        Placement::of(&survey, &args.device).map_err(|error| Failure::about(&args.trace, error))?;
    let path = args.trace.display().to_string();
    let trace = TraceFacts::new(path, &survey, |device| placement.has(device), placement.reach_bytes());
    let place = target::choose(args, trace.writes > 0, placement.reach_bytes())?;
    say(&text::trace_text(&trace))?;
    if args.dry_run {
        return say(&format!("{}\nNothing was sent.\n", what_would_be_lost(&place, trace.writes > 0)));
    }

    let event_loop = EventLoop::new(Backend::Auto)
        .map_err(|error| Failure::Unusable(format!("cannot ask the kernel for I/O: {error}")))?;
    let handle = event_loop.handle();
    let opened = event_loop.block_on(open_target(&handle, &place, trace.writes > 0, &interrupt))?;
    let facts = opened.facts();
    say(&text::target_text(&facts))?;
    let fit = args.fit.into();
    let placement = match placement.onto(opened.size_bytes(), fit) {
        Ok(placement) => placement,
        Err(error) => {
            event_loop.block_on(opened.close())?;
            return Err(Failure::about(Path::new(&args.target), error));
        }
    };
    let settings = Settings {
        pace,
        writes: args.writes.into(),
        seed: args.seed.unwrap_or_else(clock_seed),
        window_ns: nanoseconds(args.window),
        time_max_ns: args.time.map(nanoseconds),
        watch_ns: if handle.backend() == Backend::Uring { WATCH_NS } else { WATCH_COARSE_NS },
    };

    file.rewind().map_err(|error| Failure::about(&args.trace, error))?;
    let reader =
        TraceReader::new(file, Some(survey.format)).map_err(|error| Failure::about(&args.trace, error))?;
    let mut requests = Requests::new(reader, &placement);
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let opened = Rc::new(opened);
    let measured = {
        let progress = ReplayProgress::new(&trace, &settings);
        let stops = || interrupt.is_asked();
        let running = replay(&handle, &opened, &mut requests, &settings, stops, |at| progress.tell(at));
        event_loop.block_on(running)
    };
    let report =
        ReplayReport::new(started_unix_s, trace, facts, fit, &settings, &measured, requests.retimed());
    say(&text::report_text(&report))?;
    if let Some(json) = &args.json {
        write_json(json, &report)?;
    }
    let opened = Rc::try_unwrap(opened).expect("every request has ended, and with it its handle");
    let closed = event_loop.block_on(opened.close());
    match measured.ending {
        Ending::Complete | Ending::TimeUp => closed.map_err(Failure::from),
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

/// The trace's file. It is read twice, so it has to be one.
fn open(path: &Path) -> Result<File, Failure> {
    let file = File::open(path).map_err(|error| Failure::about(path, error))?;
    let found = file.metadata().map_err(|error| Failure::about(path, error))?;
    match found.is_file() {
        true => Ok(file),
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

fn what_would_be_lost(place: &Place, writes: bool) -> String {
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

fn clock_seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |passed| u64::from(passed.subsec_nanos()))
}
