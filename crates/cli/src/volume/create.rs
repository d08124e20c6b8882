//! `evenkeel create`.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;

use clap::Parser as _;
use evenkeel_engine::options::OpenOptions;
use evenkeel_engine::ring::RingOptions;
use evenkeel_host::drive::{memory_file_system, needs_no_more_room};
use evenkeel_host::event_loop::{Backend, race};
use evenkeel_host::front::fuse::format::format_volume;
use evenkeel_host::volume::create::{Plan, PlannedMember, Request, create};
use evenkeel_host::volume::exports::look_at_exports;
use evenkeel_host::volume::layout_kind::{LayoutKind, LayoutName, SHARD_BYTES, Striped};
use evenkeel_host::volume::member::Place;
use evenkeel_host::volume::{LockedVolume, RunOptions};
use evenkeel_measure::report::format;

use super::{event_loop, progress_bar, quoted, show, stop_signals, tune};
use crate::args::{Args, Command, CreateArgs, FileSystemArg, GoalArgs, MembersArgs};
use crate::failure::Failure;
use crate::stdout::{say, shown};

/// Bounds of the log's size unless it was chosen.
const LOG_BYTES: (u64, u64) = (16 << 20, 512 << 20);

/// The same of a mirror, whose log holds what its members have not written yet: two turns of a second, at what a SATA
/// drive takes, with as much again for the checkpoints.
const MIRROR_LOG_BYTES: (u64, u64) = (64 << 20, 1 << 30);

/// Makes a volume of this size with a file system, all else as `create` chooses it.
pub(super) fn with_file_system(volume: &Path, size_bytes: u64) -> Result<(), Failure> {
    let size = size_bytes.to_string();
    let words = ["evenkeel", "create", "--format", "ext2", "--size", &size, "--"].map(OsStr::new);
    let parsed = Args::try_parse_from(words.into_iter().chain([volume.as_os_str()]));
    match parsed.map(|args| args.command) {
        Ok(Command::Create(args)) => run(&args),
        _ => {
            Err(Failure::Unusable(format!("--create {size}: it is no size of a disk; choose one such as 8g")))
        }
    }
}

/// What is asked for with a layout, and places for it, as they were typed.
pub(super) fn request(
    folder: &Path,
    size_bytes: u64,
    name: LayoutName,
    places: &MembersArgs,
) -> Result<Request, Failure> {
    let (least, most) = if name == LayoutName::Single { LOG_BYTES } else { MIRROR_LOG_BYTES };
    let log_bytes = places.log_size.unwrap_or((size_bytes / 8).clamp(least, most));
    let layout = match (name, places.shard) {
        (LayoutName::Single, None) => LayoutKind::Single,
        (LayoutName::Mirror, None) => LayoutKind::Mirror,
        (LayoutName::Striped { data, parity }, shard) => {
            let stripes = LayoutName::stripes(data, parity, shard.unwrap_or(SHARD_BYTES));
            let stripes = stripes.map_err(|why| Failure::Unusable(format!("--shard: {why}")))?;
            LayoutKind::Striped(Striped::new(stripes, log_bytes))
        }
        (layout, Some(_)) => {
            let why =
                format!("--shard: layout {layout} has no shards; leave it out, or choose --layout rs:4+2");
            return Err(Failure::Unusable(why));
        }
    };
    Ok(Request {
        layout,
        members: places.member.clone(),
        logs: places.log.clone(),
        log_on_members: places.log_on_members,
        log_bytes,
        sparse: places.sparse,
        atomic_sectors: places.atomic_sectors.said(),
        unfenced: places.unfenced,
        destroy: places.destroy.clone(),
        ..Request::new(folder, size_bytes)
    })
}

/// Makes a volume, or says what would be made.
pub(crate) fn run(args: &CreateArgs) -> Result<(), Failure> {
    let request = Request {
        atomic_max_bytes: args.atomic_max,
        buffer_bytes: args.buffer,
        ..request(&args.volume, args.size, args.layout, &args.members)?
    };
    let plan = request.plan()?;
    if args.dry_run {
        return dry_run(&request, &plan);
    }
    let tuned = match args.tune {
        Some(time_s) => match tune::before(&request, &GoalArgs::none(time_s)) {
            Err(Failure::Interrupted) => return Err(interrupted(&plan)),
            tuned => tuned?,
        },
        None => None,
    };
    let event_loop = event_loop(Backend::Auto)?;
    let handle = event_loop.handle();
    let signals = stop_signals(&handle)?;
    let bar = progress_bar();
    let made = event_loop.block_on(race(
        async {
            let progress = |doing, done, all| show(&bar, doing, done, all);
            Some(create(&handle, &request, progress).await)
        },
        async {
            let _came = signals.next().await;
            None
        },
    ));
    bar.finish_and_clear();
    let Some(made) = made else { return Err(interrupted(&plan)) };
    let description = made?;
    if tuned.is_some() {
        LockedVolume::lock(&args.volume)?.set_tuned(tuned)?;
    }
    let mut next = "serve";
    if let Some(FileSystemArg::Ext2) = args.format {
        let run =
            RunOptions { volume: OpenOptions::default(), ring: RingOptions::default(), keeps_writes: false };
        event_loop.block_on(format_volume(&handle, &args.volume, run))?;
        next = "mount";
    }
    let mut text = told(&request, &plan, "made", "is lost");
    let is_atomic = description.members.iter().all(|member| member.atomic_sectors);
    let sectors = match is_atomic {
        true => "",
        false => ", not known to keep sectors whole: each page is logged before it is overwritten",
    };
    let copied = plan.places().filter(|member| {
        !request.sparse && member.place.path().is_some_and(|path| !needs_no_more_room(path))
    });
    for member in copied {
        let place = shown(&member.place);
        writeln!(
            text,
            "  {place}: its file system writes nothing in place: where that is full, the volume stops"
        )
        .expect("a string takes all");
    }
    let sector_bytes = description.members.iter().map(|member| member.sector_bytes).max().unwrap_or(0);
    writeln!(
        text,
        "  sectors of {sector_bytes} bytes{sectors}\nnext: evenkeel {next} {}{}",
        quoted(&args.volume),
        if next == "mount" { " DIR" } else { "" },
    )
    .expect("a string takes all");
    say(&text).map_err(|failure| Failure::No(format!("{}: it is made, and {failure}", args.volume.display())))
}

/// Says what would be made, and what the exports are that it would be made on; fails where one can hold no member.
fn dry_run(request: &Request, plan: &Plan) -> Result<(), Failure> {
    let mut text = told(request, plan, "would make", "would be lost");
    let mut refused = None;
    if plan.places().any(|member| matches!(member.place, Place::Nbd(_))) {
        let event_loop = event_loop(Backend::Auto)?;
        let handle = event_loop.handle();
        let found = event_loop.block_on(look_at_exports(&handle, request, plan));
        for (place, found) in found {
            let place = shown(&place);
            match found {
                Ok(found) => writeln!(text, "  {place}: {found}").expect("a string takes all"),
                Err(error) => {
                    writeln!(text, "  {place}: cannot be used").expect("a string takes all");
                    refused.get_or_insert(error);
                }
            }
        }
    }
    say(&text)?;
    refused.map_or(Ok(()), |error| Err(error.into()))
}

/// What is said of a creation that was given up.
fn interrupted(plan: &Plan) -> Failure {
    let overwritten = plan.places().filter(|member| member.overwrites);
    let overwritten: Vec<String> = overwritten.map(|member| member.place.to_string()).collect();
    match overwritten.is_empty() {
        true => Failure::Interrupted,
        false => Failure::Stopped(format!(
            "interrupted; nothing was left behind, but what was on {} may be lost",
            overwritten.join(" and ")
        )),
    }
}

pub(super) fn told(request: &Request, plan: &Plan, made: &str, lost: &str) -> String {
    let mut text = format!(
        "{made} a disk of {} in {}\n",
        format::bytes(request.size_bytes),
        shown(request.folder.display())
    );
    for member in &plan.members {
        text.push_str(&line("pages", member, lost, request.sparse));
    }
    for log in &plan.logs {
        text.push_str(&line("log", log, lost, request.sparse));
    }
    if plan.logs.is_empty() {
        let member = if request.log_on_members { "each of the members" } else { "the same member" };
        writeln!(text, "  log    on {member}, {}", format::bytes(request.log_bytes))
            .expect("a string takes all");
    }
    text.push_str(&in_memory(plan.places().map(|planned| &planned.place)));
    text.push_str(&survived(plan));
    text.push_str(&costs(request, plan));
    text
}

/// Which cuts it survives, the room that it takes, and where each write goes.
fn costs(request: &Request, plan: &Plan) -> String {
    let room_bytes: u64 = plan.places().map(|planned| planned.bytes).sum();
    let members = format::counted(plan.members.len() as u64, "member");
    let logs = match plan.logs.len() {
        0 => format!("the log on {members}"),
        logs => format::counted(logs as u64, "log device"),
    };
    let home = match plan.layout.striped() {
        None => format!("each changed page later to {members}"),
        Some(Striped { stripes, .. }) => {
            let parity = format::counted(stripes.parity() as u64, "page");
            let others = stripes.parity() + 1;
            format!(
                "each changed page later with {parity} of parity there once more, and to {others} of {members}"
            )
        }
    };
    format!(
        "  power cuts that it survives: all; what is durable stays, and a write of up to {} is whole or not there\n  \
         costs: {} of room, {:.2} for each byte of it; what changed goes to {logs}, and {home}\n",
        format::bytes(request.atomic_max_bytes),
        format::bytes(room_bytes),
        room_bytes as f64 / request.size_bytes as f64,
    )
}

/// A line for each of these places that is in the machine's memory.
pub(super) fn in_memory<'a>(places: impl Iterator<Item = &'a Place>) -> String {
    let found = places.filter_map(|place| Some((place, memory_file_system(place.path()?)?)));
    let lines = found.map(|(place, file_system)| {
        let place = shown(place);
        format!("  warning: {place}: it is in memory ({file_system}): nothing there survives a power cut or a reboot\n")
    });
    lines.collect()
}

/// What may be lost, and what of that is worth less than it looks.
fn survived(plan: &Plan) -> String {
    if !plan.layout.is_ring() {
        return "  losses of members that it survives: none (layout single)\n".to_owned();
    }
    let (members, logs) = (plan.members.len(), plan.logs.len());
    if logs == 0 {
        return format!(
            "  losses that it survives: {} together with a power cut or a crash: what was written last is on the member \
             that wrote then, alone (log on members); while it is served: {} of {}\n",
            plan.losses_survived(),
            members - 1,
            format::counted(members as u64, "member")
        );
    }
    let (places, carriers) = (plan.losses_survived(), plan.carriers_survived());
    let mut text = format!(
        "  losses that it survives: {places} (layout {}: {} and {}, of {} to remain)\n",
        plan.layout,
        format::counted(members as u64, "member"),
        format::counted(logs as u64, "log device"),
        match plan.layout.members_needed() {
            1 => "each of which one has".to_owned(),
            needed => format!("which {needed} and one have"),
        }
    );
    if carriers < places {
        let shared = "  several of them share a file system or drive, which fails as one: of these it survives the loss of";
        writeln!(text, "{shared} {}", if carriers == 0 { "none".to_owned() } else { carriers.to_string() })
            .expect("a string takes all");
    }
    text
}

fn line(what: &str, member: &PlannedMember, lost: &str, sparse: bool) -> String {
    let (place, bytes) = (shown(&member.place), format::bytes(member.bytes));
    let sparse = if sparse { ", sparse" } else { "" };
    let lost = match (&member.volume, member.overwrites) {
        (Some(folder), _) => {
            format!("; it is part of the volume in {}, which {lost}", shown(folder.display()))
        }
        (None, true) => format!("; what it holds {lost}"),
        (None, false) => String::new(),
    };
    format!("  {what:<6} {place}, {bytes}{sparse}{lost}\n")
}
