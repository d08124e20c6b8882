//! Inodes without a name that somebody has open: a list on the store, so that a mount after a cut frees them.
//!
//! The superblock names the first; the `dtime` of each names the next. A file with a name is in it while it is being
//! truncated.

use std::collections::BTreeMap;
use std::ops::Range;

use super::Core;
use crate::error::Errno;
use crate::format::inode::{Inode, Kind};
use crate::format::superblock::Counts;
use crate::planted::{Bug, is_planted};
use crate::store::Store;

/// Looks at a file's map in one operation.
const LOOKS_MAX: usize = 4096;

/// The list, from its last inode to its first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Orphans {
    /// By when each came in.
    by_place: BTreeMap<u64, u32>,
    places: BTreeMap<u32, u64>,
    next: u64,
}

impl Orphans {
    pub(crate) fn contains(&self, number: u32) -> bool {
        self.places.contains_key(&number)
    }

    /// The first of the list.
    fn first(&self) -> Option<u32> {
        self.by_place.last_key_value().map(|(_, &number)| number)
    }

    /// Puts an inode in front; false if it is there.
    pub(crate) fn push(&mut self, number: u32) -> bool {
        if self.contains(number) {
            return false;
        }
        self.by_place.insert(self.next, number);
        self.places.insert(number, self.next);
        self.next += 1;
        true
    }

    /// Takes an inode out; what came before it in the list, and what comes next.
    fn remove(&mut self, number: u32) -> Option<(Option<u32>, Option<u32>)> {
        let before = self.before(number);
        let place = self.places.remove(&number)?;
        self.by_place.remove(&place);
        let next = self.by_place.range(..place).next_back().map(|(_, &number)| number);
        Some((before, next))
    }

    /// What comes before an inode in the list.
    fn before(&self, number: u32) -> Option<u32> {
        let place = *self.places.get(&number)?;
        self.by_place.range(place + 1..).next().map(|(_, &number)| number)
    }

    /// All of them, the first one first.
    pub(crate) fn list(&self) -> Vec<u32> {
        self.by_place.values().rev().copied().collect()
    }
}

impl<S: Store> Core<S> {
    /// Whether an inode is in the list.
    pub(crate) fn is_orphan(&self, number: u32) -> bool {
        self.orphans.contains(number)
    }

    /// Puts an inode into the list, where it is not; it is stored by whoever asks.
    pub(crate) fn add_orphan(&mut self, number: u32, inode: &mut Inode) {
        inode.dtime = self.orphans.first().unwrap_or(0);
        self.orphans.push(number);
        if !is_planted(Bug::OrphanUnlisted) {
            Counts::set_last_orphan(self.cache.get_mut(0), number);
        }
    }

    /// Takes an inode out of the list; it is stored by whoever asks.
    pub(crate) async fn remove_orphan(&mut self, number: u32, inode: &mut Inode) -> Result<(), Errno> {
        let Some((before, next)) = self.orphans.remove(number) else { return Ok(()) };
        let next = next.unwrap_or(0);
        match before {
            None => Counts::set_last_orphan(self.cache.get_mut(0), next),
            Some(before) => {
                let mut other = self.inode_raw(before).await?;
                other.dtime = next;
                self.put_inode(before, &other);
            }
        }
        inode.dtime = 0;
        Ok(())
    }

    /// Frees as much of what a file maps from block `from` on as one operation may; whether nothing is left. What cannot be read is
    /// met before anything is changed.
    pub(crate) async fn unmap_some(
        &mut self,
        number: u32,
        inode: &mut Inode,
        from: &mut u64,
        end: u64,
    ) -> Result<bool, Errno> {
        let window = self.window();
        let is_mapped_file =
            matches!(inode.kind(), Some(Kind::File | Kind::Folder)) || !inode.is_short_link();
        let can_map = matches!(inode.kind(), Some(Kind::File | Kind::Folder | Kind::Link)) && is_mapped_file;
        let (mut looks, mut has_changed, loads) = (0, false, self.loads);
        while can_map && *from < end && !self.is_full() && looks < LOOKS_MAX && !self.has_read_much(loads) {
            looks += 1;
            let looked = self.map_get(inode, *from, 1).await;
            let stop = (*from + window).min(end);
            let loaded = match looked {
                Ok((0, run)) => {
                    *from += run;
                    continue;
                }
                Ok(_) => self.load_map(inode, *from..stop).await,
                Err(error) => Err(error),
            };
            match loaded {
                Ok(()) => {}
                // What is unmapped so far stays so: the next operation meets this before it changes anything.
                Err(_) if has_changed => return Ok(false),
                Err(error) => return Err(error),
            }
            has_changed = true;
            self.unmap(inode, *from..stop).await?;
            *from = stop;
            self.unmapped.note(number, self.unmaps.get());
        }
        Ok(!can_map || *from >= end)
    }

    /// Loads what [`Self::unmap_some`] needs first: what cannot be read is met before anything else is changed, too.
    pub(crate) async fn foresee_unmap(&mut self, inode: &Inode, range: Range<u64>) -> Result<(), Errno> {
        let (mut from, loads) = (range.start, self.loads);
        for _ in 0..LOOKS_MAX {
            if from >= range.end || self.has_read_much(loads) {
                break;
            }
            match self.map_get(inode, from, 1).await? {
                (0, run) => from += run,
                _ => return self.load_map(inode, from..(from + self.window()).min(range.end)).await,
            }
        }
        Ok(())
    }

    /// Blocks that are unmapped at once.
    fn window(&self) -> u64 {
        (self.blocks_max as u64 / 8).clamp(16, 1024)
    }

    /// The same for [`Self::remove_orphan`].
    pub(crate) async fn foresee_removal(&mut self, number: u32) -> Result<(), Errno> {
        match self.orphans.before(number) {
            Some(before) => self.inode_raw(before).await.map(drop),
            None => Ok(()),
        }
    }

    /// Loads what [`Self::free_orphan`] needs: what cannot be read is met before anything is changed.
    pub(crate) async fn foresee_free(&mut self, number: u32, inode: &Inode) -> Result<(), Errno> {
        if inode.xattr_block != 0 {
            self.load_xattr_block(inode).await?;
        }
        self.foresee_removal(number).await?;
        let group = (number - 1) / self.geometry.inodes_per_group;
        self.load(self.groups[group as usize].inode_bitmap).await
    }

    /// Frees an inode without a name, of which nothing is mapped any more.
    pub(crate) async fn free_orphan(&mut self, number: u32, inode: &mut Inode) -> Result<(), Errno> {
        self.drop_xattr_block(inode).await?;
        let is_folder = inode.kind() == Some(Kind::Folder);
        self.remove_orphan(number, inode).await?;
        inode.dtime = self.now().secs.clamp(1, i64::from(u32::MAX)) as u32;
        inode.size = 0;
        inode.map = Default::default();
        self.put_inode(number, inode);
        self.free_inode(number, is_folder).await
    }
}
