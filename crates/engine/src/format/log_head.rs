//! The head of a log device, where a volume has several: which of them it is, and of how many losses it knows.
//!
//! Two copies, written in turns: a torn write never takes the one before it.

use twox_hash::XxHash3_64;

use super::{Fields, PAGE, PAGE_BYTES};

const MAGIC: u64 = u64::from_le_bytes(*b"evenklog");

/// Version of this format.
const VERSION: u64 = 1;

/// What counts losses or heads ends below this.
const COUNT_END: u64 = 1 << 62;

/// Copies of the head on each device.
pub const HEAD_COPIES: u64 = 2;

/// Where on a device what all of them offer begins.
pub const DATA_OFFSET: u64 = HEAD_COPIES * PAGE_BYTES;

/// Most log devices of a volume.
pub const LOGS_MAX: usize = 32;

/// What a log device says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogHead {
    /// The volume's number.
    pub volume: u64,
    /// Counts the heads written to this device.
    pub generation: u64,
    /// Its place among the log devices, from 0.
    pub place: u16,
    /// How many there are.
    pub places: u16,
    /// A number that grows whenever one of them fails, from 1 on; 0 on one that never took part.
    pub losses: u64,
}

impl LogHead {
    /// Whether it was put there and never took part.
    pub fn is_blank(&self) -> bool {
        self.losses == 0
    }

    /// Where on a device this head is written.
    pub fn offset(&self) -> u64 {
        self.generation % HEAD_COPIES * PAGE_BYTES
    }

    /// One page that holds it.
    pub fn encode(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        let words = [
            MAGIC,
            0,
            VERSION,
            self.volume,
            self.generation,
            u64::from(self.place),
            u64::from(self.places),
            self.losses,
        ];
        for (place, word) in page.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = XxHash3_64::oneshot(&page[16..]);
        page[8..16].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// The head in a page; `None` where there is none that is whole.
    pub fn decode(page: &[u8]) -> Option<Self> {
        if page.len() != PAGE {
            return None;
        }
        let mut fields = Fields::of(page);
        let (magic, sum) = (fields.u64()?, fields.u64()?);
        if magic != MAGIC || sum != XxHash3_64::oneshot(&page[16..]) || fields.u64()? != VERSION {
            return None;
        }
        let found = Self {
            volume: fields.u64()?,
            generation: fields.u64()?,
            place: u16::try_from(fields.u64()?).ok()?,
            places: u16::try_from(fields.u64()?).ok()?,
            losses: fields.u64()?,
        };
        let is_sound = found.generation.max(found.losses) < COUNT_END
            && found.place < found.places
            && usize::from(found.places) <= LOGS_MAX;
        is_sound.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> LogHead {
        LogHead { volume: 7, generation: 5, place: 1, places: 2, losses: 3 }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(LogHead::decode(&sample().encode()), Some(sample()));
    }

    #[test]
    fn numbers_that_nobody_writes_are_refused_though_the_sum_fits() {
        type Change = (&'static str, fn(&mut LogHead));
        let changes: [Change; 4] = [
            ("no head after it", |it| it.generation = u64::MAX),
            ("no loss after it", |it| it.losses = u64::MAX),
            ("a place that there is not", |it| it.place = 2),
            ("more than there may be", |it| it.places = 33),
        ];
        for (what, change) in changes {
            let mut found = sample();
            change(&mut found);
            assert_eq!(LogHead::decode(&found.encode()), None, "{what}");
        }
    }

    proptest! {
        #[test]
        fn a_single_wrong_bit_anywhere_is_seen(byte in 0..PAGE, bit in 0..8) {
            let mut page = sample().encode();
            page[byte] ^= 1u8 << bit;
            prop_assert_eq!(LogHead::decode(&page), None);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(LogHead::decode(&bytes), None);
        }
    }
}
