//! Seeds of rings in numbers: what no loss of members and log devices may take, together with any cut.

use crate::common_seeds::run_seeds;
use evenkeel_sim::seeds::{Seeded, run};
use evenkeel_sim::testbed::Mirror;

/// How many seeds are run with two cuts; `SEEDS` sets another number.
fn seeds() -> u64 {
    std::env::var("SEEDS").map_or(800, |seeds| seeds.parse().unwrap())
}

#[test]
fn within_the_redundancy_nothing_is_lost_and_beyond_it_nothing_wrong_is_served() {
    let seeds = seeds();
    let total = run_seeds::<Mirror>(0, seeds, 2, None);
    assert!(total.cuts > seeds && total.recoveries > seeds, "{total:?}");
    assert!(total.checkpoints > seeds && total.log_wraps > seeds / 2, "{total:?}");
    // The game is worth playing only if all of these happen in it.
    if seeds >= 800 {
        for (what, count) in total.members.named() {
            assert!(count > 0, "no {what}: {total:?}");
        }
        assert!(total.growths > seeds / 20, "{total:?}");
    }
}

#[test]
fn five_cuts_find_nothing_that_two_do_not() {
    run_seeds::<Mirror>(1_000_000, seeds() * 3 / 20, 5, Some(3));
}

/// A scan that waited at every sector, a log device that kept the others shut, a rebuild that went on with another drive;
/// writes that left memory for a log device that did not count in the end; what an earlier opening had left on a log device
/// that lied; two namings behind an empty log, neither of which was in force; a member that fell silent, whose
/// journal the memory for writes knows of.
#[test]
fn seeds_that_once_broke_a_promise_keep_it() {
    for seed in [712_660, 727_904, 736_829] {
        run_seeds::<Mirror>(seed, 1, 5, Some(3));
    }
    for seed in [2_807, 79_542, 2_048_383, 2_075_971] {
        run_seeds::<Mirror>(seed, 1, 2, None);
    }
}

#[test]
fn the_same_seed_is_the_same_simulation_event_for_event() {
    for seed in 0..40 {
        let first = run(Mirror::draw(seed, 2, None)).map(|outcome| outcome.trace);
        let second = run(Mirror::draw(seed, 2, None)).map(|outcome| outcome.trace);
        assert_eq!(first, second, "seed {seed}");
    }
}
