//! What must hold of the figures' shapes, seen in counters of small runs.

use super::*;
use crate::reproduce::{Extent, Settings, Silent, Verdict, Work, run};

const SMALL: Settings = Settings { extent: Extent::Small, seed: 1 };

fn work() -> Work<'static> {
    Work::new(2, &Silent)
}

#[test]
fn wasteless_journals_fewer_bytes_than_data_where_requests_are_small() {
    let volume =
        |mode, bytes| journal_volume::point(&SMALL, &work(), mode, bytes, 20).unwrap().traffic.journal_bytes;
    assert!(2 * volume(Mode::Wasteless, 1024) < volume(Mode::Data, 1024));
    assert!(volume(Mode::Ordered, 16_384) < volume(Mode::Wasteless, 16_384));
    assert!(volume(Mode::Selective(THRESHOLD_BYTES), 16_384) < volume(Mode::Wasteless, 16_384));
}

#[test]
fn ordered_writes_a_page_home_for_each_small_write_and_wasteless_only_what_is_left_at_the_end() {
    let home = |mode| traffic::point(&SMALL, &work(), mode, 100, 10).unwrap().traffic;
    let (ordered, wasteless) = (home(Mode::Ordered), home(Mode::Wasteless));
    assert!(ordered.home_bytes >= ordered.writes * 4096);
    assert!(wasteless.home_bytes < wasteless.writes * 4096);
    assert!(ordered.home_per_user_byte() > 2.0 * wasteless.home_per_user_byte());
}

#[test]
fn ordered_as_ext3_commits_once_for_all_who_wait_and_once_for_each_who_is_alone() {
    let journal_bytes_a_write = |streams| {
        let traffic = traffic::point(&SMALL, &work(), Mode::Ext3, streams, 5).unwrap().traffic;
        assert!(traffic.home_bytes >= traffic.writes * 4096 && traffic.writes > 0);
        traffic.journal_bytes as f64 / traffic.writes as f64
    };
    // Descriptor, inodes and commit block; with the first write, which allocates a page, a bitmap and its descriptor too.
    let alone = journal_bytes_a_write(1);
    assert!((3.0 * 4096.0..=4.0 * 4096.0).contains(&alone), "{alone}");
    assert!(journal_bytes_a_write(1000) < 4096.0);
}

#[test]
fn recovery_replays_every_write_from_a_smaller_journal_in_less_time() {
    let [data, wasteless] =
        [Mode::Data, Mode::Wasteless].map(|mode| recovery::point(&SMALL, &work(), mode, 10).unwrap());
    assert!(data.records > 0 && wasteless.records > 0);
    assert!(2 * wasteless.journal_bytes < data.journal_bytes);
    assert!(wasteless.recovery_ns < data.recovery_ns);
}

#[test]
fn many_threads_are_committed_together() {
    let per_s = |mode, threads| mpi_io::point(&SMALL, &work(), mode, threads, 1).unwrap().per_s();
    let wasteless = per_s(Mode::Wasteless, 40);
    assert!(wasteless > 10.0 * per_s(Mode::Wasteless, 1));
    assert!(wasteless > 2.0 * per_s(Mode::Data, 40));
}

#[test]
fn journaling_of_large_writes_doubles_what_is_written_to_the_disk() {
    let disk = |threshold| threshold::point(&SMALL, &work(), threshold, 2).unwrap().disk_bytes();
    assert!(disk(2 << 20) > 1.5 * disk(4096));
}

#[test]
fn the_same_seed_gives_the_same_document_on_any_number_of_processors() {
    let figures = [&MODULES[0], &MODULES[5]];
    let document = |at_once| {
        let gallery = run(&figures, &SMALL, &Work::new(at_once, &Silent)).unwrap();
        serde_json::to_string(&gallery).unwrap()
    };
    assert_eq!(document(1), document(2));
}

#[test]
fn a_figure_says_what_it_claims_and_which_verdict_follows_from_its_value() {
    let gallery = run(&[&MODULES[0]], &SMALL, &work()).unwrap();
    assert!(!gallery.claims.is_empty());
    for claim in &gallery.claims {
        assert_eq!((claim.figure.as_str(), claim.paper), ("okeanos-journal-volume", 5));
        assert_eq!(claim.verdict, claim.holds_if.judge(claim.value.unwrap()));
    }
    assert!(gallery.claims.iter().any(|claim| claim.verdict == Verdict::Holds));
}
