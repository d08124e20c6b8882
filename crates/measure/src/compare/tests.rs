//! What comparisons claim of stacks in virtual time that differ or do not, measured by the probe's own session.
//!
//! The rates are those that the module promises. The larger numbers behind them are printed by
//! `cargo test -p evenkeel-measure --release compare -- --ignored --nocapture`.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::{FileState, Method};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal, Normal, Pareto};

use super::*;
use crate::probe::report::ProbeReport;
use crate::probe::run_together;
use crate::probe::settings::{Combination, Settings};
use crate::probe::target::{Observation, RunOrder, Target, TargetError};
use crate::probe::tests::{Nobody, PLAIN, honest_disk};

/// How the machine under all stacks varies.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Noise {
    /// Each run by 5 %.
    Normal,
    /// Each run by a lognormal factor of sigma 0.5.
    Lognormal,
    /// Each run by a Pareto factor of shape 2.
    Pareto,
    /// 5 % of runs 40 % slower, the rest by 2 %.
    SlowRuns,
    /// By 30 % over a session, up or down, each run by 5 %.
    Drift,
    /// Runs that hang together by 0.9, each in all by 15 %.
    Autocorrelated,
    /// As a rented machine: a level that wanders by 30 %, runs by 5 %, 5 % of them 40 % slower.
    Realistic,
}

impl Noise {
    const ALL: [Self; 7] = [
        Self::Normal,
        Self::Lognormal,
        Self::Pareto,
        Self::SlowRuns,
        Self::Drift,
        Self::Autocorrelated,
        Self::Realistic,
    ];
}

/// The machine that stacks share: its clock and its moods.
struct Machine {
    now_s: f64,
    noise: Noise,
    random: StdRng,
    level: f64,
    slope_per_s: f64,
}

impl Machine {
    fn new(noise: Noise, seed: u64) -> Rc<RefCell<Self>> {
        let mut random = StdRng::seed_from_u64(seed);
        let slope_per_s =
            if random.random::<bool>() { 0.3_f64.ln_1p() } else { -(0.3_f64.ln_1p()) } / SESSION_S;
        Rc::new(RefCell::new(Self { now_s: 0.0, noise, random, level: 0.0, slope_per_s }))
    }

    /// How much longer this run takes, as a factor.
    fn factor(&mut self) -> f64 {
        let random = &mut self.random;
        let normal =
            |random: &mut StdRng, deviation: f64| Normal::new(0.0, deviation).unwrap().sample(random);
        match self.noise {
            Noise::Normal => 1.0 + normal(random, 0.05).clamp(-0.5, 0.5),
            Noise::Lognormal => LogNormal::new(0.0, 0.5).unwrap().sample(random),
            Noise::Pareto => Pareto::new(1.0, 2.0).unwrap().sample(random),
            Noise::SlowRuns => slow(random) * normal(random, 0.02).exp(),
            Noise::Drift => (self.slope_per_s * self.now_s + normal(random, 0.05)).exp(),
            Noise::Autocorrelated => {
                self.level = 0.9 * self.level + normal(random, 0.15 * (1.0 - 0.81_f64).sqrt());
                self.level.exp()
            }
            Noise::Realistic => {
                // Slower than the runs: half of it is new after some twenty of them.
                self.level = 0.97 * self.level + normal(random, 0.12 * (1.0 - 0.97_f64.powi(2)).sqrt());
                slow(random) * (self.level + normal(random, 0.05)).exp()
            }
        }
    }
}

fn slow(random: &mut StdRng) -> f64 {
    if random.random::<f64>() < 0.05 { 1.4 } else { 1.0 }
}

/// About what a session of the sizes below takes.
const SESSION_S: f64 = 60.0;

/// A stack on such a machine, slower than others by a factor.
struct Stack {
    machine: Rc<RefCell<Machine>>,
    slower: f64,
    steal: bool,
}

impl Target for Stack {
    fn method_for(&self, method: Method, _: u64) -> Method {
        method
    }

    fn prepare(&mut self, _: &[Combination], _: u64) -> Result<(), TargetError> {
        Ok(())
    }

    fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
        let mut machine = self.machine.borrow_mut();
        let write_s = (2e-3 + order.buffer_bytes as f64 / 100e6) * self.slower * machine.factor();
        let elapsed_s = write_s * order.writes as f64;
        machine.now_s += elapsed_s + 0.001;
        // Every fiftieth write takes three times as long.
        let latency_ns = |write: u64| (write_s * if write % 50 == 7 { 3e9 } else { 1e9 }) as u64;
        let mut seen = Observation { elapsed_s, ..Observation::default() };
        seen.latencies_ns = (0..order.writes).map(latency_ns).collect();
        seen.cpu.all_s = elapsed_s;
        seen.cpu.steal_s = if self.steal { elapsed_s } else { 0.0 };
        Ok(seen)
    }

    fn now_s(&self) -> f64 {
        self.machine.borrow().now_s
    }

    fn wait_s(&mut self, seconds: f64) {
        self.machine.borrow_mut().now_s += seconds;
    }
}

fn settings(runs: u32, seed: u64) -> Settings {
    Settings {
        buffer_sizes: vec![64 << 10, 128 << 10, 512 << 10, 1 << 20],
        runs,
        seed,
        ..Settings::paper(PLAIN)
    }
}

fn measured(settings: &Settings, machine: &Rc<RefCell<Machine>>, slower: &[f64]) -> Vec<ProbeReport> {
    let stack = |&slower: &f64| Stack { machine: Rc::clone(machine), slower, steal: false };
    let mut stacks: Vec<Stack> = slower.iter().map(stack).collect();
    let disks = slower.iter().map(|_| honest_disk()).collect();
    run_together(settings, &mut stacks, disks, &Interrupt::default(), &mut Nobody).unwrap()
}

fn labelled(reports: &[ProbeReport]) -> Vec<Labelled<'_>> {
    reports.iter().zip('a'..).map(|(report, name)| (name.to_string(), report)).collect()
}

/// Two stacks in alternating runs, the second slower by a factor.
fn pair(noise: Noise, seed: u64, runs: u32, slower: f64) -> Comparisons {
    let reports = measured(&settings(runs, seed), &Machine::new(noise, seed), &[1.0, slower]);
    compare_pairs(&labelled(&reports))
}

/// Two probes one after the other, each of so many sessions.
fn two_probes(noise: Noise, seed: u64, sessions: u32, slower: f64) -> Comparisons {
    let machine = Machine::new(noise, seed);
    let settings = Settings { sessions, every_s: 600.0, ..settings(10, seed) };
    let mut reports = measured(&settings, &machine, &[1.0]);
    // At another time the machine is in another mood, as one run differs from another.
    if noise != Noise::Drift {
        machine.borrow_mut().now_s += 600.0;
    }
    let started_unix_s = machine.borrow().now_s as u64;
    reports[0].started_unix_s = 0;
    let second = measured(&settings, &machine, &[slower]);
    reports.extend(second.into_iter().map(|report| ProbeReport { started_unix_s, ..report }));
    compare_sessions(&labelled(&reports), &Options::default()).unwrap()
}

fn claims(found: &Comparisons) -> bool {
    let verdicts = || found.comparisons.iter().flat_map(Comparison::judged).map(|(_, judged)| judged.verdict);
    let claims = verdicts().any(|verdict| matches!(verdict, Verdict::Faster | Verdict::Slower));
    // The words claim what the verdicts do, and nothing else.
    let says = found.comparisons.iter().any(|comparison| {
        let overall = &comparison.overall;
        overall.contains("differ: ")
            || overall.contains(" is faster ")
            || overall.contains(" is slower ")
            || overall.contains("its p99 is")
    });
    assert_eq!(claims, says, "{:?}", found.comparisons[0].overall);
    claims
}

/// Documents of so many that claim something.
fn count(pages: u64, of: impl Fn(u64) -> Comparisons) -> u64 {
    (0..pages).filter(|&seed| claims(&of(seed))).count() as u64
}

#[test]
fn two_hundred_pairs_of_one_stack_on_a_drifting_machine_are_not_told_apart() {
    // 1 in 100 allowed: more than 6 of 200 would happen once in 200 times.
    let wrong = count(200, |seed| pair(Noise::Realistic, seed, 12, 1.0));
    assert!(wrong <= 6, "{wrong} of 200");
}

#[test]
fn pairs_of_one_stack_are_not_told_apart_in_any_noise() {
    for noise in Noise::ALL {
        for runs in [3, 15] {
            let wrong = count(30, |seed| pair(noise, 1000 + seed, runs, 1.0));
            assert!(wrong <= 2, "{noise:?}, {runs} runs: {wrong} of 30");
        }
    }
}

#[test]
fn a_tenth_is_found_in_thirty_pairs() {
    for noise in [Noise::Normal, Noise::SlowRuns, Noise::Drift, Noise::Realistic] {
        let found = count(20, |seed| pair(noise, 2000 + seed, 30, 1.1));
        assert!(found >= 19, "{noise:?}: {found} of 20");
    }
    let found = pair(Noise::Realistic, 7, 30, 1.1);
    assert_eq!(found.comparisons[0].throughout.verdict, Verdict::Slower);
    let ratio = found.comparisons[0].throughout.ratio;
    assert!((ratio - 1.0 / 1.1).abs() < 0.03, "{ratio}");
    assert!(found.slower_by(0.05).unwrap().starts_with("b is slower than a: over all sizes it has 0.9"));
    assert_eq!(found.slower_by(0.3), None);
}

#[test]
fn a_difference_below_half_a_percent_is_none_however_many_pairs_show_it() {
    let found = pair(Noise::Normal, 3, 2000, 1.0035);
    let [low, high] = found.comparisons[0].throughout.interval.unwrap();
    assert!(high < 1.0, "{low} to {high}");
    assert!(!claims(&found));
    assert!(claims(&pair(Noise::Normal, 3, 2000, 1.02)));
}

#[test]
fn sessions_of_one_stack_are_not_told_apart_in_any_noise() {
    for noise in Noise::ALL {
        let wrong = count(40, |seed| two_probes(noise, 3000 + seed, 1, 1.0));
        assert!(wrong <= 4, "{noise:?}: {wrong} of 40");
    }
    // Where sessions were repeated, their own spread decides.
    for noise in [Noise::Normal, Noise::Lognormal, Noise::SlowRuns, Noise::Realistic] {
        let wrong = count(20, |seed| two_probes(noise, 4000 + seed, 4, 1.0));
        assert!(wrong <= 3, "{noise:?}, repeated: {wrong} of 20");
    }
}

#[test]
fn twice_as_slow_is_found_between_two_sessions_and_named_so() {
    let found = two_probes(Noise::Realistic, 5, 1, 2.5);
    let overall = &found.comparisons[0].overall;
    assert!(
        overall.starts_with("these two sessions differ: b is slower than a at 4 of 4 sizes"),
        "{overall}"
    );
    assert_eq!(found.drift, Some(DRIFT));
    // A fifth of a steady stack is within what sessions may differ by, until they were repeated.
    assert!(!claims(&two_probes(Noise::Normal, 5, 1, 1.2)));
    let repeated = two_probes(Noise::Normal, 5, 5, 1.2);
    assert!(claims(&repeated));
    assert_eq!((repeated.drift, repeated.comparisons[0].sessions), (None, [5, 5]));
}

#[test]
fn a_stated_drift_widens_what_repeated_sessions_show() {
    let reports = |slower: f64| {
        let settings = Settings { sessions: 5, every_s: 600.0, ..settings(10, 1) };
        measured(&settings, &Machine::new(Noise::Normal, 1), &[slower]).remove(0)
    };
    let (a, b) = (reports(1.0), reports(1.2));
    let both = [("a".to_owned(), &a), ("b".to_owned(), &b)];
    let with = |drift| compare_sessions(&both, &Options { drift, ..Options::default() }).unwrap();
    assert!(claims(&with(None)));
    assert!(!claims(&with(Some(0.5))));
}

#[test]
fn nothing_is_claimed_of_a_session_of_which_most_runs_were_disturbed() {
    let probe = |slower: f64, steal: bool| {
        let machine = Machine::new(Noise::Normal, 3);
        let mut stack = Stack { machine, slower, steal };
        crate::probe::run(&settings(10, 3), &mut stack, honest_disk(), &Interrupt::default(), &mut Nobody)
            .unwrap()
    };
    let (quiet, busy) = (probe(1.0, false), probe(18.0, true));
    let both = [("a".to_owned(), &quiet), ("b".to_owned(), &busy)];
    let found = compare_sessions(&both, &Options::default()).unwrap();
    assert!(!claims(&found));
    assert!(found.withheld().unwrap().starts_with("100 % of the runs of b were disturbed"), "{found:?}");
    assert!(found.comparisons[0].overall.starts_with("no verdict on a and b: "));
    assert!(found.comparisons[0].judged().all(|(_, judged)| judged.verdict == Verdict::Withheld));
    assert_eq!(found.slower_by(0.1), None);
}

#[test]
fn other_methods_are_compared_and_named() {
    let a = measured(&settings(12, 1), &Machine::new(Noise::Normal, 1), &[1.0]).remove(0);
    let mut b = ProbeReport { method: Method::Fsync, file_state: FileState::Written, ..a.clone() };
    let both = [("a".to_owned(), &a), ("b".to_owned(), &b)];
    let found = compare_sessions(&both, &Options::default()).unwrap();
    assert_eq!(found.comparisons[0].unlike, ["direct-dsync and fsync", "files that are fresh and written"]);
    assert!(found.comparisons[0].overall.contains("(measured in unlike ways: direct-dsync and fsync"));
    assert_eq!(comparisons_csv(&found).unwrap().lines().count(), 1 + 4);

    b.writers = 2;
    let refused = |b: &ProbeReport, options: &Options| {
        compare_sessions(&[("a".to_owned(), &a), ("b".to_owned(), b)], options).unwrap_err().to_string()
    };
    assert!(refused(&b, &Options::default()).starts_with("the number of writers differs: 1 and 2"));
    let mut fewer = a.clone();
    fewer.points.remove(0);
    assert!(refused(&fewer, &Options::default()).starts_with("the buffer sizes differ"));
    let common = Options { common_sizes: true, ..Options::default() };
    let both = [("a".to_owned(), &a), ("b".to_owned(), &fewer)];
    assert_eq!(compare_sessions(&both, &common).unwrap().comparisons[0].points.len(), 3);
    fewer.points.clear();
    assert!(refused(&fewer, &common).ends_with("no buffer size in common"));
}

#[test]
fn three_places_share_the_error_rate_of_two() {
    let reports = measured(&settings(20, 2), &Machine::new(Noise::Realistic, 2), &[1.0, 1.0, 1.5]);
    let found = compare_pairs(&labelled(&reports));
    assert_eq!(found.comparisons.len(), 2);
    // All sizes together, and each by throughput; 64 and 128 KiB also have a p99.
    assert_eq!(found.judged, 2 * (1 + 4 + 2));
    assert!(
        found.comparisons[0]
            .overall
            .starts_with("no difference of half a percent or more between a and b is")
    );
    assert_eq!(found.comparisons[1].throughout.verdict, Verdict::Slower);
    assert!(found.comparisons[1].points[0].p99.is_some_and(|p99| p99.verdict == Verdict::Slower));
}

#[test]
#[ignore = "takes minutes; prints the rates that the documentation gives"]
fn rates_over_a_thousand_documents() {
    for noise in Noise::ALL {
        let pairs = count(1000, |seed| pair(noise, seed, 30, 1.0));
        let few = count(1000, |seed| pair(noise, seed, 3, 1.0));
        let found = count(200, |seed| pair(noise, 10_000 + seed, 30, 1.1));
        let sessions = count(1000, |seed| two_probes(noise, seed, 1, 1.0));
        let repeated = count(300, |seed| two_probes(noise, seed, 4, 1.0));
        #[allow(clippy::print_stdout)]
        {
            println!(
                "{noise:?}: false of 1000 pairs {pairs}, of 3 runs {few}; a tenth found in {found} of 200; false of \
                 1000 sessions {sessions}, of 300 repeated {repeated}"
            );
        }
    }
}
