//! Commits of scattered ranges: one unit of the buffer, so one record of the log holds all of it or none.

use super::{Inner, Volume};
use crate::buffer::pages_of;
use crate::buffer::queue::{Lane, Tickets};
use crate::counters::add;
use crate::device::Extent;
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::unit::{Content, UnitExtent};
use crate::layout::{JournalStore, PageStore};
use crate::planted::{Bug, is_planted};

/// What one range of a commit becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change<'a> {
    /// These bytes.
    Write {
        /// First byte on the volume.
        offset: u64,
        /// What is there from then on.
        bytes: &'a [u8],
    },
    /// Zeros, which take no room in the log.
    Zero(Extent),
}

impl Change<'_> {
    /// The range.
    pub fn extent(&self) -> Extent {
        match *self {
            Self::Write { offset, bytes } => Extent::new(offset, bytes.len() as u64),
            Self::Zero(extent) => extent,
        }
    }

    fn content(&self) -> Content {
        match self {
            Self::Write { .. } => Content::Data,
            Self::Zero(_) => Content::Zero,
        }
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Volume<E, A, H, L> {
    /// Writes all of `ranges`, at once and durably: after a cut all of it is there or none. Where two of them overlap, the
    /// later one holds.
    ///
    /// # Errors
    ///
    /// As [`Self::commit_changes`].
    pub async fn commit(&self, ranges: &[(u64, &[u8])]) -> Result<(), Error> {
        let changes: Vec<_> = ranges.iter().map(|&(offset, bytes)| Change::Write { offset, bytes }).collect();
        self.commit_changes(&changes).await
    }

    /// Makes all of `changes`, at once and durably: after a cut all of them are there or none. Where two of them overlap,
    /// the later one holds.
    ///
    /// # Errors
    ///
    /// As [`Self::write`]; [`Error::TooLarge`] beyond [`Self::commit_max_bytes`] or [`Self::commit_pages_max`].
    pub async fn commit_changes(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        self.commit_as(changes, false).await
    }

    /// As [`Self::commit_changes`], where nobody is held up: where no small writes come, this is none that large ones give
    /// way to from then on.
    ///
    /// # Errors
    ///
    /// As [`Self::commit_changes`].
    pub async fn commit_in_background(&self, changes: &[Change<'_>]) -> Result<(), Error> {
        self.commit_as(changes, true).await
    }

    /// Waits about as long as a small write takes, where such writes come: whoever can wait may go with them. False at once
    /// where none are to be expected.
    pub async fn wait_beside_small_writes(&self) -> bool {
        let (env, pace) = (&self.0.env, &self.0.write_back.pace);
        if !pace.is_shared(env.now_ns()) {
            return false;
        }
        env.sleep(pace.small_write_ns()).await;
        true
    }

    async fn commit_as(&self, changes: &[Change<'_>], is_in_background: bool) -> Result<(), Error> {
        let inner = &self.0;
        inner.check_alive()?;
        let (mut extents, mut bytes) = (Vec::new(), Vec::new());
        for change in changes.iter().filter(|change| change.extent().len > 0) {
            let Extent { offset, len } = change.extent();
            inner.check_range(offset, len)?;
            extents.push(UnitExtent { offset, len, content: change.content() });
            if let Change::Write { bytes: part, .. } = change {
                bytes.push(*part);
            }
        }
        if extents.is_empty() {
            return Ok(());
        }
        let sizing = inner.begin_sizing();
        let payload_bytes: usize = bytes.iter().map(|part| part.len()).sum();
        let pages: usize =
            extents.iter().map(|part| pages_of(&Extent::new(part.offset, part.len)).count()).sum();
        let is_too_large = payload_bytes + extents.len() * 64 > inner.unit_max_bytes();
        if is_too_large || pages > inner.admission.allowed.get().commit_pages_max() {
            return Err(Error::TooLarge { max_bytes: inner.unit_max_bytes() as u64 });
        }
        add(&inner.counters.writes, 1);
        add(&inner.counters.user_bytes, payload_bytes as u64);
        inner.admit(payload_bytes as u64).await;
        if is_planted(Bug::CommitSplit) && bytes.len() == extents.len() {
            for (extent, part) in extents.iter().zip(&bytes).skip(1) {
                inner.buffer_unit(&[*extent], &[*part]).await?;
            }
            let rest = extents[1..].iter().map(|part| Extent::new(part.offset, part.len)).collect::<Vec<_>>();
            inner.make_durable(&rest).await?;
            extents.truncate(1);
            bytes.truncate(1);
        }
        let sequence = inner.buffer_unit(&extents, &bytes).await?;
        drop(sizing);
        if is_planted(Bug::CommitUnawaited) {
            return Ok(());
        }
        let lane = match is_in_background && !inner.write_back.pace.is_shared(inner.env.now_ns()) {
            true => Lane::Bulk,
            false => Lane::for_bytes(payload_bytes as u64, inner.options.tuning.small_max_bytes),
        };
        let ticket = inner.buffer.borrow_mut().want_unit(sequence, lane);
        let wanted = ticket.map_or_else(Tickets::default, |ticket| Tickets::default().and(ticket));
        Inner::pump_soon(inner);
        inner.wait_durable(wanted).await
    }
}
