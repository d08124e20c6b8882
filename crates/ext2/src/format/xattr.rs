//! Extended attributes: in the inode behind its fields, and in a block.
//!
//! ```text
//! inode:  magic (4) │ entries │ ... │ values      offsets of values from the first entry
//! block:  head (32) │ entries, sorted │ ... │ values      offsets of values from the start of the block
//! entry:  name length (1) │ namespace (1) │ value offset (2) │ 0 (4) │ value length (4) │ hash (4) │ name
//! ```

use super::{BLOCK, get_u16, get_u32, put_u16, put_u32};

const MAGIC: u32 = 0xea02_0000;
const BLOCK_HEAD_BYTES: usize = 32;
const ENTRY_HEAD_BYTES: usize = 16;

/// An attribute.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribute {
    /// Number of the namespace.
    pub space: u8,
    /// Name without the namespace.
    pub name: Vec<u8>,
    /// Value.
    pub value: Vec<u8>,
}

impl Attribute {
    fn sort_key(&self) -> (u8, usize, &[u8]) {
        (self.space, self.name.len(), &self.name)
    }

    fn bytes(&self) -> usize {
        (ENTRY_HEAD_BYTES + self.name.len()).next_multiple_of(4) + self.value.len().next_multiple_of(4)
    }
}

const SPACES: [(u8, &[u8]); 3] = [(1, b"user."), (4, b"trusted."), (6, b"security.")];

/// A full name as namespace and rest; `None` where the namespace is not one of those that can be stored.
pub fn split_name(full: &[u8]) -> Option<(u8, &[u8])> {
    SPACES.iter().find_map(|(space, prefix)| Some((*space, full.strip_prefix(*prefix)?)))
}

/// The full name; `None` of a namespace that is not known.
pub fn full_name(attribute: &Attribute) -> Option<Vec<u8>> {
    let (_, prefix) = SPACES.iter().find(|(space, _)| *space == attribute.space)?;
    Some([prefix, &attribute.name[..]].concat())
}

/// The attributes in what an inode has behind its fields; `None` where they cannot be.
pub fn decode_inode(area: &[u8]) -> Option<Vec<Attribute>> {
    if area.len() < 8 || get_u32(area, 0) != MAGIC {
        return Some(Vec::new());
    }
    decode(&area[4..], 0)
}

/// The attributes in a block; `None` where they cannot be.
pub fn decode_block(block: &[u8; BLOCK]) -> Option<Vec<Attribute>> {
    if get_u32(block, 0) != MAGIC || get_u32(block, 8) != 1 {
        return None;
    }
    decode(block, BLOCK_HEAD_BYTES)
}

/// How many inodes share a block of attributes.
pub fn block_users(block: &[u8; BLOCK]) -> u32 {
    get_u32(block, 4)
}

/// As many inodes share a block of attributes.
pub fn set_block_users(block: &mut [u8; BLOCK], users: u32) {
    put_u32(block, 4, users);
}

fn decode(area: &[u8], mut at: usize) -> Option<Vec<Attribute>> {
    let mut found = Vec::new();
    let mut value_bytes = 0;
    while at + 4 <= area.len() && get_u32(area, at) != 0 {
        let head = area.get(at..at + ENTRY_HEAD_BYTES)?;
        let name_len = usize::from(head[0]);
        let name = area.get(at + ENTRY_HEAD_BYTES..at + ENTRY_HEAD_BYTES + name_len)?;
        let (offset, len) = (usize::from(get_u16(head, 2)), get_u32(head, 8) as usize);
        if get_u32(head, 4) != 0 {
            return None;
        }
        let value = area.get(offset..offset.checked_add(len)?)?;
        value_bytes += len;
        if value_bytes > area.len() {
            return None;
        }
        found.push(Attribute { space: head[1], name: name.to_vec(), value: value.to_vec() });
        at += (ENTRY_HEAD_BYTES + name_len).next_multiple_of(4);
    }
    Some(found)
}

/// Whether attributes fit into `area_bytes` behind an inode's fields.
pub fn fit_inode(attributes: &[Attribute], area_bytes: usize) -> bool {
    8 + attributes.iter().map(Attribute::bytes).sum::<usize>() <= area_bytes
}

/// Whether attributes fit into a block.
pub fn fit_block(attributes: &[Attribute]) -> bool {
    BLOCK_HEAD_BYTES + 4 + attributes.iter().map(Attribute::bytes).sum::<usize>() <= BLOCK
}

/// Stores attributes that fit behind an inode's fields.
pub fn encode_inode(attributes: &[Attribute], area: &mut [u8]) {
    area.fill(0);
    if !attributes.is_empty() {
        put_u32(area, 0, MAGIC);
        encode(attributes, &mut area[4..], 0);
    }
}

/// Stores attributes that fit into a block.
pub fn encode_block(attributes: &mut [Attribute], block: &mut [u8; BLOCK]) {
    block.fill(0);
    attributes.sort_by(|a, b| a.sort_key().cmp(&b.sort_key()));
    put_u32(block, 0, MAGIC);
    put_u32(block, 4, 1);
    put_u32(block, 8, 1);
    let hash = encode(attributes, block, BLOCK_HEAD_BYTES);
    put_u32(block, 12, hash);
}

/// Stores entries from `at` on and values from the end; answers the hash of all.
fn encode(attributes: &[Attribute], area: &mut [u8], mut at: usize) -> u32 {
    let mut end = area.len();
    let mut all: u32 = 0;
    for attribute in attributes {
        let Attribute { space, name, value } = attribute;
        end -= value.len().next_multiple_of(4);
        area[end..][..value.len()].copy_from_slice(value);
        area[at] = name.len() as u8;
        area[at + 1] = *space;
        put_u16(area, at + 2, if value.is_empty() { 0 } else { end as u16 });
        put_u32(area, at + 8, value.len() as u32);
        let hash = hash(name, value);
        put_u32(area, at + 12, hash);
        all = all.rotate_left(16) ^ hash;
        area[at + ENTRY_HEAD_BYTES..][..name.len()].copy_from_slice(name);
        at += (ENTRY_HEAD_BYTES + name.len()).next_multiple_of(4);
    }
    all
}

fn hash(name: &[u8], value: &[u8]) -> u32 {
    let of_name = name.iter().fold(0u32, |hash, &byte| hash.rotate_left(5) ^ u32::from(byte));
    value.chunks(4).fold(of_name, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        hash.rotate_left(16) ^ u32::from_le_bytes(word)
    })
}
