//! Runs become points: means and intervals over runs, percentiles over single writes, device traffic per
//! write.

use std::collections::BTreeMap;

use evenkeel_host::block_device::Counters;
use hdrhistogram::Histogram;

use super::report::{LatencySummary, Point, RunData, Summary};
use super::session::{Measured, PointRuns, Run};
use super::settings::Combination;
use crate::stats;

/// The points of one combination that have any run, by ascending size.
pub(super) fn points(measured: &Measured, combination: Combination) -> Vec<Point> {
    let mut points: Vec<Point> =
        measured.points.iter().filter(|point| point.combination == combination).filter_map(point).collect();
    points.sort_by_key(|point| point.buffer_bytes);
    points
}

fn point(measured: &PointRuns) -> Option<Point> {
    let counted = counted(measured);
    let runs = || measured.runs.iter().zip(&counted).filter_map(|(run, &counts)| counts.then_some(run));
    let throughputs = data_points(runs(), Run::throughput_bytes_per_s);
    let latencies = data_points(runs(), Run::latency_s);
    let throughput = stats::summarise(&throughputs)?;
    let latency = stats::summarise(&latencies)?;
    let ratio = stats::paired_ratio_of_means(&throughputs, &latencies)?;
    let writes: u64 = runs().map(|run| run.observation.latencies_ns.len() as u64).sum();
    let user_bytes: u64 = runs().map(|run| run.user_bytes).sum();
    let device: Option<Counters> = runs().map(|run| run.observation.device).sum();
    let per_write = |count: u64| count as f64 / writes as f64;
    Some(Point {
        buffer_bytes: measured.buffer_bytes,
        method: measured.method,
        writes,
        runs: runs().count() as u32,
        disturbed_runs: measured.runs.iter().filter(|run| run.disturbance.is_some()).count() as u32,
        throughput_bytes_per_s: throughput,
        writes_per_s: throughput.mean / measured.buffer_bytes as f64,
        latency_s: latency_summary(&latency, runs()),
        ratio: ratio.ratio,
        ratio_ci95: ratio.ci95,
        device_writes_per_op: device.map(|device| per_write(device.writes)),
        device_flushes_per_op: device.and_then(|device| device.flushes).map(per_write),
        device_bytes_per_user_byte: device.map(|device| device.written_bytes as f64 / user_bytes as f64),
        latency_histogram: latency_histogram(runs()),
        run_data: measured.runs.iter().zip(counted).map(|(run, counted)| run_data(run, counted)).collect(),
    })
}

/// What means and intervals are taken over: the runs of one session, or the means of several sessions, since the runs
/// of one share what the machine did then.
fn data_points<'a>(runs: impl Iterator<Item = &'a Run>, figure: fn(&Run) -> f64) -> Vec<f64> {
    let mut sessions: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    for run in runs {
        sessions.entry(run.session).or_default().push(figure(run));
    }
    if sessions.len() < 2 {
        return sessions.into_values().flatten().collect();
    }
    sessions.into_values().map(|figures| figures.iter().sum::<f64>() / figures.len() as f64).collect()
}

/// Which runs count: all clean ones, and disturbed ones only as far as clean ones are lacking.
fn counted(measured: &PointRuns) -> Vec<bool> {
    let clean = measured.runs.iter().filter(|run| run.disturbance.is_none()).count();
    let mut lacking = measured.wanted.saturating_sub(clean);
    let mut counts = |run: &Run| {
        let fills_in = run.disturbance.is_some() && lacking > 0;
        lacking -= usize::from(fills_in);
        run.disturbance.is_none() || fills_in
    };
    measured.runs.iter().map(&mut counts).collect()
}

fn run_data(run: &Run, counted: bool) -> RunData {
    RunData {
        order: run.order,
        started_s: run.started_s,
        writes: run.observation.latencies_ns.len() as u64,
        throughput_bytes_per_s: run.throughput_bytes_per_s(),
        latency_s: run.latency_s(),
        latency_p99_s: run.latency_p99_s(),
        session: run.session,
        latency_max_s: run.observation.latencies_ns.iter().copied().max().unwrap_or(0) as f64 * 1e-9,
        disturbance: run.disturbance.clone(),
        repeat: run.is_repeat,
        counted,
    }
}

/// A slower write than an hour counts as one of an hour, in the percentiles.
const LATENCY_MAX_NS: u64 = 3_600_000_000_000;

/// Percentiles from a high dynamic range histogram of three significant digits.
fn latency_summary<'a>(over_runs: &Summary, runs: impl Iterator<Item = &'a Run>) -> LatencySummary {
    let mut histogram =
        Histogram::<u64>::new_with_max(LATENCY_MAX_NS, 3).expect("the histogram's bounds are constants");
    let mut slowest_ns = 0;
    for &latency_ns in runs.flat_map(|run| &run.observation.latencies_ns) {
        histogram.saturating_record(latency_ns);
        slowest_ns = slowest_ns.max(latency_ns);
    }
    // A percentile p needs 10 samples beyond it to be more than the luck of a few.
    let percentile = |p: f64| {
        let enough = histogram.len() as f64 * (1.0 - p) >= 10.0 - 1e-6;
        enough.then(|| histogram.value_at_quantile(p) as f64 * 1e-9)
    };
    LatencySummary {
        mean: over_runs.mean,
        sd: over_runs.sd,
        ci95: over_runs.ci95,
        p50: percentile(0.5),
        p99: percentile(0.99),
        p999: percentile(0.999),
        max: slowest_ns as f64 * 1e-9,
    }
}

/// Every write of the runs, to two digits: enough for a curve.
fn latency_histogram<'a>(runs: impl Iterator<Item = &'a Run>) -> Vec<(f64, u64)> {
    let mut histogram =
        Histogram::<u64>::new_with_max(LATENCY_MAX_NS, 2).expect("the histogram's bounds are constants");
    for &latency_ns in runs.flat_map(|run| &run.observation.latencies_ns) {
        histogram.saturating_record(latency_ns);
    }
    let bound = |value: u64| value as f64 * 1e-9;
    histogram.iter_recorded().map(|step| (bound(step.value_iterated_to()), step.count_at_value())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::budget::Allotment;
    use crate::probe::target::Observation;
    use crate::probe::tests::PLAIN;

    fn run(latencies_ns: Vec<u64>, disturbed: bool) -> Run {
        let elapsed_s = latencies_ns.iter().sum::<u64>() as f64 * 1e-9;
        let device = Counters { writes: 6, flushes: Some(2), written_bytes: 24_576, ..Counters::default() };
        Run {
            order: 0,
            session: 0,
            started_s: 0.0,
            user_bytes: 4096 * latencies_ns.len() as u64,
            observation: Observation {
                elapsed_s,
                latencies_ns,
                device: Some(device),
                ..Observation::default()
            },
            disturbance: disturbed.then(|| "noise".to_owned()),
            is_repeat: false,
        }
    }

    fn measured(runs: Vec<Run>, allotted: u32) -> PointRuns {
        PointRuns {
            place: 0,
            earlier: 0,
            combination: PLAIN,
            method: PLAIN.method,
            buffer_bytes: 4096,
            allotment: Allotment { writes_per_run: 2, runs: allotted },
            wanted: allotted as usize,
            runs,
        }
    }

    #[test]
    fn a_point_s_figures_follow_from_its_runs() {
        let runs = vec![run(vec![100_000, 300_000], false), run(vec![200_000, 600_000], false)];
        let point = point(&measured(runs, 2)).unwrap();
        assert_eq!((point.writes, point.runs), (4, 2));
        assert!((point.latency_s.mean - 300e-6).abs() < 1e-12);
        assert!((point.latency_s.max - 600e-6).abs() < 1e-12);
        let throughput = (8192.0 / 400e-6 + 8192.0 / 800e-6) / 2.0;
        assert!((point.throughput_bytes_per_s.mean / throughput - 1.0).abs() < 1e-12);
        assert_eq!(point.device_writes_per_op, Some(3.0));
        assert_eq!(point.device_flushes_per_op, Some(1.0));
        assert_eq!(point.device_bytes_per_user_byte, Some(3.0));
    }

    #[test]
    fn sessions_are_the_data_points_where_there_are_several() {
        let of = |session, us: u64| Run { session, ..run(vec![us * 1000; 200], false) };
        let runs = vec![of(0, 100), of(0, 100), of(1, 300), of(1, 300)];
        let found = point(&measured(runs, 4)).unwrap();
        assert_eq!(found.runs, 4);
        assert!((found.latency_s.mean - 200e-6).abs() < 1e-12);
        // Two data points, not four: t with one degree of freedom times the standard error of two.
        let [low, _] = found.latency_s.ci95.unwrap();
        assert!((200e-6 - low - 12.7062 * 100e-6).abs() < 1e-8, "{low}");
        assert_eq!(found.run_data[0].latency_p99_s, Some(100e-6));
        assert_eq!(
            point(&measured(vec![run(vec![1000; 99], false)], 1)).unwrap().run_data[0].latency_p99_s,
            None
        );
    }

    #[test]
    fn the_histogram_holds_every_write_that_counts() {
        let runs = vec![
            run((1..=1000).map(|us| us * 1000).collect(), false),
            run(vec![7_000_000_000_000; 3], false),
            run(vec![5; 9], true),
        ];
        let found = point(&measured(runs, 2)).unwrap().latency_histogram;
        assert_eq!(found.iter().map(|&(_, count)| count).sum::<u64>(), 1003);
        assert!(found.windows(2).all(|pair| pair[0].0 < pair[1].0));
        let half: u64 = found.iter().filter(|&&(bound, _)| bound <= 500e-6).map(|&(_, count)| count).sum();
        assert!(half.abs_diff(500) <= 5, "{half}");
        // Beyond an hour: as one of an hour.
        assert_eq!(found.last().unwrap().1, 3);
    }

    #[test]
    fn a_percentile_needs_ten_writes_beyond_it() {
        let percentiles = |writes| {
            let latency = point(&measured(vec![run(vec![1000; writes], false)], 1)).unwrap().latency_s;
            [latency.p50, latency.p99, latency.p999].map(|percentile| percentile.is_some())
        };
        assert_eq!(percentiles(19), [false, false, false]);
        assert_eq!(percentiles(20), [true, false, false]);
        assert_eq!(percentiles(999), [true, false, false]);
        assert_eq!(percentiles(1000), [true, true, false]);
        assert_eq!(percentiles(10_000), [true, true, true]);
    }

    #[test]
    fn percentiles_are_those_of_the_single_writes_to_three_digits() {
        // 1 us to 10 ms in steps of 1 us, in one run.
        let latency = point(&measured(vec![run((1..=10_000).map(|us| us * 1000).collect(), false)], 1))
            .unwrap()
            .latency_s;
        for (found, expected) in
            [(latency.p50, 5e-3), (latency.p99, 9.9e-3), (latency.p999, 9.99e-3), (Some(latency.max), 10e-3)]
        {
            assert!((found.unwrap() / expected - 1.0).abs() < 1e-3, "{found:?} is not {expected}");
        }
    }

    #[test]
    fn a_disturbed_run_counts_only_where_no_clean_one_replaced_it() {
        let clean = || run(vec![100], false);
        let disturbed = || run(vec![900], true);
        let replaced = measured(vec![clean(), disturbed(), clean()], 2);
        assert_eq!(counted(&replaced), [true, false, true]);
        let lacking = measured(vec![clean(), disturbed(), disturbed()], 2);
        assert_eq!(counted(&lacking), [true, true, false]);
        let point = point(&replaced).unwrap();
        assert_eq!((point.runs, point.disturbed_runs, point.run_data.len()), (2, 1, 3));
    }
}
