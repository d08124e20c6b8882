//! The bytes of the handshake: greeting, options, replies to options.

use super::{
    Cursor, GREETING_MAGIC, Malformed, OPTION_MAGIC, OPTION_REPLY_MAGIC, handshake_flag, info, text,
};

/// Bytes of [`greeting`].
pub const GREETING_BYTES: usize = 18;
/// Bytes of the client's flags, the answer to the greeting.
pub const CLIENT_FLAGS_BYTES: usize = 4;
/// Bytes of an option before its payload.
pub const OPTION_BYTES: usize = 16;
/// Bytes of a reply to an option before its payload.
pub const OPTION_REPLY_BYTES: usize = 20;
/// Zeros after the reply to `EXPORT_NAME`, unless they were negotiated away.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;
/// Bytes of the reply to `EXPORT_NAME` before its padding.
pub const EXPORT_NAME_REPLY_BYTES: usize = 10;

/// What the server sends first.
pub fn greeting() -> Vec<u8> {
    let mut out = Vec::with_capacity(GREETING_BYTES);
    out.extend(GREETING_MAGIC.to_be_bytes());
    out.extend(OPTION_MAGIC.to_be_bytes());
    out.extend((handshake_flag::FIXED_NEWSTYLE | handshake_flag::NO_ZEROES).to_be_bytes());
    out
}

/// The server's flags.
///
/// # Errors
///
/// [`Malformed`] unless it is a newstyle greeting.
pub fn decode_greeting(bytes: &[u8]) -> Result<u16, Malformed> {
    let mut cursor = Cursor::new(bytes);
    if cursor.u64()? != GREETING_MAGIC || cursor.u64()? != OPTION_MAGIC {
        return Err(Malformed("no newstyle greeting"));
    }
    cursor.u16()
}

/// An option before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionHeader {
    /// Number of the option.
    pub option: u32,
    /// Bytes of its payload.
    pub len: u32,
}

impl OptionHeader {
    /// Reads [`OPTION_BYTES`].
    ///
    /// # Errors
    ///
    /// [`Malformed`] where the magic number is another.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u64()? != OPTION_MAGIC {
            return Err(Malformed("an option does not begin with its magic number"));
        }
        Ok(Self { option: cursor.u32()?, len: cursor.u32()? })
    }
}

/// Appends an option.
pub fn encode_option(out: &mut Vec<u8>, option: u32, payload: &[u8]) {
    out.extend(OPTION_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend((payload.len() as u32).to_be_bytes());
    out.extend(payload);
}

/// A reply to an option before its payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionReplyHeader {
    /// The option.
    pub option: u32,
    /// Number of the reply.
    pub reply: u32,
    /// Bytes of its payload.
    pub len: u32,
}

impl OptionReplyHeader {
    /// Reads [`OPTION_REPLY_BYTES`].
    ///
    /// # Errors
    ///
    /// [`Malformed`] where the magic number is another.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(bytes);
        if cursor.u64()? != OPTION_REPLY_MAGIC {
            return Err(Malformed("a reply to an option does not begin with its magic number"));
        }
        Ok(Self { option: cursor.u32()?, reply: cursor.u32()?, len: cursor.u32()? })
    }
}

/// Appends a reply to an option.
pub fn encode_option_reply(out: &mut Vec<u8>, option: u32, reply: u32, payload: &[u8]) {
    out.extend(OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend(option.to_be_bytes());
    out.extend(reply.to_be_bytes());
    out.extend((payload.len() as u32).to_be_bytes());
    out.extend(payload);
}

/// Appends the reply to `EXPORT_NAME`.
pub fn encode_export_name_reply(out: &mut Vec<u8>, size_bytes: u64, flags: u16, padded: bool) {
    out.extend(size_bytes.to_be_bytes());
    out.extend(flags.to_be_bytes());
    if padded {
        out.extend([0; EXPORT_NAME_PADDING_BYTES]);
    }
}

/// Size and flags of the reply to `EXPORT_NAME`.
///
/// # Errors
///
/// [`Malformed`] where it is too short.
pub fn decode_export_name_reply(bytes: &[u8]) -> Result<(u64, u16), Malformed> {
    let mut cursor = Cursor::new(bytes);
    Ok((cursor.u64()?, cursor.u16()?))
}

/// The payload of `INFO` and `GO`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InfoRequest<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// What the client wants to know, beside what it is told anyway.
    pub wanted: Vec<u16>,
}

impl<'a> InfoRequest<'a> {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where lengths do not add up or the name is no string.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let name = cursor.counted_text()?;
        let count = usize::from(cursor.u16()?);
        let numbers = cursor.bytes(count * 2)?;
        cursor.end()?;
        let wanted = numbers.chunks_exact(2).map(|pair| u16::from_be_bytes([pair[0], pair[1]])).collect();
        Ok(Self { name, wanted })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(6 + self.name.len() + self.wanted.len() * 2);
        encode_counted(&mut out, self.name.as_bytes());
        out.extend((self.wanted.len() as u16).to_be_bytes());
        for number in &self.wanted {
            out.extend(number.to_be_bytes());
        }
        out
    }
}

/// The payload of `LIST_META_CONTEXT` and `SET_META_CONTEXT`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextRequest<'a> {
    /// Name of the export.
    pub name: &'a str,
    /// Which contexts.
    pub queries: Vec<&'a str>,
}

impl<'a> ContextRequest<'a> {
    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where lengths do not add up, a string is none, or there are more than `queries_max`.
    pub fn decode(payload: &'a [u8], queries_max: usize) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let name = cursor.counted_text()?;
        let count = cursor.u32()? as usize;
        if count > queries_max {
            return Err(Malformed("too many queries for metadata contexts"));
        }
        let queries = (0..count).map(|_| cursor.counted_text()).collect::<Result<_, _>>()?;
        cursor.end()?;
        Ok(Self { name, queries })
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        encode_counted(&mut out, self.name.as_bytes());
        out.extend((self.queries.len() as u32).to_be_bytes());
        for query in &self.queries {
            encode_counted(&mut out, query.as_bytes());
        }
        out
    }
}

fn encode_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_be_bytes());
    out.extend(bytes);
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

/// Something about an export: the payload of the reply `INFO`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Info<'a> {
    /// Size and transmission flags.
    Export {
        /// Bytes that it offers.
        size_bytes: u64,
        /// Flags of [`super::transmission_flag`].
        flags: u16,
    },
    /// Its name.
    Name(&'a str),
    /// What it is, in words.
    Description(&'a str),
    /// Smallest, best and largest request.
    BlockSize {
        /// Offsets and lengths are multiples of it.
        minimum_bytes: u32,
        /// Below it a request costs more than it has to.
        preferred_bytes: u32,
        /// Longest payload.
        maximum_bytes: u32,
    },
    /// A number that this program does not know.
    Unknown(u16),
}

impl<'a> Info<'a> {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(14);
        match self {
            Self::Export { size_bytes, flags } => {
                out.extend(info::EXPORT.to_be_bytes());
                out.extend(size_bytes.to_be_bytes());
                out.extend(flags.to_be_bytes());
            }
            Self::Name(name) => {
                out.extend(info::NAME.to_be_bytes());
                out.extend(name.as_bytes());
            }
            Self::Description(words) => {
                out.extend(info::DESCRIPTION.to_be_bytes());
                out.extend(words.as_bytes());
            }
            Self::BlockSize { minimum_bytes, preferred_bytes, maximum_bytes } => {
                out.extend(info::BLOCK_SIZE.to_be_bytes());
                out.extend(minimum_bytes.to_be_bytes());
                out.extend(preferred_bytes.to_be_bytes());
                out.extend(maximum_bytes.to_be_bytes());
            }
            Self::Unknown(number) => out.extend(number.to_be_bytes()),
        }
        out
    }

    /// Reads it.
    ///
    /// # Errors
    ///
    /// [`Malformed`] where its length does not fit its number.
    pub fn decode(payload: &'a [u8]) -> Result<Self, Malformed> {
        let mut cursor = Cursor::new(payload);
        let told = match cursor.u16()? {
            info::EXPORT => Self::Export { size_bytes: cursor.u64()?, flags: cursor.u16()? },
            info::NAME => return text(cursor.rest()).map(Self::Name),
            info::DESCRIPTION => return text(cursor.rest()).map(Self::Description),
            info::BLOCK_SIZE => Self::BlockSize {
                minimum_bytes: cursor.u32()?,
                preferred_bytes: cursor.u32()?,
                maximum_bytes: cursor.u32()?,
            },
            number => return Ok(Self::Unknown(number)),
        };
        cursor.end()?;
        Ok(told)
    }
}

/// The payload of the reply `SERVER`: an export's name, and what it is in words.
pub fn encode_server(name: &str, description: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(4 + name.len() + description.len());
    encode_counted(&mut out, name.as_bytes());
    out.extend(description.as_bytes());
    out
}

/// Name and description out of the reply `SERVER`.
///
/// # Errors
///
/// [`Malformed`] where lengths do not add up or the strings are none.
pub fn decode_server(payload: &[u8]) -> Result<(&str, &str), Malformed> {
    let mut cursor = Cursor::new(payload);
    Ok((cursor.counted_text()?, text(cursor.rest())?))
}

/// The payload of the reply `META_CONTEXT`.
pub fn encode_context(id: u32, name: &str) -> Vec<u8> {
    let mut out = id.to_be_bytes().to_vec();
    out.extend(name.as_bytes());
    out
}

/// Number and name out of the reply `META_CONTEXT`.
///
/// # Errors
///
/// [`Malformed`] where it is too short or the name is no string.
pub fn decode_context(payload: &[u8]) -> Result<(u32, &str), Malformed> {
    let mut cursor = Cursor::new(payload);
    Ok((cursor.u32()?, text(cursor.rest())?))
}
