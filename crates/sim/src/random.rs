//! Chance from a seed: xoshiro256++ by David Blackman and Sebastiano Vigna, seeded with splitmix64, both from
//! <https://prng.di.unimi.it/>.
//!
//! 1. The same seed gives the same numbers, on every machine and in every version of this crate.
//! 2. [`Random::fork`] gives a stream of its own: what one part of a run draws does not shift another's.

/// A stream of random numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Random {
    state: [u64; 4],
}

/// One step of splitmix64: a bijection that spreads neighbouring seeds over all numbers.
const fn splitmix64(state: u64) -> u64 {
    let mut mixed = state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Random {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut at = seed;
        let state = std::array::from_fn(|_| {
            at = at.wrapping_add(GOLDEN);
            splitmix64(at)
        });
        Self { state }
    }

    /// Another stream, independent of what is drawn from this one later.
    pub fn fork(&mut self) -> Self {
        Self::new(self.number())
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        let [a, b, c, d] = &mut self.state;
        let result = a.wrapping_add(*d).rotate_left(23).wrapping_add(*a);
        let shifted = *b << 17;
        *c ^= *a;
        *d ^= *b;
        *b ^= *c;
        *a ^= *d;
        *c ^= shifted;
        *d = d.rotate_left(45);
        result
    }

    /// A number from 0 up to but not including `bound`, which is not 0.
    ///
    /// By multiplication, without rejection: for the bounds used here the bias is far below what any test
    /// sees.
    pub fn below(&mut self, bound: u64) -> u64 {
        assert!(bound > 0, "there is no number below 0");
        ((u128::from(self.number()) * u128::from(bound)) >> 64) as u64
    }

    /// An index into something of `len` elements, which is not 0.
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True with probability `probability`.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.unit() < probability
    }

    /// True or false, alike.
    pub fn coin(&mut self) -> bool {
        self.number() >> 63 == 1
    }

    /// A number from 0 up to but not including 1.
    pub fn unit(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 53) as f64;
        (self.number() >> 11) as f64 / STEPS
    }

    /// One of `items`, which are not none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Brings `items` into any order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.index(last + 1));
        }
    }

    /// Fills `into` with noise.
    pub fn fill(&mut self, into: &mut [u8]) {
        for chunk in into.chunks_mut(8) {
            chunk.copy_from_slice(&self.number().to_le_bytes()[..chunk.len()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generator_gives_the_numbers_of_its_reference() {
        // The state and the numbers that the reference implementation's users test with.
        let mut random = Random { state: [1, 2, 3, 4] };
        let numbers: Vec<u64> = (0..4).map(|_| random.number()).collect();
        assert_eq!(numbers, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    }

    #[test]
    fn every_number_below_the_bound_comes_up() {
        let mut random = Random::new(1);
        let mut seen = [0; 7];
        for _ in 0..7_000 {
            seen[random.index(7)] += 1;
        }
        assert!(seen.iter().all(|&times| times > 800), "{seen:?}");
    }

    #[test]
    fn a_shuffle_keeps_what_there_is() {
        let mut items: Vec<u32> = (0..50).collect();
        Random::new(3).shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }

    #[test]
    fn chances_are_what_they_say() {
        let mut random = Random::new(4);
        let hits = (0..10_000).filter(|_| random.chance(0.25)).count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!random.chance(0.0));
        assert!(random.chance(1.0));
    }
}
