//! What a volume promises of drives that fail, lie or rot, one story for each promise.

use std::cell::RefCell;
use std::rc::Rc;

use crate::machine::{Machine, PAGE, Plan, Run, SimVolume, WHOLE_RUN, filled, noise, patch, read};
use evenkeel_engine::device::{Device, Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::options::{CreateOptions, Journaling};
use evenkeel_engine::volume::check;
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;

const PAGES: u64 = 40;

/// After a failure below: no write, flush, commit or checkpoint succeeds, and each tells why.
async fn assert_read_only(volume: &SimVolume, reason: &str) {
    let is_latched = |result: Result<(), Error>| match result {
        Err(Error::Latched(why)) => assert!(why.contains(reason), "{why}"),
        other => panic!("{other:?}"),
    };
    is_latched(volume.write(0, &[1], Durability::Buffered).await);
    is_latched(volume.write(0, &[1], Durability::Durable).await);
    is_latched(volume.flush(FlushScope::Whole).await);
    is_latched(volume.flush(FlushScope::Ranges(&[Extent::new(0, 1)])).await);
    is_latched(volume.commit(&[(0, &[1])]).await);
    is_latched(volume.write_zeroes(Extent::new(0, PAGE), Durability::Durable).await);
    is_latched(volume.checkpoint().await);
    assert!(volume.failure().is_some_and(|failure| failure.to_string().contains(reason)));
}

#[test]
fn a_page_that_cannot_be_read_while_the_log_is_is_whole_again_once_it_can() {
    for separate_log in [true, false] {
        let plan = Plan::of_pages(PAGES).with_separate_log(separate_log);
        let (machine, mut expected) = filled(plan, 3);
        let writes: Vec<(u64, Vec<u8>)> =
            (0..8).map(|number| (number * 4 * PAGE + 700, noise(number, 3000 + number as usize))).collect();
        writes.iter().for_each(|(offset, bytes)| patch(&mut expected, *offset, bytes));
        let story = async |run: Run| {
            let volume = run.open().await.unwrap();
            for (offset, bytes) in &writes {
                volume.write(*offset, bytes, Durability::Durable).await.unwrap();
            }
            volume.checkpoint().await.unwrap();
        };
        let events = machine.fork(1).run(WHOLE_RUN, story).1;
        let mut opened_though = 0;
        for back in 1..10 {
            // Within the checkpoint: pages are partly home.
            let mut cut = machine.fork(back);
            let plan = CutPlan { at_event: Some(events - back), kind: CutKind::PowerCut };
            let _cut_off = cut.run(plan, story);
            cut.power_cut();
            for first in 0..30 {
                let mut machine = cut.fork(first);
                // A read of several pages fails, and that of the first of them alone.
                let is_opened = machine.run_whole(async |run| {
                    run.home.set_faults(Faults { failing_operations: first..first + 2, ..Faults::default() });
                    run.open().await.is_ok()
                });
                opened_though += u32::from(is_opened);
                machine.power_cut();
                assert!(machine.contents() == expected, "cut {back} before the end, operation {first}");
            }
        }
        assert!(opened_though > 0);
    }
}

#[test]
fn after_a_failed_log_write_nothing_is_acknowledged_as_durable_and_the_volume_is_read_only_with_the_reason() {
    for separate_log in [true, false] {
        let plan = Plan::of_pages(PAGES).with_separate_log(separate_log);
        let (mut machine, mut expected) = filled(plan, 3);
        let kept = noise(1, 600);
        patch(&mut expected, 0, &kept);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(0, &kept, Durability::Durable).await.unwrap();
            volume.write(8 * PAGE, &[8; 500], Durability::Buffered).await.unwrap();
            let next = run.log.counters().writes;
            // One write alone fails: the drive is well again, and still nothing may be called durable.
            run.log.set_faults(Faults { failing_writes: next..next + 1, ..Faults::default() });
            let failed = volume.write(4 * PAGE, &[9; 500], Durability::Durable).await;
            assert!(failed.is_err(), "it was acknowledged");
            assert_read_only(&volume, "write").await;
            assert!(read(&volume, 0, 600).await.unwrap() == kept, "what is there can be read");
        });
        machine.power_cut();
        let found = machine.contents();
        for (at, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let page = at as u64 / PAGE;
            assert!(found == expected || page == 4 || page == 8, "byte {at}");
        }
    }
}

#[test]
fn after_a_failed_home_flush_nothing_is_acknowledged_as_durable_and_the_volume_is_read_only_with_the_reason()
{
    for seed in 1..30 {
        let (mut machine, mut expected) = filled(Plan::of_pages(PAGES), seed);
        let kept = noise(1, 9000);
        patch(&mut expected, 0, &kept);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(0, &kept, Durability::Durable).await.unwrap();
            let next = run.home.counters().flushes;
            run.home.set_faults(Faults { failing_flushes: next..next + 1, ..Faults::default() });
            assert!(volume.checkpoint().await.is_err());
            assert_read_only(&volume, "flush").await;
            assert!(read(&volume, 0, kept.len()).await.unwrap() == kept, "what is there can be read");
        });
        // What the failed flush dropped, the log still has.
        machine.power_cut();
        assert!(machine.contents() == expected, "seed {seed}");
    }
}

#[test]
fn a_damaged_page_is_never_served() {
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (mut machine, expected) = filled(plan, seed);
        let damaged = [5, 6, 20];
        for page in damaged {
            let offset = plan.layout().page_offset(page);
            machine.home.borrow_mut().rot(offset + 17, 1 + page, &mut Random::new(seed));
        }
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            for page in 0..PAGES {
                let found = read(&volume, page * PAGE + 10, 1000).await;
                match damaged.contains(&page) {
                    true => assert_eq!(found, Err(Error::Damaged { page })),
                    false => {
                        let at = (page * PAGE + 10) as usize;
                        assert!(found.unwrap() == expected[at..at + 1000], "page {page}");
                    }
                }
            }
            assert!(read(&volume, 0, expected.len()).await.is_err());
            assert_eq!(check(&volume).await.unwrap().damaged_pages, damaged);
        });
    }
}

#[test]
fn a_durable_write_to_a_part_of_a_damaged_page_is_kept_and_keeps_no_volume_shut() {
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        // The baselines read the rest of a page before they write a part of it, and are refused.
        if !matches!(plan.open.journaling, Journaling::Wasteless | Journaling::Selective { .. }) {
            continue;
        }
        let (mut machine, expected) = filled(plan, seed);
        let offset = plan.layout().page_offset(5);
        machine.home.borrow_mut().rot(offset + 2000, 1, &mut Random::new(seed));
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(5 * PAGE + 100, &[7; 300], Durability::Durable).await.unwrap();
            for round in 0..3 {
                volume.write(9 * PAGE, &[round; 600], Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
                assert_eq!(read(&volume, 5 * PAGE, 10).await, Err(Error::Damaged { page: 5 }));
            }
            assert_eq!(volume.counters().carried_pages, 3, "its change passes each checkpoint in the log");
        });
        machine.power_cut();
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            assert_eq!(read(&volume, 5 * PAGE, 10).await, Err(Error::Damaged { page: 5 }));
            assert_eq!(check(&volume).await.unwrap().damaged_pages, [5]);
            // The rest is written anew: the page is whole, with what was written before.
            let page = &expected[5 * PAGE as usize..][..PAGE as usize];
            volume.write(5 * PAGE, &page[..100], Durability::Durable).await.unwrap();
            volume.write(5 * PAGE + 400, &page[400..], Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
            assert_eq!(check(&volume).await.unwrap().damaged_pages, Vec::<u64>::new());
        });
        machine.power_cut();
        let mut wanted = expected.clone();
        patch(&mut wanted, 5 * PAGE + 100, &[7; 300]);
        patch(&mut wanted, 9 * PAGE, &[2; 600]);
        assert!(machine.contents() == wanted, "{plan:?}");
    }
}

#[test]
fn a_home_device_older_than_its_log_is_refused() {
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    let older: Image = machine.home.borrow().clone();
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &[1; 100], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    *machine.home.borrow_mut() = older;
    machine.run_whole(async |run| match run.open().await {
        Err(Error::Unusable(why)) => assert!(why.contains("older"), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    });
}

#[test]
fn writes_under_way_at_a_failure_all_hear_of_it() {
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let next = run.log.counters().writes;
        run.log.set_faults(Faults { failing_writes: next..next + 1, ..Faults::default() });
        let told = Rc::new(RefCell::new(Vec::new()));
        for page in 0..20 {
            let (volume, told) = (volume.clone(), Rc::clone(&told));
            run.env.spawn(async move {
                let result = volume.write(page * PAGE, &[1; 100], Durability::Durable).await;
                told.borrow_mut().push(result.is_err());
            });
        }
        while told.borrow().len() < 20 {
            run.env.sleep(10_000).await;
        }
        assert!(told.borrow().iter().all(|&failed| failed), "{told:?}");
    });
}

fn assert_no_damaged_sums_are_taken_over(plan: Plan) {
    let table = plan.layout().table_offset(0);
    let untouched = noise(9, PAGE as usize);
    for at in 0.. {
        let mut machine = Machine::new(plan, 5);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(7 * PAGE, &untouched, Durability::Durable).await.unwrap();
            volume.close().await.unwrap();
        });
        // A recovery needs the table as it stands home where a checkpoint was cut behind its records.
        let cut = CutPlan { at_event: Some(at), kind: CutKind::PowerCut };
        let (ended, _) = machine.run(cut, async |run| {
            let volume = run.open().await.unwrap();
            volume.write(0, &untouched, Durability::Durable).await.unwrap();
            volume.checkpoint().await.unwrap();
        });
        machine.power_cut();
        // The sector of the table that speaks of page 7, and then all of it: as if nothing had ever been there.
        for lost in [Extent::new(table, 512), Extent::new(table, PAGE)] {
            let mut machine = machine.fork(at);
            let zeros = vec![0; lost.len as usize];
            machine.run_whole(async |run| {
                run.home.write(lost.offset, &zeros, Durability::Durable).await.unwrap();
                let Ok(volume) = run.open().await else { return };
                let mut found = vec![0; PAGE as usize];
                if volume.read(7 * PAGE, &mut found).await.is_ok() {
                    assert!(found == untouched, "event {at}: without its sum it is served as zeros");
                }
            });
        }
        if ended.is_ok() {
            break;
        }
    }
}

#[test]
fn a_recovery_takes_over_no_damaged_sums() {
    let plan = Plan::of_pages(PAGES);
    assert_no_damaged_sums_are_taken_over(plan);
    // A checkpoint then speaks of pages and of the table in records of their own.
    let create = CreateOptions { log_bytes: 1 << 20, ..plan.create };
    assert_no_damaged_sums_are_taken_over(Plan { atomic_sectors: false, create, ..plan });
}
