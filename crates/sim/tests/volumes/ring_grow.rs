//! A ring that grows: with all of its members or not at all, and at any cut with its old size or the new one,
//! whichever member and log device are lost with it.

use std::cell::Cell;
use std::rc::Rc;

use crate::machine::mirror::{Machine, PAGE, Plan, RingVolume, filled, size_of, whole};
use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::ring::MemberState;
use evenkeel_engine::volume::{ScrubMode, check};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::image::SharedImage;
use evenkeel_sim::random::Random;
use evenkeel_sim::testbed::Testbed;

const PAGES: u64 = 64;

fn make_room(volume: &RingVolume, plan: &Plan, members: &[SharedImage], size_bytes: u64) {
    let share = plan.testbed.share_bytes(volume.plan_growth(size_bytes).unwrap().home_bytes);
    let needed = share + plan.data_offset();
    for (place, member) in members.iter().enumerate() {
        if member.borrow().geometry().size_bytes < needed {
            member.borrow_mut().enlarge(needed, Some(&mut Random::new(place as u64)));
        }
    }
}

async fn read_all(volume: &RingVolume) -> Vec<u8> {
    let mut found = vec![0; volume.size_bytes() as usize];
    volume.read(0, &mut found).await.unwrap();
    found
}

/// A run up to a cut, in which it grows between two durable writes; which of the three were acknowledged.
fn grow_and_cut(machine: &mut Machine, cut: CutPlan, size_bytes: u64) -> (bool, u32) {
    let (plan, members, done) = (machine.plan, machine.members.clone(), Rc::new(Cell::new(0)));
    let acknowledged = Rc::clone(&done);
    let (ended, _) = machine.run(cut, async move |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        volume.write(5 * PAGE, &[9; 3000], Durability::Durable).await.unwrap();
        acknowledged.set(1);
        make_room(&volume, &plan, &members, size_bytes);
        volume.grow(size_bytes).await.unwrap();
        acknowledged.set(2);
        assert_eq!(size_of(&ring), volume.home_bytes());
        volume.write(size_bytes - 5000, &[8; 5000], Durability::Durable).await.unwrap();
        acknowledged.set(3);
    });
    machine.power_cut();
    (ended.is_ok(), done.get())
}

#[test]
fn a_cut_with_the_loss_of_any_member_and_log_device_leaves_the_old_size_or_the_new_one() {
    let size_bytes = 700 * PAGE;
    let striped = [Plan::striped(2, 1, 2), Plan::striped(4, 2, 2)];
    for plan in
        [Plan::mirror(2, 2), Plan::mirror(3, 2), Plan::with_log_on_members(2)].into_iter().chain(striped)
    {
        let mut sizes = [0, 0];
        for at_event in (0..).step_by(3) {
            let (mut machine, mut bytes) = filled(plan, 3);
            let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
            let (is_over, acknowledged) = grow_and_cut(&mut machine, cut, size_bytes);
            // A log on the members is whole only with all of them.
            if plan.logs > 0 {
                machine.members_gone = vec![at_event as usize / 3 % plan.members];
                machine.logs_gone = vec![at_event as usize / 7 % plan.logs];
            }
            let found = machine.run_whole(async |run| {
                let (volume, ..) = run.open().await.unwrap();
                read_all(&volume).await
            });
            machine.power_cut();
            let is_new = found.len() as u64 == size_bytes;
            assert!(
                is_new || (found.len() == bytes.len() && acknowledged < 2),
                "at {at_event}: {}",
                found.len()
            );
            if acknowledged > 0 || found[5 * PAGE as usize] == 9 {
                bytes[5 * PAGE as usize..][..3000].fill(9);
            }
            bytes.resize(found.len(), 0);
            if acknowledged == 3 || found.ends_with(&[8]) {
                let at = found.len() - 5000;
                bytes[at..].fill(8);
            }
            assert!(found == bytes, "at {at_event}");
            sizes[usize::from(is_new)] += 1;
            (machine.members_gone, machine.logs_gone) = (Vec::new(), Vec::new());
            finish(&mut machine, size_bytes, bytes);
            if is_over {
                break;
            }
        }
        assert!(sizes.iter().all(|&seen| seen > 0), "{sizes:?}");
    }
}

/// The same again, once all are there and rebuilt; then each member holds everything.
fn finish(machine: &mut Machine, size_bytes: u64, mut bytes: Vec<u8>) {
    let (plan, members) = (machine.plan, machine.members.clone());
    bytes.resize(size_bytes as usize, 0);
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        whole(&ring, &run.env).await;
        make_room(&volume, &plan, &members, size_bytes);
        volume.grow(size_bytes).await.unwrap();
        assert!(read_all(&volume).await == bytes);
        let report = check(&volume).await.unwrap();
        assert!(report.is_clean(), "{report:?}");
        let scrubbed = volume.scrub(ScrubMode::ReadOnly, u64::MAX).await.unwrap();
        assert_eq!((scrubbed.wrong_copies, scrubbed.damaged_pages.len()), (0, 0));
        volume.close().await.unwrap();
    });
    machine.power_cut();
}

#[test]
fn without_a_member_or_the_room_on_one_it_is_refused_and_goes_on_as_it_was() {
    let plan = Plan::mirror(2, 1);
    let (mut machine, bytes) = filled(plan, 5);
    let members = machine.members.clone();
    let size_bytes = 2 * PAGES * PAGE;
    machine.members_gone = vec![1];
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        make_room(&volume, &plan, &members[..1], size_bytes);
        let refused = volume.grow(size_bytes).await.unwrap_err().to_string();
        assert!(refused.contains("member 1 does not take part"), "{refused}");
        volume.write(0, &bytes[..4096], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.members_gone = vec![];
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        let refused = volume.grow(size_bytes).await.unwrap_err().to_string();
        assert!(refused.contains("member 1"), "it lacks writes: {refused}");
        whole(&ring, &run.env).await;
        let before = size_of(&ring);
        let refused = volume.grow(size_bytes).await;
        assert!(
            matches!(&refused, Err(Error::Unusable(why)) if why.contains("member 1")),
            "no room: {refused:?}"
        );
        assert_eq!((size_of(&ring), volume.size_bytes()), (before, PAGES * PAGE));
        make_room(&volume, &plan, &members, size_bytes);
        volume.grow(size_bytes).await.unwrap();
        assert!(read_all(&volume).await[..bytes.len()] == bytes);
        // One that takes a member's place has to be as large.
        ring.fail(0, evenkeel_engine::error::DeviceError { doing: "be replaced", errno: 5 });
        let small = evenkeel_sim::image::Image::shared(evenkeel_engine::device::Geometry {
            size_bytes: before + plan.data_offset(),
            ..run.members[0].geometry()
        });
        assert!(ring.replace(0, run.another(&small).into()).await.is_err());
        ring.replace(0, run.another(&members[0]).into()).await.unwrap();
        while ring.members()[0].state != MemberState::InSync {
            run.env.sleep(1_000_000).await;
        }
        volume.close().await.unwrap();
    });
}

/// What a refused growth must not have done: whoever takes a member's place is as large as before, and is rebuilt.
#[test]
fn a_page_that_cannot_go_home_refuses_the_growth_and_the_members_stay_as_large_as_they_were() {
    let plan = Plan::mirror(2, 1);
    let (mut machine, bytes) = filled(plan, 7);
    let (members, at) = (machine.members.clone(), machine.page_on_member(3));
    for member in &members {
        member.borrow_mut().rot(at.offset + 3000, 500, &mut Random::new(3));
    }
    let size_bytes = 2 * PAGES * PAGE;
    machine.run_whole(async |run| {
        let (volume, ring, _) = run.open().await.unwrap();
        let before = size_of(&ring);
        let before_bytes = before + plan.data_offset();
        volume.write(3 * PAGE, &[5; 100], Durability::Durable).await.unwrap();
        make_room(&volume, &plan, &members, size_bytes);
        let refused = volume.grow(size_bytes).await;
        assert!(matches!(refused, Err(Error::Damaged { page: 3 })), "{refused:?}");
        assert_eq!((size_of(&ring), volume.size_bytes()), (before, PAGES * PAGE));
        assert!(volume.failure().is_none());
        // As large as members have to be, and no larger.
        ring.fail(1, evenkeel_engine::error::DeviceError { doing: "be replaced", errno: 5 });
        let another = evenkeel_sim::image::Image::shared(evenkeel_engine::device::Geometry {
            size_bytes: before_bytes,
            ..run.members[0].geometry()
        });
        ring.replace(1, run.another(&another).into()).await.unwrap();
        whole(&ring, &run.env).await;
        volume
            .write(3 * PAGE, &bytes[3 * PAGE as usize..4 * PAGE as usize], Durability::Durable)
            .await
            .unwrap();
        make_room(&volume, &plan, &[Rc::clone(&members[0]), another], size_bytes);
        volume.grow(size_bytes).await.unwrap();
        assert!(read_all(&volume).await[..bytes.len()] == bytes);
        volume.close().await.unwrap();
    });
}

/// A page may turn out to be damaged at any moment of a growth: that is refused, or comes to its end with the page's
/// changes kept; never is the ring larger than the volume needs.
#[test]
fn a_page_that_turns_out_to_be_damaged_while_it_grows_stops_nothing() {
    let plan = Plan::mirror(2, 1);
    let size_bytes = 2 * PAGES * PAGE;
    let mut seen = [0, 0];
    for wait_ns in (0..12_000_000).step_by(100_000) {
        let (mut machine, bytes) = filled(plan, 8);
        let (members, at) = (machine.members.clone(), machine.page_on_member(3));
        for member in &members {
            member.borrow_mut().rot(at.offset + 3000, 500, &mut Random::new(3));
        }
        let is_grown = machine.run_whole(async |run| {
            let (volume, ring, _) = run.open().await.unwrap();
            let before = size_of(&ring);
            make_room(&volume, &plan, &members, size_bytes);
            let grown = Rc::new(Cell::new(None));
            let (grower, told) = (volume.clone(), Rc::clone(&grown));
            let env = run.env.clone();
            run.env.spawn(async move {
                env.sleep(2_000_000).await;
                told.set(Some(grower.grow(size_bytes).await));
            });
            run.env.sleep(wait_ns).await;
            volume.write(3 * PAGE, &[5; 100], Durability::Durable).await.unwrap();
            let grown = loop {
                match grown.take() {
                    Some(grown) => break grown,
                    None => run.env.sleep(100_000).await,
                }
            };
            match &grown {
                Ok(()) => assert!(size_of(&ring) > before && volume.size_bytes() == size_bytes),
                Err(Error::Damaged { page: 3 }) => assert_eq!(size_of(&ring), before),
                Err(error) => panic!("{error}"),
            }
            assert!(volume.failure().is_none(), "after {wait_ns} ns");
            volume.close().await.unwrap();
            grown.is_ok()
        });
        seen[usize::from(is_grown)] += 1;
        machine.power_cut();
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            let mut start = [0; 100];
            volume
                .write(3 * PAGE + 100, &bytes[3 * PAGE as usize + 100..][..3996], Durability::Durable)
                .await
                .unwrap();
            volume.read(3 * PAGE, &mut start).await.unwrap();
            assert_eq!(start, [5; 100], "after {wait_ns} ns");
        });
    }
    assert!(seen.iter().all(|&seen| seen > 0), "{seen:?}");
}
