//! The kinds of noise that synthetic studies and probes have, and the one place where it is drawn.

use rand::RngExt;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp1, StandardNormal};

/// What the speed of runs varies by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// Normal, 3 %.
    Normal,
    /// Lognormal, sigma 0.5.
    Lognormal,
    /// Slower by a Pareto variable of index 2.5.
    Pareto,
    /// Normal, and 5 % of the runs 40 % slower.
    SlowRuns,
    /// Normal, and 30 % slower from the first run to the last.
    Drift,
    /// Each run keeps 0.9 of the one before, and so do the windows of a run.
    Autocorrelated,
    /// Normal, three repeats.
    ThreeRepeats,
    /// Normal; each configuration has four to ten runs.
    Unbalanced,
    /// Other programs take 42 % of the processors by the median, now more and now less, and runs are as much slower.
    Busy,
}

impl Noise {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Normal,
        Self::Lognormal,
        Self::Pareto,
        Self::SlowRuns,
        Self::Drift,
        Self::Autocorrelated,
        Self::ThreeRepeats,
        Self::Unbalanced,
        Self::Busy,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Lognormal => "lognormal",
            Self::Pareto => "pareto",
            Self::SlowRuns => "slow-runs",
            Self::Drift => "drift",
            Self::Autocorrelated => "autocorrelated",
            Self::ThreeRepeats => "three-repeats",
            Self::Unbalanced => "unbalanced",
            Self::Busy => "busy",
        }
    }

    /// By how much a run deviates, in logarithms, `spread` times the `sizes`. `remembered` is a normal variable of which each
    /// run keeps 0.9, `drawn` one that is this run's own where it is drawn already.
    pub(super) fn deviation(
        self,
        sizes: &Sizes,
        spread: f64,
        remembered: f64,
        drawn: Option<f64>,
        random: &mut StdRng,
    ) -> Deviation {
        let even = |even: f64| Deviation { even: even * spread, slower: 0.0 };
        let own = |random: &mut StdRng| drawn.unwrap_or_else(|| normal(random));
        match self {
            Self::Lognormal => even(LOGNORMAL * own(random)),
            Self::Pareto => {
                let exponential: f64 = Exp1.sample(random);
                Deviation { even: 0.0, slower: exponential / sizes.pareto_index * spread }
            }
            Self::SlowRuns => {
                let is_slow = random.random::<f64>() < SLOW_RUNS;
                let slower = if is_slow { sizes.slow_run.ln() } else { 0.0 };
                Deviation { slower, ..even(sizes.beside_slow_runs * own(random)) }
            }
            Self::Autocorrelated => even(sizes.remembered * remembered),
            Self::Busy => even(sizes.beside_others * own(random)),
            Self::Normal | Self::Drift | Self::ThreeRepeats | Self::Unbalanced => {
                even(sizes.usual * own(random))
            }
        }
    }
}

/// How large noise is, as standard deviations of logarithms where nothing else is said.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Of normal noise.
    pub(super) usual: f64,
    /// Of what remembers.
    pub(super) remembered: f64,
    /// Of runs that are not slow, where others are.
    pub(super) beside_slow_runs: f64,
    /// The factor by which slow runs take longer.
    pub(super) slow_run: f64,
    /// Of runs beside what others take.
    pub(super) beside_others: f64,
    /// The index of Pareto's distribution.
    pub(super) pareto_index: f64,
}

/// By how much a run deviates, in logarithms.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deviation {
    /// As likely up as down.
    pub(super) even: f64,
    /// Never faster.
    pub(super) slower: f64,
}

/// The share of runs that are slow.
const SLOW_RUNS: f64 = 0.05;
/// The standard deviation of the logarithm of lognormal noise.
const LOGNORMAL: f64 = 0.5;
/// The share of processors that others take on a busy machine, by the median.
pub(super) const FOREIGN: f64 = 0.42;
/// The share by which speed drifts from the first run to the last.
pub(super) const DRIFT: f64 = 0.3;

/// The share of processors that others take on a busy machine, `load` being a normal variable that remembers.
pub(super) fn foreign_share(load: f64) -> f64 {
    (FOREIGN + 0.1 * load).clamp(0.05, 0.9)
}

/// A standard normal variable.
pub(super) fn normal(random: &mut StdRng) -> f64 {
    StandardNormal.sample(random)
}

/// The value after `last`, both standard normal, which keeps 0.9 of it.
pub(super) fn remembering(last: f64, random: &mut StdRng) -> f64 {
    0.9 * last + 0.19_f64.sqrt() * normal(random)
}
