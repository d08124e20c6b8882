//! Whether a device still answers: it may take long where much is asked of it at once.
//!
//! 1. A device that answers nothing for as long as it may, while something is asked of it, is given up: what is asked of it is not
//!    waited for any longer.
//! 2. One that answers others in that time is well. A request that it leaves alone for [`LOST_AFTER`] times as long is lost.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use crate::env::Env;

/// Times as long as a device may be silent, a request may take of one that is not.
const LOST_AFTER: u64 = 6;

/// When a device answered last, whatever it was.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    last_ns: Cell<u64>,
}

impl Answers {
    /// What the device answers, which may be silent for `silent_max_ns`; `None` where it does not answer.
    pub(crate) async fn wait<T>(
        &self,
        env: &impl Env,
        silent_max_ns: u64,
        answer: impl Future<Output = T>,
    ) -> Option<T> {
        // Boxed: what a request asks of devices is not part of its task, of which there are many.
        let mut answer = Box::pin(answer);
        let began_ns = env.now_ns();
        let lost_ns = began_ns.saturating_add(silent_max_ns.saturating_mul(LOST_AFTER));
        let mut left_ns = silent_max_ns;
        while left_ns > 0 {
            let mut silence = pin!(env.sleep(left_ns));
            let answered = poll_fn(|context| match answer.as_mut().poll(context) {
                Poll::Ready(answered) => Poll::Ready(Some(answered)),
                Poll::Pending => silence.as_mut().poll(context).map(|()| None),
            });
            if let Some(answered) = answered.await {
                self.last_ns.set(env.now_ns());
                return Some(answered);
            }
            let silent_ns = self.last_ns.get().max(began_ns).saturating_add(silent_max_ns);
            left_ns = silent_ns.min(lost_ns).saturating_sub(env.now_ns());
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::rc::Rc;
    use std::task::{Context, Waker};

    use super::*;

    const SILENT_MAX_NS: u64 = 10;

    /// A clock on which time passes when somebody sleeps.
    #[derive(Clone, Default)]
    struct Clock(Rc<Cell<u64>>);

    impl Env for Clock {
        fn now_ns(&self) -> u64 {
            self.0.get()
        }

        fn sleep(&self, duration_ns: u64) -> impl Future<Output = ()> {
            let (now, until_ns) = (Rc::clone(&self.0), self.0.get() + duration_ns);
            poll_fn(move |_| {
                now.set(until_ns);
                Poll::Ready(())
            })
        }

        fn spawn(&self, _task: impl Future<Output = ()> + 'static) {}

        fn random(&self) -> u64 {
            0
        }
    }

    /// What becomes of a request, and when.
    fn waited<T>(answers: &Answers, clock: &Clock, answer: impl Future<Output = T>) -> (Option<T>, u64) {
        let mut waiting = pin!(answers.wait(clock, SILENT_MAX_NS, answer));
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answered) => (answered, clock.now_ns()),
            Poll::Pending => panic!("time passes"),
        }
    }

    #[test]
    fn a_device_that_answers_nothing_is_given_up_at_once_when_its_time_is_over() {
        let (answers, clock) = (Answers::default(), Clock::default());
        clock.0.set(100);
        assert_eq!(waited(&answers, &clock, ready(7)), (Some(7), 100));
        assert_eq!(waited(&answers, &clock, pending::<u8>()), (None, 110));
        assert_eq!(
            waited(&answers, &clock, pending::<u8>()),
            (None, 120),
            "what it answered before counts no more"
        );
    }

    #[test]
    fn a_device_that_answers_others_is_waited_for_until_the_request_counts_as_lost() {
        let (answers, clock) = (Answers::default(), Clock::default());
        // Soon after this is looked at, another one is answered.
        let others = |until_ns| {
            let (answers, now) = (&answers, Rc::clone(&clock.0));
            poll_fn(move |_| match now.get() {
                now_ns if now_ns >= until_ns => Poll::Ready(now_ns),
                now_ns => {
                    answers.last_ns.set(now_ns + SILENT_MAX_NS / 2);
                    Poll::Pending
                }
            })
        };
        assert_eq!(waited(&answers, &clock, others(35)), (Some(40), 40));
        assert_eq!(waited(&answers, &clock, others(u64::MAX)), (None, 40 + LOST_AFTER * SILENT_MAX_NS));
    }
}
