//! What a commit is made of.

use proptest::prelude::*;

use super::ring::tests::{Memory, memory};
use super::*;
use crate::format::record::TAG_BYTES;
use crate::format::unit::unit_bytes;

fn buffer() -> Buffer<Memory> {
    Buffer::open(memory(1 << 20), 7, 1, 2, |_| false).0
}

fn extent(offset: u64, len: u64, content: Content) -> UnitExtent {
    UnitExtent { offset, len, content }
}

fn write(buffer: &mut Buffer<Memory>, offset: u64, len: u64, content: Content) -> u64 {
    let bytes = vec![1; if content == Content::Data { len as usize } else { 0 }];
    buffer.write(&[extent(offset, len, content)], &[&bytes], bytes.len()).expect("there is room")
}

fn all(buffer: &mut Buffer<Memory>) -> Batch {
    let mut batch = Batch::default();
    buffer.want(&[Extent::new(0, u64::MAX / 2)]);
    buffer.take_batch(most(usize::MAX / 2, usize::MAX / 2), &mut batch);
    batch
}

fn most(bytes: usize, pages: usize) -> BatchMax {
    BatchMax { bytes, bulk_bytes: bytes, pages }
}

#[test]
fn discards_of_neighbouring_pages_are_one_tag_and_no_others_are() {
    let mut buffer = buffer();
    for (page, pages) in [(1, 2), (3, 1), (5, 1)] {
        write(&mut buffer, page * PAGE_BYTES, pages * PAGE_BYTES, Content::Discard);
    }
    write(&mut buffer, 9 * PAGE_BYTES + 4000, 200, Content::Data);
    write(&mut buffer, 20 * PAGE_BYTES + 5, 7, Content::Zero);
    let first = buffer.first;
    let batch = all(&mut buffer);
    let expected = [
        Tag::Discard { page: 1, count: 3 },
        Tag::Discard { page: 5, count: 1 },
        Tag::Delta { page: 9, offset: 4000, len: 96 },
        Tag::Delta { page: 10, offset: 0, len: 104 },
        Tag::Zero { page: 20, offset: 5, len: 7 },
        Tag::Units { sequence: first, count: 5 },
    ];
    assert_eq!(batch.tags, expected);
    assert_eq!((batch.pages, batch.payload_bytes), (7, 200));
}

#[test]
fn what_a_newer_write_left_of_a_discarded_page_is_zeros() {
    let mut buffer = buffer();
    write(&mut buffer, PAGE_BYTES, PAGE_BYTES, Content::Discard);
    write(&mut buffer, PAGE_BYTES + 100, 50, Content::Data);
    let batch = all(&mut buffer);
    let expected = [
        Tag::Zero { page: 1, offset: 0, len: 100 },
        Tag::Zero { page: 1, offset: 150, len: 3946 },
        Tag::Delta { page: 1, offset: 100, len: 50 },
    ];
    assert_eq!(batch.tags[..3], expected);
    assert_eq!(batch.pages, 1);
}

#[test]
fn a_flush_takes_the_page_that_it_ends_in_and_not_the_next() {
    let mut buffer = buffer();
    for page in 0..4 {
        write(&mut buffer, page * PAGE_BYTES, PAGE_BYTES, Content::Data);
    }
    assert!(buffer.touches(3, 4) && !buffer.touches(4, 9));
    let first = buffer.first;
    buffer.want(&[Extent::new(PAGE_BYTES - 1, PAGE_BYTES + 2)]);
    let mut batch = Batch::default();
    buffer.take_batch(most(1 << 20, 100), &mut batch);
    assert_eq!(batch.units, [first, first + 1, first + 2]);
    buffer.want(&[Extent::new(3 * PAGE_BYTES, 0)]);
    assert!(!buffer.has_queued(true));
}

#[test]
fn a_batch_may_be_full_to_the_byte_and_to_the_page() {
    let units_in = |bytes_max: usize, pages_max: usize| {
        let mut buffer = buffer();
        for page in 0..4 {
            write(&mut buffer, page * PAGE_BYTES, 100, Content::Data);
        }
        buffer.want(&[Extent::new(0, 4 * PAGE_BYTES)]);
        let mut batch = Batch::default();
        buffer.take_batch(most(bytes_max, pages_max), &mut batch);
        batch.units.len()
    };
    let each = 100 + TAG_BYTES;
    assert_eq!((units_in(3 * each, 9), units_in(3 * each - 1, 9)), (3, 2));
    assert_eq!((units_in(1 << 20, 3), units_in(1, 9), units_in(1 << 20, 0)), (3, 1, 1));
}

#[test]
fn the_oldest_go_until_what_stays_is_small_enough() {
    let queued = |bytes_max: usize| {
        let mut buffer = buffer();
        for page in 0..10 {
            write(&mut buffer, page * PAGE_BYTES, 1000, Content::Data);
        }
        buffer.want_oldest(bytes_max);
        buffer.queue.len(Lane::Bulk)
    };
    let len = unit_bytes(1, 1000);
    assert_eq!(queued(10 * len), 0);
    assert_eq!(queued(10 * len - 1), 1);
    assert!((5..=6).contains(&queued(5 * len)), "{}", queued(5 * len));
    assert_eq!(queued(0), 10);
}

#[test]
fn what_went_home_another_way_leaves_but_for_what_somebody_waits_for() {
    let mut buffer = buffer();
    write(&mut buffer, 100, 50, Content::Data);
    buffer.supersede(&Extent::new(0, PAGE_BYTES)).unwrap();
    assert_eq!((buffer.released(), buffer.fill().0), (2, 0), "nothing of it counts, nor does the mark");

    write(&mut buffer, 100, 50, Content::Data);
    let ticket = buffer.want(&[Extent::new(100, 1)]);
    buffer.supersede(&Extent::new(0, PAGE_BYTES)).unwrap();
    let batch = all(&mut buffer);
    assert_eq!((batch.taken.tickets, batch.payload_bytes), (ticket, 0));
    buffer.complete(&batch);
    assert_eq!(buffer.durable(), ticket);
}

#[test]
fn what_is_durable_leaves_nothing_behind() {
    let mut buffer = buffer();
    for page in 0..6 {
        write(&mut buffer, page * PAGE_BYTES, 100, Content::Data);
    }
    assert_eq!(buffer.fill().0, 6 * unit_bytes(1, 100));
    assert_eq!(buffer.fill().1, (1 << 20) - crate::format::unit::RING_OFFSET);
    let ticket = buffer.want(&[Extent::new(0, 6 * PAGE_BYTES)]);
    assert!(!ticket.are_within(buffer.durable()));
    let batch = all(&mut buffer);
    assert_eq!(batch.taken.tickets, ticket);
    buffer.complete(&batch);
    assert_eq!(buffer.durable(), ticket);
    assert_eq!((buffer.fill().0, buffer.units.len(), buffer.index.len()), (0, 0, 0));
    assert_eq!(buffer.released(), 6);
    assert!(!buffer.has_queued(true) && !buffer.touches(0, 100));
}

proptest! {
    #[test]
    fn a_batch_takes_as_many_units_as_it_may_and_no_more(
        lens in proptest::collection::vec((1..9000u64, any::<bool>()), 1..30),
        wanted in proptest::collection::vec(any::<bool>(), 30),
        bytes_max in 1..40_000usize,
        pages_max in 1..12usize,
    ) {
        let mut buffer = buffer();
        let mut units = Vec::new();
        for (number, &(len, is_data)) in lens.iter().enumerate() {
            let content = if is_data { Content::Data } else { Content::Zero };
            let offset = number as u64 * 4 * PAGE_BYTES + 3000;
            let sequence = write(&mut buffer, offset, len, content);
            let pages = pages_of(&Extent::new(offset, len)).count();
            let bytes = pages * TAG_BYTES + if is_data { len as usize } else { 0 };
            if wanted[number] {
                buffer.want_unit(sequence, Lane::Small);
                units.push((sequence, bytes, pages));
            }
        }
        let mut rest = &units[..];
        while buffer.has_queued(true) {
            let mut batch = Batch::default();
            buffer.take_batch(most(bytes_max, pages_max), &mut batch);
            let taken;
            (taken, rest) = rest.split_at(batch.units.len());
            prop_assert!(batch.units.iter().eq(taken.iter().map(|(sequence, ..)| sequence)));
            let bytes = |units: &[(u64, usize, usize)]| units.iter().map(|unit| unit.1).sum::<usize>();
            let pages = |units: &[(u64, usize, usize)]| units.iter().map(|unit| unit.2).sum::<usize>();
            prop_assert!(taken.len() == 1 || (bytes(taken) <= bytes_max && pages(taken) <= pages_max));
            if let Some(next) = rest.first() {
                prop_assert!(bytes(taken) + next.1 > bytes_max || pages(taken) + next.2 > pages_max);
            }
            prop_assert_eq!(batch.pages, pages(taken));
            let mut named = Vec::new();
            for tag in &batch.tags {
                if let Tag::Units { sequence, count } = *tag {
                    prop_assert!(named.last().is_none_or(|&last| last + 1 < sequence), "runs are as long as can be");
                    named.extend(sequence..sequence + u64::from(count));
                }
            }
            prop_assert_eq!(&named, &batch.units);
            buffer.complete(&batch);
        }
        prop_assert!(rest.is_empty());
    }
}
