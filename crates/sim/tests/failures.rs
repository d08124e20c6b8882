//! What a volume promises of drives that fail, lie or rot, one story for each promise.

mod machine;

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::options::Journaling;
use evenkeel_engine::volume::check;
use evenkeel_sim::faults::Faults;
use evenkeel_sim::image::Image;
use evenkeel_sim::random::Random;
use machine::{Machine, PAGE, Plan, SimVolume, filled, noise, patch, read};

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
fn after_a_failed_log_write_nothing_is_acknowledged_as_durable_and_the_volume_is_read_only_with_the_reason() {
    for separate_log in [true, false] {
        let plan = Plan { separate_log, ..Plan::of_pages(PAGES) };
        let (mut machine, mut expected) = filled(plan, 3);
        let kept = noise(1, 600);
        patch(&mut expected, 0, &kept);
        machine.live_whole(async |life| {
            let volume = life.open().await.unwrap();
            volume.write(0, &kept, Durability::Durable).await.unwrap();
            volume.write(8 * PAGE, &[8; 500], Durability::Buffered).await.unwrap();
            let next = life.log.counters().writes;
            // One write alone fails: the drive is well again, and still nothing may be called durable.
            life.log.set_faults(Faults { failing_writes: next..next + 1, ..Faults::default() });
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
        machine.live_whole(async |life| {
            let volume = life.open().await.unwrap();
            volume.write(0, &kept, Durability::Durable).await.unwrap();
            let next = life.home.counters().flushes;
            life.home.set_faults(Faults { failing_flushes: next..next + 1, ..Faults::default() });
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
        machine.live_whole(async |life| {
            let volume = life.open().await.unwrap();
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
        machine.live_whole(async |life| {
            let volume = life.open().await.unwrap();
            volume.write(5 * PAGE + 100, &[7; 300], Durability::Durable).await.unwrap();
            for round in 0..3 {
                volume.write(9 * PAGE, &[round; 600], Durability::Durable).await.unwrap();
                volume.checkpoint().await.unwrap();
                assert_eq!(read(&volume, 5 * PAGE, 10).await, Err(Error::Damaged { page: 5 }));
            }
            assert_eq!(volume.counters().carried_pages, 3, "its change passes each checkpoint in the log");
        });
        machine.power_cut();
        machine.live_whole(async |life| {
            let volume = life.open().await.unwrap();
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
    machine.live_whole(async |life| {
        let volume = life.open().await.unwrap();
        volume.write(0, &[1; 100], Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    *machine.home.borrow_mut() = older;
    machine.live_whole(async |life| match life.open().await {
        Err(Error::Unusable(why)) => assert!(why.contains("older"), "{why}"),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it was opened"),
    });
}

#[test]
fn writes_under_way_at_a_failure_all_hear_of_it() {
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    machine.live_whole(async |life| {
        let volume = life.open().await.unwrap();
        let next = life.log.counters().writes;
        life.log.set_faults(Faults { failing_writes: next..next + 1, ..Faults::default() });
        let told = Rc::new(RefCell::new(Vec::new()));
        for page in 0..20 {
            let (volume, told) = (volume.clone(), Rc::clone(&told));
            life.env.spawn(async move {
                let result = volume.write(page * PAGE, &[1; 100], Durability::Durable).await;
                told.borrow_mut().push(result.is_err());
            });
        }
        while told.borrow().len() < 20 {
            life.env.sleep(10_000).await;
        }
        assert!(told.borrow().iter().all(|&failed| failed), "{told:?}");
    });
}
