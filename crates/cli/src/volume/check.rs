//! `evenkeel check`.

use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::{Policy, RingOptions};
use evenkeel_engine::volume::{CheckReport, SuperblockCopy};
use evenkeel_host::event_loop::{Backend, Signals, race};
use evenkeel_host::stop_signals::STOP_SIGNALS;
use evenkeel_host::volume::{OpenVolume, RunOptions, VolumeError};
use evenkeel_measure::report::format;

use super::check_copies::{Looked, look};
use super::{event_loop, recovered};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Damaged pages that are named.
const NAMED_MAX: usize = 20;

/// Reads all of a volume.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = handle
        .signals(&STOP_SIGNALS)
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    let found = event_loop.block_on(async {
        // Nobody else reads meanwhile, who would be spared by turns.
        let ring =
            RingOptions { policy: Policy::Mixed, rebuild_bytes_per_s: u64::MAX, ..RingOptions::default() };
        let opened =
            OpenVolume::open(&handle, &args.volume, RunOptions { volume: OpenOptions::default(), ring });
        let Some(open) = unless_signalled(&signals, opened).await else { return Ok(None) };
        let open = open?;
        let replayed = open.recovered;
        let looked = look(&handle, &open, args.repair);
        let Some(looked) = unless_signalled(&signals, looked).await else {
            open.abandon();
            return Ok(None);
        };
        let looked = looked.map_err(|source| VolumeError::Engine { folder: args.volume.clone(), source })?;
        open.close().await?;
        Ok::<_, VolumeError>(Some((looked, replayed)))
    })?;
    let Some((Looked { report, copies }, replayed)) = found else {
        return Err(Failure::Stopped("interrupted; it was not read to its end".to_owned()));
    };
    say(&recovered(replayed))?;
    say(&format!(
        "{}: {} pages checked, {} without contents, {} damaged\n",
        shown(args.volume.display()),
        format::count(report.pages_checked),
        format::count(report.pages_empty),
        format::count(report.damaged_pages.len() as u64)
    ))?;
    say(&format!(
        "  and {} copies of the superblock, {} roots, {} pages of sums, {} records of the log, {} damaged\n",
        report.superblocks_checked,
        report.roots_checked,
        format::count(report.table_pages_checked),
        format::count(report.log_records_checked),
        format::count(foundations(&report).len() as u64)
    ))?;
    if let Some(copies) = &copies {
        say(&copies.text())?;
    }
    if !report.is_clean() {
        say(&named(&report))?;
        return Err(Failure::No(verdict(args, &report, copies.is_some())));
    }
    match copies {
        Some(copies) => copies.verdict(args),
        None => Ok(()),
    }
}

/// Why the answer is no, and what to do.
fn verdict(args: &CheckArgs, report: &CheckReport, is_mirror: bool) -> String {
    let shown = args.volume.display();
    if report.damaged_pages.is_empty() && report.damaged_table_pages.is_empty() {
        return format!(
            "{shown}: damaged, but for its pages; that was written anew since: check again, and look after the drive"
        );
    }
    match (args.repair, is_mirror) {
        (true, true) => {
            format!("{shown}: no copy of these ranges is right; write them anew from a backup")
        }
        (true, false) => {
            format!(
                "{shown}: layout single has no redundancy to repair from; write these ranges anew from a backup"
            )
        }
        (false, _) => {
            format!("{shown}: damaged; reads of these ranges fail until they are written anew, from a backup")
        }
    }
}

/// What comes of `work`; `None` where a signal comes first.
async fn unless_signalled<T>(signals: &Signals, work: impl Future<Output = T>) -> Option<T> {
    let came = async {
        let _which = signals.next().await;
        None
    };
    race(async { Some(work.await) }, came).await
}

fn named(report: &CheckReport) -> String {
    let pages = report.damaged_pages.iter().map(|page| format!("damaged: 4096 bytes from {}", page * 4096));
    let all: Vec<String> = pages.chain(foundations(report)).collect();
    let mut text: String = all.iter().take(NAMED_MAX).map(|name| format!("  {name}\n")).collect();
    if all.len() > NAMED_MAX {
        text.push_str(&format!("  and more: {} in all\n", all.len()));
    }
    text
}

/// What is damaged besides pages.
fn foundations(report: &CheckReport) -> Vec<String> {
    let superblocks = report.damaged_superblocks.iter().map(|copy| match copy {
        SuperblockCopy::Home(copy) => format!("damaged: copy {copy} of the superblock, on the home member"),
        SuperblockCopy::Log(copy) => format!("damaged: copy {copy} of the superblock, on the log member"),
    });
    let roots = report.damaged_roots.iter().map(|root| format!("damaged: root {root} of the table of sums"));
    let records =
        report.damaged_log_records.iter().map(|record| format!("damaged: record {record} of the log"));
    let tables = report.damaged_table_pages.iter().map(|table_page| {
        format!("damaged: the sums of 2 MiB from {}, which may not be checked", table_page * (512 * 4096))
    });
    let read_only =
        report.read_only.then(|| "it takes no writes: too many pages are damaged under changes".to_owned());
    superblocks.chain(roots).chain(records).chain(tables).chain(read_only).collect()
}
