//! A drive's past can be saved and loaded, and nothing else can be loaded.

use crate::common_models::{MIB, at_random, drive};
use evenkeel_sim::model::Operation;
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::flash::snapshot::LoadError;
use evenkeel_sim::random::Random;

fn saved(name: &str, size_bytes: u64) -> (Flash, Vec<u8>) {
    let mut flash = drive(name, size_bytes);
    flash.precondition(1.0, 7);
    let mut bytes = Vec::new();
    flash.save(&mut bytes).expect("memory takes it");
    (flash, bytes)
}

#[test]
fn a_loaded_drive_goes_on_as_the_saved_one() {
    for name in ["nvme-mlc", "tlc-2020", "sata-2008"] {
        let (mut original, bytes) = saved(name, 64 * MIB);
        let mut loaded = drive(name, 64 * MIB);
        loaded.load(bytes.as_slice()).expect("it was saved");
        loaded.assert_consistent();
        let mut again = Vec::new();
        loaded.save(&mut again).expect("memory takes it");
        assert_eq!(bytes, again, "{name}");
        let [one, other] = [&mut original, &mut loaded]
            .map(|flash| at_random(flash, Operation::Write, 8, 5_000, 4096).requests);
        assert_eq!(one, other);
        // Free blocks may be taken in another order: what is done is the same but for that.
        let (one, other) = (original.counters(), loaded.counters());
        assert_eq!(one.host_frames, other.host_frames);
        assert!(one.frames_moved.abs_diff(other.frames_moved) <= one.frames_moved / 5, "{one:?} {other:?}");
    }
}

#[test]
fn a_state_of_another_drive_is_refused() {
    let (_, bytes) = saved("sata-2008", 64 * MIB);
    for (name, size_bytes) in [("sata-2008", 65 * MIB), ("sata-2011", 64 * MIB)] {
        let refused = drive(name, size_bytes).load(bytes.as_slice()).unwrap_err();
        assert!(refused.to_string().contains("another shape or size"), "{refused}");
    }
}

#[test]
fn a_damaged_state_is_refused_and_leaves_the_drive_as_it_was() {
    let (mut flash, bytes) = saved("sd-card", 8 * MIB);
    let mut random = Random::new(1);
    for round in 0..3_000 {
        let mut bad = bytes.clone();
        match round % 4 {
            0 => bad.truncate(random.index(bytes.len())),
            1 => bad.push(0),
            2 => {
                let at = random.index(bad.len());
                bad[at] ^= 1 << random.below(8);
            }
            _ => {
                let at = random.index(bad.len() - 8);
                random.fill(&mut bad[at..at + 8]);
            }
        }
        if bad == bytes {
            continue;
        }
        assert!(flash.load(bad.as_slice()).is_err(), "round {round}");
    }
    flash.assert_consistent();
    let mut again = Vec::new();
    flash.save(&mut again).expect("memory takes it");
    assert_eq!(bytes, again);
}

#[test]
fn a_state_is_refused_for_what_it_says_and_not_only_for_its_sum() {
    let (_, bytes) = saved("sd-card", 8 * MIB);
    // Whoever makes a file can sum it too: a drive must refuse what would break it before it comes to the sum.
    let blocks = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let owners = 24 + blocks * 9;
    let refusals: [(usize, [u8; 4], &str); 4] = [
        (0, *b"evkf", "does not begin"),
        (8, [9, 0, 0, 0], "another version"),
        (24, [0xFF; 4], "more or less than pages"),
        (owners, [0xF0, 0xFF, 0xFF, 0x7F], "belongs to nothing"),
    ];
    for (at, put, why) in refusals {
        let mut bad = bytes.clone();
        bad[at..at + 4].copy_from_slice(&put);
        let Err(LoadError::Refused(said)) = drive("sd-card", 8 * MIB).load(bad.as_slice()) else {
            panic!("{why}")
        };
        assert!(said.contains(why), "{said}");
    }
    // The same place of the drive twice.
    let mut bad = bytes.clone();
    let valid: Vec<usize> =
        (owners..bytes.len() - 8).step_by(4).filter(|&at| bytes[at + 3] == 0).take(2).collect();
    bad.copy_within(valid[0]..valid[0] + 4, valid[1]);
    let refused = drive("sd-card", 8 * MIB).load(bad.as_slice()).unwrap_err();
    assert!(refused.to_string().contains("two pages"), "{refused}");
}
