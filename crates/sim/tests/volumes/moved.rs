//! Volumes that are moved to drives with other sectors and other promises: what is looked at anew.

use crate::machine::{self, Machine, PAGE, Plan, WHOLE_RUN, filled, noise, patch};
use evenkeel_engine::device::Durability;
use evenkeel_engine::error::Error;
use evenkeel_engine::options::{CreateOptions, Journaling};
use evenkeel_sim::cuts::{CutKind, CutPlan};

const PAGES: u64 = 40;

/// With a log that is enough for drives of any kind.
fn plan(separate_log: bool) -> Plan {
    let plan = Plan::of_pages(PAGES);
    Plan { create: CreateOptions { log_bytes: 1 << 20, ..plan.create }, ..plan }
        .with_separate_log(separate_log)
}

/// To drives that may tear sectors, or do not.
fn move_to(machine: &mut Machine, atomic_sectors: bool) {
    for drive in [&machine.home, &machine.log] {
        let sector_bytes = drive.borrow().geometry().sector_bytes;
        drive.borrow_mut().move_to(sector_bytes, atomic_sectors);
    }
}

#[test]
fn a_cut_of_a_recovery_on_drives_that_tear_sectors_takes_nothing_though_sums_were_enough_before() {
    for separate_log in [true, false] {
        let (machine, mut expected) = filled(plan(separate_log), 3);
        // A part of each page: the rest is only at home.
        let writes: Vec<(u64, Vec<u8>)> =
            (0..12).map(|number| (number * 3 * PAGE + 700, noise(number, 900))).collect();
        writes.iter().for_each(|(offset, bytes)| patch(&mut expected, *offset, bytes));
        let story = async |run: machine::Run| {
            let volume = run.open().await.unwrap();
            for (offset, bytes) in &writes {
                volume.write(*offset, bytes, Durability::Durable).await.unwrap();
            }
            volume.checkpoint().await.unwrap();
        };
        let events = machine.fork(1).run(WHOLE_RUN, story).1;
        for back in (1..24).step_by(3) {
            let mut cut = machine.fork(back);
            let at_event = Some(events - back);
            let _cut_off = cut.run(CutPlan { at_event, kind: CutKind::PowerCut }, story);
            cut.power_cut();
            move_to(&mut cut, false);
            for at_event in 0.. {
                let mut torn = cut.fork(at_event);
                let plan = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
                let (ended, _) = torn.run(plan, async |run| run.open().await.map(drop));
                torn.power_cut();
                // And back: what was torn meanwhile is made whole there too.
                move_to(&mut torn, at_event % 2 == 0);
                assert!(torn.contents() == expected, "cut {back} from the end, then at event {at_event}");
                if ended.is_ok() {
                    break;
                }
            }
        }
    }
}

#[test]
fn a_log_that_would_be_written_in_larger_sectors_is_refused_and_pages_are_not() {
    for separate_log in [true, false] {
        let (mut machine, expected) = filled(plan(separate_log), 3);
        machine.home.borrow_mut().move_to(4096, false);
        let opened = machine.run_whole(async |run| run.open().await.map(drop));
        machine.power_cut();
        match (separate_log, opened) {
            (true, Ok(())) => assert!(machine.contents() == expected),
            (false, Err(Error::Unsuited(why))) => {
                assert!(why.contains("sectors of 512 bytes") && why.contains("4096 at once"), "{why}");
                machine.home.borrow_mut().move_to(512, true);
                assert!(machine.contents() == expected);
            }
            (_, other) => panic!("{other:?}"),
        }
    }
}

#[test]
fn more_than_the_log_has_room_for_is_refused_before_anything_changes() {
    let mut small = plan(true);
    small.create.size_bytes = 400 * PAGE;
    small.open.journaling = Journaling::Wasteless;
    let mut machine = Machine::new(small, 5);
    let mut expected = vec![0; (400 * PAGE) as usize];
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &vec![1; 400 * PAGE as usize], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        for page in 0..300 {
            volume.write(page * PAGE + 9, &[2; 50], Durability::Durable).await.unwrap();
        }
    });
    expected.fill(1);
    (0..300).for_each(|page| patch(&mut expected, page * PAGE + 9, &[2; 50]));
    machine.power_cut();
    move_to(&mut machine, false);
    for _ in 0..3 {
        let opened = machine.run_whole(async |run| run.open().await.map(drop));
        machine.power_cut();
        assert!(
            matches!(&opened, Err(Error::Unsuited(why)) if why.contains("no room for the images")),
            "{opened:?}"
        );
    }
    move_to(&mut machine, true);
    assert!(machine.contents() == expected);
    machine.run_whole(async |run| run.open().await.unwrap().close().await.unwrap());
    machine.power_cut();
    move_to(&mut machine, false);
    assert!(machine.contents() == expected);
}
