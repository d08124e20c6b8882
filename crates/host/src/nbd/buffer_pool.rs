//! Buffers of requests and of sends, used again.
//!
//! 1. What is kept for later is bounded for a server as a whole, however many connections it has. Without any it keeps nothing.
//! 2. What was in a buffer is some request's of the same export. Whoever takes one writes all of it before a byte of
//!    it is sent.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Bytes of all buffers that are kept: as many as eight requests of 1 MiB take. Where these went back to the kernel, which gives
/// their memory anew, zeroed, a fifth of a server's time for such requests was spent on that.
const KEPT_MAX_BYTES: usize = 8 << 20;

/// How much larger than what is wanted a buffer may be, beyond twice as large.
const SLACK_BYTES: usize = 1 << 10;

/// Buffers that are free, by their capacity.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: RefCell<BTreeMap<usize, Vec<Vec<u8>>>>,
    free_bytes: Cell<usize>,
}

impl Pool {
    /// A buffer of `len` bytes, with any contents.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        let fitting = {
            let free = self.free.borrow();
            free.range(len..=2 * len + SLACK_BYTES).next().map(|(&capacity, _)| capacity)
        };
        match fitting.and_then(|capacity| self.remove(capacity)) {
            Some(mut buffer) => {
                // Most requests are as long as the one before: then this touches nothing.
                buffer.resize(len, 0);
                buffer
            }
            None => vec![0; len],
        }
    }

    /// An empty buffer, with as much room as there is one, up to `most`: somebody may keep it for a few bytes.
    pub(crate) fn take_empty(&self, most: usize) -> Vec<u8> {
        let largest = self.free.borrow().range(..=most).next_back().map(|(&capacity, _)| capacity);
        let mut buffer = largest.and_then(|capacity| self.remove(capacity)).unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Takes a buffer back. Where too much is kept, the largest go.
    pub(crate) fn put(&self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        while self.free_bytes.get() + capacity > KEPT_MAX_BYTES {
            let largest = self.free.borrow().last_key_value().map(|(&capacity, _)| capacity);
            match largest.filter(|largest| *largest > capacity) {
                Some(largest) => drop(self.remove(largest)),
                None => return,
            }
        }
        if capacity > 0 {
            self.free_bytes.set(self.free_bytes.get() + capacity);
            self.free.borrow_mut().entry(capacity).or_default().push(buffer);
        }
    }

    /// Keeps nothing any more.
    pub(crate) fn clear(&self) {
        self.free.borrow_mut().clear();
        self.free_bytes.set(0);
    }

    fn remove(&self, capacity: usize) -> Option<Vec<u8>> {
        let mut free = self.free.borrow_mut();
        let of_size = free.get_mut(&capacity)?;
        let buffer = of_size.pop();
        if of_size.is_empty() {
            free.remove(&capacity);
        }
        self.free_bytes.set(self.free_bytes.get() - buffer.as_ref().map_or(0, |_| capacity));
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_bounded_and_given_out_again() {
        let pool = Pool::default();
        for len in [128 << 10, 4096, 300 << 10] {
            (0..100).for_each(|_| pool.put(vec![1; len]));
            let kept: usize = pool.free.borrow().iter().map(|(size, buffers)| size * buffers.len()).sum();
            assert_eq!(kept, pool.free_bytes.get());
            assert!(kept <= KEPT_MAX_BYTES);
        }
        let before = pool.free_bytes.get();
        let buffer = pool.take(4000);
        assert_eq!((buffer.len(), before - pool.free_bytes.get()), (4000, 4096), "a small one was kept");
        let empty = pool.take_empty(200 << 10);
        assert!(empty.is_empty() && (128 << 10..=200 << 10).contains(&empty.capacity()));
        assert_eq!(pool.take_empty(1000).capacity(), 0, "each that is there is larger");
        pool.clear();
        assert_eq!((pool.free_bytes.get(), pool.take_empty(usize::MAX).capacity()), (0, 0));
    }
}
