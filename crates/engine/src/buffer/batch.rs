//! What one commit carries of the buffer, and what it says of it.

use crate::format::PAGE;
use crate::format::record::Tag;

/// What one commit carries of the buffer.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// Units in it, in order.
    pub(crate) units: Vec<u64>,
    /// Units that it makes superfluous.
    pub(super) absorbed: Vec<u64>,
    /// The ticket of the first unit taken.
    pub(super) first_ticket: u64,
    /// The last ticket that becomes durable with it.
    pub(crate) ticket: u64,
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
        self.first_ticket = 0;
        self.ticket = 0;
    }
}
