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

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_ext2::StoreError;
use evenkeel_ext2::store::{Change, CommitLimits, Store};

use super::LocalVolume;
use super::changed_pages::ChangedPages;
use crate::front::device::{RequestError, ServedDevice};
use crate::wait::Notify;

/// Bytes that are zeroed by one request under way.
const ZEROED_AT_ONCE_BYTES: u64 = 8 << 20;

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
struct Pass<'a> {
    inner: &'a Inner,
    volume: LocalVolume,
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
struct WritePass<'a, W: Fn(&mut ChangedPages)> {
    pass: Pass<'a>,
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
    pub(super) fn now(&self) -> LocalVolume {
        self.0.volume.borrow().clone()
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

    fn begin(&self) -> Option<Pass<'_>> {
        let inner = &*self.0;
        if inner.is_held.get() {
            return None;
        }
        inner.under_way.set(inner.under_way.get() + 1);
        Some(Pass { inner, volume: self.now() })
    }

    async fn enter(&self) -> Pass<'_> {
        self.0.changed.until(|| self.begin()).await
    }

    /// The same for a request that writes what `mark` marks.
    async fn enter_to_write<W: Fn(&mut ChangedPages)>(&self, mark: W) -> WritePass<'_, W> {
        let may_write = || self.0.tracked.borrow().as_ref().is_none_or(Tracked::has_room);
        let pass = self.0.changed.until(|| if may_write() { self.begin() } else { None }).await;
        WritePass { pass, mark }
    }

    async fn enter_to_write_to(&self, extent: Extent) -> WritePass<'_, impl Fn(&mut ChangedPages)> {
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

impl ServedDevice for SwitchedVolume {
    fn size_bytes(&self) -> u64 {
        self.now().size_bytes()
    }

    fn unit_bytes(&self) -> u32 {
        self.now().unit_bytes()
    }

    fn description(&self) -> &str {
        "evenkeel volume"
    }

    fn atomic_max_bytes(&self) -> u64 {
        self.now().atomic_max_bytes()
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), RequestError> {
        let pass = self.enter().await;
        ServedDevice::read(&pass.volume, offset, into).await
    }

    fn try_read(&self, offset: u64, into: &mut [u8]) -> bool {
        self.begin().is_some_and(|pass| pass.volume.try_read(offset, into))
    }

    async fn write(&self, offset: u64, bytes: &[u8], durability: Durability) -> Result<(), RequestError> {
        let writing = self.enter_to_write_to(Extent::new(offset, bytes.len() as u64)).await;
        ServedDevice::write(&writing.pass.volume, offset, bytes, durability).await
    }

    async fn flush(&self, scope: FlushScope<'_>) -> Result<(), RequestError> {
        let pass = self.enter().await;
        ServedDevice::flush(&pass.volume, scope).await
    }

    async fn write_zeroes(&self, extent: Extent) -> Result<(), RequestError> {
        let writing = self.enter_to_write_to(extent).await;
        ServedDevice::write_zeroes(&writing.pass.volume, extent).await
    }

    async fn discard(&self, extent: Extent) -> Result<(), RequestError> {
        let writing = self.enter_to_write_to(extent).await;
        ServedDevice::discard(&writing.pass.volume, extent).await
    }

    async fn allocation(&self, extent: Extent) -> Result<Vec<(u64, bool)>, RequestError> {
        let pass = self.enter().await;
        ServedDevice::allocation(&pass.volume, extent).await
    }
}

impl Store for SwitchedVolume {
    fn size_bytes(&self) -> u64 {
        self.now().size_bytes()
    }

    fn limits(&self) -> CommitLimits {
        self.0.has_told_limits.set(true);
        Store::limits(&*self.0.volume.borrow())
    }

    async fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        let pass = self.enter().await;
        Store::read(&pass.volume, offset, into).await
    }

    async fn write(&self, offset: u64, bytes: &[u8]) -> Result<(), StoreError> {
        let writing = self.enter_to_write_to(Extent::new(offset, bytes.len() as u64)).await;
        Store::write(&writing.pass.volume, offset, bytes).await
    }

    async fn write_fresh(&self, offset: u64, blocks: &[&[u8]]) -> Result<(), StoreError> {
        let len = blocks.iter().map(|block| block.len() as u64).sum();
        let writing = self.enter_to_write_to(Extent::new(offset, len)).await;
        Store::write_fresh(&writing.pass.volume, offset, blocks).await
    }

    /// One piece after the other: nobody who holds it waits for all of a large file.
    async fn zero(&self, extent: Extent) -> Result<(), StoreError> {
        let mut offset = extent.offset;
        while offset < extent.end() {
            let piece = Extent::new(offset, ZEROED_AT_ONCE_BYTES.min(extent.end() - offset));
            let writing = self.enter_to_write_to(piece).await;
            Store::zero(&writing.pass.volume, piece).await?;
            offset = piece.end();
        }
        Ok(())
    }

    async fn flush(&self, ranges: &[Extent]) -> Result<(), StoreError> {
        let pass = self.enter().await;
        Store::flush(&pass.volume, ranges).await
    }

    async fn commit(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let writing = self.enter_to_write(|pages| mark_all(pages, changes)).await;
        Store::commit(&writing.pass.volume, changes).await
    }

    async fn commit_in_background(&self, changes: &[Change<'_>]) -> Result<(), StoreError> {
        let writing = self.enter_to_write(|pages| mark_all(pages, changes)).await;
        Store::commit_in_background(&writing.pass.volume, changes).await
    }

    async fn wait_beside_small_commits(&self) -> bool {
        Store::wait_beside_small_commits(&self.now()).await
    }
}

fn mark_all(pages: &mut ChangedPages, changes: &[Change<'_>]) {
    changes.iter().for_each(|change| pages.mark(change.extent()));
}
