//! An arena outlives a process that is killed between any two of its stores.

use std::env;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use evenkeel_engine::env::Arena;
use evenkeel_host::arena::SharedArena;

/// Set for the process that is to be killed: the arena's path.
const CHILD: &str = "EVENKEEL_TEST_ARENA";

const LEN: usize = 1 << 20;
const SLOTS: u64 = 200;
/// Odd on purpose: the last unit of a slot is a part.
const SLOT_BYTES: usize = 1003;

fn slot(number: u64) -> usize {
    64 + (number % SLOTS) as usize * 1008
}

/// Stores one slot after another, and after each its number: what is numbered is there.
fn store_until_killed(path: &Path) {
    let arena = SharedArena::open(path, LEN).unwrap();
    // The parent reads lines.
    println(&format!("kept {}", arena.is_kept()));
    let mut head = [0; 8];
    arena.load(0, &mut head);
    for number in u64::from_le_bytes(head) + 1.. {
        arena.store(slot(number), &[number as u8; SLOT_BYTES]);
        arena.store(0, &number.to_le_bytes());
    }
}

#[allow(clippy::print_stdout)]
fn println(line: &str) {
    println!("{line}");
}

#[test]
fn what_a_killed_process_stored_is_there_in_the_order_of_its_stores() {
    if let Some(path) = env::var_os(CHILD) {
        return store_until_killed(&PathBuf::from(path));
    }
    let in_folder = tempfile::tempdir_in(".").unwrap();
    let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    for folder in [in_memory, in_folder] {
        let path = folder.path().join("arena");
        let mut before = 0;
        for life in 0..12 {
            let mut child = Command::new(env::current_exe().unwrap())
                .args([
                    "--exact",
                    "what_a_killed_process_stored_is_there_in_the_order_of_its_stores",
                    "--nocapture",
                ])
                .env(CHILD, &path)
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let opened = lines.map(Result::unwrap).find(|line| line.contains("kept")).unwrap();
            assert!(opened.ends_with(&format!("kept {}", life > 0)), "{opened}");
            thread::sleep(Duration::from_micros(500 + life * 137));
            child.kill().unwrap();
            child.wait().unwrap();

            let arena = SharedArena::open(&path, LEN).unwrap();
            assert!(arena.is_kept());
            let mut head = [0; 8];
            arena.load(0, &mut head);
            let newest = u64::from_le_bytes(head);
            assert!(newest >= before);
            before = newest;
            let mut found = [0; SLOT_BYTES];
            for number in newest.saturating_sub(SLOTS - 2).max(1)..=newest {
                arena.load(slot(number), &mut found);
                assert!(found.iter().all(|&byte| byte == number as u8), "slot {number} of {newest}");
            }
            // The next slot holds a prefix of what was being stored, in units of 8, and then what was there.
            arena.load(slot(newest + 1), &mut found);
            let old = if newest >= SLOTS { (newest + 1 - SLOTS) as u8 } else { 0 };
            let arrived = found.iter().take_while(|&&byte| byte == (newest + 1) as u8).count();
            assert!(
                arrived.is_multiple_of(8) || arrived == SLOT_BYTES,
                "{arrived} bytes of slot {}",
                newest + 1
            );
            assert!(found[arrived..].iter().all(|&byte| byte == old));
        }
        assert!(before > 0, "no life stored anything");
    }
}
