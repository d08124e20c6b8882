//! Bugs to order: each breaks one rule of the file system at one place, so that the tests can show that it would be seen.
//!
//! Without the feature `planted` no bug can be planted, and nothing of this is left in the program.

evenkeel_engine::planted_bugs! {
    /// A block of metadata that is newly taken is compared with zeros, whatever the store has there.
    FreshIsZero = "fresh-is-zero",
    /// A block of data that is newly taken keeps what was there beside the bytes written.
    FreshDataKeeps = "fresh-data-keeps",
    /// A block is used anew before the commit that frees it is durable.
    FreedAtOnce = "freed-at-once",
    /// The size of a file covers data that is not committed.
    SizeEarly = "size-early",
    /// Large data is not flushed before it is mapped.
    DataUnflushed = "data-unflushed",
    /// A file that was made shorter and longer again shows what it held.
    TailKept = "tail-kept",
    /// A file without a name is not in the list of orphans.
    OrphanUnlisted = "orphan-unlisted",
    /// Orphans are left at a mount.
    OrphansLeft = "orphans-left",
    /// A rename over a file leaves that file its link.
    RenameKeepsLink = "rename-keeps-link",
    /// A folder that moves keeps its old parent.
    MovedKeepsParent = "moved-keeps-parent",
    /// An fsync of a file leaves its size to the next.
    SizeLate = "size-late",
    /// An fsync is done before its commit is.
    SyncUnawaited = "sync-unawaited",
    /// What a commit carried of a page counts as clean though it was written again meanwhile.
    RewriteLost = "rewrite-lost",
    /// A read takes from a block what the commit under way is to put there.
    ReadsBehind = "reads-behind",
    /// A read shows what it took from a block though the file lost that block meanwhile.
    UnmapUnseen = "unmap-unseen",
    /// Data that is not committed keeps no room.
    Unreserved = "unreserved",
    /// The count of free blocks in the superblock does not follow.
    CountsLate = "counts-late",
    /// A leaf of a folder's index is split without regard to names of the same hash.
    SplitUnsorted = "split-unsorted",
}
