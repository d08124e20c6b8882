//! Drives that do what they must not.

use crate::common::{ATOMIC, SECTOR, durable_marks, marked, run_drive, sectors, visible_marks, write};
use evenkeel_engine::device::{Device, Durability, FlushScope};
use evenkeel_engine::error::DeviceError;
use evenkeel_sim::drive::{DriveOptions, SimDrive};
use evenkeel_sim::executor::SimEnv;
use evenkeel_sim::faults::{EIO, ENOSPC, Faults};
use evenkeel_sim::image::{Image, SharedImage};
use evenkeel_sim::random::Random;

/// A drive with `faults` runs through `story`; then the power fails.
fn faulty<F: Future<Output = ()>>(
    seed: u64,
    faults: Faults,
    story: impl FnOnce(SimEnv, SimDrive) -> F,
) -> SharedImage {
    let image = Image::shared(ATOMIC);
    let options = DriveOptions { faults, seed, ..DriveOptions::default() };
    run_drive(&image, options, None, story).0.expect("the story comes to its end");
    image
}

fn lose_all(image: &SharedImage) {
    image.borrow_mut().power_cut_subset(0);
}

fn errno(result: Result<(), DeviceError>) -> i32 {
    result.expect_err("the drive fails").errno
}

#[test]
fn a_latent_error_fails_reads_until_the_sector_is_written() {
    let image = Image::shared(ATOMIC);
    image.borrow_mut().make_unreadable(sectors(3, 2));
    run_drive(&image, DriveOptions::default(), None, async |_, drive| {
        drive.read(0, &mut marked(0, 3)).await.unwrap();
        assert_eq!(errno(drive.read(2 * SECTOR, &mut marked(0, 2)).await), EIO);
        assert_eq!(errno(drive.read(4 * SECTOR, &mut marked(0, 1)).await), EIO);
        write(&drive, 3, 1, 1).await;
        drive.read(3 * SECTOR, &mut marked(0, 1)).await.unwrap();
        assert_eq!(errno(drive.read(3 * SECTOR, &mut marked(0, 2)).await), EIO);
    })
    .0
    .unwrap();
}

#[test]
fn a_failing_write_leaves_a_prefix_at_most_and_is_never_durable() {
    let mut ends = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let faults = Faults { failing_writes: 1..2, ..Faults::default() };
        let image = faulty(seed, faults, async |_, drive| {
            write(&drive, 0, 3, 1).await;
            assert_eq!(errno(drive.write(0, &marked(2, 3), Durability::Durable).await), EIO);
            write(&drive, 3, 1, 3).await;
        });
        ends.insert(visible_marks(&image, 4));
        lose_all(&image);
        assert_eq!(durable_marks(&image, 4), [0; 4]);
    }
    let every = [[1, 1, 1, 3], [2, 1, 1, 3], [2, 2, 1, 3], [2, 2, 2, 3]];
    assert_eq!(ends, every.map(Vec::from).into());
}

#[test]
fn a_full_drive_refuses_a_write_and_keeps_what_was() {
    let faults = Faults { full_writes: 1..u64::MAX, ..Faults::default() };
    let image = faulty(1, faults, async |_, drive| {
        write(&drive, 0, 1, 1).await;
        assert_eq!(errno(drive.write(0, &marked(2, 1), Durability::Buffered).await), ENOSPC);
        assert_eq!(errno(drive.write(0, &marked(3, 1), Durability::Durable).await), ENOSPC);
    });
    assert_eq!(visible_marks(&image, 1), [1]);
}

#[test]
fn a_failed_flush_is_not_made_good_by_the_next() {
    let mut durable = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let faults = Faults { failing_flushes: 0..1, ..Faults::default() };
        let image = faulty(seed, faults, async |_, drive| {
            write(&drive, 0, 1, 1).await;
            write(&drive, 1, 1, 2).await;
            assert_eq!(errno(drive.flush(FlushScope::Whole).await), EIO);
            write(&drive, 2, 1, 3).await;
            drive.flush(FlushScope::Whole).await.unwrap();
        });
        assert_eq!(visible_marks(&image, 3), [1, 2, 3], "what was given up is still readable");
        // All that still can land does.
        image.borrow_mut().power_cut_subset(u64::MAX);
        durable.insert(durable_marks(&image, 3));
    }
    assert_eq!(durable, [[0, 0, 3], [1, 0, 3], [0, 2, 3], [1, 2, 3]].map(Vec::from).into());
}

#[test]
fn a_lost_write_is_acknowledged_and_never_happens() {
    let faults = Faults { lost_writes: 1..2, ..Faults::default() };
    let image = faulty(1, faults, async |_, drive| {
        write(&drive, 0, 1, 1).await;
        drive.write(0, &marked(2, 1), Durability::Durable).await.unwrap();
    });
    assert_eq!(visible_marks(&image, 1), [1]);
}

#[test]
fn a_misdirected_write_lands_elsewhere() {
    for seed in 0..100 {
        let faults = Faults { misdirected_writes: 0..1, ..Faults::default() };
        let image = faulty(seed, faults, async |_, drive| {
            drive.write(5 * SECTOR, &marked(2, 3), Durability::Durable).await.unwrap();
        });
        let marks = durable_marks(&image, 64);
        let first = marks.iter().position(|&mark| mark == 2).expect("it landed somewhere");
        assert_ne!(first, 5);
        assert_eq!(marks.iter().filter(|&&mark| mark == 2).count(), 3);
    }
}

#[test]
fn a_flush_that_lies_covers_nothing() {
    let faults = Faults { lying_flushes: 0..1, ..Faults::default() };
    let image = faulty(1, faults, async |_, drive| {
        write(&drive, 0, 1, 1).await;
        drive.flush(FlushScope::Whole).await.unwrap();
    });
    lose_all(&image);
    assert_eq!(durable_marks(&image, 1), [0]);
}

#[test]
fn a_durable_write_that_lies_is_buffered() {
    let faults = Faults { lying_durable_writes: 0..u64::MAX, ..Faults::default() };
    let image = faulty(1, faults, async |_, drive| {
        drive.write(0, &marked(1, 1), Durability::Durable).await.unwrap();
    });
    assert_eq!(visible_marks(&image, 1), [1]);
    lose_all(&image);
    assert_eq!(durable_marks(&image, 1), [0]);
}

#[test]
fn a_dead_drive_fails_everything_and_may_come_back() {
    let faults = Faults { failing_operations: 1..u64::MAX, ..Faults::default() };
    let image = faulty(1, faults, async |_, drive| {
        write(&drive, 0, 1, 1).await;
        assert_eq!(errno(drive.write(0, &marked(2, 1), Durability::Buffered).await), EIO);
        assert_eq!(errno(drive.read(0, &mut marked(0, 1)).await), EIO);
        assert_eq!(errno(drive.flush(FlushScope::Whole).await), EIO);
        assert_eq!(errno(drive.discard(sectors(0, 1)).await), EIO);
        drive.set_faults(Faults::default());
        let mut bytes = marked(0, 1);
        drive.read(0, &mut bytes).await.unwrap();
        assert_eq!(bytes, marked(1, 1));
    });
    lose_all(&image);
    assert_eq!(durable_marks(&image, 1), [0]);
}

#[test]
fn rot_changes_what_is_durable_and_nothing_else() {
    for seed in 0..100 {
        let image = faulty(1, Faults::default(), async |_, drive| {
            drive.write(0, &marked(7, 4), Durability::Durable).await.unwrap();
        });
        image.borrow_mut().rot(700, 20, &mut Random::new(seed));
        let mut bytes = marked(0, 4);
        image.borrow().read(0, &mut bytes);
        assert!(bytes[700..720].iter().any(|&byte| byte != 7));
        assert!(bytes[..700].iter().chain(&bytes[720..]).all(|&byte| byte == 7));
    }
}
