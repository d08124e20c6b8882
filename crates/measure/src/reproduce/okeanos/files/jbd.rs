//! A journal of whole blocks, as ext3 has it (JBD), on the modelled disk: for the paper's *data* and *ordered*.
//!
//! 1. A transaction goes to the journal as a descriptor for each [`BLOCKS_A_DESCRIPTOR`] blocks and the blocks themselves,
//!    whole; then, in a write of its own, its commit block. The file system has one transaction under way, and gathers
//!    the next meanwhile, as ext3 does.
//! 2. Blocks of the journal go home in the order of their places, many under way at once: after 30 s, or when the journal
//!    has no room.
//! 3. Data that is written past the journal goes home at once, in whole blocks, durably: the disk's write cache is off.
//! 4. All that was written is in memory, as the loads write less than the paper's machine caches. So no read takes time.
//!
//! What this leaves out makes ext3 faster, not slower: revoke blocks, the journal's superblock, and blocks that are not in
//! memory. It does not recover: only its speed and its bytes are asked for.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::join::all;
use evenkeel_ext2::store::{Change, CommitLimits, Extent};

use super::super::bed::VOLUME_BYTES;
use super::super::drive::Drive;
use super::super::written::Traffic;

const BLOCK: usize = PAGE_BYTES as usize;

/// Blocks that one descriptor names: a tag of 8 bytes for each, behind a header of 12 and a UUID of 16.
const BLOCKS_A_DESCRIPTOR: u64 = (PAGE_BYTES - 28) / 8;

/// A transaction takes this part of the journal at most, as in ext3.
const PART_OF_JOURNAL: u64 = 4;

/// Writes of blocks under way to their homes at once: as many as Linux 2.6.18 queues for a disk.
const HOME_WRITES: usize = 128;

/// Blocks that go home in one write where they lie in a row.
const RUN_BLOCKS: usize = 128;

/// The journal, and what is in memory of the disk.
pub(super) struct Jbd {
    drive: Drive,
    layout: Layout,
    state: RefCell<State>,
    traffic: Cell<Traffic>,
}

#[derive(Default)]
struct State {
    /// Blocks that were ever written; the others are zeros.
    cached: BTreeMap<u64, Box<[u8; BLOCK]>>,
    /// Those that are in the journal and not home.
    dirty: BTreeSet<u64>,
    /// Where the next transaction goes, from the start of the journal.
    next: u64,
    /// Bytes of the journal whose blocks are not all home.
    live_bytes: u64,
}

impl State {
    /// Lays bytes over the blocks in memory; answers which blocks they touch.
    fn put(&mut self, offset: u64, bytes: &[u8]) -> std::ops::Range<u64> {
        let (first, end) = (offset / PAGE_BYTES, (offset + bytes.len() as u64).div_ceil(PAGE_BYTES));
        for number in first..end {
            let block = self.cached.entry(number).or_insert_with(|| Box::new([0; BLOCK]));
            let start = number * PAGE_BYTES;
            let (from, to) = (start.max(offset), (start + PAGE_BYTES).min(offset + bytes.len() as u64));
            block[(from - start) as usize..(to - start) as usize]
                .copy_from_slice(&bytes[(from - offset) as usize..(to - offset) as usize]);
        }
        first..end
    }

    fn zero(&mut self, extent: Extent) -> std::ops::Range<u64> {
        let blocks = extent.offset / PAGE_BYTES..extent.end().div_ceil(PAGE_BYTES);
        for number in blocks.clone() {
            let start = number * PAGE_BYTES;
            let (from, to) = (start.max(extent.offset), (start + PAGE_BYTES).min(extent.end()));
            if to - from == PAGE_BYTES {
                self.cached.remove(&number);
            } else if let Some(block) = self.cached.get_mut(&number) {
                block[(from - start) as usize..(to - start) as usize].fill(0);
            }
        }
        blocks
    }

    fn copy(&self, number: u64, into: &mut Vec<u8>) {
        match self.cached.get(&number) {
            Some(block) => into.extend_from_slice(&block[..]),
            None => into.resize(into.len() + BLOCK, 0),
        }
    }
}

impl Jbd {
    /// An empty disk.
    pub(super) fn new(drive: Drive, layout: Layout) -> Self {
        Self { drive, layout, state: RefCell::default(), traffic: Cell::default() }
    }

    pub(super) fn size_bytes(&self) -> u64 {
        VOLUME_BYTES
    }

    pub(super) fn limits(&self) -> CommitLimits {
        let bytes = self.layout.log.len / PART_OF_JOURNAL;
        CommitLimits { bytes, pages: (bytes / PAGE_BYTES) as usize }
    }

    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        let state = self.state.borrow();
        let mut whole = Vec::new();
        let blocks = offset / PAGE_BYTES..(offset + into.len() as u64).div_ceil(PAGE_BYTES);
        blocks.for_each(|number| state.copy(number, &mut whole));
        let start = (offset % PAGE_BYTES) as usize;
        into.copy_from_slice(&whole[start..start + into.len()]);
    }

    /// Writes data to its blocks.
    pub(super) async fn write(&self, offset: u64, bytes: &[u8]) {
        let (first, whole) = {
            let mut state = self.state.borrow_mut();
            let blocks = state.put(offset, bytes);
            let (first, mut whole) = (blocks.start, Vec::new());
            blocks.for_each(|number| state.copy(number, &mut whole));
            (first, whole)
        };
        self.put_home(first, &whole).await;
    }

    /// Blocks that nobody needs any more.
    pub(super) fn zero(&self, extent: Extent) {
        let mut state = self.state.borrow_mut();
        for number in state.zero(extent) {
            state.dirty.remove(&number);
        }
    }

    /// Makes a transaction of these changes.
    pub(super) async fn commit(&self, changes: &[Change<'_>]) {
        let described = {
            let mut state = self.state.borrow_mut();
            let mut blocks = BTreeSet::new();
            for change in changes {
                blocks.extend(match *change {
                    Change::Write { offset, bytes } => state.put(offset, bytes),
                    Change::Zero(extent) => state.zero(extent),
                });
            }
            let mut described = Vec::new();
            for (at, &number) in blocks.iter().enumerate() {
                if (at as u64).is_multiple_of(BLOCKS_A_DESCRIPTOR) {
                    described.resize(described.len() + BLOCK, 0);
                }
                state.copy(number, &mut described);
            }
            state.dirty.extend(blocks);
            described
        };
        if described.is_empty() {
            return;
        }
        let bytes = described.len() as u64 + PAGE_BYTES;
        if self.state.borrow().live_bytes + bytes > self.layout.log.len {
            self.checkpoint().await;
        }
        let at = self.layout.log.offset + self.reserve(bytes);
        self.put(at, &described).await;
        self.put(at + described.len() as u64, &[0; BLOCK]).await;
        self.count(|traffic| traffic.journal_bytes += bytes);
    }

    /// Takes the journal's blocks home.
    pub(super) async fn checkpoint(&self) {
        let (runs, live_bytes) = {
            let mut state = self.state.borrow_mut();
            let dirty: Vec<u64> = std::mem::take(&mut state.dirty).into_iter().collect();
            let in_a_row = dirty.chunk_by(|one, next| one + 1 == *next);
            let runs = in_a_row.flat_map(|run| run.chunks(RUN_BLOCKS)).map(|run| {
                let mut bytes = Vec::with_capacity(run.len() * BLOCK);
                run.iter().for_each(|&number| state.copy(number, &mut bytes));
                (run[0], bytes)
            });
            (runs.collect::<Vec<_>>(), state.live_bytes)
        };
        for some in runs.chunks(HOME_WRITES) {
            all(some.iter().map(async |(first, bytes)| self.put_home(*first, bytes).await)).await;
        }
        self.state.borrow_mut().live_bytes -= live_bytes;
    }

    /// What was written so far.
    pub(super) fn traffic(&self) -> Traffic {
        self.traffic.get()
    }

    /// Takes room in the journal; answers where.
    fn reserve(&self, bytes: u64) -> u64 {
        let mut state = self.state.borrow_mut();
        if state.next + bytes > self.layout.log.len {
            state.next = 0;
        }
        state.next += bytes;
        state.live_bytes += bytes;
        state.next - bytes
    }

    async fn put_home(&self, first_block: u64, bytes: &[u8]) {
        let data = self.layout.segments[0].data;
        self.put(data.offset + first_block * PAGE_BYTES, bytes).await;
        self.count(|traffic| traffic.home_bytes += bytes.len() as u64);
    }

    async fn put(&self, offset: u64, bytes: &[u8]) {
        let write = self.drive.write(offset, bytes, Durability::Durable);
        write.await.expect("a healthy disk takes a write");
    }

    fn count(&self, add: impl FnOnce(&mut Traffic)) {
        let mut traffic = self.traffic.get();
        add(&mut traffic);
        self.traffic.set(traffic);
    }
}
