//! Block traces: who asked a device for what, and when, as others recorded it.
//!
//! ```text
//! lib        Access, and the reader: any of the formats as an iterator
//!   format   which formats there are, and which one a file is in
//!   lines    lines of a bounded length, by number
//!   text     a line of each text format
//!   vscsi    a record of each binary one
//!   devices  the devices that a trace names
//! survey     a whole trace at a glance, before any of it is replayed
//! order      accesses in the order of their time
//! placement  where the requests of its devices lie on a target
//! ```
//!
//! 1. A trace comes from somebody else: whatever its bytes are, the reader answers with accesses or with one error
//!    that names the line or record. It never panics, and what it holds is bounded: a line by [`LINE_MAX_BYTES`], the
//!    devices by [`DEVICES_MAX`], an access by [`ACCESS_MAX_BYTES`].
//! 2. An access that was read lies within 64 bits, and moves at least one byte unless it is a flush.
//! 3. Times are as recorded, in nanoseconds from wherever the recorder's clock began; only their differences mean
//!    something. Arithmetic is exact: no time passes through floating point.

mod devices;
mod format;
mod lines;
pub mod order;
pub mod placement;
#[cfg(test)]
mod placement_tests;
pub mod survey;
#[cfg(test)]
mod tests;
mod text;
mod vscsi;

use std::fmt;
use std::io::{self, BufRead, BufReader, Chain, Cursor, Read};

pub use devices::{DEVICES_MAX, DeviceId, Devices};
pub use format::Format;
pub use lines::LINE_MAX_BYTES;

use lines::Lines;

/// Bytes that one access may move: more is no request of a block device, but a damaged trace.
pub const ACCESS_MAX_BYTES: u64 = 64 << 20;

/// Bytes of a sector, in formats that count in them.
const SECTOR_BYTES: u64 = 512;

/// Bytes from a file's start by which its format is told.
const HEAD_BYTES: u64 = 64 << 10;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Op {
    /// Bytes.
    Read,
    /// Bytes to be kept.
    Write,
    /// That what was written be durable; without a range.
    Flush,
}

/// One request of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// When, on the recorder's clock.
    pub time_ns: u64,
    /// Of which device: the reader's [`Devices`] know its name.
    pub device: DeviceId,
    /// What.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes: 0 for a flush, else up to [`ACCESS_MAX_BYTES`].
    pub len_bytes: u32,
}

impl Access {
    /// An access of `len_bytes`; `None` where it moves nothing.
    fn new(
        time_ns: u64,
        device: DeviceId,
        op: Op,
        offset: u64,
        len_bytes: u64,
    ) -> Result<Option<Self>, String> {
        if len_bytes > ACCESS_MAX_BYTES {
            return Err(format!("an access of {len_bytes} bytes; the most are {ACCESS_MAX_BYTES}"));
        }
        if offset.checked_add(len_bytes).is_none() {
            return Err(format!("an access of {len_bytes} bytes at {offset} ends beyond what 64 bits count"));
        }
        let access = Self { time_ns, device, op, offset, len_bytes: len_bytes as u32 };
        Ok((len_bytes > 0).then_some(access))
    }

    /// The byte after the last one.
    pub fn end(&self) -> u64 {
        self.offset + u64::from(self.len_bytes)
    }
}

/// Why a trace cannot be read (further).
#[derive(Debug)]
pub enum TraceError {
    /// The file.
    Io(io::Error),
    /// It is in no format that is known.
    Unknown(String),
    /// A line, or a record of a binary trace, is not what its format says.
    Malformed {
        /// `line` or `record`.
        unit: &'static str,
        /// Which, from 1.
        number: u64,
        /// What is wrong.
        why: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(out),
            Self::Unknown(why) => out.write_str(why),
            Self::Malformed { unit, number, why } => write!(out, "{unit} {number}: {why}"),
        }
    }
}

impl std::error::Error for TraceError {}

impl From<io::Error> for TraceError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The accesses of a trace, in the order in which it holds them; after an error there are none.
pub struct TraceReader<R: Read> {
    format: Format,
    lines: Lines<BufReader<Chain<Cursor<Vec<u8>>, R>>>,
    devices: Devices,
    skipped: u64,
    has_failed: bool,
}

impl<R: Read> fmt::Debug for TraceReader<R> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TraceReader")
            .field("format", &self.format)
            .field("number", &self.lines.number())
            .finish_non_exhaustive()
    }
}

impl<R: Read> TraceReader<R> {
    /// The trace that `read` gives, in `format`, or in the one that its first bytes show.
    ///
    /// # Errors
    ///
    /// Those of reading; [`TraceError::Unknown`] where no format is like it.
    pub fn new(mut read: R, format: Option<Format>) -> Result<Self, TraceError> {
        let mut head = Vec::new();
        read.by_ref().take(HEAD_BYTES).read_to_end(&mut head)?;
        let format = match format {
            Some(format) => format,
            None => Format::of(&head).map_err(TraceError::Unknown)?,
        };
        let whole = BufReader::with_capacity(HEAD_BYTES as usize, Cursor::new(head).chain(read));
        Ok(Self {
            format,
            lines: Lines::new(whole),
            devices: Devices::default(),
            skipped: 0,
            has_failed: false,
        })
    }

    /// The format it is read in.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The devices that were named so far.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Lines or records so far that moved no bytes, such as a request for a drive's name.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    fn next_access(&mut self) -> Result<Option<Access>, TraceError> {
        loop {
            let parsed = match self.format.record_bytes() {
                Some(record_bytes) => {
                    let mut record = [0; vscsi::RECORD_MAX_BYTES];
                    let record = &mut record[..record_bytes];
                    if !self.lines.next_record(record)? {
                        return Ok(None);
                    }
                    vscsi::parse(self.format, record, &mut self.devices)
                }
                None => {
                    let Some(line) = self.lines.next_line()? else { return Ok(None) };
                    if line.is_empty() || line.starts_with('#') {
                        continue;
                    }
                    if line.number == 1 && text::is_header(self.format, line.text) {
                        continue;
                    }
                    text::parse(self.format, line.text, &mut self.devices)
                }
            };
            match parsed {
                Ok(Some(access)) => return Ok(Some(access)),
                Ok(None) => self.skipped += 1,
                Err(why) => return Err(self.malformed(why)),
            }
        }
    }

    fn malformed(&self, why: String) -> TraceError {
        let unit = if self.format.record_bytes().is_some() { "record" } else { "line" };
        TraceError::Malformed { unit, number: self.lines.number(), why }
    }
}

impl<R: Read> Iterator for TraceReader<R> {
    type Item = Result<Access, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_failed {
            return None;
        }
        let next = self.next_access();
        self.has_failed = next.is_err();
        next.transpose()
    }
}

/// Whether more bytes than none can be had from `read`.
fn has_more(read: &mut impl BufRead) -> io::Result<bool> {
    loop {
        match read.fill_buf() {
            Ok(bytes) => return Ok(!bytes.is_empty()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
