//! Which settings are best for a goal, by trials in rounds.
//!
//! ```text
//!  thresholds, with the default batch ──► the best ─┐
//!  batches, with that threshold ──────────► the best ─► thresholds once more, with that batch
//!                                                        └─► the best against the default, in rounds of their own ──► chosen
//! ```
//!
//! 1. In each round every setting is tried once, beginning with another one each time.
//! 2. The best of several noisy figures looks better than it is. So what was found best is tried again, beside the default, in
//!    rounds that had no say in that: it is chosen only where it wins all of them but one, and half of them by [`WORTH`].
//!    Where two are alike that happens by chance in less than 4 % of all searches ([`ROUNDS`] rounds: 9 of 256).
//! 3. Where there is a goal that only one of them reaches, that one is chosen.

use schemars::JsonSchema;
use serde::Serialize;

use super::bench::{Bench, Halted};
use super::line::{self, Sample};
use super::load::{Load, Run};
use super::{Candidate, Goals, Outcome, ratio};
use crate::fit::Model;
use crate::stats::median;

/// What is worth a change: a twentieth.
pub const WORTH: f64 = 1.05;

/// By less one setting is no better than another in the first rounds.
const CLEAR: f64 = 1.02;

/// A trial is at least as long as so many of the least durable writes one after the other.
const SHOWING: f64 = 250.0;

/// Rounds in which the winner meets the default.
pub const ROUNDS: usize = 8;

/// Batches that are tried beside the one that follows from l x B, in bytes.
pub const BATCHES: [u64; 5] = [32 << 10, 64 << 10, 128 << 10, 256 << 10, 1 << 20];

/// Thresholds that are tried.
pub const THRESHOLDS: [Option<u64>; 5] =
    [Some(64 << 10), Some(128 << 10), Some(256 << 10), Some(1 << 20), None];

/// Batches of an exhaustive sweep.
pub const SWEPT_BATCHES: [u64; 9] =
    [16 << 10, 32 << 10, 64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20, 2 << 20, 4 << 20];

/// Thresholds of an exhaustive sweep.
pub const SWEPT_THRESHOLDS: [Option<u64>; 7] =
    [Some(32 << 10), Some(64 << 10), Some(128 << 10), Some(256 << 10), Some(512 << 10), Some(1 << 20), None];

/// What is looked for, and for how long.
#[derive(Debug, Clone)]
pub struct Search {
    /// What is wanted.
    pub goals: Goals,
    /// What is run unless something is better.
    pub default: Candidate,
    /// No threshold below it; `None` where every write goes through the log, whatever its size.
    pub threshold_min_bytes: Option<u64>,
    /// What is written.
    pub load: Load,
    /// How long a trial writes, at least.
    pub trial_s: f64,
    /// Rounds in which the best is looked for.
    pub rounds: usize,
}

/// A setting, and what its trials came to.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Tried {
    /// The setting.
    pub settings: Candidate,
    /// The medians of its trials.
    pub outcome: Outcome,
    /// How good that is: see [`Goals::score`].
    pub score: f64,
}

/// How one setting did beside another, in rounds of their own.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Match {
    /// The one that did best before.
    pub best: Tried,
    /// The other.
    pub other: Tried,
    /// Score of the one over that of the other, round by round; above 1 where it is better. `null` where only one of
    /// them reaches the goal.
    pub ratios: Vec<Option<f64>>,
    /// Whether it wins clearly enough to take the other's place.
    pub wins: bool,
}

/// All settings, tried.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Swept {
    /// What each came to, the best first.
    pub tried: Vec<Tried>,
    /// The best of them beside the choice; `null` where it is the choice.
    pub beside_choice: Option<Match>,
}

impl Swept {
    /// Score of the choice as a share of that of the best, in rounds that found neither.
    pub fn share_of_best(&self) -> f64 {
        self.beside_choice.as_ref().map_or(1.0, |it| ratio(it.other.score, it.best.score))
    }
}

/// What was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// What to run.
    pub chosen: Candidate,
    /// How long each trial wrote.
    pub trial_s: f64,
    /// l and B, if they show.
    pub model: Option<Model>,
    /// What was tried for a threshold.
    pub thresholds: Vec<Tried>,
    /// What was tried for a batch, and then once more for a threshold with it.
    pub batches: Vec<Tried>,
    /// The winner beside the default; `None` where the default won.
    pub beside_default: Option<Match>,
}

impl Found {
    /// What these settings came to: beside others in rounds of their own, where they were there.
    pub fn tried(&self, settings: Candidate) -> Option<&Tried> {
        let beside = self.beside_default.iter().flat_map(|it| [&it.best, &it.other]);
        beside.chain(&self.batches).chain(&self.thresholds).find(|tried| tried.settings == settings)
    }
}

/// How far a search is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Trials done.
    pub done: usize,
    /// And in all, as far as is known.
    pub all: usize,
}

impl Search {
    /// Trials of a whole search, about.
    fn trials(&self) -> usize {
        self.rounds * (2 * THRESHOLDS.len() + BATCHES.len() + 1) + 2 * ROUNDS
    }

    /// Those of some thresholds that may be tried, and the default.
    fn allowed(&self, thresholds: &[Option<u64>]) -> Vec<Option<u64>> {
        let may_be = |threshold: &Option<u64>| {
            self.threshold_min_bytes.is_some_and(|min_bytes| threshold.is_none_or(|bytes| bytes >= min_bytes))
        };
        with(thresholds.iter().copied().filter(may_be), self.default.threshold_bytes)
    }

    /// Looks for the best settings.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    pub fn run(&self, bench: &mut impl Bench, tell: &mut impl FnMut(Progress)) -> Result<Found, Halted> {
        let mut trials =
            Trials { search: self, bench, trial_s: self.trial_s, done: 0, all: self.trials(), tell };
        let samples: Vec<Sample> = trials.bench.line()?;
        let model = line::fit(&samples);
        // On a slow drive a trial is as long as it takes for a percentile to show.
        let least_s = model.as_ref().map_or(0.0, |model| model.fixed_latency_s * SHOWING);
        trials.trial_s = self.trial_s.max(least_s);
        let thresholds = self.allowed(&THRESHOLDS);
        let each = thresholds.iter().map(|&threshold_bytes| Candidate { threshold_bytes, ..self.default });
        let thresholds = trials.best_of(&each.collect::<Vec<_>>())?;
        let threshold_bytes = self.settled(&thresholds, self.default).threshold_bytes;
        let optimum = model.as_ref().map(|model| rounded(model.optimum_bytes));
        let batches = with(BATCHES.into_iter().chain(optimum), self.default.batch_max_bytes);
        let each = batches.iter().map(|&batch_max_bytes| Candidate { batch_max_bytes, threshold_bytes });
        let batches = trials.best_of(&each.collect::<Vec<_>>())?;
        let best = self.settled(&batches, Candidate { threshold_bytes, ..self.default });
        let (best, batches) = match best.batch_max_bytes == self.default.batch_max_bytes {
            true => (best, batches),
            // Which threshold is best may depend on the batch.
            false => {
                let each = self.allowed(&THRESHOLDS).into_iter();
                let each = each.map(|threshold_bytes| Candidate { threshold_bytes, ..best });
                let again = trials.best_of(&each.collect::<Vec<_>>())?;
                (self.settled(&again, best), batches.into_iter().chain(again).collect())
            }
        };
        let beside_default = match best == self.default {
            true => None,
            false => Some(trials.beside(best, self.default)?),
        };
        let wins = beside_default.as_ref().is_some_and(|found| found.wins);
        let chosen = if wins { best } else { self.default };
        Ok(Found { chosen, trial_s: trials.trial_s, model, thresholds, batches, beside_default })
    }

    /// The best of what was tried, or what is run otherwise, unless that is clearly worse: chance alone makes some setting the
    /// best, and changes nothing.
    fn settled(&self, tried: &[Tried], otherwise: Candidate) -> Candidate {
        let best = tried[0];
        let score = tried.iter().find(|it| it.settings == otherwise).map(|it| it.score);
        let is_clear = score.is_none_or(|score| ratio(best.score, score) > CLEAR);
        if is_clear { best.settings } else { otherwise }
    }

    /// Tries everything, and what was chosen with it; then the best beside the choice.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    pub fn sweep(
        &self,
        bench: &mut impl Bench,
        found: &Found,
        tell: &mut impl FnMut(Progress),
    ) -> Result<Swept, Halted> {
        let thresholds = self.allowed(&SWEPT_THRESHOLDS);
        let each = SWEPT_BATCHES.into_iter().flat_map(|batch_max_bytes| {
            thresholds.iter().map(move |&threshold_bytes| Candidate { batch_max_bytes, threshold_bytes })
        });
        let candidates = with(each, found.chosen);
        let all = candidates.len() * self.rounds + 2 * ROUNDS;
        let mut trials = Trials { search: self, bench, trial_s: found.trial_s, done: 0, all, tell };
        let tried = trials.best_of(&candidates)?;
        let best = tried[0].settings;
        // The best of many noisy figures looks better than it is.
        let beside_choice = match best == found.chosen {
            true => None,
            false => Some(trials.beside(best, found.chosen)?),
        };
        Ok(Swept { tried, beside_choice })
    }
}

/// All of them, each once, `more` too.
fn with<T: PartialEq>(all: impl Iterator<Item = T>, more: T) -> Vec<T> {
    let mut each = Vec::new();
    for one in all.chain([more]) {
        if !each.contains(&one) {
            each.push(one);
        }
    }
    each
}

/// As a power of two from 16 KiB to 4 MiB.
fn rounded(bytes: f64) -> u64 {
    let exponent = bytes.max(1.0).log2().round().clamp(14.0, 22.0);
    1 << exponent as u32
}

struct Trials<'a, B, T> {
    search: &'a Search,
    bench: &'a mut B,
    trial_s: f64,
    done: usize,
    all: usize,
    tell: &'a mut T,
}

impl<B: Bench, T: FnMut(Progress)> Trials<'_, B, T> {
    /// Tries all of them in rounds; the best first.
    fn best_of(&mut self, candidates: &[Candidate]) -> Result<Vec<Tried>, Halted> {
        let outcomes = self.rounds(candidates, self.search.rounds)?;
        let mut tried: Vec<Tried> =
            candidates.iter().zip(&outcomes).map(|(&at, of)| self.tried(at, of)).collect();
        tried.sort_by(|one, other| other.score.total_cmp(&one.score));
        Ok(tried)
    }

    /// What trials of one setting came to.
    fn tried(&self, settings: Candidate, outcomes: &[Outcome]) -> Tried {
        let middle = |value: fn(&Outcome) -> f64| {
            median(&outcomes.iter().map(value).collect::<Vec<_>>()).expect("there is a round")
        };
        let outcome = Outcome {
            throughput_bytes_per_s: middle(|it| it.throughput_bytes_per_s),
            small_mean_s: middle(|it| it.small_mean_s),
            small_p99_s: middle(|it| it.small_p99_s),
        };
        Tried { settings, outcome, score: self.search.goals.score(&outcome) }
    }

    fn beside(&mut self, best: Candidate, other: Candidate) -> Result<Match, Halted> {
        let goals = self.search.goals;
        let outcomes = self.rounds(&[best, other], ROUNDS)?;
        let tried = [self.tried(best, &outcomes[0]), self.tried(other, &outcomes[1])];
        let ratios: Vec<f64> = outcomes[0]
            .iter()
            .zip(&outcomes[1])
            .map(|(one, other)| ratio(goals.score(one), goals.score(other)))
            .collect();
        let [best, other] = tried;
        let at_least = |least: f64| ratios.iter().filter(|&&ratio| ratio >= least).count();
        let wins = at_least(1.0) + 1 >= ROUNDS && 2 * at_least(WORTH) >= ROUNDS;
        let ratios =
            ratios.into_iter().map(|ratio| Some(ratio).filter(|it| it.is_finite() && *it > 0.0)).collect();
        Ok(Match { best, other, ratios, wins })
    }

    /// Tries all of them once in each round; answers by setting.
    fn rounds(&mut self, candidates: &[Candidate], rounds: usize) -> Result<Vec<Vec<Outcome>>, Halted> {
        let mut outcomes = vec![Vec::new(); candidates.len()];
        for round in 0..rounds {
            for step in 0..candidates.len() {
                let at = (step + round) % candidates.len();
                let run = self.bench.trial(candidates[at], &self.search.load, self.trial_s)?;
                outcomes[at].push(outcome(&run)?);
                self.done += 1;
                self.all = self.all.max(self.done);
                (self.tell)(Progress { done: self.done, all: self.all });
            }
        }
        Ok(outcomes)
    }
}

fn outcome(run: &Run) -> Result<Outcome, Halted> {
    let small = if run.small.count() > 0 { &run.small } else { &run.large };
    let too_few = || Halted::Unavailable("a trial ended with too few writes; give it more --time".to_owned());
    let small_mean_s = small.mean_s().ok_or_else(too_few)?;
    // Few have no percentile of their own: then it is the longest.
    let small_p99_s = small.percentile_s(0.99).or_else(|| small.max_s()).ok_or_else(too_few)?;
    let throughput_bytes_per_s = run.bytes as f64 * 1e9 / run.took_ns.max(1) as f64;
    Ok(Outcome { throughput_bytes_per_s, small_mean_s, small_p99_s })
}
