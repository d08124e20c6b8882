//! How the log uses its room.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;
use crate::device::{Device, Drive, FlushScope, Geometry};
use crate::error::DeviceError;
use crate::format::layout::SizesBefore;
use crate::format::record::{TAG_BYTES, Tag};
use crate::format::root::RootSums;
use crate::format::superblock::Superblock;
use crate::layout::{Replicated, StoreState};

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

impl Drive for Unused {}

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

/// A device that keeps nothing.
struct Sink;

impl Device for Sink {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: 1 << 40, sector_bytes: 512, atomic_sectors: true }
    }
    async fn read(&self, _: u64, _: &mut [u8]) -> Result<(), DeviceError> {
        unreachable!("nothing is read while records are written")
    }
    async fn write(&self, _: u64, _: &[u8], _: Durability) -> Result<(), DeviceError> {
        Ok(())
    }
    async fn flush(&self, _: FlushScope<'_>) -> Result<(), DeviceError> {
        Ok(())
    }
    async fn discard(&self, _: Extent) -> Result<(), DeviceError> {
        Ok(())
    }
}

impl Drive for Sink {}

fn sunk_log() -> Log<Sink> {
    let zone = Extent::new(0, 1 << 40);
    Log::new(Rc::new(Sink), zone, 512, 7, 2, &[], Position { offset: 0, sequence: 1 }, Rc::default())
}

fn poll<T>(future: impl Future<Output = T>) -> Poll<T> {
    pin!(future).poll(&mut Context::from_waker(Waker::noop()))
}

const COMMIT: HeaderFields = HeaderFields { kind: RecordKind::Commit, through: 0 };

#[test]
fn a_record_that_no_reader_would_take_for_one_is_refused_and_nothing_is_acknowledged_after_it() {
    let log = sunk_log();
    let write = |deltas: &[u16]| {
        let mut builder = RecordBuilder::default();
        builder.clear();
        for &len in deltas {
            builder.tag(&Tag::Delta { page: 1, offset: 0, len });
        }
        builder.payload(deltas.iter().map(|&len| usize::from(len)).sum()).fill(1);
        let len = (builder.bytes().len() as u64).next_multiple_of(512);
        let slot = log.reserve(len, u64::MAX).expect("there is room");
        (len, poll(log.write(slot, COMMIT, &mut builder)), log.acknowledged())
    };
    let max_bytes = RECORD_BYTES_MAX as u64;
    let mut deltas = vec![4096; RECORD_BYTES_MAX / (4096 + TAG_BYTES)];
    deltas.push(900);
    assert_eq!(write(&deltas), (max_bytes, Poll::Ready(Ok(())), 1), "the largest");
    deltas.push(100);
    let refused = || Poll::Ready(Err(Error::TooLarge { max_bytes }));
    assert_eq!(write(&deltas), (max_bytes + 512, refused(), 1));
    assert_eq!(write(&[5]), (512, refused(), 1));
}

#[test]
fn whoever_waits_for_a_record_waits_for_those_before_it_too() {
    let log = sunk_log();
    let [first, second] = [0; 2].map(|_| log.reserve(512, u64::MAX).expect("there is room"));
    let write = |slot: Slot| {
        let mut builder = RecordBuilder::default();
        builder.clear();
        assert_eq!(poll(log.write(slot, COMMIT, &mut builder)), Poll::Ready(Ok(())));
    };
    write(second);
    assert_eq!((log.acknowledged(), poll(log.wait_acknowledged(2))), (0, Poll::Pending));
    write(first);
    assert_eq!((log.acknowledged(), poll(log.wait_acknowledged(2))), (2, Poll::Ready(Ok(()))));
}

/// Copies of a log in memory, of one length.
struct Memory(Vec<Vec<u8>>);

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        Geometry { size_bytes: self.0[0].len() as u64, sector_bytes: 512, atomic_sectors: true }
    }
    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        self.read_replica(0, offset, into).await
    }
    async fn write(&self, _: u64, _: &[u8], _: Durability) -> Result<(), DeviceError> {
        unreachable!("a log is only read")
    }
    async fn flush(&self, _: FlushScope<'_>) -> Result<(), DeviceError> {
        unreachable!("a log is only read")
    }
    async fn discard(&self, _: Extent) -> Result<(), DeviceError> {
        unreachable!("a log is only read")
    }
}

impl Replicated for Memory {
    fn replicas(&self) -> usize {
        self.0.len()
    }
    fn has_replica(&self, _: usize) -> bool {
        true
    }
    fn is_scattered(&self) -> bool {
        false
    }
    async fn read_replica(&self, replica: usize, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        into.copy_from_slice(&self.0[replica][offset as usize..][..into.len()]);
        Ok(())
    }
    async fn replica_idle(&self, _: usize) {}
    async fn repair(&self, _: u64, _: &[u8]) -> Result<(), DeviceError> {
        unreachable!("a log is only read")
    }
}

const MIB: usize = 1 << 20;

/// What is found on a log of 1 MiB of volume 7, whose tail is record 1 at its start.
fn scanned(bytes: Vec<u8>) -> scan::Scan {
    scanned_copies(vec![bytes], 2, 0)
}

/// As [`scanned`], on copies of the log, of which the last opening, of this number, began with this record.
fn scanned_copies(copies: Vec<Vec<u8>>, epoch: u64, epoch_sequence: u64) -> scan::Scan {
    let zone = Extent::new(0, copies[0].len() as u64);
    let superblock = Superblock {
        volume: 7,
        generation: 1,
        epoch,
        pages: 100,
        home_bytes: 0,
        log_bytes: zone.len,
        separate_log: true,
        root_slot: 0,
        whole_root_sum: None,
        root_sums: RootSums::NONE,
        tail_offset: 0,
        tail_sequence: 1,
        tail_epoch: 1,
        epoch_sequence,
        atomic_max_bytes: 4096,
        log_sector_bytes: 512,
        acknowledged: 0,
        home_state: StoreState::default(),
        sizes_before: SizesBefore::default(),
        is_closed: false,
    };
    let device = Memory(copies);
    let mut scan = pin!(scan::scan(&device, zone, &superblock));
    let Poll::Ready(found) = scan.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        unreachable!("memory answers at once")
    };
    found
}

/// A record with so much payload, sealed for `volume` by its opening 2.
fn record(volume: u64, sequence: u64, payload_bytes: usize) -> Vec<u8> {
    record_of(2, volume, sequence, payload_bytes)
}

fn record_of(epoch: u64, volume: u64, sequence: u64, payload_bytes: usize) -> Vec<u8> {
    let mut builder = RecordBuilder::default();
    builder.clear();
    for page in 0..(payload_bytes / 4096) as u64 {
        builder.tag(&Tag::Page { page, sum: 5 });
    }
    builder.payload(payload_bytes / 4096 * 4096).fill(1);
    let header = Header {
        kind: RecordKind::Images,
        epoch,
        sequence,
        acknowledged: sequence - 1,
        through: 0,
        tags: 0,
        payload_bytes: 0,
        len_bytes: 0,
    };
    builder.seal(volume, header, 512).to_vec()
}

/// A log in which every sector from the second on begins with the header of a record that ends with the log and whose
/// sum does not fit.
fn full_of_headers(volume: u64) -> Vec<u8> {
    let mut bytes = vec![0; MIB];
    let whole = record(volume, 2, MIB / 2);
    for sector in bytes[512..MIB - whole.len()].chunks_exact_mut(512) {
        sector[..64].copy_from_slice(&whole[..64]);
    }
    bytes
}

#[test]
fn headers_that_a_user_made_up_are_not_summed() {
    let found = scanned(full_of_headers(8));
    assert_eq!((found.ended, found.summed_bytes), (cases::Decision::End, 0));
}

#[test]
fn of_headers_made_by_who_knows_the_volume_a_bounded_part_is_summed() {
    let found = scanned(full_of_headers(7));
    assert!(
        found.summed_bytes > MIB as u64 && found.summed_bytes <= 4 * MIB as u64,
        "{}",
        found.summed_bytes
    );
    assert_eq!(found.ended, cases::Decision::Damaged, "it does not merely end");
}

#[test]
fn a_record_behind_a_missing_one_is_found_wherever_it_is_and_summed_once() {
    for at in [512, 4096, MIB / 2, MIB - 8192] {
        let mut bytes = vec![0; MIB];
        let later = record(7, 2, 4096);
        bytes[at..at + later.len()].copy_from_slice(&later);
        let found = scanned(bytes);
        assert_eq!((found.ended, found.summed_bytes), (cases::Decision::Damaged, later.len() as u64));
    }
}

#[test]
fn of_a_missing_record_only_openings_from_the_tails_to_the_last_can_know() {
    for (epoch, ended) in [
        (0, cases::Decision::End),
        (1, cases::Decision::Damaged),
        (2, cases::Decision::Damaged),
        (3, cases::Decision::End),
    ] {
        let mut bytes = vec![0; MIB];
        let later = record_of(epoch, 7, 3, 4096);
        bytes[8192..8192 + later.len()].copy_from_slice(&later);
        assert_eq!(scanned(bytes).ended, ended, "opening {epoch}");
    }
}

#[test]
fn a_record_that_would_reach_beyond_the_log_is_none() {
    let later = record(7, 3, 4096);
    for left in [512, later.len() - 512, later.len()] {
        let mut bytes = vec![0; MIB];
        bytes[MIB - left..].copy_from_slice(&later[..left]);
        let is_whole = left == later.len();
        let ended = if is_whole { cases::Decision::Damaged } else { cases::Decision::End };
        assert_eq!(scanned(bytes).ended, ended, "{left} bytes of it fit");
    }
}

/// A log that begins with these records of volume 7, one behind the other.
fn log_of(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = records.concat();
    bytes.resize(MIB, 0);
    bytes
}

/// The openings of the records that are taken.
fn epochs(found: &scan::Scan) -> Vec<u64> {
    found.records.iter().map(|record| record.header.epoch).collect()
}

#[test]
fn what_an_earlier_opening_left_behind_its_end_never_stands_for_what_came_there() {
    let first = record_of(1, 7, 1, 4096);
    let (left, came) = (record_of(1, 7, 2, 4096), record_of(2, 7, 2, 8192));
    // A device that lied when the second opening wrote there has what was there before.
    let lied = log_of(&[first.clone(), left]);
    let right = log_of(&[first.clone(), came]);
    for copies in [[lied.clone(), right.clone()], [right, lied.clone()]] {
        for (last, began_with) in [(2, 0), (2, 2), (3, 0), (3, 3)] {
            let found = scanned_copies(copies.to_vec(), last, began_with);
            assert_eq!(epochs(&found), [1, 2], "opening {last} began with {began_with}");
        }
    }
    // Nothing came there.
    let ends = log_of(&[first]);
    let found = scanned_copies(vec![lied, ends], 2, 2);
    assert_eq!((epochs(&found), found.ended), (vec![1], cases::Decision::End));
}
