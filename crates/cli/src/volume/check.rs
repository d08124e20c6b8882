//! `evenkeel check`.

use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::RingOptions;
use evenkeel_engine::volume::{CheckReport, Inspection, SuperblockCopy};
use evenkeel_host::event_loop::{Backend, Signals, race};
use evenkeel_host::volume::description::Description;
use evenkeel_host::volume::mirror::DamagedHead;
use evenkeel_host::volume::{OpenVolume, Recovered, RunOptions, VolumeError};
use evenkeel_measure::report::format;
use serde_json::json;

use super::check_copies::{Copies, Looked, look};
use super::{event_loop, quoted, recovered, stop_signals, with_salvage};
use crate::args::CheckArgs;
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Damaged pages that are named.
const NAMED_MAX: usize = 20;

/// The schema of its document.
const SCHEMA: &str = "evenkeel.check/1";

/// What was found.
struct Found {
    looked: Looked,
    recovered: Recovered,
    at_rest: AtRest,
}

/// What was damaged before it was opened, but for pages, in words.
struct AtRest {
    /// What is so still.
    left: Vec<String>,
    /// What was written anew.
    written: Vec<String>,
    /// Whether there is anything left that `--repair` writes anew.
    is_repairable: bool,
}

/// Reads all of a volume.
pub(crate) fn run(args: &CheckArgs) -> Result<(), Failure> {
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let found = event_loop.block_on(async {
        let still = RingOptions::without_clients();
        let ring = match args.repair {
            true => RingOptions { rebuild_bytes_per_s: u64::MAX, ..still },
            // What would be rebuilt would be so in memory.
            false => still,
        };
        let options = RunOptions { volume: OpenOptions::default(), ring, keeps_writes: !args.repair };
        let opened = OpenVolume::open(&handle, &args.volume, options);
        let Some(open) = unless_signalled(&signals, opened).await else { return Ok(None) };
        let open = open?;
        let (recovered, before) = (open.recovered, at_rest(&open.at_rest, &open.description()));
        let heads = open.damaged_heads.clone();
        let looked = look(&handle, &open, args.repair);
        let Some(looked) = unless_signalled(&signals, looked).await else {
            open.abandon();
            return Ok(None);
        };
        let looked = looked.map_err(|source| VolumeError::Engine { folder: args.volume.clone(), source })?;
        let left = if args.repair { Some(open.close_with_heads().await?) } else { None };
        let at_rest = AtRest::of(before, &heads, left);
        Ok::<_, VolumeError>(Some(Found { looked, recovered, at_rest }))
    });
    let found = found.map_err(|error| with_salvage(&args.volume, error))?;
    let Some(found) = found else {
        return Err(Failure::Stopped("interrupted; it was not read to its end".to_owned()));
    };
    say(&if args.json { json(args, &found) } else { text(args, &found) })?;
    let Found { looked: Looked { report, copies }, at_rest, .. } = found;
    if !report.is_clean() {
        return Err(Failure::No(verdict(args, &report, copies.is_some())));
    }
    if at_rest.is_repairable {
        let (shown, vol) = (args.volume.display(), quoted(&args.volume));
        return Err(Failure::No(format!(
            "{shown}: damaged, but for its pages; write that anew: evenkeel check {vol} --repair, and look after the drive"
        )));
    }
    if let Some(copies) = copies {
        copies.verdict(args)?;
    }
    match at_rest.left.first() {
        None => Ok(()),
        Some(what) => Err(Failure::No(format!(
            "{}: could not be written anew: {}; look after the drive, and replace it: evenkeel replace {} OLD NEW",
            args.volume.display(),
            shown(what),
            quoted(&args.volume)
        ))),
    }
}

impl AtRest {
    /// `left`: the heads that are wrong still, where they were to be written anew.
    fn of(mut before: Vec<String>, heads: &[DamagedHead], left: Option<Vec<DamagedHead>>) -> Self {
        let words = |it: &DamagedHead| format!("copy {} of the head, on {}: {}", it.copy, it.place, it.fault);
        match left {
            Some(left) => {
                let is_left = |head: &&DamagedHead| {
                    left.iter().any(|it| (&it.place, it.copy) == (&head.place, head.copy))
                };
                before.extend(heads.iter().filter(|head| !is_left(head)).map(words));
                Self { left: left.iter().map(words).collect(), written: before, is_repairable: false }
            }
            None => {
                // Of a device without one that is whole it is not known how far it came.
                let has_other =
                    |head: &DamagedHead| heads.iter().filter(|it| it.place == head.place).count() < 2;
                let is_repairable = !before.is_empty() || heads.iter().any(has_other);
                before.extend(heads.iter().map(words));
                Self { left: before, written: Vec::new(), is_repairable }
            }
        }
    }
}

fn text(args: &CheckArgs, found: &Found) -> String {
    let Found { looked: Looked { report, copies }, recovered: replayed, at_rest } = found;
    let mut text = recovered(*replayed);
    if !args.repair {
        text = text.replacen("recovered:", "recovered in memory, and not written:", 1);
    }
    if replayed.memory_is_gone {
        text.push_str(&format!("warning: {}\n", Recovered::MEMORY_IS_GONE));
    }
    let damaged = foundations(report).len() + at_rest.left.len();
    text.push_str(&format!(
        "{}: {} pages checked, {} without contents, {} damaged\n",
        shown(args.volume.display()),
        format::count(report.pages_checked),
        format::count(report.pages_empty),
        format::count(report.damaged_pages.len() as u64)
    ));
    text.push_str(&format!(
        "  and {} copies of the superblock, {} roots, {} pages of sums, {} records of the log, {} damaged\n",
        report.superblocks_checked,
        report.roots_checked,
        format::count(report.table_pages_checked),
        format::count(report.log_records_checked),
        format::count(damaged as u64)
    ));
    if let Some(copies) = copies {
        text.push_str(&copies.text());
    }
    for (condition, all) in
        [("was damaged, and is written anew", &at_rest.written), ("damaged", &at_rest.left)]
    {
        all.iter().for_each(|what| text.push_str(&format!("  {condition}: {}\n", shown(what))));
    }
    if !report.is_clean() {
        text.push_str(&named(report));
    }
    text
}

fn json(args: &CheckArgs, found: &Found) -> String {
    let Found { looked: Looked { report, copies }, recovered, at_rest } = found;
    let pages = |numbers: &[u64], bytes: u64| -> Vec<_> {
        let range = |number: &u64| json!({ "offset_bytes": number * bytes, "length_bytes": bytes });
        numbers.iter().map(range).collect()
    };
    let rest: Vec<String> = foundations(report);
    let document = json!({
        "schema": SCHEMA,
        "volume": args.volume,
        "is_clean": report.is_clean() && at_rest.left.is_empty() && copies.as_ref().is_none_or(Copies::are_right),
        "pages_checked": report.pages_checked,
        "pages_empty": report.pages_empty,
        "superblocks_checked": report.superblocks_checked,
        "roots_checked": report.roots_checked,
        "table_pages_checked": report.table_pages_checked,
        "log_records_checked": report.log_records_checked,
        "damaged": {
            "pages": pages(&report.damaged_pages, 4096),
            "unchecked": pages(&report.damaged_table_pages, 512 * 4096),
            "others": at_rest.left.iter().chain(&rest).collect::<Vec<_>>(),
        },
        "written_anew": at_rest.written,
        "recovered": {
            "log_records": recovered.records,
            "writes_from_memory": recovered.writes,
            "memory_is_gone": recovered.memory_is_gone,
            "is_written": args.repair,
        },
        "copies": copies.as_ref().map(Copies::json),
        "is_read_only": report.read_only,
    });
    format!("{document:#}\n")
}

/// What was damaged before the opening, each with the member that it is on.
fn at_rest(found: &Inspection, description: &Description) -> Vec<String> {
    let home = &description.members[0].place;
    let log = |number: usize| description.logs.get(number).map_or(home, |log| &log.place);
    let superblocks = found.damaged_superblocks.iter().map(|(copy, device)| match copy {
        SuperblockCopy::Home(copy) => format!("copy {copy} of the superblock, on {home}"),
        SuperblockCopy::Log(copy) => format!("copy {copy} of the superblock, on {}", log(*device)),
    });
    let roots = found.damaged_roots.iter().map(|root| format!("root {root} of the table of sums, on {home}"));
    superblocks.chain(roots).collect()
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
