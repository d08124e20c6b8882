//! Pages that are written before anything points to them: straight home, whatever the drives promise.
//!
//! 1. Whoever writes them needs nothing of what they hold. So on drives that need images the log says first that they are
//!    empty, if they are not, and then no image is needed: a cut leaves of each page nothing, or all that was written.
//! 2. What cannot go straight home goes through the log.
//! 3. Small writes go first: what is written here is given to the drive little by little while those come.

use std::rc::Rc;

use super::direct::Pages;
use super::{Inner, Volume};
use crate::buffer::queue::Lane;
use crate::counters::add;
use crate::device::Extent;
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::{PAGE, PAGE_BYTES};
use crate::layout::{JournalStore, PageStore};
use crate::options::Journaling;

/// Pages that are written with one intent.
const FRESH_PAGES_MAX: usize = 2048;

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// Writes whole pages from `offset` on, durably, of which nobody needs what they hold: until it is done, a cut may leave
    /// of each sector what it held, zeros, or what is written. Nobody else writes there meanwhile. With
    /// [`Journaling::Selective`] they do not pass through the log, where the layout can do that.
    ///
    /// # Errors
    ///
    /// [`Error::OutOfRange`], also where a page is not whole; as [`Self::write`].
    pub async fn write_fresh(&self, offset: u64, pages: &[&[u8]]) -> Result<(), Error> {
        let inner = &self.0;
        let bytes = pages.iter().map(|part| part.len() as u64).sum();
        inner.check_range(offset, bytes)?;
        if !offset.is_multiple_of(PAGE_BYTES) || pages.iter().any(|part| !part.len().is_multiple_of(PAGE)) {
            return Err(Error::OutOfRange);
        }
        inner.check_alive()?;
        add(&inner.counters.writes, 1);
        add(&inner.counters.user_bytes, bytes);
        inner.admit(bytes).await;
        let pages_max = (inner.admission.limits.get().dirty_pages_max / 2).clamp(1, FRESH_PAGES_MAX);
        let (mut at, mut rest) = (offset, pages);
        while !rest.is_empty() {
            let (mut count, mut len) = (0, 0);
            while count < rest.len() && (count == 0 || len + rest[count].len() <= pages_max * PAGE) {
                len += rest[count].len();
                count += 1;
            }
            let piece;
            (piece, rest) = rest.split_at(count);
            inner.write_fresh_piece(&Pages { first: at / PAGE_BYTES, parts: piece, are_fresh: true }).await?;
            at += len as u64;
        }
        Ok(())
    }
}

/// Whether pages of which nobody needs the contents ever go straight home, where the log has room for it.
pub(super) fn may_take_fresh<H: PageStore>(home: &H, journaling: Journaling) -> bool {
    matches!(journaling, Journaling::Selective { .. }) && !home.traits().defers_writes
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    async fn write_fresh_piece(self: &Rc<Self>, pages: &Pages<'_>) -> Result<(), Error> {
        let extent = pages.extent();
        if self.takes_fresh(&extent) {
            let hold = self.hold(extent).await?;
            let is_home = self.write_held(pages).await?;
            drop(hold);
            if is_home {
                return Ok(());
            }
        }
        self.write_buffered(extent.offset, &pages.parts.concat()).await?;
        let wanted = self.buffer.borrow_mut().want_in(Lane::Bulk, &[extent]);
        self.pump_soon();
        self.wait_durable(wanted).await
    }

    fn takes_fresh(&self, extent: &Extent) -> bool {
        extent.len >= self.direct_min_bytes()
            && self.takes_fresh_pages()
            && extent.len <= self.direct_max_bytes()
    }

    /// Whether pages of which nobody needs the contents may go straight home.
    pub(super) fn takes_fresh_pages(&self) -> bool {
        let limits = self.admission.limits.get();
        (!limits.needs_images || limits.takes_fresh)
            && may_take_fresh(&*self.home.device, self.options.journaling)
    }
}
