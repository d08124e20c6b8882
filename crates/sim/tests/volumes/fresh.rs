//! Pages that nobody needs, written whole: what a cut leaves of them, and that they do not pass through the log.

use crate::everywhere::cut_everywhere;
use crate::machine::{Machine, PAGE, Plan, Run, filled, noise, patch};
use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::join::all;
use evenkeel_engine::options::Journaling;

const PAGES: u64 = 64;

fn plan(atomic_sectors: bool) -> Plan {
    let mut plan = Plan::of_pages(PAGES);
    plan.atomic_sectors = atomic_sectors;
    plan.create.log_bytes = 1 << 20;
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    plan
}

fn pages(bytes: &[u8]) -> Vec<&[u8]> {
    bytes.chunks(PAGE as usize).collect()
}

#[test]
fn a_cut_leaves_of_fresh_pages_what_they_held_nothing_or_all_that_was_written() {
    for (atomic_sectors, is_empty) in [(false, false), (false, true), (true, false), (true, true)] {
        let (machine, old) = match is_empty {
            true => (Machine::new(plan(atomic_sectors), 3), vec![0; (PAGES * PAGE) as usize]),
            false => filled(plan(atomic_sectors), 3),
        };
        let bytes = noise(4, 6 * PAGE as usize);
        let fresh = (4 * PAGE) as usize..(10 * PAGE) as usize;
        let story = async |run: Run| {
            let volume = run.open().await.unwrap();
            volume.write_fresh(4 * PAGE, &pages(&bytes)).await.unwrap();
        };
        let piece = if atomic_sectors { 512 } else { PAGE as usize };
        let (mut kept, mut written) = (0, 0);
        cut_everywhere(&machine, story, |found, what| {
            assert!(found[..fresh.start] == old[..fresh.start], "{what}, {atomic_sectors}");
            assert!(found[fresh.end..] == old[fresh.end..], "{what}, {atomic_sectors}");
            let parts = found[fresh.clone()].chunks(piece).zip(bytes.chunks(piece));
            for ((found, new), old) in parts.zip(old[fresh.clone()].chunks(piece)) {
                let is_nothing = found.iter().all(|&byte| byte == 0);
                assert!(is_nothing || found == new || found == old, "{what}, {atomic_sectors}");
            }
            if found[fresh.clone()] == bytes {
                written += 1;
            } else {
                kept += 1;
            }
        });
        assert!(kept > 0 && written > 0, "{kept} and {written}");
        let mut machine = machine.fork(2);
        machine.run_whole(story);
        machine.power_cut();
        let mut expected = old.clone();
        patch(&mut expected, 4 * PAGE, &bytes);
        assert!(machine.contents() == expected, "it was not durable");
    }
}

#[test]
fn fresh_pages_do_not_pass_through_the_log_whether_they_were_empty_given_back_or_held_something() {
    for atomic_sectors in [false, true] {
        let (mut machine, mut expected) = filled(plan(atomic_sectors), 3);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write_zeroes(Extent::new(0, 8 * PAGE), Durability::Buffered).await.unwrap();
            let before = volume.counters();
            for (number, first) in [0, 20].into_iter().enumerate() {
                let bytes = noise(number as u64, 16 * PAGE as usize);
                volume.write_fresh(first * PAGE, &pages(&bytes)).await.unwrap();
                patch(&mut expected, first * PAGE, &bytes);
            }
            let after = volume.counters();
            assert_eq!(after.direct_bytes - before.direct_bytes, 32 * PAGE);
            assert_eq!(after.delta_bytes - before.delta_bytes, 0);
        });
        machine.power_cut();
        assert!(machine.contents() == expected);
    }
}

#[test]
fn where_the_journaling_keeps_everything_in_the_log_fresh_pages_are_there_too() {
    let mut plan = plan(false);
    plan.open.journaling = Journaling::Wasteless;
    let mut machine = Machine::new(plan, 3);
    let bytes = noise(1, 16 * PAGE as usize);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write_fresh(PAGE, &pages(&bytes)).await.unwrap();
        assert_eq!(volume.counters().direct_bytes, 0);
        assert_eq!(volume.counters().delta_bytes, bytes.len() as u64);
    });
    machine.power_cut();
    assert!(machine.contents()[PAGE as usize..17 * PAGE as usize] == bytes);
}

#[test]
fn while_small_writes_come_fresh_pages_go_home_in_small_portions_and_both_come_to_an_end() {
    let mut plan = Plan::of_pages(1200);
    plan.create.log_bytes = 4 << 20;
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    // A page takes 160 us of its own: a few take as long as a record.
    plan.latency.transfer_ns_per_kib = 40_000;
    let mut machine = Machine::new(plan, 3);
    let bytes = noise(1, 1024 * PAGE as usize);
    let portions = |machine: &mut Machine, with_small: bool| {
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let small = async |writes: u64| {
                for number in 0..if with_small { writes } else { 0 } {
                    let bytes = noise(number, 100);
                    volume.write(1100 * PAGE + number * 100, &bytes, Durability::Durable).await.unwrap();
                }
            };
            let before = run.home.counters().writes;
            let large = async || {
                small(10).await;
                volume.write_fresh(0, &pages(&bytes)).await.unwrap();
            };
            let tasks: [std::pin::Pin<Box<dyn Future<Output = ()>>>; 2] =
                [Box::pin(small(200)), Box::pin(large())];
            all(tasks.into_iter()).await;
            run.home.counters().writes - before
        })
    };
    let alone = portions(&mut machine.fork(1), false);
    let beside = portions(&mut machine, true);
    // 256 KiB each, or less while small writes are expected: what takes as long as a record of them.
    assert!((16..=20).contains(&alone), "{alone} writes");
    assert!(beside > 2 * alone, "{beside} writes, {alone} alone");
}

#[test]
fn a_page_that_is_not_whole_is_refused() {
    let mut machine = Machine::new(plan(true), 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let page = noise(1, PAGE as usize);
        assert!(volume.write_fresh(512, &[&page]).await.is_err());
        assert!(volume.write_fresh(0, &[&page[..100]]).await.is_err());
        assert!(volume.write_fresh(PAGES * PAGE, &[&page]).await.is_err());
        volume.write_fresh(0, &[&page]).await.unwrap();
    });
}
