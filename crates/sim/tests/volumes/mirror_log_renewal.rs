//! The log devices of a mirror that are all lost are made once more where its members prove that it was stopped in order,
//! and nowhere else, whatever cuts that short.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{log_head, ring_head};
use evenkeel_engine::volume::{check_mirror_log_is_lost, plan_mirror_log_renewal, renew_mirror_log};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;
use evenkeel_sim::testbed::Testbed;

use crate::machine::mirror::{Machine, PAGE, Plan, Run, WHOLE_RUN, filled, whole as whole_again};

const SEED: u64 = 23;

const VOLUME: u64 = SEED | 1;

/// Puts blank drives in the places of all log devices.
fn lose_logs(machine: &mut Machine) {
    for log in &mut machine.logs {
        let geometry = log.borrow().geometry();
        *log = Image::shared(geometry);
    }
}

async fn renew(run: &Run) -> Result<(), Error> {
    renew_with(run, None).await
}

async fn renew_with(run: &Run, striped: Option<(Stripes, Extent)>) -> Result<(), Error> {
    let renewal = plan_mirror_log_renewal(&run.members, VOLUME, striped, run.env.random() as u32).await?;
    for log in &run.logs {
        check_mirror_log_is_lost(&renewal, log).await?;
    }
    for (place, log) in run.logs.iter().enumerate() {
        renew_mirror_log(&renewal, log, place as u16, run.logs.len() as u16).await?;
    }
    Ok(())
}

fn refusal(machine: &mut Machine) -> String {
    match machine.run_whole(async |run| renew(&run).await) {
        Err(Error::Unusable(why)) => why,
        other => panic!("{other:?}"),
    }
}

/// It opens with these bytes, takes a durable write, and has that after a cut: where all log devices were made, on one of
/// them alone too.
fn works(machine: &mut Machine, bytes: &mut [u8], are_all_made: bool) {
    assert!(machine.contents() == bytes);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, &[9; 4096], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    bytes[..4096].fill(9);
    if are_all_made {
        machine.logs_gone = vec![0];
        assert!(machine.contents() == bytes);
        machine.logs_gone = vec![];
    }
    assert!(machine.contents() == bytes);
}

#[test]
fn lost_log_devices_are_made_again_whatever_cuts_that_short() {
    let (mut made, mut again) = (0, 0);
    let (mut whole, _) = filled(Plan::mirror(2, 2), SEED);
    lose_logs(&mut whole);
    let (_, events) = whole.run(WHOLE_RUN, async |run| renew(&run).await.unwrap());
    for at_event in 0..=events {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), SEED);
        lose_logs(&mut machine);
        machine.refusal();
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let renewed = machine.run(cut, async |run| renew(&run).await);
        machine.power_cut();
        let mut are_all_made = matches!(renewed.0, Ok(Ok(())));
        match machine.run_whole(async |run| run.open().await.map(drop)) {
            Ok(()) => made += 1,
            Err(_) => {
                assert!(!are_all_made);
                machine.run_whole(async |run| renew(&run).await).unwrap();
                (again, are_all_made) = (again + 1, true);
            }
        }
        machine.power_cut();
        works(&mut machine, &mut bytes, are_all_made);
    }
    assert!(made > 1 && again > 10, "{made} were made at once, {again} once more");
}

/// A mirror whose members have the superblocks of two stops, in both places.
fn stopped_twice() -> (Machine, Vec<u8>) {
    let (mut machine, bytes) = filled(Plan::mirror(2, 2), SEED);
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.checkpoint().await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    let mut page = [0; PAGE as usize];
    let is_closed = |place: u64| {
        machine.members[0].borrow().read_durable(ring_head::DATA_OFFSET + place * PAGE, &mut page);
        Superblock::decode(&page).is_some_and(|found| found.is_closed)
    };
    assert!([0, 1].into_iter().all(is_closed));
    (machine, bytes)
}

#[test]
fn no_log_is_made_for_a_mirror_that_was_not_stopped_in_order_whatever_cut_it() {
    let (mut refused, mut closed) = (0, 0);
    let acknowledged = RefCell::new(false);
    let run = async |run: Run| {
        let (volume, ..) = run.open().await?;
        volume.write(0, &[9; 4096], Durability::Durable).await?;
        acknowledged.replace(true);
        volume.close().await
    };
    let (_, events) = stopped_twice().0.run(WHOLE_RUN, run);
    for at_event in 0..=events {
        let (mut machine, mut bytes) = stopped_twice();
        acknowledged.replace(false);
        let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
        let ended = machine.run(cut, run);
        machine.power_cut();
        lose_logs(&mut machine);
        match machine.run_whole(async |run| renew(&run).await) {
            Ok(()) => {
                let found = machine.contents();
                let old = bytes.clone();
                bytes[..4096].fill(9);
                assert!(found == bytes || (found == old && !acknowledged.take()), "cut at event {at_event}");
                closed += 1;
            }
            Err(Error::Unusable(why)) => {
                assert!(!matches!(ended.0, Ok(Ok(()))) && why.contains("stopped in order"), "{why}");
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 10 && closed > 1, "{refused} refused, {closed} made");
}

#[test]
fn what_one_member_alone_knows_of_a_later_opening_refuses() {
    for alone in [0, 1] {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), SEED);
        machine.members_gone = vec![1 - alone];
        machine.run_whole(async |run| {
            let (volume, ..) = run.open().await.unwrap();
            volume.write(0, &[9; 4096], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
        machine.members_gone = vec![];
        let logs: Vec<_> = machine.logs.clone();
        lose_logs(&mut machine);
        assert!(refusal(&mut machine).contains("do not say that it was stopped in order"));
        // Of the one that knows nothing of it alone nobody can tell.
        let geometry = machine.members[alone].borrow().geometry();
        let knowing = std::mem::replace(&mut machine.members[alone], Image::shared(geometry));
        assert!(refusal(&mut machine).contains(&format!("member {alone} is not that member")));
        // Stopped in order by the one alone, the other is stale, and rebuilt from it.
        (machine.members[alone], machine.logs) = (knowing, logs);
        machine.members_gone = vec![1 - alone];
        machine.run_whole(async |run| run.open().await.unwrap().0.close().await.unwrap());
        machine.members_gone = vec![];
        lose_logs(&mut machine);
        machine.run_whole(async |run| renew(&run).await).unwrap();
        bytes[..4096].fill(9);
        assert!(machine.contents() == bytes);
    }
}

#[test]
fn a_member_whose_newest_head_may_be_gone_proves_nothing() {
    for head in [0, 1] {
        let (mut machine, _) = filled(Plan::mirror(2, 2), SEED);
        lose_logs(&mut machine);
        machine.members[1].borrow_mut().rot(head * PAGE, 512, &mut Random::new(3));
        assert!(refusal(&mut machine).contains("member 1 is not that member, or damaged"));
    }
}

#[test]
fn a_log_device_that_belongs_to_the_members_is_not_overwritten() {
    let (mut machine, bytes) = filled(Plan::mirror(2, 2), SEED);
    let early: Vec<_> = machine.logs.iter().map(|log| log.borrow().clone()).collect();
    assert!(refusal(&mut machine).contains("is there and belongs to it"));
    let members: Vec<_> = machine.members.iter().map(|member| member.borrow().clone()).collect();
    machine.run_whole(async |run| run.open().await.unwrap().0.close().await.unwrap());
    let late = machine.members.clone();
    // Of members that were put back to what they were, those log devices hold what they lack.
    machine.members = members.into_iter().map(|image| Rc::new(RefCell::new(image))).collect();
    assert!(refusal(&mut machine).contains("is newer than its members"));
    // Those of an earlier stop are of no use any more.
    machine.members = late;
    machine.logs = early.into_iter().map(|image| Rc::new(RefCell::new(image))).collect();
    machine.run_whole(async |run| renew(&run).await).unwrap();
    assert!(machine.contents() == bytes);
    let mut on_members = filled(Plan::with_log_on_members(2), SEED).0;
    assert!(refusal(&mut on_members).contains("lies on its members"));
}

#[test]
fn a_log_device_that_failed_before_the_stop_does_not_count_later() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), SEED);
    machine.log_faults[0] = Faults { failing_writes: 6..u64::MAX, ..Faults::default() };
    let ended = machine.run(WHOLE_RUN, async |run| {
        let (volume, ..) = run.open().await.unwrap();
        for number in 0..8u64 {
            volume.write(number * PAGE, &[7; 4096], Durability::Durable).await.unwrap();
        }
        volume.close().await.unwrap();
    });
    ended.0.unwrap();
    machine.power_cut();
    bytes[..8 * 4096].fill(7);
    machine.log_faults[0] = Faults::default();
    let failed = machine.logs[0].borrow().clone();
    lose_logs(&mut machine);
    machine.run_whole(async |run| renew(&run).await).unwrap();
    // It comes back beside one that was made anew: it is known to lack what came.
    machine.logs[0] = Rc::new(RefCell::new(failed));
    assert!(machine.contents() == bytes);
    works(&mut machine, &mut bytes, true);
}

/// What tells of the stripes of a plan, and of their log.
fn striped(plan: &Plan) -> Option<(Stripes, Extent)> {
    let zone = plan.testbed.stripe_log()?;
    Some((plan.ring.stripes?, Extent::new(zone.offset - log_head::DATA_OFFSET, zone.len)))
}

#[test]
fn lost_log_devices_of_stripes_are_made_again_where_they_were_stopped_in_order_and_nowhere_else() {
    for (data, parity) in [(2, 1), (4, 2)] {
        let plan = Plan::striped(data, parity, 2);
        let (mut machine, mut bytes) = filled(plan, SEED);
        lose_logs(&mut machine);
        // What says so is read from the others where its own member rots.
        machine.members[0].borrow_mut().rot(ring_head::DATA_OFFSET, 2 * PAGE, &mut Random::new(5));
        machine.run_whole(async |run| renew_with(&run, striped(&plan)).await).unwrap();
        works(&mut machine, &mut bytes, true);
        lose_logs(&mut machine);
        let refused = machine.run_whole(async |run| renew_with(&run, striped(&plan)).await);
        assert!(matches!(refused, Err(Error::Unusable(why)) if why.contains("stopped in order")));
    }
}

/// Wherever a stop is cut, and whichever member fails in it: where the log devices can be made again, nothing is lost then,
/// and any member may be.
#[test]
fn a_stop_of_stripes_that_is_cut_or_loses_a_member_is_renewed_only_as_one_version() {
    let plan = Plan::striped(2, 1, 2);
    let (whole, bytes) = filled(plan, SEED);
    let stop = async |run: Run| {
        let (volume, ..) = run.open().await?;
        volume.write(0, &[9; 4096], Durability::Durable).await?;
        volume.close().await
    };
    let mut written = bytes.clone();
    written[..4096].fill(9);
    let (_, events) = whole.fork(0).run(WHOLE_RUN, stop);
    let (mut refused, mut made) = (0, 0);
    for (at_event, fails) in (0..=events).flat_map(|at| (0..4).map(move |fails| (at, fails))) {
        let mut machine = whole.fork(at_event * 4 + fails);
        let cut = match machine.member_faults.get_mut(fails as usize) {
            // It fails from some operation on, and is there again later.
            Some(faults) => {
                *faults = Faults { failing_operations: at_event / 2..u64::MAX, ..Faults::default() };
                WHOLE_RUN
            }
            None => CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut },
        };
        let _cut_or_not = machine.run(cut, stop);
        machine.power_cut();
        machine.member_faults.fill(Faults::default());
        lose_logs(&mut machine);
        match machine.run_whole(async |run| renew_with(&run, striped(&plan)).await) {
            Ok(()) => {
                made += 1;
                for lost in 0..3 {
                    let mut without = machine.fork(lost);
                    // Whoever lacks something is made whole first.
                    without.run_whole(async |run| {
                        let (_volume, ring, _) = run.open().await.unwrap();
                        whole_again(&ring, &run.env).await;
                    });
                    without.power_cut();
                    without.members_gone = vec![lost as usize];
                    let found = without.contents();
                    let about = format!("cut or failed at {at_event}, {fails}, without {lost}");
                    assert!(found == written || found == bytes, "{about}");
                }
            }
            Err(Error::Unusable(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 10 && made > 3, "{refused} refused, {made} made");
}

#[test]
fn a_log_device_of_stripes_that_was_lost_and_comes_back_beside_one_that_was_made_counts_no_more() {
    let plan = Plan::striped(2, 1, 2);
    let (mut machine, mut bytes) = filled(plan, SEED);
    let lost: Vec<_> = machine.logs.iter().map(|log| log.borrow().clone()).collect();
    lose_logs(&mut machine);
    machine.run_whole(async |run| renew_with(&run, striped(&plan)).await).unwrap();
    // Rows change, and their records have lower numbers than those that the lost ones hold.
    machine.run_whole(async |run| {
        let (volume, ..) = run.open().await.unwrap();
        volume.write(0, &[5; 8 * PAGE as usize], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
    });
    machine.power_cut();
    bytes[..8 * PAGE as usize].fill(5);
    for (place, image) in lost.into_iter().enumerate() {
        let mut machine = machine.fork(place as u64);
        machine.logs[place] = Rc::new(RefCell::new(image));
        assert!(machine.contents() == bytes, "log device {place}");
        machine.members_gone = vec![place];
        assert!(machine.contents() == bytes, "log device {place}, without member {place}");
        machine.members_gone = Vec::new();
        works(&mut machine, &mut bytes.clone(), false);
    }
}
