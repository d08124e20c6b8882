//! Inodes: read from and written to their table through the cache.

use super::Core;
use crate::error::Errno;
use crate::format::inode::{Inode, Kind};
pub(super) use crate::format::superblock::INODE_BYTES as BYTES;
use crate::store::Store;

impl<S: Store> Core<S> {
    /// An inode that is in use, named or not.
    ///
    /// # Errors
    ///
    /// [`Errno::Stale`] where it is not; [`Errno::Damaged`] where it cannot be.
    pub(crate) async fn inode(&mut self, number: u32) -> Result<Inode, Errno> {
        let inode = self.inode_raw(number).await?;
        if inode.mode == 0 || inode.links == 0 && !self.is_orphan(number) {
            return Err(Errno::Stale);
        }
        match inode.is_sound() {
            true => Ok(inode),
            false => Err(Errno::Damaged),
        }
    }

    /// Whether an inode can be had without a read, or not at all.
    pub(crate) fn is_inode_loaded(&self, number: u32) -> bool {
        self.inode_place(number).map_or(true, |(block, _)| self.cache.has(block))
    }

    /// Whatever is in the place of an inode.
    pub(crate) async fn inode_raw(&mut self, number: u32) -> Result<Inode, Errno> {
        let (block, at) = self.inode_place(number)?;
        self.load(block).await?;
        Ok(Inode::decode(&self.cache.get(block)[at..at + BYTES]))
    }

    /// Stores an inode that was loaded in this operation. One that is as it was makes nothing dirty.
    pub(crate) fn put_inode(&mut self, number: u32, inode: &Inode) {
        let (block, at) = self.inode_place(number).expect("it was loaded");
        let place = at..at + BYTES;
        let before: [u8; BYTES] =
            self.cache.get(block)[place.clone()].try_into().expect("as long as an inode");
        let mut bytes = before;
        inode.encode(&mut bytes);
        if bytes != before {
            self.cache.get_mut(block)[place].copy_from_slice(&bytes);
        }
    }

    /// Empties the place of a new inode.
    pub(crate) fn clear_inode(&mut self, number: u32) {
        let (block, at) = self.inode_place(number).expect("it was loaded");
        self.cache.get_mut(block)[at..at + BYTES].fill(0);
    }

    /// A folder's inode.
    pub(crate) async fn folder(&mut self, number: u32) -> Result<Inode, Errno> {
        let inode = self.inode(number).await?;
        match inode.kind() {
            Some(Kind::Folder) => Ok(inode),
            _ => Err(Errno::NotFolder),
        }
    }

    /// A file's inode.
    pub(crate) async fn file(&mut self, number: u32) -> Result<Inode, Errno> {
        let inode = self.inode(number).await?;
        match inode.kind() {
            Some(Kind::File) => Ok(inode),
            Some(Kind::Folder) => Err(Errno::IsFolder),
            _ => Err(Errno::Invalid),
        }
    }
}
