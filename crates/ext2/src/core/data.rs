//! Bytes of files that are not committed: kept as ranges of pages, their blocks taken when they are committed.
//!
//! 1. What is on the store of a file's size never covers data that is not committed.
//! 2. Room for a page is reserved before it is written to.
//! 3. A page that is written to while a commit carries it stays dirty with what was written since.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::Core;
use super::map::{MAPPING_BLOCKS, mapping_region};
use crate::error::Errno;
use crate::format::inode::{FLAG_APPEND, FLAG_IMMUTABLE, Inode, Timestamp};
use crate::format::{BLOCK, BLOCK_BYTES, BlockBytes, FILE_BYTES_MAX};
use crate::lock::Lock;
use crate::payload::{Payload, Piece};
use crate::planted::{Bug, is_planted};
use crate::store::Store;

/// Ranges of a page, in order, that do not touch.
#[derive(Debug, Clone, Default)]
pub(crate) struct ByteRanges(Vec<(u16, u16)>);

impl ByteRanges {
    fn insert(&mut self, start: usize, end: usize) {
        let (mut start, mut end) = (start as u16, end as u16);
        self.0.retain(|&(from, to)| {
            let touches = from <= end && start <= to;
            if touches {
                (start, end) = (start.min(from), end.max(to));
            }
            !touches
        });
        let at = self.0.partition_point(|&(from, _)| from < start);
        self.0.insert(at, (start, end));
    }

    fn clip(&mut self, len: usize) {
        self.0.retain_mut(|(from, to)| {
            *to = (*to).min(len as u16);
            *from < *to
        });
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        self.0.iter().map(|&(start, end)| usize::from(start)..usize::from(end))
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.0 == [(0, BLOCK as u16)]
    }

    pub(crate) fn end(&self) -> usize {
        self.0.last().map_or(0, |&(_, end)| usize::from(end))
    }

    pub(crate) fn bytes(&self) -> usize {
        self.iter().map(|range| range.len()).sum()
    }
}

/// A page of a file with bytes that are not committed.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    /// Zero outside of the ranges.
    pub(crate) bytes: Box<BlockBytes>,
    pub(crate) ranges: ByteRanges,
    /// Those of them that were written since the last commit that carries the page began.
    since: ByteRanges,
    /// Whether it is mapped to a block that holds its zeros only once the commit under way is done: a read takes all of it
    /// from here.
    pub(crate) is_ahead: Cell<bool>,
}

impl Page {
    fn new() -> Self {
        Self {
            bytes: Box::new([0; BLOCK]),
            ranges: ByteRanges::default(),
            since: ByteRanges::default(),
            is_ahead: Cell::default(),
        }
    }

    /// What of it a read does not take from the store.
    pub(crate) fn shown(&self) -> impl Iterator<Item = std::ops::Range<usize>> {
        let is_whole = self.is_ahead.get() && !is_planted(Bug::ReadsBehind);
        let whole = is_whole.then_some(0..BLOCK);
        let parts = self.ranges.iter().filter(move |_| !is_whole);
        whole.into_iter().chain(parts)
    }

    fn write(&mut self, at: usize, bytes: &[u8]) {
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.ranges.insert(at, at + bytes.len());
        self.since.insert(at, at + bytes.len());
    }

    /// With bytes in all of it, of which nothing is committed.
    fn whole(bytes: Box<BlockBytes>, is_ahead: bool) -> Self {
        let mut whole = ByteRanges::default();
        whole.insert(0, BLOCK);
        Self { bytes, ranges: whole.clone(), since: whole, is_ahead: Cell::new(is_ahead) }
    }

    fn clip(&mut self, len: usize) {
        self.bytes[len..].fill(0);
        self.ranges.clip(len);
        self.since.clip(len);
    }
}

#[derive(Debug)]
struct Slot {
    page: Rc<Page>,
    is_reserved: bool,
}

impl Slot {
    fn new(is_reserved: bool, at: usize, piece: Piece) -> Self {
        let page = match piece {
            Piece::Whole(bytes) => Page::whole(bytes, false),
            Piece::Part(bytes) => {
                let mut page = Page::new();
                page.write(at, &bytes);
                page
            }
        };
        Self { page: Rc::new(page), is_reserved }
    }

    /// Puts bytes of a write into the page, from byte `at` on.
    fn put(&mut self, at: usize, piece: Piece) {
        match piece {
            Piece::Whole(bytes) => self.page = Rc::new(Page::whole(bytes, self.page.is_ahead.get())),
            Piece::Part(bytes) => Rc::make_mut(&mut self.page).write(at, &bytes),
        }
    }
}

/// Room for a page.
#[derive(Debug, Clone, Copy)]
enum Room {
    /// The page is there.
    There,
    /// It is not: room was reserved for it, unless it is mapped.
    New { is_reserved: bool },
}

/// What is known of a file besides its inode.
#[derive(Debug)]
pub(crate) struct Node {
    /// Bytes of the file, those that are not committed counted.
    pub(crate) size: u64,
    slots: BTreeMap<u64, Slot>,
    reserved_pages: u64,
    /// Reserved pages by the mapping block that they may need.
    regions: BTreeMap<u64, u64>,
    /// When it was last written to, if that is not in the inode.
    pub(crate) written: Option<Timestamp>,
    /// Held while its data becomes durable, and while it is unmapped.
    pub(crate) sync: Rc<Lock<()>>,
    /// It is being made shorter: whoever writes waits for [`Self::sync`]. If nobody holds that, what is left of it could not be
    /// cut off, and would come back if it were made longer.
    pub(crate) is_unmapping: bool,
    /// It could not be written out in the background: whoever syncs it hears why, and nobody else tries.
    pub(crate) is_stuck: bool,
}

impl Node {
    pub(crate) fn new(size: u64) -> Self {
        Self {
            size,
            slots: BTreeMap::new(),
            reserved_pages: 0,
            regions: BTreeMap::new(),
            written: None,
            sync: Rc::default(),
            is_unmapping: false,
            is_stuck: false,
        }
    }

    /// Whether it says nothing that the inode does not.
    pub(crate) fn is_idle(&self) -> bool {
        let says_nothing = self.slots.is_empty() && self.written.is_none() && !self.is_unmapping;
        says_nothing && Rc::strong_count(&self.sync) == 1
    }

    /// Pages that are not committed.
    pub(crate) fn dirty_pages(&self) -> usize {
        self.slots.len()
    }

    /// The first pages that are not committed, with their numbers.
    pub(crate) fn first_dirty(&self, count: usize) -> impl Iterator<Item = (u64, &Rc<Page>)> {
        self.slots.iter().take(count).map(|(&index, slot)| (index, &slot.page))
    }

    /// A page that is not committed.
    pub(crate) fn page(&self, index: u64) -> Option<&Rc<Page>> {
        self.slots.get(&index).map(|slot| &slot.page)
    }

    /// The first page from `index` on that is not committed.
    pub(crate) fn next_dirty(&self, index: u64) -> Option<u64> {
        self.slots.range(index..).next().map(|(&index, _)| index)
    }

    /// Pages with room reserved.
    pub(crate) fn reserved_pages(&self) -> u64 {
        self.reserved_pages
    }

    /// A page as a commit carries it: what is written from now on counts as since.
    pub(crate) fn snapshot(&mut self, index: u64) -> Option<Rc<Page>> {
        let slot = self.slots.get_mut(&index)?;
        Rc::make_mut(&mut slot.page).since = ByteRanges::default();
        Some(Rc::clone(&slot.page))
    }
}

/// Pages that one turn of a write takes at most: whoever waits for a sync waits for no longer.
const TURN_PAGES: u64 = 16;

impl<S: Store> Core<S> {
    /// Writes as much as one turn may; how much that was.
    pub(crate) async fn write_some(
        &mut self,
        number: u32,
        payload: &mut Payload,
        is_privileged: bool,
    ) -> Result<usize, Errno> {
        let offset = payload.offset();
        let mut inode = self.file(number).await?;
        if inode.flags & FLAG_IMMUTABLE != 0 {
            return Err(Errno::NotPermitted);
        }
        let size = self.node(number, inode.size).size;
        if inode.flags & FLAG_APPEND != 0 && offset < size {
            return Err(Errno::NotPermitted);
        }
        if offset >= FILE_BYTES_MAX {
            return Err(Errno::FileTooLarge);
        }
        if payload.is_empty() {
            return Ok(0);
        }
        if offset > size {
            Box::pin(self.zero_tail(number, &inode, offset, is_privileged)).await?;
        }
        let now = self.now();
        let mut done = 0;
        while let Some(piece) = payload.first()
            && done < TURN_PAGES * BLOCK_BYTES
            && payload.offset() < FILE_BYTES_MAX
        {
            let (at, len) = (payload.offset(), piece.len() as u64);
            let has_room = match self.make_room(number, &inode, at / BLOCK_BYTES, is_privileged).await {
                Ok(has_room) => has_room,
                Err(Errno::NoSpace) if done > 0 => break,
                Err(error) => return Err(error),
            };
            if let Some(piece) = payload.take_first() {
                self.put_piece(number, &inode, at, piece, has_room);
            }
            let node = self.node(number, inode.size);
            node.size = node.size.max(at + len);
            node.written = Some(now);
            done += len;
        }
        if is_planted(Bug::SizeEarly) {
            inode.size = self.node(number, inode.size).size;
            self.put_inode(number, &inode);
        }
        Ok(done as usize)
    }

    /// Bytes behind the end of a file, in its last page, were never those of the file: they are zeros before it grows to
    /// `end`.
    pub(crate) async fn zero_tail(
        &mut self,
        number: u32,
        inode: &Inode,
        end: u64,
        is_privileged: bool,
    ) -> Result<(), Errno> {
        let size = self.node(number, inode.size).size;
        let (index, in_page) = (size / BLOCK_BYTES, (size % BLOCK_BYTES) as usize);
        if in_page == 0 || is_planted(Bug::TailKept) {
            return Ok(());
        }
        let stop = (BLOCK as u64).min(in_page as u64 + (end - size)) as usize;
        self.zero_in_page(number, inode, index, in_page..stop, is_privileged).await
    }

    /// Zeroes a part of a page, where anything is there.
    pub(crate) async fn zero_in_page(
        &mut self,
        number: u32,
        inode: &Inode,
        index: u64,
        range: std::ops::Range<usize>,
        is_privileged: bool,
    ) -> Result<(), Errno> {
        let has_page = self.node(number, inode.size).page(index).is_some();
        if range.is_empty() || !has_page && self.map_one(inode, index).await? == 0 {
            return Ok(());
        }
        let has_room = self.make_room(number, inode, index, is_privileged).await?;
        let zeros = Piece::Part(vec![0; range.len()]);
        self.put_piece(number, inode, index * BLOCK_BYTES + range.start as u64, zeros, has_room);
        Ok(())
    }

    /// Puts bytes of a page into it, for which there is room.
    fn put_piece(&mut self, number: u32, inode: &Inode, offset: u64, piece: Piece, has_room: Room) {
        let (index, at) = (offset / BLOCK_BYTES, (offset % BLOCK_BYTES) as usize);
        let node = self.node(number, inode.size);
        match has_room {
            Room::New { is_reserved } => {
                node.slots.insert(index, Slot::new(is_reserved, at, piece));
                self.dirty_pages += 1;
            }
            Room::There => {
                if let Some(slot) = node.slots.get_mut(&index) {
                    slot.put(at, piece);
                }
            }
        }
    }

    /// Sees to it that there is room for a page.
    async fn make_room(
        &mut self,
        number: u32,
        inode: &Inode,
        index: u64,
        is_privileged: bool,
    ) -> Result<Room, Errno> {
        if self.node(number, inode.size).page(index).is_some() {
            return Ok(Room::There);
        }
        let is_reserved = self.map_one(inode, index).await? == 0;
        if is_reserved {
            self.reserve(number, inode, index, is_privileged)?;
        }
        Ok(Room::New { is_reserved })
    }

    fn reserve(&mut self, number: u32, inode: &Inode, index: u64, is_privileged: bool) -> Result<(), Errno> {
        let region = mapping_region(index);
        let node = self.node(number, inode.size);
        let is_new = region.is_some_and(|region| !node.regions.contains_key(&region));
        let needed = 1 + if is_new { MAPPING_BLOCKS } else { 0 };
        if self.available_blocks(is_privileged) < needed {
            return Err(Errno::NoSpace);
        }
        self.node(number, inode.size).reserved_pages += 1;
        if let Some(region) = region {
            *self.node(number, inode.size).regions.entry(region).or_default() += 1;
        }
        self.reserved_blocks += needed;
        Ok(())
    }

    /// The room for a page is not kept any more: it was taken, or is not needed.
    pub(crate) fn release(&mut self, number: u32, index: u64) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let Some(slot) = node.slots.get_mut(&index) else { return };
        if !std::mem::take(&mut slot.is_reserved) {
            return;
        }
        node.reserved_pages -= 1;
        let mut freed = 1;
        if let Some(region) = mapping_region(index)
            && let Some(count) = node.regions.get_mut(&region)
        {
            *count -= 1;
            if *count == 0 {
                node.regions.remove(&region);
                freed += MAPPING_BLOCKS;
            }
        }
        self.reserved_blocks = self.reserved_blocks.saturating_sub(freed);
    }

    fn drop_page(&mut self, number: u32, index: u64) {
        self.release(number, index);
        if let Some(node) = self.nodes.get_mut(&number)
            && node.slots.remove(&index).is_some()
        {
            self.dirty_pages -= 1;
        }
    }

    /// What a commit carried of a page is durable.
    pub(crate) fn page_carried(&mut self, number: u32, index: u64, carried: &Rc<Page>) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        let Some(slot) = node.slots.get_mut(&index) else { return };
        if Rc::ptr_eq(&slot.page, carried) || is_planted(Bug::RewriteLost) {
            self.drop_page(number, index);
            return;
        }
        // Bytes outside of the ranges are zero in a page.
        let page = Rc::make_mut(&mut slot.page);
        let since = std::mem::take(&mut page.since);
        let mut kept = Page::new();
        for range in since.iter() {
            kept.write(range.start, &page.bytes[range.clone()]);
        }
        *page = kept;
    }

    /// Drops what is not committed of pages `from..to`.
    pub(crate) fn drop_pages(&mut self, number: u32, from: u64, to: u64) {
        let Some(node) = self.nodes.get(&number) else { return };
        let gone: Vec<u64> = node.slots.range(from..to.max(from)).map(|(&index, _)| index).collect();
        for index in gone {
            self.drop_page(number, index);
        }
    }

    /// Makes a file longer; what is between is zeros.
    pub(crate) async fn extend(&mut self, number: u32, inode: &mut Inode, size: u64) -> Result<(), Errno> {
        self.zero_tail(number, inode, size, true).await?;
        let now = self.now();
        let node = self.node(number, inode.size);
        node.size = size;
        node.written = Some(now);
        if node.dirty_pages() == 0 {
            self.settle(number, inode);
        }
        Ok(())
    }

    /// Makes a file shorter in memory and in its inode; what it maps behind that is still to be unmapped.
    pub(crate) fn shorten(&mut self, number: u32, inode: &mut Inode, size: u64) {
        self.drop_pages(number, size.div_ceil(BLOCK_BYTES), u64::MAX);
        let now = self.now();
        let node = self.node(number, inode.size);
        node.size = size;
        let in_page = (size % BLOCK_BYTES) as usize;
        if in_page > 0
            && let Some(slot) = node.slots.get_mut(&(size / BLOCK_BYTES))
        {
            Rc::make_mut(&mut slot.page).clip(in_page);
        }
        inode.size = inode.size.min(size);
        (inode.mtime, inode.ctime) = (now, now);
        if node.dirty_pages() == 0 {
            inode.size = size;
            node.written = None;
        } else {
            node.written = Some(now);
        }
        self.put_inode(number, inode);
    }

    /// Size and times of a file with nothing dirty go to its inode.
    pub(crate) fn settle(&mut self, number: u32, inode: &mut Inode) {
        let Some(node) = self.nodes.get_mut(&number) else { return };
        inode.size = node.size;
        if let Some(written) = node.written.take() {
            (inode.mtime, inode.ctime) = (written, written.max(inode.ctime));
        }
        self.put_inode(number, inode);
    }
}
