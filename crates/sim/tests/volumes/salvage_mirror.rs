//! What salvage makes of mirrors of which any member and any log device is damaged, old or gone: all of it where one of
//! each has everything, and no wrong byte that it does not name. Nothing is written.

// What a test prints is for whoever runs it.
#![allow(clippy::print_stdout)]

use std::collections::BTreeSet;

use crate::machine::mirror::{Machine, PAGE, Plan, Run, noise};
use evenkeel_engine::device::{Device, Durability, Extent};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{Layout, SUMS_PER_TABLE_PAGE, SizesBefore};
use evenkeel_engine::format::{log_head, page_sum};
use evenkeel_engine::salvage::{
    self, Available, Condition, DamageList, KnownVolume, MemoryArena, MirrorHeads,
};
use evenkeel_sim::arena::SimArena;
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::drive::SimDrive;
use evenkeel_sim::executor::Executor;
use evenkeel_sim::image::{Image, Payload, SharedImage};
use evenkeel_sim::random::Random;

/// Drives, each at its place, if it is there.
type Drives = Vec<Option<SimDrive>>;

/// More than a page of the table speaks of.
pub(crate) const PAGES: u64 = 530;

fn layout(plan: &Plan) -> Layout {
    let home_bytes = Layout::home_bytes_for(PAGES, plan.create.log_bytes, true);
    Layout::plan(PAGES, home_bytes, plan.create.log_bytes, true).expect("it fits")
}

/// All that a mirror was given: durable writes, zeros and checkpoints, then perhaps a stop in order.
pub(crate) async fn story(run: Run, seed: u64, bytes: &mut [u8], closes: bool) {
    let mut random = Random::new(seed);
    let (volume, ..) = run.open().await.unwrap();
    for step in 0..random.below(25) + 5 {
        let len = [100, 3000, 4096, 9000, 40_000][random.index(5)];
        let offset = random.below(bytes.len() as u64 - len as u64);
        match random.below(8) {
            0 => volume.checkpoint().await.unwrap(),
            1 => {
                let first = random.below(PAGES - 10);
                let extent = Extent::new(first * PAGE, (1 + random.below(10)) * PAGE);
                volume.write_zeroes(extent, Durability::Durable).await.unwrap();
                bytes[extent.offset as usize..extent.end() as usize].fill(0);
            }
            _ => {
                let new = noise(seed ^ step << 32, len);
                volume.write(offset, &new, Durability::Durable).await.unwrap();
                bytes[offset as usize..][..len].copy_from_slice(&new);
            }
        }
    }
    if closes {
        volume.close().await.unwrap();
    }
}

/// Overwrites a part of a drive, in whole sectors.
pub(crate) fn overwrite(image: &SharedImage, offset: u64, bytes: Vec<u8>) {
    let extent = Extent::new(offset, bytes.len() as u64);
    let mut image = image.borrow_mut();
    let write = image.begin_write(extent, Payload::Bytes(bytes.into()), Durability::Durable);
    image.complete_write(write);
}

/// What became of the drives.
#[derive(Default, Debug)]
struct Harm {
    members: BTreeSet<usize>,
    logs: BTreeSet<usize>,
    /// Members that are as they once were.
    old: BTreeSet<usize>,
}

/// Does something to a member or to a log device.
fn harm(machine: &mut Machine, random: &mut Random, earlier: &[Image], harm: &mut Harm) {
    let (plan, layout) = (machine.plan, layout(&machine.plan));
    if plan.logs > 0 && random.chance(0.3) {
        let place = random.index(plan.logs);
        harm.logs.insert(place);
        let image = &machine.logs[place];
        let size_bytes = image.borrow().geometry().size_bytes;
        match random.below(3) {
            0 => machine.logs_gone.push(place),
            1 => overwrite(image, log_head::DATA_OFFSET, vec![0; 2 * PAGE as usize]),
            _ => image.borrow_mut().rot(random.below(size_bytes - 9000), 1 + random.below(9000), random),
        }
        return;
    }
    let place = random.index(plan.members);
    harm.members.insert(place);
    let image = &machine.members[place];
    // With the log on the members it is not damaged here: what no copy of it has cannot be known.
    let start = plan.data_offset();
    let zones = [layout.roots[0], layout.roots[1], layout.segments[0].table, layout.segments[0].data];
    let zone = zones[random.index(4)];
    let sector = zone.offset + random.below(zone.len) / 512 * 512;
    let len = ((1 + random.below(20)) * 512).min(layout.segments[0].data.end() - sector) as usize;
    match random.below(8) {
        0 => machine.members_gone.push(place),
        1 if plan.logs > 0 => {
            machine.members[place] = std::rc::Rc::new(std::cell::RefCell::new(earlier[place].clone()));
            harm.old.insert(place);
        }
        2 | 3 => {
            let end = layout.segments[0].table.end() + random.below(20) * PAGE;
            let from = if random.coin() { 0 } else { layout.roots[0].offset };
            let len = (end - from) as usize;
            let wipe = if random.coin() { vec![0; len] } else { noise(random.number(), len) };
            let is_everywhere = random.coin();
            for other in (0..plan.members).filter(|&other| is_everywhere || other == place) {
                harm.members.insert(other);
                overwrite(&machine.members[other], start + from, wipe.clone());
            }
        }
        4 => overwrite(image, start + sector, vec![0; len]),
        5 => image.borrow_mut().make_unreadable(Extent::new(start + sector, 512)),
        _ => image.borrow_mut().rot(start + sector, len as u64, random),
    }
}

/// What salvage gives, and all that it names.
fn salvage(machine: &mut Machine) -> Result<(Vec<u8>, DamageList), Error> {
    let region_bytes = machine.plan.ring.log_bytes;
    salvaged(machine, async move |members, logs, arena| {
        salvage::find_mirror(1, &members, &logs, region_bytes, arena).await
    })
}

/// The same of what `find` has of the members and log devices that are there.
pub(crate) fn salvaged<D: Device + 'static>(
    machine: &mut Machine,
    find: impl AsyncFnOnce(Drives, Drives, Option<MemoryArena>) -> (Available<D>, MirrorHeads) + 'static,
) -> Result<(Vec<u8>, DamageList), Error> {
    let (plan, arena) = (machine.plan, machine.arena.clone());
    let gone = (machine.members_gone.clone(), machine.logs_gone.clone());
    machine.run_whole(async move |run| {
        let there = |drives: &[SimDrive], gone: &[usize]| -> Drives {
            let drives = drives.iter().cloned().enumerate();
            drives.map(|(place, drive)| Some(drive).filter(|_| !gone.contains(&place))).collect()
        };
        let (members, logs) = (there(&run.members, &gone.0), there(&run.logs, &gone.1));
        let executor = Executor::new(0);
        let arena = SimArena::open(arena, executor.env(), Cuts::none(executor.stop()), 0);
        let (remains, heads) = find(members, logs, Some(MemoryArena::copy_of(&arena))).await;
        let known = KnownVolume {
            volume: 1,
            size_bytes: plan.create.size_bytes,
            atomic_max_bytes: plan.create.atomic_max_bytes,
            log_bytes: Some(plan.create.log_bytes),
            sizes_before: SizesBefore::default(),
            separate_log: true,
            is_ring: true,
            heads,
        };
        let salvaged = salvage::open(run.env.clone(), remains, &known, plan.open, |_, _| ()).await?;
        let mut bytes = vec![0; salvaged.size_bytes() as usize];
        let mut named = salvaged.named.clone();
        salvaged.read(0, &mut bytes, &mut named).await;
        for drive in run.members.iter().chain(&run.logs) {
            let counted = drive.counters();
            assert_eq!((counted.writes, counted.discards), (0, 0), "nothing is written");
        }
        Ok((bytes, named))
    })
}

/// Pages that every member which is there holds as they are, or one of them with their sum.
fn must_have(machine: &Machine, bytes: &[u8], old: &BTreeSet<usize>) -> Vec<u64> {
    let (layout, start) = (layout(&machine.plan), machine.plan.data_offset());
    let there = || (0..machine.plan.members).filter(|place| !machine.members_gone.contains(place));
    let read = |place: usize, offset: u64| {
        let image = machine.members[place].borrow();
        let extent = Extent::new(start + offset, PAGE);
        let mut page = vec![0; PAGE as usize];
        image.read_durable(extent.offset, &mut page);
        Some(page).filter(|_| !image.is_unreadable(extent))
    };
    let is_had = |&page: &u64| {
        let wanted = &bytes[(page * PAGE) as usize..][..PAGE as usize];
        let has = |place: usize| read(place, layout.page_offset(page)).is_some_and(|found| found == wanted);
        let word = (page % SUMS_PER_TABLE_PAGE) as usize * 8;
        let sum = page_sum(wanted).to_le_bytes();
        let has_sum = |place: usize| {
            let table = read(place, layout.table_offset(page / SUMS_PER_TABLE_PAGE));
            !old.contains(&place) && table.is_some_and(|table| table[word..word + 8] == sum)
        };
        let is_empty = wanted.iter().all(|&byte| byte == 0);
        !is_empty && (there().all(has) || (there().any(has) && there().any(has_sum)))
    };
    (0..PAGES).filter(is_had).collect()
}

/// What a seed comes to: whether one member and one log device had everything, pages that were demanded, and whether
/// something was named.
fn try_seed(mut plan: Plan, seed: u64) -> (bool, usize, bool) {
    plan.create.size_bytes = PAGES * PAGE;
    let mut random = Random::new(seed ^ 0xA11);
    let mut machine = Machine::new(plan, 1);
    let mut bytes = vec![0; plan.create.size_bytes as usize];
    machine.run_whole(async |run| story(run, random.number(), &mut bytes, true).await);
    machine.power_cut();
    let earlier: Vec<Image> = machine.members.iter().map(|image| image.borrow().clone()).collect();
    let (number, closes) = (random.number(), random.coin());
    machine.run_whole(async |run| story(run, number, &mut bytes, closes).await);
    machine.power_cut();
    let mut done = Harm::default();
    for _ in 0..random.below(5) {
        harm(&mut machine, &mut random, &earlier, &mut done);
    }
    let is_there_with = |harmed: &BTreeSet<usize>, count: usize| count == 0 || harmed.len() < count;
    // Where the log is on the members, one that is gone may alone hold what was written last.
    let has_members =
        is_there_with(&done.members, plan.members) && (plan.logs > 0 || machine.members_gone.is_empty());
    let has_all = has_members && is_there_with(&done.logs, plan.logs);
    let demanded = if closes { must_have(&machine, &bytes, &done.old) } else { Vec::new() };
    let has_log = is_there_with(&done.logs, plan.logs);
    let (found, named) = match salvage(&mut machine) {
        Ok(found) => found,
        Err(error) => {
            assert!(machine.members_gone.len() >= plan.members, "seed {seed}: {error} {done:?}");
            return (false, 0, true);
        }
    };
    let is_right = |page: u64| {
        let range = (page * PAGE) as usize..((page + 1) * PAGE) as usize;
        found[range.clone()] == bytes[range]
    };
    let about = || format!("seed {seed}, closed {closes}: {done:?} {:?}", named.ranges());
    if has_all {
        assert_eq!(named.bytes(Condition::Lost), 0, "{}", about());
    }
    for page in 0..PAGES {
        assert!(!has_all || is_right(page), "page {page} is on a drive that is whole: {}", about());
        // Of a log that is damaged on each of its devices nobody can tell where it ended.
        let is_named = named.touches(&Extent::new(page * PAGE, PAGE));
        assert!(is_right(page) || is_named || !(has_log || closes), "page {page} is wrong: {}", about());
    }
    for &page in demanded.iter().filter(|_| has_log) {
        assert!(is_right(page), "page {page} is there, and was not had: {}", about());
    }
    (has_all, demanded.len(), !named.ranges().is_empty())
}

#[test]
fn of_a_mirror_all_is_had_that_any_member_holds_and_no_wrong_byte_goes_unnamed() {
    let plans = [
        Plan::mirror(2, 2),
        Plan::mirror(3, 2),
        Plan::mirror(2, 1),
        Plan::with_log_on_members(2),
        Plan::with_log_on_members(3),
    ];
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(200);
    let (mut whole, mut demanded, mut named) = (0, 0, 0);
    for seed in 0..seeds {
        let tried = try_seed(plans[seed as usize % plans.len()], seed);
        whole += u64::from(tried.0);
        demanded += tried.1;
        named += u64::from(tried.2);
    }
    println!(
        "{seeds} seeds: {whole} with one drive of each kind that is whole, {named} with something named, {demanded} pages demanded"
    );
    assert!(whole * 4 > seeds && named * 5 > seeds && demanded as u64 > seeds * 10);
}
