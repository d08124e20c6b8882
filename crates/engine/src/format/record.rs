//! Records of the log.
//!
//! ```text
//! header (64 bytes) │ tags (16 bytes each) │ payload │ padding to the log's sector
//! ```
//!
//! | kind     | tags                                | payload                              |
//! |----------|-------------------------------------|--------------------------------------|
//! | commit   | deltas, zeroed ranges, discards; the arena's units that it makes durable | the deltas' bytes, in the tags' order |
//! | intent   | a page about to be written, its sum | none                                 |
//! | sums     | a page or table page each, with sum | none                                 |
//! | images   | a page or table page each           | its 4,096 bytes                      |
//! | complete | a page or table page each, with sum | none                                 |
//!
//! The checksum covers everything behind itself, padding too, and is seeded with volume, epoch and sequence:
//! an old record can never pass as a new one. The header has a short sum of its own, seeded with the same, beside the
//! kind: bytes that a user made look like a header are told from one without summing what they announce.

use super::{Fields, PAGE, seeded_sum};
use crate::planted::{Bug, is_planted};

const MAGIC: u64 = u64::from_le_bytes(*b"ekrecord");

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 64;

/// Bytes of a tag.
pub const TAG_BYTES: usize = 16;

/// Largest record, in bytes: what a reader of a log may be asked to hold.
pub const RECORD_BYTES_MAX: usize = 64 << 20;

/// What a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RecordKind {
    /// Changes that are made together.
    Commit,
    /// The tagged pages are about to be written home directly and will have these sums; older deltas for them
    /// are home already.
    Intent,
    /// The tagged pages are about to be written home by a checkpoint, and will have these sums.
    Sums,
    /// As `Sums`, with the pages' full bytes, for drives that may leave a sector neither old nor new.
    Images,
    /// Pages of earlier intents are home and have these sums.
    Complete,
}

/// The header, decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// What the record is for.
    pub kind: RecordKind,
    /// The opening of the volume that wrote it.
    pub epoch: u64,
    /// Its place in the log's sequence.
    pub sequence: u64,
    /// The newest record acknowledged when this one was made.
    pub acknowledged: u64,
    /// For sums and images, the newest record whose changes they include; for a completion, the intent.
    pub through: u64,
    /// Number of tags.
    pub tags: u32,
    /// Bytes of the payload.
    pub payload_bytes: u32,
    /// Bytes of the whole record.
    pub len_bytes: u32,
}

/// What a tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tag {
    /// `len` bytes of payload belong at `offset` of `page`.
    Delta {
        /// Page of the volume.
        page: u64,
        /// First byte in it.
        offset: u16,
        /// Number of bytes; with `offset` within the page.
        len: u16,
    },
    /// `len` bytes at `offset` of `page` are zero.
    Zero {
        /// Page of the volume.
        page: u64,
        /// First byte in it.
        offset: u16,
        /// Number of bytes; with `offset` within the page.
        len: u16,
    },
    /// `count` pages from `page` have no contents any more.
    Discard {
        /// First page of the volume.
        page: u64,
        /// Number of pages.
        count: u32,
    },
    /// `count` units of the arena from `sequence` are durable with this commit.
    Units {
        /// First unit.
        sequence: u64,
        /// Number of units.
        count: u32,
    },
    /// A page of the volume and its sum, or its image.
    Page {
        /// Page of the volume.
        page: u64,
        /// Its sum; 0 for a page without contents.
        sum: u64,
    },
    /// A page of the table and its sum, or its image.
    TablePage {
        /// Page of the table.
        page: u64,
        /// Its sum.
        sum: u64,
    },
}

const DELTA: u16 = 1;
const ZERO: u16 = 2;
const DISCARD: u16 = 3;
const UNITS: u16 = 4;

/// Bits of a header's last word that tell the kind; the others are its own sum.
const KIND_MASK: u32 = 0xff;

/// In a tag with a sum: set in the page number where it is of the table.
const OF_TABLE: u64 = 1 << 63;

impl Tag {
    /// Bytes of payload that belong to it in a commit.
    pub fn payload_bytes(&self) -> usize {
        match self {
            Self::Delta { len, .. } => usize::from(*len),
            _ => 0,
        }
    }

    fn encode(&self) -> [u8; TAG_BYTES] {
        let (page, low, kind, high): (u64, u16, u16, u32) = match *self {
            Self::Delta { page, offset, len } => (page, offset, DELTA, u32::from(len)),
            Self::Zero { page, offset, len } => (page, offset, ZERO, u32::from(len)),
            Self::Discard { page, count } => (page, 0, DISCARD, count),
            Self::Units { sequence, count } => (sequence, 0, UNITS, count),
            Self::Page { page, sum } => return two_words(page, sum),
            Self::TablePage { page, sum } => return two_words(page | OF_TABLE, sum),
        };
        two_words(page, u64::from(low) | u64::from(kind) << 16 | u64::from(high) << 32)
    }

    fn decode(kind: RecordKind, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields::of(bytes);
        let page = fields.u64()?;
        if kind != RecordKind::Commit {
            let sum = fields.u64()?;
            return Some(match page & OF_TABLE {
                0 => Self::Page { page, sum },
                _ => Self::TablePage { page: page & !OF_TABLE, sum },
            });
        }
        let (offset, tag, high) = (fields.u16()?, fields.u16()?, fields.u32()?);
        let within_page = usize::from(offset) + high as usize <= PAGE && high > 0;
        match tag {
            DELTA if within_page => Some(Self::Delta { page, offset, len: high as u16 }),
            ZERO if within_page => Some(Self::Zero { page, offset, len: high as u16 }),
            DISCARD if high > 0 => Some(Self::Discard { page, count: high }),
            UNITS if high > 0 => Some(Self::Units { sequence: page, count: high }),
            _ => None,
        }
    }
}

fn two_words(first: u64, second: u64) -> [u8; TAG_BYTES] {
    let mut bytes = [0; TAG_BYTES];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

impl RecordKind {
    fn code(self) -> u32 {
        match self {
            Self::Commit => 1,
            Self::Intent => 2,
            Self::Sums => 3,
            Self::Images => 4,
            Self::Complete => 5,
        }
    }

    fn of_code(code: u32) -> Option<Self> {
        [Self::Commit, Self::Intent, Self::Sums, Self::Images, Self::Complete]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

/// Bytes of a record with so many tags and bytes of payload on a log of this sector.
pub fn record_bytes(tags: usize, payload_bytes: usize, sector_bytes: usize) -> usize {
    (HEADER_BYTES + tags * TAG_BYTES + payload_bytes).next_multiple_of(sector_bytes)
}

/// A record being made, in a buffer that is used again and again.
#[derive(Debug, Default)]
pub struct RecordBuilder {
    /// As long as the longest record so far: what is about to be overwritten is not zeroed first.
    bytes: Vec<u8>,
    len: usize,
    tags: u32,
    payload_bytes: u32,
}

impl RecordBuilder {
    /// Empties it.
    pub fn clear(&mut self) {
        self.len = 0;
        self.take(HEADER_BYTES);
        self.tags = 0;
        self.payload_bytes = 0;
    }

    /// Adds a tag. All tags come before all payload.
    pub fn tag(&mut self, tag: &Tag) {
        debug_assert_eq!(self.payload_bytes, 0, "tags come before payload");
        self.take(TAG_BYTES).copy_from_slice(&tag.encode());
        self.tags += 1;
    }

    /// Room for `len` bytes of payload, to be filled by the caller: what is in it is not defined.
    pub fn payload(&mut self, len: usize) -> &mut [u8] {
        self.payload_bytes += len as u32;
        self.take(len)
    }

    /// The next `len` bytes.
    fn take(&mut self, len: usize) -> &mut [u8] {
        let start = self.len;
        self.len += len;
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
        &mut self.bytes[start..self.len]
    }

    /// Number of tags so far.
    pub fn tags(&self) -> u32 {
        self.tags
    }

    /// Pads and sums the record; `header`'s counts and length are filled in here.
    pub fn seal(&mut self, volume: u64, mut header: Header, sector_bytes: usize) -> &[u8] {
        let len_bytes = self.len.next_multiple_of(sector_bytes);
        self.take(len_bytes - self.len).fill(0);
        header.tags = self.tags;
        header.payload_bytes = self.payload_bytes;
        header.len_bytes = len_bytes as u32;
        let at = &mut self.bytes[..HEADER_BYTES];
        at[..8].copy_from_slice(&MAGIC.to_le_bytes());
        for (place, word) in at[16..56].chunks_exact_mut(8).zip([
            header.epoch,
            header.sequence,
            header.acknowledged,
            header.through,
            u64::from(header.tags) | u64::from(header.payload_bytes) << 32,
        ]) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        at[56..60].copy_from_slice(&header.len_bytes.to_le_bytes());
        at[60..64].copy_from_slice(&header.kind.code().to_le_bytes());
        let short_sum = header_sum(volume, at);
        at[61..64].copy_from_slice(&short_sum);
        let sum = seeded_sum(volume, header.epoch, header.sequence, summed(&self.bytes[..len_bytes]));
        self.bytes[8..16].copy_from_slice(&sum.to_le_bytes());
        &self.bytes[..len_bytes]
    }

    /// The payload so far.
    pub fn payload_written(&self) -> &[u8] {
        let start = HEADER_BYTES + self.tags as usize * TAG_BYTES;
        &self.bytes[start..start + self.payload_bytes as usize]
    }

    /// The sealed record, or what there is of it.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// The header at the start of `bytes`, its counts and lengths plausible; the checksum is not looked at yet.
pub fn decode_header(bytes: &[u8], sector_bytes: usize) -> Option<Header> {
    let mut fields = Fields::of(bytes);
    if fields.u64()? != MAGIC {
        return None;
    }
    let _sum = fields.u64()?;
    let (epoch, sequence) = (fields.u64()?, fields.u64()?);
    let (acknowledged, through) = (fields.u64()?, fields.u64()?);
    let (tags, payload_bytes) = (fields.u32()?, fields.u32()?);
    let len_bytes = fields.u32()?;
    let kind = RecordKind::of_code(fields.u32()? & KIND_MASK)?;
    let needed = HEADER_BYTES as u64 + u64::from(tags) * TAG_BYTES as u64 + u64::from(payload_bytes);
    let sound = needed.next_multiple_of(sector_bytes as u64) == u64::from(len_bytes)
        && len_bytes as usize <= RECORD_BYTES_MAX;
    sound.then_some(Header { kind, epoch, sequence, acknowledged, through, tags, payload_bytes, len_bytes })
}

/// Whether the header at the start of `bytes` is one of `volume`, by its own sum. What it announces may be damaged.
pub fn is_header_of(volume: u64, bytes: &[u8]) -> bool {
    bytes.get(..HEADER_BYTES).is_some_and(|header| header[61..] == header_sum(volume, header))
}

/// The header's own sum: of all that it says, but for the sum of the record.
fn header_sum(volume: u64, header: &[u8]) -> [u8; 3] {
    let [low, middle, high, ..] = seeded_sum(volume, 0, 0, &header[16..61]).to_le_bytes();
    [low, middle, high]
}

/// What the checksum of a record covers.
fn summed(record: &[u8]) -> &[u8] {
    if is_planted(Bug::SumOfHeader) { &record[16..HEADER_BYTES] } else { &record[16..] }
}

/// A whole record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its header.
    pub header: Header,
    /// Its tags.
    pub tags: Vec<Tag>,
    /// Its payload.
    pub payload: &'a [u8],
}

/// The record that begins at the start of `bytes` and belongs to `volume`; `None` where there is none that is
/// whole.
pub fn decode(bytes: &[u8], volume: u64, sector_bytes: usize) -> Option<Record<'_>> {
    let header = decode_header(bytes, sector_bytes)?;
    let bytes = bytes.get(..header.len_bytes as usize).filter(|bytes| is_header_of(volume, bytes))?;
    let sum = u64::from_le_bytes(bytes[8..16].try_into().ok()?);
    if sum != seeded_sum(volume, header.epoch, header.sequence, summed(bytes)) {
        return None;
    }
    let tags_end = HEADER_BYTES + header.tags as usize * TAG_BYTES;
    let tags: Vec<Tag> = bytes[HEADER_BYTES..tags_end]
        .chunks_exact(TAG_BYTES)
        .map(|tag| Tag::decode(header.kind, tag))
        .collect::<Option<_>>()?;
    let payload = &bytes[tags_end..tags_end + header.payload_bytes as usize];
    let expected = match header.kind {
        RecordKind::Commit => tags.iter().map(Tag::payload_bytes).sum(),
        RecordKind::Images => tags.len() * PAGE,
        _ => 0,
    };
    (payload.len() == expected).then_some(Record { header, tags, payload })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: Header = Header {
        kind: RecordKind::Commit,
        epoch: 3,
        sequence: 17,
        acknowledged: 15,
        through: 0,
        tags: 0,
        payload_bytes: 0,
        len_bytes: 0,
    };

    fn sample(builder: &mut RecordBuilder) -> &[u8] {
        builder.clear();
        builder.tag(&Tag::Delta { page: 5, offset: 100, len: 3 });
        builder.tag(&Tag::Zero { page: 6, offset: 0, len: 4096 });
        builder.tag(&Tag::Discard { page: 9, count: 2 });
        builder.payload(3).copy_from_slice(b"abc");
        builder.seal(7, HEADER, 512)
    }

    #[test]
    fn what_is_written_is_read() {
        let mut builder = RecordBuilder::default();
        let bytes = sample(&mut builder);
        assert_eq!(bytes.len(), 512);
        let record = decode(bytes, 7, 512).unwrap();
        assert_eq!((record.header.sequence, record.header.acknowledged), (17, 15));
        assert_eq!(record.tags[0], Tag::Delta { page: 5, offset: 100, len: 3 });
        assert_eq!(record.payload, b"abc");
    }

    #[test]
    fn a_header_is_told_by_itself_whatever_stands_behind_it() {
        let mut builder = RecordBuilder::default();
        let mut bytes = sample(&mut builder).to_vec();
        bytes[HEADER_BYTES..].fill(7);
        assert!(is_header_of(7, &bytes) && decode_header(&bytes, 512).is_some());
        assert!(decode(&bytes, 7, 512).is_none());
        assert!(!is_header_of(8, &bytes) && !is_header_of(7, &bytes[..HEADER_BYTES - 1]));
        for byte in 16..HEADER_BYTES {
            bytes[byte] ^= 1;
            assert!(!is_header_of(7, &bytes), "byte {byte}");
            bytes[byte] ^= 1;
        }
    }

    #[test]
    fn a_record_of_another_volume_epoch_or_place_does_not_pass() {
        let mut builder = RecordBuilder::default();
        let bytes = sample(&mut builder).to_vec();
        assert!(decode(&bytes, 8, 512).is_none());
        for field in [16, 24] {
            let mut moved = bytes.clone();
            moved[field] ^= 1;
            assert!(decode(&moved, 7, 512).is_none());
        }
    }

    proptest! {
        #[test]
        fn a_single_wrong_bit_anywhere_is_seen(byte in 0..512usize, bit in 0..8) {
            let mut builder = RecordBuilder::default();
            let mut bytes = sample(&mut builder).to_vec();
            bytes[byte] ^= 1u8 << bit;
            prop_assert!(decode(&bytes, 7, 512).is_none());
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..2000), seal in any::<bool>()) {
            if seal && bytes.len() >= HEADER_BYTES {
                bytes[..8].copy_from_slice(&MAGIC.to_le_bytes());
                let short_sum = header_sum(7, &bytes);
                bytes[61..64].copy_from_slice(&short_sum);
                let sum = seeded_sum(
                    7,
                    u64::from_le_bytes(bytes[16..24].try_into().unwrap()),
                    u64::from_le_bytes(bytes[24..32].try_into().unwrap()),
                    &bytes[16..],
                );
                bytes[8..16].copy_from_slice(&sum.to_le_bytes());
            }
            let _any_answer = decode(&bytes, 7, 512);
        }
    }
}
