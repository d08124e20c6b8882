//! What the kernel and a FUSE server say to each other: layouts and numbers, as pure functions over slices.
//!
//! The source is `include/uapi/linux/fuse.h` of the kernel, of the version that the handshake agreed on (7.40). Numbers have
//! the byte order of the machine.
//!
//! ```text
//! request      what the kernel asks
//! reply        what it is answered
//! ```
//!
//! 1. Nothing is stated twice: a layout is read or written in one place, and in the order of its fields.
//! 2. A decoder takes any bytes, allocates nothing, and answers [`Malformed`] for what does not fit.

pub(super) mod reply;
pub(super) mod request;

/// A request that is not as the protocol has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed;

/// Numbers of requests: `enum fuse_opcode`.
mod opcode {
    pub(super) const LOOKUP: u32 = 1;
    pub(super) const FORGET: u32 = 2;
    pub(super) const GETATTR: u32 = 3;
    pub(super) const SETATTR: u32 = 4;
    pub(super) const READLINK: u32 = 5;
    pub(super) const SYMLINK: u32 = 6;
    pub(super) const MKNOD: u32 = 8;
    pub(super) const MKDIR: u32 = 9;
    pub(super) const UNLINK: u32 = 10;
    pub(super) const RMDIR: u32 = 11;
    pub(super) const RENAME: u32 = 12;
    pub(super) const LINK: u32 = 13;
    pub(super) const READ: u32 = 15;
    pub(super) const WRITE: u32 = 16;
    pub(super) const STATFS: u32 = 17;
    pub(super) const RELEASE: u32 = 18;
    pub(super) const FSYNC: u32 = 20;
    pub(super) const SETXATTR: u32 = 21;
    pub(super) const GETXATTR: u32 = 22;
    pub(super) const LISTXATTR: u32 = 23;
    pub(super) const REMOVEXATTR: u32 = 24;
    pub(super) const READDIR: u32 = 28;
    pub(super) const RELEASEDIR: u32 = 29;
    pub(super) const FSYNCDIR: u32 = 30;
    pub(super) const CREATE: u32 = 35;
    pub(super) const INTERRUPT: u32 = 36;
    pub(super) const DESTROY: u32 = 38;
    pub(super) const BATCH_FORGET: u32 = 42;
    pub(super) const FALLOCATE: u32 = 43;
    pub(super) const READDIRPLUS: u32 = 44;
    pub(super) const RENAME2: u32 = 45;
    pub(super) const LSEEK: u32 = 46;
    pub(super) const COPY_FILE_RANGE: u32 = 47;
    pub(super) const TMPFILE: u32 = 51;
}

/// Which fields of a `fuse_setattr_in` count: `FATTR_*`.
mod attribute {
    pub(super) const MODE: u32 = 1;
    pub(super) const UID: u32 = 1 << 1;
    pub(super) const GID: u32 = 1 << 2;
    pub(super) const SIZE: u32 = 1 << 3;
    pub(super) const ATIME: u32 = 1 << 4;
    pub(super) const MTIME: u32 = 1 << 5;
    pub(super) const ATIME_NOW: u32 = 1 << 7;
    pub(super) const MTIME_NOW: u32 = 1 << 8;
}

/// What a write says of itself: `FUSE_WRITE_*`.
mod write_flag {
    /// The kernel writes back what is mapped.
    pub(super) const CACHE: u32 = 1;
    /// Privileges of the file go.
    pub(super) const KILL_SUIDGID: u32 = 1 << 2;
}

/// An fsync of data alone: `FUSE_FSYNC_FDATASYNC`.
const FSYNC_DATA: u32 = 1;

/// A file that is opened keeps what the kernel has of it: `FOPEN_KEEP_CACHE`.
const OPEN_KEEP_CACHE: u32 = 1 << 1;
