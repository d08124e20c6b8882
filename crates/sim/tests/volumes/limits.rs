//! What is beyond a limit is refused, or stops what it must and nothing else.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use crate::machine::{Machine, PAGE, Plan, patch};
use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::options::{CreateOptions, Journaling, Tuning};
use evenkeel_engine::volume::{arena_bytes_min, check};
use evenkeel_sim::image::{Image, Payload, SharedImage};
use evenkeel_sim::random::Random;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

fn filled(plan: Plan, seed: u64) -> (Machine, Vec<u8>) {
    let mut machine = Machine::new(plan, seed);
    let bytes = noise(seed, plan.create.size_bytes as usize);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &bytes, Durability::Buffered).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    (machine, bytes)
}

#[test]
fn a_commit_touches_as_many_pages_as_it_may_and_no_more() {
    for (atomic_sectors, log_bytes) in [(false, 4 << 20), (true, 256 << 10)] {
        let mut plan = Plan::of_pages(1000);
        plan.atomic_sectors = atomic_sectors;
        plan.create.log_bytes = log_bytes;
        plan.arena_bytes = 8 << 20;
        Machine::new(plan, 1).run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let most = volume.commit_pages_max() as u64;
            let ranges = |count: u64| (0..count).map(|page| (page * PAGE, &b"x"[..])).collect::<Vec<_>>();
            assert!((most + 1) * 65 <= volume.commit_max_bytes(), "else this is about bytes");
            volume.commit(&ranges(most)).await.unwrap();
            let refused = volume.commit(&ranges(most + 1)).await;
            assert!(matches!(refused, Err(Error::TooLarge { .. })), "{refused:?}");
            volume.commit(&ranges(most)).await.unwrap();
        });
    }
}

#[test]
fn a_large_write_over_a_damaged_page_with_changes_makes_it_whole() {
    let mut plan = Plan::of_pages(40);
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    let (mut machine, mut expected) = filled(plan, 3);
    machine.home.borrow_mut().rot(plan.layout().page_offset(5) + 2000, 1, &mut Random::new(1));
    let large = noise(9, 10 * PAGE as usize);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(5 * PAGE, &[7; 100], Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        volume.write(0, &large, Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        assert_eq!(volume.occupancy().dirty_bytes, 0);
    });
    machine.power_cut();
    expected[..large.len()].copy_from_slice(&large);
    assert!(machine.contents() == expected);
}

#[test]
fn where_too_many_damaged_pages_have_changes_the_volume_is_read_only_and_the_rest_is_served() {
    for (atomic_sectors, log_bytes) in [(true, 256 << 10), (false, 1 << 20)] {
        let mut plan = Plan::of_pages(200);
        plan.atomic_sectors = atomic_sectors;
        plan.create.log_bytes = log_bytes;
        let (mut machine, expected) = filled(plan, 3);
        for page in 20..60 {
            machine.home.borrow_mut().rot(plan.layout().page_offset(page) + 4095, 1, &mut Random::new(1));
        }
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            for page in 20..60 {
                let _latched_at_last =
                    volume.write(page * PAGE, &noise(page, 3000), Durability::Durable).await;
            }
            assert!(volume.checkpoint().await.is_err());
        });
        machine.power_cut();
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            assert!(matches!(volume.write(0, &[1], Durability::Durable).await, Err(Error::Latched(_))));
            for page in (0..20).chain(60..200) {
                let mut found = vec![0; PAGE as usize];
                volume.read(page * PAGE, &mut found).await.unwrap();
                assert!(found == expected[(page * PAGE) as usize..][..PAGE as usize], "page {page}");
            }
        });
    }
}

#[test]
fn whole_pages_are_written_with_a_small_cache_too() {
    for journaling in [Journaling::WholePages, Journaling::Ordered] {
        let mut plan = Plan::of_pages(200);
        plan.open.journaling = journaling;
        plan.open.cached_pages_max = 16;
        plan.create =
            CreateOptions { size_bytes: 200 * PAGE, log_bytes: 4 << 20, atomic_max_bytes: 256 << 10 };
        plan.arena_bytes = 4 << 20;
        let (mut machine, mut expected) = filled(plan, 1);
        let bytes = noise(1, 256 << 10);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let before = volume.counters();
            volume.write(100, &bytes, Durability::Durable).await.unwrap();
            let commits = volume.counters().committed_units - before.committed_units;
            assert_eq!(commits, u64::from(journaling == Journaling::WholePages), "no larger than one commit");
        });
        machine.power_cut();
        expected[100..100 + bytes.len()].copy_from_slice(&bytes);
        assert!(machine.contents() == expected, "{journaling:?}");
    }
}

#[test]
fn memory_is_given_back_although_all_that_is_there_was_written_anew() {
    // More than are looked at in one choice of who goes.
    const PAGES: u64 = 6000;
    let mut plan = Plan::of_pages(PAGES);
    plan.open.cached_pages_max = PAGES as usize + 500;
    let mut machine = Machine::new(plan, 1);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for round in 0..2 {
            for page in 0..PAGES {
                volume
                    .write(page * PAGE, &noise(page ^ round << 32, 100), Durability::Buffered)
                    .await
                    .unwrap();
            }
            volume.checkpoint().await.unwrap();
        }
        let pages_there = || volume.occupancy().pages_bytes / PAGE;
        assert!(pages_there() >= PAGES, "{}", pages_there());
        volume.resize_cache(64).await;
        // Those of one load, and what a checkpoint has to have at once, stay.
        assert!(pages_there() < PAGES / 4, "{}", pages_there());
    });
}

#[test]
fn whoever_gives_up_waiting_for_a_checkpoint_takes_nothing() {
    let (machine, filled) = filled(Plan::of_pages(40), 5);
    for wait_ns in (0..100).map(|step| step * 8_000) {
        let mut machine = machine.fork(wait_ns);
        let mut expected = filled.clone();
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            for page in 0..10 {
                let at = (page * PAGE) as usize + 10;
                let bytes = noise(page, 3000);
                volume.write(at as u64, &bytes, Durability::Durable).await.unwrap();
                expected[at..at + 3000].copy_from_slice(&bytes);
            }
            let mut checkpoint = pin!(volume.checkpoint());
            let mut limit = pin!(run.env.sleep(wait_ns));
            poll_fn(|context| match checkpoint.as_mut().poll(context) {
                Poll::Ready(_) => Poll::Ready(()),
                Poll::Pending => limit.as_mut().poll(context),
            })
            .await;
            volume.clone().close().await.unwrap();
        });
        machine.power_cut();
        assert!(machine.contents() == expected, "given up after {wait_ns} ns");
    }
}

#[test]
fn a_flush_of_what_is_not_there_is_refused() {
    Machine::new(Plan::of_pages(40), 1).run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &[1; 10], Durability::Buffered).await.unwrap();
        let beyond = [Extent { offset: u64::MAX, len: 2 }];
        assert_eq!(volume.flush(FlushScope::Ranges(&beyond)).await, Err(Error::OutOfRange));
    });
}

#[test]
fn more_than_the_log_holds_is_flushed_in_portions() {
    let mut plan = Plan::of_pages(200);
    plan.arena_bytes = 4 << 20;
    let mut machine = Machine::new(plan, 1);
    let bytes = noise(1, 200 * PAGE as usize);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &bytes, Durability::Buffered).await.unwrap();
        volume.flush(FlushScope::Whole).await.unwrap();
    });
    machine.power_cut();
    assert!(machine.contents() == bytes);
}

#[test]
fn the_smallest_arena_is_enough_and_a_smaller_one_is_refused() {
    for journaling in [Journaling::Wasteless, Journaling::WholePages] {
        let mut plan = Plan::of_pages(40);
        plan.open.journaling = journaling;
        plan.arena_bytes = arena_bytes_min(plan.create.atomic_max_bytes) as usize;
        let (mut machine, mut expected) = filled(plan, 7);
        machine.kill();
        // Five whole pages.
        let bytes = noise(8, plan.create.atomic_max_bytes as usize);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(PAGE + 100, &bytes, Durability::Durable).await.unwrap();
        });
        machine.kill();
        expected[PAGE as usize + 100..][..bytes.len()].copy_from_slice(&bytes);
        assert!(machine.contents() == expected, "{journaling:?}");
        let mut machine = Machine::new(Plan { arena_bytes: plan.arena_bytes - 1, ..plan }, 7);
        let opened = machine.run_whole(async |run| run.open().await.map(drop));
        assert!(matches!(opened, Err(Error::Unsuited(_))), "{opened:?}");
    }
}

#[test]
fn no_more_commits_are_under_way_than_may_be() {
    let mut plan = Plan::of_pages(40);
    plan.open.commits_in_flight_max = 1;
    plan.create.log_bytes = 1 << 20; // no checkpoint writes to the log meanwhile
    Machine::new(plan, 1).run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        let left = Rc::new(Cell::new(20));
        for writer in 0..left.get() {
            let (volume, env, left) = (volume.clone(), run.env.clone(), Rc::clone(&left));
            run.env.spawn(async move {
                for round in 0..5 {
                    env.sleep(7_000 * (writer + round)).await;
                    volume.write(writer * PAGE + round * 600, &[1; 500], Durability::Durable).await.unwrap();
                }
                left.set(left.get() - 1);
            });
        }
        while left.get() > 0 {
            run.env.sleep(1000).await;
            assert!(run.log.image().in_flight() <= 1);
        }
        let after = volume.counters();
        assert_eq!(after.checkpoints, before.checkpoints);
        assert!(after.commits - before.commits < 100, "what came meanwhile went together");
    });
}

#[test]
fn portions_of_nothing_and_of_everything_are_taken_for_the_least_and_the_most() {
    for number in [0, usize::MAX] {
        let mut plan = Plan::of_pages(200);
        plan.create.log_bytes = 4 << 20;
        plan.open.batch_max_bytes = number;
        plan.open.tuning = Tuning {
            turn_pages_max: number,
            announced_max_bytes: number,
            home_write_pages_max: number,
            shared_bulk_max_bytes: number,
            ..Tuning::default()
        };
        let (mut machine, mut expected) = filled(plan, 7);
        let bulk = noise(1, 100 << 10);
        patch(&mut expected, 0, &[1; 10]);
        patch(&mut expected, PAGE, &bulk);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            volume.write(0, &[1; 10], Durability::Durable).await.unwrap();
            volume.write(PAGE, &bulk, Durability::Durable).await.unwrap();
        });
        assert!(machine.contents() == expected, "{number}");
    }
}

#[test]
fn the_smallest_arena_holds_the_largest_atomic_write_in_whole_pages_wherever_it_begins() {
    for atomic_max_bytes in [4096, 5000, 8192, 16_384] {
        let mut plan = Plan::of_pages(40);
        plan.create.atomic_max_bytes = atomic_max_bytes;
        plan.open.journaling = Journaling::WholePages;
        plan.arena_bytes = arena_bytes_min(atomic_max_bytes) as usize;
        let (mut machine, mut expected) = filled(plan, 7);
        let bytes = noise(1, atomic_max_bytes as usize);
        for offset in [100, 9 * PAGE - 1] {
            patch(&mut expected, offset, &bytes);
            machine.run_whole(async |run| {
                let volume = run.open().await.unwrap();
                volume.write(offset, &bytes, Durability::Durable).await.unwrap();
            });
        }
        assert!(machine.contents() == expected, "{atomic_max_bytes}");
    }
}

/// The volume of `machine`, copied byte for byte to drives with other sectors.
fn moved(machine: &mut Machine, sector_bytes: u32) -> Machine {
    let (home, log) = machine.run_whole(async |run| {
        let mut copies = [&run.home, &run.log].map(|drive| vec![0; drive.geometry().size_bytes as usize]);
        run.home.read(0, &mut copies[0]).await.unwrap();
        run.log.read(0, &mut copies[1]).await.unwrap();
        let [home, log] = copies;
        (home, log)
    });
    let mut to = Machine::new(Plan { sector_bytes, ..machine.plan }, 2);
    to.run_whole(async |run| {
        run.home.write(0, &home, Durability::Durable).await.unwrap();
        run.log.write(0, &log, Durability::Durable).await.unwrap();
    });
    to
}

#[test]
fn a_log_made_for_small_sectors_is_refused_on_a_drive_with_larger_ones_and_not_the_other_way_round() {
    let (mut small, _) = filled(Plan { sector_bytes: 512, ..Plan::of_pages(40) }, 5);
    let opened = moved(&mut small, 4096).run_whole(async |run| run.open().await.map(drop));
    let Err(Error::Unsuited(why)) = opened else { panic!("{opened:?}") };
    assert!(why.contains("512") && why.contains("4096") && !why.contains('\n'), "{why}");

    let (mut large, mut expected) = filled(Plan { sector_bytes: 4096, ..Plan::of_pages(40) }, 5);
    let mut moved = moved(&mut large, 512);
    assert!(moved.contents() == expected);
    moved.run_whole(async |run| {
        run.open().await.unwrap().write(10, &[7; 100], Durability::Durable).await.unwrap();
    });
    moved.power_cut();
    expected[10..110].fill(7);
    assert!(moved.contents() == expected);
}

/// A drive with the first half of what `machine` has on its own.
fn half(image: &SharedImage) -> SharedImage {
    let geometry = image.borrow().geometry();
    let half = Image::shared(Geometry { size_bytes: geometry.size_bytes / 2 / PAGE * PAGE, ..geometry });
    let mut bytes = vec![0; half.borrow().geometry().size_bytes as usize];
    image.borrow().read(0, &mut bytes);
    let extent = Extent::new(0, bytes.len() as u64);
    let write = half.borrow_mut().begin_write(extent, Payload::Bytes(Rc::from(bytes)), Durability::Durable);
    half.borrow_mut().complete_write(write);
    half
}

#[test]
fn a_volume_is_refused_on_devices_that_are_smaller_than_it() {
    let (mut small_home, _) = filled(Plan::of_pages(40), 5);
    let (mut small_log, _) = filled(Plan::of_pages(40), 5);
    small_home.home = half(&small_home.home);
    small_log.log = half(&small_log.log);
    for machine in [&mut small_home, &mut small_log] {
        let opened = machine.run_whole(async |run| run.open().await.map(drop));
        let Err(Error::Unusable(why)) = opened else { panic!("{opened:?}") };
        assert!(why.contains("smaller"), "{why}");
    }
}

#[test]
fn of_a_large_table_as_many_pages_stay_in_memory_as_are_kept_of_the_volume() {
    /// Pages of which one page of the table speaks.
    const STRIDE: u64 = 512;
    const STRIDES: u64 = 60;
    let mut plan = Plan::of_pages(STRIDE * STRIDES);
    plan.open.cached_pages_max = 16;
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    let mut machine = Machine::new(plan, 1);
    let (still, moving) =
        (|stride: u64| stride * STRIDE * PAGE, |stride: u64| (stride * STRIDE + 100) * PAGE);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for stride in 0..STRIDES {
            volume.write(still(stride), &noise(stride, 5000), Durability::Durable).await.unwrap();
        }
        volume.checkpoint().await.unwrap();
        let table_pages = || volume.occupancy().table_bytes / PAGE;
        assert!(table_pages() <= 16, "{}", table_pages());
        let reads_before = volume.counters().table_reads;

        // Readers walk over the table while pages beside theirs change, go home, and go there directly.
        let left = Rc::new(Cell::new(3));
        for reader in 0..left.get() {
            let (volume, left) = (volume.clone(), Rc::clone(&left));
            run.env.spawn(async move {
                let mut random = Random::new(reader);
                for _ in 0..300 {
                    let stride = random.below(STRIDES);
                    let mut found = vec![0; 5000];
                    volume.read(still(stride), &mut found).await.unwrap();
                    assert!(found == noise(stride, 5000), "stride {stride}");
                }
                left.set(left.get() - 1);
            });
        }
        let mut random = Random::new(9);
        let mut written = vec![0; STRIDES as usize];
        for number in 1..200 {
            let stride = random.below(STRIDES);
            written[stride as usize] = number;
            let len = if random.coin() { 20_000 } else { 3_000 };
            volume.write(moving(stride), &noise(number, 20_000)[..len], Durability::Durable).await.unwrap();
            let rest = &noise(number, 20_000)[len..];
            volume.write(moving(stride) + len as u64, rest, Durability::Durable).await.unwrap();
            if number % 20 == 0 {
                volume.checkpoint().await.unwrap();
            }
        }
        while left.get() > 0 {
            run.env.sleep(1_000_000).await;
        }
        volume.checkpoint().await.unwrap();
        assert!(table_pages() <= 16, "{}", table_pages());
        assert!(volume.counters().table_reads > reads_before + 100, "they came and went");
        for (stride, &number) in (0..).zip(&written).filter(|(_, number)| **number > 0) {
            let mut found = vec![0; 20_000];
            volume.read(moving(stride), &mut found).await.unwrap();
            assert!(found == noise(number, 20_000), "stride {stride}");
            assert!(table_pages() <= 16, "{}", table_pages());
        }
        assert!(check(&volume).await.unwrap().is_clean());
    });
}

/// A record that no reader takes for one must not be acknowledged: the largest commit is one that comes back.
#[test]
fn a_commit_as_large_as_may_be_survives_a_cut_however_large_the_log_is() {
    let mut plan = Plan::of_pages(20_000);
    plan.create.log_bytes = 320 << 20;
    plan.arena_bytes = 150 << 20;
    plan.open.dirty_pages_max = 40_000;
    plan.open.batch_max_bytes = 1 << 30;
    let mut machine = Machine::new(plan, 1);
    let bytes = machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let bytes = noise(2, volume.commit_max_bytes() as usize - 64);
        let too_many = vec![0; bytes.len() + 1];
        assert!(matches!(volume.commit(&[(0, &too_many)]).await, Err(Error::TooLarge { .. })));
        // Others are queued with it, as many as a record takes.
        for number in 0..1000 {
            let offset = (bytes.len() as u64).next_multiple_of(PAGE) + number * PAGE;
            volume.write(offset, &noise(number, PAGE as usize), Durability::Buffered).await.unwrap();
        }
        volume.commit(&[(0, &bytes)]).await.unwrap();
        bytes
    });
    machine.power_cut();
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let mut found = vec![0; bytes.len()];
        volume.read(0, &mut found).await.unwrap();
        assert!(found == bytes, "an acknowledged commit is gone");
    });
}

/// The next opening may have less memory than the one that was killed; what that one let in still finds its way.
#[test]
fn a_killed_volume_opens_with_less_memory() {
    let mut plan = Plan::of_pages(400);
    plan.create.log_bytes = 4 << 20;
    plan.arena_bytes = 4 << 20;
    let mut machine = Machine::new(plan, 1);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &noise(1, 100 * PAGE as usize), Durability::Durable).await.unwrap();
        volume.checkpoint().await.unwrap();
        volume.write_zeroes(Extent::new(0, 100 * PAGE), Durability::Buffered).await.unwrap();
        volume.write(200 * PAGE, b"acknowledged", Durability::Buffered).await.unwrap();
    });
    machine.kill();
    machine.plan.open = machine.plan.open.with_pages_max(128);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let mut found = [0; 12];
        volume.read(200 * PAGE, &mut found).await.unwrap();
        assert_eq!(&found, b"acknowledged");
        volume.flush(FlushScope::Whole).await.unwrap();
        let mut zeros = vec![1; 100 * PAGE as usize];
        volume.read(0, &mut zeros).await.unwrap();
        assert!(zeros.iter().all(|&byte| byte == 0));
    });
}
