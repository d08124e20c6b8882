//! Blocks of a folder: entries one behind another, which fill the block.

use super::{BLOCK, BlockBytes, NAME_MAX, get_u16, get_u32, put_u16, put_u32};

/// Bytes of an entry before its name.
pub const ENTRY_HEAD_BYTES: usize = 8;

/// An entry where it lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Where in the block it begins.
    pub at: usize,
    /// Bytes to the next one.
    pub len: usize,
    /// The inode; 0 where the entry is free.
    pub inode: u32,
    /// What kind of file that is, as a number.
    pub entry_type: u8,
    /// The name.
    pub name: &'a [u8],
}

impl Entry<'_> {
    /// Bytes that it needs.
    fn needed(&self) -> usize {
        if self.inode == 0 { 0 } else { entry_bytes(self.name.len()) }
    }
}

/// Bytes that an entry with a name of `name_len` bytes needs.
pub fn entry_bytes(name_len: usize) -> usize {
    (ENTRY_HEAD_BYTES + name_len).next_multiple_of(4)
}

/// The entry at `at`; `None` where there is none that can be.
pub fn entry_at(block: &BlockBytes, at: usize) -> Option<Entry<'_>> {
    if at + ENTRY_HEAD_BYTES > BLOCK {
        return None;
    }
    let len = usize::from(get_u16(block, at + 4));
    let name_len = usize::from(block[at + 6]);
    let is_sound =
        len >= 12 && len.is_multiple_of(4) && at + len <= BLOCK && ENTRY_HEAD_BYTES + name_len <= len;
    is_sound.then(|| Entry {
        at,
        len,
        inode: get_u32(block, at),
        entry_type: block[at + 7],
        name: &block[at + ENTRY_HEAD_BYTES..][..name_len],
    })
}

/// The entries of a block, free ones too. `None`, once, where one cannot be.
pub fn entries(block: &BlockBytes) -> impl Iterator<Item = Option<Entry<'_>>> {
    let mut at = 0;
    std::iter::from_fn(move || {
        if at >= BLOCK {
            return None;
        }
        let entry = entry_at(block, at);
        at = entry.map_or(BLOCK, |entry| entry.at + entry.len);
        Some(entry)
    })
}

/// Where in the block the entry with this name is; `None` in front where the block is damaged.
pub fn find(block: &BlockBytes, name: &[u8]) -> Option<Option<(usize, u32)>> {
    for entry in entries(block) {
        let entry = entry?;
        if entry.inode != 0 && entry.name == name {
            return Some(Some((entry.at, entry.inode)));
        }
    }
    Some(None)
}

/// Writes an entry; the name fits.
pub fn put(block: &mut BlockBytes, at: usize, len: usize, inode: u32, entry_type: u8, name: &[u8]) {
    debug_assert!(name.len() <= NAME_MAX && ENTRY_HEAD_BYTES + name.len() <= len);
    put_u32(block, at, inode);
    put_u16(block, at + 4, len as u16);
    block[at + 6] = name.len() as u8;
    block[at + 7] = entry_type;
    block[at + ENTRY_HEAD_BYTES..][..name.len()].copy_from_slice(name);
}

/// Where an entry for a name finds room: `(at, bytes that the entry there keeps)`. `None` in front where the block is
/// damaged.
pub fn room_for(block: &BlockBytes, name_len: usize) -> Option<Option<(usize, usize)>> {
    let wanted = entry_bytes(name_len);
    for entry in entries(block) {
        let entry = entry?;
        if entry.len - entry.needed() >= wanted {
            return Some(Some((entry.at, entry.needed())));
        }
    }
    Some(None)
}

/// Puts an entry where [`room_for`] found room.
pub fn insert(block: &mut BlockBytes, (at, kept): (usize, usize), inode: u32, entry_type: u8, name: &[u8]) {
    let len = usize::from(get_u16(block, at + 4));
    if kept > 0 {
        put_u16(block, at + 4, kept as u16);
    }
    put(block, at + kept, len - kept, inode, entry_type, name);
}

/// Takes the entry at `at` out: the one before takes its room.
pub fn remove(block: &mut BlockBytes, at: usize) {
    let before = entries(block).map_while(|entry| entry).take_while(|entry| entry.at < at).last();
    let gone_len = get_u16(block, at + 4);
    match before.map(|before| (before.at, before.len)) {
        Some((before, len)) => put_u16(block, before + 4, len as u16 + gone_len),
        None => put_u32(block, at, 0),
    }
}

/// The first block of a new folder.
pub fn new_folder(block: &mut BlockBytes, inode: u32, parent: u32) {
    block.fill(0);
    let folder = super::inode::Kind::Folder.entry_type();
    put(block, 0, 12, inode, folder, b".");
    put(block, 12, BLOCK - 12, parent, folder, b"..");
}

/// A block with no entries.
pub fn empty(block: &mut BlockBytes) {
    block.fill(0);
    put_u16(block, 4, BLOCK as u16);
}

/// Fills a block with entries, one behind another.
pub fn fill<'a>(block: &mut BlockBytes, entries: impl ExactSizeIterator<Item = (u32, u8, &'a [u8])>) {
    empty(block);
    let (count, mut at) = (entries.len(), 0);
    for (number, (inode, entry_type, name)) in entries.enumerate() {
        let len = if number + 1 == count { BLOCK - at } else { entry_bytes(name.len()) };
        put(block, at, len, inode, entry_type, name);
        at += len;
    }
}
