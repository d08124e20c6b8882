//! What a commit is made of.

use proptest::prelude::*;

use super::ring::tests::{Memory, memory, opening};
use super::*;
use crate::format::record::TAG_BYTES;
use crate::format::unit::unit_bytes;

fn buffer() -> Buffer<Memory> {
    opened(memory(1 << 20), 1).0
}

fn opened(arena: Memory, epoch: u64) -> (Buffer<Memory>, u64) {
    let opened = Buffer::open(arena, opening(7, epoch, epoch + 1), |_| false, |_| true);
    let (mut buffer, found, durable) = opened.map_err(|found| found.writes).unwrap();
    buffer.leave_to_log(&durable);
    (buffer, found)
}

fn extent(offset: u64, len: u64, content: Content) -> UnitExtent {
    UnitExtent { offset, len, content }
}

fn write(buffer: &mut Buffer<Memory>, offset: u64, len: u64, content: Content) -> u64 {
    let bytes = vec![1; if content == Content::Data { len as usize } else { 0 }];
    let parts = if bytes.is_empty() { &[][..] } else { &[&bytes[..]] };
    buffer.write(&[extent(offset, len, content)], parts, bytes.len()).expect("there is room")
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
    assert_eq!((batch.pages, batch.partial_pages, batch.payload_bytes), (7, 3, 200));
}

#[test]
fn a_page_that_a_commit_changes_all_of_at_once_is_not_partial() {
    let mut buffer = buffer();
    for page in 0..3 {
        write(&mut buffer, page * PAGE_BYTES, PAGE_BYTES, Content::Data);
    }
    write(&mut buffer, PAGE_BYTES + 7, 20, Content::Data);
    write(&mut buffer, 5 * PAGE_BYTES, PAGE_BYTES - 1, Content::Data);
    write(&mut buffer, 6 * PAGE_BYTES, PAGE_BYTES, Content::Discard);
    let batch = all(&mut buffer);
    assert_eq!((batch.pages, batch.partial_pages), (5, 2));
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
fn a_flush_of_a_part_says_nothing_of_the_pages_behind_it() {
    let mut buffer = buffer();
    for number in 0..100 {
        write(&mut buffer, PAGE_BYTES + 20 * number, 10, Content::Data);
    }
    for (extent, queued) in [
        (Extent::new(100, 50), 0),
        (Extent::new(100, PAGE_BYTES - 100), 0),
        (Extent::new(PAGE_BYTES, 20), 1),
        (Extent::new(PAGE_BYTES + 20, PAGE_BYTES), 100),
    ] {
        buffer.want(&[extent]);
        assert_eq!(buffer.queue.len(Lane::Small), queued, "{extent:?}");
    }
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
fn what_is_gone_before_anybody_asked_for_it_does_not_count_as_old() {
    let mut buffer = buffer();
    write(&mut buffer, PAGE_BYTES, 1000, Content::Data);
    for _ in 0..4 {
        write(&mut buffer, 0, 1000, Content::Data);
    }
    assert_eq!(buffer.released(), 3, "each overwrote the one before");
    buffer.want_oldest(2 * unit_bytes(1, 1000));
    assert!(!buffer.has_queued(true));
}

/// Units in the order in which commits of such a size take them.
fn units_of(buffer: &mut Buffer<Memory>, most: BatchMax) -> Vec<u64> {
    let mut batch = Batch::default();
    buffer.take_batch(most, &mut batch);
    buffer.complete(&batch);
    batch.units
}

#[test]
fn what_waits_among_much_goes_ahead_once_somebody_waits_for_little_of_it() {
    let mut buffer = buffer();
    let first = buffer.first;
    for page in 0..4 {
        write(&mut buffer, page * PAGE_BYTES, 100, Content::Data);
    }
    buffer.want_oldest(0);
    assert!(buffer.has_queued(true) && !buffer.has_queued(false));
    let ticket = buffer.want(&[Extent::new(2 * PAGE_BYTES, 100)]);
    assert!(buffer.has_queued(false));
    assert_eq!(buffer.want(&[Extent::new(2 * PAGE_BYTES, 100)]), ticket, "it goes ahead once");
    let without_bulk = BatchMax { bytes: 1 << 20, bulk_bytes: 0, pages: 100 };
    assert_eq!(units_of(&mut buffer, without_bulk), [first + 2]);
    assert!(ticket.are_within(buffer.durable()) && !buffer.has_queued(false));
    assert_eq!(units_of(&mut buffer, most(1 << 20, 100)), [first, first + 1, first + 3]);
    assert_eq!(buffer.fill().0, 0);
}

/// A buffer with six units of a page's size each of which somebody waits for, and six of which nobody does; the number
/// of the first, and the bytes that each takes of a record.
fn both_lanes() -> (Buffer<Memory>, u64, usize) {
    let mut buffer = buffer();
    let first = buffer.first;
    for page in 0..12 {
        let sequence = write(&mut buffer, page * PAGE_BYTES, 1000, Content::Data);
        buffer.want_unit(sequence, if page < 6 { Lane::Small } else { Lane::Bulk });
    }
    (buffer, first, 1000 + TAG_BYTES)
}

#[test]
fn where_few_and_many_wait_each_gets_half_of_a_commit() {
    let (mut buffer, first, each) = both_lanes();
    let mut batch = Batch::default();
    buffer.take_batch(BatchMax { bytes: 4 * each, bulk_bytes: 0, pages: 100 }, &mut batch);
    assert_eq!(batch.units, [first, first + 1, first + 2, first + 3], "no bulk is asked for");
    assert!(batch.has_small() && !batch.has_bulk());
    buffer.take_batch(BatchMax { bytes: 2 * each, bulk_bytes: each, pages: 100 }, &mut batch);
    assert_eq!(batch.units, [first + 4, first + 6]);
    assert!(batch.has_small() && batch.has_bulk());
    buffer.take_batch(BatchMax { bytes: 9 * each, bulk_bytes: 2 * each, pages: 100 }, &mut batch);
    assert_eq!(batch.units, [first + 5, first + 7, first + 8], "bulk has a bound of its own");
    buffer.take_batch(BatchMax { bytes: 9 * each, bulk_bytes: 9 * each, pages: 100 }, &mut batch);
    assert_eq!(batch.units, [first + 9, first + 10, first + 11]);
    assert!(!batch.has_small() && batch.has_bulk());
}

#[test]
fn a_lane_that_found_no_room_in_a_commit_is_first_in_the_next() {
    let (mut buffer, first, each) = both_lanes();
    let one = most(each, 100);
    let taken: Vec<u64> = (0..12).flat_map(|_| units_of(&mut buffer, one)).collect();
    let in_turns: Vec<u64> = (0..6).flat_map(|number| [first + number, first + 6 + number]).collect();
    assert_eq!(taken, in_turns);

    // Where nothing waits as bulk, bulk is not first when some comes.
    let (mut buffer, first, each) = both_lanes();
    let without_bulk = BatchMax { bytes: each, bulk_bytes: 0, pages: 100 };
    assert_eq!(units_of(&mut buffer, without_bulk), [first]);
    assert_eq!(units_of(&mut buffer, one), [first + 1]);
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

/// Steps of so many writes, and of all the commits that take them, some under way at once.
fn steps_of(units: u64, offset: impl Fn(u64) -> u64, len: u64) -> u64 {
    let (mut buffer, _) = opened(memory(64 << 20), 1);
    for number in 0..units {
        write(&mut buffer, offset(number), len, Content::Data);
        buffer.want_oldest(48 << 20);
    }
    let ticket = buffer.want(&[Extent::new(0, u64::MAX / 2)]);
    let mut under_way = VecDeque::new();
    while !ticket.are_within(buffer.durable()) {
        if buffer.has_queued(true) && under_way.len() < 4 {
            let mut batch = Batch::default();
            buffer.take_batch(most(64 << 10, 50), &mut batch);
            under_way.push_back(batch);
            let beside = buffer.want(&[Extent::new(0, PAGE_BYTES)]);
            assert_eq!(ticket.and_all(beside), ticket, "a flush of one page");
        } else {
            buffer.complete(&under_way.pop_front().expect("the last ticket is in a batch"));
        }
    }
    assert_eq!((buffer.fill().0, buffer.units.len(), buffer.index.len()), (0, 0, 0));
    buffer.steps.so_far()
}

#[test]
fn twice_as_many_writes_are_twice_the_work_wherever_they_go() {
    type Place = fn(u64) -> u64;
    let patterns: [(&str, Place, u64); 5] = [
        ("one byte each, one behind another", |number| number % PAGE_BYTES, 1),
        ("one byte each, here and there on one page", |number| number * 2654435761 % PAGE_BYTES, 1),
        ("a hundred bytes each, here and there on one page", |number| number * 2654435761 % 3996, 100),
        ("the same page each", |_| 0, PAGE_BYTES),
        ("a page each", |number| number * PAGE_BYTES, PAGE_BYTES),
    ];
    for (what, place, len) in patterns {
        let units = if len == PAGE_BYTES { 4_000 } else { 20_000 };
        let (once, twice) = (steps_of(units, place, len), steps_of(2 * units, place, len));
        assert!(once >= units && once < 60 * units, "{what}: {once} steps for {units} writes");
        assert!(2 * twice < 5 * once, "{what}: {once} steps, and {twice} for twice as many writes");
    }
}

#[test]
fn a_write_that_nobody_waits_for_goes_once_a_newer_one_holds_all_of_it() {
    let arena = memory(1 << 20);
    let (mut buffer, _) = opened(arena.clone(), 1);
    buffer.begin_epoch();
    let one = unit_bytes(1, 100);
    write(&mut buffer, 9 * PAGE_BYTES, 100, Content::Data); // keeps the others in the ring
    write(&mut buffer, 50, 100, Content::Data);
    write(&mut buffer, 50, 100, Content::Data);
    assert_eq!((buffer.fill().0, buffer.released()), (2 * one, 1));
    write(&mut buffer, 0, PAGE_BYTES, Content::Discard);
    assert_eq!(buffer.released(), 2);
    // What somebody waits for stays, and what a newer one holds in part.
    buffer.want(&[Extent::new(0, 1)]);
    write(&mut buffer, 0, PAGE_BYTES, Content::Discard);
    write(&mut buffer, 10, 100, Content::Data);
    write(&mut buffer, 11, 100, Content::Data);
    assert_eq!(buffer.released(), 2);
    drop(buffer);
    // The arena holds all of it still: the ring begins with the oldest.
    assert_eq!(opened(arena, 2).1, 7);
}

#[test]
fn a_write_that_nobody_waits_for_goes_once_newer_ones_hold_all_of_it_between_them() {
    let arena = memory(1 << 20);
    let (mut buffer, _) = opened(arena.clone(), 1);
    buffer.begin_epoch();
    buffer.tune(Tuning { crowded_min: 4, ..Tuning::default() });
    write(&mut buffer, PAGE_BYTES - 50, 100, Content::Data); // on two pages: it stays
    write(&mut buffer, 0, 100, Content::Data);
    write(&mut buffer, 0, 60, Content::Data);
    write(&mut buffer, 50, 50, Content::Data);
    assert_eq!(buffer.released(), 1);
    let mut found = [0; 100];
    buffer.overlay(0, 0, &mut found);
    assert!(found.iter().all(|&byte| byte != 0), "nothing of it is missing");
    // As long as somebody waits for it, it stays.
    buffer.want(&[Extent::new(0, 1)]);
    for number in 0..8 {
        write(&mut buffer, number % 2 * 40, 60, Content::Data);
    }
    let batch = all(&mut buffer);
    assert!(batch.units.len() < 9, "of those that nobody waited for few are left: {}", batch.units.len());
}

#[test]
fn a_page_that_newer_writes_overwrite_between_them_never_fills_the_buffer() {
    let (mut buffer, _) = opened(memory(64 << 10), 1);
    for number in 0..5_000 {
        write(&mut buffer, number % 8 * 40, 100, Content::Data); // none holds any of the last four
    }
}

#[test]
fn a_flush_costs_the_same_however_often_other_bytes_of_its_page_were_overwritten() {
    let steps = |others: u64| {
        let (mut buffer, _) = opened(memory(64 << 20), 1);
        for number in 0..others {
            write(&mut buffer, number % 63 * 64, 64, Content::Data);
        }
        let before = buffer.steps.so_far();
        for _ in 0..100 {
            write(&mut buffer, 63 * 64, 64, Content::Data);
            buffer.want(&[Extent::new(63 * 64, 64)]);
            let mut batch = Batch::default();
            buffer.take_batch(most(64 << 10, 50), &mut batch);
            assert_eq!(batch.units.len(), 1, "the others wait for nobody");
            buffer.complete(&batch);
        }
        buffer.steps.so_far() - before
    };
    let few = steps(200);
    assert!(few < 100 * 600, "{few} steps for 100 flushes");
    for others in [2_000, 20_000] {
        assert!(steps(others) < few * 2, "{few} steps beside 200 writes, {} beside {others}", steps(others));
    }
}

#[test]
fn a_page_that_is_overwritten_again_and_again_never_fills_the_buffer() {
    let (mut buffer, _) = opened(memory(64 << 10), 1);
    for _ in 0..100 {
        write(&mut buffer, 0, PAGE_BYTES, Content::Data);
        assert_eq!(buffer.fill().0, unit_bytes(1, 4096));
    }
}

#[test]
fn only_a_write_of_few_extents_is_compared_with_what_it_overwrites() {
    for (extents, is_compared) in [(8, true), (9, false), (20, false)] {
        let mut buffer = buffer();
        write(&mut buffer, 0, 10, Content::Zero);
        let many: Vec<UnitExtent> =
            (0..extents).map(|number| extent(number * 20, 10, Content::Zero)).collect();
        buffer.write(&many, &[], 0).unwrap();
        assert_eq!(buffer.released(), u64::from(is_compared), "{extents} extents");
        buffer.write(&many, &[], 0).unwrap();
        assert_eq!(buffer.released(), 2 * u64::from(is_compared), "{extents} extents");
    }
}

#[test]
fn writes_of_an_opening_that_the_volume_does_not_know_of_are_neither_taken_over_nor_lost() {
    let arena = memory(1 << 20);
    let (mut buffer, _) = opened(arena.clone(), 1);
    write(&mut buffer, 0, 100, Content::Data);
    assert_eq!(opened(arena.clone(), 1).1, 1, "the opening may not have begun");
    buffer.begin_epoch();
    let refused =
        Buffer::open(arena, opening(7, 1, 2), |_| false, |_| true).map(drop).map_err(|found| found.writes);
    assert_eq!(refused, Err(1), "the volume is a copy from before it");
}

#[test]
fn what_was_overwritten_whole_does_not_come_back_over_what_overwrote_it() {
    let arena = memory(1 << 20);
    let (mut buffer, _) = opened(arena.clone(), 1);
    buffer.begin_epoch();
    write(&mut buffer, 9 * PAGE_BYTES, 100, Content::Data); // keeps the others in the ring
    write(&mut buffer, 50, 100, Content::Data);
    write(&mut buffer, 50, 100, Content::Data);
    let mut batch = Batch::default();
    buffer.want(&[Extent::new(0, PAGE_BYTES)]);
    buffer.take_batch(most(1 << 20, 100), &mut batch);
    assert_eq!(batch.payload_bytes, 100);
    buffer.complete(&batch);
    drop(buffer);
    // Killed: the older one is there, and not marked.
    let (buffer, found) = opened(arena, 2);
    assert_eq!(found, 3);
    assert!(!buffer.touches(0, 1) && buffer.touches(9, 10));
}
