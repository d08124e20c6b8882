//! A copy of a volume whose clients go on.
//!
//! 1. A mark is taken off a page before its bytes are looked at: a write beside that marks it anew, and it is copied again.
//! 2. Stretches without contents are passed over, and keep their marks.
//! 3. Beside clients no more is copied in a second than was allowed.

use std::cell::Cell;
use std::fmt;

use super::switched::{Hold, SwitchedVolume, Tracking};
use crate::device::{Durability, Extent};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::PAGE_BYTES;
use crate::join::yield_now;
use crate::layout::{JournalStore, PageStore};
use crate::planted::{Bug, is_planted};
use crate::volume::Volume;

/// Pages that are copied at once.
const PIECE_PAGES: u64 = 256;

/// Bytes of them.
const PIECE_BYTES: u64 = PIECE_PAGES * PAGE_BYTES;

/// Bytes of which it is asked at once whether they have contents.
const ASKED_BYTES: u64 = 16 << 20;

/// Bytes that are left for the time when clients are held, at most but one mark.
const LAST_BYTES: u64 = 1 << 20;

/// Bytes that may change while the new volume takes home what was copied, so that the next time is short.
const SETTLED_BYTES: u64 = 16 << 20;

/// So often that is tried.
const SETTLED_TRIES: usize = 8;

/// How far a copy may be behind its pace and still make up for it.
const BEHIND_MAX_NS: u64 = 100_000_000;

/// Which of the two volumes failed.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The one that clients use.
    #[error("{0}")]
    Old(#[source] Error),
    /// The one that is to take its place.
    #[error("{0}")]
    New(#[source] Error),
}

/// What is being copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyStage {
    /// All that has contents.
    All,
    /// What has changed since it was copied.
    Changed,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// What is being copied.
    pub stage: CopyStage,
    /// Bytes of it that are done.
    pub done_bytes: u64,
    /// Bytes of it in all.
    pub all_bytes: u64,
}

/// A copy under way, from one volume to another: what changes in the first is marked as long as this is there.
pub struct VolumeCopy<E: Env, A: Arena, H: PageStore, L: JournalStore> {
    env: E,
    old: Volume<E, A, H, L>,
    new: Volume<E, A, H, L>,
    tracking: Tracking<Volume<E, A, H, L>>,
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> fmt::Debug for VolumeCopy<E, A, H, L> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("VolumeCopy").field("marked", &self.tracking.marked()).finish_non_exhaustive()
    }
}

/// So many bytes in a second, and no more.
struct Pace<'a, E> {
    env: &'a E,
    bytes_per_s: u64,
    /// When what was copied so far would have been copied at that pace.
    due_ns: Cell<u64>,
}

impl<'a, E: Env> Pace<'a, E> {
    fn new(env: &'a E, bytes_per_s: u64) -> Self {
        Self { env, bytes_per_s: bytes_per_s.max(1), due_ns: Cell::new(env.now_ns()) }
    }

    /// So many pages were copied: lets others have their turn, for as long as that takes.
    async fn keep(&self, pages: u64) {
        let now_ns = self.env.now_ns();
        let takes_ns = u128::from(pages * PAGE_BYTES) * 1_000_000_000 / u128::from(self.bytes_per_s);
        // What was slow is not made up for.
        let due_ns = self.due_ns.get().max(now_ns.saturating_sub(BEHIND_MAX_NS));
        self.due_ns.set(due_ns.saturating_add(u64::try_from(takes_ns).unwrap_or(u64::MAX)));
        match self.due_ns.get().saturating_sub(now_ns) {
            0 => yield_now().await,
            early_ns => self.env.sleep(early_ns).await,
        }
    }
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> VolumeCopy<E, A, H, L> {
    /// Begins to copy the volume behind `switched` to `new`, which is as large and has no contents.
    ///
    /// # Panics
    ///
    /// Where it is not as large, or another copy is under way.
    pub async fn begin(
        env: E,
        switched: &SwitchedVolume<Volume<E, A, H, L>>,
        new: Volume<E, A, H, L>,
    ) -> Self {
        let old = switched.now();
        assert_eq!(old.size_bytes(), new.size_bytes(), "a copy is as large");
        let tracking = switched.track(old.size_bytes()).await;
        Self { env, old, new, tracking }
    }

    /// Copies all that has contents beside clients, no more than so many bytes in a second, until little is left and the new
    /// volume has the rest at home. Answers how many pages had contents.
    ///
    /// # Errors
    ///
    /// Those of either volume.
    pub async fn copy(&self, bytes_per_s: u64, progress: &impl Fn(CopyProgress)) -> Result<u64, CopyError> {
        let pace = Pace::new(&self.env, bytes_per_s);
        let pages = self.all(&pace, progress).await?;
        let left = LAST_BYTES / self.tracking.mark_bytes();
        for _ in 0..SETTLED_TRIES {
            self.changed(left, Some(&pace), progress).await?;
            self.new.checkpoint().await.map_err(CopyError::New)?;
            // The less is taken home at a time, the less changes meanwhile.
            if self.tracking.marked() * self.tracking.mark_bytes() <= SETTLED_BYTES {
                break;
            }
        }
        self.changed(left, Some(&pace), progress).await?;
        Ok(pages)
    }

    /// Copies what is left while clients are held: the new volume has every byte of the old one then.
    ///
    /// # Errors
    ///
    /// Those of either volume.
    pub async fn finish(
        &self,
        _nothing_is_written: &Hold<Volume<E, A, H, L>>,
        progress: &impl Fn(CopyProgress),
    ) -> Result<(), CopyError> {
        if is_planted(Bug::ConversionLeavesTheLast) {
            return Ok(());
        }
        self.changed(0, None, progress).await
    }

    async fn all(&self, pace: &Pace<'_, E>, progress: &impl Fn(CopyProgress)) -> Result<u64, CopyError> {
        let (size_bytes, mark_bytes) = (self.old.size_bytes(), self.tracking.mark_bytes());
        // Up to where all is known to have contents.
        let (mut offset, mut full_until, mut pages) = (0, 0, 0);
        while offset < size_bytes {
            let mut copied = 0;
            if offset >= full_until {
                let (has_contents, end) =
                    self.allocation(offset, size_bytes.min(offset + ASKED_BYTES)).await?;
                if has_contents { full_until = end } else { offset = end }
            }
            if offset < full_until {
                // Marks are taken off whole.
                let end = (offset + PIECE_BYTES.max(mark_bytes)) / mark_bytes * mark_bytes;
                let piece = Extent::new(offset, end.min(size_bytes) - offset);
                self.tracking.take_all_of(piece);
                copied = self.piece(piece, false).await?;
                if is_planted(Bug::ConversionUnmarksBehind) {
                    self.tracking.take_all_of(piece);
                }
                offset = piece.end();
            }
            pages += copied;
            progress(CopyProgress { stage: CopyStage::All, done_bytes: offset, all_bytes: size_bytes });
            pace.keep(copied).await;
        }
        Ok(pages)
    }

    /// Copies what has changed until no more than so many marks are left: every two that are copied let one come.
    async fn changed(
        &self,
        left: u64,
        pace: Option<&Pace<'_, E>>,
        progress: &impl Fn(CopyProgress),
    ) -> Result<(), CopyError> {
        let (mut offset, mut bound) = (0, self.tracking.marked());
        let all = bound;
        while self.tracking.marked() > left {
            let before = self.tracking.marked();
            let Some(piece) = self.tracking.take(offset, PIECE_BYTES) else { break };
            bound = bound.saturating_sub(before.saturating_sub(self.tracking.marked()).div_ceil(2));
            self.tracking.bound(bound.max(left));
            let copied = self.piece(piece, true).await?;
            offset = piece.end();
            let (done, mark_bytes) = (all.saturating_sub(self.tracking.marked()), self.tracking.mark_bytes());
            let (done_bytes, all_bytes) = (done * mark_bytes, all * mark_bytes);
            progress(CopyProgress { stage: CopyStage::Changed, done_bytes, all_bytes });
            if let Some(pace) = pace {
                pace.keep(copied).await;
            }
        }
        self.tracking.bound(u64::MAX);
        Ok(())
    }

    /// Whether the page at `offset` has contents, and where the pages end that are like it.
    async fn allocation(&self, offset: u64, end: u64) -> Result<(bool, u64), CopyError> {
        let (page, pages_max) = (offset / PAGE_BYTES, (end - offset) / PAGE_BYTES);
        let told = self.old.allocation(page, pages_max).await;
        told.map(|(has_contents, pages)| (has_contents, offset + pages * PAGE_BYTES)).map_err(CopyError::Old)
    }

    /// Copies the pages of a piece that have contents; answers how many. Where it was copied `before`, what has none is zeroed.
    async fn piece(&self, piece: Extent, before: bool) -> Result<u64, CopyError> {
        let (mut offset, mut copied, mut buffer) = (piece.offset, 0, Vec::new());
        while offset < piece.end() {
            let end_max = piece.end().min(offset + PIECE_BYTES);
            let (has_contents, end) = self.allocation(offset, end_max).await?;
            let run = Extent::new(offset, end - offset);
            if has_contents {
                buffer.resize(run.len as usize, 0);
                self.old.read(run.offset, &mut buffer).await.map_err(CopyError::Old)?;
                self.new.write(run.offset, &buffer, Durability::Buffered).await.map_err(CopyError::New)?;
                copied += run.len / PAGE_BYTES;
            } else if before && !is_planted(Bug::ConversionLeavesZeroed) {
                self.new.write_zeroes(run, Durability::Buffered).await.map_err(CopyError::New)?;
            }
            offset = end;
        }
        Ok(copied)
    }
}
