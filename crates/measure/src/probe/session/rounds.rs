//! Rounds of all points in shuffled order, and repeats of what was disturbed.

use rand::seq::SliceRandom;

use crate::probe::disturbance;
use crate::probe::target::{RunOrder, Target, TargetError};

use super::{Progress, Run, Session, Stage};

/// Disturbed runs are repeated in at most this share of the runs asked for.
const REPEATS_DIVISOR: u32 = 3;

impl<T: Target> Session<'_, T> {
    /// The points of the group that begins with the point at `first`, in an order by chance.
    fn shuffled_group(&mut self, first: usize) -> Vec<usize> {
        let mut group: Vec<usize> = (first..first + self.targets.len()).collect();
        group.shuffle(&mut self.order);
        group
    }

    pub(super) fn rounds(&mut self) -> Result<(), TargetError> {
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

    pub(super) fn repeats(&mut self) -> Result<(), TargetError> {
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
            is_repeat: stage == Stage::Repeats,
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
