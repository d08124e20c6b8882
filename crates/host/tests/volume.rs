//! The engine's volume on real drives and a real arena.

mod support;

use std::collections::BTreeMap;
use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;

use evenkeel_engine::device::Durability;
use evenkeel_engine::env::Env;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::volume::{Volume, check, create};
use evenkeel_host::arena::SharedArena;
use evenkeel_host::drive::{DriveOptions, FileDrive, Fill};
use evenkeel_host::event_loop::{Backend, EventLoop, Loop};
use support::loops;

const HOME: u64 = 48 << 20;
const LOG: u64 = 16 << 20;
const ARENA: usize = 4 << 20;
const SIZE: u64 = 32 << 20;

type HostVolume = Volume<Loop, SharedArena, FileDrive, FileDrive>;

async fn open(env: &Loop, folder: &Path) -> HostVolume {
    let arena = SharedArena::open(&folder.join("arena"), ARENA).unwrap();
    let drive = |name| FileDrive::open(env, &folder.join(name), DriveOptions::default()).unwrap();
    let (home, log) = (Rc::new(drive("home")), Rc::new(drive("log")));
    Volume::open(env.clone(), arena, home, log, true, OpenOptions::default()).await.unwrap()
}

async fn make(env: &Loop, folder: &Path) {
    let options = DriveOptions::default();
    let (home, log) = (folder.join("home"), folder.join("log"));
    let home = FileDrive::create(env, &home, HOME, Fill::Reserved, options, |_, _| ()).await.unwrap();
    let log = FileDrive::create(env, &log, LOG, Fill::Written, options, |_, _| ()).await.unwrap();
    let create_options =
        CreateOptions { size_bytes: SIZE, log_bytes: LOG - (1 << 20), atomic_max_bytes: 256 << 10 };
    create(&home, &log, true, create_options, env.random()).await.unwrap();
}

/// Ends the loop with everything in it, as if the process were gone, and begins another.
fn next_life(event_loop: EventLoop) -> EventLoop {
    let backend = event_loop.backend();
    drop(event_loop);
    EventLoop::new(backend).unwrap()
}

#[test]
fn acknowledged_writes_are_there_in_the_next_life_flushed_or_not() {
    for mut event_loop in loops() {
        let folder = tempfile::tempdir_in(".").unwrap();
        event_loop.block_on(make(&event_loop.handle(), folder.path()));
        let mut model = vec![0; SIZE as usize];
        for life in 0..4_u64 {
            let env = event_loop.handle();
            event_loop.block_on(async {
                let volume = open(&env, folder.path()).await;
                let mut found = vec![1; SIZE as usize];
                volume.read(0, &mut found).await.unwrap();
                assert!(found == model, "life {life}");
                for number in 0..300_u64 {
                    let len = 1 + env.random() as usize % 20_000;
                    let offset = env.random() % (SIZE - len as u64);
                    let bytes = vec![(life * 50 + number) as u8; len];
                    let durability = if number % 3 == 0 { Durability::Durable } else { Durability::Buffered };
                    volume.write(offset, &bytes, durability).await.unwrap();
                    model[offset as usize..][..len].copy_from_slice(&bytes);
                }
                // Under way when the life ends: a task whose answer nobody hears.
                let last = vec![0; 4096];
                let start = SIZE - 4096;
                model[start as usize..].fill(0);
                volume.write(start, &last, Durability::Buffered).await.unwrap();
            });
            event_loop = next_life(event_loop);
        }
        event_loop.block_on(async {
            let env = event_loop.handle();
            let volume = open(&env, folder.path()).await;
            let mut found = vec![1; SIZE as usize];
            volume.read(0, &mut found).await.unwrap();
            assert!(found == model);
            let report = check(&volume).await.unwrap();
            assert!(report.is_clean() && report.pages_checked > 0, "{report:?}");
        });
    }
}

/// Set for the process that is to be killed: the volume's folder.
const CHILD: &str = "EVENKEEL_TEST_VOLUME";
/// Set for it too: whether it uses threads.
const CHILD_THREADS: &str = "EVENKEEL_TEST_VOLUME_THREADS";

const PAGES: u64 = 700;

fn numbered(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(512)
}

/// Writes one page after another, none of them flushed, and says so of each that is acknowledged.
#[allow(clippy::print_stdout, reason = "the parent reads it")]
fn write_until_killed(folder: &Path) {
    let backend = if env::var_os(CHILD_THREADS).is_some() { Backend::Threads } else { Backend::Auto };
    let event_loop = EventLoop::new(backend).unwrap();
    event_loop.block_on(async {
        let volume = open(&event_loop.handle(), folder).await;
        let mut page = [0; 8];
        volume.read(PAGES * 4096, &mut page).await.unwrap();
        for number in u64::from_le_bytes(page) + 1.. {
            // Where the next life goes on.
            volume.write(PAGES * 4096, &number.to_le_bytes(), Durability::Buffered).await.unwrap();
            volume.write(number % PAGES * 4096, &numbered(number), Durability::Buffered).await.unwrap();
            println!("acknowledged {number}");
        }
    });
}

#[test]
fn a_killed_process_loses_no_acknowledged_write_though_nothing_was_flushed() {
    if let Some(folder) = env::var_os(CHILD) {
        return write_until_killed(&PathBuf::from(folder));
    }
    let folder = tempfile::tempdir_in(".").unwrap();
    let event_loop = EventLoop::new(Backend::Auto).unwrap();
    event_loop.block_on(make(&event_loop.handle(), folder.path()));
    let mut acknowledged: BTreeMap<u64, u64> = BTreeMap::new();
    for life in 0..6 {
        let mut command = Command::new(env::current_exe().unwrap());
        let name = "a_killed_process_loses_no_acknowledged_write_though_nothing_was_flushed";
        command.args(["--exact", name, "--nocapture"]).env(CHILD, folder.path()).stdout(Stdio::piped());
        if life % 2 == 1 {
            command.env(CHILD_THREADS, "1");
        }
        let mut child = command.spawn().unwrap();
        let mut newest = 0;
        let mut heard = 0;
        // Until it has written for a while; then what was acknowledged before the kill is still in the pipe.
        for line in BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap) {
            let Some((_, number)) = line.split_once("acknowledged ") else { continue };
            newest = number.parse().unwrap();
            acknowledged.insert(newest % PAGES, newest);
            heard += 1;
            if heard == 1500 + life * 333 {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        assert!(heard > 1000, "life {life} was short");

        let event_loop = EventLoop::new(Backend::Auto).unwrap();
        event_loop.block_on(async {
            let volume = open(&event_loop.handle(), folder.path()).await;
            for (&page, &number) in &acknowledged {
                let mut found = vec![0; 4096];
                volume.read(page * 4096, &mut found).await.unwrap();
                // The one after the newest was written perhaps, and nobody told.
                let maybe = (page == (newest + 1) % PAGES).then(|| numbered(newest + 1));
                assert!(
                    found == numbered(number) || Some(found) == maybe,
                    "life {life}: page {page} has lost write {number}"
                );
            }
        });
    }
}
