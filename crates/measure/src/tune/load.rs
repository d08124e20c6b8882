//! Clients that write durably, each its next write once the one before is durable.
//!
//! 1. Every write is acknowledged as durable; reads of a recorded load are carried out too.
//! 2. The same seed gives the same requests.
//! 3. What a run took counts until everything is home: the caller adds that.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::env::Env;
use evenkeel_engine::format::PAGE_BYTES;

use super::bench::Halted;
use crate::replay::Payload;
use crate::replay::statistics::Times;
use evenkeel_trace::Op;

/// Writes up to this size are small: the engine does not let them wait for larger ones.
pub const SMALL_MAX_BYTES: u64 = 64 << 10;

/// The mixture: how many clients write how much at once. Commits of a database, pages of a bulk load, and segments that are
/// copied.
pub const MIXTURE: [(usize, u64); 3] = [(16, 4 << 10), (2, 128 << 10), (1, 1 << 20)];

/// Requests of a recorded load that are under way at once.
pub const DEPTH: usize = 32;

/// What is written.
#[derive(Debug, Clone)]
pub enum Load {
    /// [`MIXTURE`], at random places.
    Mixture,
    /// Requests in their order, from the first again after the last.
    Recorded(Rc<[Access]>),
}

/// A request of a recorded load. A flush is left out: every write is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// [`Op::Read`] or [`Op::Write`].
    pub op: Op,
    /// First byte; taken modulo the volume's size.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// What a run came to.
#[derive(Debug, Clone, Default)]
pub struct Run {
    /// Bytes written.
    pub bytes: u64,
    /// Latencies of small writes; of all where none is small.
    pub small: Times,
    /// Those of the others.
    pub large: Times,
    /// From the first request until everything was home.
    pub took_ns: u64,
}

/// What clients share.
struct Shared<E, D> {
    env: E,
    device: Rc<D>,
    payload: Payload,
    ends_ns: u64,
    run: RefCell<Run>,
    written: Cell<u64>,
    left: Cell<usize>,
    failed: RefCell<Option<String>>,
    waits: RefCell<Option<Waker>>,
}

/// Runs `load` on `device` for `duration_ns`, and waits for the last request. What is home then is for the caller to know.
///
/// # Errors
///
/// [`Halted::Unavailable`] where a request fails.
pub async fn run<E: Env, D: Device>(
    env: &E,
    device: &Rc<D>,
    load: &Load,
    duration_ns: u64,
    seed: u64,
) -> Result<Run, Halted> {
    let size_bytes = device.geometry().size_bytes;
    let clients = clients(load, size_bytes, seed);
    let began_ns = env.now_ns();
    let shared = Rc::new(Shared {
        env: env.clone(),
        device: Rc::clone(device),
        payload: Payload::new(seed),
        ends_ns: began_ns.saturating_add(duration_ns),
        run: RefCell::default(),
        written: Cell::new(0),
        left: Cell::new(clients.len()),
        failed: RefCell::default(),
        waits: RefCell::default(),
    });
    for client in clients {
        let shared = Rc::clone(&shared);
        env.spawn(async move {
            shared.serve(client).await;
            shared.left.set(shared.left.get() - 1);
            if shared.left.get() == 0
                && let Some(waker) = shared.waits.take()
            {
                waker.wake();
            }
        });
    }
    poll_fn(|context| match shared.left.get() {
        0 => Poll::Ready(()),
        _ => {
            shared.waits.replace(Some(context.waker().clone()));
            Poll::Pending
        }
    })
    .await;
    match shared.failed.take() {
        Some(failed) => Err(Halted::Unavailable(failed)),
        None => Ok(shared.run.take()),
    }
}

/// Where a client's requests come from.
type Client = Box<dyn FnMut() -> Access>;

fn clients(load: &Load, size_bytes: u64, seed: u64) -> Vec<Client> {
    match load {
        Load::Mixture => {
            let each = MIXTURE.into_iter().flat_map(|(clients, len)| (0..clients).map(move |_| len));
            let each =
                (seed..).zip(each).map(|(seed, len)| Box::new(at_random(seed, len, size_bytes)) as Client);
            each.collect()
        }
        Load::Recorded(requests) => {
            let next = Rc::new(Cell::new(0));
            (0..DEPTH).map(|_| Box::new(recorded(requests, &next, size_bytes)) as Client).collect()
        }
    }
}

/// Writes of `len` bytes at places that are multiples of it.
fn at_random(seed: u64, len: u64, size_bytes: u64) -> impl FnMut() -> Access + use<> {
    use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};
    let mut random = StdRng::seed_from_u64(seed);
    let places = (size_bytes / len).max(1);
    move || Access { op: Op::Write, offset: random.random_range(0..places) * len, len }
}

/// The next of the requests that all clients share.
fn recorded(
    requests: &Rc<[Access]>,
    next: &Rc<Cell<usize>>,
    size_bytes: u64,
) -> impl FnMut() -> Access + use<> {
    let (requests, next) = (Rc::clone(requests), Rc::clone(next));
    move || {
        let at = next.get();
        next.set((at + 1) % requests.len());
        let Access { op, offset, len } = requests[at];
        let len = len.clamp(1, size_bytes);
        Access { op, offset: place_within(size_bytes, offset, len), len }
    }
}

/// Where a request is on a smaller device, of whole pages: its place within a page stays, but for one as large as the device.
fn place_within(size_bytes: u64, offset: u64, len: u64) -> u64 {
    let wrapped = offset % size_bytes;
    let beyond = (wrapped + len).saturating_sub(size_bytes);
    wrapped.saturating_sub(beyond.next_multiple_of(PAGE_BYTES))
}

impl<E: Env, D: Device> Shared<E, D> {
    async fn serve(&self, mut next: Client) {
        let mut buffer = Vec::new();
        // Each has one request at least, however busy the machine is.
        loop {
            let Access { op, offset, len } = next();
            buffer.resize(len as usize, 0);
            if op == Op::Write {
                let number = self.written.replace(self.written.get() + 1);
                self.payload.fill(number, &mut buffer);
            }
            let began_ns = self.env.now_ns();
            let done = match op {
                Op::Write => self.device.write(offset, &buffer, Durability::Durable).await,
                Op::Read => self.device.read(offset, &mut buffer).await,
                Op::Flush => Ok(()),
            };
            if let Err(error) = done {
                self.failed.borrow_mut().get_or_insert(format!("a trial failed: {error}"));
                return;
            }
            if op == Op::Write {
                let mut run = self.run.borrow_mut();
                run.bytes += len;
                let times = if len <= SMALL_MAX_BYTES { &mut run.small } else { &mut run.large };
                times.add(self.env.now_ns() - began_ns);
            }
            if self.failed.borrow().is_some() || self.env.now_ns() >= self.ends_ns {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_recorded_request_keeps_its_place_within_a_page(
            pages in 2..100u64, offset in 0..1u64 << 40, len in 1..100 * PAGE_BYTES,
        ) {
            let size_bytes = pages * PAGE_BYTES;
            let len = len.min(size_bytes);
            let place = place_within(size_bytes, offset, len);
            prop_assert!(place + len <= size_bytes);
            if len <= size_bytes - PAGE_BYTES {
                prop_assert_eq!(place % PAGE_BYTES, offset % PAGE_BYTES);
            }
            if offset + len <= size_bytes {
                prop_assert_eq!(place, offset);
            }
        }
    }
}
