//! What the members and log devices of a served mirror do, as a part of its document.

use evenkeel_engine::layout::mirror::log_devices::LogDeviceState;
use evenkeel_engine::ring::{MemberState, Policy, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::maintenance::Maintenance;
use crate::volume::mirror::{Mirror, MirrorLog, MirrorMember};

/// What a mirror's members do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MirrorStatus {
    /// `auto`, `turns`, `mixed`, `read-first` or `read-around`.
    pub policy: String,
    /// How long a member writes, at most.
    pub turn_s: f64,
    /// For how long it has to be quick behind that before it is read.
    pub rest_s: f64,
    /// It is read after so long even if it is not.
    pub rest_max_s: f64,
    /// Members that only read now.
    pub readers: u64,
    /// Members that hold everything.
    pub members_in_sync: u64,
    /// Log devices that hold everything.
    pub logs_in_sync: u64,
    /// Bytes that a rebuild copies in a second, at most.
    pub rebuild_bytes_per_s: u64,
    /// The members, by their places.
    pub members: Vec<MemberStatus>,
    /// The log devices, by their places.
    pub logs: Vec<LogStatus>,
    /// What scrubs found.
    pub scrub: ScrubStatus,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberStatus {
    /// Where it is.
    pub path: String,
    /// `in-sync`, `rebuilding`, `stale`, `foreign` or `out`.
    pub standing: String,
    /// `reading` or `writing`.
    pub role: String,
    /// Why it takes no part, if so.
    pub failure: Option<String>,
    /// Why it is asked to discard no more, if so; it counts all the same.
    #[serde(default)]
    pub discards_stopped: Option<String>,
    /// Whether it has been much slower than the others for a minute.
    pub slow: bool,
    /// Bytes that wait for its turn.
    pub queued_bytes: u64,
    /// Bytes read from it.
    pub read_bytes: u64,
    /// Bytes written to it.
    pub written_bytes: u64,
    /// Turns that it had.
    pub turns: u64,
    /// Bytes that it took in a second in which it had something to write, lately.
    pub drain_bytes_per_s: u64,
    /// Bytes that a rebuild has copied to it, if one is under way.
    pub rebuild_done_bytes: Option<u64>,
    /// And that it has to.
    pub rebuild_size_bytes: Option<u64>,
    /// Pages that one member did not hold as they should be when this one was last rebuilt, and another did.
    #[serde(default)]
    pub rebuild_wrong_copies: u64,
    /// Pages that no member did.
    #[serde(default)]
    pub rebuild_damaged_pages: u64,
    /// Since it was lost, where it takes no part.
    #[serde(default)]
    pub away_s: Option<f64>,
    /// Bytes of regions that it lacks at most, or was given when it came back; null where it is rebuilt whole.
    #[serde(default)]
    pub lacks_bytes: Option<u64>,
    /// Bytes that rebuilds copied to it since the volume was opened.
    #[serde(default)]
    pub copied_bytes: u64,
}

/// One log device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogStatus {
    /// Where it is.
    pub path: String,
    /// `in-sync`, `stale`, `foreign` or `out`.
    pub standing: String,
    /// Why it takes no part, if so.
    pub failure: Option<String>,
    /// What is to take its place, while it is copied to.
    #[serde(default)]
    pub copied_to: Option<LogCopy>,
}

/// What is to take the place of a log device.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LogCopy {
    /// Where it is.
    pub path: String,
    /// Records of the log that are there, or need not be any more.
    pub done_records: u64,
    /// And that had to be when it began.
    pub records: u64,
}

/// What scrubs found since the volume was opened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ScrubStatus {
    /// Bytes of the volume that the search under way has looked at, if one is.
    pub done_bytes: Option<u64>,
    /// Searches that came to their end.
    pub completed: u64,
    /// Since the last one ended.
    pub ended_ago_s: Option<f64>,
    /// Copies of pages that were looked at.
    pub copies_checked: u64,
    /// Copies that were wrong, and were repaired from others.
    pub mended_copies: u64,
    /// Pages of which no copy was right.
    pub damaged_pages: u64,
}

impl MirrorStatus {
    /// Members and log devices that take no part, and get none by themselves: each with why.
    pub fn missing(&self) -> Vec<(&str, &str)> {
        let members = self.members.iter().map(|it| (&it.path, &it.standing, &it.failure));
        let logs = self.logs.iter().filter(|it| it.copied_to.is_none());
        let logs = logs.map(|it| (&it.path, &it.standing, &it.failure));
        let takes_part = |standing: &str| matches!(standing, "in-sync" | "rebuilding");
        let missing = members.chain(logs).filter(|(_, standing, _)| !takes_part(standing));
        missing.map(|(path, _, why)| (path.as_str(), why.as_deref().unwrap_or("not known why"))).collect()
    }

    pub(super) fn of(mirror: &Mirror, maintenance: &Maintenance, now_ns: u64) -> Self {
        let options = mirror.options();
        let (members, logs) = (mirror.members(), mirror.log_devices());
        let (readers, members_in_sync) = mirror.ring.window();
        let logs_in_sync = logs.iter().filter(|log| log.state == LogDeviceState::InSync).count();
        let size_bytes = evenkeel_engine::device::Device::geometry(&mirror.ring).size_bytes;
        let slow = maintenance.slow(now_ns);
        let scrubbed = maintenance.scrubbed.borrow();
        let each = members.iter().enumerate().map(|(place, member)| {
            member_status(member, slow.get(place).copied().unwrap_or(false), size_bytes)
        });
        Self {
            policy: match options.policy {
                Policy::Auto => "auto",
                Policy::Turns => "turns",
                Policy::Mixed => "mixed",
                Policy::ReadFirst => "read-first",
                Policy::ReadAround => "read-around",
            }
            .to_owned(),
            turn_s: options.turn_ns as f64 / 1e9,
            rest_s: options.rest_ns as f64 / 1e9,
            rest_max_s: options.rest_max_ns as f64 / 1e9,
            readers: readers as u64,
            members_in_sync: members_in_sync as u64,
            logs_in_sync: logs_in_sync as u64,
            rebuild_bytes_per_s: options.rebuild_bytes_per_s,
            members: each.collect(),
            logs: logs.iter().map(log_status).collect(),
            scrub: ScrubStatus {
                done_bytes: scrubbed.under_way_pages.map(|pages| pages * 4096),
                completed: scrubbed.completed,
                ended_ago_s: scrubbed.ended_ns.map(|ended_ns| now_ns.saturating_sub(ended_ns) as f64 / 1e9),
                copies_checked: scrubbed.copies_checked(),
                mended_copies: scrubbed.wrong_copies(),
                damaged_pages: scrubbed.damaged_pages(),
            },
        }
    }
}

fn member_status(member: &MirrorMember, slow: bool, size_bytes: u64) -> MemberStatus {
    let status = &member.status;
    let rebuild_done_bytes = match status.state {
        MemberState::Rebuilding { done_bytes } => Some(done_bytes),
        _ => None,
    };
    MemberStatus {
        path: member.place.to_string(),
        standing: match status.state {
            MemberState::InSync => "in-sync",
            MemberState::Rebuilding { .. } => "rebuilding",
            MemberState::Stale => "stale",
            MemberState::Foreign => "foreign",
            MemberState::Out => "out",
        }
        .to_owned(),
        role: match status.role {
            Role::Reading => "reading",
            Role::Writing => "writing",
        }
        .to_owned(),
        failure: member.why.clone(),
        discards_stopped: status.discards_stopped.map(|error| error.to_string()),
        slow,
        queued_bytes: status.queued_bytes,
        read_bytes: status.read_bytes,
        written_bytes: status.written_bytes,
        turns: status.turns,
        drain_bytes_per_s: status.drain_bytes_per_s,
        rebuild_done_bytes,
        rebuild_size_bytes: rebuild_done_bytes.map(|_| status.lacks_bytes.unwrap_or(size_bytes)),
        rebuild_wrong_copies: status.rebuild_found.wrong_copies,
        rebuild_damaged_pages: status.rebuild_found.damaged_pages,
        away_s: status.away_ns.map(|away_ns| away_ns as f64 / 1e9),
        lacks_bytes: status.lacks_bytes,
        copied_bytes: status.copied_bytes,
    }
}

fn log_status(log: &MirrorLog) -> LogStatus {
    LogStatus {
        path: log.place.to_string(),
        standing: match log.state {
            LogDeviceState::InSync => "in-sync",
            LogDeviceState::Stale => "stale",
            LogDeviceState::Foreign => "foreign",
            LogDeviceState::Out => "out",
        }
        .to_owned(),
        failure: log.why.clone(),
        copied_to: log.copied_to.as_ref().map(|(place, copy)| LogCopy {
            path: place.to_string(),
            done_records: copy.done_records,
            records: copy.records,
        }),
    }
}
