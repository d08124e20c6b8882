//! The map of a file: 12 blocks, and trees of one, two and three levels of mapping blocks.

use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use super::Core;
use crate::error::Errno;
use crate::format::inode::Inode;
use crate::format::{BLOCK_BYTES, POINTERS, get_u32, put_u32};
use crate::store::Store;

/// Blocks that the inode itself maps.
const DIRECT: u64 = 12;

/// Sectors of 512 bytes in a block.
const SECTORS: u32 = (BLOCK_BYTES / 512) as u32;

/// Which tree maps a block: its slot in the inode, its levels, and which block of the tree it is.
fn tree_of(index: u64) -> Option<(usize, u32, u64)> {
    let mut rest = index.checked_sub(DIRECT)?;
    for level in 1..=3 {
        let span = POINTERS.pow(level);
        if rest < span {
            return Some((11 + level as usize, level, rest));
        }
        rest -= span;
    }
    None
}

/// The part of a range that a tree or a mapping block has which maps `span` blocks from `start` on, counted from there.
fn within(range: &Range<u64>, start: u64, span: u64) -> Range<u64> {
    range.start.max(start) - start..range.end.min(start + span) - start
}

/// Blocks that a file's map can have.
pub(crate) const INDEX_END: u64 = DIRECT + POINTERS + POINTERS * POINTERS + POINTERS * POINTERS * POINTERS;

/// Which mapping block maps a block, so that those of one number share it; `None` of those that need none.
pub(crate) fn mapping_region(index: u64) -> Option<u64> {
    index.checked_sub(DIRECT).map(|rest| rest / POINTERS)
}

/// Mapping blocks that a block may need at most.
pub(crate) const MAPPING_BLOCKS: u64 = 3;

impl<S: Store> Core<S> {
    fn check_pointer(&self, block: u32) -> Result<u32, Errno> {
        match block == 0 || self.is_data_block(block) {
            true => Ok(block),
            false => Err(Errno::Damaged),
        }
    }

    /// Where block `index` of a file is; 0 for nowhere.
    pub(crate) async fn map_one(&mut self, inode: &Inode, index: u64) -> Result<u32, Errno> {
        Ok(self.map_get(inode, index, 1).await?.0)
    }

    /// Where block `index` of a file is, 0 for nowhere, and for how many from there on the same holds: neighbours on the
    /// store, or nowhere all of them. No more than `wanted` are looked at, but those of a hole are many at once.
    pub(crate) async fn map_get(
        &mut self,
        inode: &Inode,
        index: u64,
        wanted: u64,
    ) -> Result<(u32, u64), Errno> {
        if index >= INDEX_END {
            return Err(Errno::FileTooLarge);
        }
        let Some((slot, level, rest)) = tree_of(index) else {
            return self.run_of(index as usize..12, wanted, |slot| inode.map[slot]);
        };
        let mut block = self.check_pointer(inode.map[slot])?;
        for level in (1..=level).rev() {
            let span = POINTERS.pow(level);
            if block == 0 {
                return Ok((0, span - rest % span));
            }
            self.load(block).await?;
            let slot = (rest / POINTERS.pow(level - 1) % POINTERS) as usize;
            let bytes = self.cache.get(block);
            if level == 1 {
                return self.run_of(slot..POINTERS as usize, wanted, |slot| get_u32(bytes, 4 * slot));
            }
            let next = get_u32(bytes, 4 * slot);
            block = self.check_pointer(next)?;
        }
        unreachable!("level 1 answers")
    }

    fn run_of(
        &self,
        slots: Range<usize>,
        wanted: u64,
        pointer: impl Fn(usize) -> u32,
    ) -> Result<(u32, u64), Errno> {
        let first = self.check_pointer(pointer(slots.start))?;
        let step = u32::from(first != 0);
        let follows = |&next: &usize| {
            let expected = first.saturating_add(step * (next - slots.start) as u32);
            pointer(next) == expected && (expected == 0 || self.is_data_block(expected))
        };
        let len = slots.clone().take(wanted as usize).take_while(follows).count().max(1);
        Ok((first, len as u64))
    }

    /// Maps block `index` of a file that has none there; mapping blocks are taken as needed.
    pub(crate) async fn map_set(&mut self, inode: &mut Inode, index: u64, target: u32) -> Result<(), Errno> {
        inode.sectors = inode.sectors.checked_add(SECTORS).ok_or(Errno::FileTooLarge)?;
        let Some((slot, level, rest)) = tree_of(index) else {
            if index >= DIRECT {
                return Err(Errno::FileTooLarge);
            }
            inode.map[index as usize] = target;
            return Ok(());
        };
        let mut block = self.check_pointer(inode.map[slot])?;
        if block == 0 {
            block = self.take_mapping_block(inode, target).await?;
            inode.map[slot] = block;
        }
        for level in (1..=level).rev() {
            self.load(block).await?;
            let at = (rest / POINTERS.pow(level - 1) % POINTERS) as usize * 4;
            if level == 1 {
                put_u32(self.cache.get_mut(block), at, target);
                return Ok(());
            }
            let next = get_u32(self.cache.get(block), at);
            let mut next = self.check_pointer(next)?;
            if next == 0 {
                next = self.take_mapping_block(inode, target).await?;
                put_u32(self.cache.get_mut(block), at, next);
            }
            block = next;
        }
        unreachable!("level 1 answers")
    }

    async fn take_mapping_block(&mut self, inode: &mut Inode, near: u32) -> Result<u32, Errno> {
        let block = self.take_block(near).await?;
        self.cache.insert_fresh(block);
        inode.sectors = inode.sectors.checked_add(SECTORS).ok_or(Errno::FileTooLarge)?;
        Ok(block)
    }

    /// Unmaps and frees what of a range of a file is mapped, with mapping blocks that then map nothing.
    pub(crate) async fn unmap(&mut self, inode: &mut Inode, range: Range<u64>) -> Result<(), Errno> {
        let mut freed = Freed::default();
        for index in range.start..range.end.min(DIRECT) {
            let block = self.check_pointer(std::mem::take(&mut inode.map[index as usize]))?;
            self.note_freed(&mut freed, block).await?;
        }
        let mut start = DIRECT;
        for level in 1..=3 {
            let span = POINTERS.pow(level);
            let slot = 11 + level as usize;
            let root = self.check_pointer(inode.map[slot])?;
            if root != 0 && range.start < start + span && start < range.end {
                let shared = within(&range, start, span);
                if self.cut(root, level, shared, &mut freed).await? {
                    inode.map[slot] = 0;
                    self.free_block(root).await?;
                    freed.count += 1;
                }
            }
            start += span;
        }
        if let Some(run) = freed.run.take() {
            self.free_run(run).await?;
        }
        inode.sectors = inode.sectors.checked_sub(SECTORS * freed.count).ok_or(Errno::Damaged)?;
        Ok(())
    }

    /// Loads what [`Self::unmap`] needs to unmap a range, but for bitmaps.
    ///
    /// # Errors
    ///
    /// Those that it would meet halfway.
    pub(crate) async fn load_map(&mut self, inode: &Inode, range: Range<u64>) -> Result<(), Errno> {
        let mut start = DIRECT;
        for level in 1..=3 {
            let span = POINTERS.pow(level);
            let root = self.check_pointer(inode.map[11 + level as usize])?;
            if root != 0 && range.start < start + span && start < range.end {
                let shared = within(&range, start, span);
                self.load_tree(root, level, shared).await?;
            }
            start += span;
        }
        Ok(())
    }

    fn load_tree(
        &mut self,
        block: u32,
        level: u32,
        range: Range<u64>,
    ) -> Pin<Box<dyn Future<Output = Result<(), Errno>> + '_>> {
        Box::pin(async move {
            self.load(block).await?;
            let span = POINTERS.pow(level - 1);
            for slot in range.start / span..range.end.div_ceil(span) {
                let child = get_u32(self.cache.get(block), 4 * slot as usize);
                let child = self.check_pointer(child)?;
                if child != 0 && level > 1 {
                    let start = slot * span;
                    let shared = within(&range, start, span);
                    self.load_tree(child, level - 1, shared).await?;
                }
            }
            Ok(())
        })
    }

    async fn note_freed(&mut self, freed: &mut Freed, block: u32) -> Result<(), Errno> {
        if block == 0 {
            return Ok(());
        }
        freed.count += 1;
        match &mut freed.run {
            Some(run) if run.end == block => run.end += 1,
            run => {
                if let Some(run) = run.replace(block..block + 1) {
                    self.free_run(run).await?;
                }
            }
        }
        Ok(())
    }

    /// Frees a range of what a mapping block maps; whether it maps nothing then.
    fn cut<'a>(
        &'a mut self,
        block: u32,
        level: u32,
        range: Range<u64>,
        freed: &'a mut Freed,
    ) -> Pin<Box<dyn Future<Output = Result<bool, Errno>> + 'a>> {
        Box::pin(async move {
            self.load(block).await?;
            let span = POINTERS.pow(level - 1);
            for slot in range.start / span..range.end.div_ceil(span) {
                let at = 4 * slot as usize;
                let child = get_u32(self.cache.get(block), at);
                let child = self.check_pointer(child)?;
                if child == 0 {
                    continue;
                }
                let start = slot * span;
                let shared = within(&range, start, span);
                let is_gone = match level {
                    1 => {
                        self.note_freed(freed, child).await?;
                        true
                    }
                    _ if self.cut(child, level - 1, shared, freed).await? => {
                        self.free_block(child).await?;
                        freed.count += 1;
                        true
                    }
                    _ => false,
                };
                if is_gone {
                    // A mapping block that a damaged map names twice may be gone by now.
                    self.load(block).await?;
                    put_u32(self.cache.get_mut(block), at, 0);
                }
            }
            Ok(self.cache.get(block).iter().all(|&byte| byte == 0))
        })
    }
}

/// Blocks that are being freed.
#[derive(Debug, Default)]
struct Freed {
    run: Option<Range<u32>>,
    count: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_of_a_file_has_its_place_in_one_tree() {
        assert_eq!(tree_of(11), None);
        assert_eq!(tree_of(12), Some((12, 1, 0)));
        assert_eq!(tree_of(12 + 1024), Some((13, 2, 0)));
        assert_eq!(tree_of(12 + 1024 + 1024 * 1024), Some((14, 3, 0)));
        assert_eq!(tree_of(INDEX_END), None);
    }
}
