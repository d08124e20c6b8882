//! The superblock: what a volume is, and where its log begins.
//!
//! Generation g is written to the copies whose number has g's parity, so that a torn write never takes the
//! generation before it. The valid copy of the highest generation counts.
//!
//! Version 2 holds a sum of each piece of the root ([`RootSums`]), version 1 one of all of it. Version 1 is read, and
//! replaced by the first superblock of the next opening. Version 3 is that of a volume that has grown: as 2, with the
//! sizes before. A newer version is no superblock to this one, and known by its number.

use std::ops::RangeInclusive;

use twox_hash::XxHash3_64;

use super::layout::{GROWTHS_MAX, HOME_BYTES_MIN, Layout, Size, SizesBefore};
use super::root::{ROOT_PIECES_MAX, RootSums};
use super::{Fields, PAGE, PAGE_BYTES};

const MAGIC: u64 = u64::from_le_bytes(*b"evenkeel");

/// The version of a volume that never grew.
const VERSION: u64 = 2;

/// The version of one that did.
const VERSION_GROWN: u64 = 3;

/// The version whose superblock has one sum of the whole root.
const VERSION_OF_WHOLE_SUM: u64 = 1;

/// Where in the page the sums of the root's pieces begin: they fill the rest of it.
const ROOT_SUMS_AT: usize = PAGE - 8 * ROOT_PIECES_MAX;

/// Where it says whether the volume was stopped in order: the last word before them, which was 0 before there was that.
const CLOSED_AT: usize = ROOT_SUMS_AT - 8;

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
    pub home_state: StoreState,
    /// The sizes that the volume had before it grew.
    pub sizes_before: SizesBefore,
    /// Whether the opening `epoch` ended in order with everything home: nothing of the log is needed. A volume that an
    /// older version of this program closed does not say so.
    pub is_closed: bool,
}

impl Superblock {
    /// What it tells a device of the volume.
    pub fn remembered(&self) -> Remembered {
        let Self { volume, generation, home_bytes, home_state, .. } = *self;
        Remembered { volume, superblock: generation, home_bytes, state: home_state }
    }

    /// The log begins with this record of the current epoch: all before it is home.
    pub fn move_tail(&mut self, offset: u64, sequence: u64) {
        self.tail_offset = offset;
        self.tail_sequence = sequence;
        self.tail_epoch = self.epoch;
    }

    /// It has another size, and had this one before.
    ///
    /// # Panics
    ///
    /// If it has grown too often.
    pub fn grow(&mut self, size: Size) {
        let now = Size { pages: self.pages, home_bytes: self.home_bytes };
        self.sizes_before = self.sizes_before.and(now).expect("whoever makes it grow has counted");
        (self.pages, self.home_bytes) = (size.pages, size.home_bytes);
    }

    /// Where the zones of the volume lie; `None` where its numbers are those of no volume.
    pub fn layout(&self) -> Option<Layout> {
        let size = Size { pages: self.pages, home_bytes: self.home_bytes };
        Layout::of(size, &self.sizes_before, self.log_bytes, self.separate_log)
            .filter(|layout| layout.log.len == self.log_bytes)
    }

    /// One page that holds it.
    pub fn encode(&self) -> [u8; PAGE] {
        let mut page = [0; PAGE];
        let before = self.sizes_before.as_slice();
        let version = match self.whole_root_sum {
            Some(_) => VERSION_OF_WHOLE_SUM,
            None if before.is_empty() => VERSION,
            None => VERSION_GROWN,
        };
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
        let grown = std::iter::once(before.len() as u64)
            .chain(before.iter().flat_map(|size| [size.pages, size.home_bytes]))
            .filter(|_| !before.is_empty());
        let words = words.into_iter().chain(self.home_state.0).chain([self.epoch_sequence]).chain(grown);
        for (place, word) in page.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        page[CLOSED_AT..CLOSED_AT + 8].copy_from_slice(&u64::from(self.is_closed).to_le_bytes());
        for (place, word) in page[ROOT_SUMS_AT..].chunks_exact_mut(8).zip(self.root_sums.words()) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        let sum = XxHash3_64::oneshot(&page[16..]);
        page[8..16].copy_from_slice(&sum.to_le_bytes());
        page
    }

    /// The version of the superblock in a page, where it is whole and newer than any that this program knows.
    pub fn newer_version(page: &[u8]) -> Option<u64> {
        whole(page)?.u64().filter(|&version| version > VERSION_GROWN)
    }

    /// The newest version that this program knows.
    pub const fn newest_version() -> u64 {
        VERSION_GROWN
    }

    /// The superblock in a page; `None` where there is none that is whole.
    pub fn decode(page: &[u8]) -> Option<Self> {
        let mut fields = whole(page)?;
        let version = fields.u64()?;
        if ![VERSION_OF_WHOLE_SUM, VERSION, VERSION_GROWN].contains(&version) {
            return None;
        }
        let is_of_pieces = version != VERSION_OF_WHOLE_SUM;
        let pieces = page[ROOT_SUMS_AT..].chunks_exact(8).map(|word| Fields::of(word).u64().unwrap_or(0));
        let mut found = Self {
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
            home_state: StoreState([fields.u64()?, fields.u64()?, fields.u64()?, fields.u64()?]),
            epoch_sequence: fields.u64()?,
            sizes_before: SizesBefore::default(),
            is_closed: page[CLOSED_AT..].first_chunk().is_some_and(|word| u64::from_le_bytes(*word) == 1),
        };
        if version == VERSION_GROWN {
            let count =
                usize::try_from(fields.u64()?).ok().filter(|count| (1..=GROWTHS_MAX).contains(count))?;
            for _ in 0..count {
                let size = Size { pages: fields.u64()?, home_bytes: fields.u64()? };
                found.sizes_before = found.sizes_before.and(size)?;
            }
            // Of one that never grew an opening finds out: its devices may be smaller than it, and are not known here.
            found.layout()?;
        }
        let sector = u64::from(found.log_sector_bytes);
        let counts = [found.generation, found.tail_sequence, found.epoch_sequence, found.acknowledged];
        let sound = (512..=4096).contains(&sector)
            && sector.is_power_of_two()
            && found.home_bytes >= HOME_BYTES_MIN
            && (PAGE_BYTES..=found.log_bytes).contains(&found.atomic_max_bytes)
            && found.epoch.max(found.tail_epoch) < EPOCH_END
            && counts.iter().all(|&count| count < COUNT_END)
            && found.tail_sequence > 0
            && found.tail_offset < found.log_bytes
            && found.tail_offset.is_multiple_of(sector);
        sound.then_some(found)
    }

    /// Whether the last opening was stopped in order, or there was none. Where the version knew no better, it is taken to
    /// have been.
    pub fn follows_stop(&self) -> bool {
        self.is_closed || self.epoch == 0 || self.whole_root_sum.is_some()
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

/// What a page store is known by beside what it holds; only the store knows what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StoreState(pub [u64; 4]);

/// What is known of a volume as it is opened once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Remembered {
    /// Its number.
    pub volume: u64,
    /// The generation of the newest superblock that was found.
    pub superblock: u64,
    /// Bytes of the page store that the volume knows of.
    pub home_bytes: u64,
    /// The state of the page store, as of the superblock.
    pub state: StoreState,
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
            home_state: StoreState([3, 2, 77, 0]),
            sizes_before: SizesBefore::default(),
            is_closed: true,
        }
    }

    /// One that has grown twice.
    fn grown() -> Superblock {
        let sizes =
            [100, 2_000, 600_000].map(|pages| Size { pages, home_bytes: (pages + 2_000) * PAGE_BYTES });
        Superblock {
            pages: sizes[2].pages,
            home_bytes: sizes[2].home_bytes,
            sizes_before: SizesBefore::of(&sizes[..2]).unwrap(),
            ..sample()
        }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(Superblock::decode(&sample().encode()), Some(sample()));
        let of_version_1 = Superblock { whole_root_sum: Some(99), root_sums: RootSums::NONE, ..sample() };
        assert_eq!(Superblock::decode(&of_version_1.encode()), Some(of_version_1));
        assert_eq!(Superblock::decode(&grown().encode()), Some(grown()));
        assert_eq!(grown().layout().unwrap().segments.len(), 3);
    }

    fn of_version(version: u64) -> [u8; PAGE] {
        let mut page = grown().encode();
        page[16..24].copy_from_slice(&version.to_le_bytes());
        let sum = XxHash3_64::oneshot(&page[16..]);
        page[8..16].copy_from_slice(&sum.to_le_bytes());
        page
    }

    #[test]
    fn a_superblock_of_a_newer_version_is_told_from_none() {
        let mut page = sample().encode();
        assert_eq!(Superblock::newer_version(&page), None);
        page[16..24].copy_from_slice(&4u64.to_le_bytes());
        assert_eq!((Superblock::newer_version(&page), Superblock::decode(&page)), (None, None), "not whole");
        let page = of_version(4);
        assert_eq!((Superblock::newer_version(&page), Superblock::decode(&page)), (Some(4), None));
    }

    #[test]
    fn one_that_never_grew_is_what_it_was_before_volumes_could() {
        let version = |page: [u8; PAGE]| u64::from_le_bytes(page[16..24].try_into().unwrap());
        assert_eq!((version(sample().encode()), version(grown().encode())), (2, 3));
        let page = Superblock { is_closed: false, ..sample() }.encode();
        assert!(
            page[23 * 8..ROOT_SUMS_AT].iter().all(|&byte| byte == 0),
            "nothing is between the words that there were"
        );
        assert_eq!(Superblock::decode(&of_version(0)), None);
    }

    #[test]
    fn a_home_device_without_room_for_the_copies_is_refused_though_the_sum_fits() {
        for (home_bytes, is_sound) in
            [(0, false), (PAGE_BYTES, false), (HOME_BYTES_MIN - 1, false), (HOME_BYTES_MIN, true)]
        {
            let page = Superblock { home_bytes, ..sample() }.encode();
            assert_eq!(Superblock::decode(&page).is_some(), is_sound, "{home_bytes} bytes");
        }
    }

    #[test]
    fn sizes_that_no_volume_had_are_refused_though_the_sum_fits() {
        let [first, second] = [0, 1].map(|place| grown().sizes_before.as_slice()[place]);
        let many = vec![first; GROWTHS_MAX];
        for sizes in [&[second, first][..], &[first, first], &many] {
            let found = Superblock { sizes_before: SizesBefore::of(sizes).unwrap(), ..grown() };
            assert_eq!(Superblock::decode(&found.encode()), None);
        }
        let found = Superblock { pages: second.pages, ..grown() };
        assert_eq!(Superblock::decode(&found.encode()), None, "it shrank");
        let found = Superblock { home_bytes: second.home_bytes, ..grown() };
        assert_eq!(Superblock::decode(&found.encode()), None, "it does not fit");
        let mut page = grown().encode();
        page[23 * 8] = GROWTHS_MAX as u8 + 1;
        let sum = XxHash3_64::oneshot(&page[16..]);
        page[8..16].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Superblock::decode(&page), None, "too often");
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
            for mut page in [sample().encode(), grown().encode()] {
                page[byte] ^= 1u8 << bit;
                prop_assert_eq!(Superblock::decode(&page), None);
            }
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(Superblock::decode(&bytes), None);
        }
    }
}
