//! Extended attributes: as many as fit behind the inode's fields, the others in a block.

use super::Core;
use super::inode::BYTES;
use crate::error::Errno;
use crate::format::inode::{Inode, OLD_BYTES};
use crate::format::xattr::{self, Attribute};
use crate::store::Store;

/// Sectors of 512 bytes in a block.
const SECTORS: u32 = 8;

impl<S: Store> Core<S> {
    /// Where in the block of inodes the attributes of one are.
    fn xattr_area(&self, number: u32, inode: &Inode) -> Result<(u32, std::ops::Range<usize>), Errno> {
        let (block, at) = self.inode_place(number)?;
        let start = if inode.extra_bytes == 0 { BYTES } else { OLD_BYTES + usize::from(inode.extra_bytes) };
        Ok((block, at + start.min(BYTES)..at + BYTES))
    }

    /// All attributes of an inode that was loaded.
    pub(crate) async fn attributes(&mut self, number: u32, inode: &Inode) -> Result<Vec<Attribute>, Errno> {
        let (block, area) = self.xattr_area(number, inode)?;
        self.load(block).await?;
        let mut all = xattr::decode_inode(&self.cache.get(block)[area]).ok_or(Errno::Damaged)?;
        if inode.xattr_block != 0 {
            self.load_xattr_block(inode).await?;
            all.extend(xattr::decode_block(self.cache.get(inode.xattr_block)).ok_or(Errno::Damaged)?);
        }
        Ok(all)
    }

    pub(super) async fn load_xattr_block(&mut self, inode: &Inode) -> Result<(), Errno> {
        match self.is_data_block(inode.xattr_block) {
            true => self.load(inode.xattr_block).await,
            false => Err(Errno::Damaged),
        }
    }

    /// Stores all attributes of an inode, which is stored by whoever asks.
    pub(crate) async fn put_attributes(
        &mut self,
        number: u32,
        inode: &mut Inode,
        attributes: Vec<Attribute>,
    ) -> Result<(), Errno> {
        let (inode_block, area) = self.xattr_area(number, inode)?;
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for attribute in attributes {
            inside.push(attribute);
            if !xattr::fit_inode(&inside, area.len()) {
                outside.extend(inside.pop());
            }
        }
        if !xattr::fit_block(&outside) {
            return Err(Errno::NoSpace);
        }
        if outside.is_empty() {
            self.drop_xattr_block(inode).await?;
        } else {
            let has_own = inode.xattr_block != 0 && {
                self.load_xattr_block(inode).await?;
                xattr::block_users(self.cache.get(inode.xattr_block)) == 1
            };
            if !has_own {
                self.check_room(true)?;
                self.drop_xattr_block(inode).await?;
                let block = self.take_block(self.goal_of(number, inode)).await?;
                self.cache.insert_fresh(block);
                inode.xattr_block = block;
                inode.sectors = inode.sectors.checked_add(SECTORS).ok_or(Errno::NoSpace)?;
            }
            xattr::encode_block(&mut outside, self.cache.get_mut(inode.xattr_block));
        }
        self.load(inode_block).await?;
        xattr::encode_inode(&inside, &mut self.cache.get_mut(inode_block)[area]);
        Ok(())
    }

    /// An inode has no block of attributes any more.
    pub(crate) async fn drop_xattr_block(&mut self, inode: &mut Inode) -> Result<(), Errno> {
        if inode.xattr_block == 0 {
            return Ok(());
        }
        self.load_xattr_block(inode).await?;
        let block = inode.xattr_block;
        match xattr::block_users(self.cache.get(block)) {
            0 => return Err(Errno::Damaged),
            1 => self.free_block(block).await?,
            users => xattr::set_block_users(self.cache.get_mut(block), users - 1),
        }
        inode.xattr_block = 0;
        inode.sectors = inode.sectors.checked_sub(SECTORS).ok_or(Errno::Damaged)?;
        Ok(())
    }
}
