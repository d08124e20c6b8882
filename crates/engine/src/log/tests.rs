//! How the log uses its room.

use proptest::prelude::*;

use super::*;
use crate::device::{FlushScope, Geometry};
use crate::error::DeviceError;

/// A device that nothing is asked of.
struct Unused;

impl Device for Unused {
    fn geometry(&self) -> Geometry {
        unreachable!("room is taken without the device")
    }
    async fn read(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        unreachable!("room is taken without the device")
    }
    async fn write(&self, _: u64, _: &[u8], _: Durability) -> Result<(), DeviceError> {
        unreachable!("room is taken without the device")
    }
    async fn flush(&self, _: FlushScope<'_>) -> Result<(), DeviceError> {
        unreachable!("room is taken without the device")
    }
    async fn discard(&self, _: Extent) -> Result<(), DeviceError> {
        unreachable!("room is taken without the device")
    }
}

const SECTOR: u64 = 512;
const SECTORS: u64 = 32;

fn log(live: &[(u64, u64)], next: Position) -> Log<Unused> {
    let zone = Extent::new(8192, SECTORS * SECTOR);
    Log::new(Rc::new(Unused), zone, SECTOR as usize, 7, 2, live, next, Rc::default())
}

#[test]
fn a_record_may_fill_the_log_to_the_byte_and_no_further() {
    let empty = || log(&[], Position { offset: 0, sequence: 1 });
    assert!(empty().reserve(SECTORS * SECTOR, u64::MAX).is_some());
    assert!(empty().reserve(SECTORS * SECTOR + SECTOR, u64::MAX).is_none());
    assert!(empty().reserve(4 * SECTOR, 4 * SECTOR).is_some());
    assert!(empty().reserve(4 * SECTOR, 4 * SECTOR - 1).is_none());
}

#[test]
fn a_log_that_is_opened_counts_what_its_records_and_the_gap_at_its_end_take() {
    let live = [(26 * SECTOR, 3 * SECTOR), (0, 4 * SECTOR)];
    let log = log(&live, Position { offset: 4 * SECTOR, sequence: 9 });
    assert_eq!(log.used_bytes(), (3 + 3 + 4) * SECTOR);
    assert_eq!(log.acknowledged(), 8);
    assert_eq!(log.position_of(7), Position { offset: 26 * SECTOR, sequence: 7 });
    log.advance_tail(8);
    assert_eq!(log.used_bytes(), 4 * SECTOR, "the gap goes with the record before it");
    log.advance_tail(9);
    assert_eq!(log.used_bytes(), 0);
}

proptest! {
    #[test]
    fn records_lie_one_behind_another_and_never_over_one_that_counts(
        start in 0..SECTORS,
        steps in proptest::collection::vec((1..14u64, 0..3u64), 1..200),
    ) {
        let log = log(&[], Position { offset: start * SECTOR, sequence: 1 });
        let mut live: VecDeque<(u64, Extent)> = VecDeque::new();
        let mut head = start * SECTOR;
        for (sectors, gone) in steps {
            let len = sectors * SECTOR;
            let position = log.position_of(log.state.borrow().next_sequence);
            prop_assert_eq!(position.offset, head % (SECTORS * SECTOR));
            let used = log.used_bytes();
            match log.reserve(len, u64::MAX) {
                Some(slot) => {
                    let place = Extent::new(slot.offset, len);
                    prop_assert!(place.fits(SECTORS * SECTOR));
                    prop_assert!(live.iter().all(|(_, other)| !other.overlaps(&place)));
                    prop_assert_eq!(slot.offset, if head + len <= SECTORS * SECTOR { head } else { 0 });
                    head = place.end();
                    live.push_back((slot.sequence, place));
                }
                None => prop_assert!(used + len > SECTORS * SECTOR || head + len > SECTORS * SECTOR),
            }
            for _ in 0..gone {
                live.pop_front();
            }
            let tail = live.front().map_or(log.state.borrow().next_sequence, |(sequence, _)| *sequence);
            log.advance_tail(tail);
            prop_assert_eq!(log.position_of(tail).sequence, tail);
            // From the tail to the head, round the end.
            let expected = match (live.front(), live.back()) {
                (Some((_, first)), Some((_, last))) if last.offset >= first.offset => last.end() - first.offset,
                (Some((_, first)), Some((_, last))) => SECTORS * SECTOR - first.offset + last.end(),
                _ => 0,
            };
            prop_assert_eq!(log.used_bytes(), expected);
            if let Some((sequence, place)) = live.front() {
                prop_assert_eq!(log.position_of(*sequence).offset, place.offset);
            }
        }
    }
}
