//! What a trace is made of: lines, or records of one length, each with its number.

use std::io::{BufRead, Read};
use std::str;

use super::{TraceError, has_more};

/// Bytes that a line may have: those of the formats here have a hundred or two.
pub const LINE_MAX_BYTES: usize = 4096;

/// A line without what ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line<'a> {
    /// From 1.
    pub(super) number: u64,
    /// Without blanks around it.
    pub(super) text: &'a str,
}

/// Without the mark that some programs put before UTF-8.
pub(super) fn without_mark(head: &[u8]) -> &[u8] {
    head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head)
}

/// A file, piece by piece.
#[derive(Debug)]
pub(super) struct Lines<R> {
    read: R,
    number: u64,
    line: Vec<u8>,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(read: R) -> Self {
        Self { read, number: 0, line: Vec::new() }
    }

    /// The number of what was read last, from 1.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The next line; `None` behind the last one. Memory is taken for one line of the longest length, whatever the
    /// file holds.
    pub(super) fn next_line(&mut self) -> Result<Option<Line<'_>>, TraceError> {
        self.line.clear();
        let most = LINE_MAX_BYTES as u64 + 1;
        self.read.by_ref().take(most).read_until(b'\n', &mut self.line)?;
        if self.line.is_empty() {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        let malformed = |why: String| TraceError::Malformed { unit: "line", number, why };
        if self.line.len() > LINE_MAX_BYTES && self.line.last() != Some(&b'\n') {
            return Err(malformed(format!("longer than {LINE_MAX_BYTES} bytes")));
        }
        let line = if number == 1 { without_mark(&self.line) } else { &self.line };
        let text = str::from_utf8(line).map_err(|_| malformed("it is not text".to_owned()))?;
        Ok(Some(Line { number, text: text.trim() }))
    }

    /// Fills `record` with the next record; false behind the last one.
    pub(super) fn next_record(&mut self, record: &mut [u8]) -> Result<bool, TraceError> {
        if !has_more(&mut self.read)? {
            return Ok(false);
        }
        self.number += 1;
        let mut taken = 0;
        while taken < record.len() {
            match self.read.read(&mut record[taken..]) {
                Ok(0) => {
                    let why = format!("it ends after {taken} of {} bytes", record.len());
                    return Err(TraceError::Malformed { unit: "record", number: self.number, why });
                }
                Ok(count) => taken += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

impl Line<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    pub(super) fn starts_with(&self, letter: char) -> bool {
        self.text.starts_with(letter)
    }
}
