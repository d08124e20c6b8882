//! Every crash of small workloads.

use std::io::{Write, stderr};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use evenkeel_sim::exhaustive::{Layout, Tried, run};

/// Crash states to try, at least; `STATES` in the environment sets another number.
const STATES: u64 = 1_000_000;

/// The same on rings.
const RING_STATES: u64 = 40_000;

/// The same on rings with stripes.
const STRIPED_STATES: u64 = 20_000;

/// Of one workload on a ring: some have many.
const RING_STATES_OF_ONE: u64 = 4_000;

const THREADS: usize = 2;

/// How many states are wanted: as many as the environment says, or `unless_told`.
fn wanted(unless_told: u64) -> u64 {
    std::env::var("STATES").map_or(unless_told, |states| states.parse().unwrap())
}

/// Tries one workload after the other, up to so many states of each, until as many as are wanted were tried.
fn try_workloads(layout: Layout, wanted: u64, of_one_max: u64) -> Tried {
    let (next, total) = (AtomicU64::new(0), Mutex::new(Tried::default()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while total.lock().unwrap().states < wanted {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    let tried = run(layout, seed, None, &mut |tried| tried.states < of_one_max);
                    let tried = tried.unwrap_or_else(|broken| {
                        panic!("workload {seed}, state {:?}: {}", broken.state, broken.violation.what)
                    });
                    total.lock().unwrap().add(&tried);
                }
            });
        }
    });
    let total = total.into_inner().unwrap();
    #[allow(
        clippy::explicit_write,
        reason = "what is printed by `eprintln` is shown only where a test fails"
    )]
    writeln!(stderr(), "every crash of small workloads, {layout:?}: {total:?}").unwrap();
    total
}

#[test]
fn every_crash_of_small_workloads_is_survived() {
    let wanted = wanted(STATES);
    let total = try_workloads(Layout::Single, wanted, u64::MAX);
    assert!(total.states >= wanted && total.recovery_states > wanted / 10, "{total:?}");
    // Few of the first workloads have drives that tear sectors.
    assert!(total.torn_states > wanted / 100 || wanted < STATES, "{total:?}");
}

#[test]
fn every_crash_of_small_rings_is_survived_with_any_drives_lost() {
    let wanted = wanted(RING_STATES).min(RING_STATES);
    let total = try_workloads(Layout::Mirror { members: 2 }, wanted, RING_STATES_OF_ONE);
    assert!(total.states >= wanted && total.states_without > wanted / 4, "{total:?}");
    assert!(total.recovery_states > wanted / 10, "{total:?}");
}

#[test]
fn every_crash_of_small_stripes_is_survived_with_any_drives_lost() {
    for (data, parity) in [(2, 1), (2, 2)] {
        let wanted = wanted(STRIPED_STATES).min(RING_STATES);
        let total = try_workloads(Layout::Striped { data, parity }, wanted, RING_STATES_OF_ONE);
        assert!(total.states >= wanted && total.states_without > wanted / 4, "{total:?}");
        assert!(total.recovery_states > wanted / 10, "{total:?}");
    }
}

#[test]
fn a_rebuilt_member_is_named_by_others_only_once_it_says_so_itself() {
    // The log is on the members. While the one that was away joins it again, the other's turn ends.
    let tried = run(Layout::Mirror { members: 2 }, 30, None, &mut |_| true);
    let tried = tried.unwrap_or_else(|broken| panic!("{broken:?}"));
    assert_eq!(tried.workloads, 1, "{tried:?}");
}

#[test]
fn a_state_can_be_tried_again_alone() {
    let tried = run(Layout::Single, 4, Some(3_000), &mut |_| true).unwrap();
    assert_eq!((tried.states, tried.workloads), (1, 1));
    assert!(tried.recovery_states > 0, "its recovery is cut: {tried:?}");
    assert_eq!(run(Layout::Single, 4, Some(3_000), &mut |_| true), Ok(tried));
}
