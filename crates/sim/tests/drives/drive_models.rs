//! What the flash models take for loads whose answer is known. All times are virtual, so that every figure is the
//! same on every machine.

use crate::common_models::{GIB, MIB, at_random, drive, flush_after, one, settle};
use evenkeel_sim::model::closed_loop;
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets::PRESETS;
use evenkeel_sim::model::{Model, Operation, Request};
use evenkeel_sim::random::Random;

/// Asserts that `ours` is within a tenth of what MQSim measured.
fn assert_near(what: &str, ours: f64, mqsim: f64) {
    let off = (ours / mqsim - 1.0) * 100.0;
    assert!(off.abs() < 10.0, "{what}: {ours:.1}, MQSim {mqsim}: {off:+.1} %");
}

#[test]
fn small_reads_of_nvme_mlc_take_what_mqsim_says() {
    let mut flash = drive("nvme-mlc", 8 * GIB);
    flash.precondition(0.0, 1);
    let alone = at_random(&mut flash.clone(), Operation::Read, 1, 20_000, 4096);
    assert_near("QD1 IOPS", alone.per_s(), 11_248.0);
    assert_near("QD1 us", alone.mean_ns() / 1e3, 88.0);
    let together = at_random(&mut flash, Operation::Read, 32, 200_000, 4096);
    assert_near("QD32 IOPS", together.per_s(), 192_084.0);
    assert_near("QD32 us", together.mean_ns() / 1e3, 166.0);
    assert_eq!(flash.counters().pages_read, 200_000, "each took a page of the cells");
}

#[test]
fn small_writes_of_nvme_mlc_without_collection_take_what_mqsim_says() {
    let mut flash = drive("nvme-mlc", 16 * GIB);
    flash.precondition(0.0, 1);
    // What fills the buffer is not what is measured.
    at_random(&mut flash, Operation::Write, 32, 40_000, 4096);
    let before = flash.counters();
    let full = at_random(&mut flash, Operation::Write, 32, 50_000, 4096);
    assert_near("QD32 IOPS", full.per_s(), 36_655.0);
    assert_eq!(before.frames_moved + flash.counters().frames_moved, 0, "there was no collection");
}

#[test]
fn the_same_requests_give_the_same_run() {
    for preset in PRESETS {
        let run = || {
            let mut flash = drive(preset.name, 256 * MIB);
            flash.precondition(1.0, 3);
            let mut random = Random::new(4);
            let measured = closed_loop::run(&mut flash, 0, 16, 3_000, |number| {
                let offset = random.below(256 * MIB / 4096 - 16) * 4096;
                let operation = match random.below(20) {
                    0 if number % 3 == 0 => Operation::Flush,
                    0 => Operation::FlushRange,
                    1 => Operation::Discard,
                    2..=3 => Operation::DurableWrite,
                    4..=11 => Operation::Write,
                    _ => Operation::Read,
                };
                let len = (1 + random.below(32)) * 2048;
                Request { stream: random.below(4) as u32, ..Request::new(0, operation, offset, len) }
            });
            settle(&mut flash);
            flash.assert_consistent();
            (measured, flash.counters())
        };
        assert_eq!(run(), run(), "{}", preset.name);
    }
}

#[test]
fn collection_costs_what_the_spare_pages_leave() {
    // Greedy collection of uniform writes with a share of r spare pages: about (1 + r) / 2r at most.
    for (name, least, most) in [("nvme-mlc", 4.0, 8.0), ("sata-2008", 1.8, 3.0), ("steady", 1.3, 2.2)] {
        let mut flash = drive(name, 4 * GIB);
        flash.precondition(2.0, 1);
        let before = flash.counters();
        let len = u64::from(flash.shape().frame_bytes);
        at_random(&mut flash, Operation::Write, 32, 400_000, len);
        let after = flash.counters();
        let programmed = after.frames_programmed - before.frames_programmed;
        let moved = after.frames_moved - before.frames_moved;
        let amplification = 1.0 + moved as f64 / programmed as f64;
        assert!((least..most).contains(&amplification), "{name}: {amplification}");
        let (least, mean, most) = flash.wear();
        assert!(f64::from(most) < 6.0 * mean + 10.0, "{name}: wear {least} {mean} {most}");
        flash.assert_consistent();
    }
}

#[test]
fn preconditioning_leaves_what_writing_at_random_leaves() {
    // The same writes, once on the mapping alone and once through every event.
    let steady = |mut flash: Flash| {
        at_random(&mut flash, Operation::Write, 64, 100_000, 4096);
        let before = flash.counters();
        at_random(&mut flash, Operation::Write, 64, 60_000, 4096);
        (flash.counters().frames_moved - before.frames_moved) as f64
    };
    let mut quick = drive("sata-2011", 256 * MIB);
    quick.precondition(2.0, 1);
    let mut slow = drive("sata-2011", 256 * MIB);
    slow.precondition(0.0, 1);
    at_random(&mut slow, Operation::Write, 64, 131_072, 4096);
    let ratio = steady(quick) / steady(slow);
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
}

#[test]
fn a_flush_takes_longer_the_more_is_in_the_buffer_and_a_range_flush_does_not() {
    let mut whole = Vec::new();
    let mut ranges = Vec::new();
    for buffered in [100, 10_000, 100_000] {
        whole.push(flush_after("open-channel", buffered, Operation::Flush));
        ranges.push(flush_after("open-channel", buffered, Operation::FlushRange));
    }
    assert!(whole[2] > 8 * whole[1] && whole[1] > 8 * whole[0], "{whole:?}");
    assert!(ranges.iter().all(|&range| range < 2_000_000), "{ranges:?}");
}

#[test]
fn a_stream_flush_drains_that_stream_alone() {
    let mut flash = drive("open-channel", GIB);
    for number in 0..1000 {
        let stream = 1 + (number % 2) as u32;
        let write = Request { stream, ..Request::new(0, Operation::Write, number * 4096, 4096) };
        one(&mut flash, write);
    }
    one(&mut flash, Request { stream: 2, ..Request::new(0, Operation::FlushStream, 0, 0) });
    assert_eq!(flash.counters().frames_programmed, 500);
    assert_eq!(flash.dirty_bytes(), 500 * 4096);
}

#[test]
fn capacitors_make_a_flush_free() {
    let took = flush_after("steady", 1000, Operation::Flush);
    assert!(took < 100_000, "{took} ns");
}

#[test]
fn reads_wait_behind_programs_unless_these_are_suspended() {
    // One write is under way on the only die that has the page to be read.
    let worst = |suspend_ns| {
        let mut shape = evenkeel_sim::model::presets::find("sata-2008").unwrap().shape(64 * MIB).unwrap();
        shape.suspend_ns = suspend_ns;
        let mut flash = Flash::new(shape);
        flash.precondition(0.0, 1);
        let mut random = Random::new(1);
        let measured = closed_loop::run(&mut flash, 0, 8, 20_000, |number| {
            let operation = if number % 2 == 0 { Operation::Read } else { Operation::DurableWrite };
            Request::new(0, operation, random.below(64 * MIB / 4096) * 4096, 4096)
        });
        assert_eq!(flash.counters().suspensions > 0, suspend_ns.is_some());
        measured.quantile_ns(0.25)
    };
    assert!(worst(Some(5_000)) < worst(None));
}

#[test]
fn collection_that_blocks_shows_in_the_tail_of_reads_and_paced_collection_does_not() {
    let tail_ns = |name| {
        let mut flash = drive(name, GIB);
        flash.precondition(2.0, 1);
        let mut reads = Vec::new();
        let (mut random, mut done, mut begun) = (Random::new(2), Vec::new(), vec![0; 100_000]);
        // Reads and writes at a fixed pace that both drives keep up with.
        for number in 0..100_000_u64 {
            let now_ns = number * 500_000;
            flash.run_until(now_ns, &mut done);
            let operation = if number % 2 == 0 { Operation::Read } else { Operation::Write };
            begun[number as usize] = now_ns;
            flash.submit(now_ns, Request::new(number, operation, random.below(GIB / 4096) * 4096, 4096));
            let of_reads = done.drain(..).filter(|completion| completion.tag % 2 == 0);
            reads.extend(of_reads.map(|completion| completion.at_ns - begun[completion.tag as usize]));
        }
        reads.sort_unstable();
        reads[reads.len() * 999 / 1000]
    };
    let (blocking, paced) = (tail_ns("sata-2011"), tail_ns("steady"));
    assert!(blocking > 20_000_000, "{blocking} ns: section 3 of the Rails paper has up to 100 ms");
    assert!(paced < 5_000_000, "{paced} ns");
}

#[test]
fn every_size_of_every_drive_can_be_filled_and_overwritten() {
    for preset in PRESETS {
        for size_bytes in [512, 64 << 10, 3 * MIB + 512, 64 * MIB] {
            let mut flash = drive(preset.name, size_bytes);
            flash.precondition(2.0, 1);
            let len = size_bytes.min(128 << 10);
            let places = size_bytes / len;
            let mut random = Random::new(8);
            closed_loop::run(&mut flash, 0, 8, 500, |_| {
                Request::new(0, Operation::Write, random.below(places) * len, len)
            });
            one(&mut flash, Request::new(0, Operation::Flush, 0, 0));
            settle(&mut flash);
            assert_eq!(flash.dirty_bytes(), 0, "{} of {size_bytes} bytes", preset.name);
            flash.assert_consistent();
        }
        assert!(preset.shape(0).is_err() && preset.shape(100).is_err());
        assert!(preset.shape(1 << 60).unwrap_err().to_string().contains("too many"));
    }
}
