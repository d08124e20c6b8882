//! The log: one sequence of records in a ring of sectors.
//!
//! ```text
//!        tail                            head
//!   ┌─────┴──────────┬────────┬───────────┴──────────────────────┐
//!   │free│ n │  n+1  │  n+2   │ free          (too short: skipped)│
//!   └────────────────┴────────┴──────────────────────────────────┘
//! ```
//!
//! 1. Records have consecutive sequence numbers and lie one behind another; one that does not fit before the
//!    end begins at the start.
//! 2. Several may be under way; they are acknowledged in their sequence, so that after a cut no acknowledged
//!    record lies behind a missing one.
//! 3. A record is overwritten only after a superblock that names a later tail is durable.
//! 4. A failed append is never followed by an acknowledgement.

pub mod cases;
pub(crate) mod scan;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use crate::counters::{Counters, add};
use crate::device::{Durability, Extent};
use crate::error::Error;
use crate::format::record::{Header, RECORD_BYTES_MAX, RecordBuilder, RecordKind, decode};
use crate::layout::{JournalStore, LiveRecord, LiveRecords};
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

/// Where the log stands when it is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    /// Offset of a record, from the start of the log.
    pub(crate) offset: u64,
    /// Its sequence number.
    pub(crate) sequence: u64,
}

/// The log of one opening.
pub(crate) struct Log<L> {
    device: Rc<L>,
    zone: Extent,
    sector_bytes: usize,
    volume: u64,
    epoch: u64,
    state: RefCell<State>,
    acknowledged: Cell<u64>,
    counters: Rc<Counters>,
    /// Something was acknowledged, or failed.
    pub(crate) changed: Notify,
}

struct State {
    /// Where the next record goes if it fits.
    head: u64,
    next_sequence: u64,
    /// Records from the tail on.
    live: VecDeque<Live>,
    used_bytes: u64,
    failure: Option<Error>,
}

struct Live {
    offset: u64,
    len: u64,
    /// What was skipped at the end of the log before it, and is in use as long as the record before it.
    skipped: u64,
    written: bool,
}

/// Room taken for one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The record's sequence number.
    pub(crate) sequence: u64,
    offset: u64,
}

/// What a record says in its header besides its place.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeaderFields {
    pub(crate) kind: RecordKind,
    pub(crate) through: u64,
}

impl<L: JournalStore> Log<L> {
    /// A log that holds the records of `live`, each with its offset and length, and goes on at `next`.
    #[allow(clippy::too_many_arguments, reason = "each is a different fact of the opening")]
    pub(crate) fn new(
        device: Rc<L>,
        zone: Extent,
        sector_bytes: usize,
        volume: u64,
        epoch: u64,
        live: &[(u64, u64)],
        next: Position,
        counters: Rc<Counters>,
    ) -> Self {
        let mut before_end = live.first().map_or(next.offset, |&(offset, _)| offset);
        let mut used_bytes = 0;
        let mut slots = VecDeque::new();
        for &(offset, len) in live {
            let skipped = if offset < before_end { zone.len - before_end } else { 0 };
            slots.push_back(Live { offset, len, skipped, written: true });
            used_bytes += skipped + len;
            before_end = offset + len;
        }
        let state =
            State { head: next.offset, next_sequence: next.sequence, live: slots, used_bytes, failure: None };
        Self {
            device,
            zone,
            sector_bytes,
            volume,
            epoch,
            state: RefCell::new(state),
            acknowledged: Cell::new(next.sequence - 1),
            counters,
            changed: Notify::default(),
        }
    }

    /// Bytes of a sector of the log.
    pub(crate) fn sector_bytes(&self) -> usize {
        self.sector_bytes
    }

    /// Whether it holds records on some of its replicas only.
    pub(crate) fn is_scattered(&self) -> bool {
        self.device.is_scattered()
    }

    /// Whether its records should be made unnecessary soon.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        self.device.wants_checkpoint()
    }

    /// Bytes from tail to head.
    pub(crate) fn used_bytes(&self) -> u64 {
        self.state.borrow().used_bytes
    }

    /// The newest acknowledged record.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.get()
    }

    /// Takes room for a record of `len` bytes if no more than `used_max` bytes are then in use.
    pub(crate) fn reserve(&self, len: u64, used_max: u64) -> Option<Slot> {
        let mut state = self.state.borrow_mut();
        let wraps = state.head + len > self.zone.len;
        // With no record before it, what is skipped is not in use: a reader looks at the start of the log too.
        let skipped = if wraps && !state.live.is_empty() { self.zone.len - state.head } else { 0 };
        if state.used_bytes + skipped + len > used_max.min(self.zone.len) {
            return None;
        }
        let offset = if wraps { 0 } else { state.head };
        add(&self.counters.log_wraps, u64::from(wraps));
        let sequence = state.next_sequence;
        state.live.push_back(Live { offset, len, skipped, written: false });
        state.used_bytes += skipped + len;
        state.head = offset + len;
        state.next_sequence += 1;
        Some(Slot { sequence, offset })
    }

    /// Writes the record into its room. Answers once it is durable; those before it may not be.
    pub(crate) async fn write(
        &self,
        slot: Slot,
        meaning: HeaderFields,
        builder: &mut RecordBuilder,
    ) -> Result<(), Error> {
        let header = Header {
            kind: meaning.kind,
            epoch: self.epoch,
            sequence: slot.sequence,
            acknowledged: self.acknowledged.get(),
            through: meaning.through,
            tags: 0,
            payload_bytes: 0,
            len_bytes: 0,
        };
        let bytes = builder.seal(self.volume, header, self.sector_bytes);
        if bytes.len() > RECORD_BYTES_MAX {
            // A reader would take it for the end of the log: nothing of it may be acknowledged.
            self.fail(Error::TooLarge { max_bytes: RECORD_BYTES_MAX as u64 });
            return self.failure().map_or(Ok(()), Err);
        }
        debug_assert!(decode(bytes, self.volume, self.sector_bytes).is_some(), "what is written can be read");
        add(&self.counters.log_bytes, bytes.len() as u64);
        let durability =
            if is_planted(Bug::LogBuffered) { Durability::Buffered } else { Durability::Durable };
        let offset = self.zone.offset + slot.offset;
        let written = self.device.append(offset, bytes, slot.sequence, durability).await;
        if let Err(error) = written {
            self.fail(error.into());
        }
        self.note_written(slot.sequence);
        self.failure().map_or(Ok(()), Err)
    }

    /// Waits until every record up to `sequence` is durable.
    pub(crate) async fn wait_acknowledged(&self, sequence: u64) -> Result<(), Error> {
        self.changed
            .until(|| match self.failure() {
                Some(error) => Some(Err(error)),
                None => (self.acknowledged.get() >= sequence).then_some(Ok(())),
            })
            .await
    }

    /// Why the log takes no more records, if so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state.borrow().failure.clone()
    }

    /// The log takes no more records.
    pub(crate) fn fail(&self, error: Error) {
        self.state.borrow_mut().failure.get_or_insert(error);
        self.changed.all();
    }

    fn note_written(&self, sequence: u64) {
        let mut state = self.state.borrow_mut();
        let first = state.next_sequence - state.live.len() as u64;
        if let Some(live) = state.live.get_mut((sequence - first) as usize) {
            live.written = true;
        }
        if state.failure.is_some() {
            return;
        }
        let mut acknowledged = self.acknowledged.get();
        while acknowledged + 1 >= first
            && state.live.get((acknowledged + 1 - first) as usize).is_some_and(|live| live.written)
        {
            acknowledged += 1;
        }
        if is_planted(Bug::LogUnordered) {
            acknowledged = acknowledged.max(sequence);
        }
        self.acknowledged.set(acknowledged);
        drop(state);
        self.changed.all();
    }

    /// The first record from `sequence` on that is acknowledged and not behind the tail: its number, offset and length.
    /// It stays where it is until [`Self::advance_tail`].
    pub(crate) fn live_from(&self, sequence: u64) -> Option<(u64, u64, u64)> {
        let state = self.state.borrow();
        let first = state.next_sequence - state.live.len() as u64;
        let sequence = sequence.max(first);
        let live = state.live.get((sequence - first) as usize)?;
        (sequence <= self.acknowledged.get()).then_some((sequence, live.offset, live.len))
    }

    /// The number of the next record.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.state.borrow().next_sequence
    }

    /// Has the device know who can tell which records count.
    pub(crate) fn copy_with(&self, records: Weak<dyn LiveRecords>) {
        self.device.copy_with(records);
    }

    /// As [`Self::live_from`], as it lies on the device.
    pub(crate) fn first_live_from(&self, sequence: u64) -> Option<LiveRecord> {
        let (sequence, offset, len) = self.live_from(sequence)?;
        Some(LiveRecord { sequence, offset: self.zone.offset + offset, len })
    }

    /// Whether `bytes` are this record, whole.
    pub(crate) fn is_record(&self, LiveRecord { sequence, len, .. }: LiveRecord, bytes: &[u8]) -> bool {
        decode(bytes, self.volume, self.sector_bytes).is_some_and(|record| {
            (record.header.sequence, u64::from(record.header.len_bytes)) == (sequence, len)
        })
    }

    /// Whether the record at this place can be read: from the replica that answers or, of a log that is scattered, from
    /// any of them.
    pub(crate) async fn is_whole(&self, (sequence, offset, len): (u64, u64, u64)) -> bool {
        let mut bytes = vec![0; len as usize];
        let offset = self.zone.offset + offset;
        let is_it = |bytes: &[u8]| self.is_record(LiveRecord { sequence, offset, len }, bytes);
        if !self.device.is_scattered() {
            return self.device.read(offset, &mut bytes).await.is_ok() && is_it(&bytes);
        }
        for replica in (0..self.device.replicas()).filter(|&replica| self.device.has_replica(replica)) {
            if self.device.read_replica(replica, offset, &mut bytes).await.is_ok() && is_it(&bytes) {
                return true;
            }
        }
        false
    }

    /// Where the record `sequence` is, or will be if it is the next one.
    pub(crate) fn position_of(&self, sequence: u64) -> Position {
        let state = self.state.borrow();
        let first = state.next_sequence - state.live.len() as u64;
        let offset = state.live.get((sequence - first) as usize).map_or(state.head, |live| live.offset);
        // A head at the very end names no sector: the next record can only begin at the start.
        Position { offset: if offset == self.zone.len { 0 } else { offset }, sequence }
    }

    /// Gives the room of all records before `sequence` back: a durable superblock names it as the tail. Answers how many
    /// bytes that are.
    pub(crate) fn advance_tail(&self, sequence: u64) -> u64 {
        let mut state = self.state.borrow_mut();
        let used_before = state.used_bytes;
        while state.next_sequence - (state.live.len() as u64) < sequence {
            let Some(gone) = state.live.pop_front() else { break };
            state.used_bytes -= gone.len + gone.skipped;
        }
        let first_skipped = state.live.front_mut().map_or(0, |first| std::mem::take(&mut first.skipped));
        state.used_bytes -= first_skipped;
        let given_back = used_before - state.used_bytes;
        drop(state);
        self.changed.all();
        given_back
    }
}
