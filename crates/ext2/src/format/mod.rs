//! The format of ext2 on disk: what lies where, stated once.
//!
//! Encoders and decoders are pure functions over the bytes of a block. A decoder takes any bytes: lengths and counts are
//! checked before anything is sliced by them.

pub mod folder;
pub mod group;
pub mod hash;
pub mod index;
pub mod inode;
pub mod superblock;
pub mod xattr;

/// Bytes of a block.
pub const BLOCK: usize = 4096;

/// [`BLOCK`] as a length on a store.
pub const BLOCK_BYTES: u64 = BLOCK as u64;

/// The bytes of one block.
pub type BlockBytes = [u8; BLOCK];

/// Block numbers in a mapping block.
pub const POINTERS: u64 = 1024;

/// Bits of a bitmap block.
pub const BITS: u32 = 8 * BLOCK as u32;

/// The inode of the root folder.
pub const ROOT_INODE: u32 = 2;

/// Longest name of a folder's entry.
pub const NAME_MAX: usize = 255;

/// Largest file: what 32 bits of 512-byte sectors count, mapping blocks included.
pub const FILE_BYTES_MAX: u64 = (1 << 41) - (1 << 32);

/// Links that an inode may have.
pub const LINKS_MAX: u16 = 32_000;

/// The 16 bits at `at`.
pub(crate) fn get_u16(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

/// The 32 bits at `at`.
pub(crate) fn get_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Stores 16 bits at `at`.
pub(crate) fn put_u16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

/// Stores 32 bits at `at`.
pub(crate) fn put_u32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}
