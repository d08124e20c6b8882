//! Arenas that someone prepared: every sum fits, and the numbers are such that no volume stores them.

use proptest::prelude::*;

use super::ring::tests::{Memory, memory, opening};
use super::*;
use crate::format::unit::{ArenaHead, HEAD_BYTES, RING_OFFSET, encode_unit_head, unit_bytes};

const VOLUME: u64 = 7;
const ARENA_BYTES: usize = 4096;
const SIZE_BYTES: u64 = 64 * PAGE_BYTES;

/// The head of an arena that was last opened as 1.
const HEAD: ArenaHead = ArenaHead {
    volume: VOLUME,
    generation: 2,
    epoch: 1,
    next_epoch: 1,
    acknowledged: 0,
    tail_offset: 0,
    tail_sequence: 1 << 32,
};

fn put_head(arena: &Memory, head: ArenaHead) {
    arena.store((head.generation % 2) as usize * HEAD_BYTES, &head.encode());
}

/// Puts a unit of zeros at `offset` of the ring; answers where the next would be.
fn put_unit(arena: &Memory, offset: usize, sequence: u64, extents: &[UnitExtent]) -> usize {
    let lens =
        extents.iter().filter(|extent| extent.content == Content::Data).map(|extent| extent.len as usize);
    let payload: Vec<Vec<u8>> = lens.map(|len| vec![0; len]).collect();
    let mut bytes = Vec::new();
    encode_unit_head(VOLUME, sequence, extents, payload.iter().map(|part| &part[..]), &mut bytes);
    bytes.extend(payload.concat());
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    if RING_OFFSET + offset + bytes.len() <= ARENA_BYTES {
        arena.store(RING_OFFSET + offset, &bytes);
    }
    offset + bytes.len()
}

fn is_of_volume(extents: &[UnitExtent]) -> bool {
    let fits = |extent: &UnitExtent| Extent { offset: extent.offset, len: extent.len }.fits(SIZE_BYTES);
    !extents.is_empty() && extents.iter().all(|extent| extent.len > 0 && fits(extent))
}

/// Opens the arena, commits what is found and writes over it; answers how many units were found.
fn live(arena: Memory) -> u64 {
    let opened = Buffer::open(arena, opening(VOLUME, 1, 2), |_| false, is_of_volume);
    let (mut buffer, found, durable) = opened.map_err(|found| found.writes).unwrap();
    buffer.leave_to_log(&durable);
    buffer.begin_epoch();
    let everything = Extent::new(0, SIZE_BYTES);
    for page in 0..SIZE_BYTES / PAGE_BYTES {
        buffer.overlay(page, 0, &mut [0; PAGE_BYTES as usize]);
    }
    for _ in 0..2 {
        buffer.want(&[everything]);
        while buffer.has_queued(true) {
            let mut batch = Batch::default();
            buffer.take_batch(BatchMax { bytes: 1 << 20, bulk_bytes: 1 << 20, pages: 10 }, &mut batch);
            let mut payload = vec![0; batch.payload_bytes];
            buffer.fill_payload(&batch, &mut payload);
            buffer.complete(&batch);
        }
        assert_eq!((buffer.fill().0, buffer.index.len()), (0, 0));
        let data = UnitExtent { offset: 5, len: 100, content: Content::Data };
        buffer.write(&[data], &[&[1; 100]], 100).expect("there is room");
    }
    found
}

fn data(offset: u64, len: u64) -> UnitExtent {
    UnitExtent { offset, len, content: Content::Data }
}

#[test]
fn an_arena_whose_head_points_elsewhere_is_begun_anew() {
    let with_head = |head: ArenaHead| {
        let arena = memory(ARENA_BYTES);
        put_head(&arena, head);
        put_unit(&arena, 0, 1 << 32, &[data(0, 10)]);
        live(arena)
    };
    assert_eq!(with_head(HEAD), 1);
    for tail_offset in [4, (ARENA_BYTES - RING_OFFSET) as u64 + 8, u64::MAX - 7, u64::MAX] {
        assert_eq!(with_head(ArenaHead { tail_offset, ..HEAD }), 0, "{tail_offset}");
    }
    assert_eq!(with_head(ArenaHead { tail_sequence: u64::MAX, ..HEAD }), 0);
    assert_eq!(with_head(ArenaHead { generation: u64::MAX, ..HEAD }), 0);
}

#[test]
fn a_unit_outside_of_the_volume_ends_what_is_taken_over() {
    let outside = [
        data(SIZE_BYTES, 1),
        data(SIZE_BYTES - 1, 2),
        data(5, 0),
        UnitExtent { offset: 0, len: u64::MAX, content: Content::Discard },
        UnitExtent { offset: u64::MAX, len: 0, content: Content::Zero },
        UnitExtent { offset: 0, len: 1 << 60, content: Content::Superseded },
    ];
    for extent in outside {
        let arena = memory(ARENA_BYTES);
        put_head(&arena, HEAD);
        let mut at = 0;
        for (number, extents) in [[data(0, 10)], [extent], [data(20, 10)]].iter().enumerate() {
            at = put_unit(&arena, at, (1 << 32) + number as u64, extents);
        }
        assert_eq!(live(arena), 1, "{extent:?}");
    }
}

#[test]
fn a_unit_that_lies_over_the_oldest_ends_what_is_taken_over() {
    let arena = memory(ARENA_BYTES);
    let (first_len, head_len, oldest_len) = (unit_bytes(1, 100), unit_bytes(1, 0), unit_bytes(1, 200));
    let tail_offset = first_len + head_len;
    put_head(&arena, ArenaHead { tail_offset: tail_offset as u64, ..HEAD });
    put_unit(&arena, tail_offset, 1 << 32, &[data(200, 200)]);
    put_unit(&arena, 0, (1 << 32) + 1, &[data(0, 100)]);
    assert_eq!(live(arena.clone()), 2);

    put_head(&arena, ArenaHead { tail_offset: tail_offset as u64, generation: 100, ..HEAD });
    put_unit(&arena, tail_offset, 1 << 32, &[data(200, 200)]);
    put_unit(&arena, 0, (1 << 32) + 1, &[data(0, 100)]);
    // Whole too: the oldest, all of it, is its payload.
    let mut oldest = vec![0; oldest_len];
    arena.load(RING_OFFSET + tail_offset, &mut oldest);
    let mut head = Vec::new();
    encode_unit_head(VOLUME, (1 << 32) + 2, &[data(500, oldest_len as u64)], [&oldest[..]], &mut head);
    assert_eq!(head.len(), head_len);
    arena.store(RING_OFFSET + first_len, &head);
    assert_eq!(live(arena), 2);
}

fn word() -> impl Strategy<Value = u64> {
    prop_oneof![0..SIZE_BYTES, 0..300u64, any::<u64>(), (0..100u64).prop_map(|less| u64::MAX - less)]
}

fn extent() -> impl Strategy<Value = UnitExtent> {
    (word(), word(), 0..4usize).prop_map(|(offset, len, kind)| {
        let content = [Content::Data, Content::Zero, Content::Discard, Content::Superseded][kind];
        let len = if content == Content::Data { len % 600 } else { len };
        // What is not even a range does not decode.
        UnitExtent { offset: if kind == 0 { offset % (2 * SIZE_BYTES) } else { offset }, len, content }
    })
}

proptest! {
    #[test]
    fn no_arena_breaks_the_buffer(
        tail_offset in prop_oneof![Just(0), 0..5000u64, word()],
        units in proptest::collection::vec(
            (proptest::collection::vec(extent(), 0..4), 0..8u64, 0..500usize), 0..30
        ),
    ) {
        let arena = memory(ARENA_BYTES);
        put_head(&arena, ArenaHead { tail_offset, ..HEAD });
        let mut at = usize::try_from(tail_offset).unwrap_or(0).min(ARENA_BYTES);
        for (number, (extents, odd, elsewhere)) in (0..).zip(&units) {
            let place = match odd {
                0 => elsewhere * 8,
                1 => 0,
                _ => at,
            };
            let sequence = (1 << 32) + if *odd == 2 { number + 1 } else { number };
            at = put_unit(&arena, place, sequence, extents);
        }
        live(arena);
    }
}
