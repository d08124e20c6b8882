//! Making room: truncation, holes, and the end of files without a name.

use std::rc::Rc;

use super::FileSystem;
use crate::core::{Core, INDEX_END};
use crate::error::Errno;
use crate::format::inode::{FLAG_APPEND, FLAG_IMMUTABLE, Inode};
use crate::format::{BLOCK, BLOCK_BYTES, FILE_BYTES_MAX};
use crate::lock::Lock;
use crate::store::Store;

impl<S: Store> FileSystem<S> {
    /// What is held while a file's data becomes durable or is unmapped.
    pub(super) async fn sync_lock(&self, number: u32) -> Result<Rc<Lock<()>>, Errno> {
        let mut core = self.look().await;
        let inode = core.file(number).await?;
        Ok(Rc::clone(&core.node(number, inode.size).sync))
    }

    /// Does something with a file while nobody else makes it durable or unmaps it.
    pub(super) async fn with_sync_lock<T>(
        &self,
        number: u32,
        act: impl AsyncFnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let lock = self.sync_lock(number).await?;
        let held = lock.lock().await;
        let result = act().await;
        drop(held);
        drop(lock);
        self.0.core.lock().await.tidy(number);
        result
    }

    /// Does something that may find no room; then once more, when what is free can be taken.
    pub(super) async fn with_room<T>(&self, act: impl AsyncFn() -> Result<T, Errno>) -> Result<T, Errno> {
        match act().await {
            Err(Errno::NoSpace) if Box::pin(self.make_room()).await? => Box::pin(act()).await,
            other => other,
        }
    }

    /// Commits so that freed blocks can be taken; whether there may be some.
    pub(super) async fn make_room(&self) -> Result<bool, Errno> {
        let is_worth_it = self.0.core.lock().await.held.len() > 0;
        if is_worth_it {
            self.commit_and_give_back().await?;
        }
        Ok(is_worth_it)
    }

    /// Sets the size of a file.
    pub(super) async fn truncate(&self, number: u32, size: u64) -> Result<(), Errno> {
        if size > FILE_BYTES_MAX {
            return Err(Errno::FileTooLarge);
        }
        self.with_sync_lock(number, async || self.truncate_held(number, size).await).await
    }

    async fn truncate_held(&self, number: u32, size: u64) -> Result<(), Errno> {
        let mut core = self.change().await?;
        let begun = async {
            let mut inode = core.file(number).await?;
            if inode.flags & (FLAG_IMMUTABLE | FLAG_APPEND) != 0 {
                return Err(Errno::NotPermitted);
            }
            let node = core.node(number, inode.size);
            let now_size = node.size;
            if size > now_size {
                // Nobody else has the lock: what a truncation left would come back.
                if node.is_unmapping {
                    return Err(Errno::Io);
                }
                core.extend(number, &mut inode, size).await?;
                return Ok(None);
            }
            core.foresee_unmap(&inode, size.div_ceil(BLOCK_BYTES)..INDEX_END).await?;
            core.shorten(number, &mut inode, size);
            Ok(Some(inode))
        }
        .await;
        let from = size.div_ceil(BLOCK_BYTES);
        match begun {
            Ok(Some(inode)) => self.unmap(core, (number, inode), from..INDEX_END, true).await,
            Ok(None) => core.done(Ok(())),
            Err(error) => core.done(Err(error)),
        }
    }

    /// Unmaps a range of a file, in as many operations as it takes. Where more than one is needed and what is cut off must
    /// not come back, the file is in the list of orphans meanwhile; and stays there where one of them fails, with
    /// [`crate::core::Node::is_unmapping`].
    async fn unmap(
        &self,
        mut core: super::Changing<'_, S>,
        (number, mut inode): (u32, Inode),
        range: std::ops::Range<u64>,
        is_listed: bool,
    ) -> Result<(), Errno> {
        let mut from = range.start;
        loop {
            let step = async {
                let is_all = core.unmap_some(number, &mut inode, &mut from, range.end).await?;
                match (is_all, core.is_orphan(number)) {
                    (true, true) if inode.links > 0 => core.remove_orphan(number, &mut inode).await?,
                    (false, false) if is_listed => core.add_orphan(number, &mut inode),
                    _ => {}
                }
                core.put_inode(number, &inode);
                core.node(number, inode.size).is_unmapping = !is_all;
                Ok(is_all)
            }
            .await;
            if step.is_err()
                && !is_listed
                && let Some(node) = core.nodes.get_mut(&number)
            {
                node.is_unmapping = false;
            }
            if core.done(step)? {
                return Ok(());
            }
            self.commit(None).await?;
            core = self.change().await?;
            inode = match core.inode(number).await {
                Ok(inode) => inode,
                Err(error) => return core.done(Err(error)),
            };
        }
    }

    /// Makes a hole: bytes that read as zeros and take no room.
    ///
    /// # Errors
    ///
    /// [`Errno::Invalid`] of an empty range.
    pub async fn punch_hole(&self, number: u32, offset: u64, len: u64) -> Result<(), Errno> {
        let end = offset.checked_add(len).filter(|end| *end > offset).ok_or(Errno::Invalid)?;
        let punch =
            async || self.with_sync_lock(number, async || self.punch_held(number, offset, end).await).await;
        self.with_room(punch).await
    }

    async fn punch_held(&self, number: u32, offset: u64, end: u64) -> Result<(), Errno> {
        let mut core = self.change().await?;
        let (first, last) = (offset.div_ceil(BLOCK_BYTES), end.min(FILE_BYTES_MAX) / BLOCK_BYTES);
        let begun = async {
            let mut inode = core.file(number).await?;
            if inode.flags & (FLAG_IMMUTABLE | FLAG_APPEND) != 0 {
                return Err(Errno::NotPermitted);
            }
            core.foresee_unmap(&inode, first..last.max(first)).await?;
            let size = core.node(number, inode.size).size;
            let (start_in, end_in) = ((offset % BLOCK_BYTES) as usize, (end % BLOCK_BYTES) as usize);
            let is_in_one = offset / BLOCK_BYTES == end / BLOCK_BYTES;
            if start_in > 0 && offset < size {
                let stop = if is_in_one { end_in } else { BLOCK };
                core.zero_in_page(number, &inode, offset / BLOCK_BYTES, start_in..stop, true).await?;
            }
            if end_in > 0 && end < size.next_multiple_of(BLOCK_BYTES) && !(is_in_one && start_in > 0) {
                core.zero_in_page(number, &inode, end / BLOCK_BYTES, 0..end_in, true).await?;
            }
            core.drop_pages(number, first, last);
            let now = core.now();
            (inode.mtime, inode.ctime) = (now, now);
            let node = core.node(number, inode.size);
            node.written = node.written.map(|_| now);
            if node.dirty_pages() == 0 {
                core.settle(number, &mut inode);
            }
            Ok(inode)
        }
        .await;
        match begun {
            Ok(inode) => self.unmap(core, (number, inode), first..last.max(first), false).await,
            Err(error) => core.done(Err(error)),
        }
    }

    /// Ends a file that has no name any more, unless somebody knows of it.
    pub(super) async fn end_if_unknown(&self, number: u32) -> Result<(), Errno> {
        {
            let mut core = self.0.core.lock().await;
            let is_known = core.known.has(number);
            if !is_known && core.is_orphan(number) && !self.0.options.is_read_only {
                drop(core);
                return Box::pin(self.end_orphan(number)).await;
            }
            core.tidy(number);
            let is_left = |node: &crate::core::Node| !is_known && node.dirty_pages() == 0;
            if !core.nodes.get(&number).is_some_and(is_left) {
                return Ok(());
            }
        }
        Box::pin(self.settle_times(number)).await?;
        self.0.core.lock().await.tidy(number);
        Ok(())
    }

    /// Times of a file with nothing dirty go to its inode.
    pub(super) async fn settle_times(&self, number: u32) -> Result<(), Errno> {
        let mut core = self.change().await?;
        let is_left = |node: &crate::core::Node| node.dirty_pages() == 0 && node.written.is_some();
        if !core.nodes.get(&number).is_some_and(is_left) {
            return core.done(Ok(()));
        }
        let settled = async {
            let mut inode = core.file(number).await?;
            core.settle(number, &mut inode);
            Ok(())
        }
        .await;
        core.done(settled)
    }

    /// Finishes what an inode in the list of orphans is there for: it is freed, or its truncation ends.
    pub(super) async fn end_orphan(&self, number: u32) -> Result<(), Errno> {
        let lock = {
            let mut core = self.look().await;
            let inode = core.inode(number).await?;
            Rc::clone(&core.node(number, inode.size).sync)
        };
        let _held = lock.lock().await;
        let mut from = None;
        loop {
            let mut core = self.change().await?;
            let is_known = core.known.has(number);
            if is_known || !core.is_orphan(number) {
                return core.done(Ok(()));
            }
            let step = Self::end_some(&mut core, number, &mut from).await;
            if core.done(step)? {
                return Ok(());
            }
            self.commit(None).await?;
        }
    }

    async fn end_some(core: &mut Core<S>, number: u32, from: &mut Option<u64>) -> Result<bool, Errno> {
        let mut inode = core.inode(number).await?;
        let is_named = inode.links > 0;
        match is_named {
            true => core.foresee_removal(number).await?,
            false => {
                core.foresee_free(number, &inode).await?;
                core.drop_pages(number, 0, u64::MAX);
            }
        }
        let start = if is_named { inode.size.div_ceil(BLOCK_BYTES) } else { 0 };
        let is_all = core.unmap_some(number, &mut inode, from.get_or_insert(start), INDEX_END).await?;
        match (is_all, is_named) {
            (false, _) => core.put_inode(number, &inode),
            (true, true) => {
                core.remove_orphan(number, &mut inode).await?;
                core.put_inode(number, &inode);
                if let Some(node) = core.nodes.get_mut(&number) {
                    node.is_unmapping = false;
                }
            }
            (true, false) => {
                core.free_orphan(number, &mut inode).await?;
                core.nodes.remove(&number);
            }
        }
        Ok(is_all)
    }
}
