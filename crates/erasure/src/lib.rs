//! An erasure code: K data shards and M parity shards, of which any K give back all others.
//!
//! Systematic Reed-Solomon over GF(2^8). Data shards are stored as they are. Parity shard i is the sum of c(i,j) times data
//! shard j, byte by byte, where the coefficients c are a Cauchy matrix whose columns are scaled so that c(0,j) = 1
//! (`matrix.rs`).
//!
//! 1. Any M shards may be missing, whichever they are.
//! 2. Parity shard 0 is the XOR of the data shards. So with M = 1 the code is XOR, and where one data shard alone is missing, it
//!    is the XOR of the others and parity shard 0.
//! 3. Coefficients depend on i and j alone, not on K and M: a data shard of zeros may be left out, and a code of more parity
//!    shards has those of fewer.
//! 4. A parity shard follows a change of a data shard by the change alone ([`Code::update`]), range by range, in any
//!    order. The same change twice takes it back.
//! 5. Every kernel computes the same bytes (`kernels.rs`): which one does it is no part of any format.
//! 6. Nothing is allocated or kept by a call. What it finds out before the first byte takes 0.3 us at 4+2, and 1.5 us at 16+4.

mod code;
mod field;
mod kernels;
mod matrix;

pub use code::{Code, MAX_DATA, MAX_PARITY, Misuse};
pub use kernels::Kernel;
