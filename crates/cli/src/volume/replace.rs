//! `evenkeel replace`.

use evenkeel_host::event_loop::{Backend, EventLoop, Loop, Signals};
use evenkeel_host::service::control;
use evenkeel_host::volume::replace::{Prepared, Replacement, Replacing, Wish, replace_unserved};
use evenkeel_host::volume::slot::Slot;
use evenkeel_host::volume::{LockedVolume, VolumeError};

use super::create::in_memory;
use super::{event_loop, interruptible, locked_or_served, progress_bar, quoted, stop_signals};
use crate::args::ReplaceArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Puts another drive in the place of a member or log device.
pub(crate) fn run(args: &ReplaceArgs) -> Result<(), Failure> {
    let _nobody_else_does = Replacing::begin(&args.volume, format_args!("replace {}", args.old))?;
    // Until it is done, unless a server does it: nobody else opens the volume, or replaces the same.
    let (locked, description) = locked_or_served(&args.volume)?;
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let wish = wish(args);
    let preparing = wish.prepare(&handle, &args.volume, &description);
    let prepared = interruptible(&event_loop, &signals, preparing);
    if let Err(Failure::Unusable(_)) = prepared
        && locked.is_none()
        && let Some(question) = wish.question(&args.volume, &description)
    {
        // A server may refuse it whatever the new one is: as another copy is at work, say, to the same file.
        control::consider(&args.volume, question).transpose()?;
    }
    let Some(mut prepared) = prepared? else {
        return say(&format!(
            "{} is in its place already, and {} is no member or log device (any more): nothing to do\n",
            shown(&args.new),
            shown(&args.old)
        ));
    };
    if prepared.makes_file() {
        if locked.is_none() {
            // Asked before, it saves the time.
            control::consider(&args.volume, prepared.question()).transpose()?;
        }
        make(&event_loop, &handle, &signals, &mut prepared)?;
    }
    // From here on it is carried out to its end: that is short.
    let (replacement, is_served) = event_loop
        .block_on(carry_out(args, &handle, locked, &mut prepared))
        .map_err(|error| told_of_loss(args, &prepared, error))?;
    prepared.keep();
    let vol = quoted(&args.volume);
    let (old, new) = (shown(&args.old), shown(&replacement.new.place));
    let next = match (replacement.slot, is_served) {
        (Slot::Member(_), true) => {
            format!("it is being rebuilt: `evenkeel status {vol}` tells how far it is")
        }
        (Slot::Member(_), false) => format!("it is rebuilt while it is served: evenkeel serve {vol}"),
        (Slot::Log(_), true) if args.old == args.new => {
            format!("it takes no part until then: `evenkeel status {vol}` tells how far it is")
        }
        (Slot::Log(_), true) => {
            format!("{old} keeps its place until then: `evenkeel status {vol}` tells how far it is")
        }
        (Slot::Log(_), false) => format!("it takes part from the next start on: evenkeel serve {vol}"),
    };
    let done = match (replacement.slot, is_served) {
        (Slot::Log(_), true) => {
            format!("what the log devices hold is copied to {new}, which takes the place of {old} then")
        }
        _ => format!("{new} takes the place of {old}"),
    };
    let warning = in_memory([&replacement.new.place].into_iter());
    say(&format!("{done}\n{warning}next: {next}\n"))
}

fn wish(args: &ReplaceArgs) -> Wish {
    Wish {
        old: args.old.clone(),
        new: args.new.clone(),
        destroy: args.destroy.clone(),
        sparse: args.sparse,
        unfenced: args.unfenced,
        atomic_sectors: args.atomic_sectors.said(),
    }
}

/// Makes the file that takes the place.
fn make(
    event_loop: &EventLoop,
    handle: &Loop,
    signals: &Signals,
    prepared: &mut Prepared,
) -> Result<(), Failure> {
    let bar = progress_bar();
    let progress = |done: u64, all: u64| {
        bar.set_message("making the new one");
        bar.set_length(all);
        bar.set_position(done);
    };
    let made = interruptible(event_loop, signals, prepared.make(handle, progress));
    bar.finish_and_clear();
    made.map(drop)
}

/// Has the server do it, or does it where there is none: what is to be overwritten is not before they agree. Whether it
/// was the server.
async fn carry_out(
    args: &ReplaceArgs,
    handle: &Loop,
    locked: Option<LockedVolume>,
    prepared: &mut Prepared,
) -> Result<(Replacement, bool), VolumeError> {
    let locked = match locked {
        Some(locked) => locked,
        None => {
            if let Some(considered) = control::consider(&args.volume, prepared.question()) {
                considered?;
                let replacement = prepared.make(handle, |_, _| ()).await?;
                if let Some(replaced) = control::replace(&args.volume, replacement.clone()) {
                    if let Err(VolumeError::Unanswered { .. } | VolumeError::Undescribed(_)) = replaced {
                        // It is, or may be, a member by now.
                        prepared.keep();
                    }
                    return replaced.map(|()| (replacement, true));
                }
            }
            // Its server left meanwhile, or it was none.
            LockedVolume::lock(&args.volume)?
        }
    };
    replace_unserved(handle, locked, prepared).await.map(|replacement| (replacement, false))
}

/// That it failed after all, and what became of what was to take the place.
fn told_of_loss(args: &ReplaceArgs, prepared: &Prepared, error: VolumeError) -> Failure {
    match Failure::from(error) {
        Failure::Unusable(line) if prepared.has_overwritten() => Failure::Unusable(format!(
            "{line}; {} was being overwritten by then: what it held may be lost",
            args.new
        )),
        other => other,
    }
}
