//! What a file is like, as the front tells it, and what of it can be set.

use crate::format::inode::{Inode, Kind, Timestamp};

/// What a file is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    /// Its inode.
    pub inode: u32,
    /// Tells apart the files that had this inode.
    pub generation: u32,
    /// What kind of file it is.
    pub kind: Kind,
    /// Its permissions: 12 bits.
    pub permissions: u16,
    /// Names.
    pub links: u16,
    /// Owner.
    pub uid: u32,
    /// Group of owners.
    pub gid: u32,
    /// Bytes.
    pub size: u64,
    /// Sectors of 512 bytes that it takes, or will.
    pub sectors: u64,
    /// Last read, as far as that was set.
    pub atime: Timestamp,
    /// Last change of contents.
    pub mtime: Timestamp,
    /// Last change of the inode.
    pub ctime: Timestamp,
    /// When it was made.
    pub crtime: Timestamp,
    /// A device's number: major and minor.
    pub device: (u32, u32),
}

impl Attributes {
    pub(crate) fn of(number: u32, inode: &Inode, kind: Kind) -> Self {
        let is_device = matches!(kind, Kind::CharDevice | Kind::BlockDevice);
        Self {
            inode: number,
            generation: inode.generation,
            kind,
            permissions: inode.mode & 0o7777,
            links: inode.links,
            uid: inode.uid,
            gid: inode.gid,
            size: inode.size,
            sectors: u64::from(inode.sectors),
            atime: inode.atime,
            mtime: inode.mtime,
            ctime: inode.ctime,
            crtime: inode.crtime,
            device: if is_device { inode.device() } else { (0, 0) },
        }
    }
}

/// What to set; `None` stays.
#[derive(Debug, Clone, Copy, Default)]
pub struct SetAttributes {
    /// Permissions: 12 bits.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group of owners.
    pub gid: Option<u32>,
    /// Bytes of a file.
    pub size: Option<u64>,
    /// Last read.
    pub atime: Option<Timestamp>,
    /// Last change of contents.
    pub mtime: Option<Timestamp>,
}

/// Who asks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Caller {
    /// Owner of what it makes.
    pub uid: u32,
    /// Group of owners of what it makes.
    pub gid: u32,
    /// Whether it may take blocks that are kept for root.
    pub is_privileged: bool,
}

impl Caller {
    /// Root.
    pub const ROOT: Self = Self { uid: 0, gid: 0, is_privileged: true };
}

/// An entry of a folder, listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FolderEntry {
    /// Its inode.
    pub inode: u32,
    /// What kind of file that is, if the folder knows.
    pub kind: Option<Kind>,
    /// Its name.
    pub name: Vec<u8>,
    /// Where the listing goes on behind it: stays the same whatever happens to other entries.
    pub cookie: u64,
}

/// How full a file system is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Statistics {
    /// Blocks of 4,096 bytes, without those of its tables.
    pub blocks: u64,
    /// Free ones, without those that data needs which is not committed.
    pub free_blocks: u64,
    /// Those of them that anybody may take.
    pub available_blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Free ones.
    pub free_inodes: u64,
}

/// What a file system did since it was mounted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Activity {
    /// Commits.
    pub commits: u64,
    /// Files made durable.
    pub syncs: u64,
    /// Bytes of data that commits carried.
    pub data_bytes: u64,
    /// Bytes of metadata that commits carried.
    pub metadata_bytes: u64,
    /// Bytes of data that were written to their blocks and flushed.
    pub written_bytes: u64,
    /// Pages of data that are not committed now.
    pub dirty_pages: u64,
    /// Blocks of metadata in memory now.
    pub cached_blocks: u64,
    /// Files that are known now.
    pub known_files: u64,
    /// Files with data or times that are not committed, or that something is done with, now: what takes memory of its own.
    pub busy_files: u64,
}
