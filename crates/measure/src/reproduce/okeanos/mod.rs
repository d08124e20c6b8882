//! Paper 5: journaling of what changed and no more (wasteless), and of small writes only (selective), beside journaling
//! of whole pages (data) and of none of the data (ordered).
//!
//! ```text
//! drive, bed    the testbed: the engine over a modelled disk, in virtual time
//!   ext3        ordered journaling as a file system does it, for comparison
//!   streams     many writers, each on a file of its own
//! journal_volume, latency, traffic, postmark, mpi_io, recovery, threshold    a figure each
//! files         streams, Postmark and MPI-IO once more, on the file system that is mounted
//! ```

mod bed;
mod drive;
mod ext3;
mod files;
mod journal_volume;
mod latency;
mod mpi_io;
mod postmark;
mod recovery;
mod streams;
#[cfg(test)]
mod tests;
mod threshold;
mod traffic;
mod written;

use evenkeel_engine::options::Journaling;

use super::{FigureModule, Series};

/// Number of the paper.
const PAPER: u8 = 5;

/// From which size on selective journaling writes straight home, where a figure does not sweep it: what is larger than
/// a page.
const THRESHOLD_BYTES: u64 = 4096 + 1;

/// By which factor a value differs that the paper calls "substantially" or "significantly" different without a number.
const SUBSTANTIALLY: f64 = 2.0;

/// Every figure of the paper.
pub(super) const MODULES: &[FigureModule] = &[
    journal_volume::MODULE,
    latency::MODULE,
    traffic::MODULE,
    postmark::MODULE,
    mpi_io::MODULE,
    recovery::MODULE,
    threshold::MODULE,
    files::MODULES[0],
    files::MODULES[1],
    files::MODULES[2],
];

/// How data is made durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Whole pages through the journal.
    Data,
    /// Whole pages straight home, side by side, their sums through the journal: the engine's.
    Ordered,
    /// What changed through the journal.
    Wasteless,
    /// As wasteless below a size, straight home from it on.
    Selective(u64),
    /// Whole pages straight home, side by side, and metadata committed for all of them: the paper's, without a volume.
    Ext3,
}

impl Mode {
    /// The modes of the engine.
    const ENGINE: [Self; 4] = [Self::Data, Self::Ordered, Self::Wasteless, Self::Selective(THRESHOLD_BYTES)];

    /// With ordered journaling as the paper's file system has it.
    const ALL: [Self; 5] =
        [Self::Data, Self::Ordered, Self::Wasteless, Self::Selective(THRESHOLD_BYTES), Self::Ext3];

    fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Ordered => "ordered, the engine's",
            Self::Wasteless => "wasteless",
            Self::Selective(_) => "selective",
            Self::Ext3 => "ordered, as ext3",
        }
    }

    /// The engine's name for it; `None` where there is no engine.
    fn journaling(self) -> Option<Journaling> {
        match self {
            Self::Data => Some(Journaling::WholePages),
            Self::Ordered => Some(Journaling::Ordered),
            Self::Wasteless => Some(Journaling::Wasteless),
            Self::Selective(threshold_bytes) => Some(Journaling::Selective { threshold_bytes }),
            Self::Ext3 => None,
        }
    }
}

/// Results of a sweep: for each mode those at each place, in the order of both.
struct Sweep<X, R> {
    modes: Vec<Mode>,
    places: Vec<X>,
    results: Vec<R>,
}

impl<X: Copy + PartialEq + Sync, R: Send> Sweep<X, R> {
    /// Runs every mode at every place.
    fn run(
        work: &super::Work<'_>,
        modes: &[Mode],
        places: &[X],
        run: impl Fn(Mode, X) -> Result<R, super::Halted> + Sync,
    ) -> Result<Self, super::Halted> {
        let points: Vec<(Mode, X)> =
            modes.iter().flat_map(|&mode| places.iter().map(move |&place| (mode, place))).collect();
        let results = work.each(&points, |&(mode, place)| run(mode, place))?;
        Ok(Self { modes: modes.to_vec(), places: places.to_vec(), results })
    }

    /// The result of a mode at a place.
    fn at(&self, mode: Mode, place: X) -> &R {
        let row = self.modes.iter().position(|&each| each == mode).expect("a mode of the sweep");
        let column = self.places.iter().position(|&each| each == place).expect("a place of the sweep");
        &self.results[row * self.places.len() + column]
    }

    /// A line for each mode.
    fn series(&self, x: impl Fn(X) -> f64, y: impl Fn(&R) -> f64) -> Vec<Series> {
        let line = |&mode: &Mode| Series {
            name: mode.name().to_owned(),
            points: self.places.iter().map(|&place| (x(place), y(self.at(mode, place)))).collect(),
        };
        self.modes.iter().map(line).collect()
    }
}
