//! Descriptors of groups: 32 bytes each, from block 1 on.

use super::{BLOCK, get_u16, get_u32, put_u16, put_u32};

/// Bytes of a descriptor.
pub const BYTES: usize = 32;

/// Which block holds the descriptor of a group, and where in it.
pub fn place(group: u32) -> (u32, usize) {
    let in_block = (BLOCK / BYTES) as u32;
    (1 + group / in_block, (group % in_block) as usize * BYTES)
}

/// A descriptor, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Group {
    /// Block of the bitmap of blocks.
    pub block_bitmap: u32,
    /// Block of the bitmap of inodes.
    pub inode_bitmap: u32,
    /// First block of the table of inodes.
    pub inode_table: u32,
    /// Free blocks.
    pub free_blocks: u16,
    /// Free inodes.
    pub free_inodes: u16,
    /// Inodes that are folders.
    pub folders: u16,
}

impl Group {
    /// From the first 32 of `bytes`.
    pub fn decode(bytes: &[u8]) -> Self {
        Self {
            block_bitmap: get_u32(bytes, 0),
            inode_bitmap: get_u32(bytes, 4),
            inode_table: get_u32(bytes, 8),
            free_blocks: get_u16(bytes, 12),
            free_inodes: get_u16(bytes, 14),
            folders: get_u16(bytes, 16),
        }
    }

    /// Into the first 32 of `bytes`.
    pub fn encode(&self, bytes: &mut [u8]) {
        put_u32(bytes, 0, self.block_bitmap);
        put_u32(bytes, 4, self.inode_bitmap);
        put_u32(bytes, 8, self.inode_table);
        put_u16(bytes, 12, self.free_blocks);
        put_u16(bytes, 14, self.free_inodes);
        put_u16(bytes, 16, self.folders);
    }
}
