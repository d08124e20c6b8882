//! What a server serves.

mod volume;

use std::future::Future;

use evenkeel_engine::device::{Durability, Extent, FlushScope};

pub use volume::VolumeExport;

/// An export did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}: errno {errno}")]
pub struct ExportError {
    /// The system's number for the cause, as in errno(3). Clients see the nearest one that the protocol knows.
    pub errno: i32,
    /// What happened, in words; clients that negotiated structured replies see it.
    pub message: String,
}

/// Which requests an export takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockSizes {
    /// Offsets and lengths are multiples of it; a power of two.
    pub minimum_bytes: u32,
    /// Below it a request costs more than it has to.
    pub preferred_bytes: u32,
    /// Longest read or write; the server's own limit may be smaller.
    pub maximum_bytes: u32,
}

impl Default for BlockSizes {
    /// Down to single bytes, best in pages, up to what every client may assume.
    fn default() -> Self {
        Self { minimum_bytes: 1, preferred_bytes: 4096, maximum_bytes: 32 << 20 }
    }
}

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
    fn read(&self, offset: u64, into: &mut [u8]) -> impl Future<Output = Result<(), ExportError>>;

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
    ) -> impl Future<Output = Result<(), ExportError>>;

    /// Makes completed writes durable, whichever connection they came over.
    fn flush(&self, scope: FlushScope<'_>) -> impl Future<Output = Result<(), ExportError>>;

    /// Makes `extent` read as zeros; where `no_hole`, room for it should stay reserved.
    fn write_zeroes(
        &self,
        extent: Extent,
        durability: Durability,
        no_hole: bool,
    ) -> impl Future<Output = Result<(), ExportError>>;

    /// Drops the contents of `extent`; what a read finds there is not defined.
    fn discard(
        &self,
        extent: Extent,
        durability: Durability,
    ) -> impl Future<Output = Result<(), ExportError>>;

    /// Which bytes from `extent.offset` on have contents, as lengths; the others read as zeros. It may end
    /// early, but tells about one byte at least.
    fn allocation(&self, extent: Extent) -> impl Future<Output = Result<Vec<(u64, bool)>, ExportError>>;
}
