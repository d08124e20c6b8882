//! Units in parts: what still counts of one, and what its commit says of that.

use smallvec::SmallVec;

use crate::device::Extent;
use crate::format::record::{TAG_BYTES, Tag};
use crate::format::unit::Content;
use crate::format::{PAGE, PAGE_BYTES};
use crate::planted::{Bug, is_planted};
use crate::ranges::PageRanges;

/// Fragment of a unit that still counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fragment {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    pub(crate) content: Content,
    /// Where its bytes are in the arena; meaningless without bytes.
    pub(super) payload_at: usize,
}

impl Fragment {
    pub(super) fn extent(&self) -> Extent {
        Extent::new(self.offset, self.len)
    }

    /// The part of this one that lies within `extent`.
    pub(super) fn within(&self, extent: &Extent) -> Option<Self> {
        let shared = self.extent().intersection(extent)?;
        let skipped = (shared.offset - self.offset) as usize;
        Some(Self { offset: shared.offset, len: shared.len, payload_at: self.payload_at + skipped, ..*self })
    }
}

pub(super) type Fragments = SmallVec<[Fragment; 2]>;

/// Numbers of the pages that `extent` touches.
pub(crate) fn pages_of(extent: &Extent) -> std::ops::Range<u64> {
    if extent.len == 0 {
        return 0..0;
    }
    extent.offset / PAGE_BYTES..(extent.end() - 1) / PAGE_BYTES + 1
}

/// Takes the bytes of `page` that `gone` holds out of `parts`; answers in how many pieces they were.
pub(super) fn take_out(parts: &mut Fragments, page: u64, gone: &PageRanges) -> usize {
    let whole = Extent::new(page * PAGE_BYTES, PAGE_BYTES);
    let in_page = |part: &Fragment| {
        let shared = part.extent().intersection(&whole)?;
        Some(((shared.offset - whole.offset) as usize, (shared.end() - whole.offset) as usize))
    };
    let is_met = |part: &Fragment| {
        in_page(part).is_some_and(|(start, end)| gone.overlapping(start, end).next().is_some())
    };
    if !parts.iter().any(is_met) {
        return 0;
    }
    let (mut kept, mut pieces) = (Fragments::new(), 0);
    for part in parts.iter() {
        let Some((start, end)) = in_page(part) else {
            kept.push(*part);
            continue;
        };
        let mut rest = part.extent();
        for (start, end) in gone.overlapping(start, end) {
            let (start, end) = (whole.offset + start as u64, whole.offset + end as u64);
            let before = Extent::new(rest.offset, start.saturating_sub(rest.offset));
            kept.extend(part.within(&before));
            let after = if is_planted(Bug::TrimKeepsFront) { rest.end() } else { end.max(rest.offset) };
            rest = Extent::new(after, rest.end().saturating_sub(after));
            pieces += 1;
        }
        kept.extend(part.within(&rest));
    }
    *parts = kept;
    pieces
}

/// Bytes of a record that a part takes.
pub(super) fn record_bytes_of(part: &Fragment) -> usize {
    let tags = pages_of(&part.extent()).count();
    let payload = if part.content == Content::Data { part.len as usize } else { 0 };
    tags * TAG_BYTES + payload
}

/// The tags of a part, one a page (one for neighbouring pages that are discarded whole), and where their bytes
/// are.
pub(super) fn tags_of(part: &Fragment, tags: &mut Vec<Tag>, payloads: &mut Vec<usize>) {
    for page in pages_of(&part.extent()) {
        let Some(piece) = part.within(&Extent::new(page * PAGE_BYTES, PAGE_BYTES)) else { continue };
        let (offset, len) = ((piece.offset % PAGE_BYTES) as u16, piece.len as u16);
        debug_assert!(usize::from(offset) + usize::from(len) <= PAGE);
        let tag = match part.content {
            Content::Data => Tag::Delta { page, offset, len },
            Content::Discard if piece.len == PAGE_BYTES => match tags.last_mut() {
                Some(Tag::Discard { page: first, count }) if *first + u64::from(*count) == page => {
                    *count += 1;
                    continue;
                }
                _ => Tag::Discard { page, count: 1 },
            },
            // What a newer write left of a discarded page reads as zeros, and its contents are that write's.
            _ => Tag::Zero { page, offset, len },
        };
        tags.push(tag);
        payloads.push(piece.payload_at);
    }
}
