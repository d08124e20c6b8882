//! The loop as the engine sees it: time, tasks and chance.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use evenkeel_engine::env::Env;

use super::tasks::Class;
use super::timers::TimerId;
use super::{Core, Loop};

/// Random numbers that are asked of the kernel at once.
const RANDOMS: usize = 64;

impl Env for Loop {
    fn now_ns(&self) -> u64 {
        self.core.now_ns()
    }

    fn sleep(&self, duration_ns: u64) -> impl Future<Output = ()> {
        let at_ns = self.core.now_ns().saturating_add(duration_ns);
        Sleep { core: Rc::clone(&self.core), at_ns, timer: None }
    }

    fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.core.tasks.spawn(Box::pin(task), Class::Foreground, &self.core.foreign);
    }

    fn spawn_background(&self, task: impl Future<Output = ()> + 'static) {
        self.core.tasks.spawn(Box::pin(task), Class::Background, &self.core.foreign);
    }

    fn random(&self) -> u64 {
        let mut randoms = self.core.randoms.borrow_mut();
        if randoms.is_empty() {
            let mut bytes = [0; 8 * RANDOMS];
            let mut filled = 0;
            while filled < bytes.len() {
                // It fails only where a signal comes first, or on kernels older than the rest of this asks for.
                match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
                    Ok(count) => filled += count,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(error) => panic!("the kernel gives no random numbers: {error}"),
                }
            }
            randoms.extend(bytes.as_chunks().0.iter().map(|&number| u64::from_ne_bytes(number)));
        }
        randoms.pop().expect("filled above")
    }
}

/// Ends once its timer has fired; even one of no duration lets every ready task run first.
struct Sleep {
    core: Rc<Core>,
    at_ns: u64,
    timer: Option<TimerId>,
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut timers = self.core.timers.borrow_mut();
        let timer = match self.timer {
            Some(timer) if timers.is_set(timer, context.waker()) => timer,
            Some(_) => return Poll::Ready(()),
            None => timers.set(self.at_ns, context.waker().clone()),
        };
        drop(timers);
        self.timer = Some(timer);
        Poll::Pending
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let Some(timer) = self.timer {
            self.core.timers.borrow_mut().cancel(timer);
        }
    }
}
