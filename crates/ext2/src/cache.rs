//! Blocks of metadata in memory, and what of them is not committed.
//!
//! A block that changes keeps a copy of what the last commit left, so that a commit carries the bytes that differ. Clean
//! blocks go when there are too many; dirty ones, and those that a commit carries, stay.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use evenkeel_engine::volume::differences;

use crate::batch::Batch;
use crate::format::{BLOCK, BLOCK_BYTES, BlockBytes};
use crate::planted::{Bug, is_planted};
use crate::store::Extent;

/// What a dirty block is compared with.
#[derive(Debug)]
enum Base {
    /// Nothing: it is not dirty.
    Clean,
    /// What the store has.
    Old(Box<BlockBytes>),
    /// Nothing that is known: its block is newly taken.
    Fresh,
}

#[derive(Debug)]
struct Block {
    bytes: Box<BlockBytes>,
    base: Base,
    /// A commit carries it.
    is_carried: bool,
    was_used: Cell<bool>,
}

/// The blocks in memory.
#[derive(Debug)]
pub(crate) struct Cache {
    blocks: BTreeMap<u32, Block>,
    clock: VecDeque<u32>,
    dirty: BTreeSet<u32>,
    blocks_max: usize,
    /// Blocks below this one stay.
    pinned_end: u32,
    /// Counts changes.
    changes: u64,
}

impl Cache {
    pub(crate) fn new(blocks_max: usize, pinned_end: u32) -> Self {
        Self {
            blocks: BTreeMap::new(),
            clock: VecDeque::new(),
            dirty: BTreeSet::new(),
            blocks_max,
            pinned_end,
            changes: 0,
        }
    }

    /// Blocks with changes that no commit carries yet.
    pub(crate) fn dirty_blocks(&self) -> usize {
        self.dirty.len()
    }

    /// Blocks in memory.
    pub(crate) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Counts changes.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.blocks.contains_key(&number)
    }

    /// A block that was loaded in this operation.
    pub(crate) fn get(&self, number: u32) -> &BlockBytes {
        let block = self.blocks.get(&number).expect("loaded in this operation");
        block.was_used.set(true);
        &block.bytes
    }

    /// A block that was loaded in this operation, to change it.
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut BlockBytes {
        let block = self.blocks.get_mut(&number).expect("loaded in this operation");
        block.was_used.set(true);
        self.changes += 1;
        if matches!(block.base, Base::Clean) {
            block.base = Base::Old(block.bytes.clone());
            self.dirty.insert(number);
        }
        &mut block.bytes
    }

    /// Takes in what was read.
    pub(crate) fn insert(&mut self, number: u32, bytes: Box<BlockBytes>) {
        self.put(number, Block { bytes, base: Base::Clean, is_carried: false, was_used: Cell::new(true) });
    }

    /// A block of zeros, of which the store may have anything.
    pub(crate) fn insert_fresh(&mut self, number: u32) -> &mut BlockBytes {
        let base = if is_planted(Bug::FreshIsZero) { Base::Old(Box::new([0; BLOCK])) } else { Base::Fresh };
        self.put(
            number,
            Block { bytes: Box::new([0; BLOCK]), base, is_carried: false, was_used: Cell::new(true) },
        );
        self.dirty.insert(number);
        self.changes += 1;
        &mut self.blocks.get_mut(&number).expect("just put").bytes
    }

    fn put(&mut self, number: u32, block: Block) {
        if self.blocks.insert(number, block).is_none() {
            self.clock.push_back(number);
        }
    }

    /// A block is metadata no more.
    pub(crate) fn forget(&mut self, number: u32) {
        self.changes += 1;
        self.dirty.remove(&number);
        self.blocks.remove(&number);
    }

    /// Drops a block if it can be read again.
    pub(crate) fn drop_clean(&mut self, number: u32) {
        let can_go = |block: &Block| matches!(block.base, Base::Clean) && !block.is_carried;
        if number >= self.pinned_end && self.blocks.get(&number).is_some_and(can_go) {
            self.blocks.remove(&number);
        }
    }

    /// Drops clean blocks until there are no more than may be.
    pub(crate) fn trim(&mut self) {
        let mut looks = 2 * self.clock.len();
        while self.blocks.len() > self.blocks_max && looks > 0 {
            looks -= 1;
            let Some(number) = self.clock.pop_front() else { return };
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            let stays = number < self.pinned_end || block.is_carried || !matches!(block.base, Base::Clean);
            if stays || block.was_used.take() {
                self.clock.push_back(number);
            } else {
                self.blocks.remove(&number);
            }
        }
        if self.clock.len() > 2 * self.blocks.len() + 64 {
            self.clock = self.blocks.keys().copied().collect();
        }
    }

    /// Puts all changes into a commit.
    pub(crate) fn carry(&mut self, batch: &mut Batch) {
        for number in std::mem::take(&mut self.dirty) {
            let Some(block) = self.blocks.get_mut(&number) else { continue };
            let at = u64::from(number) * BLOCK_BYTES;
            let base = std::mem::replace(&mut block.base, Base::Clean);
            let (is_fresh, changed) = match &base {
                Base::Clean => continue,
                Base::Old(old) => (false, differences(&old[..], &block.bytes[..])),
                Base::Fresh => (true, differences(&[0; BLOCK], &block.bytes[..])),
            };
            let mut zero_from = 0;
            for &(start, end) in &changed {
                if is_fresh {
                    batch.zero(Extent::new(at + zero_from as u64, (start - zero_from) as u64));
                    zero_from = end;
                }
                batch.write(at + start as u64, &block.bytes[start..end]);
            }
            if is_fresh {
                batch.zero(Extent::new(at + zero_from as u64, (BLOCK - zero_from) as u64));
            }
            block.is_carried = true;
            batch.carries(number);
        }
    }

    /// The blocks of a commit as one change each: more bytes, and fewer changes.
    pub(crate) fn carry_coarsely(&self, fine: &Batch) -> Batch {
        let mut coarse = Batch::default();
        for &number in fine.blocks() {
            if let Some(block) = self.blocks.get(&number) {
                coarse.write(u64::from(number) * BLOCK_BYTES, &block.bytes[..]);
                coarse.carries(number);
            }
        }
        coarse
    }

    /// What a commit carried is durable.
    pub(crate) fn carried(&mut self, numbers: &[u32]) {
        for number in numbers {
            if let Some(block) = self.blocks.get_mut(number) {
                block.is_carried = false;
            }
        }
    }
}
