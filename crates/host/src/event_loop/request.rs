//! What can be asked of the kernel, whichever way it is asked.

use std::os::fd::RawFd;
use std::time::Duration;

use super::buffer::Memory;

/// What follows a write before it counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Nothing: a power cut may lose it.
    No,
    /// It carries `RWF_DSYNC`.
    Dsync,
    /// A data-only fsync follows, linked to it: one submission. A short write is not durable; whoever writes
    /// the rest makes both so.
    Linked,
}

/// An operation. Memory and descriptor stay valid until its completion is reaped: see the reactor.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request {
    Read {
        fd: RawFd,
        memory: Memory,
        offset: u64,
    },
    Write {
        fd: RawFd,
        memory: Memory,
        offset: u64,
        sync: Sync,
    },
    Fdatasync {
        fd: RawFd,
    },
    Allocate {
        fd: RawFd,
        mode: i32,
        offset: u64,
        len: u64,
    },
    Receive {
        fd: RawFd,
        memory: Memory,
    },
    Send {
        fd: RawFd,
        memory: Memory,
    },
    Accept {
        fd: RawFd,
    },
    Poll {
        fd: RawFd,
        events: u32,
    },
    /// Hands a slot over to a connection of FUSE: an answer that is in it, and the memory for the next request. Only a ring
    /// takes it.
    Slot {
        fd: RawFd,
        command: SlotCommand,
        queue: u16,
    },
}

/// What a slot is handed over for.
#[derive(Debug, Clone, Copy)]
pub(super) enum SlotCommand {
    /// The first request. Where its parts are said to be lies here.
    Register { places: u64 },
    /// The answer to the request of this number, then the next request.
    CommitAndFetch { number: u64 },
}

// SAFETY: the pointer is used by one thread at a time: the worker that has the request, then, after its
// completion, the loop.
#[allow(unsafe_code)]
unsafe impl Send for Request {}

impl Request {
    /// Whether it ends only when somebody else does something.
    pub(super) fn may_wait_for_ever(&self) -> bool {
        let on_sockets = matches!(
            self,
            Self::Receive { .. } | Self::Send { .. } | Self::Accept { .. } | Self::Poll { .. }
        );
        on_sockets || self.stays_until_closed()
    }

    /// Whether the kernel does not let it be cancelled: it ends with the connection, or with the ring.
    pub(super) fn stays_until_closed(&self) -> bool {
        matches!(self, Self::Slot { .. })
    }

    /// Completions that the ring gives for it.
    pub(super) fn parts(&self) -> u8 {
        if matches!(self, Self::Write { sync: Sync::Linked, .. }) { 2 } else { 1 }
    }
}

/// What a completion is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Completion {
    pub(super) key: usize,
    /// Whether it is that of the fsync after a linked write.
    pub(super) is_sync: bool,
    /// As the kernel gives it: a count, a descriptor, or a negated errno.
    pub(super) result: i32,
}

/// How long a turn of the reactor may wait for completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    ForNs(u64),
    ForEver,
}

impl Wait {
    /// The longest that it takes.
    pub(super) fn longest(self) -> Duration {
        match self {
            Self::No => Duration::ZERO,
            Self::ForNs(ns) => Duration::from_nanos(ns),
            Self::ForEver => Duration::MAX,
        }
    }

    /// What is left of it after so long.
    pub(super) fn after(self, passed: Duration) -> Self {
        match self {
            Self::ForNs(ns) => match Duration::from_nanos(ns).saturating_sub(passed).as_nanos() {
                0 => Self::No,
                left => Self::ForNs(left as u64),
            },
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_that_has_passed_is_not_waited_for_again() {
        let micros = Duration::from_micros;
        assert_eq!(Wait::ForNs(5000).after(micros(2)), Wait::ForNs(3000));
        assert_eq!(Wait::ForNs(5000).after(micros(5)), Wait::No);
        assert_eq!(Wait::ForNs(5000).after(micros(50)), Wait::No);
        assert_eq!(Wait::ForEver.after(micros(50)), Wait::ForEver);
        assert_eq!(Wait::No.after(micros(50)), Wait::No);
    }
}
