//! `evenkeel replace`.

use std::cell::RefCell;

use evenkeel_host::event_loop::{Backend, Loop, race};
use evenkeel_host::service::control;
use evenkeel_host::volume::VolumeError;
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::replace::{Prepared, Slot, Wish, replace_unserved};
use indicatif::ProgressBar;

use super::{event_loop, progress_bar, quoted};
use crate::args::{AtomicSectorsArg, ReplaceArgs};
use crate::failure::Failure;
use crate::stdout::say;

/// Puts another drive in the place of a member or log device.
pub(crate) fn run(args: &ReplaceArgs) -> Result<(), Failure> {
    let (description, _) = Description::read(&args.volume)?;
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = handle
        .signals(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    let bar = RefCell::new(progress_bar());
    let prepared =
        event_loop.block_on(race(async { Some(prepare(args, &handle, &description, &bar).await) }, async {
            let _came = signals.next().await;
            None
        }));
    bar.borrow().finish_and_clear();
    let Some(prepared) = prepared else { return Err(Failure::Interrupted) };
    let prepared = prepared?;
    // From here on it is carried out to its end: that is short.
    let is_served = match control::replace(&args.volume, &prepared.replacement) {
        Some(replaced) => replaced.map(|()| true)?,
        None => event_loop
            .block_on(replace_unserved(&handle, &args.volume, &prepared.replacement))
            .map(|()| false)?,
    };
    let (slot, new) = (prepared.replacement.slot, prepared.replacement.new.place.clone());
    prepared.keep();
    let vol = quoted(&args.volume);
    let next = match (slot, is_served) {
        (Slot::Member(_), true) => {
            format!("it is being rebuilt: `evenkeel status {vol}` tells how far it is")
        }
        (Slot::Member(_), false) => format!("it is rebuilt while it is served: evenkeel serve {vol}"),
        (Slot::Log(_), _) => format!("it takes part from the next start on: evenkeel serve {vol}"),
    };
    say(&format!("{new} takes the place of {}\nnext: {next}\n", args.old))
}

async fn prepare(
    args: &ReplaceArgs,
    event_loop: &Loop,
    description: &Description,
    bar: &RefCell<ProgressBar>,
) -> Result<Prepared, VolumeError> {
    let wish = Wish {
        old: args.old.clone(),
        new: args.new.clone(),
        destroy: args.destroy.clone(),
        sparse: args.sparse,
        atomic_sectors: match args.atomic_sectors {
            AtomicSectorsArg::Auto => None,
            AtomicSectorsArg::Yes => Some(true),
            AtomicSectorsArg::No => Some(false),
        },
    };
    let progress = |done: u64, all: u64| {
        let bar = bar.borrow_mut();
        bar.set_message("making the new one");
        bar.set_length(all);
        bar.set_position(done);
    };
    wish.prepare(event_loop, &args.volume, description, progress).await
}
