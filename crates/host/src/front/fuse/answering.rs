//! A request that is to be answered, whichever way it came.
//!
//! 1. Each request is answered once: one that is dropped without an answer is answered with an error.

use std::rc::Rc;

use rustix::io::Errno;

use super::abi::reply::{self, Answer};
use super::device::Device;
use super::slots::Place;
use crate::event_loop::Slot;

/// Who waits for an answer.
pub(super) struct Reply {
    unique: u64,
    /// `None` once it is answered.
    way: Option<Way>,
}

/// How the answer goes.
enum Way {
    /// It is written to the device.
    Device(Rc<Device>),
    /// It is put where the request was.
    Slot(Rc<Place>),
}

impl Reply {
    /// To a request that was read from the device.
    pub(super) fn to_device(device: &Rc<Device>, unique: u64) -> Self {
        Self { unique, way: Some(Way::Device(Rc::clone(device))) }
    }

    /// To a request that came in a slot.
    pub(super) fn to_slot(place: &Rc<Place>, unique: u64) -> Self {
        Self { unique, way: Some(Way::Slot(Rc::clone(place))) }
    }

    /// Answers with an error of errno(3).
    pub(super) fn error(mut self, errno: i32) {
        self.hand_over(errno, Answer::default());
    }

    /// Answers with what was asked for.
    pub(super) fn answer(mut self, answer: Answer) {
        self.hand_over(0, answer);
    }

    /// Whether the request came in a slot.
    pub(super) fn is_in_slot(&self) -> bool {
        matches!(self.way, Some(Way::Slot(_)))
    }

    /// The slot in which the request came, if it did, for what was asked for to be put into its payload.
    pub(super) fn take_slot(&mut self) -> Option<Slot> {
        match &self.way {
            Some(Way::Slot(place)) => place.take(),
            _ => None,
        }
    }

    /// Answers with so many of the first bytes of its slot's payload, or with an error and none of them.
    pub(super) fn answer_in(mut self, slot: Slot, read: Result<usize, evenkeel_ext2::Errno>) {
        let (errno, len) = match read {
            Ok(len) => (0, len),
            Err(errno) => (errno.number(), 0),
        };
        if let Some(Way::Slot(place)) = self.way.take() {
            place.hand_over(slot, &reply::head(len, self.unique, errno), len);
        }
    }

    /// As [`Self::answer`], and gives the memory of the answer back once the kernel has it. What came in a slot is answered there.
    pub(super) async fn answer_whole(mut self, answer: Answer) -> Vec<u8> {
        let Some(Way::Device(device)) = self.way.take() else { unreachable!("it is answered in its slot") };
        device.write_whole(answer.addressed(self.unique, 0)).await
    }

    /// The kernel wants none. What came in a slot is answered all the same: the kernel takes it back no other way.
    pub(super) fn none(mut self) {
        if let Some(Way::Slot(_)) = self.way {
            self.hand_over(0, Answer::default());
        }
        self.way = None;
    }

    fn hand_over(&mut self, errno: i32, mut answer: Answer) {
        match self.way.take() {
            Some(Way::Device(device)) => device.write(answer.addressed(self.unique, errno)),
            Some(Way::Slot(place)) => {
                let body = answer.body();
                place.answer(reply::head(body.len(), self.unique, errno), body);
            }
            None => {}
        }
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.hand_over(Errno::IO.raw_os_error(), Answer::default());
    }
}
