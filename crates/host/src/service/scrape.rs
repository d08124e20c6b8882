//! All that is told of one moment, for another thread to put into words.

use super::status::{Status, Watched};
use crate::front::statistics::Statistics;

/// One moment of a served volume.
#[derive(Debug, Clone)]
pub(super) struct Scrape {
    /// The document.
    pub(super) document: Status,
    /// All latencies, bucket by bucket.
    pub(super) statistics: Statistics,
    /// How often each kind of events happened, also those that never did.
    pub(super) event_counts: Vec<(&'static str, u64)>,
    /// Members and log devices whose file was removed while it is in use.
    pub(super) removed_files: usize,
    /// Members and log devices whose path leads to another file than the one in use, or to none.
    pub(super) moved_files: usize,
    /// For how long commits have been waiting for room in the log.
    pub(super) commits_wait_s: f64,
}

impl Scrape {
    /// This moment.
    pub(super) fn of(watched: &Watched) -> Self {
        Self {
            document: watched.document(),
            statistics: watched.statistics(),
            event_counts: watched.event_counts(),
            removed_files: watched.removed_files(),
            moved_files: watched.moved_files(),
            commits_wait_s: watched.commits_wait_s(),
        }
    }
}
