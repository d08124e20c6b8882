//! What the engine knows of the world besides its devices: time, tasks, chance, and memory that outlives it.
//!
//! On a real machine the event loop stands behind it; in the simulator, virtual time.

use std::future::Future;

/// Time, tasks and chance. A clone is another handle to the same world.
pub trait Env: Clone + 'static {
    /// Nanoseconds on a clock that only goes forward.
    fn now_ns(&self) -> u64;

    /// Ends after `duration_ns`.
    fn sleep(&self, duration_ns: u64) -> impl Future<Output = ()>;

    /// Runs `task` beside the caller, on the same thread.
    fn spawn(&self, task: impl Future<Output = ()> + 'static);

    /// The same for work that may have thousands of tasks at once, such as what a checkpoint writes: where it matters who is
    /// first, these stand in a line of their own, and the two lines take turns.
    fn spawn_background(&self, task: impl Future<Output = ()> + 'static) {
        self.spawn(task);
    }

    /// A random number.
    fn random(&self) -> u64;
}

/// Memory that a kill -9 of the process does not lose, and a power cut does.
///
/// A kill may strike between any two stores, and within one: then a prefix of its bytes, in units of 8, has
/// arrived.
pub trait Arena: 'static {
    /// Bytes it holds. They are zero when it is new.
    fn len(&self) -> usize;

    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Stores `bytes` at `offset`, which with their length lies within [`Self::len`].
    fn store(&self, offset: usize, bytes: &[u8]);

    /// Fills `into` from `offset`.
    fn load(&self, offset: usize, into: &mut [u8]);
}
