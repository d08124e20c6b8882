//! A loop's handle for other threads.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, mpsc};

use evenkeel_engine::env::Env;

use super::Loop;
use super::foreign::Foreign;

/// The loop is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the event loop has ended")]
pub struct Gone;

/// Puts work on a loop from any thread, and wakes it. A clone is another handle to the same loop.
#[derive(Clone)]
pub struct Remote(Arc<Foreign>);

impl fmt::Debug for Remote {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Remote").field("loop_id", &self.0.loop_id).finish()
    }
}

impl Remote {
    pub(super) fn new(foreign: &Arc<Foreign>) -> Self {
        Self(Arc::clone(foreign))
    }

    /// Has the loop call `call`, on its thread, while it runs.
    ///
    /// # Errors
    ///
    /// [`Gone`]; also a call that was accepted is dropped when the loop ends before it comes to it.
    pub fn post(&self, call: impl FnOnce(&Loop) + Send + 'static) -> Result<(), Gone> {
        if self.0.post(Box::new(call)) { Ok(()) } else { Err(Gone) }
    }

    /// Has the loop run the future that `make` makes. The future itself need not be [`Send`].
    ///
    /// # Errors
    ///
    /// As [`Self::post`].
    pub fn spawn<F>(&self, make: impl FnOnce(Loop) -> F + Send + 'static) -> Result<(), Gone>
    where
        F: Future<Output = ()> + 'static,
    {
        self.post(move |event_loop| event_loop.spawn(make(event_loop.clone())))
    }

    /// As [`Self::spawn`], and waits for the answer: for threads that are not the loop's.
    ///
    /// # Errors
    ///
    /// [`Gone`], also where the loop ends before the future does.
    pub fn wait_for<T, F>(&self, make: impl FnOnce(Loop) -> F + Send + 'static) -> Result<T, Gone>
    where
        T: Send + 'static,
        F: Future<Output = T> + 'static,
    {
        let (answer, answered) = mpsc::sync_channel(1);
        self.spawn(|event_loop| async move {
            // Nobody waits any more: nothing to tell.
            let _ = answer.send(make(event_loop).await);
        })?;
        answered.recv().map_err(|_| Gone)
    }
}
