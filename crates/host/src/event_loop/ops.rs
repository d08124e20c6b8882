//! What tasks ask of the loop: operations on files and sockets, and calls that block.
//!
//! Buffers are handed over and come back with the answer. A future that is dropped gives up the answer; the
//! buffer is then freed once the kernel is done with it.

#![allow(unsafe_code)]

use std::future::{Future, poll_fn};
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};
use std::thread;

use super::Loop;
use super::buffer::{Held, IoBuffer};
use super::reactor::{SharedFd, Ticket};
use super::request::{Request, SlotCommand, Sync};
use super::slot::Slot;
use super::workers::{Job, Workers};

/// What a closure on another thread left, and who waits for it.
type Answer<T> = Arc<Mutex<(Option<thread::Result<T>>, Option<Waker>)>>;

/// A transfer that has begun.
pub(crate) struct Transfer(Ticket);

impl Transfer {
    /// Its answer, with its buffer.
    pub(crate) async fn finish<B: IoBuffer>(self) -> (io::Result<usize>, B) {
        let (result, held) = self.0.await;
        (result, B::take(held))
    }
}

impl Loop {
    /// Begins reading into `range` of the buffer from `offset` of the file.
    pub(crate) fn begin_read<B: IoBuffer>(
        &self,
        file: &SharedFd,
        buffer: B,
        range: Range<usize>,
        offset: u64,
    ) -> Transfer {
        let mut held = buffer.hold();
        let request = Request::Read { fd: file.as_raw_fd(), memory: held.memory(range), offset };
        Transfer(self.begin(request, held, file))
    }

    /// Begins writing `range` of the buffer at `offset` of the file.
    pub(crate) fn begin_write<B: IoBuffer>(
        &self,
        file: &SharedFd,
        buffer: B,
        range: Range<usize>,
        offset: u64,
        sync: Sync,
    ) -> Transfer {
        let mut held = buffer.hold();
        let request = Request::Write { fd: file.as_raw_fd(), memory: held.memory(range), offset, sync };
        Transfer(self.begin(request, held, file))
    }

    /// Reads into `range` of the buffer from `offset`; how many bytes came, 0 at the end of the file.
    pub async fn read_at<B: IoBuffer>(
        &self,
        file: &SharedFd,
        buffer: B,
        range: Range<usize>,
        offset: u64,
    ) -> (io::Result<usize>, B) {
        self.begin_read(file, buffer, range, offset).finish().await
    }

    /// Writes `range` of the buffer at `offset`, made durable as `sync` says; how many bytes were taken.
    pub async fn write_at<B: IoBuffer>(
        &self,
        file: &SharedFd,
        buffer: B,
        range: Range<usize>,
        offset: u64,
        sync: Sync,
    ) -> (io::Result<usize>, B) {
        self.begin_write(file, buffer, range, offset, sync).finish().await
    }

    /// `fdatasync`.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub async fn fdatasync(&self, file: &SharedFd) -> io::Result<()> {
        self.ask(Request::Fdatasync { fd: file.as_raw_fd() }, file).await.map(drop)
    }

    /// `fallocate` with the flags `mode`.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub async fn fallocate(
        &self,
        file: &SharedFd,
        mode: rustix::fs::FallocateFlags,
        offset: u64,
        len: u64,
    ) -> io::Result<()> {
        let mode = mode.bits().cast_signed();
        self.ask(Request::Allocate { fd: file.as_raw_fd(), mode, offset, len }, file).await.map(drop)
    }

    /// Receives into `range` of the buffer; how many bytes came, 0 at the end.
    pub async fn receive<B: IoBuffer>(
        &self,
        socket: &SharedFd,
        buffer: B,
        range: Range<usize>,
    ) -> (io::Result<usize>, B) {
        let mut held = buffer.hold();
        let request = Request::Receive { fd: socket.as_raw_fd(), memory: held.memory(range) };
        Transfer(self.begin(request, held, socket)).finish().await
    }

    /// Sends `range` of the buffer; how many bytes were taken.
    pub async fn send<B: IoBuffer>(
        &self,
        socket: &SharedFd,
        buffer: B,
        range: Range<usize>,
    ) -> (io::Result<usize>, B) {
        let mut held = buffer.hold();
        let request = Request::Send { fd: socket.as_raw_fd(), memory: held.memory(range) };
        Transfer(self.begin(request, held, socket)).finish().await
    }

    /// Accepts a connection. With [`Backend::Threads`](super::Backend::Threads) the listener must not block.
    ///
    /// # Errors
    ///
    /// Those of the system call.
    pub async fn accept(&self, listener: &SharedFd) -> io::Result<OwnedFd> {
        let fd = self.ask(Request::Accept { fd: listener.as_raw_fd() }, listener).await?;
        // SAFETY: the kernel has just given us this descriptor, and nobody else knows of it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }

    /// Waits for any of `events` (as in poll(2)); those that came, and errors.
    ///
    /// # Errors
    ///
    /// `EPERM` for files that cannot be waited for.
    pub async fn poll(&self, file: &SharedFd, events: rustix::event::PollFlags) -> io::Result<PollFlags> {
        let events = u32::from(events.bits());
        let found = self.ask(Request::Poll { fd: file.as_raw_fd(), events }, file).await?;
        Ok(PollFlags::from_bits_retain(found as u16))
    }

    /// Hands a slot over to a connection of FUSE for the first time; it comes back with a request.
    pub(crate) fn begin_register(&self, device: &SharedFd, queue: u16, slot: Slot) -> Transfer {
        self.begin_slot(device, queue, SlotCommand::Register { places: slot.places() }, slot)
    }

    /// Hands the answer over that is in a slot; it comes back with the next request.
    pub(crate) fn begin_commit(&self, device: &SharedFd, queue: u16, slot: Slot) -> Transfer {
        self.begin_slot(device, queue, SlotCommand::CommitAndFetch { number: slot.number() }, slot)
    }

    fn begin_slot(&self, device: &SharedFd, queue: u16, command: SlotCommand, slot: Slot) -> Transfer {
        let request = Request::Slot { fd: device.as_raw_fd(), command, queue };
        Transfer(self.begin(request, Held::Slot(slot), device))
    }

    async fn ask(&self, request: Request, file: &SharedFd) -> io::Result<usize> {
        self.begin(request, Held::Nothing, file).await.0
    }

    /// Runs `call` on another thread, where it may block.
    ///
    /// # Errors
    ///
    /// Where no thread can be started.
    ///
    /// # Panics
    ///
    /// When `call` does.
    pub async fn blocking<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        call_on(&self.core.workers, call).await
    }

    /// Has all requests of a file carried out on threads of its own from now on: its file system may not answer, and then neither this
    /// thread nor those that are shared wait for it.
    pub(crate) fn carry_out_aside(&self, file: &SharedFd) -> Aside {
        let workers = Rc::<Workers>::default();
        self.core.reactor.carry_out_aside(file, &workers, &self.core.foreign);
        Aside(workers)
    }
}

/// The threads of one file.
pub(crate) struct Aside(Rc<Workers>);

impl Aside {
    /// As [`Loop::blocking`], on one of them.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        call_on(&self.0, call).await
    }
}

async fn call_on<T: Send + 'static>(
    workers: &Workers,
    call: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let answer: Answer<T> = Arc::default();
    let theirs = Arc::clone(&answer);
    workers.put(Job::Call(Box::new(move || {
        let result = catch_unwind(AssertUnwindSafe(call));
        let waker = {
            let mut answer = theirs.lock().unwrap_or_else(PoisonError::into_inner);
            answer.0 = Some(result);
            answer.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    })))?;
    let result = poll_fn(|context| {
        let mut answer = answer.lock().unwrap_or_else(PoisonError::into_inner);
        match answer.0.take() {
            Some(result) => Poll::Ready(result),
            None => {
                answer.1 = Some(context.waker().clone());
                Poll::Pending
            }
        }
    })
    .await;
    Ok(result.unwrap_or_else(|panic| resume_unwind(panic)))
}

pub use rustix::event::PollFlags;

/// Ends with the first of two futures that ends; the other is dropped.
pub async fn race<T>(one: impl Future<Output = T>, other: impl Future<Output = T>) -> T {
    let (mut one, mut other) = (Box::pin(one), Box::pin(other));
    poll_fn(|context| match one.as_mut().poll(context) {
        Poll::Pending => other.as_mut().poll(context),
        ready => ready,
    })
    .await
}
