//! The state of a mounted file system, and operations on it. One of them has it at a time.
//!
//! ```text
//! names     entries of folders, links            folder, index
//! inodes    read and written through the cache   inode, orphans, xattrs
//! map       from a file's blocks to the store's
//! space     bitmaps, counts, what is kept free
//! data      bytes of files that are not committed
//! ```
//!
//! An operation changes blocks in the cache only. Between two operations the cache is a consistent file system, so that
//! a commit of all its changes is one.

mod data;
mod folder;
mod index;
mod inode;
mod known;
mod map;
mod names;
mod orphans;
mod space;
mod xattrs;

use std::collections::BTreeMap;
use std::rc::Rc;

pub(crate) use data::{Node, Page};
pub(crate) use folder::Listed;
pub(crate) use known::{Known, Unmapped};
pub(crate) use map::INDEX_END;
pub(crate) use names::{NewFile, is_dot};
pub(crate) use orphans::Orphans;

use crate::cache::Cache;
use crate::error::{Errno, StoreError};
use crate::extents::BlockSet;
use crate::format::group::Group;
use crate::format::inode::Timestamp;
use crate::format::superblock::Geometry;
use crate::format::{BLOCK, BLOCK_BYTES};
use crate::store::Store;

/// What tells the time.
pub(crate) type Clock = Box<dyn Fn() -> Timestamp>;

/// Dirty blocks from which on they are committed before the next operation: what somebody else waits for carries them.
const DUE_BLOCKS: usize = 256;

/// Blocks that are read from the store in one hold of the state, where what is left can wait: each is a seek of a disk.
const LOADS_MAX: u64 = 16;

/// The state. See the [module](self).
pub(crate) struct Core<S> {
    pub(crate) store: Rc<S>,
    pub(crate) clock: Clock,
    pub(crate) geometry: Geometry,
    pub(crate) groups: Vec<Group>,
    pub(crate) cache: Cache,
    /// Files that somebody knows of.
    pub(crate) known: Known,
    /// Files with data or times that are not committed, or that are being synced or made shorter.
    pub(crate) nodes: BTreeMap<u32, Node>,
    /// Of which files blocks were unmapped lately.
    pub(crate) unmapped: Unmapped,
    /// Blocks that may not be taken though their bitmap says that they are free.
    pub(crate) held: BlockSet,
    /// How many of them data is being written to.
    pub(crate) placed_blocks: u64,
    /// Of them, those that were freed since the last commit began.
    pub(crate) freed: BlockSet,
    /// Of them, those whose freeing is durable, and which can be discarded.
    pub(crate) discardable: BlockSet,
    /// Blocks kept for data that is not committed.
    pub(crate) reserved_blocks: u64,
    /// Pages of data that are not committed.
    pub(crate) dirty_pages: usize,
    /// Inodes without a name, as their list on the store has them.
    pub(crate) orphans: Orphans,
    /// Counts what was unmapped: what was read meanwhile may be of another file.
    pub(crate) unmaps: Rc<std::cell::Cell<u64>>,
    /// Blocks that were read from the store.
    pub(crate) loads: u64,
    /// Why nothing is committed any more.
    pub(crate) failure: Option<String>,
    /// Dirty blocks that one commit takes, at least.
    pub(crate) blocks_max: usize,
}

impl<S: Store> Core<S> {
    pub(crate) fn now(&self) -> Timestamp {
        (self.clock)()
    }

    /// Makes a block of metadata available to the cache until the end of the operation.
    pub(crate) async fn load(&mut self, number: u32) -> Result<(), Errno> {
        if self.cache.has(number) {
            return Ok(());
        }
        if number >= self.geometry.blocks {
            return Err(Errno::Damaged);
        }
        let mut bytes = Box::new([0; BLOCK]);
        let store = Rc::clone(&self.store);
        let read = Box::pin(store.read(u64::from(number) * BLOCK_BYTES, &mut bytes[..]));
        read.await.map_err(|error| self.told(error))?;
        self.cache.insert(number, bytes);
        self.loads += 1;
        Ok(())
    }

    /// Whether so much was read since `before` that others are to have their turn.
    pub(crate) fn has_read_much(&self, before: u64) -> bool {
        self.loads - before >= LOADS_MAX
    }

    /// Notes what a store said.
    pub(crate) fn told(&mut self, _error: StoreError) -> Errno {
        Errno::Io
    }

    /// Nothing is committed any more.
    pub(crate) fn fail(&mut self, why: impl Into<String>) {
        self.failure.get_or_insert(why.into());
    }

    /// Whether enough is dirty that a commit is due before the next operation.
    pub(crate) fn is_commit_due(&self) -> bool {
        self.cache.dirty_blocks() > (self.blocks_max / 4).min(DUE_BLOCKS)
    }

    /// Whether no more may become dirty in this operation.
    pub(crate) fn is_full(&self) -> bool {
        self.cache.dirty_blocks() > self.blocks_max / 2
    }

    /// The node of an inode, made if there is none.
    pub(crate) fn node(&mut self, number: u32, size: u64) -> &mut Node {
        self.nodes.entry(number).or_insert_with(|| Node::new(size))
    }

    /// Drops a node that nobody needs.
    pub(crate) fn tidy(&mut self, number: u32) {
        if self.nodes.get(&number).is_some_and(Node::is_idle) {
            self.nodes.remove(&number);
        }
    }
}
