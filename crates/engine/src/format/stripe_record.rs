//! A record of the stripe log: what a stripe holds once a change is home.
//!
//! A page says which shards change where, the new bytes follow. A record is written before any of them goes home, and its
//! room is used again when all of them are home and durable. So after a cut, what is home of the change is old, new or torn,
//! and all of it can be written again; no other shard of the stripe is needed for that.
//!
//! The bytes are a client's, and may look like a record. A page of them that begins as one does is logged without its
//! first word, and the first page says so: whatever begins so in the log was begun by this.

use twox_hash::XxHash3_64;

use super::ring_head::Mark;
use super::stripes::{DATA_MAX, PARITY_MAX, SHARD_BYTES_MAX, Stripes};
use super::{PAGE, PAGE_BYTES, encode_head, head_of_any_version};

const MAGIC: u64 = u64::from_le_bytes(*b"evenstrp");

/// Version of this format.
const VERSION: u64 = 3;

/// That of records with one range of a shard at most.
const VERSION_WITH_ONE_RANGE: u64 = 2;

/// That of records which do not say where they were written.
const VERSION_WITHOUT_OFFSET: u64 = 1;

/// What counts records or openings ends below this.
const COUNT_END: u64 = 1 << 62;

/// Most ranges of a record: what has room in its first page beside the words of the largest change.
pub const RANGES_MAX: usize = 120;

/// Some bytes of one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardRange {
    /// Which shard of the stripe.
    pub number: usize,
    /// From where in the shard: whole pages.
    pub within: u64,
    /// How many bytes.
    pub len: u64,
}

/// What the first page of a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StripeRecord {
    /// The volume's number.
    pub volume: u64,
    /// Counts the records of a volume, from 1.
    pub sequence: u64,
    /// The oldest record that was still needed when this one was written: itself at most.
    pub floor: u64,
    /// How far every member had come durably that was in sync when this one was written: another one had failed.
    pub settled: Mark,
    /// Bytes of the log of stripes on each log device.
    pub region_bytes: u64,
    /// Where in that it was written: one that is found elsewhere was misdirected. `None` in records of version 1.
    pub offset: Option<u64>,
    /// The stripe.
    pub stripe: u64,
    /// What changes: the bytes follow in this order.
    pub ranges: Vec<ShardRange>,
    /// The sum of these bytes.
    pub body_sum: u64,
    /// Pages of these bytes that are logged without their first word, a bit each.
    pub escaped: Vec<u64>,
}

impl StripeRecord {
    /// Bytes that follow the first page.
    pub fn body_bytes(&self) -> u64 {
        self.ranges.iter().map(|range| range.len).sum()
    }

    /// The record with its bytes; it says which of them are escaped, and their sum.
    pub fn encode(&self, body: &[u8]) -> Vec<u8> {
        let ranges = self.ranges.iter().flat_map(|range| [range.number as u64, range.within, range.len]);
        let Mark { epoch, through } = self.settled;
        let log = [self.volume, self.sequence, self.floor, epoch, through, self.region_bytes];
        let words = log.into_iter().chain(self.offset).chain([self.stripe, sum(body)]);
        let escaped = escaped_pages(body);
        let words = words.chain([self.ranges.len() as u64]).chain(ranges).chain(escaped.iter().copied());
        let head = encode_head(MAGIC, self.version(), words);
        let mut bytes = [&head[..], body].concat();
        set_first_words(&escaped, &mut bytes[PAGE..], 0);
        bytes
    }

    /// The first version that could have written it.
    fn version(&self) -> u64 {
        let is_of_one_shard = |pair: &[ShardRange]| pair[0].number == pair[1].number;
        match self.offset {
            None => VERSION_WITHOUT_OFFSET,
            Some(_) if self.ranges.windows(2).any(is_of_one_shard) => VERSION,
            Some(_) => VERSION_WITH_ONE_RANGE,
        }
    }

    /// Whether a page begins a record of this volume that a newer version wrote.
    pub fn is_newer(page: &[u8], volume: u64) -> bool {
        let told = head_of_any_version(MAGIC, page).filter(|&(version, _)| version > VERSION);
        told.and_then(|(_, mut fields)| fields.u64()).is_some_and(|of| of == volume)
    }

    /// What a page says that begins a record of stripes of this shape; `None` where it begins none.
    pub fn decode(page: &[u8], stripes: &Stripes) -> Option<Self> {
        let is_known = |(version, _): &(u64, _)| (VERSION_WITHOUT_OFFSET..=VERSION).contains(version);
        let (version, mut fields) = head_of_any_version(MAGIC, page).filter(is_known)?;
        let (volume, sequence, floor) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let settled = Mark { epoch: fields.u64()?, through: fields.u64()? };
        let region_bytes = fields.u64()?;
        let offset = if version > VERSION_WITHOUT_OFFSET { Some(fields.u64()?) } else { None };
        let (stripe, body_sum) = (fields.u64()?, fields.u64()?);
        let ranges_max = if version < VERSION { stripes.members() } else { RANGES_MAX };
        let count = usize::try_from(fields.u64()?).ok().filter(|&count| count <= ranges_max)?;
        let mut ranges = Vec::with_capacity(count);
        for _ in 0..count {
            let range = ShardRange {
                number: usize::try_from(fields.u64()?).ok()?,
                within: fields.u64()?,
                len: fields.u64()?,
            };
            let end = range.within.checked_add(range.len)?;
            let is_sound = range.number < stripes.members()
                && range.len > 0
                && end <= stripes.shard_bytes()
                && (range.within | range.len).is_multiple_of(PAGE_BYTES);
            ranges.extend(is_sound.then_some(range));
        }
        let counts = [sequence, stripe, settled.epoch, settled.through];
        let is_sound = ranges.len() == count
            && counts.iter().all(|&count| count < COUNT_END)
            && (1..=sequence).contains(&floor);
        let record = Self {
            volume,
            sequence,
            floor,
            settled,
            region_bytes,
            offset,
            stripe,
            ranges,
            body_sum,
            escaped: Vec::new(),
        };
        if !is_sound || record.body_bytes() > stripes.members() as u64 * stripes.shard_bytes() {
            return None;
        }
        let words = escape_words(record.body_bytes());
        let escaped = (0..words).map(|_| fields.u64()).collect::<Option<Vec<u64>>>()?;
        Some(Self { escaped, ..record })
    }

    /// Makes of what follows in the log the bytes that were logged; answers whether they are.
    pub fn restore(&self, body: &mut [u8]) -> bool {
        if body.len() as u64 != self.body_bytes() {
            return false;
        }
        set_first_words(&self.escaped, body, MAGIC);
        sum(body) == self.body_sum
    }
}

/// Words that say which pages of so many bytes are escaped.
const fn escape_words(body_bytes: u64) -> usize {
    body_bytes.div_ceil(PAGE_BYTES).div_ceil(64) as usize
}

/// Pages that begin as a record does, a bit each.
fn escaped_pages(body: &[u8]) -> Vec<u64> {
    let mut escaped = vec![0; escape_words(body.len() as u64)];
    for (page, bytes) in body.chunks(PAGE).enumerate() {
        if bytes.starts_with(&MAGIC.to_le_bytes()) {
            escaped[page / 64] |= 1 << (page % 64);
        }
    }
    escaped
}

/// Lets the pages that are escaped begin with this word.
fn set_first_words(escaped: &[u64], body: &mut [u8], word: u64) {
    for (page, bytes) in body.chunks_exact_mut(PAGE).enumerate() {
        if escaped.get(page / 64).is_some_and(|bits| bits >> (page % 64) & 1 == 1) {
            bytes[..8].copy_from_slice(&word.to_le_bytes());
        }
    }
}

fn sum(body: &[u8]) -> u64 {
    XxHash3_64::oneshot(body)
}

/// Pages of the largest change: all shards of a stripe.
const BODY_PAGES_MAX: u64 = (DATA_MAX + PARITY_MAX) as u64 * SHARD_BYTES_MAX / PAGE_BYTES;

const _: () = assert!((3 + 10 + 3 * RANGES_MAX + escape_words(BODY_PAGES_MAX * PAGE_BYTES)) * 8 <= PAGE);

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample() -> (StripeRecord, Vec<u8>) {
        let ranges = vec![
            ShardRange { number: 1, within: 4096, len: 8192 },
            ShardRange { number: 2, within: 0, len: 12288 },
        ];
        let body: Vec<u8> = (0..20480u32).map(|at| at as u8).collect();
        let body_sum = sum(&body);
        let settled = Mark { epoch: 2, through: 5 };
        let (volume, sequence, floor, region_bytes, stripe) = (7, 9, 4, 1 << 20, 3);
        let escaped = vec![0];
        let record = StripeRecord {
            volume,
            sequence,
            floor,
            settled,
            region_bytes,
            offset: Some(1 << 16),
            stripe,
            ranges,
            body_sum,
            escaped,
        };
        (record, body)
    }

    fn stripes() -> Stripes {
        Stripes::new(2, 1, 16384).expect("sound")
    }

    #[test]
    fn what_is_written_is_read_also_of_the_version_before() {
        let (record, body) = sample();
        for record in [StripeRecord { offset: None, ..record.clone() }, record] {
            let mut bytes = record.encode(&body);
            let found = StripeRecord::decode(&bytes[..PAGE], &stripes()).expect("a record");
            assert_eq!(found, record);
            assert!(!found.restore(&mut bytes.clone()[PAGE + 1..]));
            assert!(found.restore(&mut bytes[PAGE..]) && bytes[PAGE..] == body);
        }
    }

    #[test]
    fn a_record_may_have_several_ranges_of_a_shard() {
        let (record, _) = sample();
        let range = |number, within| ShardRange { number, within, len: 4096 };
        let ranges = vec![range(0, 0), range(0, 8192), range(1, 4096), range(2, 0), range(2, 8192)];
        let body = vec![7; 5 * PAGE];
        let mut record = StripeRecord { ranges, body_sum: sum(&body), ..record };
        let found = StripeRecord::decode(&record.encode(&body)[..PAGE], &stripes());
        assert_eq!(found.as_ref(), Some(&record));
        // As nobody writes one: more bytes than a stripe has.
        record.ranges = vec![range(0, 0); 13];
        let body = vec![7; 13 * PAGE];
        assert_eq!(StripeRecord::decode(&record.encode(&body)[..PAGE], &stripes()), None);
    }

    #[test]
    fn the_largest_change_has_room_with_as_many_ranges_as_there_may_be() {
        let stripes = Stripes::new(DATA_MAX, PARITY_MAX, SHARD_BYTES_MAX).expect("the largest");
        let (members, pages) = (stripes.members(), (SHARD_BYTES_MAX / PAGE_BYTES) as usize);
        let ranges = (0..RANGES_MAX).map(|number| {
            let (number, part) = (number * members / RANGES_MAX, number % 3);
            ShardRange { number, within: (part * pages / 4 * PAGE) as u64, len: (pages / 4 * PAGE) as u64 }
        });
        let record = StripeRecord { ranges: ranges.collect(), ..sample().0 };
        let body = vec![7; record.body_bytes() as usize];
        let record = StripeRecord { body_sum: sum(&body), escaped: escaped_pages(&body), ..record };
        assert_eq!(StripeRecord::decode(&record.encode(&body)[..PAGE], &stripes), Some(record));
    }

    #[test]
    fn a_record_of_a_newer_version_is_told_from_one_of_another_volume() {
        let page = |version, volume| encode_head(MAGIC, version, [volume, 9]);
        assert!(StripeRecord::is_newer(&page(VERSION + 1, 7), 7));
        assert!(!StripeRecord::is_newer(&page(VERSION + 1, 8), 7));
        assert!(!StripeRecord::is_newer(&page(VERSION, 7), 7));
        assert!(!StripeRecord::is_newer(&[0; PAGE], 7));
    }

    #[test]
    fn a_record_within_the_bytes_of_another_is_none() {
        let (record, mut body) = sample();
        let (forged, its_body) = sample();
        body[4096..12288].copy_from_slice(&forged.encode(&its_body)[..8192]);
        let mut bytes = record.encode(&body);
        for (page, bytes) in bytes.chunks(PAGE).enumerate() {
            assert_eq!(StripeRecord::decode(bytes, &stripes()).is_some(), page == 0, "page {page}");
        }
        let found = StripeRecord::decode(&bytes[..PAGE], &stripes()).expect("a record");
        assert!(found.restore(&mut bytes[PAGE..]) && bytes[PAGE..] == body);
    }

    #[test]
    fn numbers_that_nobody_writes_are_refused_though_the_sum_fits() {
        type Break = (&'static str, fn(&mut StripeRecord));
        let breaks: [Break; 11] = [
            ("no record after it", |it| it.sequence = u64::MAX),
            ("a floor above it", |it| it.floor = 10),
            ("no floor", |it| it.floor = 0),
            ("no stripe after it", |it| it.stripe = u64::MAX),
            ("no opening after it", |it| it.settled.epoch = u64::MAX),
            ("no write after it", |it| it.settled.through = u64::MAX),
            ("a shard that there is not", |it| it.ranges[0].number = 3),
            ("no bytes", |it| it.ranges[0].len = 0),
            ("half a page", |it| it.ranges[0].within = 2048),
            ("more than a shard", |it| it.ranges[1].len = 20480),
            ("more than there is", |it| it.ranges[1].within = u64::MAX - 4095),
        ];
        for (what, change) in breaks {
            let (mut record, body) = sample();
            change(&mut record);
            assert_eq!(StripeRecord::decode(&record.encode(&body)[..PAGE], &stripes()), None, "{what}");
        }
        let (mut record, body) = sample();
        record.ranges = vec![record.ranges[0]; RANGES_MAX + 1];
        let stripes = Stripes::new(DATA_MAX, PARITY_MAX, SHARD_BYTES_MAX).expect("the largest");
        assert_eq!(StripeRecord::decode(&record.encode(&body)[..PAGE], &stripes), None, "too many");
    }

    proptest! {
        #[test]
        fn only_the_first_page_of_a_record_begins_as_one_and_its_bytes_are_read_as_they_were(
            begins in proptest::collection::vec((any::<u64>(), any::<bool>()), 1..200),
        ) {
            let pages = begins.into_iter().map(|(word, is_alike)| {
                let mut page = [7; PAGE];
                page[..8].copy_from_slice(&if is_alike { MAGIC } else { word % 3 }.to_le_bytes());
                page
            });
            let body: Vec<u8> = pages.flatten().collect();
            let stripes = Stripes::new(2, 1, 1 << 20).expect("sound");
            let ranges = vec![ShardRange { number: 0, within: 0, len: body.len() as u64 }];
            let mut bytes = StripeRecord { ranges, ..sample().0 }.encode(&body);
            for page in bytes[PAGE..].chunks(PAGE) {
                prop_assert!(!page.starts_with(&MAGIC.to_le_bytes()));
            }
            let found = StripeRecord::decode(&bytes[..PAGE], &stripes).expect("a record");
            prop_assert!(found.restore(&mut bytes[PAGE..]));
            prop_assert!(bytes[PAGE..] == body);
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..5000)) {
            prop_assert_eq!(StripeRecord::decode(&bytes, &stripes()), None);
        }
    }
}
