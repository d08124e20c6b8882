//! The writes of a checkpoint: several at a time, as many as [`super::pace`] allows, or all of them to a ring.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use super::Inner;
use crate::device::{Device, Durability, Extent};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::PAGE_BYTES;
use crate::home::{PageBytes, TableBytes};
use crate::notify::Notify;

/// What one write takes home.
pub(super) enum Outbound {
    /// Neighbours. A ring's members may take them long after: they are not copied for that.
    Pages(Vec<PageBytes>),
    Table(TableBytes),
    Bytes(Vec<u8>),
    /// A page without contents, whose place is given back.
    Nothing,
}

impl Outbound {
    fn parts(&self) -> Vec<&[u8]> {
        match self {
            Self::Pages(pages) => pages.iter().map(|page| &page[..]).collect(),
            Self::Table(page) => vec![&page[..]],
            Self::Bytes(bytes) => vec![bytes],
            Self::Nothing => Vec::new(),
        }
    }

    fn len(&self) -> u64 {
        match self {
            Self::Pages(pages) => pages.len() as u64 * PAGE_BYTES,
            Self::Table(page) => page.len() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Nothing => 0,
        }
    }
}

/// Writes to the home device, several at a time: as many as [`super::pace`] allows.
pub(super) struct HomeWrites<'a, E, A, H, L> {
    inner: &'a Rc<Inner<E, A, H, L>>,
    state: Rc<WritesState>,
}

#[derive(Default)]
struct WritesState {
    under_way: Cell<usize>,
    under_way_bytes: Cell<u64>,
    failure: RefCell<Option<Error>>,
    changed: Notify,
}

impl<'a, E: Env, A: Arena, H: Device, L: Device> HomeWrites<'a, E, A, H, L> {
    pub(super) fn new(inner: &'a Rc<Inner<E, A, H, L>>) -> Self {
        Self { inner, state: Rc::default() }
    }

    /// Begins a write once there is a place for it; after a failure none is begun.
    pub(super) async fn begin(&self, offset: u64, bytes: Outbound) {
        let len = bytes.len();
        self.state.changed.until(|| self.has_place(len).then_some(())).await;
        if self.state.failure.borrow().is_some() {
            return;
        }
        self.state.under_way.set(self.state.under_way.get() + 1);
        self.state.under_way_bytes.set(self.state.under_way_bytes.get() + len);
        let (device, state) = (Rc::clone(&self.inner.home.device), Rc::clone(&self.state));
        self.inner.env.spawn(async move {
            let written = match &bytes {
                Outbound::Nothing => device.discard(Extent::new(offset, PAGE_BYTES)).await,
                bytes => device.write_parts(offset, &bytes.parts(), Durability::Buffered).await,
            };
            if let Err(error) = written {
                state.failure.borrow_mut().get_or_insert(error.into());
            }
            state.under_way.set(state.under_way.get() - 1);
            state.under_way_bytes.set(state.under_way_bytes.get() - len);
            state.changed.all();
        });
    }

    fn has_place(&self, len: u64) -> bool {
        // A ring holds a write until every member had its turn, and lets each have as many at once as are good for it.
        if self.inner.home.device.state().is_some() {
            return true;
        }
        let (writes, bytes) = (self.state.under_way.get(), self.state.under_way_bytes.get());
        let writes_max = self.inner.options.home_writes_max.max(1);
        let bytes_max = self.inner.pace.home_max_bytes(self.inner.env.now_ns(), writes_max);
        writes == 0 || (writes < writes_max && bytes + len <= bytes_max)
    }

    pub(super) async fn all_done(self) -> Result<(), Error> {
        self.state.changed.until(|| (self.state.under_way.get() == 0).then_some(())).await;
        self.state.failure.take().map_or(Ok(()), Err)
    }
}
