//! Places of a mirror, by number.

use serde::{Deserialize, Serialize};

/// A place of a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Slot {
    /// Of a member.
    Member(usize),
    /// Of a log device.
    Log(usize),
}
