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

/// What came of copying rows.
enum Tried {
    /// They are there.
    Copied,
    /// A write came meanwhile.
    Spoiled,
    /// They cannot be computed, or are not one version.
    Apart,
}

impl<E: Env, M: Drive> MirrorPages<E, M> {
    /// Copies these rows to the member at `place`.
    pub(super) async fn copy_rows(
        &self,
        striping: &Striping,
        place: usize,
        device: &Rc<M>,
        rows: Extent,
    ) -> Result<(), DeviceError> {
        let failure = Cell::new(None);
        join::all(striping.stripes.rows_by_stripe(rows, SPAN_MAX_BYTES).map(|rows| {
            let failure = &failure;
            async move {
                if let Err(error) = self.copy_rows_of_stripe(striping, place, device, rows).await {
                    failure.set(Some(error));
                }
            }
        }))
        .await;
        failure.take().map_or(Ok(()), Err)
    }

    async fn copy_rows_of_stripe(
        &self,
        striping: &Striping,
        place: usize,
        device: &Rc<M>,
        rows: Extent,
    ) -> Result<(), DeviceError> {
        let mut spoiled = 0;
        loop {
            match self.try_copy(striping, place, device, rows, (spoiled, false)).await? {
                Tried::Copied => return Ok(()),
                Tried::Spoiled => spoiled += 1,
                Tried::Apart => break,
            }
        }
        for offset in (rows.offset..rows.end()).step_by(PAGE) {
            self.copy_row(striping, place, device, Extent::new(offset, PAGE_BYTES)).await?;
        }
        Ok(())
    }

    /// Copies one row, which is mended where that is needed.
    async fn copy_row(
        &self,
        striping: &Striping,
        place: usize,
        device: &Rc<M>,
        row: Extent,
    ) -> Result<(), DeviceError> {
        let (mut spoiled, mut left, mut is_mended) = (0, TRIES, false);
        while left > 0 {
            match self.try_copy(striping, place, device, row, (spoiled, is_mended)).await? {
                Tried::Copied => return Ok(()),
                Tried::Spoiled => (spoiled, left, is_mended) = (spoiled + 1, TRIES, false),
                Tried::Apart => {
                    self.0.ring.check_alive()?;
                    is_mended = self.0.mend_rows(striping, row).await.is_ok();
                    if !is_mended {
                        self.0.ring.rest_at_work(PAUSE_NS).await;
                    }
                    self.check_rebuilds(place, device)?;
                    left -= 1;
                }
            }
        }
        self.found(place, RebuildFound { damaged_pages: 1, ..RebuildFound::default() });
        Ok(())
    }

    /// Copies rows of one stripe that were `spoiled` so often, and are one version if they were mended.
    async fn try_copy(
        &self,
        striping: &Striping,
        place: usize,
        device: &Rc<M>,
        rows: Extent,
        (spoiled, is_mended): (usize, bool),
    ) -> Result<Tried, DeviceError> {
        let stripe = striping.stripes.stripe_on_member(rows.offset);
        let is_parity = striping.stripes.shard_on(stripe, place).number >= striping.stripes.data();
        if is_parity && is_planted(Bug::StripesRebuildStale) {
            return Ok(Tried::Copied);
        }
        let mut bytes = vec![0; rows.len as usize];
        let copy = self.0.copies.copy(rows, spoiled).await;
        let Ok(wrong) = self.0.compute_member(striping, place, rows, &mut bytes).await else {
            return Ok(Tried::Apart);
        };
        if !is_mended && !self.0.is_one_version(striping, place, rows, &bytes).await {
            // Where somebody wrote there meanwhile, some had that, and others not yet.
            return Ok(if copy.is_spoiled() { Tried::Spoiled } else { Tried::Apart });
        }
        let mut found = RebuildFound::default();
        for row in wrong {
            found.damaged_pages += self.0.damaged_pages(striping, row).await;
        }
        if !self.copy_to(place, device, &copy, &bytes).await? {
            return Ok(Tried::Spoiled);
        }
        self.found(place, found);
        Ok(Tried::Copied)
    }
}
