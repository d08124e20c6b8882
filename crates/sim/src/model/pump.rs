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

/// A request under way.
#[derive(Debug)]
enum Asked {
    /// Who waits for it.
    Waits(Waker),
    /// It was done at this time of the model.
    Done(u64),
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
    under_way: RefCell<BTreeMap<u64, Asked>>,
    /// The model's time at which a task wakes up to run it, and which task that is: one that wakes up and is not it has
    /// been replaced.
    armed: Cell<(u64, u64)>,
    done: RefCell<Vec<Completion>>,
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
            // Of an earlier run's requests none has these tags.
            next_tag: Cell::new(since_ns << 16),
            under_way: RefCell::default(),
            armed: Cell::new((u64::MAX, 0)),
            done: RefCell::default(),
            cuts: Cell::default(),
        }))
    }

    /// The model.
    pub fn model(&self) -> &SharedStorage {
        &self.0.model
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
        for completion in done.drain(..) {
            // Of an earlier run's nobody is left who waits.
            if let Some(asked) = state.under_way.borrow_mut().get_mut(&completion.tag)
                && let Asked::Waits(waker) = std::mem::replace(asked, Asked::Done(completion.at_ns))
            {
                wakers.push(waker);
            }
        }
        state.done.replace(done);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Sees to it that the model is run when something happens next.
    fn arm(&self) {
        let Some(next_ns) = self.0.model.borrow().next_event_ns() else { return };
        let (armed_ns, number) = self.0.armed.get();
        if next_ns >= armed_ns || (self.0.is_stopped)() {
            return;
        }
        let number = number + 1;
        self.0.armed.set((next_ns, number));
        let pump = self.clone();
        self.0.env.spawn(async move {
            loop {
                let left_ns = next_ns.saturating_sub(pump.now_ns());
                pump.0.env.sleep(left_ns.saturating_sub(pump.0.watch_ns)).await;
                if pump.0.armed.get().1 != number {
                    return; // Another task has taken over.
                }
                if pump.now_ns() >= next_ns {
                    break;
                }
            }
            pump.disarm();
            pump.run();
            pump.arm();
        });
    }

    /// Whichever task is armed has nothing to do any more.
    fn disarm(&self) {
        self.0.armed.set((u64::MAX, self.0.armed.get().1 + 1));
    }

    /// Submits a request and waits until it is done; answers how late that is told, against the model's time, or
    /// `None` if a power cut came first.
    pub async fn ask(&self, operation: Operation, extent: Extent, bytes: Option<&[u8]>) -> Option<u64> {
        self.ask_for(0, operation, extent, bytes).await
    }

    /// As [`Self::ask`], for a stream: 0 is nobody's.
    pub async fn ask_for(
        &self,
        stream: u32,
        operation: Operation,
        extent: Extent,
        bytes: Option<&[u8]>,
    ) -> Option<u64> {
        let state = &*self.0;
        self.run();
        let tag = state.next_tag.replace(state.next_tag.get() + 1);
        let request = Request { stream, ..Request::new(tag, operation, extent.offset, extent.len) };
        let now_ns = state.model.borrow().now_ns();
        let cuts = state.cuts.get();
        state.under_way.borrow_mut().insert(tag, Asked::Waits(Waker::noop().clone()));
        match bytes {
            Some(bytes) => state.model.borrow_mut().submit_write(now_ns, request, bytes),
            None => state.model.borrow_mut().submit(now_ns, request),
        }
        self.arm();
        poll_fn(|context| {
            if state.cuts.get() != cuts {
                return Poll::Ready(None);
            }
            let mut under_way = state.under_way.borrow_mut();
            match under_way.get_mut(&tag) {
                Some(Asked::Waits(waker)) => {
                    waker.clone_from(context.waker());
                    Poll::Pending
                }
                Some(&mut Asked::Done(at_ns)) => {
                    under_way.remove(&tag);
                    Poll::Ready(Some(self.now_ns().saturating_sub(at_ns)))
                }
                None => unreachable!("only who asked takes the answer"),
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
        self.disarm();
        state.epoch_ns.set(i128::from(state.env.now_ns()) + i128::from(ready_ns));
        let waiting = state.under_way.take();
        for asked in waiting.into_values() {
            if let Asked::Waits(waker) = asked {
                waker.wake();
            }
        }
        ready_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::Executor;
    use crate::model::presets;

    #[test]
    fn what_a_request_costs_does_not_grow_with_those_before_it() {
        let polls_of = |requests: u64| {
            let mut executor = Executor::new(1);
            let env = executor.env();
            let flash = presets::find("sata-2011").unwrap().flash(64 << 20).unwrap();
            let pump = Pump::new(Rc::new(RefCell::new(flash)), env.clone(), 0, || false);
            let left = Rc::new(Cell::new(requests));
            executor
                .block_on(async {
                    for client in 0..8 {
                        let (pump, left, env) = (pump.clone(), Rc::clone(&left), env.clone());
                        env.clone().spawn(async move {
                            let mut random = Random::new(client);
                            while left.get() > 0 {
                                left.set(left.get() - 1);
                                let extent = Extent::new(random.below(16_000) * 4096, 4096);
                                let operation = *random.pick(&[Operation::Read, Operation::DurableWrite]);
                                assert!(pump.ask(operation, extent, None).await.is_some());
                                env.sleep(random.below(100_000)).await;
                            }
                        });
                    }
                    while left.get() > 0 {
                        env.sleep(1_000_000).await;
                    }
                })
                .unwrap();
            executor.polls()
        };
        let (few, many) = (polls_of(1000), polls_of(10_000));
        assert!(many < few * 12, "{few} polls for 1,000 requests, {many} for 10,000");
    }
}
