//! Entries of folders: found, put in, taken out, listed. A folder of one block has no index; a larger one has.
//!
//! A place in a listing is the hash of a name, so that it stays where entries move between blocks. Only in a folder of
//! several blocks without an index, which this crate does not make, it is where in the folder the entry is: there none
//! moves.

use super::Core;
use crate::error::Errno;
use crate::format::folder::{self, Entry};
use crate::format::hash::{NameHash, half_md4};
use crate::format::inode::{FLAG_INDEX, Inode, Kind};
use crate::format::{BLOCK_BYTES, index, put_u32};
use crate::store::Store;

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    /// Its block.
    pub(crate) block: u32,
    /// Where in it.
    pub(crate) at: usize,
    /// Its inode.
    pub(crate) inode: u32,
}

/// An entry in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) inode: u32,
    pub(crate) kind: Option<Kind>,
    pub(crate) name: Vec<u8>,
    /// Where the listing goes on behind it.
    pub(crate) cookie: u64,
}

/// Places in a listing before those of names: at the start, behind ".", behind "..".
pub(crate) const COOKIE_NAMES: u64 = 2;

/// Blocks at the start of a folder that stay in memory when the folder is searched from end to end.
const SCANNED_KEPT: u64 = 64;

/// The place of a name in a listing.
fn cookie_of(hash: NameHash) -> u64 {
    (u64::from(hash.major >> 1) << 32 | u64::from(hash.minor)) + COOKIE_NAMES + 1
}

/// The hash that a place stands for.
pub(super) fn major_of(cookie: u64) -> u32 {
    ((cookie.saturating_sub(COOKIE_NAMES + 1) >> 32) as u32 & 0x7fff_ffff) << 1
}

impl<S: Store> Core<S> {
    pub(super) fn hash(&self, name: &[u8]) -> NameHash {
        half_md4(name, &self.geometry.hash_seed, self.geometry.has_unsigned_hash)
    }

    /// Blocks of a folder.
    pub(super) fn folder_blocks(inode: &Inode) -> u64 {
        inode.size / BLOCK_BYTES
    }

    /// Loads block `index` of a folder.
    pub(super) async fn folder_block(&mut self, inode: &Inode, index: u64) -> Result<u32, Errno> {
        if index >= Self::folder_blocks(inode) {
            return Err(Errno::Damaged);
        }
        let block = self.map_one(inode, index).await?;
        if block == 0 {
            return Err(Errno::Damaged);
        }
        self.load(block).await?;
        Ok(block)
    }

    /// A folder's index, if it has one that can be used: its first block and its levels.
    pub(super) async fn index_root(&mut self, inode: &Inode) -> Result<Option<(u32, u8)>, Errno> {
        if inode.flags & FLAG_INDEX == 0 || !self.geometry.has_folder_index {
            return Ok(None);
        }
        let root = self.folder_block(inode, 0).await?;
        let info = index::root_info(self.cache.get(root)).ok_or(Errno::Damaged)?;
        Ok((info.0 == index::HALF_MD4 && info.1 <= index::LEVELS_MAX).then_some((root, info.1)))
    }

    /// The entry with a name.
    pub(crate) async fn find(&mut self, inode: &Inode, name: &[u8]) -> Result<Option<Found>, Errno> {
        if name != b"." && name != b".." && self.index_root(inode).await?.is_some() {
            return self.find_by_index(inode, name).await;
        }
        for index in 0..Self::folder_blocks(inode) {
            let block = self.folder_block(inode, index).await?;
            if let Some(found) = self.find_in(block, name)? {
                return Ok(Some(found));
            }
            self.leave(index, block);
        }
        Ok(None)
    }

    /// A block was looked at that is not needed: of a large folder, most are not worth their memory.
    fn leave(&mut self, index: u64, block: u32) {
        if index >= SCANNED_KEPT {
            self.cache.drop_clean(block);
        }
    }

    pub(super) fn find_in(&mut self, block: u32, name: &[u8]) -> Result<Option<Found>, Errno> {
        let found = folder::find(self.cache.get(block), name).ok_or(Errno::Damaged)?;
        let inodes = self.geometry.inodes;
        match found {
            Some((_, inode)) if inode > inodes => Err(Errno::Damaged),
            found => Ok(found.map(|(at, inode)| Found { block, at, inode })),
        }
    }

    /// Puts an entry in that is not there; the inode is stored by whoever asks.
    pub(crate) async fn insert_entry(
        &mut self,
        number: u32,
        inode: &mut Inode,
        name: &[u8],
        (target, kind): (u32, Kind),
        is_privileged: bool,
    ) -> Result<(), Errno> {
        if self.index_root(inode).await?.is_some() {
            return self.insert_by_index(number, inode, name, (target, kind), is_privileged).await;
        }
        // Without one that can be used, nobody else shall use it either.
        inode.flags &= !FLAG_INDEX;
        let blocks = Self::folder_blocks(inode);
        for index in 0..blocks {
            let block = self.folder_block(inode, index).await?;
            if self.insert_in(block, name, (target, kind))? {
                return Ok(());
            }
            self.leave(index, block);
        }
        self.check_room(is_privileged)?;
        if blocks == 1 && self.geometry.has_folder_index {
            Box::pin(self.make_index(number, inode)).await?;
            return self.insert_by_index(number, inode, name, (target, kind), is_privileged).await;
        }
        let (_, block) = self.append_block(number, inode).await?;
        folder::empty(self.cache.get_mut(block));
        self.insert_in(block, name, (target, kind))?;
        Ok(())
    }

    pub(super) fn insert_in(
        &mut self,
        block: u32,
        name: &[u8],
        (target, kind): (u32, Kind),
    ) -> Result<bool, Errno> {
        let room = folder::room_for(self.cache.get(block), name.len()).ok_or(Errno::Damaged)?;
        if let Some(room) = room {
            folder::insert(self.cache.get_mut(block), room, target, kind.entry_type(), name);
        }
        Ok(room.is_some())
    }

    /// A new last block of a folder: its index in the folder, and itself, zeroed.
    pub(super) async fn append_block(&mut self, number: u32, inode: &mut Inode) -> Result<(u32, u32), Errno> {
        let index = Self::folder_blocks(inode);
        if inode.size + BLOCK_BYTES > u64::from(u32::MAX) {
            return Err(Errno::NoSpace);
        }
        let goal = self.goal_of(number, inode);
        let block = self.take_block(goal).await?;
        self.cache.insert_fresh(block);
        self.map_set(inode, index, block).await?;
        inode.size += BLOCK_BYTES;
        Ok((index as u32, block))
    }

    /// Takes an entry out.
    pub(crate) fn remove_entry(&mut self, found: Found) {
        folder::remove(self.cache.get_mut(found.block), found.at);
    }

    /// An entry leads to another inode.
    pub(crate) fn redirect_entry(&mut self, found: Found, target: u32, kind: Kind) {
        let block = self.cache.get_mut(found.block);
        put_u32(block, found.at, target);
        block[found.at + 7] = kind.entry_type();
    }

    /// Whether a folder has no entries but its own two.
    pub(crate) async fn is_folder_empty(&mut self, inode: &Inode) -> Result<bool, Errno> {
        for index in 0..Self::folder_blocks(inode) {
            let block = self.folder_block(inode, index).await?;
            for entry in folder::entries(self.cache.get(block)) {
                let entry = entry.ok_or(Errno::Damaged)?;
                if entry.inode != 0 && entry.name != b"." && entry.name != b".." {
                    return Ok(false);
                }
            }
            self.leave(index, block);
        }
        Ok(true)
    }

    /// The folder that a folder is in, as it says.
    pub(crate) async fn parent_of(&mut self, inode: &Inode) -> Result<u32, Errno> {
        Ok(self.dot_dot(inode).await?.2)
    }

    async fn dot_dot(&mut self, inode: &Inode) -> Result<(u32, usize, u32), Errno> {
        let block = self.folder_block(inode, 0).await?;
        let bytes = self.cache.get(block);
        let first = folder::entry_at(bytes, 0).ok_or(Errno::Damaged)?;
        let second = folder::entry_at(bytes, first.len).ok_or(Errno::Damaged)?;
        match first.name == b"." && second.name == b".." && (1..=self.geometry.inodes).contains(&second.inode)
        {
            true => Ok((block, second.at, second.inode)),
            false => Err(Errno::Damaged),
        }
    }

    /// A folder is in another one from now on.
    pub(crate) async fn set_parent(&mut self, inode: &Inode, parent: u32) -> Result<(), Errno> {
        let (block, at, _) = self.dot_dot(inode).await?;
        put_u32(self.cache.get_mut(block), at, parent);
        Ok(())
    }

    /// Entries behind a place, at least `wanted` of them if there are: those of one block are not torn.
    pub(crate) async fn list(
        &mut self,
        number: u32,
        inode: &Inode,
        mut cookie: u64,
        wanted: usize,
    ) -> Result<Vec<Listed>, Errno> {
        let mut listed = Vec::new();
        let own = [(0, &b"."[..], number), (1, b"..", self.parent_of(inode).await?)];
        for (at, name, inode) in own.into_iter().filter(|(at, ..)| *at >= cookie) {
            listed.push(Listed { inode, kind: Some(Kind::Folder), name: name.to_vec(), cookie: at + 1 });
        }
        cookie = cookie.max(COOKIE_NAMES);
        let blocks = Self::folder_blocks(inode);
        if self.index_root(inode).await?.is_some() {
            self.list_by_index(inode, cookie, wanted, &mut listed).await?;
        } else if blocks == 1 {
            let block = self.folder_block(inode, 0).await?;
            self.list_by_hash(block, &mut listed, |place| place > cookie)?;
        } else {
            let start = cookie - COOKIE_NAMES;
            for index in start / BLOCK_BYTES..blocks {
                let block = self.folder_block(inode, index).await?;
                for entry in folder::entries(self.cache.get(block)) {
                    let entry = entry.ok_or(Errno::Damaged)?;
                    let at = index * BLOCK_BYTES + entry.at as u64;
                    if at >= start && is_name(&entry) {
                        listed.push(listed_of(&entry, at + entry.len as u64 + COOKIE_NAMES));
                    }
                }
                self.leave(index, block);
                if listed.len() >= wanted {
                    break;
                }
            }
        }
        let inodes = self.geometry.inodes;
        match listed.iter().all(|entry| entry.inode <= inodes) {
            true => Ok(listed),
            false => Err(Errno::Damaged),
        }
    }

    /// Entries of a block whose places are wanted, in their order.
    pub(super) fn list_by_hash(
        &mut self,
        block: u32,
        listed: &mut Vec<Listed>,
        is_wanted: impl Fn(u64) -> bool,
    ) -> Result<(), Errno> {
        let (seed, is_unsigned) = (self.geometry.hash_seed, self.geometry.has_unsigned_hash);
        let start = listed.len();
        for entry in folder::entries(self.cache.get(block)) {
            let entry = entry.ok_or(Errno::Damaged)?;
            let place = cookie_of(half_md4(entry.name, &seed, is_unsigned));
            if is_name(&entry) && is_wanted(place) {
                listed.push(listed_of(&entry, place));
            }
        }
        listed[start..].sort_by_key(|entry| entry.cookie);
        Ok(())
    }
}

fn is_name(entry: &Entry<'_>) -> bool {
    entry.inode != 0 && entry.name != b"." && entry.name != b".."
}

fn listed_of(entry: &Entry<'_>, cookie: u64) -> Listed {
    Listed {
        inode: entry.inode,
        kind: Kind::of_entry_type(entry.entry_type),
        name: entry.name.to_vec(),
        cookie,
    }
}
