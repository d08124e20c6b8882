//! `evenkeel arenas`.

use std::fmt::Write as _;

use evenkeel_host::arena::DEFAULT_FOLDER;
use evenkeel_host::volume::arenas::listing::{ArenaState, FoundArena, Freeing, list};
use evenkeel_measure::report::format;
use serde_json::{Value, json};

use super::quoted;
use crate::args::{ArenasArgs, ArenasCommand, ArenasFreeArgs};
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// The schema of the document.
const SCHEMA: &str = "evenkeel.arenas/1";

/// Lists arenas, or frees those that are named.
pub(crate) fn run(args: &ArenasArgs) -> Result<(), Failure> {
    if let Some(ArenasCommand::Free(args)) = &args.command {
        return free(args);
    }
    let arenas = list(&args.folders)?;
    say(&if args.json { document(&arenas) } else { text(&arenas) })
}

fn free(args: &ArenasFreeArgs) -> Result<(), Failure> {
    let freeing = Freeing::of(&args.paths, args.give_up_writes)?;
    let freed = if args.dry_run { "would free" } else { "freed" };
    let mut text = String::new();
    for arena in freeing.arenas() {
        let lost = match arena.writes {
            Some(writes) if writes > 0 => format!("; {} given up", format::counted(writes, "write")),
            _ => String::new(),
        };
        let (bytes, path) = (format::bytes(arena.bytes), shown(arena.path.display()));
        writeln!(text, "{freed} {bytes}: {path}{lost}").expect("a string takes all");
    }
    if !args.dry_run {
        freeing.free()?;
    }
    say(&text)
}

fn text(arenas: &[FoundArena]) -> String {
    if arenas.is_empty() {
        return format!("no arenas in {DEFAULT_FOLDER}\n");
    }
    let mut text = String::new();
    for arena in arenas {
        let opened = match arena.opened_ago_s {
            Some(ago_s) => format!(", opened {} ago", format::duration(ago_s)),
            None => String::new(),
        };
        let of = match (&arena.folder, &arena.home) {
            (Some(folder), _) => format!("of the volume in {}", shown(folder.display())),
            (None, Some(home)) => format!("of volume {}, whose pages were at {}", arena.volume, shown(home)),
            (None, None) => format!("of volume {}", arena.volume),
        };
        let of = match arena.is_of_other_user() {
            true => format!("{of}, of user {}", arena.user),
            false => of,
        };
        let (path, bytes) = (shown(arena.path.display()), format::bytes(arena.bytes));
        writeln!(text, "{path}\n  {bytes}{opened}, {of}\n  {}", state(arena)).expect("a string takes all");
    }
    let bytes = |arenas: &mut dyn Iterator<Item = &FoundArena>| {
        format::bytes_f64(arenas.map(|arena| arena.bytes).sum::<u64>() as f64)
    };
    let is_orphaned =
        |arena: &&FoundArena| matches!(arena.state, ArenaState::Orphaned { .. } | ArenaState::Void);
    let orphaned = arenas.iter().filter(is_orphaned).count() as u64;
    write!(text, "{}, {}", format::counted(arenas.len() as u64, "arena"), bytes(&mut arenas.iter()))
        .expect("a string takes all");
    match orphaned {
        0 => text.push('\n'),
        _ => writeln!(
            text,
            "; of them orphaned {}, {}: `evenkeel arenas free PATH` gives that back{}",
            format::count(orphaned),
            bytes(&mut arenas.iter().filter(is_orphaned)),
            match arenas.iter().filter(is_orphaned).any(|arena| arena.writes.is_some_and(|writes| writes > 0))
            {
                true => ", where writes wait in it with --give-up-writes",
                false => "",
            }
        )
        .expect("a string takes all"),
    }
    text
}

/// What an arena is good for, in a line.
fn state(arena: &FoundArena) -> String {
    let writes = match arena.writes {
        None => String::new(),
        Some(0) => "; no write waits in it".to_owned(),
        Some(1) => "; 1 acknowledged write is nowhere else".to_owned(),
        Some(writes) => format!("; {} acknowledged writes are nowhere else", format::count(writes)),
    };
    match &arena.state {
        ArenaState::InUse { pid: Some(pid) } => format!("in use by process {pid}"),
        ArenaState::InUse { pid: None } => "in use by a process that is not seen from here".to_owned(),
        ArenaState::Waiting => match &arena.folder {
            Some(folder) => {
                format!("waiting for its volume: evenkeel serve {}, or mount{writes}", quoted(folder))
            }
            None => format!("waiting for its volume to be served{writes}"),
        },
        ArenaState::Orphaned { why } => format!("orphaned: {}{writes}", shown(why)),
        ArenaState::Void => "orphaned: whoever made it was killed before it was finished".to_owned(),
        ArenaState::Unknown { why } => {
            format!("not known whether a volume waits for it: {}{writes}", shown(why))
        }
    }
}

fn document(arenas: &[FoundArena]) -> String {
    let each = |arena: &FoundArena| -> Value {
        let (state, pid, why) = match &arena.state {
            ArenaState::InUse { pid } => ("in-use", *pid, None),
            ArenaState::Waiting => ("waiting", None, None),
            ArenaState::Orphaned { why } => ("orphaned", None, Some(why.clone())),
            ArenaState::Void => ("orphaned", None, Some("it was never finished".to_owned())),
            ArenaState::Unknown { why } => ("unknown", None, Some(why.clone())),
        };
        json!({
            "path": arena.path.display().to_string(),
            "size_bytes": arena.bytes,
            "volume_id": arena.volume,
            "folder": arena.folder.as_ref().map(|folder| folder.display().to_string()),
            "home": arena.home,
            "user_id": arena.user,
            "opened_ago_s": arena.opened_ago_s,
            "waiting_writes": arena.writes,
            "state": state,
            "pid": pid,
            "why": why,
        })
    };
    let document = json!({ "schema": SCHEMA, "arenas": arenas.iter().map(each).collect::<Vec<_>>() });
    serde_json::to_string_pretty(&document).expect("names and numbers can be written") + "\n"
}
