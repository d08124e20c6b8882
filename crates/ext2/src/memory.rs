//! A store in memory that loses power: for tests and tools.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use crate::error::StoreError;
use crate::format::{BLOCK, BLOCK_BYTES, BlockBytes};
use crate::store::{CHANGE_BYTES, Change, CommitLimits, Extent, Store};

/// Blocks that are not zero.
type Blocks = BTreeMap<u64, Box<BlockBytes>>;

/// What was asked of a store so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Asked {
    /// Commits.
    pub commits: u64,
    /// Bytes that they carried.
    pub commit_bytes: u64,
    /// Changes that they carried.
    pub commit_changes: u64,
    /// Bytes written by the way, to be flushed.
    pub written_bytes: u64,
    /// Bytes written to blocks of which nobody needed what they held.
    pub fresh_bytes: u64,
    /// Commits, of those counted above, that nobody waits for but who writes much.
    pub background_commits: u64,
    /// Most bytes of one of the others.
    pub awaited_max_bytes: u64,
    /// Reads.
    pub reads: u64,
}

#[derive(Debug)]
struct Inner {
    size_bytes: u64,
    limits: CommitLimits,
    latest: RefCell<Blocks>,
    /// As a power cut would leave it if it lost all that was not flushed.
    durable: RefCell<Blocks>,
    /// Blocks of which the latest bytes may be lost.
    unflushed: RefCell<BTreeMap<u64, ()>>,
    asked: Cell<Asked>,
    /// Requests that change something until power is lost.
    life: Cell<Option<u64>>,
    /// Blocks of which reads fail.
    unreadable: RefCell<BTreeSet<u64>>,
    /// Polls that each request takes before it is done: others have their turn meanwhile.
    pauses: Cell<u32>,
}

/// Blocks in memory, of which a clone is another handle to the same.
#[derive(Debug, Clone)]
pub struct MemoryStore(Rc<Inner>);

impl MemoryStore {
    /// Zeros.
    pub fn new(size_bytes: u64) -> Self {
        Self::with_limits(size_bytes, CommitLimits { bytes: 1 << 20, pages: 1000 })
    }

    /// Zeros, and commits of up to so much.
    pub fn with_limits(size_bytes: u64, limits: CommitLimits) -> Self {
        Self(Rc::new(Inner {
            size_bytes,
            limits,
            latest: RefCell::default(),
            durable: RefCell::default(),
            unflushed: RefCell::default(),
            asked: Cell::default(),
            life: Cell::default(),
            unreadable: RefCell::default(),
            pauses: Cell::default(),
        }))
    }

    /// Holds `image` from the start.
    pub fn of_image(image: &[u8]) -> Self {
        let store = Self::new(image.len() as u64);
        store.patch(0, image);
        store
    }

    /// What was asked of it so far.
    pub fn asked(&self) -> Asked {
        self.0.asked.get()
    }

    /// Power is lost with the request after so many more that change something. All fail from then on.
    pub fn lose_power_after(&self, requests: u64) {
        self.0.life.set(Some(requests));
    }

    /// Reads of this block fail, until [`Self::make_readable`].
    pub fn make_unreadable(&self, block: u64) {
        self.0.unreadable.borrow_mut().insert(block);
    }

    /// All blocks can be read again.
    pub fn make_readable(&self) {
        self.0.unreadable.borrow_mut().clear();
    }

    /// Each request gives others so many turns before it is done.
    pub fn pause_each(&self, turns: u32) {
        self.0.pauses.set(turns);
    }

    /// Another store with what a power cut now leaves: of each sector of 512 bytes that was written and not flushed,
    /// `keeps` says whether it landed.
    pub fn after_power_cut(&self, mut keeps: impl FnMut() -> bool) -> Self {
        let after = Self::with_limits(self.0.size_bytes, self.0.limits);
        let mut blocks = self.0.durable.borrow().clone();
        let latest = self.0.latest.borrow();
        for &number in self.0.unflushed.borrow().keys() {
            let block = blocks.entry(number).or_insert_with(|| Box::new([0; BLOCK]));
            let new = latest.get(&number).map_or(&[0; BLOCK], |block| &**block);
            for (old, new) in block.chunks_exact_mut(512).zip(new.chunks_exact(512)) {
                if keeps() {
                    old.copy_from_slice(new);
                }
            }
        }
        after.0.durable.replace(blocks.clone());
        after.0.latest.replace(blocks);
        after
    }

    /// Everything, as it would be read now.
    pub fn image(&self) -> Vec<u8> {
        let mut image = vec![0; self.0.size_bytes as usize];
        self.copy(0, &mut image);
        image
    }

    /// The blocks that are not zero, as they would be read now: for whoever writes a sparse image.
    pub fn for_each_block(&self, mut visit: impl FnMut(u64, &BlockBytes)) {
        self.0.latest.borrow().iter().for_each(|(&number, block)| visit(number, block));
    }

    /// Changes bytes without being asked: damage.
    pub fn patch(&self, offset: u64, bytes: &[u8]) {
        put(&mut self.0.latest.borrow_mut(), offset, bytes);
        put(&mut self.0.durable.borrow_mut(), offset, bytes);
    }

    fn copy(&self, offset: u64, into: &mut [u8]) {
        let latest = self.0.latest.borrow();
        for (block, in_block, range) in parts(offset, into.len()) {
            match latest.get(&block) {
                Some(bytes) => {
                    let len = range.len();
                    into[range].copy_from_slice(&bytes[in_block..in_block + len]);
                }
                None => into[range].fill(0),
            }
        }
    }

    fn check(&self, extent: Extent) -> Result<(), StoreError> {
        match extent.fits(self.0.size_bytes) {
            true => Ok(()),
            false => Err(StoreError("the range lies outside the store".to_owned())),
        }
    }

    async fn change(&self) -> Result<(), StoreError> {
        for _ in 0..self.0.pauses.get() {
            crate::lock::yield_once().await;
        }
        match self.0.life.get() {
            Some(0) => Err(StoreError("power is lost".to_owned())),
            life => {
                self.0.life.set(life.map(|life| life - 1));
                Ok(())
            }
        }
    }

    fn count(&self, change: impl FnOnce(&mut Asked)) {
        let mut asked = self.0.asked.get();
        change(&mut asked);
        self.0.asked.set(asked);
    }

    fn write_now(&self, extent: Extent, bytes: Option<&[u8]>) {
        let mut latest = self.0.latest.borrow_mut();
        match bytes {
            Some(bytes) => put(&mut latest, extent.offset, bytes),
            None => put_zeros(&mut latest, extent),
        }
        let mut unflushed = self.0.unflushed.borrow_mut();
        for (block, ..) in parts(extent.offset, extent.len as usize) {
            unflushed.insert(block, ());
        }
    }
}

/// Blocks that a range touches: number, first byte in it, and which bytes of the range.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        if done >= len {
            return None;
        }
        let at = offset + done as u64;
        let in_block = (at % BLOCK_BYTES) as usize;
        let taken = (BLOCK - in_block).min(len - done);
        let range = done..done + taken;
        done += taken;
        Some((at / BLOCK_BYTES, in_block, range))
    })
}

fn put(blocks: &mut Blocks, offset: u64, bytes: &[u8]) {
    for (block, in_block, range) in parts(offset, bytes.len()) {
        let bytes = &bytes[range];
        if bytes.len() == BLOCK && bytes.iter().all(|&byte| byte == 0) {
            blocks.remove(&block);
            continue;
        }
        let block = blocks.entry(block).or_insert_with(|| Box::new([0; BLOCK]));
        block[in_block..in_block + bytes.len()].copy_from_slice(bytes);
    }
}

fn put_zeros(blocks: &mut Blocks, extent: Extent) {
    for (number, in_block, range) in parts(extent.offset, extent.len as usize) {
        if range.len() == BLOCK {
            blocks.remove(&number);
        } else if let Some(block) = blocks.get_mut(&number) {
            block[in_block..in_block + range.len()].fill(0);
        }
    }
}

impl Store for MemoryStore {
    fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    fn limits(&self) -> CommitLimits {
        self.0.limits
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        self.check(Extent::new(offset, into.len() as u64))?;
        for _ in 0..self.0.pauses.get() {
            crate::lock::yield_once().await;
        }
        self.count(|asked| asked.reads += 1);
        let unreadable = self.0.unreadable.borrow();
        if parts(offset, into.len()).any(|(block, ..)| unreadable.contains(&block)) {
            return Err(StoreError("a block cannot be read".to_owned()));
        }
        self.copy(offset, into);
        Ok(())
    }

    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let extent = Extent::new(offset, bytes.len() as u64);
        self.check(extent)?;
        self.change().await?;
        self.count(|asked| asked.written_bytes += extent.len);
        self.write_now(extent, Some(bytes));
        Ok(())
    }

    async fn write_fresh(&self, offset: u64, blocks: &[&[u8]]) -> Result<(), StoreError> {
        let bytes = blocks.concat();
        let extent = Extent::new(offset, bytes.len() as u64);
        self.check(extent)?;
        if !offset.is_multiple_of(BLOCK_BYTES) || !extent.len.is_multiple_of(BLOCK_BYTES) {
            return Err(StoreError("a block is not written whole".to_owned()));
        }
        self.change().await?;
        self.count(|asked| asked.fresh_bytes += extent.len);
        self.write_now(extent, Some(&bytes));
        self.flush(&[extent]).await
    }

    async fn zero(&self, extent: Extent) -> Result<(), StoreError> {
        self.check(extent)?;
        self.change().await?;
        self.write_now(extent, None);
        Ok(())
    }

    async fn flush(&self, ranges: &[Extent]) -> Result<(), StoreError> {
        self.change().await?;
        let (latest, mut durable) = (self.0.latest.borrow(), self.0.durable.borrow_mut());
        let mut unflushed = self.0.unflushed.borrow_mut();
        for range in ranges {
            self.check(*range)?;
            let blocks = range.offset / BLOCK_BYTES..range.end().div_ceil(BLOCK_BYTES);
            let covered: Vec<u64> = unflushed.range(blocks).map(|(&number, ())| number).collect();
            for number in covered {
                unflushed.remove(&number);
                match latest.get(&number) {
                    Some(block) => drop(durable.insert(number, block.clone())),
                    None => drop(durable.remove(&number)),
                }
            }
        }
        Ok(())
    }

    async fn commit(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let bytes = |change: &Change<'_>| match change {
            Change::Write { bytes, .. } => bytes.len() as u64,
            Change::Zero(_) => 0,
        };
        let bytes = changes.iter().map(bytes).sum();
        self.count(|asked| asked.awaited_max_bytes = asked.awaited_max_bytes.max(bytes));
        self.commit_now(changes).await
    }

    async fn commit_in_background(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        self.count(|asked| asked.background_commits += 1);
        self.commit_now(changes).await
    }

    async fn wait_beside_small_commits(&self) -> bool {
        // Long enough for a commit beside it.
        for _ in 0..self.0.pauses.get() * 8 {
            crate::lock::yield_once().await;
        }
        self.0.pauses.get() > 0
    }
}

impl MemoryStore {
    async fn commit_now(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let mut carried = 0;
        let mut pages = 0;
        for change in changes {
            let extent = change.extent();
            self.check(extent)?;
            carried +=
                CHANGE_BYTES + if let Change::Write { bytes, .. } = change { bytes.len() as u64 } else { 0 };
            pages += parts(extent.offset, extent.len as usize).count();
        }
        if carried > self.0.limits.bytes || pages > self.0.limits.pages {
            return Err(StoreError(format!("a commit of {carried} bytes in {pages} pages is too large")));
        }
        self.change().await?;
        self.count(|asked| {
            asked.commits += 1;
            asked.commit_bytes += carried - changes.len() as u64 * CHANGE_BYTES;
            asked.commit_changes += changes.len() as u64;
        });
        for blocks in [&self.0.latest, &self.0.durable] {
            let mut blocks = blocks.borrow_mut();
            for change in changes {
                match *change {
                    Change::Write { offset, bytes } => put(&mut blocks, offset, bytes),
                    Change::Zero(extent) => put_zeros(&mut blocks, extent),
                }
            }
        }
        Ok(())
    }
}
