//! Drives that stop for garbage collection.

use crate::common_models::{GIB, MIB, at_random, drive, one, settle};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::{Model, Operation, Request};
use evenkeel_sim::random::Random;

const REQUEST_BYTES: u64 = 256 << 10;

/// Reads and writes alike, `depth` at a time; answers the longest time in which none was done.
fn longest_silence_ns(flash: &mut Flash, depth: u64, requests: u64) -> u64 {
    let (mut random, mut done) = (Random::new(5), Vec::new());
    let places = flash.size_bytes() / REQUEST_BYTES;
    let mut request = |number: u64| {
        let operation = if number.is_multiple_of(2) { Operation::Read } else { Operation::Write };
        Request::new(number, operation, random.below(places) * REQUEST_BYTES, REQUEST_BYTES)
    };
    let (mut submitted, mut answered) = (0, vec![0; requests as usize]);
    let (mut last_ns, mut longest_ns) = (flash.now_ns(), 0);
    while submitted < depth {
        flash.submit(flash.now_ns(), request(submitted));
        submitted += 1;
    }
    while let Some(next_ns) = flash.next_event_ns() {
        flash.run_until(next_ns, &mut done);
        for completion in done.drain(..) {
            answered[completion.tag as usize] += 1;
            longest_ns = longest_ns.max(completion.at_ns - last_ns);
            last_ns = completion.at_ns;
            if submitted < requests {
                flash.submit(next_ns, request(submitted));
                submitted += 1;
            }
        }
    }
    assert!(answered.iter().all(|&times| times == 1), "a request was not answered, or more than once");
    flash.assert_consistent();
    longest_ns
}

#[test]
fn nothing_is_answered_while_the_whole_drive_collects() {
    for (name, stops) in [("sata-2011", true), ("sata-2008", true), ("steady", false)] {
        let mut flash = drive(name, 4 * GIB);
        flash.precondition(1.0, 1);
        let longest_ns = longest_silence_ns(&mut flash, 31, 4_000);
        assert_eq!(flash.counters().stops > 0, stops, "{name}");
        // A block's moves, of which each takes a read and a program.
        let block_ns = 10 * (flash.shape().read_ns + flash.shape().program_ns);
        assert_eq!(longest_ns > block_ns, stops, "{name}: {longest_ns} ns");
        assert!(longest_ns < 200_000_000, "{name}: {longest_ns} ns; the Rails paper has up to 100 ms");
    }
}

#[test]
fn a_drive_that_stops_loses_and_mixes_up_nothing_at_any_size_and_depth() {
    for name in ["sata-2011", "sata-2008"] {
        for (size_bytes, depth) in [(3 * MIB + 512, 1), (64 * MIB, 7), (256 * MIB, 31), (GIB, 64)] {
            let mut flash = drive(name, size_bytes);
            flash.precondition(2.0, 3);
            longest_silence_ns(&mut flash, depth, 2_000);
        }
    }
}

#[test]
fn what_an_idle_drive_has_begun_to_collect_it_finishes_and_then_takes_a_burst_without_a_stop() {
    let mut flash = drive("sata-2011", 4 * GIB);
    flash.precondition(1.0, 1);
    at_random(&mut flash, Operation::Write, 31, 4_000, REQUEST_BYTES);
    one(&mut flash, Request::new(0, Operation::Flush, 0, 0));
    settle(&mut flash);
    let stops = flash.counters().stops;
    assert!(stops > 0);
    // Half of the buffer: room for all of it was made.
    at_random(&mut flash, Operation::Write, 31, 256, REQUEST_BYTES);
    one(&mut flash, Request::new(0, Operation::Flush, 0, 0));
    assert_eq!(flash.counters().stops, stops);
}
