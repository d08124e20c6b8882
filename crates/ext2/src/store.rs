//! What a file system stands on.

use std::future::Future;

pub use evenkeel_engine::device::Extent;
pub use evenkeel_engine::volume::Change;

use crate::error::StoreError;

/// What one commit may carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommitLimits {
    /// Bytes written, with [`CHANGE_BYTES`] for each change.
    pub bytes: u64,
    /// Pages of 4,096 bytes that the changes touch, counted once a change.
    pub pages: usize,
}

/// What a change counts besides its bytes.
pub const CHANGE_BYTES: u64 = 64;

/// Blocks that can be committed. A clone of a reference is not needed: calls may be made concurrently.
pub trait Store: 'static {
    /// Bytes that it offers.
    fn size_bytes(&self) -> u64;

    /// What one commit may carry, now.
    fn limits(&self) -> CommitLimits;

    /// Fills `into` with the latest bytes, committed or only written.
    fn read(&self, offset: u64, into: &mut [u8]) -> impl Future<Output = Result<(), StoreError>>;

    /// Writes `bytes`, which a power cut may lose or tear until a flush covers them.
    fn write(&self, offset: u64, bytes: &[u8]) -> impl Future<Output = Result<(), StoreError>>;

    /// Writes whole blocks from `offset` on, durably, of which nobody needs what they hold: until it is done, a power cut may
    /// leave of each sector what it held, zeros, or what is written. What others wait for goes first.
    fn write_fresh(&self, offset: u64, blocks: &[&[u8]]) -> impl Future<Output = Result<(), StoreError>>;

    /// Zeroes a range, which a power cut may undo or tear until a flush covers it. Whole blocks take no room any more.
    fn zero(&self, extent: Extent) -> impl Future<Output = Result<(), StoreError>>;

    /// Makes what was written in these ranges durable.
    fn flush(&self, ranges: &[Extent]) -> impl Future<Output = Result<(), StoreError>>;

    /// Makes all changes, at once and durably: after a power cut all of them are there or none. Where two of them
    /// overlap, the later one holds.
    fn commit(&self, changes: &[Change<'_>]) -> impl Future<Output = Result<(), StoreError>>;

    /// As [`Self::commit`], where nobody waits for it but who writes much.
    fn commit_in_background(&self, changes: &[Change<'_>]) -> impl Future<Output = Result<(), StoreError>> {
        self.commit(changes)
    }

    /// Waits a little where commits come for which somebody waits: they can carry what can wait. False at once where none
    /// are to be expected.
    fn wait_beside_small_commits(&self) -> impl Future<Output = bool> {
        std::future::ready(false)
    }
}
