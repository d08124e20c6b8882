//! Requests that may take long, and end early where nobody waits for them any more.
//!
//! 1. Whoever asked is told of an interruption between two portions, which stay.
//! 2. Once all are interrupted, those that come later are, too.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Those under way, by what the kernel calls them.
#[derive(Debug, Default)]
pub(super) struct LongRequests {
    under_way: RefCell<BTreeMap<u64, Rc<Cell<bool>>>>,
    are_all_over: Cell<bool>,
}

/// One that is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct LongRequest {
    of: Rc<LongRequests>,
    unique: u64,
    is_over: Rc<Cell<bool>>,
}

impl LongRequests {
    /// One begins.
    pub(super) fn begin(self: &Rc<Self>, unique: u64) -> LongRequest {
        let is_over = Rc::new(Cell::new(self.are_all_over.get()));
        self.under_way.borrow_mut().insert(unique, Rc::clone(&is_over));
        LongRequest { of: Rc::clone(self), unique, is_over }
    }

    /// Whoever asked for it has no patience any more.
    pub(super) fn interrupt(&self, unique: u64) {
        if let Some(is_over) = self.under_way.borrow().get(&unique) {
            is_over.set(true);
        }
    }

    /// Nobody has.
    pub(super) fn interrupt_all(&self) {
        self.are_all_over.set(true);
        self.under_way.borrow().values().for_each(|is_over| is_over.set(true));
    }
}

impl LongRequest {
    /// Whether nobody waits for it any more.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.get()
    }
}

impl Drop for LongRequest {
    fn drop(&mut self) {
        self.of.under_way.borrow_mut().remove(&self.unique);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_interrupted_is_over_and_who_comes_after_the_end_is_at_once() {
        let requests = Rc::<LongRequests>::default();
        let (one, other) = (requests.begin(1), requests.begin(2));
        requests.interrupt(2);
        requests.interrupt(3);
        assert_eq!((one.is_over(), other.is_over()), (false, true));
        requests.interrupt_all();
        assert!(one.is_over() && requests.begin(4).is_over());
        drop((one, other));
        assert!(requests.under_way.borrow().is_empty());
    }
}
