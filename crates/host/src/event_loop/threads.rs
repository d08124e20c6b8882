//! Requests where io_uring cannot be had: files on threads, sockets through epoll.
//!
//! 1. A socket operation is tried at once and again whenever epoll says that it may go on; it never blocks,
//!    whatever the flags of its descriptor (a listener's must say so: see `net`).
//! 2. Operations on one socket in one direction end in the order in which they were asked for.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::foreign::Foreign;
use super::request::{Completion, Request, Sync, Wait};
use super::workers::{Job, Workers};

/// Of the event descriptor; no other descriptor has this number.
const EVENT: u64 = u64::MAX;

#[derive(Default)]
struct Waiting {
    to_read: VecDeque<(usize, Request)>,
    to_write: VecDeque<(usize, Request)>,
}

pub(super) struct Threads {
    epoll: OwnedFd,
    foreign: Arc<Foreign>,
    workers: Rc<Workers>,
    sockets: BTreeMap<RawFd, Waiting>,
    /// Of operations that ended at once.
    done: Vec<Completion>,
    events: Vec<epoll::Event>,
}

impl Threads {
    pub(super) fn new(foreign: Arc<Foreign>, workers: Rc<Workers>) -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &foreign.event, EventData::new_u64(EVENT), EventFlags::IN)?;
        let (sockets, done, events) = (BTreeMap::new(), Vec::new(), Vec::with_capacity(256));
        Ok(Self { epoll, foreign, workers, sockets, done, events })
    }

    /// Asks for `request`.
    ///
    /// # Safety
    ///
    /// Its memory and its descriptor stay valid until the completion of `key` was given out.
    #[allow(unsafe_code)]
    pub(super) unsafe fn push(&mut self, key: usize, request: Request) -> io::Result<()> {
        let Some((fd, reads)) = socket(&request) else {
            return self.workers.put(Job::Request(key, request, Arc::clone(&self.foreign)));
        };
        let waiting = self.sockets.entry(fd).or_default();
        let queue = if reads { &mut waiting.to_read } else { &mut waiting.to_write };
        if queue.is_empty() {
            let result = perform(&request);
            if result != -libc::EAGAIN {
                self.done.push(Completion { key, is_sync: false, result });
                return Ok(());
            }
        }
        queue.push_back((key, request));
        self.watch(fd)
    }

    /// Tells epoll what is waited for on `fd`.
    fn watch(&self, fd: RawFd) -> io::Result<()> {
        let Some(waiting) = self.sockets.get(&fd) else { return Ok(()) };
        let mut flags = EventFlags::ONESHOT;
        for (_, request) in waiting.to_read.front().iter().chain(waiting.to_write.front().iter()) {
            flags |= match request {
                Request::Poll { events, .. } => EventFlags::from_bits_retain(*events),
                Request::Send { .. } => EventFlags::OUT,
                _ => EventFlags::IN,
            };
        }
        let (file, data) = (borrowed(fd), EventData::new_u64(fd as u64));
        match epoll::modify(&self.epoll, file, data, flags) {
            Err(rustix::io::Errno::NOENT) => Ok(epoll::add(&self.epoll, file, data, flags)?),
            other => Ok(other?),
        }
    }

    /// Gives the operation up, if it waits for a socket; one on a thread ends by itself.
    pub(super) fn cancel(&mut self, key: usize) {
        for waiting in self.sockets.values_mut() {
            for queue in [&mut waiting.to_read, &mut waiting.to_write] {
                let before = queue.len();
                queue.retain(|&(other, _)| other != key);
                if queue.len() != before {
                    self.done.push(Completion { key, is_sync: false, result: -libc::ECANCELED });
                }
            }
        }
        self.forget_idle();
    }

    fn forget_idle(&mut self) {
        let epoll = &self.epoll;
        self.sockets.retain(|&fd, waiting| {
            let waits = !waiting.to_read.is_empty() || !waiting.to_write.is_empty();
            if !waits {
                // The descriptor may be closed and its number used again after this.
                let _never_watched_is_fine = epoll::delete(epoll, borrowed(fd));
            }
            waits
        });
    }

    /// Waits and appends the completions to `into`. Those of files come through the inbox.
    pub(super) fn turn(&mut self, wait: Wait, into: &mut Vec<Completion>) -> io::Result<()> {
        let wait = if self.done.is_empty() { wait } else { Wait::No };
        let timeout = match wait {
            Wait::No => Some(Timespec { tv_sec: 0, tv_nsec: 0 }),
            Wait::ForNs(ns) => {
                // Rounded up to what every kernel's epoll can wait: a timer never fires early.
                let ms = ns.div_ceil(1_000_000);
                Some(Timespec {
                    tv_sec: i64::try_from(ms / 1000).unwrap_or(i64::MAX),
                    tv_nsec: (ms % 1000 * 1_000_000) as i64,
                })
            }
            Wait::ForEver => None,
        };
        let mut events = std::mem::take(&mut self.events);
        events.clear();
        let waited = epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref());
        for event in &events {
            match event.data.u64() {
                EVENT => self.foreign.acknowledge(),
                fd => self.go_on(fd as RawFd, event.flags)?,
            }
        }
        self.events = events;
        into.append(&mut self.done);
        match waited {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Tries what waits for `fd`.
    fn go_on(&mut self, fd: RawFd, flags: EventFlags) -> io::Result<()> {
        let Some(waiting) = self.sockets.get_mut(&fd) else { return Ok(()) };
        for queue in [&mut waiting.to_read, &mut waiting.to_write] {
            while let Some(&(key, request)) = queue.front() {
                let result = match request {
                    Request::Poll { events, .. } => {
                        let found = flags.bits() & (events | (libc::EPOLLERR | libc::EPOLLHUP) as u32);
                        if found == 0 { -libc::EAGAIN } else { found as i32 }
                    }
                    other => perform(&other),
                };
                if result == -libc::EAGAIN {
                    break;
                }
                self.done.push(Completion { key, is_sync: false, result });
                queue.pop_front();
            }
        }
        if waiting.to_read.is_empty() && waiting.to_write.is_empty() {
            // A socket that is used again soon is watched again then.
            self.sockets.remove(&fd);
            let _never_watched_is_fine = epoll::delete(&self.epoll, borrowed(fd));
            return Ok(());
        }
        self.watch(fd)
    }
}

/// The descriptor of an operation for epoll, and whether it reads.
fn socket(request: &Request) -> Option<(RawFd, bool)> {
    match *request {
        Request::Receive { fd, .. } | Request::Accept { fd } | Request::Poll { fd, .. } => Some((fd, true)),
        Request::Send { fd, .. } => Some((fd, false)),
        _ => None,
    }
}

#[allow(unsafe_code)]
fn borrowed<'a>(fd: RawFd) -> BorrowedFd<'a> {
    // SAFETY: the reactor keeps the descriptor of every operation open until it has its completion.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Does it now, with the system call of its kind: a count, or a negated errno. Calls on sockets do not block.
#[allow(unsafe_code)]
pub(super) fn perform(request: &Request) -> i32 {
    loop {
        let result = match *request {
            // SAFETY: memory and descriptor are valid until the completion, which is not given yet.
            Request::Read { fd, memory, offset } => unsafe {
                libc::pread64(fd, memory.start.cast(), memory.len as usize, offset as i64)
            },
            Request::Write { fd, memory, offset, sync } => {
                let (start, len, offset) = (memory.start.cast(), memory.len as usize, offset as i64);
                let written = if sync == Sync::Dsync {
                    let bytes = libc::iovec { iov_base: start, iov_len: len };
                    // SAFETY: as above.
                    unsafe { libc::pwritev2(fd, &raw const bytes, 1, offset, libc::RWF_DSYNC) }
                } else {
                    // SAFETY: as above.
                    unsafe { libc::pwrite64(fd, start.cast_const(), len, offset) }
                };
                // SAFETY: as above.
                if sync == Sync::Linked && written >= 0 && unsafe { libc::fdatasync(fd) } < 0 {
                    -1
                } else {
                    written
                }
            }
            // SAFETY: as above.
            Request::Fdatasync { fd } => unsafe { libc::fdatasync(fd) as isize },
            Request::Allocate { fd, mode, offset, len } => {
                // SAFETY: as above.
                unsafe { libc::fallocate64(fd, mode, offset as i64, len as i64) as isize }
            }
            Request::Receive { fd, memory } => {
                // SAFETY: as above.
                unsafe { libc::recv(fd, memory.start.cast(), memory.len as usize, libc::MSG_DONTWAIT) }
            }
            Request::Send { fd, memory } => {
                let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
                // SAFETY: as above.
                unsafe { libc::send(fd, memory.start.cast(), memory.len as usize, flags) }
            }
            Request::Accept { fd } => {
                let nobody = std::ptr::null_mut();
                // SAFETY: as above; no address is asked for.
                unsafe { libc::accept4(fd, nobody, std::ptr::null_mut(), libc::SOCK_CLOEXEC) as isize }
            }
            Request::Poll { fd, events } => {
                let mut poll = libc::pollfd { fd, events: events as i16, revents: 0 };
                // SAFETY: one valid entry.
                match unsafe { libc::poll(&raw mut poll, 1, 0) } {
                    0 => return -libc::EAGAIN,
                    1 => isize::from(poll.revents),
                    _ => -1,
                }
            }
        };
        if result >= 0 {
            return result as i32;
        }
        match io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO) {
            libc::EINTR => {}
            errno => return -errno,
        }
    }
}
