//! What the kernel asks, handed over to the event loop: each call takes what it needs out of the kernel's buffer, and
//! [`Files`] carries it out and answers.
//!
//! 1. Nothing here waits for the volume; only for room in the [`Inbox`].
//! 2. Files are not opened or closed as far as the kernel can do without: it keeps the inode meanwhile, and tells when it
//!    forgets it.

use std::ffi::OsStr;
use std::future::Future;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::SystemTime;

use evenkeel_ext2::{Caller, Payload, SetAttributes, Store};
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    InitFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};

use super::attributes::{chosen_time, inode_of, told};
use super::inbox::Inbox;
use super::requests::{ATTRIBUTES_KEPT, Files, Synced};

/// Longest write of one request. The kernel divides longer ones: what is asked beside it waits for no longer one.
const WRITE_MAX_BYTES: u32 = 128 << 10;

/// What else the kernel is asked to do, where it can.
const WANTED: [InitFlags; 7] = [
    InitFlags::FUSE_PARALLEL_DIROPS,
    InitFlags::FUSE_DO_READDIRPLUS,
    InitFlags::FUSE_READDIRPLUS_AUTO,
    InitFlags::FUSE_CACHE_SYMLINKS,
    // Else each write asks for an attribute first, to know whether it has to take privileges away.
    InitFlags::FUSE_HANDLE_KILLPRIV_V2,
    InitFlags::FUSE_EXPLICIT_INVAL_DATA,
    // Files are found by their handles: inodes keep their numbers, and each use of one has a generation.
    InitFlags::FUSE_EXPORT_SUPPORT,
    // Not FUSE_ASYNC_DIO: a direct write that ends later leaves in the page cache what another program reads meanwhile.
];

/// A session with the kernel.
pub(super) struct Session<S: Store>(pub(super) Arc<Inbox<Rc<Files<S>>>>);

impl<S: Store> Session<S> {
    fn ask<F>(&self, begin: impl FnOnce(Rc<Files<S>>) -> F + Send + 'static)
    where
        F: Future<Output = ()> + 'static,
    {
        Inbox::put(&self.0, 0, begin);
    }
}

fn caller(request: &Request) -> Caller {
    Caller { uid: request.uid(), gid: request.gid(), is_privileged: request.uid() == 0 }
}

fn owned(name: &OsStr) -> Vec<u8> {
    name.as_bytes().to_vec()
}

/// Answers with `$reply.$method` of what `$files` answers, or with its error.
macro_rules! answer {
    ($reply:ident, $result:expr, $value:pat => $answer:expr) => {
        match $result {
            Ok($value) => $answer,
            Err(errno) => $reply.error(told_errno(errno)),
        }
    };
}

fn told_errno(errno: evenkeel_ext2::Errno) -> Errno {
    Errno::from_i32(errno.number())
}

impl<S: Store> Filesystem for Session<S> {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let capabilities = config.capabilities();
        for wanted in WANTED.into_iter().filter(|&wanted| capabilities.contains(wanted)) {
            let _it_can = config.add_capabilities(wanted);
        }
        let _it_is_allowed = config.set_max_write(WRITE_MAX_BYTES);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let name = owned(name);
        self.ask(async move |files| {
            answer!(reply, files.lookup(inode_of(parent), &name).await, it => {
                reply.entry(&ATTRIBUTES_KEPT, &told(&it), Generation(it.generation.into()));
            });
        });
    }

    fn forget(&self, _request: &Request, inode: INodeNo, lookups: u64) {
        self.0.forget(inode_of(inode), lookups);
    }

    fn getattr(&self, _request: &Request, inode: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        self.ask(async move |files| {
            answer!(reply, files.getattr(inode_of(inode)).await, it => reply.attr(&ATTRIBUTES_KEPT, &told(&it)));
        });
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        _handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let caller = caller(request);
        let set = SetAttributes {
            permissions: mode.map(|mode| (mode & 0o7777) as u16),
            uid,
            gid,
            size,
            atime: atime.map(chosen_time),
            mtime: mtime.map(chosen_time),
        };
        self.ask(async move |files| {
            answer!(reply, files.setattr(inode_of(inode), set, caller).await, it => {
                reply.attr(&ATTRIBUTES_KEPT, &told(&it));
            });
        });
    }

    fn readlink(&self, _request: &Request, inode: INodeNo, reply: ReplyData) {
        self.ask(async move |files| {
            answer!(reply, files.readlink(inode_of(inode)).await, target => reply.data(&target));
        });
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        device: u32,
        reply: ReplyEntry,
    ) {
        let (name, caller) = (owned(name), caller(request));
        self.ask(async move |files| {
            answer!(reply, files.mknod(inode_of(parent), &name, mode, device, &caller).await, it => {
                reply.entry(&ATTRIBUTES_KEPT, &told(&it), Generation(it.generation.into()));
            });
        });
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        let (name, caller) = (owned(name), caller(request));
        self.ask(async move |files| {
            answer!(reply, files.mkdir(inode_of(parent), &name, mode, &caller).await, it => {
                reply.entry(&ATTRIBUTES_KEPT, &told(&it), Generation(it.generation.into()));
            });
        });
    }

    fn unlink(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.ask(async move |files| {
            answer!(reply, files.unlink(inode_of(parent), &name).await, () => reply.ok());
        });
    }

    fn rmdir(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.ask(async move |files| {
            answer!(reply, files.rmdir(inode_of(parent), &name).await, () => reply.ok());
        });
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let (name, target, caller) = (owned(name), owned(target.as_os_str()), caller(request));
        self.ask(async move |files| {
            answer!(reply, files.symlink(inode_of(parent), &name, &target, &caller).await, it => {
                reply.entry(&ATTRIBUTES_KEPT, &told(&it), Generation(it.generation.into()));
            });
        });
    }

    fn rename(
        &self,
        _request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (name, new_name) = (owned(name), owned(new_name));
        self.ask(async move |files| {
            let (old, new) = ((inode_of(parent), &name[..]), (inode_of(new_parent), &new_name[..]));
            answer!(reply, files.rename(old, new, flags).await, () => reply.ok());
        });
    }

    fn link(&self, request: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let (name, caller) = (owned(name), caller(request));
        self.ask(async move |files| {
            answer!(reply, files.link(inode_of(inode), inode_of(parent), &name, &caller).await, it => {
                reply.entry(&ATTRIBUTES_KEPT, &told(&it), Generation(it.generation.into()));
            });
        });
    }

    fn open(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        // Asked once: then the kernel opens by itself, and keeps what it has of the file.
        reply.error(Errno::ENOSYS);
    }

    fn opendir(&self, _request: &Request, _inode: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        reply.error(Errno::ENOSYS);
    }

    fn read(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        Inbox::put(&self.0, size as usize, async move |files: Rc<Files<S>>| {
            let mut bytes = vec![0; size as usize];
            answer!(reply, files.read(inode_of(inode), offset, &mut bytes).await, count => {
                reply.data(&bytes[..count]);
            });
        });
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        flags: OpenFlags,
        _lock_owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let (payload, caller, thread) = (Payload::new(offset, data), caller(request), request.pid());
        // What the kernel writes back of mapped files belongs to nobody's request.
        let is_written_back = write_flags.contains(WriteFlags::FUSE_WRITE_CACHE);
        let durable = Synced::of_flags(flags.0).filter(|_| !is_written_back);
        let takes_privileges = write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        Inbox::put(&self.0, data.len(), async move |files: Rc<Files<S>>| {
            let written =
                files.write(inode_of(inode), payload, (&caller, thread), durable, takes_privileges).await;
            answer!(reply, written, count => reply.written(count as u32));
        });
    }

    fn flush(
        &self,
        _request: &Request,
        _inode: INodeNo,
        _handle: FileHandle,
        _lock_owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        // Asked once: a close makes nothing durable.
        reply.error(Errno::ENOSYS);
    }

    fn fsync(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        only_data: bool,
        reply: ReplyEmpty,
    ) {
        let thread = request.pid();
        self.ask(async move |files| {
            answer!(reply, files.fsync(inode_of(inode), only_data, thread).await, () => reply.ok());
        });
    }

    fn fsyncdir(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        only_data: bool,
        reply: ReplyEmpty,
    ) {
        self.fsync(request, inode, handle, only_data, reply);
    }

    fn readdir(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        self.ask(async move |files| files.readdir(inode_of(inode), offset, reply).await);
    }

    fn readdirplus(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        self.ask(async move |files| files.readdirplus(inode_of(inode), offset, reply).await);
    }

    fn statfs(&self, _request: &Request, _inode: INodeNo, reply: ReplyStatfs) {
        self.ask(async move |files| {
            let it = files.statistics().await;
            reply.statfs(
                it.blocks,
                it.free_blocks,
                it.available_blocks,
                it.inodes,
                it.free_inodes,
                4096,
                evenkeel_ext2::NAME_MAX as u32,
                4096,
            );
        });
    }

    fn setxattr(
        &self,
        _request: &Request,
        inode: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        let (name, value) = (owned(name), value.to_vec());
        self.ask(async move |files| {
            answer!(reply, files.setxattr(inode_of(inode), &name, &value, flags).await, () => reply.ok());
        });
    }

    fn getxattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        let name = owned(name);
        self.ask(async move |files| {
            answer!(reply, files.getxattr(inode_of(inode), &name).await, value => fitting(reply, size, &value));
        });
    }

    fn listxattr(&self, _request: &Request, inode: INodeNo, size: u32, reply: ReplyXattr) {
        self.ask(async move |files| {
            answer!(reply, files.listxattr(inode_of(inode)).await, names => fitting(reply, size, &names));
        });
    }

    fn removexattr(&self, _request: &Request, inode: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let name = owned(name);
        self.ask(async move |files| {
            answer!(reply, files.removexattr(inode_of(inode), &name).await, () => reply.ok());
        });
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        _flags: i32,
        reply: ReplyCreate,
    ) {
        let (name, caller) = (owned(name), caller(request));
        self.ask(async move |files| {
            answer!(reply, files.create(inode_of(parent), &name, mode, &caller).await, it => {
                reply.created(
                    &ATTRIBUTES_KEPT,
                    &told(&it),
                    Generation(it.generation.into()),
                    FileHandle(0),
                    FopenFlags::FOPEN_KEEP_CACHE,
                );
            });
        });
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let caller = caller(request);
        self.ask(async move |files| {
            answer!(reply, files.fallocate(inode_of(inode), offset, len, mode, &caller).await, () => reply.ok());
        });
    }

    fn lseek(
        &self,
        _request: &Request,
        inode: INodeNo,
        _handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.ask(async move |files| {
            answer!(reply, files.seek(inode_of(inode), offset, whence).await, at => reply.offset(at));
        });
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        _from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        _to_handle: FileHandle,
        to_offset: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        let caller = caller(request);
        self.ask(async move |files| {
            let (from, to) = ((inode_of(from), from_offset), (inode_of(to), to_offset));
            answer!(reply, files.copy(from, to, len, &caller).await, count => reply.written(count));
        });
    }
}

/// A value, its size where that is asked for, or that it does not fit.
fn fitting(reply: ReplyXattr, size: u32, value: &[u8]) {
    match size {
        0 => reply.size(value.len() as u32),
        size if value.len() > size as usize => reply.error(Errno::ERANGE),
        _ => reply.data(value),
    }
}
