//! Large writes to pages without contents, on drives that may tear: straight home where it pays, and what a cut leaves.

use crate::everywhere::cut_everywhere;
use crate::machine::{Machine, PAGE, Plan, Run, noise, patch};
use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::join::all;
use evenkeel_engine::options::Journaling;

const PAGES: u64 = 200;

fn plan(bulk_min_bytes: u64) -> Plan {
    let mut plan = Plan::of_pages(PAGES);
    plan.atomic_sectors = false;
    plan.create.log_bytes = 4 << 20;
    plan.arena_bytes = 1 << 20;
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    plan.open.tuning.bulk_min_bytes = bulk_min_bytes;
    plan
}

#[test]
fn a_cut_leaves_each_page_of_a_large_write_as_it_was_or_as_it_is_written() {
    let mut machine = Machine::new(plan(0), 3);
    let mut old = vec![0; (PAGES * PAGE) as usize];
    let there = noise(1, 8 * PAGE as usize);
    patch(&mut old, 0, &there);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &there, Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
    });
    // Over four pages that hold something, and twelve that do not.
    let bytes = noise(2, 16 * PAGE as usize);
    let mut new = old.clone();
    patch(&mut new, 4 * PAGE + 100, &bytes);
    let story = async |run: Run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        volume.write(4 * PAGE + 100, &bytes, Durability::Durable).await.unwrap();
        let after = volume.counters();
        assert_eq!(after.direct_bytes - before.direct_bytes, 12 * PAGE);
    };
    let (mut kept, mut written) = (0, 0);
    cut_everywhere(&machine, story, |found, what| {
        let pages = || found.chunks(PAGE as usize).zip(old.chunks(PAGE as usize));
        for ((found, old), new) in pages().zip(new.chunks(PAGE as usize)) {
            assert!(found == old || found == new, "{what}");
        }
        kept += u64::from(found == old);
        written += u64::from(found == new);
    });
    assert!(kept > 0 && written > 0, "{kept} and {written}");
    machine.run_whole(story);
    machine.power_cut();
    assert!(machine.contents() == new, "it was not durable");
}

#[test]
fn large_writes_go_home_where_many_are_under_way_and_through_the_log_one_after_another() {
    const EACH: u64 = 16;
    let run = |at_once: usize, durability: Durability| {
        let mut machine = Machine::new(plan(40 * PAGE), 3);
        let mut expected = vec![0; (PAGES * PAGE) as usize];
        let writes: Vec<_> =
            (0..12).map(|number| (number * EACH, noise(number, (EACH * PAGE) as usize))).collect();
        writes.iter().for_each(|(page, bytes)| patch(&mut expected, page * PAGE, bytes));
        let counted = machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let before = volume.counters();
            for together in writes.chunks(at_once) {
                let write = async |(page, bytes): &(u64, Vec<u8>)| {
                    volume.write(page * PAGE, bytes, durability).await.unwrap();
                };
                all(together.iter().map(write)).await;
            }
            volume.flush(FlushScope::Whole).await.unwrap();
            let after = volume.counters();
            let direct_bytes = after.direct_bytes - before.direct_bytes;
            let logged_bytes = after.delta_bytes - before.delta_bytes;
            assert_eq!(direct_bytes + logged_bytes, 12 * EACH * PAGE);
            direct_bytes / (EACH * PAGE)
        });
        machine.power_cut();
        assert!(machine.contents() == expected, "{at_once} at once, {durability:?}");
        counted
    };
    for durability in [Durability::Durable, Durability::Buffered] {
        assert_eq!(run(1, durability), 0, "nobody waits beside it");
    }
    // Of the first four the third makes it enough, and then all go home.
    assert_eq!(run(4, Durability::Durable), 10);
    // Half of the buffer takes eight of them, and then as many are under way.
    assert_eq!(run(4, Durability::Buffered), 4);
}

#[test]
fn a_write_of_many_small_runs_without_contents_goes_through_the_log_as_one() {
    let mut machine = Machine::new(plan(0), 3);
    let mut expected = vec![0; (PAGES * PAGE) as usize];
    let bytes = noise(2, 64 * PAGE as usize);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for first in (0..64).step_by(16) {
            let there = noise(first, 8 * PAGE as usize);
            volume.write(first * PAGE, &there, Durability::Durable).await.unwrap();
        }
        volume.checkpoint().await.unwrap();
        let before = volume.counters();
        volume.write(0, &bytes, Durability::Durable).await.unwrap();
        let after = volume.counters();
        assert_eq!(after.direct_bytes - before.direct_bytes, 0, "four times three steps, one behind another");
        patch(&mut expected, 0, &bytes);
    });
    machine.power_cut();
    assert!(machine.contents() == expected);
}

#[test]
fn a_volume_much_larger_than_its_log_takes_large_writes_home_with_a_checkpoint_now_and_then() {
    const BETWEEN: u64 = 512; // pages of which one page of the table speaks
    const PLACES: u64 = 24;
    let mut plan = plan(0);
    plan.create.size_bytes = PLACES * BETWEEN * PAGE;
    // Room for the images of some 40 pages of the table, and so not for all 24 beside those of the frames.
    plan.create.log_bytes = 2 << 20;
    // Cut where a checkpoint is just due, behind it, and between: what is left to be done has room when it is recovered.
    for count in (3..14).chain([PLACES]) {
        let mut machine = Machine::new(plan, 3);
        let mut expected = vec![0; (PLACES * BETWEEN * PAGE) as usize];
        let writes: Vec<_> =
            (0..count).map(|place| (place * BETWEEN * PAGE, noise(place, 16 * PAGE as usize))).collect();
        for (at, bytes) in &writes {
            patch(&mut expected, *at, bytes);
            patch(&mut expected, at + 300 * PAGE + 7, &bytes[..100]);
        }
        let checkpoints = machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let before = volume.counters();
            for (at, bytes) in &writes {
                volume.write(*at, bytes, Durability::Durable).await.unwrap();
                volume.write(at + 300 * PAGE + 7, &bytes[..100], Durability::Durable).await.unwrap();
            }
            let after = volume.counters();
            assert_eq!(after.direct_bytes - before.direct_bytes, count * 16 * PAGE);
            after.checkpoints - before.checkpoints
        });
        // One for five or six pages of the table.
        assert!(
            (count / 6 - u64::from(count % 6 == 0)..=count / 5).contains(&checkpoints),
            "{checkpoints} for {count}"
        );
        machine.power_cut();
        assert!(machine.contents() == expected, "{count}");
    }
}
