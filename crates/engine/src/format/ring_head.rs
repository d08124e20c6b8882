//! The head of a ring's member: which place in which ring it has, and how much of what was written it holds.
//!
//! Two copies, written in turns: a torn write never takes the one before it.
//!
//! Version 1 is that of a mirror's member. Version 2 is that of a ring with stripes, and says their shape; who knows version 1
//! alone finds no head there, and takes the member for none of its own.

use super::dirty_regions::DirtyRegions;
use super::stripes::Stripes;
use super::{PAGE, PAGE_BYTES, encode_head, head_fields, seal_head};

const MAGIC: u64 = u64::from_le_bytes(*b"evenring");

/// Version of the head of a mirror's member.
const VERSION: u64 = 1;

/// Version of the head of a member of a ring with stripes.
const VERSION_STRIPES: u64 = 2;

/// What counts openings, writes or heads ends below this.
const COUNT_END: u64 = 1 << 62;

/// Copies of the head on each member.
pub const HEAD_COPIES: u64 = 2;

/// Where on a member what the ring offers begins.
pub const DATA_OFFSET: u64 = HEAD_COPIES * PAGE_BYTES;

/// Most members of a ring.
pub const MEMBERS_MAX: usize = 32;

/// How far a member has come: up to which write of which opening everything is durable on it. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Mark {
    /// The opening in which it was set.
    pub epoch: u64,
    /// The write of that opening, counted from 1.
    pub through: u64,
}

/// Where the records of a log lie that has no devices of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogPlaces {
    /// Counts the changes of `needed`.
    pub version: u64,
    /// Members, a bit each, without which records may be missing.
    pub needed: u64,
    /// Where none are needed: who holds the same empty log. Where those that are needed are the first: who held it.
    pub empty_on: u64,
    /// Counts how often the log was left empty.
    pub emptied: u64,
}

/// An opening of which the superblock is durable. Ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct DurableOpening {
    /// Its number among all that were tried; 0 for none.
    pub opening: u64,
    /// [`LogPlaces::version`] when it began.
    pub version: u64,
    /// The newest opening that began and of which each member was told; 0 for none.
    pub told: [u64; MEMBERS_MAX],
}

/// What a member says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingHead {
    /// The volume's number.
    pub volume: u64,
    /// Counts the heads written to this member.
    pub generation: u64,
    /// Its place in the ring, from 0.
    pub place: u16,
    /// Places of the ring.
    pub places: u16,
    /// Bytes that the ring offers.
    pub size_bytes: u64,
    /// What is durable on it.
    pub mark: Mark,
    /// How often a log device failed so far, as far as this member was told.
    pub log_losses: u64,
    /// Bytes of its region of the log, behind the heads; 0 where the log has devices of its own.
    pub log_bytes: u64,
    /// Who holds records, as far as this member was told.
    pub log_places: LogPlaces,
    /// Whether its region is a part of the log, and no leftover or blank.
    pub is_in_log: bool,
    /// The opening in which this was written, of all that were tried.
    pub opening: u64,
    /// The newest opening that is known to have begun.
    pub begun: DurableOpening,
    /// The newest superblock that is known to be durable on the log, by its generation.
    pub superblock: u64,
    /// The stripes over the ring's members; `None` where each member holds everything.
    pub stripes: Option<Stripes>,
}

impl RingHead {
    /// Where on a member this head is written.
    pub fn offset(&self) -> u64 {
        self.generation % HEAD_COPIES * PAGE_BYTES
    }

    /// Whether it was put there and nothing counts on it yet: neither its pages, nor a log on it.
    pub fn is_blank(&self) -> bool {
        self.mark == Mark::default() && !self.is_in_log
    }

    /// One page that holds it.
    pub fn encode(&self) -> [u8; PAGE] {
        let words = [
            self.volume,
            self.generation,
            u64::from(self.place),
            u64::from(self.places),
            self.size_bytes,
            self.mark.epoch,
            self.mark.through,
            self.log_losses,
            self.log_bytes,
            self.log_places.version,
            self.log_places.needed,
            self.log_places.empty_on,
            u64::from(self.is_in_log),
            self.log_places.emptied,
            self.opening,
            self.begun.opening,
            self.superblock,
            self.begun.version,
        ];
        let version = if self.stripes.is_some() { VERSION_STRIPES } else { VERSION };
        let stripes = self.stripes.iter().flat_map(Stripes::words);
        encode_head(MAGIC, version, words.into_iter().chain(self.begun.told).chain(stripes))
    }

    /// The same, with what is told of regions that changed.
    pub fn encode_with(&self, regions: &DirtyRegions) -> [u8; PAGE] {
        let mut page = self.encode();
        regions.put(&mut page);
        seal_head(&mut page);
        page
    }

    /// The head in a page; `None` where there is none that is whole.
    pub fn decode(page: &[u8]) -> Option<Self> {
        let of_mirror = head_fields(MAGIC, VERSION, page);
        let has_stripes = of_mirror.is_none();
        let mut fields = of_mirror.or_else(|| head_fields(MAGIC, VERSION_STRIPES, page))?;
        let mut found = Self {
            volume: fields.u64()?,
            generation: fields.u64()?,
            place: u16::try_from(fields.u64()?).ok()?,
            places: u16::try_from(fields.u64()?).ok()?,
            size_bytes: fields.u64()?,
            mark: Mark { epoch: fields.u64()?, through: fields.u64()? },
            log_losses: fields.u64()?,
            log_bytes: fields.u64()?,
            log_places: LogPlaces {
                version: fields.u64()?,
                needed: fields.u64()?,
                empty_on: fields.u64()?,
                emptied: 0,
            },
            is_in_log: fields.u64()? != 0,
            opening: 0,
            begun: DurableOpening::default(),
            superblock: 0,
            stripes: None,
        };
        found.log_places.emptied = fields.u64()?;
        found.opening = fields.u64()?;
        found.begun.opening = fields.u64()?;
        found.superblock = fields.u64()?;
        found.begun.version = fields.u64()?;
        for told in &mut found.begun.told {
            *told = fields.u64()?;
        }
        if has_stripes {
            let stripes = Stripes::of(&mut fields)?;
            if stripes.members() != usize::from(found.places) {
                return None;
            }
            found.stripes = Some(stripes);
        }
        let RingHead { generation, mark, log_losses, log_bytes, log_places, .. } = found;
        let counts = [generation, mark.epoch, mark.through, log_losses, log_bytes];
        let is_sound = counts
            .iter()
            .chain(&[
                log_places.version,
                log_places.emptied,
                found.opening,
                found.begun.opening,
                found.superblock,
                found.begun.version,
            ])
            .all(|&count| count < COUNT_END)
            && found.place < found.places
            && usize::from(found.places) <= MEMBERS_MAX
            && found.begun.told.iter().all(|&told| told <= found.begun.opening)
            && found.size_bytes.is_multiple_of(PAGE_BYTES)
            && found.log_bytes.is_multiple_of(PAGE_BYTES)
            && (found.log_places.needed | found.log_places.empty_on)
                .checked_shr(u32::from(found.places))
                .unwrap_or(0)
                == 0;
        is_sound.then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> RingHead {
        let mut told = [0; MEMBERS_MAX];
        told[..3].copy_from_slice(&[4, 2, 4]);
        RingHead {
            volume: 7,
            generation: 5,
            place: 1,
            places: 3,
            size_bytes: 1 << 20,
            mark: Mark { epoch: 2, through: 99 },
            log_losses: 1,
            log_bytes: 1 << 16,
            log_places: LogPlaces { version: 4, needed: 0b101, empty_on: 0b111, emptied: 2 },
            is_in_log: true,
            opening: 5,
            begun: DurableOpening { opening: 4, version: 3, told },
            superblock: 9,
            stripes: None,
        }
    }

    fn sample_of_stripes() -> RingHead {
        RingHead { stripes: Stripes::new(2, 1, 64 << 10), ..sample() }
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(RingHead::decode(&sample().encode()), Some(sample()));
        assert_eq!(RingHead::decode(&sample_of_stripes().encode()), Some(sample_of_stripes()));
    }

    #[test]
    fn a_head_with_stripes_is_none_to_who_knows_of_none_and_one_without_is_as_it_was() {
        let (without, with) = (sample().encode(), sample_of_stripes().encode());
        assert!(head_fields(MAGIC, 1, &with).is_none());
        assert!(head_fields(MAGIC, 1, &without).is_some());
        // What lies behind the fields of a head of a mirror is no shape of stripes, whatever it is.
        let mut page = without;
        page[424..448].copy_from_slice(&with[424..448]);
        seal_head(&mut page);
        assert_eq!(RingHead::decode(&page), Some(sample()));
    }

    #[test]
    fn stripes_that_nobody_makes_are_refused_though_the_sum_fits() {
        let page = sample_of_stripes().encode();
        let words = |at: usize| u64::from_le_bytes(page[at..at + 8].try_into().expect("a word"));
        assert_eq!([424, 432, 440].map(words), [2, 1, 64 << 10]);
        let unsound =
            [(424, 3), (424, 1), (424, u64::MAX), (432, 0), (432, 2), (440, 0), (440, 4097), (440, 2 << 20)];
        for (at, word) in unsound {
            let mut page = page;
            page[at..at + 8].copy_from_slice(&word.to_le_bytes());
            seal_head(&mut page);
            assert_eq!(RingHead::decode(&page), None, "{word} at {at}");
        }
    }

    #[test]
    fn a_head_with_regions_is_the_same_head_and_one_without_tells_of_none() {
        let regions = DirtyRegions {
            since: Mark { epoch: 2, through: 7 },
            region_bytes: 8192,
            changed: vec![true, false, true, true, false, false, false, false, false, true],
        };
        let page = sample().encode_with(&regions);
        assert_eq!(RingHead::decode(&page), Some(sample()));
        assert_eq!(DirtyRegions::of(&page), Some(regions));
        assert_eq!(DirtyRegions::of(&sample().encode()), None);
    }

    #[test]
    fn a_later_opening_counts_more_than_any_write_of_an_earlier_one() {
        assert!(Mark { epoch: 2, through: 0 } > Mark { epoch: 1, through: 1 << 40 });
        assert!(Mark { epoch: 2, through: 5 } > Mark { epoch: 2, through: 4 });
    }

    #[test]
    fn numbers_that_nobody_writes_are_refused_though_the_sum_fits() {
        type Change = (&'static str, fn(&mut RingHead));
        let changes: [Change; 16] = [
            ("no head after it", |it| it.generation = u64::MAX),
            ("no opening after it", |it| it.mark.epoch = u64::MAX),
            ("no write after it", |it| it.mark.through = u64::MAX),
            ("a place that the ring does not have", |it| it.place = 3),
            ("a ring that nobody makes", |it| it.places = 33),
            ("half a page", |it| it.size_bytes = 2048),
            ("half a page of log", |it| it.log_bytes = 2048),
            ("no change of places after it", |it| it.log_places.version = u64::MAX),
            ("no empty log after it", |it| it.log_places.emptied = u64::MAX),
            ("no opening after that in which it was written", |it| it.opening = u64::MAX),
            ("no opening after the last that began", |it| it.begun.opening = u64::MAX),
            ("no change of places after it began", |it| it.begun.version = u64::MAX),
            ("no superblock after it", |it| it.superblock = u64::MAX),
            ("an opening that did not begin yet of which a member was told", |it| it.begun.told[2] = 5),
            ("records on a member that the ring does not have", |it| it.log_places.needed = 0b1000),
            ("an empty log on it", |it| it.log_places.empty_on = 0b1000),
        ];
        for (what, change) in changes {
            let mut found = sample();
            change(&mut found);
            assert_eq!(RingHead::decode(&found.encode()), None, "{what}");
        }
    }

    proptest! {
        #[test]
        fn a_single_wrong_bit_anywhere_is_seen(
            byte in 0..PAGE, bit in 0..8, with_regions: bool, with_stripes: bool,
        ) {
            let sample = if with_stripes { sample_of_stripes() } else { sample() };
            let regions = DirtyRegions { since: Mark::default(), region_bytes: 4096, changed: vec![true; 999] };
            let mut page = if with_regions { sample.encode_with(&regions) } else { sample.encode() };
            page[byte] ^= 1u8 << bit;
            prop_assert_eq!(RingHead::decode(&page), None);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(RingHead::decode(&bytes), None);
        }
    }
}
