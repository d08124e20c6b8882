//! Stories of members of a ring that were away, and take only what they missed.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::dirty_regions::DirtyRegions;
use evenkeel_engine::format::ring_head::{HEAD_COPIES, RingHead};
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::layout::mirror::Rejoined;
use evenkeel_engine::ring::{MemberState, Policy};
use evenkeel_sim::image::{Image, SharedImage};

use crate::machine::mirror::{Machine, PAGE, Plan, filled, noise, whole};
use crate::machine::overwrite;

/// Pages of a region, and of what is written while a member is away.
const REGION: u64 = 2 * PAGE;
const MISSED: u64 = 8 * PAGE;

fn plan(policy: Policy, members: usize) -> Plan {
    let mut plan = Plan::mirror(members, 1);
    (plan.ring.policy, plan.ring.rebuild_piece_bytes) = (policy, REGION);
    plan
}

const POLICIES: [Policy; 3] = [Policy::Auto, Policy::Turns, Policy::Mixed];

#[test]
fn a_member_that_comes_back_takes_only_the_regions_that_changed_and_is_enough_alone() {
    for policy in POLICIES {
        let (mut machine, mut bytes) = filled(plan(policy, 2), 201);
        let part = noise(3, 5000);
        let copied = machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            volume.checkpoint().await.unwrap();
            ring.fail(1, DeviceError { doing: "be away", errno: 5 });
            volume.write(MISSED, &part, Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            let lacks = ring.members()[1].lacks_bytes.expect("what it lacks is known");
            let rejoined = ring.rejoin(1, run.members[1].clone().into()).await.unwrap();
            assert_eq!(rejoined, Rejoined::CatchesUp { bytes: lacks });
            whole(&ring, &run.env).await;
            ring.members()[1].copied_bytes
        });
        machine.power_cut();
        bytes[MISSED as usize..][..part.len()].copy_from_slice(&part);
        // Two regions of pages, and some of the table and its root.
        assert!((2 * REGION..12 * REGION).contains(&copied), "{copied} bytes were copied, {policy:?}");
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes, "{policy:?}");
    }
}

#[test]
fn what_a_member_missed_is_known_after_any_number_of_starts_without_it() {
    for policy in POLICIES {
        let (mut machine, mut bytes) = filled(plan(policy, 3), 203);
        machine.members_gone = vec![2];
        for round in 0..3u8 {
            machine.run_whole(async |run| {
                let (volume, ..) = run.open().await.unwrap();
                let at = MISSED + u64::from(round) * 5 * PAGE;
                volume.write(at, &[round; 4096], Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
            });
            machine.power_cut();
            bytes[(MISSED + u64::from(round) * 5 * PAGE) as usize..][..4096].fill(round);
        }
        machine.members_gone = vec![];
        machine.run_whole(async |run| {
            let (_volume, ring, _) = run.open().await.unwrap();
            whole(&ring, &run.env).await;
            let member = ring.members()[2];
            assert!(member.lacks_bytes.is_some() && member.copied_bytes < 40 * PAGE, "{member:?}");
        });
        machine.power_cut();
        machine.members_gone = vec![0, 1];
        assert!(machine.contents() == bytes, "{policy:?}");
    }
}

#[test]
fn a_member_that_is_cut_while_it_is_taken_back_lacks_what_it_lacked() {
    for policy in POLICIES {
        let mut slow = plan(policy, 2);
        slow.ring.rebuild_bytes_per_s = 1 << 20;
        let (mut machine, mut bytes) = filled(slow, 207);
        machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            volume.checkpoint().await.unwrap();
            ring.fail(1, DeviceError { doing: "be away", errno: 5 });
            volume.write(0, &[9; 100_000], Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            ring.rejoin(1, run.members[1].clone().into()).await.unwrap();
            while !matches!(ring.members()[1].state, MemberState::Rebuilding { done_bytes } if done_bytes > 4 * REGION) {
                run.env.sleep(100_000).await;
            }
        });
        machine.power_cut();
        bytes[..100_000].fill(9);
        machine.run_whole(async |run| {
            let (_volume, ring, _) = run.open().await.unwrap();
            assert!(ring.members()[1].lacks_bytes.is_some_and(|bytes| bytes >= 100_000), "{policy:?}");
            whole(&ring, &run.env).await;
        });
        machine.power_cut();
        machine.members_gone = vec![0];
        assert!(machine.contents() == bytes, "{policy:?}");
    }
}

/// Writes the heads of a member as a version does that knows nothing of regions.
fn forget_regions(image: &SharedImage) {
    for copy in 0..HEAD_COPIES {
        let mut page = [0; PAGE as usize];
        image.borrow().read(copy * PAGE, &mut page);
        let head = RingHead::decode(&page).expect("a head that is whole");
        assert!(DirtyRegions::of(&page).is_some(), "it tells of regions");
        overwrite(image, copy * PAGE, |bytes| bytes.copy_from_slice(&head.encode()), PAGE);
    }
}

#[test]
fn a_member_of_a_ring_with_stripes_is_none_of_a_mirror() {
    let (mut machine, bytes) = filled(plan(Policy::Auto, 3), 209);
    for copy in 0..HEAD_COPIES {
        let mut page = [0; PAGE as usize];
        machine.members[0].borrow().read(copy * PAGE, &mut page);
        let head = RingHead::decode(&page).expect("a head that is whole");
        let head = RingHead { stripes: Stripes::new(2, 1, 64 << 10), ..head };
        overwrite(&machine.members[0], copy * PAGE, |bytes| bytes.copy_from_slice(&head.encode()), PAGE);
    }
    let states = machine.run_whole(async |run| {
        let (_volume, ring, _) = run.open().await.unwrap();
        ring.members().iter().map(|member| member.state).collect::<Vec<_>>()
    });
    machine.power_cut();
    assert_eq!(states, [MemberState::Foreign, MemberState::InSync, MemberState::InSync]);
    assert!(machine.contents() == bytes);
}

#[test]
fn where_an_older_version_wrote_the_heads_a_member_that_was_away_is_rebuilt_whole() {
    let (mut machine, mut bytes) = filled(plan(Policy::Auto, 2), 211);
    machine.members_gone = vec![1];
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(MISSED, &[4; 9000], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    bytes[MISSED as usize..][..9000].fill(4);
    forget_regions(&machine.members[0]);
    machine.members_gone = vec![];
    machine.run_whole(async |run| {
        let (_volume, ring, _) = run.open().await.unwrap();
        whole(&ring, &run.env).await;
        assert_eq!(ring.members()[1].lacks_bytes, None);
    });
    machine.power_cut();
    machine.members_gone = vec![0];
    assert!(machine.contents() == bytes);
}

fn copy_of(image: &SharedImage) -> SharedImage {
    Rc::new(RefCell::new(image.borrow().clone()))
}

/// What comes of it that this image is there when the member, which was away for all of the run, answers again.
fn answer_with(machine: &mut Machine, image: &SharedImage) -> Result<Rejoined, Error> {
    machine.members_gone = vec![1];
    let rejoined = machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        volume.write(MISSED, &[6; 4096], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        let rejoined = ring.rejoin(1, run.another(image).into()).await;
        if rejoined.is_ok() {
            whole(&ring, &run.env).await;
        }
        rejoined
    });
    machine.power_cut();
    rejoined
}

#[test]
fn what_is_not_this_member_is_not_written_and_what_is_older_than_it_was_is_rebuilt_whole() {
    let (mut machine, _) = filled(plan(Policy::Auto, 2), 213);
    let older = copy_of(&machine.members[1]);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, &[3; 4096], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    let (other, _) = filled(plan(Policy::Auto, 2), 214);
    let other = Rc::clone(&other.members[1]);
    let before = other.borrow().durable_digest();
    let blank = Image::shared(other.borrow().geometry());
    for strange in [&other, &blank] {
        let refused = answer_with(&mut machine, strange).unwrap_err().to_string();
        assert!(refused.contains("is not this member"), "{refused}");
    }
    assert_eq!(other.borrow().durable_digest(), before, "it was written to");
    assert_eq!(answer_with(&mut machine, &older), Ok(Rejoined::RebuiltWhole));
}

#[test]
fn a_member_that_another_opening_wrote_to_meanwhile_is_left_alone() {
    let (mut machine, _) = filled(plan(Policy::Auto, 2), 217);
    // Two halves go on without each other, each with a copy of the log.
    let (member, log) = (copy_of(&machine.members[0]), copy_of(&machine.logs[0]));
    machine.members_gone = vec![0];
    for _ in 0..2 {
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(0, &[1; 4096], Durability::Durable).await.unwrap();
            volume.close().await.unwrap();
        });
        machine.power_cut();
    }
    let half = Rc::clone(&machine.members[1]);
    (machine.members[0], machine.logs[0]) = (member, log);
    let refused = answer_with(&mut machine, &half).unwrap_err().to_string();
    assert!(refused.contains("written to by somebody else"), "{refused}");
}
