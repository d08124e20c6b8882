//! What the tests of seeds share.

use evenkeel_sim::seeds::{Outcome, Seeded, run};

/// Runs seeds from `first` on; a failing one is shown with all that it stands for.
pub(crate) fn run_seeds<T: Seeded>(first: u64, count: u64, cuts: u32, members: Option<usize>) -> Outcome {
    let mut total = Outcome::default();
    for seed in first..first + count {
        let setup = T::draw(seed, cuts, members);
        match run(setup) {
            Ok(outcome) => total.add(&outcome),
            Err(violation) => panic!("seed {seed}: {}\n{setup:#?}", violation.what),
        }
    }
    total
}
