//! `evenkeel check`.

use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::volume::{CheckReport, check};
use evenkeel_host::event_loop::{Backend, race};
use evenkeel_host::volume::{OpenVolume, VolumeError};
use evenkeel_measure::report::format;

use super::{event_loop, recovered};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::stdout::say;

/// Damaged pages that are named.
const NAMED_MAX: usize = 20;

/// Reads all of a volume.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = handle
        .signals(&[signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM])
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    let found = event_loop.block_on(race(
        async {
            let open = OpenVolume::open(&handle, &args.volume, OpenOptions::default()).await?;
            let replayed = open.volume.counters();
            let report = check(&open.volume).await;
            let report =
                report.map_err(|source| VolumeError::Engine { folder: args.volume.clone(), source })?;
            open.close().await?;
            Ok::<_, VolumeError>(Some((report, replayed.replayed_records, replayed.replayed_units)))
        },
        async {
            let _came = signals.next().await;
            Ok(None)
        },
    ))?;
    let Some((report, records, units)) = found else { return Err(Failure::Interrupted) };
    say(&recovered(records, units))?;
    say(&format!(
        "{}: {} pages checked, {} without contents, {} damaged\n",
        args.volume.display(),
        format::count(report.pages_checked),
        format::count(report.pages_empty),
        format::count(report.damaged_pages.len() as u64)
    ))?;
    if report.is_clean() {
        return Ok(());
    }
    say(&named(&report))?;
    let shown = args.volume.display();
    Err(Failure::No(match args.repair {
        true => format!(
            "{shown}: layout single has no redundancy to repair from; write these ranges anew from a backup"
        ),
        false => {
            format!("{shown}: damaged; reads of these ranges fail until they are written anew, from a backup")
        }
    }))
}

fn named(report: &CheckReport) -> String {
    let mut text = String::new();
    for page in report.damaged_pages.iter().take(NAMED_MAX) {
        text.push_str(&format!("  damaged: 4096 bytes from {}\n", page * 4096));
    }
    for table_page in report.damaged_table_pages.iter().take(NAMED_MAX) {
        text.push_str(&format!("  cannot be checked: 2 MiB from {}\n", table_page * (512 * 4096)));
    }
    let all = report.damaged_pages.len() + report.damaged_table_pages.len();
    if all > NAMED_MAX {
        text.push_str(&format!("  and more: {all} in all\n"));
    }
    text
}
