//! A volume that grows, as a story: what it holds stays, what is new reads as zeros, and a cut leaves the old size or
//! the new one.

use std::cell::Cell;
use std::pin::Pin;
use std::rc::Rc;

use crate::machine::{self, Machine, PAGE, Plan, Run, SimVolume, filled, noise, patch};
use evenkeel_engine::device::{Device, Durability, Extent, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{GROWTHS_MAX, HOME_COPIES, home_copy_offset};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::join;
use evenkeel_engine::options::Journaling;
use evenkeel_engine::volume::{check, identify};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::image::SharedImage;
use evenkeel_sim::random::Random;

const PAGES: u64 = 40;

/// Makes the room, which is full of what was there before, and grows.
async fn grow(volume: &SimVolume, home: &SharedImage, size_bytes: u64) -> Result<(), Error> {
    make_room(volume, home, size_bytes)?;
    volume.grow(size_bytes).await
}

fn make_room(volume: &SimVolume, home: &SharedImage, size_bytes: u64) -> Result<(), Error> {
    let needed = volume.plan_growth(size_bytes)?.home_bytes;
    if home.borrow().geometry().size_bytes < needed {
        home.borrow_mut().enlarge(needed, Some(&mut Random::new(size_bytes)));
    }
    Ok(())
}

async fn read_all(volume: &SimVolume) -> Vec<u8> {
    machine::read(volume, 0, volume.size_bytes() as usize).await.unwrap()
}

async fn expect_whole(run: &Run, volume: &SimVolume) {
    let report = check(volume).await.unwrap();
    assert!(report.is_clean(), "{report:?} of {:?}", run.home.geometry());
}

fn longer(bytes: &[u8], size_bytes: u64) -> Vec<u8> {
    let mut longer = bytes.to_vec();
    longer.resize(size_bytes as usize, 0);
    longer
}

#[test]
fn what_it_holds_stays_and_what_is_new_reads_as_zeros_until_it_is_written() {
    for plan in Plan::every_kind(PAGES) {
        let (mut machine, mut bytes) = filled(plan, 1);
        let home = Rc::clone(&machine.home);
        // Within the page of the table; across its end; and across several of them.
        for (round, pages) in [(1, PAGES + 3), (2, 600), (3, 2000)] {
            let size_bytes = pages * PAGE;
            let before_bytes = bytes.len() as u64;
            bytes = longer(&bytes, size_bytes);
            let mut expected = bytes.clone();
            let part = noise(round, 9 * PAGE as usize);
            // The last pages that were there and the first new ones, together.
            let at = before_bytes - 4 * PAGE - 100;
            let end = (at + part.len() as u64).min(size_bytes);
            let part = &part[..(end - at) as usize];
            let found = machine.run_whole(async |run| {
                let volume = run.open().await.unwrap();
                grow(&volume, &home, size_bytes).await.unwrap();
                assert_eq!(volume.size_bytes(), size_bytes);
                assert_eq!(read_all(&volume).await, expected, "{plan:?}");
                volume.write(at, part, Durability::Durable).await.unwrap();
                patch(&mut expected, at, part);
                assert_eq!(read_all(&volume).await, expected, "{plan:?}");
                volume.checkpoint().await.unwrap();
                expect_whole(&run, &volume).await;
                read_all(&volume).await
            });
            patch(&mut bytes, at, part);
            assert!(found == bytes, "{plan:?}");
            machine.power_cut();
            machine.run_whole(async |run| {
                let volume = run.open().await.unwrap();
                assert!(read_all(&volume).await == bytes, "{plan:?} after {round}");
                expect_whole(&run, &volume).await;
                volume.close().await.unwrap();
            });
            machine.power_cut();
        }
    }
}

#[test]
fn a_root_that_outgrows_its_zone_is_laid_anew_and_the_volume_opens() {
    // A page of the root is the sums of a gibibyte.
    let mut plan = Plan::of_pages(PAGES);
    plan.open.cached_pages_max = 64;
    let (mut machine, bytes) = filled(plan, 2);
    let home = Rc::clone(&machine.home);
    for gibibytes in [1, 3, 4] {
        let size_bytes = (gibibytes << 30) + 5 * PAGE;
        let last = size_bytes - 3 * PAGE;
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            grow(&volume, &home, size_bytes).await.unwrap();
            assert_eq!(machine::read(&volume, last, 12_288).await.unwrap(), [0; 12_288]);
            volume.write(last, &[gibibytes as u8; 5000], Durability::Durable).await.unwrap();
            assert_eq!(run.home.geometry().size_bytes, volume.home_bytes());
            volume.checkpoint().await.unwrap();
        });
        machine.power_cut();
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            assert_eq!(machine::read(&volume, 0, bytes.len()).await.unwrap(), bytes);
            for earlier in 1..=gibibytes {
                let at = (earlier << 30) + 2 * PAGE;
                let expected = if earlier == 2 { 0 } else { earlier as u8 };
                assert_eq!(machine::read(&volume, at, 5000).await.unwrap(), [expected; 5000]);
            }
            volume.close().await.unwrap();
        });
    }
    let superblock = newest(&home, home.borrow().geometry().size_bytes).unwrap();
    assert_eq!(superblock.sizes_before.as_slice().len(), 3);
    let layout = superblock.layout().unwrap();
    assert!(layout.roots[0].offset > layout.segments[1].data.offset, "it is behind what came before");
}

#[test]
fn a_cut_at_any_moment_leaves_the_old_size_or_the_new_one_and_the_same_again_finishes_it() {
    for plan in Plan::every_kind(PAGES) {
        let is_usual = plan.open.journaling == Journaling::Wasteless;
        for kind in [CutKind::PowerCut, CutKind::Kill] {
            let size_bytes = 700 * PAGE;
            let (filled, bytes) = filled(plan, 3);
            let mut seen = [0, 0];
            // Every event of the usual kinds, some of the others.
            let step = if is_usual { 1 } else { 7 };
            for at_event in (0..).step_by(step) {
                let mut machine = filled.fork(at_event);
                let home = Rc::clone(&machine.home);
                let is_written = Cell::new(false);
                let mut kept = bytes.clone();
                patch(&mut kept, 5 * PAGE, &[9; 6000]);
                let (ended, _) = machine.run(CutPlan { at_event: Some(at_event), kind }, async |run| {
                    let volume = run.open().await.unwrap();
                    volume.write(5 * PAGE, &[9; 6000], Durability::Durable).await.unwrap();
                    is_written.set(true);
                    grow(&volume, &home, size_bytes).await.unwrap();
                    volume.write(650 * PAGE, &[8; 100], Durability::Durable).await.unwrap();
                });
                machine.strike(kind);
                let is_over = ended.is_ok();
                let size = machine.run_whole(async |run| {
                    let volume = run.open().await.unwrap();
                    let size = volume.size_bytes();
                    let found = read_all(&volume).await;
                    let is_new = size == size_bytes;
                    assert!(is_new || (size == PAGES * PAGE && !is_over), "{size} bytes at {at_event}");
                    if is_written.get() {
                        assert!(found[..bytes.len()] == kept, "at {at_event}");
                    } else {
                        // Of ordered journaling, which writes in place, this write may tear.
                        let others = |bytes: &[u8]| {
                            [&bytes[..5 * PAGE as usize], &bytes[7 * PAGE as usize..]].concat()
                        };
                        assert!(others(&found[..bytes.len()]) == others(&bytes) && !is_new, "at {at_event}");
                    }
                    if is_over {
                        assert_eq!(found[650 * PAGE as usize..][..100], [8; 100]);
                    }
                    let rest = found[bytes.len()..].iter().enumerate();
                    let at_write = (650 * PAGE) as usize - bytes.len();
                    assert!(
                        rest.clone().all(|(at, &byte)| byte == 0 || (at_write..at_write + 100).contains(&at)),
                        "what is new is zeros at {at_event}"
                    );
                    expect_whole(&run, &volume).await;
                    grow(&volume, &home, size_bytes).await.unwrap();
                    assert_eq!(read_all(&volume).await, longer(&found, size_bytes));
                    expect_whole(&run, &volume).await;
                    size
                });
                seen[usize::from(size == size_bytes)] += 1;
                if is_over {
                    break;
                }
            }
            assert!(seen.iter().all(|&seen| seen > 0), "{seen:?} for {plan:?}");
        }
    }
}

fn newest(home: &SharedImage, home_bytes: u64) -> Option<Superblock> {
    let copies = (0..HOME_COPIES).filter_map(|copy| {
        let mut page = [0; PAGE as usize];
        home.borrow().read(home_copy_offset(home_bytes, copy), &mut page);
        Superblock::decode(&page)
    });
    copies.max_by_key(|found| found.generation)
}

#[test]
fn it_opens_with_either_end_of_the_device_damaged_once_it_has_grown_or_was_only_made_longer() {
    for has_grown in [true, false] {
        for end in 0..2 {
            let (mut machine, bytes) = filled(Plan::of_pages(PAGES), 4);
            let home = Rc::clone(&machine.home);
            let before_bytes = home.borrow().geometry().size_bytes;
            machine.run_whole(async |run| {
                let volume = run.open().await.unwrap();
                make_room(&volume, &home, 100 * PAGE).unwrap();
                if has_grown {
                    volume.grow(100 * PAGE).await.unwrap();
                }
            });
            machine.power_cut();
            let home_bytes = home.borrow().geometry().size_bytes;
            let copies_end = if has_grown { home_bytes } else { before_bytes };
            for copy in [2 * end, 2 * end + 1] {
                let at = home_copy_offset(copies_end, copy);
                home.borrow_mut().rot(at, 100, &mut Random::new(7));
            }
            let opened = machine.run_whole(async |run| {
                let volume = run.open().await?;
                Ok::<_, Error>(read_all(&volume).await)
            });
            match (has_grown, end) {
                // Where the end was before is known from the beginning alone.
                (false, 0) => assert!(matches!(opened, Err(Error::Unusable(_))), "{opened:?}"),
                _ => assert_eq!(opened.unwrap()[..bytes.len()], bytes),
            }
        }
    }
}

#[test]
fn what_another_volume_left_in_room_that_was_added_is_not_taken_for_this_one() {
    let (mut machine, bytes) = filled(Plan::of_pages(PAGES), 5);
    let home = Rc::clone(&machine.home);
    let before_bytes = home.borrow().geometry().size_bytes;
    let end_bytes = before_bytes + 100 * PAGE;
    home.borrow_mut().enlarge(end_bytes, None);
    let own = newest(&home, before_bytes).unwrap();
    // Of another volume on a device of the same size, and of this one on a larger device.
    for (volume, home_bytes) in [(own.volume + 2, end_bytes), (own.volume, end_bytes + PAGE)] {
        let other = Superblock { volume, home_bytes, generation: own.generation + 1000, ..own };
        for copy in [2, 3] {
            put(&home, home_copy_offset(end_bytes, copy), &other.encode());
        }
        machine.run_whole(async |run| {
            let found = identify(&*run.home, &*run.log, true).await.unwrap();
            assert_eq!(found.volume, own.volume);
            let volume = run.open().await.unwrap();
            assert_eq!(read_all(&volume).await, bytes);
        });
        machine.power_cut();
    }
}

fn put(image: &SharedImage, offset: u64, bytes: &[u8]) {
    use evenkeel_sim::image::Payload;
    let mut image = image.borrow_mut();
    let extent = Extent::new(offset, bytes.len() as u64);
    let id = image.begin_write(extent, Payload::Bytes(bytes.into()), Durability::Durable);
    image.complete_write(id);
}

#[test]
fn what_cannot_be_is_refused_and_nothing_has_changed() {
    let (mut machine, bytes) = filled(Plan::of_pages(PAGES), 6);
    let home = Rc::clone(&machine.home);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let refused = async |size_bytes: u64| volume.grow(size_bytes).await.unwrap_err().to_string();
        assert!(refused((PAGES - 1) * PAGE).await.contains("no volume shrinks"));
        assert!(refused(PAGES * PAGE + 1).await.contains("multiple of 4096"));
        assert!(refused(100 * PAGE).await.contains("the drive has"), "no room was made");
        assert!(volume.failure().is_none() && volume.size_bytes() == PAGES * PAGE);
        let read = volume.read(PAGES * PAGE, &mut [0]).await;
        assert!(matches!(read, Err(Error::OutOfRange)));
        // To what it has is nothing to do.
        volume.grow(PAGES * PAGE).await.unwrap();
        volume.write(0, &[1], Durability::Durable).await.unwrap();
        assert_eq!(read_all(&volume).await[1..], bytes[1..]);
        for number in 1..=GROWTHS_MAX as u64 {
            grow(&volume, &home, (PAGES + number) * PAGE).await.unwrap();
        }
        assert!(refused(2 * PAGES * PAGE).await.contains("16 times"));
        assert_eq!(read_all(&volume).await[1..bytes.len()], bytes[1..]);
        expect_whole(&run, &volume).await;
    });
}

#[test]
fn a_page_that_cannot_go_home_keeps_it_from_growing_and_from_nothing_else() {
    let plan = Plan::of_pages(PAGES);
    let (mut machine, _) = filled(plan, 7);
    let home = Rc::clone(&machine.home);
    home.borrow_mut().rot(plan.layout().page_offset(3) + 4000, 50, &mut Random::new(1));
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(3 * PAGE, &[5; 100], Durability::Durable).await.unwrap();
        let grown = grow(&volume, &home, 100 * PAGE).await;
        assert!(matches!(grown, Err(Error::Damaged { page: 3 })), "{grown:?}");
        volume.write(3 * PAGE, &[6; 4096], Durability::Durable).await.unwrap();
        grow(&volume, &home, 100 * PAGE).await.unwrap();
        assert_eq!(machine::read(&volume, 3 * PAGE, 4096).await.unwrap(), [6; 4096]);
    });
}

/// Where checkpoints log images of the table, a larger table leaves commits less room: what was let in before is carried
/// out, what comes later is held to the new bounds, and neither waits for ever.
#[test]
fn commits_of_any_size_go_on_while_the_log_gets_short_for_a_larger_table() {
    let mut plan = Plan::of_pages(1000);
    plan.atomic_sectors = false;
    plan.create.log_bytes = 2 << 20;
    plan.arena_bytes = 8 << 20;
    let mut machine = Machine::new(plan, 8);
    let home = Rc::clone(&machine.home);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let (pages_before, bytes_before) = (volume.commit_pages_max(), volume.commit_max_bytes());
        let writer = async |number: u64| {
            for round in 0..40 {
                let pages: Vec<(u64, Vec<u8>)> = (0..volume.commit_pages_max() as u64)
                    .map(|page| ((page * 8 + number) % 900 * PAGE, vec![round as u8; 20]))
                    .collect();
                let ranges: Vec<(u64, &[u8])> = pages.iter().map(|(at, bytes)| (*at, &bytes[..])).collect();
                match volume.commit(&ranges).await {
                    Ok(()) | Err(Error::TooLarge { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
                volume.write_zeroes(Extent::new(100 * PAGE, 200 * PAGE), Durability::Buffered).await.unwrap();
            }
        };
        let grower = async {
            run.env.sleep(300_000).await;
            grow(&volume, &home, 1 << 30).await.unwrap();
        };
        let writers = (0..4).map(|number| boxed(writer(number)));
        join::all(writers.chain([boxed(grower)])).await;
        assert_eq!(volume.size_bytes(), 1 << 30);
        assert!(volume.commit_pages_max() < pages_before, "{pages_before}");
        assert!(volume.commit_max_bytes() <= bytes_before);
        volume.flush(FlushScope::Whole).await.unwrap();
        volume.close().await.unwrap();
    });
}

fn boxed<'a>(future: impl Future<Output = ()> + 'a) -> Pin<Box<dyn Future<Output = ()> + 'a>> {
    Box::pin(future)
}
