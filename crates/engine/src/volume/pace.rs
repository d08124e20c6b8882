//! How much may be under way for those who can wait, beside those who cannot.
//!
//! A drive serves what it was given first. While small durable writes come, no more than a little of what is large
//! (bulk commits, pages on their way home) is given to it at once, so that a small one finds a short queue. When none
//! come, large ones take what the drive has.
//!
//! What is little depends on the drive. One with an arm goes to the pages and back to the log for each little, and would do
//! little else: where a record alone takes long, a little is as much longer.

use std::cell::Cell;

use crate::format::PAGE_BYTES;
use crate::options::Tuning;

/// How long after a small write the next one is expected.
const EXPECTED_FOR_NS: u64 = 20_000_000;

/// A record that takes this long by itself asks for no more than what is little at least.
const QUICK_NS: u64 = 1_000_000;

/// Records over which the moving mean goes, about.
const MEAN_OVER: u64 = 8;

/// Portions of one large write at once, where no small writes come.
const PORTIONS: usize = 8;

/// How long a small write takes at least, from its client and back: what lies between two records.
const SMALL_WRITE_MIN_NS: u64 = 1_000_000;

/// When the last small write came, and how slow the drive is.
#[derive(Debug)]
pub(super) struct Pace {
    small_until_ns: Cell<u64>,
    /// How long a record takes beside which nothing goes home, as a moving mean.
    record_ns: Cell<u64>,
    /// Writes home that are under way, and those that ever were.
    home_under_way: Cell<usize>,
    home_begun: Cell<u64>,
    /// How long a page of a portion takes, as a moving mean of portions of which one was under way at a time; 0 unknown.
    portion_page_ns: Cell<u64>,
    tuning: Tuning,
}

/// When nothing was on its way home.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Quiet(u64);

impl Pace {
    /// None came yet.
    pub(super) fn new(tuning: Tuning) -> Self {
        Self {
            small_until_ns: Cell::default(),
            record_ns: Cell::default(),
            home_under_way: Cell::default(),
            home_begun: Cell::default(),
            portion_page_ns: Cell::default(),
            tuning,
        }
    }

    /// A write home begins.
    pub(super) fn begin_home(&self) {
        self.home_under_way.set(self.home_under_way.get() + 1);
        self.home_begun.set(self.home_begun.get() + 1);
    }

    /// One of them ended.
    pub(super) fn end_home(&self) {
        self.home_under_way.set(self.home_under_way.get() - 1);
    }

    /// Now, if nothing is on its way home.
    pub(super) fn quiet(&self) -> Option<Quiet> {
        (self.home_under_way.get() == 0).then_some(Quiet(self.home_begun.get()))
    }

    /// Whether nothing was on its way home since `began`.
    pub(super) fn has_been_quiet(&self, began: Option<Quiet>) -> bool {
        began.is_some() && began == self.quiet()
    }

    /// A record took so long that was begun at `began`. It says nothing of the drive where something went home meanwhile.
    pub(super) fn note_record(&self, began: Option<Quiet>, took_ns: u64) {
        if self.has_been_quiet(began) {
            self.record_ns.set((self.record_ns.get() * (MEAN_OVER - 1) + took_ns) / MEAN_OVER);
        }
    }

    /// Bytes on their way home that are little.
    fn shared_home_max_bytes(&self) -> u64 {
        let times = (self.record_ns.get() / QUICK_NS).max(1);
        self.tuning.shared_home_max_bytes.saturating_mul(times)
    }

    /// A small write is committed now.
    pub(super) fn note_small(&self, now_ns: u64) {
        self.small_until_ns.set(now_ns.saturating_add(EXPECTED_FOR_NS));
    }

    /// Whether small writes are to be expected.
    pub(super) fn is_shared(&self, now_ns: u64) -> bool {
        now_ns < self.small_until_ns.get()
    }

    /// Bytes of bulk that a record of up to `record_max_bytes` may carry.
    pub(super) fn bulk_max_bytes(&self, now_ns: u64, record_max_bytes: usize) -> usize {
        let shared_max_bytes = self.tuning.shared_bulk_max_bytes;
        if self.is_shared(now_ns) { record_max_bytes.min(shared_max_bytes) } else { record_max_bytes }
    }

    /// Bytes that direct writes may take home at once: their writers wait for them, so that they are few by themselves.
    pub(super) fn direct_max_bytes(&self, now_ns: u64) -> u64 {
        if self.is_shared(now_ns) { self.shared_home_max_bytes() } else { u64::MAX }
    }

    /// How a large write whose writer can wait is given to the drive: bytes of a portion, and how many of them at once.
    /// Beside small writes a portion is a quarter of what is little, or more where the drive takes more in the time of a
    /// record.
    pub(super) fn portions(&self, now_ns: u64) -> (u64, usize) {
        let unshared = (self.tuning.home_write_pages_max as u64).saturating_mul(PAGE_BYTES);
        if !self.is_shared(now_ns) {
            return (unshared, PORTIONS);
        }
        let least = self.shared_home_max_bytes() / 4;
        let pages = self.record_ns.get().checked_div(self.portion_page_ns.get()).unwrap_or(0);
        (pages.saturating_mul(PAGE_BYTES).min(unshared).max(least), 1)
    }

    /// A portion that was alone took so long.
    pub(super) fn note_portion(&self, pages: u64, took_ns: u64) {
        let Some(page_ns) = took_ns.checked_div(pages) else { return };
        let mean_ns = match self.portion_page_ns.get() {
            0 => page_ns,
            mean_ns => (mean_ns * (MEAN_OVER - 1) + page_ns) / MEAN_OVER,
        };
        self.portion_page_ns.set(mean_ns.max(1));
    }

    /// How long a small write takes, about, with what its client does.
    pub(super) fn small_write_ns(&self) -> u64 {
        SMALL_WRITE_MIN_NS.max(self.record_ns.get().saturating_mul(2))
    }

    /// Bytes that may be on their way home at once, of `writes_max` writes.
    pub(super) fn home_max_bytes(&self, now_ns: u64, writes_max: usize) -> u64 {
        let write_max_bytes = (self.tuning.home_write_pages_max as u64).saturating_mul(PAGE_BYTES);
        let unshared = write_max_bytes.saturating_mul(writes_max as u64);
        if self.is_shared(now_ns) { unshared.min(self.shared_home_max_bytes()) } else { unshared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_large_is_given_in_little_until_no_small_write_came_for_a_while() {
        let tuning = Tuning {
            shared_bulk_max_bytes: 9000,
            shared_home_max_bytes: 12_000,
            home_write_pages_max: 64,
            ..Tuning::default()
        };
        let pace = Pace::new(tuning);
        let home = |now_ns: u64| (pace.home_max_bytes(now_ns, 4), pace.direct_max_bytes(now_ns));
        let all = |now_ns: u64| (pace.bulk_max_bytes(now_ns, 1 << 20), home(now_ns));
        let unshared = (1 << 20, (4 * 64 * 4096, u64::MAX));
        assert_eq!(all(0), unshared, "none came yet");
        pace.note_small(5);
        for now_ns in [5, 4 + EXPECTED_FOR_NS] {
            assert!(pace.is_shared(now_ns));
            assert_eq!(all(now_ns), (9000, (12_000, 12_000)));
        }
        assert!(!pace.is_shared(5 + EXPECTED_FOR_NS));
        assert_eq!(all(5 + EXPECTED_FOR_NS), unshared);
        pace.note_small(5 + EXPECTED_FOR_NS);
        assert_eq!(pace.bulk_max_bytes(6 + EXPECTED_FOR_NS, 1000), 1000, "no more than a record may carry");
        assert_eq!(pace.portions(6 + EXPECTED_FOR_NS), (3000, 1), "a quarter of what is little");
        assert_eq!(pace.portions(5 + 2 * EXPECTED_FOR_NS), (64 * PAGE_BYTES, PORTIONS));
    }

    #[test]
    fn a_portion_takes_about_as_long_as_a_record_alone() {
        let tuning =
            Tuning { shared_home_max_bytes: 16 * PAGE_BYTES, home_write_pages_max: 64, ..Tuning::default() };
        let pace = Pace::new(tuning);
        pace.note_small(0);
        (0..100).for_each(|_| pace.note_record(pace.quiet(), 100_000));
        assert_eq!(pace.portions(0), (4 * PAGE_BYTES, 1), "nothing is known of the drive");
        (0..100).for_each(|_| pace.note_portion(4, 4 * 5_000));
        let (bytes, at_once) = pace.portions(0);
        assert!((18..=20).contains(&(bytes / PAGE_BYTES)), "{bytes}");
        assert_eq!(at_once, 1);
        (0..100).for_each(|_| pace.note_portion(20, 20 * 100));
        assert_eq!(pace.portions(0), (64 * PAGE_BYTES, 1), "no more than of one write");
        (0..100).for_each(|_| pace.note_portion(64, 64 * 90_000));
        assert_eq!(pace.portions(0), (4 * PAGE_BYTES, 1), "no less than a quarter of what is little");
    }

    #[test]
    fn where_a_record_takes_long_by_itself_more_goes_home_beside_it() {
        let tuning = Tuning { shared_home_max_bytes: 100_000, home_write_pages_max: 64, ..Tuning::default() };
        let pace = Pace::new(tuning);
        let note = |took_ns: u64| (0..100).for_each(|_| pace.note_record(pace.quiet(), took_ns));
        let shared = || {
            pace.note_small(0);
            (pace.home_max_bytes(0, 1000), pace.direct_max_bytes(0), pace.home_max_bytes(0, 1))
        };
        assert_eq!(shared(), (100_000, 100_000, 100_000));
        note(200_000);
        assert_eq!(shared(), (100_000, 100_000, 100_000), "a quick drive");
        note(4_100_000);
        assert_eq!(shared(), (400_000, 400_000, 64 * PAGE_BYTES), "no more than without small writes");
        let began = pace.quiet();
        pace.begin_home();
        pace.end_home();
        (0..100).for_each(|_| pace.note_record(began, 60_000_000));
        assert_eq!(shared().0, 400_000, "something went home meanwhile");
        pace.begin_home();
        (0..100).for_each(|_| pace.note_record(pace.quiet(), 60_000_000));
        assert_eq!(shared().0, 400_000);
    }
}
