//! What pages say of the curve of latency over size, judged: phases, and the parameters of l + x/B.

use super::pages::{ODD, Page, Probe};
use crate::probe::curve::GROWTH_MAX;
use crate::probe::report::{Phases, ProbeReport};
use crate::probe::settings::Combination;

impl Probe {
    pub(super) fn is_line(&self) -> bool {
        matches!(self.page, Page::Line | Page::Parameters)
    }

    /// Whether it is about the curve, where nothing else can differ.
    pub(super) fn has_curve(&self) -> bool {
        self.is_line() || self.page == Page::Power
    }

    /// What is said of the curve that is not so.
    pub(super) fn false_curve(&self, report: &ProbeReport) -> Vec<&'static str> {
        let is_false =
            [("phase", self.has_false_phase(report)), ("parameter", self.has_false_parameter(report))];
        is_false.into_iter().filter_map(|(kind, is_false)| is_false.then_some(kind)).collect()
    }

    /// A phase in which what is constant truly grows by more than is said, or what grows by less.
    fn has_false_phase(&self, report: &ProbeReport) -> bool {
        let Some(phases) = &report.phases else { return false };
        let (Some(first), Some(last)) = (report.points.first(), report.points.last()) else { return true };
        let cost = self.cost();
        let way = Combination { method: report.method, file_state: report.file_state };
        let write_s = |size: f64| cost(way, size as u64);
        let (first, last) = (first.buffer_bytes as f64, last.buffer_bytes as f64);
        let latency = |size: f64| write_s(size) / write_s(first);
        let throughput = |size: f64| latency(size) * last / size / latency(last);
        let flat = phases.constant_latency.is_some_and(|range| latency(range.to_bytes) > GROWTH_MAX);
        let full = phases.constant_throughput.is_some_and(|range| throughput(range.from_bytes) > GROWTH_MAX);
        let both = phases.both_grow.is_some_and(|range| {
            latency(range.from_bytes) < GROWTH_MAX || throughput(range.to_bytes) < GROWTH_MAX
        });
        flat || full || both
    }

    /// An interval that leaves out the truth, or any where there is none. Over six sizes the square root is a line to within
    /// 18 %: that is said beside its parameters, and has no truth.
    fn has_false_parameter(&self, report: &ProbeReport) -> bool {
        let Some(model) = &report.model else { return false };
        match self.page {
            Page::Line | Page::Parameters => {
                let optimum_bytes = ODD as f64 * std::f64::consts::SQRT_2;
                let intervals = [
                    (model.fixed_latency_interval_s, self.typical_s()),
                    (model.bandwidth_interval_bytes_per_s, optimum_bytes / self.typical_s()),
                    (model.optimum_interval_bytes, optimum_bytes),
                ];
                let holds = |(interval, truth): (Option<[f64; 2]>, f64)| {
                    interval.is_some_and(|[low, high]| (low..=high).contains(&truth))
                };
                !intervals.into_iter().all(holds)
            }
            Page::Power | Page::Throughput | Page::Latency | Page::Records => true,
            _ => false,
        }
    }

    /// Whether what is to be found of the curve is said.
    pub(super) fn finds_curve(&self, report: &ProbeReport) -> bool {
        let phases = report.phases.as_ref();
        let is_shown = |is: fn(&Phases) -> bool| phases.is_some_and(is);
        match self.page {
            Page::Parameters => report.model.is_some(),
            Page::Line => {
                is_shown(|phases| phases.constant_latency.is_some() && phases.constant_throughput.is_some())
            }
            _ => is_shown(|phases| phases.both_grow.is_some()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::{fit_model, fit_phases};
    use crate::synthetic::Noise;

    #[test]
    fn what_is_fitted_and_not_tested_is_seen_to_be_false() {
        for (page, noise) in [(Page::Line, Noise::Lognormal), (Page::Power, Noise::Lognormal)] {
            let judged = (0..10).map(|seed| {
                let probe = Probe { page, noise, difference: 0.0, seed };
                let mut report = probe.alone().unwrap();
                let curve: Vec<(f64, f64)> =
                    report.points.iter().map(|of| (of.buffer_bytes as f64, of.latency_s.mean)).collect();
                report.phases = fit_phases(&curve);
                report.model = fit_model(&curve);
                probe.false_curve(&report)
            });
            let false_ones: Vec<&str> = judged.flatten().collect();
            assert!(false_ones.contains(&"phase") && false_ones.contains(&"parameter"), "{false_ones:?}");
        }
    }
}
