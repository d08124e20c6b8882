//! `evenkeel convert`.

use std::fmt::Write as _;
use std::pin::pin;
use std::sync::Arc;

use evenkeel_host::event_loop::{Backend, race};
use evenkeel_host::service::control;
use evenkeel_host::volume::convert::{Converted, make_conversion, plan_conversion};
use evenkeel_host::volume::create::{Plan, Request};
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::replace::Replacing;
use evenkeel_host::volume::{LockedVolume, VolumeError};
use evenkeel_measure::report::format;

use super::create::{request, told};
use super::{event_loop, interruptible, locked_or_served, progress_bar, quoted, show, stop_signals};
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Gives a volume another layout, or says what that would take.
pub(crate) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let nobody_else_does = Replacing::begin(&args.volume, "convert the volume")?;
    let (locked, before) = locked_or_served(&args.volume)?;
    let request = request(&args.volume, before.size_bytes, args.layout, &args.members)?;
    let (planned, plan) = plan_conversion(&args.volume, &before, &request)?;
    let shown_request = Request { folder: args.volume.clone(), ..planned };
    if locked.is_none() {
        let in_use = || VolumeError::InUse(args.volume.clone());
        control::consider_conversion(&args.volume).ok_or_else(in_use)??;
    }
    if args.dry_run {
        let text = told(&shown_request, &plan, "would copy to", "would be lost");
        return say(&(text + "  the members that it has would stay as they are\n"));
    }
    let is_served = locked.is_none();
    let converted = match locked {
        Some(locked) => convert(locked, &request)?,
        None => convert_served(args, before, &request, &nobody_else_does)?,
    };
    report(args, &shown_request, &plan, (&converted, is_served))
        .map_err(|failure| Failure::No(format!("{}: it is converted, and {failure}", args.volume.display())))
}

/// Converts a volume that nobody serves.
fn convert(locked: LockedVolume, request: &Request) -> Result<Converted, Failure> {
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let bar = progress_bar();
    let progress = |doing, done, all| show(&bar, doing, done, all);
    let converted = interruptible(&event_loop, &signals, locked.convert(&handle, request, progress));
    bar.finish_and_clear();
    converted
}

/// Makes the new members, and has the server of the volume take them.
fn convert_served(
    args: &ConvertArgs,
    before: Description,
    request: &Request,
    nobody_else_does: &Replacing,
) -> Result<Converted, Failure> {
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let bar = progress_bar();
    let progress = |doing, done, all| show(&bar, doing, done, all);
    let making = make_conversion(&handle, &args.volume, &before, request, progress, nobody_else_does);
    let made = interruptible(&event_loop, &signals, making)?;
    let in_use = || VolumeError::InUse(args.volume.clone());
    let order = Arc::new(control::convert(&args.volume, made.folder()).ok_or_else(in_use)??);
    let (waiting, on_bar) = (Arc::clone(&order), bar.clone());
    let progress = move |doing: &str, done, all| show(&on_bar, doing, done, all);
    let mut ended = pin!(handle.blocking(move || waiting.wait(progress)));
    let answered = event_loop.block_on(async {
        let stopped = async {
            let _came = signals.next().await;
            None
        };
        let first = race(async { Some(ended.as_mut().await) }, stopped).await;
        match first {
            Some(answered) => (Some(answered), false),
            None => {
                order.give_up();
                // Whether that was in time is in the answer; who does not want to wait for it asks again.
                let stopped = async {
                    let _came = signals.next().await;
                    None
                };
                (race(async { Some(ended.await) }, stopped).await, true)
            }
        }
    });
    bar.finish_and_clear();
    let (ended, was_stopped) = answered;
    let Some(ended) = ended else {
        order.leave();
        // They may be the volume's by now.
        let folder = made.folder().to_owned();
        made.keep();
        let why = format!(
            "{}: its server does not answer whether it has given the conversion up; what was made for it stays: {}",
            args.volume.display(),
            folder.display()
        );
        return Err(Failure::Stopped(why));
    };
    match order.pages(ended.and_then(|ended| ended)) {
        Ok(pages) => {
            made.keep();
            let (description, _) = Description::read(&args.volume)?;
            let before = before.members.into_iter().chain(before.logs).map(|member| member.place).collect();
            Ok(Converted { description, before, pages })
        }
        Err(VolumeError::Refused(_)) if was_stopped => Err(Failure::Interrupted),
        Err(error @ VolumeError::Refused(_)) => Err(error.into()),
        Err(error) => {
            // They are, or may be, the volume's by now.
            made.keep();
            Err(error.into())
        }
    }
}

fn report(
    args: &ConvertArgs,
    request: &Request,
    plan: &Plan,
    (converted, is_served): (&Converted, bool),
) -> Result<(), Failure> {
    let Converted { description, before, pages } = converted;
    let next = if is_served { "next, once it is stopped" } else { "next" };
    let mut text = told(request, plan, "copied to", "is lost");
    let before: Vec<String> = before.iter().map(|place| place.within(&args.volume).quoted()).collect();
    writeln!(
        text,
        "  {} with contents; layout {} from now on\nno longer used, and as they were: {}\n{next}: evenkeel check {}",
        format::counted(*pages, "page"),
        description.layout,
        shown(before.join(" ")),
        quoted(&args.volume)
    )
    .expect("a string takes all");
    say(&text)
}
