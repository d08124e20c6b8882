//! Where on a volume its clients work.
//!
//! They, and whoever judges what they find, know a few bytes in one piece. On the volume these may lie in pieces far apart,
//! each with a page of the table of sums of its own or across two of them: so a small oracle judges a volume whose table
//! has many pages. Nothing is ever written between the pieces.

use evenkeel_engine::device::Extent;
use evenkeel_engine::format::PAGE_BYTES;

/// The bytes that clients know, and where they are on the volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Places {
    /// Bytes that clients know.
    pub known_bytes: u64,
    /// Bytes of each piece; the last may be shorter.
    piece_bytes: u64,
    /// From where one piece begins to where the next does.
    stride_bytes: u64,
    /// Where on the volume the first piece begins.
    first_bytes: u64,
}

impl Places {
    /// All of it in one piece, which is the whole volume.
    pub const fn together(known_bytes: u64) -> Self {
        Self { known_bytes, piece_bytes: known_bytes, stride_bytes: known_bytes, first_bytes: 0 }
    }

    /// In pieces of so many pages, which begin at page `first` and then every `stride` pages.
    pub const fn apart(known_bytes: u64, pages: u64, first: u64, stride: u64) -> Self {
        assert!(pages <= stride, "pieces do not overlap");
        Self {
            known_bytes,
            piece_bytes: pages * PAGE_BYTES,
            stride_bytes: stride * PAGE_BYTES,
            first_bytes: first * PAGE_BYTES,
        }
    }

    /// Bytes that the volume must have.
    pub fn volume_bytes(&self) -> u64 {
        self.on_volume(self.known_bytes - 1) + 1
    }

    /// Where on the volume a known byte is.
    pub fn on_volume(&self, offset: u64) -> u64 {
        self.first_bytes + offset / self.piece_bytes * self.stride_bytes + offset % self.piece_bytes
    }

    /// How many bytes from `offset` on are together.
    pub fn rest_of_piece(&self, offset: u64) -> u64 {
        self.piece_bytes - offset % self.piece_bytes
    }

    /// The parts of a known range on the volume, in order.
    pub fn parts(&self, extent: Extent) -> impl Iterator<Item = Extent> + use<> {
        let (places, mut rest) = (*self, extent);
        std::iter::from_fn(move || {
            let len = rest.len.min(places.rest_of_piece(rest.offset));
            let part = Extent::new(places.on_volume(rest.offset), len);
            rest = Extent::new(rest.offset + len, rest.len - len);
            (len > 0).then_some(part)
        })
    }

    /// The range of the volume from the first byte of a known range to its last, with what lies between.
    pub fn span(&self, extent: Extent) -> Extent {
        let first = self.on_volume(extent.offset);
        Extent::new(first, self.on_volume(extent.end() - 1) + 1 - first)
    }

    /// The first of them, as far as a volume of `volume_bytes` has room for whole pages.
    #[must_use]
    pub fn within(&self, volume_bytes: u64) -> Self {
        if volume_bytes >= self.volume_bytes() {
            return *self;
        }
        let has_page = |&page: &usize| (self.page_on_volume(page) + 1) * PAGE_BYTES <= volume_bytes;
        let pages = (0..self.pages()).take_while(has_page).count();
        Self { known_bytes: pages as u64 * PAGE_BYTES, ..*self }
    }

    /// Known pages.
    pub fn pages(&self) -> usize {
        self.known_bytes.div_ceil(PAGE_BYTES) as usize
    }

    /// The page of the volume that is a known page.
    pub fn page_on_volume(&self, page: usize) -> u64 {
        self.on_volume(page as u64 * PAGE_BYTES) / PAGE_BYTES
    }

    /// The known page that is this page of the volume, if any is.
    pub fn known_page(&self, page_on_volume: u64) -> Option<usize> {
        let from_first = (page_on_volume * PAGE_BYTES).checked_sub(self.first_bytes)?;
        let (piece, within) = (from_first / self.stride_bytes, from_first % self.stride_bytes);
        let offset = piece * self.piece_bytes + within;
        (within < self.piece_bytes && offset < self.known_bytes).then_some((offset / PAGE_BYTES) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_lies_on_the_volume_once_and_in_order() {
        for places in [Places::together(20 * PAGE_BYTES), Places::apart(20 * PAGE_BYTES, 3, 509, 511)] {
            let parts: Vec<Extent> = places.parts(Extent::new(0, places.known_bytes)).collect();
            assert_eq!(parts.iter().map(|part| part.len).sum::<u64>(), places.known_bytes);
            assert!(parts.is_sorted_by(|one, next| one.end() < next.offset));
            assert_eq!(parts.last().map(Extent::end), Some(places.volume_bytes()));
            let known: Vec<usize> =
                (0..places.volume_bytes() / PAGE_BYTES).filter_map(|page| places.known_page(page)).collect();
            assert_eq!(known, (0..places.pages()).collect::<Vec<_>>());
            for page in 0..places.pages() {
                assert_eq!(places.known_page(places.page_on_volume(page)), Some(page));
            }
        }
    }

    #[test]
    fn a_smaller_volume_has_the_first_of_what_is_known_where_it_is() {
        let places = Places::apart(20 * PAGE_BYTES, 3, 509, 511);
        for pages in 1..=20 {
            let fewer = Places { known_bytes: pages * PAGE_BYTES, ..places };
            assert_eq!(places.within(fewer.volume_bytes()), fewer);
            assert_eq!(places.within(fewer.volume_bytes() + PAGE_BYTES - 1), fewer);
        }
    }

    #[test]
    fn a_range_across_pieces_is_cut_where_they_end() {
        let places = Places::apart(4 * PAGE_BYTES, 2, 10, 600);
        let extent = Extent::new(PAGE_BYTES + 100, 2 * PAGE_BYTES);
        let parts: Vec<Extent> = places.parts(extent).collect();
        let first = Extent::new(11 * PAGE_BYTES + 100, PAGE_BYTES - 100);
        assert_eq!(parts, [first, Extent::new(610 * PAGE_BYTES, PAGE_BYTES + 100)]);
        assert_eq!(places.span(extent), Extent::new(first.offset, parts[1].end() - first.offset));
    }
}
