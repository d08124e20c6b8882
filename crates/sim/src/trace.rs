//! The trace of a run as one number: what happened, in order, folded.
//!
//! 1. Two runs that did the same things in the same order have the same hash.
//! 2. A run that differs in one event has, but for chance, another one: each step is a bijection of the
//!    state.
//!
//! It compares runs of one version with each other; it is no checksum and is stored nowhere.

const MULTIPLIER: u64 = 0x9E37_79B9_7F4A_7C15;

/// The trace `hash` after `event`.
pub const fn fold(hash: u64, event: u64) -> u64 {
    (hash ^ event).wrapping_mul(MULTIPLIER).rotate_left(29)
}

/// `bytes` as one event. Four lanes, so that the multiplications do not wait for each other.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut lanes = [1_u64, 2, 3, 4];
    let mut blocks = bytes.chunks_exact(32);
    for block in &mut blocks {
        for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(8)) {
            let mut number = [0; 8];
            number.copy_from_slice(word);
            *lane = fold(*lane, u64::from_le_bytes(number));
        }
    }
    let mut hash = bytes.len() as u64;
    for &byte in blocks.remainder() {
        hash = fold(hash, u64::from(byte));
    }
    lanes.into_iter().fold(hash, fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_every_byte_count() {
        assert_ne!(fold(fold(0, 1), 2), fold(fold(0, 2), 1));
        let bytes: Vec<u8> = (0..100).collect();
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            assert_ne!(digest(&bytes), digest(&changed), "byte {at}");
        }
        assert_ne!(digest(&[0; 32]), digest(&[0; 64]));
    }
}
