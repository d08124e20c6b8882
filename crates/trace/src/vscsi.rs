//! Records of vscsi traces: SCSI commands to a virtual disk, little-endian.
//!
//! ```text
//! version 1, 32 bytes                version 2, 40 bytes
//!    0  u32  serial number              0  u16  command
//!    4  u32  length, bytes              2  u16  version, in its high byte
//!    8  u32  parts of the buffer        4  u32  serial number
//!   12  u16  command                    8  u32  length, bytes
//!   14  u16  version, in its high byte 12  u32  parts of the buffer
//!   16  u64  block, of 512 bytes       16  u64  block, of 512 bytes
//!   24  u64  time, us                  24  u64  time, us
//!                                      32  u64  response time, us
//! ```

use super::{Access, Devices, Format, Op, SECTOR_BYTES};

pub(super) const V1_BYTES: usize = 32;
pub(super) const V2_BYTES: usize = 40;
pub(super) const RECORD_MAX_BYTES: usize = V2_BYTES;

/// A trace is of one virtual disk, and does not say which.
const DEVICE: &str = "0";

/// Where things stand in a record.
struct Layout {
    version: usize,
    command: usize,
    len: usize,
    block: usize,
    time: usize,
}

const V1: Layout = Layout { version: 14, command: 12, len: 4, block: 16, time: 24 };
const V2: Layout = Layout { version: 2, command: 0, len: 8, block: 16, time: 24 };

fn layout(format: Format) -> (&'static Layout, u16) {
    match format {
        Format::Vscsi1 => (&V1, 1),
        Format::Vscsi2 => (&V2, 2),
        _ => unreachable!("a text format has no records"),
    }
}

/// The version that the first two records of `head` have, or its only one.
pub(super) fn version_of(head: &[u8]) -> Option<Format> {
    [Format::Vscsi2, Format::Vscsi1].into_iter().find(|&format| {
        let (layout, version) = layout(format);
        let record_bytes = format.record_bytes().expect("it is binary");
        let mut records = head.chunks_exact(record_bytes).take(2).peekable();
        records.peek().is_some() && records.all(|record| short(record, layout.version) >> 8 == version)
    })
}

/// The access in a record; `None` for commands that move no bytes.
pub(super) fn parse(format: Format, record: &[u8], devices: &mut Devices) -> Result<Option<Access>, String> {
    let (layout, version) = layout(format);
    let found = short(record, layout.version) >> 8;
    if found != version {
        return Err(format!("of version {found} in a trace of version {version}"));
    }
    let device = devices.named(DEVICE)?;
    let block = word(record, layout.block);
    let time_us = word(record, layout.time);
    let time_ns =
        time_us.checked_mul(1000).ok_or_else(|| format!("time {time_us} us is more than 64 bits of ns"))?;
    // Of SCSI's block commands, in versions of 6, 10, 12, 16 bytes.
    let op = match short(record, layout.command) {
        0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
        // The last two verify as well.
        0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0x8e => Op::Write,
        // SYNCHRONIZE CACHE: its range, if any, is not in the trace's length.
        0x35 | 0x91 => {
            return Ok(Some(Access { time_ns, device, op: Op::Flush, offset: 0, len_bytes: 0 }));
        }
        _ => return Ok(None),
    };
    let offset = block
        .checked_mul(SECTOR_BYTES)
        .ok_or_else(|| format!("block {block} lies beyond what 64 bits count"))?;
    Access::new(time_ns, device, op, offset, number(record, layout.len).into())
}

fn short(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn number(record: &[u8], at: usize) -> u32 {
    record[at..at + 4].try_into().map(u32::from_le_bytes).expect("four bytes")
}

fn word(record: &[u8], at: usize) -> u64 {
    record[at..at + 8].try_into().map(u64::from_le_bytes).expect("eight bytes")
}
