//! Stories of log devices of a ring whose place another one takes while the volume is open.

use std::cell::Cell;
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::{DeviceError, Error};
use evenkeel_engine::format::layout::{LOG_COPIES, log_copy_offset};
use evenkeel_engine::format::log_head::DATA_OFFSET;
use evenkeel_engine::layout::mirror::log_devices::LogDeviceState;
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::{Image, SharedImage};
use evenkeel_sim::random::Random;

use crate::machine::mirror::{Machine, PAGE, Plan, RingVolume, Run, SimLogs, dead, filled, silent};
use crate::machine::overwrite;

/// Faster than any drive.
const AT_ONCE: u64 = 1 << 40;

/// A blank device that fits.
fn blank(machine: &Machine) -> SharedImage {
    Image::shared(machine.logs[0].borrow().geometry())
}

/// What is at the end of a log device that another took the place of, or did not.
async fn replaced(
    run: &Run,
    logs: &SimLogs,
    new: &SharedImage,
    bytes_per_s: u64,
    is_named: &Cell<bool>,
) -> Result<(), Error> {
    let copy = logs.replace(0, run.another(new)).await?;
    let name = || {
        is_named.set(true);
        Ok(())
    };
    copy.complete(bytes_per_s, name).await
}

/// Writes pages, one after the other, and counts those that are durable.
async fn write_on(volume: RingVolume, done: Rc<Cell<u8>>) {
    for number in 1..=40u8 {
        let at = u64::from(number) * PAGE;
        if volume.write(at, &[number; 700], Durability::Durable).await.is_err() {
            return;
        }
        done.set(number);
    }
}

/// What cuts of a replacement left.
#[derive(Debug, Default)]
struct Left {
    named: u32,
    unnamed: u32,
    /// Openings with the old one alone that were refused.
    refused: u32,
}

/// Cuts the power at every event of a replacement under writes that go home meanwhile, and judges what each choice of devices
/// holds then; `lost` are members that are lost with the power.
fn cut_at_any_event(plan: Plan, lost: &[usize]) -> Left {
    let (before, bytes) = filled(plan, 19);
    let mut left = Left::default();
    for has_failed in [false, true] {
        let mut at_event = 0;
        loop {
            at_event += 1;
            let mut machine = before.fork(at_event);
            let new = blank(&machine);
            let (is_named, done) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0u8)));
            let (named, durable, image) = (Rc::clone(&is_named), Rc::clone(&done), Rc::clone(&new));
            let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
            let (ended, _) = machine.run(cut, async move |run| {
                let (volume, _, logs) = run.open().await.unwrap();
                run.env.spawn(write_on(volume.clone(), durable));
                run.env.spawn(async move { while volume.checkpoint().await.is_ok() {} });
                run.env.sleep(2_000_000).await;
                if has_failed {
                    logs.fail(0, DeviceError { doing: "be told of it", errno: 5 });
                }
                replaced(&run, &logs, &image, AT_ONCE, &named).await.unwrap();
                run.env.sleep(1_000_000).await;
            });
            machine.power_cut();
            new.borrow_mut().power_cut(&mut Random::new(at_event));
            machine.members_gone = lost.to_vec();
            let old = Rc::clone(&machine.logs[0]);
            if is_named.get() {
                machine.logs[0] = new;
            }
            let mut expected = bytes.clone();
            (1..=done.get()).for_each(|it| expected[usize::from(it) * 4096..][..700].fill(it));
            // What was not durable yet may be there.
            let holds = |found: &[u8]| {
                let pages = (0..=done.get()).chain(done.get() + 2..64);
                pages
                    .map(|it| usize::from(it) * 4096)
                    .all(|at| found[at..at + 4096] == expected[at..at + 4096])
            };
            for gone in [vec![0], vec![1], vec![]] {
                if !is_named.get() && has_failed && gone == [1] {
                    continue;
                }
                let mut alone = machine.fork(at_event);
                alone.logs_gone = gone.clone();
                let what =
                    format!("cut at {at_event}, named {is_named:?}, failed {has_failed}, gone {gone:?}");
                assert!(holds(&alone.contents()), "{what}");
            }
            match is_named.get() {
                true => left.named += 1,
                false => left.unnamed += 1,
            }
            if is_named.get() {
                // The old one alone is refused, or has everything: it had until it was noted as lost.
                machine.logs[0] = old;
                machine.logs_gone = vec![1];
                let found = machine.run_whole(async |run| {
                    let Ok((volume, ..)) = run.open().await else { return None };
                    let mut found = vec![0; 64 * 4096];
                    volume.read(0, &mut found).await.unwrap();
                    Some(found)
                });
                left.refused += u32::from(found.is_none());
                assert!(found.is_none_or(|found| holds(&found)), "cut at {at_event}: the old one is taken");
            }
            if ended.is_ok() {
                break;
            }
        }
    }
    left
}

#[test]
fn a_cut_at_any_event_leaves_each_of_the_old_ones_or_each_of_the_new_ones_with_everything() {
    let left = cut_at_any_event(Plan::mirror(2, 2), &[]);
    assert!(left.named > 50 && left.unnamed > 250 && left.refused > 45, "{left:?}");
}

#[test]
fn so_does_one_with_the_loss_of_a_member_where_changes_of_stripes_are_logged() {
    for lost in 0..3 {
        let left = cut_at_any_event(Plan::striped(2, 1, 2), &[lost]);
        assert!(left.named > 50 && left.unnamed > 250 && left.refused > 45, "without {lost}: {left:?}");
    }
}

#[test]
fn what_a_log_device_held_of_stripes_before_it_was_replaced_by_itself_does_not_count() {
    let (mut machine, mut bytes) = filled(Plan::striped(2, 1, 2), 53);
    machine.run_whole(async |run| {
        let (volume, _, logs) = run.open().await.unwrap();
        volume.write(0, &[1; 40_000], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        logs.fail(0, DeviceError { doing: "be told of it", errno: 5 });
        // What it has of these rows is old from now on, and needed by nobody.
        volume.write(0, &[2; 40_000], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        let copy = logs.replace(0, run.logs[0].clone()).await.unwrap();
        copy.complete(AT_ONCE, || Ok(())).await.unwrap();
    });
    machine.power_cut();
    bytes[..40_000].fill(2);
    machine.logs_gone = vec![1];
    assert!(machine.contents() == bytes);
}

#[test]
fn nothing_is_begun_while_it_takes_the_place_and_one_that_owes_an_answer_does_not_take_it() {
    for plan in [Plan::mirror(2, 1), Plan::striped(2, 1, 1)] {
        let (mut given_up, mut taken) = (0, 0);
        for from in 6..60 {
            let (mut machine, _) = filled(plan, 59);
            let new = blank(&machine);
            machine.run_whole(async |run| {
                let (volume, _, logs) = run.open().await.unwrap();
                let drive = run.another(&new);
                drive.set_faults(silent(from));
                let done = Rc::new(Cell::new(0));
                run.env.spawn(write_on(volume.clone(), Rc::clone(&done)));
                let copy = logs.replace(0, drive.clone()).await.expect("it works for so long");
                // Once it has the place it works. What it has not answered by then it never will.
                let name = || {
                    drive.set_faults(Faults::default());
                    Ok(())
                };
                match copy.complete(AT_ONCE, name).await {
                    Ok(()) => taken += 1,
                    Err(_) => given_up += 1,
                }
                run.env.sleep(3_000_000_000).await;
                volume.write(0, &[3; 700], Durability::Durable).await.unwrap();
                assert_eq!(done.get(), 40, "silent from its operation {from} on");
            });
        }
        assert!(given_up > 5 && taken > 5, "{given_up} given up, {taken} taken");
    }
}

#[test]
fn the_log_wraps_and_its_tail_moves_while_it_is_copied_and_the_new_one_is_enough_alone() {
    for (seed, bytes_per_s) in [(3, 1 << 18), (5, 1 << 21), (7, 1 << 24)] {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), seed);
        let new = blank(&machine);
        // What it held before is no part of anything.
        new.borrow_mut().rot(0, 200_000, &mut Random::new(seed));
        let image = Rc::clone(&new);
        let wraps = machine.run_whole(async |run| {
            let (volume, _, logs) = run.open().await.unwrap();
            let ended = Rc::new(Cell::new(false));
            let (is_ended, copied, named) = (Rc::clone(&ended), logs.clone(), Cell::new(false));
            let drive = run.another(&image);
            run.env.spawn(async move {
                let copy = copied.replace(0, drive).await.unwrap();
                let name = || {
                    named.set(true);
                    Ok(())
                };
                copy.complete(bytes_per_s, name).await.unwrap();
                is_ended.set(true);
            });
            let mut number = 0u64;
            while !ended.get() || number < 400 {
                number += 1;
                let at = number % 60 * PAGE;
                volume.write(at, &[number as u8; 4096], Durability::Durable).await.unwrap();
                bytes[at as usize..][..4096].fill(number as u8);
            }
            assert_eq!(logs.copying(), None);
            volume.counters().log_wraps
        });
        assert!(wraps > 3, "{wraps}");
        machine.power_cut();
        new.borrow_mut().power_cut(&mut Random::new(seed));
        machine.logs[0] = new;
        machine.logs_gone = vec![1];
        assert!(machine.contents() == bytes, "at {bytes_per_s} bytes a second");
    }
}

#[test]
fn a_record_that_is_wrong_on_one_log_device_is_copied_from_the_other() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 23);
    let new = blank(&machine);
    let image = Rc::clone(&new);
    machine.run_whole(async |run| {
        let (volume, _, logs) = run.open().await.unwrap();
        let before = run.logs[0].counters().writes;
        // The first of them says that it has these, and has not.
        run.logs[0].set_faults(Faults { lost_writes: before..before + 6, ..Faults::default() });
        for number in 1..=12u8 {
            volume.write(u64::from(number) * PAGE, &[number; 4096], Durability::Durable).await.unwrap();
        }
        replaced(&run, &logs, &image, AT_ONCE, &Cell::new(false)).await.unwrap();
    });
    machine.power_cut();
    (1..=12u8).for_each(|number| bytes[usize::from(number) * 4096..][..4096].fill(number));
    machine.logs[0] = new;
    machine.logs_gone = vec![1];
    assert!(machine.contents() == bytes);
}

#[test]
fn a_record_that_is_right_nowhere_is_waited_out_until_the_tail_has_passed_it() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 1), 29);
    let new = blank(&machine);
    let (image, log) = (Rc::clone(&new), Rc::clone(&machine.logs[0]));
    machine.run_whole(async |run| {
        let (volume, _, logs) = run.open().await.unwrap();
        volume.write(0, &[7; 40_000], Durability::Durable).await.unwrap();
        let behind = DATA_OFFSET + log_copy_offset(LOG_COPIES);
        let size_bytes = log.borrow().geometry().size_bytes;
        overwrite(&log, behind, |bytes| bytes.fill(0), size_bytes - behind);
        let home = volume.clone();
        let env = run.env.clone();
        run.env.spawn(async move {
            env.sleep(1_000_000_000).await;
            home.checkpoint().await.unwrap();
        });
        let is_named = Cell::new(false);
        replaced(&run, &logs, &image, AT_ONCE, &is_named).await.unwrap();
        assert!(run.env.now_ns() > 1_000_000_000 && is_named.get());
        volume.write(50 * PAGE, &[9; 4096], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    bytes[..40_000].fill(7);
    bytes[50 * 4096..51 * 4096].fill(9);
    machine.logs[0] = new;
    assert!(machine.contents() == bytes);
}

#[test]
fn a_new_one_that_fails_is_given_up_and_nobody_is_the_worse_for_it() {
    for (faults, seed) in [dead(), silent(4), Faults { failing_writes: 4..5, ..Faults::default() }]
        .into_iter()
        .flat_map(|faults| (0..4).map(move |seed| (faults.clone(), seed)))
    {
        let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 31 + seed);
        let new = blank(&machine);
        machine.run_whole(async |run| {
            let (volume, _, logs) = run.open().await.unwrap();
            volume.write(0, &[1; 30_000], Durability::Durable).await.unwrap();
            let drive = run.another(&new);
            drive.set_faults(faults.clone());
            let is_named = Cell::new(false);
            let name = || {
                is_named.set(true);
                Ok(())
            };
            let begun = logs.replace(0, drive).await;
            let copied = match begun {
                Ok(copy) => {
                    let (writing, env) = (volume.clone(), run.env.clone());
                    env.spawn(async move {
                        writing.write(60 * PAGE, &[2; 4096], Durability::Durable).await.unwrap();
                    });
                    copy.complete(AT_ONCE, name).await
                }
                Err(error) => Err(error),
            };
            assert!(matches!(copied, Err(Error::Device(_))), "{copied:?}");
            volume.write(60 * PAGE, &[2; 4096], Durability::Durable).await.unwrap();
            assert_eq!((is_named.get(), logs.copying()), (false, None));
            assert!(logs.states().iter().all(|(state, _)| *state == LogDeviceState::InSync));
        });
        machine.power_cut();
        bytes[..30_000].fill(1);
        bytes[60 * 4096..61 * 4096].fill(2);
        for gone in [vec![0], vec![1]] {
            let mut alone = machine.fork(seed);
            alone.logs_gone = gone;
            assert!(alone.contents() == bytes);
        }
    }
}

#[test]
fn one_that_cannot_be_named_does_not_count_later() {
    let (mut machine, mut bytes) = filled(Plan::mirror(2, 2), 37);
    let new = blank(&machine);
    machine.run_whole(async |run| {
        let (volume, _, logs) = run.open().await.unwrap();
        let copy = logs.replace(0, run.another(&new)).await.unwrap();
        let unnamed = || Err(Error::Unusable("its description cannot be written".to_owned()));
        let copied = copy.complete(AT_ONCE, unnamed).await;
        assert!(matches!(copied, Err(Error::Unusable(why)) if why.contains("cannot be written")));
        volume.write(0, &[5; 4096], Durability::Durable).await.unwrap();
    });
    machine.power_cut();
    bytes[..4096].fill(5);
    let mut with_new = machine.fork(1);
    with_new.logs[0] = new;
    with_new.logs_gone = vec![1];
    let why = with_new.refusal();
    assert!(why.contains("failed before the last writes"), "{why}");
    machine.logs_gone = vec![1];
    assert!(machine.contents() == bytes, "the old one counts");
}

#[test]
fn what_cannot_take_the_place_is_refused() {
    let why = |error: Result<(), Error>| match error {
        Err(Error::Unusable(why)) => why,
        other => panic!("{other:?}"),
    };
    let (mut machine, _) = filled(Plan::mirror(2, 2), 41);
    let geometry = machine.logs[0].borrow().geometry();
    let mut small = geometry;
    small.size_bytes -= 4096;
    machine.run_whole(async |run| {
        let (_volume, _, logs) = run.open().await.unwrap();
        let drive = |geometry| run.another(&Image::shared(geometry));
        let begin = async |place, geometry| why(logs.replace(place, drive(geometry)).await.map(drop));
        assert!(begin(0, small).await.contains("smaller than the log"));
        assert!(begin(2, geometry).await.contains("no such log device"));
        let mut torn = geometry;
        torn.atomic_sectors = false;
        assert!(begin(0, torn).await.contains("promises less of its sectors"));
        let first = logs.replace(0, drive(geometry)).await.unwrap();
        assert!(begin(1, geometry).await.contains("another log device is being replaced"));
        drop(first);
        logs.replace(1, drive(geometry)).await.map(drop).expect("the first was given up");
    });
    let mut on_members = Machine::new(Plan::with_log_on_members(2), 43);
    on_members.run_whole(async |run| {
        let (_volume, _, logs) = run.open().await.unwrap();
        let refused = why(logs.replace(0, run.another(&Image::shared(geometry))).await.map(drop));
        assert!(refused.contains("on its members"), "{refused}");
    });
    // One that ends where the log of stripes begins.
    let mut striped = Machine::new(Plan::striped(2, 1, 2), 47);
    let whole = striped.logs[0].borrow().geometry();
    striped.run_whole(async |run| {
        let (_volume, _, logs) = run.open().await.unwrap();
        let begin = async |geometry| logs.replace(0, run.another(&Image::shared(geometry))).await.map(drop);
        assert!(why(begin(geometry).await).contains("smaller than the log"));
        begin(whole).await.expect("as large as the others");
    });
}
