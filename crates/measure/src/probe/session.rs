//! The order of the measuring: a pilot of every point, rounds of all points in shuffled order, and repeats
//! of what was disturbed.
//!
//! 1. A round holds each unfinished point once, shuffled: a drift of the machine meets all sizes alike.
//! 2. Where several places are measured, their runs of one size follow one another, in an order that chance
//!    decides anew each time. They have equally many runs, and the runs of one number belong together.
//! 3. The pilot's runs estimate costs and warm the stack up; they never count.
//! 4. Once the time is over no further run begins. The repeats end with it too.
//! 5. Sessions repeat rounds and repeats, each from its own start on and within a time of its own.

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

/// How long a pause between sessions goes on before it is said how long it will still take.
const PAUSE_STEP_S: f64 = 0.5;

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
    /// Until the next session begins.
    Pause,
    /// One size for hours: seconds take the place of runs.
    Soak,
}

/// Somebody who wants to know where a probe stands.
pub trait Observer {
    /// A run is about to begin.
    fn progress(&mut self, progress: Progress);
}

/// What was measured at one place.
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
    /// Which of the places.
    pub(super) place: usize,
    /// Runs made before the session under way.
    pub(super) earlier: usize,
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
    pub(super) session: u32,
    pub(super) started_s: f64,
    pub(super) user_bytes: u64,
    pub(super) observation: Observation,
    pub(super) disturbance: Option<String>,
}

impl Run {
    pub(super) fn throughput_bytes_per_s(&self) -> f64 {
        self.user_bytes as f64 / self.observation.elapsed_s.max(1e-9)
    }

    /// The 99th percentile of its writes; `None` where there are fewer than a hundred.
    pub(super) fn latency_p99_s(&self) -> Option<f64> {
        let mut latencies = self.observation.latencies_ns.clone();
        let beyond = latencies.len() / 100;
        let place = latencies.len().checked_sub(beyond + 1).filter(|_| beyond > 0)?;
        let (_, &mut found, _) = latencies.select_nth_unstable(place);
        Some(found as f64 * 1e-9)
    }

    pub(super) fn latency_s(&self) -> f64 {
        let latencies = &self.observation.latencies_ns;
        latencies.iter().map(|&ns| ns as f64).sum::<f64>() / latencies.len().max(1) as f64 * 1e-9
    }
}

impl PointRuns {
    /// Whether the point has what it needs, by count or by precision.
    fn is_done(&self, precision: Option<f64>) -> bool {
        let made = (self.runs.len() - self.earlier) as u32;
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

/// Measures all `targets` side by side; answers what each showed, in their order.
pub(super) fn measure<T: Target>(
    settings: &Settings,
    targets: &mut [T],
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Vec<Measured>, TargetError> {
    let started_s = targets.first().map_or(0.0, Target::now_s);
    let background: Vec<_> = targets.iter_mut().map(Target::background_bytes_per_s).collect();
    let mut session = Session {
        settings,
        targets,
        interrupt,
        observer,
        order: StdRng::seed_from_u64(settings.seed),
        started_s,
        number: 0,
        session_started_s: started_s,
        runs_before: 0,
        runs_made: 0,
        points: Vec::new(),
        costs: Vec::new(),
        skipped: Vec::new(),
        out_of_time: false,
    };
    session.pilot()?;
    session.look_again()?;
    session.allot()?;
    for number in 0..settings.sessions {
        session.begin(number)?;
        session.rounds()?;
        if session.points.iter().all(|point| point.runs.is_empty()) {
            return Err(TargetError::NoTime);
        }
        session.repeats()?;
    }
    let Session { mut points, mut skipped, .. } = session;
    disturbance::mark(&mut points);
    let mut measured: Vec<Measured> = background
        .into_iter()
        .map(|background_bytes_per_s| Measured {
            points: Vec::new(),
            skipped: std::mem::take(&mut skipped),
            background_bytes_per_s,
        })
        .collect();
    for point in points {
        measured[point.place].points.push(point);
    }
    Ok(measured)
}

struct Session<'a, T> {
    settings: &'a Settings,
    targets: &'a mut [T],
    interrupt: &'a Interrupt,
    observer: &'a mut dyn Observer,
    order: StdRng,
    started_s: f64,
    /// Which session is under way, when it began, and the runs made before it.
    number: u32,
    session_started_s: f64,
    runs_before: u32,
    runs_made: u32,
    /// In groups of one point a place.
    points: Vec<PointRuns>,
    /// One entry a point, in the same order.
    costs: Vec<Cost>,
    skipped: Vec<MatrixSkip>,
    out_of_time: bool,
}

impl<T: Target> Session<'_, T> {
    fn now_s(&self) -> f64 {
        self.targets.first().map_or(0.0, Target::now_s)
    }

    /// Waits until a session's time has come.
    fn begin(&mut self, number: u32) -> Result<(), TargetError> {
        if number == 0 {
            return Ok(());
        }
        let due_s = self.started_s + f64::from(number) * self.settings.every_s;
        while self.now_s() < due_s {
            if self.interrupt.is_asked() {
                return Err(TargetError::Interrupted);
            }
            let left_s = due_s - self.now_s();
            let (done, expected) = (number, self.settings.sessions);
            self.observer.progress(Progress { stage: Stage::Pause, done, expected, left_s, buffer_bytes: 0 });
            self.targets[0].wait_s(left_s.min(PAUSE_STEP_S));
        }
        self.number = number;
        self.session_started_s = self.now_s();
        self.runs_before = self.runs_made;
        self.out_of_time = false;
        for point in &mut self.points {
            point.earlier = point.runs.len();
        }
        Ok(())
    }

    fn pilot(&mut self) -> Result<(), TargetError> {
        let settings = self.settings;
        let largest_bytes = settings.buffer_sizes.iter().map(|&size| size * short_run_writes(size)).max();
        self.prepare(largest_bytes.unwrap_or(0))?;
        let places = self.targets.len();
        let expected = (settings.combinations.len() * settings.buffer_sizes.len() * places) as u32;
        let mut done = 0;
        for &combination in &settings.combinations {
            for (&buffer_bytes, place) in
                settings.buffer_sizes.iter().flat_map(|size| (0..places).map(move |place| (size, place)))
            {
                let left_s = f64::NAN;
                self.observer.progress(Progress {
                    stage: Stage::Pilot,
                    done,
                    expected,
                    left_s,
                    buffer_bytes,
                });
                done += 1;
                match self.pilot_run(place, combination, buffer_bytes) {
                    Ok(cost) => {
                        self.costs.push(cost);
                        self.points.push(PointRuns {
                            combination,
                            place,
                            earlier: 0,
                            method: self.targets[place].method_for(combination.method, buffer_bytes),
                            buffer_bytes,
                            allotment: Allotment { writes_per_run: 0, runs: 0 },
                            wanted: 0,
                            runs: Vec::new(),
                        });
                    }
                    Err(TargetError::Unsupported { reason }) if settings.is_matrix() && places == 1 => {
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

    fn prepare(&mut self, largest_bytes: u64) -> Result<(), TargetError> {
        for target in &mut *self.targets {
            target.prepare(&self.settings.combinations, largest_bytes)?;
        }
        Ok(())
    }

    fn pilot_run(
        &mut self,
        place: usize,
        combination: Combination,
        buffer_bytes: u64,
    ) -> Result<Cost, TargetError> {
        if self.interrupt.is_asked() {
            return Err(TargetError::Interrupted);
        }
        let writes = short_run_writes(buffer_bytes);
        let before_s = self.now_s();
        let seen = self.targets[place].run(&RunOrder { combination, buffer_bytes, writes })?;
        let whole_s = self.now_s() - before_s;
        Ok(Cost {
            buffer_bytes,
            full_writes: self.settings.full_run_writes(buffer_bytes),
            setup_s: (whole_s - seen.elapsed_s).max(0.0),
            write_s: seen.elapsed_s / writes as f64,
        })
    }

    /// What a run of each group costs, at all places together.
    fn group_costs(&self) -> Vec<Cost> {
        let groups = self.costs.chunks(self.targets.len().max(1));
        let sum = |group: &[Cost]| {
            let setup_s = group.iter().map(|cost| cost.setup_s).sum();
            Cost { setup_s, write_s: group.iter().map(|cost| cost.write_s).sum(), ..group[0] }
        };
        groups.map(sum).collect()
    }

    fn allotted(&self, time_s: Option<f64>) -> Vec<Allotment> {
        allot(&self.group_costs(), self.settings.runs, time_s, self.settings.first_to_go())
    }

    /// Seconds left of the budget.
    fn time_left_s(&self) -> Option<f64> {
        let passed_s = self.now_s() - self.session_started_s;
        self.settings.time_budget_s.map(|budget_s| (budget_s - passed_s).max(0.0))
    }

    /// Looks again where the first look says that not everything fits the time: a single stall in the pilot
    /// must not shorten what would have fitted.
    fn look_again(&mut self) -> Result<(), TargetError> {
        let Some(budget_s) = self.settings.time_budget_s else { return Ok(()) };
        let in_full = self.allotted(None);
        for _ in 0..SECOND_LOOKS {
            let left_s = self.time_left_s();
            let fits = self.allotted(left_s) == in_full;
            if fits || left_s < Some(budget_s * SECOND_LOOK_SHARE) {
                break;
            }
            for at in 0..self.points.len() {
                let point = &self.points[at];
                let (place, combination, buffer_bytes) = (point.place, point.combination, point.buffer_bytes);
                let again = self.pilot_run(place, combination, buffer_bytes)?;
                let cost = &mut self.costs[at];
                cost.setup_s = cost.setup_s.min(again.setup_s);
                cost.write_s = cost.write_s.min(again.write_s);
            }
        }
        Ok(())
    }

    fn allot(&mut self) -> Result<(), TargetError> {
        let allotments = self.allotted(self.time_left_s());
        let places = self.targets.len();
        for (at, point) in self.points.iter_mut().enumerate() {
            point.allotment = allotments[at / places];
        }
        let largest_bytes =
            self.points.iter().map(|point| point.buffer_bytes * point.allotment.writes_per_run).max();
        self.prepare(largest_bytes.unwrap_or(0))
    }

    /// The points of the group that begins with the point at `first`, in an order by chance.
    fn shuffled_group(&mut self, first: usize) -> Vec<usize> {
        let mut group: Vec<usize> = (first..first + self.targets.len()).collect();
        group.shuffle(&mut self.order);
        group
    }

    fn rounds(&mut self) -> Result<(), TargetError> {
        let places = self.targets.len();
        let mut done = 0;
        loop {
            let precision = self.settings.precision;
            let is_due = |&first: &usize| {
                self.points[first..first + places].iter().any(|point| !point.is_done(precision))
            };
            let mut due: Vec<usize> = (0..self.points.len()).step_by(places).filter(is_due).collect();
            if due.is_empty() {
                return Ok(());
            }
            due.shuffle(&mut self.order);
            for first in due {
                if self.is_out_of_time() {
                    self.out_of_time = true;
                    return Ok(());
                }
                for at in self.shuffled_group(first) {
                    let expected = self.runs_expected(done);
                    self.run(at, Stage::Rounds, done, expected)?;
                    done += 1;
                }
            }
        }
    }

    fn repeats(&mut self) -> Result<(), TargetError> {
        if self.out_of_time {
            return Ok(());
        }
        disturbance::mark(&mut self.points);
        let places = self.targets.len();
        let most = self.settings.runs.div_ceil(REPEATS_DIVISOR) as usize;
        let mut due: Vec<usize> = Vec::new();
        for first in (0..self.points.len()).step_by(places) {
            let group = &self.points[first..first + places];
            let is_disturbed = |number: &usize| {
                group
                    .iter()
                    .any(|point| point.runs.get(*number).is_some_and(|run: &Run| run.disturbance.is_some()))
            };
            let disturbed = (group[0].earlier..group[0].runs.len()).filter(is_disturbed).count();
            due.extend(std::iter::repeat_n(first, disturbed.min(most)));
        }
        due.shuffle(&mut self.order);
        let expected = (due.len() * places) as u32;
        let mut done = 0;
        for first in due {
            if self.is_out_of_time() {
                break;
            }
            for at in self.shuffled_group(first) {
                self.run(at, Stage::Repeats, done, expected)?;
                done += 1;
            }
        }
        Ok(())
    }

    fn run(&mut self, at: usize, stage: Stage, done: u32, expected: u32) -> Result<(), TargetError> {
        if self.interrupt.is_asked() {
            return Err(TargetError::Interrupted);
        }
        let left_s = self.left_s(expected.saturating_sub(done));
        let started_s = self.now_s() - self.started_s;
        let point = &mut self.points[at];
        let buffer_bytes = point.buffer_bytes;
        self.observer.progress(Progress { stage, done, expected, left_s, buffer_bytes });
        let order =
            RunOrder { combination: point.combination, buffer_bytes, writes: point.allotment.writes_per_run };
        let observation = self.targets[point.place].run(&order)?;
        point.runs.push(Run {
            order: self.runs_made,
            session: self.number,
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
        let passed_s = self.now_s() - self.session_started_s;
        self.settings.time_budget_s.is_some_and(|budget_s| passed_s >= budget_s)
    }

    /// Seconds for `runs` further runs: the pilot's estimate of a mean run, corrected by the pace so far.
    fn left_s(&self, runs: u32) -> f64 {
        let passed_s = self.now_s() - self.session_started_s;
        let made = self.runs_made - self.runs_before;
        let estimate_s = if made >= self.points.len() as u32 {
            passed_s / f64::from(made)
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
        measure(settings, std::slice::from_mut(stack), &Interrupt::default(), &mut Nobody).unwrap().remove(0)
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
        let alone = measure(
            &Settings::paper(other),
            std::slice::from_mut(&mut stack),
            &Interrupt::default(),
            &mut Nobody,
        );
        assert!(matches!(alone, Err(TargetError::Unsupported { .. })));
    }

    #[test]
    fn an_interrupt_ends_it_between_two_runs() {
        let interrupt = Interrupt::default();
        interrupt.ask();
        let mut stack = VirtualStack::new(100e-6, 1e9);
        let stopped =
            measure(&Settings::paper(PLAIN), std::slice::from_mut(&mut stack), &interrupt, &mut Nobody);
        assert!(matches!(stopped, Err(TargetError::Interrupted)));
        assert!(stack.orders.is_empty());
    }
}
