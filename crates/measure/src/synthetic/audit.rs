//! How often pages are wrong.

use std::collections::BTreeMap;

use super::noise::Noise;
use super::studies::{Effect, Plan, Synthetic};
use crate::study::claims::{Between, Claim};
use crate::study::report::{StudyReport, analyse_claims};

/// What pages of one kind of noise and effect said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rates {
    /// Pages looked at.
    pub pages: u64,
    /// Of them, those that say anything false.
    pub with_false: u64,
    /// Of them, those that do not say what is to be found.
    pub with_missed: u64,
    /// Pages by what is false on them.
    pub false_of: BTreeMap<&'static str, u64>,
}

impl Rates {
    /// Of one page: what is false on it, and whether it misses what is so.
    pub(super) fn of_page(mut wrong: Vec<&'static str>, is_missed: bool) -> Self {
        wrong.sort_unstable();
        wrong.dedup();
        Self {
            pages: 1,
            with_false: u64::from(!wrong.is_empty()),
            with_missed: u64::from(is_missed),
            false_of: wrong.into_iter().map(|kind| (kind, 1)).collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.pages += other.pages;
        self.with_false += other.with_false;
        self.with_missed += other.with_missed;
        for (kind, many) in &other.false_of {
            *self.false_of.entry(kind).or_default() += many;
        }
    }
}

/// Judges the pages of `seeds`, on so many threads.
#[must_use]
pub fn audit(noise: Noise, effect: Effect, plan: Plan, seeds: std::ops::Range<u64>, threads: u64) -> Rates {
    audit_like(&Synthetic { noise, effect, plan, repeats: None, seed: 0 }, seeds, threads)
}

/// Judges the pages of studies that are like `study` but for their seeds.
#[must_use]
pub fn audit_like(study: &Synthetic, seeds: std::ops::Range<u64>, threads: u64) -> Rates {
    over(seeds, threads, |seed| page(&Synthetic { seed, ..*study }))
}

/// Adds up what is said of the page of each of `seeds`, on so many threads.
pub(super) fn over(seeds: std::ops::Range<u64>, threads: u64, page: impl Fn(u64) -> Rates + Sync) -> Rates {
    let of_thread = |thread: u64| {
        let mut rates = Rates::default();
        for seed in seeds.clone().filter(|seed| seed % threads == thread) {
            rates.add(&page(seed));
        }
        rates
    };
    let mut all = Rates::default();
    let of_thread = &of_thread;
    std::thread::scope(|scope| {
        let started: Vec<_> = (0..threads).map(|thread| scope.spawn(move || of_thread(thread))).collect();
        for thread in started {
            // A thread ends early by a failed assertion alone, which is this one's too.
            all.add(&thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
    });
    all
}

/// Fewer runs of each configuration are too few to conclude from.
const RUNS_TO_CONCLUDE: u32 = 6;

/// Judges one page.
fn page(study: &Synthetic) -> Rates {
    let report = analyse_claims(&study.study());
    let mut wrong: Vec<&'static str> =
        report.claims.iter().filter(|claim| !study.is_true(claim)).map(kind).collect();
    if has_false_interval(&report) {
        wrong.push("interval");
    }
    let is_there = |about: &str| report.findings.iter().any(|finding| finding.about == about);
    let mut is_missed =
        study.effect != Effect::None && !report.claims.iter().any(|claim| study.is_wanted(claim));
    let is_small = study.repeats() < RUNS_TO_CONCLUDE;
    for (about, is_so) in [("busy", study.noise == Noise::Busy), ("too_small", is_small)] {
        // Where runs are dropped, few may be left.
        let may_be = about == "too_small" && study.noise == Noise::Unbalanced;
        match (is_there(about), is_so) {
            (true, false) if !may_be => wrong.push(about),
            (false, true) => is_missed = true,
            _ => {}
        }
    }
    Rates::of_page(wrong, is_missed)
}

/// Whether an interval on a chart or in a sentence leaves out 0 for what is not claimed to be other than that: whoever sees it
/// takes it for claimed.
fn has_false_interval(report: &StudyReport) -> bool {
    let leaves_out_0 =
        |interval: Option<[f64; 2]>| interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0);
    let mut terms = report.explained.iter().flat_map(|explained| &explained.terms);
    let mut operations = report.operation_correlations.iter();
    terms.any(|term| !term.found && leaves_out_0(term.ci95))
        || operations.any(|row| !row.found && leaves_out_0(row.ci95))
}

/// What a claim is about, in a word.
fn kind(claim: &Claim) -> &'static str {
    use crate::study::analysis::Figure;
    match claim {
        Claim::Explains { figure: Figure::Variation, .. } => "variation",
        Claim::Explains { figure: Figure::Throughput, .. } => "throughput",
        Claim::Condition { .. } => "condition",
        Claim::Remedies { .. } => "remedies",
        Claim::Operation { between: Between::Configurations, .. } => "operation",
        Claim::Operation { between: Between::Repeats, .. } => "operation in repeats",
        Claim::Order { .. } => "order",
        Claim::Outliers { .. } => "outliers",
        Claim::LevelsChange => "levels",
        Claim::WarmUp => "warm-up",
        Claim::WindowsAlike => "windows",
    }
}

/// The words that make a claim in a sentence or headline, and whether the claims of a report bear them out.
#[must_use]
pub fn unsupported_words(report: &StudyReport, text: &str) -> Vec<&'static str> {
    let claims = &report.claims;
    let some = |is: fn(&Claim) -> bool| claims.iter().any(is);
    let supported = [
        ("To vary less, change", some(|claim| matches!(claim, Claim::Explains { .. }))),
        ("How fast a configuration is depends on", some(|claim| matches!(claim, Claim::Explains { .. }))),
        ("What else the machine did matters", some(|claim| matches!(claim, Claim::Condition { .. }))),
        ("Throughput depends on where", some(|claim| matches!(claim, Claim::Condition { .. }))),
        ("Repeats come closer together with", some(|claim| matches!(claim, Claim::Remedies { .. }))),
        (
            "goes with that of the latency of",
            some(|claim| matches!(claim, Claim::Operation { between: Between::Configurations, .. })),
        ),
        (
            "takes longer than in their repeats are slower",
            some(|claim| matches!(claim, Claim::Operation { between: Between::Repeats, .. })),
        ),
        ("The order of execution shows:", some(|claim| matches!(claim, Claim::Order { .. }))),
        ("lie apart from their repeats", some(|claim| matches!(claim, Claim::Outliers { .. }))),
        ("of the runs change their level", some(|claim| *claim == Claim::LevelsChange)),
        (" warm up", some(|claim| *claim == Claim::WarmUp)),
        (", windows resemble their neighbours", some(|claim| *claim == Claim::WindowsAlike)),
        ("varies most", false),
        ("depends most", false),
    ];
    supported.into_iter().filter(|(words, is)| text.contains(words) && !is).map(|(words, _)| words).collect()
}
