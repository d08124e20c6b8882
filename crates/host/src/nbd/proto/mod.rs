//! The NBD protocol's bytes: numbers, encoders and bounded decoders, as pure functions over slices.
//!
//! The source is the protocol's own document, `doc/proto.md` of the NBD project. Numbers are big-endian.
//!
//! 1. Nothing is stated twice: server and client use the same constants and the same layouts.
//! 2. A decoder takes any bytes. It allocates no more than what it was given, and answers [`Malformed`] for
//!    what the protocol does not know.

pub mod handshake;
pub mod transmission;
pub mod writer;

/// What the server sends first.
pub const GREETING_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// What follows it, and what every option begins with.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// What every reply to an option begins with.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// What a request begins with.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// What a request with extended headers begins with.
pub const EXTENDED_REQUEST_MAGIC: u32 = 0x21e4_1c71;
/// What a simple reply begins with.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// What a chunk of a structured reply begins with.
pub const CHUNK_MAGIC: u32 = 0x668e_33ef;
/// What a chunk of a reply with extended headers begins with.
pub const EXTENDED_CHUNK_MAGIC: u32 = 0x6e8a_278c;

/// Longest string that the protocol knows.
pub const STRING_MAX_BYTES: usize = 4096;

/// The metadata context that tells what is allocated.
pub const CONTEXT_ALLOCATION: &str = "base:allocation";
/// The metadata context whose selection turns range flush on: evenkeel's own.
pub const CONTEXT_RANGE_FLUSH: &str = "evenkeel:range-flush";

/// Flags of the handshake.
pub mod handshake_flag {
    /// Server and client: options are answered.
    pub const FIXED_NEWSTYLE: u16 = 1;
    /// Server and client: no padding after the reply to the option `EXPORT_NAME`.
    pub const NO_ZEROES: u16 = 1 << 1;
}

/// Numbers of options.
pub mod option {
    /// Chooses an export and begins the transmission; has no error reply.
    pub const EXPORT_NAME: u32 = 1;
    /// Ends the handshake.
    pub const ABORT: u32 = 2;
    /// Names the exports.
    pub const LIST: u32 = 3;
    /// Begins TLS on the connection.
    pub const STARTTLS: u32 = 5;
    /// Tells about an export.
    pub const INFO: u32 = 6;
    /// Tells about an export and begins the transmission.
    pub const GO: u32 = 7;
    /// Replies may come in chunks.
    pub const STRUCTURED_REPLY: u32 = 8;
    /// Names metadata contexts.
    pub const LIST_META_CONTEXT: u32 = 9;
    /// Selects metadata contexts.
    pub const SET_META_CONTEXT: u32 = 10;
    /// Lengths have 64 bits.
    pub const EXTENDED_HEADERS: u32 = 11;
}

/// Numbers of replies to options.
pub mod option_reply {
    /// Done.
    pub const ACK: u32 = 1;
    /// An export.
    pub const SERVER: u32 = 2;
    /// Something about an export.
    pub const INFO: u32 = 3;
    /// A metadata context.
    pub const META_CONTEXT: u32 = 4;
    /// Set in all errors.
    pub const ERROR: u32 = 1 << 31;
    /// Not known.
    pub const ERR_UNSUP: u32 = ERROR + 1;
    /// Known and not allowed.
    pub const ERR_POLICY: u32 = ERROR + 2;
    /// Not well formed, or not at this point.
    pub const ERR_INVALID: u32 = ERROR + 3;
    /// TLS comes first.
    pub const ERR_TLS_REQD: u32 = ERROR + 5;
    /// No such export.
    pub const ERR_UNKNOWN: u32 = ERROR + 6;
    /// The server is about to end.
    pub const ERR_SHUTDOWN: u32 = ERROR + 7;
    /// The client has to ask for the block sizes.
    pub const ERR_BLOCK_SIZE_REQD: u32 = ERROR + 8;
    /// Larger than the server takes.
    pub const ERR_TOO_BIG: u32 = ERROR + 9;
    /// Extended headers are on.
    pub const ERR_EXT_HEADER_REQD: u32 = ERROR + 10;
}

/// Numbers of what is told about an export.
pub mod info {
    /// Size and transmission flags.
    pub const EXPORT: u16 = 0;
    /// Its name.
    pub const NAME: u16 = 1;
    /// What it is, in words.
    pub const DESCRIPTION: u16 = 2;
    /// Smallest, best and largest request.
    pub const BLOCK_SIZE: u16 = 3;
}

/// Flags of an export.
pub mod transmission_flag {
    /// The others mean something.
    pub const HAS_FLAGS: u16 = 1;
    /// It cannot be written to.
    pub const READ_ONLY: u16 = 1 << 1;
    /// It takes flushes.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// It takes durable writes.
    pub const SEND_FUA: u16 = 1 << 3;
    /// To seek costs it time.
    pub const ROTATIONAL: u16 = 1 << 4;
    /// It takes trims.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// It takes writes of zeros without a payload.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// A read's reply can be asked for in one chunk.
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush covers the writes of every connection.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Numbers of commands.
pub mod command {
    /// Reads.
    pub const READ: u16 = 0;
    /// Writes.
    pub const WRITE: u16 = 1;
    /// Ends the session; has no reply.
    pub const DISCONNECT: u16 = 2;
    /// Makes completed writes durable.
    pub const FLUSH: u16 = 3;
    /// Drops contents.
    pub const TRIM: u16 = 4;
    /// Writes zeros.
    pub const WRITE_ZEROES: u16 = 6;
    /// Tells what is allocated.
    pub const BLOCK_STATUS: u16 = 7;
}

/// Flags of commands.
pub mod command_flag {
    /// The reply comes when it is durable.
    pub const FUA: u16 = 1;
    /// Zeros are to stay allocated.
    pub const NO_HOLE: u16 = 1 << 1;
    /// A read's reply is one chunk.
    pub const DF: u16 = 1 << 2;
    /// One extent is enough.
    pub const REQ_ONE: u16 = 1 << 3;
    /// With extended headers: as many bytes follow as the length says.
    pub const PAYLOAD_LEN: u16 = 1 << 5;
}

/// Numbers of chunks.
pub mod chunk {
    /// Nothing but the end.
    pub const NONE: u16 = 0;
    /// Bytes at an offset.
    pub const OFFSET_DATA: u16 = 1;
    /// Zeros at an offset.
    pub const OFFSET_HOLE: u16 = 2;
    /// Extents with a status, lengths of 32 bits.
    pub const BLOCK_STATUS: u16 = 5;
    /// Extents with a status, lengths of 64 bits.
    pub const BLOCK_STATUS_EXT: u16 = 6;
    /// Set in all errors.
    pub const IS_ERROR: u16 = 1 << 15;
    /// An error.
    pub const ERROR: u16 = IS_ERROR + 1;
    /// An error at an offset.
    pub const ERROR_OFFSET: u16 = IS_ERROR + 2;
    /// A flag, not a number: the last chunk of a reply.
    pub const FLAG_DONE: u16 = 1;
}

/// Status of an extent in the context [`CONTEXT_ALLOCATION`].
pub mod status {
    /// It takes no room.
    pub const HOLE: u32 = 1;
    /// It reads as zeros.
    pub const ZERO: u32 = 1 << 1;
}

/// The numbers of errors that may be sent.
pub mod errno {
    /// Not permitted.
    pub const EPERM: u32 = 1;
    /// Input or output failed.
    pub const EIO: u32 = 5;
    /// No memory.
    pub const ENOMEM: u32 = 12;
    /// Not valid.
    pub const EINVAL: u32 = 22;
    /// No room, or beyond the end.
    pub const ENOSPC: u32 = 28;
    /// Too large.
    pub const EOVERFLOW: u32 = 75;
    /// Not supported.
    pub const ENOTSUP: u32 = 95;
    /// The server is about to end.
    pub const ESHUTDOWN: u32 = 108;

    /// What stands for the system's error `number` on the wire, where only a few numbers are known.
    pub const fn on_wire(number: i32) -> u32 {
        const EROFS: i32 = 30;
        const EFBIG: i32 = 27;
        const EDQUOT: i32 = 122;
        match number {
            EROFS => EPERM,
            EFBIG | EDQUOT => ENOSPC,
            1 | 12 | 22 | 28 | 75 | 95 | 108 => number as u32,
            _ => EIO,
        }
    }
}

/// Bytes that the protocol does not allow where they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not what the NBD protocol allows: {0}")]
pub struct Malformed(pub &'static str);

/// Takes numbers and strings off the front of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.bytes.split_at_checked(len).ok_or(Malformed("a message is too short"))?;
        self.bytes = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.bytes.split_first_chunk().ok_or(Malformed("a message is too short"))?;
        self.bytes = rest;
        Ok(*taken)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_be_bytes)
    }

    /// A length of 32 bits and as many bytes of UTF-8 without NUL.
    pub(crate) fn counted_text(&mut self) -> Result<&'a str, Malformed> {
        let len = self.u32()? as usize;
        text(self.bytes(len)?)
    }

    /// All that is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Nothing may be left.
    pub(crate) fn end(self) -> Result<(), Malformed> {
        if self.bytes.is_empty() { Ok(()) } else { Err(Malformed("a message is too long")) }
    }
}

/// A string as the protocol has it.
pub(crate) fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    if bytes.len() > STRING_MAX_BYTES {
        return Err(Malformed("a string is too long"));
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => Err(Malformed("a string is not UTF-8 or holds a NUL")),
    }
}
