//! Data of files on its way to the store: to blocks of its own where it is much, in the commit where it is little.
//!
//! 1. Much data goes in groups of pages, each placed, written and mapped before the next: an fsync of another file waits for
//!    the commit of one at most, and that commit carries none of the group's data. Groups become larger once nobody has synced
//!    for many of them: what each costs besides its bytes, a flush and a commit, is then paid more rarely.
//! 2. A group is the first of its file's pages, so that the size on the store never covers what is not committed.
//! 3. From half of `dirty_bytes_max` on data is written out in the background. Whoever writes when there is nearly that much
//!    writes out a group himself, and who has little only at the bound itself: memory is bounded, and a stream is paid for
//!    by who writes it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_engine::join::all;

use super::FileSystem;
use crate::commit::{Carried, Request};
use crate::core::{Core, Node};
use crate::error::Errno;
use crate::format::inode::Inode;
use crate::format::{BLOCK, BLOCK_BYTES};
use crate::lock::yield_once;
use crate::planted::{Bug, is_planted};
use crate::store::{Extent, Store};

/// Pages of a group at most, where somebody may sync another file.
const GROUP_PAGES: usize = 256;

/// The same, where nobody has for [`GROUPS_UNSYNCED`] groups.
const GROUP_PAGES_UNSYNCED: usize = 1024;

/// Groups without a sync from which on none is expected: at some hundred MB/s they take a few tenths of a second.
const GROUPS_UNSYNCED: u32 = 64;

/// Pages of a group at least.
const GROUP_PAGES_MIN: usize = 16;

/// Pages that are given blocks before others have their turn.
const TURN_PAGES: usize = 16;

/// Pages of several files that are written out together: one commit carries them.
const SHARED_PAGES: usize = 64;

/// Files of which data or times are made durable together, at most: each holds a task's memory meanwhile.
const SHARED_FILES: usize = 256;

/// Bytes of one write over what a file has.
const WRITE_BYTES: usize = 1 << 20;

/// Ranges of a page from which on all of it is written: a change each would cost more.
const RANGES_MAX: usize = 24;

/// What of a file becomes durable.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    /// All of it; times perhaps later, where bytes alone changed.
    All { is_data_only: bool },
    /// A group of its pages, for which nobody waits but who writes much.
    Group,
}

/// Whether much is to be written out in the background, and who does that.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    is_wanted: Cell<bool>,
    is_over: Cell<bool>,
    waits: RefCell<Option<Waker>>,
    /// Groups since somebody synced.
    groups: Cell<u32>,
}

impl Wanted {
    /// There is much.
    pub(super) fn want(&self) {
        self.is_wanted.set(true);
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }

    /// Somebody syncs.
    pub(super) fn note_sync(&self) {
        self.groups.set(0);
    }

    fn note_group(&self) {
        self.groups.set(self.groups.get().saturating_add(1));
    }

    /// Waits until there is; false once it is over.
    async fn come(&self) -> bool {
        poll_fn(|context| {
            if self.is_over.get() || self.is_wanted.take() {
                return Poll::Ready(!self.is_over.get());
            }
            self.waits.replace(Some(context.waker().clone()));
            Poll::Pending
        })
        .await
    }
}

impl<S: Store> FileSystem<S> {
    /// Writes out what nobody makes durable, whenever there is much of it, until [`Self::end_background`] or a failure.
    pub async fn write_out_in_background(&self) {
        while self.0.write_out.come().await {
            loop {
                let (is_much, has_failed) = {
                    let core = self.0.core.lock().await;
                    (core.dirty_pages > self.much_dirty_pages(), core.failure.is_some())
                };
                if has_failed {
                    return;
                }
                let is_wanted = is_much && !self.0.write_out.is_over.get();
                // A file that cannot be written out is left to whoever syncs it; the others go on.
                if !is_wanted || self.write_out_some(None).await == Ok(false) {
                    break;
                }
            }
        }
    }

    /// Lets [`Self::write_out_in_background`] end, behind what it is about.
    pub fn end_background(&self) {
        self.0.write_out.is_over.set(true);
        self.0.write_out.want();
    }

    /// From how many pages on they are much.
    pub(super) fn much_dirty_pages(&self) -> usize {
        self.0.options.dirty_bytes_max / BLOCK / 2
    }

    /// Whether so much is dirty that whoever writes this file writes out some. One that has little of it may write on for a
    /// while longer: what another makes much of is not its to pay.
    pub(super) fn is_over(&self, core: &Core<S>, number: u32) -> bool {
        let pages_max = self.0.options.dirty_bytes_max / BLOCK;
        let own = core.nodes.get(&number).map_or(0, Node::dirty_pages);
        let allowed = if own >= self.group_pages_within(GROUP_PAGES) { pages_max / 8 * 7 } else { pages_max };
        core.dirty_pages > allowed
    }

    /// Pages of the next group.
    fn group_pages(&self) -> usize {
        let is_unsynced = self.0.write_out.groups.get() >= GROUPS_UNSYNCED;
        self.group_pages_within(if is_unsynced { GROUP_PAGES_UNSYNCED } else { GROUP_PAGES })
    }

    fn group_pages_within(&self, pages_max: usize) -> usize {
        (self.0.options.dirty_bytes_max / BLOCK / 4).clamp(GROUP_PAGES_MIN, pages_max)
    }

    /// Writes out a group of pages: of the file that is written to, if that has as many, or of those that have most. Whether there
    /// were any that may be.
    ///
    /// # Errors
    ///
    /// Those of the file that is written to; of others, where none is.
    pub(super) async fn write_out_some(&self, written: Option<u32>) -> Result<bool, Errno> {
        let mut chosen = Vec::new();
        {
            let core = self.0.core.lock().await;
            let dirty = |number: &u32| core.nodes.get(number).map_or(0, Node::dirty_pages);
            let is_stuck = |number: &u32| core.nodes.get(number).is_some_and(|node| node.is_stuck);
            let has_many = |number: &u32| dirty(number) >= self.group_pages_within(GROUP_PAGES);
            match written.filter(|number| has_many(number) || is_stuck(number)) {
                Some(number) => chosen.push(number),
                None => {
                    let nodes = core.nodes.iter().filter(|(_, node)| !node.is_stuck);
                    let nodes = nodes.map(|(&number, node)| (node.dirty_pages(), number));
                    let mut nodes: Vec<_> = nodes.filter(|&(pages, _)| pages > 0).collect();
                    nodes.sort_unstable_by_key(|&(pages, _)| std::cmp::Reverse(pages));
                    let mut pages = 0;
                    let has_room = |&&(more, _): &&(usize, u32)| {
                        pages += more;
                        pages == more || pages <= SHARED_PAGES
                    };
                    chosen.extend(nodes.iter().take_while(has_room).map(|&(_, number)| number));
                }
            }
        }
        let synced = self.sync_each(chosen.iter().copied(), Part::Group).await;
        let failed = synced.iter().find(|(number, _)| written.is_none_or(|written| written == *number));
        failed.map_or(Ok(!chosen.is_empty()), |&(_, error)| Err(error))
    }

    /// Makes files durable, given how many pages of each are dirty: those that have few together, so that a commit carries
    /// many of them.
    ///
    /// # Errors
    ///
    /// The first one; the other files were made durable all the same, as far as they can be.
    pub(super) async fn sync_together(&self, mut files: &[(u32, usize)]) -> Result<(), Errno> {
        let mut outcome = Ok(());
        while !files.is_empty() {
            let mut pages = 0;
            let fits = |&&(_, more): &&(u32, usize)| {
                pages += more;
                pages == more || pages <= SHARED_PAGES
            };
            let together = files.iter().take_while(fits).count().min(SHARED_FILES);
            let (some, left) = files.split_at(together);
            files = left;
            let part = Part::All { is_data_only: false };
            let failed = self.sync_each(some.iter().map(|&(number, _)| number), part).await;
            outcome = outcome.and(failed.first().map_or(Ok(()), |&(_, error)| Err(error)));
        }
        outcome
    }

    /// Syncs a part of each of these files, side by side; those that failed.
    async fn sync_each(&self, files: impl Iterator<Item = u32>, part: Part) -> Vec<(u32, Errno)> {
        let failed = RefCell::new(Vec::new());
        let synced = files.map(async |number| {
            let synced = self.sync_if_there(number, part).await;
            if let Some(node) = self.0.core.lock().await.nodes.get_mut(&number) {
                node.is_stuck = synced.is_err();
            }
            if let Err(error) = synced {
                failed.borrow_mut().push((number, error));
            }
        });
        all(synced).await;
        failed.into_inner()
    }

    /// Makes a file durable, or a part of it.
    pub(super) async fn sync_file(&self, number: u32, part: Part) -> Result<(), Errno> {
        let lock = self.sync_lock(number).await?;
        let held = lock.lock().await;
        let is_still_it = {
            let core = self.look().await;
            core.nodes.get(&number).is_some_and(|node| Rc::ptr_eq(&node.sync, &lock))
        };
        if !is_still_it {
            // It was freed meanwhile: nobody has it open.
            return Ok(());
        }
        let synced = self.sync_held(number, part).await;
        drop(held);
        drop(lock);
        self.0.core.lock().await.tidy(number);
        synced
    }

    /// As [`Self::sync_file`], of a file that may be gone by now.
    pub(super) async fn sync_if_there(&self, number: u32, part: Part) -> Result<(), Errno> {
        match self.sync_file(number, part).await {
            Err(Errno::Stale | Errno::Invalid | Errno::IsFolder) => Ok(()),
            other => other,
        }
    }

    /// As [`Self::sync_file`], by whoever has the file's lock.
    pub(super) async fn sync_held(&self, number: u32, part: Part) -> Result<(), Errno> {
        if is_planted(Bug::SyncUnawaited) {
            return Ok(());
        }
        let Part::All { is_data_only } = part else { return Box::pin(self.sync_group(number)).await };
        // Those that it has now; what is written meanwhile may be without end.
        let mut dirty = self.look().await.nodes.get(&number).map_or(0, Node::dirty_pages);
        while dirty > self.group_pages() {
            dirty -= self.group_pages();
            Box::pin(self.sync_group(number)).await?;
        }
        let (request, placed) = self.request(number, part).await?;
        if request.pages.is_empty() && placed.is_empty() {
            if !is_data_only {
                Box::pin(self.settle_times(number)).await?;
            }
            return Box::pin(self.commit(None)).await;
        }
        match placed.is_empty() {
            true => self.commit(Some(request)).await,
            false => Box::pin(self.carry_out(request, placed)).await,
        }
    }

    async fn sync_group(&self, number: u32) -> Result<(), Errno> {
        let (request, placed) = self.request(number, Part::Group).await?;
        if request.pages.is_empty() && placed.is_empty() {
            return Ok(());
        }
        self.0.write_out.note_group();
        self.carry_out(request, placed).await
    }

    /// What is to be committed of a file, and which of its pages are placed before.
    async fn request(&self, number: u32, part: Part) -> Result<(Request, Vec<u64>), Errno> {
        let mut core = self.look().await;
        let inode = core.file(number).await?;
        let node = core.node(number, inode.size);
        let pages_max = match part {
            Part::All { .. } => usize::MAX,
            Part::Group => self.group_pages(),
        };
        let (mut indexes, mut bytes, mut has_torn) = (Vec::new(), 0, false);
        for (index, page) in node.first_dirty(pages_max) {
            indexes.push(index);
            if bytes <= self.0.options.small_max_bytes {
                bytes += page.ranges.bytes() as u64;
                has_torn |= page.ranges.iter().count() > RANGES_MAX;
            }
        }
        let is_part = indexes.len() < node.dirty_pages();
        let end = indexes.last().map_or(0, |last| (last + 1) * BLOCK_BYTES);
        let mut request = Request {
            number,
            size: if is_part { node.size.min(end) } else { node.size },
            is_data_only: matches!(part, Part::All { is_data_only: true }),
            is_part,
            is_in_background: matches!(part, Part::Group),
            ..Request::default()
        };
        if bytes > self.0.options.small_max_bytes || has_torn {
            return Ok((request, indexes));
        }
        // What maps them is needed by the commit: here it fails this file, there it would fail all.
        for &index in &indexes {
            core.map_one(&inode, index).await?;
        }
        let carried = |index| Carried { index, placed: None, is_in_place: false, page: None };
        request.pages = indexes.into_iter().map(carried).collect();
        Ok((request, Vec::new()))
    }

    /// Writes pages to their blocks, and commits what is asked for with them.
    async fn carry_out(&self, mut request: Request, indexes: Vec<u64>) -> Result<(), Errno> {
        if let Err(error) = self.write_groups(&mut request, &indexes).await {
            self.0.core.lock().await.unplace_all(&request.pages);
            return Err(error);
        }
        self.commit(Some(request)).await
    }

    async fn write_groups(&self, request: &mut Request, indexes: &[u64]) -> Result<(), Errno> {
        for group in indexes.chunks(self.group_pages()) {
            let first = request.pages.len();
            for part in group.chunks(TURN_PAGES) {
                let mut core = self.change().await?;
                let found = Self::place(&mut core, request.number, part).await;
                request.pages.extend(core.done(found)?);
                yield_once().await;
            }
            self.write_placed(&request.pages[first..]).await?;
        }
        Ok(())
    }

    /// Finds blocks for pages: for all of them, or for none.
    async fn place(core: &mut Core<S>, number: u32, indexes: &[u64]) -> Result<Vec<Carried>, Errno> {
        let (mut placed, mut run) = (Vec::with_capacity(indexes.len()), 0..0);
        let found = Self::place_each(core, number, indexes, &mut placed, &mut run).await;
        debug_assert!(run.is_empty() || found.is_err());
        match found {
            Ok(()) => Ok(placed),
            Err(error) => {
                core.unplace_all(&placed);
                core.unplace(run);
                Err(error)
            }
        }
    }

    async fn place_each(
        core: &mut Core<S>,
        number: u32,
        indexes: &[u64],
        placed: &mut Vec<Carried>,
        run: &mut Range<u32>,
    ) -> Result<(), Errno> {
        let inode = core.file(number).await?;
        let mut next_index = None;
        for (at, &index) in indexes.iter().enumerate() {
            let Some(page) = core.nodes.get_mut(&number).and_then(|node| node.snapshot(index)) else {
                continue;
            };
            let block = core.map_one(&inode, index).await?;
            if block != 0 {
                placed.push(Carried { index, placed: Some(block), is_in_place: true, page: Some(page) });
                continue;
            }
            if run.start == run.end {
                let goal = match next_index == Some(index) {
                    true => run.start,
                    false => core.goal_behind(number, &inode, index).await?,
                };
                let wanted = Self::unmapped_from(core, &inode, &indexes[at..]).await?;
                *run = core.place_run(goal, wanted).await?;
            }
            placed.push(Carried { index, placed: Some(run.start), is_in_place: false, page: Some(page) });
            run.start += 1;
            next_index = Some(index + 1);
        }
        Ok(())
    }

    /// How many of the first pages are not mapped.
    async fn unmapped_from(core: &mut Core<S>, inode: &Inode, indexes: &[u64]) -> Result<u32, Errno> {
        let mut count = 0;
        for &index in indexes {
            if core.map_one(inode, index).await? != 0 {
                break;
            }
            count += 1;
        }
        Ok(count.max(1))
    }

    /// Writes pages to their blocks, durably: fresh ones past what others wait for, those of the file where they are.
    async fn write_placed(&self, placed: &[Carried]) -> Result<(), Errno> {
        let fresh: Vec<(u32, &[u8])> = placed
            .iter()
            .filter(|carried| !carried.is_in_place)
            .filter_map(|carried| Some((carried.placed?, &carried.page.as_ref()?.bytes[..])))
            .collect();
        let mut failed = false;
        for run in fresh.chunk_by(|(block, _), (next, _)| block + 1 == *next) {
            let at = u64::from(run[0].0) * BLOCK_BYTES;
            let blocks: Vec<&[u8]> = run.iter().map(|(_, bytes)| *bytes).collect();
            failed |= match is_planted(Bug::DataUnflushed) {
                true => self.0.store.write(at, &blocks.concat()).await.is_err(),
                false => self.0.store.write_fresh(at, &blocks).await.is_err(),
            };
        }
        let mut written_bytes = fresh.len() as u64 * BLOCK_BYTES;
        match self.write_in_place(placed).await {
            Ok(bytes) => written_bytes += bytes,
            Err(_) => failed = true,
        }
        let mut activity = self.0.activity.get();
        activity.written_bytes += written_bytes;
        self.0.activity.set(activity);
        if failed {
            self.0.core.lock().await.fail("data could not be written");
            return Err(Errno::Io);
        }
        Ok(())
    }

    /// Writes pages over what a file has, and flushes that; how many bytes.
    async fn write_in_place(&self, placed: &[Carried]) -> Result<u64, Errno> {
        let mut flushed: Vec<Extent> = Vec::new();
        let mut pending: Vec<u8> = Vec::new();
        let (mut start, mut written, mut failed) = (0, 0, false);
        for Carried { placed, page, .. } in placed.iter().filter(|carried| carried.is_in_place) {
            let (Some(block), Some(page)) = (placed, page) else { continue };
            let at = u64::from(*block) * BLOCK_BYTES;
            match flushed.last_mut() {
                Some(last) if last.end() == at => last.len += BLOCK_BYTES,
                _ => flushed.push(Extent::new(at, BLOCK_BYTES)),
            }
            if !page.ranges.is_whole() {
                for range in page.ranges.iter() {
                    written += range.len() as u64;
                    let offset = at + range.start as u64;
                    failed |= self.0.store.write(offset, &page.bytes[range]).await.is_err();
                }
                continue;
            }
            if start + pending.len() as u64 != at || pending.len() >= WRITE_BYTES {
                failed |= !pending.is_empty() && self.0.store.write(start, &pending).await.is_err();
                pending.clear();
                start = at;
            }
            pending.extend_from_slice(&page.bytes[..]);
            written += BLOCK_BYTES;
        }
        failed |= !pending.is_empty() && self.0.store.write(start, &pending).await.is_err();
        if !flushed.is_empty() && !is_planted(Bug::DataUnflushed) {
            failed |= self.0.store.flush(&flushed).await.is_err();
        }
        if failed { Err(Errno::Io) } else { Ok(written) }
    }
}
