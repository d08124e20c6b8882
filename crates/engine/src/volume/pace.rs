//! How much may be under way for those who can wait, beside those who cannot.
//!
//! A drive serves what it was given first. While small durable writes come, no more than a little of what is large
//! (bulk commits, pages on their way home) is given to it at once, so that a small one finds a short queue. When none
//! come, large ones take what the drive has.

use std::cell::Cell;

use crate::format::PAGE_BYTES;
use crate::options::Tuning;

/// How long after a small write the next one is expected.
const EXPECTED_FOR_NS: u64 = 20_000_000;

/// When the last small write came.
#[derive(Debug)]
pub(super) struct Pace {
    small_until_ns: Cell<u64>,
    tuning: Tuning,
}

impl Pace {
    /// None came yet.
    pub(super) fn new(tuning: Tuning) -> Self {
        Self { small_until_ns: Cell::default(), tuning }
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
        if self.is_shared(now_ns) { self.tuning.shared_home_max_bytes } else { u64::MAX }
    }

    /// Bytes that may be on their way home at once, of `writes_max` writes.
    pub(super) fn home_max_bytes(&self, now_ns: u64, writes_max: usize) -> u64 {
        let write_max_bytes = (self.tuning.home_write_pages_max as u64).saturating_mul(PAGE_BYTES);
        let unshared = write_max_bytes.saturating_mul(writes_max as u64);
        if self.is_shared(now_ns) { unshared.min(self.tuning.shared_home_max_bytes) } else { unshared }
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
    }
}
