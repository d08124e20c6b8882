//! Two ends of a connection in memory, whose bytes arrive in any split.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::rc::Rc;

use evenkeel_sim::random::Random;

use crate::net::ByteStream;
use crate::wait::Signal;

/// One direction.
#[derive(Debug, Default)]
struct Direction {
    bytes: RefCell<VecDeque<u8>>,
    has_ended: Cell<bool>,
    filled: Signal,
    drained: Signal,
}

impl Direction {
    fn end(&self) {
        self.has_ended.set(true);
        self.filled.raise();
        self.drained.raise();
    }
}

/// One end. When it is dropped, the connection ends.
#[derive(Debug)]
pub struct MemoryStream {
    incoming: Rc<Direction>,
    outgoing: Rc<Direction>,
    outgoing_max_bytes: usize,
    is_shut: Cell<bool>,
    splits: Option<RefCell<Random>>,
}

/// Two ends. What the second sends waits once the first has left `held_max_bytes` unread. With a seed, what is
/// there arrives in pieces.
pub fn pair(held_max_bytes: usize, seed: Option<u64>) -> (MemoryStream, MemoryStream) {
    let (there, back) = (Rc::new(Direction::default()), Rc::new(Direction::default()));
    let end = |incoming: &Rc<Direction>, outgoing: &Rc<Direction>, salt: u64| MemoryStream {
        incoming: Rc::clone(incoming),
        outgoing: Rc::clone(outgoing),
        outgoing_max_bytes: if salt == 1 { usize::MAX } else { held_max_bytes },
        is_shut: Cell::new(false),
        splits: seed.map(|seed| RefCell::new(Random::new(seed ^ salt))),
    };
    (end(&there, &back, 1), end(&back, &there, 2))
}

impl MemoryStream {
    /// How many of `available` bytes arrive now.
    fn split(&self, available: usize) -> usize {
        match &self.splits {
            Some(random) if available > 1 => {
                let mut random = random.borrow_mut();
                if random.coin() { available } else { 1 + random.index(available) }
            }
            _ => available,
        }
    }

    /// Bytes that have come and were not read.
    pub fn waiting_bytes(&self) -> usize {
        self.incoming.bytes.borrow().len()
    }

    /// Nothing more is sent; what comes can still be read.
    pub fn end_sending(&self) {
        self.outgoing.end();
    }
}

impl ByteStream for MemoryStream {
    async fn read(&self, mut buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let room = buffer.len() - from;
        let taken = self
            .incoming
            .filled
            .until(|| {
                let mut bytes = self.incoming.bytes.borrow_mut();
                if self.is_shut.get() || (bytes.is_empty() && self.incoming.has_ended.get()) || room == 0 {
                    return Some(0);
                }
                let len = self.split(bytes.len().min(room));
                for (into, byte) in buffer[from..].iter_mut().zip(bytes.drain(..len)) {
                    *into = byte;
                }
                (len > 0).then_some(len)
            })
            .await;
        self.incoming.drained.raise();
        (Ok(taken), buffer)
    }

    async fn write_some(&self, buffer: Vec<u8>, from: usize) -> (io::Result<usize>, Vec<u8>) {
        let sent = self
            .outgoing
            .drained
            .until(|| {
                if self.is_shut.get() || self.outgoing.has_ended.get() {
                    return Some(Err(ErrorKind::BrokenPipe.into()));
                }
                let mut bytes = self.outgoing.bytes.borrow_mut();
                let room = self.outgoing_max_bytes.saturating_sub(bytes.len());
                let now = &buffer[from..from + room.min(buffer.len() - from)];
                bytes.extend(now);
                if !now.is_empty() {
                    self.outgoing.filled.raise();
                }
                (!now.is_empty() || from == buffer.len()).then_some(Ok(now.len()))
            })
            .await;
        (sent, buffer)
    }

    fn shutdown(&self) {
        self.is_shut.set(true);
        self.incoming.end();
        self.outgoing.end();
    }
}

impl Drop for MemoryStream {
    fn drop(&mut self) {
        self.shutdown();
    }
}
