//! Memory that `O_DIRECT` accepts.

#![allow(unsafe_code)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

/// Alignment of every [`AlignedBuffer`]: no Linux block device asks for more than a page.
pub const ALIGNMENT: usize = 4096;

/// A zeroed byte buffer aligned to [`ALIGNMENT`].
#[derive(Debug)]
pub struct AlignedBuffer {
    start: NonNull<u8>,
    layout: Layout,
}

impl AlignedBuffer {
    /// A buffer of `len` zero bytes.
    ///
    /// # Panics
    ///
    /// When `len` is zero or does not fit the address space.
    pub fn zeroed(len: usize) -> Self {
        assert!(len > 0, "an aligned buffer holds at least one byte");
        let layout = Layout::from_size_align(len, ALIGNMENT).expect("length fits the address space");
        // SAFETY: the layout has a non-zero size, asserted above.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start) {
            Some(start) => Self { start, layout },
            None => handle_alloc_error(layout),
        }
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` points to `layout.size()` initialised bytes that this value owns.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.layout.size()) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.layout.size()) }
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        // SAFETY: allocated in `zeroed` with this same layout, and not freed before.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

// SAFETY: the buffer owns its memory alone, like a `Box<[u8]>`.
unsafe impl Send for AlignedBuffer {}
// SAFETY: shared access only reads.
unsafe impl Sync for AlignedBuffer {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_buffer_is_aligned_zeroed_and_writable() {
        for len in [1, 512, 4096, 4097, 1 << 20] {
            let mut buffer = AlignedBuffer::zeroed(len);
            assert_eq!(buffer.as_ptr() as usize % ALIGNMENT, 0);
            assert_eq!(buffer.len(), len);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer[len - 1] = 7;
            assert_eq!(buffer[len - 1], 7);
        }
    }
}
