//! The file system on a volume of the engine, in the simulator: its drive loses power, or the process is killed, at any
//! event.
#![allow(clippy::await_holding_refcell_ref)] // A client is borrowed by its own task alone.

#[path = "../../sim/tests/machine/mod.rs"]
mod machine;

mod common;

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;

use common::client::{Client, End};
use common::{clock, e2fsck, format_options};
use evenkeel_engine::join::all;
use evenkeel_engine::options::Journaling;
use evenkeel_ext2::{Caller, FileSystem, MemoryStore, MountOptions, ROOT_INODE, format};
use evenkeel_sim::cuts::{CutKind, CutPlan};
use evenkeel_sim::random::Random;
use machine::{Machine, Plan, Run, WHOLE_RUN};

const PAGES: u64 = 3000;

fn new_machine(seed: u64) -> Machine {
    let mut plan = Plan::of_pages(PAGES);
    plan.create.log_bytes = 16 << 20;
    plan.arena_bytes = 4 << 20;
    // Also drives that need images, and large data past the log.
    plan.atomic_sectors = seed.is_multiple_of(2);
    plan.open.journaling = Journaling::Selective { threshold_bytes: 16384 };
    let mut machine = Machine::new(plan, seed);
    machine.run_whole(async |run| {
        let volume = run.open().await.unwrap();
        format(&volume, &format_options()).await.unwrap();
        volume.close().await.unwrap();
    });
    machine
}

type Clients = Rc<RefCell<Vec<Rc<RefCell<Client>>>>>;

async fn work(run: Run, clients: Clients, seed: u64, wrong: Rc<RefCell<Option<String>>>) {
    let mut random = Random::new(seed);
    let volume = run.open().await.unwrap();
    let options = MountOptions {
        dirty_bytes_max: 300_000,
        small_max_bytes: 20_000,
        cache_bytes: 1 << 20,
        ..MountOptions::default()
    };
    let files = FileSystem::mount(volume, options, clock()).await.unwrap();
    for number in 0..1 + seed % 3 {
        let client = Client::begin(&files, number, random.fork()).await;
        clients.borrow_mut().push(Rc::new(RefCell::new(client)));
    }
    let all_clients = clients.borrow().clone();
    let tasks = all_clients.iter().map(async |client| {
        let end = client.borrow_mut().work(&files, 120).await;
        match end {
            Err(End::Wrong(what)) => drop(wrong.borrow_mut().get_or_insert(what)),
            Err(End::Power) => drop(wrong.borrow_mut().get_or_insert("an operation failed".to_owned())),
            Ok(()) => {}
        }
    });
    all(tasks).await;
}

fn play(seed: u64, cut: CutPlan) -> Result<u64, String> {
    let mut machine = new_machine(seed);
    let clients = Clients::default();
    let wrong: Rc<RefCell<Option<String>>> = Rc::default();
    let (halted, events) = machine.run(cut, |run| work(run, Rc::clone(&clients), seed, Rc::clone(&wrong)));
    if halted.is_ok()
        && let Some(what) = wrong.take()
    {
        return Err(what);
    }
    machine.strike(cut.kind);
    let clients = clients.borrow().clone();
    machine.run_whole(async |run| {
        let volume = run.open().await.map_err(|error| error.to_string())?;
        let files = FileSystem::mount(volume, MountOptions::default(), clock()).await;
        let files = files.map_err(|error| error.to_string())?;
        for client in &clients {
            client.borrow().judge(&files).await?;
        }
        Ok::<(), String>(())
    })?;
    e2fsck(&MemoryStore::of_image(&machine.contents()))?;
    Ok(events)
}

#[test]
fn files_on_a_volume_survive_cuts_at_any_event() {
    for seed in 0..8 {
        let events = play(seed, WHOLE_RUN).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        let mut random = Random::new(seed);
        for round in 0..5 {
            let kind = if round % 2 == 0 { CutKind::PowerCut } else { CutKind::Kill };
            let cut = CutPlan { at_event: Some(random.below(events)), kind };
            play(seed, cut).unwrap_or_else(|why| panic!("seed {seed}, {cut:?} of {events}: {why}"));
        }
    }
}

#[test]
fn a_stream_goes_past_the_log_and_an_fsync_beside_it_takes_none_of_it() {
    const STREAM: u64 = 6 << 20;
    for seed in [0, 1] {
        let mut machine = new_machine(seed);
        machine.run_whole(async |run| {
            let volume = run.open().await.unwrap();
            let options = MountOptions { dirty_bytes_max: 1 << 20, ..MountOptions::default() };
            let files = FileSystem::mount(volume.clone(), options, clock()).await.unwrap();
            let file =
                async |name: &[u8]| files.create(ROOT_INODE, name, 0o644, &Caller::ROOT).await.unwrap();
            let (stream, small) = (file(b"stream").await.inode, file(b"small").await.inode);
            files.sync_all().await.unwrap();
            let before = volume.counters();
            let syncs = Cell::new(0);
            let is_over = Cell::new(false);
            let streaming = async {
                for part in 0..STREAM / 100_000 {
                    let bytes = vec![part as u8; 100_000];
                    files.write(stream, part * 100_000, &bytes, &Caller::ROOT).await.unwrap();
                }
                is_over.set(true);
            };
            let syncing = async {
                while !is_over.get() {
                    files.write(small, syncs.get() * 100, &[7; 100], &Caller::ROOT).await.unwrap();
                    files.fsync(small).await.unwrap();
                    syncs.set(syncs.get() + 1);
                }
            };
            let tasks: [Pin<Box<dyn Future<Output = ()>>>; 2] = [Box::pin(streaming), Box::pin(syncing)];
            all(tasks.into_iter()).await;
            let after = volume.counters();
            assert!(syncs.get() > 10, "{}", syncs.get());
            let direct_bytes = after.direct_bytes - before.direct_bytes;
            assert!(direct_bytes > STREAM - (2 << 20), "{direct_bytes}");
            let delta_bytes = after.delta_bytes - before.delta_bytes;
            assert!(delta_bytes < STREAM / 50 + 400 * syncs.get(), "{delta_bytes}, {} syncs", syncs.get());
        });
    }
}
