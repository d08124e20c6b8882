//! A member of a ring with stripes is made whole: its rows are computed from what others hold.
//!
//! 1. Those of one stripe are copied at once, and those of several side by side.
//! 2. What is copied and what the others hold is one version ([`super::striping`]): where it is not, the rows are mended before.
//! 3. A row that nobody can compute is counted, and passed over.

use std::cell::Cell;
use std::rc::Rc;

use super::MirrorPages;
use super::rebuild::{PAUSE_NS, TRIES};
use super::striping::Striping;
use crate::device::{Drive, Extent};
use crate::env::Env;
use crate::error::DeviceError;
use crate::format::{PAGE, PAGE_BYTES};
use crate::join;
use crate::planted::{Bug, is_planted};
use crate::ring::RebuildFound;

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
        join::all(striping.stripes.rows_by_stripe(rows).map(|rows| {
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
        while !self.try_copy_rows(striping, place, device, rows, spoiled).await? {
            spoiled += 1;
        }
        Ok(())
    }

    /// Copies rows of one stripe that were `spoiled` so often; false where a write came meanwhile.
    async fn try_copy_rows(
        &self,
        striping: &Striping,
        place: usize,
        device: &Rc<M>,
        rows: Extent,
        spoiled: usize,
    ) -> Result<bool, DeviceError> {
        let stripe = striping.stripes.stripe_on_member(rows.offset);
        let is_parity = striping.stripes.shard_on(stripe, place).number >= striping.stripes.data();
        if is_parity && is_planted(Bug::StripesRebuildStale) {
            return Ok(true);
        }
        let mut bytes = vec![0; rows.len as usize];
        let mut is_mended = false;
        for _ in 0..TRIES {
            let copy = self.0.copies.copy(rows, spoiled).await;
            if let Ok(wrong) = self.0.compute_member(striping, place, rows, &mut bytes).await {
                if is_mended || self.0.is_one_version(striping, place, rows, &bytes).await {
                    let mut found = RebuildFound::default();
                    for row in wrong {
                        found.damaged_pages += self.0.damaged_pages(striping, row).await;
                    }
                    let is_copied = self.copy_to(place, device, &copy, &bytes).await?;
                    if is_copied {
                        self.found(place, found);
                    }
                    return Ok(is_copied);
                }
                if copy.is_spoiled() {
                    // Somebody wrote there meanwhile: some had that, and others not yet.
                    return Ok(false);
                }
            }
            drop(copy);
            self.0.ring.check_alive()?;
            is_mended = self.0.mend_rows(striping, rows).await.is_ok();
            if !is_mended {
                self.0.ring.rest_at_work(PAUSE_NS).await;
            }
            self.check_rebuilds(place, device)?;
        }
        if rows.len <= PAGE_BYTES {
            self.found(place, RebuildFound { damaged_pages: 1, ..RebuildFound::default() });
            return Ok(true);
        }
        for offset in (rows.offset..rows.end()).step_by(PAGE) {
            let row = Extent::new(offset, PAGE_BYTES);
            Box::pin(self.copy_rows_of_stripe(striping, place, device, row)).await?;
        }
        Ok(true)
    }
}
