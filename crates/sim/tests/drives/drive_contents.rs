//! What is written to a model can be read back, and what was promised survives a power cut.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use crate::common_models::{Elsewhere, MIB, drive, settle};
use evenkeel_engine::device::{Durability, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::volume::{Volume, create};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::{CutKind, CutPlan, Cuts};
use evenkeel_sim::executor::Executor;
use evenkeel_sim::model::device::{ModelDevice, SharedStorage};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::presets::PRESETS;
use evenkeel_sim::model::{Model, Operation, Request, Storage};
use evenkeel_sim::random::Random;

const SECTOR: u64 = 512;

/// What each sector may hold: versions from the last durable one on. A version is written into all of its words.
struct Sectors {
    durable: Vec<u64>,
    newest: Vec<u64>,
}

fn version_at(model: &dyn Storage, sector: u64) -> u64 {
    let mut bytes = [0; SECTOR as usize];
    model.read_contents(sector * SECTOR, &mut bytes);
    let mut words = bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let first = words.next().unwrap();
    assert!(words.all(|word| word == first), "sector {sector} is torn");
    first
}

/// Writes, durable writes and flushes of all kinds, cut in their midst; then every sector must hold a version no
/// older than the last durable one.
fn live_and_cut(flash: &mut Flash, sectors: &mut Sectors, random: &mut Random, steps: u64) {
    let count = sectors.newest.len() as u64;
    let (mut now_ns, mut done) = (flash.now_ns(), Vec::new());
    let mut next_version = sectors.newest.iter().max().unwrap() + 1;
    // By tag: what becomes durable when it is done.
    let mut promises: Vec<Vec<(u64, u64)>> = Vec::new();
    // By sector, versions that are complete: a flush that begins now covers them.
    let mut complete = sectors.newest.clone();
    let mut writes: Vec<Vec<(u64, u64)>> = Vec::new();
    for tag in 0..steps {
        now_ns += random.below(100_000);
        flash.run_until(now_ns, &mut done);
        for completion in done.drain(..) {
            for &(sector, version) in &writes[completion.tag as usize] {
                complete[sector as usize] = complete[sector as usize].max(version);
            }
            for &(sector, version) in &promises[completion.tag as usize] {
                sectors.durable[sector as usize] = sectors.durable[sector as usize].max(version);
            }
        }
        let first = random.below(count);
        let end = (first + 1 + random.below(40)).min(count);
        let covered = |range: std::ops::Range<u64>| range.map(|at| (at, complete[at as usize])).collect();
        let (operation, promise, written) = match random.below(12) {
            0 => (Operation::Flush, covered(0..count), Vec::new()),
            1 => (Operation::FlushRange, covered(first..end), Vec::new()),
            kind => {
                let written: Vec<_> = (first..end).map(|at| (at, next_version)).collect();
                next_version += 1;
                match kind {
                    2..=4 => (Operation::DurableWrite, written.clone(), written),
                    _ => (Operation::Write, Vec::new(), written),
                }
            }
        };
        let request = Request::new(tag, operation, first * SECTOR, (end - first) * SECTOR);
        if let Some(&(_, version)) = written.first() {
            let bytes = version.to_le_bytes().repeat(((end - first) * SECTOR / 8) as usize);
            flash.submit_write(now_ns, request, &bytes);
            (first..end).for_each(|at| sectors.newest[at as usize] = version);
        } else {
            flash.submit(now_ns, request);
        }
        promises.push(promise);
        writes.push(written);
    }
    flash.power_cut(random);
    flash.assert_consistent();
    for sector in 0..count {
        let (found, at) = (version_at(flash, sector), sector as usize);
        assert!(
            found >= sectors.durable[at],
            "sector {at} went back to {found}, {} was durable",
            sectors.durable[at]
        );
        assert!(found <= sectors.newest[at], "sector {at} holds {found}, which nobody wrote");
        (sectors.durable[at], sectors.newest[at]) = (found, found);
    }
}

#[test]
fn after_every_cut_each_sector_holds_a_version_no_older_than_the_durable_one() {
    for preset in PRESETS {
        for seed in 0..12 {
            let mut random = Random::new(seed);
            let mut flash = drive(preset.name, MIB);
            match seed % 2 {
                0 => flash.keep_contents(),
                _ => flash.keep_contents_in(Arc::new(Elsewhere::default())),
            }
            let count = (MIB / SECTOR) as usize;
            let mut sectors = Sectors { durable: vec![0; count], newest: vec![0; count] };
            for _ in 0..8 {
                let steps = 1 + random.below(1500);
                live_and_cut(&mut flash, &mut sectors, &mut random, steps);
            }
        }
    }
}

#[test]
fn without_a_cut_the_newest_is_read_back_through_collection() {
    for preset in PRESETS {
        let mut flash = drive(preset.name, MIB);
        flash.keep_contents();
        let (mut random, mut now_ns, mut done) = (Random::new(1), 0, Vec::new());
        let mut newest = vec![0; (MIB / SECTOR) as usize];
        for version in 1..4_000_u64 {
            now_ns = flash.next_event_ns().unwrap_or(now_ns).max(now_ns + 50_000);
            flash.run_until(now_ns, &mut done);
            let first = random.below(newest.len() as u64 - 16);
            let len = 1 + random.below(16);
            let bytes = version.to_le_bytes().repeat((len * SECTOR / 8) as usize);
            let request = Request::new(version, Operation::Write, first * SECTOR, len * SECTOR);
            flash.submit_write(now_ns, request, &bytes);
            newest[first as usize..(first + len) as usize].fill(version);
            if version % 8 == 0 {
                flash.submit(now_ns, Request::new(0, Operation::Flush, 0, 0));
            }
        }
        settle(&mut flash);
        assert!(flash.counters().erases > 0, "{}: nothing was collected", preset.name);
        for (sector, &version) in newest.iter().enumerate() {
            assert_eq!(version_at(&flash, sector as u64), version, "{}", preset.name);
        }
    }
}

#[test]
fn a_cut_loses_what_was_only_buffered_unless_there_are_capacitors() {
    for (name, survives) in [("open-channel", false), ("steady", true)] {
        let mut flash = drive(name, MIB);
        flash.keep_contents();
        let bytes = 7_u64.to_le_bytes().repeat(512);
        flash.submit_write(0, Request::new(0, Operation::Write, 0, 4096), &bytes);
        let mut done = Vec::new();
        while done.is_empty() {
            let next_ns = flash.next_event_ns().expect("the write is under way");
            flash.run_until(next_ns, &mut done);
        }
        let ready_ns = flash.power_cut(&mut Random::new(1));
        assert!(ready_ns > 0);
        assert_eq!(version_at(&flash, 0), if survives { 7 } else { 0 }, "{name}");
    }
}

/// A volume of this many pages over a model, and what its clients were told.
const PAGES: u64 = 64;
const PAGE: u64 = 4096;

fn plan() -> (CreateOptions, u64) {
    let create = CreateOptions { size_bytes: PAGES * PAGE, log_bytes: 256 << 10, atomic_max_bytes: 16384 };
    (create, Layout::home_bytes_for(PAGES, create.log_bytes, false))
}

/// One run: opens the volume, checks what it holds, writes until the cut. `acknowledged` and `issued` are the
/// versions of each page. Whether the cut struck.
fn run_once(
    model: &SharedStorage,
    seed: u64,
    cut: Option<u64>,
    acknowledged: &RefCell<Vec<u64>>,
    issued: &RefCell<Vec<u64>>,
) -> bool {
    let mut executor = Executor::new(seed);
    let plan = CutPlan { at_event: cut, kind: CutKind::PowerCut };
    let cuts = Cuts::new(plan, executor.stop());
    let env = executor.env();
    let device = Rc::new(ModelDevice::open(Rc::clone(model), env.clone(), cuts.clone()));
    let arena = SimArena::open(ArenaBytes::new(256 << 10), env.clone(), cuts.clone(), seed);
    let mut random = Random::new(seed);
    let ended = executor.block_on(async {
        let log = Rc::clone(&device);
        let volume = Volume::open(env.clone(), arena, device, log, false, OpenOptions::default())
            .await
            .expect("the volume opens");
        for page in 0..PAGES {
            let mut bytes = [0; PAGE as usize];
            volume.read(page * PAGE, &mut bytes).await.expect("the page is whole");
            let found = u64::from_le_bytes(bytes[..8].try_into().unwrap());
            let (told, tried) = (acknowledged.borrow()[page as usize], issued.borrow()[page as usize]);
            assert!((told..=tried).contains(&found), "page {page}: {found}, {told} was acknowledged");
            issued.borrow_mut()[page as usize] = found;
        }
        for _ in 0..200 {
            let page = random.below(PAGES);
            let version = issued.borrow()[page as usize] + 1;
            issued.borrow_mut()[page as usize] = version;
            let bytes = version.to_le_bytes().repeat(512);
            let durability = if random.coin() { Durability::Durable } else { Durability::Buffered };
            volume.write(page * PAGE, &bytes, durability).await.expect("the drive is healthy");
            if durability == Durability::Durable {
                acknowledged.borrow_mut()[page as usize] = version;
            } else if random.chance(0.2) {
                let issued = issued.borrow().clone();
                volume.flush(FlushScope::Whole).await.expect("the drive is healthy");
                acknowledged.replace(issued);
            }
            env.sleep(random.below(300_000)).await;
        }
    });
    if ended.is_err() {
        assert!(cuts.has_struck(), "{ended:?}");
    }
    cuts.has_struck()
}

#[test]
fn the_engine_over_a_model_loses_nothing_acknowledged_however_often_the_power_fails() {
    let mut struck = 0;
    for name in ["nvme-mlc", "open-channel", "tlc-2020", "steady", "sd-card"] {
        for seed in 0..6 {
            let (options, home_bytes) = plan();
            let mut flash = drive(name, home_bytes);
            flash.keep_contents();
            let model: SharedStorage = Rc::new(RefCell::new(flash));
            let mut executor = Executor::new(seed);
            let cuts = Cuts::none(executor.stop());
            let device = ModelDevice::open(Rc::clone(&model), executor.env(), cuts);
            let made = executor.block_on(create(&device, &device, false, options, seed | 1));
            made.expect("nothing cuts it").expect("the volume fits");
            let mut random = Random::new(seed);
            model.borrow_mut().power_cut(&mut random);
            let acknowledged = RefCell::new(vec![0; PAGES as usize]);
            let issued = RefCell::new(vec![0; PAGES as usize]);
            for run in 0..5 {
                let cut = (run < 4).then(|| random.below(1000));
                struck += u64::from(run_once(&model, random.number(), cut, &acknowledged, &issued));
                model.borrow_mut().power_cut(&mut random);
            }
        }
    }
    assert!(struck > 60, "{struck} cuts struck");
}
