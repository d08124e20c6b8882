//! Finding out what a file or block device asks for, and opening it so.
//!
//! All of it may wait for a file system or a device that does not answer: while somebody is served, it is done on another thread
//! ([`FileDrive::open_aside`]), one at a time for each path.

#![allow(unsafe_code)]

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use evenkeel_engine::device::{Extent, Geometry};
use evenkeel_engine::env::Env;
use rustix::fs::{FlockOperation, OFlags};

use super::drop_behind::DropBehind;
use super::{Doing, DurableWay, FileDrive, OpenFile, State};
use crate::busy::retry_while_busy;
use crate::durable_file::{direct_io_granule, is_block_device, odd_kind};
use crate::event_loop::Loop;
use crate::event_loop::pool::Pool;
use crate::path_error::PathError;
use crate::stack::StackProbe;

/// Sectors where nothing below says how large they are, and the largest that a disk's own size makes them: a
/// page, in which the engine writes.
const PAGE_BYTES: u32 = 4096;

/// How a drive is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DriveOptions {
    /// Only reads; several drives may have the file open so.
    pub read_only: bool,
    /// Past the page cache where the file system can.
    pub direct: bool,
    /// How writes are made durable; `None` is [`DurableWay::Dsync`] past the page cache, and
    /// [`DurableWay::Linked`] through it.
    pub durable_way: Option<DurableWay>,
    /// What is promised of sectors that a power cut interrupts: only the user can know.
    pub atomic_sectors: bool,
    /// Size of a sector; `None` is what the disk writes at once.
    pub sector_bytes: Option<u32>,
    /// Size of a sector when the promise was made, perhaps of another disk. Where the disk is known to write more at once
    /// now, its sectors are as large as that, and the promise is none.
    pub promised_sector_bytes: Option<u32>,
    /// Whether a file keeps the room that it has: discards free none of it.
    pub keeps_room: bool,
    /// Memory for transfers, about.
    pub pool_bytes: usize,
    /// How long to wait for a file or device that is in use: after a kill, the kernel ends the dead process's
    /// transfers first.
    pub busy_timeout: Duration,
}

impl Default for DriveOptions {
    fn default() -> Self {
        Self {
            read_only: false,
            direct: true,
            durable_way: None,
            atomic_sectors: false,
            sector_bytes: None,
            promised_sector_bytes: None,
            keeps_room: false,
            pool_bytes: 4 << 20,
            busy_timeout: Duration::from_secs(5),
        }
    }
}

/// A file or device that is open, and what it is like: whatever a file system or a device may keep waiting for was asked.
struct Found {
    file: OwnedFd,
    /// The same file through the page cache, where the other descriptor goes past it.
    cached: Option<OwnedFd>,
    is_direct: bool,
    is_block_device: bool,
    is_far: bool,
    geometry: Geometry,
    opened: OpenFile,
}

/// What is at a path, where it can be no drive.
#[derive(Debug, thiserror::Error)]
#[error("it is {0}")]
struct OddKind(&'static str);

/// What is at the path, if a drive could not be opened as it is neither a file nor a block device.
pub(crate) fn odd_kind_in(error: &io::Error) -> Option<&'static str> {
    error.get_ref().and_then(|error| error.downcast_ref::<OddKind>()).map(|odd| odd.0)
}

impl FileDrive {
    /// Opens the file or block device at `path`, for this drive alone. It blocks, for as long as
    /// [`DriveOptions::busy_timeout`] says where the file is in use, and while its file system or device does not answer.
    ///
    /// # Errors
    ///
    /// `WouldBlock` for a file that another drive has open, `EBUSY` for a block device that is mounted or
    /// otherwise held; `InvalidInput` for sectors that the file system does not take; those of the system calls.
    pub fn open(event_loop: &Loop, path: &Path, options: DriveOptions) -> Result<Self, PathError> {
        Ok(Self::of(event_loop, path, options, Found::at(path, options)?))
    }

    /// As [`Self::open`], on another thread: nobody else waits. A path that does not answer keeps one thread waiting, however often
    /// it is asked for.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub(crate) async fn open_aside(
        event_loop: &Loop,
        path: &Path,
        options: DriveOptions,
    ) -> Result<Self, PathError> {
        let asking = loop {
            match Asking::begin(path) {
                Some(asking) => break asking,
                None => event_loop.sleep(PAUSE_NS).await,
            }
        };
        let looked = move || {
            let found = Found::at(&asking.0, options);
            drop(asking);
            found
        };
        let found = event_loop.blocking(looked).await;
        let found = found.map_err(|error| PathError::new(path, "cannot open", error))??;
        Ok(Self::of(event_loop, path, options, found))
    }

    fn of(event_loop: &Loop, path: &Path, options: DriveOptions, found: Found) -> Self {
        let Found { file, cached, is_direct, is_block_device, is_far, geometry, opened } = found;
        let default_way = if is_direct { DurableWay::Dsync } else { DurableWay::Linked };
        let file = Rc::new(file);
        let aside = is_far.then(|| event_loop.carry_out_aside(&file));
        // Without the page cache beside it, reads go where the others go: past it.
        let cached = cached.map_or_else(|| Rc::clone(&file), Rc::new);
        Self(Rc::new(State {
            event_loop: event_loop.clone(),
            reads_without_waiting: Cell::new(!is_far && (!is_direct || !Rc::ptr_eq(&file, &cached))),
            tells_what_is_kept: Cell::new(!is_far),
            drop_behind: DropBehind::default(),
            file,
            cached,
            path: path.to_owned(),
            geometry: Cell::new(geometry),
            direct: is_direct,
            is_block_device,
            aside,
            durable_way: Cell::new(options.durable_way.unwrap_or(default_way)),
            discards: Cell::new(is_block_device || !options.keeps_room),
            is_cut_short: Cell::new(false),
            is_removed: Cell::new(false),
            opened,
            discarding: Arc::default(),
            pool: Pool::new(event_loop, options.pool_bytes),
            doing: Doing::with(path.display()),
        }))
    }
}

/// How long whoever waits for [`Asking`] sleeps between two looks.
const PAUSE_NS: u64 = 10_000_000;

/// The right to ask for a path on another thread: what does not answer is asked by one at a time.
struct Asking(PathBuf);

/// Paths that are being asked for.
static ASKED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

impl Asking {
    fn begin(path: &Path) -> Option<Self> {
        let mut asked = ASKED.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert(path.to_owned()).then(|| Self(path.to_owned()))
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        ASKED.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

impl Found {
    fn at(path: &Path, options: DriveOptions) -> Result<Self, PathError> {
        let failed = |doing| move |error: io::Error| PathError::new(path, doing, error);
        if let Some(kind) = path.metadata().ok().and_then(|found| odd_kind(&found)) {
            return Err(failed("cannot open")(io::Error::other(OddKind(kind))));
        }
        let is_block_device = is_block_device(path);
        let granule = match options.direct {
            true => direct_io_granule(path, false).map_err(failed("cannot open"))?,
            false => None,
        };
        let mut flags = if granule.is_some() { OFlags::DIRECT } else { OFlags::empty() };
        if is_block_device {
            // On a block device O_EXCL without O_CREAT asks for exclusive use.
            flags |= OFlags::EXCL;
        }
        let mut open = OpenOptions::new();
        open.read(true).write(!options.read_only).custom_flags(flags.bits().cast_signed());
        let is_busy = |error: &io::Error| error.kind() == io::ErrorKind::ResourceBusy;
        let mut file = retry_while_busy(options.busy_timeout, is_busy, || open.open(path)).map_err(
            failed(if is_block_device { "cannot open (is it mounted or in use?)" } else { "cannot open" }),
        )?;
        if !is_block_device {
            let is_locked = |error: &io::Error| error.kind() == io::ErrorKind::WouldBlock;
            retry_while_busy(options.busy_timeout, is_locked, || lock(&file, options.read_only))
                .map_err(failed("in use by another process"))?;
        }
        if granule.is_some() && !is_block_device {
            clean(&file).map_err(failed("cannot write back what the page cache holds of it"))?;
        }
        let stack = StackProbe::of(path).map_err(failed("cannot find what lies below"))?;
        let granule = match granule {
            Some(granule) => {
                let logical = stack.logical_sector_bytes().filter(|_| is_block_device);
                Some(logical.unwrap_or(u32::try_from(granule).unwrap_or(u32::MAX)))
            }
            None => None,
        };
        let written_at_once = |unknown: u32| match granule {
            Some(granule) => granule.max(stack.physical_sector_bytes().unwrap_or(unknown).min(PAGE_BYTES)),
            // The page cache writes whole pages.
            None => PAGE_BYTES,
        };
        let promised = options.promised_sector_bytes;
        let sector_bytes = match (options.sector_bytes, promised) {
            (Some(wanted), _) => wanted,
            (None, Some(promised)) => promised.max(written_at_once(promised)),
            (None, None) => written_at_once(PAGE_BYTES),
        };
        if !sector_bytes.is_power_of_two() || !sector_bytes.is_multiple_of(granule.unwrap_or(512)) {
            let refused = io::Error::from(io::ErrorKind::InvalidInput);
            return Err(failed("sectors of this size cannot be written there")(refused));
        }
        let is_as_promised = promised.is_none_or(|promised| sector_bytes <= promised) || stack.is_nvme();
        let end = file.seek(SeekFrom::End(0)).map_err(failed("cannot find its size"))?;
        let geometry = Geometry {
            size_bytes: end / u64::from(sector_bytes) * u64::from(sector_bytes),
            sector_bytes,
            atomic_sectors: options.atomic_sectors && is_as_promised,
        };
        let file = OwnedFd::from(file);
        let is_far = stack.stack.over_network || stack.stack.file_system.starts_with("fuse");
        let cached = granule.filter(|_| !is_far).and_then(|_| through_page_cache(&file).ok());
        let opened = OpenFile::of(path.to_owned(), &file).map_err(failed("cannot look at"))?;
        Ok(Self { file, cached, is_direct: granule.is_some(), is_block_device, is_far, geometry, opened })
    }
}

/// The same file, whatever its path leads to by now, to be read through the page cache.
fn through_page_cache(file: &OwnedFd) -> io::Result<OwnedFd> {
    File::open(format!("/proc/self/fd/{}", file.as_raw_fd())).map(OwnedFd::from)
}

/// Writes back what somebody stored through the page cache, as a copy that was just restored: a page that is dirty fails a
/// transfer past the cache.
fn clean(file: &File) -> io::Result<()> {
    match rustix::fs::fdatasync(file) {
        Err(rustix::io::Errno::ROFS | rustix::io::Errno::BADF | rustix::io::Errno::INVAL) => Ok(()),
        other => Ok(other?),
    }
}

/// Locks a file for as long as it is open.
fn lock(file: &File, read_only: bool) -> io::Result<()> {
    let operation = match read_only {
        true => FlockOperation::NonBlockingLockShared,
        false => FlockOperation::NonBlockingLockExclusive,
    };
    Ok(rustix::fs::flock(file, operation)?)
}

impl Doing {
    /// For the drive that is called `name`.
    pub(crate) fn with(name: impl fmt::Display) -> Self {
        let named = |doing: &str| intern(format!("{doing} {name}"));
        Self {
            read: named("reading"),
            write: named("writing"),
            flush: named("flushing"),
            discard: named("discarding in"),
        }
    }
}

/// A text that lives as long as the process: errors of the engine carry such. Each is kept once, so that opening
/// a drive again costs nothing more.
fn intern(text: String) -> &'static str {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(&found) = kept.get(text.as_str()) {
        return found;
    }
    let new: &'static str = Box::leak(text.into_boxed_str());
    kept.insert(new);
    new
}

/// `BLKDISCARD`, which waits for the device.
pub(super) fn discard_block_range(device: &OwnedFd, extent: Extent) -> io::Result<()> {
    /// `_IO(0x12, 119)` of `linux/fs.h`.
    const BLKDISCARD: libc::Ioctl = 0x1277;
    let range = [extent.offset, extent.len];
    // SAFETY: the request takes a pointer to two 64-bit numbers, and only reads them.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), BLKDISCARD, range.as_ptr()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::super::page_cache::kept_of;
    use super::*;
    use crate::event_loop::{Backend, EventLoop};
    use crate::skipped::skip;

    #[test]
    fn what_was_just_copied_there_is_written_back_before_transfers_past_the_page_cache() {
        const NAME: &str = "what_was_just_copied_there_is_written_back_before_transfers_past_the_page_cache";
        let folder = tempfile::tempdir_in(".").unwrap();
        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        for read_only in [false, true] {
            // A new one: file systems write back at once what is truncated and written again.
            let path = folder.path().join(if read_only { "second" } else { "first" });
            std::fs::write(&path, vec![7; 4 << 20]).unwrap();
            let file = File::open(&path).unwrap();
            match kept_of(&file, 0, 0).map(|kept| kept.dirty) {
                Ok(0) => return skip(NAME, "the file system keeps no page dirty"),
                Ok(_) => {}
                Err(error) => return skip(NAME, &format!("cachestat: {error}")),
            }
            let options = DriveOptions { read_only, ..DriveOptions::default() };
            let drive = FileDrive::open(&event_loop.handle(), &path, options).unwrap();
            if !drive.0.direct {
                return skip(NAME, "the file system has no direct I/O");
            }
            assert_eq!(kept_of(&file, 0, 0).unwrap().dirty, 0);
        }
    }
}
