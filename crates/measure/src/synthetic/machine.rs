//! Storage stacks in virtual time, on a machine whose speed varies in one of the ways of [`Noise`].

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_host::method::Method;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::noise::{DRIFT, FOREIGN, Noise, Sizes, foreign_share, normal};
use crate::probe::settings::Combination;
use crate::probe::target::{Observation, RunOrder, Target, TargetError};

/// How large the noise of its runs is.
const SIZES: Sizes = Sizes {
    usual: 0.05,
    remembered: 0.15,
    beside_slow_runs: 0.02,
    slow_run: 1.4,
    beside_others: 0.03,
    pareto_index: 2.0,
};

/// The machine that stacks share: its clock and its speed.
#[derive(Debug)]
pub(crate) struct Machine {
    noise: Noise,
    now_s: f64,
    random: StdRng,
    level: f64,
    rises: bool,
    /// Runs so far, those of the pilot, and those that follow: drift is by runs.
    made: u32,
    pilot: u32,
    expected: u32,
    foreign: f64,
}

impl Machine {
    /// A machine on which `expected` runs follow `pilot` ones.
    pub(crate) fn new(noise: Noise, seed: u64, pilot: u32, expected: u32) -> Rc<RefCell<Self>> {
        let mut random = StdRng::seed_from_u64(seed);
        let rises = random.random::<bool>();
        let level = normal(&mut random);
        let machine =
            Self { noise, now_s: 0.0, random, level, rises, made: 0, pilot, expected, foreign: 0.0 };
        Rc::new(RefCell::new(machine))
    }

    /// The time on it.
    pub(crate) fn now_s(&self) -> f64 {
        self.now_s
    }

    /// By how much longer the next run takes, as a factor.
    fn factor(&mut self) -> f64 {
        let through = (f64::from(self.made) - f64::from(self.pilot)) / f64::from(self.expected.max(1));
        self.made += 1;
        let random = &mut self.random;
        let own = normal(random);
        self.level = 0.9 * self.level + 0.19_f64.sqrt() * own;
        // What others take follows the level, and a run's own deviation must not.
        let is_busy = self.noise == Noise::Busy;
        self.foreign = if is_busy { foreign_share(self.level) } else { 0.0 };
        let drawn = self.noise.deviation(&SIZES, 1.0, self.level, (!is_busy).then_some(own), random);
        let shared = match self.noise {
            Noise::Drift => (if self.rises { DRIFT } else { -DRIFT }) * (through - 0.5),
            Noise::Busy => -(1.0 - self.foreign).ln(),
            _ => 0.0,
        };
        (drawn.even + drawn.slower + shared).exp()
    }
}

/// The factor that half of the runs stay below.
pub(crate) fn median_factor(noise: Noise) -> f64 {
    match noise {
        Noise::Pareto => 0.5_f64.powf(-1.0 / SIZES.pareto_index),
        Noise::Busy => 1.0 / (1.0 - FOREIGN),
        // 0.526 of the runs that are not slow.
        Noise::SlowRuns => (SIZES.beside_slow_runs * 0.066).exp(),
        _ => 1.0,
    }
}

/// What a write takes, in seconds, by the way it is written and the size of the buffer.
pub(crate) type Cost = Box<dyn Fn(Combination, u64) -> f64>;

/// A stack on such a machine.
pub(crate) struct Synthetic {
    pub(crate) machine: Rc<RefCell<Machine>>,
    pub(crate) cost: Cost,
}

/// In runs long enough for a p99 one of so many writes is slow.
const SLOW_WRITE: u64 = 50;

/// The p99 of such a run over its mean: a slow write takes so long.
pub(crate) const P99_FACTOR: f64 = 3.0;

/// The latencies of a run in nanoseconds, of which `write_s` is the mean.
fn latencies(write_s: f64, writes: u64) -> Vec<u64> {
    let is_slow = |write: u64| writes >= 100 && write % SLOW_WRITE == 7;
    let slow = (0..writes).filter(|&write| is_slow(write)).count() as f64;
    let usual = (writes as f64 - P99_FACTOR * slow) / (writes as f64 - slow);
    let times = |write: u64| if is_slow(write) { P99_FACTOR } else { usual };
    (0..writes).map(|write| (write_s * times(write) * 1e9) as u64).collect()
}

impl Target for Synthetic {
    fn method_for(&self, method: Method, _: u64) -> Method {
        method
    }

    fn prepare(&mut self, _: &[Combination], _: u64) -> Result<(), TargetError> {
        Ok(())
    }

    fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
        let mut machine = self.machine.borrow_mut();
        let write_s = (self.cost)(order.combination, order.buffer_bytes) * machine.factor();
        let elapsed_s = write_s * order.writes as f64;
        let latencies_ns = latencies(write_s, order.writes);
        machine.now_s += elapsed_s + 0.001;
        let mut seen = Observation { elapsed_s, latencies_ns, ..Observation::default() };
        seen.cpu.all_s = 2.0 * elapsed_s;
        seen.cpu.user_s = machine.foreign * seen.cpu.all_s;
        Ok(seen)
    }

    fn now_s(&self) -> f64 {
        self.machine.borrow().now_s
    }

    fn wait_s(&mut self, seconds: f64) {
        self.machine.borrow_mut().now_s += seconds;
    }
}
