//! Records of the arena: the writes that are acknowledged and not yet durable.
//!
//! ```text
//! arena:  head 0 (64) │ head 1 (64) │ ring
//! unit:   header (56 bytes) │ extents (24 bytes each) │ payload │ padding to 8
//! ```
//!
//! A unit counts once its checksum does, so a kill between any two stores leaves a ring that ends before it.
//! The checksum is seeded with volume and sequence number, and covers header, extents and the sum of the payload,
//! so that the payload is summed where it lies and copied once; a unit never wraps. A unit that became durable is
//! marked so, outside the checksum: replayed as if it were not, it could bring back what a newer durable one
//! had overwritten.
//!
//! The head has two versions. The first did not name the newest acknowledged record; it is read, and no longer stored.

use twox_hash::XxHash3_64;

use super::{Fields, seeded_sum};

const UNIT_MAGIC: u64 = u64::from_le_bytes(*b"ek-unit.");
const HEAD_MAGIC: u64 = u64::from_le_bytes(*b"ek-aren2");
const HEAD_MAGIC_1: u64 = u64::from_le_bytes(*b"ek-arena");

/// What the magics of all versions begin with; a last byte follows.
const HEAD_MAGIC_START: &[u8] = b"ek-aren";

/// Bytes of a unit's header.
pub const UNIT_HEADER_BYTES: usize = 56;

/// Where in a unit's header its mark stands.
pub const UNIT_MARK_OFFSET: usize = 16;

/// The mark of a unit that is durable.
pub const UNIT_DURABLE: [u8; 8] = *b"ek-done.";

/// What the checksum covers begins here.
const SUMMED_FROM: usize = 24;

/// Bytes of an extent of a unit.
pub const UNIT_EXTENT_BYTES: usize = 24;

/// Where the ring begins.
pub const RING_OFFSET: usize = 128;

/// Bytes between the two copies of the head.
pub const HEAD_BYTES: usize = 64;

/// What counts heads or records, and what counts units, ends below these, so that it can be counted on.
const GENERATION_END: u64 = 1 << 62;
const SEQUENCE_END: u64 = 1 << 63;

/// What counts openings ends below this: two of them find room in a word.
pub const OPENING_END: u64 = 1 << 32;

/// What an extent of a unit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Bytes, in the payload.
    Data,
    /// Zeros.
    Zero,
    /// Nothing: whole pages without contents.
    Discard,
    /// Nothing any more: these bytes went home by another way, and older units do not count for them.
    Superseded,
}

/// A range of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitExtent {
    /// First byte on the volume.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// What they are.
    pub content: Content,
}

impl UnitExtent {
    /// Bytes of payload that belong to it.
    pub fn payload_bytes(&self) -> u64 {
        if self.content == Content::Data { self.len } else { 0 }
    }
}

/// The header of a unit, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnitHeader {
    /// Place in the order of writes.
    pub sequence: u64,
    /// Number of extents.
    pub extents: u32,
    /// Bytes of payload.
    pub payload_bytes: u32,
    /// Bytes of the whole unit in the ring.
    pub len_bytes: u32,
    /// Whether it is marked as durable.
    pub durable: bool,
}

/// Where the oldest unit begins, which openings of the volume this arena belongs to, and how far its log came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ArenaHead {
    /// The volume.
    pub volume: u64,
    /// Counts the heads stored.
    pub generation: u64,
    /// The opening that stored it.
    pub epoch: u64,
    /// The opening that is about to be; the same as `epoch` at all other times.
    pub next_epoch: u64,
    /// The newest record of the log that was acknowledged in them; 0 where that is not known.
    pub acknowledged: u64,
    /// Where the oldest unit begins, from the start of the ring.
    pub tail_offset: u64,
    /// That unit's sequence number.
    pub tail_sequence: u64,
}

/// Bytes of a unit in the ring.
pub fn unit_bytes(extents: usize, payload_bytes: usize) -> usize {
    (UNIT_HEADER_BYTES + extents * UNIT_EXTENT_BYTES + payload_bytes).next_multiple_of(8)
}

/// What stands before the payload of a unit in the ring. `payload` holds the bytes of each extent that has any, in
/// the extents' order.
pub fn encode_unit_head<'a>(
    volume: u64,
    sequence: u64,
    extents: &[UnitExtent],
    payload: impl IntoIterator<Item = &'a [u8]>,
    out: &mut Vec<u8>,
) {
    out.clear();
    out.resize(UNIT_HEADER_BYTES, 0);
    for extent in extents {
        let content: u64 = match extent.content {
            Content::Data => 0,
            Content::Zero => 1,
            Content::Discard => 2,
            Content::Superseded => 3,
        };
        for word in [extent.offset, extent.len, content] {
            out.extend_from_slice(&word.to_le_bytes());
        }
    }
    let payload_start = out.len();
    let (mut payload_bytes, mut sum) = (0, 0);
    for bytes in payload {
        payload_bytes += bytes.len();
        sum = XxHash3_64::oneshot_with_seed(sum, bytes);
    }
    let counts = extents.len() as u64 | (payload_bytes as u64) << 32;
    for (place, word) in out[SUMMED_FROM..UNIT_HEADER_BYTES].chunks_exact_mut(8).zip([
        sequence,
        counts,
        payload_start as u64 | (out_len(payload_start, payload_bytes) << 32),
        sum,
    ]) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    let sum = seeded_sum(volume, 0, sequence, &out[SUMMED_FROM..]);
    out[..8].copy_from_slice(&UNIT_MAGIC.to_le_bytes());
    out[8..16].copy_from_slice(&sum.to_le_bytes());
}

fn out_len(payload_start: usize, payload_bytes: usize) -> u64 {
    (payload_start + payload_bytes).next_multiple_of(8) as u64
}

/// The header of the unit at the start of `bytes`, its counts plausible.
pub fn decode_unit_header(bytes: &[u8]) -> Option<UnitHeader> {
    let mut fields = Fields::of(bytes);
    if fields.u64()? != UNIT_MAGIC {
        return None;
    }
    let _sum = fields.u64()?;
    let durable = fields.take(8)? == UNIT_DURABLE;
    let sequence = fields.u64()?;
    let (extents, payload_bytes) = (fields.u32()?, fields.u32()?);
    let (payload_start, len_bytes) = (fields.u32()?, fields.u32()?);
    let start = UNIT_HEADER_BYTES as u64 + u64::from(extents) * UNIT_EXTENT_BYTES as u64;
    let sound = u64::from(payload_start) == start
        && (start + u64::from(payload_bytes)).next_multiple_of(8) == u64::from(len_bytes);
    sound.then_some(UnitHeader { sequence, extents, payload_bytes, len_bytes, durable })
}

/// The unit in `bytes`, which are as many as its header says: its extents, and where its payload begins.
pub fn decode_unit(volume: u64, bytes: &[u8]) -> Option<(UnitHeader, Vec<UnitExtent>, usize)> {
    let header = decode_unit_header(bytes)?;
    let bytes = bytes.get(..header.len_bytes as usize)?;
    let payload_start = UNIT_HEADER_BYTES + header.extents as usize * UNIT_EXTENT_BYTES;
    let sum = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    if sum != seeded_sum(volume, 0, header.sequence, &bytes[SUMMED_FROM..payload_start]) {
        return None;
    }
    let (mut extents, mut payload, mut payload_sum) = (Vec::new(), &bytes[payload_start..], 0);
    for extent in bytes[UNIT_HEADER_BYTES..payload_start].chunks_exact(UNIT_EXTENT_BYTES) {
        let mut fields = Fields::of(extent);
        let (offset, len) = (fields.u64()?, fields.u64()?);
        let content = match fields.u64()? {
            0 => Content::Data,
            1 => Content::Zero,
            2 => Content::Discard,
            3 => Content::Superseded,
            _ => return None,
        };
        offset.checked_add(len)?;
        let extent = UnitExtent { offset, len, content };
        if content == Content::Data {
            let (part, rest) = payload.split_at_checked(usize::try_from(len).ok()?)?;
            (payload, payload_sum) = (rest, XxHash3_64::oneshot_with_seed(payload_sum, part));
        }
        extents.push(extent);
    }
    let payload_bytes = bytes.len() - payload_start - payload.len();
    let is_whole =
        payload_bytes == header.payload_bytes as usize && payload_sum == stored_payload_sum(bytes)?;
    is_whole.then_some((header, extents, payload_start))
}

fn stored_payload_sum(unit: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(unit[UNIT_HEADER_BYTES - 8..UNIT_HEADER_BYTES].try_into().ok()?))
}

impl ArenaHead {
    /// One copy of the head.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        debug_assert!(self.epoch.max(self.next_epoch) < OPENING_END, "both find room in a word");
        let mut bytes = [0; HEAD_BYTES];
        let words = [
            HEAD_MAGIC,
            0,
            self.volume,
            self.generation,
            self.epoch + self.next_epoch * OPENING_END,
            self.acknowledged,
            self.tail_offset,
            self.tail_sequence,
        ];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = seeded_sum(0, 0, 0, &bytes[16..]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The head in a copy, of any version; `None` where it is not whole.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() != HEAD_BYTES {
            return None;
        }
        let mut fields = Fields::of(bytes);
        let (magic, sum) = (fields.u64()?, fields.u64()?);
        if ![HEAD_MAGIC, HEAD_MAGIC_1].contains(&magic) || sum != seeded_sum(0, 0, 0, &bytes[16..]) {
            return None;
        }
        let (volume, generation) = (fields.u64()?, fields.u64()?);
        let (openings, acknowledged) = (fields.u64()?, fields.u64()?);
        let (epoch, next_epoch, acknowledged) = match magic {
            HEAD_MAGIC_1 => (openings, acknowledged, 0),
            _ => (openings % OPENING_END, openings / OPENING_END, acknowledged),
        };
        let (tail_offset, tail_sequence) = (fields.u64()?, fields.u64()?);
        let found = Self { volume, generation, epoch, next_epoch, acknowledged, tail_offset, tail_sequence };
        let is_sound = found.generation.max(found.acknowledged) < GENERATION_END
            && found.epoch.max(found.next_epoch) < OPENING_END
            && found.tail_sequence < SEQUENCE_END;
        is_sound.then_some(found)
    }

    /// Whether a copy holds a head of a version that is not known here.
    pub fn is_of_other_version(bytes: &[u8]) -> bool {
        let known = [HEAD_MAGIC, HEAD_MAGIC_1].map(u64::to_le_bytes);
        bytes.starts_with(HEAD_MAGIC_START) && !known.iter().any(|magic| bytes.starts_with(magic))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn whole_unit(extents: &[UnitExtent], payload: &[&[u8]]) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_unit_head(7, 5, extents, payload.iter().copied(), &mut bytes);
        bytes.extend(payload.concat());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        bytes
    }

    #[test]
    fn what_is_stored_is_found() {
        let extents = [
            UnitExtent { offset: 10, len: 3, content: Content::Data },
            UnitExtent { offset: 4096, len: 4096, content: Content::Discard },
            UnitExtent { offset: 20, len: 2, content: Content::Data },
        ];
        let bytes = whole_unit(&extents, &[b"abc", b"de"]);
        assert_eq!(bytes.len(), unit_bytes(3, 5));
        let (header, found, payload_start) = decode_unit(7, &bytes).unwrap();
        assert_eq!((header.sequence, header.payload_bytes), (5, 5));
        assert_eq!(found, extents);
        assert_eq!(&bytes[payload_start..payload_start + 5], b"abcde");
        assert!(decode_unit(8, &bytes).is_none());

        assert_eq!(ArenaHead::decode(&HEAD.encode()), Some(HEAD));
    }

    const HEAD: ArenaHead = ArenaHead {
        volume: 1,
        generation: 2,
        epoch: 3,
        next_epoch: 4,
        acknowledged: 7,
        tail_offset: 5,
        tail_sequence: 6,
    };

    #[test]
    fn a_head_that_cannot_be_counted_on_is_none() {
        for head in [
            ArenaHead { generation: u64::MAX, ..HEAD },
            ArenaHead { acknowledged: u64::MAX, ..HEAD },
            ArenaHead { tail_sequence: u64::MAX, ..HEAD },
        ] {
            assert_eq!(ArenaHead::decode(&head.encode()), None);
        }
    }

    #[test]
    fn a_head_of_the_first_version_is_read_and_names_no_record() {
        let words = [HEAD_MAGIC_1, 0, 1, 2, 3, 4, 5, 6];
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let sum = seeded_sum(0, 0, 0, &bytes[16..]);
        bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(ArenaHead::decode(&bytes), Some(ArenaHead { acknowledged: 0, ..HEAD }));
        assert!(!ArenaHead::is_of_other_version(&bytes) && !ArenaHead::is_of_other_version(&HEAD.encode()));
        bytes[7] = b'3';
        assert!(ArenaHead::is_of_other_version(&bytes) && ArenaHead::decode(&bytes).is_none());
        assert!(!ArenaHead::is_of_other_version(&[0; HEAD_BYTES]));
    }

    proptest! {
        #[test]
        fn a_unit_torn_anywhere_does_not_count(cut in 0..12usize, noise in any::<u64>()) {
            let extents = [UnitExtent { offset: 10, len: 5, content: Content::Data }];
            let bytes = whole_unit(&extents, &[b"abcde"]);
            let mut torn = bytes.clone();
            for word in torn.chunks_exact_mut(8).skip(cut) {
                word.copy_from_slice(&noise.to_le_bytes());
            }
            prop_assert!(torn == bytes || decode_unit(7, &torn).is_none());
        }

        #[test]
        fn no_bytes_make_the_decoders_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _any_answer = decode_unit(7, &bytes);
            prop_assert_eq!(ArenaHead::decode(&bytes), None);
        }
    }
}
