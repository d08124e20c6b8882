//! Requests through io_uring.
//!
//! 1. One `io_uring_enter` a turn: it hands over everything that was asked since the last one and waits.
//! 2. Nothing is dropped: the kernel keeps completions that the queue has no room for (`IORING_FEAT_NODROP`,
//!    without which the ring counts as missing).

#![allow(unsafe_code)]

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr::null_mut;
use std::sync::Arc;

use io_uring::{Builder, IoUring, cqueue, opcode, squeue, types};

use super::buffer::Memory;
use super::foreign::Foreign;
use super::request::{Completion, Request, Sync, Wait};
use super::spin::Spin;

/// Submissions that fit between two calls of the kernel; more only cost another call.
const SUBMISSIONS: u32 = 256;

/// Completions that fit; more wait in the kernel.
const COMPLETIONS: u32 = 4096;

/// Buffers that can be registered at a time.
const REGISTERED_MAX: u16 = 64;

/// Completions that are nobody's: those of cancellations.
const NOBODY: u64 = u64::MAX;

/// The event descriptor can be read.
const EVENT: u64 = u64::MAX - 1;

/// Set for the fsync after a linked write.
const IS_SYNC: u64 = 1 << 62;

/// Waits that are shorter are not worth a look first.
const SPIN_WORTH_NS: u64 = 1_000;

pub(super) struct Uring {
    ring: IoUring,
    foreign: Arc<Foreign>,
    event_is_awaited: bool,
    /// Whether the kernel (from 5.13 on) tells of each event without being asked again: then nobody reads the
    /// counter, which takes longer to be full than a machine lives.
    event_is_told_again: bool,
    /// Free places among the registered buffers.
    free_places: Vec<u16>,
    /// What the kernel did not take yet, because it wants completions reaped first. A linked pair is one.
    backlog: VecDeque<(squeue::Entry, Option<squeue::Entry>)>,
    spin: Spin,
}

/// Whether a ring could not be had because of where we are, and not for lack of something.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    let forbidden = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP, libc::ENOMEM];
    error.raw_os_error().is_some_and(|errno| forbidden.contains(&errno))
}

impl Uring {
    pub(super) fn new(foreign: Arc<Foreign>) -> io::Result<Self> {
        let ring = setup()?;
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let sparse = ring.submitter().register_buffers_sparse(u32::from(REGISTERED_MAX));
        let free_places = if sparse.is_ok() { (0..REGISTERED_MAX).rev().collect() } else { Vec::new() };
        Ok(Self {
            ring,
            foreign,
            event_is_awaited: false,
            event_is_told_again: true,
            free_places,
            backlog: VecDeque::new(),
            spin: Spin::new(),
        })
    }

    /// Registers memory; `None` where that cannot be had.
    ///
    /// # Safety
    ///
    /// The memory stays valid until [`Self::unregister`], or longer than the ring.
    pub(super) unsafe fn register(&mut self, start: *mut u8, len: usize) -> Option<u16> {
        let place = self.free_places.pop()?;
        let buffer = libc::iovec { iov_base: start.cast(), iov_len: len };
        // SAFETY: by this function's own condition.
        let registered =
            unsafe { self.ring.submitter().register_buffers_update(u32::from(place), &[buffer], None) };
        if registered.is_err() {
            self.free_places.push(place);
        }
        registered.ok().map(|()| place)
    }

    pub(super) fn unregister(&mut self, place: u16) {
        let nothing = libc::iovec { iov_base: null_mut(), iov_len: 0 };
        // SAFETY: an empty buffer takes the old one's place; no memory is named.
        let gone =
            unsafe { self.ring.submitter().register_buffers_update(u32::from(place), &[nothing], None) };
        if gone.is_ok() {
            self.free_places.push(place);
        }
    }

    /// Asks for `request`.
    ///
    /// # Safety
    ///
    /// Its memory and its descriptor stay valid until the completion of `key` was given out.
    pub(super) unsafe fn push(&mut self, key: usize, request: Request) -> io::Result<()> {
        let key = key as u64;
        let entry = entry(request).user_data(key);
        if let Request::Write { fd, sync: Sync::Linked, .. } = request {
            let fsync = opcode::Fsync::new(types::Fd(fd)).flags(types::FsyncFlags::DATASYNC).build();
            return self.push_pair(entry.flags(squeue::Flags::IO_LINK), Some(fsync.user_data(key | IS_SYNC)));
        }
        self.push_pair(entry, None)
    }

    /// Asks the kernel to give the operation up.
    pub(super) fn cancel(&mut self, key: usize) -> io::Result<()> {
        self.push_pair(opcode::AsyncCancel::new(key as u64).build().user_data(NOBODY), None)
    }

    fn push_pair(&mut self, first: squeue::Entry, second: Option<squeue::Entry>) -> io::Result<()> {
        if self.backlog.is_empty() {
            if self.fits(&first, second.as_ref()) {
                return Ok(());
            }
            match self.ring.submit() {
                Err(error) if !is_transient(&error) => return Err(error),
                _ if self.fits(&first, second.as_ref()) => return Ok(()),
                _ => {}
            }
        }
        self.backlog.push_back((first, second));
        Ok(())
    }

    /// Whether there was room for both.
    fn fits(&mut self, first: &squeue::Entry, second: Option<&squeue::Entry>) -> bool {
        let mut queue = self.ring.submission();
        // SAFETY: for entries with memory, by the condition of `push`.
        let pushed = unsafe {
            match second {
                None => queue.push(first),
                Some(second) => queue.push_multiple(&[first.clone(), second.clone()]),
            }
        };
        pushed.is_ok()
    }

    /// Hands over what was asked, waits, and appends the completions to `into`. `looks` where one may come soon.
    pub(super) fn turn(&mut self, wait: Wait, looks: bool, into: &mut Vec<Completion>) -> io::Result<()> {
        if !self.event_is_awaited {
            let poll = opcode::PollAdd::new(types::Fd(self.foreign.event.as_raw_fd()), libc::POLLIN as u32);
            let poll = poll.multi(self.event_is_told_again).build();
            self.push_pair(poll.user_data(EVENT), None)?;
            self.event_is_awaited = true;
        }
        while let Some((first, second)) = self.backlog.pop_front() {
            if !self.fits(&first, second.as_ref()) {
                self.backlog.push_front((first, second));
                break;
            }
        }
        let nothing_there = self.backlog.is_empty() && self.ring.completion().is_empty();
        let mut wait = if nothing_there { wait } else { Wait::No };
        if looks && (wait == Wait::ForEver || matches!(wait, Wait::ForNs(ns) if ns > SPIN_WORTH_NS)) {
            self.hand_over()?;
            let ring = &mut self.ring;
            if self.spin.look(|| ring.submission().taskrun() || !ring.completion().is_empty()) {
                wait = Wait::No;
            }
        }
        let entered = match wait {
            Wait::No if self.has_nothing_for_the_kernel() => Ok(0),
            Wait::No => self.ring.submit(),
            Wait::ForEver => self.ring.submit_and_wait(1),
            Wait::ForNs(ns) => {
                let time = types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        if let Err(error) = entered
            && !is_transient(&error)
        {
            return Err(error);
        }
        for completion in self.ring.completion() {
            match completion.user_data() {
                NOBODY => {}
                EVENT => {
                    self.event_is_awaited = cqueue::more(completion.flags());
                    self.event_is_told_again &= completion.result() >= 0;
                    if !self.event_is_awaited {
                        self.foreign.acknowledge();
                    }
                }
                key => into.push(completed(key, &completion)),
            }
        }
        Ok(())
    }

    /// Hands over what was asked, without waiting.
    fn hand_over(&mut self) -> io::Result<()> {
        if self.ring.submission().is_empty() {
            return Ok(());
        }
        match self.ring.submit() {
            Err(error) if !is_transient(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether entering the kernel without waiting would change nothing: nothing to hand over, nor completions that
    /// it makes only then.
    fn has_nothing_for_the_kernel(&mut self) -> bool {
        let queue = self.ring.submission();
        queue.is_empty() && !queue.taskrun() && !queue.cq_overflow()
    }
}

/// The time is over; a signal came; the kernel is short of memory or of room for completions, and asks to reap
/// first.
fn is_transient(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ETIME | libc::EINTR | libc::EAGAIN | libc::EBUSY))
}

fn completed(key: u64, completion: &cqueue::Entry) -> Completion {
    let is_sync = key & IS_SYNC != 0;
    Completion { key: (key & !IS_SYNC) as usize, is_sync, result: completion.result() }
}

/// A ring as cheap as the kernel can make it: of this thread only, with completions handled when it enters.
fn setup() -> io::Result<IoUring> {
    let cheapest = |builder: &mut Builder| {
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
    };
    let cheaper = |builder: &mut Builder| {
        builder.setup_coop_taskrun().setup_taskrun_flag().setup_submit_all();
    };
    let plain = |_: &mut Builder| {};
    let kinds: [&dyn Fn(&mut Builder); 3] = [&cheapest, &cheaper, &plain];
    let mut refused = io::Error::from_raw_os_error(libc::EINVAL);
    for kind in kinds {
        let mut builder = IoUring::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS).setup_clamp();
        kind(&mut builder);
        match builder.build(SUBMISSIONS) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => refused = error,
            other => return other,
        }
    }
    Err(refused)
}

fn entry(request: Request) -> squeue::Entry {
    let file = |fd: RawFd| types::Fd(fd);
    match request {
        Request::Read { fd, memory: Memory { start, len, registered: Some(place) }, offset } => {
            opcode::ReadFixed::new(file(fd), start, len, place).offset(offset).build()
        }
        Request::Read { fd, memory, offset } => {
            opcode::Read::new(file(fd), memory.start, memory.len).offset(offset).build()
        }
        Request::Write { fd, memory, offset, sync } => {
            let flags = if sync == Sync::Dsync { libc::RWF_DSYNC } else { 0 };
            let Memory { start, len, registered } = memory;
            match registered {
                Some(place) => opcode::WriteFixed::new(file(fd), start, len, place)
                    .offset(offset)
                    .rw_flags(flags)
                    .build(),
                None => opcode::Write::new(file(fd), start, len).offset(offset).rw_flags(flags).build(),
            }
        }
        Request::Fdatasync { fd } => opcode::Fsync::new(file(fd)).flags(types::FsyncFlags::DATASYNC).build(),
        Request::Allocate { fd, mode, offset, len } => {
            opcode::Fallocate::new(file(fd), len).offset(offset).mode(mode).build()
        }
        Request::Receive { fd, memory } => opcode::Recv::new(file(fd), memory.start, memory.len).build(),
        Request::Send { fd, memory } => {
            opcode::Send::new(file(fd), memory.start, memory.len).flags(libc::MSG_NOSIGNAL).build()
        }
        Request::Accept { fd } => {
            opcode::Accept::new(file(fd), null_mut(), null_mut()).flags(libc::SOCK_CLOEXEC).build()
        }
        Request::Poll { fd, events } => opcode::PollAdd::new(file(fd), events).build(),
    }
}
