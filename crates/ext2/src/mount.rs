//! Mounts a file system: what is read is checked before it is used.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::cache::Cache;
use crate::core::{Clock, Core, Known, Orphans, Unmapped};
use crate::error::{Errno, MountError};
use crate::extents::BlockSet;
use crate::format::group::{self, Group};
use crate::format::superblock::{self, Counts, Geometry};
use crate::format::{BLOCK, BLOCK_BYTES};
use crate::planted::{Bug, is_planted};
use crate::store::Store;

/// Dirty blocks that one commit of a store has to take, at least.
const COMMIT_BLOCKS_MIN: usize = 96;

/// Orphans that a list may have.
const ORPHANS_MAX: usize = 1 << 20;

fn damaged(what: &str) -> MountError {
    MountError::Unusable(format!("it is damaged ({what}); run e2fsck -f"))
}

impl<S: Store> Core<S> {
    /// Reads what has to be known of a file system.
    pub(crate) async fn open(
        store: Rc<S>,
        clock: Clock,
        cache_bytes: usize,
        unmaps: Rc<Cell<u64>>,
    ) -> Result<Self, MountError> {
        let limits = store.limits();
        let blocks_max = limits.pages.min((limits.bytes / 4160) as usize) * 3 / 4;
        if blocks_max < COMMIT_BLOCKS_MIN {
            return Err(MountError::Unusable(format!(
                "the volume takes {} bytes in {} pages at once; give it a larger log",
                limits.bytes, limits.pages
            )));
        }
        if store.size_bytes() < crate::mkfs::FORMAT_BYTES_MIN {
            return Err(MountError::Unusable("the volume is too small; make it 1 MiB or more".to_owned()));
        }
        let mut first = Box::new([0; BLOCK]);
        store.read(0, &mut first[..]).await?;
        let bytes = first[superblock::AT..][..superblock::BYTES].try_into().expect("1024 bytes");
        let geometry = Geometry::decode(bytes, store.size_bytes()).map_err(MountError::Unusable)?;
        let pinned_end = 1 + geometry.descriptor_blocks();
        let mut cache = Cache::new((cache_bytes / BLOCK).max(256), pinned_end);
        cache.insert(0, first);
        for number in 1..pinned_end {
            let mut bytes = Box::new([0; BLOCK]);
            store.read(u64::from(number) * BLOCK_BYTES, &mut bytes[..]).await?;
            cache.insert(number, bytes);
        }
        let groups = decode_groups(&geometry, &mut cache)?;
        let mut core = Self {
            store,
            clock,
            geometry,
            groups,
            cache,
            known: Known::default(),
            nodes: BTreeMap::new(),
            unmapped: Unmapped::default(),
            held: BlockSet::default(),
            placed_blocks: 0,
            freed: BlockSet::default(),
            discardable: BlockSet::default(),
            reserved_blocks: 0,
            dirty_pages: 0,
            orphans: Orphans::default(),
            unmaps,
            loads: 0,
            failure: None,
            blocks_max,
        };
        let root = core.folder(crate::format::ROOT_INODE).await;
        root.map_err(|_| damaged("its root is no folder"))?;
        core.read_orphans().await?;
        Ok(core)
    }

    /// Reads the list of orphans, so that [`crate::FileSystem::mount`] frees them.
    async fn read_orphans(&mut self) -> Result<(), MountError> {
        let mut next = Counts::last_orphan(self.cache.get(0));
        if is_planted(Bug::OrphansLeft) {
            next = 0;
        }
        let mut list = Vec::new();
        while next != 0 {
            let is_usable = next >= self.geometry.first_inode && next <= self.geometry.inodes;
            if !is_usable || list.len() >= ORPHANS_MAX {
                return Err(damaged("its list of orphans"));
            }
            let taken = self.is_inode_taken(next).await.map_err(told)?;
            let inode = self.inode_raw(next).await.map_err(told)?;
            if !taken || !inode.is_sound() {
                return Err(damaged("its list of orphans"));
            }
            list.push(next);
            next = inode.dtime;
            if list.len().is_multiple_of(1024) {
                self.cache.trim();
            }
        }
        for &number in list.iter().rev() {
            if !self.orphans.push(number) {
                return Err(damaged("its list of orphans is a loop"));
            }
        }
        Ok(())
    }
}

fn told(error: Errno) -> MountError {
    MountError::Unusable(error.to_string())
}

fn decode_groups(geometry: &Geometry, cache: &mut Cache) -> Result<Vec<Group>, MountError> {
    let mut groups = Vec::with_capacity(geometry.groups() as usize);
    for number in 0..geometry.groups() {
        let (block, at) = group::place(number);
        let group = Group::decode(&cache.get(block)[at..at + group::BYTES]);
        let start = geometry.group_start(number) + geometry.group_head_blocks(number);
        let end = geometry.group_start(number) + geometry.group_blocks(number);
        let Group { block_bitmap, inode_bitmap, inode_table, .. } = group;
        let table_end = inode_table.saturating_add(geometry.inode_table_blocks());
        let is_inside = |block: u32| (start..end).contains(&block);
        let is_sound = is_inside(block_bitmap)
            && is_inside(inode_bitmap)
            && is_inside(inode_table)
            && table_end <= end
            && block_bitmap != inode_bitmap
            && !(inode_table..table_end).contains(&block_bitmap)
            && !(inode_table..table_end).contains(&inode_bitmap);
        if !is_sound
            || u32::from(group.free_blocks) > end - start
            || u32::from(group.free_inodes) > geometry.inodes_per_group
        {
            return Err(damaged(&format!("descriptor of group {number}")));
        }
        groups.push(group);
    }
    let sum = |of: fn(&Group) -> u16| groups.iter().map(|group| u64::from(of(group))).sum::<u64>();
    let block = cache.get(0);
    if sum(|group| group.free_blocks) != u64::from(Counts::free_blocks(block))
        || sum(|group| group.free_inodes) != u64::from(Counts::free_inodes(block))
    {
        return Err(damaged("counts of what is free"));
    }
    Ok(groups)
}
