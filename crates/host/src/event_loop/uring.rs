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
use std::time::Instant;

use io_uring::{Builder, IoUring, Parameters, Submitter, cqueue, opcode, squeue, types};

use super::buffer::Memory;
use super::foreign::Foreign;
use super::idle::Idle;
use super::request::{Completion, Request, SlotCommand, Sync, Wait};
use super::slot::PARTS;
use super::spin::{Awaited, Spin};

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

/// What hands over a slot for the first time, and with an answer: `enum fuse_uring_cmd`.
const REGISTER: u32 = 1;
const COMMIT_AND_FETCH: u32 = 2;

/// Where `len` lies in an `io_uring_sqe`.
const ENTRY_LEN: usize = 24;

/// A ring, with submissions of 64 bytes or of 128: commands of FUSE take the longer ones.
enum Ring {
    Narrow(IoUring),
    Wide(IoUring<squeue::Entry128>),
}

/// What is handed over as one.
enum Submission {
    One(squeue::Entry),
    /// The second follows the first.
    Linked(squeue::Entry, squeue::Entry),
    Long(squeue::Entry128),
}

pub(super) struct Uring {
    ring: Ring,
    foreign: Arc<Foreign>,
    event_is_awaited: bool,
    /// Whether the kernel (from 5.13 on) tells of each event without being asked again: then nobody reads the
    /// counter, which takes longer to be full than a machine lives.
    event_is_told_again: bool,
    /// Free places among the registered buffers.
    free_places: Vec<u16>,
    /// What the kernel did not take yet, because it wants completions reaped first.
    backlog: VecDeque<Submission>,
    spin: Spin,
}

/// Whether a ring could not be had because of where we are, and not for lack of something.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    let forbidden = [libc::ENOSYS, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP, libc::ENOMEM];
    error.raw_os_error().is_some_and(|errno| forbidden.contains(&errno))
}

impl Uring {
    pub(super) fn new(foreign: Arc<Foreign>, is_wide: bool) -> io::Result<Self> {
        let ring = setup(is_wide)?;
        let params = ring.params();
        if !params.is_feature_ext_arg() || !params.is_feature_nodrop() {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let sparse = ring.submitter().register_buffers_sparse(u32::from(REGISTERED_MAX));
        let mut idle = Idle::of_machine();
        let free_places = if sparse.is_ok() { (0..REGISTERED_MAX).rev().collect() } else { Vec::new() };
        Ok(Self {
            ring,
            foreign,
            event_is_awaited: false,
            event_is_told_again: true,
            free_places,
            backlog: VecDeque::new(),
            spin: Spin::new(move |now| idle.is_there(now)),
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
    /// Its memory and its descriptor stay valid until the completion of `key` was given out; those of a slot, until the ring is
    /// closed at least.
    pub(super) unsafe fn push(&mut self, key: usize, request: Request) -> io::Result<()> {
        let key = key as u64;
        if let Request::Slot { fd, command, queue } = request {
            return self.submit(Submission::Long(slot_entry(fd, command, queue).user_data(key)));
        }
        let entry = entry(request).user_data(key);
        if let Request::Write { fd, sync: Sync::Linked, .. } = request {
            let fsync = opcode::Fsync::new(types::Fd(fd)).flags(types::FsyncFlags::DATASYNC).build();
            let (first, second) = (entry.flags(squeue::Flags::IO_LINK), fsync.user_data(key | IS_SYNC));
            return self.submit(Submission::Linked(first, second));
        }
        self.submit(Submission::One(entry))
    }

    /// Whether a slot can be handed over: to a ring with deferred task work alone. The kernel puts a request into a slot by task
    /// work of the thread that submitted it; deferred, that runs only when the thread enters the ring, and never once it is closed.
    pub(super) fn takes_slots(&self) -> bool {
        matches!(self.ring, Ring::Wide(_))
    }

    /// Somebody asks, who is this one among those who do.
    pub(super) fn note_asker(&mut self, asker: u32) {
        self.spin.note_asker(asker);
    }

    /// Asks the kernel to give the operation up.
    pub(super) fn cancel(&mut self, key: usize) -> io::Result<()> {
        self.submit(Submission::One(opcode::AsyncCancel::new(key as u64).build().user_data(NOBODY)))
    }

    fn submit(&mut self, submission: Submission) -> io::Result<()> {
        if self.backlog.is_empty() {
            // SAFETY: for entries with memory, by the condition of `push`.
            if unsafe { self.ring.take(&submission) } {
                return Ok(());
            }
            match self.ring.submitter().submit() {
                Err(error) if !is_transient(&error) => return Err(error),
                // SAFETY: as above.
                _ if unsafe { self.ring.take(&submission) } => return Ok(()),
                _ => {}
            }
        }
        self.backlog.push_back(submission);
        Ok(())
    }

    /// Hands over what was asked, waits for what `awaited` says, and appends the completions to `into`.
    pub(super) fn turn(
        &mut self,
        wait: Wait,
        awaited: Awaited,
        into: &mut Vec<Completion>,
    ) -> io::Result<()> {
        if !self.event_is_awaited {
            let poll = opcode::PollAdd::new(types::Fd(self.foreign.event.as_raw_fd()), libc::POLLIN as u32);
            let poll = poll.multi(self.event_is_told_again).build();
            self.submit(Submission::One(poll.user_data(EVENT)))?;
            self.event_is_awaited = true;
        }
        while let Some(submission) = self.backlog.pop_front() {
            // SAFETY: for entries with memory, by the condition of `push`.
            if !unsafe { self.ring.take(&submission) } {
                self.backlog.push_front(submission);
                break;
            }
        }
        let nothing_there = self.backlog.is_empty() && self.ring.completion().is_empty();
        let mut wait = if nothing_there { wait } else { Wait::No };
        let is_long = wait == Wait::ForEver || matches!(wait, Wait::ForNs(ns) if ns > SPIN_WORTH_NS);
        if is_long && self.spin.pays(awaited) {
            let began = Instant::now();
            self.hand_over()?;
            let ring = &mut self.ring;
            let is_there = || ring.queue().has_task_work || !ring.completion().is_empty();
            let found = self.spin.look(awaited, wait.longest(), is_there);
            wait = if found { Wait::No } else { wait.after(began.elapsed()) };
        }
        let began = (wait != Wait::No).then(Instant::now);
        let entered = match wait {
            Wait::No if self.has_nothing_for_the_kernel() => Ok(0),
            Wait::No => self.ring.submitter().submit(),
            Wait::ForEver => self.ring.submitter().submit_and_wait(1),
            Wait::ForNs(ns) => {
                let time = types::Timespec::new().sec(ns / 1_000_000_000).nsec((ns % 1_000_000_000) as u32);
                self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&time))
            }
        };
        if let Some(began) = began {
            self.spin.note_wait(began.elapsed());
        }
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
        if self.ring.queue().is_empty {
            return Ok(());
        }
        match self.ring.submitter().submit() {
            Err(error) if !is_transient(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Whether entering the kernel without waiting would change nothing: nothing to hand over, nor completions that
    /// it makes only then.
    fn has_nothing_for_the_kernel(&mut self) -> bool {
        let queue = self.ring.queue();
        queue.is_empty && !queue.has_task_work && !queue.has_overflown
    }
}

/// What the kernel says of its end of the submission queue.
struct Queue {
    is_empty: bool,
    /// Completions are made once it is entered.
    has_task_work: bool,
    /// Completions wait for room.
    has_overflown: bool,
}

impl Queue {
    fn of<E: squeue::EntryMarker>(queue: &squeue::SubmissionQueue<'_, E>) -> Self {
        Self {
            is_empty: queue.is_empty(),
            has_task_work: queue.taskrun(),
            has_overflown: queue.cq_overflow(),
        }
    }
}

impl Ring {
    fn submitter(&self) -> Submitter<'_> {
        match self {
            Self::Narrow(ring) => ring.submitter(),
            Self::Wide(ring) => ring.submitter(),
        }
    }

    fn completion(&mut self) -> cqueue::CompletionQueue<'_> {
        match self {
            Self::Narrow(ring) => ring.completion(),
            Self::Wide(ring) => ring.completion(),
        }
    }

    fn queue(&mut self) -> Queue {
        match self {
            Self::Narrow(ring) => Queue::of(&ring.submission()),
            Self::Wide(ring) => Queue::of(&ring.submission()),
        }
    }

    fn params(&self) -> &Parameters {
        match self {
            Self::Narrow(ring) => ring.params(),
            Self::Wide(ring) => ring.params(),
        }
    }

    /// Whether there was room for all of it.
    ///
    /// # Safety
    ///
    /// As for [`Uring::push`].
    unsafe fn take(&mut self, submission: &Submission) -> bool {
        // SAFETY: by this function's own condition.
        let pushed = unsafe {
            match (self, submission) {
                (Self::Narrow(ring), Submission::One(entry)) => ring.submission().push(entry),
                (Self::Narrow(ring), Submission::Linked(first, second)) => {
                    ring.submission().push_multiple(&[first.clone(), second.clone()])
                }
                (Self::Wide(ring), Submission::One(entry)) => ring.submission().push(&entry.clone().into()),
                (Self::Wide(ring), Submission::Linked(first, second)) => {
                    ring.submission().push_multiple(&[first.clone().into(), second.clone().into()])
                }
                (Self::Wide(ring), Submission::Long(entry)) => ring.submission().push(entry),
                (Self::Narrow(_), Submission::Long(_)) => unreachable!("whoever has a slot asked before"),
            }
        };
        pushed.is_ok()
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

/// A ring as cheap as the kernel can make it: of this thread only, with completions handled when it enters. Such a one has long
/// submissions if `is_wide`; no other gets them: see [`Uring::takes_slots`].
fn setup(is_wide: bool) -> io::Result<Ring> {
    if is_wide {
        let mut builder = IoUring::<squeue::Entry128>::builder();
        builder.dontfork().setup_cqsize(COMPLETIONS).setup_clamp();
        builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag().setup_submit_all();
        match builder.build(SUBMISSIONS) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            other => return other.map(Ring::Wide),
        }
    }
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
            other => return other.map(Ring::Narrow),
        }
    }
    Err(refused)
}

/// A command for a connection of FUSE, with its `struct fuse_uring_cmd_req`: flags, the number of the answer, the queue.
fn slot_entry(fd: RawFd, command: SlotCommand, queue: u16) -> squeue::Entry128 {
    let (kind, places, number) = match command {
        SlotCommand::Register { places } => (REGISTER, Some(places), 0),
        SlotCommand::CommitAndFetch { number } => (COMMIT_AND_FETCH, None, number),
    };
    let mut told = [0; 80];
    told[8..16].copy_from_slice(&number.to_ne_bytes());
    told[16..18].copy_from_slice(&queue.to_ne_bytes());
    let mut entry = opcode::UringCmd80::new(types::Fd(fd), kind).cmd(told).addr(places).build();
    if places.is_some() {
        // SAFETY: an entry is an `io_uring_sqe` of 128 bytes, of which these four are a number, which the crate leaves at 0.
        unsafe { (&raw mut entry).byte_add(ENTRY_LEN).cast::<u32>().write(PARTS) };
    }
    entry
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
        Request::Slot { .. } => unreachable!("it has a longer entry"),
    }
}
