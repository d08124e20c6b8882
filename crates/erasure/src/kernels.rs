//! Sums of multiples of byte strings: what the code spends its time in.
//!
//! | kernel | a multiple by a constant is |
//! | --- | --- |
//! | `gfni` | an affine map of the bits of each byte (`vgf2p8affineqb`), 32 bytes at once |
//! | `avx2` | the sum of two looked up products, one for each half of the byte (`vpshufb`), 32 bytes at once |
//! | `portable` | the sum of the doublings of 8 bytes at once that the constant's bits name |
//!
//! 1. A kernel that needs instructions is had only from [`Kernel::available`], which asks the processor for them.
//! 2. All read and write within the slices that they are given, and give the same bytes.

#![allow(unsafe_code, reason = "instructions that not every processor has, and their loads and stores")]
#![allow(
    clippy::needless_range_loop,
    reason = "loops over constant ranges are unrolled, and their arrays are registers; a zip is a call where no LTO is"
)]

use crate::code::{MAX_DATA, MAX_PARITY};
use crate::field::{REDUCED, multiply};

/// What computes a code: one of the ways that this machine offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Way);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    #[cfg(target_arch = "x86_64")]
    Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

/// By how much each input counts in each output: a row for each output.
pub(crate) type Rows = [[u8; MAX_DATA]; MAX_PARITY];

impl Kernel {
    /// Those of this machine, the fastest first.
    pub fn available() -> impl Iterator<Item = Self> {
        #[cfg(target_arch = "x86_64")]
        let vectors = {
            let has_avx2 = is_x86_feature_detected!("avx2");
            [(has_avx2 && is_x86_feature_detected!("gfni"), Way::Gfni), (has_avx2, Way::Avx2)]
        };
        #[cfg(not(target_arch = "x86_64"))]
        let vectors = [];
        let offered = vectors.into_iter().filter(|(is_there, _)| *is_there).map(|(_, way)| way);
        offered.chain([Way::Portable]).map(Self)
    }

    /// The fastest of this machine.
    pub fn fastest() -> Self {
        Self::available().next().unwrap_or(Self(Way::Portable))
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Gfni => "gfni",
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => "avx2",
            Way::Portable => "portable",
        }
    }

    /// Outputs that are computed at once: as many as have their sums in registers, with the tables of a constant.
    fn at_once(self) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => 2,
            _ => 4,
        }
    }

    /// Each output becomes the sum of the inputs times its row; `onto` adds it to what the output holds. All are of one
    /// length, which the callers have checked.
    pub(crate) fn combine(self, rows: &Rows, inputs: &[&[u8]], outputs: &mut [&mut [u8]], onto: bool) {
        let at_once = self.at_once();
        for (rows, outputs) in rows.chunks(at_once).zip(outputs.chunks_mut(at_once)) {
            match outputs.len() {
                1 => self.combine_few::<1>(rows, inputs, outputs, onto),
                2 => self.combine_few::<2>(rows, inputs, outputs, onto),
                3 => self.combine_few::<3>(rows, inputs, outputs, onto),
                _ => self.combine_few::<4>(rows, inputs, outputs, onto),
            }
        }
    }

    fn combine_few<const OUT: usize>(
        self,
        rows: &[[u8; MAX_DATA]],
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        onto: bool,
    ) {
        // Held here once more, so that nothing below depends on the callers.
        let len =
            inputs.iter().map(|input| input.len()).chain(outputs.iter().map(|output| output.len())).min();
        let len = len.unwrap_or(0);
        let done = match self.0 {
            // SAFETY: `available` alone makes this way, where the processor has AVX2 and GFNI.
            #[cfg(target_arch = "x86_64")]
            Way::Gfni => unsafe { vectors::gfni::<OUT>(rows, inputs, outputs, onto, len) },
            // SAFETY: `available` alone makes this way, where the processor has AVX2.
            #[cfg(target_arch = "x86_64")]
            Way::Avx2 => unsafe { vectors::avx2::<OUT>(rows, inputs, outputs, onto, len) },
            Way::Portable => portable::<OUT>(rows, inputs, outputs, onto, len),
        };
        for (output, row) in outputs.iter_mut().zip(rows) {
            for at in done..len {
                let sum =
                    inputs.iter().zip(row).fold(0, |sum, (input, &times)| sum ^ multiply(input[at], times));
                output[at] = sum ^ if onto { output[at] } else { 0 };
            }
        }
    }
}

/// Bytes that the portable kernel takes at once: as many as the compiler makes vectors of.
const BLOCK: usize = 32;

/// The same in words.
const WORDS: usize = BLOCK / 8;

/// Combines whole blocks and answers how many bytes that were.
fn portable<const OUT: usize>(
    rows: &[[u8; MAX_DATA]],
    inputs: &[&[u8]],
    outputs: &mut [&mut [u8]],
    onto: bool,
    len: usize,
) -> usize {
    let done = len / BLOCK * BLOCK;
    for at in (0..done).step_by(BLOCK) {
        let mut sums = [[0; WORDS]; OUT];
        if onto {
            for out in 0..OUT {
                sums[out] = words(outputs[out], at);
            }
        }
        for number in 0..inputs.len() {
            let mut doubled = words(inputs[number], at);
            for bit in 0..8 {
                for out in 0..OUT {
                    let mask = 0u64.wrapping_sub(u64::from(rows[out][number] >> bit & 1));
                    for word in 0..WORDS {
                        sums[out][word] ^= doubled[word] & mask;
                    }
                }
                for word in 0..WORDS {
                    doubled[word] = double_each(doubled[word]);
                }
            }
        }
        for out in 0..OUT {
            let block = &mut outputs[out][at..at + BLOCK];
            for word in 0..WORDS {
                block[8 * word..8 * word + 8].copy_from_slice(&sums[out][word].to_ne_bytes());
            }
        }
    }
    done
}

/// The block at `at`.
#[inline]
fn words(bytes: &[u8], at: usize) -> [u64; WORDS] {
    let (block, mut words) = (&bytes[at..at + BLOCK], [0; WORDS]);
    for word in 0..WORDS {
        let [a, b, c, d, e, f, g, h] = block[8 * word..8 * word + 8] else {
            unreachable!("a word has 8 bytes")
        };
        words[word] = u64::from_ne_bytes([a, b, c, d, e, f, g, h]);
    }
    words
}

/// x times each of the eight bytes.
#[inline]
fn double_each(bytes: u64) -> u64 {
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    const REDUCTIONS: u64 = u64::from_ne_bytes([REDUCED; 8]);
    let carries = bytes >> 7 & ONES;
    let reduced = (carries << 8).wrapping_sub(carries) & REDUCTIONS;
    (bytes & !(ONES << 7)) << 1 ^ reduced
}

#[cfg(target_arch = "x86_64")]
mod vectors {
    //! The kernels with vectors of 32 bytes. Each takes two of them at once.

    use std::arch::x86_64::{
        __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256,
        _mm256_gf2p8affine_epi64_epi8, _mm256_loadu_si256, _mm256_set1_epi8, _mm256_set1_epi64x,
        _mm256_setzero_si256, _mm256_shuffle_epi8, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_xor_si256,
    };

    use super::MAX_DATA;
    use crate::field::multiply;

    /// Bytes of a vector.
    const VECTOR: usize = 32;

    /// Bytes taken at once.
    const STEP: usize = 2 * VECTOR;

    /// For each constant, the matrix over GF(2) that multiplies a byte by it: byte 7 - i of it selects the bits whose sum is
    /// bit i of the product.
    static AFFINE: [u64; 256] = affine();

    /// For each constant, its products with 0 to 15, and with 16 times 0 to 15.
    static HALVES: [[[u8; 16]; 2]; 256] = halves();

    const fn affine() -> [u64; 256] {
        let (mut matrices, mut constant) = ([0; 256], 0);
        while constant < 256 {
            let mut column = 0;
            while column < 8 {
                let product = multiply(constant as u8, 1 << column);
                let mut bit = 0;
                while bit < 8 {
                    matrices[constant] |= ((product >> bit & 1) as u64) << (8 * (7 - bit) + column);
                    bit += 1;
                }
                column += 1;
            }
            constant += 1;
        }
        matrices
    }

    const fn halves() -> [[[u8; 16]; 2]; 256] {
        let (mut tables, mut constant) = ([[[0; 16]; 2]; 256], 0);
        while constant < 256 {
            let mut half = 0;
            while half < 16 {
                tables[constant][0][half] = multiply(constant as u8, half as u8);
                tables[constant][1][half] = multiply(constant as u8, (half as u8) << 4);
                half += 1;
            }
            constant += 1;
        }
        tables
    }

    /// Combines whole steps with `vgf2p8affineqb` and answers how many bytes that were.
    #[target_feature(enable = "avx2,gfni")]
    pub(super) fn gfni<const OUT: usize>(
        rows: &[[u8; MAX_DATA]],
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        onto: bool,
        len: usize,
    ) -> usize {
        let mut matrices = [[0u64; OUT]; MAX_DATA];
        for number in 0..inputs.len().min(MAX_DATA) {
            for out in 0..OUT {
                matrices[number][out] = AFFINE[usize::from(rows[out][number])];
            }
        }
        let done = len / STEP * STEP;
        for at in (0..done).step_by(STEP) {
            let mut sums = before::<OUT>(outputs, onto, at);
            for number in 0..inputs.len().min(MAX_DATA) {
                let [low, high] = load(inputs[number], at);
                for out in 0..OUT {
                    let matrix = _mm256_set1_epi64x(matrices[number][out] as i64);
                    let products = [
                        _mm256_gf2p8affine_epi64_epi8::<0>(low, matrix),
                        _mm256_gf2p8affine_epi64_epi8::<0>(high, matrix),
                    ];
                    sums[out] = add(sums[out], products);
                }
            }
            after(outputs, &sums, at);
        }
        done
    }

    /// Combines whole steps with `vpshufb` and answers how many bytes that were.
    #[target_feature(enable = "avx2")]
    pub(super) fn avx2<const OUT: usize>(
        rows: &[[u8; MAX_DATA]],
        inputs: &[&[u8]],
        outputs: &mut [&mut [u8]],
        onto: bool,
        len: usize,
    ) -> usize {
        let low_half = _mm256_set1_epi8(0x0f);
        let done = len / STEP * STEP;
        for at in (0..done).step_by(STEP) {
            let mut sums = before::<OUT>(outputs, onto, at);
            for number in 0..inputs.len().min(MAX_DATA) {
                let both = load(inputs[number], at);
                for out in 0..OUT {
                    let constant = rows[out][number];
                    // All of the first parity shard, and much of a rebuild.
                    if constant == 1 {
                        sums[out] = add(sums[out], both);
                        continue;
                    }
                    let [of_low, of_high] = tables(constant);
                    let products = [
                        looked_up(both[0], of_low, of_high, low_half),
                        looked_up(both[1], of_low, of_high, low_half),
                    ];
                    sums[out] = add(sums[out], products);
                }
            }
            after(outputs, &sums, at);
        }
        done
    }

    /// The products of the bytes, from the tables of a constant.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn looked_up(bytes: __m256i, of_low: __m256i, of_high: __m256i, low_half: __m256i) -> __m256i {
        let low = _mm256_and_si256(bytes, low_half);
        let high = _mm256_and_si256(_mm256_srli_epi64::<4>(bytes), low_half);
        _mm256_xor_si256(_mm256_shuffle_epi8(of_low, low), _mm256_shuffle_epi8(of_high, high))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add([low, high]: [__m256i; 2], [more_low, more_high]: [__m256i; 2]) -> [__m256i; 2] {
        [_mm256_xor_si256(low, more_low), _mm256_xor_si256(high, more_high)]
    }

    /// What the outputs hold at the step at `at`, or zeros.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn before<const OUT: usize>(outputs: &[&mut [u8]], onto: bool, at: usize) -> [[__m256i; 2]; OUT] {
        let mut sums = [[_mm256_setzero_si256(); 2]; OUT];
        if onto {
            for out in 0..OUT {
                sums[out] = load(outputs[out], at);
            }
        }
        sums
    }

    /// Stores the step at `at` of each output.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn after<const OUT: usize>(outputs: &mut [&mut [u8]], sums: &[[__m256i; 2]; OUT], at: usize) {
        for out in 0..OUT {
            let [low, high] = sums[out];
            let step: &mut [u8; STEP] = (&mut outputs[out][at..at + STEP]).try_into().expect("a step");
            let start = step.as_mut_ptr();
            // SAFETY: the step has room for both vectors; the stores need no alignment.
            unsafe {
                _mm256_storeu_si256(start.cast(), low);
                _mm256_storeu_si256(start.add(VECTOR).cast(), high);
            }
        }
    }

    /// The step at `at`.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8], at: usize) -> [__m256i; 2] {
        let step: &[u8; STEP] = bytes[at..at + STEP].try_into().expect("a step");
        let start = step.as_ptr();
        // SAFETY: the step holds both vectors; the loads need no alignment.
        unsafe { [_mm256_loadu_si256(start.cast()), _mm256_loadu_si256(start.add(VECTOR).cast())] }
    }

    /// A constant's products with the lower and with the upper half of a byte, each twice.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn tables(constant: u8) -> [__m256i; 2] {
        let [low, high] = &HALVES[usize::from(constant)];
        // SAFETY: each table is 16 bytes long; the loads need no alignment.
        let (low, high) =
            unsafe { (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())) };
        [_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high)]
    }
}
