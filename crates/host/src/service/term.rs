//! The time for which one opening of the volume is served: what is done for it ends with it.

use std::cell::Cell;
use std::future::Future;
use std::rc::Rc;

use evenkeel_engine::env::Env;

use crate::event_loop::Loop;
use crate::wait::{Notify, race};

/// Such a time. A clone is another handle to the same.
#[derive(Clone)]
pub(super) struct Term(Rc<Inner>);

struct Inner {
    event_loop: Loop,
    is_over: Cell<bool>,
    ended: Notify,
}

impl Term {
    pub(super) fn begin(event_loop: &Loop) -> Self {
        let (event_loop, is_over) = (event_loop.clone(), Cell::new(false));
        Self(Rc::new(Inner { event_loop, is_over, ended: Notify::default() }))
    }

    /// Runs `task` until it ends or the term does, whichever is first.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        let term = self.clone();
        self.0.event_loop.spawn(async move {
            race(term.over(), task).await;
        });
    }

    /// Ends it.
    pub(super) fn end(&self) {
        self.0.is_over.set(true);
        self.0.ended.all();
    }

    async fn over(&self) {
        self.0.ended.until(|| self.0.is_over.get().then_some(())).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event_loop::{Backend, EventLoop};

    #[test]
    fn what_is_done_in_a_term_ends_with_it() {
        let event_loop = EventLoop::new(Backend::Threads).unwrap();
        let (term, held) = (Term::begin(&event_loop.handle()), Rc::new(()));
        for _ in 0..3 {
            let held = Rc::clone(&held);
            term.spawn(async move {
                std::future::pending::<()>().await;
                drop(held);
            });
        }
        let settle = || event_loop.block_on(event_loop.handle().sleep(1));
        settle();
        assert_eq!(Rc::strong_count(&held), 4);
        term.end();
        settle();
        assert_eq!(Rc::strong_count(&held), 1);
        let late = Rc::clone(&held);
        term.spawn(async move {
            std::future::pending::<()>().await;
            drop(late);
        });
        settle();
        assert_eq!(Rc::strong_count(&held), 1, "nothing begins after its end");
    }
}
