//! A volume within a program of one's own: no server, no socket, the same engine and the same folder.
//!
//! ```text
//! mod       Volume: a handle for any thread and any async runtime
//!   pending   an answer to come: await it, or wait for it
//!   queue     what was asked for, up to a bound in bytes
//!   volume_thread  the thread that runs the event loop with the volume on it
//!   error     what can go wrong, for any thread
//! ```
//!
//! 1. What is asked for is handed over at once where the queue has room, so that many requests can be under way
//!    before the first is waited for; else when the answer is first polled, in the order of asking.
//! 2. Requests that are under way at the same time take effect in some order. Whoever needs an order waits in
//!    between, or makes them one commit.
//! 3. An answer that is dropped gives up the answer, not the request.
//! 4. When the last handle is dropped, requests under way are carried out and the volume is left as a kill would
//!    leave it: what was acknowledged is in the arena and found by the next opening. [`Volume::close`] makes
//!    everything durable and takes it home.
//! 5. Whoever waits is told, whatever ends the volume: with [`Error::Stopped`] where nothing else is known.
//!
//! Code that runs on an [`EventLoop`](crate::event_loop::EventLoop) already needs none of this: there,
//! [`OpenVolume`](crate::volume::OpenVolume) is the volume itself.

mod error;
mod pending;
mod queue;
mod reply;
mod volume_thread;

use std::fmt;
use std::ops::{Bound, Range, RangeBounds};
use std::path::Path;
use std::sync::Arc;

pub use evenkeel_engine::counters::Snapshot;
pub use evenkeel_engine::device::Durability;
pub use evenkeel_engine::options::{Journaling, OpenOptions, Tuning};
pub use evenkeel_engine::volume::Occupancy;

pub use crate::event_loop::Backend;
pub use crate::remedy::{Remedy, Setting};
pub use crate::volume::create::Request as Creation;
pub use crate::volume::description::Description;
pub use error::Error;
pub use pending::Pending;

use evenkeel_engine::device::Extent;
use queue::{Job, Queue};

/// How a volume is run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How the engine runs it.
    pub open: OpenOptions,
    /// Bytes of requests that may be under way; beyond them, whoever asks waits. One larger request is let through
    /// alone.
    pub under_way_max_bytes: usize,
    /// How the kernel is asked.
    pub backend: Backend,
}

impl Default for Options {
    fn default() -> Self {
        Self { open: OpenOptions::default(), under_way_max_bytes: 32 << 20, backend: Backend::Auto }
    }
}

/// How full it is, and what it did since it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Status {
    /// How full its parts are.
    pub occupancy: Occupancy,
    /// What was done.
    pub counters: Snapshot,
}

/// What does not change while it is open.
#[derive(Debug, Clone, Copy)]
struct Facts {
    size_bytes: u64,
    atomic_max_bytes: u64,
    commit_max_bytes: u64,
}

/// An open volume. A clone is another handle to it; any thread may use one.
///
/// ```
/// use evenkeel_host::embedded::{Creation, Durability, Options, Volume};
///
/// let parent = tempfile::tempdir_in(".")?;
/// let folder = parent.path().join("volume");
/// Volume::create(Creation { log_bytes: 8 << 20, sparse: true, ..Creation::new(&folder, 16 << 20) }).wait()?;
///
/// let volume = Volume::open(&folder, Options::default()).wait()?;
/// // From a thread: durable when `wait` returns.
/// volume.write(4096, b"one", Durability::Durable).wait()?;
/// // Acknowledged at once, durable with the flush: many writes, one wait for the disk.
/// volume.write(8192, b"two", Durability::Buffered).wait()?;
/// volume.flush(8192..8195).wait()?;
/// // All of it or none, whatever happens.
/// volume.commit(&[(0, b"2"), (12288, b"3")]).wait()?;
/// assert_eq!(volume.read(4096, 3).wait()?, b"one");
/// // From async code it is the same, with `.await` in place of `.wait()`.
/// volume.close().wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Volume {
    handle: Arc<Handle>,
    facts: Facts,
}

/// Gone with the last clone.
struct Handle {
    queue: Arc<Queue>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.queue.stop();
    }
}

impl fmt::Debug for Volume {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Volume").field("size_bytes", &self.facts.size_bytes).finish_non_exhaustive()
    }
}

impl Volume {
    /// Makes a volume. Nothing that exists is overwritten but what the request names.
    ///
    /// # Errors
    ///
    /// Those of [`create`](crate::volume::create::create).
    pub fn create(request: Creation) -> Pending<Description> {
        volume_thread::create(request)
    }

    /// Opens the volume in `folder`, on a thread of its own: what a cut or a kill left undone is done first.
    ///
    /// # Errors
    ///
    /// [`Error::NotAVolume`], [`Error::InUse`], [`Error::Unusable`], and those of the system.
    pub fn open(folder: impl AsRef<Path>, options: Options) -> Pending<Self> {
        volume_thread::open(folder.as_ref().to_owned(), options)
    }

    fn new(queue: Arc<Queue>, facts: Facts) -> Self {
        Self { handle: Arc::new(Handle { queue }), facts }
    }

    /// Bytes that it offers.
    pub fn size_bytes(&self) -> u64 {
        self.facts.size_bytes
    }

    /// Largest write that is there whole or not at all after a cut.
    pub fn atomic_max_bytes(&self) -> u64 {
        self.facts.atomic_max_bytes
    }

    /// Largest [`Self::commit`], with 64 bytes for each of its ranges.
    pub fn commit_max_bytes(&self) -> u64 {
        self.facts.commit_max_bytes
    }

    /// Writes `bytes` at `offset`. Acknowledged, a buffered write survives a kill of the process, and with the next
    /// flush that covers it, or a durable one by itself, a power cut.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`]; after a failure below, that failure or [`Error::ReadOnly`].
    pub fn write(&self, offset: u64, bytes: impl Into<Vec<u8>>, durability: Durability) -> Pending<()> {
        let bytes = bytes.into();
        self.ask(bytes.len(), |reply| Job::Write { offset, bytes, durability, reply })
    }

    /// Writes all of `ranges` at once and durably: after a cut all of it is there or none.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; [`Error::TooLarge`] beyond [`Self::commit_max_bytes`].
    pub fn commit<B: AsRef<[u8]>>(&self, ranges: &[(u64, B)]) -> Pending<()> {
        let mut bytes = Vec::with_capacity(ranges.iter().map(|(_, part)| part.as_ref().len()).sum());
        let mut parts = Vec::with_capacity(ranges.len());
        for (offset, part) in ranges {
            bytes.extend_from_slice(part.as_ref());
            parts.push((*offset, part.as_ref().len()));
        }
        let held = bytes.len() + size_of_val(&parts[..]);
        self.ask(held, |reply| Job::Commit { parts, bytes, reply })
    }

    /// Makes every acknowledged write that `range` touches durable, whole, and nothing else; `..` is all of them.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn flush(&self, range: impl RangeBounds<u64>) -> Pending<()> {
        self.flush_ranges(&[self.bounds(range)])
    }

    /// As [`Self::flush`], for several ranges with one wait.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn flush_ranges(&self, ranges: &[Range<u64>]) -> Pending<()> {
        let extents: Option<Vec<Extent>> = ranges.iter().map(|range| self.extent(range)).collect();
        let Some(extents) = extents else { return Pending::ready(Err(Error::OutOfRange)) };
        self.ask(size_of_val(&extents[..]), |reply| Job::Flush { extents, reply })
    }

    /// Reads `len` bytes from `offset`: the latest that were acknowledged.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`]; [`Error::Damaged`] where a page is not what was written; those of the device.
    pub fn read(&self, offset: u64, len: usize) -> Pending<Vec<u8>> {
        // Before any memory is taken.
        let extent = Extent { offset, len: len as u64 };
        if !extent.fits(self.facts.size_bytes) {
            return Pending::ready(Err(Error::OutOfRange));
        }
        self.ask(len, |reply| Job::Read { offset, len, reply })
    }

    /// Zeroes `range`. Whole pages in it take no room any more, and what the log still has of them never goes home:
    /// a log of one's own discards its old part so.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn write_zeroes(&self, range: Range<u64>, durability: Durability) -> Pending<()> {
        let Some(extent) = self.extent(&range) else { return Pending::ready(Err(Error::OutOfRange)) };
        self.ask(0, |reply| Job::Zero { extent, durability, reply })
    }

    /// Takes everything that is committed home.
    ///
    /// # Errors
    ///
    /// As [`Self::write`].
    pub fn checkpoint(&self) -> Pending<()> {
        self.ask(0, |reply| Job::Checkpoint { reply })
    }

    /// How full it is, and what it did.
    ///
    /// # Errors
    ///
    /// [`Error::Stopped`].
    pub fn status(&self) -> Pending<Status> {
        self.ask(0, |reply| Job::Status { reply })
    }

    /// Lets what is under way end, makes everything durable, takes it home and ends the volume. Other handles may
    /// remain; what they ask for from here on fails with [`Error::Stopped`].
    ///
    /// # Errors
    ///
    /// The volume's failure; then the arena stays, with what is not durable in it.
    pub fn close(self) -> Pending<()> {
        let (reply, pending) = pending::pair();
        self.handle.queue.close(reply);
        pending
    }

    fn ask<T>(&self, bytes: usize, job: impl FnOnce(reply::Reply<T>) -> Job) -> Pending<T> {
        let (reply, pending) = pending::pair();
        pending.handed_to(Queue::submit(&self.handle.queue, job(reply), bytes))
    }

    fn bounds(&self, range: impl RangeBounds<u64>) -> Range<u64> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.facts.size_bytes,
        };
        start..end
    }

    /// The range, if it lies within the volume.
    fn extent(&self, range: &Range<u64>) -> Option<Extent> {
        let len = range.end.checked_sub(range.start)?;
        (range.end <= self.facts.size_bytes).then(|| Extent::new(range.start, len))
    }
}
