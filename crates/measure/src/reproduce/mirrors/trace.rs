//! A trace on a mirror: its requests at their times, scaled, over and over.
//!
//! 1. Each round lies elsewhere: what the trace's owner had beside it, and over months wrote to all of the drive, is
//!    not in the trace.
//! 2. Open loop: a request comes when it is due, however late others are, and waits from then on.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::path::Path;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;

use super::bed::Site;
use super::reads::Reads;
use evenkeel_trace::{Access, Op, TraceError, TraceReader};

/// How long the opening's own writes are given.
const SETTLED_NS: u64 = 5_000_000_000;

/// Between two looks whether a member is kept for reads.
const LOOK_NS: u64 = 20_000_000;

/// Bytes of a page.
const PAGE: u64 = 4096;

/// Requests with their times, on a volume.
#[derive(Debug, Clone)]
pub struct Requests {
    /// In the order of their times.
    all: Vec<Request>,
    /// From the first one to where the next round begins.
    round_ns: u64,
    /// Where they wrap around.
    volume_bytes: u64,
}

/// A request, due so long after the first one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) at_ns: u64,
    pub(super) is_read: bool,
    pub(super) offset: u64,
    pub(super) len: u32,
}

/// How a trace is played.
#[derive(Debug, Clone, Copy)]
pub struct Play {
    /// Times are divided by this.
    pub speed: f64,
    /// Ends after so many reads,
    pub reads: u64,
    /// and not before so many seconds.
    pub seconds: u64,
    /// Whether writes are left out.
    pub reads_only: bool,
    /// Reads that take longer are blocked.
    pub long_ns: u64,
    /// It is given up once so many requests are under way: at this speed they come faster than they can be served.
    pub under_way_max: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Played {
    /// What reads waited.
    pub reads: Reads,
    /// What writes waited.
    pub writes: Reads,
    /// Bytes written.
    pub written_bytes: u64,
    /// From the first request to the end of the last.
    pub took_ns: u64,
    /// From there until everything was home.
    pub home_ns: u64,
    /// The share of the time in which no member was kept for reads alone.
    pub mixed_share: f64,
    /// Most requests under way at once.
    pub under_way_max: u64,
    /// Whether it was given up: more came than could be served.
    pub is_overrun: bool,
}

impl Played {
    /// Bytes written in a second, the time counted until everything is home.
    pub fn home_bytes_per_s(&self) -> f64 {
        self.written_bytes as f64 * 1e9 / (self.took_ns + self.home_ns).max(1) as f64
    }

    /// The longest that any request took, in seconds.
    pub fn longest_s(&self) -> f64 {
        self.reads.longest_s().max(self.writes.longest_s())
    }

    /// The share of the time in which some read was blocked; all of it where more came than could be served.
    pub fn blocked_share(&self) -> f64 {
        match self.is_overrun {
            true => 1.0,
            false => self.reads.blocked_ns() as f64 / self.took_ns as f64,
        }
    }
}

impl Requests {
    /// The trace in a file, its devices one beside the other, wrapped around a volume of so many bytes.
    ///
    /// # Errors
    ///
    /// As [`TraceReader`].
    pub fn read(path: &Path, volume_bytes: u64) -> Result<Self, TraceError> {
        let reader = TraceReader::new(File::open(path)?, None)?;
        let mut accesses = reader.collect::<Result<Vec<Access>, _>>()?;
        accesses.sort_by_key(|access| access.time_ns);
        let first_ns = accesses.first().map_or(0, |access| access.time_ns);
        let request = |access: &Access| {
            let len = u64::from(access.len_bytes).min(1 << 20);
            // Each device begins at a place of its own.
            let start = access.device.index() as u64 * (volume_bytes / 7 / PAGE * PAGE) + access.offset;
            let offset = start % (volume_bytes - len) / 512 * 512;
            let is_read = access.op == Op::Read;
            Request { at_ns: access.time_ns - first_ns, is_read, offset, len: len as u32 }
        };
        let all: Vec<Request> =
            accesses.iter().filter(|access| access.op != Op::Flush).map(request).collect();
        Ok(Self::new(all, volume_bytes))
    }

    /// A round of these, in the order of their times.
    pub(super) fn new(all: Vec<Request>, volume_bytes: u64) -> Self {
        let last_ns = all.last().map_or(0, |last| last.at_ns);
        let round_ns = last_ns + last_ns / (all.len().max(1) as u64);
        Self { all, round_ns, volume_bytes }
    }

    /// Bytes written in a second at its own speed.
    pub fn write_bytes_per_s(&self) -> f64 {
        let writes = self.all.iter().filter(|request| !request.is_read);
        writes.map(|request| f64::from(request.len)).sum::<f64>() * 1e9 / self.round_ns.max(1) as f64
    }

    /// Plays its writes alone, as fast as they are taken with so many under way, for so many seconds. Answers the bytes
    /// that are home in a second, once what caches hide is over.
    ///
    /// # Panics
    ///
    /// If the volume fails: its drives are healthy.
    pub async fn flood(&self, site: &Site, under_way: usize, seconds: u64) -> f64 {
        let writes: Rc<Vec<Request>> = Rc::new(self.all.iter().filter(|one| !one.is_read).copied().collect());
        let noise: Rc<Vec<u8>> =
            Rc::new((0..(1 << 20) + 4096u32).map(|at| (at.wrapping_mul(0x85EB_CA6B) >> 23) as u8).collect());
        let (next, written, left) =
            (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)), Rc::new(Cell::new(under_way)));
        let end_ns = site.env.now_ns() + seconds * 1_000_000_000;
        let volume_bytes = self.volume_bytes;
        for _ in 0..under_way {
            let (site, writes, noise) = (site.clone(), Rc::clone(&writes), Rc::clone(&noise));
            let (next, written, left) = (Rc::clone(&next), Rc::clone(&written), Rc::clone(&left));
            site.env.clone().spawn(async move {
                while site.env.now_ns() < end_ns {
                    let number = next.replace(next.get() + 1);
                    let (round, request) = (number / writes.len(), writes[number % writes.len()]);
                    let offset = (request.offset + round as u64 * 0x0273_1000) % (volume_bytes - (1 << 20));
                    let part = &noise[number * 31 % 4096..][..request.len as usize];
                    let at = offset / 512 * 512;
                    site.volume.write(at, part, Durability::Durable).await.expect("a healthy write");
                    written.set(written.get() + u64::from(request.len));
                }
                left.set(left.get() - 1);
            });
        }
        let began_ns = site.env.now_ns();
        while left.get() > 0 {
            site.env.sleep(1_000_000).await;
        }
        site.volume.checkpoint().await.expect("healthy drives");
        written.get() as f64 * 1e9 / (site.env.now_ns() - began_ns) as f64
    }

    /// Reads, and writes, of one round.
    pub fn counts(&self) -> (usize, usize) {
        let reads = self.all.iter().filter(|request| request.is_read).count();
        (reads, self.all.len() - reads)
    }

    /// Plays it on a volume.
    ///
    /// # Panics
    ///
    /// If the volume fails: its drives are healthy.
    pub async fn play(&self, site: &Site, play: Play) -> Played {
        // What the opening took home is done.
        site.env.sleep(SETTLED_NS).await;
        let began_ns = site.env.now_ns();
        let state = Rc::new(State::new(play.long_ns, began_ns));
        state.watch(site);
        let scaled = |ns: u64| (ns as f64 / play.speed) as u64;
        let (mut left, mut round) = (play.reads, 0);
        let noise: Rc<Vec<u8>> =
            Rc::new((0..(1 << 20) + 4096u32).map(|at| (at.wrapping_mul(0x85EB_CA6B) >> 23) as u8).collect());
        let is_overrun = 'rounds: loop {
            let start_ns = began_ns + scaled(self.round_ns) * round;
            // Steps of the golden ratio: no two rounds lie close together for long.
            let step = (self.volume_bytes as f64 * 0.618_033_988_7) as u64 / PAGE * PAGE;
            let shift = round.wrapping_mul(step) % self.volume_bytes;
            for (number, request) in self.all.iter().enumerate() {
                if play.reads_only && !request.is_read {
                    continue;
                }
                let due_ns = start_ns + scaled(request.at_ns);
                let now_ns = site.env.now_ns();
                if due_ns > now_ns {
                    site.env.sleep(due_ns - now_ns).await;
                }
                let (site, state, mut request) = (site.clone(), Rc::clone(&state), *request);
                request.offset = (request.offset + shift) % (self.volume_bytes - (1 << 20)) / 512 * 512;
                let bytes = Rc::clone(&noise);
                state.begin();
                let is_overrun = state.under_way.get() > play.under_way_max;
                let skew = (number as u64 * 31 + round * 17) as usize % 4096;
                site.env.clone().spawn(async move {
                    let len = request.len as usize;
                    if request.is_read {
                        let mut into = vec![0; len];
                        site.volume.read(request.offset, &mut into).await.expect("a healthy read");
                    } else {
                        let part = &bytes[skew..skew + len];
                        let durability = Durability::Durable;
                        site.volume.write(request.offset, part, durability).await.expect("a healthy write");
                        state.written_bytes.set(state.written_bytes.get() + len as u64);
                    }
                    state.end(request.is_read, due_ns, site.env.now_ns());
                });
                left = left.saturating_sub(u64::from(request.is_read));
                let is_long_enough = due_ns - began_ns >= play.seconds * 1_000_000_000;
                if (left == 0 && is_long_enough) || is_overrun {
                    break 'rounds is_overrun;
                }
            }
            round += 1;
        };
        while state.under_way.get() > 0 {
            site.env.sleep(1_000_000).await;
        }
        let took_ns = site.env.now_ns() - began_ns;
        state.is_over.set(true);
        let (mixed, seen) = state.mixed.get();
        let mixed_share = f64::from(mixed) / f64::from(seen.max(1));
        site.volume.checkpoint().await.expect("healthy drives");
        let home_ns = site.env.now_ns() - began_ns - took_ns;
        site.env.sleep(LOOK_NS).await;
        let state = Rc::try_unwrap(state).map_err(|_| ()).expect("all requests have ended");
        Played {
            reads: state.reads.into_inner(),
            writes: state.writes.into_inner(),
            written_bytes: state.written_bytes.get(),
            took_ns,
            home_ns,
            mixed_share,
            under_way_max: state.under_way_max.get(),
            is_overrun,
        }
    }
}

struct State {
    reads: RefCell<Reads>,
    writes: RefCell<Reads>,
    written_bytes: Cell<u64>,
    under_way: Cell<u64>,
    under_way_max: Cell<u64>,
    /// How often no member was kept for reads, of so many looks.
    mixed: Cell<(u32, u32)>,
    is_over: Cell<bool>,
}

impl State {
    fn new(long_ns: u64, began_ns: u64) -> Self {
        Self {
            reads: RefCell::new(Reads::new(long_ns, began_ns)),
            writes: RefCell::new(Reads::new(long_ns, began_ns)),
            written_bytes: Cell::default(),
            under_way: Cell::default(),
            under_way_max: Cell::default(),
            mixed: Cell::default(),
            is_over: Cell::default(),
        }
    }

    /// Looks again and again whether a member is kept for reads.
    fn watch(self: &Rc<Self>, site: &Site) {
        let (state, site) = (Rc::clone(self), site.clone());
        site.env.clone().spawn(async move {
            while !state.is_over.get() {
                let (mixed, seen) = state.mixed.get();
                state.mixed.set((mixed + u32::from(site.ring.window().0 == 0), seen + 1));
                site.env.sleep(LOOK_NS).await;
            }
        });
    }

    fn begin(&self) {
        self.under_way.set(self.under_way.get() + 1);
        self.under_way_max.set(self.under_way_max.get().max(self.under_way.get()));
    }

    fn end(&self, is_read: bool, due_ns: u64, now_ns: u64) {
        let waits = if is_read { &self.reads } else { &self.writes };
        waits.borrow_mut().note(due_ns, now_ns);
        self.under_way.set(self.under_way.get() - 1);
    }
}
