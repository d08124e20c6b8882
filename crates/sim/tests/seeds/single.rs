//! Seeds in numbers: what no cut may take, whatever the seed.

use crate::common_seeds::run_seeds;
use evenkeel_sim::seeds::{Seeded, run};
use evenkeel_sim::testbed::Single;

/// How many seeds are run with two cuts; `SEEDS` sets another number.
fn seeds() -> u64 {
    std::env::var("SEEDS").map_or(2_000, |seeds| seeds.parse().unwrap())
}

#[test]
fn no_cut_takes_or_tears_what_was_promised() {
    let seeds = seeds();
    let total = run_seeds::<Single>(0, seeds, 2, None);
    // The game is worth playing only if all of these happen in it, often.
    assert_eq!(total.short, 0, "no seed lacks a cut, an operation, a checkpoint or a wrap: {total:?}");
    assert!(total.cuts >= 2 * seeds && total.operations >= 200 * seeds, "{total:?}");
    assert!(total.recoveries > 2 * seeds, "{total:?}");
    assert!(total.checkpoints > seeds, "{total:?}");
    assert!(total.direct_writes > seeds / 10, "{total:?}");
    assert!(total.log_wraps > 2 * seeds, "{total:?}");
    assert!(total.table_reads > seeds && total.cached_reads > seeds, "{total:?}");
    if seeds >= 2_000 {
        for (fault, count) in total.drives.named() {
            assert!(count > 0, "no {fault}: {total:?}");
        }
    }
}

#[test]
fn five_cuts_find_nothing_that_two_do_not() {
    let seeds = seeds() * 3 / 20;
    let total = run_seeds::<Single>(1_000_000, seeds, 5, None);
    assert!(total.cuts >= 5 * seeds && total.short == 0, "{total:?}");
}

#[test]
fn the_same_seed_is_the_same_simulation_event_for_event() {
    for seed in 0..60 {
        let first = run(Single::draw(seed, 2, None)).map(|outcome| outcome.trace);
        let second = run(Single::draw(seed, 2, None)).map(|outcome| outcome.trace);
        assert_eq!(first, second, "seed {seed}");
    }
    let trace = |seed| run(Single::draw(seed, 2, None)).map(|outcome| outcome.trace);
    assert_ne!(trace(1), trace(2));
}
