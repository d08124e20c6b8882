//! GF(2^8): bytes as polynomials over GF(2), modulo x^8 + x^4 + x^3 + x^2 + 1. Addition is XOR, and so is subtraction.
//!
//! x generates all elements but 0, so products are sums of logarithms. The polynomial is that of most Reed-Solomon codes of
//! storage (Linux md, ISA-L).

/// The polynomial without x^8: what x^8 is.
pub(crate) const REDUCED: u8 = 0x1d;

/// The powers of x, twice over, so that a sum of two logarithms needs no reduction.
const POWERS: [u8; 510] = powers();

/// Of which power of x each element but 0 is.
const LOGARITHMS: [u8; 256] = logarithms();

/// x times this element.
pub(crate) const fn double(element: u8) -> u8 {
    (element << 1) ^ if element & 0x80 == 0 { 0 } else { REDUCED }
}

const fn powers() -> [u8; 510] {
    let (mut powers, mut power, mut at) = ([0; 510], 1, 0);
    while at < powers.len() {
        powers[at] = power;
        power = double(power);
        at += 1;
    }
    powers
}

const fn logarithms() -> [u8; 256] {
    let (mut logarithms, mut at) = ([0; 256], 0);
    while at < 255 {
        logarithms[POWERS[at] as usize] = at as u8;
        at += 1;
    }
    logarithms
}

/// The product of two elements.
pub(crate) const fn multiply(left: u8, right: u8) -> u8 {
    if left == 0 || right == 0 {
        return 0;
    }
    POWERS[LOGARITHMS[left as usize] as usize + LOGARITHMS[right as usize] as usize]
}

/// What times this element is 1. The element must not be 0, which has none.
pub(crate) const fn inverse(element: u8) -> u8 {
    assert!(element != 0, "0 has no inverse");
    POWERS[255 - LOGARITHMS[element as usize] as usize]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The product by the definition: bit by bit, without a table.
    pub(crate) fn naive_product(left: u8, right: u8) -> u8 {
        let mut product = 0u16;
        for bit in 0..8 {
            if right >> bit & 1 == 1 {
                product ^= u16::from(left) << bit;
            }
        }
        for bit in (8..15).rev() {
            if product >> bit & 1 == 1 {
                product ^= 0x11d << (bit - 8);
            }
        }
        product as u8
    }

    #[test]
    fn products_are_those_of_the_definition() {
        for left in 0..=255 {
            for right in 0..=255 {
                assert_eq!(multiply(left, right), naive_product(left, right), "{left} times {right}");
            }
        }
    }

    #[test]
    fn an_element_times_its_inverse_is_one() {
        for element in 1..=255 {
            assert_eq!(naive_product(element, inverse(element)), 1, "{element}");
        }
    }
}
