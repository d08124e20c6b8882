//! Figures 1 and 2 with the range flush of `evenkeel mount` instead of that of a modelled file system.
//!
//! ```text
//! buffer, pair    a figure each
//!   site          the file system on a volume of the engine, and who uses it
//!     board       the paper's board as a device: FLUSH or RFLUSH
//! ```
//!
//! 1. File system and engine are the code that is mounted; the board is modelled, and so is time.
//! 2. The last buffer before stable storage is the memory of the mount: what nobody has synced is there, and not in the
//!    drive. So its size is what is varied. A flush by either way drains what it drains with as much at once as there is.

mod board;
mod buffer;
mod pair;
mod site;
#[cfg(test)]
mod tests;
mod waiting;

use evenkeel_sim::file_system::{Barrier, FlushQueueing};

use super::super::FigureModule;
use super::Lines;

/// The figures.
pub(super) const MODULES: [FigureModule; 2] = [buffer::MODULE, pair::MODULE];

/// What an fsync drains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Way {
    /// All that is in memory, whosever it is.
    takes_everything: bool,
    /// What the drive is asked for.
    barrier: Barrier,
    /// Whether the drive takes other requests beside that.
    queueing: FlushQueueing,
}

/// As a volume's FLUSH does, which names nothing.
const FLUSH: Way = Way { takes_everything: true, barrier: Barrier::Flush, queueing: FlushQueueing::Alone };
/// As the mount does, on a drive that has RFLUSH.
const RANGE_FLUSH: Way =
    Way { takes_everything: false, barrier: Barrier::RangeFlush, queueing: FlushQueueing::Alone };

/// Of every chart and table, in this order.
const WAYS: [(Way, &str); 5] = [
    (FLUSH, "FLUSH"),
    (RANGE_FLUSH, "RFLUSH"),
    (Way { queueing: FlushQueueing::Queued, ..FLUSH }, "variant: FLUSH, queued"),
    (Way { queueing: FlushQueueing::Queued, ..RANGE_FLUSH }, "variant: RFLUSH, queued"),
    (
        Way { queueing: FlushQueueing::Queued, barrier: Barrier::Flush, ..RANGE_FLUSH },
        "variant: RFLUSH by the mount, FLUSH by the drive, queued",
    ),
];

/// How the figures are drawn.
const LINES: Lines<'_, Way> = Lines { ways: &WAYS, buffer_name: "buffer: memory of the mount" };

/// What is the same in both figures.
const SETUP: [&str; 4] = [
    "The file system that evenkeel mount serves, on a volume of the engine of 24 GB on the paper's board by model (open-channel,      32 GB, 512 MB of buffer, never written), which carries out a flush alone; virtual time.",
    "The last buffer is the mount's memory: data that is written there stays until somebody syncs it, or there is more of it      than the chart's buffer. RFLUSH: an fsync drains its own file, as the mount's does. FLUSH: an fsync drains all files, side by      side, as a flush does that names nothing; so it is with a kernel's file system over NBD.",
    "The board has no durable write of its own. A record of the volume's log is a write and a flush behind it, by FLUSH, or by      RFLUSH of the record's blocks; data on its way to its blocks is flushed likewise. A checkpoint asks for a FLUSH in both      cases. In the variant the drive knows FLUSH alone, as drives do that can be bought.",
    "1 us to copy a page; FUSE and processors take no time.",
];
