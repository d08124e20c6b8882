//! What stands before a volume, so that another one can take its place while clients are connected.
//!
//! ```text
//!   requests ──► SwitchedVolume ──► the volume
//!                  held             no request is under way, the next ones wait
//!                  tracked          which pages changed, for whoever copies them (changed_pages)
//! ```
//!
//! 1. While it is held no request is under way, and none begins. Those that came wait, in no order; reads do, too.
//! 2. While it is tracked, each page is marked to which a request wrote, when that request has ended or was given up.
//! 3. What one commit may carry, once told to a file system, holds for as long as that is mounted: who switches sees to it.
//! 4. Writes wait while more pages are marked than the bound that the copier set, and for nothing else. Flushes never wait for it.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::rc::Rc;

use super::changed_pages::ChangedPages;
use crate::device::Extent;
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

/// A volume that can be switched, where `V` is a handle to one. A clone is another handle to the same.
pub struct SwitchedVolume<V>(Rc<Inner<V>>);

struct Inner<V> {
    volume: RefCell<V>,
    under_way: Cell<usize>,
    is_held: Cell<bool>,
    tracked: RefCell<Option<Tracked>>,
    /// Whether somebody reckons with what one commit may carry.
    has_told_limits: Cell<bool>,
    /// Of all of these.
    changed: Notify,
}

struct Tracked {
    pages: ChangedPages,
    /// Marked pages beyond which writes wait.
    bound: u64,
}

impl<V> Clone for SwitchedVolume<V> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<V> fmt::Debug for SwitchedVolume<V> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &self.0;
        let mut out = out.debug_struct("SwitchedVolume");
        out.field("under_way", &inner.under_way).field("is_held", &inner.is_held).finish_non_exhaustive()
    }
}

/// A request under way.
pub(super) struct Pass<'a, V> {
    inner: &'a Inner<V>,
    /// The volume that it is for.
    pub(super) volume: V,
}

impl<V> Drop for Pass<'_, V> {
    fn drop(&mut self) {
        self.inner.under_way.set(self.inner.under_way.get() - 1);
        if self.inner.is_held.get() {
            self.inner.changed.all();
        }
    }
}

/// A request under way that writes: what it wrote is marked when this goes.
pub(super) struct WritePass<'a, V, W: Fn(&mut ChangedPages)> {
    pub(super) pass: Pass<'a, V>,
    mark: W,
}

impl<V, W: Fn(&mut ChangedPages)> Drop for WritePass<'_, V, W> {
    fn drop(&mut self) {
        if !is_planted(Bug::ConversionMarksAhead) {
            self.pass.inner.mark(&self.mark);
        }
    }
}

impl<V> Inner<V> {
    fn mark(&self, mark: &impl Fn(&mut ChangedPages)) {
        if let Some(tracked) = &mut *self.tracked.borrow_mut() {
            mark(&mut tracked.pages);
        }
    }
}

/// Nothing is under way meanwhile.
#[derive(Debug)]
pub struct Hold<V>(SwitchedVolume<V>);

impl<V> Drop for Hold<V> {
    fn drop(&mut self) {
        self.0.0.is_held.set(false);
        self.0.0.changed.all();
    }
}

/// Changed pages are marked as long as this is there.
pub(super) struct Tracking<V>(SwitchedVolume<V>);

impl<V> Drop for Tracking<V> {
    fn drop(&mut self) {
        self.0.0.tracked.replace(None);
        self.0.0.changed.all();
    }
}

impl<V: Clone> SwitchedVolume<V> {
    /// In front of `volume`.
    pub fn new(volume: V) -> Self {
        Self(Rc::new(Inner {
            volume: RefCell::new(volume),
            under_way: Cell::new(0),
            is_held: Cell::new(false),
            tracked: RefCell::new(None),
            has_told_limits: Cell::new(false),
            changed: Notify::default(),
        }))
    }

    /// The volume of this moment.
    pub fn now(&self) -> V {
        self.0.volume.borrow().clone()
    }

    /// What one commit may carry is told to somebody who reckons with it from now on.
    pub fn tells_limits(&self) {
        self.0.has_told_limits.set(true);
    }

    /// Whether what takes its place has to take commits as large.
    pub fn has_told_limits(&self) -> bool {
        self.0.has_told_limits.get()
    }

    /// Waits until no request is under way. Only one holds it at a time.
    ///
    /// # Panics
    ///
    /// Where another holds it.
    pub async fn hold(&self) -> Hold<V> {
        let inner = &self.0;
        assert!(!inner.is_held.replace(true), "two hold one volume");
        let hold = Hold(self.clone());
        let is_idle = || inner.under_way.get() == 0 || is_planted(Bug::ConversionHoldsAtOnce);
        inner.changed.until(|| is_idle().then_some(())).await;
        hold
    }

    /// Marks what changes from now on in a volume of so many bytes. A request that was under way before is over.
    pub(super) async fn track(&self, size_bytes: u64) -> Tracking<V> {
        let _between_requests = self.hold().await;
        assert!(self.0.tracked.borrow().is_none(), "two copy one volume");
        let pages = ChangedPages::of(size_bytes);
        self.0.tracked.replace(Some(Tracked { pages, bound: u64::MAX }));
        Tracking(self.clone())
    }

    /// Begins a request, unless it has to wait.
    pub(super) fn begin(&self) -> Option<Pass<'_, V>> {
        let inner = &*self.0;
        if inner.is_held.get() {
            return None;
        }
        inner.under_way.set(inner.under_way.get() + 1);
        Some(Pass { inner, volume: self.now() })
    }

    /// Begins a request that writes nothing.
    pub(super) async fn enter(&self) -> Pass<'_, V> {
        self.0.changed.until(|| self.begin()).await
    }

    /// Begins a request that writes what `mark` marks.
    pub(super) async fn enter_to_write<W: Fn(&mut ChangedPages)>(&self, mark: W) -> WritePass<'_, V, W> {
        let may_write = || self.0.tracked.borrow().as_ref().is_none_or(Tracked::has_room);
        let pass = self.0.changed.until(|| if may_write() { self.begin() } else { None }).await;
        if is_planted(Bug::ConversionMarksAhead) {
            self.0.mark(&mark);
        }
        WritePass { pass, mark }
    }

    /// Begins a request that writes to `extent`.
    pub(super) async fn enter_to_write_to(
        &self,
        extent: Extent,
    ) -> WritePass<'_, V, impl Fn(&mut ChangedPages)> {
        self.enter_to_write(move |pages| pages.mark(extent)).await
    }
}

impl<V> Hold<V> {
    /// From now on requests go to `volume`, which holds what the one before did.
    pub fn switch(&self, volume: V) {
        self.0.0.volume.replace(volume);
    }
}

impl Tracked {
    fn has_room(&self) -> bool {
        self.pages.marked() <= self.bound
    }
}

impl<V> Tracking<V> {
    /// Pages that are marked, counted in whatever one mark stands for.
    pub(super) fn marked(&self) -> u64 {
        self.with(|tracked| tracked.pages.marked())
    }

    /// Has writes wait while more are marked than that.
    pub(super) fn bound(&self, marked: u64) {
        self.with(|tracked| tracked.bound = marked);
    }

    /// Takes the marks off the next marked pages from `offset` on, around the end, which have `max_bytes` at most; `None`
    /// where nothing is marked. They are to be copied after that.
    pub(super) fn take(&self, offset: u64, max_bytes: u64) -> Option<Extent> {
        let taken = self.with(|tracked| tracked.pages.take(offset, max_bytes));
        if taken.is_some() {
            self.0.0.changed.all();
        }
        taken
    }

    /// Takes the marks off these pages, which are to be copied after that. The extent ends at a multiple of
    /// [`Self::mark_bytes`], or with the volume.
    pub(super) fn take_all_of(&self, extent: Extent) {
        self.with(|tracked| tracked.pages.unmark(extent));
    }

    /// Bytes that one mark stands for.
    pub(super) fn mark_bytes(&self) -> u64 {
        self.with(|tracked| tracked.pages.mark_bytes())
    }

    fn with<T>(&self, with: impl FnOnce(&mut Tracked) -> T) -> T {
        with(self.0.0.tracked.borrow_mut().as_mut().expect("it is tracked as long as this is there"))
    }
}
