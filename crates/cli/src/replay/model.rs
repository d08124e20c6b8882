//! A simulated drive as the target of a replay, in virtual time.
//!
//! 1. No request waits for anything but the drive: each is sent at the very moment at which it is due, and told at the
//!    very moment at which it is done.
//! 2. The same trace, settings and drive give the same figures on every machine.

use std::fmt;
use std::path::PathBuf;

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_measure::replay::report::TargetFacts;
use evenkeel_measure::replay::target::Target;
use evenkeel_sim::executor::SimEnv;
use evenkeel_sim::model::pump::{Pump, SharedStorage};
use evenkeel_sim::model::{Operation, SECTOR_BYTES};

use crate::failure::Failure;
use crate::models::{self, Built, OVERWRITES, Wanted};
use crate::units;

/// Smaller ones are made only where the user says so.
const SIZE_MIN_BYTES: u64 = 1 << 30;
/// What sizes that follow from a trace are multiples of.
const SIZE_STEP_BYTES: u64 = 1 << 20;

/// What stands between the words of a target.
const FORM: &str = "sim:MODEL[,size=SIZE][,precondition[=TIMES]|,load=FILE|,fresh]";

/// What the drive was used for before.
#[derive(Debug, Clone, PartialEq)]
enum Past {
    /// It was filled once, and then overwritten at random as often.
    Overwritten(f64),
    /// What a file of `evenkeel drive --save` says.
    Loaded(PathBuf),
    /// Nothing: what was never written is read without its cells.
    Fresh,
}

/// A drive that is named.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ModelPlace {
    text: String,
    name: String,
    size_bytes: u64,
    past: Past,
}

impl fmt::Display for ModelPlace {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

impl ModelPlace {
    /// Whether a drive is meant.
    pub(super) fn is_meant(text: &str) -> bool {
        text.starts_with("sim:")
    }

    /// The drive that `text` names, for a trace that reaches `reach_bytes`.
    pub(super) fn parse(text: &str, reach_bytes: u64) -> Result<Self, Failure> {
        let unusable = |what: String| Failure::Unusable(format!("{text}: {what}"));
        let mut words = text.strip_prefix("sim:").unwrap_or(text).split(',');
        let name = words.next().unwrap_or_default();
        let sold_bytes = models::sold_bytes(name).map_err(&unusable)?;
        let (mut size, mut past) = (None, None);
        for word in words {
            let (key, value) = word.split_once('=').map_or((word, None), |(key, value)| (key, Some(value)));
            let next = match (key, value) {
                ("size", Some(value)) if size.is_none() => {
                    size = Some(units::size(value).map_err(&unusable)?);
                    continue;
                }
                ("precondition", None) => Past::Overwritten(OVERWRITES),
                ("precondition", Some(value)) => Past::Overwritten(units::times(value).map_err(&unusable)?),
                ("load", Some(value)) if !value.is_empty() => Past::Loaded(value.into()),
                ("fresh", None) => Past::Fresh,
                _ => return Err(unusable(format!("what is `{word}`? write {FORM}"))),
            };
            if past.replace(next).is_some() {
                return Err(unusable(format!("one past is enough; write {FORM}")));
            }
        }
        if matches!(past, Some(Past::Overwritten(_))) && !models::is_flash(name) {
            return Err(unusable("a disk has no garbage to collect; leave precondition out".to_owned()));
        }
        let reach_bytes = reach_bytes.max(SIZE_MIN_BYTES).checked_next_multiple_of(SIZE_STEP_BYTES);
        let size_bytes =
            size.unwrap_or_else(|| reach_bytes.map_or(sold_bytes, |reach| reach.min(sold_bytes)));
        // As a new file is written before a replay: reads are to come from the cells.
        let past = past.unwrap_or(if models::is_flash(name) { Past::Overwritten(0.0) } else { Past::Fresh });
        Ok(Self { text: text.to_owned(), name: name.to_owned(), size_bytes, past })
    }

    /// Bytes that it will have.
    pub(super) fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Makes the drive.
    pub(super) fn build(&self) -> Result<Built, Failure> {
        models::build(&Wanted {
            name: &self.name,
            size_bytes: self.size_bytes,
            overwrites: match self.past {
                Past::Overwritten(times) => Some(times),
                _ => None,
            },
            seed: 0,
            load: match &self.past {
                Past::Loaded(path) => Some(path),
                _ => None,
            },
            prefix: "",
        })
    }

    /// What it is.
    pub(super) fn facts(&self) -> TargetFacts {
        TargetFacts {
            kind: "model",
            place: self.text.clone(),
            size_bytes: self.size_bytes,
            granule_bytes: SECTOR_BYTES as u32,
        }
    }
}

/// A drive in the time of an executor. It keeps no bytes: reads find zeros, after the time that reads take.
pub(super) struct ModelTarget {
    pump: Pump<SimEnv>,
    size_bytes: u64,
}

impl ModelTarget {
    pub(super) fn new(model: SharedStorage, env: SimEnv) -> Self {
        let size_bytes = model.borrow().size_bytes();
        Self { pump: Pump::new(model, env, 0, || false), size_bytes }
    }

    async fn ask(&self, operation: Operation, extent: Extent) -> Result<(), String> {
        let answered = self.pump.ask(operation, extent, None).await;
        answered.map(drop).ok_or_else(|| "the drive has lost its power".to_owned())
    }
}

impl Target for ModelTarget {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn granule_bytes(&self) -> u32 {
        SECTOR_BYTES as u32
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), String> {
        into.fill(0);
        self.ask(Operation::Read, Extent::new(offset, into.len() as u64)).await
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), String> {
        let operation = match durability {
            Durability::Buffered => Operation::Write,
            Durability::Durable => Operation::DurableWrite,
        };
        self.ask(operation, Extent::new(offset, bytes.len() as u64)).await
    }

    async fn flush(&self) -> Result<(), String> {
        self.ask(Operation::Flush, Extent::new(0, 0)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> ModelPlace {
        ModelPlace::parse(text, 3 << 30).unwrap_or_else(|failure| panic!("{text}: {failure}"))
    }

    #[test]
    fn a_drive_is_as_large_as_the_trace_reaches_and_filled_unless_told_otherwise() {
        let place = parsed("sim:nvme-mlc");
        assert_eq!((place.size_bytes, place.past), (3 << 30, Past::Overwritten(0.0)));
        assert_eq!(ModelPlace::parse("sim:nvme-mlc", 1).unwrap().size_bytes, SIZE_MIN_BYTES);
        assert_eq!(
            Ok(ModelPlace::parse("sim:sata-2008", u64::MAX).unwrap().size_bytes),
            models::sold_bytes("sata-2008")
        );
        assert_eq!(parsed("sim:sas-15k").past, Past::Fresh);
        let place = parsed("sim:sd-card,precondition,size=8g");
        assert_eq!((place.size_bytes, place.past), (8 << 30, Past::Overwritten(OVERWRITES)));
        assert_eq!(parsed("sim:steady,precondition=3").past, Past::Overwritten(3.0));
        assert_eq!(parsed("sim:steady,load=a=b").past, Past::Loaded("a=b".into()));
        assert_eq!(parsed("sim:steady,fresh").past, Past::Fresh);
    }

    #[test]
    fn what_names_no_drive_is_refused() {
        for wrong in [
            "sim:",
            "sim:floppy",
            "sim:steady,",
            "sim:steady,size",
            "sim:steady,size=none",
            "sim:steady,size=1g,size=1g",
            "sim:steady,precondition=-1",
            "sim:steady,fresh,load=f",
            "sim:steady,load=",
            "sim:steady,fast",
            "sim:sas-15k,precondition",
        ] {
            assert!(ModelPlace::parse(wrong, 1).is_err(), "{wrong}");
        }
    }
}
