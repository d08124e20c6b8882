//! Discards are hints: how many are sent, and that one which fails is counted and told, and changes nothing else.

use std::rc::Rc;

use crate::machine::{self, PAGE, Plan, filled, patch};
use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::events::{Event, Events};
use evenkeel_engine::ring::{MemberState, Policy};
use evenkeel_engine::volume::check;
use evenkeel_sim::faults::{EIO, EOPNOTSUPP, EREMOTEIO, FailingDiscards, Faults};

const PAGES: u64 = 200;

fn failing(from: u64, errno: i32) -> Faults {
    Faults { failing_discards: Some(FailingDiscards { from, errno }), ..Faults::default() }
}

/// What a drive that fails to discard gives for a reason.
fn answer(errno: i32) -> DeviceError {
    DeviceError { doing: "discard", errno }
}

fn told_of_discards(events: &Rc<Events>) -> Vec<Event> {
    let all = std::iter::from_fn(|| events.take());
    all.filter(|event| matches!(event, Event::DiscardsStopped { .. })).collect()
}

#[test]
fn a_drive_that_fails_to_discard_is_asked_no_more_and_the_volume_goes_on() {
    for errno in [EIO, EOPNOTSUPP, EREMOTEIO] {
        let (mut machine, mut expected) = filled(Plan::of_pages(PAGES), 3);
        machine.run_whole(async |run| {
            run.home.set_faults(failing(0, errno));
            let volume = run.open().await.unwrap();
            for page in [10, 30, 50] {
                volume.write_zeroes(Extent::new(page * PAGE, 4 * PAGE), Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
                patch(&mut expected, page * PAGE, &[0; 4 * PAGE as usize]);
            }
            assert_eq!((run.home.counters().discards, volume.counters().failed_discards), (1, 1));
            assert_eq!(volume.discards_stopped(), Some(answer(errno)));
            let told = Event::DiscardsStopped { place: None, error: answer(errno) };
            assert_eq!(told_of_discards(&volume.events()), [told]);
            // A part of a page whose discard failed: what is under it is zeros, whatever the drive holds there.
            volume.write(11 * PAGE + 100, &[7; 50], Durability::Durable).await.unwrap();
            patch(&mut expected, 11 * PAGE + 100, &[7; 50]);
            assert_eq!(volume.failure(), None);
            volume.close().await.unwrap();
        });
        machine.power_cut();
        assert!(machine.contents() == expected, "errno {errno}");
    }
}

/// A drive may refuse for a while: the next opening asks it again.
#[test]
fn the_next_opening_asks_again() {
    let (mut machine, _) = filled(Plan::of_pages(PAGES), 3);
    for fails in [true, false, true] {
        machine.run_whole(async |run| {
            run.home.set_faults(if fails { failing(0, EIO) } else { Faults::default() });
            let volume = run.open().await.unwrap();
            volume.write(10 * PAGE, &[1; PAGE as usize], Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            volume.write_zeroes(Extent::new(10 * PAGE, PAGE), Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            assert_eq!(run.home.counters().discards, 1);
            assert_eq!(volume.discards_stopped().is_some(), fails);
            volume.close().await.unwrap();
        });
        machine.power_cut();
    }
}

#[test]
fn a_member_that_fails_to_discard_counts_as_before_and_is_asked_no_more() {
    for policy in [Policy::Auto, Policy::Turns, Policy::Mixed] {
        let mut plan = machine::mirror::Plan::mirror(2, 2);
        plan.ring.policy = policy;
        let (mut machine, mut expected) = machine::mirror::filled(plan, 5);
        machine.member_faults[1] = failing(1, EREMOTEIO);
        machine.run_whole(async |run| {
            let (volume, ring, _logs) = run.open().await.unwrap();
            for page in [10, 20, 30, 40] {
                volume.write_zeroes(Extent::new(page * PAGE, 2 * PAGE), Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
                patch(&mut expected, page * PAGE, &[0; 2 * PAGE as usize]);
            }
            let discards: Vec<u64> = run.members.iter().map(|member| member.counters().discards).collect();
            assert_eq!(discards, [4, 2], "the second of the one that fails is its last");
            let members = ring.members();
            assert!(members.iter().all(|member| member.state == MemberState::InSync), "{members:?}");
            assert_eq!(members[0].discards_stopped, None);
            assert_eq!(
                (members[1].discards_stopped, members[1].failed_discards),
                (Some(answer(EREMOTEIO)), 1)
            );
            let told = Event::DiscardsStopped { place: Some(1), error: answer(EREMOTEIO) };
            assert_eq!(told_of_discards(&ring.events()), [told]);
            assert_eq!(volume.failure(), None);
            volume.close().await.unwrap();
        });
        machine.power_cut();
        machine.members_gone = vec![0];
        assert!(machine.contents() == expected, "it holds everything");
    }
}

#[test]
fn members_that_all_fail_to_discard_are_a_mirror_all_the_same() {
    let (mut machine, mut expected) = machine::mirror::filled(machine::mirror::Plan::mirror(3, 1), 5);
    machine.member_faults.fill(failing(0, EIO));
    machine.run_whole(async |run| {
        let (volume, ring, _logs) = run.open().await.unwrap();
        volume.write_zeroes(Extent::new(3 * PAGE, 20 * PAGE), Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
        assert!(ring.members().iter().all(|member| member.state == MemberState::InSync));
        patch(&mut expected, 3 * PAGE, &[0; 20 * PAGE as usize]);
    });
    machine.power_cut();
    assert!(machine.contents() == expected);
}

/// Nothing tells whether a discard that is not answered happens later, over what is written there by then.
#[test]
fn a_member_that_does_not_answer_a_discard_fails() {
    let (mut machine, _) = machine::mirror::filled(machine::mirror::Plan::mirror(2, 2), 5);
    machine.run_whole(async |run| {
        let (volume, ring, _logs) = run.open().await.unwrap();
        volume.write_zeroes(Extent::new(3 * PAGE, 2 * PAGE), Durability::Durable).await.unwrap();
        let next = run.members[1].counters().operations;
        run.members[1].set_faults(machine::mirror::silent(next));
        volume.checkpoint().await.unwrap();
        assert_eq!(ring.members()[1].state, MemberState::Out);
    });
}

/// A plan whose log and memory take 128 pages at once.
fn roomy(discard_pages_max: u64) -> Plan {
    let mut plan = Plan::of_pages(PAGES);
    plan.create.log_bytes = 4 << 20;
    plan.arena_bytes = 4 << 20;
    plan.open.tuning.discard_pages_max = discard_pages_max;
    plan
}

#[test]
fn neighbouring_pages_are_given_back_as_one_up_to_a_bound() {
    for (pages_max, discards) in [(4096, 1), (64, 2), (50, 3), (1, 128)] {
        let (mut machine, _) = filled(roomy(pages_max), 3);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write_zeroes(Extent::new(10 * PAGE, 128 * PAGE), Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            assert_eq!(run.home.counters().discards, discards, "{pages_max} at once");
        });
    }
}

#[test]
fn pages_that_lie_apart_are_given_back_apart() {
    let (mut machine, mut expected) = filled(roomy(4096), 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for (page, pages) in [(10, 5), (15, 5), (21, 1), (40, 30)] {
            volume.write_zeroes(Extent::new(page * PAGE, pages * PAGE), Durability::Durable).await.unwrap();
            patch(&mut expected, page * PAGE, &vec![0; (pages * PAGE) as usize]);
        }
        volume.write(50 * PAGE, &[3; PAGE as usize], Durability::Durable).await.unwrap();
        patch(&mut expected, 50 * PAGE, &[3; PAGE as usize]);
        volume.checkpoint().await.unwrap();
        // 10 to 20, 21, 40 to 50, 51 to 70.
        assert_eq!(run.home.counters().discards, 4);
        volume.close().await.unwrap();
    });
    machine.power_cut();
    assert!(machine.contents() == expected);
}

#[test]
fn each_member_of_a_mirror_gives_neighbours_back_as_one() {
    let (mut machine, _) = machine::mirror::filled(machine::mirror::Plan::mirror(2, 1), 5);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write_zeroes(Extent::new(3 * PAGE, 40 * PAGE), Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        let discards: Vec<u64> = run.members.iter().map(|member| member.counters().discards).collect();
        assert_eq!(discards, [1, 1]);
    });
}

#[test]
fn what_is_zeroed_up_to_the_atomic_size_is_one_write() {
    let atomic_max_bytes = 16_384;
    for (offset, len, units) in [
        (0, 100, 1),
        (4000, 200, 1),
        (4000, atomic_max_bytes, 1),
        (8192, atomic_max_bytes, 1),
        (8191, atomic_max_bytes, 1),
        (8191, atomic_max_bytes + 2, 3), // of up to two pages it has a part
    ] {
        let mut plan = roomy(4096);
        plan.create.atomic_max_bytes = atomic_max_bytes;
        let (mut machine, mut expected) = filled(plan, 3);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let before = volume.counters();
            volume.write_zeroes(Extent::new(offset, len), Durability::Durable).await.unwrap();
            let committed = volume.counters().committed_units - before.committed_units;
            assert_eq!(committed, units, "{len} bytes from {offset}");
        });
        machine.power_cut();
        patch(&mut expected, offset, &vec![0; len as usize]);
        assert!(machine.contents() == expected);
    }
}

#[test]
fn zeroing_what_has_no_contents_writes_nothing() {
    let mut machine = machine::Machine::new(Plan::of_pages(PAGES), 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        volume.write_zeroes(Extent::new(8 * PAGE, 4 * PAGE), Durability::Durable).await.unwrap();
        assert_eq!(volume.counters().committed_units, before.committed_units);
        // What is written and not durable yet is contents.
        volume.write(9 * PAGE, &[5; PAGE as usize], Durability::Buffered).await.unwrap();
        volume.write_zeroes(Extent::new(8 * PAGE, 4 * PAGE), Durability::Durable).await.unwrap();
        assert!(
            machine::read(&volume, 8 * PAGE, 4 * PAGE as usize).await.unwrap().iter().all(|&byte| byte == 0)
        );
        volume.checkpoint().await.unwrap();
        assert!(!volume.allocation(9, 1).await.unwrap().0);
    });
}

/// Behind the pages that there were lies the table of those that came later.
#[test]
fn pages_that_came_as_the_volume_grew_are_given_back_apart_from_those_before() {
    let (mut machine, mut expected) = filled(roomy(4096), 3);
    let home = Rc::clone(&machine.home);
    let size_bytes = (PAGES + 40) * PAGE;
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let needed = volume.plan_growth(size_bytes).unwrap().home_bytes;
        home.borrow_mut().enlarge(needed, None);
        volume.grow(size_bytes).await.unwrap();
        volume.write(PAGES * PAGE, &[8; 40 * PAGE as usize], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        volume.write_zeroes(Extent::new((PAGES - 20) * PAGE, 40 * PAGE), Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        assert_eq!(run.home.counters().discards, 2);
        assert!(check(&volume).await.unwrap().is_clean());
        volume.close().await.unwrap();
    });
    machine.power_cut();
    expected.resize(size_bytes as usize, 8);
    patch(&mut expected, (PAGES - 20) * PAGE, &[0; 40 * PAGE as usize]);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        assert!(machine::read(&volume, 0, size_bytes as usize).await.unwrap() == expected);
    });
}
