//! A log that was lost is made once more, of a volume that was stopped in order and no other, whatever cuts that short.

use crate::machine::{self, Machine, PAGE, Plan, filled, noise, overwrite, read};
use evenkeel_engine::device::{Device, Durability};
use evenkeel_engine::error::Error;
use evenkeel_engine::volume::{plan_log_renewal, renew_log};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::image::Image;

const PAGES: u64 = 40;

/// Puts another drive in the place of the log: of zeros, or of what one held before.
fn lose_log(machine: &mut Machine, held: Option<&[u8]>) {
    let blank = Image::shared(machine.log.borrow().geometry());
    if let Some(held) = held {
        overwrite(&blank, 0, |bytes| bytes.copy_from_slice(held), held.len() as u64);
    }
    machine.log = blank;
}

fn bytes_of_log(machine: &Machine) -> Vec<u8> {
    let log = machine.log.borrow();
    let mut bytes = vec![0; log.geometry().size_bytes as usize];
    log.read_durable(0, &mut bytes);
    bytes
}

/// A volume that was used and stopped, and its log as it was when it had been made.
fn used(plan: Plan) -> (Machine, Vec<u8>, Vec<u8>) {
    let early = bytes_of_log(&Machine::new(plan, 1));
    let (machine, bytes) = filled(plan, 1);
    (machine, bytes, early)
}

/// It opens with these bytes, takes a durable write, and has that after a cut.
fn works(mut machine: Machine, mut bytes: Vec<u8>) {
    assert!(machine.contents() == bytes);
    let new = noise(9, 5000);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(100, &new, Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    machine::patch(&mut bytes, 100, &new);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        assert!(read(&volume, 0, bytes.len()).await.unwrap() == bytes);
        volume.close().await.unwrap();
    });
}

fn plans() -> impl Iterator<Item = Plan> {
    Plan::every_kind(PAGES).into_iter().filter(|plan| plan.separate_log)
}

#[test]
fn a_lost_log_is_made_again_whatever_cuts_that_short() {
    let (mut made, mut again) = (0, 0);
    for plan in plans() {
        let (ended, bytes, early) = used(plan);
        let garbage = noise(5, early.len());
        for kind in [CutKind::PowerCut, CutKind::Kill] {
            for what in 0..3 {
                let renewed_until = |cut: CutPlan, seed: u64| {
                    let mut machine = ended.fork(seed);
                    lose_log(&mut machine, [None, Some(&*early), Some(&*garbage)][what]);
                    let renewed = machine.run(cut, async |run| {
                        renew_log(&*run.home, &*run.log, run.log.geometry().size_bytes).await
                    });
                    (machine, renewed)
                };
                let events = renewed_until(machine::WHOLE_RUN, 0).1.1;
                let mut at_event = 0;
                while at_event <= events {
                    let cut = CutPlan { at_event: Some(at_event), kind };
                    let (mut machine, renewed) = renewed_until(cut, at_event);
                    machine.strike(kind);
                    let opened = machine.run_whole(async |run| match run.open().await {
                        Ok(volume) => volume.close().await,
                        Err(error) => Err(error),
                    });
                    if let Err(error) = opened {
                        assert!(
                            matches!(error, Error::Unusable(_)) && !matches!(renewed.0, Ok(Ok(()))),
                            "{error}"
                        );
                        machine.power_cut();
                        machine
                            .run_whole(async |run| {
                                renew_log(&*run.home, &*run.log, run.log.geometry().size_bytes).await
                            })
                            .unwrap();
                        again += 1;
                    } else {
                        made += 1;
                    }
                    works(machine, bytes.clone());
                    at_event += 1 + events / 12;
                }
            }
        }
    }
    assert!(made > 50 && again > 50, "{made} were made at once, {again} once more");
}

#[test]
fn no_log_is_made_for_a_volume_that_was_not_stopped_in_order_nor_over_one_that_belongs_to_it() {
    let refused = |machine: &mut Machine, why: &str| {
        let before = bytes_of_log(machine);
        let refused = machine
            .run_whole(async |run| renew_log(&*run.home, &*run.log, run.log.geometry().size_bytes).await);
        assert!(matches!(&refused, Err(Error::Unusable(said)) if said.contains(why)), "{refused:?}");
        assert!(before == bytes_of_log(machine), "nothing is written");
    };
    let plan = Plan::of_pages(PAGES);
    let (mut machine, _, _) = used(plan);
    let (old_home, old_log) = (machine.home.borrow().clone(), bytes_of_log(&machine));
    refused(&mut machine, "is there and belongs to it");
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &[1; PAGE as usize], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    let new_log = bytes_of_log(&machine);
    for log in [None, Some(&*old_log)] {
        lose_log(&mut machine, log);
        refused(&mut machine, "was not stopped in order");
        let planned = machine.run_whole(async |run| plan_log_renewal(&*run.home).await);
        assert!(planned.is_err());
    }
    // The home device is the one that is missing.
    machine.home = std::rc::Rc::new(std::cell::RefCell::new(old_home));
    lose_log(&mut machine, Some(&*new_log));
    refused(&mut machine, "newer than the home device");
    let mut inside = Plan::of_pages(PAGES);
    inside.separate_log = false;
    refused(&mut filled(inside, 1).0, "lies on the home device");
}
