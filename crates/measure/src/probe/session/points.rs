//! What was measured at a place: its points, and their runs.

use evenkeel_host::method::Method;

use crate::probe::budget::Allotment;
use crate::probe::report::MatrixSkip;
use crate::probe::settings::Combination;
use crate::probe::target::Observation;
use crate::stats;

/// With a precision asked for, a point may take up to this many times the runs asked for.
const RUNS_FACTOR_MAX: u32 = 4;

/// With a precision asked for, a point takes at least this many runs: fewer could be narrow by luck.
const RUNS_MIN_FOR_PRECISION: u32 = 10;

/// What was measured at one place.
#[derive(Debug)]
pub(in crate::probe) struct Measured {
    pub(in crate::probe) points: Vec<PointRuns>,
    pub(in crate::probe) skipped: Vec<MatrixSkip>,
    /// Bytes per second that others moved on the device before the first run.
    pub(in crate::probe) background_bytes_per_s: Option<f64>,
}

/// All runs of one combination at one size.
#[derive(Debug)]
pub(in crate::probe) struct PointRuns {
    pub(in crate::probe) combination: Combination,
    /// Which of the places.
    pub(in crate::probe) place: usize,
    /// Runs made before the session under way.
    pub(in crate::probe) earlier: usize,
    /// What was really used for `combination.method`.
    pub(in crate::probe) method: Method,
    pub(in crate::probe) buffer_bytes: u64,
    pub(in crate::probe) allotment: Allotment,
    /// Runs made before any was repeated: so many count.
    pub(in crate::probe) wanted: usize,
    /// In the order measured.
    pub(in crate::probe) runs: Vec<Run>,
}

/// One run that may count.
#[derive(Debug)]
pub(in crate::probe) struct Run {
    pub(in crate::probe) order: u32,
    pub(in crate::probe) session: u32,
    pub(in crate::probe) started_s: f64,
    pub(in crate::probe) user_bytes: u64,
    pub(in crate::probe) observation: Observation,
    pub(in crate::probe) disturbance: Option<String>,
    /// Whether it repeats one that was disturbed, in no round.
    pub(in crate::probe) is_repeat: bool,
}

impl Run {
    pub(in crate::probe) fn throughput_bytes_per_s(&self) -> f64 {
        self.user_bytes as f64 / self.observation.elapsed_s.max(1e-9)
    }

    /// The 99th percentile of its writes; `None` where there are fewer than a hundred.
    pub(in crate::probe) fn latency_p99_s(&self) -> Option<f64> {
        let mut latencies = self.observation.latencies_ns.clone();
        let beyond = latencies.len() / 100;
        let place = latencies.len().checked_sub(beyond + 1).filter(|_| beyond > 0)?;
        let (_, &mut found, _) = latencies.select_nth_unstable(place);
        Some(found as f64 * 1e-9)
    }

    pub(in crate::probe) fn latency_s(&self) -> f64 {
        let latencies = &self.observation.latencies_ns;
        latencies.iter().map(|&ns| ns as f64).sum::<f64>() / latencies.len().max(1) as f64 * 1e-9
    }
}

impl PointRuns {
    /// Whether the point has what it needs, by count or by precision.
    pub(super) fn is_done(&self, precision: Option<f64>) -> bool {
        let made = (self.runs.len() - self.earlier) as u32;
        let Some(precision) = precision else {
            return made >= self.allotment.runs;
        };
        if made < RUNS_MIN_FOR_PRECISION.min(self.allotment.runs) {
            return false;
        }
        made >= self.allotment.runs * RUNS_FACTOR_MAX || self.is_precise(precision)
    }

    pub(in crate::probe) fn is_precise(&self, precision: f64) -> bool {
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
