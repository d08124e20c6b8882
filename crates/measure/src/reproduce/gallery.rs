//! All figures that were run: the document that `reproduce.json` holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claim::{Claim, Verdict};
use super::figure::Figure;
use super::registry::{self, NotReproduced};
use super::{FigureModule, Measuring, Settings};

/// What the document is.
pub const SCHEMA: &str = "evenkeel.reproduce/1";

/// A paper, as the document names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PaperFacts {
    /// Its number here.
    pub paper: u8,
    /// Its title.
    pub title: String,
    /// Authors, venue and year.
    pub source: String,
}

/// One figure of the document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reproduced {
    /// Its name.
    pub name: String,
    /// Number of the paper.
    pub paper: u8,
    /// Which figure of the paper.
    pub place: String,
    /// What it shows.
    pub title: String,
    /// What is run, and what was assumed.
    pub setup: Vec<String>,
    /// What came out; its claims stand in [`Gallery::claims`].
    #[serde(flatten)]
    pub figure: Figure,
}

/// The document.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gallery {
    /// [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Of this program.
    pub evenkeel_version: String,
    /// What all of it depends on.
    pub settings: Settings,
    /// Drive models of the user's own, and the presets in whose place they were.
    #[serde(default)]
    pub replaced_drives: Vec<String>,
    /// The papers whose figures these are.
    pub papers: Vec<PaperFacts>,
    /// Every claim, in the order of the figures.
    pub claims: Vec<Claim>,
    /// The figures.
    pub figures: Vec<Reproduced>,
    /// What is left out, and why.
    pub not_reproduced: Vec<NotReproduced>,
    /// What will be left out of papers that have no figure here yet.
    #[serde(skip)]
    never_reproduced: Vec<NotReproduced>,
}

impl Gallery {
    pub(super) fn new(settings: Settings, measuring: Measuring<'_>) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            evenkeel_version: env!("CARGO_PKG_VERSION").to_owned(),
            settings,
            replaced_drives: Vec::new(),
            papers: Vec::new(),
            claims: Vec::new(),
            figures: Vec::new(),
            not_reproduced: Vec::new(),
            never_reproduced: registry::not_reproduced(measuring),
        }
    }

    pub(super) fn add(&mut self, module: &FigureModule, mut figure: Figure) {
        self.name_paper(module.paper);
        let named = |claim: Claim| Claim { figure: module.name.to_owned(), paper: module.paper, ..claim };
        self.claims.extend(std::mem::take(&mut figure.claims).into_iter().map(named));
        self.figures.push(Reproduced {
            name: module.name.to_owned(),
            paper: module.paper,
            place: module.place.to_owned(),
            title: module.title.to_owned(),
            setup: module.setup.iter().map(|&line| line.to_owned()).collect(),
            figure,
        });
    }

    pub(super) fn leave_out(&mut self, module: &FigureModule, reason: String) {
        self.name_paper(module.paper);
        let what = format!("{} ({}): {}", module.name, module.place, module.title);
        self.not_reproduced.push(NotReproduced { paper: module.paper, what, reason });
    }

    /// Names a paper and what of it is never reproduced, once.
    fn name_paper(&mut self, number: u8) {
        if self.papers.iter().any(|known| known.paper == number) {
            return;
        }
        if let Some(paper) = registry::papers().iter().find(|paper| paper.number == number) {
            let (title, source) = (paper.title.to_owned(), paper.source.to_owned());
            self.papers.push(PaperFacts { paper: number, title, source });
        }
        self.not_reproduced.extend(self.never_reproduced.extract_if(.., |left| left.paper == number));
    }

    /// With what it says of drive models of the user's own.
    #[must_use]
    pub fn with_replaced(self, replaced_drives: Vec<String>) -> Self {
        Self { replaced_drives, ..self }
    }

    /// The claims of a figure.
    pub fn claims_of<'a>(&'a self, figure: &'a str) -> impl Iterator<Item = &'a Claim> {
        self.claims.iter().filter(move |claim| claim.figure == figure)
    }

    /// The claims that fail.
    pub fn failing(&self) -> impl Iterator<Item = &Claim> {
        self.claims.iter().filter(|claim| claim.verdict == Verdict::Fails)
    }
}
