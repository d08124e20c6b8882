//! What connects two machines, or two processes of one: streams of bytes.

use std::future::Future;
use std::io;

/// A connection's bytes, both ways. Buffers are handed over and come back: the kernel may hold them after a caller is gone.
pub trait ByteStream: 'static {
    /// Fills `buffer[from..]` with what has come, at least one byte; 0 is the end.
    fn read(&self, buffer: Vec<u8>, from: usize) -> impl Future<Output = (io::Result<usize>, Vec<u8>)>;
    /// Sends all of `buffer`.
    fn write(&self, buffer: Vec<u8>) -> impl Future<Output = (io::Result<()>, Vec<u8>)>;
    /// Ends both directions; reads and writes under way return.
    fn shutdown(&self);
}
