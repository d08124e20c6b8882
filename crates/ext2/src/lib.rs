//! A standard ext2 file system over a store that commits atomically.
//!
//! ```text
//! FileSystem   operations, for many tasks of one thread
//!   core       what is in memory: names, inodes, maps, space, data that is not committed
//!   commit     data of the files that are synced, and all dirty metadata, as one change of the store
//!   cache      blocks of metadata, and which bytes of them are not committed
//! format       every byte on the store
//! Store        read, write, flush, commit: an open volume of the engine, or memory
//! ```
//!
//! 1. The store holds a consistent file system at every moment: a commit carries all dirty metadata, and there is no other
//!    way in which metadata reaches the store. `e2fsck` finds nothing to do after any cut, but for files without a name, which the
//!    next mount frees.
//! 2. An fsync carries the data of its own file, and no other's. Small data is in the commit, as the bytes that changed;
//!    large data goes to its blocks, is flushed, and is mapped by the commit.
//! 3. Blocks are taken when data is committed, so that no block shows what it held before. Room for data is reserved when
//!    it is written, so that it is not lost for want of room.
//! 4. A block that is freed is not taken anew before that is durable.
//! 5. What is on the store is hostile: it is checked when it is used. An operation that fails halfway makes the file system
//!    read-only in memory, and nothing of it is committed.
//!
//! No I/O, no clock, no threads, no unsafe. Operations are futures of one thread; each holds the state while it runs, but
//! not while it reads data, writes data or commits. A future that is dropped before it is done, after it changed something,
//! makes the file system read-only: run operations to their end.
//!
//! ```
//! # use evenkeel_ext2::{Caller, FileSystem, FormatOptions, MemoryStore, MountOptions, ROOT_INODE, Timestamp, format};
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let store = MemoryStore::new(16 << 20);
//! format(&store, &FormatOptions::default()).await?;
//! let files = FileSystem::mount(store, MountOptions::default(), Timestamp::default).await?;
//! let log = files.create(ROOT_INODE, b"log", 0o644, &Caller::ROOT).await?;
//! files.write(log.inode, 0, b"entry", &Caller::ROOT).await?;
//! files.fsync(log.inode).await?;
//! files.forget(log.inode, 1).await?;
//! files.unmount().await?;
//! # Ok(())
//! # }
//! ```

mod attributes;
mod batch;
mod cache;
mod commit;
mod core;
mod error;
mod extents;
mod file_system;
pub mod format;
mod lock;
mod memory;
mod mkfs;
mod mount;
mod payload;
pub mod planted;
pub mod store;
mod volume_store;

pub use attributes::{Activity, Attributes, Caller, FolderEntry, SetAttributes, Statistics};
pub use error::{Errno, MountError, StoreError};
pub use file_system::{FORGOTTEN_MAX, FileSystem, MountOptions, RenameMode, Seek, XattrMode};
pub use format::inode::{Kind, Timestamp};
pub use format::{FILE_BYTES_MAX, LINKS_MAX, NAME_MAX, ROOT_INODE};
pub use memory::{Asked, MemoryStore};
pub use mkfs::{FORMAT_BYTES_MIN, FormatOptions, format};
pub use payload::Payload;
pub use store::Store;
