//! What single drives do, at a small scale: by counters and by the model's time.

use super::super::{Extent, Settings, Verdict};
use super::bed::{Bed, KIB, Order, REQUEST_BYTES, SECOND_NS, Stream};
use super::drive::Drive;
use super::fill::Half;
use super::log::{Log, evenness, quantile};
use super::streams::{READS, Range, WRITES};
use super::*;
use evenkeel_sim::model::Operation;

const SMALL: Settings = Settings { extent: Extent::Small, seed: 1 };
const FULL: Settings = Settings { extent: Extent::Full, seed: 1 };

#[test]
fn reads_alone_are_as_even_as_a_line_and_take_all_of_the_link() {
    let (log, _) = fill::point(Half::Reads, 10, &SMALL);
    let windows = log.windows(&[0], WINDOW_NS);
    assert!(evenness(&windows) > 0.99, "{windows:?}");
    assert!(
        (1130.0..1150.0).contains(&quantile(&windows, 0.5)),
        "300 MB/s in requests of 256 KB: {windows:?}"
    );
}

#[test]
fn random_writes_are_even_until_data_must_be_moved_and_fewer_after() {
    let (log, before) = fill::point(Half::Writes, 30, &SMALL);
    let windows = log.windows(&[0], WINDOW_NS);
    assert!(before > 1 && before < 10, "{before} windows");
    let (before, after) = windows.split_at(before);
    assert!(evenness(before) > STABLE, "{before:?}");
    assert!(quantile(after, 0.5) < 0.5 * quantile(before, 0.5), "{windows:?}");
}

#[test]
fn writes_disturb_reads_over_the_drive_and_not_over_a_range_that_the_buffer_holds() {
    let even = |log: &Log, streams: &[usize]| evenness(&log.windows(streams, WINDOW_NS));
    let small = streams::point(Range::Small, 10, &SMALL);
    assert!(
        even(&small, &READS) > STABLE && even(&small, &WRITES) > STABLE,
        "{:?}",
        small.windows(&READS, WINDOW_NS)
    );
    let large = streams::point(Range::Large, 30, &FULL);
    assert!(even(&large, &READS) < UNPREDICTABLE, "{:?}", large.windows(&READS, WINDOW_NS));
}

#[test]
fn streams_keep_the_proportion_of_their_rates_however_slow_the_drive_is() {
    let log = streams::point(Range::Large, 20, &SMALL);
    let all = |streams: &[usize]| log.windows(streams, WINDOW_NS).iter().sum::<f64>();
    let ratio = all(&READS) / all(&WRITES);
    assert!((3.9..4.1).contains(&ratio), "{ratio}: for each write we send four reads");
}

#[test]
fn a_drive_that_stops_to_collect_is_blocked_most_of_the_time() {
    let share = blocked::blocked(&blocked::point(10, &SMALL));
    assert!((0.4..0.9).contains(&share), "{share}");
}

#[test]
fn the_steady_drive_gives_more_reads_with_each_step_and_the_same_in_each_second_of_a_step() {
    let steps = steady::steps(5, &SMALL);
    let medians: Vec<f64> = steps.iter().map(|log| quantile(&log.windows(&[0], WINDOW_NS), 0.5)).collect();
    assert!(medians.is_sorted() && medians[8] > 4.0 * medians[0], "{medians:?}");
}

#[test]
fn a_run_is_the_same_each_time_and_its_parts_are_its_whole() {
    let once = || streams::point(Range::Large, 2, &SMALL);
    assert_eq!(once(), once());
    let bed = || {
        let stream = Stream::new(Operation::Write, Order::Random, Drive::A.scaled(50, &SMALL), 1.0);
        Bed::new(Drive::A.fresh(&SMALL), &[stream], 1)
    };
    let whole = bed().run_for(2 * SECOND_NS);
    let mut parts = Log::default();
    let mut in_parts = bed();
    (0..4).for_each(|_| parts.append(in_parts.run_for(SECOND_NS / 2)));
    assert_eq!(parts, whole);
}

#[test]
fn windows_count_what_was_done_in_them_and_gaps_what_lies_between() {
    let mut log = Log::new(0, 10_000, 2);
    for at_ns in [1_000, 2_000, 9_000] {
        log.add(0, 0, at_ns);
    }
    log.add(1, 0, 5_000);
    assert_eq!(log.windows(&[0], 5_000), [2e9 / 5e3, 1e9 / 5e3]);
    assert_eq!(log.sliding_windows(&[0, 1], 5_000, 2_500), [3e9 / 5e3, 1e9 / 5e3, 1e9 / 5e3]);
    assert_eq!(log.blocked(&[0], 3_000), 0.7);
    assert_eq!(log.blocked(&[0, 1], 3_000), 0.4);
    assert_eq!(log.blocked(&[0, 1], 4_000), 0.0);
    let line = log.blocked_line(&[0], 3_000, 5_000);
    assert_eq!(line, [(5e-6, 0.6), (1e-5, 0.8)]);
    assert_eq!(log.longest_s(0), 9e-6);
}

#[test]
fn ranges_are_scaled_as_their_drives_are_and_hold_whole_requests() {
    for (drive, gigabytes) in [(Drive::A, 65), (Drive::B, 250), (Drive::C, 400)] {
        let flash = drive.fresh(&SMALL);
        assert_eq!(flash.shape().size_bytes, drive.scaled(gigabytes, &SMALL));
        assert!(drive.scaled(gigabytes, &SMALL) / REQUEST_BYTES > 1000);
        assert_eq!(flash.shape().buffer_bytes % KIB, 0);
    }
}

#[test]
fn two_drives_in_turns_read_evenly_while_both_take_every_write() {
    let load = ring::Load {
        drive: Drive::B,
        members: 2,
        policy: evenkeel_engine::ring::Policy::Turns,
        readers: 1,
        turn_s: 1,
        rest_ms: 100,
        gigabytes: 200,
        cache_bytes: 80_000_000,
        writes_per_s: None,
        until: ring::Until::Seconds(8),
    };
    // Writes that come at a rate are accepted at that rate, and no others.
    let paced = ring::run(ring::Load { writes_per_s: Some(20.0), ..load }, &SMALL).unwrap();
    let accepted: f64 = paced.log.windows(&ring::ACCEPTED, WINDOW_NS).iter().sum();
    assert!((158.0..=162.0).contains(&accepted), "{accepted} in 8 s");
    // Not so many that the cache was ever filled: what it takes says nothing of the drives.
    let claim = || claim("w", Unit::Times, Comparison::more(1.0), Kind::Predicted, 2.0, "n.");
    assert!(paced.cache_fills() < 1.0, "{}", paced.cache_fills());
    assert_eq!((claim().verdict, paced.judged(claim()).verdict), (Verdict::Holds, Verdict::Fails));
    let turns = ring::run(load, &SMALL).unwrap();
    let mixed =
        ring::run(ring::Load { policy: evenkeel_engine::ring::Policy::Mixed, ..load }, &SMALL).unwrap();
    let reads = |ran: &ring::Ran| ran.log.windows(&ring::READS, WINDOW_NS);
    let writes = |ran: &ring::Ran| ran.log.windows(&ring::HOME, WINDOW_NS).iter().sum::<f64>();
    assert!(turns.cache_fills() > 1.0);
    assert_eq!(turns.judged(claim()).verdict, Verdict::Holds);
    assert!(evenness(&reads(&turns)) > STABLE, "{:?}", reads(&turns));
    assert!(evenness(&reads(&mixed)) < evenness(&reads(&turns)), "{:?}", reads(&mixed));
    assert!(writes(&turns) > 0.0);
}

#[test]
fn a_run_goes_on_until_every_write_is_home() {
    let load = ring::Load {
        drive: Drive::B,
        members: 2,
        policy: evenkeel_engine::ring::Policy::Turns,
        readers: 1,
        turn_s: 1,
        rest_ms: 100,
        gigabytes: 200,
        cache_bytes: 1_000_000_000,
        writes_per_s: None,
        until: ring::Until::Done { reads: 200, writes: 400 },
    };
    let log = ring::run(load, &SMALL).unwrap().log;
    let done = |[stream]: [usize; 1]| (log.count(stream), log.last_s(stream));
    let ((accepted, accepted_s), (home, home_s)) = (done(ring::ACCEPTED), done(ring::HOME));
    assert_eq!((accepted, home), (400, 400));
    assert!(home_s > 2.0 * accepted_s, "the cache takes 400 writes at once: {accepted_s} {home_s}");
}

#[test]
fn latencies_are_kept_over_parts_of_a_run() {
    let mut whole = Log::new(0, 10_000, 1);
    (1..=100).for_each(|at| whole.add(0, 0, at * 100));
    let mut next = Log::new(10_000, 20_000, 1);
    (1..=100).for_each(|at| next.add(0, 10_000, 10_000 + at * 100));
    whole.append(next);
    assert_eq!(whole.count(0), 200);
    let [half, most] = [0.5, 1.0].map(|share| whole.latency_s(0, share));
    assert!((4.9e-6..5.1e-6).contains(&half) && (9.9e-6..10.2e-6).contains(&most), "{half} {most}");
}
