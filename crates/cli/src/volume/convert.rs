//! `evenkeel convert`.

use std::fmt::Write as _;

use evenkeel_host::event_loop::Backend;
use evenkeel_host::volume::LockedVolume;
use evenkeel_host::volume::convert::Converted;
use evenkeel_host::volume::create::Request;
use evenkeel_measure::report::format;

use super::create::{request, told};
use super::{event_loop, interruptible, progress_bar, quoted, show, stop_signals};
use crate::args::ConvertArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Gives a volume another layout, or says what that would take.
pub(crate) fn run(args: &ConvertArgs) -> Result<(), Failure> {
    let locked = LockedVolume::lock(&args.volume)?;
    let before = locked.description();
    let request = request(&args.volume, before.size_bytes, args.layout, &args.members)?;
    let (planned, plan) = locked.plan_conversion(&request)?;
    let shown_request = Request { folder: args.volume.clone(), ..planned };
    if args.dry_run {
        let text = told(&shown_request, &plan, "would copy to", "would be lost");
        return say(&(text + "  the members that it has would stay as they are\n"));
    }
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let bar = progress_bar();
    let progress = |doing, done, all| show(&bar, doing, done, all);
    let converted = interruptible(&event_loop, &signals, locked.convert(&handle, &request, progress));
    bar.finish_and_clear();
    let Converted { description, before, pages } = converted?;
    let mut text = told(&shown_request, &plan, "copied to", "is lost");
    let before: Vec<String> = before.iter().map(|place| place.within(&args.volume).quoted()).collect();
    writeln!(
        text,
        "  {} with contents; layout {} from now on\nno longer used, and as they were: {}\nnext: evenkeel check {}",
        format::counted(pages, "page"),
        description.layout,
        shown(before.join(" ")),
        quoted(&args.volume)
    )
    .expect("a string takes all");
    say(&text)
        .map_err(|failure| Failure::No(format!("{}: it is converted, and {failure}", args.volume.display())))
}
