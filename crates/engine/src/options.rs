//! How a volume is made, and how it is run.

use crate::format::record::RECORD_BYTES_MAX;

/// Pages read from the device at once.
pub(crate) const READ_PAGES_MAX: u64 = 64;

/// Fewest pages kept: half of them must hold what one operation loads.
pub(crate) const CACHED_PAGES_MIN: usize = 16;

/// Pages of the table of sums that stay in memory unless told otherwise: each speaks of 512 pages, so an eighth of the
/// cache's size is the sums of 64 times what the cache holds.
pub(crate) fn table_pages_max(cached_pages_max: usize) -> usize {
    (cached_pages_max / 8).max(CACHED_PAGES_MIN)
}

/// Clean pages that stay whatever others need: what is loaded together is together.
pub(crate) fn clean_min(cached_pages_max: usize) -> usize {
    cached_pages_max.min(2 * READ_PAGES_MAX as usize)
}

/// Pages that may be dirty, and as many that go home meanwhile, for all pages to be no more than `pages_max`.
fn dirty_pages_max(pages_max: usize) -> usize {
    (pages_max - clean_min(pages_max)) / 2
}

/// Which bytes go through the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Journaling {
    /// Every write, as the bytes that changed.
    Wasteless,
    /// As wasteless below `threshold_bytes`; writes at or above it go straight home.
    Selective {
        /// At least the volume's largest atomic write.
        threshold_bytes: u64,
    },
    /// Every write, as whole pages: the baseline of data journaling.
    WholePages,
    /// Every write straight home, as whole pages, with only its metadata in the log: the baseline of ordered
    /// journaling.
    Ordered,
}

/// What is fixed when a volume is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CreateOptions {
    /// Bytes that the volume offers: whole pages.
    pub size_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Largest write that is one commit.
    pub atomic_max_bytes: u64,
}

/// In what portions the engine works: how much it does, says or keeps at once. Nobody has to choose them. A simulation
/// does, so that a small volume has all the seams of a large one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tuning {
    /// Bytes that a flush or a commit may ask for at once and count as little; who wants little does not wait for who
    /// wants much.
    pub small_max_bytes: u64,
    /// Writes of one page that each flush of it looks at anew, though they are on their way already.
    pub rescanned_max: usize,
    /// Writes of one page from which on those are looked for that newer ones have overwritten between them; at least 2.
    pub crowded_min: usize,
    /// Pages that a checkpoint sums, or gives back, before others have their turn; at least 1.
    pub turn_pages_max: usize,
    /// Bytes of a record in which a checkpoint says what it is about to write. An opening must not be given fewer than
    /// the one before it, or the log may be too small for what that one let in.
    pub announced_max_bytes: usize,
    /// Pages that a checkpoint writes home at once; at least 1.
    pub home_write_pages_max: usize,
    /// Pages that have to come home before a checkpoint that is under way gives the room of their records back, where each
    /// drive has its turn; at least 1. In a large log a 24th of its room has to.
    pub homecoming_pages_min: usize,
    /// Neighbouring pages without contents that a checkpoint gives back at once; at least 1.
    pub discard_pages_max: u64,
    /// Bytes in a commit that nobody may be waiting for, while small writes come; at least 1.
    pub shared_bulk_max_bytes: usize,
    /// Bytes on their way home at once, while small writes come.
    pub shared_home_max_bytes: u64,
    /// Bytes of large writes that have to be under way at once before one to pages without contents goes straight home on drives
    /// that need images; more where a durable record takes long.
    pub bulk_min_bytes: u64,
    /// Pages of the longest read that stays in memory.
    pub kept_pages_max: u64,
    /// Whether the system keeps in memory what longer reads bring. It need not where whoever asks keeps that himself, as a
    /// kernel does of files: there it would lie in memory twice, and be copied twice.
    pub system_keeps_long_reads: bool,
    /// Pages of the table of sums that stay in memory though nobody needs them now, at least 1; `None` for an eighth of
    /// the cached pages.
    pub table_pages_max: Option<usize>,
}

impl Tuning {
    /// The same, with none beyond its bounds.
    pub(crate) fn sound(self) -> Self {
        Self {
            crowded_min: self.crowded_min.max(2),
            turn_pages_max: self.turn_pages_max.max(1),
            announced_max_bytes: self.announced_max_bytes.min(RECORD_BYTES_MAX / 4),
            home_write_pages_max: self.home_write_pages_max.max(1),
            homecoming_pages_min: self.homecoming_pages_min.max(1),
            discard_pages_max: self.discard_pages_max.max(1),
            shared_bulk_max_bytes: self.shared_bulk_max_bytes.max(1),
            ..self
        }
    }
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            small_max_bytes: 64 << 10,
            rescanned_max: 64,
            crowded_min: 32,
            // A few tens of microseconds.
            turn_pages_max: 128,
            announced_max_bytes: 128 << 10,
            home_write_pages_max: 64,
            homecoming_pages_min: 512,
            // 16 MiB: few enough discards, and none that keeps a drive for long.
            discard_pages_max: 4096,
            shared_bulk_max_bytes: 192 << 10,
            shared_home_max_bytes: 256 << 10,
            bulk_min_bytes: 4 << 20,
            kept_pages_max: 8,
            system_keeps_long_reads: true,
            table_pages_max: None,
        }
    }
}

/// What may differ from one opening to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Which bytes go through the log.
    pub journaling: Journaling,
    /// Largest commit record, in bytes, where it carries more than one write.
    pub batch_max_bytes: usize,
    /// Commit records that may be under way at once, where the log's drive is so slow that it pays.
    pub commits_in_flight_max: usize,
    /// Writes of a checkpoint to the home device that may be under way at once.
    pub home_writes_max: usize,
    /// Pages in memory, dirty ones included, as long as clean ones can make room for others. An eighth as many hold
    /// the table of their sums besides, unless [`Tuning`] says otherwise.
    pub cached_pages_max: usize,
    /// Of them, those that may wait for a checkpoint, and again as many that it is writing; the log may allow fewer.
    pub dirty_pages_max: usize,
    /// In what portions it works.
    pub tuning: Tuning,
}

impl OpenOptions {
    /// The same with no more than so many pages in memory, whatever they are there for.
    #[must_use]
    pub fn with_pages_max(self, pages_max: usize) -> Self {
        let dirty_pages_max = dirty_pages_max(pages_max).min(self.dirty_pages_max);
        Self { cached_pages_max: pages_max, dirty_pages_max, ..self }
    }
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            journaling: Journaling::Wasteless,
            batch_max_bytes: 256 << 10,
            commits_in_flight_max: 16,
            home_writes_max: 16,
            cached_pages_max: 4096,
            dirty_pages_max: 16_384,
            tuning: Tuning::default(),
        }
    }
}
