//! The façade: operations of a mounted file system, for many tasks of one thread.
//!
//! An operation is as large as the largest of what it may wait for, and thousands may be under way. So what is seldom waited for,
//! a commit that is due, room that is short, a read of what is not in memory, is put into a box of its own. So is the store's
//! part of a commit: one of those who wait for it carries it out for all.

mod attributes;
mod data;
mod names;
mod space;
mod write_out;

use std::cell::{Cell, RefCell};
use std::ops::{Deref, DerefMut};
use std::rc::Rc;

use crate::attributes::{Activity, Attributes, Statistics};
use crate::commit::{Asked, Request};
use crate::core::Core;
use crate::error::{Errno, MountError};
use crate::format::inode::{Inode, Timestamp};
use crate::format::superblock::Counts;
use crate::lock::{Guard, Lock};
use crate::store::Store;
use write_out::Wanted;

pub use attributes::XattrMode;
pub use data::Seek;
pub use names::{FORGOTTEN_MAX, RenameMode};

/// How a file system is mounted.
#[derive(Debug, Clone, Copy)]
pub struct MountOptions {
    /// Whether nothing is changed. Then orphans stay, too.
    pub is_read_only: bool,
    /// Bytes of clean metadata in memory.
    pub cache_bytes: usize,
    /// Bytes of data that are not committed in memory; who writes more waits. From half of it on it is written out by
    /// [`FileSystem::write_out_in_background`].
    pub dirty_bytes_max: usize,
    /// Bytes of one file up to which its data goes into the commit. More of it goes to its blocks first.
    pub small_max_bytes: u64,
    /// Whether the store is told of blocks that are free.
    pub discards: bool,
}

impl Default for MountOptions {
    fn default() -> Self {
        Self {
            is_read_only: false,
            cache_bytes: 32 << 20,
            dirty_bytes_max: 64 << 20,
            small_max_bytes: 64 << 10,
            discards: true,
        }
    }
}

struct Inner<S> {
    store: Rc<S>,
    options: MountOptions,
    core: Lock<Core<S>>,
    queue: RefCell<Vec<Rc<Asked>>>,
    committing: Lock<()>,
    giving_back: Lock<()>,
    unmaps: Rc<Cell<u64>>,
    activity: Cell<Activity>,
    write_out: Wanted,
    /// A commit or an operation was given up halfway.
    was_given_up: Cell<bool>,
}

/// A mounted file system. A clone is another handle to it.
///
/// Inode numbers are handles: [`Self::lookup`] and whatever else answers [`Attributes`] of a file counts as one lookup,
/// which [`Self::forget`] takes back. A file that is open or looked up stays, though its last name is gone.
pub struct FileSystem<S: Store>(Rc<Inner<S>>);

impl<S: Store> Clone for FileSystem<S> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<S: Store> std::fmt::Debug for FileSystem<S> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("FileSystem").field("options", &self.0.options).finish_non_exhaustive()
    }
}

/// The state, during an operation that may change it. An operation that ends otherwise than it should, after it changed
/// something, makes the file system read-only: what is in memory may be half of something.
struct Changing<'a, S: Store> {
    core: Guard<'a, Core<S>>,
    changes: u64,
    is_done: bool,
}

impl<S: Store> Changing<'_, S> {
    /// The operation is over.
    fn done<T>(mut self, result: Result<T, Errno>) -> Result<T, Errno> {
        self.is_done = true;
        if let Err(error @ (Errno::Io | Errno::Damaged)) = &result
            && self.core.cache.changes() != self.changes
        {
            self.core.fail(format!("an operation failed halfway: {error}"));
        }
        result
    }
}

impl<S: Store> Drop for Changing<'_, S> {
    fn drop(&mut self) {
        if !self.is_done && self.core.cache.changes() != self.changes {
            self.core.fail("an operation was given up halfway");
        }
    }
}

impl<S: Store> Deref for Changing<'_, S> {
    type Target = Core<S>;

    fn deref(&self) -> &Core<S> {
        &self.core
    }
}

impl<S: Store> DerefMut for Changing<'_, S> {
    fn deref_mut(&mut self) -> &mut Core<S> {
        &mut self.core
    }
}

/// Says that something was given up halfway unless it is told otherwise.
struct Halfway<'a>(&'a Cell<bool>);

impl Halfway<'_> {
    fn done(self) {
        std::mem::forget(self);
    }
}

impl Drop for Halfway<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

impl<S: Store> FileSystem<S> {
    /// Mounts what is on a store, and frees what a cut left without a name. `clock` tells the time.
    ///
    /// # Errors
    ///
    /// Where the store fails, or what is on it is no file system that can be used; the error says what to do.
    pub async fn mount(
        store: S,
        options: MountOptions,
        clock: impl Fn() -> Timestamp + 'static,
    ) -> Result<Self, MountError> {
        let store = Rc::new(store);
        let unmaps = Rc::new(Cell::new(0));
        let core =
            Core::open(Rc::clone(&store), Box::new(clock), options.cache_bytes, Rc::clone(&unmaps)).await?;
        let file_system = Self(Rc::new(Inner {
            store,
            options,
            core: Lock::new(core),
            queue: RefCell::default(),
            committing: Lock::default(),
            giving_back: Lock::default(),
            unmaps,
            activity: Cell::default(),
            write_out: Wanted::default(),
            was_given_up: Cell::default(),
        }));
        if !options.is_read_only {
            file_system.begin().await.map_err(|error| MountError::Unusable(error.to_string()))?;
        }
        Ok(file_system)
    }

    async fn begin(&self) -> Result<(), Errno> {
        let mut core = self.change().await?;
        let now_s = core.now().secs.clamp(0, i64::from(u32::MAX)) as u32;
        Counts::note_mount(core.cache.get_mut(0), now_s);
        let orphans = core.orphans.list();
        core.done(Ok(()))?;
        self.end_orphans(orphans).await;
        self.commit_and_give_back().await
    }

    /// Ends files without a name, and truncations. One that cannot be read stays in the list, for e2fsck; whoever read it in vain
    /// has told so.
    async fn end_orphans(&self, orphans: Vec<u32>) {
        for number in orphans {
            if self.end_orphan(number).await.is_ok() {
                continue;
            }
            // One with a name is not made longer before what is left of it is cut off.
            let mut core = self.0.core.lock().await;
            if let Ok(inode) = core.inode(number).await
                && inode.links > 0
            {
                core.node(number, inode.size).is_unmapping = true;
            }
        }
    }

    /// The store that it is on.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// How it was mounted.
    pub fn options(&self) -> MountOptions {
        self.0.options
    }

    /// Why it is read-only, if a failure made it so.
    pub async fn failure(&self) -> Option<String> {
        let core = self.0.core.lock().await;
        let given_up = self.0.was_given_up.get().then(|| "a commit was given up halfway".to_owned());
        core.failure.clone().or(given_up)
    }

    /// What it did so far.
    pub async fn activity(&self) -> Activity {
        self.activity_of(&*self.0.core.lock().await)
    }

    fn activity_of(&self, core: &Core<S>) -> Activity {
        Activity {
            dirty_pages: core.dirty_pages as u64,
            cached_blocks: core.cache.len() as u64,
            known_files: core.known.len() as u64,
            busy_files: core.nodes.len() as u64,
            ..self.0.activity.get()
        }
    }

    /// How full it is.
    pub async fn statistics(&self) -> Statistics {
        Self::statistics_of(&*self.0.core.lock().await)
    }

    /// How full it is, and what it did so far; `None` while an operation is in the middle of something.
    pub fn glance(&self) -> Option<(Statistics, Activity)> {
        let core = self.0.core.glance()?;
        Some((Self::statistics_of(&core), self.activity_of(&core)))
    }

    fn statistics_of(core: &Core<S>) -> Statistics {
        let geometry = core.geometry.clone();
        let fixed = |group| u64::from(geometry.group_head_blocks(group) + 2 + geometry.inode_table_blocks());
        let overhead: u64 = (0..geometry.groups()).map(fixed).sum();
        let free_blocks = core.free_blocks().saturating_sub(core.reserved_blocks);
        Statistics {
            blocks: u64::from(geometry.blocks) - overhead,
            free_blocks,
            available_blocks: free_blocks.saturating_sub(u64::from(geometry.reserved_blocks)),
            inodes: u64::from(geometry.inodes),
            free_inodes: u64::from(core.free_inodes()),
        }
    }

    /// The state, to look at.
    async fn look(&self) -> Guard<'_, Core<S>> {
        let mut core = self.0.core.lock().await;
        core.cache.trim();
        core
    }

    /// The state, to change. If much is dirty, that is committed first.
    async fn change(&self) -> Result<Changing<'_, S>, Errno> {
        if self.0.options.is_read_only {
            return Err(Errno::ReadOnly);
        }
        loop {
            let core = self.look().await;
            if core.failure.is_some() || self.0.was_given_up.get() {
                return Err(Errno::ReadOnly);
            }
            if !core.is_commit_due() {
                let changes = core.cache.changes();
                return Ok(Changing { core, changes, is_done: false });
            }
            drop(core);
            Box::pin(self.commit(None)).await?;
        }
    }

    /// Attributes of an inode, with what is not committed.
    fn attributes_of(core: &Core<S>, number: u32, inode: &Inode) -> Result<Attributes, Errno> {
        let kind = inode.kind().ok_or(Errno::Damaged)?;
        let mut attributes = Attributes::of(number, inode, kind);
        if kind == crate::format::inode::Kind::File
            && let Some(node) = core.nodes.get(&number)
        {
            attributes.size = node.size;
            attributes.sectors += node.reserved_pages() * 8;
            if let Some(written) = node.written {
                (attributes.mtime, attributes.ctime) = (written, written.max(attributes.ctime));
            }
        }
        Ok(attributes)
    }

    /// Answers a file to the front, which knows of it from now on.
    fn tell(core: &mut Core<S>, number: u32, inode: &Inode) -> Result<Attributes, Errno> {
        let attributes = Self::attributes_of(core, number, inode)?;
        core.known.look_up(number);
        Ok(attributes)
    }

    /// Commits all dirty metadata, and lets freed blocks be taken.
    async fn commit_and_give_back(&self) -> Result<(), Errno> {
        self.commit(None).await?;
        self.give_back().await
    }

    /// Commits all dirty metadata, and what is asked for with it. Whoever waits for that does not wait for a store that is told what
    /// is free.
    async fn commit(&self, mine: Option<Request>) -> Result<(), Errno> {
        let in_background = mine.as_ref().is_some_and(|mine| mine.is_in_background);
        let mine =
            mine.map(|request| Rc::new(Asked { request: RefCell::new(request), is_done: Cell::new(false) }));
        if let Some(mine) = &mine {
            self.0.queue.borrow_mut().push(Rc::clone(mine));
        }
        if in_background && let Some(mine) = &mine {
            self.ride(mine).await;
        }
        let turn = self.0.committing.lock().await;
        loop {
            if mine.as_ref().is_some_and(|mine| mine.is_done.get()) {
                break;
            }
            self.commit_once(in_background).await?;
            if mine.is_none() {
                break;
            }
        }
        drop(turn);
        if !self.0.options.discards {
            let mut core = self.0.core.lock().await;
            let runs = core.discardable.take();
            runs.into_iter().for_each(|run| core.held.remove(run));
        }
        Ok(())
    }

    /// Lets commits for which somebody waits carry this one's, while such commits come.
    async fn ride(&self, mine: &Asked) {
        let carried = || mine.request.borrow().next;
        loop {
            let before = carried();
            if !self.0.store.wait_beside_small_commits().await || mine.is_done.get() || carried() == before {
                break;
            }
        }
    }

    async fn commit_once(&self, in_background: bool) -> Result<(), Errno> {
        let halfway = Halfway(&self.0.was_given_up);
        let commit = {
            let mut core = self.0.core.lock().await;
            if core.failure.is_some() {
                halfway.done();
                return Err(Errno::Io);
            }
            let mut queue = self.0.queue.take();
            let begun = core.begin_commit(&mut queue, in_background).await;
            queue.append(&mut self.0.queue.borrow_mut());
            self.0.queue.replace(queue);
            match begun {
                Ok(commit) => commit,
                Err(error) => {
                    core.fail(format!("a commit cannot be made: {error}"));
                    halfway.done();
                    return Err(Errno::Io);
                }
            }
        };
        let done = match commit.batch.is_empty() {
            true => Ok(()),
            false if commit.is_in_background => {
                Box::pin(self.0.store.commit_in_background(&commit.batch.changes())).await
            }
            false => Box::pin(self.0.store.commit(&commit.batch.changes())).await,
        };
        let mut core = self.0.core.lock().await;
        halfway.done();
        if let Err(error) = done {
            core.fail(error.to_string());
            return Err(Errno::Io);
        }
        if let Err(error) = core.end_commit(&commit).await {
            core.fail(format!("a commit cannot be ended: {error}"));
            return Err(Errno::Io);
        }
        let mut activity = self.0.activity.get();
        activity.commits += u64::from(!commit.batch.is_empty());
        activity.syncs += commit.done.len() as u64;
        activity.data_bytes += commit.data_bytes;
        activity.metadata_bytes += commit.batch.bytes() - commit.data_bytes;
        self.0.activity.set(activity);
        Ok(())
    }

    /// Tells the store of blocks that are free, and lets them be taken. One at a time does: what another one has taken to give back
    /// can be taken behind it.
    async fn give_back(&self) -> Result<(), Errno> {
        let _giving = self.0.giving_back.lock().await;
        let runs = self.0.core.lock().await.discardable.take();
        for run in runs {
            let given = Box::pin(self.0.store.zero(Core::<S>::extent_of(&run))).await;
            let mut core = self.0.core.lock().await;
            if let Err(error) = given {
                core.fail(error.to_string());
                return Err(Errno::Io);
            }
            core.held.remove(run);
        }
        Ok(())
    }
}
