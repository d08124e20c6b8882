//! Random work of several clients side by side, and what a power cut leaves of it: what was synced is there, nothing that
//! never was, and e2fsck finds nothing to do.
#![allow(clippy::await_holding_refcell_ref)] // A client is borrowed by its own task alone.

use std::cell::RefCell;
use std::rc::Rc;

use crate::common::client::{Client, End};
use crate::common::{clock, e2fsck, format_options, run, run_all};
use evenkeel_ext2::store::CommitLimits;
use evenkeel_ext2::{Caller, Errno, FileSystem, MemoryStore, MountOptions, ROOT_INODE, format};
use evenkeel_sim::random::Random;

/// What one run is like.
#[derive(Debug, Clone, Copy)]
struct Habits {
    clients: u64,
    operations: u64,
    /// Requests to the store until the cut; none at the end if there are more.
    requests: Option<u64>,
    is_judged_by_e2fsck: bool,
}

fn begun(random: &mut Random) -> (MemoryStore, FileSystem<MemoryStore>) {
    // Small commits, so that there are many of them, and blocks that hold something already.
    let limits =
        CommitLimits { bytes: 700_000 + random.below(1 << 20), pages: 300 + random.below(1000) as usize };
    let store = MemoryStore::with_limits(16 << 20, limits);
    for block in 0..4 << 10 {
        store.patch(block * 4096, &[0xdd; 4096]);
    }
    run(format(&store, &format_options())).unwrap();
    let options = MountOptions {
        dirty_bytes_max: 400_000,
        small_max_bytes: [4096, 20_000, 64 << 10][random.index(3)],
        cache_bytes: 1 << 20,
        discards: random.coin(),
        ..MountOptions::default()
    };
    let files = run(FileSystem::mount(store.clone(), options, clock())).unwrap();
    (store, files)
}

/// A run and its judgement; answers how many requests there were.
fn play(seed: u64, habits: Habits) -> Result<u64, String> {
    let mut random = Random::new(seed);
    let (store, files) = begun(&mut random);
    let clients: Vec<_> = (0..habits.clients)
        .map(|number| Rc::new(RefCell::new(run(Client::begin(&files, number, random.fork())))))
        .collect();
    if let Some(requests) = habits.requests {
        store.lose_power_after(requests);
    }
    store.pause_each(random.below(3) as u32);
    let wrong: Rc<RefCell<Option<String>>> = Rc::default();
    let tasks = clients.iter().map(|client| {
        let (client, files, wrong) = (Rc::clone(client), files.clone(), Rc::clone(&wrong));
        Box::pin(async move {
            let end = client.borrow_mut().work(&files, habits.operations).await;
            if let Err(End::Wrong(what)) = end {
                wrong.borrow_mut().get_or_insert(what);
            }
        }) as std::pin::Pin<Box<dyn Future<Output = ()>>>
    });
    let mut turns = random.fork();
    run_all(tasks.collect(), |bound| turns.below(bound));
    if let Some(what) = wrong.take() {
        return Err(what);
    }
    let asked = store.asked();
    if habits.requests.is_none() {
        for client in &clients {
            run(client.borrow().check_all(&files)).map_err(|end| format!("{end:?}"))?;
        }
    }
    let share = [0.0, 0.5, 1.0][random.index(3)];
    let left = store.after_power_cut(|| random.chance(share));
    let mounted = run(FileSystem::mount(left.clone(), MountOptions::default(), clock()));
    let files = mounted.map_err(|error| error.to_string())?;
    if habits.is_judged_by_e2fsck {
        e2fsck(&left)?;
    }
    for client in &clients {
        run(client.borrow().judge(&files))?;
    }
    run(files.unmount()).map_err(|error| error.to_string())?;
    if habits.is_judged_by_e2fsck {
        e2fsck(&left)?;
    }
    Ok(asked.commits)
}

fn play_seeds(seeds: std::ops::Range<u64>, habits: impl Fn(u64) -> Habits) {
    for seed in seeds {
        let habits = habits(seed);
        play(seed, habits).unwrap_or_else(|why| panic!("seed {seed}, {habits:?}: {why}"));
    }
}

#[test]
fn one_client_finds_what_it_left() {
    play_seeds(0..10, |_| Habits { clients: 1, operations: 400, requests: None, is_judged_by_e2fsck: true });
}

#[test]
fn clients_side_by_side_find_what_they_left() {
    play_seeds(100..108, |_| Habits {
        clients: 4,
        operations: 200,
        requests: None,
        is_judged_by_e2fsck: true,
    });
}

#[test]
fn what_was_synced_is_there_after_a_cut_and_e2fsck_finds_nothing() {
    play_seeds(1000..1050, |seed| Habits {
        clients: 1 + seed % 3,
        operations: 300,
        requests: Some(seed * 7 % 400),
        is_judged_by_e2fsck: true,
    });
}

#[test]
fn what_was_synced_is_there_after_many_more_cuts() {
    play_seeds(2000..2300, |seed| Habits {
        clients: 1 + seed % 4,
        operations: 200,
        requests: Some(seed * 13 % 500),
        is_judged_by_e2fsck: false,
    });
}

#[test]
#[ignore = "takes half an hour"]
fn what_was_synced_is_there_after_10_000_cuts() {
    let seeds = std::env::var("SEEDS").map_or(10_000, |seeds| seeds.parse().expect("SEEDS is a number"));
    play_seeds(10_000..10_000 + seeds, |seed| Habits {
        clients: 1 + seed % 4,
        operations: 250,
        requests: Some(seed * 17 % 600),
        is_judged_by_e2fsck: true,
    });
}

/// Writes sparse pages until there is no room, and makes all of it durable.
fn fill() -> Result<(), String> {
    let store = MemoryStore::new(5 << 20);
    run(format(&store, &format_options())).unwrap();
    let files = run(FileSystem::mount(store.clone(), MountOptions::default(), clock())).unwrap();
    run(async {
        let mut written = Vec::new();
        for number in 0..u32::MAX {
            let name = format!("{number}").into_bytes();
            let Ok(file) = files.create(ROOT_INODE, &name, 0o644, &Caller::ROOT).await else { break };
            // Each page needs mapping blocks of its own.
            for part in 0..10u64 {
                let done = files.write(file.inode, part << 24, &[number as u8; 4096], &Caller::ROOT).await;
                match done {
                    Ok(4096) => written.push((file.inode, part << 24, number as u8)),
                    Err(Errno::NoSpace) => break,
                    other => return Err(format!("a write answers {other:?}")),
                }
            }
            files.readdir(ROOT_INODE, 0, 1).await.map_err(|error| error.to_string())?;
            if files.write(file.inode, 1 << 30, b"x", &Caller::ROOT).await == Err(Errno::NoSpace) {
                break;
            }
        }
        files.sync_all().await.map_err(|error| format!("what was written is not durable: {error}"))?;
        let files = run(FileSystem::mount(store.after_power_cut(|| false), MountOptions::default(), clock()));
        let files = files.map_err(|error| error.to_string())?;
        for (inode, at, byte) in written {
            let mut bytes = [0; 4096];
            files.read(inode, at, &mut bytes).await.map_err(|error| error.to_string())?;
            if bytes != [byte; 4096] {
                return Err(format!("inode {inode} lacks what was written at {at}"));
            }
        }
        Ok(())
    })?;
    e2fsck(&store)
}

#[test]
fn what_found_room_when_it_was_written_is_durable_on_a_full_disk() {
    fill().unwrap();
}

#[cfg(feature = "planted")]
#[allow(clippy::print_stderr, reason = "the table is for whoever runs it")]
mod planted {
    use evenkeel_ext2::planted::{Bug, plant};

    use super::*;

    /// The first seed that shows the bug, and what it shows.
    fn first_caught() -> Option<(u64, String)> {
        if std::panic::catch_unwind(crate::common::read_beside_a_commit).is_err() {
            return Some((0, "a read beside a commit shows what was there before".to_owned()));
        }
        if std::panic::catch_unwind(crate::common::read_beside_an_unmapping).is_err() {
            return Some((0, "a read shows bytes of the file that got the blocks".to_owned()));
        }
        match std::panic::catch_unwind(fill) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Some((0, why.chars().take(150).collect())),
            Err(_) => return Some((0, "a panic".to_owned())),
        }
        (0..200).find_map(|seed| {
            let habits = Habits {
                clients: 1 + seed % 3,
                operations: 300,
                requests: (seed % 4 != 0).then_some(seed * 7 % 400),
                is_judged_by_e2fsck: seed % 3 != 0,
            };
            match std::panic::catch_unwind(|| play(5000 + seed, habits)) {
                Ok(Ok(_)) => None,
                Ok(Err(why)) => Some((seed, why.chars().take(150).collect())),
                Err(_) => Some((seed, "a panic".to_owned())),
            }
        })
    }

    #[test]
    fn every_planted_bug_is_caught() {
        std::panic::set_hook(Box::new(|_| {}));
        let mut missed = Vec::new();
        for &bug in Bug::ALL {
            plant(Some(bug));
            let caught = first_caught();
            plant(None);
            eprintln!("{}: {caught:?}", bug.name());
            if caught.is_none() {
                missed.push(bug.name());
            }
        }
        let _ = std::panic::take_hook();
        assert!(missed.is_empty(), "not caught: {missed:?}");
    }
}
