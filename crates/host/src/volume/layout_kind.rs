//! How a volume's pages are laid over its members, and how that is written: `single`, `mirror`, or `rs:4+2` for stripes of
//! four data shards and two parity shards.

use std::fmt;
use std::str::FromStr;

use evenkeel_engine::device::Extent;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::log_bytes_with_superblocks;
use evenkeel_engine::format::log_head;
use evenkeel_engine::format::stripes::{DATA_MAX, PARITY_MAX, SHARD_BYTES_MAX, Stripes};
use serde::{Deserialize, Serialize};

use crate::size_text::exact_size;

/// A shard unless its length was chosen: a request of a drive, and much more than a page.
pub const SHARD_BYTES: u64 = 64 << 10;

/// Largest log of stripes.
const STRIPE_LOG_BYTES_MAX: u64 = 1 << 40;

/// Changes of a whole stripe that the log of stripes has room for at least: one is written while others go home.
const STRIPES_LOGGED_MIN: u64 = 8;

/// How pages are laid over members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LayoutKind {
    /// One home member.
    Single,
    /// Several members that hold the same, and read and write in turns.
    Mirror,
    /// Several members that hold data and parity, and read and write in turns.
    Striped(Striped),
}

/// Stripes, and the log of their changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Striped {
    /// Their shape.
    pub stripes: Stripes,
    /// Bytes of that log, on each log device.
    pub log_bytes: u64,
}

impl Striped {
    /// Stripes of this shape, with a log as large as half the journal, or as a few stripes take.
    pub fn new(stripes: Stripes, journal_bytes: u64) -> Self {
        let log_bytes = (journal_bytes / 2 / PAGE_BYTES * PAGE_BYTES).max(Self::log_bytes_min(&stripes));
        Self { stripes, log_bytes }
    }

    fn log_bytes_min(stripes: &Stripes) -> u64 {
        STRIPES_LOGGED_MIN * (PAGE_BYTES + stripes.members() as u64 * stripes.shard_bytes())
    }
}

impl LayoutKind {
    /// Whether several members make a ring.
    pub fn is_ring(self) -> bool {
        self != Self::Single
    }

    /// What there is of stripes.
    pub fn striped(self) -> Option<Striped> {
        match self {
            Self::Striped(striped) => Some(striped),
            Self::Single | Self::Mirror => None,
        }
    }

    /// Members that have to remain of so many.
    pub fn members_needed(self) -> usize {
        self.striped().map_or(1, |striped| striped.stripes.data())
    }

    /// Where changes of stripes are logged on each log device, behind its head and a journal of so many bytes; empty where there
    /// are no stripes.
    pub(super) fn stripe_log(self, journal_bytes: u64) -> Extent {
        let journal_bytes = log_bytes_with_superblocks(journal_bytes);
        match self.striped() {
            None => Extent::new(journal_bytes, 0),
            // Drives write whole pages there.
            Some(striped) => {
                let pages = journal_bytes.div_ceil(PAGE_BYTES);
                Extent::new(pages.saturating_mul(PAGE_BYTES), striped.log_bytes)
            }
        }
    }

    /// Bytes of each log device with a journal of so many bytes, head included.
    pub(super) fn log_device_bytes(self, journal_bytes: u64) -> u64 {
        let Extent { offset, len } = self.stripe_log(journal_bytes);
        offset.saturating_add(len).saturating_add(log_head::DATA_OFFSET)
    }

    /// Bytes of the pages on each member, of so many in all; the largest number where that is too many.
    pub fn member_bytes(self, home_bytes: u64) -> u64 {
        let striped = self.striped();
        striped.map_or(home_bytes, |it| it.stripes.member_bytes(home_bytes).unwrap_or(u64::MAX))
    }
}

impl fmt::Display for LayoutKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        LayoutName::from(*self).fmt(out)
    }
}

/// A layout as it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum LayoutName {
    /// One member; its loss is the volume's.
    Single,
    /// Members that hold the same.
    Mirror,
    /// Members that hold data and parity.
    Striped {
        /// Data shards of a stripe: K.
        data: usize,
        /// Parity shards of a stripe: M.
        parity: usize,
    },
}

impl LayoutName {
    /// The layout of this name, with the lengths of a shard and of the log of stripes.
    ///
    /// # Errors
    ///
    /// In one line, which length no volume can have, lacks, or has in vain.
    pub(super) fn with(
        self,
        shard_bytes: Option<u64>,
        stripe_log_bytes: Option<u64>,
    ) -> Result<LayoutKind, String> {
        let (data, parity) = match (self, shard_bytes, stripe_log_bytes) {
            (Self::Single, None, None) => return Ok(LayoutKind::Single),
            (Self::Mirror, None, None) => return Ok(LayoutKind::Mirror),
            (Self::Single | Self::Mirror, ..) => {
                return Err(format!("a volume of layout {self} has no shard_bytes and no stripe_log_bytes"));
            }
            (Self::Striped { data, parity }, ..) => (data, parity),
        };
        let (Some(shard_bytes), Some(log_bytes)) = (shard_bytes, stripe_log_bytes) else {
            return Err(format!("a volume of layout {self} has shard_bytes and stripe_log_bytes"));
        };
        let stripes = Self::stripes(data, parity, shard_bytes)?;
        let (least, most) = (Striped::log_bytes_min(&stripes), STRIPE_LOG_BYTES_MAX);
        if !(least..=most).contains(&log_bytes) || !log_bytes.is_multiple_of(PAGE_BYTES) {
            return Err(format!(
                "stripe_log_bytes = {log_bytes}: no volume has that; it is whole pages, {} at least, {} at most: put back \
                 what it was made with",
                exact_size(least),
                exact_size(most)
            ));
        }
        Ok(LayoutKind::Striped(Striped { stripes, log_bytes }))
    }

    /// Stripes of `data` and `parity` shards of `shard_bytes`.
    ///
    /// # Errors
    ///
    /// In one line, what there is instead.
    pub fn stripes(data: usize, parity: usize, shard_bytes: u64) -> Result<Stripes, String> {
        Stripes::new(data, parity, shard_bytes).ok_or_else(|| {
            let (least, most) = (exact_size(PAGE_BYTES), exact_size(SHARD_BYTES_MAX));
            match Stripes::new(data, parity, PAGE_BYTES) {
                Some(_) => format!(
                    "a shard of {shard_bytes} bytes: choose a power of two, {least} at least, {most} at most"
                ),
                None => format!(
                    "rs:{data}+{parity}: choose 2 to {DATA_MAX} data shards and 1 to {PARITY_MAX} parity shards"
                ),
            }
        })
    }
}

impl From<LayoutKind> for LayoutName {
    fn from(kind: LayoutKind) -> Self {
        match kind {
            LayoutKind::Single => Self::Single,
            LayoutKind::Mirror => Self::Mirror,
            LayoutKind::Striped(Striped { stripes, .. }) => {
                Self::Striped { data: stripes.data(), parity: stripes.parity() }
            }
        }
    }
}

impl fmt::Display for LayoutName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single => out.pad("single"),
            Self::Mirror => out.pad("mirror"),
            Self::Striped { data, parity } => out.pad(&format!("rs:{data}+{parity}")),
        }
    }
}

impl From<LayoutName> for String {
    fn from(name: LayoutName) -> Self {
        name.to_string()
    }
}

impl FromStr for LayoutName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let unknown = || format!("no layout `{text}`: single, mirror, or rs:K+M, such as rs:4+2");
        let (data, parity) = match text {
            "single" => return Ok(Self::Single),
            "mirror" => return Ok(Self::Mirror),
            _ => text.strip_prefix("rs:").and_then(|shape| shape.split_once('+')).ok_or_else(unknown)?,
        };
        let count = |text: &str| text.parse::<u16>().map(usize::from).map_err(|_| unknown());
        let (data, parity) = (count(data)?, count(parity)?);
        Self::stripes(data, parity, PAGE_BYTES)?;
        Ok(Self::Striped { data, parity })
    }
}

impl TryFrom<String> for LayoutName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for name in ["single", "mirror", "rs:2+1", "rs:4+2", "rs:28+4"] {
            assert_eq!(name.parse::<LayoutName>().expect("a layout").to_string(), name);
        }
        for name in [
            "",
            "rs",
            "rs:4",
            "rs:+",
            "rs:1+1",
            "rs:4+0",
            "rs:29+1",
            "rs:4+5",
            "rs:4+2+1",
            "rs:99999+1",
            "raid6",
        ] {
            assert!(name.parse::<LayoutName>().is_err(), "{name}");
        }
    }

    #[test]
    fn a_log_of_stripes_has_room_for_some_of_the_largest() {
        let stripes = Stripes::new(28, 4, SHARD_BYTES_MAX).expect("sound");
        let striped = Striped::new(stripes, 64 << 20);
        assert_eq!(striped.log_bytes, 8 * ((32 << 20) + 4096));
        let name = LayoutName::from(LayoutKind::Striped(striped));
        assert_eq!(name.with(Some(1 << 20), Some(striped.log_bytes)), Ok(LayoutKind::Striped(striped)));
        assert!(name.with(Some(1 << 20), Some(striped.log_bytes - 4096)).is_err(), "too small");
        assert!(name.with(Some(1 << 20), None).is_err() && name.with(None, Some(1 << 30)).is_err());
        assert!(LayoutName::Mirror.with(Some(4096), None).is_err(), "shards of a mirror");
        assert_eq!(LayoutName::Mirror.with(None, None), Ok(LayoutKind::Mirror));
    }
}
