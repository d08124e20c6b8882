//! `evenkeel create`.

use std::cell::RefCell;
use std::fmt::Write as _;

use evenkeel_host::event_loop::{Backend, race};
use evenkeel_host::volume::create::{Plan, PlannedMember, Request, create};
use evenkeel_measure::report::format;
use indicatif::{ProgressBar, ProgressStyle};

use super::{event_loop, quoted};
use crate::args::{AtomicSectorsArg, CreateArgs, LayoutArg};
use crate::failure::Failure;
use crate::stdout::say;

/// Bounds of the log's size unless it was chosen.
const LOG_BYTES: std::ops::RangeInclusive<u64> = 16 << 20..=512 << 20;

/// Makes a volume, or says what would be made.
pub(crate) fn run(args: &CreateArgs) -> Result<(), Failure> {
    let LayoutArg::Single = args.layout;
    let request = Request {
        folder: args.volume.clone(),
        size_bytes: args.size,
        member: args.member.clone(),
        log: args.log.clone(),
        log_bytes: args.log_size.unwrap_or((args.size / 8).clamp(*LOG_BYTES.start(), *LOG_BYTES.end())),
        atomic_max_bytes: args.atomic_max,
        buffer_bytes: args.buffer,
        sparse: args.sparse,
        atomic_sectors: match args.atomic_sectors {
            AtomicSectorsArg::Auto => None,
            AtomicSectorsArg::Yes => Some(true),
            AtomicSectorsArg::No => Some(false),
        },
        destroy: args.destroy.clone(),
    };
    let plan = request.plan()?;
    if args.dry_run {
        return say(&told(&request, &plan, "would make", "would be lost"));
    }
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = handle
        .signals(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    let bar = RefCell::new(progress_bar());
    let made = event_loop.block_on(race(
        async {
            let progress = |doing: &'static str, done: u64, all: u64| {
                let bar = bar.borrow_mut();
                bar.set_message(doing);
                bar.set_length(all);
                bar.set_position(done);
            };
            Some(create(&handle, &request, progress).await)
        },
        async {
            let _came = signals.next().await;
            None
        },
    ));
    bar.borrow().finish_and_clear();
    let Some(made) = made else { return Err(Failure::Interrupted) };
    let description = made?;
    let mut text = told(&request, &plan, "made", "is lost");
    let survives = if description.home.atomic_sectors {
        ""
    } else {
        ", not known to keep sectors whole: each page is logged before it is overwritten"
    };
    writeln!(
        text,
        "  losses of members that it survives: none (layout single)\n  sectors of {} bytes{survives}\n\
         next: evenkeel serve {}",
        description.home.sector_bytes,
        quoted(&args.volume)
    )
    .expect("a string takes all");
    say(&text)
}

fn told(request: &Request, plan: &Plan, made: &str, lost: &str) -> String {
    let mut text =
        format!("{made} a disk of {} in {}\n", format::bytes(request.size_bytes), request.folder.display());
    let log_inside = format!("  log    on the same member, {}\n", format::bytes(request.log_bytes));
    text.push_str(&line("pages", &plan.home, lost, request.sparse));
    text.push_str(&plan.log.as_ref().map_or(log_inside, |log| line("log", log, lost, request.sparse)));
    text
}

fn line(what: &str, member: &PlannedMember, lost: &str, sparse: bool) -> String {
    let (place, bytes) = (&member.place, format::bytes(member.bytes));
    let sparse = if sparse { ", sparse" } else { "" };
    let lost = if member.overwrites { format!("; what it holds {lost}") } else { String::new() };
    format!("  {what:<6} {place}, {bytes}{sparse}{lost}\n")
}

fn progress_bar() -> ProgressBar {
    let bar = ProgressBar::new(1);
    let style = ProgressStyle::with_template("{msg:24} {bar:30} {percent}%");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    bar
}
