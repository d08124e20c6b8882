//! Free space: bitmaps of blocks and inodes, their counts, and what is kept free.
//!
//! 1. A block whose freeing is not durable is not taken.
//! 2. A block that data is being written to is free in its bitmap until the data is mapped.
//! 3. Data that is not committed has its room reserved, mapping blocks included.

use std::ops::Range;

use super::Core;
use crate::commit::Carried;
use crate::error::Errno;
use crate::format::group::{self, Group};
use crate::format::inode::Inode;
use crate::format::superblock::Counts;
use crate::format::{BLOCK, BLOCK_BYTES, BlockBytes};
use crate::planted::{Bug, is_planted};
use crate::store::Store;

/// Blocks that an operation on names may take at most.
pub(crate) const OPERATION_BLOCKS: u64 = 16;

/// The first clear bit in `range`; `range.end` where there is none.
fn first_clear(bitmap: &BlockBytes, range: Range<u32>) -> u32 {
    let mut at = range.start;
    while at < range.end {
        let word_at = at as usize / 64 * 8;
        let word = u64::from_le_bytes(bitmap[word_at..word_at + 8].try_into().expect("8 bytes"));
        let rest = !word >> (at % 64);
        if rest != 0 {
            return (at + rest.trailing_zeros()).min(range.end);
        }
        at = (at / 64 + 1) * 64;
    }
    range.end
}

fn is_set(bitmap: &BlockBytes, bit: u32) -> bool {
    bitmap[bit as usize / 8] & 1 << (bit % 8) != 0
}

fn flip(bitmap: &mut BlockBytes, range: Range<u32>) {
    for bit in range {
        bitmap[bit as usize / 8] ^= 1 << (bit % 8);
    }
}

impl<S: Store> Core<S> {
    pub(crate) fn free_blocks(&self) -> u64 {
        u64::from(Counts::free_blocks(self.cache.get(0)))
    }

    pub(crate) fn free_inodes(&self) -> u32 {
        Counts::free_inodes(self.cache.get(0))
    }

    /// Blocks that can be taken now by whoever may take the reserved ones, or may not.
    pub(crate) fn available_blocks(&mut self, is_privileged: bool) -> u64 {
        let quarantined = self.quarantined_blocks();
        let kept = if is_privileged { 0 } else { u64::from(self.geometry.reserved_blocks) };
        let reserved = if is_planted(Bug::Unreserved) { 0 } else { self.reserved_blocks };
        self.free_blocks().saturating_sub(reserved + quarantined + kept + OPERATION_BLOCKS)
    }

    /// Free blocks that can be taken only after a commit. Those that data is being written to are counted where room is
    /// reserved.
    fn quarantined_blocks(&self) -> u64 {
        self.held.len() - self.placed_blocks
    }

    /// Whether an operation on names finds room.
    pub(crate) fn check_room(&mut self, is_privileged: bool) -> Result<(), Errno> {
        match self.available_blocks(is_privileged) > OPERATION_BLOCKS {
            true => Ok(()),
            false => Err(Errno::NoSpace),
        }
    }

    /// Whether a block can be one of a file: not one that is fixed.
    pub(crate) fn is_data_block(&self, block: u32) -> bool {
        if block == 0 || block >= self.geometry.blocks {
            return false;
        }
        let group = block / self.geometry.blocks_per_group;
        let Group { block_bitmap, inode_bitmap, inode_table, .. } = self.groups[group as usize];
        let in_group = block - self.geometry.group_start(group);
        let table = inode_table..inode_table + self.geometry.inode_table_blocks();
        in_group >= self.geometry.group_head_blocks(group)
            && block != block_bitmap
            && block != inode_bitmap
            && !table.contains(&block)
    }

    fn store_group(&mut self, number: u32) {
        let (block, at) = group::place(number);
        let group = self.groups[number as usize];
        group.encode(&mut self.cache.get_mut(block)[at..at + group::BYTES]);
    }

    fn count_blocks(&mut self, number: u32, taken: i64) {
        let group = &mut self.groups[number as usize];
        group.free_blocks = (i64::from(group.free_blocks) - taken).clamp(0, i64::from(u16::MAX)) as u16;
        self.store_group(number);
        if !is_planted(Bug::CountsLate) || taken > 0 {
            let block = self.cache.get_mut(0);
            let free = (i64::from(Counts::free_blocks(block)) - taken).clamp(0, i64::from(u32::MAX));
            Counts::set_free_blocks(block, free as u32);
        }
    }

    /// A run of up to `wanted` free blocks, near `goal`; its bitmap is loaded.
    async fn find_run(&mut self, goal: u32, wanted: u32) -> Result<Range<u32>, Errno> {
        let geometry = self.geometry.clone();
        let groups = geometry.groups();
        let goal = if goal < geometry.blocks { goal } else { 0 };
        let first = goal / geometry.blocks_per_group;
        // The group of the goal comes twice: from the goal on, and at last whole.
        for step in 0..=groups {
            let number = (first + step) % groups;
            let Group { free_blocks, block_bitmap, .. } = self.groups[number as usize];
            if free_blocks == 0 {
                continue;
            }
            self.load(block_bitmap).await?;
            let start = geometry.group_start(number);
            let end = geometry.group_blocks(number);
            let mut at = if step == 0 { goal - start } else { 0 };
            loop {
                let bitmap = self.cache.get(block_bitmap);
                at = first_clear(bitmap, at..end);
                if at == end {
                    break;
                }
                let held = self.held.next_run(start + at);
                if let Some(held) = held.clone().filter(|held| held.contains(&(start + at))) {
                    at = (held.end - start).min(end);
                    continue;
                }
                let bound =
                    held.map_or(end, |held| (held.start - start).min(end)).min(at.saturating_add(wanted));
                let bitmap = self.cache.get(block_bitmap);
                let len = (at..bound).take_while(|&bit| !is_set(bitmap, bit)).count() as u32;
                if !(at..at + len).all(|bit| self.is_data_block(start + bit)) {
                    return Err(Errno::Damaged);
                }
                return Ok(start + at..start + at + len);
            }
        }
        Err(Errno::NoSpace)
    }

    /// Takes a block.
    pub(crate) async fn take_block(&mut self, goal: u32) -> Result<u32, Errno> {
        let run = self.find_run(goal, 1).await?;
        self.take_run(run.clone());
        Ok(run.start)
    }

    /// Holds a run of up to `wanted` blocks for data that is written before it is mapped.
    pub(crate) async fn place_run(&mut self, goal: u32, wanted: u32) -> Result<Range<u32>, Errno> {
        let run = self.find_run(goal, wanted).await?;
        self.held.insert(run.clone());
        self.placed_blocks += u64::from(run.end - run.start);
        Ok(run)
    }

    /// Takes blocks that were placed.
    pub(crate) async fn take_placed(&mut self, run: Range<u32>) -> Result<(), Errno> {
        let mut at = run.start;
        while at < run.end {
            let number = at / self.geometry.blocks_per_group;
            let end = run.end.min(self.geometry.group_start(number) + self.geometry.group_blocks(number));
            self.load(self.groups[number as usize].block_bitmap).await?;
            self.unplace(at..end);
            self.take_run(at..end);
            at = end;
        }
        Ok(())
    }

    /// Blocks that were placed are not needed.
    pub(crate) fn unplace(&mut self, run: Range<u32>) {
        self.placed_blocks -= u64::from(run.end - run.start);
        self.held.remove(run);
    }

    /// Blocks that were placed for these pages are not needed.
    pub(crate) fn unplace_all(&mut self, pages: &[Carried]) {
        for block in pages.iter().filter(|carried| !carried.is_in_place).filter_map(|carried| carried.placed)
        {
            self.unplace(block..block + 1);
        }
    }

    /// Takes blocks of one group that are free, whose bitmap is loaded.
    fn take_run(&mut self, run: Range<u32>) {
        let number = run.start / self.geometry.blocks_per_group;
        let start = self.geometry.group_start(number);
        let bitmap = self.groups[number as usize].block_bitmap;
        flip(self.cache.get_mut(bitmap), run.start - start..run.end - start);
        self.count_blocks(number, i64::from(run.end - run.start));
    }

    /// Frees blocks; they can be taken once that is durable.
    pub(crate) async fn free_run(&mut self, run: Range<u32>) -> Result<(), Errno> {
        self.unmaps.set(self.unmaps.get() + 1);
        let mut at = run.start;
        while at < run.end {
            let number = at / self.geometry.blocks_per_group;
            let start = self.geometry.group_start(number);
            let end = run.end.min(start + self.geometry.group_blocks(number));
            let bitmap = self.groups[number as usize].block_bitmap;
            self.load(bitmap).await?;
            let are_taken = (at - start..end - start).all(|bit| is_set(self.cache.get(bitmap), bit));
            if !are_taken || !(at..end).all(|block| self.is_data_block(block)) {
                return Err(Errno::Damaged);
            }
            flip(self.cache.get_mut(bitmap), at - start..end - start);
            self.count_blocks(number, -i64::from(end - at));
            if !is_planted(Bug::FreedAtOnce) {
                self.held.insert(at..end);
                self.freed.insert(at..end);
            }
            at = end;
        }
        Ok(())
    }

    /// Frees a block of metadata.
    pub(crate) async fn free_block(&mut self, block: u32) -> Result<(), Errno> {
        self.cache.forget(block);
        self.free_run(block..block + 1).await
    }

    /// Takes an inode near `near`, a folder or not.
    pub(crate) async fn take_inode(&mut self, near: u32, is_folder: bool) -> Result<u32, Errno> {
        let groups = self.geometry.groups();
        let near_group = (near - 1) / self.geometry.inodes_per_group;
        let first = if is_folder { self.group_for_folder(near_group) } else { near_group };
        for step in 0..groups {
            let number = (first + step) % groups;
            let Group { free_inodes, inode_bitmap, .. } = self.groups[number as usize];
            if free_inodes == 0 {
                continue;
            }
            self.load(inode_bitmap).await?;
            let start = if number == 0 { self.geometry.first_inode - 1 } else { 0 };
            let end = self.geometry.inodes_per_group;
            let bit = first_clear(self.cache.get(inode_bitmap), start..end);
            if bit == end {
                continue;
            }
            let inode = number * self.geometry.inodes_per_group + bit + 1;
            self.load(self.inode_place(inode)?.0).await?;
            flip(self.cache.get_mut(inode_bitmap), bit..bit + 1);
            self.count_inode(number, 1, is_folder);
            return Ok(inode);
        }
        Err(Errno::NoSpace)
    }

    /// Folders go where there is room for what will be in them.
    fn group_for_folder(&self, near: u32) -> u32 {
        let has_room = |group: &Group| group.free_inodes > 0 && group.free_blocks > 0;
        let sum = |of: fn(&Group) -> u16| self.groups.iter().map(|group| u64::from(of(group))).sum::<u64>();
        let count = self.groups.len() as u64;
        let (blocks, inodes) =
            (sum(|group| group.free_blocks) / count, sum(|group| group.free_inodes) / count);
        let order = (0..self.groups.len()).map(|step| (near as usize + step) % self.groups.len());
        let is_good = |number: &usize| {
            let group = &self.groups[*number];
            has_room(group)
                && u64::from(group.free_blocks) >= blocks
                && u64::from(group.free_inodes) >= inodes
        };
        order.min_by_key(|number| (!is_good(number), self.groups[*number].folders)).unwrap_or(0) as u32
    }

    /// Frees an inode.
    pub(crate) async fn free_inode(&mut self, inode: u32, is_folder: bool) -> Result<(), Errno> {
        let number = (inode - 1) / self.geometry.inodes_per_group;
        let bit = (inode - 1) % self.geometry.inodes_per_group;
        let bitmap = self.groups[number as usize].inode_bitmap;
        self.load(bitmap).await?;
        if !is_set(self.cache.get(bitmap), bit) {
            return Err(Errno::Damaged);
        }
        flip(self.cache.get_mut(bitmap), bit..bit + 1);
        self.count_inode(number, -1, is_folder);
        Ok(())
    }

    /// Whether the bitmap says that an inode is in use.
    pub(crate) async fn is_inode_taken(&mut self, inode: u32) -> Result<bool, Errno> {
        let number = (inode - 1) / self.geometry.inodes_per_group;
        let bitmap = self.groups[number as usize].inode_bitmap;
        self.load(bitmap).await?;
        Ok(is_set(self.cache.get(bitmap), (inode - 1) % self.geometry.inodes_per_group))
    }

    fn count_inode(&mut self, number: u32, taken: i32, is_folder: bool) {
        let changed =
            |count: u16, change: i32| (i32::from(count) + change).clamp(0, i32::from(u16::MAX)) as u16;
        let group = &mut self.groups[number as usize];
        group.free_inodes = changed(group.free_inodes, -taken);
        group.folders = changed(group.folders, if is_folder { taken } else { 0 });
        self.store_group(number);
        let block = self.cache.get_mut(0);
        let free = i64::from(Counts::free_inodes(block)) - i64::from(taken);
        Counts::set_free_inodes(block, free.clamp(0, i64::from(u32::MAX)) as u32);
    }

    /// Which block holds an inode, and where in it.
    pub(crate) fn inode_place(&self, inode: u32) -> Result<(u32, usize), Errno> {
        if inode == 0 || inode > self.geometry.inodes {
            return Err(Errno::Stale);
        }
        let number = (inode - 1) / self.geometry.inodes_per_group;
        let at = ((inode - 1) % self.geometry.inodes_per_group) as usize * super::inode::BYTES;
        Ok((self.groups[number as usize].inode_table + (at / BLOCK) as u32, at % BLOCK))
    }

    /// Where the blocks of a file had better be.
    pub(crate) fn goal_of(&self, number: u32, inode: &Inode) -> u32 {
        let mapped = inode.map.iter().take(12).rev().find(|&&block| block != 0);
        match mapped {
            Some(block) if inode.kind() != Some(crate::format::inode::Kind::Folder) => {
                block.saturating_add(1)
            }
            _ => self.geometry.group_start((number - 1) / self.geometry.inodes_per_group),
        }
    }

    /// Bytes that blocks are, as a range of the store.
    pub(crate) fn extent_of(run: &Range<u32>) -> crate::store::Extent {
        let len = u64::from(run.end - run.start) * BLOCK_BYTES;
        crate::store::Extent::new(u64::from(run.start) * BLOCK_BYTES, len)
    }
}
