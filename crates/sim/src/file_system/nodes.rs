//! Where nodes lie and what is in them, and what a power cut has left of files.
//!
//! The drive begins with two pages for each file's node; the log of data follows. A node is, in little-endian numbers:
//!
//! ```text
//! 0   4  "node"            12  4  entries
//! 4   4  number of the file 16 8  sum of all that follows, and of what stands before but this
//! 8   4  number of the node 24 8  each entry: place in the log, stamp; both 0 for a page never written
//! ```

use super::{File, PAGE_BYTES};
use crate::model::Storage;
use crate::random::Random;

/// Where a page of a file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// The page of the drive.
    pub place: u32,
    /// Number of the write to the file that it is from, counted from 1.
    pub stamp: u32,
}

const MAGIC: [u8; 4] = *b"node";
const HEADER_BYTES: usize = 24;
const ENTRY_BYTES: usize = 8;
/// Pages of the largest file that can have a node.
pub const FILE_PAGES_MAX: usize = (PAGE_BYTES as usize - HEADER_BYTES) / ENTRY_BYTES;

/// The first page behind the nodes.
pub(super) fn log_start(inodes_max: u32) -> u64 {
    u64::from(inodes_max) * 2
}

/// The page of a file's node: two in turn.
pub(super) fn place(file: File, version: u32) -> u64 {
    u64::from(file.0 - 1) * 2 + u64::from(version % 2)
}

/// What is written to a page: every byte follows from whose it is.
pub(super) fn page_bytes(file: File, page: u32, stamp: u32) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    let whose = u64::from(file.0) << 48 ^ u64::from(page) << 24 ^ u64::from(stamp);
    Random::new(whose).fill(&mut bytes);
    bytes
}

/// FNV-1a over everything but the sum itself.
fn sum(node: &[u8]) -> u64 {
    let covered = node[..16].iter().chain(&node[HEADER_BYTES..]);
    covered
        .fold(0xcbf2_9ce4_8422_2325, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

pub(super) fn encode(file: File, version: u32, pages: &[Option<Page>]) -> Vec<u8> {
    assert!(pages.len() <= FILE_PAGES_MAX, "a file of {} pages does not go into a node", pages.len());
    let mut node = Vec::with_capacity(PAGE_BYTES as usize);
    node.extend(MAGIC);
    node.extend(file.0.to_le_bytes());
    node.extend(version.to_le_bytes());
    node.extend((pages.len() as u32).to_le_bytes());
    node.extend([0; 8]);
    for page in pages {
        let Page { place, stamp } = page.unwrap_or(Page { place: 0, stamp: 0 });
        node.extend(place.to_le_bytes());
        node.extend(stamp.to_le_bytes());
    }
    node.resize(PAGE_BYTES as usize, 0);
    let sum = sum(&node);
    node[16..HEADER_BYTES].copy_from_slice(&sum.to_le_bytes());
    node
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The node's number and pages, if this is a node of that file.
fn decode(file: File, node: &[u8]) -> Option<(u32, Vec<Option<Page>>)> {
    let entries = number(node, 12) as usize;
    let is_sound = node[..4] == MAGIC
        && number(node, 4) == file.0
        && entries <= FILE_PAGES_MAX
        && node[16..HEADER_BYTES] == sum(node).to_le_bytes();
    let entry = |at: usize| {
        let page = Page { place: number(node, at), stamp: number(node, at + 4) };
        (page.stamp > 0).then_some(page)
    };
    is_sound.then(|| {
        let pages = (0..entries).map(|number| entry(HEADER_BYTES + number * ENTRY_BYTES)).collect();
        (number(node, 8), pages)
    })
}

/// A file as a mount after a power cut finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Number of its node; 0 if it has none.
    pub version: u32,
    /// Pages that its node names and that do not hold what they should.
    pub pages_missing: u32,
}

/// Looks a file up on a drive, and at every page that its node names.
pub fn find(drive: &dyn Storage, file: File) -> Found {
    let read = |page: u64| {
        let mut bytes = vec![0; PAGE_BYTES as usize];
        drive.read_contents(page * PAGE_BYTES, &mut bytes);
        bytes
    };
    let nodes = [0, 1].into_iter().filter_map(|version| decode(file, &read(place(file, version))));
    let Some((version, pages)) = nodes.max_by_key(|(version, _)| *version) else {
        return Found { version: 0, pages_missing: 0 };
    };
    let is_missing = |&(number, page): &(usize, Option<Page>)| {
        page.is_some_and(|page| read(u64::from(page.place)) != page_bytes(file, number as u32, page.stamp))
    };
    let pages_missing = pages.into_iter().enumerate().filter(is_missing).count() as u32;
    Found { version, pages_missing }
}
