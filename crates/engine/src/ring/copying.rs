//! Who may write where: writes one after another, and bytes that are put once more only where nobody writes.
//!
//! 1. Of two overlapping writes the second begins when the first has ended, so that all members see them in one order.
//! 2. A copy (what a mend or a rebuild puts once more) begins only where no write is under way. A write that comes
//!    meanwhile spoils it: what of it is under way ends first, and the rest is not begun.
//! 3. One that was spoiled too often is not any more: writes wait until it has ended.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use crate::device::Extent;
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

/// So often writes spoil a copy. Whoever writes the same bytes again and again would keep a rebuild from its end.
const SPOILED_MAX: usize = 3;

/// Writes and copies under way.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    /// Lengths by offsets; none overlaps another.
    writes: RefCell<BTreeMap<u64, u64>>,
    copying: RefCell<Vec<Rc<Copying>>>,
    changed: Notify,
}

/// A copy.
#[derive(Debug)]
pub(crate) struct Copying {
    pub(crate) extent: Extent,
    /// Whether writes wait for it.
    is_firm: bool,
    spoiled: Cell<bool>,
    under_way: Cell<usize>,
}

/// A write, until this is dropped.
#[derive(Debug)]
pub(crate) struct Writing {
    copies: Rc<Copies>,
    extents: Vec<Extent>,
}

/// A copy, until this is dropped.
#[derive(Debug)]
pub(crate) struct CopyGuard {
    copies: Rc<Copies>,
    pub(crate) copying: Rc<Copying>,
}

impl Copies {
    /// Waits until nobody writes at any of these extents, nor copies: none of them is held meanwhile.
    pub(crate) async fn begin_write(self: &Rc<Self>, extents: &[Extent]) -> Writing {
        self.changed.until(|| self.try_write(extents)).await
    }

    /// Writes at these extents from now on, if nobody writes or copies at any of them.
    pub(crate) fn try_write(self: &Rc<Self>, extents: &[Extent]) -> Option<Writing> {
        if extents.iter().any(|extent| self.is_written(extent)) {
            return None;
        }
        // At each of them: what is copied there is to end.
        let copied = extents.iter().filter(|extent| self.is_copied(extent)).count();
        (copied == 0).then(|| {
            self.writes.borrow_mut().extend(extents.iter().map(|extent| (extent.offset, extent.len)));
            Writing { copies: Rc::clone(self), extents: extents.to_vec() }
        })
    }

    /// Copies there from now on, if nobody writes or copies.
    pub(crate) fn try_copy(self: &Rc<Self>, extent: Extent) -> Option<CopyGuard> {
        self.try_copy_as(extent, false)
    }

    fn try_copy_as(self: &Rc<Self>, extent: Extent, is_firm: bool) -> Option<CopyGuard> {
        let is_written = self.is_written(&extent) && !is_planted(Bug::RingCopiesUnderWay);
        let mut all = self.copying.borrow_mut();
        if is_written || all.iter().any(|copying| copying.extent.overlaps(&extent)) {
            return None;
        }
        let copying =
            Rc::new(Copying { extent, is_firm, spoiled: Cell::default(), under_way: Cell::default() });
        all.push(Rc::clone(&copying));
        Some(CopyGuard { copies: Rc::clone(self), copying })
    }

    /// As [`Self::try_copy`], once it can. Where the same copy was spoiled so often, writes wait for this one.
    pub(crate) async fn copy(self: &Rc<Self>, extent: Extent, spoiled: usize) -> CopyGuard {
        let is_firm = spoiled >= SPOILED_MAX;
        self.changed.until(|| self.try_copy_as(extent, is_firm)).await
    }

    /// What is written now.
    pub(crate) fn written(&self) -> Vec<Extent> {
        self.writes.borrow().iter().map(|(&offset, &len)| Extent::new(offset, len)).collect()
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
            copying.spoiled.set(!copying.is_firm);
            is_copied |= copying.is_firm || copying.under_way.get() > 0;
        }
        is_copied
    }
}

impl CopyGuard {
    /// Begins to write a copy, unless a write has come: then false.
    pub(crate) fn begin(&self) -> bool {
        let may = !self.copying.spoiled.get();
        self.copying.under_way.set(self.copying.under_way.get() + usize::from(may));
        may
    }

    /// What was begun has ended.
    pub(crate) fn end(&self) {
        self.copying.under_way.set(self.copying.under_way.get() - 1);
        self.copies.changed.all();
    }

    /// Whether a write came.
    pub(crate) fn is_spoiled(&self) -> bool {
        self.copying.spoiled.get()
    }
}

impl Drop for CopyGuard {
    fn drop(&mut self) {
        self.copies.copying.borrow_mut().retain(|copying| !Rc::ptr_eq(copying, &self.copying));
        self.copies.changed.all();
    }
}

impl Writing {
    /// What is written.
    pub(crate) fn extents(&self) -> &[Extent] {
        &self.extents
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        let mut writes = self.copies.writes.borrow_mut();
        for extent in &self.extents {
            writes.remove(&extent.offset);
        }
        drop(writes);
        self.copies.changed.all();
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use proptest::prelude::*;

    use super::*;

    type Waiting = Pin<Box<dyn Future<Output = Writing>>>;

    fn begin(copies: &Rc<Copies>, extent: Extent) -> Waiting {
        let copies = Rc::clone(copies);
        Box::pin(async move { copies.begin_write(&[extent]).await })
    }

    fn poll(waiting: &mut Waiting) -> Option<Writing> {
        match waiting.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            std::task::Poll::Ready(writing) => Some(writing),
            std::task::Poll::Pending => None,
        }
    }

    #[test]
    fn a_copy_that_was_not_begun_gives_way_to_a_write() {
        let copies = Rc::<Copies>::default();
        let copy = copies.try_copy(Extent::new(0, 100)).expect("nobody writes");
        let _writing = poll(&mut begin(&copies, Extent::new(50, 100))).expect("nothing is under way");
        assert!(copy.is_spoiled() && !copy.begin());
    }

    #[test]
    fn a_write_of_several_places_holds_none_of_them_before_it_has_all_and_nothing_between_them() {
        let copies = Rc::<Copies>::default();
        let places = [Extent::new(0, 10), Extent::new(20, 10), Extent::new(40, 10)];
        let first = copies.try_write(&places[1..2]).expect("nobody writes");
        assert!(copies.try_write(&places).is_none());
        let other = copies.try_write(&places[..1]).expect("nobody holds that");
        drop((first, other));
        let all = copies.try_write(&places).expect("nobody writes any more");
        assert!(places.iter().all(|place| copies.try_write(&[*place]).is_none()));
        assert!(copies.try_write(&[Extent::new(10, 10), Extent::new(30, 10)]).is_some(), "between them");
        drop(all);
        assert!(copies.try_write(&[Extent::new(0, 50)]).is_some());
    }

    #[test]
    fn a_write_waits_for_a_copy_that_is_under_way_and_nothing_more_is_begun() {
        let copies = Rc::<Copies>::default();
        let copy = copies.try_copy(Extent::new(0, 100)).expect("nobody writes");
        assert!(copy.begin());
        let mut waiting = begin(&copies, Extent::new(50, 100));
        assert!(poll(&mut waiting).is_none());
        assert!(!copy.begin(), "to another member");
        copy.end();
        assert!(poll(&mut waiting).is_some());
    }

    #[test]
    fn writes_wait_for_a_copy_that_others_have_spoiled_too_often() {
        let copies = Rc::<Copies>::default();
        let copy = |spoiled: usize| {
            let mut copy = Box::pin(copies.copy(Extent::new(0, 100), spoiled));
            match copy.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                std::task::Poll::Ready(copy) => copy,
                std::task::Poll::Pending => panic!("nobody writes"),
            }
        };
        for spoiled in 0..SPOILED_MAX {
            let copy = copy(spoiled);
            assert!(poll(&mut begin(&copies, Extent::new(50, 100))).is_some() && copy.is_spoiled());
        }
        let firm = copy(SPOILED_MAX);
        let mut waiting = begin(&copies, Extent::new(50, 100));
        assert!(poll(&mut waiting).is_none() && firm.begin() && !firm.is_spoiled());
        firm.end();
        drop(firm);
        assert!(poll(&mut waiting).is_some());
    }

    #[test]
    fn nothing_is_copied_where_somebody_writes_or_copies() {
        let copies = Rc::<Copies>::default();
        let writing = poll(&mut begin(&copies, Extent::new(50, 100)));
        assert!(
            copies.try_copy(Extent::new(149, 1)).is_none() && copies.try_copy(Extent::new(0, 51)).is_none()
        );
        let beside = copies.try_copy(Extent::new(150, 10)).expect("beside it nobody does");
        assert!(copies.try_copy(Extent::new(159, 10)).is_none());
        drop((writing, beside));
        assert!(copies.try_copy(Extent::new(0, 200)).is_some());
    }

    proptest! {
        #[test]
        fn no_two_writes_overlap_and_no_copy_is_begun_where_one_is_under_way(
            steps in prop::collection::vec((0..4u8, 0..60u64, 1..20u64, any::<prop::sample::Index>()), 0..120),
        ) {
            let copies = Rc::<Copies>::default();
            let mut writes: Vec<(Extent, Writing)> = Vec::new();
            let mut waiting: Vec<(Extent, Waiting)> = Vec::new();
            let mut copying: Vec<(CopyGuard, u32)> = Vec::new();
            for (step, offset, len, which) in steps {
                let extent = Extent::new(offset, len);
                match step {
                    0 => waiting.push((extent, begin(&copies, extent))),
                    1 => {
                        if let Some(copy) = copies.try_copy(extent) {
                            prop_assert!(!writes.iter().any(|(other, _)| other.overlaps(&extent)));
                            copying.push((copy, 0));
                        }
                    }
                    2 if !copying.is_empty() => {
                        let at = which.index(copying.len());
                        let (copy, under_way) = &mut copying[at];
                        let is_written = writes.iter().any(|(other, _)| other.overlaps(&copy.copying.extent));
                        let begun = copy.begin();
                        prop_assert!(!begun || !is_written, "over a newer write");
                        *under_way += u32::from(begun);
                    }
                    3 if !writes.is_empty() && offset % 2 == 0 => drop(writes.swap_remove(which.index(writes.len()))),
                    3 if !copying.is_empty() => {
                        let (copy, under_way) = copying.swap_remove(which.index(copying.len()));
                        (0..under_way).for_each(|_| copy.end());
                    }
                    _ => {}
                }
                let mut left = Vec::new();
                for (extent, mut begins) in waiting {
                    match poll(&mut begins) {
                        Some(writing) => {
                            let is_copied = |(copy, under_way): &(CopyGuard, u32)| {
                                *under_way > 0 && copy.copying.extent.overlaps(&extent)
                            };
                            prop_assert!(!copying.iter().any(is_copied), "beside an older copy");
                            prop_assert!(!writes.iter().any(|(other, _)| other.overlaps(&extent)));
                            writes.push((extent, writing));
                        }
                        None => left.push((extent, begins)),
                    }
                }
                waiting = left;
            }
            // Nobody waits for ever.
            drop(writes);
            for (copy, under_way) in copying {
                (0..under_way).for_each(|_| copy.end());
            }
            while !waiting.is_empty() {
                let before = waiting.len();
                waiting.retain_mut(|(_, begins)| poll(begins).is_none());
                prop_assert!(waiting.len() < before);
            }
        }
    }
}
