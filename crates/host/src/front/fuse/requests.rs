//! What each request does with the file system.
//!
//! 1. The kernel checks permissions (`default_permissions`), keeps locks, and keeps attributes, names and data of files: all
//!    changes go through it, so what it keeps is true.
//! 2. An fsync takes what its file needs and nothing of another's data; a write to a file that was opened with `O_SYNC` or
//!    `O_DSYNC` is durable when it is answered.

use std::cell::{Cell, OnceCell};
use std::rc::Rc;
use std::time::Duration;

use evenkeel_engine::env::Env;
use evenkeel_ext2::{
    Attributes, Caller, Errno, FILE_BYTES_MAX, FileSystem, Kind, Payload, RenameMode, Seek, SetAttributes,
    Statistics, Store, XattrMode,
};
use fuser::{INodeNo, Notifier};

use super::abi::reply::Listing;
use super::attributes::{decoded_device, entry_of, kind_of, number_of};
use super::long_requests::{LongRequest, LongRequests};
use super::session::Synced;
use super::waiters::Waiters;
use crate::event_loop::Loop;
use crate::front::session::FileSystemFigures;
use crate::front::statistics::{CommandKind, Counting, Lately};
use crate::wait::{Notify, Raced, race, yield_now};

/// How long the kernel may keep what it was told of a name or a file.
pub(super) const ATTRIBUTES_KEPT: Duration = Duration::from_secs(3600);

/// Bytes of a block.
const BLOCK_BYTES: u64 = 4096;

/// Entries of a folder that are looked for before others have their turn, and the same with the files they lead to.
const ENTRIES: usize = 128;
const ENTRIES_PLUS: usize = 32;

/// Bytes that are copied at once, and for one request.
const COPY_BYTES: usize = 256 << 10;
const COPY_MAX_BYTES: u64 = 16 << 20;

/// Bytes that get blocks before it is looked whether anybody waits for the rest.
const ALLOCATED_BYTES: u64 = 64 << 20;

/// Bytes of a hole that is told of for which the kernel is asked whether it has something there.
const SETTLED_BYTES: u64 = 4 << 20;

/// With less room than this the kernel is not asked to write back.
const WRITTEN_BACK_FREE_BYTES: u64 = 16 << 20;

/// So long one waits for another whose pages are written back: each holds what these writes need, too.
const WRITING_BACK_MAX_NS: u64 = 1_000_000_000;

/// An attribute that a write takes away.
const CAPABILITIES: &[u8] = b"security.capability";

/// Attributes that none but root sees.
const TRUSTED: &[u8] = b"trusted.";

const SET_USER: u16 = 0o4000;
const SET_GROUP: u16 = 0o2000;
const GROUP_RUNS: u16 = 0o10;

/// A thread that waits.
struct Waits<'a> {
    waiters: &'a Waiters,
    env: &'a Loop,
    thread: u32,
    began_ns: u64,
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        let now_ns = self.env.now_ns();
        self.waiters.count(now_ns, self.thread, now_ns.saturating_sub(self.began_ns));
    }
}

/// Memory of a copy of `len` bytes.
pub(super) fn copy_buffer_bytes(len: u64) -> usize {
    len.min(COPY_BYTES as u64) as usize
}

/// The file system, and what was asked of it.
pub(super) struct Files<S: Store> {
    pub(super) file_system: FileSystem<S>,
    pub(super) counting: Counting,
    pub(super) env: Loop,
    fsyncs: Lately,
    waiters: Waiters,
    /// What the kernel is told through.
    notifier: OnceCell<Notifier>,
    /// Whether the kernel is asked to write back what is mapped; one at a time.
    writes_back: Cell<bool>,
    wrote_back: Notify,
    pub(super) long_requests: Rc<LongRequests>,
    /// As they were when nothing was in the middle of something.
    figures: Cell<FileSystemFigures>,
}

impl<S: Store> Files<S> {
    pub(super) fn new(file_system: FileSystem<S>, env: &Loop) -> Self {
        Self {
            file_system,
            counting: Counting::new(),
            env: env.clone(),
            fsyncs: Lately::new(env.now_ns()),
            waiters: Waiters::default(),
            notifier: OnceCell::new(),
            writes_back: Cell::default(),
            wrote_back: Notify::default(),
            long_requests: Rc::default(),
            figures: Cell::default(),
        }
    }

    /// Gives what the kernel is told through, once.
    pub(super) fn set_notifier(&self, notifier: Notifier) {
        let _there_is_one_session = self.notifier.set(notifier);
    }

    /// How full the file system is, and what it does.
    pub(super) fn figures(&self) -> FileSystemFigures {
        let now_ns = self.env.now_ns();
        let (fsyncs_per_s, waiters) = (self.fsyncs.per_s(now_ns), self.waiters.most(now_ns));
        if let Some((it, did)) = self.file_system.glance() {
            self.figures.set(FileSystemFigures {
                size_bytes: it.blocks * BLOCK_BYTES,
                free_bytes: it.free_blocks * BLOCK_BYTES,
                available_bytes: it.available_blocks * BLOCK_BYTES,
                inodes: it.inodes,
                free_inodes: it.free_inodes,
                fsyncs_per_s,
                commits: did.commits,
                data_bytes: did.data_bytes,
                metadata_bytes: did.metadata_bytes,
                written_bytes: did.written_bytes,
                dirty_bytes: did.dirty_pages * BLOCK_BYTES,
                known_files: did.known_files,
                waiters,
            });
        }
        FileSystemFigures { fsyncs_per_s, waiters, ..self.figures.get() }
    }

    /// Counts a request that began then and ended so now. Requests are not given to this and awaited here: a future that is
    /// given to another has its room there twice.
    fn count<T>(
        &self,
        kind: CommandKind,
        bytes: u64,
        began_ns: u64,
        result: Result<T, Errno>,
    ) -> Result<T, Errno> {
        let took_ns = self.env.now_ns().saturating_sub(began_ns);
        self.counting.count(kind, bytes, result.is_err(), Some(took_ns));
        result
    }

    pub(super) async fn lookup(&self, parent: u32, name: &[u8]) -> Result<Attributes, Errno> {
        self.file_system.lookup(parent, name).await
    }

    pub(super) async fn forget(&self, forgotten: &[(u32, u64)]) {
        // The file system is read-only where it fails: whoever asks next hears of that.
        let _nobody_to_tell = self.file_system.forget_all(forgotten).await;
    }

    pub(super) async fn getattr(&self, inode: u32) -> Result<Attributes, Errno> {
        self.file_system.getattr(inode).await
    }

    pub(super) async fn setattr(
        &self,
        inode: u32,
        set: SetAttributes,
        caller: Caller,
    ) -> Result<Attributes, Errno> {
        if set.size.is_some() {
            self.take_privileges(inode, caller.is_privileged).await?;
        }
        self.file_system.setattr(inode, &set).await
    }

    /// Takes from a file what lets it run with another's rights: bits, unless a privileged caller writes, and capabilities.
    /// The kernel is told, since it does not ask for attributes after each change of data.
    async fn take_privileges(&self, inode: u32, keeps_bits: bool) -> Result<(), Errno> {
        let attributes = self.file_system.getattr(inode).await?;
        if attributes.kind != Kind::File {
            return Ok(());
        }
        let mut permissions = attributes.permissions & !SET_USER;
        if permissions & GROUP_RUNS != 0 {
            permissions &= !SET_GROUP;
        }
        if !keeps_bits && permissions != attributes.permissions {
            let set = SetAttributes { permissions: Some(permissions), ..SetAttributes::default() };
            self.file_system.setattr(inode, &set).await?;
            self.attributes_changed(inode);
        }
        match self.file_system.getxattr(inode, CAPABILITIES).await {
            Ok(_) => self.file_system.removexattr(inode, CAPABILITIES).await,
            Err(_) => Ok(()),
        }
    }

    pub(super) async fn readlink(&self, inode: u32) -> Result<Vec<u8>, Errno> {
        self.file_system.readlink(inode).await
    }

    pub(super) async fn mknod(
        &self,
        parent: u32,
        name: &[u8],
        mode: u32,
        device: u32,
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        let permissions = (mode & 0o7777) as u16;
        let kind = u16::try_from(mode).ok().and_then(Kind::of_mode).ok_or(Errno::Invalid)?;
        match kind {
            Kind::File => self.file_system.create(parent, name, permissions, caller).await,
            _ => {
                let device = decoded_device(device);
                self.file_system.mknod(parent, name, (kind, permissions), device, caller).await
            }
        }
    }

    pub(super) async fn create(
        &self,
        parent: u32,
        name: &[u8],
        mode: u32,
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.file_system.create(parent, name, (mode & 0o7777) as u16, caller).await
    }

    pub(super) async fn create_unnamed(
        &self,
        parent: u32,
        mode: u32,
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.file_system.tmpfile(parent, (mode & 0o7777) as u16, caller).await
    }

    pub(super) async fn mkdir(
        &self,
        parent: u32,
        name: &[u8],
        mode: u32,
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.file_system.mkdir(parent, name, (mode & 0o7777) as u16, caller).await
    }

    pub(super) async fn symlink(
        &self,
        parent: u32,
        name: &[u8],
        target: &[u8],
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.file_system.symlink(parent, name, target, caller).await
    }

    pub(super) async fn link(
        &self,
        inode: u32,
        parent: u32,
        name: &[u8],
        caller: &Caller,
    ) -> Result<Attributes, Errno> {
        self.file_system.link(inode, parent, name, caller).await
    }

    pub(super) async fn unlink(&self, parent: u32, name: &[u8]) -> Result<(), Errno> {
        self.file_system.unlink(parent, name).await
    }

    pub(super) async fn rmdir(&self, parent: u32, name: &[u8]) -> Result<(), Errno> {
        self.file_system.rmdir(parent, name).await
    }

    pub(super) async fn rename(&self, old: (u32, &[u8]), new: (u32, &[u8]), flags: u32) -> Result<(), Errno> {
        let mode = match flags {
            0 => RenameMode::Replace,
            libc::RENAME_NOREPLACE => RenameMode::NoReplace,
            libc::RENAME_EXCHANGE => RenameMode::Exchange,
            _ => return Err(Errno::Invalid),
        };
        self.file_system.rename(old, new, mode).await
    }

    pub(super) async fn read(&self, inode: u32, offset: u64, into: &mut [u8]) -> Result<usize, Errno> {
        let bytes = into.len() as u64;
        let began_ns = self.env.now_ns();
        let result = self.file_system.read(inode, offset, into).await;
        self.count(CommandKind::Read, bytes, began_ns, result)
    }

    pub(super) async fn write(
        &self,
        inode: u32,
        payload: Payload,
        (caller, thread): (&Caller, u32),
        durable: Option<Synced>,
        takes_privileges: bool,
    ) -> Result<usize, Errno> {
        if takes_privileges {
            Box::pin(self.take_privileges(inode, false)).await?;
        }
        let _waits = durable.map(|_| self.waits(thread));
        let (bytes, began_ns) = (payload.len(), self.env.now_ns());
        let mut result = self.file_system.write_payload(inode, payload, caller).await;
        if let (Ok(_), Some(durable)) = (&result, durable) {
            let synced = match durable {
                Synced::Data => Box::pin(self.file_system.fdatasync(inode)).await,
                Synced::All => Box::pin(self.file_system.fsync(inode)).await,
            };
            result = synced.and(result);
        }
        self.count(CommandKind::Write, bytes, began_ns, result)
    }

    pub(super) async fn fsync(&self, inode: u32, only_data: bool, thread: u32) -> Result<(), Errno> {
        self.fsyncs.count(self.env.now_ns());
        let _waits = self.waits(thread);
        let began_ns = self.env.now_ns();
        let result = match only_data {
            true => self.file_system.fdatasync(inode).await,
            false => self.file_system.fsync(inode).await,
        };
        self.count(CommandKind::RangeFlush, 0, began_ns, result)
    }

    /// A thread waits from now on, until what is answered is dropped.
    fn waits(&self, thread: u32) -> Waits<'_> {
        Waits { waiters: &self.waiters, env: &self.env, thread, began_ns: self.env.now_ns() }
    }

    /// Makes everything durable.
    pub(super) async fn sync_all(&self) -> Result<(), Errno> {
        let began_ns = self.env.now_ns();
        let result = self.file_system.sync_all().await;
        self.count(CommandKind::Flush, 0, began_ns, result)
    }

    /// Makes everything durable, and leaves no file without a name: nobody uses one any more.
    pub(super) async fn unmount(&self) -> Result<(), Errno> {
        let began_ns = self.env.now_ns();
        let result = self.file_system.unmount().await;
        self.count(CommandKind::Flush, 0, began_ns, result)
    }

    pub(super) async fn fallocate(
        &self,
        inode: u32,
        (offset, len): (u64, u64),
        mode: i32,
        caller: &Caller,
        request: &LongRequest,
    ) -> Result<(), Errno> {
        self.take_privileges(inode, caller.is_privileged).await?;
        let extends = mode & libc::FALLOC_FL_KEEP_SIZE == 0;
        let done = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            0 => self.allocate(inode, (offset, len), extends, caller, request).await,
            libc::FALLOC_FL_PUNCH_HOLE if !extends => self.file_system.punch_hole(inode, offset, len).await,
            libc::FALLOC_FL_ZERO_RANGE => {
                self.zero_range(inode, (offset, len), extends, caller, request).await
            }
            _ => Err(Errno::NotSupported),
        };
        if done.is_err() {
            // The file may be longer all the same, which the kernel takes note of where all went well.
            self.attributes_changed(inode);
        }
        done
    }

    /// Gives a range blocks, until nobody waits for it any more.
    async fn allocate(
        &self,
        inode: u32,
        (offset, len): (u64, u64),
        extends: bool,
        caller: &Caller,
        request: &LongRequest,
    ) -> Result<(), Errno> {
        let end = offset.checked_add(len).filter(|end| *end > offset).ok_or(Errno::Invalid)?;
        if end > FILE_BYTES_MAX {
            return Err(Errno::FileTooLarge);
        }
        if !extends && end > self.file_system.getattr(inode).await?.size.next_multiple_of(BLOCK_BYTES) {
            return Err(Errno::NotSupported);
        }
        let mut at = offset;
        while at < end {
            let stop = end.min((at / ALLOCATED_BYTES + 1).saturating_mul(ALLOCATED_BYTES));
            self.file_system.fallocate(inode, at, stop - at, extends, caller).await?;
            at = stop;
            if at < end && request.is_over() {
                return Err(Errno::Interrupted);
            }
        }
        Ok(())
    }

    /// Zeroes a range, which has room afterwards. Whatever can refuse does so before anything is zeroed.
    async fn zero_range(
        &self,
        inode: u32,
        (offset, len): (u64, u64),
        extends: bool,
        caller: &Caller,
        request: &LongRequest,
    ) -> Result<(), Errno> {
        self.allocate(inode, (offset, len), extends, caller, request).await?;
        self.file_system.punch_hole(inode, offset, len).await?;
        // What was just given up is taken back, from what is kept for root if another took it meanwhile.
        let privileged = Caller { is_privileged: true, ..*caller };
        match self.allocate(inode, (offset, len), extends, &privileged, request).await {
            // Zeros they are: an error would leave what was there before in the page cache.
            Err(Errno::NoSpace | Errno::Interrupted) => Ok(()),
            done => done,
        }
    }

    /// Has the kernel ask for attributes anew: of those alone, so that it does not wait for what it reads.
    fn attributes_changed(&self, inode: u32) {
        if let Some(notifier) = self.notifier.get() {
            let _knows_it_or_not = notifier.inval_inode(INodeNo(number_of(inode)), -1, 0);
        }
    }

    /// Has the kernel write back what programs changed of a range through a map, and did not sync; false where that cannot be now. On
    /// a thread: it asks for these writes before that is done, and they need room here beside who waits for them. So few wait, and
    /// not for long; and nothing is asked for that might find no room: the kernel would forget what was mapped.
    async fn write_back(&self, inode: u32, (offset, len): (u64, u64)) -> bool {
        let Some(notifier) = self.notifier.get() else { return true };
        let (node, end) = (INodeNo(number_of(inode)), offset.saturating_add(len));
        let mut at = offset;
        while at < end {
            if !self.may_write_back().await {
                return false;
            }
            let part = (end - at).min(self.figures().free_bytes / 2);
            if part < (end - at).min(WRITTEN_BACK_FREE_BYTES / 2) {
                self.writes_back.set(false);
                self.wrote_back.all();
                return false;
            }
            let (notifier, from) = (notifier.clone(), i64::try_from(at).unwrap_or(i64::MAX));
            let bytes = i64::try_from(part).unwrap_or(i64::MAX);
            let called = self.env.blocking(move || notifier.inval_inode(node, from, bytes)).await;
            self.writes_back.set(false);
            self.wrote_back.all();
            if !matches!(called, Ok(Ok(()))) {
                return false;
            }
            at += part;
        }
        true
    }

    /// Waits until nobody else has the kernel write back, if that is soon.
    async fn may_write_back(&self) -> bool {
        let free = self.wrote_back.until(|| (!self.writes_back.replace(true)).then_some(()));
        matches!(race(free, self.env.sleep(WRITING_BACK_MAX_NS)).await, Raced::First(()))
    }

    /// The hole that an answer to a question for data or a hole tells of, if any: no more of it than is looked at.
    async fn told_hole(
        &self,
        (inode, size): (u32, u64),
        offset: u64,
        wanted: Seek,
        found: &Result<u64, Errno>,
    ) -> Option<(u64, u64)> {
        let end = |found: &Result<u64, Errno>| found.as_ref().map_or(size, |found| (*found).min(size));
        match (wanted, found) {
            (Seek::Data, Ok(_) | Err(Errno::NothingThere)) => {
                Some((offset, end(found) - offset)).filter(|(_, len)| *len > 0)
            }
            (Seek::Hole, Ok(at)) if *at < size => {
                let data = self.file_system.seek(inode, *at, Seek::Data).await;
                Some((*at, end(&data).saturating_sub(*at).clamp(1, SETTLED_BYTES)))
            }
            _ => None,
        }
    }

    /// What is mapped and changed is not here yet: a hole is none before the kernel has written that back. Where it cannot, all is
    /// data, which is true of any file.
    pub(super) async fn seek(&self, inode: u32, offset: i64, whence: i32) -> Result<i64, Errno> {
        let wanted = match whence {
            libc::SEEK_DATA => Seek::Data,
            libc::SEEK_HOLE => Seek::Hole,
            _ => return Err(Errno::Invalid),
        };
        let offset = u64::try_from(offset).map_err(|_| Errno::NothingThere)?;
        let size = self.file_system.getattr(inode).await?.size;
        if offset >= size {
            return Err(Errno::NothingThere);
        }
        let mut found = self.file_system.seek(inode, offset, wanted).await;
        while let Some(hole) = self.told_hole((inode, size), offset, wanted, &found).await {
            if !self.write_back(inode, hole).await {
                found = Ok(if wanted == Seek::Data { offset } else { size });
                break;
            }
            let before = std::mem::replace(&mut found, self.file_system.seek(inode, offset, wanted).await);
            if found == before {
                break;
            }
        }
        i64::try_from(found?).map_err(|_| Errno::FileTooLarge)
    }

    /// Copies bytes from one file to another; how many, which may be fewer than were asked for.
    pub(super) async fn copy(
        &self,
        (from, from_offset): (u32, u64),
        (to, to_offset): (u32, u64),
        len: u64,
        caller: &Caller,
    ) -> Result<u32, Errno> {
        self.take_privileges(to, caller.is_privileged).await?;
        let len = len.min(COPY_MAX_BYTES);
        let mut bytes = vec![0; copy_buffer_bytes(len)];
        let mut done = 0;
        while done < len {
            let part = ((len - done) as usize).min(bytes.len());
            let at = from_offset.checked_add(done).ok_or(Errno::FileTooLarge)?;
            let count = match self.file_system.read(from, at, &mut bytes[..part]).await {
                Ok(0) => break,
                Ok(count) => count,
                // What was copied so far has to be known.
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            };
            let at = to_offset.checked_add(done).ok_or(Errno::FileTooLarge)?;
            match self.file_system.write(to, at, &bytes[..count], caller).await {
                Ok(0) => break,
                Ok(written) => done += written as u64,
                Err(_) if done > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(done as u32)
    }

    pub(super) async fn statistics(&self) -> Statistics {
        self.file_system.statistics().await
    }

    pub(super) async fn getxattr(&self, inode: u32, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.file_system.getxattr(inode, name).await
    }

    /// Names of all attributes that the caller may see, each ended by a zero.
    pub(super) async fn listxattr(&self, inode: u32, is_privileged: bool) -> Result<Vec<u8>, Errno> {
        let mut names = self.file_system.listxattr(inode).await?;
        names.retain(|name| is_privileged || !name.starts_with(TRUSTED));
        Ok(names.into_iter().flat_map(|name| name.into_iter().chain([0])).collect())
    }

    pub(super) async fn setxattr(
        &self,
        inode: u32,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        let mode = match flags {
            libc::XATTR_CREATE => XattrMode::Create,
            libc::XATTR_REPLACE => XattrMode::Replace,
            _ => XattrMode::Set,
        };
        self.file_system.setxattr(inode, name, value, mode).await
    }

    pub(super) async fn removexattr(&self, inode: u32, name: &[u8]) -> Result<(), Errno> {
        self.file_system.removexattr(inode, name).await
    }

    /// Lists a folder from `cookie` on, as far as there is room.
    pub(super) async fn readdir(
        &self,
        folder: u32,
        mut cookie: u64,
        into: &mut Listing,
    ) -> Result<(), Errno> {
        loop {
            let entries = self.file_system.readdir(folder, cookie, ENTRIES).await?;
            if entries.is_empty() {
                return Ok(());
            }
            for entry in entries {
                cookie = entry.cookie;
                let kind = match entry.kind {
                    Some(kind) => kind,
                    None => match self.file_system.getattr(entry.inode).await {
                        Ok(attributes) => attributes.kind,
                        Err(_) => continue,
                    },
                };
                if !into.add(number_of(entry.inode), entry.cookie, kind_of(kind), &entry.name) {
                    return Ok(());
                }
            }
            yield_now().await;
        }
    }

    /// As [`Self::readdir`], with the attributes of each file, which the kernel knows of from then on.
    pub(super) async fn readdirplus(
        &self,
        folder: u32,
        mut cookie: u64,
        into: &mut Listing,
    ) -> Result<(), Errno> {
        loop {
            let entries = match self.file_system.readdirplus(folder, cookie, ENTRIES_PLUS).await {
                Ok(entries) => entries,
                // What it knows of by now it has to be told of.
                Err(_) if !into.is_empty() => return Ok(()),
                Err(errno) => return Err(errno),
            };
            if entries.is_empty() {
                return Ok(());
            }
            let mut left = entries.into_iter();
            while let Some((entry, attributes)) = left.next() {
                cookie = entry.cookie;
                // One that cannot be read is left out.
                let Some(attributes) = attributes else { continue };
                if !into.add_entry(&entry_of(&attributes), cookie, &entry.name) {
                    let untold = std::iter::once((entry, Some(attributes))).chain(left);
                    // The kernel does not count these two.
                    let untold = untold.filter(|(entry, _)| !matches!(&entry.name[..], b"." | b".."));
                    let untold: Vec<(u32, u64)> =
                        untold.filter_map(|(_, attributes)| Some((attributes?.inode, 1))).collect();
                    self.forget(&untold).await;
                    return Ok(());
                }
            }
            yield_now().await;
        }
    }
}
