//! The changes of one commit.

use std::ops::Range;

use crate::format::BLOCK_BYTES;
use crate::store::{CHANGE_BYTES, Change, CommitLimits, Extent};

#[derive(Debug, Clone)]
enum Part {
    Write(u64, Range<usize>),
    Zero(Extent),
}

/// Changes that are collected.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    parts: Vec<Part>,
    pages: usize,
    blocks: Vec<u32>,
}

impl Batch {
    pub(crate) fn write(&mut self, offset: u64, bytes: &[u8]) {
        if !bytes.is_empty() {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(bytes);
            self.add(Part::Write(offset, start..self.bytes.len()), Extent::new(offset, bytes.len() as u64));
        }
    }

    pub(crate) fn zero(&mut self, extent: Extent) {
        if extent.len > 0 {
            self.add(Part::Zero(extent), extent);
        }
    }

    fn add(&mut self, part: Part, extent: Extent) {
        self.parts.push(part);
        self.pages += (extent.end().div_ceil(BLOCK_BYTES) - extent.offset / BLOCK_BYTES) as usize;
    }

    /// Notes that the changes of a block of metadata are in it.
    pub(crate) fn carries(&mut self, block: u32) {
        self.blocks.push(block);
    }

    /// Adds the changes of another one.
    pub(crate) fn append(&mut self, other: Self) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(&other.bytes);
        self.parts.extend(other.parts.into_iter().map(|part| match part {
            Part::Write(offset, range) => Part::Write(offset, range.start + start..range.end + start),
            zero => zero,
        }));
        self.pages += other.pages;
        self.blocks.extend(other.blocks);
    }

    /// The blocks of metadata whose changes are in it.
    pub(crate) fn blocks(&self) -> &[u32] {
        &self.blocks
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Whether it is within what a commit may carry.
    pub(crate) fn fits(&self, limits: CommitLimits) -> bool {
        self.cost() <= limits.bytes && self.pages <= limits.pages
    }

    /// Bytes that count against what a commit may carry.
    pub(crate) fn cost(&self) -> u64 {
        self.bytes.len() as u64 + self.parts.len() as u64 * CHANGE_BYTES
    }

    /// Pages that count against it.
    pub(crate) fn pages(&self) -> usize {
        self.pages
    }

    /// Bytes in it.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// What to commit.
    pub(crate) fn changes(&self) -> Vec<Change<'_>> {
        let change = |part: &Part| match part {
            Part::Write(offset, range) => {
                Change::Write { offset: *offset, bytes: &self.bytes[range.clone()] }
            }
            Part::Zero(extent) => Change::Zero(*extent),
        };
        self.parts.iter().map(change).collect()
    }
}
