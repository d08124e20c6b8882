//! A simulated drive: a [`Device`] over an [`crate::image::Image`], in virtual time.
//!
//! 1. Begin and completion of each write, flush and discard are events of [`Cuts`]; what was in flight when
//!    the run ended is in flight in the image, until a power cut or a kill settles it.
//! 2. After the end of a run nothing has an effect and nothing completes.
//! 3. Operations on overlapping ranges take effect in the order of some instants within them: a write's is
//!    its completion, a read's is its begin or its completion.
//! 4. A discard leaves what was there, zeros or noise, as a buffered write would; so does one that fails.
//! 5. Without [`Faults`] no promise is broken. With them, only those they name.
//! 6. What a system keeps of it in memory ([`crate::page_cache`]) is behind [`Device::read_cached`] alone.
//!
//! Ranges outside the drive, or not made of whole sectors, are mistakes of the caller: it panics.

use std::cell::{Cell, Ref, RefCell, RefMut};
use std::fmt;
use std::future::pending;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::planted::{Bug, is_planted};

use crate::cuts::{Cuts, Verdict};
use crate::executor::SimEnv;
use crate::faults::{EIO, ENOSPC, FailingDiscards, Faults};
use crate::image::{Image, Payload, SharedImage, WriteId};
use crate::latency::Latency;
use crate::page_cache::{BLOCK_BYTES, SharedCache, blocks_of};
use crate::random::Random;
use crate::trace;

/// Tells what a fence draws from everything else that follows from a seed.
const FENCE: u64 = 0xfe4ce;

/// What a drive was asked since it was opened. An operation counts when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Operations of any kind.
    pub operations: u64,
    /// Reads.
    pub reads: u64,
    /// Writes, durable ones too.
    pub writes: u64,
    /// Durable writes.
    pub durable_writes: u64,
    /// Flushes, of ranges too.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Bytes of the reads.
    pub read_bytes: u64,
    /// Bytes of the writes.
    pub written_bytes: u64,
}

/// What kind of drive it is, beyond its geometry.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DriveOptions {
    /// How long it takes.
    pub latency: Latency,
    /// What it does wrong.
    pub faults: Faults,
    /// What its jitter and its faults follow from.
    pub seed: u64,
    /// What the system in front of it keeps of it in memory, if anything.
    pub cache: Option<SharedCache>,
    /// Whether nobody connects to it in this run: connections of earlier ones stay as they are.
    pub is_away: bool,
}

struct State {
    image: SharedImage,
    env: SimEnv,
    cuts: Cuts,
    latency: Cell<Latency>,
    cache: Option<SharedCache>,
    faults: RefCell<Faults>,
    random: RefCell<Random>,
    counters: Cell<Counters>,
    /// Writes so far that lie in the zone of a stray one.
    writes_in_zone: Cell<u64>,
    /// Ranges that no longer hold what was last acknowledged there.
    harmed: RefCell<Vec<Extent>>,
    failed: Cell<u64>,
    refused_discards: Cell<u64>,
    lied: Cell<u64>,
}

/// One run's drive. A clone is another handle to the same drive.
#[derive(Clone)]
pub struct SimDrive(Rc<State>);

impl fmt::Debug for SimDrive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SimDrive")
            .field("geometry", &self.geometry())
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

/// What is traced of an event beside its number.
#[derive(Clone, Copy)]
enum Step {
    Read = 1,
    BeginWrite,
    CompleteWrite,
    BeginFlush,
    CompleteFlush,
    BeginDiscard,
    CompleteDiscard,
    ReadCached,
}

impl SimDrive {
    /// The drive over `image` in the run of `env`.
    ///
    /// What an earlier run left in flight must have been settled, by [`Image::power_cut`], [`Image::kill`] or
    /// [`Image::kill_connected`]: of the last, nothing lands any more once it is open.
    pub fn open(image: SharedImage, env: SimEnv, cuts: Cuts, options: DriveOptions) -> Self {
        assert_eq!(image.borrow().in_flight(), 0, "an earlier run's writes are still in flight");
        let DriveOptions { latency, faults, seed, cache, is_away } = options;
        if !is_away && !is_planted(Bug::OpeningUnfenced) {
            image.borrow_mut().fence(&mut Random::new(seed ^ FENCE));
        }
        Self(Rc::new(State {
            image,
            env,
            cuts,
            latency: Cell::new(latency),
            cache,
            faults: RefCell::new(faults),
            random: RefCell::new(Random::new(seed)),
            counters: Cell::default(),
            writes_in_zone: Cell::default(),
            harmed: RefCell::default(),
            failed: Cell::default(),
            refused_discards: Cell::default(),
            lied: Cell::default(),
        }))
    }

    /// What it was asked so far.
    pub fn counters(&self) -> Counters {
        self.0.counters.get()
    }

    /// Ranges where a write was lost or misplaced, or that a misplaced one overwrote.
    pub fn harmed(&self) -> Vec<Extent> {
        self.0.harmed.borrow().clone()
    }

    /// Operations that failed.
    pub fn failed(&self) -> u64 {
        self.0.failed.get()
    }

    /// Discards that failed though the drive is well.
    pub fn refused_discards(&self) -> u64 {
        self.0.refused_discards.get()
    }

    /// Acknowledgements of what was not durable as such.
    pub fn lied(&self) -> u64 {
        self.0.lied.get()
    }

    /// Operations that begin from now on take this long.
    pub fn set_latency(&self, latency: Latency) {
        self.0.latency.set(latency);
    }

    /// From here on it does these things wrong, and only these. Operation numbers still count from the
    /// opening.
    pub fn set_faults(&self, faults: Faults) {
        *self.0.faults.borrow_mut() = faults;
    }

    /// What it holds.
    pub fn image(&self) -> Ref<'_, Image> {
        self.0.image.borrow()
    }

    fn image_mut(&self) -> RefMut<'_, Image> {
        self.0.image.borrow_mut()
    }

    fn faults(&self) -> Ref<'_, Faults> {
        self.0.faults.borrow()
    }

    /// Whether an operation is never answered, from the counters before it.
    fn is_silent(&self, before: Counters) -> bool {
        self.faults().silent_operations.contains(&before.operations)
    }

    /// The counters with one operation more, counted with `count`; returns them as they were before.
    fn count(&self, count: impl FnOnce(&mut Counters)) -> Counters {
        let before = self.0.counters.get();
        let mut counters = before;
        counters.operations += 1;
        count(&mut counters);
        self.0.counters.set(counters);
        before
    }

    /// Whether an event takes effect; if it does not, the operation never completes.
    fn happens(&self, step: Step, extent: Extent, digest: u64) -> bool {
        let Verdict::Happens(number) = self.0.cuts.drive_event() else {
            return false;
        };
        self.trace(step, extent, number ^ digest);
        true
    }

    fn trace(&self, step: Step, extent: Extent, detail: u64) {
        self.0.env.trace(extent.offset << 8 | step as u64);
        self.0.env.trace(extent.len);
        self.0.env.trace(detail);
    }

    async fn take_time(&self, base_ns: u64, len_bytes: u64) {
        let duration_ns = self.0.latency.get().draw_ns(base_ns, len_bytes, &mut self.0.random.borrow_mut());
        self.0.env.sleep(duration_ns).await;
    }

    fn check(&self, extent: Extent) {
        let Geometry { size_bytes, sector_bytes, .. } = self.geometry();
        let sector_bytes = u64::from(sector_bytes);
        assert!(extent.fits(size_bytes), "{extent:?} lies outside a drive of {size_bytes} bytes");
        assert!(
            extent.offset.is_multiple_of(sector_bytes) && extent.len.is_multiple_of(sector_bytes),
            "{extent:?} is not made of whole sectors of {sector_bytes} bytes"
        );
    }

    /// Another place of the same length; `None` where the drive has none.
    fn misdirect(&self, extent: Extent) -> Option<Extent> {
        let Geometry { size_bytes, sector_bytes, .. } = self.geometry();
        let sector_bytes = u64::from(sector_bytes);
        let other_places = (size_bytes - extent.len) / sector_bytes;
        if other_places == 0 {
            return None;
        }
        let mut place = self.0.random.borrow_mut().below(other_places);
        if place >= extent.offset / sector_bytes {
            place += 1;
        }
        Some(Extent::new(place * sector_bytes, extent.len))
    }

    /// Another place in the zone that shares nothing with `extent`; `None` where there is none.
    fn stray_place(&self, extent: Extent, within: Extent) -> Option<Extent> {
        let before = (extent.offset - within.offset) / extent.len;
        let after = (within.end() - extent.end()) / extent.len;
        if before + after == 0 {
            return None;
        }
        let place = self.0.random.borrow_mut().below(before + after);
        let offset = match place < before {
            true => extent.offset - (place + 1) * extent.len,
            false => extent.end() + (place - before) * extent.len,
        };
        Some(Extent::new(offset, extent.len))
    }

    /// A write of `extent` came to its end: what the system keeps of the drive is told of its bytes, where it is known
    /// that they arrived.
    fn note_written(&self, extent: Extent, bytes: Option<&[u8]>) {
        if let Some(cache) = &self.0.cache {
            cache.borrow_mut().note_write(extent, bytes, &mut self.0.random.borrow_mut());
        }
    }

    fn fail<T>(&self, doing: &'static str, errno: i32) -> Result<T, DeviceError> {
        self.0.failed.set(self.0.failed.get() + 1);
        Err(DeviceError { doing, errno })
    }
}

/// What becomes of a write, decided when it begins.
enum WriteFate {
    Completes(WriteId),
    FailsAfter(WriteId),
    Fails(i32),
    Lost,
    Silent,
}

impl SimDrive {
    fn begin_write(&self, extent: Extent, bytes: &[u8], durability: Durability) -> WriteFate {
        let before = self.count(|counters| {
            counters.writes += 1;
            counters.durable_writes += u64::from(durability == Durability::Durable);
            counters.written_bytes += extent.len;
        });
        let faults = self.faults();
        let number = before.writes;
        if faults.silent_operations.contains(&before.operations) {
            self.image_mut().begin_write(extent, Payload::Bytes(bytes.into()), durability);
            return WriteFate::Silent;
        }
        if faults.failing_operations.contains(&before.operations) {
            return WriteFate::Fails(EIO);
        }
        if faults.full_writes.contains(&number) {
            return WriteFate::Fails(ENOSPC);
        }
        let mut place = Some(extent).filter(|_| !faults.lost_writes.contains(&number));
        if faults.misdirected_writes.contains(&number) {
            place = self.misdirect(extent);
        }
        if let Some(stray) = faults.stray.filter(|stray| stray.within.intersection(&extent) == Some(extent)) {
            let before = self.0.writes_in_zone.replace(self.0.writes_in_zone.get() + 1);
            if before == stray.after {
                place = if stray.misdirected { self.stray_place(extent, stray.within) } else { None };
            }
        }
        if place != Some(extent) {
            self.0.harmed.borrow_mut().extend([Some(extent), place].into_iter().flatten());
        }
        let Some(place) = place else { return WriteFate::Lost };
        let is_durable = durability == Durability::Durable;
        let lies = is_durable && faults.lying_durable_writes.contains(&number);
        self.0.lied.set(self.0.lied.get() + u64::from(lies));
        let durability = if lies { Durability::Buffered } else { durability };
        let id = self.image_mut().begin_write(place, Payload::Bytes(bytes.into()), durability);
        if faults.failing_writes.contains(&number) {
            WriteFate::FailsAfter(id)
        } else {
            WriteFate::Completes(id)
        }
    }
}

impl Device for SimDrive {
    fn geometry(&self) -> Geometry {
        self.image().geometry()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, into.len() as u64);
        self.check(extent);
        if self.0.cuts.is_stopped() {
            return pending().await;
        }
        let before = self.count(|counters| {
            counters.reads += 1;
            counters.read_bytes += extent.len;
        });
        self.trace(Step::Read, extent, before.reads);
        if self.is_silent(before) {
            return pending().await;
        }
        let fails = self.faults().failing_operations.contains(&before.operations);
        let sees_begin = self.0.random.borrow_mut().coin();
        if sees_begin {
            self.image().read(offset, into);
        }
        self.take_time(self.0.latency.get().read_ns, extent.len).await;
        if self.0.cuts.is_stopped() {
            return pending().await;
        }
        if fails || self.image().is_unreadable(extent) {
            return self.fail("read", EIO);
        }
        if !sees_begin {
            self.image().read(offset, into);
        }
        Ok(())
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, into.len() as u64);
        let Some(cache) = &self.0.cache else { return self.read(offset, into).await };
        self.check(extent);
        if cache.borrow().holds(extent) {
            self.trace(Step::ReadCached, extent, 0);
            cache.borrow().read(offset, into);
            self.0.env.sleep(0).await;
            return if self.0.cuts.is_stopped() { pending().await } else { Ok(()) };
        }
        let blocks = blocks_of(extent);
        let mut whole = vec![0; ((blocks.end - blocks.start) * BLOCK_BYTES) as usize];
        let first = blocks.start * BLOCK_BYTES;
        let writes = cache.borrow().writes();
        self.read(first, &mut whole).await?;
        let mut cache = cache.borrow_mut();
        cache.read_over(first, &mut whole);
        if cache.writes() == writes {
            cache.keep(first, &whole);
        }
        into.copy_from_slice(&whole[(offset - first) as usize..][..into.len()]);
        Ok(())
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        let extent = Extent::new(offset, into.len() as u64);
        let Some(cache) = self.0.cache.as_ref().filter(|_| !self.0.cuts.is_stopped()) else { return 0 };
        self.check(extent);
        let mut random = self.0.random.borrow_mut();
        let filled = match random.below(8) {
            0 => 0,
            1 => random.index(into.len() + 1),
            _ => into.len(),
        };
        let filled = cache.borrow().read(offset, &mut into[..filled]);
        // Nobody may rely on the rest.
        random.fill(&mut into[filled..]);
        drop(random);
        self.trace(Step::ReadCached, extent, filled as u64);
        filled
    }

    fn give_up_kept(&self, extent: Extent) {
        if let Some(cache) = &self.0.cache {
            cache.borrow_mut().give_up(extent);
        }
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        let extent = Extent::new(offset, bytes.len() as u64);
        self.check(extent);
        if !self.happens(Step::BeginWrite, extent, trace::digest(bytes)) {
            return pending().await;
        }
        let fate = self.begin_write(extent, bytes, durability);
        if matches!(fate, WriteFate::Silent) {
            return pending().await;
        }
        let base_ns = match durability {
            Durability::Buffered => self.0.latency.get().draw_write_ns(&mut self.0.random.borrow_mut()),
            Durability::Durable => self.0.latency.get().durable_write_ns,
        };
        self.take_time(base_ns, extent.len).await;
        if !self.happens(Step::CompleteWrite, extent, 0) {
            return pending().await;
        }
        let was_late = self.image_mut().land_late(&mut self.0.random.borrow_mut());
        debug_assert!(!was_late || is_planted(Bug::OpeningUnfenced), "an opening fences what was before it");
        match fate {
            WriteFate::Completes(id) => self.image_mut().complete_write(id),
            WriteFate::FailsAfter(id) => {
                self.image_mut().settle_write(id, &mut self.0.random.borrow_mut());
                self.note_written(extent, None);
                return self.fail("write", EIO);
            }
            WriteFate::Fails(errno) => return self.fail("write", errno),
            WriteFate::Lost | WriteFate::Silent => {}
        }
        self.note_written(extent, Some(bytes));
        Ok(())
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        let mut digest = 0;
        if let FlushScope::Ranges(ranges) = scope {
            for range in ranges {
                assert!(range.fits(self.geometry().size_bytes), "{range:?} lies outside the drive");
                digest = trace::fold(trace::fold(digest, range.offset), range.len);
            }
        }
        let extent = Extent::new(0, 0);
        if !self.happens(Step::BeginFlush, extent, digest) {
            return pending().await;
        }
        let before = self.count(|counters| counters.flushes += 1);
        if self.is_silent(before) {
            return pending().await;
        }
        let dead = self.faults().failing_operations.contains(&before.operations);
        let fails = self.faults().failing_flushes.contains(&before.flushes);
        let lies = self.faults().lying_flushes.contains(&before.flushes);
        let began_at = self.image().completions();
        self.take_time(self.0.latency.get().flush_ns, 0).await;
        if !self.happens(Step::CompleteFlush, extent, digest) {
            return pending().await;
        }
        if fails {
            self.image_mut().fail_flush(began_at, scope, &mut self.0.random.borrow_mut());
        }
        if dead || fails {
            return self.fail("flush", EIO);
        }
        if lies {
            self.0.lied.set(self.0.lied.get() + 1);
        } else {
            self.image_mut().complete_flush(began_at, scope);
        }
        Ok(())
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        self.check(extent);
        if !self.happens(Step::BeginDiscard, extent, 0) {
            return pending().await;
        }
        let before = self.count(|counters| counters.discards += 1);
        if self.is_silent(before) {
            return pending().await;
        }
        let fails = self.faults().failing_operations.contains(&before.operations);
        let payload = {
            let mut random = self.0.random.borrow_mut();
            match random.below(3) {
                0 => None,
                1 => Some(Payload::Zeros),
                _ => Some(Payload::Noise(random.number())),
            }
        };
        let id = payload
            .filter(|_| !fails)
            .map(|payload| self.image_mut().begin_write(extent, payload, Durability::Buffered));
        self.take_time(self.0.latency.get().discard_ns, 0).await;
        if !self.happens(Step::CompleteDiscard, extent, 0) {
            return pending().await;
        }
        if let Some(id) = id {
            self.image_mut().complete_write(id);
        }
        self.note_written(extent, None);
        if fails {
            return self.fail("discard", EIO);
        }
        match self.faults().failing_discards.filter(|failing| before.discards >= failing.from) {
            None => Ok(()),
            Some(FailingDiscards { errno, .. }) => {
                self.0.refused_discards.set(self.0.refused_discards.get() + 1);
                Err(DeviceError { doing: "discard", errno })
            }
        }
    }
}

impl Drive for SimDrive {}
