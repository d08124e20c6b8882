//! Waiting for what a killed process still holds.
//!
//! The kernel takes a ring apart after its process is gone and waited for: operations under way end first, and
//! until then the ring keeps files locked and sockets listening. That is well so: whoever gets the lock knows that
//! no write of the dead process lands any more. Whoever comes right after a kill only has to wait.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

/// Between two attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// Tries until `attempt` succeeds, fails with something else than `is_held`, or `busy_timeout` is over.
pub(crate) fn retry_while_busy<T>(
    busy_timeout: Duration,
    is_held: impl Fn(&io::Error) -> bool,
    mut attempt: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let began = Instant::now();
    loop {
        match attempt() {
            Err(error) if is_held(&error) && began.elapsed() < busy_timeout => thread::sleep(PAUSE),
            other => return other,
        }
    }
}
