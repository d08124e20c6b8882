//! Stories of volumes on a ring: several members that write in turns, and several log devices.

mod ring_machine;

use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::{log_head, ring_head};
use evenkeel_engine::logs::LogStanding;
use evenkeel_engine::ring::{Policy, RebuildFound, Role, Standing};
use evenkeel_engine::volume::Mending;
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;

use ring_machine::{Machine, PAGE, Plan, dead, filled, noise};

/// A drive that answers no more.
fn silent(from: u64) -> Faults {
    Faults { silent_operations: from..u64::MAX, ..Faults::default() }
}

/// Waits until every member counts.
async fn whole(ring: &ring_machine::SimRing, env: &impl Env) {
    while ring.members().iter().any(|member| member.standing != Standing::InSync) {
        env.sleep(1_000_000).await;
    }
}

#[test]
fn what_is_closed_is_on_every_member() {
    for policy in [Policy::Turns, Policy::Mixed, Policy::ReadFirst, Policy::ReadAround] {
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
            machine.live_whole(async |life| {
                let (volume, ..) = life.open().await.unwrap();
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
fn a_member_that_fails_is_left_out_and_rebuilt_when_it_comes_back() {
    for policy in [Policy::Turns, Policy::Mixed] {
        let mut plan = Plan::mirror(2, 1);
        plan.ring.policy = policy;
        let (mut machine, mut bytes) = filled(plan, 13);
        let part = noise(2, 40_000);
        machine.member_faults[1] = Faults { failing_writes: 3..u64::MAX, ..Faults::default() };
        machine.live_whole(async |life| {
            let (volume, ring, _) = life.open().await.unwrap();
            volume.write(8192, &part, Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            assert_eq!(ring.members()[1].standing, Standing::Out);
            volume.checkpoint().await.unwrap();
        });
        machine.power_cut();
        bytes[8192..48_192].copy_from_slice(&part);
        assert!(machine.member_pages(1) != bytes, "it lacks what came after its failure");
        machine.member_faults[1] = Faults::default();
        machine.live_whole(async |life| {
            let (volume, ring, _) = life.open().await.unwrap();
            whole(&ring, &life.env).await;
            volume.close().await.unwrap();
        });
        machine.power_cut();
        assert!(machine.member_pages(1) == bytes, "{policy:?}");
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes);
    }
}

#[test]
fn a_stale_member_alone_is_not_served() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 17);
    machine.members_gone = vec![1];
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        volume.write(0, &[1; 100], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    machine.members_gone = vec![0];
    let refused = machine.live_whole(async |life| life.open().await.err());
    let Some(Error::Unusable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("holds everything"), "{why}");
    machine.members_gone = vec![];
    assert_eq!(machine.contents()[..100], [1; 100]);
}

#[test]
fn a_log_device_that_was_left_out_alone_is_not_taken_for_the_log() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 19);
    machine.log_faults[0] = Faults { failing_writes: 6..u64::MAX, ..Faults::default() };
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        for number in 0..20u8 {
            volume.write(u64::from(number) * 512, &[number; 512], Durability::Durable).await.unwrap();
        }
    });
    machine.power_cut();
    (0..20u8).for_each(|number| bytes[usize::from(number) * 512..][..512].fill(number));
    machine.log_faults[0] = Faults::default();
    machine.logs_gone = vec![1];
    let refused = machine.live_whole(async |life| life.open().await.err());
    let Some(Error::Unusable(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("left out"), "{why}");
    // Beside the other it is mended, and then either will do.
    machine.logs_gone = vec![];
    assert!(machine.contents() == bytes);
    machine.logs_gone = vec![1];
    assert!(machine.contents() == bytes);
}

#[test]
fn rot_on_one_member_is_never_served_and_a_scrub_mends_it_from_another() {
    let (mut machine, bytes) = filled(Plan::mirror(2, 1), 23);
    let home_bytes = machine.members[0].borrow().geometry().size_bytes;
    for place in 0..2 {
        // Everything behind the places of the superblocks: roots, table, pages.
        let mut random = Random::new(place as u64);
        machine.members[place].borrow_mut().rot(4 * PAGE, home_bytes - 8 * PAGE, &mut random);
        machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
            let mut found = vec![0; bytes.len()];
            volume.read(0, &mut found).await.unwrap();
            assert!(found == bytes, "with a rotten member {place}");
            let scrubbed = volume.scrub(Mending::Mend, u64::MAX).await.unwrap();
            assert!(scrubbed.wrong_copies > 0 && scrubbed.damaged_pages.is_empty(), "{scrubbed:?}");
            // What is mended is written in its member's turn.
            life.env.sleep(1_000_000_000).await;
            let again = volume.scrub(Mending::Mend, u64::MAX).await.unwrap();
            assert_eq!((again.wrong_copies, again.copies_checked > 64), (0, true), "{again:?}");
        });
        machine.power_cut();
    }
}

#[test]
fn what_is_right_is_not_written_to_mend_another_copy() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 24);
    let home_bytes = machine.members[0].borrow().geometry().size_bytes;
    let mut random = Random::new(24);
    machine.members[1].borrow_mut().rot(4 * PAGE, home_bytes - 8 * PAGE, &mut random);
    machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        volume.checkpoint().await.unwrap();
        let before = ring.members();
        volume.scrub(Mending::Mend, u64::MAX).await.unwrap();
        life.env.sleep(1_000_000_000).await;
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
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        // One member has lost whatever goes home to it from now on.
        let next = life.members[1].counters().writes;
        life.members[1].set_faults(Faults { lost_writes: next..u64::MAX, ..Faults::default() });
        let (writing, env) = (volume.clone(), life.env.clone());
        life.env.spawn(async move {
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
            let report = volume.scrub(Mending::Leave, u64::MAX).await.unwrap();
            assert!(report.damaged_pages.is_empty(), "the other has it: {report:?}");
            wrong_copies += report.wrong_copies;
        }
        assert!(wrong_copies > 1000);
    });
}

#[test]
fn members_are_replaced_while_the_volume_is_used() {
    let (mut machine, mut bytes) = filled(Plan::mirror(3, 1), 29);
    machine.members_gone = vec![2];
    machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        assert_eq!(ring.members()[2].standing, Standing::Out);
        ring.replace(2, life.members[2].clone()).await.unwrap();
        for number in 0..50u8 {
            let at = u64::from(number) * 5000 % 250_000;
            volume.write(at, &[number; 3000], Durability::Durable).await.unwrap();
            life.env.sleep(300_000).await;
        }
        whole(&ring, &life.env).await;
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
        machine.live_whole(async |life| {
            let (volume, ring, _) = life.open().await.unwrap();
            volume.write(0, &[7; 100_000], Durability::Buffered).await.unwrap();
            let checkpoint = volume.clone();
            life.env.spawn(async move { checkpoint.checkpoint().await.unwrap() });
            while ring.members()[1].role != Role::Writing {
                life.env.sleep(10_000).await;
            }
            life.env.sleep(delay_ns).await;
            ring.leave_out(1, DeviceError { doing: "be left out", errno: 5 });
            ring.replace(1, life.members[1].clone()).await.unwrap();
            whole(&ring, &life.env).await;
            volume.close().await.unwrap();
        });
        machine.power_cut();
        bytes[..100_000].fill(7);
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes, "replaced after {delay_ns} ns");
    }
}

#[test]
fn a_volume_whose_last_member_dies_stops() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 31);
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        for drive in &life.members {
            drive.set_faults(dead());
        }
        volume.write(0, &[1; 4096], Durability::Durable).await.unwrap();
        assert!(volume.checkpoint().await.is_err());
        assert!(matches!(volume.write(0, &[2], Durability::Buffered).await, Err(Error::Latched(_))));
    });
}

#[test]
fn a_log_device_that_was_not_there_for_an_opening_is_not_taken_for_the_log_alone() {
    for last_acts in [false, true] {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 37);
        machine.logs_gone = vec![0];
        machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
            volume.write(0, &[1; 4096], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        bytes[..4096].fill(1);
        machine.logs_gone = vec![1];
        let refused = machine.live_whole(async |life| life.open().await.err());
        let Some(Error::Unusable(why)) = refused else { panic!("{refused:?}") };
        assert!(why.contains("left out"), "{why}");
        machine.logs_gone = vec![];
        assert!(machine.contents() == bytes);
        if last_acts {
            machine.logs_gone = vec![1];
            assert!(machine.contents() == bytes, "what was mended beside the other is enough alone");
        }
    }
}

#[test]
fn members_of_different_sizes_come_and_go() {
    let plan = Plan { extra_pages: [0, 7, 3], ..Plan::mirror(3, 1) };
    let (mut machine, mut bytes) = filled(plan, 41);
    for (round, gone) in [vec![0], vec![1], vec![2], vec![0, 2], vec![]].into_iter().enumerate() {
        machine.members_gone = gone;
        machine.live_whole(async |life| {
            let (volume, ring, _) = life.open().await.unwrap();
            volume.write(round as u64 * 5000, &[round as u8; 5000], Durability::Buffered).await.unwrap();
            while ring.members().iter().any(|member| matches!(member.standing, Standing::Rebuilding { .. })) {
                life.env.sleep(1_000_000).await;
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
fn devices_that_never_answer_keep_no_volume_shut() {
    for from in 0..20 {
        let (mut machine, bytes) = filled(Plan::mirror(2, 2), 43);
        machine.member_faults[1] = silent(from);
        machine.log_faults[0] = silent(from);
        let took_ns = machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
            let mut found = vec![0; bytes.len()];
            volume.read(0, &mut found).await.unwrap();
            assert!(found == bytes, "silent from operation {from} on");
            life.env.now_ns()
        });
        assert!(took_ns < 10_000_000_000, "each is waited for once: {took_ns} ns");
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
fn a_member_whose_flush_failed_at_the_opening_takes_no_part_in_that_life() {
    let (mut machine, bytes) = filled(Plan::mirror(2, 1), 53);
    machine.member_faults[1] = Faults { failing_flushes: 0..1, ..Faults::default() };
    machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        assert_eq!(ring.members()[1].standing, Standing::Out);
        volume.write(0, &bytes[..9000], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    assert!(machine.contents() == bytes);
}

#[test]
fn a_member_is_enough_alone_as_soon_as_it_was_rebuilt() {
    for policy in [Policy::Turns, Policy::Mixed] {
        let mut plan = Plan::mirror(2, 1);
        plan.ring.policy = policy;
        let (mut machine, mut bytes) = filled(plan, 59);
        machine.members_gone = vec![1];
        machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
            volume.write(4096, &[7; 9000], Durability::Durable).await.unwrap();
            volume.close().await.unwrap();
        });
        machine.power_cut();
        bytes[4096..13_096].fill(7);
        machine.members_gone = vec![];
        machine.live_whole(async |life| {
            let (_volume, ring, _) = life.open().await.unwrap();
            whole(&ring, &life.env).await;
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
    let blank = machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        ring.replace(1, life.members[1].clone()).await.unwrap();
        while !matches!(ring.members()[1].standing, Standing::Rebuilding { done_bytes } if done_bytes > 90_000) {
            life.env.sleep(100_000).await;
        }
        ring.leave_out(1, evenkeel_engine::error::DeviceError { doing: "be pulled", errno: 5 });
        let image = Image::shared(life.members[1].image().geometry());
        ring.replace(1, life.another(&image)).await.unwrap();
        whole(&ring, &life.env).await;
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
        let next = machine.live_whole(async |life| {
            let (_volume, ring, _) = life.open().await.unwrap();
            ring.replace(1, life.members[1].clone()).await.unwrap();
            life.env.sleep(after_us * 1000).await;
            ring.leave_out(1, DeviceError { doing: "be pulled", errno: 5 });
            let image = Image::shared(life.members[1].image().geometry());
            ring.replace(1, life.another(&image)).await.unwrap();
            life.env.sleep(wait_us * 1000).await;
            image
        });
        machine.members[1] = next;
        machine.power_cut();
        (machine.members_gone, refused) = (vec![0], refused + 1);
        let found = machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.ok()?;
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
        machine.live_whole(async |life| {
            let (volume, ring, _) = life.open().await.unwrap();
            for number in 0..4 {
                volume.write(number * 4096, &[3; 4096], Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
            }
            assert_eq!(ring.members()[1].standing, Standing::Out, "silent from operation {from} on");
            let image = Image::shared(life.members[1].image().geometry());
            ring.replace(1, life.another(&image)).await.unwrap();
            whole(&ring, &life.env).await;
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
    let image = machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        life.members[0].set_faults(silent(0));
        for page in 0..8 {
            let volume = volume.clone();
            life.env.spawn(async move {
                let _answer = volume.read(page * PAGE, &mut [0; 4096]).await;
            });
        }
        life.env.sleep(10_000_000).await;
        ring.leave_out(0, DeviceError { doing: "be pulled", errno: 5 });
        let image = Image::shared(life.members[0].image().geometry());
        ring.replace(0, life.another(&image)).await.unwrap();
        // By now nobody waits for the old one any more.
        life.env.sleep(plan.ring.answer_max_ns).await;
        let standing = ring.members()[0].standing;
        assert!(matches!(standing, Standing::Rebuilding { .. }), "{standing:?}");
        whole(&ring, &life.env).await;
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
        machine.live_whole(async |life| {
            let (volume, ring, _) = life.open().await.unwrap();
            let (writing, drive) = (volume.clone(), life.members[1].clone());
            let falls_silent = silent(drive.counters().operations + after_us / 500);
            life.env.spawn(async move {
                drive.set_faults(falls_silent);
                for number in 0..4 {
                    let _written = writing.write(number * 4096, &[3; 4096], Durability::Durable).await;
                    let _home = writing.checkpoint().await;
                }
            });
            life.env.sleep(after_us * 1000).await;
            ring.leave_out(1, DeviceError { doing: "be pulled", errno: 5 });
            let image = Image::shared(life.members[1].image().geometry());
            ring.replace(1, life.another(&image)).await.expect("the one before is nobody's concern");
            whole(&ring, &life.env).await;
        });
    }
}

#[test]
fn a_sector_that_nobody_can_read_does_not_end_a_rebuild() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 1), 71);
    let bad = machine.page_on_member(30);
    machine.members[0].borrow_mut().make_unreadable(bad);
    machine.members_gone = vec![1];
    let blank = machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        let image = Image::shared(life.members[1].image().geometry());
        ring.replace(1, life.another(&image)).await.unwrap();
        whole(&ring, &life.env).await;
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
    let found = machine.live_whole(async |life| {
        let (volume, ring, _) = life.open().await.unwrap();
        ring.replace(last, life.members[last].clone()).await.unwrap();
        whole(&ring, &life.env).await;
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
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
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
        let found = machine.live_whole(async |life| {
            let (volume, ring, _) = life.open().await.unwrap();
            ring.replace(1, life.members[1].clone()).await.unwrap();
            for (number, (offset, new)) in writes.iter().enumerate() {
                volume.write(*offset, new, Durability::Buffered).await.unwrap();
                if number % 10 == 0 {
                    volume.checkpoint().await.unwrap();
                }
            }
            whole(&ring, &life.env).await;
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
fn log_devices_that_were_each_the_last_one_after_the_other_are_told_apart() {
    for at_event in 0..24 {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 73);
        machine.logs_gone = vec![0];
        // The one learns that it is alone, and is cut before anything is acknowledged.
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let (ended, _) = machine.live(cut, async |life| life.open().await.map(drop));
        machine.power_cut();
        assert!(ended.is_err(), "the opening is cut");
        // The other goes on alone, unless too much was noted by then.
        machine.logs_gone = vec![1];
        let went_on = machine.live_whole(async |life| {
            let Ok((volume, ..)) = life.open().await else { return false };
            volume.write(0, &[5; 4096], Durability::Durable).await.unwrap();
            true
        });
        machine.power_cut();
        if went_on {
            bytes[..4096].fill(5);
            machine.logs_gone = vec![0];
            let refused = machine.live_whole(async |life| life.open().await.err());
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
        machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
            volume.write(0, &[3; 4096], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        bytes[..4096].fill(3);
        machine.logs_gone = vec![0];
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        machine.live(cut, async |life| life.open().await.map(drop)).0.unwrap_err();
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
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
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
    let refused = machine.live_whole(async |life| life.open().await.err());
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
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        volume.write(0, &[7; 4096], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        volume.write(5 * PAGE, &[8; 4096], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    bytes[..4096].fill(7);
    bytes[5 * 4096..6 * 4096].fill(8);
    (machine.members_gone, machine.logs_gone) = (vec![0], vec![1]);
    let refused = machine.live_whole(async |life| life.open().await.err());
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
        machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
            volume.write(0, &[3; 4096], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        // It is back, lacks that, and one write of those that give it back fails.
        machine.logs_gone = vec![];
        machine.log_faults[1] = Faults { failing_writes: write..write + 1, ..Faults::default() };
        machine.live_whole(async |life| {
            let (volume, _, logs) = life.open().await.unwrap();
            volume.write(5 * PAGE, &[5; 4096], Durability::Durable).await.unwrap();
            has_failed += u32::from(logs.standings()[1].0 == LogStanding::Out);
        });
        machine.power_cut();
        machine.log_faults[1] = Faults::default();
        bytes[..4096].fill(3);
        bytes[5 * 4096..6 * 4096].fill(5);
        // Alone, it may refuse; it may not spoil anything.
        machine.logs_gone = vec![0];
        let _refused = machine.live_whole(async |life| life.open().await.map(drop));
        machine.power_cut();
        machine.logs_gone = vec![];
        assert!(machine.contents() == bytes, "write {write} failed, seed {seed}");
    }
    assert!(has_failed > 12);
}

#[test]
fn a_new_member_of_a_volume_that_was_never_written_to_is_rebuilt_before_it_counts() {
    let mut plan = Plan::mirror(2, 1);
    plan.ring.rebuild_bytes_per_s = 1000;
    let mut machine = Machine::new(plan, 37);
    machine.live_whole(async |life| {
        let (_volume, ring, _) = life.open().await.unwrap();
        ring.leave_out(1, DeviceError { doing: "be replaced", errno: 5 });
        ring.replace(1, life.members[1].clone()).await.unwrap();
    });
    machine.power_cut();
    machine.live_whole(async |life| {
        let (_volume, ring, _) = life.open().await.unwrap();
        assert_ne!(ring.members()[1].standing, Standing::InSync);
        whole(&ring, &life.env).await;
    });
}

#[test]
fn all_members_read_again_once_nothing_waits_to_be_written() {
    for seed in 0..40 {
        let mut plan = Plan::mirror(2, 1);
        (plan.ring.turn_ns, plan.ring.depth_max) = (50_000, 1);
        plan.ring.window.fixed = Some(0);
        let (mut machine, _) = filled(plan, 100 + seed);
        machine.live_whole(async |life| {
            let (_volume, ring, _) = life.open().await.unwrap();
            let mut bytes = [0; 10 * 4096];
            ring.read(0, &mut bytes).await.unwrap();
            // What is mended is written in turns, and no flush follows. All may write at once.
            for round in 0..4 {
                for (page, bytes) in bytes.chunks(4096).enumerate() {
                    ring.mend(page as u64 * PAGE, bytes).await.unwrap();
                }
                for member in 0..2 {
                    life.env.sleep(20_000_000).await;
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
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        volume.write(5 * PAGE + 100, &[8; 600], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
    let _halted = machine.live(cut, async |life| life.open().await.map(drop)).0;
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
        machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
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
fn nothing_goes_home_before_every_log_device_holds_what_the_opening_found_on_one_of_them() {
    let mut was_under_way = 0;
    for at_event in 0..80 {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 89);
        bytes[5 * 4096 + 100..][..600].fill(8);
        machine.live_whole(async |life| {
            let (volume, ..) = life.open().await.unwrap();
            // One log device says that it has the record, and has not.
            let next = life.logs[1].counters().writes;
            life.logs[1].set_faults(Faults { lost_writes: next..u64::MAX, ..Faults::default() });
            volume.write(5 * PAGE + 100, &[8; 600], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        let home = |machine: &Machine| [0, 1].map(|place| machine.member_pages(place));
        let before = home(&machine);
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let _halted = machine.live(cut, async |life| life.open().await.map(drop)).0;
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
fn what_the_members_take_home_in_a_second_is_told_in_bytes() {
    let (mut machine, _) = filled(Plan::mirror(2, 1), 97);
    machine.live_whole(async |life| {
        let (volume, ..) = life.open().await.unwrap();
        volume.write(0, &noise(1, 40 * 4096), Durability::Durable).await.unwrap();
        let began_ns = life.env.now_ns();
        volume.checkpoint().await.unwrap();
        let rate = 40.0 * 4096.0 * 1e9 / (life.env.now_ns() - began_ns) as f64;
        let told = volume.occupancy().drain_bytes_per_s as f64;
        assert!((rate / 2.0..2.0 * rate).contains(&told), "{told} and not {rate}");
    });
}
