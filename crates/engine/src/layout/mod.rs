//! What lies below a volume: where its pages are, and where its journal is.
//!
//! ```text
//!   volume ──► PageStore      pages, table, root        single.rs: a drive          mirror: the members of a ring
//!         └──► JournalStore   records and superblocks   single.rs: a drive          mirror: log devices, or the members
//! ```
//!
//! A layout is one of each. The volume asks a store for what it can do ([`StoreTraits`]), never for what it is.
//!
//! 1. A store that keeps replicas answers a read from any of them. Whoever can tell right bytes from wrong ones asks for
//!    another ([`read_right`]), and has the wrong one repaired.
//! 2. What a store wants remembered ([`StoreState`]) is durable in the journal before anything is given up that a flush
//!    of the store made unnecessary.
//! 3. Stores are opened and closed in order: [`PageStore::resume`] comes before pages are written, [`JournalStore::resume`]
//!    before records are appended, [`PageStore::begin`] before anything is acknowledged, [`PageStore::end`] behind everything.
//!    Before all of them an opening reads, repairs copies, and may write a superblock.

pub mod erasure;
pub mod mirror;
mod replicas;
mod single;

use std::future::Future;
use std::pin::Pin;
use std::rc::Weak;

use crate::device::{Device, Durability, Extent};
use crate::error::{DeviceError, Error};
use crate::format::layout::log_copy_offset;
use crate::format::superblock::Superblock;
use crate::format::{PAGE, page_sum};
use crate::planted::{Bug, is_planted};

pub use crate::format::superblock::{Remembered, StoreState};
pub(crate) use replicas::{read_another, read_right};

/// A device behind which each byte may have several copies, the replicas. [`Device::read`] answers from any of them.
pub trait Replicated: Device {
    /// How many there are, those included that are not there.
    fn replicas(&self) -> usize;

    /// Whether this replica is there at all, and counts.
    fn has_replica(&self, replica: usize) -> bool;

    /// Whether what is written is on some of its replicas only, and soon on none of those that are left if more of them
    /// go: then it is better emptied than left behind.
    fn is_scattered(&self) -> bool;

    /// As [`Device::read`], from this replica.
    fn read_replica(
        &self,
        replica: usize,
        offset: u64,
        into: &mut [u8],
    ) -> impl Future<Output = Result<(), DeviceError>>;

    /// Ends when a read of this replica is in nobody's way: for whoever has time.
    fn replica_idle(&self, replica: usize) -> impl Future<Output = ()>;

    /// These are the right bytes: sees to it that every replica holds them, now or in its own time. Nobody writes there
    /// while this is called. A replica that holds them is not written: cut in the middle, it might not any more.
    fn repair(&self, offset: u64, bytes: &[u8]) -> impl Future<Output = Result<(), DeviceError>>;
}

/// What a page store can do, that a volume takes into account. Fixed as long as it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoreTraits {
    /// It holds copies of the superblock. Otherwise the journal alone does, and the store is told of each at its next
    /// flush.
    pub holds_superblocks: bool,
    /// It takes any number of writes, and holds them until its drives may write: a write there is durable long after it
    /// came, and whoever writes to the volume is slowed down as it falls behind.
    pub defers_writes: bool,
    /// Bytes of such writes that it is given at once, at most; or one write that is longer.
    pub deferred_max_bytes: u64,
    /// Each byte has replicas.
    pub is_replicated: bool,
    /// Writes within so many bytes, from a multiple of them, had best come at once, though they are no neighbours: a stripe,
    /// whose parity is written once for them.
    pub unit_bytes: Option<u64>,
}

/// Bytes that lie in several places of memory, for one place of a store.
#[derive(Debug)]
pub struct PlacedWrite<'a> {
    /// Where they go.
    pub offset: u64,
    /// They, in order.
    pub parts: Vec<&'a [u8]>,
}

impl PlacedWrite<'_> {
    /// What it writes.
    pub fn extent(&self) -> Extent {
        Extent::new(self.offset, self.parts.iter().map(|part| part.len() as u64).sum())
    }

    /// Fills `into` with its bytes for `offset` and what follows.
    ///
    /// # Panics
    ///
    /// If it has no bytes for some of that.
    pub(crate) fn copy_from(&self, offset: u64, into: &mut [u8]) {
        let mut skipped = (offset - self.offset) as usize;
        let mut filled = 0;
        for part in &self.parts {
            let from = skipped.min(part.len());
            skipped -= from;
            let len = (part.len() - from).min(into.len() - filled);
            into[filled..filled + len].copy_from_slice(&part[from..from + len]);
            filled += len;
        }
        assert_eq!(filled, into.len(), "a write has bytes for all of its extent");
    }
}

/// Why a store did not take writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotWritten {
    /// It failed.
    Failed(DeviceError),
    /// What is stored with one of them cannot be read now, and nothing was written of that one. The store is as well as before.
    /// Each of the writes may be asked for again, alone or later.
    Blocked(DeviceError),
}

impl From<DeviceError> for NotWritten {
    fn from(error: DeviceError) -> Self {
        Self::Failed(error)
    }
}

impl From<NotWritten> for DeviceError {
    fn from(not_written: NotWritten) -> Self {
        match not_written {
            NotWritten::Failed(error) | NotWritten::Blocked(error) => error,
        }
    }
}

/// Where a volume's pages, their table and its root are.
pub trait PageStore: Replicated {
    /// What it can do.
    fn traits(&self) -> StoreTraits;

    /// It is to hold a new volume of this number.
    fn init(&self, volume: u64) -> impl Future<Output = Result<(), DeviceError>>;

    /// A volume is opened once more: `epoch` is more than that of any earlier opening. No page is written before.
    fn resume(&self, remembered: Remembered, epoch: u64) -> impl Future<Output = Result<(), Error>>;

    /// The opening that [`Self::resume`] spoke of has its superblock, and nothing was acknowledged in it yet.
    fn begin(&self) -> impl Future<Output = Result<(), DeviceError>>;

    /// Everything is home, and the opening ends in order: this is the last chance to say what is known. A store that holds
    /// no superblocks keeps `last`, that of an empty journal, for whoever finds nothing else of the volume. Nothing is under way
    /// below after that, nor begins: whoever opens it next, in this process or another, meets nobody.
    fn end(&self, last: Option<&Superblock>) -> impl Future<Output = Result<(), DeviceError>>;

    /// Offers `size_bytes` from now on, as [`crate::device::Drive::enlarge`]: in all replicas, or in none.
    fn enlarge(&self, size_bytes: u64) -> impl Future<Output = Result<(), Error>>;

    /// Who can tell right bytes from wrong ones, from now on: for a store that copies by itself what it holds. It does
    /// not before it knows.
    fn verify_with(&self, verifier: Weak<dyn Verifier>);

    /// As [`Device::write_parts`], not durably, to places that do not overlap. Answers the number that the last of it has among
    /// all writes of this opening, by which [`Self::settled_beyond`] speaks of it; 0 where the store does not defer writes.
    fn write_numbered(&self, writes: &[PlacedWrite<'_>]) -> impl Future<Output = Result<u64, NotWritten>>;

    /// Ends once more of the first writes than `number` are durable in every replica that counts, and answers how many: a
    /// store that defers writes makes them so now and then. It never ends where the store does not defer writes. Whoever
    /// waits may give up.
    fn settled_beyond(&self, number: u64) -> impl Future<Output = u64>;

    /// What is to be remembered of it as of the last flush, or of what [`Self::settled_beyond`] answered since.
    fn state(&self) -> StoreState;

    /// The superblock of this generation is durable. Whatever the store writes of itself from now on may say so: whoever
    /// later finds none but older ones knows that it was lost.
    fn note_superblock(&self, generation: u64, state: StoreState);

    /// How full, of 1, is what holds the writes that are not home here yet: the journal, or memory.
    fn note_fill(&self, fill: f64);

    /// Whether its replicas take turns now: then room comes back in steps, at the ends of turns.
    fn keeps_turns(&self) -> bool;

    /// A client reads what is not in memory: other reads are the volume's own.
    fn note_client_read(&self);

    /// Whether clients may read from now on, as they may until this is called. Replicas that nobody reads write at the same
    /// time.
    fn note_readers(&self, may_come: bool);

    /// Whether more writes come as soon as other tasks had their turn: a replica that is done with what it has goes on writing.
    fn note_more_comes(&self, comes: bool);
}

/// Where a volume's records and superblocks are.
pub trait JournalStore: Replicated {
    /// It is to hold the journal of a new volume of this number.
    fn init(&self, volume: u64) -> impl Future<Output = Result<(), DeviceError>>;

    /// Whether everything was there that was just read of it.
    fn check_complete(&self) -> impl Future<Output = Result<(), Error>>;

    /// A volume is opened once more, and its first record will be `first_record`: the ones before it were read.
    fn resume(&self, remembered: Remembered, first_record: u64) -> impl Future<Output = Result<(), Error>>;

    /// Writes the record of this sequence number: `bytes` at `offset`.
    fn append(
        &self,
        offset: u64,
        bytes: &[u8],
        sequence: u64,
        durability: Durability,
    ) -> impl Future<Output = Result<(), DeviceError>>;

    /// Makes a superblock durable, at the place of its generation. One that [is closed](Superblock::is_closed) is the
    /// last of its opening, and its journal is empty.
    fn write_superblock(&self, superblock: &Superblock) -> impl Future<Output = Result<(), DeviceError>>;

    /// Whether its records should be made unnecessary soon, because some are on replicas that failed.
    fn wants_checkpoint(&self) -> bool;

    /// Who can tell which records count, from now on: for a store that copies by itself what it holds. It does not before
    /// it knows.
    fn copy_with(&self, records: Weak<dyn LiveRecords>);
}

/// A record of a journal store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LiveRecord {
    /// Its number.
    pub sequence: u64,
    /// Where it begins.
    pub offset: u64,
    /// Bytes of it.
    pub len: u64,
}

/// Who knows which records of a log count: those from the tail on.
pub trait LiveRecords {
    /// Where the room for records ends.
    fn room_end(&self) -> u64;

    /// Answers a number, once every record below it is durable; of these are all that were begun before this was called.
    /// Whoever gives up waiting leaves nothing half done.
    fn durable_by_now(&self) -> Pin<Box<dyn Future<Output = Result<u64, Error>> + '_>>;

    /// The first record from `sequence` on that the tail has not passed. It stays where it is until then. Below a number that
    /// [`Self::durable_by_now`] answered it is durable.
    fn first_from(&self, sequence: u64) -> Option<LiveRecord>;

    /// Whether `bytes` are that record, whole.
    fn is_it(&self, record: LiveRecord, bytes: &[u8]) -> bool;
}

/// Where a journal store has the copy of this superblock, and how it writes it. Its generations take turns, so that a cut
/// leaves the one before whole.
pub(crate) fn superblock_write(superblock: &Superblock) -> (u64, Durability) {
    let copy = if is_planted(Bug::SuperblockInPlace) { 0 } else { (superblock.generation % 2) as usize };
    let durability =
        if is_planted(Bug::SuperblockBuffered) { Durability::Buffered } else { Durability::Durable };
    (log_copy_offset(copy), durability)
}

/// Who knows what a page store holds, by the sums of its pages.
pub trait Verifier {
    /// What is known of the page at `offset` at the moment of the answer.
    fn expects(&self, offset: u64) -> Pin<Box<dyn Future<Output = Expected> + '_>>;

    /// The bytes that are about to be written at `offset`, where memory has a whole page for it, and they are what is known to
    /// be right there.
    fn coming(&self, offset: u64) -> Option<[u8; PAGE]>;
}

/// What a page is known to hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The sums of the right bytes: two while the page is written, the newer one last. `None` where any bytes are right.
    sums: Option<[u64; 2]>,
    /// Whether nobody is about to write the page anew: what is wrong now stays so.
    pub is_settled: bool,
    /// Whether the page has no contents, and nobody is about to give it any: what is there is never read.
    pub is_empty: bool,
    /// Whether the sums cannot be read now: somebody may need the bytes.
    pub is_untold: bool,
    /// The sum of what it is about to hold, where it had no contents.
    first: Option<u64>,
}

impl Expected {
    /// Nobody needs the bytes, as far as is known.
    pub const NOTHING: Self =
        Self { sums: None, is_settled: false, is_empty: false, is_untold: false, first: None };

    /// What the page is to hold cannot be read.
    pub const UNTOLD: Self = Self { is_untold: true, ..Self::NOTHING };

    /// The sums of a page before and after it is written; 0 where it has no contents.
    pub fn of(sums: [u64; 2], is_settled: bool) -> Self {
        match sums.contains(&0) {
            true => Self {
                is_empty: sums == [0; 2] && is_settled,
                first: Some(sums[1]).filter(|&newer| newer != 0),
                ..Self::NOTHING
            },
            false => Self { sums: Some(sums), is_settled, ..Self::NOTHING },
        }
    }

    /// Whether it is known which bytes are right.
    pub fn is_known(&self) -> bool {
        self.sums.is_some()
    }

    /// Whether these bytes are right, as far as is known.
    pub fn is_right(&self, page: &[u8]) -> bool {
        self.sums.is_none_or(|sums| sums.contains(&page_sum(page)))
    }

    /// Whether they are so whatever becomes of a write that is under way.
    pub fn is_newest(&self, page: &[u8]) -> bool {
        self.sums.is_none_or(|[_, newer]| newer == page_sum(page))
    }

    /// Whether they are what the page holds once the write has ended that is under way: also where any bytes are right until
    /// then.
    pub fn is_what_comes(&self, page: &[u8]) -> bool {
        self.is_newest(page) && self.first.is_none_or(|first| first == page_sum(page))
    }
}
