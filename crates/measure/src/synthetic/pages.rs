//! Synthetic probes and comparisons: noise of a kind, and at most one difference in it; what their pages claim, judged.
//!
//! A page is the terminal's text, the HTML, the JSON and the exit code together, which all say what the document holds. So
//! the document's claims are judged: which sizes or ways are told apart, which goals are met, which verdicts are given,
//! which warnings draw a conclusion. What was measured is no claim.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::{FileState, Method};

use super::audit::{Rates, over};
use super::machine::{Cost, Machine, P99_FACTOR, Synthetic, median_factor};
use super::noise::Noise;
use crate::compare::{self, Comparisons, Verdict, compare_pairs, compare_sessions};
use crate::probe::honest_disk::honest_disk;
use crate::probe::like::{Enough, Program};
use crate::probe::report::{ProbeReport, Recommendation, WarningCode};
use crate::probe::settings::{Combination, Goals, Records, Settings};
use crate::probe::{Observer, Progress, run_together};

/// A kind of page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Page {
    /// The advice of a probe, of sizes whose ratio is the same.
    Advice,
    /// The advice of a probe of a fixed cost and a bandwidth, at which two sizes have the same ratio.
    Line,
    /// The same, whether its fixed cost and its bandwidth are said.
    Parameters,
    /// The curve of a probe in which latency grows as the square root of the size: no phase but one, and no line.
    Power,
    /// A goal of throughput, which every size just meets or just misses.
    Throughput,
    /// A goal of latency, which every size just meets or just misses.
    Latency,
    /// Records under group commit, of sizes that take as long.
    Records,
    /// Three methods by two states of the file.
    Matrix,
    /// `--like etcd`, with a p99 just above or just below what etcd asks for.
    Like,
    /// `probe A B`.
    Pairs,
    /// `compare` of two sessions.
    Sessions,
    /// `compare` of two probes of five sessions each.
    Repeated,
}

impl Page {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Advice,
        Self::Line,
        Self::Parameters,
        Self::Power,
        Self::Throughput,
        Self::Latency,
        Self::Records,
        Self::Matrix,
        Self::Like,
        Self::Pairs,
        Self::Sessions,
        Self::Repeated,
    ];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Advice => "advice",
            Self::Line => "line",
            Self::Parameters => "parameters",
            Self::Power => "power",
            Self::Throughput => "throughput",
            Self::Latency => "latency",
            Self::Records => "records",
            Self::Matrix => "matrix",
            Self::Like => "like",
            Self::Pairs => "pairs",
            Self::Sessions => "sessions",
            Self::Repeated => "repeated",
        }
    }
}

/// How often pages of a kind are wrong, where one thing differs from the rest by a share of the time it takes, or by none.
#[must_use]
pub fn audit_pages(
    page: Page,
    noise: Noise,
    difference: f64,
    seeds: std::ops::Range<u64>,
    threads: u64,
) -> Rates {
    over(seeds, threads, |seed| Probe { page, noise, difference, seed }.judged())
}

/// Pages of `probe A B` of `seeds` for which `--fail-if-slower` ends with exit code 1, B being slower by `difference`.
#[must_use]
pub fn alarms(
    noise: Noise,
    difference: f64,
    fails_from: f64,
    seeds: std::ops::Range<u64>,
    threads: u64,
) -> Rates {
    over(seeds, threads, |seed| {
        let probe = Probe { page: Page::Pairs, noise, difference, seed };
        let strikes = probe.pairs().1.slower_by(fails_from).is_some();
        Rates::of_page(if strikes { vec!["alarm"] } else { Vec::new() }, false)
    })
}

/// One page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Probe {
    pub(super) page: Page,
    pub(super) noise: Noise,
    pub(super) difference: f64,
    pub(super) seed: u64,
}

/// Buffers: few writes in a run make a page soon, and the first has enough of them for a p99.
const SIZES: [u64; 6] = [128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];
/// The size that differs.
pub(super) const ODD: u64 = 512 << 10;
/// What a write of [`ODD`] takes.
const WRITE_S: f64 = 2e-3;
/// Goals are missed or met by so little.
const JUST: f64 = 1e-3;
/// For a line, of which the phases span several sizes.
const LINE_SIZES: [u64; 11] = [
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
];
const METHODS: [Method; 3] = [Method::DirectDsync, Method::Fdatasync, Method::Uring];
const STATES: [FileState; 2] = [FileState::Fresh, FileState::Written];
const PLAIN: Combination = Combination { method: Method::DirectDsync, file_state: FileState::Fresh };
/// The way that differs.
const ODD_WAY: Combination = Combination { method: Method::Uring, file_state: FileState::Written };
const RECORD_BYTES: u64 = 128;

struct Nobody;

impl Observer for Nobody {
    fn progress(&mut self, _: Progress) {}
}

impl Probe {
    fn settings(&self) -> Settings {
        let is_short = self.noise == Noise::ThreeRepeats;
        // Sizes end after ten to forty runs, as soon as they are precise.
        let precision = (self.noise == Noise::Unbalanced).then_some(0.02);
        let runs = match self.noise {
            Noise::ThreeRepeats => 3,
            Noise::Unbalanced => 10,
            _ => 30,
        };
        let plain = Settings {
            buffer_sizes: SIZES.to_vec(),
            runs,
            precision,
            seed: self.seed,
            quick: is_short,
            ..Settings::paper(PLAIN)
        };
        match self.page {
            Page::Line | Page::Parameters | Page::Power => {
                Settings { buffer_sizes: LINE_SIZES.to_vec(), ..plain }
            }
            Page::Throughput => {
                let rate = ODD as f64 / self.typical_s() * (1.0 + self.beyond());
                let goals = Goals { min_throughput_bytes_per_s: Some(rate), ..Goals::default() };
                Settings { goals, ..plain }
            }
            Page::Latency => {
                let latency_s = self.typical_s() / (1.0 + self.beyond());
                Settings { goals: Goals { max_latency_s: Some(latency_s), ..Goals::default() }, ..plain }
            }
            Page::Records => {
                let rate = 0.1 / WRITE_S;
                let records = Records { record_bytes: RECORD_BYTES, arrival_rate_per_s: Some(rate) };
                Settings { records: Some(records), ..plain }
            }
            Page::Matrix => {
                let ways = METHODS
                    .iter()
                    .flat_map(|&method| STATES.map(|file_state| Combination { method, file_state }));
                Settings { combinations: ways.collect(), buffer_sizes: vec![128 << 10, ODD], ..plain }
            }
            Page::Like => {
                let like = Settings::like(Program::Etcd);
                // Long enough for a p99 of each run, and no longer.
                let time_budget_s = Some(600.0 * self.typical_s() * f64::from(runs));
                Settings { runs, precision, time_budget_s, seed: self.seed, ..like }
            }
            Page::Repeated => {
                Settings { sessions: 5, every_s: 600.0, runs: runs.min(6), precision: None, ..plain }
            }
            Page::Advice | Page::Pairs | Page::Sessions => plain,
        }
    }

    /// The median over runs of what a write takes, where the noise is on [`WRITE_S`].
    pub(super) fn typical_s(&self) -> f64 {
        WRITE_S * median_factor(self.noise)
    }

    /// By which share goals are missed (more than 0) or met: half of the seeds each. What differs is beyond by far.
    fn beyond(&self) -> f64 {
        let far = if self.difference > 0.0 { self.difference } else { JUST };
        if self.is_missed_goal() { far } else { -far / (1.0 + far) }
    }

    fn is_missed_goal(&self) -> bool {
        self.seed.is_multiple_of(2)
    }

    pub(super) fn cost(&self) -> Cost {
        let faster = 1.0 + self.difference;
        let square_root = |size: u64| WRITE_S * (size as f64 / ODD as f64).sqrt();
        match self.page {
            // The same ratio of throughput to latency at each size.
            Page::Advice => {
                Box::new(move |_, size| square_root(size) / if size == ODD { faster } else { 1.0 })
            }
            Page::Line | Page::Parameters => {
                // The ratio of 512 KiB and of 1 MiB is the same: the fixed cost is what a size between them takes.
                Box::new(|_, size| WRITE_S * (1.0 + size as f64 / (ODD as f64 * std::f64::consts::SQRT_2)))
            }
            Page::Throughput => Box::new(|_, size| WRITE_S * size as f64 / ODD as f64),
            Page::Latency => Box::new(|_, _| WRITE_S),
            Page::Records => Box::new(move |_, size| WRITE_S / if size == ODD { faster } else { 1.0 }),
            Page::Matrix => {
                Box::new(move |way, size| square_root(size) / if way == ODD_WAY { faster } else { 1.0 })
            }
            Page::Like => {
                let limit_s = Program::Etcd.profile().p99_max_s.unwrap_or(1.0);
                let write_s = limit_s / P99_FACTOR / median_factor(self.noise) * (1.0 + self.beyond());
                Box::new(move |_, _| write_s)
            }
            Page::Power | Page::Pairs | Page::Sessions | Page::Repeated => {
                Box::new(move |_, size| square_root(size))
            }
        }
    }

    fn machine(&self, settings: &Settings, places: u32) -> Rc<RefCell<Machine>> {
        let points = (settings.buffer_sizes.len() * settings.combinations.len()) as u32;
        let all = points * settings.runs * settings.sessions;
        Machine::new(self.noise, self.seed, points * places, all * places)
    }

    fn stack(&self, machine: &Rc<RefCell<Machine>>, slower: f64) -> Synthetic {
        let cost = self.cost();
        Synthetic { machine: Rc::clone(machine), cost: Box::new(move |way, size| cost(way, size) * slower) }
    }

    fn reports(settings: &Settings, stacks: &mut [Synthetic]) -> Vec<ProbeReport> {
        let disks = stacks.iter().map(|_| honest_disk()).collect();
        // Stacks in virtual time cannot fail, and nobody interrupts.
        run_together(settings, stacks, disks, &Interrupt::default(), &mut Nobody).unwrap_or_default()
    }

    pub(super) fn alone(&self) -> Option<ProbeReport> {
        let settings = self.settings();
        let mut stack = self.stack(&self.machine(&settings, 1), 1.0);
        Self::reports(&settings, std::slice::from_mut(&mut stack)).pop()
    }

    fn labelled(reports: &[ProbeReport]) -> Vec<compare::Labelled<'_>> {
        reports.iter().zip('a'..).map(|(report, name)| (name.to_string(), report)).collect()
    }

    fn pairs(&self) -> (Vec<ProbeReport>, Comparisons) {
        let settings = self.settings();
        let machine = self.machine(&settings, 2);
        let mut stacks = [1.0, 1.0 + self.difference].map(|slower| self.stack(&machine, slower));
        let reports = Self::reports(&settings, &mut stacks);
        let found = compare_pairs(&Self::labelled(&reports));
        (reports, found)
    }

    fn sessions(&self) -> Option<Comparisons> {
        let settings = self.settings();
        let machine = self.machine(&settings, 2);
        let reports: Vec<ProbeReport> = [1.0, 1.0 + self.difference]
            .into_iter()
            .flat_map(|slower| {
                let started_unix_s = machine.borrow().now_s() as u64;
                let stack = &mut self.stack(&machine, slower);
                let reports = Self::reports(&settings, std::slice::from_mut(stack));
                reports.into_iter().map(move |report| ProbeReport { started_unix_s, ..report })
            })
            .collect();
        compare_sessions(&Self::labelled(&reports), &compare::Options::default()).ok()
    }

    fn judged(&self) -> Rates {
        match self.page {
            Page::Pairs => {
                let (reports, found) = self.pairs();
                let (mut wrong, is_found) = self.judge_comparison(&found);
                wrong.extend(reports.iter().flat_map(|report| self.judge_own(report).0));
                Rates::of_page(wrong, self.difference > 0.0 && !is_found)
            }
            Page::Sessions | Page::Repeated => {
                let Some(found) = self.sessions() else { return Rates::of_page(Vec::new(), true) };
                let (wrong, is_found) = self.judge_comparison(&found);
                Rates::of_page(wrong, self.difference > 0.0 && !is_found)
            }
            _ => {
                let Some(report) = self.alone() else { return Rates::of_page(Vec::new(), true) };
                let (wrong, is_found) = self.judge_own(&report);
                let is_first =
                    report.warnings.first().is_some_and(|first| first.code == WarningCode::MostlyDisturbed);
                let lacks_warning = self.noise == Noise::Busy && !is_first;
                let differs = self.difference > 0.0 || self.has_curve();
                Rates::of_page(wrong, lacks_warning || (differs && !is_found))
            }
        }
    }

    /// What a probe's own page says that is false, and whether it says what is so.
    fn judge_own(&self, report: &ProbeReport) -> (Vec<&'static str>, bool) {
        let mut wrong = self.false_warnings(report);
        wrong.extend(self.false_curve(report));
        let mut is_found = false;
        if let Some(chosen) = &report.recommendation {
            let (false_ones, found) = self.judge_advice(report, chosen);
            wrong.extend(false_ones);
            is_found = found;
        }
        if let Some(matrix) = &report.matrix {
            let is_best = report.method == ODD_WAY.method && report.file_state == ODD_WAY.file_state;
            let differs = self.difference > 0.0;
            // Ways that are left as they are do not differ, and the odd one is not slower.
            let of = |effect: &crate::probe::report::MatrixEffect| {
                let is_odd = effect.method == ODD_WAY.method && effect.file_state == ODD_WAY.file_state;
                if !differs { false } else { is_best || (is_odd && effect.latency_ratio < 1.0) }
            };
            if matrix.effects.iter().any(|effect| effect.is_shown() && !of(effect)) {
                wrong.push("way");
            }
            is_found = is_best
                && !matrix.effects.is_empty()
                && matrix.effects.iter().all(|effect| effect.is_shown());
        }
        if let Some(like) = &report.like {
            match like.verdict {
                Some(Enough::Pass) if self.is_missed_goal() => wrong.push("pass"),
                Some(Enough::Fail) if !self.is_missed_goal() => wrong.push("fail"),
                verdict => is_found = verdict != Some(Enough::Unclear),
            }
        }
        (wrong, is_found)
    }

    /// Warnings that draw a conclusion which is none.
    fn false_warnings(&self, report: &ProbeReport) -> Vec<&'static str> {
        let of = |code: WarningCode| match code {
            WarningCode::MostlyDisturbed | WarningCode::Disturbed => {
                (self.noise != Noise::Busy).then_some("disturbed")
            }
            WarningCode::ModelDisagrees => self.is_line().then_some("disagrees"),
            WarningCode::TooFastToBeTrue => Some("too-fast"),
            _ => None,
        };
        report.warnings.iter().filter_map(|warning| of(warning.code)).collect()
    }

    fn judge_advice(&self, report: &ProbeReport, chosen: &Recommendation) -> (Vec<&'static str>, bool) {
        let mut wrong = Vec::new();
        let is_named = |size: u64| {
            chosen.buffer_bytes == Some(size)
                || chosen.also_bytes.contains(&size)
                || chosen.undecided_bytes.contains(&size)
        };
        let sizes = || report.points.iter().map(|point| point.buffer_bytes);
        let is_sure = |size: u64| !chosen.undecided_bytes.contains(&size);
        let is_found = match self.page {
            Page::Throughput | Page::Latency => {
                // Sizes that are not named miss the goal, those chosen meet it; which of them is looked at depends.
                let meets = |size: u64| chosen.buffer_bytes == Some(size);
                let is_beside = |size: u64| match chosen.buffer_bytes {
                    None => true,
                    Some(own) if self.page == Page::Throughput => size <= own,
                    Some(own) => size >= own,
                };
                let said = sizes().filter(|&size| is_beside(size) && is_sure(size));
                if said.into_iter().any(|size| meets(size) == self.is_missed_goal()) {
                    wrong.push("goal");
                }
                match chosen.buffer_bytes {
                    Some(size) => !self.is_missed_goal() && is_sure(size),
                    None => self.is_missed_goal() && sizes().all(is_sure),
                }
            }
            Page::Line | Page::Parameters => {
                // Two have the highest ratio.
                if ![ODD, 2 * ODD].into_iter().all(is_named) {
                    wrong.push("tie");
                }
                self.finds_curve(report)
            }
            _ => {
                let odd_alone = matches!(self.page, Page::Advice | Page::Records) && self.difference > 0.0;
                let best: Vec<u64> = sizes().filter(|&size| !odd_alone || size == ODD).collect();
                if !best.iter().copied().all(is_named) {
                    wrong.push("tie");
                }
                let draws = ["larger buffers add more latency than throughput", "the ratio still grows"];
                if !odd_alone && draws.iter().any(|words| chosen.reason.contains(words)) {
                    wrong.push("grows");
                }
                let is_alone = odd_alone
                    && chosen.buffer_bytes == Some(ODD)
                    && chosen.also_bytes.is_empty()
                    && chosen.undecided_bytes.is_empty();
                is_alone || (self.page == Page::Power && self.finds_curve(report))
            }
        };
        (wrong, is_found)
    }

    /// What a comparison says that is false, and whether it says what is so.
    fn judge_comparison(&self, found: &Comparisons) -> (Vec<&'static str>, bool) {
        let all = || found.comparisons.iter().flat_map(compare::Comparison::judged).map(|(_, judged)| judged);
        let is_slower = self.difference > 0.0;
        let is_false = |verdict: Verdict| match verdict {
            Verdict::Faster => true,
            Verdict::Slower => !is_slower,
            Verdict::NoDifferenceShown | Verdict::Withheld => false,
        };
        let mut wrong = Vec::new();
        if all().any(|judged| is_false(judged.verdict)) {
            wrong.push("differs");
        }
        if !is_slower && found.slower_by(JUST).is_some() {
            wrong.push("exit");
        }
        let says = found.comparisons.iter().any(|comparison| {
            let overall = &comparison.overall;
            ["differ: ", " is faster ", " is slower ", "its p99 is"]
                .iter()
                .any(|words| overall.contains(words))
        });
        let claims = all().any(|judged| matches!(judged.verdict, Verdict::Faster | Verdict::Slower));
        if says != claims {
            wrong.push("words");
        }
        let found_it =
            found.comparisons.iter().any(|comparison| comparison.throughout.verdict == Verdict::Slower);
        (wrong, found_it)
    }
}
