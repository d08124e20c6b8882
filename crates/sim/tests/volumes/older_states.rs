//! Devices that hold an older state of the volume than somebody knows of: who knows it, and what is said.

use crate::machine::{Machine, PAGE, Plan, SimVolume, WHOLE_RUN, patch};
use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::error::Error;
use evenkeel_engine::options::Journaling;
use evenkeel_sim::cuts::CutPlan;
use evenkeel_sim::image::{Image, SharedImage};
use evenkeel_sim::random::Random;

const PAGES: u64 = 40;

/// What a drive holds as somebody who copies it reads it.
fn copy_of(image: &Image) -> Image {
    let mut copy = image.clone();
    copy.kill(&mut Random::new(1));
    copy
}

/// Both drives of a machine.
fn drives(machine: &Machine) -> [SharedImage; 2] {
    [machine.home.clone(), machine.log.clone()]
}

fn put(machine: &Machine, images: &[Image; 2], of: [bool; 2]) {
    for ((drive, image), _) in drives(machine).iter().zip(images).zip(of).filter(|(_, is_meant)| *is_meant) {
        drive.replace(image.clone());
    }
}

async fn write(volume: &SimVolume, page: u64, byte: u8, durability: Durability) {
    volume.write(page * PAGE + 100, &[byte; 700], durability).await.unwrap();
}

/// A volume that was killed, what its drives held at some moment of the opening before, and what it holds.
fn killed_after(plan: Plan, later: impl AsyncFn(&SimVolume)) -> (Machine, [Image; 2]) {
    let mut machine = Machine::new(plan, 1);
    let before = machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        write(&volume, 1, 1, Durability::Durable).await;
        write(&volume, 2, 2, Durability::Buffered).await;
        let before = [copy_of(&run.home.image()), copy_of(&run.log.image())];
        later(&volume).await;
        before
    });
    machine.kill();
    (machine, before)
}

fn contents_with(plan: Plan, pages: &[(u64, u8)]) -> Vec<u8> {
    let mut expected = vec![0; plan.create.size_bytes as usize];
    pages.iter().for_each(|&(page, byte)| patch(&mut expected, page * PAGE + 100, &[byte; 700]));
    expected
}

fn refusal(machine: &mut Machine) -> Option<Error> {
    let opened = machine.run_whole(async |run| run.open().await.map(drop));
    machine.kill();
    opened.err()
}

#[test]
fn an_older_state_of_the_same_opening_is_refused_beside_what_a_kill_left() {
    for plan in Plan::every_kind(PAGES) {
        let later = async |volume: &SimVolume| {
            write(volume, 3, 3, Durability::Durable).await;
            write(volume, 4, 4, Durability::Buffered).await;
        };
        let (mut machine, before) = killed_after(plan, later);
        let newest = drives(&machine).map(|drive| drive.borrow().clone());
        // Of a log of its own, the log alone too.
        let parts: &[[bool; 2]] =
            if plan.separate_log { &[[true; 2], [false, true]] } else { &[[true, false]] };
        for &part in parts {
            put(&machine, &before, part);
            // The same each time: nothing was changed.
            for _ in 0..2 {
                let refused = refusal(&mut machine);
                assert!(
                    matches!(refused, Some(Error::OlderDevices { .. })),
                    "{part:?} {plan:?}: {refused:?}"
                );
            }
            put(&machine, &newest, [true; 2]);
        }
        let mut brought_back = machine.fork(7);
        let expected = contents_with(plan, &[(1, 1), (2, 2), (3, 3), (4, 4)]);
        assert!(brought_back.contents() == expected, "{plan:?}");
        // Without the arena the older state is one like any other.
        put(&machine, &before, [true; 2]);
        machine.arena.clear();
        let found = machine.contents();
        let without = contents_with(plan, &[(1, 1)]);
        let with = contents_with(plan, &[(1, 1), (2, 2)]);
        assert!(found == without || found == with, "{plan:?}");
    }
}

#[test]
fn an_older_state_is_refused_though_no_write_waits() {
    let later = async |volume: &SimVolume| {
        write(volume, 3, 3, Durability::Durable).await;
        volume.flush(FlushScope::Whole).await.unwrap();
    };
    let (mut machine, before) = killed_after(Plan::of_pages(PAGES), later);
    put(&machine, &before, [true; 2]);
    let refused = refusal(&mut machine);
    assert!(matches!(refused, Some(Error::OlderDevices { writes: 0, .. })), "{refused:?}");
}

#[test]
fn a_state_that_lacks_no_record_is_taken_with_what_a_kill_left() {
    // The baselines write home or to the log with each write.
    let keeps_in_memory =
        |plan: &Plan| matches!(plan.open.journaling, Journaling::Wasteless | Journaling::Selective { .. });
    for plan in Plan::every_kind(PAGES).into_iter().filter(keeps_in_memory) {
        let later = async |volume: &SimVolume| write(volume, 4, 4, Durability::Buffered).await;
        let (mut machine, before) = killed_after(plan, later);
        put(&machine, &before, [true; 2]);
        assert!(machine.contents() == contents_with(plan, &[(1, 1), (2, 2), (4, 4)]), "{plan:?}");
    }
}

#[test]
fn a_log_that_lacks_more_than_one_superblock_is_refused() {
    let plan = Plan::of_pages(PAGES);
    for checkpoints in 0..4 {
        let later = async |volume: &SimVolume| {
            for number in 0..checkpoints {
                write(volume, 3, number, Durability::Durable).await;
                volume.checkpoint().await.unwrap();
            }
        };
        let (mut machine, before) = killed_after(plan, later);
        machine.power_cut();
        put(&machine, &before, [false, true]);
        let refused = refusal(&mut machine);
        match checkpoints {
            0 => assert_eq!(refused, None),
            // One superblock may be missing after a cut, and that one says which records there were.
            1 => assert!(refused.is_none_or(|error| error.to_string().contains("acknowledged"))),
            _ => {
                let why = refused.expect("it lacks superblocks").to_string();
                assert!(why.contains("the log is older") && why.contains("bring back"), "{why}");
            }
        }
    }
}

#[test]
fn a_log_that_lacks_what_an_opening_found_is_refused() {
    let plan = Plan::of_pages(PAGES);
    let mut machine = Machine::new(plan, 1);
    let before = machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        write(&volume, 1, 1, Durability::Durable).await;
        let before = [copy_of(&run.home.image()), copy_of(&run.log.image())];
        write(&volume, 2, 2, Durability::Durable).await;
        before
    });
    machine.power_cut();
    // The next opening is cut at every moment: from the one on at which the home device knows of it, the log is not taken.
    let mut refused = 0;
    for at_event in 0.. {
        let mut machine = machine.fork(at_event);
        let cut = CutPlan { at_event: Some(at_event), ..WHOLE_RUN };
        let (ended, _) = machine.run(cut, async |run| run.open().await.map(drop));
        machine.power_cut();
        put(&machine, &before, [false, true]);
        let is_refused = refusal(&mut machine).is_some();
        assert!(is_refused || refused == 0, "event {at_event}: once it is known it stays known");
        refused += u64::from(is_refused);
        if ended.is_ok() {
            assert!(is_refused);
            break;
        }
    }
    // The superblock that begins the opening is followed by those of its checkpoint, behind which one more is missing.
    assert!(refused > 4, "{refused}");
}
