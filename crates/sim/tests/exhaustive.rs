//! Every crash of small workloads.

use std::io::{Write, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use evenkeel_sim::exhaustive::{Tried, run};

/// Crash states to try, at least; `STATES` in the environment sets another number.
const STATES: u64 = 1_000_000;

const THREADS: usize = 2;

#[test]
fn every_crash_of_small_workloads_is_survived() {
    let wanted: u64 = std::env::var("STATES").map_or(STATES, |states| states.parse().unwrap());
    let (next, total) = (AtomicU64::new(0), Mutex::new(Tried::default()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while total.lock().unwrap().states < wanted {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let tried = run(seed, None, |_| true).unwrap_or_else(|broken| {
                        panic!("workload {seed}, state {:?}: {}", broken.state, broken.violation.what)
                    });
                    total.lock().unwrap().add(&tried);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    // Not by `println`, which is shown only where a test fails.
    writeln!(stderr(), "every crash of small workloads: {total:?}").unwrap();
    assert!(total.states >= wanted && total.recovery_states > wanted / 10, "{total:?}");
    // Few of the first workloads have drives that tear sectors.
    assert!(total.torn_states > wanted / 100 || wanted < STATES, "{total:?}");
}

#[test]
fn a_state_can_be_tried_again_alone() {
    let tried = run(4, Some(3_000), |_| true).unwrap();
    assert_eq!((tried.states, tried.workloads), (1, 1));
    assert!(tried.recovery_states > 0, "its recovery is cut: {tried:?}");
    assert_eq!(run(4, Some(3_000), |_| true), Ok(tried));
}
