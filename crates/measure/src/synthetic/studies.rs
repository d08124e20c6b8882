//! Synthetic studies: noise of a kind, and at most one effect in it.
//!
//! Every configuration has a speed and a spread of its own, which no parameter explains, as real ones do. Conditions of the
//! machine come with every run, drift and remember, and have nothing to do with its throughput unless an effect says so; nor
//! have the latencies of operations, of which one remembers.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp1};

use super::noise::{DRIFT, Noise, Sizes, foreign_share, normal, remembering};
use crate::stats::Steps;
use crate::study::claims::Claim;
use crate::study::data::{Configuration, Extent, Latency, Machine, Run, State, Study, Window};
use crate::study::schedule;

/// What is there to be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    None,
    /// `block_size`, or `atime` where that is the same: each step makes runs 1.6 times as fast and lets them vary 2.5 times as
    /// much.
    Parameter,
    /// Data of ext4 lie elsewhere in each run; at the end of the device throughput is 40 % lower.
    Placement,
    /// A restored image leaves a tenth of the spread.
    Remedy,
    /// `open` takes longer in slow runs, and configurations differ in how much they vary.
    Operation,
    /// Runs at a higher frequency are faster, beside what all runs of that moment share.
    Condition,
}

impl Effect {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::None, Self::Parameter, Self::Placement, Self::Remedy, Self::Operation, Self::Condition];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Parameter => "parameter",
            Self::Placement => "placement",
            Self::Remedy => "remedy",
            Self::Operation => "operation",
            Self::Condition => "condition",
        }
    }
}

/// How large a study is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Two file systems by two settings of `atime`.
    TwoByTwo,
    /// Three file systems, three block sizes and two settings of `atime`; three sets of remedies on two of ext4.
    Larger,
}

impl Plan {
    /// Both.
    pub const ALL: [Self; 2] = [Self::TwoByTwo, Self::Larger];

    /// Whether an effect can be in such a study.
    #[must_use]
    pub fn can_have(self, effect: Effect) -> bool {
        self == Self::Larger || effect != Effect::Remedy
    }

    /// The parameter that makes a difference where one does, and its values.
    fn parameter(self) -> (&'static str, &'static [&'static str]) {
        match self {
            Self::TwoByTwo => ("atime", &ATIMES),
            Self::Larger => ("block_size", &BLOCK_SIZES),
        }
    }
}

/// A synthetic study, by what is in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Synthetic {
    /// Its noise.
    pub noise: Noise,
    /// Its effect.
    pub effect: Effect,
    /// Its size.
    pub plan: Plan,
    /// Runs of each configuration under each workload, where not as many as its noise says.
    pub repeats: Option<u32>,
    /// Of everything random.
    pub seed: u64,
}

/// The spread of normal noise, in logarithms.
const SPREAD: f64 = 0.03;
/// Noise of a configuration of usual spread.
const SIZES: Sizes = Sizes {
    usual: SPREAD,
    remembered: 2.0 * SPREAD,
    beside_slow_runs: SPREAD,
    // At 0.6 of the speed.
    slow_run: 1.0 / 0.6,
    beside_others: SPREAD,
    pareto_index: 2.5,
};
const WORKLOADS: [&str; 2] = ["mailserver", "webserver"];
const OPERATIONS: [(&str, f64); 4] = [("fsync", 4e-3), ("open", 2e-5), ("read", 3e-4), ("write", 8e-5)];
/// The operation whose latency in a run keeps 0.9 of that in the run before, whatever throughput does.
const REMEMBERS: &str = "read";
/// Operations of a kind in a run.
const OPERATIONS_EACH: usize = 30;
const WINDOWS: usize = 24;
const DEVICE_BYTES: u64 = 1 << 30;
const DATA_BYTES: u64 = 64 << 20;
/// What reads most from the device, and the remedy that lays its data out alike.
const WANDERING: &str = "ext4";
const RESTORED: &str = "unmount+restore_image";
const ATIMES: [&str; 2] = ["relatime", "noatime"];
const BLOCK_SIZES: [&str; 3] = ["1k", "2k", "4k"];
const REMEDIES: [&str; 3] = ["none", "unmount", RESTORED];

impl Synthetic {
    /// The study.
    #[must_use]
    pub fn study(&self) -> Study {
        let mut random = StdRng::seed_from_u64(self.seed);
        let configurations = self.configurations();
        let repeats = self.repeats();
        let order = schedule::order(configurations.len(), WORKLOADS.len(), repeats, self.seed);
        let differing = if self.effect == Effect::Operation { 0.8 } else { 0.3 };
        let own: Vec<[f64; 2]> = (0..configurations.len() * WORKLOADS.len())
            .map(|_| [0.1 * normal(&mut random), (differing * normal(&mut random)).exp()])
            .collect();
        // What differs in remedies alone is alike but for them.
        let alike = |at: usize| {
            let settings = |at: usize| {
                let all = &configurations[at].settings;
                all.iter().filter(|(factor, _)| factor != "remedies").collect::<Vec<_>>()
            };
            (0..=at).find(|&other| settings(other) == settings(at)).unwrap_or(at)
        };
        let alike: Vec<usize> = (0..configurations.len()).map(alike).collect();
        let kept: Vec<u32> = own.iter().map(|_| random.random_range(4..=10)).collect();
        let mut machine = Conditions::default();
        let mut wanders_by = StdRng::seed_from_u64(!self.seed);
        let (mut memory, mut wander, length) = (0.0, 0.0, order.len() as f64);
        let mut runs = Vec::with_capacity(order.len());
        for (place, planned) in order.iter().enumerate() {
            let configuration = &configurations[planned.configuration];
            let at = planned.configuration * WORKLOADS.len() + planned.workload;
            let [speed, mut spread] = own[alike[planned.configuration] * WORKLOADS.len() + planned.workload];
            let (parameter, values) = self.plan.parameter();
            let step = values.iter().position(|value| configuration.setting(parameter) == Some(value));
            let steps = step.filter(|_| self.effect == Effect::Parameter).unwrap_or(0) as f64;
            let is_restored = configuration.setting("remedies") == Some(RESTORED);
            spread *= 2.5_f64.powf(steps);
            if self.effect == Effect::Remedy && is_restored {
                spread *= 0.1;
            }
            let through = place as f64 / length;
            machine.next(through, self.noise == Noise::Busy, &mut random);
            memory = remembering(memory, &mut random);
            wander = remembering(wander, &mut wanders_by);
            // What all runs of that moment share.
            let shared = match self.noise {
                Noise::Drift => (1.0 - DRIFT * through).ln(),
                Noise::Busy => (1.0 - machine.foreign).ln(),
                _ => 0.0,
            };
            let drawn = self.noise.deviation(&SIZES, spread, memory, None, &mut random);
            let own_deviation = drawn.even - drawn.slower;
            let deviation = own_deviation + shared;
            let wanders = configuration.setting("file_system") == Some(WANDERING) && !is_restored;
            let lies = if wanders { random.random::<f64>() } else { 0.0 };
            let placed = if self.effect == Effect::Placement { (1.0 - 0.4 * lies).ln() } else { 0.0 };
            let rate = (7.0 + speed + 1.6_f64.ln() * steps + deviation + placed).exp();
            let is_dropped = self.noise == Noise::Unbalanced && planned.repeat >= kept[at];
            runs.push(Run {
                configuration: planned.configuration,
                workload: WORKLOADS[planned.workload].to_owned(),
                repeat: planned.repeat.into(),
                place: place as i64,
                state: if is_dropped { State::Failed } else { State::Done },
                machine: Some(0),
                duration_s: Some(WINDOWS as f64),
                operations_per_s: Some(rate),
                conditions: machine.of_run(own_deviation / spread, self.effect, &mut random),
                windows: self.windows(rate, &mut random),
                latencies: self.latencies(deviation, wander, &mut random),
                extents: extents(lies),
                ..Run::default()
            });
        }
        Study {
            name: "synthetic".to_owned(),
            interval_s: 1.0,
            machines: vec![Machine { name: "none".to_owned(), cpus: 2, ..Machine::default() }],
            configurations,
            runs,
            ..Study::default()
        }
    }

    /// Runs of each configuration under each workload.
    #[must_use]
    pub fn repeats(&self) -> u32 {
        self.repeats.unwrap_or(if self.noise == Noise::ThreeRepeats { 3 } else { 10 })
    }

    fn configurations(&self) -> Vec<Configuration> {
        let mut all = Vec::new();
        let mut add = |settings: &[(&str, &str)]| {
            let values: Vec<&str> = settings.iter().map(|(_, value)| *value).collect();
            let own = |(factor, value): &(&str, &str)| ((*factor).to_owned(), (*value).to_owned());
            all.push(Configuration { label: values.join("-"), settings: settings.iter().map(own).collect() });
        };
        match self.plan {
            Plan::TwoByTwo => {
                for file_system in [WANDERING, "xfs"] {
                    for atime in ATIMES {
                        add(&[("file_system", file_system), ("atime", atime)]);
                    }
                }
            }
            Plan::Larger => {
                for file_system in [WANDERING, "xfs", "btrfs"] {
                    for block_size in BLOCK_SIZES {
                        for atime in ATIMES {
                            add(&[
                                ("file_system", file_system),
                                ("block_size", block_size),
                                ("atime", atime),
                            ]);
                        }
                    }
                }
                for block_size in ["1k", "2k"] {
                    for remedies in REMEDIES {
                        let rest = [("atime", "nodiratime"), ("remedies", remedies)];
                        add(&[[("file_system", WANDERING), ("block_size", block_size)], rest].concat());
                    }
                }
            }
        }
        all
    }

    fn windows(&self, rate: f64, random: &mut StdRng) -> Vec<Window> {
        let keeps: f64 = if self.noise == Noise::Autocorrelated { 0.9 } else { 0.0 };
        let mut last = normal(random);
        let mut window = |at: usize| {
            last = keeps * last + (1.0 - keeps * keeps).sqrt() * normal(random);
            let operations = (rate * (1.0 + 0.1 * last)).max(0.0) as u64;
            Window { start_s: at as f64, length_s: 1.0, operations }
        };
        (0..WINDOWS).map(&mut window).collect()
    }

    fn latencies(&self, deviation: f64, wander: f64, random: &mut StdRng) -> Vec<Latency> {
        let mut latency = |(operation, typical_s): (&str, f64)| {
            let follows = self.effect == Effect::Operation && operation == "open";
            let slower = match operation {
                _ if follows => -8.0 * deviation,
                REMEMBERS => 0.3 * wander,
                _ => 0.0,
            };
            let times_s: Vec<f64> =
                (0..OPERATIONS_EACH).map(|_| typical_s * (slower + 0.7 * normal(random)).exp()).collect();
            Latency {
                operation: operation.to_owned(),
                operations: OPERATIONS_EACH as u64,
                mean_s: times_s.iter().sum::<f64>() / OPERATIONS_EACH as f64,
                steps: Steps::of_values(&times_s),
            }
        };
        OPERATIONS.into_iter().map(&mut latency).collect()
    }

    /// Whether something that a page claims is so.
    #[must_use]
    pub fn is_true(&self, claim: &Claim) -> bool {
        let is = |effect: Effect| self.effect == effect;
        match claim {
            Claim::Explains { parameters, .. } => {
                let of = |names: &[&str]| parameters.iter().any(|name| names.contains(&name.as_str()));
                let explain: &[&str] = match self.effect {
                    Effect::Parameter => &[self.plan.parameter().0],
                    Effect::Placement => &["file_system", "remedies"],
                    Effect::Remedy => &["remedies"],
                    Effect::None | Effect::Operation | Effect::Condition => &[],
                };
                // Two together only where both do something: effects here do not depend on one another.
                of(explain) && (parameters.len() == 1 || is(Effect::Placement))
            }
            Claim::Condition { condition, slower } => match condition.as_str() {
                "data_place_bytes" => is(Effect::Placement) && *slower,
                "frequency_hz" => is(Effect::Condition) && !slower,
                "foreign_cpu_share" => self.noise == Noise::Busy && *slower,
                _ => false,
            },
            Claim::Remedies { remedies } => {
                (is(Effect::Remedy) || is(Effect::Placement)) && remedies == RESTORED
            }
            Claim::Operation { operation, .. } => is(Effect::Operation) && operation == "open",
            Claim::Order { alike } => {
                *alike && matches!(self.noise, Noise::Drift | Noise::Autocorrelated | Noise::Busy)
            }
            Claim::Outliers { .. } => matches!(self.noise, Noise::Pareto | Noise::SlowRuns | Noise::Busy),
            Claim::LevelsChange | Claim::WarmUp => false,
            Claim::WindowsAlike => self.noise == Noise::Autocorrelated,
        }
    }

    /// Whether a claim is the one to find.
    #[must_use]
    pub fn is_wanted(&self, claim: &Claim) -> bool {
        let kind = match self.effect {
            Effect::None => false,
            Effect::Parameter => matches!(claim, Claim::Explains { workload: None, .. }),
            Effect::Placement | Effect::Condition => {
                matches!(claim, Claim::Condition { condition, .. } if condition != "foreign_cpu_share")
            }
            Effect::Remedy => matches!(claim, Claim::Remedies { .. }),
            Effect::Operation => matches!(claim, Claim::Operation { .. }),
        };
        kind && self.is_true(claim)
    }
}

/// The extents of a data set that begins at this share of the device.
fn extents(lies: f64) -> Vec<Extent> {
    let begin = ((DEVICE_BYTES - DATA_BYTES) as f64 * lies) as u64 & !4095;
    let length_bytes = DATA_BYTES / 4;
    let extent = |at: u64| Extent { physical_bytes: begin + at * length_bytes, length_bytes };
    (0..4).map(extent).collect()
}

/// What the machine is like, from run to run.
#[derive(Debug, Default)]
struct Conditions {
    foreign: f64,
    load: f64,
    temperature: f64,
    free: f64,
}

impl Conditions {
    fn next(&mut self, through: f64, is_busy: bool, random: &mut StdRng) {
        self.load = 0.9 * self.load + 0.44 * normal(random);
        self.temperature = 0.97 * self.temperature + 0.24 * normal(random);
        self.free = 4e9 * (1.0 - 0.5 * through + 0.02 * normal(random));
        let skewed: f64 = Exp1.sample(random);
        self.foreign = match is_busy {
            true => foreign_share(self.load),
            false => (0.003 * skewed).min(1.0),
        };
    }

    fn of_run(&self, deviates: f64, effect: Effect, random: &mut StdRng) -> Vec<(String, f64)> {
        let follows = if effect == Effect::Condition { deviates / SPREAD } else { normal(random) };
        let frequency = 2e9 * (1.0 + 0.02 * (follows + 0.5 * normal(random)).clamp(-3.0, 3.0));
        let rare = random.random::<f64>() < 0.1;
        let all = [
            ("foreign_cpu_share", self.foreign),
            ("steal_share", if rare { 0.01 * random.random::<f64>() } else { 0.0 }),
            ("load_1m", 3.0 + 0.3 * random.random::<f64>() + 0.1 * self.temperature),
            ("temperature_c", 45.0 + 4.0 * self.temperature),
            ("free_memory_bytes", self.free),
            ("frequency_hz", frequency),
            ("preparation_s", 0.4 + 0.05 * normal(random).abs()),
        ];
        all.map(|(name, value)| (name.to_owned(), value)).to_vec()
    }
}
