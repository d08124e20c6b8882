//! What of a volume's settings was chosen by trying, and why: the section `[tuned]` of its description.
//!
//! 1. Settings that are typed win over these, and these over the defaults.
//! 2. None is below what a guarantee needs, also where a person has edited it.

use std::ops::RangeInclusive;

use evenkeel_engine::format::record::RECORD_BYTES_MAX;
use evenkeel_engine::size_text::exact_size;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Least batch: a page.
const BATCH_MIN_BYTES: u64 = 4096;

/// Largest batch: records are read whole when a volume is opened.
const BATCH_MAX_BYTES: u64 = (RECORD_BYTES_MAX / 4) as u64;

/// Shortest and longest turn, in milliseconds.
pub const TURN_MS: RangeInclusive<u64> = 10..=60_000;

/// Longest text that is taken from a description.
const TEXT_BYTES_MAX: usize = 1000;

/// Settings that were chosen by trying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tuned {
    /// When, in seconds since 1970.
    pub unix_s: u64,
    /// What was wanted.
    pub goal: String,
    /// What was written meanwhile.
    pub load: String,
    /// What was measured, in one sentence.
    pub measured: String,
    /// Largest commit record that carries more than one write.
    pub batch_max: ChosenBytes,
    /// From which size on a write goes straight home: never, where it has no bytes.
    pub threshold: ChosenBytes,
    /// For how long a member of a ring writes at most; missing where the default is best, and of one member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub turn: Option<ChosenTime>,
}

/// A time, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChosenTime {
    /// How long, in milliseconds.
    pub ms: u64,
    /// Why so long.
    pub reason: String,
}

/// A size, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ChosenBytes {
    /// How much.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Why so much.
    pub reason: String,
}

impl Tuned {
    /// That a volume can be run so.
    ///
    /// # Errors
    ///
    /// What is wrong, in one line.
    pub(super) fn check(&self, atomic_max_bytes: u64) -> Result<(), String> {
        let put_right = "choose anew, or remove [tuned]";
        let Some(batch_bytes) = self.batch_max.bytes else {
            return Err(format!("tuned.batch_max has no bytes: {put_right}"));
        };
        if !(BATCH_MIN_BYTES..=BATCH_MAX_BYTES).contains(&batch_bytes) {
            let (least, most) = (exact_size(BATCH_MIN_BYTES), exact_size(BATCH_MAX_BYTES));
            return Err(format!(
                "tuned.batch_max: bytes = {batch_bytes}: from {least} to {most}: {put_right}"
            ));
        }
        if let Some(bytes) = self.threshold.bytes.filter(|&bytes| bytes < atomic_max_bytes) {
            let least = exact_size(atomic_max_bytes);
            return Err(format!(
                "tuned.threshold: bytes = {bytes}: {least} at least, the largest write that is one piece: {put_right}"
            ));
        }
        if let Some(ms) = self.turn.as_ref().map(|turn| turn.ms).filter(|ms| !TURN_MS.contains(ms)) {
            let (least, most) = (TURN_MS.start(), TURN_MS.end());
            return Err(format!("tuned.turn: ms = {ms}: from {least} to {most}: {put_right}"));
        }
        let texts = [&self.goal, &self.load, &self.measured, &self.batch_max.reason, &self.threshold.reason];
        let mut texts = texts.into_iter().chain(self.turn.iter().map(|turn| &turn.reason));
        match texts.any(|text| text.len() > TEXT_BYTES_MAX) {
            true => Err(format!("tuned: a text of it has more than {TEXT_BYTES_MAX} bytes: {put_right}")),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tuned(batch: Option<u64>, threshold: Option<u64>) -> Tuned {
        let chosen = |bytes| ChosenBytes { bytes, reason: String::new() };
        let (goal, load, measured) = (String::new(), String::new(), String::new());
        Tuned {
            unix_s: 1,
            goal,
            load,
            measured,
            batch_max: chosen(batch),
            threshold: chosen(threshold),
            turn: None,
        }
    }

    fn in_turns(ms: u64) -> Tuned {
        let turn = Some(ChosenTime { ms, reason: String::new() });
        Tuned { turn, ..tuned(Some(65_536), None) }
    }

    #[test]
    fn what_is_below_a_guarantee_is_refused() {
        assert_eq!(tuned(Some(65_536), Some(16 << 10)).check(16 << 10), Ok(()));
        assert_eq!(tuned(Some(65_536), None).check(16 << 10), Ok(()));
        assert_eq!(in_turns(2000).check(16 << 10), Ok(()));
        for (wrong, said) in [
            (tuned(Some(65_536), Some(8192)), "(16 KiB) at least"),
            (tuned(Some(512), None), "(16 MiB)"),
            (tuned(Some(1 << 40), None), "(16 MiB)"),
            (tuned(None, None), "has no bytes"),
            (in_turns(0), "from 10 to 60000"),
            (in_turns(u64::MAX), "from 10 to 60000"),
            (Tuned { goal: "x".repeat(2000), ..tuned(Some(65_536), None) }, "more than 1000 bytes"),
        ] {
            let why = wrong.check(16 << 10).unwrap_err();
            assert!(why.contains(said) && why.contains("[tuned]"), "{why}");
        }
    }
}
