//! Reading, writing, and making durable.

use std::ops::Range;
use std::rc::Rc;

use super::FileSystem;
use super::write_out::Part;
use crate::attributes::Caller;
use crate::commit::{Carried, Request};
use crate::core::{Core, INDEX_END, Node, Page};
use crate::error::Errno;
use crate::format::inode::{FLAG_IMMUTABLE, Inode, Kind};
use crate::format::{BLOCK_BYTES, FILE_BYTES_MAX, POINTERS};
use crate::lock::yield_once;
use crate::payload::Payload;
use crate::planted::{Bug, is_planted};
use crate::store::{Extent, Store};

/// What is looked for in a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that has room: `SEEK_DATA`.
    Data,
    /// The next one that has none, or the end: `SEEK_HOLE`.
    Hole,
}

/// Pages that are given blocks at once.
const EMPTY_PAGES: u64 = 1024;

/// Times that a read begins again because blocks were unmapped meanwhile, before it holds everything up.
const READS_MAX: usize = 8;

/// Files that are looked at for something to commit before others have their turn.
const TURN_NODES: usize = 256;

/// What becomes of an attempt to find blocks.
enum Place {
    /// They are found.
    Found(Request),
    /// The file is as long as they need it: now they can be.
    Extended,
    /// What is dirty is to be made durable before.
    BehindSync,
}

/// Blocks that pages may take, with what maps them.
fn room_for(pages: &[u64]) -> u64 {
    pages.len() as u64 + 8
}

/// Where bytes of a read come from.
struct Piece {
    range: Range<usize>,
    /// On the store; zeros if nowhere.
    offset: Option<u64>,
}

/// What a read is made of.
struct Plan {
    len: usize,
    pieces: Vec<Piece>,
    /// Pages to lay over: where in the read the page begins, perhaps before it.
    pages: Vec<(i64, Rc<Page>)>,
}

impl<S: Store> FileSystem<S> {
    /// Reads into `into` from `offset`; how many bytes there were before the end.
    ///
    /// # Errors
    ///
    /// [`Errno::IsFolder`], [`Errno::Invalid`] of what is no file.
    pub async fn read(&self, number: u32, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        for attempt in 0.. {
            let mut core = self.look().await;
            let plan = Self::plan(&mut core, number, offset, into.len()).await?;
            let unmaps = self.0.unmaps.get();
            let held = (attempt >= READS_MAX).then_some(core);
            for piece in &plan.pieces {
                let part = &mut into[piece.range.clone()];
                match piece.offset {
                    Some(at) => self.0.store.read(at, part).await.map_err(|_| Errno::Io)?,
                    None => part.fill(0),
                }
            }
            if held.is_none()
                && self.0.unmaps.get() != unmaps
                && self.look().await.unmapped.may_have(number, unmaps)
                && !is_planted(Bug::UnmapUnseen)
            {
                continue;
            }
            for (start, page) in &plan.pages {
                for range in page.shown() {
                    let from = (start + range.start as i64).max(0);
                    let to = (start + range.end as i64).min(plan.len as i64);
                    if from < to {
                        let in_page = (from - start) as usize..(to - start) as usize;
                        into[from as usize..to as usize].copy_from_slice(&page.bytes[in_page]);
                    }
                }
            }
            return Ok(plan.len);
        }
        unreachable!("an attempt that holds the state is the last")
    }

    async fn plan(core: &mut Core<S>, number: u32, offset: u64, len: usize) -> Result<Plan, Errno> {
        let inode = core.file(number).await?;
        let size = core.nodes.get(&number).map_or(inode.size, |node| node.size);
        let len = (len as u64).min(size.saturating_sub(offset)) as usize;
        let mut plan = Plan { len, pieces: Vec::new(), pages: Vec::new() };
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let in_block = at % BLOCK_BYTES;
            let wanted = (in_block + (len - done) as u64).div_ceil(BLOCK_BYTES);
            let (block, run) = core.map_get(&inode, at / BLOCK_BYTES, wanted).await?;
            let part = (run.saturating_mul(BLOCK_BYTES) - in_block).min((len - done) as u64) as usize;
            let offset = (block != 0).then(|| u64::from(block) * BLOCK_BYTES + in_block);
            plan.pieces.push(Piece { range: done..done + part, offset });
            done += part;
        }
        if let Some(node) = core.nodes.get(&number)
            && len > 0
        {
            let end = (offset + len as u64).div_ceil(BLOCK_BYTES);
            let mut next = node.next_dirty(offset / BLOCK_BYTES);
            while let Some(index) = next.filter(|&index| index < end) {
                let page = node.page(index).map(Rc::clone);
                plan.pages.extend(page.map(|page| ((index * BLOCK_BYTES) as i64 - offset as i64, page)));
                next = node.next_dirty(index + 1);
            }
        }
        Ok(plan)
    }

    /// Writes bytes, which [`Self::fsync`] makes durable; how many found room. No block is taken for them yet, but one is
    /// kept for each.
    ///
    /// # Errors
    ///
    /// [`Errno::NoSpace`] where none did, [`Errno::FileTooLarge`].
    pub async fn write(
        &self,
        number: u32,
        offset: u64,
        bytes: &[u8],
        caller: &Caller,
    ) -> Result<usize, Errno> {
        self.write_payload(number, Payload::new(offset, bytes), caller).await
    }

    /// As [`Self::write`], of bytes that were divided into pages before.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub async fn write_payload(
        &self,
        number: u32,
        mut payload: Payload,
        caller: &Caller,
    ) -> Result<usize, Errno> {
        payload.offset().checked_add(payload.len()).ok_or(Errno::FileTooLarge)?;
        let (mut done, mut has_made_room, mut has_made_way) = (0, false, false);
        while !payload.is_empty() {
            let mut core = self.change().await?;
            if let Some(node) = core.nodes.get(&number).filter(|node| node.is_unmapping) {
                let lock = Rc::clone(&node.sync);
                core.done(Ok(()))?;
                let _nobody_unmaps = lock.lock().await;
                let is_left = |node: &Node| node.is_unmapping;
                if self.look().await.nodes.get(&number).is_some_and(is_left) {
                    // What could not be cut off would come back.
                    return if done > 0 { Ok(done) } else { Err(Errno::Io) };
                }
                continue;
            }
            if !has_made_way && self.is_over(&core, number) {
                core.done(Ok(()))?;
                has_made_way = true;
                // A group is no less than a turn of a write takes.
                match Box::pin(self.write_out_some(Some(number))).await {
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => break,
                    Ok(_) => continue,
                }
            }
            has_made_way = false;
            let written = core.write_some(number, &mut payload, caller.is_privileged).await;
            let is_much = core.dirty_pages > self.much_dirty_pages();
            match core.done(written) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::NoSpace) if !has_made_room && Box::pin(self.make_room()).await? => {
                    has_made_room = true;
                    continue;
                }
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
            if is_much {
                self.0.write_out.want();
            }
            if !payload.is_empty() {
                yield_once().await;
            }
        }
        Ok(done)
    }

    /// Makes a file or a folder durable: its data, its inode, and what its names depend on; nothing of another file's data.
    ///
    /// # Errors
    ///
    /// [`Errno::Io`] where the store failed; nothing is durable any more from then on.
    pub async fn fsync(&self, number: u32) -> Result<(), Errno> {
        self.sync(number, false).await
    }

    /// As [`Self::fsync`], but for the times of a file whose bytes alone changed.
    ///
    /// # Errors
    ///
    /// As [`Self::fsync`].
    pub async fn fdatasync(&self, number: u32) -> Result<(), Errno> {
        self.sync(number, true).await
    }

    async fn sync(&self, number: u32, is_data_only: bool) -> Result<(), Errno> {
        if self.0.options.is_read_only {
            return Ok(());
        }
        self.0.write_out.note_sync();
        let kind = {
            let mut core = self.look().await;
            core.inode(number).await?.kind()
        };
        match kind {
            Some(Kind::File) => self.sync_file(number, Part::All { is_data_only }).await,
            _ => self.commit(None).await,
        }
    }

    /// Makes everything durable.
    ///
    /// # Errors
    ///
    /// As [`Self::fsync`].
    pub async fn sync_all(&self) -> Result<(), Errno> {
        if self.0.options.is_read_only {
            return Ok(());
        }
        let files = self.dirty_files().await;
        let synced = self.sync_together(&files).await;
        // What became of one file keeps nothing from the others.
        self.commit_and_give_back().await?;
        synced
    }

    /// Files of which data or times are not committed, each with how many of its pages are dirty. Others have their turn in
    /// between: there may be tens of thousands.
    async fn dirty_files(&self) -> Vec<(u32, usize)> {
        let (mut files, mut next) = (Vec::new(), Some(0));
        while let Some(first) = next {
            {
                let mut core = self.0.core.lock().await;
                let (mut idle, mut looked_at) = (Vec::new(), 0);
                for (&number, node) in core.nodes.range(first..).take(TURN_NODES) {
                    match node.dirty_pages() > 0 || node.written.is_some() {
                        true => files.push((number, node.dirty_pages())),
                        false if node.is_idle() => idle.push(number),
                        false => {}
                    }
                    (next, looked_at) = (number.checked_add(1), looked_at + 1);
                }
                if looked_at < TURN_NODES {
                    next = None;
                }
                for number in idle {
                    core.nodes.remove(&number);
                }
            }
            yield_once().await;
        }
        files
    }

    /// Makes everything durable, at the end: nobody uses a file any more. All lookups and openings are taken back, and files
    /// without a name are freed, as the front may have been told of the end before it took back the last ones.
    ///
    /// # Errors
    ///
    /// As [`Self::fsync`].
    pub async fn unmount(&self) -> Result<(), Errno> {
        let orphans = {
            let mut core = self.0.core.lock().await;
            core.known.clear();
            core.orphans.list()
        };
        if !self.0.options.is_read_only {
            self.end_orphans(orphans).await;
        }
        self.sync_all().await
    }

    /// Gives a range of a file blocks, zeroed where there were none; makes the file longer if `extends`.
    ///
    /// # Errors
    ///
    /// [`Errno::NoSpace`], [`Errno::FileTooLarge`], [`Errno::Invalid`] of an empty range; [`Errno::NotSupported`] of blocks
    /// behind the end of the file, which ext2 cannot have.
    pub async fn fallocate(
        &self,
        number: u32,
        offset: u64,
        len: u64,
        extends: bool,
        caller: &Caller,
    ) -> Result<(), Errno> {
        let end = offset.checked_add(len).filter(|end| *end > offset).ok_or(Errno::Invalid)?;
        if end > FILE_BYTES_MAX {
            return Err(Errno::FileTooLarge);
        }
        let allocate = async || self.fallocate_held(number, (offset, end), extends, caller).await;
        self.with_sync_lock(number, allocate).await
    }

    async fn fallocate_held(
        &self,
        number: u32,
        (offset, end): (u64, u64),
        extends: bool,
        caller: &Caller,
    ) -> Result<(), Errno> {
        if !extends {
            let mut core = self.look().await;
            let inode = core.file(number).await?;
            let size = core.nodes.get(&number).map_or(inode.size, |node| node.size);
            if end > size.next_multiple_of(BLOCK_BYTES) {
                return Err(Errno::NotSupported);
            }
        }
        let mut index = offset / BLOCK_BYTES;
        while index < end.div_ceil(BLOCK_BYTES) {
            let stop = end.div_ceil(BLOCK_BYTES).min(index + EMPTY_PAGES);
            let part = (index..stop, end.min(stop * BLOCK_BYTES));
            let place = async || self.place_and_extend(number, part.clone(), extends, caller).await;
            let request = self.with_room(place).await?;
            index = stop;
            let mut ranges: Vec<Extent> = Vec::new();
            for block in request.pages.iter().filter_map(|carried| carried.placed) {
                let at = u64::from(block) * BLOCK_BYTES;
                match ranges.last_mut() {
                    Some(last) if last.end() == at => last.len += BLOCK_BYTES,
                    _ => ranges.push(Extent::new(at, BLOCK_BYTES)),
                }
            }
            let mut failed = false;
            for range in &ranges {
                failed |= self.0.store.zero(*range).await.is_err();
            }
            failed |= self.0.store.flush(&ranges).await.is_err();
            if failed {
                self.0.core.lock().await.fail("zeros could not be written");
                return Err(Errno::Io);
            }
            self.commit(Some(request)).await?;
        }
        Ok(())
    }

    /// Finds blocks for what of a range of a file has none, and makes it as long as `end` first, if it is shorter and that is wanted:
    /// not where there is no room. Blocks need a size on the store that covers them, which must not cover data that is not
    /// committed: that is committed before.
    async fn place_and_extend(
        &self,
        number: u32,
        (range, end): (Range<u64>, u64),
        extends: bool,
        caller: &Caller,
    ) -> Result<Request, Errno> {
        loop {
            let mut core = self.change().await?;
            let placed = async {
                let mut inode = core.file(number).await?;
                let node = core.node(number, inode.size);
                let size = node.size;
                if !extends && end > size.next_multiple_of(BLOCK_BYTES) {
                    // It was made shorter meanwhile.
                    return Err(Errno::NotSupported);
                }
                if node.is_unmapping {
                    return Err(Errno::Io);
                }
                if end > inode.size && node.dirty_pages() > 0 {
                    return Ok(Place::BehindSync);
                }
                let wanted = Self::empty_in(&mut core, number, &inode, range.clone()).await?;
                if core.available_blocks(caller.is_privileged) < room_for(&wanted) {
                    return Err(Errno::NoSpace);
                }
                if extends && end > size {
                    // What was behind the end in its page may have to be zeroed.
                    core.extend(number, &mut inode, end).await?;
                    // An operation of its own: where the next one fails, it has changed nothing.
                    return Ok(Place::Extended);
                }
                Ok(Place::Found(Self::place_empty(&mut core, number, &inode, &wanted).await?))
            }
            .await;
            match core.done(placed)? {
                Place::Found(request) => return Ok(request),
                Place::Extended => {}
                Place::BehindSync => self.sync_held(number, Part::All { is_data_only: false }).await?,
            }
        }
    }

    /// What of a range of a file is neither mapped nor dirty.
    async fn empty_in(
        core: &mut Core<S>,
        number: u32,
        inode: &Inode,
        range: Range<u64>,
    ) -> Result<Vec<u64>, Errno> {
        if inode.flags & FLAG_IMMUTABLE != 0 {
            return Err(Errno::NotPermitted);
        }
        let mut empty = Vec::new();
        let mut index = range.start;
        while index < range.end {
            let (block, run) = core.map_get(inode, index, range.end - index).await?;
            let stop = index.saturating_add(run).min(range.end);
            if block == 0 {
                let node = core.node(number, inode.size);
                empty.extend((index..stop).filter(|&index| node.page(index).is_none()));
            }
            index = stop;
        }
        Ok(empty)
    }

    /// Finds blocks for pages of a file that have none, for which there is room.
    async fn place_empty(
        core: &mut Core<S>,
        number: u32,
        inode: &Inode,
        wanted: &[u64],
    ) -> Result<Request, Errno> {
        let (mut pages, mut run) = (Vec::with_capacity(wanted.len()), 0..0);
        for (at, &index) in wanted.iter().enumerate() {
            if run.is_empty() {
                let found = async {
                    let goal = core.goal_behind(number, inode, index).await?;
                    core.place_run(goal, (wanted.len() - at) as u32).await
                };
                run = match found.await {
                    Ok(run) => run,
                    Err(error) => {
                        core.unplace_all(&pages);
                        return Err(error);
                    }
                };
            }
            pages.push(Carried { index, placed: Some(run.start), is_in_place: false, page: None });
            run.start += 1;
        }
        let reserved = room_for(wanted);
        core.reserved_blocks += reserved;
        Ok(Request { number, pages, size: inode.size, reserved, ..Request::default() })
    }

    /// The first place from `offset` on that is data, or a hole.
    ///
    /// # Errors
    ///
    /// [`Errno::NothingThere`] behind the end, or where no data is left.
    pub async fn seek(&self, number: u32, offset: u64, wanted: Seek) -> Result<u64, Errno> {
        let mut at = offset;
        loop {
            let mut core = self.look().await;
            let inode = core.file(number).await?;
            let size = core.nodes.get(&number).map_or(inode.size, |node| node.size);
            if at >= size {
                return match wanted {
                    Seek::Hole if offset < size => Ok(size),
                    _ => Err(Errno::NothingThere),
                };
            }
            let loads = core.loads;
            for _ in 0..1024 {
                if core.has_read_much(loads) {
                    break;
                }
                let index = at / BLOCK_BYTES;
                if at >= size || index >= INDEX_END {
                    break;
                }
                let (block, run) = core.map_get(&inode, index, POINTERS).await?;
                let dirty = core.nodes.get(&number).and_then(|node| node.next_dirty(index));
                let is_data = block != 0 || dirty == Some(index);
                if is_data == (wanted == Seek::Data) {
                    return Ok(at);
                }
                let run = match (block, dirty) {
                    (0, Some(dirty)) if dirty > index => run.min(dirty - index),
                    (0, Some(_)) => 1,
                    _ => run,
                };
                at = index.saturating_add(run).saturating_mul(BLOCK_BYTES);
            }
        }
    }
}
