//! Disks have the shape that disks have. All times are virtual.

use std::sync::Arc;

use crate::common_models::{Elsewhere, GIB, MIB, at_random, one, settle};
use evenkeel_sim::model::closed_loop;
use evenkeel_sim::model::disk::Disk;
use evenkeel_sim::model::presets;
use evenkeel_sim::model::{Model, Operation, Request, Storage};
use evenkeel_sim::random::Random;

fn disk(name: &str, size_bytes: u64) -> Disk {
    presets::find_disk(name).expect("a preset").disk(size_bytes).expect("a size that fits")
}

/// Bytes a second of requests one after another from `offset` on.
fn in_order(disk: &mut Disk, operation: Operation, offset: u64, requests: u64, len: u64) -> f64 {
    let start_ns = disk.now_ns();
    let measured = closed_loop::run(disk, start_ns, 1, requests, |number| {
        Request::new(0, operation, offset + number * len, len)
    });
    measured.per_s() * len as f64
}

#[test]
fn sequential_bandwidth_falls_from_the_outside_to_the_inside() {
    for (name, outer, inner) in [("sas-15k", 125e6, 73e6), ("sata-7200", 130e6, 65e6)] {
        for operation in [Operation::Read, Operation::Write] {
            // Writes of the disk without a cache lose a rotation each: large ones, so that it does not matter here.
            let len = if operation == Operation::Read { MIB } else { 16 * MIB };
            let rate = |offset| in_order(&mut disk(name, 64 * GIB), operation, offset, 512 * MIB / len, len);
            let (first, last) = (rate(0), rate(63 * GIB));
            assert!((0.75..1.05).contains(&(first / outer)), "{name} {operation:?}: {first}");
            assert!((0.75..1.05).contains(&(last / inner)), "{name} {operation:?}: {last}");
        }
    }
}

#[test]
fn a_random_read_takes_a_mean_seek_and_half_a_rotation() {
    for (name, seek_ms, rotation_ms) in [("sas-15k", 3.5, 4.0), ("sata-7200", 8.5, 8.333)] {
        for size_bytes in [4 * GIB, 64 * GIB] {
            let measured = at_random(&mut disk(name, size_bytes), Operation::Read, 1, 4_000, 4096);
            let expected = seek_ms + rotation_ms / 2.0;
            let ms = measured.mean_ns() / 1e6;
            assert!((0.9..1.1).contains(&(ms / expected)), "{name} of {size_bytes}: {ms} ms, {expected}");
            let queued = at_random(&mut disk(name, size_bytes), Operation::Read, 32, 4_000, 4096);
            assert!(queued.per_s() > 1.8 * measured.per_s(), "{name}: a queue lets the arm choose");
        }
    }
}

#[test]
fn a_synchronous_write_after_another_loses_a_rotation() {
    for (name, rotation_ns) in [("sas-15k", 4_000_000), ("sata-7200", 8_333_333)] {
        let mut disk = disk(name, 64 * GIB);
        let start_ns = disk.now_ns();
        let measured = closed_loop::run(&mut disk, start_ns, 1, 200, |number| {
            Request::new(0, Operation::DurableWrite, number * 4096, 4096)
        });
        let median_ns = measured.quantile_ns(0.5);
        assert!((rotation_ns * 99 / 100..rotation_ns * 11 / 10).contains(&median_ns), "{name}: {median_ns}");
    }
}

#[test]
fn synchronous_writes_that_wait_in_order_follow_each_other_without_a_turn() {
    for (name, outer) in [("sas-15k", 125e6), ("sata-7200", 130e6)] {
        let mut disk = disk(name, 64 * GIB);
        let start_ns = disk.now_ns();
        let measured = closed_loop::run(&mut disk, start_ns, 16, 4_000, |number| {
            Request::new(0, Operation::DurableWrite, number * 4096, 4096)
        });
        // On the track already, the head has nothing to settle from.
        let rate = measured.per_s() * 4096.0;
        assert!(rate > outer / 2.0, "{name}: {rate}");
    }
}

#[test]
fn the_write_cache_hides_it_until_a_flush() {
    let mut disk = disk("sata-7200", 64 * GIB);
    let write = one(&mut disk, Request::new(0, Operation::Write, 0, 4096));
    let flush = one(&mut disk, Request::new(0, Operation::Flush, 0, 0));
    assert!(write < 1_000_000 && flush > 1_000_000, "{write} {flush}");
    let idle = one(&mut disk, Request::new(0, Operation::Flush, 0, 0));
    assert!(idle < 1_000_000, "{idle}");
    // Many small neighbours go to the platters together.
    let mut crowded = self::disk("sata-7200", 64 * GIB);
    let rate = in_order(&mut crowded, Operation::Write, 0, 100_000, 4096);
    assert!(rate > 30e6, "{rate}");
    settle(&mut crowded);
}

fn raise(versions: &mut [u64], sector: usize, version: u64) {
    versions[sector] = versions[sector].max(version);
}

#[test]
fn after_every_cut_a_sector_holds_what_was_durable_or_written_later_or_is_the_torn_one() {
    const SECTORS: u64 = 2048;
    for name in ["sas-15k", "sata-7200"] {
        let mut torn_in_all = 0;
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let mut disk = disk(name, SECTORS * 512);
            match seed % 2 {
                0 => disk.keep_contents(),
                _ => disk.keep_contents_in(Arc::new(Elsewhere::default())),
            }
            let (mut durable, mut newest) = (vec![0; SECTORS as usize], vec![0; SECTORS as usize]);
            let mut done = Vec::new();
            let mut complete = newest.clone();
            let mut writes: Vec<Vec<(usize, u64)>> = Vec::new();
            let mut promises: Vec<Vec<(usize, u64)>> = Vec::new();
            let (mut now_ns, steps) = (0, 20 + random.below(200));
            for version in 1..steps {
                now_ns += random.below(6_000_000);
                disk.run_until(now_ns, &mut done);
                for completion in done.drain(..) {
                    let tag = completion.tag as usize;
                    for &(sector, version) in &writes[tag] {
                        raise(&mut complete, sector, version);
                    }
                    for &(sector, version) in &promises[tag] {
                        raise(&mut durable, sector, version);
                    }
                }
                let first = random.below(SECTORS - 64);
                let len = 1 + random.below(64);
                let changed: Vec<_> = (first..first + len).map(|at| (at as usize, version)).collect();
                let (operation, written, promise) = match random.below(5) {
                    0 => (Operation::Flush, Vec::new(), complete.iter().copied().enumerate().collect()),
                    1 => (Operation::DurableWrite, changed.clone(), changed),
                    _ => (Operation::Write, changed, Vec::new()),
                };
                let request = Request::new(version - 1, operation, first * 512, len * 512);
                if written.is_empty() {
                    disk.submit(now_ns, request);
                } else {
                    disk.submit_write(now_ns, request, &version.to_le_bytes().repeat(len as usize * 64));
                }
                written.iter().for_each(|&(sector, version)| newest[sector] = version);
                writes.push(written);
                promises.push(promise);
            }
            disk.power_cut(&mut random);
            let mut torn = 0;
            for sector in 0..SECTORS {
                let mut bytes = [0; 512];
                disk.read_contents(sector * 512, &mut bytes);
                let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                if bytes.chunks_exact(8).any(|word| word != &bytes[..8]) {
                    torn += 1;
                    continue;
                }
                let (at, is_noise) = (sector as usize, found > steps);
                torn += u64::from(is_noise);
                assert!(is_noise || found >= durable[at] && found <= newest[at], "{name} {seed}: {sector}");
            }
            assert!(torn <= 1, "{torn} sectors are torn by one head");
            torn_in_all += torn;
        }
        assert!(torn_in_all > 0, "{name}: no cut met a write");
    }
}
