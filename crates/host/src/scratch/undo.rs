//! What must be undone however the work ends: at the end, at an error, at a panic, and when a second signal ends the
//! process. Mounts, loop devices, settings of the kernel: what no closing of files takes back.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

type Action = Box<dyn FnOnce() + Send>;

static LIVE: Mutex<Live> = Mutex::new(Live { actions: Vec::new(), next: 0, under_way: 0, closed: false });
/// Notified when what was under way has ended.
static ENDED: Condvar = Condvar::new();

struct Live {
    actions: Vec<(u64, Action)>,
    next: u64,
    /// Actions that were taken out and have not ended.
    under_way: u64,
    /// Set when the process is about to leave: nothing is done any more that would have to be undone.
    closed: bool,
}

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The promise that something is undone, at the latest when this is dropped.
#[derive(Debug)]
#[must_use = "it is undone when this is dropped"]
pub struct Undo(u64);

impl Undo {
    /// Does something and keeps how to undo it. No instant leaves it done without that: whoever undoes everything waits
    /// until it is done, or finds nothing being done.
    ///
    /// # Errors
    ///
    /// Those of `make`; `Interrupted` when the process is about to leave.
    pub fn make<T, E: From<io::Error>>(
        make: impl FnOnce() -> Result<T, E>,
        undo: impl FnOnce(&T) -> Action,
    ) -> Result<(Self, T), E> {
        let mut live = live();
        if live.closed {
            return Err(io::Error::from(io::ErrorKind::Interrupted).into());
        }
        let made = make()?;
        let id = live.next;
        live.next += 1;
        live.actions.push((id, undo(&made)));
        Ok((Self(id), made))
    }

    /// Leaves it done.
    pub fn forget(self) {
        live().actions.retain(|(id, _)| *id != self.0);
    }
}

impl Drop for Undo {
    fn drop(&mut self) {
        let action = {
            let mut live = live();
            let at = live.actions.iter().position(|(id, _)| *id == self.0);
            let action = at.map(|at| live.actions.remove(at).1);
            live.under_way += u64::from(action.is_some());
            action
        };
        if let Some(action) = action {
            let _ends_at_a_panic_too = UnderWay;
            action();
        }
    }
}

/// An action that counts as under way until this is dropped.
struct UnderWay;

impl Drop for UnderWay {
    fn drop(&mut self) {
        live().under_way -= 1;
        ENDED.notify_all();
    }
}

/// Undoes everything, the latest first, for a process that is about to leave without unwinding; nothing more is done
/// after it. What others are undoing has ended then, too: left in the middle, it would be undone by nobody.
pub fn everything() {
    live().closed = true;
    loop {
        let mut live = when_nothing_is_under_way();
        let Some((_, action)) = live.actions.pop() else { return };
        drop(live);
        action();
    }
}

fn when_nothing_is_under_way() -> MutexGuard<'static, Live> {
    ENDED.wait_while(live(), |live| live.under_way > 0).unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_done_is_undone_once_and_what_failed_is_not() {
        let undone = Arc::new(AtomicU32::new(0));
        let count = |undone: &Arc<AtomicU32>| -> Action {
            let undone = Arc::clone(undone);
            Box::new(move || {
                undone.fetch_add(1, Ordering::SeqCst);
            })
        };
        let (guard, made) = Undo::make(|| Ok::<_, io::Error>(7), |_| count(&undone)).unwrap();
        assert_eq!((made, undone.load(Ordering::SeqCst)), (7, 0));
        drop(guard);
        assert_eq!(undone.load(Ordering::SeqCst), 1);
        let failed =
            Undo::make(|| Err::<(), _>(io::Error::from(io::ErrorKind::NotFound)), |()| count(&undone));
        assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(undone.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn whoever_leaves_waits_for_what_another_is_undoing() {
        let undone = Arc::new(AtomicU32::new(0));
        let (begins, begun) = mpsc::channel();
        let action: Action = {
            let undone = Arc::clone(&undone);
            Box::new(move || {
                begins.send(()).unwrap();
                // Whoever does not wait looks long before this has ended.
                thread::sleep(Duration::from_millis(300));
                undone.fetch_add(1, Ordering::SeqCst);
            })
        };
        let (guard, ()) = Undo::make(|| Ok::<_, io::Error>(()), |()| action).unwrap();
        let other = thread::spawn(move || drop(guard));
        begun.recv().unwrap();
        drop(when_nothing_is_under_way());
        assert_eq!(undone.load(Ordering::SeqCst), 1);
        other.join().unwrap();
    }
}
