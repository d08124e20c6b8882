//! Files and their pages: dirty in the cache, on their way out, or in the log.

use std::collections::BTreeMap;

use evenkeel_engine::env::Env;

use super::nodes::{Page, page_bytes};
use super::{File, FileSystem, PAGE_BYTES, REQUEST_PAGES};
use crate::model::Operation;

/// A file as memory has it.
#[derive(Debug, Default)]
pub(super) struct Inode {
    /// Grows when the number is given to another file.
    pub(super) generation: u32,
    /// Of the last node written.
    pub(super) version: u32,
    /// Writes so far: a page is stamped with the number of the one that it is from.
    stamp: u32,
    /// Where each page lies in the log; `None` before it was written out.
    pub(super) pages: Vec<Option<Page>>,
    /// Dirty pages and their stamps.
    dirty: BTreeMap<u32, u32>,
    /// Whether it stands among the dirty files.
    is_queued: bool,
    /// Requests with its pages.
    pub(super) under_way: u32,
    is_syncing: bool,
    /// The last write that an fsync made durable.
    synced: u32,
}

impl Inode {
    /// The last write.
    pub(super) fn written(&self) -> u32 {
        self.stamp
    }

    pub(super) fn synced(&self) -> u32 {
        self.synced
    }

    pub(super) fn is_syncing(&self) -> bool {
        self.is_syncing
    }

    /// Begins an fsync, unless one is under way; answers up to which write it goes.
    pub(super) fn begin_sync(&mut self) -> Option<u32> {
        (!std::mem::replace(&mut self.is_syncing, true)).then_some(self.stamp)
    }

    pub(super) fn end_sync(&mut self, written: u32) {
        self.is_syncing = false;
        self.synced = written;
    }
}

/// Pages on their way out: their number in the file, and their stamp.
pub(super) type Chunk = Vec<(u32, u32)>;

impl FileSystem {
    /// A new file, empty. Nobody knows of it before its first fsync.
    pub fn create(&self) -> File {
        let mut inodes = self.0.inodes.borrow_mut();
        inodes.push(Inode::default());
        assert!(inodes.len() <= self.0.setup.inodes_max as usize, "more files than there are places for");
        File(inodes.len() as u32)
    }

    pub(super) fn with<T>(&self, file: File, then: impl FnOnce(&mut Inode) -> T) -> T {
        then(&mut self.0.inodes.borrow_mut()[file.0 as usize - 1])
    }

    /// Empties a file: what of it is dirty is never written out. As deleting it and giving its number to a new one,
    /// for a file that was not synced.
    pub fn replace(&self, file: File) {
        let dropped = self.with(file, |inode| {
            assert_eq!(inode.version, 0, "a file with a node is deleted by a checkpoint");
            let dropped = inode.dirty.len() as u64;
            *inode =
                Inode { generation: inode.generation + 1, under_way: inode.under_way, ..Inode::default() };
            dropped
        });
        self.0.dirty_pages.set(self.0.dirty_pages.get() - dropped);
        self.0.has_room.all();
    }

    /// Writes pages of a file: into the cache, once there is room.
    pub async fn write(&self, file: File, first: u32, pages: u32) {
        let state = &*self.0;
        let has_room = || (state.dirty_pages.get() < state.setup.dirty_pages_max).then_some(());
        state.has_room.until(has_room).await;
        self.write_at_once(file, first, pages).await;
    }

    /// As [`Self::write`], without waiting for room: for who syncs what it writes, and so never has much in the
    /// cache. Kernels throttle by what a task dirties.
    pub async fn write_at_once(&self, file: File, first: u32, pages: u32) {
        let state = &*self.0;
        state.env.sleep(state.setup.copy_page_ns * u64::from(pages)).await;
        let (added, joins) = self.with(file, |inode| {
            inode.stamp += 1;
            let before = inode.dirty.len();
            inode.dirty.extend((first..first + pages).map(|page| (page, inode.stamp)));
            let joins = (!std::mem::replace(&mut inode.is_queued, true)).then_some(inode.generation);
            (inode.dirty.len() - before, joins)
        });
        state.dirty_pages.set(state.dirty_pages.get() + added as u64);
        if let Some(generation) = joins {
            state.dirty_files.borrow_mut().push_back((file, generation));
        }
        if state.dirty_pages.get() > state.setup.background_pages {
            state.is_dirty.all();
        }
    }

    /// Takes as many dirty pages of a file as go into a request.
    pub(super) fn take_dirty(&self, file: File) -> Option<Chunk> {
        let chunk = self.with(file, |inode| {
            let chunk: Chunk =
                inode.dirty.iter().take(REQUEST_PAGES).map(|(&page, &stamp)| (page, stamp)).collect();
            for (page, _) in &chunk {
                inode.dirty.remove(page);
            }
            inode.under_way += u32::from(!chunk.is_empty());
            chunk
        });
        self.0.dirty_pages.set(self.0.dirty_pages.get() - chunk.len() as u64);
        (!chunk.is_empty()).then_some(chunk)
    }

    /// Writes pages to the end of the log; they count as under way from [`Self::take_dirty`] on.
    pub(super) async fn write_out(&self, file: File, chunk: Chunk) {
        let state = &*self.0;
        let pages = chunk.len() as u64;
        let first = state.log_end.replace(state.log_end.get() + pages);
        let bytes = state.setup.keeps_contents.then(|| {
            let bytes_of = |&(page, stamp): &(u32, u32)| page_bytes(file, page, stamp);
            chunk.iter().flat_map(bytes_of).collect::<Vec<u8>>()
        });
        let generation = self.with(file, |inode| inode.generation);
        self.ask(file, Operation::Write, first, pages, bytes.as_deref()).await;
        self.count(|counters| counters.pages_written += pages);
        self.with(file, |inode| {
            inode.under_way -= 1;
            if inode.generation != generation {
                return;
            }
            for (&(page, stamp), place) in chunk.iter().zip(first..) {
                let pages = inode.pages.len().max(page as usize + 1);
                inode.pages.resize(pages, None);
                let at = &mut inode.pages[page as usize];
                if at.is_none_or(|at| at.stamp < stamp) {
                    *at = Some(Page { place: place as u32, stamp });
                }
            }
        });
        state.has_room.all();
        state.is_settled.all();
    }

    /// What a flusher does for ever: one request at a time.
    pub(super) async fn keep_clean(&self) {
        let state = &*self.0;
        loop {
            let next = || {
                (state.dirty_pages.get() > state.setup.background_pages).then(|| self.next_dirty()).flatten()
            };
            let (file, chunk) = state.is_dirty.until(next).await;
            self.write_out(file, chunk).await;
        }
    }

    /// Dirty pages of the file that has been dirty longest.
    fn next_dirty(&self) -> Option<(File, Chunk)> {
        loop {
            let (file, generation) = *self.0.dirty_files.borrow().front()?;
            if self.with(file, |inode| inode.generation == generation)
                && let Some(chunk) = self.take_dirty(file)
            {
                return Some((file, chunk));
            }
            self.0.dirty_files.borrow_mut().pop_front();
            self.with(file, |inode| {
                if inode.generation == generation {
                    inode.is_queued = false;
                }
            });
        }
    }

    /// Bytes of data written to the drive so far.
    pub fn written_bytes(&self) -> u64 {
        self.counters().pages_written * PAGE_BYTES
    }
}
