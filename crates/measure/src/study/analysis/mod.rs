//! What a study says: pure functions from a study to the parts of its report.
//!
//! Figures 1 to 9 are those of Cao, Tarasov, Raman, Hildebrand & Zadok 2017, "On the Performance Variation in Modern
//! Storage Stacks" (FAST '17), "the paper" below.

pub mod conditions;
pub mod drift;
pub mod explained;
pub mod groups;
pub mod latencies;
pub mod layout;
pub mod operations;
pub mod outliers;
pub mod over_time;
pub mod remedies;
pub mod series;
pub mod steadiness;
pub mod variation;
pub mod window_sizes;

pub use conditions::{ConditionCorrelation, TakenByOthers};
pub use explained::{Explained, Explanation, Factors, Figure, LevelFigure};
pub use groups::Groups;
pub use latencies::{Curve, LatencyCurves, LatencyRange};
pub use layout::{Layout, Placed};
pub use operations::{OperationBesideRepeats, OperationCorrelation};
pub use outliers::{OddCondition, Order, Outlier};
pub use over_time::{Band, BandPoint, InstantPoint, Instantaneous};
pub use remedies::{CaseStudy, RemedyBox, RemedyEffect};
pub use steadiness::Steadiness;
pub use variation::{RunsNeeded, Variation};
pub use window_sizes::WindowRanges;
