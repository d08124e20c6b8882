//! Requests over io_uring, where the kernel offers it: it puts each into a slot that waits for one, and takes the answer from
//! there. One system call hands over all answers of a turn of the loop, and takes all requests that came.
//!
//! ```text
//! register ──► the kernel has the slot ──► a request is in it ──► it is answered, in the slot
//!                        ▲                                                     │ commit and fetch
//!                        └─────────────────────────────────────────────────────┘
//! ```
//!
//! 1. Each processor has a queue, and a request goes to that of whoever asks. Each queue has slots, or the kernel uses none.
//! 2. All slots together are [`SLOTS_MAX`] at most: what programs ask beyond that waits in the kernel.
//! 3. What is forgotten or interrupted still comes by the device.
//! 4. Slots end with the connection. A slot that ends otherwise ends the session: its request, or all, would wait for ever.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::rc::Rc;

use evenkeel_engine::env::Env;
use evenkeel_ext2::Store;

use super::abi::reply::ReplyHead;
use super::device::Device;
use super::session::{REQUEST_MAX_BYTES, Session};
use super::{DEVICE, Transport};
use crate::event_loop::{Loop, Slot, Transfer};
use crate::volume::VolumeError;
use crate::wait::Signal;

/// Slots of all queues.
const SLOTS_MAX: usize = 256;

/// Queues with which slots are used: of more, each would have few.
const QUEUES_MAX: usize = 64;

/// How a slot's command fails once the connection or the loop ends.
const ENDS: [i32; 3] = [libc::ENOTCONN, libc::ECONNABORTED, libc::ECANCELED];

/// Which processors there may be.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";

/// Whether the kernel offers it. Absent before Linux 6.14, and where the module is not loaded.
const ENABLED: &str = "/sys/module/fuse/parameters/enable_uring";

/// For how many queues slots are wanted: one for each processor that there may be. `None` where requests come by the device.
///
/// # Errors
///
/// [`VolumeError::Refused`] where io_uring is asked for and cannot be had.
pub(super) fn queues(event_loop: &Loop, transport: Transport) -> Result<Option<usize>, VolumeError> {
    match transport {
        Transport::Device => Ok(None),
        Transport::IoUring => queues_here(event_loop)
            .map(Some)
            .map_err(|why| VolumeError::Refused(format!("requests cannot come over io_uring: {why}"))),
    }
}

fn queues_here(event_loop: &Loop) -> Result<usize, String> {
    if !event_loop.takes_slots() {
        return Err("this kernel has no such io_uring, or forbids it".to_owned());
    }
    // That loads the kernel's module.
    let _why_not_is_told_when_it_is_mounted = fs::File::open(DEVICE);
    if !fs::read_to_string(ENABLED).is_ok_and(|enabled| enabled.trim() == "Y") {
        return Err(format!("the kernel does not offer it; as root, from Linux 6.14 on: echo Y > {ENABLED}"));
    }
    let possible = fs::read_to_string(POSSIBLE).map_err(|error| format!("{POSSIBLE}: {error}"))?;
    match queues_of(possible.trim()) {
        Some(queues) if queues <= QUEUES_MAX => Ok(queues),
        Some(queues) => Err(format!("{queues} processors are too many: {QUEUES_MAX} at most")),
        None => Err(format!("{POSSIBLE}: `{}` is no list of processors", possible.trim())),
    }
}

/// How many numbers a list as `0-3` or `0,2-5` has.
fn queues_of(possible: &str) -> Option<usize> {
    let counts = possible.split(',').map(|range| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        last.checked_sub(first)?.checked_add(1)
    });
    counts.sum()
}

/// Serves requests in slots until the connection ends.
pub(super) fn serve<S: Store>(session: &Rc<Session<S>>, queues: usize) -> io::Result<()> {
    let of_a_queue = SLOTS_MAX / queues;
    // Those of one queue after those of another: the kernel uses slots once each queue has one.
    for number in 0..of_a_queue * queues {
        let queue = (number / of_a_queue) as u16;
        let slot = Slot::new(REQUEST_MAX_BYTES)?;
        let session = Rc::clone(session);
        session.env.clone().spawn(async move { serve_slot(&session, queue, slot).await });
    }
    Ok(())
}

async fn serve_slot<S: Store>(session: &Session<S>, queue: u16, slot: Slot) {
    let place = Rc::new(Place::new(&session.device, queue));
    let (mut fetched, mut slot) = session.device.begin_register(queue, slot).finish::<Slot>().await;
    while fetched.is_ok() {
        session.under_way.has_room().await;
        session.begin_in_slot(&place, &slot);
        place.put(slot);
        let transfer = place.begun.until(|| place.under_way.take()).await;
        (fetched, slot) = transfer.finish().await;
    }
    if let Err(error) = fetched
        && !ENDS.contains(&error.raw_os_error().unwrap_or_default())
        && session.broken.set()
    {
        tracing::error!(target: "evenkeel", "the kernel takes no answers over io_uring any more: {error}");
    }
}

/// Where a slot lies while its request is carried out.
pub(super) struct Place {
    device: Rc<Device>,
    queue: u16,
    slot: RefCell<Option<Slot>>,
    /// An answer that came before the slot: its head, and what was asked for.
    early: RefCell<Option<(ReplyHead, Vec<u8>)>>,
    under_way: RefCell<Option<Transfer>>,
    begun: Signal,
}

impl Place {
    fn new(device: &Rc<Device>, queue: u16) -> Self {
        let device = Rc::clone(device);
        let (slot, early, under_way) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { device, queue, slot, early, under_way, begun: Signal::default() }
    }

    /// Puts a slot here whose request was begun; it is handed over at once where that is answered by now.
    fn put(&self, slot: Slot) {
        match self.early.take() {
            Some((head, body)) => self.fill(slot, &head, &body),
            None => drop(self.slot.replace(Some(slot))),
        }
    }

    /// Takes the slot, for an answer to be put into it.
    pub(super) fn take(&self) -> Option<Slot> {
        self.slot.take()
    }

    /// Answers with this head and body.
    pub(super) fn answer(&self, head: ReplyHead, body: &[u8]) {
        match self.slot.take() {
            Some(slot) => self.fill(slot, &head, body),
            None => drop(self.early.replace(Some((head, body.to_vec())))),
        }
    }

    fn fill(&self, mut slot: Slot, head: &ReplyHead, body: &[u8]) {
        slot.payload_mut()[..body.len()].copy_from_slice(body);
        self.hand_over(slot, head, body.len());
    }

    /// Hands the slot over with an answer: this head, and the first `len` bytes that are in it.
    pub(super) fn hand_over(&self, mut slot: Slot, head: &ReplyHead, len: usize) {
        slot.set_answer(head, len);
        self.under_way.replace(Some(self.device.begin_commit(self.queue, slot)));
        self.begun.raise();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_queues_as_there_may_be_processors() {
        let of = ["0", "0-1", "0-63", "0,2-5", "", "none"].map(queues_of);
        assert_eq!(of, [Some(1), Some(2), Some(64), Some(5), None, None]);
        assert_eq!(["3-1", "0-", "-"].map(queues_of), [None; 3]);
    }
}
