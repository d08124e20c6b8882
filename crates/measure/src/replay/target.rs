//! What a trace is replayed onto.

use std::future::Future;

use evenkeel_engine::device::Durability;

/// Something that takes requests, any number of them at once. What it cannot do it says in one line.
pub trait Target: 'static {
    /// Bytes that it has.
    fn size_bytes(&self) -> u64;

    /// Offsets and lengths are multiples of this: a power of two, up to 4096.
    fn granule_bytes(&self) -> u32;

    /// Fills `into` from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]) -> impl Future<Output = Result<(), String>>;

    /// Writes `bytes` at `offset`.
    fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), String>>;

    /// Makes all completed writes durable.
    fn flush(&self) -> impl Future<Output = Result<(), String>>;
}
