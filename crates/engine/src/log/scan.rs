//! Reading the log after a cut: every record from the tail on, up to its end. Where the log has several copies, each
//! record counts that one of them holds.

use std::ops::{Range, RangeInclusive};
use std::rc::Rc;

use super::Position;
use super::cases::{Decision, Found, case_of};
use crate::device::Extent;
use crate::error::Error;
use crate::format::record::{
    HEADER_BYTES, Header, Record, TAG_BYTES, Tag, decode, decode_header, is_header_of,
};
use crate::format::superblock::Superblock;
use crate::layout::Replicated;
use crate::planted::{Bug, is_planted};

/// Bytes read from the device at once.
const WINDOW_BYTES: u64 = 1 << 20;

/// How far behind a missing record others are looked for.
const LOOK_AHEAD_BYTES: u64 = 64 << 20;

/// How many times what is looked at may be summed to learn whether a missing record was acknowledged. No log comes
/// near: its records do not overlap. Only who knows the volume's number can make headers that announce more; such a
/// log is not taken for one that merely ends.
const LOOK_AHEAD_SUMS_MAX: u64 = 4;

/// A record that was found.
#[derive(Debug)]
pub(crate) struct Scanned {
    pub(crate) header: Header,
    pub(crate) tags: Vec<Tag>,
    /// What was read from the log; the payload is a part of it.
    window: Rc<Vec<u8>>,
    payload: Range<usize>,
    /// Offset from the start of the log, and length.
    pub(crate) place: (u64, u64),
    /// The whole of it, as it was read.
    bytes: Range<usize>,
}

impl Scanned {
    /// Its payload.
    pub(crate) fn payload(&self) -> &[u8] {
        &self.window[self.payload.clone()]
    }

    /// Puts it on every replica of the log that lacks it.
    ///
    /// # Errors
    ///
    /// Those of the device.
    pub(crate) async fn repair<L: Replicated>(&self, device: &L, zone: Extent) -> Result<(), Error> {
        Ok(device.repair(zone.offset + self.place.0, &self.window[self.bytes.clone()]).await?)
    }
}

/// What the log holds.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) records: Vec<Scanned>,
    /// Where the next record goes.
    pub(crate) next: Position,
    /// What ended it: [`Decision::End`] or [`Decision::Damaged`].
    pub(crate) ended: Decision,
    /// Whether its end is where nothing could be read.
    ends_unread: bool,
    /// Of the last record before it.
    epoch: u64,
    /// Bytes of records that were summed.
    #[cfg(test)]
    pub(super) summed_bytes: u64,
}

/// Reads the log of `superblock` in `zone` of `device`.
///
/// # Errors
///
/// None: what cannot be read is evidence.
pub(crate) async fn scan<L: Replicated>(device: &L, zone: Extent, superblock: &Superblock) -> Scan {
    let windows = (0..device.replicas()).map(|_| Window::default()).collect();
    let mut reader = Reader { device, zone, superblock, windows, summed_bytes: 0 };
    let mut records: Vec<Scanned> = Vec::new();
    let mut next = Position { offset: superblock.tail_offset, sequence: superblock.tail_sequence };
    let mut epoch = superblock.tail_epoch;
    let (ended, ends_unread) = loop {
        let (found, record) = reader.find(next, epoch).await;
        let acknowledged = match found {
            Found::Whole => false,
            _ if is_planted(Bug::TornTailIsDamage) => true,
            _ if is_planted(Bug::DamageIsEnd) => false,
            _ => next.sequence <= superblock.acknowledged || reader.is_acknowledged_later(next, epoch).await,
        };
        match (case_of(found, acknowledged).decision, record) {
            (Decision::Take, Some(record)) => {
                epoch = record.header.epoch;
                let end = record.place.0 + record.place.1;
                next = Position { offset: end % zone.len, sequence: next.sequence + 1 };
                records.push(record);
            }
            (decision, _) => break (decision, found == Found::Unreadable),
        }
    };
    Scan {
        records,
        next,
        ended,
        ends_unread,
        epoch,
        #[cfg(test)]
        summed_bytes: reader.summed_bytes,
    }
}

impl Scan {
    /// Whether there is a record now where nothing could be read before, and the log seemed to end: a drive that fails for a moment
    /// takes nothing from what was acknowledged. A sector that a cut left unreadable stays so.
    pub(crate) async fn goes_on<L: Replicated>(
        &self,
        device: &L,
        zone: Extent,
        superblock: &Superblock,
    ) -> bool {
        let windows = (0..device.replicas()).map(|_| Window::default()).collect();
        let mut reader = Reader { device, zone, superblock, windows, summed_bytes: 0 };
        self.ends_unread && reader.find(self.next, self.epoch).await.0 == Found::Whole
    }
}

struct Reader<'a, L> {
    device: &'a L,
    zone: Extent,
    superblock: &'a Superblock,
    /// Of each copy of the log.
    windows: Vec<Window>,
    /// Bytes of records summed so far.
    summed_bytes: u64,
}

/// What was last read of one copy of the log.
#[derive(Default)]
struct Window {
    bytes: Rc<Vec<u8>>,
    /// Where on the log it begins.
    start: u64,
}

impl<L: Replicated> Reader<'_, L> {
    fn sector_bytes(&self) -> usize {
        self.superblock.log_sector_bytes as usize
    }

    /// Those of the log that count.
    fn copies(&self) -> Vec<usize> {
        (0..self.windows.len()).filter(|&copy| self.device.has_replica(copy)).collect()
    }

    /// Of which openings a record may be: none before that of the record before it, `epoch`.
    fn epochs_of(&self, sequence: u64, epoch: u64) -> RangeInclusive<u64> {
        let known = self.superblock.epochs_of(sequence);
        epoch.max(*known.start())..=*known.end()
    }

    /// The record `expected`, at its place or, where it did not fit there, at the start of the log. Where copies differ,
    /// the latest opening wrote what counts: another left something behind the end of its log, and a device has that
    /// still which lied when it was overwritten.
    async fn find(&mut self, expected: Position, epoch: u64) -> (Found, Option<Scanned>) {
        let (mut found, mut latest) = (Found::Other, None::<Scanned>);
        let epochs = self.epochs_of(expected.sequence, epoch);
        let places = [expected.offset, 0];
        for &offset in if expected.offset == 0 { &places[..1] } else { &places[..] } {
            let copies = self.copies();
            let (mut holders, mut unreadable) = (0, 0);
            for &copy in &copies {
                let record = match self.record_at(copy, offset).await {
                    Ok(Some(record)) => record,
                    Ok(None) => continue,
                    Err(_) => {
                        unreadable += 1;
                        continue;
                    }
                };
                let Header { sequence, epoch, .. } = record.header;
                if sequence != expected.sequence || !(epochs.contains(&epoch) || is_planted(Bug::AnyEpoch)) {
                    continue;
                }
                holders += 1;
                if latest.as_ref().is_none_or(|latest| latest.header.epoch < epoch) {
                    latest = Some(record);
                }
                if epoch >= *epochs.end() {
                    return (Found::Whole, latest);
                }
            }
            if latest.is_some() && (holders == copies.len() || self.device.is_scattered()) {
                break;
            }
            if unreadable == copies.len() {
                found = Found::Unreadable;
            }
        }
        let found = if latest.is_some() { Found::Whole } else { found };
        (found, latest)
    }

    /// Whether a later record says that `missing` was acknowledged.
    async fn is_acknowledged_later(&mut self, missing: Position, epoch: u64) -> bool {
        let sector = self.sector_bytes() as u64;
        let looked_at = self.zone.len.min(LOOK_AHEAD_BYTES);
        let summed_max = self.summed_bytes + LOOK_AHEAD_SUMS_MAX * looked_at;
        let mut distance = 0;
        while distance < looked_at {
            let offset = (missing.offset + distance) % self.zone.len;
            distance += sector;
            for copy in self.copies() {
                let Ok(Some(header)) = self.header_at(copy, offset).await else { continue };
                let ours = self.epochs_of(header.sequence, epoch).contains(&header.epoch);
                if !ours || header.sequence <= missing.sequence || header.acknowledged < missing.sequence {
                    continue;
                }
                if self.summed_bytes + u64::from(header.len_bytes) > summed_max {
                    return true;
                }
                if matches!(self.record_at(copy, offset).await, Ok(Some(_))) {
                    return true;
                }
            }
        }
        false
    }

    async fn header_at(&mut self, copy: usize, offset: u64) -> Result<Option<Header>, Error> {
        let sector = self.sector_bytes();
        let held = self.bytes(copy, offset, HEADER_BYTES.next_multiple_of(sector) as u64).await?;
        Ok(held
            .map(|held| &self.windows[copy].bytes[held])
            .filter(|bytes| is_header_of(self.superblock.volume, bytes))
            .and_then(|bytes| decode_header(bytes, sector)))
    }

    async fn record_at(&mut self, copy: usize, offset: u64) -> Result<Option<Scanned>, Error> {
        let Some(header) = self.header_at(copy, offset).await? else { return Ok(None) };
        let (volume, sector) = (self.superblock.volume, self.sector_bytes());
        let Some(held) = self.bytes(copy, offset, u64::from(header.len_bytes)).await? else {
            return Ok(None);
        };
        let window = &self.windows[copy].bytes;
        let start = held.start;
        self.summed_bytes += u64::from(header.len_bytes);
        Ok(decode(&window[held.clone()], volume, sector).map(|Record { header, tags, payload }| {
            let payload_start = start + HEADER_BYTES + tags.len() * TAG_BYTES;
            Scanned {
                header,
                payload: payload_start..payload_start + payload.len(),
                tags,
                window: Rc::clone(window),
                place: (offset, u64::from(header.len_bytes)),
                bytes: held,
            }
        }))
    }

    /// Where in the window of a copy `len` bytes of the log are; `None` where they do not fit before its end.
    async fn bytes(&mut self, copy: usize, offset: u64, len: u64) -> Result<Option<Range<usize>>, Error> {
        if len > self.zone.len || offset > self.zone.len - len {
            return Ok(None);
        }
        let Window { bytes, start } = &self.windows[copy];
        let held = *start..*start + bytes.len() as u64;
        if !held.contains(&offset) || offset + len > held.end {
            let wanted = len.max(WINDOW_BYTES).min(self.zone.len - offset);
            let mut window = vec![0; wanted as usize];
            if self.device.read_replica(copy, self.zone.offset + offset, &mut window).await.is_err() {
                // A bad sector far ahead must not hide the good ones before it.
                window.truncate(len as usize);
                self.device.read_replica(copy, self.zone.offset + offset, &mut window).await?;
            }
            self.windows[copy] = Window { bytes: Rc::new(window), start: offset };
        }
        let start = (offset - self.windows[copy].start) as usize;
        Ok(Some(start..start + len as usize))
    }
}
