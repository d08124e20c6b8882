//! Stories of volumes whose log is on the members of their ring.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{LOG_COPIES, log_bytes_with_superblocks};
use evenkeel_engine::format::ring_head;
use evenkeel_engine::ring::{MemberState, WindowOptions};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::random::Random;

use crate::machine::mirror::{Machine, PAGE, Plan, dead, filled, noise};

/// Writes so many bytes at the beginning, durably, and then the power fails.
fn write_and_cut(machine: &mut Machine, bytes: &mut [u8], part: &[u8]) {
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, part, Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    bytes[..part.len()].copy_from_slice(part);
}

#[test]
fn a_durable_write_survives_a_cut() {
    for members in 1..=3 {
        let (mut machine, mut bytes) = filled(Plan::with_log_on_members(members), 3);
        for round in 0..4 {
            write_and_cut(&mut machine, &mut bytes, &noise(round, 5000));
            assert!(machine.contents() == bytes, "{members} members, round {round}");
            machine.power_cut();
        }
    }
}

#[test]
fn a_record_is_on_the_member_that_wrote_alone_and_on_none_that_reads() {
    let mut plan = Plan::with_log_on_members(3);
    plan.ring.window = WindowOptions { fixed: Some(2), ..WindowOptions::default() };
    let mut machine = Machine::new(plan, 5);
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        volume.read(0, &mut [0; 512]).await.unwrap(); // somebody reads
        let before: Vec<u64> = run.members.iter().map(|member| member.counters().writes).collect();
        volume.write(0, &[7; 100], Durability::Durable).await.unwrap();
        let after = run.members.iter().map(|member| member.counters().writes);
        let written: Vec<u64> = after.zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(written.iter().sum::<u64>(), 1, "{written:?}");
        assert_eq!(ring.window(), (2, 3), "the others read");
    });
    machine.power_cut();
    let records = ring_head::DATA_OFFSET + LOG_COPIES as u64 * PAGE;
    let holds_it = |place: &usize| {
        let mut found = [0; 512];
        machine.members[*place].borrow().read_durable(records, &mut found);
        found != [0; 512]
    };
    assert_eq!((0..3).filter(holds_it).count(), 1);
}

#[test]
fn without_a_member_that_may_alone_hold_what_was_acknowledged_the_volume_is_not_opened() {
    for lost in 0..2 {
        let (mut machine, mut bytes) = filled(Plan::with_log_on_members(2), 11);
        write_and_cut(&mut machine, &mut bytes, &noise(1, 5000));
        machine.members_gone = vec![lost];
        let why = machine.refusal();
        assert!(why.contains("may be on one alone") && why.contains(&format!("number {lost}")), "{why}");
        machine.members_gone = vec![];
        assert!(machine.contents() == bytes, "that it refused has changed nothing");
    }
}

#[test]
fn a_member_that_is_what_it_was_before_the_last_opening_keeps_the_volume_shut_where_others_know() {
    for (members, stale) in [(2, 0), (2, 1), (3, 0), (3, 1), (3, 2)] {
        let (mut machine, mut bytes) = filled(Plan::with_log_on_members(members), 11);
        let before = machine.members[stale].borrow().clone();
        write_and_cut(&mut machine, &mut bytes, &noise(1, 5000));
        let came = Rc::clone(&machine.members[stale]);
        machine.members[stale] = Rc::new(RefCell::new(before));
        let why = machine.refusal();
        assert!(why.contains(&format!("older than the others know it to be: writes that were acknowledged may have been on it alone (number {stale}")), "{why}");
        machine.members[stale] = came;
        assert!(machine.contents() == bytes, "that it refused has changed nothing");
    }
}

#[test]
fn a_superblock_of_an_earlier_opening_is_not_taken_where_the_newer_ones_have_rotted() {
    for rotten in 0..2 {
        let (mut machine, mut bytes) = filled(Plan::with_log_on_members(2), 31);
        write_and_cut(&mut machine, &mut bytes, &noise(1, 5000));
        let superblocks = LOG_COPIES as u64 * PAGE;
        machine.members[rotten].borrow_mut().rot(ring_head::DATA_OFFSET, superblocks, &mut Random::new(7));
        let opened = machine.run_whole(async |run| run.open().await.map(drop));
        machine.power_cut();
        match opened {
            Ok(()) => assert!(machine.contents() == bytes),
            Err(Error::Unusable(why)) => {
                assert!(why.contains("older than its members know it to be"), "{why}");
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn two_starts_that_ended_as_they_named_others_leave_a_volume_that_opens() {
    // Each ends at another head; each time another member is away, and at last all are there.
    for (first, second) in (0..30).flat_map(|first| (0..30).map(move |second| (first, second))) {
        let (mut machine, bytes) = filled(Plan::with_log_on_members(3), 37);
        for (away, at_event) in [(2, first), (0, second)] {
            machine.members_gone = vec![away];
            let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
            let _ended = machine.run(cut, async |run| run.open().await.map(drop));
            machine.power_cut();
        }
        machine.members_gone = vec![];
        assert!(machine.contents() == bytes, "cut at {first} and at {second}");
    }
}

#[test]
fn a_volume_that_was_closed_loses_a_member_and_nothing_else() {
    for lost in 0..3 {
        let (mut machine, bytes) = filled(Plan::with_log_on_members(3), 13);
        machine.members_gone = vec![lost];
        assert!(machine.contents() == bytes, "without member {lost}");
    }
}

#[test]
fn no_two_members_go_on_without_each_other_behind_an_empty_log() {
    let (mut machine, bytes) = filled(Plan::with_log_on_members(2), 17);
    // Half of them are enough only with the first, or where the other is given up by its name.
    machine.members_gone = vec![0];
    let why = machine.refusal();
    assert!(why.contains("others may have gone on"), "{why}");
    machine.members_gone = vec![1];
    assert!(machine.contents() == bytes);
    machine.power_cut();
    // The first one has gone on: together with it, the other is rebuilt.
    machine.members_gone = vec![];
    assert!(machine.contents() == bytes);
    let (mut machine, bytes) = filled(Plan::with_log_on_members(2), 19);
    machine.members_gone = vec![0];
    machine.plan.ring.given_up = 0b01;
    assert!(machine.contents() == bytes);
}

#[test]
fn a_member_that_is_lost_while_the_volume_is_served_is_not_needed_any_more_soon_after() {
    for lost in 0..2 {
        let (mut machine, mut bytes) = filled(Plan::with_log_on_members(2), 23);
        let (first, second) = (noise(1, 5000), noise(2, 7000));
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            volume.write(0, &first, Durability::Durable).await.unwrap();
            run.members[lost].set_faults(dead());
            volume.write(20_000, &second, Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap(); // which finds out
            volume.write(40_000, &second, Durability::Durable).await.unwrap();
            // Nobody else asks for the next one.
            run.env.sleep(500_000_000).await;
            assert_eq!(ring.members()[lost].state, MemberState::Out);
        });
        machine.power_cut();
        for (at, part) in [(0, &first), (20_000, &second), (40_000, &second)] {
            bytes[at..at + part.len()].copy_from_slice(part);
        }
        machine.members_gone = vec![lost];
        assert!(machine.contents() == bytes, "without member {lost}");
        machine.power_cut();
        // It comes back alone, as it was: what the other has is missing.
        machine.members_gone = vec![1 - lost];
        assert!(machine.refusal().contains("may be on one alone"));
        // With the other it is rebuilt, and then each is as good.
        machine.members_gone = vec![];
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            while ring.members().iter().any(|member| member.state != MemberState::InSync) {
                run.env.sleep(1_000_000).await;
            }
            volume.close().await.unwrap();
        });
        machine.power_cut();
        assert!(machine.member_pages(lost) == bytes);
    }
}

#[test]
fn a_member_that_was_replaced_while_the_volume_was_served_is_a_part_of_the_log_once_it_is_rebuilt() {
    let (mut machine, mut bytes) = filled(Plan::with_log_on_members(2), 29);
    let parts = [noise(1, 3000), noise(2, 3000), noise(3, 3000)];
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        volume.write(0, &parts[0], Durability::Durable).await.unwrap();
        ring.fail(1, evenkeel_engine::error::DeviceError { doing: "be replaced", errno: 5 });
        ring.replace(1, run.members[1].clone().into()).await.unwrap();
        volume.write(8192, &parts[1], Durability::Durable).await.unwrap();
        while ring.members()[1].state != MemberState::InSync {
            run.env.sleep(1_000_000).await;
        }
        // The other dies: what comes now is on the new one alone.
        run.members[0].set_faults(dead());
        volume.write(16_384, &parts[2], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap(); // which finds out
        run.env.sleep(1_000_000_000).await;
    });
    machine.power_cut();
    for (number, part) in parts.iter().enumerate() {
        bytes[number * 8192..number * 8192 + part.len()].copy_from_slice(part);
    }
    machine.members_gone = vec![0];
    assert!(machine.contents() == bytes);
}

#[test]
fn a_member_that_fails_as_the_volume_opens_is_needed_for_what_the_log_held_before() {
    let mut were_cut = 0;
    for (write, at_event) in (0..4).flat_map(|write| (20..60).step_by(4).map(move |event| (write, event))) {
        let (mut machine, mut bytes) = filled(Plan::with_log_on_members(2), 19);
        // Records of several turns, so that each member has some.
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            for page in 0..6 {
                volume.write(page * PAGE, &[5; 4096], Durability::Durable).await.unwrap();
                run.env.sleep(7_000_000).await;
            }
        });
        machine.power_cut();
        bytes[..6 * 4096].fill(5);
        machine.member_faults[0] = Faults { failing_writes: write..write + 1, ..Faults::default() };
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let (ended, _) = machine.run(cut, async |run| {
            let (volume, ..) = run.open().await.unwrap();
            let _closed = volume.close().await;
        });
        machine.power_cut();
        were_cut += u32::from(ended.is_err());
        machine.member_faults[0] = Faults::default();
        assert!(machine.contents() == bytes, "write {write} failed, cut at event {at_event}");
    }
    assert!(were_cut > 20);
}

#[test]
fn a_member_that_falls_silent_with_its_head_gone_is_not_waited_for_at_every_sector() {
    let moments =
        (0..3000).step_by(200).flat_map(|rots| (200..3000).step_by(400).map(move |silent| (rots, silent)));
    for (rots_us, silent_us) in moments {
        let (mut machine, mut bytes) = filled(Plan::with_log_on_members(2), 23);
        write_and_cut(&mut machine, &mut bytes, &noise(1, 5000));
        let image = Rc::clone(&machine.members[1]);
        machine.run_whole(async |run| {
            let (env, drive) = (run.env.clone(), run.members[1].clone());
            run.env.spawn(async move {
                env.sleep(rots_us * 1000).await;
                image.borrow_mut().rot(0, ring_head::DATA_OFFSET, &mut Random::new(rots_us));
                env.sleep(silent_us * 1000).await;
                drive.set_faults(Faults { silent_operations: 0..u64::MAX, ..Faults::default() });
            });
            let _opened = run.open().await;
            let took_ns = run.env.now_ns();
            assert!(took_ns < 30_000_000_000, "{rots_us} us, and {silent_us} later: {took_ns} ns");
        });
    }
}

#[test]
fn a_record_waits_no_longer_than_half_a_turn_for_a_member_that_flushes() {
    let mut plan = Plan::with_log_on_members(2);
    plan.create.log_bytes = 8 << 20;
    plan.ring.log_bytes = log_bytes_with_superblocks(plan.create.log_bytes);
    let (mut machine, _) = filled(plan, 41);
    machine.plan.latency.flush_ns = 100_000_000;
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        let mut longest_ns = 0;
        for number in 0..2000 {
            let began_ns = run.env.now_ns();
            volume.write(number % 60 * PAGE, &noise(number, 512), Durability::Durable).await.unwrap();
            longest_ns = longest_ns.max(run.env.now_ns() - began_ns);
        }
        assert!(longest_ns < 20_000_000, "{longest_ns} ns");
    });
}
