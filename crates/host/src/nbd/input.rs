//! What has come and was not looked at yet.

use std::cell::Cell;
use std::io;
use std::rc::Rc;

use crate::net::ByteStream;

/// Bytes read at once in a handshake.
const HANDSHAKE_BYTES: usize = 4 << 10;

/// The front of a stream's bytes.
pub(crate) struct Input {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    /// Bytes that have come so far.
    came_bytes: Rc<Cell<u64>>,
}

fn ended() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the connection ended within a message")
}

impl Input {
    /// A small buffer, for a handshake.
    pub(crate) fn new() -> Self {
        Self { buffer: vec![0; HANDSHAKE_BYTES], start: 0, end: 0, came_bytes: Rc::default() }
    }

    /// Bytes that have come so far, growing.
    pub(crate) fn came_bytes(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.came_bytes)
    }

    fn count(&self, len: usize) {
        self.came_bytes.set(self.came_bytes.get() + len as u64);
    }

    /// From now on many messages come at once, up to `bytes`.
    pub(crate) fn grow(&mut self, bytes: usize) {
        let mut buffer = vec![0; bytes.max(self.buffer.len())];
        buffer[..self.end - self.start].copy_from_slice(self.ready());
        (self.start, self.end, self.buffer) = (0, self.end - self.start, buffer);
    }

    /// What has come.
    pub(crate) fn ready(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// The first `len` bytes of what has come were looked at.
    pub(crate) fn consume(&mut self, len: usize) {
        self.start += len;
        assert!(self.start <= self.end, "no more can be looked at than has come");
    }

    /// Waits for more; false at the end of the stream.
    pub(crate) async fn fill(&mut self, stream: &impl ByteStream) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let (read, buffer) = stream.read(std::mem::take(&mut self.buffer), self.end).await;
        self.buffer = buffer;
        let len = read?;
        self.end += len;
        self.count(len);
        Ok(len > 0)
    }

    /// Waits until `len` bytes have come, which fit the buffer.
    pub(crate) async fn need(&mut self, stream: &impl ByteStream, len: usize) -> io::Result<()> {
        while self.end - self.start < len {
            if !self.fill(stream).await? {
                return Err(ended());
            }
        }
        Ok(())
    }

    /// Fills all of `into`. Long ones are read in place.
    pub(crate) async fn take(&mut self, stream: &impl ByteStream, mut into: Vec<u8>) -> io::Result<Vec<u8>> {
        if into.len() <= self.buffer.len() / 2 {
            self.need(stream, into.len()).await?;
        }
        let mut filled = into.len().min(self.end - self.start);
        into[..filled].copy_from_slice(&self.ready()[..filled]);
        self.consume(filled);
        while filled < into.len() {
            let (read, buffer) = stream.read(into, filled).await;
            into = buffer;
            let len = read?;
            if len == 0 {
                return Err(ended());
            }
            filled += len;
            self.count(len);
        }
        Ok(into)
    }

    /// Drops the next `len` bytes.
    pub(crate) async fn skip(&mut self, stream: &impl ByteStream, mut len: u64) -> io::Result<()> {
        loop {
            let now = len.min(self.ready().len() as u64);
            self.consume(now as usize);
            len -= now;
            if len == 0 {
                return Ok(());
            }
            if !self.fill(stream).await? {
                return Err(ended());
            }
        }
    }
}
