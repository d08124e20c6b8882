//! `evenkeel status --watch`: what a served volume does now, interval by interval.
//!
//! ```text
//! mod      asks, waits, and hands on
//!   asker    asks in a thread of its own, so that Ctrl-C is heard while a server does not answer
//!   view     where it is shown: on a terminal, in lines, or as JSON
//!     figures  what is shown, as text
//! ```
//!
//! 1. A figure of an interval is the difference of two documents of one server. Of the first document there is none.
//! 2. A server that went away is waited for. Its successor begins anew: there is nothing between the two.
//! 3. It ends at Ctrl-C, after `--count` intervals, or once nobody reads its lines any more; the cursor is back then.

mod asker;
mod figures;
mod view;

use std::time::{Duration, Instant};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::service::recent::Recent;
use evenkeel_host::service::status::Status;
use evenkeel_host::volume::description::Description;

use super::status::{is_unserved, unanswered};
use crate::args::StatusArgs;
use crate::failure::Failure;
use asker::Asker;
use view::View;

/// How long an interval may be: a document costs its server some tens of microseconds.
const INTERVAL_S: std::ops::RangeInclusive<f64> = 0.1..=3600.0;

/// How often Ctrl-C is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    On,
    End,
}

/// Watches the volume's server until Ctrl-C.
pub(super) fn run(args: &StatusArgs, description: &Description) -> Result<(), Failure> {
    if !INTERVAL_S.contains(&args.interval) {
        return Err(Failure::Unusable("--interval: choose from 100ms to 1h, such as 1s".to_owned()));
    }
    let interval = Duration::from_secs_f64(args.interval);
    let interrupt = Interrupt::on_signals()
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    let asker = Asker::start(&args.volume)
        .map_err(|error| Failure::Unusable(format!("cannot start a thread: {error}; end other programs")))?;
    let mut view = View::of(args);
    let mut earlier: Option<Status> = None;
    let mut left = args.count;
    let mut due = Instant::now();
    loop {
        let Some(answer) = asker.ask(|| interrupt.is_asked()) else { return Ok(()) };
        let next = match answer {
            Ok(mut status) => {
                status.recent = earlier.as_ref().and_then(|earlier| Recent::between(earlier, &status));
                let is_interval = status.recent.is_some();
                let next = view.show(&status)?;
                earlier = Some(status);
                left = left.map(|left| left - u64::from(is_interval));
                if left == Some(0) { Next::End } else { next }
            }
            // One that never answered is more likely to have another name than to be about to start.
            Err(error) if earlier.is_none() => return Err(unanswered(&args.volume, description, &error)),
            Err(error) => view.show_away(if is_unserved(&error) { None } else { Some(&error) })?,
        };
        if next == Next::End {
            return Ok(());
        }
        // After a server that answered late, or a suspended process, nothing is made up for.
        due = (due + interval).max(Instant::now());
        while let Some(rest) = due.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
            if interrupt.is_asked() {
                return Ok(());
            }
            std::thread::sleep(rest.min(LOOK_EVERY));
        }
    }
}
