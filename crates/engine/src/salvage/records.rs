//! What is taken of the log: its records in order, up to the first that is damaged and matters.
//!
//! 1. A damaged record that was to say what a checkpoint is about to write brings nothing: what it would have said is
//!    missed where it is needed, by sums that do not match. So it is passed over, where its header tells that it is one.
//! 2. Behind any other nothing is taken: what the drives then hold is a state that there was, though an older one.

use std::collections::BTreeSet;

use super::copies::Copies;
use crate::device::Device;
use crate::format::PAGE_BYTES;
use crate::format::layout::Layout;
use crate::format::record::{HEADER_BYTES, Header, RecordKind, Tag, decode_header, is_header_of};
use crate::format::superblock::Superblock;
use crate::layout::Replicated;
use crate::log::Position;
use crate::log::cases::Decision;
use crate::log::scan::{Scanned, scan};

/// Most damaged records that are passed over.
const PASSED_MAX: usize = 256;

/// What the log holds.
pub(super) struct LogContents {
    pub(super) records: Vec<Scanned>,
    /// Where the next record goes.
    pub(super) next: Position,
    /// The record at which it ends, where that was acknowledged and is damaged.
    pub(super) damaged: Option<u64>,
    /// Damaged records that were passed over.
    pub(super) passed: Vec<u64>,
}

impl LogContents {
    /// Nothing.
    pub(super) fn nothing(superblock: &Superblock) -> Self {
        let next = Position { offset: superblock.tail_offset, sequence: superblock.tail_sequence };
        Self { records: Vec::new(), next, damaged: None, passed: Vec::new() }
    }

    /// Pages of large writes that were interrupted on their way home.
    pub(super) fn interrupted(&self) -> BTreeSet<u64> {
        let mut pages = BTreeSet::new();
        for record in &self.records {
            for tag in &record.tags {
                let Tag::Page { page, .. } = *tag else { continue };
                match record.header.kind {
                    RecordKind::Intent => pages.insert(page),
                    _ => pages.remove(&page),
                };
            }
        }
        pages
    }
}

/// Takes what there is, from the tail of this superblock on.
pub(super) async fn take<D: Device>(
    log: &Copies<D>,
    layout: &Layout,
    superblock: &Superblock,
) -> LogContents {
    let mut taken = LogContents::nothing(superblock);
    let mut from = *superblock;
    loop {
        let found = scan(log, layout.log, &from).await;
        from.tail_epoch = found.records.last().map_or(from.tail_epoch, |last| last.header.epoch);
        taken.next = found.next;
        taken.records.extend(found.records);
        if found.ended != Decision::Damaged {
            return taken;
        }
        let passed = match taken.passed.len() < PASSED_MAX {
            true => announcement(log, layout, &from, taken.next).await,
            false => None,
        };
        let Some((offset, header)) = passed else {
            taken.damaged = Some(taken.next.sequence);
            return taken;
        };
        taken.passed.push(header.sequence);
        let end = (offset + u64::from(header.len_bytes)) % layout.log.len;
        taken.next = Position { offset: end, sequence: header.sequence + 1 };
        (from.tail_offset, from.tail_sequence, from.tail_epoch) = (end, header.sequence + 1, header.epoch);
    }
}

/// Where the record `expected` is, if its header is whole and says that it announces what a checkpoint writes.
async fn announcement<D: Device>(
    log: &Copies<D>,
    layout: &Layout,
    superblock: &Superblock,
    expected: Position,
) -> Option<(u64, Header)> {
    let sector = superblock.log_sector_bytes as usize;
    let mut bytes = vec![0; HEADER_BYTES.next_multiple_of(sector)];
    let epochs = superblock.epochs_of(expected.sequence);
    for offset in [expected.offset, 0] {
        if offset + bytes.len() as u64 > layout.log.len {
            continue;
        }
        for copy in 0..log.replicas() {
            if log.read_replica(copy, layout.log.offset + offset, &mut bytes).await.is_err() {
                continue;
            }
            let Some(header) =
                decode_header(&bytes, sector).filter(|_| is_header_of(superblock.volume, &bytes))
            else {
                continue;
            };
            let is_it = header.sequence == expected.sequence
                && epochs.contains(&header.epoch)
                && header.epoch >= superblock.tail_epoch
                && matches!(header.kind, RecordKind::Sums | RecordKind::Images)
                && offset + u64::from(header.len_bytes) <= layout.log.len;
            if is_it {
                return Some((offset, header));
            }
        }
    }
    None
}

/// Bytes of the volume that pages are.
pub(super) fn bytes_of(page: u64) -> crate::device::Extent {
    crate::device::Extent::new(page * PAGE_BYTES, PAGE_BYTES)
}
