//! Coefficients of parity shards, and those that give missing shards back.
//!
//! c(i,j) = (x0 + y(j)) / (x(i) + y(j)) with y(j) = j and x(i) = 255 - i. That is the Cauchy matrix 1 / (x(i) + y(j)), each
//! column times a constant that makes the first row ones. All x and y differ, so each square part of a Cauchy matrix is
//! invertible, and it stays so when columns are scaled. That each square part is, is what makes the code give back any M missing
//! shards.

use crate::code::{MAX_DATA, MAX_PARITY};
use crate::field::{inverse, multiply};

// All x and y differ.
const _: () = assert!(MAX_DATA + MAX_PARITY <= 256);

/// By how much data shard `data` counts in parity shard `parity`.
pub(crate) const fn coefficient(parity: usize, data: usize) -> u8 {
    let (first, this, column) = (255, 255 - parity as u8, data as u8);
    multiply(first ^ column, inverse(this ^ column))
}

/// A square matrix of up to [`MAX_PARITY`] rows.
pub(crate) type Square = [[u8; MAX_PARITY]; MAX_PARITY];

/// The inverse of the first `size` rows and columns, by Gauss and Jordan; `None` where there is none.
pub(crate) fn invert(mut matrix: Square, size: usize) -> Option<Square> {
    let mut inverted = [[0; MAX_PARITY]; MAX_PARITY];
    for (place, row) in inverted.iter_mut().enumerate() {
        row[place] = 1;
    }
    for column in 0..size {
        let pivot = (column..size).find(|&row| matrix[row][column] != 0)?;
        matrix.swap(column, pivot);
        inverted.swap(column, pivot);
        let scale = inverse(matrix[column][column]);
        for at in 0..size {
            matrix[column][at] = multiply(matrix[column][at], scale);
            inverted[column][at] = multiply(inverted[column][at], scale);
        }
        for row in (0..size).filter(|&row| row != column) {
            let times = matrix[row][column];
            for at in 0..size {
                matrix[row][at] ^= multiply(times, matrix[column][at]);
                inverted[row][at] ^= multiply(times, inverted[column][at]);
            }
        }
    }
    Some(inverted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::naive_product;

    /// All ways to choose `count` of `of`.
    fn choices(of: usize, count: usize) -> Vec<Vec<usize>> {
        (0u32..1 << of)
            .filter(|bits| bits.count_ones() as usize == count)
            .map(|bits| (0..of).filter(|bit| bits >> bit & 1 == 1).collect())
            .collect()
    }

    #[test]
    fn the_first_parity_shard_is_a_plain_sum() {
        assert!((0..MAX_DATA).all(|data| coefficient(0, data) == 1));
    }

    #[test]
    fn every_square_part_up_to_sixteen_and_four_is_invertible() {
        let mut tried = 0;
        for size in 1..=4 {
            for rows in choices(4, size) {
                for columns in choices(16, size) {
                    let mut part = [[0; MAX_PARITY]; MAX_PARITY];
                    for (at, &row) in rows.iter().enumerate() {
                        for (to, &column) in columns.iter().enumerate() {
                            part[at][to] = coefficient(row, column);
                        }
                    }
                    let inverted = invert(part, size).expect("an inverse");
                    for (row, factors) in part.iter().enumerate().take(size) {
                        for column in 0..size {
                            let terms = factors.iter().zip(&inverted);
                            let product = terms
                                .fold(0, |sum, (&factor, other)| sum ^ naive_product(factor, other[column]));
                            assert_eq!(product, u8::from(row == column));
                        }
                    }
                    tried += 1;
                }
            }
        }
        assert_eq!(tried, 64 + 720 + 2240 + 1820);
    }

    #[test]
    fn a_singular_matrix_has_no_inverse() {
        let mut matrix = [[0; MAX_PARITY]; MAX_PARITY];
        matrix[0][..2].copy_from_slice(&[3, 6]);
        matrix[1][..2].copy_from_slice(&[1, 2]);
        assert_eq!(invert(matrix, 2), None);
    }
}
