//! What an operation asks of the drives, and of those beside it: no more than it needs.

use std::cell::Cell;
use std::rc::Rc;

use crate::machine::{Machine, PAGE, Plan, filled, noise, patch, read};
use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::join::all;
use evenkeel_engine::options::Journaling;
use evenkeel_sim::faults::Faults;

/// A part of each of these pages is durable in the log, a checkpoint has said that it takes them home, and came no
/// further.
fn with_checkpoint_under_way(plan: Plan, pages: impl Iterator<Item = u64>) -> (Machine, Vec<u8>) {
    let (mut machine, mut expected) = filled(plan, 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for page in pages {
            let bytes = noise(page, 600);
            volume.write(page * PAGE + 700, &bytes, Durability::Durable).await.unwrap();
            patch(&mut expected, page * PAGE + 700, &bytes);
        }
        let next = run.home.counters().flushes;
        run.home.set_faults(Faults { failing_flushes: next..u64::MAX, ..Faults::default() });
        assert!(volume.checkpoint().await.is_err());
    });
    machine.power_cut();
    (machine, expected)
}

#[test]
fn a_recovery_reads_neighbours_together_and_nothing_that_lies_far_between() {
    let pages = (100..140).chain((200..300).step_by(5)).chain([600, 900, 1200]);
    let count = pages.clone().count() as u64;
    let (mut machine, expected) = with_checkpoint_under_way(Plan::of_pages(1500), pages);
    let read = machine.run_whole(async |run| {
        let _volume = run.open().await.unwrap();
        run.home.counters()
    });
    assert!(read.reads < count / 2, "{count} pages: {read:?}");
    assert!(read.read_bytes < 250 * PAGE, "{count} pages: {read:?}");
    assert!(machine.contents() == expected);
}

#[test]
fn pages_side_by_side_go_home_together() {
    let (mut machine, _) = filled(Plan::of_pages(200), 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let (before, told_before) = (run.home.counters(), volume.counters());
        volume.write(50 * PAGE, &noise(1, 60 * PAGE as usize), Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        let after = run.home.counters();
        // With tables, roots and superblocks of a checkpoint that the log asked for, and of this one.
        assert!(after.writes - before.writes < 30, "{before:?} {after:?}");
        assert_eq!(volume.counters().home_bytes - told_before.home_bytes, 60 * PAGE, "as it is told");
    });
}

#[test]
fn what_a_checkpoint_says_in_the_log_is_in_records_no_larger_than_they_may_be() {
    let mut plan = Plan::of_pages(200);
    plan.create.log_bytes = 1 << 20;
    plan.open.tuning.announced_max_bytes = 32; // two pages with their sums
    let (mut machine, _) = filled(plan, 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for page in 0..20 {
            volume.write(page * PAGE, &[5; 100], Durability::Durable).await.unwrap();
        }
        let before = (run.log.counters(), volume.counters());
        volume.checkpoint().await.unwrap();
        let after = (run.log.counters(), volume.counters());
        assert_eq!(after.1.checkpoints - before.1.checkpoints, 1);
        // The table's page and the superblock take one each.
        let writes = after.0.writes - before.0.writes;
        assert!((10..=14).contains(&writes), "{writes}");
    });
}

#[test]
fn a_large_write_goes_straight_home_in_one_piece() {
    for journaling in [Journaling::Selective { threshold_bytes: 16384 }, Journaling::Ordered] {
        let mut plan = Plan::of_pages(200);
        plan.open.journaling = journaling;
        let (mut machine, _) = filled(plan, 3);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(50 * PAGE, &noise(1, 40 * PAGE as usize), Durability::Durable).await.unwrap();
            assert_eq!(volume.counters().direct_writes, 1, "{journaling:?}");
        });
    }
}

#[test]
fn large_writes_beside_each_other_share_their_intents_and_completions() {
    let mut plan = Plan::of_pages(400);
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    let (mut machine, mut expected) = filled(plan, 3);
    let writes: Vec<(u64, Vec<u8>)> =
        (0..16).map(|number| (number * 20 * PAGE, noise(number, 10 * PAGE as usize))).collect();
    for (offset, bytes) in &writes {
        patch(&mut expected, *offset, bytes);
    }
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = (run.log.counters(), volume.counters());
        let write = async |(offset, bytes): &(u64, Vec<u8>)| {
            volume.write(*offset, bytes, Durability::Durable).await.unwrap();
        };
        all(writes.iter().map(write)).await;
        let after = (run.log.counters(), volume.counters());
        assert_eq!(after.1.direct_writes - before.1.direct_writes, 16);
        assert_eq!(after.1.home_bytes - before.1.home_bytes, 160 * PAGE);
        // One by one they would take 32 records and 16 flushes.
        let records = after.0.writes - before.0.writes;
        assert!((2..=16).contains(&records), "{records} records");
        let flushes = after.1.home_flushes - before.1.home_flushes;
        assert!((1..=8).contains(&flushes), "{flushes} flushes");
    });
    machine.power_cut();
    assert!(machine.contents() == expected);
}

#[test]
fn where_pages_wait_to_go_home_a_large_write_over_them_asks_for_no_checkpoint() {
    let mut plan = Plan::of_pages(400);
    plan.open.journaling = Journaling::Selective { threshold_bytes: 32 << 10 };
    let (mut machine, mut expected) = filled(plan, 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        for page in [30, 60, 62] {
            let bytes = noise(page, 100);
            volume.write(page * PAGE, &bytes, Durability::Durable).await.unwrap();
        }
        let bytes = noise(1, 60 * PAGE as usize);
        volume.write(20 * PAGE, &bytes, Durability::Durable).await.unwrap();
        let after = volume.counters();
        assert_eq!(after.checkpoints - before.checkpoints, 0);
        // Pages 20 to 29, 31 to 59 and 63 to 79; the one between 60 and 62 is not worth a way of its own.
        assert_eq!(after.direct_writes - before.direct_writes, 3);
        assert_eq!(after.home_bytes - before.home_bytes, (10 + 29 + 17) * PAGE);
        patch(&mut expected, 20 * PAGE, &bytes);
    });
    machine.power_cut();
    assert!(machine.contents() == expected);
}

#[test]
fn a_larger_write_goes_straight_home_in_pieces_of_half_the_pages_that_may_be_dirty() {
    let mut plan = Plan::of_pages(200);
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    plan.open.dirty_pages_max = 20;
    let (mut machine, mut expected) = filled(plan, 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        assert_eq!(volume.occupancy().dirty_max_bytes, 20 * PAGE);
        let bytes = noise(1, 95 * PAGE as usize);
        volume.write(50 * PAGE, &bytes, Durability::Durable).await.unwrap();
        assert_eq!(volume.counters().direct_writes, 10);
        patch(&mut expected, 50 * PAGE, &bytes);
    });
    machine.power_cut();
    assert!(machine.contents() == expected);
}

#[test]
fn large_writes_wait_for_a_checkpoint_only_where_the_log_or_the_table_needs_one() {
    /// Pages of which one page of the table speaks.
    const STRIDE: u64 = 512;
    let mut plan = Plan::of_pages(STRIDE * 22);
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    plan.open.dirty_pages_max = 20;
    let bytes = noise(1, 5 * PAGE as usize);
    let checkpoints_of = |offset: fn(u64) -> u64, writes: u64| {
        Machine::new(plan, 3).run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let before = volume.counters();
            for number in 0..writes {
                volume.write(offset(number), &bytes, Durability::Durable).await.unwrap();
            }
            let after = volume.counters();
            assert_eq!(after.direct_writes - before.direct_writes, writes);
            after.checkpoints - before.checkpoints
        })
    };
    assert_eq!(checkpoints_of(|number| number * STRIDE * PAGE, 20), 1, "ten pages of the table changed");
    // Each is two records of a sector; three quarters of the log are for commits.
    assert_eq!(checkpoints_of(|_| 0, 193), 0, "192 writes fill that to the byte");
    assert_eq!(checkpoints_of(|_| 0, 194), 1);
}

#[test]
fn no_commit_is_written_in_which_there_is_nothing() {
    let mut plan = Plan::of_pages(400);
    plan.create.log_bytes = 4 << 20; // no commit waits for room
    plan.arena_bytes = 4 << 20;
    plan.open.batch_max_bytes = 2; // one write in each
    Machine::new(plan, 3).run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        let is_flushed = Rc::new(Cell::new(false));
        let (beside, told) = (volume.clone(), Rc::clone(&is_flushed));
        run.env.spawn(async move {
            beside.write(100 * PAGE, &noise(1, 100 * PAGE as usize), Durability::Durable).await.unwrap();
            told.set(true);
        });
        // While small writes come, much waits for more of its kind that is under way.
        let mut small_writes = 0;
        while !is_flushed.get() {
            volume.write(small_writes * 200, &[7; 100], Durability::Durable).await.unwrap();
            small_writes += 1;
        }
        let after = volume.counters();
        assert_eq!(after.committed_units - before.committed_units, small_writes + 25);
        assert_eq!(after.commits - before.commits, small_writes + 25);
    });
}

#[test]
fn others_have_their_turn_between_the_pieces_of_a_large_write() {
    let mut plan = Plan::of_pages(200);
    plan.arena_bytes = 4 << 20; // it waits for nothing
    Machine::new(plan, 3).run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let turns = Rc::new(Cell::new(0));
        let (env, taken) = (run.env.clone(), Rc::clone(&turns));
        run.env.spawn(async move {
            loop {
                env.sleep(0).await;
                taken.set(taken.get() + 1);
            }
        });
        let before = turns.get();
        volume.write(0, &noise(1, 200 * PAGE as usize), Durability::Buffered).await.unwrap();
        let between = turns.get() - before;
        assert!(between >= 25, "{between} turns in 50 pieces");
    });
}

#[test]
fn old_bytes_written_again_over_newer_ones_that_are_not_durable_are_meant() {
    let (mut machine, mut expected) = filled(Plan::of_pages(40), 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let durable = read(&volume, 5 * PAGE, PAGE as usize).await.unwrap();
        let mut changed = durable.clone();
        for range in [100..110, 3000..3020] {
            changed[range].iter_mut().for_each(|byte| *byte = !*byte);
        }
        volume.write(5 * PAGE, &changed, Durability::Durable).await.unwrap();
        // What is not durable yet is no measure of what differs.
        volume.write(5 * PAGE, &durable, Durability::Buffered).await.unwrap();
        volume.write(5 * PAGE, &changed, Durability::Durable).await.unwrap();
        patch(&mut expected, 5 * PAGE, &changed);
        assert!(read(&volume, 5 * PAGE, PAGE as usize).await.unwrap() == changed);
    });
    machine.power_cut();
    assert!(machine.contents() == expected);
}

#[test]
fn a_page_whose_image_is_due_is_logged_whole_once_instead_of_its_change_and_the_image() {
    let mut plan = Plan::of_pages(40);
    plan.atomic_sectors = false;
    plan.create.log_bytes = 1 << 20;
    let (mut machine, _) = filled(plan, 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let logged = async |offset: u64, bytes: &[u8]| {
            let before = volume.counters();
            volume.write(offset, bytes, Durability::Durable).await.unwrap();
            volume.counters().delta_bytes - before.delta_bytes
        };
        let mut page = read(&volume, 5 * PAGE, PAGE as usize).await.unwrap();
        assert_eq!(logged(5 * PAGE, &page).await, 0, "nothing changes");
        page[100] = !page[100];
        assert_eq!(logged(5 * PAGE, &page).await, PAGE);
        page[200] = !page[200];
        assert_eq!(logged(5 * PAGE, &page).await, 1, "the log holds all of it");

        let mut part = read(&volume, 6 * PAGE, 1000).await.unwrap();
        part[100] = !part[100];
        assert_eq!(logged(6 * PAGE, &part).await, 1, "the rest would have to be read for it");
    });
}

#[test]
fn a_write_over_several_pages_is_one_range_in_the_buffer() {
    Machine::new(Plan::of_pages(40), 3).run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let mut used = vec![volume.occupancy().buffer_used_bytes];
        for (page, pages) in [(5, 1), (10, 4)] {
            volume.write(page * PAGE, &noise(1, pages * PAGE as usize), Durability::Buffered).await.unwrap();
            used.push(volume.occupancy().buffer_used_bytes);
        }
        let (of_one, of_four) = (used[1] - used[0], used[2] - used[1]);
        assert_eq!(of_four - of_one, 3 * PAGE, "{used:?}");
    });
}

#[test]
fn neighbouring_pages_are_discarded_as_one() {
    let mut plan = Plan::of_pages(200);
    plan.create.log_bytes = 4 << 20;
    plan.arena_bytes = 4 << 20;
    let (mut machine, _) = filled(plan, 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        volume.write_zeroes(Extent::new(10 * PAGE, 64 * PAGE), Durability::Durable).await.unwrap();
        assert_eq!(volume.counters().committed_units - before.committed_units, 1);
    });
}

#[test]
fn what_nobody_waits_for_leaves_the_buffer_once_half_of_it_is_used_until_three_eighths_are() {
    let mut plan = Plan::of_pages(400);
    plan.create.log_bytes = 4 << 20;
    plan.arena_bytes = 1 << 20;
    Machine::new(plan, 3).run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        let used = || volume.occupancy().buffer_used_bytes;
        let eighth = volume.occupancy().buffer_bytes / 8;
        let mut pages = 0..400;
        let mut write_until = async |used_bytes: u64| {
            while used() < used_bytes {
                let offset = pages.next().unwrap() * PAGE;
                volume.write(offset, &[7; PAGE as usize], Durability::Buffered).await.unwrap();
            }
            run.env.sleep(100_000_000).await;
        };
        write_until(4 * eighth - 2 * PAGE).await;
        assert_eq!(volume.counters().commits, before.commits);
        assert!(used() >= 4 * eighth - 2 * PAGE, "nothing has left");
        volume.flush(FlushScope::Ranges(&[Extent::new(0, PAGE)])).await.unwrap();
        assert_eq!(volume.counters().committed_units, before.committed_units + 1, "what was asked for");
        write_until(4 * eighth + eighth / 2).await;
        let left = 3 * eighth - 2 * PAGE..=3 * eighth;
        assert!(left.contains(&used()), "{} of {}", used(), 8 * eighth);
        assert_eq!(volume.counters().buffer_waits, before.buffer_waits);
    });
}
