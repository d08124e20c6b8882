//! A bounded pool of aligned memory for transfers.
//!
//! 1. No two pieces that are out share a byte.
//! 2. A piece is back when it is dropped, which for one that the kernel has is after the kernel's last word on
//!    it; so the memory is freed, and taken from the ring, only when nobody uses it.
//! 3. Who waits for a piece holds none: a transfer that has pieces under way takes another only where one is
//!    free. So waiting ends.

#![allow(unsafe_code)]

use std::cell::RefCell;
use std::fmt;
use std::future::poll_fn;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::rc::Rc;
use std::slice;
use std::task::{Poll, Waker};

use crate::aligned::AlignedBuffer;
use crate::event_loop::Loop;

/// Bytes of a small piece: most commits and pages fit.
const SMALL_BYTES: usize = 16 << 10;

/// Bytes of a large piece, and most of one transfer.
pub const PIECE_MAX_BYTES: usize = 256 << 10;

/// Pieces of one size.
struct Class {
    first_byte: usize,
    piece_bytes: usize,
    free: RefCell<Vec<u32>>,
    waiting: RefCell<Vec<Waker>>,
}

/// The pool. A quarter of it is small pieces, the rest large ones.
pub struct Pool {
    /// First of the bytes; taken once, so that no reference to all of them is ever made beside the pieces'.
    start: NonNull<u8>,
    memory: AlignedBuffer,
    classes: [Class; 2],
    registered: Option<(Loop, u16)>,
}

impl fmt::Debug for Pool {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Pool").field("registered", &self.registered.is_some()).finish_non_exhaustive()
    }
}

impl Pool {
    /// A pool of about `bytes`, at least one large piece, registered with the loop's ring where the kernel and
    /// the limit of locked memory allow.
    pub fn new(event_loop: &Loop, bytes: usize) -> Rc<Self> {
        let large = (bytes / 4 * 3 / PIECE_MAX_BYTES).max(1);
        let small = (bytes / 4 / SMALL_BYTES).max(4);
        let small_bytes = small * SMALL_BYTES;
        let mut memory = AlignedBuffer::zeroed(small_bytes + large * PIECE_MAX_BYTES);
        let len = memory.len();
        let start = NonNull::new(memory.as_mut_ptr()).expect("an allocation is not at 0");
        let class = |first_byte, piece_bytes, pieces: usize| Class {
            first_byte,
            piece_bytes,
            free: RefCell::new((0..pieces as u32).rev().collect()),
            waiting: RefCell::default(),
        };
        let classes = [class(0, SMALL_BYTES, small), class(small_bytes, PIECE_MAX_BYTES, large)];
        // SAFETY: the memory stays until `drop`, which takes it from the ring first (invariant 2).
        let registered = unsafe { event_loop.register(start.as_ptr(), len) };
        let registered = registered.map(|index| (event_loop.clone(), index));
        Rc::new(Self { start, memory, classes, registered })
    }

    fn class_of(len: usize) -> usize {
        assert!(len <= PIECE_MAX_BYTES, "a piece of {len} bytes is larger than the largest");
        usize::from(len > SMALL_BYTES)
    }

    /// A piece of `len` bytes, at most [`PIECE_MAX_BYTES`], if one is free. What it holds is not defined.
    pub fn try_take(self: &Rc<Self>, len: usize) -> Option<Piece> {
        let class = Self::class_of(len);
        let number = self.classes[class].free.borrow_mut().pop()?;
        Some(Piece { pool: Rc::clone(self), class, number, len })
    }

    /// A piece as [`Self::try_take`] gives it, once one is free.
    pub async fn take(self: &Rc<Self>, len: usize) -> Piece {
        poll_fn(|context| match self.try_take(len) {
            Some(piece) => Poll::Ready(piece),
            None => {
                self.classes[Self::class_of(len)].waiting.borrow_mut().push(context.waker().clone());
                Poll::Pending
            }
        })
        .await
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if let Some((event_loop, index)) = self.registered.take() {
            event_loop.unregister(index);
        }
        // The pieces hold the pool: they are all back.
        let _freed_here = &self.memory;
    }
}

/// Memory of a [`Pool`] that one transfer has for itself.
pub struct Piece {
    pool: Rc<Pool>,
    class: usize,
    number: u32,
    len: usize,
}

impl fmt::Debug for Piece {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Piece").field("len", &self.len).finish_non_exhaustive()
    }
}

impl Piece {
    /// Its pool's place among the buffers registered with the ring.
    pub(super) fn registered(&self) -> Option<u16> {
        self.pool.registered.as_ref().map(|&(_, index)| index)
    }

    fn start(&self) -> *mut u8 {
        let class = &self.pool.classes[self.class];
        let offset = class.first_byte + self.number as usize * class.piece_bytes;
        // SAFETY: every piece of every class lies within the pool's memory, by its construction.
        unsafe { self.pool.start.as_ptr().add(offset) }
    }
}

impl Deref for Piece {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the bytes are initialised, live as long as the pool that this piece holds, and are this
        // piece's alone (invariant 1); `len` is at most the size of its class.
        unsafe { slice::from_raw_parts(self.start(), self.len) }
    }
}

impl DerefMut for Piece {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.start(), self.len) }
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let class = &self.pool.classes[self.class];
        class.free.borrow_mut().push(self.number);
        // All of them: one that was woken may be gone before it looks.
        for waker in class.waiting.take() {
            waker.wake();
        }
    }
}
