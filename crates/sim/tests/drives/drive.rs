//! What a simulated drive keeps and what it loses.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::common::{
    ATOMIC, SECTOR, durable_marks, marked, run_drive, run_drive_traced, sectors, seeded, visible_marks, write,
};
use evenkeel_engine::device::{Device, Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Env;
use evenkeel_sim::executor::Halt;
use evenkeel_sim::image::{Image, Payload, SharedImage};
use evenkeel_sim::random::Random;

/// Copies `image` and cuts the power of the copy.
fn cut(image: &SharedImage, seed: u64) -> SharedImage {
    let copy = Rc::new(RefCell::new(image.borrow().clone()));
    copy.borrow_mut().power_cut(&mut Random::new(seed));
    copy
}

/// Every outcome of a power cut over 400 seeds, as the marks of the first `count` sectors.
fn outcomes(image: &SharedImage, count: u64) -> BTreeSet<Vec<u8>> {
    (0..400).map(|seed| durable_marks(&cut(image, seed), count)).collect()
}

/// Every outcome of a power cut, tried one by one.
fn all_outcomes(image: &SharedImage, count: u64) -> BTreeSet<Vec<u8>> {
    let masks = 0..1_u64 << image.borrow().pending_len();
    masks
        .map(|mask| {
            let copy = Rc::new(RefCell::new(image.borrow().clone()));
            copy.borrow_mut().power_cut_subset(mask);
            durable_marks(&copy, count)
        })
        .collect()
}

/// Starts `task` beside the caller; the flag tells when it has ended.
fn beside(env: &impl Env, task: impl Future<Output = ()> + 'static) -> Rc<Cell<bool>> {
    let ended = Rc::new(Cell::new(false));
    let flag = Rc::clone(&ended);
    env.spawn(async move {
        task.await;
        flag.set(true);
    });
    ended
}

#[test]
fn what_was_flushed_survives_every_cut() {
    let image = Image::shared(ATOMIC);
    let (result, events) = run_drive(&image, seeded(1), None, async |_, drive| {
        write(&drive, 0, 4, 7).await;
        drive.flush(FlushScope::Whole).await.unwrap();
    });
    result.unwrap();
    assert_eq!(events, 4);
    assert_eq!(image.borrow().pending_len(), 0);
    assert_eq!(outcomes(&image, 5), BTreeSet::from([vec![7, 7, 7, 7, 0]]));
}

#[test]
fn a_durable_write_survives_every_cut() {
    let image = Image::shared(ATOMIC);
    let (result, _) = run_drive(&image, seeded(1), None, async |_, drive| {
        write(&drive, 0, 3, 1).await;
        drive.write(SECTOR, &marked(2, 1), Durability::Durable).await.unwrap();
    });
    result.unwrap();
    let expected = BTreeSet::from([vec![0, 2, 0], vec![1, 2, 0], vec![0, 2, 1], vec![1, 2, 1]]);
    assert_eq!(outcomes(&image, 3), expected, "the older write must not come back above the durable one");
    assert_eq!(all_outcomes(&image, 3), expected);
    assert_eq!(visible_marks(&image, 3), [1, 2, 1]);
}

#[test]
fn what_was_not_flushed_lands_in_any_subset() {
    let image = Image::shared(ATOMIC);
    run_drive(&image, seeded(2), None, async |_, drive| write(&drive, 0, 4, 9).await).0.unwrap();
    assert_eq!(image.borrow().pending_len(), 4);
    let every: BTreeSet<Vec<u8>> =
        (0..16_u8).map(|mask| (0..4).map(|bit| (mask >> bit & 1) * 9).collect()).collect();
    assert_eq!(outcomes(&image, 4), every);
    assert_eq!(all_outcomes(&image, 4), every);
}

#[test]
fn a_write_in_flight_lands_in_any_subset_too() {
    let image = Image::shared(ATOMIC);
    // Event 0 is its begin, event 1 would be its completion.
    let (result, events) = run_drive(&image, seeded(3), Some(1), async |_, drive| {
        drive.write(0, &marked(9, 2), Durability::Durable).await.unwrap();
        unreachable!("it is never acknowledged");
    });
    let result: Result<(), Halt> = result;
    assert!(matches!(result, Err(Halt::Stopped { .. })));
    assert_eq!(events, 1);
    assert_eq!(visible_marks(&image, 2), [0, 0]);
    let every = BTreeSet::from([vec![0, 0], vec![0, 9], vec![9, 0], vec![9, 9]]);
    assert_eq!(outcomes(&image, 2), every);
}

#[test]
fn a_cut_before_the_begin_leaves_nothing_to_land() {
    let image = Image::shared(ATOMIC);
    let (result, _) = run_drive(&image, seeded(3), Some(0), async |_, drive| write(&drive, 0, 2, 9).await);
    assert!(result.is_err());
    assert_eq!(image.borrow().pending_len(), 0);
    assert_eq!(image.borrow().in_flight(), 0);
}

#[test]
fn an_older_pending_version_may_be_what_remains() {
    let image = Image::shared(ATOMIC);
    run_drive(&image, seeded(4), None, async |_, drive| {
        for mark in 1..=3 {
            write(&drive, 0, 1, mark).await;
        }
    })
    .0
    .unwrap();
    assert_eq!(visible_marks(&image, 1), [3]);
    let every = BTreeSet::from([vec![0], vec![1], vec![2], vec![3]]);
    assert_eq!(outcomes(&image, 1), every);
    assert_eq!(all_outcomes(&image, 1), every);
}

#[test]
fn a_flush_covers_only_what_was_complete_when_it_began() {
    let mut completed_during = 0;
    for seed in 0..100 {
        let image = Image::shared(ATOMIC);
        run_drive(&image, seeded(seed), None, async |env, drive| {
            write(&drive, 0, 1, 1).await;
            let during = drive.clone();
            let written = beside(&env, async move { write(&during, 0, 2, 2).await });
            drive.flush(FlushScope::Whole).await.unwrap();
            completed_during += u32::from(written.get());
            while !written.get() {
                env.sleep(1_000).await;
            }
        })
        .0
        .unwrap();
        let after = all_outcomes(&image, 2);
        // The write beside it either was complete before the flush began, or is still pending as a whole.
        assert_eq!(after, BTreeSet::from([vec![1, 0], vec![1, 2], vec![2, 0], vec![2, 2]]), "seed {seed}");
        assert_eq!(visible_marks(&image, 2), [2, 2]);
    }
    assert!(completed_during > 0, "the story is about writes that complete while the flush runs");
}

#[test]
fn a_range_flush_covers_only_the_writes_it_overlaps() {
    let image = Image::shared(ATOMIC);
    run_drive(&image, seeded(5), None, async |_, drive| {
        write(&drive, 0, 2, 1).await;
        write(&drive, 4, 1, 2).await;
        write(&drive, 6, 1, 3).await;
        let ranges = [sectors(1, 1), sectors(6, 2), Extent::new(4 * SECTOR + 8, 0)];
        drive.flush(FlushScope::Ranges(&ranges)).await.unwrap();
    })
    .0
    .unwrap();
    assert_eq!(
        all_outcomes(&image, 7),
        BTreeSet::from([vec![1, 1, 0, 0, 0, 0, 3], vec![1, 1, 0, 0, 2, 0, 3]])
    );
}

#[test]
fn a_range_flush_of_a_newer_write_buries_the_older_one_beneath_it_only() {
    let image = Image::shared(ATOMIC);
    run_drive(&image, seeded(6), None, async |_, drive| {
        write(&drive, 0, 4, 1).await;
        write(&drive, 2, 1, 2).await;
        write(&drive, 3, 1, 3).await;
        drive.flush(FlushScope::Ranges(&[sectors(2, 1)])).await.unwrap();
        // The range also overlaps the first write: both are durable, in their order; sector 3 is not newer.
    })
    .0
    .unwrap();
    assert_eq!(all_outcomes(&image, 4), BTreeSet::from([vec![1, 1, 2, 1], vec![1, 1, 2, 3]]));
    assert_eq!(visible_marks(&image, 4), [1, 1, 2, 3]);
}

#[test]
fn sectors_are_torn_only_where_they_are_not_atomic() {
    for (sector_bytes, unit_bytes) in [(512, 8), (4096, 512)] {
        for atomic_sectors in [false, true] {
            let geometry = Geometry { size_bytes: 64 << 10, sector_bytes, atomic_sectors };
            let image = Image::shared(geometry);
            let sector = vec![0xAA; sector_bytes as usize];
            run_drive(&image, seeded(7), None, async |_, drive| {
                drive.write(0, &sector, Durability::Buffered).await.unwrap();
            })
            .0
            .unwrap();
            let (mut mixed, mut garbage) = (0, 0);
            for seed in 0..500 {
                let copy = cut(&image, seed);
                let mut bytes = vec![0; sector_bytes as usize];
                copy.borrow().read_durable(0, &mut bytes);
                let units = bytes.chunks(unit_bytes);
                let is_whole = |unit: &[u8]| unit.iter().all(|&byte| byte == unit[0]);
                if units.clone().any(|unit| !is_whole(unit)) {
                    garbage += 1;
                } else if !is_whole(&bytes) {
                    mixed += 1;
                }
                let mut next = vec![0; sector_bytes as usize];
                copy.borrow().read_durable(u64::from(sector_bytes), &mut next);
                assert!(next.iter().all(|&byte| byte == 0), "a sector nobody wrote stays as it was");
            }
            assert_eq!(mixed > 0, !atomic_sectors, "{geometry:?}");
            assert_eq!(garbage > 0, !atomic_sectors, "{geometry:?}");
        }
    }
}

#[test]
fn a_kill_keeps_completed_writes_and_settles_those_in_flight() {
    let mut ends = BTreeSet::new();
    for seed in 0..200 {
        let image = Image::shared(ATOMIC);
        // Events: begin and completion of the first write, begin of the second.
        let (result, _) = run_drive(&image, seeded(seed), Some(3), async |_, drive| {
            write(&drive, 0, 1, 1).await;
            write(&drive, 0, 3, 2).await;
        });
        assert!(result.is_err());
        image.borrow_mut().kill(&mut Random::new(seed));
        assert_eq!(image.borrow().in_flight(), 0);
        ends.insert(visible_marks(&image, 3));
        // The cache outlives the process: a flush of the next run makes it durable.
        let seen = visible_marks(&image, 3);
        run_drive(&image, seeded(seed), None, async |_, drive| drive.flush(FlushScope::Whole).await.unwrap())
            .0
            .unwrap();
        assert_eq!(durable_marks(&image, 3), seen);
    }
    let every = BTreeSet::from([vec![1, 0, 0], vec![2, 0, 0], vec![2, 2, 0], vec![2, 2, 2]]);
    assert_eq!(ends, every);
}

#[test]
fn a_write_whose_future_is_dropped_may_still_land() {
    let image = Image::shared(ATOMIC);
    run_drive(&image, seeded(8), None, async |env, drive| {
        {
            let mut write = std::pin::pin!(drive.write(0, &[5; 512], Durability::Buffered));
            std::future::poll_fn(|context| {
                assert!(write.as_mut().poll(context).is_pending());
                std::task::Poll::Ready(())
            })
            .await;
        }
        env.sleep(1_000_000_000).await;
        drive.flush(FlushScope::Whole).await.unwrap();
    })
    .0
    .unwrap();
    assert_eq!(visible_marks(&image, 1), [0]);
    assert_eq!(outcomes(&image, 1), BTreeSet::from([vec![0], vec![5]]));
}

#[test]
fn writes_beside_each_other_complete_in_any_order_and_the_last_one_is_read() {
    let mut last = BTreeSet::new();
    for seed in 0..50 {
        let image = Image::shared(ATOMIC);
        let (result, _) = run_drive(&image, seeded(seed), None, async |env, drive| {
            let completed = Rc::new(RefCell::new(Vec::new()));
            for mark in 1..=3 {
                let (drive, completed) = (drive.clone(), Rc::clone(&completed));
                env.spawn(async move {
                    write(&drive, 0, 2, mark).await;
                    completed.borrow_mut().push(mark);
                });
            }
            while completed.borrow().len() < 3 {
                let mut bytes = marked(0, 2);
                drive.read(0, &mut bytes).await.unwrap();
                assert!(bytes.iter().all(|&byte| byte == bytes[0]), "a completed write is seen as a whole");
            }
            completed.take()
        });
        let completed = result.unwrap();
        assert_eq!(visible_marks(&image, 2), [completed[2]; 2]);
        run_drive(&image, seeded(seed), None, async |_, drive| drive.flush(FlushScope::Whole).await.unwrap())
            .0
            .unwrap();
        assert_eq!(durable_marks(&image, 2), [completed[2]; 2]);
        last.insert(completed);
    }
    assert_eq!(last.len(), 6, "{last:?}");
}

#[test]
fn a_kill_settles_writes_beside_each_other_in_any_order() {
    let mut ends = BTreeSet::new();
    for seed in 0..200 {
        let image = Image::shared(ATOMIC);
        for mark in [1, 2] {
            let payload = Payload::Bytes(marked(mark, 2).into());
            image.borrow_mut().begin_write(sectors(0, 2), payload, Durability::Durable);
        }
        image.borrow_mut().kill(&mut Random::new(seed));
        assert_eq!(durable_marks(&image, 2), [0, 0], "a killed durable write was never acknowledged");
        ends.insert(visible_marks(&image, 2));
    }
    let every = [[0, 0], [1, 0], [2, 0], [1, 1], [2, 2], [1, 2], [2, 1]];
    assert_eq!(ends, every.map(Vec::from).into());
}

/// A busy run: its trace hash, its number of events and what it left on the drive.
fn busy_run(seed: u64, at_event: Option<u64>) -> (u64, u64, Vec<u8>) {
    let image = Image::shared(ATOMIC);
    let (_, events, trace) = run_drive_traced(&image, seeded(seed), at_event, async |env, drive| {
        let writers: Vec<_> = (0..4)
            .map(|number| {
                let (drive, env) = (drive.clone(), env.clone());
                let task_env = env.clone();
                beside(&env, async move {
                    for step in 0..10 {
                        let place = task_env.random() % 60;
                        write(&drive, place, 1 + place % 4, number * 10 + step + 1).await;
                        if step % 3 == 0 {
                            drive
                                .flush(FlushScope::Ranges(&[sectors(place, 8.min(64 - place))]))
                                .await
                                .unwrap();
                        }
                    }
                })
            })
            .collect();
        while !writers.iter().all(|ended| ended.get()) {
            env.sleep(10_000).await;
        }
        drive.discard(sectors(0, 3)).await.unwrap();
    });
    image.borrow_mut().power_cut(&mut Random::new(seed));
    let mut bytes = vec![0; ATOMIC.size_bytes as usize];
    image.borrow().read(0, &mut bytes);
    (trace, events, bytes)
}

#[test]
fn one_seed_leaves_one_drive_and_another_seed_another() {
    let (_, events, _) = busy_run(1, None);
    assert_eq!(busy_run(1, None), busy_run(1, None));
    assert_ne!(busy_run(1, None).0, busy_run(2, None).0);
    for at_event in 0..events {
        let run = busy_run(1, Some(at_event));
        assert_eq!(run.1, at_event);
        assert_eq!(run, busy_run(1, Some(at_event)));
    }
}

#[test]
fn a_drive_shows_in_the_trace_of_its_run() {
    let trace_of = |mark: u8| {
        let image = Image::shared(ATOMIC);
        run_drive_traced(&image, seeded(1), None, async |_, drive| write(&drive, 0, 1, mark).await).2
    };
    assert_eq!(trace_of(1), trace_of(1));
    assert_ne!(trace_of(1), trace_of(2));
}

#[test]
fn a_discard_is_no_promise_and_loses_to_a_later_write() {
    let mut left = BTreeSet::new();
    for seed in 0..60 {
        let image = Image::shared(ATOMIC);
        run_drive(&image, seeded(seed), None, async |_, drive| {
            write(&drive, 0, 4, 1).await;
            drive.flush(FlushScope::Whole).await.unwrap();
            drive.discard(sectors(0, 2)).await.unwrap();
            drive.write(SECTOR, &marked(3, 1), Durability::Durable).await.unwrap();
        })
        .0
        .unwrap();
        image.borrow_mut().power_cut(&mut Random::new(seed));
        let mut bytes = marked(0, 4);
        image.borrow().read(0, &mut bytes);
        left.insert(bytes[0]);
        assert_eq!(bytes[512..1024], marked(3, 1));
        assert_eq!(bytes[1024..], marked(1, 2));
    }
    assert!(left.contains(&1) && left.contains(&0) && left.len() > 2, "kept, zero and noise: {left:?}");
}

#[test]
fn counters_tell_what_was_asked() {
    let image = Image::shared(ATOMIC);
    run_drive(&image, seeded(9), None, async |_, drive| {
        write(&drive, 0, 2, 1).await;
        drive.write(0, &marked(1, 1), Durability::Durable).await.unwrap();
        drive.read(0, &mut marked(0, 4)).await.unwrap();
        drive.flush(FlushScope::Whole).await.unwrap();
        drive.discard(sectors(1, 1)).await.unwrap();
        let counters = drive.counters();
        assert_eq!((counters.operations, counters.reads, counters.writes), (5, 1, 2));
        assert_eq!((counters.durable_writes, counters.flushes, counters.discards), (1, 1, 1));
        assert_eq!((counters.read_bytes, counters.written_bytes), (4 * SECTOR, 3 * SECTOR));
    })
    .0
    .unwrap();
}

#[test]
#[should_panic(expected = "not made of whole sectors")]
fn part_of_a_sector_is_a_mistake_of_the_caller() {
    let image = Image::shared(ATOMIC);
    let _ = run_drive(&image, seeded(1), None, async |_, drive| drive.read(0, &mut [0; 100]).await);
}

#[test]
#[should_panic(expected = "lies outside")]
fn a_range_outside_is_a_mistake_of_the_caller() {
    let image = Image::shared(ATOMIC);
    let _ = run_drive(&image, seeded(1), None, async |_, drive| {
        drive.write(63 * SECTOR, &marked(0, 2), Durability::Buffered).await
    });
}

#[test]
#[should_panic(expected = "still in flight")]
fn a_run_must_be_settled_before_the_next() {
    let image = Image::shared(ATOMIC);
    let extent = sectors(0, 1);
    image.borrow_mut().begin_write(extent, Payload::Zeros, Durability::Buffered);
    let _ = run_drive(&image, seeded(1), None, async |_, _| ());
}

#[test]
fn two_runs_over_a_large_image_are_cheap() {
    // Says nothing by itself; run with --release under a profiler, or in a loop.
    let geometry = Geometry { size_bytes: 2 << 20, sector_bytes: 4096, atomic_sectors: false };
    let image = Image::shared(geometry);
    for run in 0..3 {
        let _ = run_drive(&image, seeded(run), Some(700), async |env, drive| {
            let page = vec![run as u8; 16 << 10];
            for step in 0..400 {
                let offset = env.random() % 124 * 16384;
                let offset = offset.min(geometry.size_bytes - page.len() as u64);
                drive.write(offset, &page, Durability::Buffered).await.unwrap();
                if step % 50 == 0 {
                    drive.flush(FlushScope::Whole).await.unwrap();
                }
            }
        });
        image.borrow_mut().power_cut(&mut Random::new(run));
    }
}

#[test]
fn what_a_network_still_has_of_a_killed_process_lands_until_the_drive_is_opened_and_not_after_that() {
    let (mut landed_late, mut landed_before) = (0, 0);
    for seed in 0..200 {
        let image = Image::shared(ATOMIC);
        let mut random = Random::new(seed);
        run_drive(&image, seeded(seed), Some(1), |_, drive| async move { write(&drive, 0, 1, 1).await })
            .0
            .expect_err("it is killed");
        image.borrow_mut().kill_connected();
        assert_eq!(durable_marks(&image, 1), [0]);

        // Without an opening in between, it lands above what was written later.
        let mut unfenced = image.borrow().clone();
        let id =
            unfenced.begin_write(sectors(0, 1), Payload::Bytes(marked(2, 1).into()), Durability::Durable);
        unfenced.complete_write(id);
        assert!(unfenced.land_late(&mut random) && !unfenced.land_late(&mut random));
        let mut found = marked(0, 1);
        unfenced.read(0, &mut found);
        landed_late += u32::from(found == marked(1, 1));

        let opened = run_drive(&image, seeded(seed), None, |_, drive| async move {
            let mut found = marked(0, 1);
            drive.read(0, &mut found).await.expect("it reads");
            drive.write(0, &marked(2, 1), Durability::Durable).await.expect("it writes");
            drive.flush(FlushScope::Whole).await.expect("it flushes");
            found[0]
        });
        landed_before += u32::from(opened.0.expect("nothing strikes") == 1);
        assert!(!image.borrow_mut().land_late(&mut random), "the opening has settled it");
        assert_eq!(visible_marks(&image, 1), [2]);
    }
    assert!(landed_late > 50 && (50..150).contains(&landed_before), "{landed_late} and {landed_before}");
}
