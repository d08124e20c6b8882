//! The range flush, at a small scale, by the model's time and counters.

use evenkeel_sim::file_system::{Barrier, Metadata};

use super::cuts::{self, Cut, Damage};
use super::host::MIB;
use super::{buffer, pair};

const NS_MAX: u64 = 50_000_000;

#[test]
fn a_flush_gets_slower_with_the_buffer_and_a_range_flush_does_not() {
    let at = |bytes, barrier| buffer::point(bytes, barrier, NS_MAX, 1).tail_s();
    let [flush, range] =
        [Barrier::Flush, Barrier::RangeFlush].map(|barrier| at(64 * MIB, barrier) / at(16 * MIB, barrier));
    assert!(flush > 1.5, "a buffer four times as large: {flush}");
    assert!((0.8..1.25).contains(&range), "a buffer four times as large: {range}");
}

#[test]
fn a_point_is_the_same_each_time() {
    let at = || buffer::point(16 * MIB, Barrier::Flush, NS_MAX, 3);
    assert_eq!(at(), at());
    let at = || pair::point(16 * MIB, Barrier::RangeFlush, NS_MAX, 3);
    assert_eq!(at(), at());
}

#[test]
fn transactions_gain_from_a_range_flush_beside_a_fileserver() {
    let at = |barrier| pair::point(64 * MIB, barrier, 4 * NS_MAX, 1);
    let (flush, range) = (at(Barrier::Flush), at(Barrier::RangeFlush));
    assert!(range.transactions_per_s > 2.0 * flush.transactions_per_s, "{range:?} {flush:?}");
}

#[test]
fn no_cut_harms_what_was_synced_with_its_metadata() {
    for barrier in [Barrier::RangeFlush, Barrier::Flush, Barrier::HoldingFlush] {
        let damage = cuts::cuts(barrier, Metadata::InTandem, 12, 7);
        assert_eq!(Damage { files_lost: 0, pages_missing: 0, ..damage }, damage, "{barrier:?}");
        assert_eq!(damage.cuts, 24);
        assert!(damage.fsyncs >= 12 * 13 / 2);
    }
}

#[test]
fn a_cut_shows_a_node_that_was_not_flushed_with_its_data() {
    let damage = cuts::cut(Barrier::RangeFlush, Metadata::LeftBehind, Cut::AfterFsyncs(3), 7);
    assert!(damage.files_lost > 0, "{damage:?}");
}

#[test]
fn a_cut_shows_data_that_was_not_flushed_before_its_node() {
    let damage = cuts::cut(Barrier::RangeFlush, Metadata::Ahead, Cut::AfterFsyncs(3), 7);
    assert!(damage.pages_missing > 0, "{damage:?}");
}
