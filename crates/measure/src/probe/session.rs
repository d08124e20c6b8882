//! The order of the measuring: a pilot of every point, rounds of all points in shuffled order, and repeats
//! of what was disturbed.
//!
//! 1. A round holds each unfinished point once, shuffled: a drift of the machine meets all sizes alike.
//! 2. The pilot's runs estimate costs and warm the stack up; they never count.
//! 3. Once the time is over no further run begins. The repeats end with it too.

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::Method;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;

use super::budget::{Allotment, Cost, allot};
use super::disturbance;
use super::report::MatrixSkip;
use super::settings::{Combination, Settings, short_run_writes};
use super::target::{Observation, RunOrder, Target, TargetError};
use crate::stats;

/// With a precision asked for, a point may take up to this many times the runs asked for.
const RUNS_FACTOR_MAX: u32 = 4;

/// With a precision asked for, a point takes at least this many runs: fewer could be narrow by luck.
const RUNS_MIN_FOR_PRECISION: u32 = 10;

/// Disturbed runs are repeated in at most this share of the runs asked for.
const REPEATS_DIVISOR: u32 = 3;

/// Where a pilot says that the time is short, it is repeated up to this many times ...
const SECOND_LOOKS: u32 = 2;

/// ... while at least this share of the time is left.
const SECOND_LOOK_SHARE: f64 = 0.9;

/// Where a probe stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// What is being done.
    pub stage: Stage,
    /// Runs made in this stage.
    pub done: u32,
    /// Runs expected in this stage.
    pub expected: u32,
    /// Seconds left, by the pilot's estimate and the pace since.
    pub left_s: f64,
    /// The buffer being written.
    pub buffer_bytes: u64,
}

/// Parts of a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// A short look at every point.
    Pilot,
    /// The runs that count.
    Rounds,
    /// Disturbed runs again.
    Repeats,
}

/// Somebody who wants to know where a probe stands.
pub trait Observer {
    /// A run is about to begin.
    fn progress(&mut self, progress: Progress);
}

/// What a session brought home.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) points: Vec<PointRuns>,
    pub(super) skipped: Vec<MatrixSkip>,
    /// Bytes per second that others moved on the device before the first run.
    pub(super) background_bytes_per_s: Option<f64>,
}

/// All runs of one combination at one size.
#[derive(Debug)]
pub(super) struct PointRuns {
    pub(super) combination: Combination,
    /// What was really used for `combination.method`.
    pub(super) method: Method,
    pub(super) buffer_bytes: u64,
    pub(super) allotment: Allotment,
    /// Runs made before any was repeated: so many count.
    pub(super) wanted: usize,
    /// In the order measured.
    pub(super) runs: Vec<Run>,
}

/// One run that may count.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) order: u32,
    pub(super) started_s: f64,
    pub(super) user_bytes: u64,
    pub(super) observation: Observation,
    pub(super) disturbance: Option<String>,
}

impl Run {
    pub(super) fn throughput_bytes_per_s(&self) -> f64 {
        self.user_bytes as f64 / self.observation.elapsed_s.max(1e-9)
    }

    pub(super) fn latency_s(&self) -> f64 {
        let latencies = &self.observation.latencies_ns;
        latencies.iter().map(|&ns| ns as f64).sum::<f64>() / latencies.len().max(1) as f64 * 1e-9
    }
}

impl PointRuns {
    /// Whether the point has what it needs, by count or by precision.
    fn is_done(&self, precision: Option<f64>) -> bool {
        let made = self.runs.len() as u32;
        let Some(precision) = precision else {
            return made >= self.allotment.runs;
        };
        if made < RUNS_MIN_FOR_PRECISION.min(self.allotment.runs) {
            return false;
        }
        made >= self.allotment.runs * RUNS_FACTOR_MAX || self.is_precise(precision)
    }

    pub(super) fn is_precise(&self, precision: f64) -> bool {
        let clean = self.runs.iter().filter(|run| run.disturbance.is_none());
        let mut throughputs: Vec<f64> = clean.map(Run::throughput_bytes_per_s).collect();
        if throughputs.len() < self.runs.len() / 2 {
            // On a machine that is never quiet, all of them must do.
            throughputs = self.runs.iter().map(Run::throughput_bytes_per_s).collect();
        }
        let mean = throughputs.iter().sum::<f64>() / throughputs.len() as f64;
        stats::t_half_width(&throughputs).is_some_and(|half_width| half_width <= precision * mean)
    }
}

pub(super) fn measure<T: Target>(
    settings: &Settings,
    target: &mut T,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Measured, TargetError> {
    let started_s = target.now_s();
    let background_bytes_per_s = target.background_bytes_per_s();
    let mut session = Session {
        settings,
        target,
        interrupt,
        observer,
        order: StdRng::seed_from_u64(settings.seed),
        started_s,
        runs_made: 0,
        points: Vec::new(),
        costs: Vec::new(),
        skipped: Vec::new(),
        out_of_time: false,
    };
    session.pilot()?;
    session.look_again()?;
    session.allot()?;
    session.rounds()?;
    if session.points.iter().all(|point| point.runs.is_empty()) {
        return Err(TargetError::NoTime);
    }
    session.repeats()?;
    let Session { mut points, skipped, .. } = session;
    disturbance::mark(&mut points);
    Ok(Measured { points, skipped, background_bytes_per_s })
}

struct Session<'a, T> {
    settings: &'a Settings,
    target: &'a mut T,
    interrupt: &'a Interrupt,
    observer: &'a mut dyn Observer,
    order: StdRng,
    started_s: f64,
    runs_made: u32,
    points: Vec<PointRuns>,
    /// One entry a point, in the same order.
    costs: Vec<Cost>,
    skipped: Vec<MatrixSkip>,
    out_of_time: bool,
}

impl<T: Target> Session<'_, T> {
    fn pilot(&mut self) -> Result<(), TargetError> {
        let settings = self.settings;
        let largest_bytes = settings.buffer_sizes.iter().map(|&size| size * short_run_writes(size)).max();
        self.target.prepare(&settings.combinations, largest_bytes.unwrap_or(0))?;
        let expected = (settings.combinations.len() * settings.buffer_sizes.len()) as u32;
        let mut done = 0;
        for &combination in &settings.combinations {
            for &buffer_bytes in &settings.buffer_sizes {
                let left_s = f64::NAN;
                self.observer.progress(Progress {
                    stage: Stage::Pilot,
                    done,
                    expected,
                    left_s,
                    buffer_bytes,
                });
                done += 1;
                match self.pilot_run(combination, buffer_bytes) {
                    Ok(cost) => {
                        self.costs.push(cost);
                        self.points.push(PointRuns {
                            combination,
                            method: self.target.method_for(combination.method, buffer_bytes),
                            buffer_bytes,
                            allotment: Allotment { writes_per_run: 0, runs: 0 },
                            wanted: 0,
                            runs: Vec::new(),
                        });
                    }
                    Err(TargetError::Unsupported { reason }) if settings.is_matrix() => {
                        let Combination { method, file_state } = combination;
                        self.skipped.push(MatrixSkip { method, file_state, reason });
                        done += expected / settings.combinations.len() as u32 - 1;
                        break;
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        match self.skipped.first() {
            Some(skip) if self.points.is_empty() => {
                Err(TargetError::Unsupported { reason: skip.reason.clone() })
            }
            _ => Ok(()),
        }
    }

    fn pilot_run(&mut self, combination: Combination, buffer_bytes: u64) -> Result<Cost, TargetError> {
        if self.interrupt.is_asked() {
            return Err(TargetError::Interrupted);
        }
        let writes = short_run_writes(buffer_bytes);
        let before_s = self.target.now_s();
        let seen = self.target.run(&RunOrder { combination, buffer_bytes, writes })?;
        let whole_s = self.target.now_s() - before_s;
        Ok(Cost {
            buffer_bytes,
            full_writes: self.settings.full_run_writes(buffer_bytes),
            setup_s: (whole_s - seen.elapsed_s).max(0.0),
            write_s: seen.elapsed_s / writes as f64,
        })
    }

    /// Seconds left of the budget.
    fn time_left_s(&self) -> Option<f64> {
        let passed_s = self.target.now_s() - self.started_s;
        self.settings.time_budget_s.map(|budget_s| (budget_s - passed_s).max(0.0))
    }

    /// Looks again where the first look says that not everything fits the time: a single stall in the pilot
    /// must not shorten what would have fitted.
    fn look_again(&mut self) -> Result<(), TargetError> {
        let Some(budget_s) = self.settings.time_budget_s else { return Ok(()) };
        let in_full = allot(&self.costs, self.settings.runs, None);
        for _ in 0..SECOND_LOOKS {
            let left_s = self.time_left_s();
            let fits = allot(&self.costs, self.settings.runs, left_s) == in_full;
            if fits || left_s < Some(budget_s * SECOND_LOOK_SHARE) {
                break;
            }
            for place in 0..self.points.len() {
                let point = &self.points[place];
                let (combination, buffer_bytes) = (point.combination, point.buffer_bytes);
                let again = self.pilot_run(combination, buffer_bytes)?;
                let cost = &mut self.costs[place];
                cost.setup_s = cost.setup_s.min(again.setup_s);
                cost.write_s = cost.write_s.min(again.write_s);
            }
        }
        Ok(())
    }

    fn allot(&mut self) -> Result<(), TargetError> {
        let left_s = self.time_left_s();
        for (point, allotment) in self.points.iter_mut().zip(allot(&self.costs, self.settings.runs, left_s)) {
            point.allotment = allotment;
        }
        let largest_bytes =
            self.points.iter().map(|point| point.buffer_bytes * point.allotment.writes_per_run).max();
        self.target.prepare(&self.settings.combinations, largest_bytes.unwrap_or(0))
    }

    fn rounds(&mut self) -> Result<(), TargetError> {
        let mut done = 0;
        loop {
            let precision = self.settings.precision;
            let mut due: Vec<usize> =
                (0..self.points.len()).filter(|&place| !self.points[place].is_done(precision)).collect();
            if due.is_empty() {
                return Ok(());
            }
            due.shuffle(&mut self.order);
            for place in due {
                if self.is_out_of_time() {
                    self.out_of_time = true;
                    return Ok(());
                }
                let expected = self.runs_expected(done);
                self.run(place, Stage::Rounds, done, expected)?;
                done += 1;
            }
        }
    }

    fn repeats(&mut self) -> Result<(), TargetError> {
        if self.out_of_time {
            return Ok(());
        }
        disturbance::mark(&mut self.points);
        let mut due: Vec<usize> = Vec::new();
        for (place, point) in self.points.iter().enumerate() {
            let disturbed = point.runs.iter().filter(|run| run.disturbance.is_some()).count();
            due.extend(std::iter::repeat_n(
                place,
                disturbed.min((self.settings.runs.div_ceil(REPEATS_DIVISOR)) as usize),
            ));
        }
        due.shuffle(&mut self.order);
        let expected = due.len() as u32;
        for (done, place) in due.into_iter().enumerate() {
            if self.is_out_of_time() {
                break;
            }
            self.run(place, Stage::Repeats, done as u32, expected)?;
        }
        Ok(())
    }

    fn run(&mut self, place: usize, stage: Stage, done: u32, expected: u32) -> Result<(), TargetError> {
        if self.interrupt.is_asked() {
            return Err(TargetError::Interrupted);
        }
        let left_s = self.left_s(expected.saturating_sub(done));
        let point = &mut self.points[place];
        let buffer_bytes = point.buffer_bytes;
        self.observer.progress(Progress { stage, done, expected, left_s, buffer_bytes });
        let order =
            RunOrder { combination: point.combination, buffer_bytes, writes: point.allotment.writes_per_run };
        let started_s = self.target.now_s() - self.started_s;
        let observation = self.target.run(&order)?;
        point.runs.push(Run {
            order: self.runs_made,
            started_s,
            user_bytes: buffer_bytes * observation.latencies_ns.len() as u64,
            observation,
            disturbance: None,
        });
        self.runs_made += 1;
        if stage == Stage::Rounds {
            point.wanted += 1;
            if self.settings.precision.is_some() {
                disturbance::mark(std::slice::from_mut(point));
            }
        }
        Ok(())
    }

    /// Runs in all rounds: as allotted, or more where the precision asked for already took more.
    fn runs_expected(&self, done: u32) -> u32 {
        let allotted: u32 = self.points.iter().map(|point| point.allotment.runs).sum();
        allotted.max(done + 1)
    }

    fn is_out_of_time(&self) -> bool {
        let passed_s = self.target.now_s() - self.started_s;
        self.settings.time_budget_s.is_some_and(|budget_s| passed_s >= budget_s)
    }

    /// Seconds for `runs` further runs: the pilot's estimate of a mean run, corrected by the pace so far.
    fn left_s(&self, runs: u32) -> f64 {
        let passed_s = self.target.now_s() - self.started_s;
        let estimate_s = if self.runs_made >= self.points.len() as u32 {
            passed_s / f64::from(self.runs_made)
        } else {
            let all = self.points.iter().zip(&self.costs);
            let round_s: f64 = all
                .map(|(point, cost)| cost.setup_s + cost.write_s * point.allotment.writes_per_run as f64)
                .sum();
            round_s / self.points.len().max(1) as f64
        };
        let left_s = estimate_s * f64::from(runs);
        match self.settings.time_budget_s {
            Some(budget_s) => left_s.min((budget_s - passed_s).max(0.0)),
            None => left_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::probe::tests::{Nobody, PLAIN, VirtualStack};

    fn measured(settings: &Settings, stack: &mut VirtualStack) -> Measured {
        measure(settings, stack, &Interrupt::default(), &mut Nobody).unwrap()
    }

    #[test]
    fn each_round_holds_every_size_once_in_an_order_of_its_own() {
        let mut stack = VirtualStack::new(100e-6, 1e9);
        let measured = measured(&Settings::paper(PLAIN), &mut stack);
        assert!(measured.points.iter().all(|point| point.runs.len() == 30));
        let rounds: Vec<Vec<u64>> = stack.orders[13..]
            .chunks(13)
            .map(|round| round.iter().map(|run| run.buffer_bytes).collect())
            .collect();
        assert_eq!(rounds.len(), 30);
        for round in &rounds {
            assert_eq!(round.iter().collect::<HashSet<_>>().len(), 13);
        }
        assert!(rounds.iter().collect::<HashSet<_>>().len() > 25);
    }

    #[test]
    fn the_same_seed_gives_the_same_order() {
        let orders = |seed| {
            let mut stack = VirtualStack::new(100e-6, 1e9);
            measured(&Settings { seed, ..Settings::paper(PLAIN) }, &mut stack);
            stack.orders
        };
        assert_eq!(orders(5), orders(5));
        assert_ne!(orders(5), orders(6));
    }

    #[test]
    fn a_slow_disk_is_measured_within_its_time() {
        let mut stack = VirtualStack::new(8e-3, 120e6);
        let settings = Settings { time_budget_s: Some(120.0), ..Settings::paper(PLAIN) };
        let measured = measured(&settings, &mut stack);
        assert!(stack.now_s <= 121.0, "took {} s", stack.now_s);
        assert!(measured.points.iter().all(|point| point.runs.len() == 30));
        assert!(measured.points[0].allotment.writes_per_run < 4096);
    }

    #[test]
    fn one_stall_in_the_pilot_shortens_nothing() {
        let mut stack = VirtualStack::new(100e-6, 1e9);
        stack.noise = |run| if run == 5 { 2_000.0 } else { 0.0 };
        let settings = Settings { time_budget_s: Some(120.0), ..Settings::paper(PLAIN) };
        let measured = measured(&settings, &mut stack);
        assert!(measured.points.iter().all(|point| point.runs.len() == 30));
        assert!(
            measured
                .points
                .iter()
                .all(|point| point.allotment.writes_per_run == settings.full_run_writes(point.buffer_bytes))
        );
    }

    #[test]
    fn precision_stops_a_quiet_point_early_and_carries_a_noisy_one_on() {
        let settings = Settings { precision: Some(0.05), ..Settings::paper(PLAIN) };
        let mut quiet = VirtualStack::new(100e-6, 1e9);
        assert!(measured(&settings, &mut quiet).points.iter().all(|point| point.runs.len() == 10));
        let mut noisy = VirtualStack::new(100e-6, 1e9);
        noisy.noise = |run| (run * 7919 % 101) as f64 / 101.0 * 3.0;
        let runs: Vec<usize> =
            measured(&settings, &mut noisy).points.iter().map(|point| point.runs.len()).collect();
        assert!(runs.iter().all(|&runs| runs <= 120), "{runs:?}");
        assert!(runs.iter().any(|&runs| runs > 30), "{runs:?}");
    }

    #[test]
    fn disturbed_runs_are_repeated_and_stay_visible() {
        let mut stack = VirtualStack::new(1e-3, 1e9);
        stack.steal_s = |run| if run == 20 || run == 40 { 1.0 } else { 0.0 };
        let measured = measured(&Settings::paper(PLAIN), &mut stack);
        let runs: usize = measured.points.iter().map(|point| point.runs.len()).sum();
        assert_eq!(runs, 13 * 30 + 2);
        let disturbed = |point: &PointRuns| point.runs.iter().filter(|run| run.disturbance.is_some()).count();
        assert_eq!(measured.points.iter().map(disturbed).sum::<usize>(), 2);
    }

    #[test]
    fn what_a_stack_cannot_do_is_skipped_in_a_matrix_and_an_error_alone() {
        let other = Combination { method: Method::Uring, ..PLAIN };
        let mut stack = VirtualStack::new(100e-6, 1e9);
        stack.unsupported = Some(Method::Uring);
        let matrix = Settings { combinations: vec![PLAIN, other], ..Settings::paper(PLAIN) };
        let found = measured(&matrix, &mut stack);
        assert_eq!(found.skipped.len(), 1);
        assert_eq!(found.points.len(), 13);
        let alone = measure(&Settings::paper(other), &mut stack, &Interrupt::default(), &mut Nobody);
        assert!(matches!(alone, Err(TargetError::Unsupported { .. })));
    }

    #[test]
    fn an_interrupt_ends_it_between_two_runs() {
        let interrupt = Interrupt::default();
        interrupt.ask();
        let mut stack = VirtualStack::new(100e-6, 1e9);
        let stopped = measure(&Settings::paper(PLAIN), &mut stack, &interrupt, &mut Nobody);
        assert!(matches!(stopped, Err(TargetError::Interrupted)));
        assert!(stack.orders.is_empty());
    }
}
