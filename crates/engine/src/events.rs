//! What happened below or in a volume that whoever runs it should hear of.
//!
//! 1. Events stay here in their order until they are taken. Beyond [`KEPT_MAX`] the new ones are dropped, and counted.
//! 2. Noting an event calls nobody: whoever takes it runs later, when nothing of the engine is half done. So it may ask the
//!    engine for its state at once.
//! 3. Changes of state are noted once each. Only failed reads repeat; [`crate::counters`] has their exact number.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use crate::device::Extent;
use crate::error::{DeviceError, Error};
use crate::notify::Notify;

/// Events that are kept for whoever takes them.
const KEPT_MAX: usize = 256;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The volume takes no writes any more: why.
    ReadOnly(Error),
    /// A read of these bytes failed.
    ReadFailed {
        /// Bytes of the volume.
        extent: Extent,
        /// Why.
        error: Error,
    },
    /// Commits waited long for room in the log, or for memory, and go on.
    CommitsWaited {
        /// How long, in ns.
        waited_ns: u64,
    },
    /// A durable record of the log takes at least twice as long as it used to, or at most half as long, and has for ten
    /// seconds.
    RecordsChanged {
        /// Bytes of such a record.
        bytes: u64,
        /// What half of them took at most before, in ns.
        before_ns: u64,
        /// What half of them take now, in ns.
        now_ns: u64,
    },
    /// Pages cannot go home, as what is stored with them cannot be read: each checkpoint tries it again, and until then the log has
    /// them.
    PagesStay {
        /// How many, when it began.
        pages: usize,
        /// What could not be read.
        error: DeviceError,
    },
    /// A drive failed to discard: it is asked no more in this opening. It is as well as before.
    DiscardsStopped {
        /// Which member of a ring, by its place; `None` for the one home device.
        place: Option<usize>,
        /// What it answered.
        error: DeviceError,
    },
    /// A member of a ring takes part no more.
    MemberLost {
        /// Which, by its place.
        place: usize,
        /// Why.
        error: DeviceError,
        /// Whether it was being rebuilt, and did not count yet.
        was_rebuilding: bool,
    },
    /// A member of a ring is rebuilt from the others from now on.
    RebuildBegun {
        /// Which, by its place.
        place: usize,
        /// Bytes of the regions that it lacks at most; `None` where everything is copied.
        lacks_bytes: Option<u64>,
    },
    /// A member of a ring holds everything.
    RebuildEnded {
        /// Which, by its place.
        place: usize,
    },
    /// What the log devices hold is copied to another one from now on, which is to take the place of one.
    LogCopyBegun {
        /// Which, by its place.
        place: usize,
    },
    /// The other one has everything, and the place.
    LogCopyEnded {
        /// Which, by its place.
        place: usize,
    },
    /// The other one does not get the place.
    LogCopyFailed {
        /// Which, by its place.
        place: usize,
        /// Why.
        error: Error,
    },
    /// A log device takes part no more.
    LogDeviceLost {
        /// Which, by its place.
        place: usize,
        /// Why.
        error: DeviceError,
    },
}

/// Events in their order, until they are taken.
#[derive(Debug, Default)]
pub struct Events {
    kept: RefCell<VecDeque<Event>>,
    dropped: Cell<u64>,
    came: Notify,
}

impl Events {
    /// Keeps an event for whoever takes it.
    pub(crate) fn note(&self, event: Event) {
        let mut kept = self.kept.borrow_mut();
        if kept.len() >= KEPT_MAX {
            self.dropped.set(self.dropped.get() + 1);
            return;
        }
        kept.push_back(event);
        drop(kept);
        self.came.all();
    }

    /// The oldest event that nobody took, if there is one.
    pub fn take(&self) -> Option<Event> {
        self.kept.borrow_mut().pop_front()
    }

    /// The oldest event that nobody took, once there is one.
    pub async fn next(&self) -> Event {
        self.came.until(|| self.take()).await
    }

    /// How many were dropped because nobody took those before them.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_in_their_order_and_those_beyond_the_bound_are_counted() {
        let events = Events::default();
        for place in 0..KEPT_MAX + 3 {
            events.note(Event::RebuildBegun { place, lacks_bytes: None });
        }
        assert_eq!(events.dropped(), 3);
        for place in 0..KEPT_MAX {
            assert_eq!(events.take(), Some(Event::RebuildBegun { place, lacks_bytes: None }));
        }
        assert_eq!(events.take(), None);
        events.note(Event::RebuildEnded { place: 7 });
        assert_eq!(events.take(), Some(Event::RebuildEnded { place: 7 }));
    }
}
