//! What a comparison found: the document behind `compare.json`, and what the table, the CSV and the page read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::probe::report::ProbeReport;

/// The value of `schema` in every document of this shape.
pub const SCHEMA: &str = "evenkeel.compare/2";

/// The value of `schema` in every document of [`Pairs`].
pub const PAIRS_SCHEMA: &str = "evenkeel.pairs/1";

/// Probes that were measured in alternating runs, and what follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pairs {
    /// Always [`PAIRS_SCHEMA`].
    #[schemars(extend("const" = PAIRS_SCHEMA))]
    pub schema: String,
    /// What each is called.
    pub names: Vec<String>,
    /// The probes in the order of `names`: runs of one number at one size belong together.
    pub probes: Vec<ProbeReport>,
    /// The first against each other.
    pub comparison: Comparisons,
}

/// Several probes, each compared with the same first one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparisons {
    /// Always [`SCHEMA`].
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// How the probes were measured, and so what is judged.
    pub design: Design,
    /// The chance that any verdict of the whole document is false, where no probe differs from another.
    pub error_rate: f64,
    /// Verdicts among which that chance is shared: each interval is at level 1 - `error_rate` / `judged`.
    pub judged: u32,
    /// By how much two sessions of one stack may differ, as stated and not measured: a share of the slower.
    pub drift: Option<f64>,
    /// One entry a further probe.
    pub comparisons: Vec<Comparison>,
}

/// How probes were measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Design {
    /// In alternating runs, by one command: pairs are judged.
    Pairs,
    /// One after another: sessions are judged.
    Sessions,
}

/// Two probes side by side.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Name of the first probe, the base of every ratio.
    pub a: String,
    /// Name of the second probe.
    pub b: String,
    /// What the two measured in another way: a difference may be due to it.
    pub unlike: Vec<String>,
    /// Sessions of the first and of the second.
    pub sessions: [u32; 2],
    /// By how much sessions of one stack may differ, as these two were judged, beside what repeated sessions show; `null` where nothing
    /// is allowed for.
    #[serde(default)]
    pub drift: Option<f64>,
    /// Share of the runs of the first and of the second that were disturbed from outside.
    pub disturbed_share: [f64; 2],
    /// Why no verdict is given, where none is.
    pub withheld: Option<String>,
    /// Throughput over all sizes.
    pub throughout: Judged,
    /// One entry a buffer size, ascending.
    pub points: Vec<PointComparison>,
    /// The whole in one sentence.
    pub overall: String,
}

/// Two probes at one buffer size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PointComparison {
    /// Bytes handed to each synchronous write.
    pub buffer_bytes: u64,
    /// Mean throughput of the first probe.
    pub a_throughput_bytes_per_s: f64,
    /// Mean throughput of the second probe.
    pub b_throughput_bytes_per_s: f64,
    /// 99th percentile of the first probe's latency.
    pub a_p99_s: Option<f64>,
    /// 99th percentile of the second probe's latency.
    pub b_p99_s: Option<f64>,
    /// Throughput of the second over that of the first.
    pub throughput: Judged,
    /// p99 latency of the second over that of the first, by each run's own; `null` where runs have too few writes.
    pub p99: Option<Judged>,
    /// What follows, in words.
    pub words: String,
}

/// A ratio of the second probe's figure to the first one's, and what follows.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The typical ratio; `null` where there is too little data.
    #[schemars(with = "Option<f64>")]
    pub ratio: f64,
    /// Its interval, at the level that all verdicts of the document share; `null` where there is too little data.
    pub interval: Option<[f64; 2]>,
    /// Whether the second is faster.
    pub verdict: Verdict,
}

/// What a ratio shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The second is faster: its interval lies on that side of 1, of pairs by half a percent or more.
    Faster,
    /// The second is slower.
    Slower,
    /// No difference can be shown with these runs, or of pairs none of half a percent or more.
    NoDifferenceShown,
    /// Nothing is claimed, see [`Comparison::withheld`].
    Withheld,
}

impl Comparison {
    /// Every verdict on the two, with the size it is about, if it is about one.
    pub fn judged(&self) -> impl Iterator<Item = (Option<u64>, Judged)> + '_ {
        let points = self.points.iter().flat_map(|point| {
            let size = Some(point.buffer_bytes);
            [Some(point.throughput), point.p99].into_iter().flatten().map(move |judged| (size, judged))
        });
        std::iter::once((None, self.throughout)).chain(points)
    }
}

impl Comparisons {
    /// Where the second is shown to be slower, typically by at least `share` of the first one's speed: in words, or
    /// `None`.
    pub fn slower_by(&self, share: f64) -> Option<String> {
        let is_slower = |judged: &Judged, over: bool| {
            let slowed = if over { judged.ratio >= 1.0 / (1.0 - share) } else { judged.ratio <= 1.0 - share };
            judged.verdict == Verdict::Slower && slowed
        };
        self.comparisons.iter().find_map(|comparison| {
            let point = comparison.points.iter().find_map(|point| {
                let size = crate::report::format::bytes(point.buffer_bytes);
                let mean = is_slower(&point.throughput, false)
                    .then(|| format!("at {size} it has {:.2} times the throughput", point.throughput.ratio));
                let p99 = point.p99.filter(|p99| is_slower(p99, true));
                mean.or_else(|| p99.map(|p99| format!("at {size} its p99 is {:.2} times as long", p99.ratio)))
            });
            let over_all = is_slower(&comparison.throughout, false).then(|| {
                format!("over all sizes it has {:.2} times the throughput", comparison.throughout.ratio)
            });
            over_all.or(point).map(|what| format!("{} is slower than {}: {what}", comparison.b, comparison.a))
        })
    }

    /// The names of two of which the runs tell nothing: no ratio of theirs has an interval.
    pub fn untold(&self) -> Option<(&str, &str)> {
        let tells = |found: &Comparison| found.judged().any(|(_, judged)| judged.interval.is_some());
        let untold = self.comparisons.iter().find(|found| !tells(found))?;
        Some((&untold.a, &untold.b))
    }

    /// Why no verdict was given, where none was.
    pub fn withheld(&self) -> Option<&str> {
        self.comparisons.iter().find_map(|comparison| comparison.withheld.as_deref())
    }
}
