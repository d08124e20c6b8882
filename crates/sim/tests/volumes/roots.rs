//! The two places of the root: what is damaged in one is taken from the other, and a checkpoint writes what it changed.

use std::rc::Rc;

use crate::machine::{Machine, PAGE, Plan, noise, read};
use evenkeel_engine::device::{Durability, Extent};
use evenkeel_engine::format::layout::{HOME_COPIES, LOG_COPIES, SUMS_PER_TABLE_PAGE, log_copy_offset};
use evenkeel_engine::format::root::RootSums;
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::format::{PAGE_BYTES, page_sum};
use evenkeel_engine::volume::{CheckReport, check};
use evenkeel_sim::image::{Payload, SharedImage};
use evenkeel_sim::random::Random;

/// Bytes of a volume of which a page of the root speaks.
const ROOT_PAGE_SPEAKS_OF: u64 = SUMS_PER_TABLE_PAGE * SUMS_PER_TABLE_PAGE * PAGE_BYTES;

/// A volume whose root has three pages, with a page written in each.
fn with_three_root_pages() -> (Machine, Vec<(u64, Vec<u8>)>) {
    let mut machine = Machine::new(Plan::of_pages(2 * ROOT_PAGE_SPEAKS_OF / PAGE_BYTES + 600), 3);
    let written: Vec<(u64, Vec<u8>)> =
        (0..3).map(|page| (page * ROOT_PAGE_SPEAKS_OF, noise(page, PAGE as usize))).collect();
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        for (offset, bytes) in &written {
            volume.write(*offset, bytes, Durability::Durable).await.unwrap();
        }
        volume.close().await.unwrap();
    });
    machine.power_cut();
    (machine, written)
}

fn place_of(plan: Plan, slot: usize, page: u64) -> Extent {
    Extent::new(plan.layout().roots[slot].offset + page * PAGE, PAGE)
}

fn rot(image: &SharedImage, at: Extent) {
    image.borrow_mut().rot(at.offset + 8, 1, &mut Random::new(1));
}

/// Opens the volume, reads what was written, checks all of it once a checkpoint has written both places, and closes it.
fn served(machine: &mut Machine, written: &[(u64, Vec<u8>)]) -> Result<CheckReport, String> {
    machine.run_whole(async |run| {
        let volume = run.open().await.map_err(|error| error.to_string())?;
        for (offset, bytes) in written {
            assert!(read(&volume, *offset, PAGE as usize).await.unwrap() == *bytes);
        }
        volume.checkpoint().await.unwrap();
        let report = check(&volume).await.unwrap();
        volume.close().await.unwrap();
        Ok(report)
    })
}

#[test]
fn each_piece_of_the_root_is_taken_from_the_place_where_it_is_right() {
    for (first, second) in [(0, 1), (1, 0)] {
        let (mut machine, written) = with_three_root_pages();
        rot(&machine.home, place_of(machine.plan, first, 0));
        machine.home.borrow_mut().make_unreadable(Extent::new(place_of(machine.plan, second, 1).offset, 512));
        let report = served(&mut machine, &written).unwrap();
        assert!(report.is_clean() && report.roots_checked == 2, "repaired meanwhile: {report:?}");
    }
}

#[test]
fn a_piece_that_is_damaged_in_both_places_keeps_the_volume_shut() {
    let (mut machine, written) = with_three_root_pages();
    for slot in [0, 1] {
        rot(&machine.home, place_of(machine.plan, slot, 2));
    }
    let refused = served(&mut machine, &written).unwrap_err();
    assert!(refused.contains("root of the table of sums"), "{refused}");
}

#[test]
fn a_checkpoint_writes_of_the_root_the_pages_that_it_changed_in_each_place() {
    let (mut machine, _) = with_three_root_pages();
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let mut told = volume.counters().root_bytes;
        assert_eq!(told, 0, "both places were found to hold it");
        for (number, pages) in [(1, 0..1), (2, 1..3), (3, 0..3), (4, 1..1)] {
            let changed = pages.end - pages.start;
            for page in pages {
                let bytes = noise(10 + number, 100);
                volume.write(page * ROOT_PAGE_SPEAKS_OF, &bytes, Durability::Durable).await.unwrap();
            }
            volume.checkpoint().await.unwrap();
            let written = volume.counters().root_bytes - told;
            assert_eq!(written, 2 * changed * PAGE, "round {number}");
            told += written;
        }
    });
    machine.power_cut();
}

/// What a cut tore of the place that was written last, and no more of it, is written anew.
#[test]
fn an_opening_writes_of_the_root_what_a_place_lacks() {
    let (mut machine, written) = with_three_root_pages();
    for lacking in [&[][..], &[1], &[0, 2]] {
        for &page in lacking {
            rot(&machine.home, place_of(machine.plan, 1, page));
        }
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            assert_eq!(volume.counters().root_bytes, lacking.len() as u64 * PAGE);
            volume.close().await.unwrap();
        });
        machine.power_cut();
    }
    assert!(served(&mut machine, &written).unwrap().is_clean());
}

#[test]
fn a_volume_of_twelve_terabytes_writes_no_more_of_its_root_than_its_pages_are_far_apart() {
    /// Far apart: one in each page of the table, eight in each page of the root.
    const WRITES: u64 = 1000;
    const APART: u64 = ROOT_PAGE_SPEAKS_OF / 8;
    let mut machine = Machine::new(Plan::of_pages((12 << 40) / PAGE), 3);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let before = volume.counters();
        for number in 0..WRITES {
            volume.write(number * APART, &noise(number, 4096), Durability::Durable).await.unwrap();
        }
        volume.checkpoint().await.unwrap();
        let after = volume.counters();
        let checkpoints = after.checkpoints - before.checkpoints;
        assert_eq!(after.home_bytes - before.home_bytes, WRITES * PAGE);
        // Two places, and a page once more where a checkpoint came between writes of what it speaks of.
        let root_bytes = after.root_bytes - before.root_bytes;
        let least = 2 * WRITES / 8 * PAGE;
        assert!(
            (least..=least + 2 * checkpoints * PAGE).contains(&root_bytes),
            "{root_bytes}, {checkpoints}"
        );
    });
}

/// As the version before wrote it: superblocks of version 1 sum the root as a whole, and the place that the newest does
/// not name holds what was the root before.
fn as_of_version_1(machine: &mut Machine) {
    let layout = machine.plan.layout();
    let at_home = (0..HOME_COPIES).map(|copy| (Rc::clone(&machine.home), layout.home_copy_offset(copy)));
    let at_log = (0..LOG_COPIES).map(|copy| (Rc::clone(&machine.log), log_copy_offset(copy)));
    let mut newest: Option<Superblock> = None;
    for (image, offset) in at_home.chain(at_log) {
        let mut page = [0; PAGE as usize];
        image.borrow().read(offset, &mut page);
        let superblock = Superblock::decode(&page).unwrap();
        let zone = layout.roots[usize::from(superblock.root_slot)];
        let mut root = vec![0; zone.len as usize];
        machine.home.borrow().read(zone.offset, &mut root);
        let whole_root_sum = Some(page_sum(&root));
        let superblock = Superblock { whole_root_sum, root_sums: RootSums::NONE, ..superblock };
        put(&image, offset, &superblock.encode());
        newest = newest.into_iter().chain([superblock]).max_by_key(|it| it.generation);
    }
    let older = 1 - newest.unwrap().root_slot;
    put(&machine.home, layout.roots[usize::from(older)].offset, &[0; PAGE as usize]);
}

fn put(image: &SharedImage, offset: u64, bytes: &[u8]) {
    let mut image = image.borrow_mut();
    let extent = Extent::new(offset, bytes.len() as u64);
    let id = image.begin_write(extent, Payload::Bytes(bytes.into()), Durability::Durable);
    image.complete_write(id);
}

#[test]
fn a_volume_of_version_1_opens_and_is_of_version_2_from_then_on() {
    let (mut machine, written) = with_three_root_pages();
    as_of_version_1(&mut machine);
    assert!(served(&mut machine, &written).unwrap().is_clean());
    machine.power_cut();
    let layout = machine.plan.layout();
    for copy in 0..HOME_COPIES {
        let mut page = [0; PAGE as usize];
        machine.home.borrow().read(layout.home_copy_offset(copy), &mut page);
        let superblock = Superblock::decode(&page).unwrap();
        assert_eq!(superblock.whole_root_sum, None);
    }
    // What only version 2 can do.
    rot(&machine.home, place_of(machine.plan, 0, 0));
    rot(&machine.home, place_of(machine.plan, 1, 1));
    assert!(served(&mut machine, &written).unwrap().is_clean());
}

#[test]
fn a_damaged_root_of_version_1_keeps_the_volume_shut() {
    let (mut machine, written) = with_three_root_pages();
    as_of_version_1(&mut machine);
    for slot in [0, 1] {
        rot(&machine.home, place_of(machine.plan, slot, 2));
    }
    let refused = served(&mut machine, &written).unwrap_err();
    assert!(refused.contains("root of the table of sums"), "{refused}");
}

#[test]
fn a_volume_of_a_newer_version_is_refused_by_its_number() {
    let (mut machine, written) = with_three_root_pages();
    let offset = machine.plan.layout().home_copy_offset(1);
    let mut page = [0; PAGE as usize];
    machine.home.borrow().read(offset, &mut page);
    let newest = Superblock::newest_version();
    page[16..24].copy_from_slice(&(newest + 1).to_le_bytes());
    let sum = page_sum(&page[16..]);
    page[8..16].copy_from_slice(&sum.to_le_bytes());
    put(&machine.home, offset, &page);
    let refused = served(&mut machine, &written).unwrap_err();
    let (version, known) = (format!("version {}", newest + 1), format!("knows {newest} at most"));
    assert!(refused.contains(&version) && refused.contains(&known), "{refused}");
}
