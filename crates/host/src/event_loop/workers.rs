//! Threads for calls that block.
//!
//! 1. A thread is started when there is work and nobody idle, up to [`WORKERS_MAX`]; idle ones stay.
//! 2. Writes that are not durable when they end, pages on their way home above all, come last and take no more than
//!    [`UNHURRIED_MAX`] threads: nobody waits for them, and a thread that finds the next one there at once is not woken
//!    for it.
//! 3. When the loop ends, work that was begun or queued is still done, then the threads leave.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use super::foreign::Foreign;
use super::request::{Completion, Request, Sync};
use super::threads::perform;

/// Blocking calls under way at once: what a drive gains from depth, it has gained by here.
const WORKERS_MAX: usize = 32;

/// Of them, writes that nobody waits for.
const UNHURRIED_MAX: usize = 8;

pub(super) enum Job {
    /// A file operation; its completion goes to the loop.
    Request(usize, Request, Arc<Foreign>),
    Call(Box<dyn FnOnce() + Send>),
}

impl Job {
    fn is_unhurried(&self) -> bool {
        matches!(self, Self::Request(_, Request::Write { sync: Sync::No, .. }, _))
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    unhurried: VecDeque<Job>,
    unhurried_under_way: usize,
    idle: usize,
    threads: usize,
    closed: bool,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    work: Condvar,
}

impl State {
    /// How many jobs may begin now.
    fn ready(&self) -> usize {
        self.jobs.len() + self.unhurried.len().min(UNHURRIED_MAX - self.unhurried_under_way)
    }

    fn take(&mut self) -> Option<Job> {
        if let Some(job) = self.jobs.pop_front() {
            return Some(job);
        }
        if self.unhurried_under_way == UNHURRIED_MAX {
            return None;
        }
        let job = self.unhurried.pop_front()?;
        self.unhurried_under_way += 1;
        Some(job)
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.take() {
                drop(state);
                let was_unhurried = job.is_unhurried();
                match job {
                    Job::Request(key, request, foreign) => {
                        let result = perform(&request);
                        foreign.complete(Completion { key, is_sync: false, result });
                    }
                    // Whoever waits for it is told by the closure itself.
                    Job::Call(call) => drop(catch_unwind(AssertUnwindSafe(call))),
                }
                state = self.state();
                state.unhurried_under_way -= usize::from(was_unhurried);
                continue;
            }
            if state.closed {
                state.threads -= 1;
                return;
            }
            state.idle += 1;
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// The threads of one loop, or of one file that may not answer.
#[derive(Default)]
pub(super) struct Workers(Arc<Shared>);

impl Workers {
    /// Has `job` done.
    ///
    /// # Errors
    ///
    /// Where no thread runs and none can be started; the job is given up then.
    pub(super) fn put(&self, job: Job) -> io::Result<()> {
        let mut state = self.0.state();
        let is_unhurried = job.is_unhurried();
        let queue = if is_unhurried { &mut state.unhurried } else { &mut state.jobs };
        queue.push_back(job);
        if is_unhurried && state.unhurried_under_way + state.unhurried.len() > UNHURRIED_MAX {
            return Ok(()); // the next that ends is followed by it
        }
        if state.ready() <= state.idle || state.threads == WORKERS_MAX {
            drop(state);
            self.0.work.notify_one();
            return Ok(());
        }
        let shared = Arc::clone(&self.0);
        let started = thread::Builder::new().name("blocking".to_owned()).spawn(move || shared.work());
        match started {
            Ok(_) => state.threads += 1,
            Err(_) if state.threads > 0 => self.0.work.notify_one(),
            Err(error) => {
                if is_unhurried { &mut state.unhurried } else { &mut state.jobs }.pop_back();
                return Err(error);
            }
        }
        Ok(())
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.work.notify_all();
    }
}
