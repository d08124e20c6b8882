//! Dirty regions of a ring: which of its regions changed since some write, as the head of a member says it.
//!
//! They lie in the page of a head, behind its fields, under its sum. A version of this program that does not know of them
//! passes them over, and its own heads have none: then nothing is known, and who lacks writes is rebuilt whole.

use super::ring_head::Mark;
use super::{Fields, PAGE, PAGE_BYTES};

/// Where in the page they begin: fields of a head may still be added before.
const AT: usize = 512;

/// Words in front of the bits.
const WORDS: usize = 4;

/// Where the bits begin: they fill the rest of the page.
const BITS_AT: usize = AT + WORDS * 8;

/// What counts openings or writes ends below this.
const COUNT_END: u64 = 1 << 62;

/// Most regions of a ring.
pub const REGIONS_MAX: u64 = ((PAGE - BITS_AT) * 8) as u64;

/// Which regions changed behind a write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirtyRegions {
    /// The write: whoever holds everything up to it lacks no other regions than these.
    pub since: Mark,
    /// Bytes of a region; the last one may be shorter.
    pub region_bytes: u64,
    /// Whether each of them changed.
    pub changed: Vec<bool>,
}

/// Bytes of a region, where so many bytes are told in regions of a multiple of `least_bytes`.
pub fn region_bytes_for(size_bytes: u64, least_bytes: u64) -> u64 {
    let least_bytes = least_bytes.next_multiple_of(PAGE_BYTES).max(PAGE_BYTES);
    size_bytes.div_ceil(least_bytes.saturating_mul(REGIONS_MAX)).max(1).next_power_of_two() * least_bytes
}

impl DirtyRegions {
    /// Puts them into the page of a head, which has no sum yet that counts.
    pub(super) fn put(&self, page: &mut [u8; PAGE]) {
        let words = [self.region_bytes, self.since.epoch, self.since.through, self.changed.len() as u64];
        for (place, word) in page[AT..BITS_AT].chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        for (place, changed) in page[BITS_AT..].iter_mut().zip(self.changed.chunks(8)) {
            *place = changed.iter().rev().fold(0, |bits, &is_changed| bits << 1 | u8::from(is_changed));
        }
    }

    /// Those in the page of a head that is whole; `None` where it tells of none.
    pub fn of(page: &[u8]) -> Option<Self> {
        let (head, bits) = page.get(..PAGE)?.split_at_checked(BITS_AT)?;
        let mut fields = Fields::of(&head[AT..]);
        let region_bytes = fields.u64()?;
        let since = Mark { epoch: fields.u64()?, through: fields.u64()? };
        let count = usize::try_from(fields.u64()?).ok().filter(|&count| count as u64 <= REGIONS_MAX)?;
        let is_sound = region_bytes > 0
            && region_bytes.is_multiple_of(PAGE_BYTES)
            && since.epoch.max(since.through) < COUNT_END;
        let changed = (0..count).map(|region| bits[region / 8] >> (region % 8) & 1 == 1);
        is_sound.then(|| Self { since, region_bytes, changed: changed.collect() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn any_volume_has_few_enough_regions_and_none_is_smaller_than_told() {
        for size_bytes in
            [0, 1, 4096, 1 << 30, (256 << 10) * REGIONS_MAX, (256 << 10) * REGIONS_MAX + 1, 1 << 50]
        {
            let region_bytes = region_bytes_for(size_bytes, 256 << 10);
            assert!(size_bytes.div_ceil(region_bytes) <= REGIONS_MAX, "{size_bytes}");
            assert!(region_bytes >= 256 << 10 && region_bytes.is_multiple_of(256 << 10), "{size_bytes}");
        }
        assert_eq!(region_bytes_for(1 << 30, 256 << 10), 256 << 10);
        assert_eq!(region_bytes_for(1 << 40, 256 << 10), 64 << 20);
    }

    #[test]
    fn numbers_that_nobody_writes_are_no_regions() {
        let sound =
            DirtyRegions { since: Mark { epoch: 1, through: 2 }, region_bytes: 4096, changed: vec![true] };
        let page_of = |regions: &DirtyRegions| {
            let mut page = [0; PAGE];
            regions.put(&mut page);
            page
        };
        assert_eq!(DirtyRegions::of(&page_of(&sound)), Some(sound.clone()));
        let late = Mark { epoch: 1, through: COUNT_END };
        for unsound in [
            DirtyRegions { region_bytes: 0, ..sound.clone() },
            DirtyRegions { region_bytes: 2048, ..sound.clone() },
            DirtyRegions { since: late, ..sound.clone() },
        ] {
            assert_eq!(DirtyRegions::of(&page_of(&unsound)), None, "{unsound:?}");
        }
        let mut many = page_of(&sound);
        many[AT + 24..BITS_AT].copy_from_slice(&(REGIONS_MAX + 1).to_le_bytes());
        assert_eq!(DirtyRegions::of(&many), None, "more than there is room for");
        assert_eq!(DirtyRegions::of(&[0; PAGE]), None, "a head of an older version");
    }

    proptest! {
        #[test]
        fn what_is_put_into_a_page_is_found_there(
            changed in proptest::collection::vec(any::<bool>(), 0..REGIONS_MAX as usize),
            (epoch, through) in (0..COUNT_END, 0..COUNT_END),
        ) {
            let regions = DirtyRegions { since: Mark { epoch, through }, region_bytes: 8192, changed };
            let mut page = [0; PAGE];
            regions.put(&mut page);
            prop_assert_eq!(DirtyRegions::of(&page), Some(regions));
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            let _any_are_fine = DirtyRegions::of(&bytes);
        }
    }
}
