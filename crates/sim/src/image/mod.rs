//! What a simulated drive holds: its medium, and above it the writes that are not durable yet.
//!
//! 1. A write is in flight from [`Image::begin_write`] to [`Image::complete_write`]; reads see completed
//!    writes only, the one completed last above the others.
//! 2. A flush makes durable the writes completed before it began and, if it has ranges, overlapping one; a
//!    durable write is durable on completion. What is durable stays, unless a later write replaces it.
//! 3. After [`Image::power_cut`] (in `image/power.rs`) each sector holds what was durable or any one version that was pending, in
//!    flight or completed, newest or not, independently of the other sectors. If the geometry does not
//!    promise atomic sectors, it may hold a mixture of these and garbage as well.
//! 4. After [`Image::kill`] all completed writes are there; each write in flight happened, or did not, or a
//!    prefix of its sectors did.
//! 5. After [`Image::kill_connected`] each write in flight is still on its way: it may land while a later run uses the
//!    drive, unless [`Image::fence`] settled it.
//! 6. A write whose future is dropped stays in flight until one of these settles it: what was handed to a
//!    drive cannot be called back.
//!
//! Costs follow what is pending, never the size of the image; a clone shares all bytes with its original.

mod power;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope, Geometry};

use crate::random::Random;
use crate::sparse::SparseBytes;
use crate::trace;
pub use power::Fate;

/// The largest sector.
const SECTOR_BYTES_MAX: usize = 4096;

/// An image that outlives the executor: drives are opened over it, one run after the other.
pub type SharedImage = Rc<RefCell<Image>>;

/// Names a write in flight. They count up in the order of issue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct WriteId(u64);

/// What a pending write writes.
#[derive(Debug, Clone)]
pub enum Payload {
    /// These bytes, from the start of the write.
    Bytes(Rc<[u8]>),
    /// Zeros.
    Zeros,
    /// Noise, which this number and the place determine.
    Noise(u64),
}

/// A pending write, or what later durable ones left of it.
#[derive(Debug, Clone)]
struct Pending {
    id: WriteId,
    /// Position in the order of completion; `None` in flight.
    completed: Option<u64>,
    durability: Durability,
    /// What is left of it.
    extent: Extent,
    /// The write as it was issued: where the payload starts, and what a range flush asks about.
    whole: Extent,
    payload: Payload,
    /// A failed flush gave it up: readable, never durable.
    abandoned: bool,
}

impl Pending {
    /// Fills `into` from `offset` on the drive, which lies within the extent.
    fn fill(&self, offset: u64, into: &mut [u8]) {
        let from = (offset - self.whole.offset) as usize;
        match &self.payload {
            Payload::Bytes(bytes) => into.copy_from_slice(&bytes[from..from + into.len()]),
            Payload::Zeros => into.fill(0),
            Payload::Noise(seed) => {
                for (place, word) in (offset / 8..).zip(into.chunks_mut(8)) {
                    let noise = trace::fold(trace::fold(*seed, place), place);
                    word.copy_from_slice(&noise.to_le_bytes()[..word.len()]);
                }
            }
        }
    }
}

/// Bytes of noise at each end of what a drive grows by, at most.
const NOISE_BYTES_MAX: u64 = 1 << 20;

/// What a drive holds.
#[derive(Debug, Clone)]
pub struct Image {
    geometry: Geometry,
    medium: SparseBytes,
    /// In order of issue. Few at any time, as every flush takes its own, so a scan beats an index.
    pending: Vec<Pending>,
    /// What processes that are gone had in flight, and a network still has.
    late: Vec<Pending>,
    unreadable: BTreeSet<u64>,
    next_write: u64,
    completions: u64,
    /// Whether it held something before anybody wrote here.
    is_used: bool,
}

impl Image {
    /// A drive of zeros.
    pub fn new(geometry: Geometry) -> Self {
        let sector_bytes = u64::from(geometry.sector_bytes);
        let is_possible = sector_bytes.is_power_of_two() && sector_bytes <= SECTOR_BYTES_MAX as u64;
        assert!(is_possible, "a sector of {sector_bytes} bytes");
        assert!(geometry.size_bytes.is_multiple_of(sector_bytes), "the last sector is not whole");
        Self {
            geometry,
            medium: SparseBytes::new(geometry.size_bytes),
            pending: Vec::new(),
            late: Vec::new(),
            unreadable: BTreeSet::new(),
            next_write: 0,
            completions: 0,
            is_used: false,
        }
    }

    /// A drive that held something before: where others begin with zeros, it has noise at its begin and at its end, each for
    /// [`NOISE_BYTES_MAX`] at most.
    pub fn used(geometry: Geometry, random: &mut Random) -> Self {
        let mut image = Self { is_used: true, ..Self::new(geometry) };
        let mut bytes = vec![0; geometry.size_bytes.min(NOISE_BYTES_MAX) as usize];
        for offset in [0, geometry.size_bytes - bytes.len() as u64] {
            random.fill(&mut bytes);
            image.medium.write(offset, &bytes);
        }
        image
    }

    /// A drive to put in the place of this one: it held something before if this one did, which follows from `seed`.
    pub(crate) fn replacement(&self, seed: u64) -> SharedImage {
        let image = match self.is_used {
            true => Self::used(self.geometry, &mut Random::new(seed ^ 0x05ed)),
            false => Self::new(self.geometry),
        };
        Rc::new(RefCell::new(image))
    }

    /// A drive of zeros, to open drives over.
    pub fn shared(geometry: Geometry) -> SharedImage {
        Rc::new(RefCell::new(Self::new(geometry)))
    }

    /// Size and promises.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Makes it larger, durably and at once. What comes behind its end is zeros, or for some distance noise: a block
    /// device that grows holds what was there before.
    pub fn enlarge(&mut self, size_bytes: u64, noise: Option<&mut Random>) {
        let before = self.geometry.size_bytes;
        assert!(size_bytes >= before && size_bytes.is_multiple_of(u64::from(self.geometry.sector_bytes)));
        self.geometry.size_bytes = size_bytes;
        self.medium.enlarge(size_bytes);
        let Some(random) = noise else { return };
        let mut bytes = vec![0; (size_bytes - before).min(NOISE_BYTES_MAX) as usize];
        random.fill(&mut bytes);
        self.medium.write(before, &bytes);
        random.fill(&mut bytes);
        self.medium.write(size_bytes - bytes.len() as u64, &bytes);
    }

    /// What it holds lies on another drive from now on, of the same size: this one has such sectors, and promises this of
    /// them. Nothing is pending.
    pub fn move_to(&mut self, sector_bytes: u32, atomic_sectors: bool) {
        assert!(self.pending.is_empty(), "what is moved is durable");
        let geometry = Geometry { sector_bytes, atomic_sectors, ..self.geometry };
        assert!(self.unreadable.is_empty(), "what cannot be read cannot be moved");
        let medium = std::mem::replace(&mut self.medium, SparseBytes::new(0));
        *self = Self { medium, is_used: self.is_used, ..Self::new(geometry) };
    }

    /// Fills `into` from `offset` with what a read finds.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        self.medium.read(offset, into);
        let asked = Extent::new(offset, into.len() as u64);
        let mut above: Vec<(u64, &Pending, Extent)> = Vec::new();
        for pending in &self.pending {
            if let Some(completed) = pending.completed
                && let Some(shared) = pending.extent.intersection(&asked)
            {
                above.push((completed, pending, shared));
            }
        }
        above.sort_unstable_by_key(|&(completed, ..)| completed);
        for (_, pending, shared) in above {
            let from = (shared.offset - offset) as usize;
            pending.fill(shared.offset, &mut into[from..from + shared.len as usize]);
        }
    }

    /// Fills `into` from `offset` with what is durable.
    pub fn read_durable(&self, offset: u64, into: &mut [u8]) {
        self.medium.read(offset, into);
    }

    /// Whether a read of `extent` fails: see [`Self::make_unreadable`].
    pub fn is_unreadable(&self, extent: Extent) -> bool {
        !self.unreadable.is_empty() && self.unreadable.range(self.sectors(extent)).next().is_some()
    }

    /// Writes in flight.
    pub fn in_flight(&self) -> usize {
        self.pending.iter().filter(|pending| pending.completed.is_none()).count()
    }

    /// Puts a write in flight.
    pub fn begin_write(&mut self, extent: Extent, payload: Payload, durability: Durability) -> WriteId {
        assert!(extent.fits(self.geometry.size_bytes), "{extent:?} lies outside the drive");
        let id = WriteId(self.next_write);
        self.next_write += 1;
        self.pending.push(Pending {
            id,
            completed: None,
            durability,
            extent,
            whole: extent,
            payload,
            abandoned: false,
        });
        id
    }

    /// Completes a write: reads see it; if it is a durable one, no power cut takes it any more.
    pub fn complete_write(&mut self, id: WriteId) {
        let index = self.position(id);
        let pending = &mut self.pending[index];
        pending.completed = Some(self.completions);
        self.completions += 1;
        let (extent, durability) = (pending.extent, pending.durability);
        if !self.unreadable.is_empty() {
            for sector in self.sectors(extent) {
                self.unreadable.remove(&sector);
            }
        }
        if durability == Durability::Durable {
            let pending = self.pending.remove(index);
            self.harden(vec![pending]);
        }
    }

    /// Ends a write that failed, or whose issuer is gone: it happened, or did not, or a prefix of its sectors
    /// did. It is not durable, whatever it was to be.
    pub fn settle_write(&mut self, id: WriteId, random: &mut Random) {
        let index = self.position(id);
        let pending = &mut self.pending[index];
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        let sectors = pending.extent.len / sector_bytes;
        let arrived = match random.below(3) {
            0 => 0,
            1 => sectors,
            _ => random.below(sectors.max(1)),
        };
        if arrived == 0 {
            self.pending.remove(index);
            return;
        }
        pending.extent.len = arrived * sector_bytes;
        pending.whole = pending.extent;
        pending.durability = Durability::Buffered;
        self.complete_write(id);
    }

    /// Where the order of completion stands: what a flush that begins now will cover.
    pub fn completions(&self) -> u64 {
        self.completions
    }

    /// Completes a flush that began when [`Self::completions`] was `began_at`.
    pub fn complete_flush(&mut self, began_at: u64, scope: FlushScope<'_>) {
        let mut covered: Vec<Pending> = self
            .pending
            .extract_if(.., |pending| !pending.abandoned && is_covered(pending, began_at, scope))
            .collect();
        covered.sort_unstable_by_key(|pending| pending.completed);
        self.harden(covered);
    }

    /// Fails a flush: each write it should have covered may have become one that no later flush makes
    /// durable.
    pub fn fail_flush(&mut self, began_at: u64, scope: FlushScope<'_>, random: &mut Random) {
        for pending in &mut self.pending {
            if is_covered(pending, began_at, scope) && random.coin() {
                pending.abandoned = true;
            }
        }
    }

    /// Moves completed writes to the medium, given in the order of completion and already taken off the
    /// pending ones.
    fn harden(&mut self, covered: Vec<Pending>) {
        for pending in covered {
            self.supersede(pending.extent, pending.completed);
            self.write_medium(&pending, pending.extent);
        }
    }

    /// Takes from the pending writes what was completed earlier and lies within `extent`: it can neither be
    /// read nor become durable after what was completed at `completed` there.
    fn supersede(&mut self, extent: Extent, completed: Option<u64>) {
        let is_older = |pending: &Pending| {
            pending.completed.is_some() && pending.completed < completed && pending.extent.overlaps(&extent)
        };
        if !self.pending.iter().any(is_older) {
            return;
        }
        let mut left = Vec::with_capacity(self.pending.len() + 1);
        for pending in self.pending.drain(..) {
            if !is_older(&pending) {
                left.push(pending);
                continue;
            }
            let old = pending.extent;
            if old.offset < extent.offset {
                let before = Extent::new(old.offset, extent.offset - old.offset);
                left.push(Pending { extent: before, ..pending.clone() });
            }
            if extent.end() < old.end() {
                let after = Extent::new(extent.end(), old.end() - extent.end());
                left.push(Pending { extent: after, ..pending });
            }
        }
        self.pending = left;
    }

    fn write_medium(&mut self, pending: &Pending, extent: Extent) {
        if let Payload::Bytes(bytes) = &pending.payload {
            let from = (extent.offset - pending.whole.offset) as usize;
            self.medium.write(extent.offset, &bytes[from..from + extent.len as usize]);
        } else {
            let mut bytes = vec![0; extent.len as usize];
            pending.fill(extent.offset, &mut bytes);
            self.medium.write(extent.offset, &bytes);
        }
    }

    fn position(&self, id: WriteId) -> usize {
        self.pending.binary_search_by_key(&id, |pending| pending.id).expect("the write is in flight")
    }

    fn sectors(&self, extent: Extent) -> Range<u64> {
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        if extent.len == 0 {
            return 0..0;
        }
        extent.offset / sector_bytes..extent.end().div_ceil(sector_bytes)
    }

    fn sector_extent(&self, sector: u64) -> Extent {
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        Extent::new(sector * sector_bytes, sector_bytes)
    }

    /// The process is killed: completed writes stay as they are, those in flight are settled in any order.
    pub fn kill(&mut self, random: &mut Random) {
        let in_flight = self.pending.iter().filter(|pending| pending.completed.is_none());
        let mut ids: Vec<WriteId> = in_flight.map(|pending| pending.id).collect();
        random.shuffle(&mut ids);
        for id in ids {
            self.settle_write(id, random);
        }
    }

    /// The process is killed, and a network delivers what it had in flight when it likes.
    pub fn kill_connected(&mut self) {
        self.late.extend(self.pending.extract_if(.., |pending| pending.completed.is_none()));
    }

    /// Whether writes of processes that are gone are on their way.
    pub fn has_late(&self) -> bool {
        !self.late.is_empty()
    }

    /// The connections of processes that are gone have ended: what they had in flight landed by now, or never does.
    pub fn fence(&mut self, random: &mut Random) {
        while self.land_late(random) {}
    }

    /// A write of a process that is gone lands, or never does, or a prefix of its sectors does. Whether there was one.
    pub fn land_late(&mut self, random: &mut Random) -> bool {
        if self.late.is_empty() {
            return false;
        }
        let Pending { whole, payload, .. } = self.late.swap_remove(random.index(self.late.len()));
        let id = self.begin_write(whole, payload, Durability::Buffered);
        self.settle_write(id, random);
        true
    }

    /// The medium rots: at least one bit of what is durable in `len` bytes at `offset`, at least one,
    /// changes.
    pub fn rot(&mut self, offset: u64, len: u64, random: &mut Random) {
        let mut bytes = vec![0; len as usize];
        self.medium.read(offset, &mut bytes);
        if random.coin() {
            for byte in &mut bytes {
                *byte ^= random.number() as u8;
            }
        }
        let at = random.index(bytes.len());
        let mut was = [0];
        self.medium.read(offset + at as u64, &mut was);
        bytes[at] = was[0] ^ (1 << random.below(8));
        self.medium.write(offset, &bytes);
    }

    /// Reads of these sectors fail until a write to them is complete.
    pub fn make_unreadable(&mut self, extent: Extent) {
        self.unreadable.extend(self.sectors(extent));
    }
}

fn is_covered(pending: &Pending, began_at: u64, scope: FlushScope<'_>) -> bool {
    pending.completed.is_some_and(|completed| completed < began_at)
        && match scope {
            FlushScope::Whole => true,
            FlushScope::Ranges(ranges) => {
                ranges.iter().any(|range| range.intersection(&pending.whole).is_some())
            }
        }
}
