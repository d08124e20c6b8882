//! The mounted file system on the board, at a small scale.

use super::super::host::MIB;
use super::{FLUSH, RANGE_FLUSH, buffer, pair};

const NS_MAX: u64 = 50_000_000;

#[test]
fn an_fsync_gets_slower_with_the_buffer_by_flush_and_not_by_range_flush() {
    let growth = |way| {
        let tail_s = |bytes| buffer::point(bytes, way, 2, 1).tail_s();
        tail_s(64 * MIB) / tail_s(16 * MIB)
    };
    assert!(growth(FLUSH) > 1.5, "{}", growth(FLUSH));
    // With less memory more is written out beside it.
    assert!(growth(RANGE_FLUSH) < 1.25, "{}", growth(RANGE_FLUSH));
}

#[test]
fn a_point_is_the_same_each_time() {
    let at = || buffer::point(16 * MIB, FLUSH, 1, 3);
    assert_eq!(at(), at());
    let at = || pair::point(16 * MIB, RANGE_FLUSH, NS_MAX, 3);
    assert_eq!(at(), at());
}
