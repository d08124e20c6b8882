//! What the server answers, taken in.

use super::pending::{Answer, Expected};
use super::{ClientError, Inner};
use crate::nbd::input::Input;
use crate::nbd::proto::transmission::{Headers, ReplyHeader, decode_error, decode_status};
use crate::nbd::proto::{Malformed, STRING_MAX_BYTES, chunk, errno};
use crate::net::ByteStream;

/// Bytes taken from the connection at once.
const INPUT_BYTES: usize = 128 << 10;
/// Longest error chunk: its numbers and the longest string.
const ERROR_MAX_BYTES: u64 = STRING_MAX_BYTES as u64 + 32;
/// Longest chunk of block status.
const STATUS_MAX_BYTES: u64 = 1 << 20;

fn violation<T>(what: &'static str) -> Result<T, ClientError> {
    Err(Malformed(what).into())
}

impl<S: ByteStream> Inner<S> {
    /// Takes replies in until the connection ends.
    pub(super) async fn receive_replies(&self, mut input: Input) {
        input.grow(INPUT_BYTES);
        loop {
            if let Err(error) = self.receive_reply(&mut input).await {
                return self.fail(error);
            }
        }
    }

    async fn receive_reply(&self, input: &mut Input) -> Result<(), ClientError> {
        let header = loop {
            if let Some((header, len)) = ReplyHeader::decode(input.ready(), self.negotiated.headers)? {
                input.consume(len);
                break header;
            }
            if !input.fill(&self.wire).await? {
                return Err(ClientError::Broken("the server ended it".into()));
            }
        };
        match header {
            ReplyHeader::Simple { error, cookie } => self.receive_simple(input, error, cookie).await,
            ReplyHeader::Chunk { is_last, kind, cookie, len } => {
                if kind == chunk::NONE && !is_last {
                    return violation("an empty chunk that does not end its reply");
                }
                self.receive_chunk(input, kind, cookie, len).await?;
                if is_last { self.finish(cookie) } else { Ok(()) }
            }
        }
    }

    async fn receive_simple(&self, input: &mut Input, error: u32, cookie: u64) -> Result<(), ClientError> {
        let mut data = None;
        {
            let mut pending = self.pending.borrow_mut();
            let Some(entry) = pending.get(cookie) else {
                return violation("a reply to nothing");
            };
            match &mut entry.expected {
                _ if error != 0 => {
                    entry.error = Some(ClientError::Server { errno: error, message: String::new() });
                }
                Expected::Nothing => {}
                Expected::Data { bytes, .. } if self.negotiated.headers == Headers::Simple => {
                    data = Some(std::mem::take(bytes));
                }
                _ => return violation("a simple reply where there is to be a payload"),
            }
        }
        if let Some(bytes) = data {
            let filled = input.take(&self.wire, bytes).await?;
            self.pending.borrow_mut().complete(cookie, Ok(Answer::Data(filled)));
            return Ok(());
        }
        self.finish(cookie)
    }

    async fn receive_chunk(
        &self,
        input: &mut Input,
        kind: u16,
        cookie: u64,
        len: u64,
    ) -> Result<(), ClientError> {
        if self.pending.borrow_mut().get(cookie).is_none() {
            return violation("a chunk for nothing");
        }
        match kind {
            chunk::NONE if len == 0 => Ok(()),
            chunk::OFFSET_DATA if len > 8 => self.receive_data(input, cookie, len - 8).await,
            chunk::OFFSET_HOLE if len == 12 => self.receive_hole(input, cookie).await,
            chunk::BLOCK_STATUS | chunk::BLOCK_STATUS_EXT if len <= STATUS_MAX_BYTES => {
                let is_extended = self.negotiated.headers == Headers::Extended;
                if is_extended != (kind == chunk::BLOCK_STATUS_EXT) {
                    return violation("block status for other headers");
                }
                let payload = input.take(&self.wire, vec![0; len as usize]).await?;
                self.take_status(cookie, &payload, kind)
            }
            _ if kind & chunk::IS_ERROR != 0 && len <= ERROR_MAX_BYTES => {
                let payload = input.take(&self.wire, vec![0; len as usize]).await?;
                let (errno, message) = decode_error(&payload)?;
                let error = ClientError::Server { errno, message: message.to_owned() };
                if let Some(entry) = self.pending.borrow_mut().get(cookie) {
                    entry.error.get_or_insert(error);
                }
                Ok(())
            }
            _ => violation("a chunk that is not known, or of no such length"),
        }
    }

    /// Where in a read the `len` bytes at `offset` belong, which then have come.
    fn place(&self, cookie: u64, offset: u64, len: u64) -> Result<usize, ClientError> {
        let mut pending = self.pending.borrow_mut();
        let Some(entry) = pending.get(cookie) else {
            return violation("a chunk for nothing");
        };
        let start = offset.checked_sub(entry.extent.offset);
        let within = start.filter(|start| start.checked_add(len).is_some_and(|end| end <= entry.extent.len));
        let Expected::Data { covered, .. } = &mut entry.expected else {
            return violation("data for what is no read");
        };
        match within {
            Some(start) if covered.add(start, start + len) => Ok(start as usize),
            _ => violation("data outside of what was read, or twice"),
        }
    }

    /// Does `work` with the buffer of a read.
    fn with_data(&self, cookie: u64, work: impl FnOnce(&mut Vec<u8>)) {
        if let Some(entry) = self.pending.borrow_mut().get(cookie)
            && let Expected::Data { bytes, .. } = &mut entry.expected
        {
            work(bytes);
        }
    }

    async fn receive_data(&self, input: &mut Input, cookie: u64, len: u64) -> Result<(), ClientError> {
        input.need(&self.wire, 8).await?;
        let offset = u64::from_be_bytes(input.ready()[..8].try_into().expect("eight bytes are there"));
        input.consume(8);
        let start = self.place(cookie, offset, len)?;
        let mut whole = None;
        self.with_data(cookie, |bytes| {
            if bytes.len() as u64 == len {
                whole = Some(std::mem::take(bytes));
            }
        });
        match whole {
            // All of the read in one piece: in place.
            Some(bytes) => {
                let filled = input.take(&self.wire, bytes).await?;
                self.with_data(cookie, |bytes| *bytes = filled);
            }
            None => {
                let piece = input.take(&self.wire, vec![0; len as usize]).await?;
                self.with_data(cookie, |bytes| bytes[start..start + piece.len()].copy_from_slice(&piece));
            }
        }
        Ok(())
    }

    async fn receive_hole(&self, input: &mut Input, cookie: u64) -> Result<(), ClientError> {
        input.need(&self.wire, 12).await?;
        let (offset, len) = input.ready()[..12].split_at(8);
        let offset = u64::from_be_bytes(offset.try_into().expect("eight bytes are there"));
        let len = u32::from_be_bytes(len.try_into().expect("four bytes are there"));
        input.consume(12);
        if len == 0 {
            return violation("an empty hole");
        }
        // The buffer is zeros already.
        self.place(cookie, offset, len.into()).map(drop)
    }

    fn take_status(&self, cookie: u64, payload: &[u8], kind: u16) -> Result<(), ClientError> {
        let (id, found) = decode_status(payload, kind)?;
        let mut pending = self.pending.borrow_mut();
        let Some(entry) = pending.get(cookie) else {
            return violation("a chunk for nothing");
        };
        let total = found.iter().try_fold(0u64, |sum, &(len, _)| sum.checked_add(len));
        match &mut entry.expected {
            Expected::Status { context, extents } if *context == id => {
                if !extents.is_empty() || total.is_none_or(|total| total > entry.extent.len) {
                    return violation("block status beyond what was asked for");
                }
                *extents = found;
                Ok(())
            }
            Expected::Status { .. } => Ok(()),
            _ => violation("block status for what did not ask for it"),
        }
    }

    /// The reply is there as a whole.
    fn finish(&self, cookie: u64) -> Result<(), ClientError> {
        let mut pending = self.pending.borrow_mut();
        let Some(entry) = pending.get(cookie) else {
            return violation("a reply to nothing");
        };
        let extent = entry.extent;
        let expected = std::mem::replace(&mut entry.expected, Expected::Nothing);
        let outcome = match (entry.error.take(), expected) {
            // Whatever else is under way there ends with it.
            (Some(ClientError::Server { errno: errno::ESHUTDOWN, .. }), _) => {
                return Err(ClientError::Broken("the server shuts down".into()));
            }
            (Some(error), _) => Err(error),
            (None, Expected::Nothing) => Ok(Answer::Done),
            (None, Expected::Data { bytes, covered }) if covered.is_all(extent.len) => {
                Ok(Answer::Data(bytes))
            }
            (None, Expected::Status { extents, .. }) if !extents.is_empty() => Ok(Answer::Status(extents)),
            _ => return violation("a reply that lacks what was asked for"),
        };
        pending.complete(cookie, outcome);
        Ok(())
    }
}
