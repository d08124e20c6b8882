//! What a volume did in the last minutes: a sample each second.
//!
//! 1. There are [`SAMPLES_MAX`] samples at most; the oldest go.
//! 2. Each has a number of its own, one more than the one before, so that a reader asks for what it has not. Numbers begin anew with
//!    each serving, of which a process may have several, and a container's have the same number of a process each time.

use std::collections::VecDeque;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::service::mirror_status::MemberStatus;
use crate::service::recent::Recent;
use crate::service::status::Status;

/// How many samples are kept: ten minutes of them.
pub const SAMPLES_MAX: usize = 600;

/// From one to the next.
pub const SAMPLE_EVERY_NS: u64 = 1_000_000_000;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.history/1";

/// What a served volume did in the last minutes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The process of the server.
    pub pid: u32,
    /// When this serving began, in ms since 1970: numbers of samples begin anew with each. 0 before the first sample.
    #[serde(default)]
    pub began_unix_ms: u64,
    /// From one sample to the next.
    pub sample_every_s: f64,
    /// As many samples as there may be.
    pub samples_max: u64,
    /// The samples, the oldest first.
    pub samples: Vec<Sample>,
}

/// A second of a volume.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Its number, from 0 on.
    pub number: u64,
    /// When it was taken, since the volume was opened.
    pub uptime_s: f64,
    /// The name of the volume's state.
    pub state: String,
    /// What was done since the sample before; null in the first one.
    pub recent: Option<Recent>,
    /// How full the room for writes that are not durable is, of 1.
    pub buffer_share: f64,
    /// How full the part of the log is that commits may fill.
    pub log_share: f64,
    /// How full the room for pages that are not home is.
    pub dirty_share: f64,
    /// What a mirror's members do, by their places.
    pub members: Vec<MemberSample>,
}

/// A second of a member.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberSample {
    /// As `standing` of the status.
    pub standing: String,
    /// As `role` of the status.
    pub role: String,
    /// Turns of writing that began since the sample before.
    pub turns: u64,
    /// Bytes read from it a second.
    pub read_bytes_per_s: f64,
    /// Bytes written to it a second.
    pub written_bytes_per_s: f64,
    /// Bytes that wait for its turn.
    pub queued_bytes: u64,
}

/// The samples of a server.
#[derive(Debug, Default)]
pub(super) struct Samples {
    kept: VecDeque<Sample>,
    next: u64,
    last: Option<Status>,
}

impl Samples {
    /// Takes the document of another second.
    pub(super) fn take(&mut self, document: &Status) {
        let sample = Sample::between(self.next, self.last.as_ref(), document);
        self.next += 1;
        if self.kept.len() == SAMPLES_MAX {
            self.kept.pop_front();
        }
        self.kept.push_back(sample);
        self.last = Some(document.clone());
    }

    /// Those after number `after`, or all.
    pub(super) fn after(&self, after: Option<u64>) -> History {
        let is_wanted = |sample: &&Sample| after.is_none_or(|after| sample.number > after);
        History {
            schema: SCHEMA.to_owned(),
            pid: std::process::id(),
            began_unix_ms: self.last.as_ref().map_or(0, |status| status.server.began_unix_ms),
            sample_every_s: SAMPLE_EVERY_NS as f64 / 1e9,
            samples_max: SAMPLES_MAX as u64,
            samples: self.kept.iter().filter(is_wanted).cloned().collect(),
        }
    }
}

impl Sample {
    fn between(number: u64, earlier: Option<&Status>, later: &Status) -> Self {
        let recent = earlier.and_then(|earlier| Recent::between(earlier, later));
        let over_s = recent.as_ref().map(|recent| recent.over_s);
        let occupancy = &later.occupancy;
        let share = |used: u64, all: u64| used as f64 / all.max(1) as f64;
        let members = later.mirror.iter().flat_map(|mirror| mirror.members.iter().enumerate());
        let members = members.map(|(place, now)| {
            let before = earlier.and_then(|earlier| earlier.mirror.as_ref()?.members.get(place));
            MemberSample::between(before, now, over_s)
        });
        Self {
            number,
            uptime_s: later.server.uptime_s,
            state: later.state.name.clone(),
            buffer_share: share(occupancy.buffer_used_bytes, occupancy.buffer_bytes),
            log_share: share(occupancy.log_used_bytes, occupancy.log_max_bytes),
            dirty_share: share(occupancy.dirty_bytes, occupancy.dirty_max_bytes),
            members: members.collect(),
            recent,
        }
    }
}

impl MemberSample {
    fn between(before: Option<&MemberStatus>, now: &MemberStatus, over_s: Option<f64>) -> Self {
        // Another drive in its place counts from 0 again.
        let more =
            |of: fn(&MemberStatus) -> u64| before.map_or(0, |before| of(now).saturating_sub(of(before)));
        let per_s = |bytes: u64| over_s.map_or(0.0, |over_s| bytes as f64 / over_s);
        Self {
            standing: now.standing.clone(),
            role: now.role.clone(),
            turns: more(|it| it.turns),
            read_bytes_per_s: per_s(more(|it| it.read_bytes)),
            written_bytes_per_s: per_s(more(|it| it.written_bytes)),
            queued_bytes: now.queued_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::samples::{requests, status};

    /// A document after so many seconds, with as many writes a second.
    fn document(second: u64, writes_per_s: u64) -> Status {
        let mut status = status();
        status.server.uptime_s = second as f64;
        status.requests = vec![requests("write", &[0, second * writes_per_s])];
        status.occupancy.log_used_bytes = 256;
        status
    }

    #[test]
    fn a_second_is_what_came_since_the_one_before() {
        let mut samples = Samples::default();
        (1..=3).for_each(|second| samples.take(&document(second, 50)));
        let History { samples, .. } = samples.after(None);
        assert_eq!(samples[0].recent, None, "before the first one nobody looked");
        let rates: Vec<f64> =
            samples[1..].iter().map(|it| it.recent.as_ref().unwrap().writes.per_s).collect();
        assert_eq!(rates, [50.0, 50.0]);
        assert_eq!(
            samples.iter().map(|it| (it.number, it.log_share)).collect::<Vec<_>>(),
            [(0, 0.25), (1, 0.25), (2, 0.25)]
        );
    }

    #[test]
    fn the_oldest_go_and_a_reader_gets_what_it_has_not() {
        let mut samples = Samples::default();
        let taken = SAMPLES_MAX as u64 + 10;
        (1..=taken).for_each(|second| samples.take(&document(second, 1)));
        let numbers = |after| samples.after(after).samples.iter().map(|it| it.number).collect::<Vec<_>>();
        assert_eq!(numbers(None), (10..taken).collect::<Vec<_>>());
        assert_eq!(numbers(Some(taken - 3)), [taken - 2, taken - 1]);
        assert_eq!(numbers(Some(taken - 1)), [] as [u64; 0]);
        assert_eq!(numbers(Some(u64::MAX)), [] as [u64; 0], "a number of another server");
    }
}
