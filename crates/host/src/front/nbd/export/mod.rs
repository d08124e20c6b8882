//! What a server serves.

mod device;

use std::future::Future;

use evenkeel_engine::device::{Durability, Extent, FlushScope};

pub use device::DeviceExport;

use crate::front::device::RequestError;
pub use crate::nbd::proto::handshake::BlockSizes;

/// What a server serves. A clone is another handle to the same bytes.
///
/// Calls are made concurrently; those on overlapping ranges take effect in some order. The server calls with
/// extents that lie within [`Self::size_bytes`].
pub trait Export: Clone + 'static {
    /// Bytes that it offers. They do not become fewer; a client is told how many there are when it connects.
    fn size_bytes(&self) -> u64;

    /// What clients call it, up to 4,096 bytes.
    fn name(&self) -> &str {
        ""
    }

    /// What it is, in words, up to 4,096 bytes.
    fn description(&self) -> &str {
        ""
    }

    /// Whether it refuses writes.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Whether to seek costs it time, which clients' schedulers like to know.
    fn is_rotational(&self) -> bool {
        false
    }

    /// Which requests it takes.
    fn block_sizes(&self) -> BlockSizes {
        BlockSizes::default()
    }

    /// Longest write that is to come in one piece, because it takes effect as a whole.
    fn whole_max_bytes(&self) -> u64 {
        0
    }

    /// Fills `into` from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]) -> impl Future<Output = Result<(), RequestError>>;

    /// As [`Self::read`], if nothing has to be waited for; false if something has, or it fails: then what `into`
    /// holds is not defined.
    fn try_read(&self, _offset: u64, _into: &mut [u8]) -> bool {
        false
    }

    /// Writes `bytes` at `offset`.
    fn write(
        &self,
        offset: u64,
        bytes: &[u8],
        durability: Durability,
    ) -> impl Future<Output = Result<(), RequestError>>;

    /// Makes completed writes durable, whichever connection they came over.
    fn flush(&self, scope: FlushScope<'_>) -> impl Future<Output = Result<(), RequestError>>;

    /// Makes `extent` read as zeros; where `no_hole`, room for it should stay reserved.
    fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
        no_hole: bool,
    ) -> impl Future<Output = Result<(), RequestError>>;

    /// Drops the contents of `extent`; what a read finds there is not defined.
    fn discard(
        &self,
        extent: Extent,
        durability: Durability,
    ) -> impl Future<Output = Result<(), RequestError>>;

    /// Which bytes from `extent.offset` on have contents, as lengths of no more than `runs_max` runs; the others
    /// read as zeros. It may end early, but tells about one byte at least.
    fn allocation(
        &self,
        extent: Extent,
        runs_max: usize,
    ) -> impl Future<Output = Result<Vec<(u64, bool)>, RequestError>>;
}
