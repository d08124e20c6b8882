//! Where the requests of a trace's devices lie on the target.
//!
//! The devices that are replayed lie one behind the other, in the order in which the trace first names them, each from
//! a multiple of 1 MiB on and as long as the trace reaches: so requests to different devices never meet. Where all of
//! that is more than the target has, it is made to fit, or refused.

use std::fmt;

use evenkeel_engine::size_text::sizes;
use schemars::JsonSchema;
use serde::Serialize;

use super::Access;
use super::survey::Survey;

/// Where a device begins is a multiple of this.
const DEVICE_ALIGN_BYTES: u64 = 1 << 20;

/// What a request's place within it is kept: file systems and databases align their requests to it.
const PAGE_BYTES: u64 = 4096;

/// What becomes of requests beyond the target's end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Fit {
    /// They start again at the target's beginning: what was sequential stays so, and what was apart stays apart as far
    /// as the target's size allows.
    Wrap,
    /// Nothing is replayed.
    Refuse,
    /// All places are drawn together, page by page: the order of places stays, sequential requests overlap.
    Scale,
}

/// Why a trace cannot be replayed onto this target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlacementError {
    /// A device was asked for that the trace does not name.
    NoSuchDevice {
        /// The device.
        name: String,
        /// Those it names.
        known: Vec<String>,
    },
    /// There is no request.
    Nothing,
    /// The devices together are larger than 64 bits count.
    Uncountable,
    /// One request alone is larger than the target.
    TooLong {
        /// The longest request.
        longest_bytes: u64,
        /// What the target has.
        target_bytes: u64,
    },
    /// Requests lie beyond the target's end, and that was to be refused.
    Beyond {
        /// Bytes that the trace reaches.
        reach_bytes: u64,
        /// What the target has.
        target_bytes: u64,
    },
}

/// Names that a line has room for.
const NAMES_SHOWN: usize = 8;

impl fmt::Display for PlacementError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchDevice { name, known } => {
                let more = if known.len() > NAMES_SHOWN { ", ..." } else { "" };
                let shown: Vec<&str> = known.iter().take(NAMES_SHOWN).map(String::as_str).collect();
                write!(out, "the trace has no device `{name}`; it has {}{more}", shown.join(", "))
            }
            Self::Nothing => write!(out, "the trace has no request to replay"),
            Self::Uncountable => {
                write!(out, "its devices together are larger than 64 bits count; name some with --device")
            }
            Self::TooLong { longest_bytes, target_bytes } => {
                let (longest, target) = sizes(*longest_bytes, *target_bytes);
                write!(out, "the trace has a request of {longest} and the target {target}; name a larger one")
            }
            Self::Beyond { reach_bytes, target_bytes } => {
                let (reach, target) = sizes(*reach_bytes, *target_bytes);
                write!(
                    out,
                    "the trace reaches {reach} and the target has {target}; let requests beyond its end --fit wrap or \
                     scale, or name a larger one"
                )
            }
        }
    }
}

impl std::error::Error for PlacementError {}

/// The trace is not what was surveyed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceChanged;

impl fmt::Display for TraceChanged {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the trace changed while it was replayed; replay it again")
    }
}

impl std::error::Error for TraceChanged {}

/// A device's part of the target.
#[derive(Debug, Clone, Copy)]
struct Part {
    first_byte: u64,
    reach_bytes: u64,
}

/// Where an access lies on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moved {
    /// First byte.
    pub offset: u64,
    /// Whether it would lie elsewhere on a target that is large enough.
    pub is_moved: bool,
}

/// Places for the accesses of a surveyed trace.
#[derive(Debug, Clone)]
pub struct Placement {
    /// By device; `None` for those that are left out.
    parts: Vec<Option<Part>>,
    reach_bytes: u64,
    longest_bytes: u64,
    usable_bytes: u64,
    fit: Fit,
}

impl Placement {
    /// Room for those of the trace's devices that `names` names; for all if it names none. It has no target yet.
    ///
    /// # Errors
    ///
    /// [`PlacementError`].
    pub fn of(survey: &Survey, names: &[String]) -> Result<Self, PlacementError> {
        let is_known = |name: &&String| survey.devices.iter().any(|device| device.name == **name);
        if let Some(unknown) = names.iter().find(|name| !is_known(name)) {
            let known = survey.devices.iter().map(|device| device.name.clone()).collect();
            return Err(PlacementError::NoSuchDevice { name: unknown.clone(), known });
        }
        let (mut reach_bytes, mut longest_bytes, mut requests) = (0u64, 0, 0);
        let mut parts = Vec::with_capacity(survey.devices.len());
        for device in &survey.devices {
            if !names.is_empty() && !names.contains(&device.name) {
                parts.push(None);
                continue;
            }
            let first_byte = reach_bytes
                .checked_next_multiple_of(DEVICE_ALIGN_BYTES)
                .ok_or(PlacementError::Uncountable)?;
            reach_bytes = first_byte.checked_add(device.reach_bytes).ok_or(PlacementError::Uncountable)?;
            longest_bytes = longest_bytes.max(u64::from(device.longest_bytes));
            requests += device.requests();
            parts.push(Some(Part { first_byte, reach_bytes: device.reach_bytes }));
        }
        if requests == 0 {
            return Err(PlacementError::Nothing);
        }
        Ok(Self { parts, reach_bytes, longest_bytes, usable_bytes: reach_bytes, fit: Fit::Refuse })
    }

    /// The same on a target of `target_bytes`.
    ///
    /// # Errors
    ///
    /// [`PlacementError`].
    pub fn onto(mut self, target_bytes: u64, fit: Fit) -> Result<Self, PlacementError> {
        let (reach_bytes, longest_bytes) = (self.reach_bytes, self.longest_bytes);
        let usable_bytes = match target_bytes {
            _ if reach_bytes <= target_bytes => reach_bytes,
            _ if fit == Fit::Refuse => return Err(PlacementError::Beyond { reach_bytes, target_bytes }),
            // Whole pages, so that what is moved by it keeps its place within a page.
            target_bytes => target_bytes / PAGE_BYTES * PAGE_BYTES,
        };
        if longest_bytes > usable_bytes {
            return Err(PlacementError::TooLong { longest_bytes, target_bytes });
        }
        (self.usable_bytes, self.fit) = (usable_bytes, fit);
        Ok(self)
    }

    /// Bytes that all parts have together.
    pub fn reach_bytes(&self) -> u64 {
        self.reach_bytes
    }

    /// Whether the device at this place in the survey is replayed.
    pub fn has(&self, device: usize) -> bool {
        matches!(self.parts.get(device), Some(Some(_)))
    }

    /// Where an access lies; `None` for one of a device that is left out.
    ///
    /// # Errors
    ///
    /// [`TraceChanged`] for one that the survey did not know of.
    pub fn place(&self, access: &Access) -> Result<Option<Moved>, TraceChanged> {
        let Some(part) = *self.parts.get(access.device.index()).ok_or(TraceChanged)? else { return Ok(None) };
        if access.end() > part.reach_bytes || u64::from(access.len_bytes) > self.longest_bytes {
            return Err(TraceChanged);
        }
        let wanted = part.first_byte + access.offset;
        if self.usable_bytes == self.reach_bytes {
            return Ok(Some(Moved { offset: wanted, is_moved: false }));
        }
        let near = match self.fit {
            Fit::Wrap | Fit::Refuse => wanted % self.usable_bytes,
            Fit::Scale => {
                let page = u128::from(wanted / PAGE_BYTES) * u128::from(self.usable_bytes / PAGE_BYTES)
                    / u128::from(self.reach_bytes.div_ceil(PAGE_BYTES));
                page as u64 * PAGE_BYTES + wanted % PAGE_BYTES
            }
        };
        // One request stays one: at the target's end it moves back rather than break in two.
        let offset = near.min(self.usable_bytes - u64::from(access.len_bytes));
        Ok(Some(Moved { offset, is_moved: offset != wanted }))
    }
}
