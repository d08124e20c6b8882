//! `evenkeel grow`.

use std::fmt::Write as _;

use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::RingOptions;
use evenkeel_host::event_loop::{Backend, Loop};
use evenkeel_host::service::control;
use evenkeel_host::size_text::sizes;
use evenkeel_host::volume::grow::Grown;
use evenkeel_host::volume::{LockedVolume, RunOptions, VolumeError};

use super::{event_loop, interruptible, quoted, recovered, stop_signals};
use crate::args::GrowArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Makes a volume larger, or says what that would take.
pub(crate) fn run(args: &GrowArgs) -> Result<(), Failure> {
    let locked = match LockedVolume::lock(&args.volume) {
        Ok(locked) => locked,
        Err(VolumeError::InUse(folder)) => {
            let grown = control::grow(&args.volume, args.size, args.dry_run);
            return told(args, &grown.unwrap_or(Err(VolumeError::InUse(folder)))?, true);
        }
        Err(error) => return Err(error.into()),
    };
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let said_bytes = locked.description().size_bytes;
    let planning = locked.plan_growth(&handle, args.size);
    let plan = interruptible(&event_loop, &signals, planning)?;
    let is_same = plan.from_bytes == plan.to_bytes;
    if args.dry_run && !is_same {
        interruptible(&event_loop, &signals, locked.check_growth(&handle, args.size))?;
        return told(args, &plan, false);
    }
    if args.dry_run || is_same && said_bytes == plan.to_bytes {
        return told(args, &plan, false);
    }
    let grown = interruptible(&event_loop, &signals, grow(&handle, locked, args.size))?;
    told(args, &grown, false)
}

/// Given up before the volume itself grows, this has changed nothing; afterwards only the arena stays, for the next start.
async fn grow(handle: &Loop, locked: LockedVolume, size_bytes: u64) -> Result<Grown, VolumeError> {
    // A member that lacks writes is not made whole: it is refused, as a dry run says, however little it lacks.
    let ring = RingOptions::without_clients();
    let open =
        locked.open(handle, RunOptions { volume: OpenOptions::default(), ring, keeps_writes: false }).await?;
    let _who_does_not_hear_it_gets_it_all_the_same = say(&recovered(open.recovered));
    let grown = open.grower().grow(size_bytes).await;
    match grown {
        Ok(grown) => open.close().await.map(|()| grown),
        Err(error) => {
            let _the_first_error_is_told = open.close().await;
            Err(error)
        }
    }
}

fn told(args: &GrowArgs, grown: &Grown, is_served: bool) -> Result<(), Failure> {
    let volume = shown(args.volume.display());
    let (from, to) = sizes(grown.from_bytes, grown.to_bytes);
    if grown.from_bytes == grown.to_bytes {
        return say(&format!("{volume}: it has {to} already: nothing to do\n"));
    }
    let would = if args.dry_run { "would grow" } else { "has grown" };
    let mut text = format!("{volume}: {would} from {from} to {to}\n");
    for member in &grown.members {
        let (place, (from, to)) = (shown(&member.place), sizes(member.from_bytes, member.to_bytes));
        writeln!(text, "  {place}, from {from} to {to}").expect("a string takes all");
    }
    if let Some(left) = grown.growths_left {
        let more = match left {
            0 => "no growth is left after this one".to_owned(),
            1 => "1 growth is left after this one".to_owned(),
            _ => format!("{left} growths are left after this one"),
        };
        writeln!(text, "  {more}").expect("a string takes all");
    }
    if let Some(why) = &grown.undescribed {
        writeln!(text, "  volume.toml does not say so yet ({why}): the next start repairs that")
            .expect("a string takes all");
    }
    let next = match (args.dry_run, is_served) {
        (true, _) => format!("next: the same without --dry-run: {}\n", command(args)),
        (false, true) => "next: clients see it when they connect again\n".to_owned(),
        (false, false) => format!("next: evenkeel serve {}\n", quoted(&args.volume)),
    };
    text.push_str(&next);
    say(&text)
}

fn command(args: &GrowArgs) -> String {
    format!("evenkeel grow {} --size {}", quoted(&args.volume), args.size)
}
