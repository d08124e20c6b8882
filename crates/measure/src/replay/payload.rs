//! The bytes that are written: they follow from a seed, and no layer below can compress or deduplicate them.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Random bytes that writes are cut from: few enough to stay in the processor's cache.
const WINDOW_BYTES: usize = 1 << 20;

/// No two of these are the same.
const SECTOR_BYTES: usize = 512;

/// An odd number with its bits spread evenly (2^64 over the golden ratio), so that multiples of it are, too.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Where the bytes come from.
#[derive(Debug, Clone)]
pub struct Payload {
    window: Vec<u8>,
}

impl Payload {
    /// Those of a seed.
    pub fn new(seed: u64) -> Self {
        let mut window = vec![0; WINDOW_BYTES];
        StdRng::seed_from_u64(seed).fill_bytes(&mut window);
        Self { window }
    }

    /// Fills `into` with the bytes of write `number`.
    pub fn fill(&self, number: u64, into: &mut [u8]) {
        let first_sector = number.wrapping_mul(SPREAD) % (WINDOW_BYTES / SECTOR_BYTES) as u64;
        let mut from = first_sector as usize * SECTOR_BYTES;
        for (at, sector) in (0u64..).zip(into.chunks_mut(SECTOR_BYTES)) {
            sector.copy_from_slice(&self.window[from..from + sector.len()]);
            // Of two sectors cut from the same place, these differ; so no two are the same.
            let mark = number.to_le_bytes().into_iter().chain(at.to_le_bytes());
            sector.iter_mut().zip(mark).for_each(|(byte, mark)| *byte ^= mark);
            from = (from + SECTOR_BYTES) % WINDOW_BYTES;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn a_seed_repeats_and_another_differs() {
        let bytes = |seed, number| {
            let mut bytes = vec![0; 10_000];
            Payload::new(seed).fill(number, &mut bytes);
            bytes
        };
        assert_eq!(bytes(1, 7), bytes(1, 7));
        assert_ne!(bytes(1, 7), bytes(2, 7));
        assert_ne!(bytes(1, 7), bytes(1, 8));
    }

    #[test]
    fn no_two_sectors_are_the_same_and_none_has_a_pattern() {
        let payload = Payload::new(3);
        let mut seen = HashSet::new();
        // More than the window holds: what is cut from the same place twice differs all the same.
        for number in 0..80 {
            let mut bytes = vec![0; 64 << 10];
            payload.fill(number, &mut bytes);
            for sector in bytes.chunks(SECTOR_BYTES) {
                assert!(seen.insert(sector.to_vec()));
                // Of 512 random bytes, about 221 values are missing; a pattern misses most.
                assert!(sector.iter().collect::<HashSet<_>>().len() > 180);
            }
        }
    }
}
