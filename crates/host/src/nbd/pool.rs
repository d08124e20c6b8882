//! Buffers of requests, used again.

use std::cell::{Cell, RefCell};

/// Largest buffer that is kept.
const KEPT_MAX_BYTES: usize = 128 << 10;
/// Bytes of all buffers that are kept.
const KEPT_ALL_MAX_BYTES: usize = 1 << 20;

/// Buffers of a connection that are free.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: RefCell<Vec<Vec<u8>>>,
    free_bytes: Cell<usize>,
}

impl Pool {
    /// A buffer of `len` bytes, with any contents that this connection had in flight before.
    pub(crate) fn take(&self, len: usize) -> Vec<u8> {
        if len > KEPT_MAX_BYTES {
            return vec![0; len];
        }
        let Some(mut buffer) = self.free.borrow_mut().pop() else {
            return vec![0; len];
        };
        self.free_bytes.set(self.free_bytes.get() - buffer.capacity());
        // Most requests are as long as the one before: then this touches nothing.
        buffer.resize(len, 0);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn put(&self, buffer: Vec<u8>) {
        let free_bytes = self.free_bytes.get() + buffer.capacity();
        if buffer.capacity() <= 2 * KEPT_MAX_BYTES && free_bytes <= KEPT_ALL_MAX_BYTES {
            self.free_bytes.set(free_bytes);
            self.free.borrow_mut().push(buffer);
        }
    }
}
