//! How a volume is made, and how it is run.

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

/// What may differ from one opening to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenOptions {
    /// Which bytes go through the log.
    pub journaling: Journaling,
    /// Largest commit record, in bytes.
    pub batch_max_bytes: usize,
    /// Commit records that may be under way at once, where the log's drive is so slow that it pays.
    pub commits_in_flight_max: usize,
    /// Writes of a checkpoint to the home device that may be under way at once.
    pub home_writes_max: usize,
    /// Pages in memory, dirty ones included, as long as clean ones can make room for others. An eighth as many hold
    /// the table of their sums besides.
    pub cached_pages_max: usize,
    /// Of them, those that may wait for a checkpoint, and again as many that it is writing; the log may allow fewer.
    pub dirty_pages_max: usize,
}

impl OpenOptions {
    /// The same with no more than so many pages in memory, whatever they are there for.
    #[must_use]
    pub fn with_pages_max(self, pages_max: usize) -> Self {
        let dirty_pages_max = crate::home::dirty_pages_max(pages_max).min(self.dirty_pages_max);
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
        }
    }
}
