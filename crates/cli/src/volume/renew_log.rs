//! `evenkeel renew-log`.

use evenkeel_host::event_loop::{Backend, race};
use evenkeel_host::size_text::size;
use evenkeel_host::volume::LockedVolume;

use super::{event_loop, quoted, stop_signals, with_salvage_alone};
use crate::args::RenewLogArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Makes the lost log of a volume once more, or says what that would take.
pub(crate) fn run(args: &RenewLogArgs) -> Result<(), Failure> {
    let locked = LockedVolume::lock(&args.volume)?;
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let work = async {
        Some(match args.dry_run {
            true => locked.plan_log_renewal(&handle, &args.destroy).await,
            false => locked.renew_log(&handle, &args.destroy).await,
        })
    };
    let renewed = event_loop.block_on(race(work, async {
        let _came = signals.next().await;
        None
    }));
    let Some(renewed) = renewed else {
        return Err(match args.destroy.is_empty() || args.dry_run {
            true => Failure::Interrupted,
            false => Failure::Stopped(format!(
                "interrupted; what was in the place of the log may be lost: run this again: evenkeel renew-log {}{}",
                quoted(&args.volume),
                args.destroy.iter().map(|place| format!(" --destroy {}", place.quoted())).collect::<String>()
            )),
        });
    };
    let renewed = renewed.map_err(|error| with_salvage_alone(&args.volume, error, ""))?;
    let volume = shown(args.volume.display());
    let would = if args.dry_run { "would be made again" } else { "is made again" };
    let each = renewed.iter().map(|log| {
        let over = if log.overwrites { ", over what is there" } else { "" };
        format!("{}, {}{over}", shown(&log.place), size(log.bytes))
    });
    let logs = each.collect::<Vec<_>>().join("; ");
    let next = match args.dry_run {
        true => "the same without --dry-run".to_owned(),
        false => format!("evenkeel serve {}", quoted(&args.volume)),
    };
    say(&format!("{volume}: its log {would}: {logs}\nnext: {next}\n"))
}
