//! What a check finds: damage in every place, by its name, and none in what cuts leave.

use std::rc::Rc;

use crate::machine::{Machine, PAGE, Plan, Run, WHOLE_RUN};
use evenkeel_engine::device::{Device, Durability, Extent, FlushScope};
use evenkeel_engine::format::layout::{HOME_COPIES, LOG_COPIES, log_copy_offset};
use evenkeel_engine::format::record::decode_header;
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::options::Journaling;
use evenkeel_engine::volume::{CheckReport, SuperblockCopy, check};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::image::SharedImage;
use evenkeel_sim::random::Random;

const PAGES: u64 = 40;

fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Random::new(seed).fill(&mut bytes);
    bytes
}

/// Some writes that go home and some that stay in the log; then `harm`, and a check.
fn check_after(plan: Plan, seed: u64, harm: impl FnOnce(&SharedImage, &SharedImage)) -> CheckReport {
    let mut machine = Machine::new(plan, 1);
    let (home, log) = (Rc::clone(&machine.home), Rc::clone(&machine.log));
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for page in 0..8 {
            volume.write(page * PAGE, &[1; 3000], Durability::Durable).await.unwrap();
        }
        for _ in 0..seed % 3 {
            volume.checkpoint().await.unwrap();
        }
        for page in 4..8 {
            volume.write(page * PAGE, &[2; 3000], Durability::Durable).await.unwrap();
        }
        // What is in a drive's cache hides what becomes of the medium under it.
        run.home.flush(FlushScope::Whole).await.unwrap();
        harm(&home, &log);
        check(&volume).await.unwrap()
    })
}

fn rot(image: &SharedImage, extent: Extent, seed: u64) {
    image.borrow_mut().rot(extent.offset, extent.len, &mut Random::new(seed));
}

fn spoil(image: &SharedImage, extent: Extent, seed: u64) {
    match seed % 2 {
        0 => rot(image, extent, seed),
        _ => image.borrow_mut().make_unreadable(Extent::new(extent.offset, 512)),
    }
}

/// What is clean but for `damage`.
fn expect(found: &CheckReport, damage: impl FnOnce(&mut CheckReport)) {
    let mut expected = CheckReport {
        damaged_pages: Vec::new(),
        damaged_table_pages: Vec::new(),
        damaged_superblocks: Vec::new(),
        damaged_roots: Vec::new(),
        damaged_log_records: Vec::new(),
        ..found.clone()
    };
    assert!(expected.is_clean());
    damage(&mut expected);
    assert_eq!(*found, expected);
    assert!(!found.is_clean());
}

#[test]
fn everything_is_read() {
    let report = check_after(Plan::of_pages(PAGES), 1, |_, _| ());
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.superblocks_checked, report.roots_checked, report.table_pages_checked), (6, 2, 1));
    assert_eq!((report.pages_checked, report.pages_empty), (8, PAGES - 8));
    assert!(report.log_records_checked >= 4, "{report:?}");
}

#[test]
fn a_damaged_copy_of_the_superblock_is_named() {
    let plan = Plan::of_pages(PAGES);
    let layout = plan.layout();
    for seed in 0..6 {
        for copy in 0..HOME_COPIES {
            let at = Extent::new(layout.home_copy_offset(copy), 200);
            let report = check_after(plan, seed, |home, _| spoil(home, at, seed));
            expect(&report, |report| report.damaged_superblocks = vec![SuperblockCopy::Home(copy)]);
        }
        for copy in 0..LOG_COPIES {
            let at = Extent::new(log_copy_offset(copy), 200);
            let report = check_after(plan, seed, |_, log| spoil(log, at, seed));
            expect(&report, |report| report.damaged_superblocks = vec![SuperblockCopy::Log(copy)]);
        }
    }
}

#[test]
fn a_superblock_of_an_earlier_generation_is_no_superblock() {
    for copy in 0..2 {
        let mut machine = Machine::new(Plan::of_pages(PAGES), 1);
        let report = machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let mut page = vec![0; PAGE as usize];
            run.log.read(log_copy_offset(copy), &mut page).await.unwrap();
            let mut superblock = Superblock::decode(&page).expect("it is whole");
            superblock.generation -= 2;
            run.log.write(log_copy_offset(copy), &superblock.encode(), Durability::Durable).await.unwrap();
            check(&volume).await.unwrap()
        });
        expect(&report, |report| report.damaged_superblocks = vec![SuperblockCopy::Log(copy)]);
    }
}

#[test]
fn a_damaged_root_and_a_damaged_page_of_the_table_are_named() {
    let plan = Plan::of_pages(PAGES);
    let layout = plan.layout();
    for seed in 0..6 {
        for (slot, zone) in (0..).zip(layout.roots) {
            let report = check_after(plan, seed, |home, _| spoil(home, Extent::new(zone.offset, 8), seed));
            expect(&report, |report| report.damaged_roots = vec![slot]);
        }
        // Of which the first page that was ever home is needed.
        let at = Extent::new(layout.table_offset(0), PAGE);
        let report = check_after(plan, 1 + seed % 2, |home, _| spoil(home, at, seed));
        expect(&report, |report| report.damaged_table_pages = vec![0]);
    }
}

#[test]
fn a_damaged_page_is_named() {
    let plan = Plan::of_pages(PAGES);
    for seed in [1, 2] {
        let at = Extent::new(plan.layout().page_offset(2), PAGE);
        let report = check_after(plan, seed, |home, _| spoil(home, at, seed));
        expect(&report, |report| report.damaged_pages = vec![2]);
    }
}

#[test]
fn a_damaged_record_of_the_log_is_named() {
    let plan = Plan::of_pages(PAGES);
    for seed in 0..8 {
        let mut sequence = None;
        let report = check_after(plan, seed, |_, log| {
            let mut bytes = vec![0; plan.layout().log.len as usize];
            log.borrow_mut().read(2 * PAGE, &mut bytes);
            let headers = bytes.chunks(512).enumerate().filter_map(|(sector, bytes)| {
                decode_header(bytes, 512)
                    .map(|header| (header.epoch, header.sequence, sector, header.len_bytes))
            });
            let mut headers: Vec<_> = headers.collect();
            headers.sort_unstable();
            // One of the last four: they are not home.
            let (_, number, sector, len) = headers[headers.len() - 1 - seed as usize % 4];
            sequence = Some(number);
            spoil(log, Extent::new(2 * PAGE + sector as u64 * 512, u64::from(len)), seed);
        });
        expect(&report, |report| report.damaged_log_records = sequence.into_iter().collect());
    }
}

/// A run with everything that writes superblocks, roots and the table.
async fn story(run: Run) {
    let volume = run.open().await.unwrap();
    for page in 0..6 {
        volume.write(page * 3 * PAGE, &[3; 5000], Durability::Durable).await.unwrap();
    }
    volume.checkpoint().await.unwrap();
    volume.write(20 * PAGE, &[4; 20_000], Durability::Durable).await.unwrap();
    volume.write(PAGE, &[5; 300], Durability::Buffered).await.unwrap();
    volume.close().await.unwrap();
}

#[test]
fn what_any_cut_leaves_is_clean() {
    let journaling = Journaling::Selective { threshold_bytes: 16384 };
    for plan in Plan::every_kind(PAGES).into_iter().filter(|plan| plan.open.journaling == journaling) {
        let machine = Machine::new(plan, 1);
        let (ended, events) = machine.fork(1).run(WHOLE_RUN, story);
        ended.unwrap();
        for at in 0..events {
            let kind = if at % 4 == 0 { CutKind::Kill } else { CutKind::PowerCut };
            let mut machine = machine.fork(at);
            assert!(machine.run(CutPlan { at_event: Some(at), kind }, story).0.is_err());
            machine.strike(kind);
            let report = machine.run_whole(async |run| {
                let volume = run.open().await.unwrap();
                check(&volume).await.unwrap()
            });
            assert!(report.is_clean(), "{kind:?} at event {at} of {events}: {report:?}\n{plan:?}");
            assert!(report.superblocks_checked >= 4 && report.roots_checked == 2, "{report:?}");
        }
    }
}

/// So much is damaged that the volume takes no writes: what there is to say is said all the same.
#[test]
fn a_volume_that_takes_no_writes_for_damage_is_checked_as_any_other() {
    let plan = Plan::of_pages(200);
    let mut machine = Machine::new(plan, 3);
    let bytes = noise(3, plan.create.size_bytes as usize);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &bytes, Durability::Buffered).await.unwrap();
        volume.close().await.unwrap();
    });
    machine.power_cut();
    for page in 20..60 {
        machine.home.borrow_mut().rot(plan.layout().page_offset(page) + 4095, 1, &mut Random::new(1));
    }
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for page in 20..60 {
            let _refused_later_on =
                volume.write(page * PAGE, &noise(page, 3000), Durability::Durable).await.is_err();
        }
        assert!(volume.checkpoint().await.is_err());
    });
    machine.power_cut();
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        assert!(volume.failure().is_some());
        let report = check(&volume).await.unwrap();
        assert!(report.read_only && !report.is_clean());
        assert_eq!(report.damaged_pages, (20..60).collect::<Vec<_>>());
    });
}
