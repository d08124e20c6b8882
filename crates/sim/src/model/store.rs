//! Bytes that a model keeps elsewhere than in its own memory.

use std::fmt;
use std::sync::Arc;

use crate::sparse::SparseBytes;

/// Something that holds bytes. They are zero until written.
pub trait ByteStore: fmt::Debug + Send + Sync {
    /// Fills `into` from `offset`.
    fn read(&self, offset: u64, into: &mut [u8]);

    /// Writes `bytes` at `offset`.
    fn write(&self, offset: u64, bytes: &[u8]);
}

/// A range of bytes, here or elsewhere. A clone of one that is elsewhere is the same bytes.
#[derive(Debug, Clone)]
pub(super) enum Bytes {
    Here(SparseBytes),
    Elsewhere { store: Arc<dyn ByteStore>, base: u64 },
}

impl Bytes {
    pub(super) fn read(&self, offset: u64, into: &mut [u8]) {
        match self {
            Self::Here(bytes) => bytes.read(offset, into),
            Self::Elsewhere { store, base } => store.read(base + offset, into),
        }
    }

    pub(super) fn write(&mut self, offset: u64, bytes: &[u8]) {
        match self {
            Self::Here(here) => here.write(offset, bytes),
            Self::Elsewhere { store, base } => store.write(*base + offset, bytes),
        }
    }
}
