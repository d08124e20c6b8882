//! A member of a ring with stripes is made whole: its rows are computed from what others hold.
//!
//! 1. Those of one stripe are copied at once, and those of several side by side.
//! 2. What is copied and what the others hold is one version ([`super::striping`]): where it is not, each row is copied by itself,
//!    and mended before if it is apart.
//! 3. A row that nobody can compute is counted, and passed over.

use std::cell::Cell;
use std::rc::Rc;

use super::MirrorPages;
use super::rebuild::{PAUSE_NS, TRIES};
use super::striping::{SPAN_MAX_BYTES, Striping};
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::planted::{Bug, is_planted};
use crate::ring::RebuildFound;

/// Copies rows to one member.
pub(super) struct RowsCopy<'a, E, M> {
    pub(super) pages: &'a MirrorPages<E, M>,
    pub(super) striping: &'a Striping,
    /// The member's place, and the device that it has.
    pub(super) place: usize,
    pub(super) device: &'a Rc<M>,
}

/// What came of copying rows.
enum Tried {
    /// They are there.
    Copied,
    /// A write came meanwhile.
    Spoiled,
    /// They cannot be computed, or are not one version.
    Apart,
}

impl<E: Env, M: Drive> RowsCopy<'_, E, M> {
    /// Copies these rows.
    pub(super) async fn copy(&self, rows: Extent) -> Result<(), DeviceError> {
        let failure = Cell::new(None);
        join::all(self.striping.stripes.rows_by_stripe(rows, SPAN_MAX_BYTES).map(|rows| {
            let failure = &failure;
            async move {
                if let Err(error) = self.copy_of_stripe(rows).await {
                    failure.set(Some(error));
                }
            }
        }))
        .await;
        failure.take().map_or(Ok(()), Err)
    }

    async fn copy_of_stripe(&self, rows: Extent) -> Result<(), DeviceError> {
        let mut spoiled = 0;
        loop {
            match self.try_copy(rows, spoiled, false).await? {
                Tried::Copied => return Ok(()),
                Tried::Spoiled => spoiled += 1,
                Tried::Apart => break,
            }
        }
        for offset in (rows.offset..rows.end()).step_by(PAGE) {
            self.copy_row(Extent::new(offset, PAGE_BYTES)).await?;
        }
        Ok(())
    }

    /// Copies one row, which is mended where that is needed.
    async fn copy_row(&self, row: Extent) -> Result<(), DeviceError> {
        let inner = &self.pages.0;
        let (mut spoiled, mut left, mut is_mended) = (0, TRIES, false);
        while left > 0 {
            match self.try_copy(row, spoiled, is_mended).await? {
                Tried::Copied => return Ok(()),
                Tried::Spoiled => (spoiled, left, is_mended) = (spoiled + 1, TRIES, false),
                Tried::Apart => {
                    inner.ring.check_alive()?;
                    is_mended = inner.mend_rows(self.striping, row).await.is_ok();
                    if !is_mended {
                        inner.ring.rest_at_work(PAUSE_NS).await;
                    }
                    self.pages.check_rebuilds(self.place, self.device)?;
                    left -= 1;
                }
            }
        }
        self.pages.found(self.place, RebuildFound { damaged_pages: 1, ..RebuildFound::default() });
        Ok(())
    }

    /// Copies rows of one stripe that were `spoiled` so often, and are one version if they were mended.
    async fn try_copy(&self, rows: Extent, spoiled: usize, is_mended: bool) -> Result<Tried, DeviceError> {
        let (inner, striping, place) = (&self.pages.0, self.striping, self.place);
        let stripe = striping.stripes.stripe_on_member(rows.offset);
        let is_parity = striping.stripes.shard_on(stripe, place).number >= striping.stripes.data();
        if is_parity && is_planted(Bug::StripesRebuildStale) {
            return Ok(Tried::Copied);
        }
        let mut bytes = vec![0; rows.len as usize];
        let copy = inner.copies.copy(rows, spoiled).await;
        let Ok(wrong) = inner.compute_member(striping, place, rows, &mut bytes).await else {
            return Ok(Tried::Apart);
        };
        if !is_mended && !inner.is_one_version(striping, place, rows, &bytes).await {
            // Where somebody wrote there meanwhile, some had that, and others not yet.
            return Ok(if copy.is_spoiled() { Tried::Spoiled } else { Tried::Apart });
        }
        let mut found = RebuildFound::default();
        for row in wrong {
            found.damaged_pages += inner.damaged_pages(striping, row).await;
        }
        if !self.pages.copy_to(place, self.device, &copy, &bytes).await? {
            return Ok(Tried::Spoiled);
        }
        self.pages.found(place, found);
        Ok(Tried::Copied)
    }
}
