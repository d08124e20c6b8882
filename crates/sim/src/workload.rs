//! What clients do to a volume: seeded operations, each client in stripes of its own.
//!
//! A client issues one operation after the other, so the versions of its bytes are ordered; clients run beside
//! one another, on pages that they share at the stripes' edges. An acknowledgement counts only if the cut had
//! not struck by then.

use std::cell::{Cell, RefCell};
use std::iter;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::{Arena, Env};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::join::all;
use evenkeel_engine::layout::{JournalStore, PageStore};
use evenkeel_engine::volume::Volume;

use crate::executor::SimEnv;
use crate::oracle::{Fill, Oracle, Violation};
use crate::places::Places;
use crate::random::Random;
use crate::testbed::{SwitchedOn, Testbed};

/// Of a hundred actions, those that are reads.
const READS: std::ops::Range<u64> = 86..97;

/// Ranges that are flushed beside everything, where they are.
const RANGES_BESIDE_ALL: u32 = 4;

/// What the clients of one run are like.
#[derive(Debug, Clone, Copy)]
pub struct Habits {
    /// Clients beside one another; no more than there are stripes.
    pub clients: u64,
    /// Operations of each.
    pub operations: u64,
    /// Bytes of a stripe; stripes belong to the clients in turn.
    pub stripe_bytes: u64,
    /// Where they work. They know the bytes of all pieces as one range.
    pub places: Places,
    /// Largest write that is held to be one commit: no larger than the volume's.
    pub atomic_max_bytes: u64,
    /// Share of writes larger than that.
    pub large_share: f64,
    /// Whether writes up to that size are one commit.
    pub atomic_writes: bool,
    /// Whether who flushes a range flushes everything at the same time.
    pub flushes_beside_all: bool,
}

/// What all clients share.
pub struct Workload<T: Testbed> {
    /// The volume under test, as servers have it: another one may take its place.
    pub volume: SwitchedOn<T>,
    /// What it may hold.
    pub oracle: Rc<RefCell<Oracle>>,
    /// The first violation seen.
    pub violation: Rc<RefCell<Option<Violation>>>,
    /// The world.
    pub env: SimEnv,
    /// What clients are like.
    pub habits: Habits,
    /// Counts the operations that were done.
    pub operations_done: Rc<Cell<u64>>,
    /// Which errors are part of the game: a client goes on after such a read, and ends after anything else.
    /// Others are violations.
    pub forgives: Box<dyn Fn(&Error) -> bool>,
}

impl<T: Testbed> Workload<T> {
    /// One client, from its first operation to its last.
    pub async fn client(&self, number: u64, mut random: Random) {
        for _ in 0..self.habits.operations {
            let action = random.below(100);
            let had_failed = self.volume.now().failure().is_some();
            let done = self.operation(action, number, &mut random).await;
            if self.env.is_stopped() || self.violation.borrow().is_some() {
                return;
            }
            let is_read = READS.contains(&action);
            match done {
                Ok(()) if had_failed && !is_read => {
                    self.accuse(format!("client {number}: action {action} was acknowledged after a failure"));
                }
                Ok(()) => self.operations_done.set(self.operations_done.get() + 1),
                Err(error) if !(self.forgives)(&error) => {
                    self.accuse(format!("client {number}: {error}"));
                }
                Err(_) if is_read => {}
                Err(_) => return,
            }
        }
    }

    /// Where they work now: on as much of it as the volume has, which may grow.
    fn places(&self) -> Places {
        self.habits.places.within(self.volume.now().size_bytes())
    }

    fn accuse(&self, what: String) {
        self.violation.borrow_mut().get_or_insert(Violation { what });
    }

    async fn operation(&self, action: u64, client: u64, random: &mut Random) -> Result<(), Error> {
        match action {
            0..40 => self.write(client, random, Durability::Buffered).await,
            40..62 => self.write(client, random, Durability::Durable).await,
            62..70 => self.commit(client, random).await,
            70..80 if self.habits.flushes_beside_all => self.flush_beside_all(random).await,
            70..80 => self.flush(random).await,
            80..86 => self.zero(client, random).await,
            action if READS.contains(&action) => self.read(client, random).await,
            97..99 => {
                // Memory that others want, or give back.
                let volume = self.volume.now();
                volume.resize_cache(1 << random.clone().below(10)).await;
                volume.checkpoint().await
            }
            _ => self.flush_whole().await,
        }
    }

    /// A range within one stripe of the client, and within one piece.
    fn own_extent(&self, client: u64, random: &mut Random, len_max: u64) -> Extent {
        let extent = self.own_stretch(client, random, len_max);
        let together = self.places().rest_of_piece(extent.offset);
        Extent::new(extent.offset, extent.len.min(together))
    }

    /// A range within one stripe of the client.
    fn own_stretch(&self, client: u64, random: &mut Random, len_max: u64) -> Extent {
        let (habits, known_bytes) = (&self.habits, self.places().known_bytes);
        let stripes = known_bytes.div_ceil(habits.stripe_bytes);
        let rows = (stripes - client).div_ceil(habits.clients);
        let stripe = random.below(rows) * habits.clients + client;
        let start = stripe * habits.stripe_bytes;
        let room = habits.stripe_bytes.min(known_bytes - start);
        let len = match random.below(6) {
            0 => 1 + random.below(16),
            1 => 4096,
            2 => 1024,
            3 => len_max,
            _ => 1 + random.below(len_max),
        };
        let len = len.min(room).min(len_max).max(1);
        let mut offset = start + random.below(room - len + 1);
        if random.chance(0.3) && offset / 4096 * 4096 >= start {
            offset = offset / 4096 * 4096;
        }
        Extent::new(offset, len)
    }

    async fn write(&self, client: u64, random: &mut Random, durability: Durability) -> Result<(), Error> {
        let is_large = random.chance(self.habits.large_share);
        let len_max = if is_large { self.habits.stripe_bytes } else { self.habits.atomic_max_bytes };
        let extent = self.own_extent(client, random, len_max);
        let fill = if random.chance(0.15) { Fill::Same } else { Fill::Own };
        if is_large
            && fill == Fill::Own
            && durability == Durability::Durable
            && let Some(pages) = self.fresh_pages(extent)
        {
            return self.write_fresh(pages).await;
        }
        let atomic = self.habits.atomic_writes && extent.len <= self.habits.atomic_max_bytes;
        let (number, parts) = self.oracle.borrow_mut().issue(&[extent], fill, atomic);
        self.volume.write(self.places().on_volume(extent.offset), &parts[0], durability).await?;
        self.acknowledge(number, durability == Durability::Durable);
        Ok(())
    }

    /// The whole pages of an extent, where it is their turn to be written as what nobody needs.
    fn fresh_pages(&self, extent: Extent) -> Option<Extent> {
        let first = extent.offset.next_multiple_of(PAGE_BYTES);
        let end = extent.end() / PAGE_BYTES * PAGE_BYTES;
        let is_fresh = first < end
            && (first / PAGE_BYTES).is_multiple_of(2)
            && self.places().on_volume(first).is_multiple_of(PAGE_BYTES);
        is_fresh.then(|| Extent::new(first, end - first))
    }

    /// Until it is done, the pages may be empty, or hold what they held.
    async fn write_fresh(&self, pages: Extent) -> Result<(), Error> {
        let (emptied, _) = self.oracle.borrow_mut().issue(&[pages], Fill::Zero, false);
        let (number, parts) = self.oracle.borrow_mut().issue(&[pages], Fill::Own, false);
        let each: Vec<&[u8]> = parts[0].chunks(PAGE_BYTES as usize).collect();
        self.volume.write_fresh(self.places().on_volume(pages.offset), &each).await?;
        self.acknowledge(emptied, true);
        self.acknowledge(number, true);
        Ok(())
    }

    async fn commit(&self, client: u64, random: &mut Random) -> Result<(), Error> {
        let mut extents: Vec<Extent> = Vec::new();
        for _ in 0..1 + random.below(4) {
            let extent = self.own_extent(client, random, self.habits.atomic_max_bytes / 4);
            if extents.iter().all(|other| !other.overlaps(&extent)) {
                extents.push(extent);
            }
        }
        let (number, parts) = self.oracle.borrow_mut().issue(&extents, Fill::Own, self.habits.atomic_writes);
        let places = self.places();
        let range = |(extent, bytes): (&Extent, _)| (places.on_volume(extent.offset), bytes);
        let ranges: Vec<(u64, &[u8])> =
            extents.iter().zip(parts.iter().map(|bytes| &bytes[..])).map(range).collect();
        self.volume.commit(&ranges).await?;
        self.acknowledge(number, true);
        Ok(())
    }

    async fn zero(&self, client: u64, random: &mut Random) -> Result<(), Error> {
        // What lies between two pieces is zero anyway.
        let extent = self.own_stretch(client, random, self.habits.stripe_bytes);
        let durability = if random.coin() { Durability::Durable } else { Durability::Buffered };
        let span = self.places().span(extent);
        let atomic = self.habits.atomic_writes && span.len <= self.habits.atomic_max_bytes;
        let (number, _) = self.oracle.borrow_mut().issue(&[extent], Fill::Zero, atomic);
        self.volume.write_zeroes(span, durability).await?;
        self.acknowledge(number, durability == Durability::Durable);
        Ok(())
    }

    fn acknowledge(&self, number: u32, durable: bool) {
        if !self.env.is_stopped() {
            self.oracle.borrow_mut().acknowledge(number, durable);
        }
    }

    async fn flush(&self, random: &mut Random) -> Result<(), Error> {
        let size = self.places().known_bytes;
        let offset = random.below(size);
        let extent = Extent::new(offset, 1 + random.below((size - offset).min(20_000)));
        let parts: Vec<Extent> = self.places().parts(extent).collect();
        self.flush_extent(extent, FlushScope::Ranges(&parts)).await
    }

    /// Everything, and right behind it ranges that want some of it sooner.
    async fn flush_beside_all(&self, random: &mut Random) -> Result<(), Error> {
        let flushed = RefCell::new(Ok(()));
        let flush = async |range: Option<Random>| {
            let done = match range {
                None => self.flush_whole().await,
                Some(mut random) => self.flush(&mut random).await,
            };
            if let Err(error) = done {
                *flushed.borrow_mut() = Err(error);
            }
        };
        let ranges = (0..RANGES_BESIDE_ALL).map(|_| Some(random.fork()));
        all(iter::once(None).chain(ranges).map(flush)).await;
        flushed.into_inner()
    }

    async fn flush_whole(&self) -> Result<(), Error> {
        self.flush_extent(Extent::new(0, self.places().known_bytes), FlushScope::Whole).await
    }

    async fn flush_extent(&self, extent: Extent, scope: FlushScope<'_>) -> Result<(), Error> {
        let begun = self.oracle.borrow().begin_flush(extent);
        self.volume.flush(scope).await?;
        if !self.env.is_stopped() {
            self.oracle.borrow_mut().end_flush(begun);
        }
        Ok(())
    }

    async fn read(&self, client: u64, random: &mut Random) -> Result<(), Error> {
        let extent = self.own_extent(client, random, self.habits.stripe_bytes);
        let mut found = vec![0; extent.len as usize];
        self.volume.read(self.places().on_volume(extent.offset), &mut found).await?;
        if !self.env.is_stopped() && found != self.oracle.borrow().expected(extent) {
            self.accuse(format!(
                "a read of {extent:?} by client {client} found other bytes than were written"
            ));
        }
        Ok(())
    }
}

/// Reads all bytes that clients know.
///
/// # Errors
///
/// Those of the volume.
pub async fn read_known<A: Arena, H: PageStore, L: JournalStore>(
    volume: &Volume<SimEnv, A, H, L>,
    places: Places,
) -> Result<Vec<u8>, Error> {
    let mut found = vec![0; places.known_bytes as usize];
    let mut into = &mut found[..];
    let there_bytes = places.within(volume.size_bytes()).known_bytes;
    for part in places.parts(Extent::new(0, there_bytes)) {
        let (here, rest) = into.split_at_mut(part.len as usize);
        volume.read(part.offset, here).await?;
        into = rest;
    }
    Ok(found)
}

/// Lets clients work beside one another, one for each of `seeds`, until all are done.
pub async fn run_clients<T: Testbed>(workload: &Rc<Workload<T>>, seeds: &[u64]) {
    let running = Rc::new(Cell::new(seeds.len()));
    for (number, &seed) in (0..).zip(seeds) {
        let (workload, running) = (Rc::clone(workload), Rc::clone(&running));
        let env = workload.env.clone();
        env.spawn(async move {
            workload.client(number, Random::new(seed)).await;
            running.set(running.get() - 1);
        });
    }
    while running.get() > 0 {
        workload.env.sleep(10_000).await;
    }
}
