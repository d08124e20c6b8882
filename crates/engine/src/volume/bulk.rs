//! Whether large writes wait for each other, so that it pays to take them straight home.
//!
//! Through the log a write is given to the drives twice, but nobody waits for more than one of that. Straight home it is given
//! to them once, and waits for three durable steps, which it shares with all that are under way. So it pays from `3 l B` bytes
//! under way on, where `l` is what a durable step takes and `B` the rate of the drives; and not for who writes one after
//! another.
//!
//! 1. What the buffer takes at once goes through the log: it begins to pay with a write that waits for something, be it to be
//!    durable, or because the buffer is full soon.
//! 2. It pays as long as enough was under way at some moment of the last [`WINDOW_NS`] or two.

use std::cell::Cell;

use super::record_cost::CostLine;

/// What was under way is looked at so often.
const WINDOW_NS: u64 = 100_000_000;

/// Durable steps of a write that goes straight home.
const STEPS: f64 = 3.0;

/// Large writes that are under way.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    bytes: Cell<u64>,
    /// The most at once since the window began.
    peak_bytes: Cell<u64>,
    began_ns: Cell<u64>,
    pays: Cell<bool>,
}

/// A large write that is under way until this is dropped.
pub(super) struct UnderWay<'a> {
    bulk: &'a Bulk,
    bytes: u64,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.bulk.bytes.set(self.bulk.bytes.get() - self.bytes);
    }
}

/// Bytes under way from which on it pays to take them straight home: `least_bytes`, and more where the line says so; never
/// where no more than `most_bytes` may go home at once.
pub(super) fn paying_bytes(least_bytes: u64, most_bytes: u64, line: Option<CostLine>) -> u64 {
    let bytes = least_bytes.max(line.map_or(0, |line| (STEPS * line.batch_bytes()) as u64));
    if bytes <= most_bytes { bytes } else { u64::MAX }
}

impl Bulk {
    /// A large write begins, and waits, or does not. Beside `paying_bytes` under way it pays to take it straight home.
    pub(super) fn begin(&self, bytes: u64, waits: bool, now_ns: u64, paying_bytes: u64) -> UnderWay<'_> {
        self.bytes.set(self.bytes.get() + bytes);
        let since_ns = now_ns.saturating_sub(self.began_ns.get());
        let is_over = since_ns >= WINDOW_NS;
        // What was long ago says nothing of now.
        let is_anew = since_ns >= 2 * WINDOW_NS;
        let before_bytes = if is_anew { 0 } else { self.peak_bytes.get() };
        let paid = self.pays.get() && !is_anew;
        let peak_bytes = before_bytes.max(self.bytes.get());
        let is_enough = peak_bytes >= paying_bytes;
        if is_over || is_enough && waits {
            self.pays.set(is_enough && (waits || paid));
        }
        self.peak_bytes.set(if is_over { self.bytes.get() } else { peak_bytes });
        if is_over {
            self.began_ns.set(now_ns);
        }
        UnderWay { bulk: self, bytes }
    }

    /// Whether it pays, by what was under way when the last write began.
    pub(super) fn pays(&self) -> bool {
        self.pays.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn it_pays_from_where_enough_is_under_way_at_once() {
        let bulk = Bulk::default();
        let mut under_way = Vec::new();
        for number in 1..=4 {
            under_way.push(bulk.begin(MIB, true, WINDOW_NS + number, 4 * MIB));
            assert_eq!(bulk.pays(), number == 4, "{number}");
        }
        under_way.clear();
        drop(bulk.begin(MIB, true, WINDOW_NS + 5, 4 * MIB));
        assert!(bulk.pays(), "the next round begins with one");
    }

    #[test]
    fn it_does_not_pay_for_who_writes_one_after_another() {
        let bulk = Bulk::default();
        for number in 0..1000 {
            drop(bulk.begin(MIB, true, number * WINDOW_NS / 10, 2 * MIB));
            assert!(!bulk.pays());
        }
    }

    #[test]
    fn it_pays_no_longer_two_windows_behind() {
        let bulk = Bulk::default();
        drop(bulk.begin(4 * MIB, true, 10 * WINDOW_NS, 4 * MIB));
        assert!(bulk.pays());
        drop(bulk.begin(MIB, true, 11 * WINDOW_NS, 4 * MIB));
        assert!(bulk.pays(), "it was enough in the window that ended");
        drop(bulk.begin(MIB, true, 12 * WINDOW_NS, 4 * MIB));
        assert!(!bulk.pays());
        drop(bulk.begin(4 * MIB, true, 13 * WINDOW_NS, 4 * MIB));
        drop(bulk.begin(MIB, true, 1000 * WINDOW_NS, 4 * MIB));
        assert!(!bulk.pays(), "whoever comes after a pause begins anew");
        drop(bulk.begin(8 * MIB, true, 1000 * WINDOW_NS, 4 * MIB));
        drop(bulk.begin(8 * MIB, false, 2000 * WINDOW_NS, 4 * MIB));
        assert!(!bulk.pays(), "however much it is that waits for nothing");
    }

    #[test]
    fn it_begins_to_pay_with_one_that_waits() {
        let bulk = Bulk::default();
        let now_ns = WINDOW_NS;
        drop(bulk.begin(4 * MIB, false, now_ns, 4 * MIB));
        assert!(!bulk.pays());
        drop(bulk.begin(MIB, true, now_ns, 4 * MIB));
        assert!(bulk.pays());
        drop(bulk.begin(4 * MIB, false, 2 * now_ns, 4 * MIB));
        assert!(bulk.pays(), "the others go the same way");
    }

    #[test]
    fn slow_steps_ask_for_more() {
        let line = CostLine { fixed_ns: 10e6, bytes_per_s: 100e6 };
        assert_eq!(paying_bytes(4 * MIB, 16 * MIB, None), 4 * MIB);
        assert_eq!(paying_bytes(4 * MIB, 16 * MIB, Some(line)), 4 * MIB);
        assert_eq!(paying_bytes(MIB, 16 * MIB, Some(line)), 3_000_000);
        assert_eq!(paying_bytes(MIB, 2 * MIB, Some(line)), u64::MAX, "that much never goes home together");
    }
}
