//! What a paper claims, and whether it holds here.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::report::Unit;

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A real file system or device.
    Measured,
    /// A model that was not fitted to this figure.
    Predicted,
    /// A model that was fitted to it.
    Calibrated,
}

impl Kind {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Measured => "measured",
            Self::Predicted => "predicted",
            Self::Calibrated => "calibrated",
        }
    }
}

/// Whether a claim holds here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does.
    Holds,
    /// It does not.
    Fails,
}

impl Verdict {
    /// In a word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::Fails => "fails",
        }
    }
}

/// When a value bears a claim out.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Comparison {
    /// It is this or more.
    AtLeast(f64),
    /// It is this or less.
    AtMost(f64),
    /// It lies between these, both included.
    Within(f64, f64),
}

/// By up to how much more, or less, a number of a paper's own testbed may be missed.
const ABOUT: f64 = 1.5;

/// How far beyond its bound a value is taken for a mistake.
const TOO_MUCH: f64 = 10.0;

/// What one value is over another from which on it is called more.
const MORE: f64 = 1.05;

impl Comparison {
    /// What holds where a paper says "about" or names a number of its own testbed: up to half as much more, or as much less.
    pub fn about(value: f64) -> Self {
        Self::Within(value / ABOUT, value * ABOUT)
    }

    /// What holds where a paper says that something is more, by this factor at least: up to ten times as much. Beyond, the
    /// paper would have said so, and a mistake of the model is likelier.
    pub fn more(factor: f64) -> Self {
        Self::Within(factor, factor * TOO_MUCH)
    }

    /// The same where it is less.
    pub fn less(factor: f64) -> Self {
        Self::Within(factor / TOO_MUCH, factor)
    }

    /// The same of a factor by which something gains: and it is a gain.
    pub fn gain(factor: f64) -> Self {
        Self::Within((factor / ABOUT).max(MORE), factor * ABOUT)
    }

    /// What a value says. One that is no number bears nothing out.
    pub fn judge(self, value: f64) -> Verdict {
        let holds = match self {
            Self::AtLeast(bound) => value >= bound,
            Self::AtMost(bound) => value <= bound,
            Self::Within(low, high) => (low..=high).contains(&value),
        };
        if holds { Verdict::Holds } else { Verdict::Fails }
    }

    /// In words.
    pub fn in_words(self, unit: Unit) -> String {
        match self {
            Self::AtLeast(bound) => format!("at least {}", unit.show(bound)),
            Self::AtMost(bound) => format!("at most {}", unit.show(bound)),
            Self::Within(low, high) => format!("{} to {}", unit.show(low), unit.show(high)),
        }
    }
}

/// A claim and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Claim {
    /// Name of the figure's module.
    pub figure: String,
    /// Number of the paper.
    pub paper: u8,
    /// What the paper says, in its words where it has them.
    pub words: String,
    /// The number that it names; `None` where it says it in words only.
    pub paper_value: Option<f64>,
    /// Ours; `None` where it could not be had, and then the claim fails.
    pub value: Option<f64>,
    /// Of both values.
    pub unit: Unit,
    /// When it holds.
    pub holds_if: Comparison,
    /// Where our value comes from.
    pub kind: Kind,
    /// Whether it holds.
    pub verdict: Verdict,
    /// What the value is, and what a reader should know who wonders about the verdict.
    pub note: String,
}

impl Claim {
    /// A claim that a figure's values are put beside; the figure's name and paper come with [`super::Gallery::add`].
    pub fn new(words: impl Into<String>, unit: Unit, holds_if: Comparison, kind: Kind, value: f64) -> Self {
        Self {
            figure: String::new(),
            paper: 0,
            words: words.into(),
            paper_value: None,
            value: value.is_finite().then_some(value),
            unit,
            holds_if,
            kind,
            verdict: holds_if.judge(value),
            note: String::new(),
        }
    }

    /// With the number that the paper names.
    #[must_use]
    pub fn paper_value(self, value: f64) -> Self {
        Self { paper_value: Some(value), ..self }
    }

    /// It does not hold whatever its value: the run cannot bear it out.
    #[must_use]
    pub fn never(self, why: &str) -> Self {
        let note = format!("{} It cannot hold: {why}.", self.note);
        Self { verdict: Verdict::Fails, note: note.trim_start().to_owned(), ..self }
    }

    /// With what the value is.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Self {
        Self { note: note.into(), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_what_holds() {
        for (comparison, holding, failing) in [
            (Comparison::AtLeast(2.0), vec![2.0, 3.0], vec![1.99, f64::NAN]),
            (Comparison::AtMost(0.78), vec![0.78, 0.0], vec![0.79, f64::NAN]),
            (Comparison::Within(0.9, 1.1), vec![0.9, 1.1], vec![0.89, 1.11, f64::NAN]),
        ] {
            assert!(holding.into_iter().all(|value| comparison.judge(value) == Verdict::Holds));
            assert!(failing.into_iter().all(|value| comparison.judge(value) == Verdict::Fails));
        }
    }

    #[test]
    fn what_is_far_beyond_what_the_paper_says_does_not_hold() {
        for (comparison, holding, failing) in [
            (Comparison::about(1.22), vec![1.22, 1.8, 0.9], vec![77.0, 0.8]),
            (Comparison::gain(1.22), vec![1.22, 1.75, 1.05], vec![77.0, 1.9, 1.0]),
            (Comparison::more(2.0), vec![2.0, 16.0], vec![277.0, 1.9]),
            (Comparison::less(0.5), vec![0.5, 0.06], vec![0.01, 0.51]),
        ] {
            assert!(holding.into_iter().all(|value| comparison.judge(value) == Verdict::Holds));
            assert!(failing.into_iter().all(|value| comparison.judge(value) == Verdict::Fails));
        }
    }

    #[test]
    fn a_run_that_bears_nothing_out_fails_its_claim_whatever_the_value() {
        let claim = Claim::new("w", Unit::Times, Comparison::more(2.0), Kind::Predicted, 3.0);
        let never = claim.note("a ratio.").never("the run was overrun");
        assert_eq!((never.value, never.verdict), (Some(3.0), Verdict::Fails));
        assert_eq!(never.note, "a ratio. It cannot hold: the run was overrun.");
    }

    #[test]
    fn a_value_that_could_not_be_had_is_null_and_fails() {
        let claim = Claim::new("w", Unit::Times, Comparison::AtMost(1.0), Kind::Predicted, f64::NAN);
        assert_eq!((claim.value, claim.verdict), (None, Verdict::Fails));
    }
}
