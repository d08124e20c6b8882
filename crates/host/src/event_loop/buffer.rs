//! Memory that is handed to the kernel and comes back.

use std::ops::Range;

use crate::aligned::AlignedBuffer;
use crate::event_loop::pool::Piece;
use crate::event_loop::slot::Slot;

/// The memory of an operation while the kernel has it.
#[derive(Debug)]
pub enum Held {
    /// None is needed.
    Nothing,
    /// Memory for `O_DIRECT`.
    Aligned(AlignedBuffer),
    /// A piece of a [`Pool`](crate::event_loop::pool::Pool).
    Piece(Piece),
    /// Any bytes.
    Bytes(Vec<u8>),
    /// A slot, which the kernel has as a whole.
    Slot(Slot),
}

impl Held {
    /// Where the bytes of `range` lie. They stay there however often the value is moved.
    pub(super) fn memory(&mut self, range: Range<usize>) -> Memory {
        let bytes: &mut [u8] = match self {
            Self::Nothing | Self::Slot(_) => &mut [],
            Self::Aligned(buffer) => buffer,
            Self::Piece(piece) => piece,
            Self::Bytes(bytes) => bytes,
        };
        let bytes = &mut bytes[range];
        // The kernel takes less than 2 GiB at once; the rest is a short transfer, which callers continue.
        let len = bytes.len().min(TRANSFER_MAX_BYTES) as u32;
        let start = bytes.as_mut_ptr();
        let registered = match self {
            Self::Piece(piece) => piece.registered(),
            _ => None,
        };
        Memory { start, len, registered }
    }
}

/// Most bytes of one operation.
const TRANSFER_MAX_BYTES: usize = 1 << 30;

/// What the kernel is told of a buffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub(super) start: *mut u8,
    pub(super) len: u32,
    /// Its place among the buffers registered with the ring.
    pub(super) registered: Option<u16>,
}

mod sealed {
    /// What can be held.
    pub trait Hold: Sized {
        /// Hands it over.
        fn hold(self) -> super::Held;
        /// Takes it back.
        fn take(held: super::Held) -> Self;
    }
}

/// A buffer that an operation can own: [`AlignedBuffer`], [`Piece`] or `Vec<u8>` (of which the bytes up to its
/// length are used).
pub trait IoBuffer: sealed::Hold {}

macro_rules! hold {
    ($($kind:ident($type:ty)),*) => {$(
        impl sealed::Hold for $type {
            fn hold(self) -> Held {
                Held::$kind(self)
            }

            fn take(held: Held) -> Self {
                match held {
                    Held::$kind(buffer) => buffer,
                    other => unreachable!("an operation gives back what it was given, not {other:?}"),
                }
            }
        }

        impl IoBuffer for $type {}
    )*};
}

hold!(Aligned(AlignedBuffer), Piece(Piece), Bytes(Vec<u8>), Slot(Slot));
