//! The range flush, at a small scale, by the model's time and counters.

use evenkeel_sim::file_system::{Barrier, Metadata};

use super::cuts::{self, Cut, Damage};
use super::host::{FLUSH, MIB, RANGE_FLUSH, WAYS};
use super::{buffer, pair};

const NS_MAX: u64 = 50_000_000;

#[test]
fn a_flush_gets_slower_with_the_buffer_and_a_range_flush_does_not() {
    for (way, name) in WAYS {
        let at = |bytes| buffer::point(bytes, way, 2, 1).tail_s();
        let growth = at(64 * MIB) / at(16 * MIB);
        match way.barrier {
            Barrier::Flush => assert!(growth > 1.5, "{name}, a buffer four times as large: {growth}"),
            Barrier::RangeFlush => {
                assert!((0.8..1.25).contains(&growth), "{name}, four times as large: {growth}");
            }
        }
    }
}

#[test]
fn a_point_is_the_same_each_time() {
    let at = || buffer::point(16 * MIB, FLUSH, 1, 3);
    assert_eq!(at(), at());
    let at = || pair::point(16 * MIB, RANGE_FLUSH, NS_MAX, 3);
    assert_eq!(at(), at());
}

#[test]
fn both_loads_gain_from_a_range_flush_on_a_board_that_carries_out_a_flush_alone() {
    let at = |way| pair::point(64 * MIB, way, 20 * NS_MAX, 1);
    let (flush, range) = (at(FLUSH), at(RANGE_FLUSH));
    assert!(range.transactions_per_s > 1.05 * flush.transactions_per_s, "{range:?} {flush:?}");
    assert!(range.server_turns_per_s > 1.05 * flush.server_turns_per_s, "{range:?} {flush:?}");
}

#[test]
fn figures_of_the_pair_are_taken_for_longer_than_the_buffer_takes_to_fill() {
    let seconds = pair::MEASURED_NS as f64 / 1e9;
    for way in [FLUSH, RANGE_FLUSH] {
        let point = pair::point(64 * MIB, way, 4 * NS_MAX, 1);
        let largest = pair::BUFFERS_MIB[pair::BUFFERS_MIB.len() - 1] * MIB;
        assert!(point.written_bytes_per_s * seconds > 2.0 * largest as f64, "{point:?}");
    }
}

#[test]
fn a_board_that_queues_flushes_spares_the_fileserver_and_keeps_transactions_waiting_for_the_buffer() {
    let [flush, range] = [WAYS[2].0, WAYS[3].0].map(|way| pair::point(64 * MIB, way, 4 * NS_MAX, 1));
    assert!(range.transactions_per_s > 2.0 * flush.transactions_per_s, "{range:?} {flush:?}");
    assert!(range.server_turns_per_s < 1.05 * flush.server_turns_per_s, "{range:?} {flush:?}");
}

#[test]
fn no_cut_harms_what_was_synced_with_its_metadata() {
    for barrier in [Barrier::RangeFlush, Barrier::Flush] {
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
