//! Lookups that the kernel takes back, on their way to the file system: it wants no answer to that.
//!
//! Those of at most [`FILES_MAX`] files wait, and of what one message names; those of one file wait as one number. The next
//! request waits beyond that.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

use crate::wait::Signal;

/// Files whose lookups may wait to be taken back.
pub(super) const FILES_MAX: usize = 1 << 16;

/// Lookups that the kernel does not count any more.
#[derive(Debug, Default)]
pub(super) struct Forgotten {
    /// By inode.
    lookups: RefCell<BTreeMap<u32, u64>>,
    is_closed: Cell<bool>,
    there_are_some: Signal,
    has_room: Signal,
}

impl Forgotten {
    /// The kernel takes back so many lookups of an inode.
    pub(super) fn add(&self, inode: u32, lookups: u64) {
        if self.is_closed.get() {
            return;
        }
        let mut all = self.lookups.borrow_mut();
        let counted = all.entry(inode).or_default();
        *counted = counted.saturating_add(lookups);
        drop(all);
        self.there_are_some.raise();
    }

    /// Waits until more may come. Only one may wait.
    pub(super) async fn has_room(&self) {
        let is_there = || self.lookups.borrow().len() < FILES_MAX;
        if !is_there() {
            self.has_room.until(|| is_there().then_some(())).await;
        }
    }

    /// Waits for lookups to take back, and takes those of at most `count` files out into `into`; false once it is closed.
    /// Only one may wait.
    pub(super) async fn take(&self, count: usize, into: &mut Vec<(u32, u64)>) -> bool {
        self.there_are_some
            .until(|| {
                let mut lookups = self.lookups.borrow_mut();
                while into.len() < count
                    && let Some(one) = lookups.pop_first()
                {
                    into.push(one);
                }
                (self.is_closed.get() || !into.is_empty()).then_some(())
            })
            .await;
        self.has_room.raise();
        !self.is_closed.get()
    }

    /// Takes nothing more; what was not taken out is dropped.
    pub(super) fn close(&self) {
        self.is_closed.set(true);
        self.lookups.borrow_mut().clear();
        self.there_are_some.raise();
        self.has_room.raise();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// What a future answers that has nothing to wait for.
    fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
        match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(answer) => Some(answer),
            Poll::Pending => None,
        }
    }

    #[test]
    fn lookups_wait_as_a_number_for_each_file_and_for_no_more_than_so_many() {
        const FILES: u32 = FILES_MAX as u32 + 1000;
        let forgotten = Forgotten::default();
        let mut kernel = (0..FILES).flat_map(|inode| [(inode, 1), (inode, 2)]).peekable();
        let (mut part, mut taken) = (Vec::new(), BTreeMap::new());
        while kernel.peek().is_some() || !forgotten.lookups.borrow().is_empty() {
            while at_once(forgotten.has_room()).is_some()
                && let Some((inode, lookups)) = kernel.next()
            {
                forgotten.add(inode, lookups);
            }
            assert!(forgotten.lookups.borrow().len() <= FILES_MAX);
            assert_eq!(at_once(forgotten.take(100, &mut part)), Some(true));
            assert!(part.len() <= 100);
            for (inode, lookups) in part.drain(..) {
                *taken.entry(inode).or_insert(0) += lookups;
            }
        }
        assert!(taken.into_iter().eq((0..FILES).map(|inode| (inode, 3))));
        assert_eq!(at_once(forgotten.take(100, &mut part)), None);
    }

    #[test]
    fn once_closed_it_keeps_nothing_and_lets_nobody_wait() {
        let forgotten = Forgotten::default();
        (0..FILES_MAX as u32).for_each(|inode| forgotten.add(inode, 1));
        assert_eq!(at_once(forgotten.has_room()), None);
        forgotten.close();
        forgotten.add(1, 1);
        assert_eq!(at_once(forgotten.has_room()), Some(()));
        assert_eq!(at_once(forgotten.take(100, &mut Vec::new())), Some(false));
    }
}
