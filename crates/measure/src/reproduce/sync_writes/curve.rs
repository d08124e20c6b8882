//! Throughput and latency against buffer size, and what follows from them.

use super::super::{Halted, Settings, Work};
use super::device::{Device, KIB, MIB};
use super::stack::{Mounted, Stack};
use crate::fit::{fit_model, fit_phases};
use crate::probe::report::{Model, Phases};

pub(super) const FILE_BYTES: u64 = 16 * MIB;

/// The sweep of one stack on one device.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Curve {
    pub(super) stack: Stack,
    pub(super) points: Vec<Point>,
    pub(super) phases: Option<Phases>,
    pub(super) line: Option<Model>,
}

/// What writes of a size showed, as the mean of all of them.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) buffer_bytes: u64,
    pub(super) throughput_bytes_per_s: f64,
    pub(super) latency_s: f64,
}

impl Point {
    /// Of writes that took so long, one after another.
    pub(super) fn of(buffer_bytes: u64, latencies_ns: &[u64]) -> Self {
        let took_s = latencies_ns.iter().sum::<u64>() as f64 / 1e9;
        let writes = latencies_ns.len() as f64;
        let throughput_bytes_per_s = buffer_bytes as f64 * writes / took_s;
        Self { buffer_bytes, throughput_bytes_per_s, latency_s: took_s / writes }
    }

    /// Throughput over latency, in bytes per second squared.
    pub(super) fn ratio(&self) -> f64 {
        self.throughput_bytes_per_s / self.latency_s
    }
}

/// The paper's sizes.
pub(super) fn sizes(settings: &Settings) -> Vec<u64> {
    // Of the smaller sweep too, 128 KiB are what claims speak of.
    let powers = settings.pick((0..=12).collect(), vec![0, 2, 4, 5, 6, 8, 10, 12]);
    powers.into_iter().map(|power| (4 * KIB) << power).collect()
}

/// The sweep of one stack: each size on a drive of its own.
pub(super) fn sweep(device: Device, stack: Stack, settings: &Settings) -> Curve {
    let runs = settings.pick(10, 1);
    let point = |buffer_bytes| {
        let mut mounted = Mounted::new(stack, device.drive());
        let latencies_ns: Vec<u64> =
            (0..runs).flat_map(|_| mounted.write_file(FILE_BYTES, buffer_bytes)).collect();
        Point::of(buffer_bytes, &latencies_ns)
    };
    Curve::of(stack, sizes(settings).into_iter().map(point).collect())
}

/// The sweeps of all stacks on a device.
pub(super) fn sweeps(device: Device, settings: &Settings, work: &Work<'_>) -> Result<Vec<Curve>, Halted> {
    work.each(&Stack::ALL, |&stack| Ok(sweep(device, stack, settings)))
}

/// That of `stack`.
pub(super) fn of(curves: &[Curve], stack: Stack) -> &Curve {
    curves.iter().find(|curve| curve.stack == stack).expect("every stack was swept")
}

impl Curve {
    /// Through these points.
    pub(super) fn of(stack: Stack, points: Vec<Point>) -> Self {
        let fitted: Vec<_> =
            points.iter().map(|point| (point.buffer_bytes as f64, point.latency_s)).collect();
        Self { stack, phases: fit_phases(&fitted), line: fit_model(&fitted), points }
    }

    /// The point at a size, or the next larger one that was swept.
    pub(super) fn at(&self, buffer_bytes: u64) -> &Point {
        let found = self.points.iter().find(|point| point.buffer_bytes >= buffer_bytes);
        found.or(self.points.last()).expect("sizes were swept")
    }

    pub(super) fn smallest(&self) -> &Point {
        &self.points[0]
    }

    pub(super) fn largest(&self) -> &Point {
        &self.points[self.points.len() - 1]
    }

    /// Where throughput over latency is greatest.
    pub(super) fn peak(&self) -> &Point {
        let best = self.points.iter().max_by(|a, b| a.ratio().total_cmp(&b.ratio()));
        best.expect("sizes were swept")
    }

    /// The most throughput of the sweep.
    pub(super) fn most_bytes_per_s(&self) -> f64 {
        self.points.iter().map(|point| point.throughput_bytes_per_s).fold(0.0, f64::max)
    }

    /// By how much throughput grows over the second phase, over how much latency does, both as powers of the buffer; no
    /// number where the three phases were not found.
    pub(super) fn growth_in_second_phase(&self) -> f64 {
        let Some(phases) = self.phases else { return f64::NAN };
        let all = (phases.constant_latency, phases.both_grow, phases.constant_throughput);
        let (Some(_), Some(second), Some(_)) = all else { return f64::NAN };
        let (first, last) = (self.at(second.from_bytes as u64), self.at(second.to_bytes as u64));
        let throughput = last.throughput_bytes_per_s / first.throughput_bytes_per_s;
        throughput.ln() / (last.latency_s / first.latency_s).ln()
    }

    /// Where latency begins to grow.
    pub(super) fn latency_grows_from(&self) -> f64 {
        self.phases.and_then(|phases| phases.constant_latency).map_or(f64::NAN, |range| range.to_bytes)
    }

    /// Where throughput is constant from.
    pub(super) fn throughput_level_from(&self) -> f64 {
        self.phases.and_then(|phases| phases.constant_throughput).map_or(f64::NAN, |range| range.from_bytes)
    }

    /// The fixed latency times the bandwidth.
    pub(super) fn optimum_bytes(&self) -> f64 {
        self.line.map_or(f64::NAN, |line| line.optimum_bytes)
    }
}
