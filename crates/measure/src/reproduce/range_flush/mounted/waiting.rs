//! Waiting for one another in one executor.

use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// Tasks that wait for a condition.
#[derive(Default)]
pub(super) struct Waiting(RefCell<Vec<Waker>>);

impl Waiting {
    /// Ends once it is so; looks at once, and after each [`Self::look`].
    pub(super) async fn until(&self, mut is_so: impl FnMut() -> bool) {
        poll_fn(|context| {
            if is_so() {
                return Poll::Ready(());
            }
            self.0.borrow_mut().push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Lets all look.
    pub(super) fn look(&self) {
        self.0.take().into_iter().for_each(Waker::wake);
    }
}
