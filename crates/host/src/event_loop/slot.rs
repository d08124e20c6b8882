//! Memory that the kernel puts a request of FUSE into, and takes the answer from: FUSE over io_uring (`fuse-io-uring.rst` of
//! the kernel's documentation; the layouts are those of `include/uapi/linux/fuse.h`).
//!
//! ```text
//!    0   in_out      head of the request, then of the answer
//!  128   op_in       what has a fixed size of what is asked for
//!  256   ent_in_out  the request's number, and how long the payload is
//!  512   where both parts are, as two iovecs
//! 4096   payload     names and data
//! ```
//!
//! 1. A slot is the kernel's from the command that hands it over to that command's completion, and its owner's otherwise: it
//!    moves into the operation and comes back with the answer.
//! 2. What the kernel wrote is looked at as any request is: a length is bounded by the memory.

#![allow(unsafe_code)]

use std::fmt;
use std::io;
use std::ptr::{NonNull, null_mut};
use std::slice;

use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// Bytes of the head of a request, or of an answer, at most.
const HEAD_BYTES: usize = 128;

/// Where what is asked for begins, and how long that is at most.
const OPERATION: usize = HEAD_BYTES;
const OPERATION_BYTES: usize = 128;

/// Where `struct fuse_uring_ent_in_out` begins: flags, the number, the length.
const NUMBER: usize = OPERATION + OPERATION_BYTES + 8;
const PAYLOAD_LEN: usize = NUMBER + 8;

/// Bytes of `struct fuse_uring_req_header`.
const HEADERS_BYTES: usize = 288;

/// Where the two iovecs lie.
const PLACES: usize = 512;

/// Where the payload begins.
const PAYLOAD: usize = 4096;

/// The parts of a slot, as `FUSE_IO_URING_CMD_REGISTER` takes them.
pub(super) const PARTS: u32 = 2;

/// Memory for a request and its answer.
pub struct Slot {
    start: NonNull<u8>,
    len: usize,
}

impl Slot {
    /// One for requests and answers of at most so many bytes besides their heads.
    ///
    /// # Errors
    ///
    /// Those of mmap(2).
    pub(crate) fn new(payload_bytes: usize) -> io::Result<Self> {
        let len = PAYLOAD + payload_bytes;
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place, where nothing is yet.
        let start = unsafe { mmap_anonymous(null_mut(), len, protection, MapFlags::PRIVATE) }?;
        let start = NonNull::new(start.cast()).expect("nothing is mapped at 0");
        let mut slot = Self { start, len };
        let places = [(0, HEADERS_BYTES), (PAYLOAD, payload_bytes)];
        for (number, (offset, len)) in places.into_iter().enumerate() {
            let at = PLACES + number * size_of::<libc::iovec>();
            let address = start.as_ptr() as u64 + offset as u64;
            slot.put(at, address);
            slot.put(at + size_of::<*mut u8>(), len as u64);
        }
        Ok(slot)
    }

    /// Where its iovecs lie.
    pub(super) fn places(&self) -> u64 {
        self.start.as_ptr() as u64 + PLACES as u64
    }

    /// The head of a request.
    pub(crate) fn head(&self) -> &[u8] {
        &self.bytes()[..HEAD_BYTES]
    }

    /// What of the request has a fixed size, and more.
    pub(crate) fn operation(&self) -> &[u8] {
        &self.bytes()[OPERATION..][..OPERATION_BYTES]
    }

    /// The rest of the request.
    pub(crate) fn payload(&self) -> &[u8] {
        let len = self.get(PAYLOAD_LEN) as u32 as usize;
        &self.bytes()[PAYLOAD..][..len.min(self.len - PAYLOAD)]
    }

    /// What an answer is put into, up to its end.
    pub(crate) fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.bytes_mut()[PAYLOAD..]
    }

    /// The number under which the kernel takes the answer.
    pub(crate) fn number(&self) -> u64 {
        self.get(NUMBER)
    }

    /// Makes it an answer with this head and so many bytes besides.
    pub(crate) fn set_answer(&mut self, head: &[u8], payload_len: usize) {
        self.bytes_mut()[..head.len()].copy_from_slice(head);
        self.put(PAYLOAD_LEN, payload_len as u64);
    }

    fn get(&self, at: usize) -> u64 {
        u64::from_ne_bytes(self.bytes()[at..][..8].try_into().expect("eight bytes"))
    }

    fn put(&mut self, at: usize, value: u64) {
        self.bytes_mut()[at..][..8].copy_from_slice(&value.to_ne_bytes());
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: mapped in `new` for as long as this value lives; nobody writes to it meanwhile (invariant 1).
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` makes the access exclusive.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // SAFETY: mapped in `new` with this length, and used by nobody any more (invariant 1).
        let _it_was_mapped = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Slot").field("len", &self.len).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_told_of_both_parts_and_the_rest_is_bounded_by_the_memory() {
        let mut slot = Slot::new(8192).unwrap();
        let start = slot.start.as_ptr() as u64;
        assert_eq!(slot.places(), start + PLACES as u64);
        let places: Vec<_> = (0..4).map(|number| slot.get(PLACES + 8 * number)).collect();
        assert_eq!(places, [start, HEADERS_BYTES as u64, start + PAYLOAD as u64, 8192]);
        assert_eq!((slot.head().len(), slot.operation().len(), slot.payload_mut().len()), (128, 128, 8192));
        for (said, len) in [(0, 0), (5, 5), (8192, 8192), (8193, 8192), (u64::MAX, 8192)] {
            slot.put(PAYLOAD_LEN, said);
            assert_eq!(slot.payload().len(), len);
        }
    }

    #[test]
    fn an_answer_is_where_the_request_was_and_keeps_its_number() {
        let mut slot = Slot::new(4096).unwrap();
        slot.put(NUMBER, 77);
        slot.payload_mut()[..3].copy_from_slice(b"abc");
        slot.set_answer(&[9; 16], 3);
        assert_eq!((slot.number(), slot.payload()), (77, &b"abc"[..]));
        assert_eq!(slot.head()[..17], [[9; 16].as_slice(), &[0]].concat());
    }
}
