//! Stories of log devices of a ring that fail, come back, and are away for a start.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::log_head;
use evenkeel_engine::layout::mirror::log_devices::LogDeviceState;
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::random::Random;

use crate::machine::mirror::{Machine, PAGE, Plan, filled, noise};

#[test]
fn a_log_device_that_failed_is_not_taken_alone_for_the_log() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 19);
    machine.log_faults[0] = Faults { failing_writes: 6..u64::MAX, ..Faults::default() };
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        for number in 0..20u8 {
            volume.write(u64::from(number) * 512, &[number; 512], Durability::Durable).await.unwrap();
        }
    });
    machine.power_cut();
    (0..20u8).for_each(|number| bytes[usize::from(number) * 512..][..512].fill(number));
    machine.log_faults[0] = Faults::default();
    machine.logs_gone = vec![1];
    let why = machine.refusal();
    assert!(why.contains("failed"), "{why}");
    // beside the other it is repaired, and then either will do.
    machine.logs_gone = vec![];
    assert!(machine.contents() == bytes);
    machine.logs_gone = vec![1];
    assert!(machine.contents() == bytes);
}

#[test]
fn a_log_device_that_was_not_there_for_an_opening_is_not_taken_for_the_log_alone() {
    for last_acts in [false, true] {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 37);
        machine.logs_gone = vec![0];
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(0, &[1; 4096], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        bytes[..4096].fill(1);
        machine.logs_gone = vec![1];
        let why = machine.refusal();
        assert!(why.contains("failed"), "{why}");
        machine.logs_gone = vec![];
        assert!(machine.contents() == bytes);
        if last_acts {
            machine.logs_gone = vec![1];
            assert!(machine.contents() == bytes, "what was repaired beside the other is enough alone");
        }
    }
}

#[test]
fn log_devices_that_were_each_the_last_one_after_the_other_are_told_apart() {
    for at_event in 0..24 {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 73);
        machine.logs_gone = vec![0];
        // The one learns that it is alone, and is cut before anything is acknowledged.
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let (ended, _) = machine.run(cut, async |run| run.open().await.map(drop));
        machine.power_cut();
        assert!(ended.is_err(), "the opening is cut");
        // The other goes on alone, unless too much was noted by then.
        machine.logs_gone = vec![1];
        let went_on = machine.run_whole(async |run| {
            let Ok((volume, ..)) = run.open().await else { return false };
            volume.write(0, &[5; 4096], Durability::Durable).await.unwrap();
            true
        });
        machine.power_cut();
        if went_on {
            bytes[..4096].fill(5);
            machine.logs_gone = vec![0];
            let refused = machine.run_whole(async |run| run.open().await.err());
            assert!(matches!(refused, Some(Error::Unusable(_))), "cut at event {at_event}: {refused:?}");
        }
        machine.logs_gone = vec![];
        assert!(machine.contents() == bytes, "cut at event {at_event}");
    }
}

#[test]
fn any_log_device_is_enough_where_a_cut_came_before_the_loss_of_another_was_noted_on_all() {
    for (at_event, rotten) in (0..40).flat_map(|at_event| [(at_event, 1), (at_event, 2)]) {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 3), 79);
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(0, &[3; 4096], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        bytes[..4096].fill(3);
        machine.logs_gone = vec![0];
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        machine.run(cut, async |run| run.open().await.map(drop)).0.unwrap_err();
        machine.power_cut();
        let log_bytes = machine.logs[rotten].borrow().geometry().size_bytes;
        let mut random = Random::new(at_event);
        let behind_head = log_head::DATA_OFFSET;
        machine.logs[rotten].borrow_mut().rot(behind_head, log_bytes - behind_head, &mut random);
        assert!(machine.contents() == bytes, "cut at event {at_event}, {rotten} rotten");
    }
}

#[test]
fn a_start_that_is_refused_takes_nothing_from_the_log_device_that_was_away() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 109);
    let log = |machine: &Machine| {
        let image = machine.logs[0].borrow();
        let mut bytes = vec![0; image.geometry().size_bytes as usize];
        image.read_durable(0, &mut bytes);
        bytes
    };
    let before = log(&machine);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        for page in 0..8 {
            volume.write(page * PAGE, &[7; 4096], Durability::Durable).await.unwrap();
        }
    });
    machine.power_cut();
    bytes[..8 * 4096].fill(7);
    // What rots is followed by records that say that it was acknowledged.
    let is_record = |at: &usize| *at > log_head::DATA_OFFSET as usize + 2 * 4096;
    let after = log(&machine);
    let written: Vec<usize> =
        (0..after.len()).filter(|&at| after[at] != before[at]).filter(is_record).collect();
    let middle = written[written.len() / 2] as u64;
    machine.logs[0].borrow_mut().rot(middle - 1024, 2048, &mut Random::new(109));
    machine.logs_gone = vec![1];
    let refused = machine.run_whole(async |run| run.open().await.err());
    assert!(matches!(refused, Some(Error::Unusable(_))), "{refused:?}");
    machine.power_cut();
    for gone in [vec![0], vec![]] {
        machine.logs_gone = gone;
        assert!(machine.contents() == bytes);
        machine.power_cut();
    }
}

#[test]
fn a_start_without_the_member_that_has_everything_takes_nothing_from_a_log_device_that_was_away_too() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 113);
    machine.members_gone = vec![1];
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, &[7; 4096], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        volume.write(5 * PAGE, &[8; 4096], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    bytes[..4096].fill(7);
    bytes[5 * 4096..6 * 4096].fill(8);
    (machine.members_gone, machine.logs_gone) = (vec![0], vec![1]);
    let refused = machine.run_whole(async |run| run.open().await.err());
    assert!(matches!(refused, Some(Error::Unusable(_))), "{refused:?}");
    machine.power_cut();
    (machine.members_gone, machine.logs_gone) = (vec![], vec![0]);
    assert!(machine.contents() == bytes);
}

#[test]
fn a_log_device_whose_first_head_arrived_though_it_failed_is_not_taken_for_the_log() {
    let mut has_failed = 0;
    for (write, seed) in (0..8).flat_map(|write| (0..6).map(move |seed| (write, seed))) {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 107 + seed);
        machine.logs_gone = vec![1];
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(0, &[3; 4096], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        // It is back, lacks that, and one write of those that give it back fails.
        machine.logs_gone = vec![];
        machine.log_faults[1] = Faults { failing_writes: write..write + 1, ..Faults::default() };
        machine.run_whole(async |run| {
            let (volume, _, logs) = run.open().await.unwrap();
            volume.write(5 * PAGE, &[5; 4096], Durability::Durable).await.unwrap();
            has_failed += u32::from(logs.states()[1].0 == LogDeviceState::Out);
        });
        machine.power_cut();
        machine.log_faults[1] = Faults::default();
        bytes[..4096].fill(3);
        bytes[5 * 4096..6 * 4096].fill(5);
        // Alone, it may refuse; it may not spoil anything.
        machine.logs_gone = vec![0];
        let _refused = machine.run_whole(async |run| run.open().await.map(drop));
        machine.power_cut();
        machine.logs_gone = vec![];
        assert!(machine.contents() == bytes, "write {write} failed, seed {seed}");
    }
    assert!(has_failed > 12);
}

#[test]
fn nothing_goes_home_before_every_log_device_holds_what_the_opening_found_on_one_of_them() {
    let mut was_under_way = 0;
    for at_event in 0..80 {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 89);
        bytes[5 * 4096 + 100..][..600].fill(8);
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            // One log device says that it has the record, and has not.
            let next = run.logs[1].counters().writes;
            run.logs[1].set_faults(Faults { lost_writes: next..u64::MAX, ..Faults::default() });
            volume.write(5 * PAGE + 100, &[8; 600], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        let home = |machine: &Machine| [0, 1].map(|place| machine.member_pages(place));
        let before = home(&machine);
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let _halted = machine.run(cut, async |run| run.open().await.map(drop)).0;
        machine.power_cut();
        if home(&machine) != before {
            machine.logs_gone = vec![0];
            assert!(machine.contents() == bytes, "cut at event {at_event}");
            was_under_way += 1;
        }
    }
    assert!(was_under_way > 0);
}

#[test]
fn log_devices_that_are_what_they_were_before_the_last_opening_are_not_taken_for_the_log() {
    // All of them, or one while the other is away.
    for gone in [vec![], vec![1]] {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 41);
        let before: Vec<_> = machine.logs.iter().map(|log| log.borrow().clone()).collect();
        let part = noise(1, 5000);
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(0, &part, Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        let came = machine.logs.clone();
        machine.logs = before.into_iter().map(|log| Rc::new(RefCell::new(log))).collect();
        machine.logs_gone = gone;
        let why = machine.refusal();
        assert!(why.contains("older than its members know it to be"), "{why}");
        (machine.logs, machine.logs_gone) = (came, vec![]);
        bytes[..part.len()].copy_from_slice(&part);
        assert!(machine.contents() == bytes, "that it refused has changed nothing");
    }
}
