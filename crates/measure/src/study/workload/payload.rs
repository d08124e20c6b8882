//! The bytes that files are filled with: a chosen share of each 4 KiB can be compressed away, the rest cannot.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// What compressors of file systems see at once, at least.
const PAGE_BYTES: usize = 4096;
/// Units are cut from so many bytes: more than a processor's cache holds of its own, less than memory is bounded to.
const WINDOW_BYTES: usize = 2 << 20;
/// A file is written in units of up to this.
pub const UNIT_BYTES_MAX: usize = 1 << 20;

/// Where the bytes come from.
#[derive(Debug, Clone)]
pub struct Payload {
    window: Vec<u8>,
}

impl Payload {
    /// Random bytes, of which each page ends with zeros for the share that is `compressible`.
    pub fn new(seed: u64, compressible: f64) -> Self {
        let mut window = vec![0; WINDOW_BYTES];
        let mut random = StdRng::seed_from_u64(seed);
        let dense = (PAGE_BYTES as f64 * (1.0 - compressible)).round() as usize;
        for page in window.chunks_mut(PAGE_BYTES) {
            random.fill_bytes(&mut page[..dense]);
        }
        Self { window }
    }

    /// So many bytes, at most [`UNIT_BYTES_MAX`]; `draw` says from where.
    pub fn cut(&self, draw: u64, bytes: usize) -> &[u8] {
        let pages = (WINDOW_BYTES - UNIT_BYTES_MAX) / PAGE_BYTES;
        let from = draw as usize % pages * PAGE_BYTES;
        &self.window[from..from + bytes.min(UNIT_BYTES_MAX)]
    }
}
