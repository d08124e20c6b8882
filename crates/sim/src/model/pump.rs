//! A model driven by somebody's clock: tasks submit requests and wait until they are done.
//!
//! 1. The model is brought up to the present before each request, and whenever something happens in it.
//! 2. A power cut ends all waiting: who waited is told that there is no answer.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use evenkeel_engine::device::Extent;
use evenkeel_engine::env::Env;

use super::{Completion, Operation, Request, Storage};
use crate::random::Random;

/// A drive that outlives who drives it.
pub type SharedStorage = Rc<RefCell<dyn Storage>>;

/// How late completions were told, against the model's time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Completions.
    pub completions: u64,
    /// All of it.
    pub sum_ns: u64,
    /// The worst.
    pub most_ns: u64,
    /// Those that were no more than 20 us late.
    pub within_20_us: u64,
}

struct State<E> {
    model: SharedStorage,
    env: E,
    /// Whether the run has ended: then nothing has an effect.
    is_stopped: Box<dyn Fn() -> bool>,
    /// How long before something happens the clock is watched instead of waited for.
    watch_ns: u64,
    /// The clock's time at the model's time 0; the model may have been at work before.
    epoch_ns: Cell<i128>,
    next_tag: Cell<u64>,
    /// Requests under way; `None` once they are done.
    under_way: RefCell<BTreeMap<u64, Option<Waker>>>,
    /// The model's time at which the earliest task wakes up to run it.
    armed_ns: Cell<u64>,
    done: RefCell<Vec<Completion>>,
    lateness: Cell<Lateness>,
    cuts: Cell<u64>,
}

/// Drives a model. A clone is another handle to the same.
pub struct Pump<E>(Rc<State<E>>);

impl<E> Clone for Pump<E> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<E> fmt::Debug for Pump<E> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pump").field("under_way", &self.0.under_way.borrow().len()).finish_non_exhaustive()
    }
}

impl<E: Env + Clone + 'static> Pump<E> {
    /// Drives `model` with the clock of `env`, from the model's present on. `watch_ns` before something happens the
    /// clock is watched, other tasks in between, as timers of real clocks come late; virtual time needs none.
    pub fn new(model: SharedStorage, env: E, watch_ns: u64, is_stopped: impl Fn() -> bool + 'static) -> Self {
        let since_ns = model.borrow().now_ns();
        let epoch_ns = i128::from(env.now_ns()) - i128::from(since_ns);
        Self(Rc::new(State {
            model,
            env,
            is_stopped: Box::new(is_stopped),
            watch_ns,
            epoch_ns: Cell::new(epoch_ns),
            // Of an earlier life's requests none has these tags.
            next_tag: Cell::new(since_ns << 16),
            under_way: RefCell::default(),
            armed_ns: Cell::new(u64::MAX),
            done: RefCell::default(),
            lateness: Cell::default(),
            cuts: Cell::default(),
        }))
    }

    /// The model.
    pub fn model(&self) -> &SharedStorage {
        &self.0.model
    }

    /// How late completions were.
    pub fn lateness(&self) -> Lateness {
        self.0.lateness.get()
    }

    /// The model's present; 0 before the drive is ready again after a power cut.
    fn now_ns(&self) -> u64 {
        u64::try_from(i128::from(self.0.env.now_ns()) - self.0.epoch_ns.get()).unwrap_or(0)
    }

    /// Lets the model come up to the present, and wakes whoever waits for what is done.
    fn run(&self) {
        let state = &*self.0;
        if (state.is_stopped)() {
            return;
        }
        let now_ns = self.now_ns();
        let mut done = state.done.take();
        state.model.borrow_mut().run_until(now_ns, &mut done);
        let mut wakers = Vec::new();
        let mut lateness = state.lateness.get();
        for completion in done.drain(..) {
            // Of an earlier life's nobody is left who waits.
            if let Some(waiter) = state.under_way.borrow_mut().get_mut(&completion.tag) {
                wakers.extend(waiter.take());
                let late_ns = now_ns - completion.at_ns;
                lateness.completions += 1;
                lateness.sum_ns += late_ns;
                lateness.most_ns = lateness.most_ns.max(late_ns);
                lateness.within_20_us += u64::from(late_ns <= 20_000);
            }
        }
        state.lateness.set(lateness);
        state.done.replace(done);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sees to it that the model is run when something happens next.
    fn arm(&self) {
        let Some(next_ns) = self.0.model.borrow().next_event_ns() else { return };
        if next_ns >= self.0.armed_ns.get() || (self.0.is_stopped)() {
            return;
        }
        self.0.armed_ns.set(next_ns);
        let pump = self.clone();
        let cuts = self.0.cuts.get();
        self.0.env.spawn(async move {
            loop {
                let left_ns = next_ns.saturating_sub(pump.now_ns());
                pump.0.env.sleep(left_ns.saturating_sub(pump.0.watch_ns)).await;
                // An earlier event came between: whoever ran the model for that has armed anew.
                if pump.0.cuts.get() != cuts || pump.0.armed_ns.get() != next_ns {
                    return;
                }
                if pump.now_ns() >= next_ns {
                    break;
                }
            }
            pump.0.armed_ns.set(u64::MAX);
            pump.run();
            pump.arm();
        });
    }

    /// Submits a request and waits until it is done; false if a power cut came first.
    pub async fn ask(&self, operation: Operation, extent: Extent, bytes: Option<&[u8]>) -> bool {
        self.ask_for(0, operation, extent, bytes).await
    }

    /// As [`Self::ask`], for a stream: 0 is nobody's.
    pub async fn ask_for(
        &self,
        stream: u32,
        operation: Operation,
        extent: Extent,
        bytes: Option<&[u8]>,
    ) -> bool {
        let state = &*self.0;
        self.run();
        let tag = state.next_tag.replace(state.next_tag.get() + 1);
        let request = Request { stream, ..Request::new(tag, operation, extent.offset, extent.len) };
        let now_ns = state.model.borrow().now_ns();
        let cuts = state.cuts.get();
        state.under_way.borrow_mut().insert(tag, Some(Waker::noop().clone()));
        match bytes {
            Some(bytes) => state.model.borrow_mut().submit_write(now_ns, request, bytes),
            None => state.model.borrow_mut().submit(now_ns, request),
        }
        self.arm();
        poll_fn(|context| {
            if state.cuts.get() != cuts {
                return Poll::Ready(false);
            }
            let mut under_way = state.under_way.borrow_mut();
            match under_way.get_mut(&tag) {
                Some(Some(waker)) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
                _ => {
                    under_way.remove(&tag);
                    Poll::Ready(true)
                }
            }
        })
        .await
    }

    /// The power fails and comes back at once; answers what the drive takes to be ready again. Whoever waits is
    /// told.
    pub fn power_cut(&self, random: &mut Random) -> u64 {
        let state = &*self.0;
        self.run();
        let ready_ns = state.model.borrow_mut().power_cut(random);
        state.cuts.set(state.cuts.get() + 1);
        state.armed_ns.set(u64::MAX);
        state.epoch_ns.set(i128::from(state.env.now_ns()) + i128::from(ready_ns));
        let waiting = state.under_way.take();
        waiting.into_values().flatten().for_each(Waker::wake);
        ready_ns
    }
}
