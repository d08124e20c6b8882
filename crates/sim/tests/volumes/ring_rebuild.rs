//! Stories of members of a ring that come back, are replaced, and are rebuilt.

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::ring_head;
use evenkeel_engine::ring::{MemberState, Policy, RebuildFound, Role};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;

use crate::machine::mirror::{Machine, PAGE, Plan, filled, noise, silent, whole};
use crate::machine::overwrite;

#[test]
fn a_member_that_fails_is_rebuilt_when_it_comes_back() {
    for policy in [Policy::Auto, Policy::Turns, Policy::Mixed] {
        let mut plan = Plan::mirror(2, 1);
        plan.ring.policy = policy;
        let (mut machine, mut bytes) = filled(plan, 13);
        let part = noise(2, 40_000);
        machine.member_faults[1] = Faults { failing_writes: 3..u64::MAX, ..Faults::default() };
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            volume.write(8192, &part, Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            assert_eq!(ring.members()[1].state, MemberState::Out);
            volume.checkpoint().await.unwrap();
        });
        machine.power_cut();
        bytes[8192..48_192].copy_from_slice(&part);
        assert!(machine.member_pages(1) != bytes, "it lacks what came after its failure");
        machine.member_faults[1] = Faults::default();
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            whole(&ring, &run.env).await;
            volume.close().await.unwrap();
        });
        machine.power_cut();
        assert!(machine.member_pages(1) == bytes, "{policy:?}");
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes);
    }
}

#[test]
fn members_are_replaced_while_the_volume_is_used() {
    let (mut machine, mut bytes) = filled(Plan::mirror(3, 1), 29);
    machine.members_gone = vec![2];
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        assert_eq!(ring.members()[2].state, MemberState::Out);
        ring.replace(2, run.members[2].clone().into()).await.unwrap();
        for number in 0..50u8 {
            let at = u64::from(number) * 5000 % 250_000;
            volume.write(at, &[number; 3000], Durability::Durable).await.unwrap();
            run.env.sleep(300_000).await;
        }
        whole(&ring, &run.env).await;
        volume.close().await.unwrap();
    });
    machine.power_cut();
    for number in 0..50u8 {
        bytes[usize::from(number) * 5000 % 250_000..][..3000].fill(number);
    }
    machine.members_gone = vec![0, 1];
    assert!(machine.contents() == bytes);
}

#[test]
fn a_member_that_is_replaced_in_its_turn_is_rebuilt_behind_it() {
    for delay_ns in (0..8).map(|step| step * 400_000) {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 1), 83);
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            volume.write(0, &[7; 100_000], Durability::Buffered).await.unwrap();
            let checkpoint = volume.clone();
            run.env.spawn(async move { checkpoint.checkpoint().await.unwrap() });
            while ring.members()[1].role != Role::Writing {
                run.env.sleep(10_000).await;
            }
            run.env.sleep(delay_ns).await;
            ring.fail(1, DeviceError { doing: "fail", errno: 5 });
            ring.replace(1, run.members[1].clone().into()).await.unwrap();
            whole(&ring, &run.env).await;
            volume.close().await.unwrap();
        });
        machine.power_cut();
        bytes[..100_000].fill(7);
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes, "replaced after {delay_ns} ns");
    }
}

#[test]
fn nothing_is_under_way_on_a_member_nor_begins_once_a_volume_is_closed_amid_a_rebuild() {
    let policies = [Policy::Auto, Policy::Turns, Policy::Mixed].into_iter();
    for (policy, delay_ns) in policies.flat_map(|it| (0..40).map(move |step| (it, step * 250_000))) {
        let mut plan = Plan::mirror(2, 1);
        (plan.ring.policy, plan.ring.rebuild_piece_bytes, plan.ring.settled_bytes) = (policy, PAGE, PAGE);
        let (mut machine, mut bytes) = filled(plan, 91);
        let images = machine.members.clone();
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            ring.fail(1, DeviceError { doing: "fail", errno: 5 });
            ring.replace(1, run.members[1].clone().into()).await.unwrap();
            run.env.sleep(delay_ns).await;
            volume.write(0, &[3; 30_000], Durability::Buffered).await.unwrap();
            volume.close().await.unwrap();
            assert!(
                images.iter().all(|image| image.borrow().in_flight() == 0),
                "{policy:?} after {delay_ns} ns"
            );
            let completed = || images.iter().map(|image| image.borrow().completions()).collect::<Vec<_>>();
            let before = completed();
            run.env.sleep(1_000_000_000).await;
            assert_eq!(completed(), before, "{policy:?} after {delay_ns} ns");
        });
        machine.power_cut();
        bytes[..30_000].fill(3);
        assert!(machine.contents() == bytes);
    }
}

#[test]
fn a_volume_is_closed_at_any_moment_of_mends() {
    let policies = [Policy::Turns, Policy::Mixed].into_iter();
    for (policy, delay_ns) in policies.flat_map(|it| (0..100).map(move |step| (it, step * 50_000))) {
        let mut plan = Plan::mirror(2, 1);
        (plan.ring.policy, plan.ring.settled_bytes) = (policy, PAGE);
        let (mut machine, bytes) = filled(plan, 92);
        for page in 0..12 {
            let at = machine.page_on_member(page).offset;
            overwrite(&machine.members[page as usize % 2], at, |page| page.fill(9), PAGE);
        }
        let images = machine.members.clone();
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            for page in 0..12 {
                let (reader, env) = (volume.clone(), run.env.clone());
                run.env.spawn(async move {
                    env.sleep(delay_ns + page * 20_000).await;
                    reader.read(page * PAGE, &mut [0; PAGE as usize]).await.unwrap();
                });
            }
            volume.close().await.unwrap();
            assert!(images.iter().all(|image| image.borrow().in_flight() == 0));
        });
        machine.power_cut();
        assert!(machine.contents() == bytes, "{policy:?} after {delay_ns} ns");
    }
}

#[test]
fn members_of_different_sizes_come_and_go() {
    let plan = Plan { extra_pages: [0, 7, 3], ..Plan::mirror(3, 1) };
    let (mut machine, mut bytes) = filled(plan, 41);
    for (round, gone) in [vec![0], vec![1], vec![2], vec![0, 2], vec![]].into_iter().enumerate() {
        machine.members_gone = gone;
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            volume.write(round as u64 * 5000, &[round as u8; 5000], Durability::Buffered).await.unwrap();
            while ring.members().iter().any(|member| matches!(member.state, MemberState::Rebuilding { .. })) {
                run.env.sleep(1_000_000).await;
            }
            volume.close().await.unwrap();
        });
        machine.power_cut();
        bytes[round * 5000..][..5000].fill(round as u8);
    }
    for place in 0..3 {
        assert!(machine.member_pages(place) == bytes, "member {place}");
    }
}

#[test]
fn a_member_is_enough_alone_as_soon_as_it_was_rebuilt() {
    for policy in [Policy::Auto, Policy::Turns, Policy::Mixed] {
        let mut plan = Plan::mirror(2, 1);
        plan.ring.policy = policy;
        let (mut machine, mut bytes) = filled(plan, 59);
        machine.members_gone = vec![1];
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(4096, &[7; 9000], Durability::Durable).await.unwrap();
            volume.close().await.unwrap();
        });
        machine.power_cut();
        bytes[4096..13_096].fill(7);
        machine.members_gone = vec![];
        machine.run_whole(async |run| {
            let (_volume, ring, _) = run.open().await.unwrap();
            whole(&ring, &run.env).await;
        });
        machine.power_cut();
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes, "{policy:?}");
    }
}

#[test]
fn a_member_that_is_replaced_again_while_it_is_rebuilt_is_rebuilt_from_the_start() {
    let mut plan = Plan::mirror(2, 1);
    plan.ring.rebuild_piece_bytes = 4096;
    plan.ring.rebuild_bytes_per_s = 8 << 20;
    let (mut machine, bytes) = filled(plan, 61);
    machine.members_gone = vec![1];
    let blank = machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        ring.replace(1, run.members[1].clone().into()).await.unwrap();
        while !matches!(ring.members()[1].state, MemberState::Rebuilding { done_bytes } if done_bytes > 90_000) {
            run.env.sleep(100_000).await;
        }
        ring.fail(1, evenkeel_engine::error::DeviceError { doing: "be pulled", errno: 5 });
        let image = Image::shared(run.members[1].image().geometry());
        ring.replace(1, run.another(&image).into()).await.unwrap();
        whole(&ring, &run.env).await;
        volume.close().await.unwrap();
        image
    });
    machine.members[1] = blank;
    machine.power_cut();
    assert!(machine.member_pages(1) == bytes);
}

#[test]
fn a_rebuild_says_nothing_of_the_drive_that_comes_after_its_own() {
    let mut refused = 0;
    for (after_us, wait_us) in
        (0..6000).step_by(50).flat_map(|after| [0, 500, 1000].map(|wait| (after, wait)))
    {
        let (mut machine, bytes) = filled(Plan::mirror(2, 1), 63);
        machine.members_gone = vec![1];
        let next = machine.run_whole(async |run| {
            let (_volume, ring, _) = run.open().await.unwrap();
            ring.replace(1, run.members[1].clone().into()).await.unwrap();
            run.env.sleep(after_us * 1000).await;
            ring.fail(1, DeviceError { doing: "be pulled", errno: 5 });
            let image = Image::shared(run.members[1].image().geometry());
            ring.replace(1, run.another(&image).into()).await.unwrap();
            run.env.sleep(wait_us * 1000).await;
            image
        });
        machine.members[1] = next;
        machine.power_cut();
        (machine.members_gone, refused) = (vec![0], refused + 1);
        let found = machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.ok()?;
            let mut found = vec![0; bytes.len()];
            Some(volume.read(0, &mut found).await.map(|()| found))
        });
        if let Some(found) = found {
            assert!(found == Ok(bytes), "replaced after {after_us} us, cut {wait_us} us later");
            refused -= 1;
        }
    }
    assert!(refused > 100, "most are cut before they are rebuilt");
}

#[test]
fn a_member_that_fell_silent_at_its_head_can_be_replaced_at_once() {
    for from in 12..33 {
        let (mut machine, _) = filled(Plan::mirror(2, 1), 67);
        machine.member_faults[1] = silent(from);
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            for number in 0..4 {
                volume.write(number * 4096, &[3; 4096], Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
            }
            assert_eq!(ring.members()[1].state, MemberState::Out, "silent from operation {from} on");
            let image = Image::shared(run.members[1].image().geometry());
            ring.replace(1, run.another(&image).into()).await.unwrap();
            whole(&ring, &run.env).await;
        });
        machine.power_cut();
    }
}

#[test]
fn what_a_member_did_not_answer_before_it_was_replaced_is_not_held_against_the_one_in_its_place() {
    let mut plan = Plan::mirror(2, 1);
    plan.ring.rebuild_piece_bytes = 4096;
    plan.ring.rebuild_bytes_per_s = 128 << 10;
    let (mut machine, bytes) = filled(plan, 101);
    let image = machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        run.members[0].set_faults(silent(0));
        for page in 0..8 {
            let volume = volume.clone();
            run.env.spawn(async move {
                let _answer = volume.read(page * PAGE, &mut [0; 4096]).await;
            });
        }
        run.env.sleep(10_000_000).await;
        ring.fail(0, DeviceError { doing: "be pulled", errno: 5 });
        let image = Image::shared(run.members[0].image().geometry());
        ring.replace(0, run.another(&image).into()).await.unwrap();
        // By now nobody waits for the old one any more.
        run.env.sleep(plan.ring.answer_max_ns).await;
        let state = ring.members()[0].state;
        assert!(matches!(state, MemberState::Rebuilding { .. }), "{state:?}");
        whole(&ring, &run.env).await;
        volume.close().await.unwrap();
        image
    });
    machine.members[0] = image;
    machine.power_cut();
    assert!(machine.member_pages(0) == bytes);
}

#[test]
fn a_member_is_replaced_while_its_head_hangs_in_the_one_before() {
    for after_us in (0..12_000).step_by(200) {
        let (mut machine, _) = filled(Plan::mirror(2, 1), 71);
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            let (writing, drive) = (volume.clone(), run.members[1].clone());
            let falls_silent = silent(drive.counters().operations + after_us / 500);
            run.env.spawn(async move {
                drive.set_faults(falls_silent);
                for number in 0..4 {
                    let _written = writing.write(number * 4096, &[3; 4096], Durability::Durable).await;
                    let _home = writing.checkpoint().await;
                }
            });
            run.env.sleep(after_us * 1000).await;
            ring.fail(1, DeviceError { doing: "be pulled", errno: 5 });
            let image = Image::shared(run.members[1].image().geometry());
            ring.replace(1, run.another(&image).into()).await.expect("the one before is nobody's concern");
            whole(&ring, &run.env).await;
        });
    }
}

#[test]
fn a_sector_that_nobody_can_read_does_not_end_a_rebuild() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 1), 71);
    let bad = machine.page_on_member(30);
    machine.members[0].borrow_mut().make_unreadable(bad);
    machine.members_gone = vec![1];
    let blank = machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        let image = Image::shared(run.members[1].image().geometry());
        ring.replace(1, run.another(&image).into()).await.unwrap();
        whole(&ring, &run.env).await;
        let mut page = [0; 4096];
        assert_eq!(volume.read(30 * PAGE, &mut page).await, Err(Error::Damaged { page: 30 }));
        volume.write(30 * PAGE, &[9; 4096], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
        image
    });
    machine.members[1] = blank;
    machine.power_cut();
    bytes[30 * 4096..31 * 4096].fill(9);
    for place in 0..2 {
        assert!(machine.member_pages(place) == bytes, "member {place}");
    }
}

/// Puts a new drive in the place of the last member while the volume is served; what its rebuild found.
fn rebuild_last(machine: &mut Machine) -> RebuildFound {
    let last = machine.plan.members - 1;
    let fresh = Image::shared(machine.members[last].borrow().geometry());
    machine.members[last] = fresh;
    let found = machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        ring.replace(last, run.members[last].clone().into()).await.unwrap();
        whole(&ring, &run.env).await;
        volume.close().await.unwrap();
        ring.members()[last].rebuild_found
    });
    machine.power_cut();
    found
}

#[test]
fn what_has_rotted_on_one_member_is_rebuilt_from_another() {
    for (rotten, policy) in [(0, Policy::Turns), (1, Policy::Turns), (0, Policy::Mixed), (1, Policy::Mixed)] {
        let mut plan = Plan::mirror(3, 1);
        (plan.ring.policy, plan.ring.rebuild_piece_bytes) = (policy, 5 * PAGE);
        let (mut machine, bytes) = filled(plan, 71);
        let size_bytes = machine.members[rotten].borrow().geometry().size_bytes;
        // All but its heads: pages, the table of sums, and its root.
        for page in (ring_head::DATA_OFFSET..size_bytes).step_by(PAGE as usize) {
            machine.members[rotten].borrow_mut().rot(page, PAGE, &mut Random::new(page));
        }
        let found = rebuild_last(&mut machine);
        assert!(found.wrong_copies > 10 && found.damaged_pages == 0, "{found:?}");
        assert!(machine.member_pages(2) == bytes, "member {rotten} rotten, {policy:?}");
        machine.members_gone = vec![0, 1];
        assert!(machine.contents() == bytes, "the new one is enough alone");
    }
}

#[test]
fn pages_that_no_member_holds_right_are_counted_when_another_is_rebuilt() {
    let (mut machine, bytes) = filled(Plan::mirror(3, 1), 73);
    for (place, page) in [(0, 5), (1, 5), (0, 9), (1, 9), (0, 20), (1, 33)] {
        let at = machine.page_on_member(page);
        machine.members[place].borrow_mut().rot(at.offset, 64, &mut Random::new(page ^ place as u64));
    }
    let at = machine.page_on_member(40);
    (0..2).for_each(|place| machine.members[place].borrow_mut().make_unreadable(at));
    let found = rebuild_last(&mut machine);
    assert_eq!(found.damaged_pages, 3, "two that rotted and one that cannot be read: {found:?}");
    assert!(found.wrong_copies <= 2, "{found:?}");
    machine.members_gone = vec![0, 1];
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        for (page, right) in bytes.chunks(PAGE as usize).enumerate() {
            let mut found = vec![0; right.len()];
            match volume.read(page as u64 * PAGE, &mut found).await {
                Ok(()) => assert!(found == right, "page {page}"),
                Err(_) => assert!([5, 9, 40].contains(&page), "page {page} cannot be read"),
            }
        }
    });
}

#[test]
fn what_is_written_while_a_member_is_rebuilt_is_not_taken_for_rot() {
    for seed in 0..20 {
        let mut plan = Plan::mirror(2, 1);
        (plan.ring.rebuild_bytes_per_s, plan.ring.rebuild_piece_bytes) = (4 << 20, 3 * PAGE);
        let (mut machine, mut bytes) = filled(plan, 80 + seed);
        let mut random = Random::new(seed);
        let mut writes = Vec::new();
        for _ in 0..200 {
            let (offset, len) = (random.below(60 * PAGE), 1 + random.below(3 * PAGE));
            let new = noise(random.number(), len as usize);
            bytes[offset as usize..][..new.len()].copy_from_slice(&new);
            writes.push((offset, new));
        }
        let fresh = Image::shared(machine.members[1].borrow().geometry());
        machine.members[1] = fresh;
        let found = machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            ring.replace(1, run.members[1].clone().into()).await.unwrap();
            for (number, (offset, new)) in writes.iter().enumerate() {
                volume.write(*offset, new, Durability::Buffered).await.unwrap();
                if number % 10 == 0 {
                    volume.checkpoint().await.unwrap();
                }
            }
            whole(&ring, &run.env).await;
            volume.close().await.unwrap();
            ring.members()[1].rebuild_found
        });
        assert_eq!(found, RebuildFound::default(), "seed {seed}");
        machine.power_cut();
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes, "seed {seed}");
    }
}

#[test]
fn a_new_member_of_a_volume_that_was_never_written_to_is_rebuilt_before_it_counts() {
    let mut plan = Plan::mirror(2, 1);
    plan.ring.rebuild_bytes_per_s = 1000;
    let mut machine = Machine::new(plan, 37);
    machine.run_whole(async |run| {
        let (_volume, ring, _) = run.open().await.unwrap();
        ring.fail(1, DeviceError { doing: "be replaced", errno: 5 });
        ring.replace(1, run.members[1].clone().into()).await.unwrap();
    });
    machine.power_cut();
    machine.run_whole(async |run| {
        let (_volume, ring, _) = run.open().await.unwrap();
        assert_ne!(ring.members()[1].state, MemberState::InSync);
        whole(&ring, &run.env).await;
    });
}
