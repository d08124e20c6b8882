use std::cell::RefCell;
use std::rc::Rc;

use proptest::prelude::*;

use super::*;
use crate::format::unit::Content;

#[derive(Clone)]
pub(in crate::buffer) struct Memory(Rc<RefCell<Vec<u8>>>);

impl Arena for Memory {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }
    fn store(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
    fn load(&self, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset..offset + into.len()]);
    }
}

pub(in crate::buffer) fn memory(len: usize) -> Memory {
    Memory(Rc::new(RefCell::new(vec![0; len])))
}

/// An opening of a volume whose log holds no record.
pub(in crate::buffer) fn opening(volume: u64, epoch: u64, next_epoch: u64) -> Opening {
    Opening { volume, epoch, next_epoch, log_end: 0 }
}

fn open(arena: Memory, volume: u64, epoch: u64, next_epoch: u64) -> (Ring<Memory>, Vec<Found>) {
    Ring::open(arena, opening(volume, epoch, next_epoch), |_| true).map_err(|found| found.writes).unwrap()
}

fn data(offset: u64, len: usize) -> UnitExtent {
    UnitExtent { offset, len: len as u64, content: Content::Data }
}

/// An arena of volume 7, opened as 2, with a durable unit and one that is not.
fn used() -> (Memory, Ring<Memory>) {
    let arena = memory(4096);
    let (mut ring, _) = open(arena.clone(), 7, 1, 2);
    ring.begin_epoch();
    let first = ring.append(&[data(0, 3)], [&b"abc"[..]], 3).unwrap().0;
    ring.append(&[data(3, 3)], [&b"def"[..]], 3).unwrap();
    ring.release(first, Mark::Durable);
    (arena, ring)
}

#[test]
fn writes_of_another_volume_or_of_a_later_opening_are_left_as_they_are() {
    let (arena, _) = used();
    let before = arena.0.borrow().clone();
    for (volume, epoch) in [(8, 2), (8, 9), (7, 1), (7, 0)] {
        let foreign = Ring::open(arena.clone(), opening(volume, epoch, epoch + 1), |_| true).err();
        let held = ArenaContents { volume: 7, epoch: 2, next_epoch: 2, acknowledged: 0, writes: 1 };
        assert_eq!(foreign, Some(held), "opened as {volume}, {epoch}");
        assert_eq!(*arena.0.borrow(), before);
    }
    assert_eq!(open(arena, 7, 2, 3).1.len(), 2);
}

#[test]
fn an_arena_is_begun_anew_where_no_write_waits_in_it_or_the_volume_went_on_without() {
    assert_eq!(open(memory(4096), 7, 2, 3).1.len(), 0);
    let (arena, mut ring) = used();
    assert_eq!(open(arena, 7, 3, 4).1.len(), 0);
    let (arena, _) = used();
    ring.release(ring.next_sequence - 1, Mark::Durable);
    let (again, _) = used();
    again.0.replace(ring.arena.0.borrow().clone());
    assert_eq!(open(again, 8, 2, 3).1.len(), 0);
    assert_eq!(ArenaContents::of(&arena).map(|held| held.writes), Some(1));
    assert_eq!(ArenaContents::of(&ring.arena).map(|held| held.writes), Some(0));
    assert_eq!(ArenaContents::of(&memory(4096)), None);
}

/// The superblock of opening 1 was on one of two log devices, as of a start that was cut; 2 found it there, and was killed. Then
/// that device is gone.
#[test]
fn an_opening_that_never_began_and_found_nothing_is_no_later_state() {
    let arena = memory(4096);
    drop(open(arena.clone(), 7, 1, 2));
    let (_, found) = open(arena.clone(), 7, 0, 1);
    assert!(found.is_empty());
    // What waited in it was acknowledged in the opening before.
    let (arena, ring) = used();
    drop(ring);
    drop(open(arena.clone(), 7, 2, 3));
    assert!(Ring::open(arena, opening(7, 1, 2), |_| true).is_err());
    // So was a record, though nothing waits.
    let arena = memory(4096);
    let logged = |epoch, next_epoch| Opening { log_end: 5, ..opening(7, epoch, next_epoch) };
    let (mut ring, _) = Ring::open(arena.clone(), logged(1, 2), |_| true).unwrap();
    ring.begin_epoch();
    drop(ring);
    drop(Ring::open(arena.clone(), logged(2, 3), |_| true).unwrap());
    assert!(Ring::open(arena, logged(1, 2), |_| true).is_err());
}

#[test]
fn an_arena_that_knows_of_a_record_that_the_log_lacks_is_left_as_it_is_though_no_write_waits() {
    let (arena, mut ring) = used();
    ring.release(ring.next_sequence - 1, Mark::Durable);
    ring.note_acknowledged(5);
    let before = arena.0.borrow().clone();
    for (epoch, log_end) in [(2, 4), (2, 0), (1, 9)] {
        let found =
            Ring::open(arena.clone(), Opening { log_end, ..opening(7, epoch, epoch + 1) }, |_| true).err();
        let held = ArenaContents { volume: 7, epoch: 2, next_epoch: 2, acknowledged: 5, writes: 0 };
        assert_eq!(found, Some(held), "opened as {epoch} up to {log_end}");
        assert_eq!(*arena.0.borrow(), before);
    }
    // The log may hold more than was acknowledged, and all of it counts once it was served.
    let held = Opening { log_end: 6, ..opening(7, 2, 3) };
    assert!(Ring::open(arena.clone(), held, |_| true).is_ok(), "it was not served yet");
    let mut ring = Ring::open(arena.clone(), Opening { log_end: 5, ..held }, |_| true).ok().unwrap().0;
    ring.begin_epoch();
    let (mut ring, _) =
        Ring::open(arena.clone(), Opening { log_end: 6, ..opening(7, 3, 4) }, |_| true).ok().unwrap();
    ring.begin_epoch();
    assert!(Ring::open(arena.clone(), Opening { log_end: 5, ..opening(7, 4, 5) }, |_| true).is_err());
    // The volume went on without it.
    assert!(Ring::open(arena, Opening { log_end: 0, ..opening(7, 5, 6) }, |_| true).is_ok());
}

#[test]
fn the_smallest_arena_takes_a_write_of_the_largest_size() {
    for atomic_max_bytes in (4096..40_000).step_by(8) {
        let len = arena_bytes_min(atomic_max_bytes) as usize;
        let (mut ring, _) = open(memory(len), 7, 1, 2);
        let payload = vec![1; atomic_max_bytes as usize];
        assert!(ring.append(&[data(5, payload.len())], [&payload[..]], payload.len()).is_some());
        // From the last byte of a page on, in whole pages.
        let (mut ring, _) = open(memory(len), 7, 1, 2);
        let whole = vec![1; (PAGE_BYTES - 1 + atomic_max_bytes).next_multiple_of(PAGE_BYTES) as usize];
        assert!(whole.len() / 2 <= unit_bytes_max_of(len), "{atomic_max_bytes}");
        assert!(
            ring.append(&[data(0, whole.len())], [&whole[..]], whole.len()).is_some(),
            "{atomic_max_bytes}"
        );
    }
}

fn release_oldest(ring: &mut Ring<Memory>) {
    ring.release(ring.oldest(), Mark::Durable);
    ring.advance();
}

/// Appends units of `len` bytes of payload while there is room; answers their number.
fn fill_up(ring: &mut Ring<Memory>, len: usize) -> usize {
    (0..).take_while(|_| ring.append(&[data(0, len)], [&vec![1; len][..]], len).is_some()).count()
}

#[test]
fn the_ring_is_used_to_its_end_and_from_its_start_again() {
    const PAYLOAD: usize = 56;
    let len = unit_bytes(1, PAYLOAD);
    let (mut ring, _) = open(memory(RING_OFFSET + 8 * len + 64), 7, 1, 2);
    assert_eq!(fill_up(&mut ring, PAYLOAD), 8);
    assert_eq!(ring.fill(), (8 * len, 8 * len + 64));
    // Where the oldest three were, two find room: the end never reaches the tail from behind.
    (0..3).for_each(|_| release_oldest(&mut ring));
    assert_eq!(fill_up(&mut ring, PAYLOAD), 2);
    assert_eq!(ring.fill().0, 7 * len);
    (0..7).for_each(|_| release_oldest(&mut ring));
    assert_eq!(ring.fill().0, 0);
}

#[test]
fn an_empty_ring_takes_the_largest_unit_wherever_it_ends() {
    for payload in (8..900).step_by(8) {
        let (mut ring, _) = open(memory(2048), 7, 1, 2);
        assert!(2 * ring.unit_bytes_max() <= ring.capacity());
        ring.append(&[data(0, payload)], [&vec![1; payload][..]], payload).unwrap();
        release_oldest(&mut ring);
        let largest = ring.unit_bytes_max() / 8 * 8 - unit_bytes(1, 0);
        let appended = ring.append(&[data(0, largest)], [&vec![2; largest][..]], largest);
        assert!(appended.is_some(), "behind {payload} bytes");
    }
}

#[test]
fn a_store_of_the_head_spares_the_one_before() {
    let arena = memory(4096);
    let (mut ring, _) = open(arena.clone(), 7, 1, 2);
    for _ in 0..4 {
        ring.append(&[data(0, 3)], [&b"abc"[..]], 3).unwrap();
        release_oldest(&mut ring);
        let mut generations = [0, HEAD_BYTES].map(|offset| {
            let mut bytes = [0; HEAD_BYTES];
            arena.load(offset, &mut bytes);
            ArenaHead::decode(&bytes).expect("both are whole").generation
        });
        generations.sort_unstable();
        assert_eq!(generations, [ring.head.generation - 1, ring.head.generation]);
    }
}

#[test]
fn units_of_a_life_that_an_arena_was_begun_anew_after_never_come_back() {
    let arena = memory(4096);
    let (mut ring, _) = open(arena.clone(), 7, 1, 2);
    ring.begin_epoch();
    for _ in 0..3 {
        ring.append(&[data(0, 3)], [&b"old"[..]], 3).unwrap();
    }
    // The volume was opened elsewhere meanwhile: as 5, and is now to be opened as 6.
    let (mut ring, found) = open(arena.clone(), 7, 5, 6);
    assert!(found.is_empty());
    ring.begin_epoch();
    assert!(open(arena.clone(), 7, 6, 7).1.is_empty());
    ring.append(&[data(0, 3)], [&b"new"[..]], 3).unwrap();
    assert_eq!(open(arena, 7, 6, 7).1.len(), 1);
}

#[test]
fn units_are_found_however_many_openings_were_killed_before_or_after_the_volume_knew_of_them() {
    for killed in 0..1 << 4 {
        let arena = memory(4096);
        let (mut ring, _) = open(arena.clone(), 7, 1, 2);
        ring.begin_epoch();
        ring.append(&[data(0, 3)], [&b"abc"[..]], 3).unwrap();
        let mut epoch = 2;
        for opening in 0..4 {
            let found = open(arena.clone(), 7, epoch, epoch + 1).1;
            assert_eq!(found.len(), 1, "opening {opening} of {killed:04b}");
            epoch += killed >> opening & 1;
        }
    }
}

proptest! {
    #[test]
    fn what_is_appended_and_not_released_is_found_in_order(
        steps in proptest::collection::vec((1..200usize, 0..4usize), 1..200),
    ) {
        let arena = memory(2048);
        let (mut ring, found) = open(arena.clone(), 7, 1, 2);
        prop_assert!(found.is_empty());
        ring.begin_epoch();
        let mut live: VecDeque<(u64, Vec<u8>)> = VecDeque::new();
        for (number, (len, releases)) in steps.into_iter().enumerate() {
            let bytes = vec![number as u8; len];
            if let Some((sequence, at)) = ring.append(&[data(number as u64, len)], [&bytes[..]], len) {
                let mut back = vec![0; len];
                ring.load(at, &mut back);
                prop_assert_eq!(&back, &bytes);
                live.push_back((sequence, bytes));
            }
            for _ in 0..releases {
                if let Some((sequence, _)) = live.pop_front() {
                    ring.release(sequence, Mark::Durable);
                    ring.advance();
                }
            }
            let (again, found) = open(arena.clone(), 7, 2, 2);
            prop_assert_eq!(found.len(), live.len());
            for (unit, (sequence, bytes)) in found.iter().zip(&live) {
                prop_assert_eq!(unit.sequence, *sequence);
                let mut back = vec![0; bytes.len()];
                again.load(unit.payload_at, &mut back);
                prop_assert_eq!(&back, bytes);
            }
            // Opening stored a head of its own generation; go on with that ring.
            ring = again;
        }
    }
}
