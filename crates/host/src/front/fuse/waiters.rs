//! Who waited longest for what it made durable, lately.
//!
//! 1. [`THREADS_MAX`] threads a window are told apart at most: who waited least goes for one that is new.
//! 2. What is told is of the window that is under way and of the one before.

use std::cell::RefCell;
use std::collections::BTreeMap;

use crate::front::session::{WAITERS_MAX, WaiterFigures};

/// Nanoseconds of a window.
const WINDOW_NS: u64 = 30_000_000_000;

/// Threads of a window.
const THREADS_MAX: usize = 256;

/// How often, and for how many nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
struct Waited {
    fsyncs: u64,
    ns: u64,
}

#[derive(Debug, Default)]
struct Window {
    number: u64,
    threads: BTreeMap<u32, Waited>,
}

/// Who waited in the last two windows.
#[derive(Debug, Default)]
pub(super) struct Waiters(RefCell<[Window; 2]>);

impl Waiters {
    /// A thread waited for so long. What the kernel asks for by itself is of thread 0, and not counted.
    pub(super) fn count(&self, now_ns: u64, thread: u32, took_ns: u64) {
        if thread == 0 {
            return;
        }
        let number = now_ns / WINDOW_NS;
        let mut windows = self.0.borrow_mut();
        let window = &mut windows[(number % 2) as usize];
        if window.number != number {
            *window = Window { number, ..Window::default() };
        }
        if window.threads.len() >= THREADS_MAX && !window.threads.contains_key(&thread) {
            let least = window.threads.iter().min_by_key(|(_, waited)| waited.ns).map(|(&thread, _)| thread);
            least.and_then(|thread| window.threads.remove(&thread));
        }
        let waited = window.threads.entry(thread).or_default();
        waited.fsyncs += 1;
        waited.ns = waited.ns.saturating_add(took_ns);
    }

    /// Those that waited most, the first one most.
    pub(super) fn most(&self, now_ns: u64) -> [Option<WaiterFigures>; WAITERS_MAX] {
        let number = now_ns / WINDOW_NS;
        let mut threads: BTreeMap<u32, Waited> = BTreeMap::new();
        let windows = self.0.borrow();
        for window in windows.iter().filter(|window| window.number == number || window.number + 1 == number) {
            for (&thread, waited) in &window.threads {
                let sum = threads.entry(thread).or_default();
                sum.fsyncs += waited.fsyncs;
                sum.ns = sum.ns.saturating_add(waited.ns);
            }
        }
        let mut sorted: Vec<(u32, Waited)> = threads.into_iter().collect();
        sorted.sort_by_key(|(_, waited)| std::cmp::Reverse(waited.ns));
        let mut most = sorted.into_iter();
        std::array::from_fn(|_| {
            let (thread, waited) = most.next()?;
            Some(WaiterFigures { thread, fsyncs: waited.fsyncs, waited_ns: waited.ns })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(waiters: &Waiters, now_ns: u64) -> Vec<(u32, u64, u64)> {
        let most = waiters.most(now_ns).into_iter().flatten();
        most.map(|it| (it.thread, it.fsyncs, it.waited_ns)).collect()
    }

    #[test]
    fn those_that_waited_most_in_two_windows_are_told_in_order() {
        let waiters = Waiters::default();
        waiters.count(WINDOW_NS - 1, 7, 100);
        waiters.count(WINDOW_NS, 7, 100);
        waiters.count(WINDOW_NS, 8, 300);
        waiters.count(WINDOW_NS, 0, 9999);
        assert_eq!(told(&waiters, WINDOW_NS), [(8, 1, 300), (7, 2, 200)]);
        for thread in 10..20 {
            waiters.count(2 * WINDOW_NS, thread, u64::from(thread));
        }
        let expected = [(8, 1, 300), (7, 1, 100), (19, 1, 19), (18, 1, 18), (17, 1, 17)];
        assert_eq!(told(&waiters, 2 * WINDOW_NS), expected);
        assert_eq!(told(&waiters, 3 * WINDOW_NS)[0], (19, 1, 19));
        assert_eq!(told(&waiters, 9 * WINDOW_NS), []);
    }

    #[test]
    fn threads_without_end_take_no_more_than_a_place_each_of_so_many_and_hide_nobody_who_waits_long() {
        let waiters = Waiters::default();
        waiters.count(0, 1, 1_000_000);
        for thread in 2..10_000 {
            waiters.count(0, thread, u64::from(thread));
        }
        waiters.count(0, 10_000, 2_000_000);
        assert_eq!(waiters.0.borrow()[0].threads.len(), THREADS_MAX);
        assert_eq!(told(&waiters, 0)[..2], [(10_000, 1, 2_000_000), (1, 1, 1_000_000)]);
    }
}
