//! A stack in virtual time, and what a whole probe of it concludes.

use evenkeel_host::block_device::Counters;
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::{FileState, Method};
use evenkeel_host::stack::Stack;

pub(crate) use super::honest_disk::honest_disk;
use super::page::probe_page;
use super::report::{ProbeReport, Rule, WarningCode};
use super::settings::{Combination, Goals, LatencyBound, Records, Settings};
use super::target::{Observation, RunOrder, Target, TargetError};
use super::{Observer, Progress, curve};

/// A stack in virtual time: fixed latency, bandwidth, and what the test adds.
pub(crate) struct VirtualStack {
    pub(crate) fixed_s: f64,
    pub(crate) bandwidth: f64,
    pub(crate) now_s: f64,
    pub(crate) orders: Vec<RunOrder>,
    pub(crate) unsupported: Option<Method>,
    /// Relative noise of the n-th run.
    pub(crate) noise: fn(usize) -> f64,
    /// Steal time seen in the n-th run, in seconds.
    pub(crate) steal_s: fn(usize) -> f64,
    pub(crate) flushes_per_write: u64,
    pub(crate) background_bytes_per_s: Option<f64>,
}

impl VirtualStack {
    pub(crate) fn new(fixed_s: f64, bandwidth: f64) -> Self {
        Self {
            fixed_s,
            bandwidth,
            now_s: 0.0,
            orders: Vec::new(),
            unsupported: None,
            noise: |run| (run * 7919 % 101) as f64 / 101.0 * 0.02,
            steal_s: |_| 0.0,
            flushes_per_write: 0,
            background_bytes_per_s: None,
        }
    }
}

impl Target for VirtualStack {
    fn method_for(&self, method: Method, _: u64) -> Method {
        method
    }

    fn prepare(&mut self, _: &[Combination], _: u64) -> Result<(), TargetError> {
        Ok(())
    }

    fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
        if self.unsupported == Some(order.combination.method) {
            return Err(TargetError::Unsupported { reason: "not here".to_owned() });
        }
        let number = self.orders.len();
        let exact_s = self.fixed_s + order.buffer_bytes as f64 / self.bandwidth;
        let write_s = exact_s * (1.0 + (self.noise)(number));
        self.orders.push(*order);
        let elapsed_s = write_s * order.writes as f64;
        self.now_s += elapsed_s + 0.001;
        let mut seen = Observation { elapsed_s, ..Observation::default() };
        seen.latencies_ns = vec![(write_s * 1e9) as u64; order.writes as usize];
        seen.device = Some(Counters {
            writes: order.writes,
            written_bytes: order.writes * order.buffer_bytes,
            flushes: Some(order.writes * self.flushes_per_write),
            ..Counters::default()
        });
        seen.cpu.all_s = 2.0 * elapsed_s;
        seen.cpu.steal_s = (self.steal_s)(number);
        Ok(seen)
    }

    fn background_bytes_per_s(&mut self) -> Option<f64> {
        self.background_bytes_per_s
    }

    fn now_s(&self) -> f64 {
        self.now_s
    }

    fn wait_s(&mut self, seconds: f64) {
        self.now_s += seconds;
    }
}

pub(crate) struct Nobody;

impl Observer for Nobody {
    fn progress(&mut self, _: Progress) {}
}

pub(crate) const PLAIN: Combination =
    Combination { method: Method::DirectDsync, file_state: FileState::Fresh };

/// A probe of `stack` on an honest disk.
pub(crate) fn probe_of(settings: &Settings, stack: &mut VirtualStack, interrupt: &Interrupt) -> ProbeReport {
    super::run(settings, stack, honest_disk(), interrupt, &mut Nobody).unwrap()
}

fn plain_probe(settings: &Settings) -> ProbeReport {
    probe_of(settings, &mut VirtualStack::new(400e-6, 1e9), &Interrupt::default())
}

fn with_goals(goals: Goals) -> Settings {
    Settings { goals, ..Settings::paper(PLAIN) }
}

#[test]
fn a_stack_of_known_cost_is_recommended_its_known_optimum() {
    // l B = 400 us x 1 GB/s = 400 kB: between 256 and 512 KiB.
    let report = plain_probe(&Settings::paper(PLAIN));
    let recommendation = report.recommendation.unwrap();
    assert_eq!(recommendation.rule, Rule::BestRatio);
    assert!([256 << 10, 512 << 10].contains(&recommendation.buffer_bytes.unwrap()));
    let model = report.model.unwrap();
    assert!((model.optimum_bytes / 400e3 - 1.0).abs() < 0.05, "{model:?}");
    assert!(model.r2 > 0.99);
    let phases = report.phases.unwrap();
    let middle = phases.both_grow.unwrap();
    assert!(middle.from_bytes < 400e3 && 400e3 < middle.to_bytes, "{phases:?}");
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
}

#[test]
fn three_runs_a_size_show_neither_phases_nor_a_line_and_the_page_says_so() {
    let report = plain_probe(&Settings { runs: 3, ..Settings::paper(PLAIN) });
    assert_eq!((report.model, report.phases), (None, None));
    let said = curve::sentences(&report);
    assert_eq!(said, ["The phases, and l and B of a line l + x/B, cannot be said from 3 runs a size."]);
    assert!(probe_page(&report).contains(&said[0]));
}

#[test]
fn the_parameters_of_a_line_are_said_as_ranges_that_hold_them() {
    let report = plain_probe(&Settings::paper(PLAIN));
    let model = report.model.unwrap();
    // A typical run takes 1.01 times as long as the fastest.
    let ranges = [
        (model.fixed_latency_interval_s, model.fixed_latency_s, 404e-6),
        (model.bandwidth_interval_bytes_per_s, model.bandwidth_bytes_per_s, 990e6),
        (model.optimum_interval_bytes, model.optimum_bytes, 400e3),
    ];
    for (range, fitted, truth) in ranges {
        let [low, high] = range.unwrap();
        assert!(low <= truth && truth <= high && low <= fitted && fitted <= high, "{model:?}");
        assert!(high < 1.2 * low, "{model:?}");
    }
    let [of_model, of_phases]: [String; 2] = curve::sentences(&report).try_into().unwrap();
    assert!(
        of_model.starts_with("Model: if a write costs l plus its bytes at B, l is 401 us to "),
        "{of_model}"
    );
    // Latency of 1.5 times that of 4 KiB is at 202 KiB, 1 / 1.5 of the throughput of 16 MiB at 766 KiB.
    assert_eq!(
        of_phases,
        "Phases: latency grows by less than half up to 128 KiB; both grow from 256 KiB to 512 KiB; throughput grows by \
         less than half from 1 MiB on."
    );
}

#[test]
fn phases_that_were_fitted_and_not_tested_are_not_shown() {
    let mut report = plain_probe(&Settings::paper(PLAIN));
    assert!(probe_page(&report).contains("I constant latency"));
    report.phases.as_mut().unwrap().growth_max = None;
    assert!(!probe_page(&report).contains("I constant latency"));
}

#[test]
fn sizes_that_runs_cannot_tell_apart_are_said_to_be_tied() {
    // At l B = 2^18.5 the ratios of 256 and 512 KiB are equal but for the noise.
    let mut stack = VirtualStack::new(f64::from(1 << 18) * 2_f64.sqrt() / 1e9, 1e9);
    let recommendation =
        probe_of(&Settings::paper(PLAIN), &mut stack, &Interrupt::default()).recommendation.unwrap();
    assert_eq!(recommendation.also_bytes.len(), 1, "{}", recommendation.reason);
    assert!(recommendation.reason.ends_with("cannot be told apart from it"), "{}", recommendation.reason);
}

#[test]
fn a_throughput_goal_takes_the_smallest_buffer_and_a_latency_goal_the_largest() {
    // x / (400 us + x / 1 GB/s) reaches 500 MB/s from 400 kB on.
    let goals = Goals { min_throughput_bytes_per_s: Some(450e6), ..Goals::default() };
    let recommendation = plain_probe(&with_goals(goals)).recommendation.unwrap();
    assert_eq!((recommendation.buffer_bytes, recommendation.rule), (Some(512 << 10), Rule::MinThroughput));

    let goals = Goals { max_latency_s: Some(1e-3), ..Goals::default() };
    let recommendation = plain_probe(&with_goals(goals)).recommendation.unwrap();
    assert_eq!((recommendation.buffer_bytes, recommendation.rule), (Some(512 << 10), Rule::MaxLatency));
}

#[test]
fn both_goals_give_a_range_or_the_nearest_miss() {
    let goals =
        Goals { min_throughput_bytes_per_s: Some(100e6), max_latency_s: Some(1e-3), ..Goals::default() };
    let recommendation = plain_probe(&with_goals(goals)).recommendation.unwrap();
    assert_eq!(recommendation.buffer_bytes, Some(64 << 10));
    assert_eq!(recommendation.also_bytes, [128 << 10, 256 << 10, 512 << 10]);

    let goals = Goals { min_throughput_bytes_per_s: Some(900e6), ..goals };
    let recommendation = plain_probe(&with_goals(goals)).recommendation.unwrap();
    assert_eq!(recommendation.buffer_bytes, None);
    assert!(recommendation.reason.starts_with("no buffer does both 900 MB/s"), "{}", recommendation.reason);
    assert!(recommendation.reason.contains("nearest is "), "{}", recommendation.reason);
}

#[test]
fn a_percentile_goal_is_answered_at_every_size_that_time_and_room_allow() {
    let goals = Goals { max_latency_s: Some(1.0), bound: LatencyBound::P99, ..Goals::default() };
    let recommendation = plain_probe(&with_goals(goals)).recommendation.unwrap();
    assert_eq!(recommendation.buffer_bytes, Some(16 << 20));

    // Hurried, the large sizes have too few writes: what is not known is not claimed.
    let hurried = Settings { time_budget_s: Some(20.0), ..with_goals(goals) };
    let recommendation = plain_probe(&hurried).recommendation.unwrap();
    assert!(recommendation.buffer_bytes.unwrap() < 16 << 20);
    assert!(recommendation.reason.contains("the largest buffer known to keep"), "{}", recommendation.reason);
    assert!(recommendation.reason.contains("too few writes to know their p99"), "{}", recommendation.reason);
}

#[test]
fn a_buffer_is_told_in_records_and_waiting_time() {
    let records = Records { record_bytes: 1024, arrival_rate_per_s: Some(100_000.0) };
    let goals = Goals { max_latency_s: Some(1e-3), ..Goals::default() };
    let report = plain_probe(&Settings { records: Some(records), ..with_goals(goals) });
    let batching = report.batching.unwrap();
    assert_eq!(batching.records_per_batch, 512);
    assert!((batching.fill_time_s.unwrap() - 5.12e-3).abs() < 1e-9);
    assert!((batching.mean_wait_s.unwrap() - 511.0 / 200_000.0).abs() < 1e-9);
    assert!((batching.utilisation.unwrap() - 102.4e6 / 567e6).abs() < 0.01);
    // r l / (1 - r d / B) = 40 / (1 - 0.1024)
    assert!((batching.group_commit_records.unwrap() - 44.6).abs() < 1.5, "{batching:?}");
}

#[test]
fn more_records_than_the_stack_can_take_have_no_group_commit() {
    let records = Records { record_bytes: 1024, arrival_rate_per_s: Some(2e6) };
    let batching =
        plain_probe(&Settings { records: Some(records), ..Settings::paper(PLAIN) }).batching.unwrap();
    assert!(batching.utilisation.unwrap() > 1.0);
    assert_eq!(batching.group_commit_records, None);
}

#[test]
fn a_matrix_recommends_the_fastest_combination_and_says_what_it_saves() {
    struct Overwrites(VirtualStack);
    impl Target for Overwrites {
        fn method_for(&self, method: Method, _: u64) -> Method {
            method
        }
        fn prepare(&mut self, _: &[Combination], _: u64) -> Result<(), TargetError> {
            Ok(())
        }
        fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
            let appends = order.combination.file_state == FileState::Fresh;
            self.0.fixed_s = if appends { 250e-6 } else { 100e-6 };
            self.0.run(order)
        }
        fn now_s(&self) -> f64 {
            self.0.now_s()
        }
        fn wait_s(&mut self, seconds: f64) {
            self.0.wait_s(seconds);
        }
    }
    let combinations =
        [FileState::Fresh, FileState::Written].map(|file_state| Combination { file_state, ..PLAIN }).to_vec();
    let settings = Settings { combinations, buffer_sizes: vec![4096, 65536], ..Settings::paper(PLAIN) };
    let mut target = Overwrites(VirtualStack::new(0.0, 1e9));
    let report =
        super::run(&settings, &mut target, honest_disk(), &Interrupt::default(), &mut Nobody).unwrap();
    assert_eq!(report.file_state, FileState::Written);
    let matrix = report.matrix.unwrap();
    assert_eq!(matrix.cells.len(), 2);
    assert!(
        matrix.advice[0].starts_with("use direct-dsync over a file that is written: it writes 4 KiB in 10"),
        "{:?}",
        matrix.advice
    );
    assert!(matrix.advice[1].starts_with("with direct-dsync, a fresh file takes 2.1"), "{:?}", matrix.advice);
    let [effect] = matrix.effects.as_slice() else { panic!("{:?}", matrix.effects) };
    let [low, high] = effect.interval.unwrap();
    assert!(
        1.9 < low && low < effect.latency_ratio && effect.latency_ratio < high && high < 2.5,
        "{effect:?}"
    );
}

#[test]
fn a_matrix_of_ways_that_do_not_differ_claims_nothing() {
    let combinations: Vec<Combination> = Method::ALL
        .into_iter()
        .flat_map(|method| FileState::ALL.map(|file_state| Combination { method, file_state }))
        .collect();
    let mut wrong = 0;
    for seed in 0..60 {
        let settings = Settings {
            combinations: combinations.clone(),
            buffer_sizes: vec![64 << 10, 1 << 20],
            runs: 10,
            seed,
            ..Settings::paper(PLAIN)
        };
        // Runs of a level that drifts, 5 % of them 40 % slower.
        let mut stack = VirtualStack::new(1e-3, 1e9);
        stack.noise = |run| {
            let slow = if run * 7919 % 101 < 5 { 0.4 } else { 0.0 };
            slow + (run as f64 / 70.0).sin() * 0.15 + (run * 6007 % 103) as f64 / 103.0 * 0.05
        };
        let matrix = probe_of(&settings, &mut stack, &Interrupt::default()).matrix.unwrap();
        wrong += usize::from(matrix.effects.iter().any(super::report::MatrixEffect::is_shown));
    }
    assert!(wrong <= 6, "{wrong} of 60");
}

#[test]
fn a_few_slow_runs_do_not_choose_the_buffer() {
    // One run in eleven takes thirty times as long: the mean of most sizes is theirs.
    let mut stack = VirtualStack::new(400e-6, 1e9);
    stack.noise = |run| if run % 11 == 3 { 30.0 } else { (run * 7919 % 101) as f64 / 101.0 * 0.02 };
    let recommendation =
        probe_of(&Settings::paper(PLAIN), &mut stack, &Interrupt::default()).recommendation.unwrap();
    assert!([256 << 10, 512 << 10].contains(&recommendation.buffer_bytes.unwrap()), "{recommendation:?}");
    assert!(recommendation.reason.contains("by the median run (a few make the mean "), "{recommendation:?}");
}

#[test]
fn of_sizes_that_are_tied_the_smallest_is_advised() {
    let mut stack = VirtualStack::new(f64::from(1 << 18) * 2_f64.sqrt() / 1e9, 1e9);
    let recommendation =
        probe_of(&Settings::paper(PLAIN), &mut stack, &Interrupt::default()).recommendation.unwrap();
    assert_eq!(recommendation.buffer_bytes, Some(256 << 10), "{recommendation:?}");
    assert_eq!(recommendation.also_bytes, [512 << 10]);
}

#[test]
fn the_smallest_that_was_measured_is_not_called_the_smallest() {
    // A fifth of a second a write: not all sizes fit the time. For a goal of throughput the small ones come first.
    let goals = Goals { min_throughput_bytes_per_s: Some(3e3), ..Goals::default() };
    let hurried = |goals| Settings { time_budget_s: Some(60.0), ..with_goals(goals) };
    let of = |goals| probe_of(&hurried(goals), &mut VirtualStack::new(0.2, 10e6), &Interrupt::default());
    let report = of(goals);
    assert_eq!(report.points[0].buffer_bytes, 4096, "small sizes come first");
    let recommendation = report.recommendation.unwrap();
    assert_eq!(recommendation.buffer_bytes, Some(4096));
    assert!(recommendation.reason.contains("the smallest buffer that reaches"), "{recommendation:?}");

    let goals = Goals { min_throughput_bytes_per_s: Some(9.5e6), ..Goals::default() };
    let recommendation = of(goals).recommendation.unwrap();
    assert_eq!(recommendation.buffer_bytes, None);
    assert!(recommendation.reason.starts_with("no measured buffer reaches"), "{recommendation:?}");
    assert!(
        recommendation.reason.contains("not measured for want of time, and may do so"),
        "{recommendation:?}"
    );
}

#[test]
fn that_most_runs_were_disturbed_is_said_first() {
    let mut stolen = VirtualStack::new(1e-3, 1e9);
    stolen.steal_s = |run| if run % 3 > 0 { 1.0 } else { 0.0 };
    stolen.noise = |run| (run * 7919 % 101) as f64 / 101.0 * 0.5;
    let report = probe_of(&Settings::paper(PLAIN), &mut stolen, &Interrupt::default());
    assert_eq!(report.warnings[0].code, WarningCode::MostlyDisturbed);
    assert!(report.warnings[0].message.starts_with("most runs, "), "{:?}", report.warnings);
    assert!(report.warnings.iter().all(|warning| warning.code != WarningCode::Disturbed));
}

/// Warning codes of a probe of `stack` in virtual time, at a fixed cost of `fixed_s`.
fn warned(stack: Stack, fixed_s: f64, settings: &Settings) -> Vec<WarningCode> {
    let mut target = VirtualStack::new(fixed_s, 1e9);
    let report = super::run(settings, &mut target, stack, &Interrupt::default(), &mut Nobody).unwrap();
    report.warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn a_flush_too_fast_to_be_true_is_called_so() {
    let settings = Settings::paper(PLAIN);
    let memory = Stack { file_system: "tmpfs".to_owned(), in_memory: true, ..honest_disk() };
    assert_eq!(warned(memory, 1e-4, &settings), [WarningCode::TooFastToBeTrue]);
    let no_barrier = Stack { mount_options: "rw,nobarrier".to_owned(), ..honest_disk() };
    assert_eq!(warned(no_barrier, 1e-4, &settings), [WarningCode::TooFastToBeTrue]);
    let turning = Stack { rotational: Some(true), ..honest_disk() };
    assert_eq!(warned(turning.clone(), 1e-4, &settings), [WarningCode::TooFastToBeTrue]);
    assert_eq!(warned(turning.clone(), 8e-3, &settings), []);
    // A hypervisor's disk says that it turns whatever it is.
    let virtual_disk = Stack { device: "/dev/vda1".to_owned(), ..turning };
    assert_eq!(warned(virtual_disk, 1e-4, &settings), []);
    assert_eq!(warned(honest_disk(), 1e-7, &settings), [WarningCode::TooFastToBeTrue]);
    // A volatile cache that no flush reached: the virtual stack reports none.
    let volatile = Stack { write_cache: Some("write back".to_owned()), fua: Some(false), ..honest_disk() };
    let mut target = VirtualStack::new(1e-4, 1e9);
    target.flushes_per_write = 1;
    let report =
        super::run(&settings, &mut target, volatile.clone(), &Interrupt::default(), &mut Nobody).unwrap();
    assert!(report.warnings.is_empty(), "{:?}", report.warnings);
    assert_eq!(warned(volatile, 1e-4, &settings), [WarningCode::TooFastToBeTrue]);
}

#[test]
fn stacks_that_are_more_than_a_disk_are_called_so() {
    let settings = Settings::paper(PLAIN);
    let network = Stack { file_system: "nfs4".to_owned(), over_network: true, ..honest_disk() };
    assert_eq!(warned(network, 1e-3, &settings), [WarningCode::NetworkFileSystem]);
    let looped = Stack { loop_file: Some("/srv/image".to_owned()), ..honest_disk() };
    assert_eq!(warned(looped, 1e-3, &settings), [WarningCode::LoopDevice]);
    let full = Stack { free_bytes: Some(1 << 30), ..honest_disk() };
    assert_eq!(warned(full, 1e-3, &settings), [WarningCode::NearlyFull]);
}

#[test]
fn direct_writes_that_btrfs_does_not_make_are_called_so() {
    let settings = Settings::paper(PLAIN);
    let btrfs = |kernel: &str, options: &str| Stack {
        file_system: "btrfs".to_owned(),
        kernel: kernel.to_owned(),
        mount_options: options.to_owned(),
        ..honest_disk()
    };
    assert_eq!(warned(btrfs("6.14.0", "rw"), 1e-3, &settings), [WarningCode::FellBackToBuffered]);
    assert_eq!(warned(btrfs("6.18.44-v6", "rw,nodatasum"), 1e-3, &settings), []);
    assert_eq!(warned(btrfs("6.1.0-18-amd64", "rw"), 1e-3, &settings), []);
}

#[test]
fn a_precision_that_was_not_reached_is_called_so() {
    let mut noisy = VirtualStack::new(1e-3, 1e9);
    noisy.noise = |run| (run * 7919 % 101) as f64 / 101.0 * 0.09;
    let settings = Settings { precision: Some(0.0005), runs: 4, ..Settings::paper(PLAIN) };
    let report = probe_of(&settings, &mut noisy, &Interrupt::default());
    let codes: Vec<_> = report.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [WarningCode::CutShort]);
}

#[test]
fn traffic_on_the_idle_device_is_called_so() {
    let mut shared = VirtualStack::new(1e-3, 1e9);
    shared.background_bytes_per_s = Some(50e6);
    let report = probe_of(&Settings::paper(PLAIN), &mut shared, &Interrupt::default());
    assert_eq!(report.warnings[0].code, WarningCode::Disturbed);
    assert!(report.warnings[0].message.starts_with("others moved 50 MB/s"), "{:?}", report.warnings);
}

#[test]
fn figures_that_cannot_be_trusted_are_called_so() {
    let mut noisy = VirtualStack::new(1e-3, 1e9);
    noisy.noise = |run| (run * 7919 % 101) as f64 / 101.0 * 0.5;
    let report = probe_of(&Settings::paper(PLAIN), &mut noisy, &Interrupt::default());
    assert!(report.warnings.iter().any(|warning| warning.code == WarningCode::VariesTooMuch));

    let mut stolen = VirtualStack::new(1e-3, 1e9);
    stolen.steal_s = |run| if run == 50 { 1.0 } else { 0.0 };
    let report = probe_of(&Settings::paper(PLAIN), &mut stolen, &Interrupt::default());
    let codes: Vec<_> = report.warnings.iter().map(|warning| warning.code).collect();
    assert_eq!(codes, [WarningCode::Disturbed]);

    let hurried = Settings { time_budget_s: Some(20.0), ..Settings::paper(PLAIN) };
    assert_eq!(warned(honest_disk(), 8e-3, &hurried), [WarningCode::CutShort]);
}

#[test]
fn a_model_that_does_not_fit_is_called_so() {
    // The cost per write jumps at 1 MiB, as where a drive's cache is full: no line passes through that.
    struct Jumps(VirtualStack);
    impl Target for Jumps {
        fn method_for(&self, method: Method, _: u64) -> Method {
            method
        }
        fn prepare(&mut self, _: &[Combination], _: u64) -> Result<(), TargetError> {
            Ok(())
        }
        fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
            self.0.fixed_s = if order.buffer_bytes > 16384 { 20e-3 } else { 100e-6 };
            self.0.run(order)
        }
        fn now_s(&self) -> f64 {
            self.0.now_s()
        }
        fn wait_s(&mut self, seconds: f64) {
            self.0.wait_s(seconds);
        }
    }
    let mut target = Jumps(VirtualStack::new(0.0, 1e9));
    let settings = Settings::paper(PLAIN);
    let report =
        super::run(&settings, &mut target, honest_disk(), &Interrupt::default(), &mut Nobody).unwrap();
    assert!(report.warnings.iter().any(|warning| warning.code == WarningCode::ModelDisagrees));
}

#[test]
fn a_fallback_is_called_so() {
    struct Odd(VirtualStack);
    impl Target for Odd {
        fn method_for(&self, method: Method, buffer_bytes: u64) -> Method {
            if buffer_bytes.is_multiple_of(4096) { method } else { method.buffered() }
        }
        fn prepare(&mut self, _: &[Combination], _: u64) -> Result<(), TargetError> {
            Ok(())
        }
        fn run(&mut self, order: &RunOrder) -> Result<Observation, TargetError> {
            self.0.run(order)
        }
        fn now_s(&self) -> f64 {
            self.0.now_s()
        }
        fn wait_s(&mut self, seconds: f64) {
            self.0.wait_s(seconds);
        }
    }
    let settings = Settings { buffer_sizes: vec![1000, 4096], ..Settings::paper(PLAIN) };
    let mut target = Odd(VirtualStack::new(1e-3, 1e9));
    let report =
        super::run(&settings, &mut target, honest_disk(), &Interrupt::default(), &mut Nobody).unwrap();
    assert_eq!(report.points[0].method, Method::Dsync);
    assert!(report.warnings.iter().any(|warning| warning.code == WarningCode::FellBackToBuffered));
}
