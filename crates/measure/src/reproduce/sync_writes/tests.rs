//! Synchronous writes in virtual time, at a small scale.

use super::super::{Extent, Settings};
use super::curve::{Curve, sweep};
use super::device::{Device, KIB, MIB};
use super::stack::{Mounted, Stack};

const SMALL: Settings = Settings { extent: Extent::Small, seed: 1 };

#[test]
fn latency_is_constant_at_first_and_grows_with_the_buffer_in_the_end() {
    for device in Device::ALL {
        let curve = sweep(device, Stack::Bare, &SMALL);
        let latency = |bytes| curve.at(bytes).latency_s;
        assert!(latency(16 * KIB) < 1.25 * latency(4 * KIB), "{}: {curve:?}", device.name());
        let growth = latency(16 * MIB) / latency(4 * MIB);
        assert!((2.0..=4.1).contains(&growth), "{}: {curve:?}", device.name());
    }
}

#[test]
fn a_durable_write_of_a_disk_waits_for_it_to_turn() {
    const ROTATION_NS: u64 = 60_000_000_000 / 7200;
    let mut mounted = Mounted::new(Stack::Bare, Device::Hdd.drive());
    let latencies = mounted.write_file(64 * KIB, 4 * KIB);
    // The first one comes at any time; by the time of each later one its sector has just passed.
    for latency in &latencies[1..] {
        assert!((ROTATION_NS * 9 / 10..ROTATION_NS * 12 / 10).contains(latency), "{latencies:?}");
    }
}

#[test]
fn what_a_file_system_writes_beside_the_data_costs_time() {
    for device in Device::ALL {
        let latency = |stack| sweep(device, stack, &SMALL).smallest().latency_s;
        let [bare, xfs] = [Stack::Bare, Stack::Xfs].map(latency);
        assert!(bare < xfs, "{}: {bare} {xfs}", device.name());
    }
}

#[test]
fn a_sweep_is_the_same_each_time() {
    let once = || -> Curve { sweep(Device::Ssd, Stack::Btrfs, &SMALL) };
    assert_eq!(once(), once());
}
