//! What the fuzz targets share: bytes that become choices, sums that fit, and a bound on memory.
//!
//! The engine takes what lies on its devices for hostile. A checksum stops accidents and no one who can compute it, so a
//! target does what such a one would: it changes what it likes and sums it anew.
//!
//! Every program here ends with an error where it holds more than [`MEMORY_MAX`] at once: a decoder that reserves
//! what a length field says, before it looks whether that many bytes are there, is found out.

use std::alloc::System;

use cap::Cap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

pub mod world;

/// Bytes that a target may hold at once.
pub const MEMORY_MAX: usize = 64 << 20;

#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, MEMORY_MAX);

/// The fuzzer's bytes, taken as choices; zeros where they end.
#[derive(Debug, Clone)]
pub struct Choices<'a> {
    rest: &'a [u8],
}

impl<'a> Choices<'a> {
    /// All of `bytes`.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Whether none are left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Up to `len` bytes.
    pub fn bytes(&mut self, len: usize) -> &'a [u8] {
        let (taken, rest) = self.rest.split_at(len.min(self.rest.len()));
        self.rest = rest;
        taken
    }

    /// What is left.
    pub fn rest(&mut self) -> &'a [u8] {
        self.bytes(usize::MAX)
    }

    /// A number of `len` bytes.
    fn number(&mut self, len: usize) -> u64 {
        let mut word = [0; 8];
        let taken = self.bytes(len);
        word[..taken.len()].copy_from_slice(taken);
        u64::from_le_bytes(word)
    }

    /// A number of one byte.
    pub fn byte(&mut self) -> u8 {
        self.number(1) as u8
    }

    /// A number of two bytes.
    pub fn short(&mut self) -> u16 {
        self.number(2) as u16
    }

    /// A number below `end`.
    pub fn below(&mut self, end: u64) -> u64 {
        self.number(4) % end
    }

    /// A number that is small, or near the end of what 64 bits hold, or any: where arithmetic goes wrong.
    pub fn word(&mut self) -> u64 {
        match self.byte() {
            0 => self.number(8),
            1 => u64::MAX - self.number(1),
            2 => 1 << (self.byte() % 64),
            3 => (1u64 << (self.byte() % 64)).wrapping_sub(self.number(1)),
            _ => self.number(2),
        }
    }
}

fn word_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map(u64::from_le_bytes).expect("eight bytes")
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

fn seeded_sum(place: [u64; 3], bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, xxh3_64(&place.map(u64::to_le_bytes).concat()))
}

/// Gives the record at the start of `bytes` its magic, the sum of its header, and the one that its length asks for.
pub fn seal_record(bytes: &mut [u8], volume: u64) {
    let Some(header) = bytes.first_chunk_mut::<64>() else { return };
    header[..8].copy_from_slice(b"ekrecord");
    let len = u32::from_le_bytes([header[56], header[57], header[58], header[59]]) as usize;
    let Some(record) = bytes.get_mut(..len.max(64)) else { return };
    let short_sum = seeded_sum([volume, 0, 0], &record[16..61]).to_le_bytes();
    record[61..64].copy_from_slice(&short_sum[..3]);
    let sum = seeded_sum([volume, word_at(record, 16), word_at(record, 24)], &record[16..]);
    put(record, 8, sum);
}

/// Gives the superblock in `page` its magic, its version and its sum.
pub fn seal_superblock(page: &mut [u8]) {
    if page.len() < 24 {
        return;
    }
    page[..8].copy_from_slice(b"evenkeel");
    // Any of the versions that there are, as its bytes choose.
    let version = u64::from(page[16]);
    put(page, 16, if (1..=3).contains(&version) { version } else { 1 + version % 3 });
    let sum = xxh3_64(&page[16..]);
    put(page, 8, sum);
}

/// Gives the head of a ring's member or of a log device its magic, its version and its sum.
pub fn seal_page_head(page: &mut [u8], magic: &[u8; 8]) {
    if page.len() < 24 {
        return;
    }
    page[..8].copy_from_slice(magic);
    put(page, 16, 1);
    let sum = xxh3_64(&page[16..]);
    put(page, 8, sum);
}

/// Gives the unit at the start of `bytes` its magic and the sum that its header's length asks for.
pub fn seal_unit(bytes: &mut [u8], volume: u64) {
    const HEADER: usize = 56;
    const EXTENT: usize = 24;
    let Some(header) = bytes.first_chunk_mut::<HEADER>() else { return };
    header[..8].copy_from_slice(b"ek-unit.");
    let extents = u32::from_le_bytes([header[32], header[33], header[34], header[35]]) as usize;
    let len = u32::from_le_bytes([header[44], header[45], header[46], header[47]]) as usize;
    let Some(unit) = bytes.get_mut(..len.max(HEADER)) else { return };
    let start = unit.len().min(HEADER.saturating_add(extents.saturating_mul(EXTENT)));
    let (mut payload, mut payload_sum) = (&unit[start..], 0);
    for extent in unit[HEADER..start].chunks_exact(EXTENT).filter(|extent| word_at(extent, 16) == 0) {
        let part = payload.len().min(usize::try_from(word_at(extent, 8)).unwrap_or(usize::MAX));
        payload_sum = xxh3_64_with_seed(&payload[..part], payload_sum);
        payload = &payload[part..];
    }
    put(unit, HEADER - 8, payload_sum);
    let sum = seeded_sum([volume, 0, word_at(unit, 24)], &unit[24..start]);
    put(unit, 8, sum);
}

/// Gives the head of an arena its magic and its sum.
pub fn seal_head(bytes: &mut [u8]) {
    if bytes.len() < 24 {
        return;
    }
    bytes[..8].copy_from_slice(b"ek-aren2");
    let sum = seeded_sum([0; 3], &bytes[16..]);
    put(bytes, 8, sum);
}
