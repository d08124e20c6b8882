//! What salvage makes of drives that are damaged in any way: every page whose sum holds, those whose sum is gone as the
//! drive holds them, and no wrong byte that it does not name. Nothing is written.

// What a test prints is for whoever runs it.
#![allow(clippy::print_stdout)]

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use crate::machine::{self, Machine, PAGE, Plan, Run, noise, overwrite};
use evenkeel_engine::device::{Durability, Extent, FlushScope, Geometry};
use evenkeel_engine::env::Arena as _;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{
    HOME_COPIES, LOG_COPIES, Layout, SUMS_PER_TABLE_PAGE, SizesBefore, log_copy_offset,
};
use evenkeel_engine::format::record::{RecordKind, Tag, decode};
use evenkeel_engine::format::superblock::Superblock;
use evenkeel_engine::options::CreateOptions;
use evenkeel_engine::salvage::{
    self, Available, Cause, Condition, DamageList, KnownVolume, MemoryArena, MirrorHeads, Part,
};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::drive::SimDrive;
use evenkeel_sim::image::{Image, SharedImage};
use evenkeel_sim::random::Random;

/// More than a page of the table speaks of.
const PAGES: u64 = 1100;

/// What salvage found.
struct Found {
    bytes: Vec<u8>,
    /// All that is named.
    named: DamageList,
    records: u64,
    is_closed: bool,
}

impl Found {
    fn causes(&self) -> BTreeSet<Cause> {
        self.named.ranges().iter().map(|named| named.cause).collect()
    }

    fn bytes_of(&self, condition: Condition) -> u64 {
        self.named.bytes(condition)
    }
}

fn known(plan: &Plan, volume: u64) -> KnownVolume {
    KnownVolume {
        volume,
        size_bytes: plan.create.size_bytes,
        atomic_max_bytes: plan.create.atomic_max_bytes,
        log_bytes: None,
        sizes_before: SizesBefore::default(),
        separate_log: plan.separate_log,
        is_ring: false,
        heads: MirrorHeads::default(),
    }
}

/// Salvages the volume `volume` of a machine, with its log or without, and its arena.
fn salvage(machine: &mut Machine, volume: u64, has_log: bool) -> Result<Found, Error> {
    let (plan, arena) = (machine.plan, machine.arena.clone());
    let before = digest(machine);
    let found = machine.run_whole(async |run: Run| {
        let part = |drive: &Rc<SimDrive>| Part { device: (**drive).clone(), offset: 0, place: 0 };
        let executor = evenkeel_sim::executor::Executor::new(0);
        let cuts = evenkeel_sim::cuts::Cuts::none(executor.stop());
        let arena = evenkeel_sim::arena::SimArena::open(arena, executor.env(), cuts, 0);
        let available = Available {
            home: vec![part(&run.home)],
            log: if has_log && plan.separate_log { vec![part(&run.log)] } else { Vec::new() },
            is_log_in_parts: false,
            arena: Some(MemoryArena::copy_of(&arena)),
            causes: Vec::new(),
        };
        let opened =
            salvage::open(run.env.clone(), available, &known(&plan, volume), plan.open, |_, _| ()).await;
        let salvaged = opened?;
        let mut bytes = vec![0; salvaged.size_bytes() as usize];
        let mut named = salvaged.named.clone();
        for (offset, piece) in (0..).step_by(16 * PAGE as usize).zip(bytes.chunks_mut(16 * PAGE as usize)) {
            salvaged.read(offset, piece, &mut named).await;
        }
        for drive in [&run.home, &run.log] {
            let counted = drive.counters();
            assert_eq!((counted.writes, counted.discards), (0, 0), "nothing is written");
        }
        assert!(salvaged.volume.write(0, &[1; 10], Durability::Buffered).await.is_err());
        Ok(Found { bytes, named, records: salvaged.records, is_closed: salvaged.is_closed })
    });
    assert_eq!(before, digest(machine));
    found
}

fn digest(machine: &Machine) -> [u64; 2] {
    [&machine.home, &machine.log].map(|image| image.borrow().durable_digest())
}

/// A volume in use, as its clients know it.
#[derive(Default)]
struct Model {
    bytes: Vec<u8>,
    /// Pages of what was under way when it ended.
    under_way: BTreeSet<u64>,
    /// Pages that were written since the last checkpoint.
    logged: BTreeSet<u64>,
    /// The home device at some earlier moment, with all that was acknowledged then home.
    earlier: Option<Image>,
}

fn pages_of(offset: u64, len: usize) -> std::ops::Range<u64> {
    offset / PAGE..(offset + len as u64).div_ceil(PAGE)
}

/// Writes of all kinds, now and then a checkpoint.
async fn story(
    run: Run,
    seed: u64,
    home: SharedImage,
    model: Rc<RefCell<Model>>,
    is_durable: bool,
    closes: bool,
) {
    let mut random = Random::new(seed);
    let volume = run.open().await.unwrap();
    let size = volume.size_bytes();
    for step in 0..random.below(50) + 10 {
        match random.below(10) {
            0 => {
                volume.flush(FlushScope::Whole).await.unwrap();
                volume.checkpoint().await.unwrap();
                if run.env.is_stopped() {
                    return;
                }
                let mut model = model.borrow_mut();
                model.logged.clear();
                if random.chance(0.3) {
                    model.earlier = Some(home.borrow().clone());
                }
            }
            1 => {
                let first = random.below(PAGES - 20);
                let extent = Extent::new(first * PAGE, (1 + random.below(20)) * PAGE);
                model.borrow_mut().under_way = pages_of(extent.offset, extent.len as usize).collect();
                volume.write_zeroes(extent, Durability::Durable).await.unwrap();
                if run.env.is_stopped() {
                    return;
                }
                let mut model = model.borrow_mut();
                model.bytes[extent.offset as usize..extent.end() as usize].fill(0);
                settle(&mut model);
            }
            _ => {
                let len = [100, 3000, 4096, 9000, 40_000][random.index(5)];
                let area = if random.coin() { size } else { 40 * PAGE };
                let offset = random.below(area - len as u64);
                let bytes = noise(seed ^ step << 32, len);
                model.borrow_mut().under_way = pages_of(offset, len).collect();
                let durability =
                    if is_durable || random.coin() { Durability::Durable } else { Durability::Buffered };
                volume.write(offset, &bytes, durability).await.unwrap();
                if run.env.is_stopped() {
                    return; // nobody was told
                }
                let mut model = model.borrow_mut();
                model.bytes[offset as usize..][..len].copy_from_slice(&bytes);
                settle(&mut model);
            }
        }
    }
    if closes {
        volume.close().await.unwrap();
        model.borrow_mut().logged.clear();
    }
}

fn settle(model: &mut Model) {
    let under_way = std::mem::take(&mut model.under_way);
    model.logged.extend(under_way);
}

/// A machine after two runs, the second of which ended somewhere, and what its volume holds.
fn ended(plan: Plan, seed: u64) -> (Machine, Model) {
    let mut random = Random::new(seed);
    let mut machine = Machine::new(plan, 1);
    let model =
        Rc::new(RefCell::new(Model { bytes: vec![0; plan.create.size_bytes as usize], ..Model::default() }));
    let kind = if random.coin() { CutKind::Kill } else { CutKind::PowerCut };
    for run in 0..2 {
        let (home, is_durable) = (Rc::clone(&machine.home), kind == CutKind::PowerCut);
        let closes = run == 0 || random.chance(0.3);
        let told = Rc::clone(&model);
        let number = random.number();
        let ends_early = run == 1 && !closes;
        let at_event = ends_early.then(|| random.below(1500));
        let cut = CutPlan { at_event, kind };
        let _ended = machine.run(cut, |run| story(run, number, home, told, is_durable, closes)).0;
        machine.strike(kind);
    }
    let mut model = model.take();
    // Whether what was under way is there nobody knows; it may be so far.
    let under_way = model.under_way.clone();
    model.logged.extend(under_way);
    (machine, model)
}

fn flip(image: &SharedImage, offset: u64, bit: u8) {
    overwrite(image, offset, |bytes| bytes[0] ^= 1 << bit, 1);
}

/// The same drive, cut short.
fn truncated(image: &SharedImage, size_bytes: u64) -> SharedImage {
    let image = image.borrow();
    let geometry = Geometry { size_bytes, ..image.geometry() };
    let shorter = Image::shared(geometry);
    let mut bytes = vec![0; size_bytes as usize];
    image.read_durable(0, &mut bytes);
    if size_bytes > 0 {
        overwrite(&shorter, 0, |all| all.copy_from_slice(&bytes), size_bytes);
    }
    shorter
}

/// A place on the home or log device, of all zones alike.
fn place(random: &mut Random, layout: &Layout, is_log: bool, size_bytes: u64) -> u64 {
    let zone = match random.below(7) {
        _ if is_log && random.coin() => Extent::new(0, 2 * PAGE),
        _ if is_log => layout.log,
        0 => Extent::new(0, 2 * PAGE),
        1 => Extent::new(layout.home_copy_offset(2), 2 * PAGE),
        2 => layout.roots[random.index(2)],
        3 => layout.segments[0].table,
        4 if !layout.separate_log => layout.log,
        5 => Extent::new(layout.page_offset(0), 64 * PAGE),
        _ => layout.segments[0].data,
    };
    (zone.offset + random.below(zone.len)).min(size_bytes - 1)
}

/// Damages both roots, with superblocks before them or without, and the table behind them up to somewhere; with zeros or
/// noise.
fn wipe_roots(home: &SharedImage, layout: &Layout, random: &mut Random) {
    let size_bytes = home.borrow().geometry().size_bytes;
    let start = if random.coin() { 0 } else { layout.roots[0].offset };
    let end = layout.roots[1].end() + random.below(layout.segments[0].table.len + 20 * PAGE);
    let end = end.next_multiple_of(u64::from(home.borrow().geometry().sector_bytes)).min(size_bytes);
    if start < end {
        let wipe = match random.coin() {
            true => vec![0; (end - start) as usize],
            false => noise(random.number(), (end - start) as usize),
        };
        overwrite(home, start, |bytes| bytes.copy_from_slice(&wipe), end - start);
    }
}

/// Harms a machine; answers whether its log is still there.
fn harm(machine: &mut Machine, random: &mut Random, earlier: Option<&Image>) -> bool {
    let layout = machine.plan.layout();
    let is_log = machine.plan.separate_log && random.chance(0.35);
    let image = Rc::clone(if is_log { &machine.log } else { &machine.home });
    let size_bytes = image.borrow().geometry().size_bytes;
    if size_bytes == 0 {
        return true;
    }
    let at = place(random, &layout, is_log, size_bytes);
    match random.below(24) {
        0..8 => flip(&image, at, random.below(8) as u8),
        8..11 => {
            // No drive loses less than a sector.
            let sector = u64::from(image.borrow().geometry().sector_bytes);
            let len = (1 + random.below(3 * PAGE)).next_multiple_of(sector);
            overwrite(&image, at / sector * sector, |bytes| bytes.fill(0), len);
        }
        11..14 => {
            let len = (1 + random.below(3 * PAGE)).min(size_bytes - at);
            image.borrow_mut().rot(at, len, random);
        }
        14..16 => {
            let sector = u64::from(image.borrow().geometry().sector_bytes);
            image.borrow_mut().make_unreadable(Extent::new(at / sector * sector, sector));
        }
        16 => {
            let shorter = truncated(&image, at / PAGE * PAGE);
            if is_log { machine.log = shorter } else { machine.home = shorter }
        }
        17 => {
            // All of a volume as it was once tells nobody that it was ever more.
            if let Some(earlier) = earlier.filter(|_| machine.plan.separate_log) {
                let mut earlier = earlier.clone();
                earlier.kill(random);
                machine.home = Rc::new(RefCell::new(earlier));
            }
        }
        18 if machine.plan.separate_log => machine.home.swap(&machine.log),
        20.. => wipe_roots(&machine.home, &layout, random),
        _ => return !machine.plan.separate_log,
    }
    true
}

/// What a whole record says: its number, what it knows to be acknowledged, and the pages that it changes.
struct Said {
    sequence: u64,
    acknowledged: u64,
    pages: Vec<u64>,
}

/// Every whole record in the place of the log.
fn records(machine: &Machine) -> Vec<Said> {
    let layout = machine.plan.layout();
    let image = if machine.plan.separate_log { &machine.log } else { &machine.home };
    let image = image.borrow();
    let end = layout.log.end().min(image.geometry().size_bytes);
    let mut bytes = vec![0; end.saturating_sub(layout.log.offset) as usize];
    if bytes.is_empty() {
        return Vec::new();
    }
    image.read_durable(layout.log.offset, &mut bytes);
    let sector = machine.plan.sector_bytes as usize;
    let mut found = Vec::new();
    for at in (0..bytes.len()).step_by(sector) {
        let extent = Extent::new(layout.log.offset + at as u64, sector as u64);
        let Some(record) = decode(&bytes[at..], 1, sector).filter(|_| !image.is_unreadable(extent)) else {
            continue;
        };
        let mut pages = Vec::new();
        for tag in &record.tags {
            match *tag {
                Tag::Delta { page, .. } | Tag::Zero { page, .. } => pages.push(page),
                Tag::Discard { page, count } => pages.extend(page..page + u64::from(count)),
                Tag::Page { page, .. } if record.header.kind != RecordKind::Sums => pages.push(page),
                _ => {}
            }
        }
        let (sequence, acknowledged) = (record.header.sequence, record.header.acknowledged);
        found.push(Said { sequence, acknowledged, pages });
    }
    found
}

/// The newest record that any whole superblock knows of, and the newest generation.
fn said_by_superblocks(machine: &Machine) -> (u64, u64) {
    let layout = machine.plan.layout();
    let read = |image: &SharedImage, offset: u64| {
        let image = image.borrow();
        let extent = Extent::new(offset, PAGE);
        let mut page = vec![0; PAGE as usize];
        if !extent.fits(image.geometry().size_bytes) || image.is_unreadable(extent) {
            return None;
        }
        image.read_durable(offset, &mut page);
        Superblock::decode(&page).map(|found| (found.acknowledged, found.generation))
    };
    let home = (0..HOME_COPIES).filter_map(|copy| read(&machine.home, layout.home_copy_offset(copy)));
    let log = (0..LOG_COPIES).filter_map(|copy| read(&machine.log, log_copy_offset(copy)));
    home.chain(log).fold((0, 0), |so_far, found| (so_far.0.max(found.0), so_far.1.max(found.1)))
}

/// Pages that salvage has to give as the model has them: they are home. As their sum there says, or where that is gone, as
/// the drive holds them.
fn must_have(machine: &Machine, model: &Model) -> Vec<u64> {
    let (layout, image) = (machine.plan.layout(), machine.home.borrow());
    let size_bytes = image.geometry().size_bytes;
    let is_home = |page: u64, of_model: &[u8]| {
        let extent = Extent::new(layout.page_offset(page), PAGE);
        let mut bytes = vec![0; PAGE as usize];
        let is_there = extent.fits(size_bytes) && !image.is_unreadable(extent);
        if is_there {
            image.read_durable(extent.offset, &mut bytes);
        }
        // Zeros may be there for a page that was never written, and for one that was wiped.
        is_there && bytes == of_model && bytes.iter().any(|&byte| byte != 0)
    };
    let of_model = |page: u64| &model.bytes[(page * PAGE) as usize..][..PAGE as usize];
    (0..PAGES).filter(|page| !model.logged.contains(page) && is_home(*page, of_model(*page))).collect()
}

/// What a seed comes to: pages that were demanded, whether something was named, and whether it could be opened at all.
fn try_seed(plan: Plan, seed: u64) -> (usize, bool, bool) {
    let (mut machine, model) = ended(plan, seed);
    let (all_records, (_, generation)) = (records(&machine), said_by_superblocks(&machine));
    let mut random = Random::new(seed ^ 0x5A1);
    let mut has_log = true;
    for _ in 0..=random.below(3) {
        has_log &= harm(&mut machine, &mut random, model.earlier.as_ref());
    }
    let layout = machine.plan.layout();
    // Without any copy of the newest superblock pages may be as the log from an older one on has them.
    let demanded = match said_by_superblocks(&machine).1 == generation {
        true => must_have(&machine, &model),
        false => Vec::new(),
    };
    let found = match salvage(&mut machine, 1, has_log) {
        Ok(found) => found,
        Err(error) => {
            let size_bytes = machine.home.borrow().geometry().size_bytes;
            // How large its log is nobody knows then.
            let is_excused = size_bytes < layout.home_bytes && said_by_superblocks(&machine).1 == 0;
            let is_excused = is_excused || size_bytes < layout.roots[1].end();
            assert!(is_excused, "seed {seed}: {error}");
            return (0, true, false);
        }
    };
    let of = |bytes: &[u8], page: u64| bytes[(page * PAGE) as usize..][..PAGE as usize].to_vec();
    for &page in &demanded {
        let is_right = of(&found.bytes, page) == of(&model.bytes, page);
        assert!(is_right, "seed {seed}: page {page} is home, and was not had: {:?}", found.named.ranges());
    }
    // Records of which nothing that is left says that they were acknowledged look like none.
    let known = records(&machine).iter().map(|said| said.acknowledged).max().unwrap_or(0);
    let known = known.max(said_by_superblocks(&machine).0);
    let unknown = all_records.iter().filter(|said| said.sequence > known || !has_log);
    let unknown: BTreeSet<u64> = unknown.flat_map(|said| said.pages.iter().copied()).collect();
    for page in 0..PAGES {
        let extent = Extent::new(page * PAGE, PAGE);
        let is_excused = model.under_way.contains(&page) || (has_log && unknown.contains(&page));
        let is_right = of(&found.bytes, page) == of(&model.bytes, page);
        assert!(
            is_right || is_excused || found.named.touches(&extent),
            "seed {seed}: page {page} is wrong, and nobody says so: {:?}\n{plan:?}",
            found.named.ranges()
        );
    }
    (demanded.len(), !found.named.is_empty(), true)
}

#[test]
fn whatever_is_damaged_every_page_with_its_sum_is_had_and_no_wrong_byte_goes_unnamed() {
    let plans = Plan::every_kind(PAGES);
    let seeds = std::env::var("SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(400);
    let (mut demanded, mut named, mut opened) = (0, 0, 0);
    for seed in 0..seeds {
        let tried = try_seed(plans[seed as usize % plans.len()], seed);
        demanded += tried.0;
        named += u64::from(tried.1);
        opened += u64::from(tried.2);
    }
    println!("{seeds} seeds: {opened} opened, {named} with something named, {demanded} pages demanded");
    assert!(opened * 10 > seeds * 8 && named * 3 > seeds && demanded as u64 > seeds * 10);
}

/// A closed volume of noise on as many pages as a page of the table speaks of, and some.
fn closed() -> (Machine, Vec<u8>) {
    machine::filled(Plan::of_pages(PAGES), 1)
}

#[test]
fn a_volume_that_was_stopped_in_order_needs_no_log() {
    let (mut machine, bytes) = closed();
    for has_log in [true, false] {
        let found = salvage(&mut machine, 1, has_log).unwrap();
        assert!(found.bytes == bytes && found.named.is_empty() && found.is_closed && found.records == 0);
    }
    // Opened once more, it is not stopped.
    machine.run_whole(async |run| run.open().await.map(drop)).unwrap();
    machine.power_cut();
    let found = salvage(&mut machine, 1, false).unwrap();
    assert!(!found.is_closed && found.causes() == BTreeSet::from([Cause::LogLost]));
    assert_eq!((found.bytes_of(Condition::Stale), found.bytes == bytes), (PAGES * PAGE, true));
    let found = salvage(&mut machine, 1, true).unwrap();
    assert!(found.named.is_empty() && found.bytes == bytes);
}

#[test]
fn a_volume_that_was_closed_takes_no_write_any_more() {
    let mut machine = Machine::new(Plan::of_pages(40), 1);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        let other = volume.clone();
        volume.close().await.unwrap();
        assert!(other.write(0, &[1; 10], Durability::Durable).await.is_err());
    });
}

#[test]
fn a_damaged_page_of_the_table_costs_nothing_that_can_be_read() {
    let (mut machine, bytes) = closed();
    let layout = machine.plan.layout();
    let named = Extent::new(SUMS_PER_TABLE_PAGE * PAGE, SUMS_PER_TABLE_PAGE * PAGE);
    for is_gone in [false, true] {
        match is_gone {
            false => flip(&machine.home, layout.table_offset(1) + 9, 3),
            true => machine.home.borrow_mut().make_unreadable(Extent::new(layout.table_offset(1), PAGE)),
        }
        let found = salvage(&mut machine, 1, true).unwrap();
        assert!(found.bytes == bytes && found.causes() == BTreeSet::from([Cause::TableDamaged]));
        assert_eq!(found.named.ranges()[0].extent, named);
        assert_eq!(found.bytes_of(Condition::Uncertain), named.len);
    }
}

#[test]
fn pages_come_as_the_drive_holds_them_where_root_and_table_are_gone_together() {
    for is_noise in [false, true] {
        for start in [0, 2 * PAGE] {
            let (mut machine, bytes) = closed();
            let end = machine.plan.layout().segments[0].table.end();
            let wipe =
                if is_noise { noise(7, (end - start) as usize) } else { vec![0; (end - start) as usize] };
            overwrite(&machine.home, start, |all| all.copy_from_slice(&wipe), end - start);
            let found = salvage(&mut machine, 1, true).unwrap();
            assert!(found.bytes == bytes, "noise {is_noise}, from {start}: {:?}", found.named.ranges());
            assert_eq!(found.bytes_of(Condition::Uncertain), PAGES * PAGE);
            assert_eq!((found.bytes_of(Condition::Lost), found.bytes_of(Condition::Stale)), (0, 0));
        }
    }
}

#[test]
fn a_page_that_was_zeroed_is_zeros_though_the_root_is_gone_where_its_checksum_stands_among_others() {
    let (mut machine, mut bytes) = closed();
    let zeroed = Extent::new(10 * PAGE, 3 * PAGE);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write_zeroes(zeroed, Durability::Durable).await.unwrap();
        volume.close().await.unwrap();
    });
    bytes[zeroed.offset as usize..zeroed.end() as usize].fill(0);
    let layout = machine.plan.layout();
    // The drive keeps what it was told to forget.
    let before = noise(3, zeroed.len as usize);
    overwrite(&machine.home, layout.page_offset(10), |all| all.copy_from_slice(&before), zeroed.len);
    overwrite(&machine.home, layout.roots[0].offset, |all| all.fill(0), 2 * layout.roots[0].len);
    let found = salvage(&mut machine, 1, true).unwrap();
    assert!(found.bytes == bytes && found.causes() == BTreeSet::from([Cause::RootDamaged]));
    assert_eq!(found.bytes_of(Condition::Uncertain), PAGES * PAGE);
}

#[test]
fn a_home_device_that_is_older_than_its_log_is_named_and_no_record() {
    let (mut machine, bytes) = closed();
    let earlier = machine.home.borrow().clone();
    for round in 0..2 {
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            for page in 0..30 {
                volume.write(page * PAGE, &noise(page + round, 4096), Durability::Durable).await.unwrap();
            }
            volume.checkpoint().await.unwrap();
            volume.write(0, &[1; 100], Durability::Durable).await.unwrap();
        });
        machine.power_cut();
    }
    machine.home = Rc::new(RefCell::new(earlier));
    let found = salvage(&mut machine, 1, true).unwrap();
    assert_eq!(found.causes(), BTreeSet::from([Cause::HomeOlder]));
    assert!(found.bytes == bytes, "the state that it was left in");
    assert_eq!(found.bytes_of(Condition::Stale), PAGES * PAGE);
}

#[test]
fn a_log_without_a_superblock_of_the_volume_is_not_taken_for_one_that_ends_early() {
    let (mut machine, _) = closed();
    machine.run_whole(async |run| run.open().await.map(drop)).unwrap();
    machine.power_cut();
    let geometry = machine.log.borrow().geometry();
    machine.log = Image::shared(geometry);
    let found = salvage(&mut machine, 1, true).unwrap();
    assert_eq!(found.causes(), BTreeSet::from([Cause::LogUnknown]));
    // Without any superblock at all it is said what is gone.
    overwrite(&machine.home, 0, |bytes| bytes.fill(0), 2 * PAGE);
    let end = machine.plan.layout().home_copy_offset(2);
    overwrite(&machine.home, end, |bytes| bytes.fill(0), 2 * PAGE);
    let found = salvage(&mut machine, 1, false).unwrap();
    assert_eq!(found.causes(), BTreeSet::from([Cause::NoSuperblock, Cause::LogGone]));
}

#[test]
fn memory_with_a_write_that_the_log_could_never_take_is_refused_and_named() {
    let plan = Plan { arena_bytes: 4 << 20, ..Plan::of_pages(PAGES) };
    let create = CreateOptions { log_bytes: 8 << 20, atomic_max_bytes: 512 << 10, ..plan.create };
    let (mut large, mut small) = (Machine::new(Plan { create, ..plan }, 1), Machine::new(plan, 1));
    large.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        volume.write(0, &vec![7; 400 << 10], Durability::Buffered).await.unwrap();
    });
    large.kill();
    small.run_whole(async |run| run.open().await.map(drop)).unwrap();
    small.power_cut();
    small.arena = large.arena.clone();
    let found = salvage(&mut small, 1, true).unwrap();
    assert_eq!(found.causes(), BTreeSet::from([Cause::ArenaRefused]));
    assert!(found.bytes.iter().all(|&byte| byte == 0));
}

#[test]
fn memory_that_another_version_used_is_named() {
    let (mut machine, _) = closed();
    let executor = evenkeel_sim::executor::Executor::new(0);
    let cuts = evenkeel_sim::cuts::Cuts::none(executor.stop());
    let arena = evenkeel_sim::arena::SimArena::open(machine.arena.clone(), executor.env(), cuts, 0);
    arena.store(0, b"ek-aren9");
    let found = salvage(&mut machine, 1, true).unwrap();
    assert_eq!(found.causes(), BTreeSet::from([Cause::ArenaOfOtherVersion]));
}

#[test]
fn another_volume_is_not_taken_for_this_one() {
    let (mut machine, _) = closed();
    let found = salvage(&mut machine, 7, true).unwrap();
    assert!(found.causes().contains(&Cause::NoSuperblock));
    assert_eq!(found.bytes_of(Condition::Uncertain), PAGES * PAGE);
}
