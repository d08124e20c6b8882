//! What the kernel asks, taken from it by the event loop: each request becomes a task, in which [`Files`] carries it out, and
//! which answers.
//!
//! 1. Nothing here waits for the volume; only for room in [`UnderWay`] and [`Forgotten`], and so does the kernel then. Slots wait for
//!    the first one only: what is forgotten does not come in them.
//! 2. Files are not opened or closed as far as the kernel can do without: it keeps the inode meanwhile, and tells when it
//!    forgets it.
//! 3. The crate `fuser` mounts, agrees with the kernel on what both can do, and unmounts. It reads no request after that.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use evenkeel_engine::env::Env;
use evenkeel_ext2::{Caller, Errno, Payload, SetAttributes, Store};
use fuser::{Filesystem, InitFlags, KernelConfig, Request, SessionACL};
use rustix::process::getuid;

use super::abi::Malformed;
use super::abi::reply::{self, Answer, Listing};
use super::abi::request::{HEAD_BYTES, Head, Operation, WRITE_HEAD_BYTES};
use super::answering::Reply;
use super::attributes::{chosen_time, entry_of, inode_of, told};
use super::device::Device;
use super::forgotten::Forgotten;
use super::requests::{ATTRIBUTES_KEPT, Files, copy_buffer_bytes};
use super::slots::Place;
use super::under_way::UnderWay;
use crate::event_loop::Loop;
use crate::event_loop::Slot;
use crate::wait::{Notify, Raced, race, yield_now};

/// Longest write of one request, and read. The kernel divides longer ones: what is asked beside it waits for no longer one.
const WRITE_MAX_BYTES: usize = 128 << 10;

/// Bytes of the longest request.
pub(super) const REQUEST_MAX_BYTES: usize = WRITE_HEAD_BYTES + WRITE_MAX_BYTES;

/// Buffers of reads that are kept.
const BUFFERS_MAX: usize = 16;

/// Requests that are taken from the kernel at once, before those that are there go on.
const TAKEN_AT_ONCE: usize = 64;

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

/// What is agreed on with the kernel.
#[derive(Debug, Default)]
pub(super) struct Handshake {
    /// Whether requests may come over io_uring.
    pub(super) wants_slots: bool,
    /// Whether they do.
    pub(super) has_slots: Arc<AtomicBool>,
}

impl Filesystem for Handshake {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        let capabilities = config.capabilities();
        for wanted in WANTED.into_iter().filter(|&wanted| capabilities.contains(wanted)) {
            let _it_can = config.add_capabilities(wanted);
        }
        let _it_is_allowed = config.set_max_write(WRITE_MAX_BYTES as u32);
        if self.wants_slots && config.add_capabilities(InitFlags::FUSE_OVER_IO_URING).is_ok() {
            // What is read ahead is no longer: else it would not fit into a slot.
            let _it_is_less_by_itself = config.set_max_readahead(WRITE_MAX_BYTES as u32);
            self.has_slots.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// What a write makes durable before it is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Synced {
    /// As fdatasync does: `O_DSYNC`.
    Data,
    /// As fsync does: `O_SYNC`.
    All,
}

impl Synced {
    /// What a file asks for that was opened with these flags.
    pub(super) fn of_flags(flags: i32) -> Option<Self> {
        match flags {
            // O_SYNC has the bit of O_DSYNC too.
            flags if flags & libc::O_SYNC == libc::O_SYNC => Some(Self::All),
            flags if flags & libc::O_DSYNC != 0 => Some(Self::Data),
            _ => None,
        }
    }
}

/// A session with the kernel.
pub(super) struct Session<S: Store> {
    pub(super) env: Loop,
    pub(super) device: Rc<Device>,
    pub(super) files: Rc<Files<S>>,
    pub(super) under_way: Rc<UnderWay>,
    pub(super) forgotten: Rc<Forgotten>,
    pub(super) allowed: SessionACL,
    /// Memory of reads that were answered.
    pub(super) buffers: Rc<RefCell<Vec<Vec<u8>>>>,
    /// Requests cannot be taken any more.
    pub(super) broken: Broken,
}

/// That something cannot go on.
#[derive(Debug, Default)]
pub(super) struct Broken {
    is_set: Cell<bool>,
    changed: Notify,
}

impl Broken {
    /// It cannot. Answers whether that is news.
    pub(super) fn set(&self) -> bool {
        self.changed.all();
        !self.is_set.replace(true)
    }

    async fn until_set(&self) {
        self.changed.until(|| self.is_set.get().then_some(())).await;
    }
}

impl<S: Store> Session<S> {
    /// Takes requests until nothing is mounted any more, or the kernel says what makes no sense.
    pub(super) async fn run(&self) {
        let mut buffer = vec![0; REQUEST_MAX_BYTES.next_multiple_of(4096)];
        loop {
            for _ in 0..TAKEN_AT_ONCE {
                self.under_way.has_room().await;
                self.forgotten.has_room().await;
                match self.device.read(&mut buffer) {
                    Ok(Some(len)) if self.begin(&buffer[..len]) => {}
                    Ok(None) => match race(self.device.has_request(), self.broken.until_set()).await {
                        Raced::First(Ok(())) => {}
                        Raced::First(Err(_)) | Raced::Second(()) => return,
                    },
                    Ok(Some(_)) | Err(_) => return,
                }
            }
            yield_now().await;
        }
    }

    /// Begins a request that was read from the device; false if it is the last.
    fn begin(&self, request: &[u8]) -> bool {
        let Ok(head) = Head::decode(request) else { return false };
        let reply = Reply::to_device(&self.device, head.unique);
        self.begin_operation(reply, &head, Operation::decode(head.opcode, request))
    }

    /// Begins the request in a slot, which is answered at `place`.
    pub(super) fn begin_in_slot(&self, place: &Rc<Place>, slot: &Slot) {
        let head = Head::decode_alone(slot.head()).expect("a slot has room for a head");
        let fixed_len = (head.len as usize).checked_sub(HEAD_BYTES + slot.payload().len());
        let fixed = fixed_len.and_then(|len| slot.operation().get(..len)).ok_or(Malformed);
        let operation = fixed.and_then(|fixed| Operation::decode_parts(head.opcode, fixed, slot.payload()));
        let _the_connection_ends_it =
            self.begin_operation(Reply::to_slot(place, head.unique), &head, operation);
    }

    /// Begins a request; false if it is the last.
    fn begin_operation(
        &self,
        reply: Reply,
        head: &Head,
        operation: Result<Operation<'_>, Malformed>,
    ) -> bool {
        let Ok(operation) = operation else {
            reply.error(libc::EIO);
            return true;
        };
        // The kernel asks no one else either; but whoever mounts for himself alone does not rely on that.
        let is_foreign = self.allowed == SessionACL::Owner && head.uid != getuid().as_raw();
        if is_foreign && !operation.is_of_kernel() {
            reply.error(libc::EACCES);
            return true;
        }
        match operation {
            Operation::Destroy => {
                reply.answer(Answer::default());
                return false;
            }
            Operation::Forget { lookups } => {
                reply.none();
                self.forgotten.add(inode_of(head.node), lookups);
            }
            Operation::ForgetAll(forgets) => {
                reply.none();
                forgets.iter().for_each(|(node, lookups)| self.forgotten.add(inode_of(node), lookups));
            }
            // Files are asked to be opened once: then the kernel opens by itself, and keeps what it has of the file. So it is with
            // closing: that makes nothing durable.
            Operation::Other => reply.error(libc::ENOSYS),
            Operation::Interrupt { unique } => {
                reply.none();
                self.files.long_requests.interrupt(unique);
            }
            Operation::Release => reply.answer(Answer::default()),
            operation => self.carry_out(reply, head, operation),
        }
        true
    }

    fn carry_out(&self, reply: Reply, head: &Head, operation: Operation<'_>) {
        let (node, thread, unique) = (inode_of(head.node), head.thread, head.unique);
        self.env.note_asker(thread);
        let caller = Caller { uid: head.uid, gid: head.gid, is_privileged: head.uid == 0 };
        match operation {
            Operation::Lookup { name } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    files.lookup(node, &name).await.map(|it| reply::entry(&entry_of(&it)))
                });
            }
            Operation::GetAttributes => self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                files.getattr(node).await.map(|it| reply::attributes(&told(&it), ATTRIBUTES_KEPT))
            }),
            Operation::SetAttributes(it) => {
                let set = SetAttributes {
                    permissions: it.mode.map(|mode| (mode & 0o7777) as u16),
                    uid: it.uid,
                    gid: it.gid,
                    size: it.size,
                    atime: it.atime.map(chosen_time),
                    mtime: it.mtime.map(chosen_time),
                };
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let it = files.setattr(node, set, caller).await?;
                    Ok(reply::attributes(&told(&it), ATTRIBUTES_KEPT))
                });
            }
            Operation::ReadLink => {
                self.ask(reply, 0, async move |files: Rc<Files<S>>| files.readlink(node).await);
            }
            Operation::SymLink { name, target } => {
                let (name, target) = (name.to_vec(), target.to_vec());
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let it = files.symlink(node, &name, &target, &caller).await?;
                    Ok(reply::entry(&entry_of(&it)))
                });
            }
            Operation::MakeNode { name, mode, device } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let it = files.mknod(node, &name, mode, device, &caller).await?;
                    Ok(reply::entry(&entry_of(&it)))
                });
            }
            Operation::MakeFolder { name, mode } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let it = files.mkdir(node, &name, mode, &caller).await?;
                    Ok(reply::entry(&entry_of(&it)))
                });
            }
            Operation::Unlink { name } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    files.unlink(node, &name).await.map(done)
                });
            }
            Operation::RemoveFolder { name } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| files.rmdir(node, &name).await.map(done));
            }
            Operation::Rename { name, new_parent, new_name, flags } => {
                let (name, new_name) = (name.to_vec(), new_name.to_vec());
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let (old, new) = ((node, &name[..]), (inode_of(new_parent), &new_name[..]));
                    files.rename(old, new, flags).await.map(done)
                });
            }
            Operation::Link { node: linked, new_name } => {
                let name = new_name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let it = files.link(inode_of(linked), node, &name, &caller).await?;
                    Ok(reply::entry(&entry_of(&it)))
                });
            }
            Operation::Create { name, mode } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let it = files.create(node, &name, mode, &caller).await?;
                    Ok(reply::created(&entry_of(&it)))
                });
            }
            Operation::CreateUnnamed { mode } => {
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    let it = files.create_unnamed(node, mode, &caller).await?;
                    Ok(reply::created(&entry_of(&it)))
                });
            }
            Operation::Read { len, .. } if len as usize > WRITE_MAX_BYTES => reply.error(libc::EINVAL),
            Operation::Read { offset, len } => self.read(reply, node, offset, len as usize),
            Operation::Write(it) => {
                let (payload, len) = (Payload::new(it.offset, it.data), it.data.len());
                // What the kernel writes back of mapped files belongs to nobody's request.
                let durable = Synced::of_flags(it.open_flags).filter(|_| !it.is_written_back);
                let (takes_privileges, is_written_back) = (it.takes_privileges, it.is_written_back);
                self.ask(reply, len, async move |files: Rc<Files<S>>| {
                    let written =
                        files.write(node, payload, (&caller, thread), durable, takes_privileges).await?;
                    if is_written_back && written < len {
                        // The kernel takes all of it for written, and says of an error alone what became of the rest.
                        return Err(Errno::NoSpace);
                    }
                    Ok(reply::count(written as u32))
                });
            }
            Operation::Sync { is_data_only } => {
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    files.fsync(node, is_data_only, thread).await.map(done)
                });
            }
            Operation::Statistics => self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                let it = files.statistics().await;
                Ok(reply::statistics(&reply::Statistics {
                    blocks: it.blocks,
                    free_blocks: it.free_blocks,
                    available_blocks: it.available_blocks,
                    inodes: it.inodes,
                    free_inodes: it.free_inodes,
                    block_bytes: 4096,
                    name_max_bytes: evenkeel_ext2::NAME_MAX as u32,
                }))
            }),
            Operation::SetXattr { name, value, flags } => {
                let (name, value) = (name.to_vec(), value.to_vec());
                self.ask(reply, value.len(), async move |files: Rc<Files<S>>| {
                    files.setxattr(node, &name, &value, flags).await.map(done)
                });
            }
            Operation::GetXattr { name, len } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    fitting(files.getxattr(node, &name).await?, len)
                });
            }
            Operation::ListXattr { len } => {
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    fitting(files.listxattr(node, caller.is_privileged).await?, len)
                });
            }
            Operation::RemoveXattr { name } => {
                let name = name.to_vec();
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    files.removexattr(node, &name).await.map(done)
                });
            }
            Operation::List { offset, len, is_plus } => {
                let len = (len as usize).min(WRITE_MAX_BYTES);
                self.ask(reply, len, async move |files: Rc<Files<S>>| {
                    let mut listing = Listing::new(len);
                    match is_plus {
                        true => files.readdirplus(node, offset, &mut listing).await?,
                        false => files.readdir(node, offset, &mut listing).await?,
                    }
                    Ok(listing)
                });
            }
            Operation::Allocate { offset, len, mode } => {
                let request = self.files.long_requests.begin(unique);
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    files.fallocate(node, (offset, len), mode, &caller, &request).await.map(done)
                });
            }
            Operation::Seek { offset, whence } => {
                self.ask(reply, 0, async move |files: Rc<Files<S>>| {
                    files.seek(node, offset, whence).await.map(reply::offset)
                });
            }
            Operation::Copy(it) => {
                self.ask(reply, copy_buffer_bytes(it.len), async move |files: Rc<Files<S>>| {
                    let (from, to) = ((node, it.from_offset), (inode_of(it.to), it.to_offset));
                    files.copy(from, to, it.len, &caller).await.map(reply::count)
                });
            }
            // They are done before.
            Operation::Forget { .. }
            | Operation::ForgetAll(_)
            | Operation::Release
            | Operation::Destroy
            | Operation::Interrupt { .. }
            | Operation::Other => {}
        }
    }

    /// Reads, into memory that is used again or into that of the request.
    fn read(&self, mut reply: Reply, node: u32, offset: u64, len: usize) {
        if reply.is_in_slot() {
            return self.carry(len, async move |files: Rc<Files<S>>| {
                let Some(mut slot) = reply.take_slot() else { return reply.error(libc::EIO) };
                let read = files.read(node, offset, &mut slot.payload_mut()[..len]).await;
                reply.answer_in(slot, read);
            });
        }
        let buffers = Rc::clone(&self.buffers);
        let memory = buffers.borrow_mut().pop().unwrap_or_default();
        self.carry(len, async move |files: Rc<Files<S>>| {
            let mut answer = Answer::of_len(memory, len);
            match files.read(node, offset, answer.body()).await {
                Ok(count) => {
                    answer.truncate(count);
                    let memory = reply.answer_whole(answer).await;
                    let mut buffers = buffers.borrow_mut();
                    if buffers.len() < BUFFERS_MAX {
                        buffers.push(memory);
                    }
                }
                Err(errno) => reply.error(errno.number()),
            }
        });
    }

    /// Carries a request out, which brings or wants so many `bytes`, and answers.
    fn ask<A: Into<Answer>, F>(
        &self,
        reply: Reply,
        bytes: usize,
        begin: impl FnOnce(Rc<Files<S>>) -> F + 'static,
    ) where
        F: Future<Output = Result<A, Errno>> + 'static,
    {
        self.carry(bytes, async move |files: Rc<Files<S>>| match begin(files).await {
            Ok(answer) => reply.answer(answer.into()),
            Err(errno) => reply.error(errno.number()),
        });
    }

    /// Makes a task of what `begin` begins; a closed session drops it.
    fn carry<F>(&self, bytes: usize, begin: impl FnOnce(Rc<Files<S>>) -> F)
    where
        F: Future<Output = ()> + 'static,
    {
        let Some(room) = self.under_way.enter(bytes.saturating_add(size_of::<F>())) else { return };
        // In its place from the beginning: it is large, and would be moved as it is.
        let request = Box::pin(begin(Rc::clone(&self.files)));
        self.env.spawn(async move {
            request.await;
            drop(room);
        });
    }
}

/// What has no answer but that all went well.
fn done((): ()) -> Answer {
    Answer::default()
}

/// A value, or its size where that is asked for.
fn fitting(value: Vec<u8>, len: u32) -> Result<Answer, Errno> {
    match len {
        0 => Ok(reply::count(value.len() as u32).into()),
        len if value.len() > len as usize => Err(Errno::Range),
        _ => Ok(value.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_dsync_asks_for_data_and_o_sync_for_all() {
        assert_eq!(Synced::of_flags(libc::O_WRONLY), None);
        assert_eq!(Synced::of_flags(libc::O_RDWR | libc::O_DSYNC), Some(Synced::Data));
        assert_eq!(Synced::of_flags(libc::O_RDWR | libc::O_SYNC), Some(Synced::All));
    }
}
