//! The loop that sends requests, and what it measures.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_engine::env::Env;
use evenkeel_engine::join::yield_now;

use super::statistics::{Kind, Times, Windows};
use super::target::Target;
use super::{Pace, Payload, Settings, UNDER_WAY_MAX, UNDER_WAY_MAX_BYTES};
use evenkeel_trace::Op;

/// Memory of requests that is kept to be used again.
const KEPT_BUFFERS: usize = 256;

/// Larger ones are not kept.
const KEPT_BUFFER_MAX_BYTES: usize = 1 << 20;

/// A request in its place on the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// On the recorder's clock; not before the request before it.
    pub time_ns: u64,
    /// What.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len_bytes: u32,
    /// Whether it lies elsewhere than it would on a target that is large enough.
    pub is_moved: bool,
}

/// How far a replay is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Requests that were sent.
    pub sent: u64,
    /// Since the first was due.
    pub elapsed_ns: u64,
    /// Of the trace: from its first request to the one that is next.
    pub traced_ns: u64,
    /// How late that one is by now.
    pub behind_ns: u64,
}

/// Why a replay ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Every request was sent and carried out.
    Complete,
    /// It was asked to stop.
    Interrupted,
    /// The time was over.
    TimeUp,
    /// The target failed, or the trace could not be read further; in one line.
    Failed(String),
}

/// What was measured, up to the end however it came.
#[derive(Debug, Clone)]
pub struct Measured {
    /// How it ended.
    pub ending: Ending,
    /// Reads.
    pub reads: Kind,
    /// Writes.
    pub writes: Kind,
    /// Flushes.
    pub flushes: Kind,
    /// How late requests were sent, whatever the reason; empty where none was due at a moment.
    pub lateness: Times,
    /// Throughput over time.
    pub windows: Windows,
    /// Requests sent.
    pub sent: u64,
    /// Requests that the target refused or failed.
    pub failed: u64,
    /// Requests that were moved to fit.
    pub moved: u64,
    /// Requests that were made larger to be whole granules of the target.
    pub widened: u64,
    /// Requests that were sent later because too many others were under way.
    pub held_back: u64,
    /// Most requests that were under way at once.
    pub under_way_peak: usize,
    /// From when the first was due to the end of the last.
    pub elapsed_ns: u64,
}

impl Measured {
    fn new(window_ns: u64) -> Self {
        Self {
            ending: Ending::Complete,
            reads: Kind::default(),
            writes: Kind::default(),
            flushes: Kind::default(),
            lateness: Times::default(),
            windows: Windows::new(window_ns),
            sent: 0,
            failed: 0,
            moved: 0,
            widened: 0,
            held_back: 0,
            under_way_peak: 0,
            elapsed_ns: 0,
        }
    }

    fn kind(&mut self, op: Op) -> &mut Kind {
        match op {
            Op::Read => &mut self.reads,
            Op::Write => &mut self.writes,
            Op::Flush => &mut self.flushes,
        }
    }
}

/// A request on its way.
struct Sent {
    request: Request,
    /// Where it really goes, in whole granules.
    offset: u64,
    buffer: Vec<u8>,
    due_ns: Option<u64>,
}

/// What the loop and the requests under way share.
struct Shared {
    origin_ns: u64,
    under_way: Cell<usize>,
    under_way_bytes: Cell<u64>,
    measured: RefCell<Measured>,
    failure: RefCell<Option<String>>,
    /// The loop, where it waits for a request to end.
    waits: RefCell<Option<Waker>>,
    buffers: RefCell<Vec<Vec<u8>>>,
}

/// Sends `requests` to `target`, and waits for the last of them. It ends early where `stops` says so, where the target
/// fails, and where a request cannot be had.
pub async fn run<E: Env, T: Target>(
    env: &E,
    target: &Rc<T>,
    requests: impl Iterator<Item = Result<Request, String>>,
    settings: &Settings,
    stops: impl Fn() -> bool,
    mut progress: impl FnMut(Progress),
) -> Measured {
    // Looked up to here: what reads ahead does so before the clock starts.
    let mut requests = requests.peekable();
    let _found_again_below = requests.peek();
    let shared = Rc::new(Shared {
        origin_ns: env.now_ns(),
        under_way: Cell::new(0),
        under_way_bytes: Cell::new(0),
        measured: RefCell::new(Measured::new(settings.window_ns)),
        failure: RefCell::new(None),
        waits: RefCell::new(None),
        buffers: RefCell::default(),
    });
    let mut sender = Sender { env, target, settings, shared: &shared, payload: Payload::new(settings.seed) };
    let ending = sender.send_all(requests, &stops, &mut progress).await;
    shared.until(|| shared.under_way.get() == 0).await;
    let mut measured = shared.measured.replace(Measured::new(settings.window_ns));
    measured.elapsed_ns = env.now_ns() - shared.origin_ns;
    // Also where it came after the last was sent.
    measured.ending = match shared.failure.take() {
        Some(failure) => Ending::Failed(failure),
        None => ending,
    };
    measured
}

struct Sender<'a, E, T> {
    env: &'a E,
    target: &'a Rc<T>,
    settings: &'a Settings,
    shared: &'a Rc<Shared>,
    payload: Payload,
}

impl<E: Env, T: Target> Sender<'_, E, T> {
    async fn send_all(
        &mut self,
        requests: impl Iterator<Item = Result<Request, String>>,
        stops: &impl Fn() -> bool,
        progress: &mut impl FnMut(Progress),
    ) -> Ending {
        let (mut first_ns, mut looked_ns) = (None, self.shared.origin_ns);
        for (number, request) in (0u64..).zip(requests) {
            let request = match request {
                Ok(request) => request,
                Err(why) => return Ending::Failed(why),
            };
            let traced_ns = request.time_ns - *first_ns.get_or_insert(request.time_ns);
            let due_ns = self.due_ns(traced_ns);
            let sent = self.make(number, request, due_ns);
            loop {
                let now_ns = self.env.now_ns();
                if now_ns - looked_ns >= self.settings.look_ns || number == 0 {
                    looked_ns = now_ns;
                    let behind_ns = due_ns.map_or(0, |due_ns| now_ns.saturating_sub(due_ns));
                    let elapsed_ns = now_ns - self.shared.origin_ns;
                    progress(Progress { sent: number, elapsed_ns, traced_ns, behind_ns });
                    if stops() {
                        return Ending::Interrupted;
                    }
                }
                if self.shared.failure.borrow().is_some() {
                    // The failure itself is told by whoever asked for all this.
                    return Ending::Complete;
                }
                let sends_ns = due_ns.unwrap_or(now_ns);
                if self.settings.time_max_ns.is_some_and(|max_ns| sends_ns - self.shared.origin_ns > max_ns) {
                    return Ending::TimeUp;
                }
                match sends_ns.saturating_sub(now_ns) {
                    0 => break,
                    left_ns if left_ns <= self.settings.watch_ns => yield_now().await,
                    left_ns => {
                        self.env.sleep((left_ns - self.settings.watch_ns).min(self.settings.look_ns)).await;
                    }
                }
            }
            self.wait_for_room(sent.buffer.len() as u64).await;
            self.send(sent);
            // It is on its way before the next one is looked at.
            yield_now().await;
        }
        Ending::Complete
    }

    /// When a request is to be sent; `None` for as soon as may be.
    fn due_ns(&self, traced_ns: u64) -> Option<u64> {
        match self.settings.pace {
            Pace::Recorded { speed: 1.0 } => Some(self.shared.origin_ns.saturating_add(traced_ns)),
            Pace::Recorded { speed } => {
                let scaled_ns = traced_ns as f64 / speed;
                Some(self.shared.origin_ns.saturating_add(scaled_ns as u64))
            }
            Pace::Max { .. } => None,
        }
    }

    /// Makes a request ready to be sent, so that nothing is left to do when it is due.
    fn make(&self, number: u64, request: Request, due_ns: Option<u64>) -> Sent {
        let granule = u64::from(self.target.granule_bytes());
        let end = request.offset + u64::from(request.len_bytes);
        let (first, end) = (request.offset / granule * granule, end.next_multiple_of(granule));
        let len = (end - first) as usize;
        let mut buffer = self.shared.buffers.borrow_mut().pop().unwrap_or_default();
        match request.op {
            Op::Flush => buffer.clear(),
            Op::Read => buffer.resize(len, 0),
            Op::Write => {
                buffer.resize(len, 0);
                self.payload.fill(number, &mut buffer);
            }
        }
        Sent { request, offset: first, buffer, due_ns }
    }

    async fn wait_for_room(&self, len_bytes: u64) {
        let under_way_max = match self.settings.pace {
            Pace::Recorded { .. } => UNDER_WAY_MAX,
            Pace::Max { depth } => depth.clamp(1, UNDER_WAY_MAX),
        };
        let shared = self.shared;
        let has_room = || {
            let (count, bytes) = (shared.under_way.get(), shared.under_way_bytes.get());
            count == 0 || (count < under_way_max && bytes.saturating_add(len_bytes) <= UNDER_WAY_MAX_BYTES)
        };
        if has_room() {
            return;
        }
        if matches!(self.settings.pace, Pace::Recorded { .. }) {
            shared.measured.borrow_mut().held_back += 1;
        }
        shared.until(has_room).await;
    }

    fn send(&self, sent: Sent) {
        let (shared, len) = (Rc::clone(self.shared), sent.buffer.len() as u64);
        shared.under_way.set(shared.under_way.get() + 1);
        shared.under_way_bytes.set(shared.under_way_bytes.get() + len);
        {
            let mut measured = shared.measured.borrow_mut();
            measured.sent += 1;
            measured.moved += u64::from(sent.request.is_moved);
            measured.widened +=
                u64::from(sent.request.op != Op::Flush && len != u64::from(sent.request.len_bytes));
            measured.under_way_peak = measured.under_way_peak.max(shared.under_way.get());
        }
        let (env, target) = (self.env.clone(), Rc::clone(self.target));
        let durability = self.settings.writes.into();
        self.env.spawn(async move {
            let Sent { request, offset, mut buffer, due_ns } = sent;
            let sent_ns = env.now_ns();
            let outcome = match request.op {
                Op::Read => target.read(offset, &mut buffer).await,
                Op::Write => target.write(offset, &buffer, durability).await,
                Op::Flush => target.flush().await,
            };
            let ended_ns = env.now_ns();
            drop(target);
            shared.end(&request, due_ns, sent_ns, ended_ns, len, outcome);
            if buffer.capacity() <= KEPT_BUFFER_MAX_BYTES && shared.buffers.borrow().len() < KEPT_BUFFERS {
                shared.buffers.borrow_mut().push(buffer);
            }
        });
    }
}

impl Shared {
    /// A request came to its end.
    fn end(
        &self,
        request: &Request,
        due_ns: Option<u64>,
        sent_ns: u64,
        ended_ns: u64,
        len: u64,
        outcome: Result<(), String>,
    ) {
        let mut measured = self.measured.borrow_mut();
        match outcome {
            Ok(()) => {
                let latency_ns = ended_ns - due_ns.unwrap_or(sent_ns);
                if let Some(due_ns) = due_ns {
                    measured.lateness.add(sent_ns - due_ns);
                }
                let bytes = u64::from(request.len_bytes);
                measured.windows.add(ended_ns - self.origin_ns, request.op, bytes, latency_ns);
                let kind = measured.kind(request.op);
                kind.requests += 1;
                kind.bytes += bytes;
                kind.sent_bytes += len;
                kind.latency.add(latency_ns);
                kind.service.add(ended_ns - sent_ns);
            }
            Err(why) => {
                measured.failed += 1;
                self.failure.borrow_mut().get_or_insert(why);
            }
        }
        drop(measured);
        self.under_way.set(self.under_way.get() - 1);
        self.under_way_bytes.set(self.under_way_bytes.get() - len);
        if let Some(waker) = self.waits.take() {
            waker.wake();
        }
    }

    /// Ends once `ready` says so; it is asked at once and after each request that ends.
    async fn until(&self, ready: impl Fn() -> bool) {
        poll_fn(|context| {
            if ready() {
                return Poll::Ready(());
            }
            *self.waits.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}
