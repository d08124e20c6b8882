//! Stripes over a ring: K data shards and M parity shards of each stripe, every one on another member.
//!
//! So far this is where bytes lie ([`geometry`]), as the heads of members name it. No volume is laid out so yet.

pub mod geometry;
