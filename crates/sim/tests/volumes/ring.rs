//! Stories of volumes on a ring: several members that write in turns, and several log devices.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::join::yield_now;
use evenkeel_engine::layout::Replicated;
use evenkeel_engine::ring::{MemberState, Policy, Role};
use evenkeel_engine::volume::ScrubMode;
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::latency::Latency;
use evenkeel_sim::random::Random;

use crate::machine::mirror::{Machine, PAGE, Plan, dead, filled, noise, silent};

#[test]
fn what_is_closed_is_on_every_member() {
    for policy in [Policy::Auto, Policy::Turns, Policy::Mixed, Policy::ReadFirst, Policy::ReadAround] {
        for members in 1..=3 {
            let mut plan = Plan::mirror(members, 2);
            plan.ring.policy = policy;
            let (mut machine, bytes) = filled(plan, 7);
            for place in 0..members {
                assert!(machine.member_pages(place) == bytes, "member {place} of {members}, {policy:?}");
            }
            assert!(machine.contents() == bytes);
        }
    }
}

#[test]
fn a_durable_write_survives_a_cut_with_the_loss_of_any_member_and_any_log_device() {
    for lost in 0..2 {
        for lost_log in 0..2 {
            let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 11);
            let part = noise(1, 5000);
            machine.run_whole(async |run| {
                let (volume, ..) = run.open().await.unwrap();
                volume.write(3000, &part, Durability::Durable).await.unwrap();
            });
            machine.power_cut();
            bytes[3000..8000].copy_from_slice(&part);
            (machine.members_gone, machine.logs_gone) = (vec![lost], vec![lost_log]);
            assert!(machine.contents() == bytes, "without member {lost} and log {lost_log}");
        }
    }
}

#[test]
fn a_stale_member_alone_is_not_served() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 17);
    machine.members_gone = vec![1];
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, &[1; 100], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    machine.members_gone = vec![0];
    let refused = machine.run_whole(async |run| run.open().await.err());
    let Some(Error::Unusable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("holds everything"), "{why}");
    machine.members_gone = vec![];
    assert_eq!(machine.contents()[..100], [1; 100]);
}

#[test]
fn rot_on_one_member_is_never_served_and_a_scrub_repairs_it_from_another() {
    let (mut machine, bytes) = filled(Plan::mirror(2, 1), 23);
    let home_bytes = machine.members[0].borrow().geometry().size_bytes;
    for place in 0..2 {
        // Everything behind the places of the superblocks: roots, table, pages.
        let mut random = Random::new(place as u64);
        machine.members[place].borrow_mut().rot(4 * PAGE, home_bytes - 8 * PAGE, &mut random);
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            let mut found = vec![0; bytes.len()];
            volume.read(0, &mut found).await.unwrap();
            assert!(found == bytes, "with a rotten member {place}");
            let scrubbed = volume.scrub(ScrubMode::Repair, u64::MAX).await.unwrap();
            assert!(scrubbed.wrong_copies > 0 && scrubbed.damaged_pages.is_empty(), "{scrubbed:?}");
            // What is repaired is written in its member's turn.
            run.env.sleep(1_000_000_000).await;
            let again = volume.scrub(ScrubMode::Repair, u64::MAX).await.unwrap();
            assert_eq!((again.wrong_copies, again.copies_checked > 64), (0, true), "{again:?}");
        });
        machine.power_cut();
    }
}

#[test]
fn what_is_right_is_not_written_to_repair_another_copy() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 24);
    let home_bytes = machine.members[0].borrow().geometry().size_bytes;
    let mut random = Random::new(24);
    machine.members[1].borrow_mut().rot(4 * PAGE, home_bytes - 8 * PAGE, &mut random);
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        volume.checkpoint().await.unwrap();
        let before = ring.members();
        volume.scrub(ScrubMode::Repair, u64::MAX).await.unwrap();
        run.env.sleep(1_000_000_000).await;
        // A cut in the middle of a write may take old and new alike: the only good copy stays as it is.
        assert_eq!(ring.members()[0].written_bytes, before[0].written_bytes);
        assert!(ring.members()[1].written_bytes >= before[1].written_bytes + 60 * PAGE);
    });
}

#[test]
fn a_page_of_which_one_copy_was_not_looked_at_is_not_called_damaged() {
    let mut plan = Plan::mirror(2, 1);
    plan.ring.window.unread_turns = u32::MAX;
    let (mut machine, _) = filled(plan, 103);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        // One member has lost whatever goes home to it from now on.
        let next = run.members[1].counters().writes;
        run.members[1].set_faults(Faults { lost_writes: next..u64::MAX, ..Faults::default() });
        let (writing, env) = (volume.clone(), run.env.clone());
        run.env.spawn(async move {
            let mut random = Random::new(103);
            loop {
                env.sleep(random.below(8_000_000)).await;
                let bytes = noise(random.number(), 8 * 4096);
                writing.write(random.below(56) * PAGE, &bytes, Durability::Durable).await.unwrap();
                writing.checkpoint().await.unwrap();
            }
        });
        let mut wrong_copies = 0;
        for _ in 0..200 {
            let report = volume.scrub(ScrubMode::ReadOnly, u64::MAX).await.unwrap();
            assert!(report.damaged_pages.is_empty(), "the other has it: {report:?}");
            wrong_copies += report.wrong_copies;
        }
        assert!(wrong_copies > 1000);
    });
}

#[test]
fn a_volume_whose_last_member_dies_stops() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 31);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        for drive in &run.members {
            drive.set_faults(dead());
        }
        volume.write(0, &[1; 4096], Durability::Durable).await.unwrap();
        assert!(volume.checkpoint().await.is_err());
        assert!(matches!(volume.write(0, &[2], Durability::Buffered).await, Err(Error::Latched(_))));
    });
}

#[test]
fn devices_that_never_answer_keep_no_volume_shut() {
    for from in 0..20 {
        let (mut machine, bytes) = filled(Plan::mirror(2, 2), 43);
        machine.member_faults[1] = silent(from);
        machine.log_faults[0] = silent(from);
        let took_ns = machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            let mut found = vec![0; bytes.len()];
            volume.read(0, &mut found).await.unwrap();
            assert!(found == bytes, "silent from operation {from} on");
            run.env.now_ns()
        });
        assert!(took_ns < 10_000_000_000, "each is waited for once: {took_ns} ns");
    }
}

#[test]
fn a_member_that_falls_silent_holds_up_a_checkpoint_for_no_more_than_a_probe_and_an_answer() {
    for seed in 0..8 {
        let mut plan = Plan::mirror(2, 2);
        (plan.ring.rest_max_ns, plan.ring.answer_max_ns) = (2_000_000_000, 500_000_000);
        let limit_ns = 2 * (plan.ring.rest_max_ns + plan.ring.answer_max_ns);
        let (mut machine, _) = filled(plan, seed);
        let took_ns = machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            // Whose turn is next differs.
            for turn in 0..seed / 2 {
                volume.write(0, &noise(turn, 100_000), Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
                run.env.sleep(1_000_000_000).await;
            }
            let gone = seed as usize % 2;
            run.members[gone].set_faults(silent(0));
            let began_ns = run.env.now_ns();
            volume.write(0, &noise(seed, 100_000), Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            assert_eq!(ring.members()[gone].state, MemberState::Out);
            run.env.now_ns() - began_ns
        });
        assert!(took_ns < limit_ns, "{seed}: {took_ns} ns");
    }
}

#[test]
fn a_member_and_a_log_device_may_die_at_the_same_opening() {
    for from in 0..30 {
        let (mut machine, bytes) = filled(Plan::mirror(2, 2), 47);
        machine.member_faults[0] = Faults { failing_operations: from..u64::MAX, ..Faults::default() };
        machine.log_faults[1] = Faults { failing_operations: from / 2..u64::MAX, ..Faults::default() };
        assert!(machine.contents() == bytes, "dead from operation {from} on");
    }
}

#[test]
fn a_member_whose_flush_failed_at_the_opening_takes_no_part_in_that_run() {
    let (mut machine, bytes) = filled(Plan::mirror(2, 1), 53);
    machine.member_faults[1] = Faults { failing_flushes: 0..1, ..Faults::default() };
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        assert_eq!(ring.members()[1].state, MemberState::Out);
        volume.write(0, &bytes[..9000], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    assert!(machine.contents() == bytes);
}

#[test]
fn all_members_read_again_once_nothing_waits_to_be_written() {
    for seed in 0..40 {
        let mut plan = Plan::mirror(2, 1);
        (plan.ring.turn_ns, plan.ring.depth_max) = (50_000, 1);
        plan.ring.window.fixed = Some(0);
        let (mut machine, _) = filled(plan, 100 + seed);
        machine.run_whole(async |run| {
            let (_volume, ring, _) = run.open().await.unwrap();
            let mut bytes = [0; 10 * 4096];
            ring.read(0, &mut bytes).await.unwrap();
            // What is repaired is written in turns, and no flush follows. All may write at once.
            for round in 0..4 {
                for (page, bytes) in bytes.chunks(4096).enumerate() {
                    ring.repair(page as u64 * PAGE, bytes).await.unwrap();
                }
                for member in 0..2 {
                    run.env.sleep(20_000_000).await;
                    assert_eq!(ring.members()[member].role, Role::Reading, "member {member}, round {round}");
                }
            }
        });
    }
}

/// A mirror with a part of page 5 written anew, cut at this event of the opening that takes it home.
fn cut_as_page_5_goes_home(at_event: u64) -> (Machine, Vec<u8>) {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 1), 83);
    bytes[5 * 4096 + 100..][..600].fill(8);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(5 * PAGE + 100, &[8; 600], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
    let _halted = machine.run(cut, async |run| run.open().await.map(drop)).0;
    machine.power_cut();
    (machine, bytes)
}

#[test]
fn a_page_that_a_cut_met_on_its_way_home_is_made_whole_from_the_member_that_has_it() {
    for (at_event, rotten) in (0..60).flat_map(|at_event| [(at_event, 0), (at_event, 1)]) {
        let (mut machine, bytes) = cut_as_page_5_goes_home(at_event);
        let page = machine.page_on_member(5);
        machine.members[rotten].borrow_mut().rot(page.offset + 3000, 1, &mut Random::new(at_event));
        assert!(machine.contents() == bytes, "cut at event {at_event}, member {rotten} rotten");
    }
}

#[test]
fn a_page_that_a_cut_met_on_its_way_home_and_that_is_rotten_everywhere_is_not_served() {
    let mut refused = 0;
    for at_event in 0..60 {
        let (mut machine, bytes) = cut_as_page_5_goes_home(at_event);
        let page = machine.page_on_member(5);
        for member in &machine.members {
            member.borrow_mut().rot(page.offset + 3000, 1, &mut Random::new(at_event));
        }
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            let mut found = [0; 4096];
            match volume.read(5 * PAGE, &mut found).await {
                Ok(()) => assert!(found == bytes[5 * 4096..6 * 4096], "cut at event {at_event}"),
                Err(error) => {
                    assert_eq!(error, Error::Damaged { page: 5 });
                    refused += 1;
                }
            }
        });
    }
    assert!(refused > 0);
}

#[test]
fn what_the_members_take_home_in_a_second_is_told_in_bytes() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 97);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, &noise(1, 40 * 4096), Durability::Durable).await.unwrap();
        let began_ns = run.env.now_ns();
        volume.checkpoint().await.unwrap();
        let rate = 40.0 * 4096.0 * 1e9 / (run.env.now_ns() - began_ns) as f64;
        let told = volume.occupancy().drain_bytes_per_s as f64;
        assert!((rate / 2.0..2.0 * rate).contains(&told), "{told} and not {rate}");
    });
}

#[test]
fn all_write_at_once_where_turns_fall_behind_though_one_flushes_for_long() {
    let mut plan = Plan::mirror(2, 1);
    (plan.ring.policy, plan.ring.answer_max_ns) = (Policy::Auto, 60_000_000_000);
    let (mut machine, _) = filled(plan, 113);
    machine.plan.latency.flush_ns = 500_000_000;
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        for number in 0..8 {
            let (volume, env, mut random) = (volume.clone(), run.env.clone(), Random::new(number));
            run.env.spawn(async move {
                loop {
                    env.sleep(4_000_000).await;
                    let bytes = noise(random.number(), PAGE as usize);
                    volume.write(random.below(24) * PAGE, &bytes, Durability::Durable).await.unwrap();
                }
            });
        }
        let (reading, env, mut random) = (volume.clone(), run.env.clone(), Random::new(113));
        run.env.spawn(async move {
            loop {
                env.sleep(100_000).await;
                reading.read((24 + random.below(40)) * PAGE, &mut [0; 512]).await.unwrap();
            }
        });
        while ring.window() != (0, 2) {
            run.env.sleep(50_000).await;
        }
        let before = ring.members();
        assert!(before.iter().any(|member| member.queued_bytes > 0), "one waits for its turn");
        run.env.sleep(20_000_000).await;
        for (before, after) in before.iter().zip(ring.members()) {
            assert!(before.queued_bytes == 0 || after.written_bytes > before.written_bytes, "it waits still");
        }
    });
}

#[test]
fn a_checkpoint_begins_early_enough_for_what_comes_while_members_take_turns() {
    let mut plan = Plan::mirror(2, 1);
    plan.create.log_bytes = 2 << 20;
    plan.open.cached_pages_max = 64;
    plan.ring.window.unread_turns = u32::MAX;
    let (mut machine, _) = filled(plan, 131);
    machine.plan.latency.flush_ns = 36_000_000;
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        let mut random = Random::new(131);
        let (mut fills, mut ends) = (vec![0.0_f64], volume.counters().checkpoints);
        for _ in 0..8000 {
            run.env.sleep(50_000).await;
            let bytes = noise(random.number(), PAGE as usize);
            volume.write(random.below(64) * PAGE, &bytes, Durability::Durable).await.unwrap();
            let occupancy = volume.occupancy();
            let fill = occupancy.log_used_bytes as f64 / occupancy.log_max_bytes as f64;
            let last = fills.last_mut().unwrap();
            *last = last.max(fill);
            if volume.counters().checkpoints > ends {
                ends = volume.counters().checkpoints;
                fills.push(0.0);
            }
        }
        // The first of them do not know what comes meanwhile.
        let fullest = fills[3..].iter().copied().fold(0.0, f64::max);
        assert!(fills.len() > 20 && (0.5..0.87).contains(&fullest), "{fills:?}");
    });
}

/// What is seen of a checkpoint of 32 pages on members that are as quick as memory.
struct HandedOver {
    /// How often another task was let run while pages were handed over, before all were.
    looks: usize,
    /// Turns of all members until it ended.
    turns: u64,
}

fn handed_over(seed: u64) -> HandedOver {
    let mut plan = Plan::mirror(2, 1);
    (plan.ring.policy, plan.ring.turn_ns) = (Policy::Turns, 1_000_000_000);
    (plan.open.cached_pages_max, plan.create.log_bytes) = (512, 4 << 20);
    let (mut machine, _) = filled(plan, seed);
    machine.plan.latency = Latency::NONE;
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        for page in (0..64).step_by(2) {
            let bytes = noise(page, PAGE as usize);
            volume.write(page * PAGE, &bytes, Durability::Durable).await.unwrap();
        }
        let turns = || ring.members().iter().map(|member| member.turns).sum::<u64>();
        let (turns_before, ended_before) = (turns(), volume.counters().checkpoints);
        let taken_home = volume.clone();
        run.env.spawn(async move { taken_home.checkpoint().await.unwrap() });
        // Pages that wait at the member that does not write.
        let waiting = || ring.members().iter().map(|member| member.queued_bytes).max().unwrap_or(0) / PAGE;
        let (mut polls, mut looks) = (0, 0);
        while waiting() < 32 {
            looks += usize::from(waiting() > 0);
            polls += 1;
            yield_now().await;
            if polls % 256 == 0 {
                // Time stands still while somebody looks.
                run.env.sleep(0).await;
            }
        }
        while volume.counters().checkpoints == ended_before {
            run.env.sleep(1_000).await;
        }
        HandedOver { looks, turns: turns() - turns_before }
    })
}

#[test]
fn clients_are_let_run_while_a_ring_is_handed_a_checkpoint_and_each_member_takes_a_turn_for_it() {
    let handed: Vec<HandedOver> = (0..20).map(|seed| handed_over(139 + seed)).collect();
    let looks: usize = handed.iter().map(|one| one.looks).sum();
    assert!(looks > 20, "{looks} in 20 checkpoints");
    let turns: Vec<u64> = handed.iter().map(|one| one.turns).collect();
    assert!(turns.iter().all(|&turns| turns <= 2), "{turns:?}");
}

/// How long a checkpoint takes three members, and how many turns they take for it, where so many read.
fn checkpoint_of_three(readers: usize, rest_ns: u64) -> (u64, u64) {
    let mut plan = Plan::mirror(3, 1);
    plan.create.log_bytes = 4 << 20;
    plan.open.cached_pages_max = 64;
    (plan.ring.window.fixed, plan.ring.rest_ns) = (Some(readers), rest_ns);
    plan.ring.window.unread_turns = u32::MAX;
    (plan.ring.turn_ns, plan.ring.depth_max) = (1_000_000_000, 1);
    let (mut machine, _) = filled(plan, 137);
    machine.plan.latency.write_ns = 1_000_000;
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        let mut took = (0, 0);
        // By the first of them it is known how fast members write, and how they leave.
        for round in 0..3 {
            for page in (0..60).step_by(2) {
                volume
                    .write(page * PAGE, &noise(round * 64 + page, PAGE as usize), Durability::Durable)
                    .await
                    .unwrap();
            }
            let turns = || ring.members().iter().map(|member| member.turns).sum::<u64>();
            let (began_ns, turns_before) = (run.env.now_ns(), turns());
            volume.checkpoint().await.unwrap();
            took = (run.env.now_ns() - began_ns, turns() - turns_before);
        }
        took
    })
}

#[test]
fn three_members_of_which_two_may_write_are_done_in_half_the_time_of_one_after_the_other() {
    for rest_ns in [0, 200_000] {
        let (alone_ns, turns_alone) = checkpoint_of_three(2, rest_ns);
        let (two_ns, turns) = checkpoint_of_three(1, rest_ns);
        assert!(turns > turns_alone, "none left with more to write: {turns} turns, {turns_alone}");
        assert!(turns <= 2 * turns_alone, "they left for nothing: {turns} turns, {turns_alone}");
        assert!(10 * two_ns < 6 * alone_ns, "{two_ns} of {alone_ns} ns, rest {rest_ns}");
    }
}

#[test]
fn writes_that_wait_for_room_get_it_in_the_order_of_their_coming() {
    let mut plan = Plan::mirror(2, 1);
    plan.create.log_bytes = 8 << 20;
    let (mut machine, _) = filled(plan, 127);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        let done = Rc::new(RefCell::new(Vec::new()));
        for number in 0..200 {
            let (volume, done) = (volume.clone(), Rc::clone(&done));
            run.env.spawn(async move {
                let bytes = noise(number, if number % 3 == 0 { 16384 } else { 500 });
                volume.write(number % 60 * PAGE, &bytes, Durability::Buffered).await.unwrap();
                done.borrow_mut().push(number);
            });
            run.env.sleep(1000).await;
        }
        while done.borrow().len() < 200 {
            run.env.sleep(1_000_000).await;
        }
        assert!(volume.counters().buffer_waits > 0, "some waited");
        let overtaken = done.borrow().windows(2).filter(|pair| pair[1] < pair[0]).count();
        assert_eq!(overtaken, 0, "{:?}", done.borrow());
    });
}

#[test]
fn who_recovers_and_who_stops_waits_for_no_turns() {
    const FLUSH_NS: u64 = 1_000_000_000;
    for policy in [Policy::Auto, Policy::Turns, Policy::ReadAround] {
        let took_ns = [2, 6].map(|members| {
            let mut plan = Plan::mirror(members, 2);
            (plan.ring.policy, plan.ring.answer_max_ns) = (policy, 60 * FLUSH_NS);
            let (mut machine, mut bytes) = filled(plan, 107);
            let part = noise(107, 20 * 4096);
            bytes[..part.len()].copy_from_slice(&part);
            machine.run_whole(async |run| {
                let (volume, ..) = run.open().await.unwrap();
                volume.write(0, &part, Durability::Durable).await.unwrap();
            });
            machine.power_cut();
            machine.plan.latency.flush_ns = FLUSH_NS;
            let took_ns = machine.run_whole(async |run| {
                let now_ns = || run.env.now_ns();
                let began_ns = now_ns();
                let (volume, ring, _) = run.open().await.unwrap();
                let opened_ns = now_ns();
                volume.write(0, &part, Durability::Durable).await.unwrap();
                let written_ns = now_ns();
                volume.close().await.unwrap();
                drop(ring);
                [opened_ns - began_ns, now_ns() - written_ns]
            });
            for place in 0..members {
                assert!(machine.member_pages(place) == bytes, "member {place} of {members}, {policy:?}");
            }
            took_ns
        });
        let [of_two, of_six] = took_ns;
        for (of_two, of_six) in of_two.into_iter().zip(of_six) {
            assert!(of_six < of_two + FLUSH_NS / 2, "members wait for each other, {policy:?}: {took_ns:?}");
        }
    }
}
