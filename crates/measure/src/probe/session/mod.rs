//! The order of the measuring: a pilot of every point, rounds of all points in shuffled order, and repeats
//! of what was disturbed.
//!
//! 1. A round holds each unfinished point once, shuffled: a drift of the machine meets all sizes alike.
//! 2. Where several places are measured, their runs of one size follow one another, in an order that chance
//!    decides anew each time. They have equally many runs, and the runs of one number belong together.
//! 3. The pilot's runs estimate costs and warm the stack up; they never count.
//! 4. Once the time is over no further run begins. The repeats end with it too.
//! 5. Sessions repeat rounds and repeats, each from its own start on and within a time of its own.
//!
//! ```text
//! mod       sessions after one another
//! progress  where a probe stands
//! points    what was measured
//! pilot     what runs cost, and how many of them the time allows
//! rounds    rounds and repeats
//! ```

mod pilot;
mod points;
mod progress;
mod rounds;

use evenkeel_host::interrupt::Interrupt;
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::budget::Cost;
use super::disturbance;
use super::report::MatrixSkip;
use super::settings::Settings;
use super::target::{Target, TargetError};

pub(super) use points::{Measured, PointRuns, Run};
pub use progress::{Observer, Progress, Stage};

/// How long a pause between sessions goes on before it is said how long it will still take.
const PAUSE_STEP_S: f64 = 0.5;

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

    /// Seconds left of the budget.
    fn time_left_s(&self) -> Option<f64> {
        let passed_s = self.now_s() - self.session_started_s;
        self.settings.time_budget_s.map(|budget_s| (budget_s - passed_s).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use evenkeel_host::method::Method;

    use super::*;
    use crate::probe::settings::Combination;
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
