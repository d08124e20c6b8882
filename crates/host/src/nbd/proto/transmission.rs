//! The bytes of the transmission phase: requests, and replies of all three kinds.

use super::{
    CHUNK_MAGIC, Cursor, EXTENDED_CHUNK_MAGIC, EXTENDED_REQUEST_MAGIC, Malformed, REQUEST_MAGIC,
    SIMPLE_REPLY_MAGIC, chunk, text,
};

/// Bytes of a simple reply before its payload.
pub const SIMPLE_REPLY_BYTES: usize = 16;
/// Bytes of the longest message of an error chunk that this program sends.
pub const ERROR_MESSAGE_MAX_BYTES: usize = 512;

/// Which headers a session uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Headers {
    /// Compact requests, simple replies.
    #[default]
    Simple,
    /// Compact requests, replies in chunks.
    Structured,
    /// Requests and chunks with lengths of 64 bits.
    Extended,
}

impl Headers {
    /// Bytes of a request before its payload.
    pub const fn request_bytes(self) -> usize {
        match self {
            Self::Simple | Self::Structured => 28,
            Self::Extended => 32,
        }
    }

    /// Bytes of a chunk before its payload.
    pub const fn chunk_bytes(self) -> usize {
        match self {
            Self::Simple | Self::Structured => 20,
            Self::Extended => 32,
        }
    }

    /// Bytes before the data in the reply to a read that went well.
    pub const fn read_reply_bytes(self) -> usize {
        match self {
            Self::Simple => SIMPLE_REPLY_BYTES,
            Self::Structured | Self::Extended => self.chunk_bytes() + 8,
        }
    }

    /// Whether replies come in chunks.
    pub const fn has_chunks(self) -> bool {
        !matches!(self, Self::Simple)
    }
}

/// A request before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Flags of [`super::command_flag`].
    pub flags: u16,
    /// A number of [`super::command`].
    pub command: u16,
    /// What the client calls it.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
}

impl Request {
    /// Reads [`Headers::request_bytes`].
    ///
    /// # Errors
    ///
    /// [`Malformed`] where the magic number is another.
    pub fn decode(bytes: &[u8], headers: Headers) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let is_extended = headers == Headers::Extended;
        let magic = if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        if cursor.u32()? != magic {
            return Err(Malformed("a request does not begin with its magic number"));
        }
        Ok(Self {
            flags: cursor.u16()?,
            command: cursor.u16()?,
            cookie: cursor.u64()?,
            offset: cursor.u64()?,
            len: if is_extended { cursor.u64()? } else { cursor.u32()?.into() },
        })
    }

    /// Appends it. Without extended headers its length has 32 bits.
    pub fn encode(&self, out: &mut Vec<u8>, headers: Headers) {
        let is_extended = headers == Headers::Extended;
        let magic = if is_extended { EXTENDED_REQUEST_MAGIC } else { REQUEST_MAGIC };
        out.extend(magic.to_be_bytes());
        out.extend(self.flags.to_be_bytes());
        out.extend(self.command.to_be_bytes());
        out.extend(self.cookie.to_be_bytes());
        out.extend(self.offset.to_be_bytes());
        match is_extended {
            true => out.extend(self.len.to_be_bytes()),
            false => out.extend((self.len as u32).to_be_bytes()),
        }
    }
}

/// Appends a simple reply's header.
pub fn encode_simple(out: &mut Vec<u8>, error: u32, cookie: u64) {
    out.extend(SIMPLE_REPLY_MAGIC.to_be_bytes());
    out.extend(error.to_be_bytes());
    out.extend(cookie.to_be_bytes());
}

/// Appends a chunk's header; `request` is what it answers.
pub fn encode_chunk(out: &mut Vec<u8>, headers: Headers, flags: u16, kind: u16, request: &Request, len: u64) {
    let is_extended = headers == Headers::Extended;
    let magic = if is_extended { EXTENDED_CHUNK_MAGIC } else { CHUNK_MAGIC };
    out.extend(magic.to_be_bytes());
    out.extend(flags.to_be_bytes());
    out.extend(kind.to_be_bytes());
    out.extend(request.cookie.to_be_bytes());
    match is_extended {
        true => {
            out.extend(request.offset.to_be_bytes());
            out.extend(len.to_be_bytes());
        }
        false => out.extend((len as u32).to_be_bytes()),
    }
}

/// Appends the reply to a request that went well and has no payload.
pub fn encode_done(out: &mut Vec<u8>, headers: Headers, request: &Request) {
    match headers {
        Headers::Simple => encode_simple(out, 0, request.cookie),
        Headers::Structured | Headers::Extended => {
            encode_chunk(out, headers, chunk::FLAG_DONE, chunk::NONE, request, 0);
        }
    }
}

/// Appends the reply to a request that failed; `message` goes with it where chunks do.
pub fn encode_error(out: &mut Vec<u8>, headers: Headers, request: &Request, error: u32, message: &str) {
    if headers == Headers::Simple {
        return encode_simple(out, error, request.cookie);
    }
    let mut end = message.len().min(ERROR_MESSAGE_MAX_BYTES);
    while !message.is_char_boundary(end) {
        end -= 1;
    }
    let message = &message.as_bytes()[..end];
    encode_chunk(out, headers, chunk::FLAG_DONE, chunk::ERROR, request, 6 + message.len() as u64);
    out.extend(error.to_be_bytes());
    out.extend((message.len() as u16).to_be_bytes());
    out.extend(message);
}

/// Appends what precedes the `request.len` bytes of a read that went well: [`Headers::read_reply_bytes`].
pub fn encode_read_header(out: &mut Vec<u8>, headers: Headers, request: &Request) {
    if headers == Headers::Simple {
        return encode_simple(out, 0, request.cookie);
    }
    encode_chunk(out, headers, chunk::FLAG_DONE, chunk::OFFSET_DATA, request, request.len + 8);
    out.extend(request.offset.to_be_bytes());
}

/// Appends what precedes `len` bytes from `offset` on, a piece of the data that `request` asked for: as many bytes as
/// [`encode_read_header`], for sessions with chunks.
pub fn encode_read_piece(
    out: &mut Vec<u8>,
    headers: Headers,
    flags: u16,
    request: &Request,
    offset: u64,
    len: u64,
) {
    encode_chunk(out, headers, flags, chunk::OFFSET_DATA, request, len + 8);
    out.extend(offset.to_be_bytes());
}

/// Appends a chunk that tells the status of consecutive extents, as pairs of length and status.
pub fn encode_status(
    out: &mut Vec<u8>,
    headers: Headers,
    flags: u16,
    request: &Request,
    context: u32,
    extents: &[(u64, u32)],
) {
    let count = extents.len() as u64;
    if headers == Headers::Extended {
        encode_chunk(out, headers, flags, chunk::BLOCK_STATUS_EXT, request, 8 + 16 * count);
        out.extend(context.to_be_bytes());
        out.extend((count as u32).to_be_bytes());
        for &(len, status) in extents {
            out.extend(len.to_be_bytes());
            out.extend(u64::from(status).to_be_bytes());
        }
        return;
    }
    encode_chunk(out, headers, flags, chunk::BLOCK_STATUS, request, 4 + 8 * count);
    out.extend(context.to_be_bytes());
    for &(len, status) in extents {
        out.extend((len as u32).to_be_bytes());
        out.extend(status.to_be_bytes());
    }
}

/// A reply before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyHeader {
    /// A simple reply; where a read went well, as many bytes follow as it asked for.
    Simple {
        /// 0 where it went well.
        error: u32,
        /// Which request it answers.
        cookie: u64,
    },
    /// A chunk.
    Chunk {
        /// Whether it is the last one.
        is_last: bool,
        /// Flags of [`super::chunk`].
        kind: u16,
        /// Which request it answers.
        cookie: u64,
        /// Bytes of its payload.
        len: u64,
    },
}

impl ReplyHeader {
    /// Reads a reply's header from the front of `bytes`; `None` where more bytes are needed. Answers how many
    /// bytes it took, too.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where it is no reply of a session with `headers`.
    pub fn decode(bytes: &[u8], headers: Headers) -> Result<Option<(Self, usize)>, Malformed> {
        let mut cursor = Cursor::new(bytes);
        let Ok(magic) = cursor.u32() else {
            return Ok(None);
        };
        let len = match (magic, headers) {
            (SIMPLE_REPLY_MAGIC, Headers::Simple | Headers::Structured) => SIMPLE_REPLY_BYTES,
            (CHUNK_MAGIC, Headers::Structured) | (EXTENDED_CHUNK_MAGIC, Headers::Extended) => {
                headers.chunk_bytes()
            }
            _ => return Err(Malformed("a reply does not begin with its magic number")),
        };
        if bytes.len() < len {
            return Ok(None);
        }
        if magic == SIMPLE_REPLY_MAGIC {
            return Ok(Some((Self::Simple { error: cursor.u32()?, cookie: cursor.u64()? }, len)));
        }
        let (flags, kind, cookie) = (cursor.u16()?, cursor.u16()?, cursor.u64()?);
        let payload = match headers {
            Headers::Extended => {
                cursor.u64()?;
                cursor.u64()?
            }
            Headers::Simple | Headers::Structured => cursor.u32()?.into(),
        };
        let is_last = flags & chunk::FLAG_DONE != 0;
        Ok(Some((Self::Chunk { is_last, kind, cookie, len: payload }, len)))
    }
}

/// Number and message out of an error chunk's payload.
///
/// # Errors
///
/// [`Malformed`] where lengths do not add up, or the number is 0.
pub fn decode_error(payload: &[u8]) -> Result<(u32, &str), Malformed> {
    let mut cursor = Cursor::new(payload);
    let error = cursor.u32()?;
    let len = cursor.u16()?.into();
    let message = cursor.bytes(len)?;
    if error == 0 {
        return Err(Malformed("an error without a number"));
    }
    Ok((error, text(message).unwrap_or("")))
}

/// Context and extents out of a chunk of block status; `kind` is the chunk's.
///
/// # Errors
///
/// [`Malformed`] where lengths do not add up, or an extent is empty.
pub fn decode_status(payload: &[u8], kind: u16) -> Result<(u32, Vec<(u64, u32)>), Malformed> {
    let mut cursor = Cursor::new(payload);
    let context = cursor.u32()?;
    let is_extended = kind == chunk::BLOCK_STATUS_EXT;
    let size = if is_extended { 16 } else { 8 };
    if is_extended && u64::from(cursor.u32()?) * size as u64 != cursor.rest().len() as u64 {
        return Err(Malformed("block status does not tell its own length"));
    }
    let bytes = cursor.rest();
    if bytes.is_empty() || !bytes.len().is_multiple_of(size) {
        return Err(Malformed("block status without whole extents"));
    }
    let mut extents = Vec::with_capacity(bytes.len() / size);
    for extent in bytes.chunks_exact(size) {
        let mut cursor = Cursor::new(extent);
        let (len, status) = match is_extended {
            true => (cursor.u64()?, cursor.u64()? as u32),
            false => (cursor.u32()?.into(), cursor.u32()?),
        };
        if len == 0 {
            return Err(Malformed("block status with an empty extent"));
        }
        extents.push((len, status));
    }
    Ok((context, extents))
}
