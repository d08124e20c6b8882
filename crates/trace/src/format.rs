//! Which formats there are, and which one a file is in.

use std::fmt;
use std::str;

use schemars::JsonSchema;
use serde::Serialize;

use super::lines::without_mark;
use super::{text, vscsi};

/// How a trace is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// `ASU,LBA,size,opcode,timestamp`: sectors, bytes, `R` or `W`, seconds. The Storage Performance Council's.
    Spc,
    /// `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime`: ticks of 100 ns, bytes. Microsoft Research
    /// Cambridge's.
    Msr,
    /// `time_ns device lba_sectors size_sectors op`, 1 for a read and 0 for a write: as MQSim takes them.
    NsSectors,
    /// `time_ms device offset_bytes size_bytes op`, 1 for a read and 0 for a write.
    MsBytes,
    /// Records of 32 bytes of VMware's vscsiStats, as CloudPhysics kept them.
    Vscsi1,
    /// The same with response times: records of 40 bytes.
    Vscsi2,
}

impl Format {
    /// All there are.
    pub const ALL: [Self; 6] =
        [Self::Spc, Self::Msr, Self::NsSectors, Self::MsBytes, Self::Vscsi1, Self::Vscsi2];

    /// Its name on the command line and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spc => "spc",
            Self::Msr => "msr",
            Self::NsSectors => "ns-sectors",
            Self::MsBytes => "ms-bytes",
            Self::Vscsi1 => "vscsi1",
            Self::Vscsi2 => "vscsi2",
        }
    }

    /// Bytes of a record, in binary formats.
    pub(super) fn record_bytes(self) -> Option<usize> {
        match self {
            Self::Vscsi1 => Some(vscsi::V1_BYTES),
            Self::Vscsi2 => Some(vscsi::V2_BYTES),
            _ => None,
        }
    }

    /// The format of a file that begins with `head`; in words why none is like it.
    pub(super) fn of(head: &[u8]) -> Result<Self, String> {
        if head.is_empty() {
            return Err("it is empty; name a file with a trace".to_owned());
        }
        if let Some(packed) = packed_by(head) {
            return Err(format!("it is compressed; unpack it with {packed} first"));
        }
        // No text holds a byte of zero, and every record holds several.
        if head.iter().take(vscsi::RECORD_MAX_BYTES).any(|&byte| byte == 0) {
            return vscsi::version_of(head).ok_or_else(|| unlike("a binary file that is no vscsi trace"));
        }
        let head = without_mark(head);
        let text = match str::from_utf8(head) {
            Ok(text) => text,
            // The head may end within a letter.
            Err(error) if error.error_len().is_none() => {
                str::from_utf8(&head[..error.valid_up_to()]).unwrap_or("")
            }
            Err(_) => return Err(unlike("neither text nor a vscsi trace")),
        };
        // The last of several lines may be cut off.
        let whole = text.rfind('\n').map_or(text, |end| &text[..end]);
        let lines = || whole.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let Some(first) = lines().next() else { return Err(unlike("nothing but comments at its start")) };
        text::format_of(first, lines()).ok_or_else(|| {
            let shown: String = first.chars().take(60).collect();
            unlike(&format!("its first line, `{}`, is like none", shown.escape_debug()))
        })
    }
}

impl fmt::Display for Format {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

fn unlike(why: &str) -> String {
    let names: Vec<&str> = Format::ALL.iter().map(|format| format.name()).collect();
    format!("in no format that is known ({}): {why}; docs/replay.md shows them", names.join(", "))
}

/// What unpacks a file that begins so.
fn packed_by(head: &[u8]) -> Option<&'static str> {
    [
        (&b"\x1f\x8b"[..], "gunzip"),
        (b"BZh", "bunzip2"),
        (b"\xfd7zXZ\0", "unxz"),
        (b"\x28\xb5\x2f\xfd", "unzstd"),
        (b"PK\x03\x04", "unzip"),
    ]
    .iter()
    .find(|(magic, _)| head.starts_with(magic))
    .map(|&(_, program)| program)
}
