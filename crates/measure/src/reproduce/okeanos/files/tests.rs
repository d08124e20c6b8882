//! What must hold of the file system's figures, seen in counters of small runs.

use super::super::THRESHOLD_BYTES;
use super::*;
use crate::reproduce::{Extent, Settings, Silent, Work};

const SMALL: Settings = Settings { extent: Extent::Small, seed: 1 };

fn work() -> Work<'static> {
    Work::new(2, &Silent)
}

#[test]
fn an_append_journals_about_its_bytes_on_a_volume_and_whole_blocks_as_ext3_does() {
    let journal_bytes_a_write = |mode| {
        let outcome = streams::small_point(&SMALL, &work(), mode, 1, 30).unwrap();
        assert!(outcome.traffic.writes >= 20);
        outcome.traffic.journal_bytes as f64 / outcome.traffic.writes as f64
    };
    // At least the data's block, an inode's block, a descriptor and a commit block.
    assert!(journal_bytes_a_write(Mode::Data) >= 4.0 * 4096.0);
    // A sector for the record, and few more where a block is taken.
    let wasteless = journal_bytes_a_write(Mode::Wasteless);
    assert!((512.0..2.0 * 4096.0).contains(&wasteless), "{wasteless}");
}

#[test]
fn ordered_writes_a_block_home_for_each_append_and_wasteless_what_is_left_after_a_while() {
    let home_bytes =
        |mode| streams::small_point(&SMALL, &work(), mode, 20, 10).unwrap().traffic.home_per_user_byte();
    assert!(home_bytes(Mode::Ext3) >= 4096.0 / 125.0);
    assert!(home_bytes(Mode::Ext3) > 2.0 * home_bytes(Mode::Wasteless));
}

#[test]
fn threads_that_wait_together_are_committed_together() {
    let per_s = |mode, threads| mpi_io::point(&SMALL, &work(), mode, threads, 1).unwrap().per_s();
    for mode in [Mode::Data, Mode::Wasteless] {
        assert!(per_s(mode, 40) > 5.0 * per_s(mode, 1), "{mode:?}");
    }
}

#[test]
fn what_is_mounted_journals_small_files_whatever_their_number() {
    let bytes = |mode| streams::small_point(&SMALL, &work(), mode, 20, 10).unwrap().traffic.journal_bytes;
    assert_eq!(bytes(MOUNT), bytes(Mode::Wasteless));
    assert_eq!(small_max_bytes(Mode::Selective(THRESHOLD_BYTES)), 4096);
    assert_eq!(small_max_bytes(MOUNT), MountOptions::default().small_max_bytes);
}

#[test]
fn files_are_made_read_and_deleted_at_the_same_times_whenever_the_seed_is_the_same() {
    let took_ns = |seed| {
        let settings = Settings { seed, ..SMALL };
        postmark::point(&settings, &work(), MOUNT, 1024, 50).unwrap().took_ns
    };
    assert_eq!(took_ns(1), took_ns(1));
    assert_ne!(took_ns(1), took_ns(2));
}
