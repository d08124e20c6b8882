//! Stripes over a ring: K data shards and M parity shards of each stripe, every one on another member.
//!
//! This is where bytes lie ([`geometry`]), as the heads of members name it. What is done with them is with the mirror, as all
//! else of a ring is ([`crate::layout::mirror`]).

pub mod geometry;
