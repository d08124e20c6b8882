//! The ratios of a comparison as Markdown, rounded as on the page.

use crate::compare::{Comparison, Judged, Verdict};
use crate::report::format;
use crate::report::markdown::{cell, table};

/// The ratios of a comparison.
pub(super) fn ratios(comparison: &Comparison) -> String {
    let header = ["buffer", "throughput, ratio", "interval", "verdict", "p99, ratio", "interval", "verdict"];
    let judged = |judged: Option<&Judged>| match judged {
        None => ["-", "-", "-"].map(str::to_owned),
        Some(judged) => [
            format::number_short(judged.ratio),
            judged
                .interval
                .map_or_else(|| "-".to_owned(), |ends| ends.map(format::number_short).join(" to ")),
            verdict(judged.verdict).to_owned(),
        ],
    };
    let row = |name: String, throughput: &Judged, p99: Option<&Judged>| {
        [vec![name], judged(Some(throughput)).to_vec(), judged(p99).to_vec()].concat()
    };
    let points = comparison.points.iter();
    let rows =
        points.map(|point| row(format::bytes(point.buffer_bytes), &point.throughput, point.p99.as_ref()));
    let all = std::iter::once(row("all sizes".to_owned(), &comparison.throughout, None));
    let heading =
        format!("{} over {}: {}", cell(&comparison.b), cell(&comparison.a), cell(&comparison.overall));
    format!("{heading}\n\n{}", table(&header, all.chain(rows)))
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::NoDifferenceShown => "no difference shown",
        Verdict::Withheld => "withheld",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compare::compare_pairs;
    use crate::probe::sample;
    use crate::report::HOSTILE;
    use crate::report::markdown::assert_sound;

    #[test]
    fn tables_of_every_sample_are_sound() {
        for report in sample::all() {
            let labelled = [(format!("{HOSTILE}|\nb"), &report), ("b".to_owned(), &report)];
            for comparison in &compare_pairs(&labelled).comparisons {
                let text = ratios(comparison);
                assert_sound(&text, comparison.points.len() + 1);
                assert!(!text.contains("<script"));
            }
        }
    }
}
