//! What an arena holds, read from its bytes: its head, and one unit after the other. Nothing in it is trusted.

use crate::env::Arena;
use crate::format::unit::{
    ArenaHead, HEAD_BYTES, RING_OFFSET, UNIT_HEADER_BYTES, UnitExtent, decode_unit, decode_unit_header,
};

/// The newer of the two heads that are whole.
pub(super) fn newest_head(arena: &impl Arena) -> Option<ArenaHead> {
    let copies = [0, HEAD_BYTES].map(|offset| {
        let mut bytes = [0; HEAD_BYTES];
        arena.load(offset, &mut bytes);
        ArenaHead::decode(&bytes)
    });
    copies.into_iter().flatten().max_by_key(|head| head.generation)
}

/// A unit as it stands in the ring.
pub(super) struct Stored {
    pub(super) extents: Vec<UnitExtent>,
    /// Bytes that it takes.
    pub(super) len: usize,
    pub(super) durable: bool,
}

/// The unit of that number at `offset` of the ring, if it is there and whole.
pub(super) fn unit_at(arena: &impl Arena, volume: u64, offset: usize, sequence: u64) -> Option<Stored> {
    let capacity = capacity_of(arena.len());
    let mut header = [0; UNIT_HEADER_BYTES];
    if offset.checked_add(header.len())? > capacity {
        return None;
    }
    arena.load(RING_OFFSET + offset, &mut header);
    let header = decode_unit_header(&header).filter(|header| header.sequence == sequence)?;
    let len = header.len_bytes as usize;
    if offset.checked_add(len)? > capacity {
        return None;
    }
    let mut bytes = vec![0; len];
    arena.load(RING_OFFSET + offset, &mut bytes);
    let (header, extents, _) = decode_unit(volume, &bytes)?;
    Some(Stored { extents, len, durable: header.durable })
}

/// Bytes of the ring in such an arena.
pub(super) fn capacity_of(arena_bytes: usize) -> usize {
    arena_bytes.saturating_sub(RING_OFFSET) / 8 * 8
}
