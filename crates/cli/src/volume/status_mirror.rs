//! What `evenkeel status` says of a mirror's members.

use std::fmt::Write as _;
use std::path::Path;

use evenkeel_host::service::mirror_status::{LogStatus, MemberStatus, MirrorStatus};
use evenkeel_measure::report::format;

use super::quoted;
use crate::stdout::shown;
use crate::table::lay_out_with_text;

/// Which members and log devices do not count, and what to do; `None` where all do.
pub(super) fn missing(volume: &Path, mirror: &MirrorStatus) -> Option<String> {
    let missing = mirror.missing();
    let Some((first, _)) = missing.first() else {
        let copied_to = mirror.logs.iter().find(|log| log.standing != "in-sync" && log.copied_to.is_some());
        if let Some(log) = copied_to {
            let path = shown(&log.path);
            return Some(format!("{}: without {path}, until another has its place", volume.display()));
        }
        let rebuilding = mirror.members.iter().find(|member| member.standing == "rebuilding")?;
        return Some(format!(
            "{}: {} does not count before it is rebuilt",
            volume.display(),
            rebuilding.path
        ));
    };
    let all: Vec<String> = missing.iter().map(|(path, why)| format!("{path} ({why})")).collect();
    let vol = quoted(volume);
    Some(format!(
        "{}: without {}; put another in its place: evenkeel replace {vol} {} NEW",
        volume.display(),
        all.join(", "),
        quoted(Path::new(first))
    ))
}

/// The members, the log devices, and what was found of rot.
pub(super) fn of_mirror(mirror: &MirrorStatus) -> String {
    let turns = match mirror.policy.as_str() {
        "auto" if mirror.readers == 0 => {
            format!("auto: all {} read and write", format::counted(mirror.members_in_sync, "member"))
        }
        "auto" | "turns" => format!(
            "turns of {}, rest of {} at least; {} of {} only read",
            format::seconds(mirror.turn_s),
            format::seconds(mirror.rest_s),
            mirror.readers,
            format::counted(mirror.members_in_sync, "member")
        ),
        policy => format!("policy {policy}"),
    };
    let mut text = format!("  {:<10} {turns}\n", "mirror");
    text.push_str(&format!("  {:<10} {}\n", "rot", found(mirror)));
    let rows: Vec<[String; 6]> = mirror.members.iter().map(row).collect();
    text.push_str(&lay_out_with_text(["member", "waits", "written", "drains", "read", "does"], &rows));
    let rows: Vec<[String; 2]> = mirror.logs.iter().map(|log| [shown(&log.path), does_of_log(log)]).collect();
    if !rows.is_empty() {
        text.push_str(&lay_out_with_text(["log device", "does"], &rows));
    }
    text
}

fn row(member: &MemberStatus) -> [String; 6] {
    let mut does = match (member.standing.as_str(), member.rebuild_done_bytes, member.rebuild_size_bytes) {
        ("in-sync", ..) if member.slow => format!("{}, much slower than the others", member.role),
        ("in-sync", ..) => member.role.clone(),
        ("rebuilding", Some(done), Some(size)) => {
            let share = format::percent(done as f64 / size.max(1) as f64);
            let does = if member.lacks_bytes.is_some() { "is taken back" } else { "is rebuilt" };
            format!("{does}: {share} of {}", format::bytes(size))
        }
        (standing, ..) => {
            let told = told(standing, member.failure.as_deref());
            let away = member.away_s.map(|away_s| format!(", away for {}", format::duration(away_s)));
            let lacks = member.lacks_bytes.map(|lacks| format!(", lacks {} at most", format::bytes(lacks)));
            [told, away.unwrap_or_default(), lacks.unwrap_or_default()].concat()
        }
    };
    if member.rebuild_damaged_pages > 0 {
        let pages = format::counted(member.rebuild_damaged_pages, "page");
        write!(does, ", {pages} DAMAGED in every copy when it was rebuilt").expect("a string takes all");
    }
    let bytes = |bytes: u64| format::bytes_f64(bytes as f64);
    [
        shown(&member.path),
        bytes(member.queued_bytes),
        bytes(member.written_bytes),
        format!("{}/s", bytes(member.drain_bytes_per_s)),
        bytes(member.read_bytes),
        does,
    ]
}

fn does_of_log(log: &LogStatus) -> String {
    let does = told(&log.standing, log.failure.as_deref());
    let Some(copy) = &log.copied_to else { return does };
    let share = format::percent(copy.done_records as f64 / copy.records.max(1) as f64);
    let records = format::counted(copy.records, "record");
    format!("{does}; {} is to take its place: {share} of {records}", shown(&copy.path))
}

fn told(standing: &str, why: Option<&str>) -> String {
    match (standing, why) {
        ("in-sync", _) => "takes part".to_owned(),
        (standing, Some(why)) => format!("{}: {}", standing.to_uppercase(), shown(why)),
        (standing, None) => standing.to_uppercase(),
    }
}

fn found(mirror: &MirrorStatus) -> String {
    let scrub = &mirror.scrub;
    let mut text = match (scrub.done_bytes, scrub.ended_ago_s) {
        (Some(done), _) => format!("{} looked at so far", format::bytes_f64(done as f64)),
        (None, Some(ago_s)) => format!("looked for {} ago", format::duration(ago_s)),
        (None, None) => "not looked for yet".to_owned(),
    };
    if scrub.mended_copies > 0 {
        write!(text, ", {} pages repaired from another copy", format::count(scrub.mended_copies))
            .expect("a string takes all");
    }
    if scrub.damaged_pages > 0 {
        write!(
            text,
            ", {} DAMAGED in every copy: evenkeel check names them",
            format::counted(scrub.damaged_pages, "page")
        )
        .expect("as above");
    }
    text
}
