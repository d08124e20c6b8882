//! Who may write where: writes one after another, and bytes that are put once more only where nobody writes.
//!
//! 1. Of two overlapping writes the second begins when the first has ended, so that all members see them in one order.
//! 2. A copy (what a mend or a rebuild puts once more) begins only where no write is under way. A write that comes
//!    meanwhile spoils it: what of it is under way ends first, and the rest is not begun.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::device::Extent;
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

/// Writes and copies under way.
#[derive(Debug, Default)]
pub(super) struct Copies {
    /// Lengths by offsets; none overlaps another.
    writes: RefCell<BTreeMap<u64, u64>>,
    copying: RefCell<Vec<Rc<Copying>>>,
    changed: Notify,
}

/// A copy.
#[derive(Debug)]
pub(super) struct Copying {
    pub(super) extent: Extent,
    spoiled: Cell<bool>,
    under_way: Cell<usize>,
}

/// A write, until this is dropped.
#[derive(Debug)]
pub(super) struct Writing {
    copies: Rc<Copies>,
    offset: u64,
}

/// A copy, until this is dropped.
#[derive(Debug)]
pub(super) struct CopyGuard {
    copies: Rc<Copies>,
    pub(super) copying: Rc<Copying>,
}

impl Copies {
    /// Waits until nobody writes there, nor copies.
    pub(super) async fn begin_write(self: &Rc<Self>, extent: Extent) -> Writing {
        self.changed
            .until(|| {
                let is_free = !self.is_written(&extent) && !self.is_copied(&extent);
                is_free.then(|| self.writes.borrow_mut().insert(extent.offset, extent.len))
            })
            .await;
        Writing { copies: Rc::clone(self), offset: extent.offset }
    }

    /// Copies there from now on, if nobody writes or copies.
    pub(super) fn try_copy(self: &Rc<Self>, extent: Extent) -> Option<CopyGuard> {
        let is_written = self.is_written(&extent) && !is_planted(Bug::RingCopiesUnderWay);
        let mut all = self.copying.borrow_mut();
        if is_written || all.iter().any(|copying| copying.extent.overlaps(&extent)) {
            return None;
        }
        let copying = Rc::new(Copying { extent, spoiled: Cell::default(), under_way: Cell::default() });
        all.push(Rc::clone(&copying));
        Some(CopyGuard { copies: Rc::clone(self), copying })
    }

    /// As [`Self::try_copy`], once it can.
    pub(super) async fn copy(self: &Rc<Self>, extent: Extent) -> CopyGuard {
        self.changed.until(|| self.try_copy(extent)).await
    }

    fn is_written(&self, extent: &Extent) -> bool {
        let writes = self.writes.borrow();
        let before = writes.range(..extent.end()).next_back();
        before.is_some_and(|(&offset, &len)| Extent::new(offset, len).overlaps(extent))
    }

    /// Whether a copy is under way there; those that are not yet, never will be.
    fn is_copied(&self, extent: &Extent) -> bool {
        if is_planted(Bug::RingMendOvertakes) {
            return false;
        }
        let all = self.copying.borrow();
        let mut is_copied = false;
        for copying in all.iter().filter(|copying| copying.extent.overlaps(extent)) {
            copying.spoiled.set(true);
            is_copied |= copying.under_way.get() > 0;
        }
        is_copied
    }
}

impl CopyGuard {
    /// Begins to write a copy, unless a write has come: then false.
    pub(super) fn begin(&self) -> bool {
        let may = !self.copying.spoiled.get();
        self.copying.under_way.set(self.copying.under_way.get() + usize::from(may));
        may
    }

    /// What was begun has ended.
    pub(super) fn end(&self) {
        self.copying.under_way.set(self.copying.under_way.get() - 1);
        self.copies.changed.all();
    }

    /// Whether a write came.
    pub(super) fn is_spoiled(&self) -> bool {
        self.copying.spoiled.get()
    }
}

impl Drop for CopyGuard {
    fn drop(&mut self) {
        self.copies.copying.borrow_mut().retain(|copying| !Rc::ptr_eq(copying, &self.copying));
        self.copies.changed.all();
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.copies.writes.borrow_mut().remove(&self.offset);
        self.copies.changed.all();
    }
}
