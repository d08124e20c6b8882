//! How much was written, and where.

use evenkeel_engine::counters::Snapshot;

/// What was written since the volume was opened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Traffic {
    pub(super) user_bytes: u64,
    pub(super) writes: u64,
    /// Records of the journal, padding included.
    pub(super) journal_bytes: u64,
    /// Pages and their sums.
    pub(super) home_bytes: u64,
}

impl Traffic {
    /// Bytes of the journal for each byte that users wrote.
    pub(super) fn journal_per_user_byte(&self) -> f64 {
        self.journal_bytes as f64 / self.user_bytes as f64
    }

    /// Bytes written home for each byte that users wrote.
    pub(super) fn home_per_user_byte(&self) -> f64 {
        self.home_bytes as f64 / self.user_bytes as f64
    }
}

impl std::ops::Sub for Traffic {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            user_bytes: self.user_bytes - before.user_bytes,
            writes: self.writes - before.writes,
            journal_bytes: self.journal_bytes - before.journal_bytes,
            home_bytes: self.home_bytes - before.home_bytes,
        }
    }
}

impl From<Snapshot> for Traffic {
    fn from(counted: Snapshot) -> Self {
        Self {
            user_bytes: counted.user_bytes,
            writes: counted.writes,
            journal_bytes: counted.log_bytes,
            home_bytes: counted.home_bytes + counted.table_bytes,
        }
    }
}
