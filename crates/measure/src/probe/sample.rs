//! Reports to test the reports with: stacks that follow latency = l + x/B exactly but for a little
//! deterministic unrest, and reports that lack everything or contain what no probe should.

use evenkeel_host::method::{FileState, Method};
use evenkeel_host::stack::Stack;

use crate::probe::report::{
    Batching, LatencySummary, Matrix, MatrixCell, MatrixSkip, Model, PhaseRange, Phases, Point, ProbeReport,
    Recommendation, Rule, RunData, SCHEMA, Summary, Warning, WarningCode,
};

use crate::probe::settings::Goals;
use crate::report::HOSTILE;

/// A stack that follows the line.
pub(crate) struct Line {
    pub(crate) fixed_latency_s: f64,
    pub(crate) bandwidth_bytes_per_s: f64,
}

impl Line {
    /// A point with five runs, all within 16 % of the line.
    pub(crate) fn point(&self, buffer_bytes: u64, method: Method) -> Point {
        let size = buffer_bytes as f64;
        // Some sizes vary more than others, as on a real device.
        let (power, shake) =
            (u64::from(buffer_bytes.ilog2()), [0.02, 0.05, 0.16, 0.03][buffer_bytes.ilog2() as usize % 4]);
        let unrest = |step: u64| 1.0 + shake * ((power * 7 + step * 5) as f64 * 0.9).sin();
        let run = |order: u32| {
            let latency =
                (self.fixed_latency_s + size / self.bandwidth_bytes_per_s) * unrest(u64::from(order));
            RunData {
                order,
                started_s: 3.0 * f64::from(order),
                writes: 2_400,
                throughput_bytes_per_s: size / latency,
                latency_s: latency,
                latency_p99_s: Some(latency * 2.1),
                latency_max_s: latency * 6.5,
                session: 0,
                disturbance: None,
                repeat: false,
                counted: true,
            }
        };
        let run_data: Vec<_> = (0..5).map(run).collect();
        let throughput = summary(run_data.iter().map(|run| run.throughput_bytes_per_s));
        let latency = summary(run_data.iter().map(|run| run.latency_s));
        let ratio = summary(run_data.iter().map(|run| run.throughput_bytes_per_s / run.latency_s));
        Point {
            buffer_bytes,
            method,
            writes: 12_000,
            runs: 5,
            disturbed_runs: 0,
            throughput_bytes_per_s: throughput,
            writes_per_s: throughput.mean / size,
            latency_s: LatencySummary {
                mean: latency.mean,
                sd: latency.sd,
                ci95: latency.ci95,
                p50: Some(latency.mean * 0.93),
                p99: Some(latency.mean * 2.1 + 0.2 * self.fixed_latency_s),
                p999: Some(latency.mean * 4.0),
                max: latency.mean * 6.5,
            },
            ratio: ratio.mean,
            ratio_ci95: ratio.ci95,
            device_writes_per_op: Some((size / 1_310_720.0).ceil()),
            device_flushes_per_op: Some(1.0),
            device_bytes_per_user_byte: Some(1.0 + 4096.0 / size),
            latency_histogram: (0..48)
                .map(|step: u32| {
                    (latency.mean * 0.8 * 1.05_f64.powi(step as i32), 12_000 / u64::from(1 + step * step / 8))
                })
                .collect(),
            run_data,
        }
    }

    fn optimum(&self) -> f64 {
        self.fixed_latency_s * self.bandwidth_bytes_per_s
    }
}

fn summary(values: impl Iterator<Item = f64>) -> Summary {
    const T_4: f64 = 2.776; // Student's t, 95 %, four degrees of freedom
    let values: Vec<f64> = values.collect();
    let many = values.len() as f64;
    let mean = values.iter().sum::<f64>() / many;
    let sd = (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (many - 1.0)).sqrt();
    let half = T_4 * sd / many.sqrt();
    let (low, high) =
        values.iter().fold((f64::MAX, f64::MIN), |(low, high), &value| (low.min(value), high.max(value)));
    Summary {
        mean,
        sd: Some(sd),
        ci95: Some([mean - half, mean + half]),
        relative_range: (high - low) / mean,
    }
}

/// A report with every part that a line allows, 4 KiB to 16 MiB, best buffer at l times B.
pub(crate) fn following(line: &Line, path: &str) -> ProbeReport {
    let points: Vec<_> = (12..=24).map(|power| line.point(1 << power, Method::DirectDsync)).collect();
    let optimum = line.optimum();
    let best = 1u64 << optimum.log2().round() as u32;
    let range = |from_bytes: f64, to_bytes: f64| Some(PhaseRange { from_bytes, to_bytes });
    ProbeReport {
        schema: SCHEMA.to_owned(),
        evenkeel_version: "0.1.0".to_owned(),
        started_unix_s: 1_769_860_800,
        duration_s: 425.0,
        seed: 7_245_861_122_908,
        host: Some("example".to_owned()),
        command: Some(format!("evenkeel probe {path}")),
        goals: Goals::default(),
        stack: Stack {
            path: path.to_owned(),
            file_system: "ext4".to_owned(),
            mount_options: "rw,relatime,errors=remount-ro,data=ordered".to_owned(),
            device: "/dev/sdb1".to_owned(),
            device_model: Some("EXAMPLE DISK 4000".to_owned()),
            loop_file: None,
            scheduler: Some("mq-deadline".to_owned()),
            write_cache: Some("write back".to_owned()),
            fua: Some(false),
            rotational: Some(true),
            in_memory: false,
            over_network: false,
            size_bytes: Some(4_000_000_000_000),
            free_bytes: Some(1_234_567_890_123),
            kernel: "6.12.0-example".to_owned(),
        },
        method: Method::DirectDsync,
        file_state: FileState::Written,
        writers: 1,
        runs: 5,
        sessions: 1,
        quick: false,
        points,
        model: Some(Model {
            fixed_latency_s: line.fixed_latency_s,
            bandwidth_bytes_per_s: line.bandwidth_bytes_per_s,
            optimum_bytes: optimum,
            r2: 0.9987,
            fixed_latency_interval_s: Some([0.97, 1.04].map(|factor| factor * line.fixed_latency_s)),
            bandwidth_interval_bytes_per_s: Some(
                [0.96, 1.03].map(|factor| factor * line.bandwidth_bytes_per_s),
            ),
            optimum_interval_bytes: Some([0.94, 1.07].map(|factor| factor * optimum)),
            residual_max: Some(0.012),
        }),
        phases: Some(Phases {
            constant_latency: range(4096.0, optimum / 5.0),
            both_grow: range(optimum / 5.0, optimum * 5.0),
            constant_throughput: range(optimum * 5.0, 16_777_216.0),
            middle_slope: 0.52,
            growth_max: Some(1.5),
        }),
        recommendation: Some(Recommendation {
            buffer_bytes: Some(best),
            also_bytes: vec![best / 2, best],
            undecided_bytes: Vec::new(),
            rule: Rule::BestRatio,
            reason:
                "This size has the greatest throughput for each unit of latency; half of it serves as well."
                    .to_owned(),
        }),
        batching: None,
        matrix: None,
        like: None,
        warnings: Vec::new(),
    }
}

/// A disk with l = 2.5 ms, B = 209.7 MB/s and so l times B = 512 KiB, with everything a report can hold.
pub(crate) fn disk() -> ProbeReport {
    let line = Line { fixed_latency_s: 2.5e-3, bandwidth_bytes_per_s: 209_715_200.0 };
    let mut report = following(&line, "/srv/data");
    let shaken = &mut report.points[4];
    shaken.disturbed_runs = 1;
    shaken.run_data[2].disturbance = Some("other processes wrote 38 MiB to the device".to_owned());
    shaken.latency_s.p999 = None;
    let slow = Line { fixed_latency_s: 9.1e-3, ..line };
    let last = report.points.last_mut().unwrap();
    last.writes = 400;
    last.latency_s.p99 = None;
    last.latency_s.p999 = None;
    report.batching = Some(Batching {
        record_bytes: 700,
        records_per_batch: 748,
        arrival_rate_per_s: Some(20_000.0),
        fill_time_s: Some(0.0374),
        mean_wait_s: Some(0.0187),
        mean_durable_s: Some(0.0237),
        utilisation: Some(0.133),
        group_commit_records: Some(53.6),
        group_commit_durable_s: Some(0.0075),
    });
    // Half a percent apart, so that one of them is the best.
    let cell = |rank: usize, method: Method, file_state: FileState| {
        let base = if method.is_direct() && file_state == FileState::Written { &line } else { &slow };
        let line = Line { fixed_latency_s: base.fixed_latency_s * (1.0 + 0.005 * rank as f64), ..*base };
        let points = vec![line.point(4096, method), line.point(1 << 19, method)];
        MatrixCell { method, file_state, points }
    };
    report.matrix = Some(Matrix {
        cells: [Method::DirectDsync, Method::Uring, Method::Fdatasync]
            .into_iter()
            .flat_map(|method| FileState::ALL.map(|state| (method, state)))
            .enumerate()
            .map(|(rank, (method, state))| cell(rank, method, state))
            .collect(),
        skipped: vec![MatrixSkip {
            method: Method::RwfDsync,
            file_state: FileState::Written,
            reason: "the file system refuses RWF_DSYNC".to_owned(),
        }],
        advice: vec!["use direct-dsync over a file that is written: it writes 4 KiB in 2.5 ms".to_owned()],
        effects: Vec::new(),
    });
    report.warnings = vec![
        Warning {
            code: WarningCode::TooFastToBeTrue,
            message: "Writes of 4 KiB return faster than this disk turns; check its write cache.".to_owned(),
        },
        Warning {
            code: WarningCode::Disturbed,
            message: "1 of 65 runs was disturbed by other processes; measure on an idle device.".to_owned(),
        },
    ];
    report
}

/// A solid-state device: 80 us, 1.9 GB/s.
pub(crate) fn flash() -> ProbeReport {
    following(&Line { fixed_latency_s: 80e-6, bandwidth_bytes_per_s: 1.9e9 }, "/mnt/flash")
}

/// A network mount: 9 ms, 90 MB/s.
pub(crate) fn network() -> ProbeReport {
    following(&Line { fixed_latency_s: 9e-3, bandwidth_bytes_per_s: 9e7 }, "/net/share")
}

/// One point of one run and nothing else.
pub(crate) fn bare() -> ProbeReport {
    let mut report = disk();
    report.points.truncate(1);
    let point = &mut report.points[0];
    point.run_data.truncate(1);
    point.runs = 1;
    point.throughput_bytes_per_s.sd = None;
    point.throughput_bytes_per_s.ci95 = None;
    point.latency_s =
        LatencySummary { sd: None, ci95: None, p50: None, p99: None, p999: None, ..point.latency_s };
    point.ratio_ci95 = None;
    point.device_writes_per_op = None;
    point.device_flushes_per_op = None;
    point.device_bytes_per_user_byte = None;
    report.stack = Stack {
        device_model: None,
        scheduler: None,
        write_cache: None,
        fua: None,
        rotational: None,
        size_bytes: None,
        free_bytes: None,
        ..report.stack
    };
    ProbeReport {
        model: None,
        phases: None,
        recommendation: None,
        batching: None,
        matrix: None,
        warnings: Vec::new(),
        ..report
    }
}

/// No points at all, as after an interrupt in the first run.
pub(crate) fn empty() -> ProbeReport {
    ProbeReport { points: Vec::new(), ..bare() }
}

/// Numbers that no measurement yields.
pub(crate) fn odd() -> ProbeReport {
    let mut report = disk();
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -1.0, f64::MAX, f64::MIN_POSITIVE];
    for (point, value) in report.points.iter_mut().zip(odd) {
        point.throughput_bytes_per_s.mean = value;
        point.throughput_bytes_per_s.ci95 = Some([value, -value]);
        point.latency_s.mean = value;
        point.latency_s.p50 = Some(value);
        point.latency_s.max = value;
        point.ratio = value;
    }
    report.points[7].buffer_bytes = 0;
    report.points[8].buffer_bytes = u64::MAX;
    report.points[9].latency_s.ci95 = Some([-1.0, f64::INFINITY]);
    report.model = Some(Model {
        fixed_latency_s: -1.0,
        bandwidth_bytes_per_s: 0.0,
        optimum_bytes: f64::NAN,
        r2: f64::NAN,
        fixed_latency_interval_s: Some([f64::NAN, -1.0]),
        bandwidth_interval_bytes_per_s: None,
        optimum_interval_bytes: Some([f64::INFINITY, 0.0]),
        residual_max: Some(f64::NAN),
    });
    report.phases = Some(Phases {
        constant_latency: Some(PhaseRange { from_bytes: f64::NAN, to_bytes: 0.0 }),
        both_grow: Some(PhaseRange { from_bytes: 1e9, to_bytes: 1.0 }),
        constant_throughput: None,
        middle_slope: f64::NAN,
        growth_max: Some(f64::NAN),
    });
    report.recommendation.as_mut().unwrap().buffer_bytes = None;
    ProbeReport { started_unix_s: u64::MAX, duration_s: f64::NAN, ..report }
}

/// Every text that comes from outside tries to break out.
pub(crate) fn hostile() -> ProbeReport {
    let mut report = disk();
    let text = || HOSTILE.to_owned();
    report.evenkeel_version = text();
    report.host = Some(text());
    report.command = Some(text());
    report.stack = Stack {
        path: text(),
        file_system: text(),
        mount_options: text(),
        device: text(),
        device_model: Some(text()),
        loop_file: Some(text()),
        scheduler: Some(text()),
        write_cache: Some(text()),
        kernel: text(),
        ..report.stack
    };
    report.recommendation.as_mut().unwrap().reason = text();
    report.points[0].run_data[0].disturbance = Some(text());
    let matrix = report.matrix.as_mut().unwrap();
    matrix.skipped[0].reason = text();
    matrix.advice.push(text());
    report.warnings.push(Warning { code: WarningCode::NearlyFull, message: text() });
    report
}

/// Every sample.
pub(crate) fn all() -> Vec<ProbeReport> {
    vec![disk(), flash(), network(), bare(), empty(), odd(), hostile()]
}
