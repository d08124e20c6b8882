//! The superblock: what a volume is, and where its log begins.
//!
//! Generation g is written to the copies whose number has g's parity, so that a torn write never takes the
//! generation before it. The valid copy of the highest generation counts.
//!
//! Version 2 holds a sum of each piece of the root ([`RootSums`]), version 1 one of all of it. Version 1 is read, and
//! replaced by the first superblock of the next opening. A newer version is no superblock to this one, and known by its
//! number.

use std::ops::RangeInclusive;

use twox_hash::XxHash3_64;

use super::root::{ROOT_PIECES_MAX, RootSums};
use super::{Fields, PAGE, PAGE_BYTES};
use crate::device::{DeviceState, Remembered};

const MAGIC: u64 = u64::from_le_bytes(*b"evenkeel");

/// Version of every format in this module's parent.
const VERSION: u64 = 2;

/// The version whose superblock has one sum of the whole root.
const VERSION_OF_WHOLE_SUM: u64 = 1;

/// Where in the page the sums of the root's pieces begin: they fill the rest of it.
const ROOT_SUMS_AT: usize = PAGE - 8 * ROOT_PIECES_MAX;

/// What counts openings ends below this, so that it can be counted on, and with 32 bits behind it fits a number of the
/// arena.
const EPOCH_END: u64 = 1 << 31;

/// What counts records or superblocks ends below this.
const COUNT_END: u64 = 1 << 62;

/// The state of a volume at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Superblock {
    /// A random number that no other volume has.
    pub volume: u64,
    /// Counts the superblocks written.
    pub generation: u64,
    /// Counts the openings.
    pub epoch: u64,
    /// Pages that the volume offers.
    pub pages: u64,
    /// Bytes of the home device that the layout was planned for.
    pub home_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Whether the log has a device of its own.
    pub separate_log: bool,
    /// Which of the two places of the root is known to hold it durably.
    pub root_slot: u8,
    /// The sum of all of that root, where this is of version 1: then nothing is known of its pieces.
    pub whole_root_sum: Option<u64>,
    /// The sums of that root's pieces.
    pub root_sums: RootSums,
    /// Where the oldest needed record begins, from the start of the log.
    pub tail_offset: u64,
    /// That record's sequence number.
    pub tail_sequence: u64,
    /// The opening that named the tail: no record from there on is of an earlier one. What an earlier opening left
    /// behind the end of its log must not count, though its number fits.
    pub tail_epoch: u64,
    /// The first record of the opening `epoch`, written or not: those before it are of earlier ones. 0 where that is not
    /// known. A device that lied about its durability may hold what another opening wrote there.
    pub epoch_sequence: u64,
    /// Largest write that is one commit, in bytes.
    pub atomic_max_bytes: u64,
    /// Bytes of a sector of the log.
    pub log_sector_bytes: u32,
    /// The newest record acknowledged when this was written.
    pub acknowledged: u64,
    /// What the home device wants remembered of it; zeros where it wants nothing.
    pub home_state: DeviceState,
}

impl Superblock {
    /// What it tells a device of the volume.
    pub fn remembered(&self) -> Remembered {
        Remembered { volume: self.volume, superblock: self.generation, state: self.home_state }
    }

    /// One page that holds it.
    pub fn encode(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        let version = if self.whole_root_sum.is_some() { VERSION_OF_WHOLE_SUM } else { VERSION };
        let words = [
            MAGIC,
            0,
            version,
            self.volume,
            self.generation,
            self.epoch,
            self.pages,
            self.home_bytes,
            self.log_bytes,
            u64::from(self.separate_log),
            u64::from(self.root_slot),
            self.whole_root_sum.unwrap_or(0),
            self.tail_offset,
            self.tail_sequence,
            self.tail_epoch,
            self.atomic_max_bytes,
            u64::from(self.log_sector_bytes),
            self.acknowledged,
        ];
        let words = words.into_iter().chain(self.home_state.0).chain([self.epoch_sequence]);
        for (place, word) in page.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        for (place, word) in page[ROOT_SUMS_AT..].chunks_exact_mut(8).zip(self.root_sums.words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = XxHash3_64::oneshot(&page[16..]);
        page[8..16].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// The version of the superblock in a page, where it is whole and newer than any that this program knows.
    pub fn newer_version(page: &[u8]) -> Option<u64> {
        whole(page)?.u64().filter(|&version| version > VERSION)
    }

    /// The newest version that this program knows.
    pub const fn newest_version() -> u64 {
        VERSION
    }

    /// The superblock in a page; `None` where there is none that is whole.
    pub fn decode(page: &[u8]) -> Option<Self> {
        let mut fields = whole(page)?;
        let version = fields.u64()?;
        if ![VERSION_OF_WHOLE_SUM, VERSION].contains(&version) {
            return None;
        }
        let is_of_pieces = version != VERSION_OF_WHOLE_SUM;
        let pieces = page[ROOT_SUMS_AT..].chunks_exact(8).map(|word| Fields::of(word).u64().unwrap_or(0));
        let found = Self {
            volume: fields.u64()?,
            generation: fields.u64()?,
            epoch: fields.u64()?,
            pages: fields.u64()?,
            home_bytes: fields.u64()?,
            log_bytes: fields.u64()?,
            separate_log: fields.u64()? != 0,
            root_slot: u8::try_from(fields.u64()?).ok().filter(|&slot| slot < 2)?,
            whole_root_sum: Some(fields.u64()?).filter(|_| !is_of_pieces),
            root_sums: if is_of_pieces { RootSums::of_words(pieces) } else { RootSums::NONE },
            tail_offset: fields.u64()?,
            tail_sequence: fields.u64()?,
            tail_epoch: fields.u64()?,
            atomic_max_bytes: fields.u64()?,
            log_sector_bytes: u32::try_from(fields.u64()?).ok()?,
            acknowledged: fields.u64()?,
            home_state: DeviceState([fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?]),
            epoch_sequence: fields.u64()?,
        };
        let sector = u64::from(found.log_sector_bytes);
        let counts = [found.generation, found.tail_sequence, found.epoch_sequence, found.acknowledged];
        let sound = (512..=4096).contains(&sector)
            && sector.is_power_of_two()
            && (PAGE_BYTES..=found.log_bytes).contains(&found.atomic_max_bytes)
            && found.epoch.max(found.tail_epoch) < EPOCH_END
            && counts.iter().all(|&count| count < COUNT_END)
            && found.tail_sequence > 0
            && found.tail_offset < found.log_bytes
            && found.tail_offset.is_multiple_of(sector);
        sound.then_some(found)
    }

    /// The openings that a record of this number may be of.
    pub fn epochs_of(&self, sequence: u64) -> RangeInclusive<u64> {
        match self.epoch_sequence {
            0 => 0..=self.epoch,
            first if sequence < first => 0..=self.epoch.saturating_sub(1),
            _ => self.epoch..=self.epoch,
        }
    }
}

/// What stands behind the sum of a page that is a superblock, of whatever version.
fn whole(page: &[u8]) -> Option<Fields<'_>> {
    let mut fields = Fields::of(page);
    let (magic, sum) = (fields.u64()?, fields.u64()?);
    let is_whole = page.len() == PAGE && magic == MAGIC && sum == XxHash3_64::oneshot(&page[16..]);
    is_whole.then_some(fields)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> Superblock {
        Superblock {
            volume: 7,
            generation: 3,
            epoch: 2,
            pages: 100,
            home_bytes: 1 << 20,
            log_bytes: 1 << 16,
            separate_log: true,
            root_slot: 1,
            whole_root_sum: None,
            root_sums: RootSums::of(&[7; 1000]),
            tail_offset: 512,
            tail_sequence: 40,
            tail_epoch: 2,
            epoch_sequence: 38,
            atomic_max_bytes: 16384,
            log_sector_bytes: 512,
            acknowledged: 41,
            home_state: DeviceState([3, 2, 77, 0]),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Superblock::decode(&sample().encode()), Some(sample()));
        let of_version_1 = Superblock { whole_root_sum: Some(99), root_sums: RootSums::NONE, ..sample() };
        assert_eq!(Superblock::decode(&of_version_1.encode()), Some(of_version_1));
    }

    #[test]
    fn a_superblock_of_a_newer_version_is_told_from_none() {
        let mut page = sample().encode();
        assert_eq!(Superblock::newer_version(&page), None);
        page[16..24].copy_from_slice(&3u64.to_le_bytes());
        assert_eq!((Superblock::newer_version(&page), Superblock::decode(&page)), (None, None), "not whole");
        let sum = XxHash3_64::oneshot(&page[16..]);
        page[8..16].copy_from_slice(&sum.to_le_bytes());
        assert_eq!((Superblock::newer_version(&page), Superblock::decode(&page)), (Some(3), None));
    }

    #[test]
    fn numbers_that_nobody_writes_are_refused_though_the_sum_fits() {
        type Change = (&'static str, fn(&mut Superblock));
        let changes: [Change; 15] = [
            ("no generation after it", |it| it.generation = u64::MAX),
            ("no opening after it", |it| it.epoch = u64::MAX),
            ("an opening that the arena cannot number", |it| it.epoch = 1 << 32),
            ("no opening after that of the tail", |it| it.tail_epoch = u64::MAX),
            ("no record after the tail", |it| it.tail_sequence = u64::MAX),
            ("no record before the tail", |it| it.tail_sequence = 0),
            ("no record after the first of its opening", |it| it.epoch_sequence = u64::MAX),
            ("no record after the newest", |it| it.acknowledged = u64::MAX),
            ("a write of nothing as the largest", |it| it.atomic_max_bytes = 0),
            ("a write of half a page as the largest", |it| it.atomic_max_bytes = 2048),
            ("a write that no log holds", |it| it.atomic_max_bytes = (1 << 16) + 1),
            ("a root that is not there", |it| it.root_slot = 2),
            ("a tail at the end of the log", |it| it.tail_offset = 1 << 16),
            ("a tail within a sector", |it| it.tail_offset = 100),
            ("sectors of no drive", |it| it.log_sector_bytes = 256),
        ];
        for (what, change) in changes {
            let mut found = sample();
            change(&mut found);
            assert_eq!(Superblock::decode(&found.encode()), None, "{what}");
        }
        for log_sector_bytes in [512, 4096] {
            let found = Superblock { log_sector_bytes, tail_offset: 4096, ..sample() };
            assert_eq!(Superblock::decode(&found.encode()), Some(found));
        }
    }

    proptest! {
        #[test]
        fn a_single_wrong_bit_anywhere_is_seen(byte in 0..PAGE, bit in 0..8) {
            let mut page = sample().encode();
            page[byte] ^= 1u8 << bit;
            prop_assert_eq!(Superblock::decode(&page), None);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(Superblock::decode(&bytes), None);
        }
    }
}
