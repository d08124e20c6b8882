//! An arena that is a copy of another one: what is done to it leaves that as it is.

use std::cell::RefCell;

use crate::env::Arena;

/// Bytes copied at once.
const COPIED_BYTES: usize = 1 << 20;

/// Memory of this process alone.
#[derive(Debug)]
pub struct MemoryArena(RefCell<Vec<u8>>);

impl MemoryArena {
    /// `len` zeros.
    pub fn empty(len: usize) -> Self {
        Self(RefCell::new(vec![0; len]))
    }

    /// What `other` holds now.
    pub fn copy_of(other: &impl Arena) -> Self {
        let mut bytes = vec![0; other.len()];
        for (number, piece) in bytes.chunks_mut(COPIED_BYTES).enumerate() {
            other.load(number * COPIED_BYTES, piece);
        }
        Self(RefCell::new(bytes))
    }
}

impl Arena for MemoryArena {
    fn len(&self) -> usize {
        self.0.borrow().len()
    }

    fn store(&self, offset: usize, bytes: &[u8]) {
        self.0.borrow_mut()[offset..offset + bytes.len()].copy_from_slice(bytes);
    }

    fn load(&self, offset: usize, into: &mut [u8]) {
        into.copy_from_slice(&self.0.borrow()[offset..offset + into.len()]);
    }
}
