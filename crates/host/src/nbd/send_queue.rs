//! Messages that wait to be sent, in as few sends as possible: replies of a server, requests of a client.
//!
//! 1. Messages leave in the order in which they were put in, each of them whole.
//! 2. Short ones are copied together while a send is under way; long ones leave in their own buffer.
//! 3. What was sent is released with it: a message's token is dropped when its last byte has left.
//! 4. After [`SendQueue::close`] nothing more enters: what is put in is dropped with its token.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use super::buffer_pool::Pool;
use crate::wait::Signal;

/// Longest message that is copied.
pub(crate) const COPIED_MAX_BYTES: usize = 32 << 10;
/// Bytes beyond which a send takes no more messages.
const SEND_BYTES: usize = 256 << 10;

/// What goes with messages that are sent together.
pub(crate) trait Merge {
    /// Takes `other` in.
    fn merge(&mut self, other: Self);
}

impl Merge for () {
    fn merge(&mut self, (): ()) {}
}

struct Send<T> {
    bytes: Vec<u8>,
    token: T,
    /// Whether more messages may be copied to it.
    takes_more: bool,
}

/// Messages on their way out.
pub(crate) struct SendQueue<T> {
    queue: RefCell<VecDeque<Send<T>>>,
    pool: Rc<Pool>,
    filled: Signal,
    closed: Cell<bool>,
}

impl<T: Merge> SendQueue<T> {
    /// Nothing yet; buffers are taken from `pool`.
    pub(crate) fn new(pool: Rc<Pool>) -> Self {
        Self { queue: RefCell::default(), pool, filled: Signal::default(), closed: Cell::new(false) }
    }

    /// Puts in the message that `encode` appends.
    pub(crate) fn append(&self, token: T, encode: impl FnOnce(&mut Vec<u8>)) {
        let _appended = self.try_append(token, |out| {
            encode(out);
            true
        });
    }

    /// Puts in the message that `encode` appends if it answers true, else nothing: then the token comes back.
    pub(crate) fn try_append(&self, token: T, encode: impl FnOnce(&mut Vec<u8>) -> bool) -> Result<(), T> {
        if self.closed.get() {
            return Ok(());
        }
        let mut queue = self.queue.borrow_mut();
        match queue.back_mut() {
            Some(last) if last.takes_more => {
                let len = last.bytes.len();
                if !encode(&mut last.bytes) {
                    last.bytes.truncate(len);
                    return Err(token);
                }
                last.takes_more = last.bytes.len() < SEND_BYTES;
                last.token.merge(token);
            }
            _ => {
                let mut bytes = self.pool.take_empty(SEND_BYTES);
                if !encode(&mut bytes) {
                    drop(queue);
                    self.recycle(bytes);
                    return Err(token);
                }
                let takes_more = bytes.len() < SEND_BYTES;
                queue.push_back(Send { bytes, token, takes_more });
            }
        }
        drop(queue);
        self.filled.raise();
        Ok(())
    }

    /// Puts in a message in its own buffer.
    pub(crate) fn push(&self, token: T, bytes: Vec<u8>) {
        if self.closed.get() {
            return;
        }
        self.queue.borrow_mut().push_back(Send { bytes, token, takes_more: false });
        self.filled.raise();
    }

    /// Whether nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.borrow().is_empty()
    }

    /// Whether nothing enters any more.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.get()
    }

    /// What to send next; `None` once it is closed.
    pub(crate) async fn next(&self) -> Option<(Vec<u8>, T)> {
        self.filled
            .until(|| {
                if self.closed.get() {
                    return Some(None);
                }
                self.queue.borrow_mut().pop_front().map(|send| Some((send.bytes, send.token)))
            })
            .await
    }

    /// Takes the buffer of a send back.
    pub(crate) fn recycle(&self, bytes: Vec<u8>) {
        self.pool.put(bytes);
    }

    /// Drops what is in it, and what comes from now on.
    pub(crate) fn close(&self) {
        self.closed.set(true);
        // Outside of the borrow: tokens may be anyone's.
        let dropped = self.queue.take();
        drop(dropped);
        self.filled.raise();
    }
}
