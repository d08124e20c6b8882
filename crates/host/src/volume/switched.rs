//! The volume behind a front end: another one can take its place while clients are connected.
//!
//! ```text
//!   front end ──► SwitchedVolume ──► the volume
//!                   held             no request is under way, the next ones wait
//!                   tracked          which pages changed, for whoever copies them (changed_pages)
//! ```
//!
//! 1. While it is held no request is under way, and none begins. Those that came wait, in no order; reads do, too.
//! 2. While it is tracked, each page is marked to which a request wrote, when that request has ended or was given up.
//! 3. What one commit may carry, once told to a file system, holds for as long as that is mounted: who switches sees to it.
//! 4. Writes wait while more pages are marked than the bound that the copier set, and for nothing else. Flushes never wait for it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::Extent;

use super::LocalVolume;
use super::changed_pages::ChangedPages;
use crate::wait::Notify;

/// A volume that can be switched. A clone is another handle to the same.
#[derive(Clone)]
pub struct SwitchedVolume(Rc<Inner>);

struct Inner {
    volume: RefCell<LocalVolume>,
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

/// A request under way.
pub(crate) struct Pass<'a> {
    inner: &'a Inner,
    /// The volume that it is for.
    pub(crate) volume: LocalVolume,
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        self.inner.under_way.set(self.inner.under_way.get() - 1);
        if self.inner.is_held.get() {
            self.inner.changed.all();
        }
    }
}

/// A request under way that writes: what it wrote is marked when this goes.
pub(crate) struct WritePass<'a, W: Fn(&mut ChangedPages)> {
    pub(crate) pass: Pass<'a>,
    mark: W,
}

impl<W: Fn(&mut ChangedPages)> Drop for WritePass<'_, W> {
    fn drop(&mut self) {
        if let Some(tracked) = &mut *self.pass.inner.tracked.borrow_mut() {
            (self.mark)(&mut tracked.pages);
        }
    }
}

/// Nothing is under way meanwhile.
pub(super) struct Hold(SwitchedVolume);

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.0.is_held.set(false);
        self.0.0.changed.all();
    }
}

/// Changed pages are marked as long as this is there.
pub(super) struct Tracking(SwitchedVolume);

impl Drop for Tracking {
    fn drop(&mut self) {
        self.0.0.tracked.replace(None);
        self.0.0.changed.all();
    }
}

impl SwitchedVolume {
    /// In front of `volume`.
    pub(crate) fn new(volume: LocalVolume) -> Self {
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
    pub(crate) fn now(&self) -> LocalVolume {
        self.0.volume.borrow().clone()
    }

    /// What one commit may carry is told to somebody who reckons with it from now on.
    pub(crate) fn tells_limits(&self) {
        self.0.has_told_limits.set(true);
    }

    /// Whether what takes its place has to take commits as large.
    pub(super) fn has_told_limits(&self) -> bool {
        self.0.has_told_limits.get()
    }

    /// Waits until no request is under way. Only one holds it at a time.
    pub(super) async fn hold(&self) -> Hold {
        let inner = &self.0;
        assert!(!inner.is_held.replace(true), "two hold one volume");
        let hold = Hold(self.clone());
        inner.changed.until(|| (inner.under_way.get() == 0).then_some(())).await;
        hold
    }

    /// Marks what changes from now on. A request that was under way before is over.
    pub(super) async fn track(&self) -> Tracking {
        let _between_requests = self.hold().await;
        let pages = ChangedPages::of(self.now().size_bytes());
        self.0.tracked.replace(Some(Tracked { pages, bound: u64::MAX }));
        Tracking(self.clone())
    }

    /// Begins a request, unless it has to wait.
    pub(crate) fn begin(&self) -> Option<Pass<'_>> {
        let inner = &*self.0;
        if inner.is_held.get() {
            return None;
        }
        inner.under_way.set(inner.under_way.get() + 1);
        Some(Pass { inner, volume: self.now() })
    }

    /// Begins a request that writes nothing.
    pub(crate) async fn enter(&self) -> Pass<'_> {
        self.0.changed.until(|| self.begin()).await
    }

    /// Begins a request that writes what `mark` marks.
    pub(crate) async fn enter_to_write<W: Fn(&mut ChangedPages)>(&self, mark: W) -> WritePass<'_, W> {
        let may_write = || self.0.tracked.borrow().as_ref().is_none_or(Tracked::has_room);
        let pass = self.0.changed.until(|| if may_write() { self.begin() } else { None }).await;
        WritePass { pass, mark }
    }

    /// Begins a request that writes to `extent`.
    pub(crate) async fn enter_to_write_to(
        &self,
        extent: Extent,
    ) -> WritePass<'_, impl Fn(&mut ChangedPages)> {
        self.enter_to_write(move |pages| pages.mark(extent)).await
    }
}

impl Hold {
    /// From now on requests go to `volume`, which holds what the one before did.
    pub(super) fn switch(&self, volume: LocalVolume) {
        self.0.0.volume.replace(volume);
    }
}

impl Tracked {
    fn has_room(&self) -> bool {
        self.pages.marked() <= self.bound
    }
}

impl Tracking {
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

    /// Takes the marks off these pages, which are to be copied after that. The extent begins at a multiple of
    /// [`Self::mark_bytes`].
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
