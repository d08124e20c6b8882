//! What a volume promises, one story for each promise. What it promises of drives that fail is told by `failures.rs`.

use std::cell::Cell;

use crate::machine::{Machine, PAGE, Plan, Run, WHOLE_RUN, filled, noise, patch, read};
use evenkeel_engine::device::{Durability, Extent, FlushScope};
use evenkeel_engine::error::Error;
use evenkeel_engine::join::all;
use evenkeel_engine::options::{CreateOptions, Journaling};
use evenkeel_engine::volume::check;
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::image::{Fate, Image};

const PAGES: u64 = 40;

#[test]
fn a_durable_write_survives_a_power_cut() {
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (mut machine, mut expected) = filled(plan, seed);
        for round in 0..6 {
            let (offset, len) = (3000 * (round + 1) + seed * 100, [1, 700, 9000, 40_000][round as usize % 4]);
            let bytes = noise(round, len);
            patch(&mut expected, offset, &bytes);
            machine.run_whole(async |run| {
                let volume = run.open().await.unwrap();
                volume.write(offset, &bytes, Durability::Durable).await.unwrap();
            });
            machine.power_cut();
            assert!(machine.contents() == expected, "round {round} of {plan:?}");
            machine.power_cut();
        }
    }
}

#[test]
fn a_flushed_range_survives_a_power_cut() {
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (mut machine, old) = filled(plan, seed);
        let bytes = noise(seed, 30_000);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(5000, &bytes, Durability::Buffered).await.unwrap();
            volume.write(100_000, &bytes[..500], Durability::Buffered).await.unwrap();
            volume.write(120_000, &bytes[..500], Durability::Buffered).await.unwrap();
            let ranges = [Extent::new(8000, 1), Extent::new(5000, 20_000), Extent::new(100_100, 10)];
            volume.flush(FlushScope::Ranges(&ranges)).await.unwrap();
        });
        machine.power_cut();
        let found = machine.contents();
        assert!(found[5000..25_000] == bytes[..20_000], "{plan:?}");
        // A write is flushed whole: it was one commit.
        assert!(found[100_000..100_500] == bytes[..500], "{plan:?}");
        let lost_or_kept = &found[120_000..120_500];
        assert!(lost_or_kept == &bytes[..500] || lost_or_kept == &old[120_000..120_500], "{plan:?}");
    }
}

#[test]
fn a_flush_of_a_range_leaves_other_dirty_data_where_it_is() {
    let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for page in 0..PAGES {
            volume.write(page * PAGE + 100, &[7; 300], Durability::Buffered).await.unwrap();
        }
        let before = volume.counters();
        volume.flush(FlushScope::Ranges(&[Extent::new(3 * PAGE, PAGE)])).await.unwrap();
        let after = volume.counters();
        assert_eq!(after.committed_units - before.committed_units, 1);
        assert_eq!(after.delta_bytes - before.delta_bytes, 300);
        assert_eq!(after.commits - before.commits, 1);

        volume.flush(FlushScope::Ranges(&[Extent::new(3 * PAGE, PAGE)])).await.unwrap();
        assert_eq!(volume.counters().commits, after.commits, "it was clean");
        volume.flush(FlushScope::Whole).await.unwrap();
        assert_eq!(volume.counters().committed_units - before.committed_units, PAGES);
    });
}

#[test]
fn a_flush_of_everything_lasts_until_what_another_wanted_sooner_is_durable_too() {
    const WRITES: u64 = 5;
    let mut plan = Plan::of_pages(PAGES);
    // One write in each commit, and four count as little where five are much.
    plan.open.batch_max_bytes = 512;
    plan.open.tuning.small_max_bytes = 4 * 1000;
    let (machine, _) = filled(plan, 1);
    let bytes = noise(7, 1000);
    let story = async |run: Run, done: &[Cell<bool>; 2]| {
        let volume = run.open().await.unwrap();
        for page in 0..WRITES {
            volume.write(page * PAGE, &bytes, Durability::Buffered).await.unwrap();
        }
        let last_four = [Extent::new(PAGE, (WRITES - 1) * PAGE)];
        let flush = async |(scope, done): (FlushScope<'_>, &Cell<bool>)| {
            volume.flush(scope).await.unwrap();
            done.set(!run.env.is_stopped());
        };
        all([FlushScope::Whole, FlushScope::Ranges(&last_four)].into_iter().zip(done).map(flush)).await;
    };
    let done = <[Cell<bool>; 2]>::default();
    let (_, events) = machine.fork(1).run(WHOLE_RUN, |run| story(run, &done));
    let mut part_there = 0;
    for at in 0..=events {
        let (mut machine, done) = (machine.fork(1), <[Cell<bool>; 2]>::default());
        let cut = CutPlan { at_event: Some(at), kind: CutKind::PowerCut };
        let _halted = machine.run(cut, |run| story(run, &done)).0;
        machine.power_cut();
        let found = machine.contents();
        let is_there = |page: u64| found[(page * PAGE) as usize..].starts_with(&bytes);
        let [all_done, last_done] = done.map(Cell::into_inner);
        assert!(!all_done || (0..WRITES).all(is_there), "cut at event {at} of {events}");
        assert!(!last_done || (1..WRITES).all(is_there), "cut at event {at} of {events}");
        part_there += u64::from((0..WRITES).any(is_there) && !(0..WRITES).all(is_there));
    }
    assert!(part_there > 0, "no cut came between two of the commits");
}

#[test]
fn a_kill_takes_no_acknowledged_write() {
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (machine, old) = filled(plan, seed);
        let writes: Vec<(u64, Vec<u8>)> =
            (0..12).map(|number| (number * 9100 + seed, noise(number, 1 + number as usize * 800))).collect();
        let story = async |run: Run, acknowledged: &Cell<usize>| {
            let volume = run.open().await.unwrap();
            for (number, (offset, bytes)) in writes.iter().enumerate() {
                let durability = if number % 5 == 4 { Durability::Durable } else { Durability::Buffered };
                volume.write(*offset, bytes, durability).await.unwrap();
                if !run.env.is_stopped() {
                    acknowledged.set(number + 1);
                }
            }
        };
        let acknowledged = Cell::new(0);
        let (_, events) = machine.fork(seed).run(WHOLE_RUN, |run| story(run, &acknowledged));
        assert_eq!(acknowledged.get(), writes.len());
        for at in 0..=events {
            let mut machine = machine.fork(seed);
            acknowledged.set(0);
            let cut = CutPlan { at_event: Some(at), kind: CutKind::Kill };
            let _halted = machine.run(cut, |run| story(run, &acknowledged)).0;
            machine.kill();
            let found = machine.contents();
            let mut expected = old.clone();
            for (offset, bytes) in &writes[..acknowledged.get()] {
                patch(&mut expected, *offset, bytes);
            }
            // The write under way may be there, not be there, or be torn where it is larger than one commit.
            let under_way = writes.get(acknowledged.get()).map_or(0..0, |(offset, bytes)| {
                // The baselines write the rest of the pages anew, with the same bytes.
                *offset as usize..*offset as usize + bytes.len()
            });
            let differs = (0..found.len()).find(|&at| found[at] != expected[at] && !under_way.contains(&at));
            assert_eq!(differs, None, "kill at event {at} of {events}, {plan:?}");
        }
    }
}

#[test]
fn what_is_served_after_a_kill_stays_though_nobody_was_told_of_it() {
    let mut untold = 0;
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (machine, old) = filled(plan, seed);
        let story = async |run: Run, acknowledged: &Cell<bool>| {
            let volume = run.open().await.unwrap();
            volume.write(500, &noise(1, 3000), Durability::Buffered).await.unwrap();
            volume.write(9 * PAGE, &noise(2, 30_000), Durability::Durable).await.unwrap();
            volume.commit(&[(600, &noise(3, 100)), (20 * PAGE, &noise(4, 5000))]).await.unwrap();
            acknowledged.set(!run.env.is_stopped());
        };
        let acknowledged = Cell::new(false);
        let (_, events) = machine.fork(seed).run(WHOLE_RUN, |run| story(run, &acknowledged));
        for at in 0..events {
            let mut machine = machine.fork(seed);
            acknowledged.set(false);
            let cut = CutPlan { at_event: Some(at), kind: CutKind::Kill };
            assert!(machine.run(cut, |run| story(run, &acknowledged)).0.is_err());
            machine.kill();
            let served = machine.contents();
            untold += u64::from(served != old && !acknowledged.get());
            machine.kill();
            assert!(machine.contents() == served, "killed twice, at event {at} of {events}, {plan:?}");
            machine.run_whole(async |run| {
                run.open().await.unwrap().flush(FlushScope::Whole).await.unwrap();
            });
            machine.power_cut();
            assert!(machine.contents() == served, "killed at event {at} of {events}, flushed, {plan:?}");
        }
    }
    assert!(untold > 100, "{untold}");
}

#[test]
fn a_commit_of_several_ranges_is_all_or_nothing() {
    let parts = [(100, 700), (3 * PAGE + 4000, 5000), (20 * PAGE, 4096), (30 * PAGE + 1, 1)];
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (machine, old) = filled(plan, seed);
        let mut new = old.clone();
        let bytes: Vec<Vec<u8>> = parts.iter().map(|&(offset, len)| noise(offset, len)).collect();
        let ranges: Vec<(u64, &[u8])> =
            parts.iter().zip(&bytes).map(|(&(offset, _), bytes)| (offset, &bytes[..])).collect();
        for &(offset, part) in &ranges {
            patch(&mut new, offset, part);
        }
        let story = async |run: Run, acknowledged: &Cell<bool>| {
            let volume = run.open().await.unwrap();
            volume.commit(&ranges).await.unwrap();
            acknowledged.set(!run.env.is_stopped());
            volume.checkpoint().await.unwrap();
        };
        let acknowledged = Cell::new(false);
        let (_, events) = machine.fork(1).run(WHOLE_RUN, |run| story(run, &acknowledged));
        let (mut all, mut nothing) = (0, 0);
        for at in 0..events {
            for kind in [CutKind::PowerCut, CutKind::Kill] {
                // The same run each time; only what the cut leaves differs.
                let mut ended = machine.fork(1);
                acknowledged.set(false);
                let cut = CutPlan { at_event: Some(at), kind };
                assert!(ended.run(cut, |run| story(run, &acknowledged)).0.is_err());
                for chance in 0..3 {
                    let mut machine = ended.fork(chance);
                    machine.strike(kind);
                    let found = machine.contents();
                    let is_all = found == new;
                    let what = format!("{kind:?} at event {at} of {events}, {plan:?}");
                    assert!(is_all || found == old, "torn: {what}");
                    assert!(is_all || !acknowledged.get(), "taken back: {what}");
                    if is_all { all += 1 } else { nothing += 1 }
                }
            }
        }
        assert!(all > 0 && nothing > 0, "{all} and {nothing}: {plan:?}");
    }
}

#[test]
fn a_large_write_that_a_cut_meets_leaves_every_sector_as_it_was_or_as_it_should_be() {
    const SECTOR: usize = 512;
    for journaling in [Journaling::Selective { threshold_bytes: 16384 }, Journaling::Ordered] {
        let mut plan = Plan::of_pages(PAGES);
        plan.open.journaling = journaling;
        let (machine, old) = filled(plan, 3);
        let bytes = noise(4, 6 * PAGE as usize);
        let mut new = old.clone();
        patch(&mut new, 4 * PAGE, &bytes);
        let story = async |run: Run| {
            let volume = run.open().await.unwrap();
            volume.write(4 * PAGE, &bytes, Durability::Durable).await.unwrap();
        };
        let (ended, events) = machine.fork(1).run(WHOLE_RUN, story);
        ended.unwrap();
        let (mut kept, mut written) = (0, 0);
        for at in 0..events {
            let mut ended = machine.fork(1);
            assert!(ended.run(CutPlan { at_event: Some(at), kind: CutKind::PowerCut }, story).0.is_err());
            for chance in 0..4 {
                let mut machine = ended.fork(chance);
                machine.power_cut();
                let found = machine.contents();
                let sectors = |bytes| <[u8]>::chunks(bytes, SECTOR);
                for ((found, old), new) in sectors(&found).zip(sectors(&old)).zip(sectors(&new)) {
                    assert!(
                        found == old || found == new,
                        "event {at} of {events}, chance {chance}, {plan:?}"
                    );
                }
                if found == old { kept += 1 } else { written += 1 }
            }
        }
        assert!(kept > 0 && written > 0, "{kept} and {written}: {plan:?}");
    }
}

#[test]
fn of_ranges_of_a_commit_that_overlap_the_later_one_holds() {
    let parts = [(100, 9000), (2000, 300), (5 * PAGE, 5000), (5 * PAGE - 200, 700), (1900, 200), (100, 1)];
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        for kind in [CutKind::PowerCut, CutKind::Kill] {
            let (mut machine, mut expected) = filled(plan, seed);
            let bytes: Vec<Vec<u8>> = parts.iter().map(|&(offset, len)| noise(offset, len)).collect();
            let ranges: Vec<(u64, &[u8])> =
                parts.iter().zip(&bytes).map(|(&(offset, _), bytes)| (offset, &bytes[..])).collect();
            for &(offset, part) in &ranges {
                patch(&mut expected, offset, part);
            }
            let found = machine.run_whole(async |run| {
                let volume = run.open().await.unwrap();
                volume.commit(&ranges).await.unwrap();
                read(&volume, 0, expected.len()).await.unwrap()
            });
            assert!(found == expected, "{plan:?}");
            machine.strike(kind);
            assert!(machine.contents() == expected, "after a {kind:?}: {plan:?}");
        }
    }
}

#[test]
fn a_recovery_that_is_cut_and_done_again_gives_the_same_bytes() {
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (mut machine, mut expected) = filled(plan, seed);
        let parts: Vec<(u64, Vec<u8>)> = (0..10)
            .map(|number| (number * 15_000 + 50, noise(number, 100 + 700 * number as usize)))
            .collect();
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            for (offset, bytes) in &parts {
                volume.write(*offset, bytes, Durability::Durable).await.unwrap();
            }
            volume.write_zeroes(Extent::new(30 * PAGE, 2 * PAGE), Durability::Durable).await.unwrap();
        });
        for (offset, bytes) in &parts {
            patch(&mut expected, *offset, bytes);
        }
        patch(&mut expected, 30 * PAGE, &vec![0; 2 * PAGE as usize]);
        machine.power_cut();
        let (opened, events) = machine.fork(7).run(WHOLE_RUN, async |run| run.open().await.map(drop));
        opened.unwrap().unwrap();
        for at in 0..events {
            for kind in [CutKind::PowerCut, CutKind::Kill] {
                let mut machine = machine.fork(7);
                let cut = CutPlan { at_event: Some(at), kind };
                assert!(machine.run(cut, async |run| run.open().await.map(drop)).0.is_err());
                machine.strike(kind);
                assert!(machine.contents() == expected, "{kind:?} at event {at} of {events}, {plan:?}");
            }
        }
    }
}

/// The power fails while `at_event` of an opening is about to happen: every sector that was on its way home lands,
/// every one on its way to the log is torn.
fn opening_torn_at_the_log(machine: &mut Machine, at_event: u64, way: u64) {
    let cut = CutPlan { at_event: Some(at_event), kind: CutKind::PowerCut };
    let _halted = machine.run(cut, async |run| run.open().await.map(drop)).0;
    let all = |image: &Image, fate: Fate| vec![fate; image.pending_len()];
    let landed = all(&machine.home.borrow(), Fate::Landed);
    machine.home.borrow_mut().power_cut_fates(&landed);
    let torn = all(&machine.log.borrow(), Fate::Torn(way));
    machine.log.borrow_mut().power_cut_fates(&torn);
    machine.power_cut();
}

#[test]
fn two_cuts_that_tear_superblocks_of_the_log_device_leave_it_a_whole_one() {
    let torn = Plan { atomic_sectors: false, ..Plan::of_pages(8) };
    let plan = Plan { create: CreateOptions { log_bytes: 1 << 20, ..torn.create }, ..torn };
    let (machine, expected) = filled(plan, 5);
    let events = machine.fork(1).run(WHOLE_RUN, async |run| run.open().await.map(drop)).1;
    for (first, second) in (0..events).flat_map(|first| (0..events).map(move |second| (first, second))) {
        let mut machine = machine.fork(1);
        opening_torn_at_the_log(&mut machine, first, 1);
        opening_torn_at_the_log(&mut machine, second, 2);
        assert!(machine.contents() == expected, "openings cut at events {first} and {second} of {events}");
    }
}

#[test]
fn a_full_page_write_over_a_cached_page_journals_only_the_bytes_that_differ() {
    let (mut machine, expected) = filled(Plan::of_pages(PAGES), 1);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let mut page = read(&volume, 9 * PAGE, PAGE as usize).await.unwrap();
        assert!(page == expected[9 * PAGE as usize..10 * PAGE as usize]);
        let before = volume.counters();
        for at in (100..110).chain(3000..3004) {
            page[at] ^= 0xFF;
        }
        volume.write(9 * PAGE, &page, Durability::Durable).await.unwrap();
        let after = volume.counters();
        assert_eq!(after.delta_bytes - before.delta_bytes, 14);
        assert_eq!(after.equal_bytes - before.equal_bytes, PAGE - 14);
        assert!(read(&volume, 9 * PAGE, PAGE as usize).await.unwrap() == page);

        volume.write(9 * PAGE, &page, Durability::Durable).await.unwrap();
        assert_eq!(volume.counters().commits, after.commits, "the same bytes again are no commit");
    });
}

#[test]
fn discarded_pages_take_no_log_payload_and_read_as_zeros() {
    for (seed, plan) in (1..).zip(Plan::every_kind(PAGES)) {
        let (mut machine, mut expected) = filled(plan, seed);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let before = volume.counters();
            volume.write_zeroes(Extent::new(8 * PAGE, 16 * PAGE), Durability::Durable).await.unwrap();
            let after = volume.counters();
            assert_eq!(after.delta_bytes, before.delta_bytes);
            assert!(read(&volume, 8 * PAGE, 16 * PAGE as usize).await.unwrap().iter().all(|&byte| byte == 0));
            for page in 0..PAGES {
                assert_eq!(
                    volume.allocation(page, 1).await.unwrap().0,
                    !(8..24).contains(&page),
                    "page {page}"
                );
            }
            volume.checkpoint().await.unwrap();
            let done = volume.counters();
            let (taken, sector) = (done.log_bytes - before.log_bytes, u64::from(plan.sector_bytes));
            let table_image = if plan.atomic_sectors { 0 } else { PAGE + sector };
            let most = (done.commits - before.commits) * sector
                + (done.checkpoints - before.checkpoints) * (table_image + sector);
            assert!(taken <= most, "{taken} of the log for tags, sums and a page of the table: {plan:?}");
            assert_eq!(volume.counters().home_bytes, before.home_bytes, "and none is written home");
            assert_eq!(check(&volume).await.unwrap().pages_empty, 16);
        });
        machine.power_cut();
        patch(&mut expected, 8 * PAGE, &vec![0; 16 * PAGE as usize]);
        assert!(machine.contents() == expected, "{plan:?}");
    }
}

#[test]
fn a_commit_as_large_as_it_may_be_is_taken_and_a_larger_one_is_refused() {
    for plan in Plan::every_kind(PAGES) {
        let mut machine = Machine::new(plan, 1);
        let (bytes, offsets) = machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            assert_eq!(volume.size_bytes(), plan.create.size_bytes);
            let max_bytes = volume.commit_max_bytes();
            assert!(max_bytes >= plan.create.atomic_max_bytes, "{plan:?}");
            // Three ranges, each of them with 64 bytes beside its own.
            let parts = 3;
            let len = ((max_bytes - parts * 64) / parts).min(plan.create.size_bytes / parts) as usize;
            let bytes = noise(1, len);
            let offsets = [0, 1, 2].map(|number| number * len as u64);
            let ranges = offsets.map(|offset| (offset, &bytes[..]));
            volume.commit(&ranges).await.unwrap();
            let too_large = vec![0; (max_bytes - 63) as usize];
            let refused = volume.commit(&[(0, &too_large[..])]).await;
            let fits = too_large.len() as u64 <= plan.create.size_bytes;
            let expected = if fits { Error::TooLarge { max_bytes } } else { Error::OutOfRange };
            assert_eq!(refused, Err(expected), "{plan:?}");
            (bytes, offsets)
        });
        machine.power_cut();
        let found = machine.contents();
        assert!(offsets.iter().all(|&offset| found[offset as usize..][..bytes.len()] == bytes), "{plan:?}");
    }
}

#[test]
fn a_checkpoint_beside_a_commit_under_way_loses_nothing_at_any_cut() {
    use evenkeel_engine::env::Env;
    for separate_log in [true, false] {
        let plan = Plan::of_pages(PAGES).with_separate_log(separate_log);
        let (machine, mut expected) = filled(plan, 5);
        // Whole pages but for their ends: sectors of the old and of the new page make neither.
        let durable: Vec<Vec<u8>> = (0..6).map(|page| noise(page, 4000)).collect();
        for (page, bytes) in (0..).zip(&durable) {
            patch(&mut expected, page * PAGE + 50, bytes);
        }
        let large = noise(99, 16_000);
        let acknowledged = Cell::new(false);
        let story = async |run: Run| {
            let volume = run.open().await.unwrap();
            // In memory, so that the checkpoint reads nothing first.
            read(&volume, 0, 6 * PAGE as usize).await.unwrap();
            for (page, bytes) in (0..).zip(&durable) {
                volume.write(page * PAGE + 50, bytes, Durability::Durable).await.unwrap();
            }
            acknowledged.set(!run.env.is_stopped());
            let before = volume.counters().log_bytes;
            let (writer, bytes) = (volume.clone(), large.clone());
            run.env.spawn(async move {
                writer.write(20 * PAGE, &bytes, Durability::Durable).await.unwrap();
            });
            // The record of the checkpoint may become durable before the one in front of it.
            while volume.counters().log_bytes == before {
                run.env.sleep(1000).await;
            }
            volume.checkpoint().await.unwrap();
        };
        for seed in 0..6 {
            let (ended, events) = machine.fork(seed).run(WHOLE_RUN, story);
            ended.unwrap();
            for at in 0..events {
                let mut ended = machine.fork(seed);
                acknowledged.set(false);
                let cut = CutPlan { at_event: Some(at), kind: CutKind::PowerCut };
                assert!(ended.run(cut, story).0.is_err());
                if !acknowledged.get() {
                    continue;
                }
                for chance in 0..3 {
                    let mut machine = ended.fork(chance);
                    machine.power_cut();
                    let found = machine.contents();
                    let kept = 20 * PAGE as usize;
                    assert!(found[..kept] == expected[..kept], "event {at} of {events}, seed {seed}");
                }
            }
        }
    }
}
