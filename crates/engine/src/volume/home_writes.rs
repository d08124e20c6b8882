//! The writes of a checkpoint: several at a time, as many as [`super::pace`] allows, or all of them to a ring.
//!
//! 1. A write that fails fails the checkpoint.
//! 2. Where one is [blocked](NotWritten::Blocked), each page of it is tried alone. Pages that are blocked are told, and stay in the
//!    log; a page of the table that is fails the checkpoint.
//! 3. A discard is a hint. One that fails is counted and told, and no more are sent in this opening; what it leaves at
//!    its place nobody reads, as the sums there say that there is nothing.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::rc::Rc;
use std::task::Poll;

use super::Inner;
use crate::counters::add;
use crate::device::Extent;
use crate::env::{Arena, Env};
use crate::error::{DeviceError, Error};
use crate::events::Event;
use crate::home::{PageBytes, TableBytes};
use crate::join::yield_now;
use crate::layout::{JournalStore, NotWritten, PageStore, PlacedWrite};
use crate::notify::Notify;
use crate::planted::{Bug, is_planted};

/// What one write takes home, and where that is.
pub(super) enum Outbound {
    /// Runs, each with its place: one, or all that begin in one unit of the store.
    Runs(Vec<(u64, Run)>),
    /// Places of pages without contents, which are given back.
    Nothing(Extent),
}

/// Bytes that lie together. A ring's members may take them long after: pages are not copied for that.
pub(super) enum Run {
    /// Neighbours.
    Pages(Vec<PageBytes>),
    /// A page of the table.
    Table(TableBytes),
    Bytes(Vec<u8>),
}

impl Run {
    fn parts(&self) -> Vec<&[u8]> {
        match self {
            Self::Pages(pages) => pages.iter().map(|page| &page[..]).collect(),
            Self::Table(page) => vec![&page[..]],
            Self::Bytes(bytes) => vec![bytes],
        }
    }
}

impl Outbound {
    fn writes(&self) -> Vec<PlacedWrite<'_>> {
        match self {
            Self::Runs(runs) => {
                runs.iter().map(|&(offset, ref run)| PlacedWrite { offset, parts: run.parts() }).collect()
            }
            Self::Nothing(_) => Vec::new(),
        }
    }

    fn len(&self) -> u64 {
        self.writes().iter().map(|write| write.extent().len).sum()
    }
}

/// Writes that are begun before others are let run: a ring takes all of a checkpoint at once, thousands, and clients wait
/// meanwhile.
const BEGUN_AT_ONCE: usize = 8;

/// Writes to the home device, several at a time: as many as [`super::pace`] allows.
pub(super) struct HomeWrites<'a, E, A, H, L> {
    inner: &'a Rc<Inner<E, A, H, L>>,
    state: Rc<WritesState>,
    begun: Cell<usize>,
}

/// The store is told that more comes, until this is dropped.
struct MoreComes<'a, H: PageStore>(&'a H);

impl<'a, H: PageStore> MoreComes<'a, H> {
    fn note(store: &'a H) -> Self {
        store.note_more_comes(true);
        Self(store)
    }
}

impl<H: PageStore> Drop for MoreComes<'_, H> {
    fn drop(&mut self) {
        self.0.note_more_comes(false);
    }
}

#[derive(Default)]
struct WritesState {
    under_way: Cell<usize>,
    under_way_bytes: Cell<u64>,
    failure: RefCell<Option<Error>>,
    /// Pages of a checkpoint that cannot go home now, by their places in it, and why.
    blocked: RefCell<Vec<(usize, DeviceError)>>,
    /// Pages of a checkpoint that all drives have, by their places in it, each with the number of its write.
    ended: RefCell<Vec<(u64, Range<usize>)>>,
    ended_pages: Cell<usize>,
    changed: Notify,
}

impl<'a, E: Env, A: Arena, H: PageStore, L: JournalStore> HomeWrites<'a, E, A, H, L> {
    pub(super) fn new(inner: &'a Rc<Inner<E, A, H, L>>) -> Self {
        Self { inner, state: Rc::default(), begun: Cell::default() }
    }

    /// Begins a write once there is a place for it; after a failure none is begun.
    pub(super) async fn begin(&self, bytes: Outbound) {
        self.begin_places(bytes, 0..0).await;
    }

    /// The same, of the pages at these places of a checkpoint.
    pub(super) async fn begin_places(&self, bytes: Outbound, places: Range<usize>) {
        let len = bytes.len();
        self.state.changed.until(|| self.has_place(len).then_some(())).await;
        if self.state.failure.borrow().is_some() {
            return;
        }
        if matches!(bytes, Outbound::Nothing(_)) && self.inner.write_back.discards_stopped.get().is_some() {
            return;
        }
        self.state.under_way.set(self.state.under_way.get() + 1);
        self.state.under_way_bytes.set(self.state.under_way_bytes.get() + len);
        let (inner, state) = (Rc::clone(self.inner), Rc::clone(&self.state));
        inner.write_back.pace.begin_home();
        let mut write = Box::pin(async move {
            let device = &*inner.home.device;
            let written = match &bytes {
                Outbound::Nothing(extent) => {
                    let discarded = device.discard(*extent).await;
                    inner.note_discard(discarded).map_err(Error::from)
                }
                Outbound::Runs(runs) => match device.write_numbered(&bytes.writes()).await {
                    Ok(number) => {
                        state.note_ended(number, places);
                        Ok(())
                    }
                    Err(NotWritten::Blocked(_)) => state.write_each(device, runs, places).await,
                    Err(NotWritten::Failed(error)) => Err(error.into()),
                },
            };
            if let Err(error) = written {
                state.failure.borrow_mut().get_or_insert(error);
            }
            inner.write_back.pace.end_home();
            state.under_way.set(state.under_way.get() - 1);
            state.under_way_bytes.set(state.under_way_bytes.get() - len);
            state.changed.all();
        });
        // As far as it goes at once: writes come to the drives in the order in which they are begun.
        if poll_fn(|context| Poll::Ready(write.as_mut().poll(context).is_pending())).await {
            self.inner.env.spawn_background(write);
        }
        let begun = self.begun.replace(self.begun.get() + 1);
        if begun % BEGUN_AT_ONCE == BEGUN_AT_ONCE - 1 {
            let _more_comes = MoreComes::note(&*self.inner.home.device);
            yield_now().await;
        }
    }

    fn has_place(&self, len: u64) -> bool {
        let (writes, bytes) = (self.state.under_way.get(), self.state.under_way_bytes.get());
        // A store that holds writes lets each of its drives have as many at once as are good for it.
        let traits = self.inner.home.device.traits();
        if traits.defers_writes {
            return writes == 0 || bytes.saturating_add(len) <= traits.deferred_max_bytes;
        }
        let writes_max = self.inner.options.home_writes_max.max(1);
        let bytes_max = self.inner.write_back.pace.home_max_bytes(self.inner.env.now_ns(), writes_max);
        writes == 0 || (writes < writes_max && bytes + len <= bytes_max)
    }

    /// Waits until so many more pages, or all writes, have ended; false for the latter.
    pub(super) async fn more_ended(&self, pages: usize) -> bool {
        let state = &self.state;
        let is_over = || state.under_way.get() == 0;
        let enough = || is_over() || state.ended_pages.get() >= pages;
        state.changed.until(|| enough().then(|| !is_over())).await
    }

    /// Waits until all writes have ended.
    pub(super) async fn until_ended(&self) {
        self.state.changed.until(|| (self.state.under_way.get() == 0).then_some(())).await;
    }

    /// Pages that have ended since this was asked before, by their places, with the numbers of their writes.
    pub(super) fn take_ended(&self) -> Vec<(u64, Range<usize>)> {
        self.state.ended_pages.set(0);
        self.state.ended.take()
    }

    /// Waits until all writes have ended; answers which pages cannot go home now, by their places, and why.
    pub(super) async fn all_done(self) -> Result<Vec<(usize, DeviceError)>, Error> {
        self.until_ended().await;
        self.state.failure.take().map_or_else(|| Ok(self.state.blocked.take()), Err)
    }
}

impl WritesState {
    fn note_ended(&self, number: u64, places: Range<usize>) {
        if !places.is_empty() {
            self.ended_pages.set(self.ended_pages.get() + places.len());
            self.ended.borrow_mut().push((number, places));
        }
    }

    /// Writes each page of these runs by itself, as far as they are not blocked. Those at `places` come first.
    async fn write_each(
        &self,
        device: &impl PageStore,
        runs: &[(u64, Run)],
        mut places: Range<usize>,
    ) -> Result<(), Error> {
        for (offset, run) in runs {
            let mut offset = *offset;
            for part in run.parts() {
                let write = PlacedWrite { offset, parts: vec![part] };
                offset += part.len() as u64;
                match (device.write_numbered(&[write]).await, places.next()) {
                    (Ok(number), place) => {
                        self.note_ended(number, place.map_or(0..0, |place| place..place + 1));
                    }
                    (Err(NotWritten::Blocked(error)), Some(place)) => {
                        self.blocked.borrow_mut().push((place, error));
                    }
                    (Err(NotWritten::Blocked(error)), None) => return Err(Error::Blocked(error)),
                    (Err(NotWritten::Failed(error)), _) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// Notes what became of a discard; none of that is a failure of the volume.
    fn note_discard(&self, discarded: Result<(), DeviceError>) -> Result<(), DeviceError> {
        let Err(error) = discarded else { return Ok(()) };
        if is_planted(Bug::FailedDiscardLatches) {
            return Err(error);
        }
        add(&self.counters.failed_discards, 1);
        if self.write_back.discards_stopped.replace(Some(error)).is_none() {
            self.events.note(Event::DiscardsStopped { place: None, error });
        }
        Ok(())
    }
}
