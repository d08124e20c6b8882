//! Drives whose speed is modelled: flash ([`flash::Flash`]) and disks ([`disk::Disk`]).
//!
//! A model is a state machine without a clock, tasks or chance of its own: requests go in with the time at which
//! they come, completions come out with the time at which they leave. Whoever drives it has the clock: virtual
//! time, a real one, or the times of a trace.
//!
//! 1. The same requests at the same times give the same completions, on every machine.
//! 2. Time does not run backwards: each call's time is at least that of the call before.
//! 3. A completion is given once, in the order of time, and never before its time.
//! 4. Requests that are not made of whole sectors of [`SECTOR_BYTES`], or lie outside the drive, are mistakes of
//!    the caller: it panics.

pub mod closed_loop;
pub mod device;
pub mod disk;
pub mod flash;
pub mod presets;
pub mod pump;
mod schedule;
pub mod store;

use crate::random::Random;

/// What offsets and lengths are multiples of.
pub const SECTOR_BYTES: u64 = 512;

/// What a drive is asked to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read the range.
    Read,
    /// Write the range; a power cut may lose it until a flush covers it.
    Write,
    /// Write the range; done once no power cut can lose it.
    DurableWrite,
    /// Make all writes durable that were complete when it began. The range does not matter.
    Flush,
    /// Make those durable that share a page with the range.
    FlushRange,
    /// Make those durable that named the request's stream. The range does not matter.
    FlushStream,
    /// The contents of the range are no longer needed.
    Discard,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Names it in its completion. The model does not look at it.
    pub tag: u64,
    /// What to do.
    pub operation: Operation,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub len: u64,
    /// Whose it is (a file's inode, say), for a later [`Operation::FlushStream`]; 0 is nobody's.
    pub stream: u32,
}

impl Request {
    /// A request of nobody's stream.
    pub const fn new(tag: u64, operation: Operation, offset: u64, len: u64) -> Self {
        Self { tag, operation, offset, len, stream: 0 }
    }
}

/// A request is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// The request's.
    pub tag: u64,
    /// When.
    pub at_ns: u64,
}

/// What every model of a drive does.
pub trait Model {
    /// Bytes that can be addressed.
    fn size_bytes(&self) -> u64;

    /// The time of the last call, or of what happened last.
    fn now_ns(&self) -> u64;

    /// Hands over a request at `now_ns`, up to which everything must have happened.
    fn submit(&mut self, now_ns: u64, request: Request);

    /// When something happens next, if nothing is submitted before; `None` if nothing will.
    fn next_event_ns(&self) -> Option<u64>;

    /// Lets everything happen up to `now_ns`, and adds what was completed to `done`.
    fn run_until(&mut self, now_ns: u64, done: &mut Vec<Completion>);
}

/// A model that keeps what is written to it.
pub trait Storage: Model {
    /// As [`Model::submit`], for a write of these bytes.
    fn submit_write(&mut self, now_ns: u64, request: Request, bytes: &[u8]);

    /// What a read finds that is done now.
    fn read_contents(&self, offset: u64, into: &mut [u8]);

    /// The power fails, and comes back: requests under way are forgotten, what was not durable may be lost, and the
    /// drive's time begins at 0. Answers what it takes to be ready.
    fn power_cut(&mut self, random: &mut Random) -> u64;

    /// Whether a sector whose write a power cut interrupts holds its old or its new bytes, never others.
    fn has_atomic_sectors(&self) -> bool;
}
