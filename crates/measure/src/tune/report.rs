//! What a search for settings found, as a document.

use schemars::JsonSchema;
use serde::Serialize;

use super::search::{Found, Match, Search, Swept, Tried};
use super::sizes::Sizes;
use super::turns::Turns;
use super::{Candidate, Goals};
use crate::fit::Model;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.tune/1";

/// What `evenkeel tune --json` writes.
#[derive(Debug, Clone, Serialize, JsonSchema)]
#[schemars(title = "Tune")]
pub struct TuneReport {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// The volume, or the simulated drive.
    pub place: String,
    /// What was written: `mixture`, or the path of a recorded load.
    pub load: String,
    /// What was wanted.
    pub goals: Goals,
    /// How long each trial wrote.
    pub trial_s: f64,
    /// Rounds in which the best was looked for.
    pub rounds: usize,
    /// What to run.
    pub chosen: Candidate,
    /// What is run otherwise.
    pub default: Candidate,
    /// What a durable write to the log costs; `null` where it does not follow l + x/B.
    pub model: Option<Model>,
    /// Thresholds that were tried with the default batch, the best first.
    pub thresholds: Vec<Tried>,
    /// Batches that were tried with the best of them, the best first; and then thresholds with the best batch, where that is another.
    pub batches: Vec<Tried>,
    /// The best beside the default, in rounds of their own; `null` where the default was best.
    pub beside_default: Option<Match>,
    /// For how long a member of a ring writes; `null` of a volume of one member, and where that was not looked at.
    pub turns: Option<Turns>,
    /// What a recorded load asks of log and buffer; `null` of the mixture.
    pub sizes: Option<Sizes>,
    /// Everything, where that was asked for.
    pub sweep: Option<Swept>,
}

impl TuneReport {
    /// Of a search.
    pub fn new(
        place: String,
        load: String,
        search: &Search,
        found: &Found,
        turns: Option<Turns>,
        sizes: Option<Sizes>,
        sweep: Option<Swept>,
    ) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            place,
            load,
            goals: search.goals,
            trial_s: found.trial_s,
            rounds: search.rounds,
            chosen: found.chosen,
            default: search.default,
            model: found.model,
            thresholds: found.thresholds.clone(),
            batches: found.batches.clone(),
            beside_default: found.beside_default.clone(),
            turns,
            sizes,
            sweep,
        }
    }

    /// The document.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).expect("it has nothing that JSON has not") + "\n"
    }
}
