//! What one commit carries of the buffer, and what it says of it.

use super::queue::{Lane, Taken};
use crate::format::PAGE;
use crate::format::record::Tag;

/// What one commit may carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BatchMax {
    /// Bytes of record.
    pub(crate) bytes: usize,
    /// Of them, bytes of the bulk lane; none of it where this is 0.
    pub(crate) bulk_bytes: usize,
    /// Pages.
    pub(crate) pages: usize,
}

/// What one commit carries of the buffer.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Units in it, in order.
    pub(crate) units: Vec<u64>,
    /// Units that it makes superfluous.
    pub(super) absorbed: Vec<u64>,
    /// The tickets that become durable with it.
    pub(super) taken: Taken,
    /// Its changes.
    pub(crate) tags: Vec<Tag>,
    /// Where the bytes of each tag are in the arena.
    pub(super) payloads: Vec<usize>,
    /// Bytes of its payload.
    pub(crate) payload_bytes: usize,
    /// Pages that it changes.
    pub(crate) pages: usize,
    /// Of them, those of which it does not change every byte at once.
    pub(crate) partial_pages: usize,
    scratch: Vec<u64>,
}

impl Batch {
    /// Whether it carries something of the bulk lane.
    pub(crate) fn has_bulk(&self) -> bool {
        self.taken.tickets.of(Lane::Bulk) > 0
    }

    /// Whether it carries something of the small lane.
    pub(crate) fn has_small(&self) -> bool {
        self.taken.tickets.of(Lane::Small) > 0
    }

    /// Says in the record which units it makes durable: a process killed before it could mark them in the arena
    /// must not replay them over newer ones.
    pub(super) fn name_units(&mut self) {
        self.scratch.clear();
        self.scratch.extend(self.units.iter().chain(&self.absorbed));
        self.scratch.sort_unstable();
        let mut run: Option<(u64, u32)> = None;
        for &sequence in &self.scratch {
            match &mut run {
                Some((first, count)) if *first + u64::from(*count) == sequence => *count += 1,
                _ => {
                    let ended = run.replace((sequence, 1));
                    self.tags.extend(ended.map(|(sequence, count)| Tag::Units { sequence, count }));
                }
            }
        }
        self.tags.extend(run.map(|(sequence, count)| Tag::Units { sequence, count }));
        self.payloads.resize(self.tags.len(), 0);
    }

    pub(super) fn count_pages(&mut self) {
        self.scratch.clear();
        let mut discarded = 0;
        for tag in &self.tags {
            match *tag {
                Tag::Delta { page, .. } | Tag::Zero { page, .. } => self.scratch.push(page),
                Tag::Discard { count, .. } => discarded += count as usize,
                Tag::Units { .. } | Tag::Page { .. } | Tag::TablePage { .. } => {}
            }
        }
        self.scratch.sort_unstable();
        self.scratch.dedup();
        self.pages = self.scratch.len() + discarded;
        self.scratch.clear();
        self.scratch.extend(self.tags.iter().filter_map(|tag| match *tag {
            Tag::Delta { page, len, .. } if usize::from(len) == PAGE => Some(page),
            _ => None,
        }));
        self.scratch.sort_unstable();
        self.scratch.dedup();
        self.partial_pages = self.pages - discarded - self.scratch.len();
    }

    pub(super) fn clear(&mut self) {
        self.units.clear();
        self.absorbed.clear();
        self.tags.clear();
        self.payloads.clear();
        self.payload_bytes = 0;
        self.taken = Taken::default();
    }
}
