//! The index of a folder: a tree of hashes in blocks that look like free entries to whoever does not know it.
//!
//! ```text
//! root:  entry "." (12) │ entry ".." (12) │ what the index is like (8) │ hash and block (8 each), from byte 32
//! node:  free entry (8) │ hash and block (8 each), from byte 8
//! ```
//!
//! The hash of the first pair is not needed: limit and count of the pairs stand there.

use super::{BLOCK, BlockBytes, get_u16, get_u32, put_u16, put_u32};

/// Bytes of a pair.
const PAIR_BYTES: usize = 8;

/// Levels of nodes between the root and the leaves that an index may have.
pub const LEVELS_MAX: u8 = 1;

/// Which of the two kinds of block of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The first block of the folder.
    Root,
    /// A node below it.
    Node,
}

impl Place {
    fn at(self) -> usize {
        match self {
            Self::Root => 32,
            Self::Node => 8,
        }
    }

    /// Pairs that fit.
    pub fn limit(self) -> usize {
        (BLOCK - self.at()) / PAIR_BYTES
    }
}

/// A hash, and the block (of the folder) of the names from there on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The least hash there; its lowest bit says that the block before has names of this hash, too.
    pub hash: u32,
    /// Which block of the folder.
    pub block: u32,
}

/// What kind of hash the root names, and the levels of nodes below it; `None` where it is no root.
pub fn root_info(block: &BlockBytes) -> Option<(u8, u8)> {
    let is_root =
        get_u16(block, 4) == 12 && usize::from(get_u16(block, 16)) == BLOCK - 12 && get_u32(block, 24) == 0;
    (is_root && block[29] == 8 && block[31] == 0).then_some((block[28], block[30]))
}

/// Half MD4, as the root names it.
pub const HALF_MD4: u8 = 1;

/// The pairs; `None` where they cannot be.
pub fn pairs(block: &BlockBytes, place: Place) -> Option<Vec<Pair>> {
    let at = place.at();
    let (limit, count) = (usize::from(get_u16(block, at)), usize::from(get_u16(block, at + 2)));
    if limit != place.limit() || count == 0 || count > limit {
        return None;
    }
    let pair = |number: usize| {
        let at = at + number * PAIR_BYTES;
        Pair {
            hash: if number == 0 { 0 } else { get_u32(block, at) },
            block: get_u32(block, at + 4) & 0xfff_ffff,
        }
    };
    Some((0..count).map(pair).collect())
}

/// Stores pairs, of which there are at least one and no more than fit.
pub fn put_pairs(block: &mut BlockBytes, place: Place, pairs: &[Pair]) {
    let at = place.at();
    block[at..].fill(0);
    for (number, pair) in pairs.iter().enumerate() {
        put_u32(block, at + number * PAIR_BYTES, pair.hash);
        put_u32(block, at + number * PAIR_BYTES + 4, pair.block);
    }
    put_u16(block, at, place.limit() as u16);
    put_u16(block, at + 2, pairs.len() as u16);
}

/// Makes the first block of a folder a root, without pairs: "." and ".." stay.
pub fn put_root(block: &mut BlockBytes, levels: u8) {
    put_u16(block, 16, (BLOCK - 12) as u16);
    put_u32(block, 24, 0);
    (block[28], block[29], block[30], block[31]) = (HALF_MD4, 8, levels, 0);
}

/// Says how many levels of nodes are below the root.
pub fn set_levels(block: &mut BlockBytes, levels: u8) {
    block[30] = levels;
}

/// Makes a block a node, without pairs.
pub fn put_node(block: &mut BlockBytes) {
    super::folder::empty(block);
}

/// Which of the pairs leads to names of this hash.
pub fn position(pairs: &[Pair], hash: u32) -> usize {
    pairs[1..].partition_point(|pair| pair.hash <= hash)
}
