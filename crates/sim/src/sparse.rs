//! Bytes that cost only what was written to them.
//!
//! 1. They are zero until written.
//! 2. A clone shares its chunks with the original until one of them writes: trying every outcome of a power
//!    cut on clones of one image costs what each changes.

use std::rc::Rc;

use evenkeel_engine::device::Extent;

/// Small enough that copying one for a single write costs little, large enough that a clone has few to share.
const CHUNK_BYTES: usize = 16 * 1024;

type Chunk = [u8; CHUNK_BYTES];

/// A fixed number of bytes, kept in shared chunks.
#[derive(Debug, Clone)]
pub struct SparseBytes {
    size_bytes: u64,
    chunks: Vec<Option<Rc<Chunk>>>,
}

impl SparseBytes {
    /// Zeros come behind the end, up to `size_bytes`.
    pub fn enlarge(&mut self, size_bytes: u64) {
        assert!(size_bytes >= self.size_bytes, "nothing is cut off");
        self.size_bytes = size_bytes;
        self.chunks.resize(size_bytes.div_ceil(CHUNK_BYTES as u64) as usize, None);
    }

    /// `size_bytes` zeros.
    pub fn new(size_bytes: u64) -> Self {
        let chunks = size_bytes.div_ceil(CHUNK_BYTES as u64) as usize;
        Self { size_bytes, chunks: vec![None; chunks] }
    }

    /// Fills `into` from `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (chunk, within, part) in self.spans(offset, into.len()) {
            let into = &mut into[part];
            match &self.chunks[chunk] {
                Some(bytes) => into.copy_from_slice(&bytes[within..within + into.len()]),
                None => into.fill(0),
            }
        }
    }

    /// Writes `bytes` at `offset`.
    pub fn write(&mut self, offset: u64, bytes: &[u8]) {
        for (chunk, within, part) in self.spans(offset, bytes.len()) {
            let from = &bytes[part];
            if self.chunks[chunk].is_none() && from.iter().all(|&byte| byte == 0) {
                continue;
            }
            let chunk = self.chunks[chunk].get_or_insert_with(|| Rc::new([0; CHUNK_BYTES]));
            Rc::make_mut(chunk)[within..within + from.len()].copy_from_slice(from);
        }
    }

    /// Zeroes a range. Chunks that lie in it cost nothing any more.
    pub fn zero(&mut self, extent: Extent) {
        for (chunk, within, part) in self.spans(extent.offset, extent.len as usize) {
            if part.len() == CHUNK_BYTES {
                self.chunks[chunk] = None;
            } else if let Some(bytes) = &mut self.chunks[chunk] {
                Rc::make_mut(bytes)[within..within + part.len()].fill(0);
            }
        }
    }

    /// The ranges that may hold other bytes than zeros.
    pub fn written(&self) -> impl Iterator<Item = Extent> {
        let chunk = |place: usize| {
            let offset = (place * CHUNK_BYTES) as u64;
            Extent::new(offset, (CHUNK_BYTES as u64).min(self.size_bytes - offset))
        };
        self.chunks
            .iter()
            .enumerate()
            .filter(|(_, bytes)| bytes.is_some())
            .map(move |(place, _)| chunk(place))
    }

    /// Cuts `len` bytes at `offset` where chunks meet: number of the chunk, offset in it, range of the bytes.
    fn spans(
        &self,
        offset: u64,
        len: usize,
    ) -> impl Iterator<Item = (usize, usize, std::ops::Range<usize>)> + use<> {
        assert!(
            offset.checked_add(len as u64).is_some_and(|end| end <= self.size_bytes),
            "{len} bytes at {offset} do not lie within {}",
            self.size_bytes
        );
        let offset = offset as usize;
        let mut done = 0;
        std::iter::from_fn(move || {
            if done == len {
                return None;
            }
            let at = offset + done;
            let within = at % CHUNK_BYTES;
            let part = done..len.min(done + CHUNK_BYTES - within);
            done = part.end;
            Some((at / CHUNK_BYTES, within, part))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_across_chunks_read_back_and_the_rest_is_zero() {
        let mut bytes = SparseBytes::new(3 * CHUNK_BYTES as u64 + 100);
        let written: Vec<u8> = (0..2 * CHUNK_BYTES).map(|number| number as u8 | 1).collect();
        bytes.write(CHUNK_BYTES as u64 - 7, &written);
        let mut all = vec![9; 3 * CHUNK_BYTES + 100];
        bytes.read(0, &mut all);
        let (before, rest) = all.split_at(CHUNK_BYTES - 7);
        let (middle, after) = rest.split_at(written.len());
        assert!(before.iter().chain(after).all(|&byte| byte == 0));
        assert_eq!(middle, written);
    }

    #[test]
    fn a_clone_goes_its_own_way() {
        let mut original = SparseBytes::new(1 << 20);
        original.write(10, b"old");
        let mut copy = original.clone();
        copy.write(10, b"new");
        let mut read = [0; 3];
        original.read(10, &mut read);
        assert_eq!(&read, b"old");
        copy.read(10, &mut read);
        assert_eq!(&read, b"new");
    }

    #[test]
    #[should_panic(expected = "do not lie within")]
    fn bytes_outside_are_refused() {
        SparseBytes::new(512).write(510, &[0; 3]);
    }

    #[test]
    fn what_is_zeroed_reads_as_zeros_and_whole_chunks_cost_nothing() {
        let chunk = CHUNK_BYTES as u64;
        let mut bytes = SparseBytes::new(4 * chunk);
        bytes.write(0, &vec![7; 4 * CHUNK_BYTES]);
        let before = bytes.clone();
        bytes.zero(Extent::new(chunk - 10, 2 * chunk + 20));
        let mut read = vec![1; 4 * CHUNK_BYTES];
        bytes.read(0, &mut read);
        let zeros = CHUNK_BYTES - 10..3 * CHUNK_BYTES + 10;
        assert!(read.iter().enumerate().all(|(at, &byte)| byte == if zeros.contains(&at) { 0 } else { 7 }));
        assert_eq!(bytes.written().map(|extent| extent.offset).collect::<Vec<_>>(), [0, 3 * chunk]);
        before.read(0, &mut read);
        assert!(read.iter().all(|&byte| byte == 7), "a clone keeps its own");
    }
}
