//! A [`Device`] over a regular file or a block device.
//!
//! 1. Transfers go past the page cache (`O_DIRECT`) where the file system can; [`FileDrive::is_direct`] says so. Only
//!    [`Device::read_cached`] and its like go through it, by a descriptor of their own: a write past it takes the
//!    range out of it again, but for pages that others read at the same moment. What is said to be kept elsewhere is
//!    given up there behind the reader.
//! 2. A durable write is acknowledged after `RWF_DSYNC` or a data-only fsync behind it said so; a flush is a
//!    data-only fsync of the whole file, whatever ranges it was asked for, and covers what was completed before.
//! 3. Callers' bytes are copied into a bounded pool of aligned memory. A call that is given up leaves its
//!    transfers under way: they end by themselves, with memory of their own.
//! 4. A call that fails does so after all of its transfers have ended: what comes next is not overtaken.
//! 5. The file is nobody else's meanwhile: locked, or, a block device, opened exclusively.
//! 6. Where the file system may have to ask somebody who does not answer (NFS, FUSE), everything is asked on threads of the
//!    drive's own: while it waits, so does nobody else.
//! 7. Sectors are as large as what the disk writes at once, where it is known and up to a page: a smaller write
//!    would have the disk write the neighbours too, and a power cut might take them.

mod create;
mod drop_behind;
mod extend;
mod open;
mod page_cache;
mod whereabouts;

use std::cell::Cell;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;

use evenkeel_engine::device::{Device, Drive, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::{Errno, ReadWriteFlags};
use serde::{Deserialize, Serialize};

use crate::event_loop::pool::{PIECE_MAX_BYTES, Piece, Pool};
use crate::event_loop::{Aside, Loop, SharedFd, Sync, Transfer};

use drop_behind::DropBehind;

pub use create::{Fill, is_among_devices, memory_file_system, needs_no_more_room};
pub use open::DriveOptions;
pub(crate) use open::odd_kind_in;
pub(crate) use whereabouts::OpenFile;

/// Transfers of one call under way at once.
const DEPTH: usize = 8;

/// Writes of each kind in [`FileDrive::choose_durable_way`].
const TRIALS: usize = 15;

/// How a write is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DurableWay {
    /// `RWF_DSYNC`: the kernel uses FUA where the device has it, else it flushes.
    Dsync,
    /// A write and, linked to it, a data-only fsync.
    Linked,
}

/// What errors of a drive say that it was doing.
#[derive(Clone, Copy)]
pub(crate) struct Doing {
    pub(crate) read: &'static str,
    pub(crate) write: &'static str,
    pub(crate) flush: &'static str,
    pub(crate) discard: &'static str,
}

struct State {
    event_loop: Loop,
    file: SharedFd,
    /// The same file through the page cache, where that can be had.
    cached: SharedFd,
    /// Until the first read without waiting that the file system cannot do.
    reads_without_waiting: Cell<bool>,
    /// Until the system cannot tell what it keeps in memory.
    tells_what_is_kept: Cell<bool>,
    drop_behind: DropBehind,
    path: PathBuf,
    geometry: Cell<Geometry>,
    direct: bool,
    is_block_device: bool,
    /// Where its file system may have to ask somebody who does not answer, the threads that wait for it.
    aside: Option<Aside>,
    durable_way: Cell<DurableWay>,
    /// Unless it keeps its room, and until the first discard that the file or device cannot do.
    discards: Cell<bool>,
    /// Whether its file was found shorter than the drive: what was written there is gone, however long it is by now.
    is_cut_short: Cell<bool>,
    /// Whether its file was found without a name, where that is not asked on this thread.
    is_removed: Cell<bool>,
    /// What is at its path as long as it is there.
    opened: OpenFile,
    /// Held by discards that another thread carries out.
    discarding: Arc<()>,
    pool: Rc<Pool>,
    doing: Doing,
}

/// The drive. A clone is another handle to the same one.
#[derive(Clone)]
pub struct FileDrive(Rc<State>);

impl fmt::Debug for FileDrive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("FileDrive")
            .field("path", &self.0.path)
            .field("geometry", &self.0.geometry.get())
            .field("direct", &self.0.direct)
            .field("durable_way", &self.0.durable_way.get())
            .finish_non_exhaustive()
    }
}

/// A transfer under way, and where its bytes are to be.
struct Pending {
    transfer: Transfer,
    offset: u64,
    len: usize,
}

impl FileDrive {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// Gives a file that was cut short since it was opened its length again, and its room if it is to keep that.
    ///
    /// # Errors
    ///
    /// Those of the system; `StorageFull` where there is no room.
    pub async fn restore_length(&self) -> io::Result<()> {
        let state = &*self.0;
        let found_bytes = self.ask(|file| rustix::fs::seek(file, SeekFrom::End(0))).await?;
        let size_bytes = state.geometry.get().size_bytes;
        state.is_cut_short.set(false);
        if state.is_block_device || found_bytes >= size_bytes {
            return Ok(());
        }
        if state.discards.get() {
            return Ok(rustix::fs::ftruncate(&state.file, size_bytes)?);
        }
        state.event_loop.fallocate(&state.file, FallocateFlags::empty(), 0, size_bytes).await
    }

    /// Whether transfers are under way, as those of a call that was given up.
    pub(crate) fn has_transfers(&self) -> bool {
        let own = if Rc::ptr_eq(&self.0.file, &self.0.cached) { 2 } else { 1 };
        Rc::strong_count(&self.0.file) > own || Arc::strong_count(&self.0.discarding) > 1
    }

    /// Whether its file was made shorter than the drive since it was opened: it is failed from then on. Of a file system that may not
    /// answer, what the last write or flush found.
    ///
    /// Asked by `lseek`, not by `fstat`: once somebody has seen the time of the last change, Linux (6.13 and later) gives
    /// the next write a new one, and io_uring hands every write that has to note one to a worker.
    pub fn is_cut_short(&self) -> bool {
        let state = &*self.0;
        if !state.is_block_device && state.aside.is_none() && !state.is_cut_short.get() {
            self.note_end(rustix::fs::seek(&state.file, SeekFrom::End(0)));
        }
        state.is_cut_short.get()
    }

    /// Asks something of its file, on another thread where that may wait for somebody.
    async fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&OwnedFd) -> Result<T, Errno> + Send + 'static,
    ) -> io::Result<T> {
        match &self.0.aside {
            None => Ok(call(&self.0.file)?),
            Some(aside) => {
                let file = self.0.file.try_clone()?;
                Ok(aside.call(move || call(&file)).await??)
            }
        }
    }

    fn note_end(&self, found: Result<u64, Errno>) {
        let size_bytes = self.0.geometry.get().size_bytes;
        self.0.is_cut_short.set(found.is_ok_and(|len| len < size_bytes));
    }

    /// How a drive fails that is cut short.
    pub(crate) fn cut_short_error(&self) -> DeviceError {
        DeviceError { doing: self.0.doing.write, errno: libc::ENODATA }
    }

    /// That nothing was cut off: a write behind its end would make it as long as before, with a hole in it.
    async fn check_whole(&self) -> Result<(), DeviceError> {
        let state = &*self.0;
        if state.aside.is_some() && !state.is_cut_short.get() {
            let found = self.ask(|file| rustix::fs::fstat(file)).await;
            let found = found.map_err(|error| Self::failed(&error, state.doing.write))?;
            state.is_removed.set(found.st_nlink == 0);
            self.note_end(Ok(u64::try_from(found.st_size).unwrap_or_default()));
        }
        match self.is_cut_short() {
            true => Err(self.cut_short_error()),
            false => Ok(()),
        }
    }

    /// Whether transfers go past the page cache.
    pub fn is_direct(&self) -> bool {
        self.0.direct
    }

    /// Whether it is a block device, and not a file.
    pub fn is_block_device(&self) -> bool {
        self.0.is_block_device
    }

    /// How writes are made durable.
    pub fn durable_way(&self) -> DurableWay {
        self.0.durable_way.get()
    }

    /// Tries both ways of making a sector durable, in turns, and keeps the one with the smaller median from here
    /// on; how long each took, in ns: `RWF_DSYNC` first. What `scratch` held is lost.
    ///
    /// # Errors
    ///
    /// Those of the writes.
    pub async fn choose_durable_way(&self, scratch: Extent) -> Result<[u64; 2], DeviceError> {
        let state = &*self.0;
        let bytes = vec![0; scratch.len.min(4096) as usize];
        let ways = [DurableWay::Dsync, DurableWay::Linked];
        let mut taken = [const { Vec::new() }; 2];
        // One more than is counted: the first of each may find the file not yet written there.
        for trial in 0..=TRIALS {
            for (way, taken) in ways.into_iter().zip(&mut taken) {
                state.durable_way.set(way);
                let began_ns = state.event_loop.now_ns();
                self.write(scratch.offset, &bytes, Durability::Durable).await?;
                if trial > 0 {
                    taken.push(state.event_loop.now_ns() - began_ns);
                }
            }
        }
        let medians = taken.map(|mut taken| {
            taken.sort_unstable();
            taken[TRIALS / 2]
        });
        state.durable_way.set(if medians[1] < medians[0] { DurableWay::Linked } else { DurableWay::Dsync });
        Ok(medians)
    }

    fn check(&self, extent: Extent, doing: &'static str) -> Result<(), DeviceError> {
        let sector_bytes = u64::from(self.0.geometry.get().sector_bytes);
        let whole_sectors = (extent.offset | extent.len).is_multiple_of(sector_bytes);
        if whole_sectors && extent.fits(self.0.geometry.get().size_bytes) {
            return Ok(());
        }
        Err(DeviceError { doing, errno: libc::EINVAL })
    }

    fn sync(&self) -> Sync {
        match self.0.durable_way.get() {
            DurableWay::Dsync => Sync::Dsync,
            DurableWay::Linked => Sync::Linked,
        }
    }

    fn begin_write(&self, offset: u64, bytes: &[u8], mut piece: Piece, sync: Sync) -> Pending {
        let len = bytes.len();
        piece.copy_from_slice(bytes);
        let transfer = self.0.event_loop.begin_write(&self.0.file, piece, 0..len, offset, sync);
        Pending { transfer, offset, len }
    }

    /// Sees a write through: what the kernel did not take at once is written again.
    async fn finish_write(&self, pending: Pending, sync: Sync) -> io::Result<()> {
        let Pending { mut transfer, offset, len } = pending;
        let mut done = 0;
        loop {
            let (result, piece) = transfer.finish::<Piece>().await;
            done = self.advance(done, result)?;
            if done == len {
                return Ok(());
            }
            let at = offset + done as u64;
            transfer = self.0.event_loop.begin_write(&self.0.file, piece, done..len, at, sync);
        }
    }

    /// Sees a read through, and copies it out.
    async fn finish_read(&self, file: &SharedFd, pending: Pending, into: &mut [u8]) -> io::Result<()> {
        let Pending { mut transfer, offset, len } = pending;
        let mut done = 0;
        loop {
            let (result, piece) = transfer.finish::<Piece>().await;
            done = self.advance(done, result)?;
            if done == len {
                into.copy_from_slice(&piece);
                return Ok(());
            }
            let at = offset + done as u64;
            transfer = self.0.event_loop.begin_read(file, piece, done..len, at);
        }
    }

    /// How far a transfer is after one more answer: whole sectors, for the rest must begin at one.
    fn advance(&self, done: usize, result: io::Result<usize>) -> io::Result<usize> {
        match result {
            Ok(count) => {
                let sector_bytes = self.0.geometry.get().sector_bytes as usize;
                let now_done = (done + count) / sector_bytes * sector_bytes;
                // The file ends here, though it was longer; or nothing more is taken.
                if now_done == done { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(now_done) }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(done),
            Err(error) => Err(error),
        }
    }

    async fn write_all(&self, offset: u64, bytes: &[u8], durability: Durability) -> io::Result<()> {
        let sync = match durability {
            Durability::Durable if bytes.len() <= PIECE_MAX_BYTES => self.sync(),
            // Several transfers: one sync for all of them.
            _ => Sync::No,
        };
        if bytes.len() <= PIECE_MAX_BYTES {
            let piece = self.0.pool.take(bytes.len()).await;
            return self.finish_write(self.begin_write(offset, bytes, piece, sync), sync).await;
        }
        let mut under_way = VecDeque::with_capacity(DEPTH);
        let mut outcome = Ok(());
        for (number, chunk) in bytes.chunks(PIECE_MAX_BYTES).enumerate() {
            // Whoever holds pieces does not wait for more: its own come back first.
            let piece = loop {
                let free = (under_way.len() < DEPTH).then(|| self.0.pool.try_take(chunk.len())).flatten();
                if let Some(piece) = free {
                    break piece;
                }
                match under_way.pop_front() {
                    Some(first) => outcome = outcome.and(self.finish_write(first, sync).await),
                    None => break self.0.pool.take(chunk.len()).await,
                }
            };
            if outcome.is_err() {
                break;
            }
            let at = offset + (number * PIECE_MAX_BYTES) as u64;
            under_way.push_back(self.begin_write(at, chunk, piece, sync));
        }
        for pending in under_way {
            outcome = outcome.and(self.finish_write(pending, sync).await);
        }
        outcome?;
        match durability {
            Durability::Durable => self.0.event_loop.fdatasync(&self.0.file).await,
            Durability::Buffered => Ok(()),
        }
    }

    async fn read_all(&self, file: &SharedFd, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let mut under_way: VecDeque<(Pending, &mut [u8])> = VecDeque::new();
        let mut outcome = Ok(());
        for (number, chunk) in into.chunks_mut(PIECE_MAX_BYTES).enumerate() {
            let len = chunk.len();
            let piece = loop {
                let free = (under_way.len() < DEPTH).then(|| self.0.pool.try_take(len)).flatten();
                if let Some(piece) = free {
                    break piece;
                }
                match under_way.pop_front() {
                    Some((first, into)) => outcome = outcome.and(self.finish_read(file, first, into).await),
                    None => break self.0.pool.take(len).await,
                }
            };
            if outcome.is_err() {
                break;
            }
            let at = offset + (number * PIECE_MAX_BYTES) as u64;
            let transfer = self.0.event_loop.begin_read(file, piece, 0..len, at);
            under_way.push_back((Pending { transfer, offset: at, len }, chunk));
        }
        for (pending, into) in under_way {
            outcome = outcome.and(self.finish_read(file, pending, into).await);
        }
        outcome
    }

    async fn discard_now(&self, extent: Extent) -> io::Result<()> {
        let state = &*self.0;
        if !state.is_block_device {
            let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            return state.event_loop.fallocate(&state.file, hole, extent.offset, extent.len).await;
        }
        let (file, discarding) = (state.file.try_clone()?, Arc::clone(&state.discarding));
        let discard = move || {
            let done = open::discard_block_range(&file, extent);
            drop(discarding);
            done
        };
        state.event_loop.blocking(discard).await.flatten()
    }

    fn failed(error: &io::Error, doing: &'static str) -> DeviceError {
        DeviceError { doing, errno: error.raw_os_error().unwrap_or(libc::EIO) }
    }
}

impl Device for FileDrive {
    fn geometry(&self) -> Geometry {
        self.0.geometry.get()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let doing = self.0.doing.read;
        self.check(Extent::new(offset, into.len() as u64), doing)?;
        self.read_all(&self.0.file, offset, into).await.map_err(|error| Self::failed(&error, doing))
    }

    async fn read_cached(&self, offset: u64, into: &mut [u8]) -> Result<(), DeviceError> {
        let doing = self.0.doing.read;
        self.check(Extent::new(offset, into.len() as u64), doing)?;
        self.read_all(&self.0.cached, offset, into).await.map_err(|error| Self::failed(&error, doing))
    }

    fn try_read_cached(&self, offset: u64, into: &mut [u8]) -> usize {
        let state = &*self.0;
        if !state.reads_without_waiting.get() {
            return 0;
        }
        let slices = &mut [io::IoSliceMut::new(into)];
        match rustix::io::preadv2(&state.cached, slices, offset, ReadWriteFlags::NOWAIT) {
            Ok(count) => count,
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
                state.reads_without_waiting.set(false);
                0
            }
            // It is not there; or it fails, as whoever waits for it will hear.
            Err(_) => 0,
        }
    }

    fn try_read_kept(&self, offset: u64, into: &mut [u8]) -> usize {
        let state = &*self.0;
        if !state.reads_without_waiting.get() || !state.tells_what_is_kept.get() {
            return 0;
        }
        match page_cache::keeps_all(&*state.file, offset, into.len() as u64) {
            Ok(true) => self.try_read_cached(offset, into),
            Ok(false) => 0,
            Err(_) => {
                state.tells_what_is_kept.set(false);
                0
            }
        }
    }

    fn give_up_kept(&self, extent: Extent) {
        // Where writes go through the page cache it holds what is not written back yet.
        if self.0.direct && !Rc::ptr_eq(&self.0.file, &self.0.cached) {
            self.0.drop_behind.read(&self.0.event_loop, &self.0.cached, extent);
        }
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), DeviceError> {
        let doing = self.0.doing.write;
        self.check(Extent::new(offset, bytes.len() as u64), doing)?;
        if bytes.is_empty() {
            return Ok(());
        }
        self.check_whole().await?;
        let mut written = self.write_all(offset, bytes, durability).await;
        if let Err(error) = &written
            && error.raw_os_error() == Some(libc::EOPNOTSUPP)
            && self.0.durable_way.replace(DurableWay::Linked) == DurableWay::Dsync
        {
            // Kernels and file systems that do not know the flag do so before they write anything.
            written = self.write_all(offset, bytes, durability).await;
        }
        written.map_err(|error| Self::failed(&error, doing))?;
        match durability {
            Durability::Durable => self.check_whole().await,
            Durability::Buffered => Ok(()),
        }
    }

    async fn write_parts(
        &self,
        offset: u64,
        parts: &[&[u8]],
        durability: Durability,
    ) -> Result<(), DeviceError> {
        let len: usize = parts.iter().map(|part| part.len()).sum();
        if parts.len() < 2 || len > PIECE_MAX_BYTES || durability == Durability::Durable {
            return match parts {
                [whole] => self.write(offset, whole, durability).await,
                _ => self.write(offset, &parts.concat(), durability).await,
            };
        }
        let doing = self.0.doing.write;
        self.check(Extent::new(offset, len as u64), doing)?;
        self.check_whole().await?;
        let mut piece = self.0.pool.take(len).await;
        let mut rest = &mut piece[..];
        for part in parts {
            let (now, later) = rest.split_at_mut(part.len());
            now.copy_from_slice(part);
            rest = later;
        }
        let transfer = self.0.event_loop.begin_write(&self.0.file, piece, 0..len, offset, Sync::No);
        let written = self.finish_write(Pending { transfer, offset, len }, Sync::No).await;
        written.map_err(|error| Self::failed(&error, doing))
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), DeviceError> {
        if matches!(scope, FlushScope::Ranges([])) {
            return Ok(());
        }
        let synced = self.0.event_loop.fdatasync(&self.0.file).await;
        synced.map_err(|error| Self::failed(&error, self.0.doing.flush))?;
        self.check_whole().await
    }

    async fn discard(&self, extent: Extent) -> Result<(), DeviceError> {
        let doing = self.0.doing.discard;
        self.check(extent, doing)?;
        if extent.len == 0 || !self.0.discards.get() {
            return Ok(());
        }
        match self.discard_now(extent).await {
            // It is a hint: where it cannot be taken, nothing is lost.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::ENOTTY)) => {
                self.0.discards.set(false);
                Ok(())
            }
            other => other.map_err(|error| Self::failed(&error, doing)),
        }
    }
}

impl Drive for FileDrive {
    async fn enlarge(&self, size_bytes: u64) -> Result<(), Error> {
        let end = self.ask(|file| rustix::fs::seek(file, SeekFrom::End(0))).await;
        let found = self.note_size(end.map_err(|error| Self::failed(&error, "find its size"))?);
        match found >= size_bytes {
            true => Ok(()),
            false => Err(Error::Unusable(format!("it has {found} bytes, and {size_bytes} are needed"))),
        }
    }
}
