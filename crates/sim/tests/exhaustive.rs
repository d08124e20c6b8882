//! Every crash of small workloads.

use evenkeel_sim::exhaustive::{Bounds, Tried, run};

#[test]
fn every_crash_of_a_small_workload_is_survived() {
    let states_max: u64 = std::env::var("STATES").map_or(4_000, |states| states.parse().unwrap());
    let mut total = Tried::default();
    for seed in 0..12 {
        match run(seed, Bounds { operations: 24, states_max }) {
            Ok(tried) => {
                total.events += tried.events;
                total.states += tried.states;
                total.recoveries_cut += tried.recoveries_cut;
            }
            Err(violation) => panic!("seed {seed}: {}", violation.what),
        }
    }
    let wanted = (6 * states_max).min(10_000);
    assert!(total.states > wanted && total.recoveries_cut > wanted / 10, "{total:?}");
}
