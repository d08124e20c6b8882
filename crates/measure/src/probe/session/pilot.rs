//! A short look at every point: what its runs cost, and how many of them the time allows.

use crate::probe::budget::{Allotment, Cost, allot};
use crate::probe::report::MatrixSkip;
use crate::probe::settings::{Combination, short_run_writes};
use crate::probe::target::{RunOrder, Target, TargetError};

use super::{PointRuns, Progress, Session, Stage};

/// Where a pilot says that the time is short, it is repeated up to this many times ...
const SECOND_LOOKS: u32 = 2;

/// ... while at least this share of the time is left.
const SECOND_LOOK_SHARE: f64 = 0.9;

impl<T: Target> Session<'_, T> {
    pub(super) fn pilot(&mut self) -> Result<(), TargetError> {
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

    /// Looks again where the first look says that not everything fits the time: a single stall in the pilot
    /// must not shorten what would have fitted.
    pub(super) fn look_again(&mut self) -> Result<(), TargetError> {
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

    pub(super) fn allot(&mut self) -> Result<(), TargetError> {
        let allotments = self.allotted(self.time_left_s());
        let places = self.targets.len();
        for (at, point) in self.points.iter_mut().enumerate() {
            point.allotment = allotments[at / places];
        }
        let largest_bytes =
            self.points.iter().map(|point| point.buffer_bytes * point.allotment.writes_per_run).max();
        self.prepare(largest_bytes.unwrap_or(0))
    }
}
