//! Which figures there are, and what is not reproduced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{FigureModule, Measuring, Paper, okeanos, rails, range_flush, sync_writes};

/// What a paper shows and this does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NotReproduced {
    /// Number of the paper.
    pub paper: u8,
    /// What.
    pub what: String,
    /// Why.
    pub reason: String,
}

const PAPERS: &[Paper] = &[
    Paper {
        number: 1,
        name: "writes",
        title: "Characterizing Synchronous Writes in Stable Memory Devices",
        source: "W. B. Mingardi, G. M. D. Vieira",
    },
    Paper {
        number: 3,
        name: "rails",
        title: "Flash on Rails: Consistent Flash Performance through Redundancy",
        source: "D. Skourtis, D. Achlioptas, N. Watkins, C. Maltzahn, S. Brandt, UC Santa Cruz; USENIX ATC 2014",
    },
    Paper {
        number: 4,
        name: "range-flush",
        title: "Untie a Knot in a Last Stage Buffer",
        source: "J. Yeon, M. Jeong, S. Lee, E. Lee: the range flush",
    },
    Paper {
        number: 5,
        name: "okeanos",
        title: "Okeanos: Wasteless Journaling for Fast and Reliable Multistream Storage",
        source: "A. Hatzieleftheriou, S. V. Anastasiadis, University of Ioannina; USENIX ATC 2011, its slides",
    },
];

/// What papers show and this does not: paper, what, why.
const NOT_REPRODUCED: &[(u8, &str, &str)] = &[
    (1, "F2FS in figures 3 to 6, 8 and 9", "kernels here have no F2FS, and so nothing was counted of it"),
    (
        1,
        "standard deviations and tests of significance",
        "models repeat themselves: there is no chance to test",
    ),
    (
        3,
        "the stg volume of the MSR Cambridge traces in figures 14 and 15",
        "it is not at hand; others of that collection are",
    ),
    (
        3,
        "drive D, and disaggregating sequential from random writes (section 3.2)",
        "the paper has no figure of them",
    ),
    (
        4,
        "F2FS with its modified fsync, and the board itself",
        "neither is to be had; a file system structured as a log, the one that evenkeel mounts, and a model of the board take \
         their place",
    ),
    (
        5,
        "the curves of NILFS2 in write and read latency (slide 10)",
        "the engine has journaling modes of its own and no log-structured file system beside them",
    ),
    (
        5,
        "ext3 itself, and the paper's modes in it",
        "they are those of a modified kernel; here the engine's modes take their place, and of ext3 what its journal writes, of \
         streams (okeanos-) and of files with all their metadata (okeanos-files-), over a modelled disk",
    ),
];

/// The figures of each paper.
const BY_PAPER: &[&[FigureModule]] =
    &[sync_writes::MODULES, rails::MODULES, range_flush::MODULES, okeanos::MODULES];

/// The papers.
pub fn papers() -> &'static [Paper] {
    PAPERS
}

/// Every figure, in the order of papers and places.
pub fn modules() -> impl Iterator<Item = &'static FigureModule> + Clone {
    BY_PAPER.iter().copied().flatten()
}

/// The figure of that name.
pub fn find(name: &str) -> Option<&'static FigureModule> {
    modules().find(|module| module.name == name)
}

/// What is left out where nothing is measured.
fn unmeasured(why: &str) -> NotReproduced {
    NotReproduced {
        paper: 1,
        what: "XFS, ext4 and btrfs themselves on the modelled devices".to_owned(),
        reason: format!("{why}. Their requests are counted from real ones, and modelled"),
    }
}

/// What papers show and this does not.
pub fn not_reproduced(measuring: Measuring<'_>) -> Vec<NotReproduced> {
    let unmeasured = match measuring {
        Measuring::NotAsked => Some(unmeasured("--file-systems measures them, as root and in real time")),
        Measuring::Impossible(why) => Some(unmeasured(&format!("they cannot be measured here: {why}"))),
        Measuring::On(_) => None,
    };
    let left = |&(paper, what, reason): &(u8, &str, &str)| NotReproduced {
        paper,
        what: what.to_owned(),
        reason: reason.to_owned(),
    };
    unmeasured.into_iter().chain(NOT_REPRODUCED.iter().map(left)).collect()
}
