//! Folders with an index: a tree of hashes over blocks of entries.

use super::Core;
use super::folder::{Found, Listed, major_of};
use crate::error::Errno;
use crate::format::folder;
use crate::format::index::{self, Pair, Place};
use crate::format::inode::{FLAG_INDEX, Inode, Kind};
use crate::format::{BLOCK, BlockBytes};
use crate::planted::{Bug, is_planted};
use crate::store::Store;

/// A block of the index on the way to a leaf.
#[derive(Debug)]
struct Step {
    block: u32,
    place: Place,
    pairs: Vec<Pair>,
    at: usize,
}

impl<S: Store> Core<S> {
    fn pairs(&mut self, block: u32, place: Place) -> Result<Vec<Pair>, Errno> {
        index::pairs(self.cache.get(block), place).ok_or(Errno::Damaged)
    }

    /// The way to the first leaf with names of this hash.
    async fn way_to(&mut self, inode: &Inode, hash: u32) -> Result<Vec<Step>, Errno> {
        let (block, levels) = self.index_root(inode).await?.ok_or(Errno::Damaged)?;
        let pairs = self.pairs(block, Place::Root)?;
        let at = index::position(&pairs, hash);
        let mut way = vec![Step { block, place: Place::Root, pairs, at }];
        for _ in 0..levels {
            let next = way.last().map(|step| step.pairs[step.at].block).unwrap_or_default();
            let block = self.index_block(inode, next).await?;
            let pairs = self.pairs(block, Place::Node)?;
            let at = index::position(&pairs, hash);
            way.push(Step { block, place: Place::Node, pairs, at });
        }
        Ok(way)
    }

    /// A block of a folder other than the root.
    async fn index_block(&mut self, inode: &Inode, index: u32) -> Result<u32, Errno> {
        match index {
            0 => Err(Errno::Damaged),
            index => self.folder_block(inode, u64::from(index)).await,
        }
    }

    async fn leaf(&mut self, inode: &Inode, way: &[Step]) -> Result<u32, Errno> {
        let step = way.last().ok_or(Errno::Damaged)?;
        self.index_block(inode, step.pairs[step.at].block).await
    }

    /// Goes on to the next leaf; answers the hash that it begins with.
    async fn advance(&mut self, inode: &Inode, way: &mut [Step]) -> Result<Option<u32>, Errno> {
        let Some(level) = way.iter().rposition(|step| step.at + 1 < step.pairs.len()) else {
            return Ok(None);
        };
        way[level].at += 1;
        let Pair { hash, mut block } = way[level].pairs[way[level].at];
        for below in way.iter_mut().skip(level + 1) {
            let node = self.index_block(inode, block).await?;
            let pairs = self.pairs(node, Place::Node)?;
            block = pairs[0].block;
            *below = Step { block: node, place: Place::Node, pairs, at: 0 };
        }
        Ok(Some(hash))
    }

    pub(super) async fn find_by_index(&mut self, inode: &Inode, name: &[u8]) -> Result<Option<Found>, Errno> {
        let hash = self.hash(name).major;
        let mut way = self.way_to(inode, hash).await?;
        for _ in 0..Self::folder_blocks(inode) {
            let leaf = self.leaf(inode, &way).await?;
            if let Some(found) = self.find_in(leaf, name)? {
                return Ok(Some(found));
            }
            match self.advance(inode, &mut way).await? {
                Some(next) if next == hash | 1 => {}
                _ => return Ok(None),
            }
        }
        Err(Errno::Damaged)
    }

    pub(super) async fn list_by_index(
        &mut self,
        inode: &Inode,
        cookie: u64,
        wanted: usize,
        listed: &mut Vec<Listed>,
    ) -> Result<(), Errno> {
        let mut way = self.way_to(inode, major_of(cookie)).await?;
        for _ in 0..Self::folder_blocks(inode) {
            let leaf = self.leaf(inode, &way).await?;
            let start = listed.len();
            self.list_by_hash(leaf, listed, |place| place > cookie)?;
            let next = self.advance(inode, &mut way).await?;
            // Names of one hash in two leaves come together, in their order.
            let goes_on = next.is_some_and(|hash| hash & 1 == 1);
            if start > 0 && listed.get(start).is_some_and(|first| first.cookie < listed[start - 1].cookie) {
                let behind = listed.iter().position(|entry| entry.cookie > super::folder::COOKIE_NAMES);
                listed[behind.unwrap_or(start)..].sort_by_key(|entry| entry.cookie);
            }
            if next.is_none() || listed.len() >= wanted && !goes_on {
                return Ok(());
            }
        }
        Err(Errno::Damaged)
    }

    /// Gives a folder of one block an index: its entries move to a leaf.
    pub(super) async fn make_index(&mut self, number: u32, inode: &mut Inode) -> Result<(), Errno> {
        let root = self.folder_block(inode, 0).await?;
        let bytes: BlockBytes = *self.cache.get(root);
        let parent = self.parent_of(inode).await?;
        let (leaf_index, leaf) = self.append_block(number, inode).await?;
        let mut kept = Vec::new();
        for entry in folder::entries(&bytes) {
            let entry = entry.ok_or(Errno::Damaged)?;
            if entry.inode != 0 && entry.name != b"." && entry.name != b".." {
                kept.push((entry.inode, entry.entry_type, entry.name));
            }
        }
        folder::fill(self.cache.get_mut(leaf), kept.into_iter());
        let block = self.cache.get_mut(root);
        folder::new_folder(block, number, parent);
        index::put_root(block, 0);
        index::put_pairs(block, Place::Root, &[Pair { hash: 0, block: leaf_index }]);
        inode.flags |= FLAG_INDEX;
        Ok(())
    }

    pub(super) async fn insert_by_index(
        &mut self,
        number: u32,
        inode: &mut Inode,
        name: &[u8],
        entry: (u32, Kind),
        is_privileged: bool,
    ) -> Result<(), Errno> {
        let hash = self.hash(name).major;
        let way = self.way_to(inode, hash).await?;
        let leaf = self.leaf(inode, &way).await?;
        if self.insert_in(leaf, name, entry)? {
            return Ok(());
        }
        self.check_room(is_privileged)?;
        let way = self.make_room_for_pair(number, inode, hash).await?;
        let leaf = self.leaf(inode, &way).await?;
        let (new_index, new_leaf) = self.append_block(number, inode).await?;
        let split = self.split_leaf(leaf, new_leaf)?;
        let Some(Step { block, place, mut pairs, at }) = way.into_iter().next_back() else {
            return Err(Errno::Damaged);
        };
        pairs.insert(at + 1, Pair { hash: split, block: new_index });
        index::put_pairs(self.cache.get_mut(block), place, &pairs);
        let target = if hash >= split & !1 && hash >= split { new_leaf } else { leaf };
        match self.insert_in(target, name, entry)? {
            true => Ok(()),
            false => Err(Errno::NoSpace),
        }
    }

    /// Moves the half of a leaf with the greater hashes to a new one; answers what that begins with.
    fn split_leaf(&mut self, leaf: u32, new_leaf: u32) -> Result<u32, Errno> {
        let bytes: BlockBytes = *self.cache.get(leaf);
        let mut entries = Vec::new();
        for entry in folder::entries(&bytes) {
            let entry = entry.ok_or(Errno::Damaged)?;
            if entry.inode != 0 {
                entries.push((self.hash(entry.name), entry));
            }
        }
        if !is_planted(Bug::SplitUnsorted) {
            entries.sort_by_key(|(hash, _)| *hash);
        }
        // By bytes: names differ much in length.
        let (mut stays, mut bytes_before) = (0, 0);
        while stays + 1 < entries.len() && (stays == 0 || bytes_before < BLOCK / 2) {
            bytes_before += folder::entry_bytes(entries[stays].1.name.len());
            stays += 1;
        }
        let Some((split, _)) = entries.get(stays) else { return Err(Errno::Damaged) };
        let continues = stays > 0 && entries[stays - 1].0.major == split.major;
        let split = split.major | u32::from(continues);
        let part = |entries: &[(_, folder::Entry<'_>)], block: &mut BlockBytes| {
            folder::fill(block, entries.iter().map(|(_, entry)| (entry.inode, entry.entry_type, entry.name)));
        };
        part(&entries[stays..], self.cache.get_mut(new_leaf));
        part(&entries[..stays], self.cache.get_mut(leaf));
        Ok(split)
    }

    /// Sees to it that the lowest block of the index on the way to a hash has room for one pair more; answers the way.
    async fn make_room_for_pair(
        &mut self,
        number: u32,
        inode: &mut Inode,
        hash: u32,
    ) -> Result<Vec<Step>, Errno> {
        let way = self.way_to(inode, hash).await?;
        let is_full = |step: &Step| step.pairs.len() >= step.place.limit();
        let (root, lowest) = (&way[0], way.last().ok_or(Errno::Damaged)?);
        if !is_full(lowest) {
            return Ok(way);
        }
        if way.len() == 1 {
            // The root's pairs move to a node below it, which has room for more.
            let (root_block, pairs) = (root.block, root.pairs.clone());
            let (node_index, node) = self.append_block(number, inode).await?;
            index::put_node(self.cache.get_mut(node));
            index::put_pairs(self.cache.get_mut(node), Place::Node, &pairs);
            let block = self.cache.get_mut(root_block);
            index::set_levels(block, 1);
            index::put_pairs(block, Place::Root, &[Pair { hash: 0, block: node_index }]);
        } else {
            if is_full(root) {
                return Err(Errno::NoSpace);
            }
            let (root_block, at, mut above) = (root.block, root.at, root.pairs.clone());
            let (lower_block, lower) = (lowest.block, lowest.pairs.clone());
            let (node_index, node) = self.append_block(number, inode).await?;
            let (kept, moved) = lower.split_at(lower.len() / 2);
            index::put_node(self.cache.get_mut(node));
            index::put_pairs(self.cache.get_mut(node), Place::Node, moved);
            index::put_pairs(self.cache.get_mut(lower_block), Place::Node, kept);
            above.insert(at + 1, Pair { hash: moved[0].hash, block: node_index });
            index::put_pairs(self.cache.get_mut(root_block), Place::Root, &above);
        }
        self.way_to(inode, hash).await
    }
}
