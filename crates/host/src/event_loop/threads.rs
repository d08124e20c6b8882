//! Requests where io_uring cannot be had: files on threads, sockets through epoll.
//!
//! 1. A socket operation is tried at once, unless the last attempt found nothing, and again whenever epoll tells of a
//!    change; it never blocks, whatever the flags of its descriptor (a listener's must say so: see `net`).
//! 2. Operations on one socket in one direction end in the order in which they were asked for.
//!
//! This file, `reactor` and `workers` import one another: threads answer for a reactor that hands work to them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::ptr;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use rustix::event::Timespec;
use rustix::event::epoll::{self, EventData, EventFlags};

use super::foreign::Foreign;
use super::reactor::SharedFd;
use super::request::{Completion, Request, Sync, Wait};
use super::workers::{Job, Workers};

/// What epoll tells of a socket.
const CHANGES: EventFlags =
    EventFlags::IN.union(EventFlags::PRI).union(EventFlags::RDHUP).union(EventFlags::ET);

/// Of the event descriptor; no other descriptor has this number.
const EVENT: u64 = u64::MAX;

/// A socket that epoll tells about: once for each change, from its first use until it is closed.
struct Socket {
    /// Dead once it is closed, when another may have its number.
    file: Weak<OwnedFd>,
    to_read: VecDeque<(usize, Request)>,
    to_write: VecDeque<(usize, Request)>,
    /// Unless it is known that an attempt would find nothing.
    may_read: bool,
    may_write: bool,
    /// Whether epoll tells of room to write in, as it does each time that the peer reads.
    tells_of_room: bool,
    /// The peer is gone: no change will tell that what it left has been read to its end.
    is_ended: bool,
}

pub(super) struct Threads {
    epoll: OwnedFd,
    foreign: Arc<Foreign>,
    workers: Rc<Workers>,
    sockets: BTreeMap<RawFd, Socket>,
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

    /// Asks for `request`, which is for `file`.
    ///
    /// # Safety
    ///
    /// Its memory and its descriptor stay valid until the completion of `key` was given out.
    #[allow(unsafe_code)]
    pub(super) unsafe fn push(&mut self, key: usize, request: Request, file: &SharedFd) -> io::Result<()> {
        let Some((fd, reads)) = socket(&request) else {
            return self.workers.put(Job::Request(key, request, Arc::clone(&self.foreign)));
        };
        if !self.sockets.get(&fd).is_some_and(|socket| ptr::eq(socket.file.as_ptr(), Rc::as_ptr(file))) {
            self.watch(fd, file)?;
        }
        let socket = self.sockets.get_mut(&fd).expect("it is watched");
        if reads { &mut socket.to_read } else { &mut socket.to_write }.push_back((key, request));
        socket.go_on(&mut self.done);
        self.ask_for_room(fd)
    }

    /// Has epoll tell of every change of the socket. The kernel itself forgets those that are closed.
    fn watch(&mut self, fd: RawFd, file: &SharedFd) -> io::Result<()> {
        self.sockets.retain(|_, socket| socket.file.strong_count() > 0);
        epoll::add(&self.epoll, file, EventData::new_u64(fd as u64), CHANGES)?;
        let (to_read, to_write) = (VecDeque::new(), VecDeque::new());
        let socket = Socket {
            file: Rc::downgrade(file),
            to_read,
            to_write,
            may_read: true,
            may_write: true,
            tells_of_room: false,
            is_ended: false,
        };
        self.sockets.insert(fd, socket);
        Ok(())
    }

    /// Has epoll tell of room to write in where something waits for it, and only there.
    fn ask_for_room(&mut self, fd: RawFd) -> io::Result<()> {
        let Some(socket) = self.sockets.get_mut(&fd) else { return Ok(()) };
        if socket.waits_for_room() != socket.tells_of_room
            && let Some(file) = socket.file.upgrade()
        {
            socket.tells_of_room = !socket.tells_of_room;
            let room = if socket.tells_of_room { EventFlags::OUT } else { EventFlags::empty() };
            epoll::modify(&self.epoll, &file, EventData::new_u64(fd as u64), CHANGES | room)?;
        }
        Ok(())
    }

    /// Gives the operation up, if it waits for a socket; one on a thread ends by itself.
    pub(super) fn cancel(&mut self, key: usize) {
        for socket in self.sockets.values_mut() {
            for queue in [&mut socket.to_read, &mut socket.to_write] {
                let before = queue.len();
                queue.retain(|&(other, _)| other != key);
                if queue.len() != before {
                    self.done.push(Completion { key, is_sync: false, result: -libc::ECANCELED });
                }
            }
        }
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
        let Some(socket) = self.sockets.get_mut(&fd) else { return Ok(()) };
        let ended = EventFlags::RDHUP | EventFlags::HUP | EventFlags::ERR;
        socket.is_ended |= flags.intersects(ended);
        let polls = matches!(socket.to_read.front(), Some((_, Request::Poll { .. })));
        socket.may_read |= polls || flags.intersects(ended | EventFlags::IN | EventFlags::PRI);
        socket.may_write |= flags.intersects(ended | EventFlags::OUT);
        socket.go_on(&mut self.done);
        self.ask_for_room(fd)
    }
}

impl Socket {
    fn waits_for_room(&self) -> bool {
        let polls_for_it = |&(_, request): &(usize, Request)| matches!(request, Request::Poll { events, .. } if events & libc::EPOLLOUT as u32 != 0);
        !self.to_write.is_empty() || self.to_read.front().is_some_and(polls_for_it)
    }

    /// Does what can be done now, in each direction as far as the first that cannot.
    fn go_on(&mut self, done: &mut Vec<Completion>) {
        let ways = [(&mut self.to_read, &mut self.may_read), (&mut self.to_write, &mut self.may_write)];
        for (queue, may) in ways {
            while *may && let Some(&(key, request)) = queue.front() {
                let result = perform(&request);
                if result == -libc::EAGAIN {
                    *may = false;
                    break;
                }
                // What comes after a stream was read to its end is a change, unless that end is the last.
                *may = self.is_ended || !received_less(&request, result);
                done.push(Completion { key, is_sync: false, result });
                queue.pop_front();
            }
        }
    }
}

/// Whether less was received than there was room for.
fn received_less(request: &Request, result: i32) -> bool {
    matches!(*request, Request::Receive { memory, .. } if (0..memory.len as i32).contains(&result))
}

/// The descriptor of an operation for epoll, and whether it reads.
fn socket(request: &Request) -> Option<(RawFd, bool)> {
    match *request {
        Request::Receive { fd, .. } | Request::Accept { fd } | Request::Poll { fd, .. } => Some((fd, true)),
        Request::Send { fd, .. } => Some((fd, false)),
        _ => None,
    }
}

/// Performs a request now, with the system call of its kind: a count, or a negated errno. Calls on sockets do not block.
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
            Request::Slot { .. } => return -libc::EOPNOTSUPP,
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
