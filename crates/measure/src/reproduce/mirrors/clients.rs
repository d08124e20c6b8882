//! Clients that write to a mirror and wait each for its own write, beside reads at a steady rate.
//!
//! 1. Closed loop: no client has more than one write under way, and all end when the time is over.
//! 2. The same seed gives the same places.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_sim::random::Random;

use super::bed::Site;
use super::reads::Reads;

/// Bytes of a read.
const READ_BYTES: u64 = 4096;

/// What clients do.
#[derive(Debug, Clone, Copy)]
pub struct Clients {
    /// How many write.
    pub clients: usize,
    /// Bytes of each write, from the first by doublings up to the second.
    pub bytes: (u64, u64),
    /// Whether a write is one that is followed by a flush, in place of one that is durable by itself.
    pub flushes: bool,
    /// Reads of 4 KiB that come in a second.
    pub reads_per_s: u64,
    /// For how long.
    pub seconds: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Wrote {
    /// What reads waited.
    pub reads: Reads,
    /// What writes waited, their flush included.
    pub writes: Reads,
    /// Bytes written in a second, until all of them were home.
    pub home_bytes_per_s: f64,
    /// Bytes written in a second, until the last write was done.
    pub done_bytes_per_s: f64,
}

struct State {
    site: Site,
    clients: Clients,
    volume_bytes: u64,
    noise: Vec<u8>,
    random: RefCell<Random>,
    reads: RefCell<Reads>,
    writes: RefCell<Reads>,
    written_bytes: Cell<u64>,
    under_way: Cell<usize>,
    end_ns: u64,
}

impl Clients {
    /// Lets them write.
    ///
    /// # Panics
    ///
    /// If the volume fails: its drives are healthy.
    pub(super) async fn write(self, site: &Site, volume_bytes: u64) -> Wrote {
        let began_ns = site.env.now_ns();
        let noise =
            (0..2 * self.bytes.1 as u32).map(|at| (at.wrapping_mul(0x85EB_CA6B) >> 23) as u8).collect();
        let state = Rc::new(State {
            site: site.clone(),
            clients: self,
            volume_bytes,
            noise,
            random: RefCell::new(Random::new(5)),
            reads: RefCell::new(Reads::new(u64::MAX, began_ns)),
            writes: RefCell::new(Reads::new(u64::MAX, began_ns)),
            written_bytes: Cell::default(),
            under_way: Cell::default(),
            end_ns: began_ns + self.seconds * 1_000_000_000,
        });
        for _ in 0..self.clients {
            let client = Rc::clone(&state);
            state.begin(async move { client.write_until_the_end().await });
        }
        while self.reads_per_s > 0 && site.env.now_ns() < state.end_ns {
            let reader = Rc::clone(&state);
            state.begin(async move { reader.read().await });
            site.env.sleep(1_000_000_000 / self.reads_per_s).await;
        }
        while state.under_way.get() > 0 {
            site.env.sleep(1_000_000).await;
        }
        let bytes = state.written_bytes.get() as f64 * 1e9;
        let done_bytes_per_s = bytes / (site.env.now_ns() - began_ns) as f64;
        site.volume.checkpoint().await.expect("healthy drives");
        let home_bytes_per_s = bytes / (site.env.now_ns() - began_ns) as f64;
        let state = Rc::try_unwrap(state).map_err(|_| ()).expect("all have ended");
        let (reads, writes) = (state.reads.into_inner(), state.writes.into_inner());
        Wrote { reads, writes, home_bytes_per_s, done_bytes_per_s }
    }
}

impl State {
    fn begin(self: &Rc<Self>, task: impl Future<Output = ()> + 'static) {
        self.under_way.set(self.under_way.get() + 1);
        let state = Rc::clone(self);
        self.site.env.spawn(async move {
            task.await;
            state.under_way.set(state.under_way.get() - 1);
        });
    }

    fn draw(&self, bytes: u64) -> (u64, usize) {
        let mut random = self.random.borrow_mut();
        let place = random.below((self.volume_bytes - bytes) / READ_BYTES) * READ_BYTES;
        (place, random.index(READ_BYTES as usize))
    }

    async fn write_until_the_end(&self) {
        let (least, most) = self.clients.bytes;
        let doublings = u64::from((most / least).ilog2());
        while self.site.env.now_ns() < self.end_ns {
            let bytes = least << self.random.borrow_mut().below(doublings + 1);
            let (place, skew) = self.draw(bytes);
            let part = &self.noise[skew.min((2 * most - bytes) as usize)..][..bytes as usize];
            let (volume, began_ns) = (&self.site.volume, self.site.env.now_ns());
            if self.clients.flushes {
                volume.write(place, part, Durability::Buffered).await.expect("a healthy write");
                volume.flush(FlushScope::Whole).await.expect("a healthy flush");
            } else {
                volume.write(place, part, Durability::Durable).await.expect("a healthy write");
            }
            self.writes.borrow_mut().note(began_ns, self.site.env.now_ns());
            self.written_bytes.set(self.written_bytes.get() + bytes);
        }
    }

    async fn read(&self) {
        let (place, _) = self.draw(READ_BYTES);
        let began_ns = self.site.env.now_ns();
        let mut into = vec![0; READ_BYTES as usize];
        self.site.volume.read(place, &mut into).await.expect("a healthy read");
        self.reads.borrow_mut().note(began_ns, self.site.env.now_ns());
    }
}
