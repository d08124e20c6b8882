//! What is wrong with a served volume now, as a part of its document.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Kind;
use super::watch::Watcher;
use crate::service::counters::Counters;
use crate::service::mirror_status::MirrorStatus;
use crate::volume::slot::Slot;

/// The worst that is so, and all of it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StateStatus {
    /// One of [`StateStatus::NAMES`].
    pub name: String,
    /// Why.
    pub reasons: Vec<Reason>,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// What it makes of the volume, of the names of states.
    pub state: String,
    /// What it is about: `volume`, `member 1 (/dev/sdx)`, ...
    pub subject: String,
    /// What happened to it: `lost`, `file removed`, ...
    pub what: String,
    /// Since then.
    pub ago_s: f64,
    /// The cause.
    pub why: Option<String>,
}

impl StateStatus {
    /// The names of states, from the best to the worst: nothing is wrong; a member is slow, or commits wait; a member is
    /// rebuilt and does not count yet; a member or log device does not count, or goes with the server; pages are damaged
    /// in every copy; no writes are taken any more.
    pub const NAMES: [&str; 6] = ["ok", "slow", "rebuilding", "degraded", "damaged", "read-only"];

    fn of(mut reasons: Vec<Reason>) -> Self {
        let badness = |reason: &Reason| Self::NAMES.iter().position(|name| *name == reason.state);
        reasons.sort_by_key(|reason| std::cmp::Reverse(badness(reason)));
        let name = reasons.first().map_or(Self::NAMES[0], |reason| &reason.state).to_owned();
        Self { name, reasons }
    }
}

/// The state of the volume that `watcher` watches over.
pub(in crate::service) fn of(
    watcher: &Watcher,
    failure: Option<&str>,
    mirror: Option<&MirrorStatus>,
    counters: &Counters,
    now_ns: u64,
) -> StateStatus {
    let mut reasons = Vec::new();
    let mut add = |state: &str, subject: &str, what: &str, at_ns: u64, why: Option<String>| {
        let ago_s = now_ns.saturating_sub(at_ns) as f64 / 1e9;
        reasons.push(Reason {
            state: state.to_owned(),
            subject: subject.to_owned(),
            what: what.to_owned(),
            ago_s,
            why,
        });
    };
    let last_ns = |kind: Kind| watcher.reporter.last_ns(kind).unwrap_or(watcher.began_ns());
    if let Some(failure) = failure {
        add("read-only", "volume", "became read-only", last_ns(Kind::ReadOnly), Some(failure.to_owned()));
    }
    if counters.damaged_reads > 0 {
        let last = watcher.reporter.last(Kind::DamagedRead).unwrap_or_default();
        let why = format!("{} reads failed; last told: {last}", counters.damaged_reads);
        add("damaged", "volume", "read damaged pages", last_ns(Kind::DamagedRead), Some(why));
    }
    if let Some(since_ns) = watcher.description_gone_ns() {
        let why = "without it there is no volume once the server ends".to_owned();
        add("degraded", "volume.toml", "file removed", since_ns, Some(why));
    }
    if let Some(since_ns) = watcher.arena_gone_ns() {
        let why = "what is acknowledged and not flushed is lost if the server is killed".to_owned();
        add("degraded", "memory of acknowledged writes", "file removed or cut short", since_ns, Some(why));
    }
    for (path, since_ns) in watcher.sockets_gone_ns() {
        let why = "nobody else connects there until the volume is served anew".to_owned();
        add("degraded", &path.display().to_string(), "socket removed", since_ns, Some(why));
    }
    for (number, slot) in watcher.removed().into_iter().enumerate() {
        // What saves one saves all of them.
        let why = if number == 0 { watcher.fate_of_removed() } else { "likewise".to_owned() };
        add("degraded", &watcher.subject(slot), "file removed", watcher.since_ns(slot), Some(why));
    }
    for (slot, now) in watcher.moved() {
        let now = now.map(|now| format!("; it is {} now", now.display())).unwrap_or_default();
        let why = format!("the next start does not find it there{now}");
        let at_ns = watcher.since_ns(slot);
        add("degraded", &watcher.subject(slot), "file moved, or another put in its place", at_ns, Some(why));
    }
    let Some(mirror) = mirror else { return with_waits(watcher, reasons) };
    if mirror.scrub.damaged_pages > 0 {
        let why = format!("{} pages are damaged in every copy", mirror.scrub.damaged_pages);
        add("damaged", "volume", "searched for rot", last_ns(Kind::PagesDamaged), Some(why));
    }
    for (number, member) in mirror.members.iter().enumerate() {
        let subject = format!("member {number} ({})", member.path);
        let at_ns = watcher.since_ns(Slot::Member(number));
        match (member.standing.as_str(), member.rebuild_done_bytes, member.rebuild_size_bytes) {
            ("in-sync", ..) if member.slow => {
                let why = "it takes less than half of what the others take".to_owned();
                add("slow", &subject, "slow", last_ns(Kind::MemberSlow), Some(why));
            }
            ("in-sync", ..) => {}
            ("rebuilding", Some(done), Some(size)) => {
                let why = format!("{:.0} % done", done as f64 / size.max(1) as f64 * 100.0);
                add("rebuilding", &subject, "rebuild begun", at_ns, Some(why));
            }
            _ => add("degraded", &subject, "lost", at_ns, member.failure.clone()),
        }
    }
    for (number, log) in mirror.logs.iter().enumerate().filter(|(_, log)| log.standing != "in-sync") {
        let subject = format!("log device {number} ({})", log.path);
        let by_itself = log.copied_to.as_ref().is_some_and(|copied_to| copied_to.path == log.path);
        let what = if by_itself { "left out" } else { "lost" };
        add("degraded", &subject, what, watcher.since_ns(Slot::Log(number)), log.failure.clone());
    }
    with_waits(watcher, reasons)
}

/// The state, with commits that have been waiting long.
fn with_waits(watcher: &Watcher, mut reasons: Vec<Reason>) -> StateStatus {
    let waiting_s = watcher.commits_wait_s();
    if waiting_s >= 1.0 {
        reasons.push(Reason {
            state: "slow".to_owned(),
            subject: "commits".to_owned(),
            what: "began to wait".to_owned(),
            ago_s: waiting_s,
            why: Some("there is no room in the log".to_owned()),
        });
    }
    StateStatus::of(reasons)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_names_the_state() {
        let reason = |state: &str| Reason {
            state: state.to_owned(),
            subject: String::new(),
            what: String::new(),
            ago_s: 0.0,
            why: None,
        };
        assert_eq!(StateStatus::of(Vec::new()).name, "ok");
        let state = StateStatus::of(["slow", "degraded", "rebuilding"].map(reason).into());
        assert_eq!(state.name, "degraded");
        let states: Vec<&str> = state.reasons.iter().map(|reason| reason.state.as_str()).collect();
        assert_eq!(states, ["degraded", "rebuilding", "slow"]);
    }
}
