//! What was studied, and how to read it.

use maud::{Markup, html};

use crate::report::format;
use crate::report::page::card;
use crate::study::report::StudyReport;

/// Parameters with their values, and machines.
pub(super) fn studied(report: &StudyReport) -> Markup {
    let study = &report.study;
    let content = html! {
        dl {
            @for factor in &study.factors {
                dt { (factor.name) }
                dd { (factor.values.join(", ")) }
            }
            @for machine in &study.machines {
                dt { "machine" }
                dd {
                    (machine.name) ": " (machine.kernel) ", " (machine.cpus) " processors, "
                    (format::bytes(u64::try_from(machine.memory_bytes).unwrap_or(0)))
                }
            }
            dt { "window" }
            dd { (format::seconds(study.interval_s)) }
        }
    };
    card("What was studied", content)
}

/// What the figures are, and how far to trust them.
pub(super) fn how_to_read() -> Markup {
    let content = html! {
        div.reading {
            p {
                b { "Figures. " }
                "1 to 9 are those of Cao, Tarasov, Raman, Hildebrand and Zadok, \
                 \u{201c}On the Performance Variation in Modern Storage Stacks\u{201d} (FAST '17), of this study's runs. \
                 Cumulative throughput is that of a whole run. The range is the largest less the smallest of the repeats, \
                 over their mean; it grows with the number of repeats, and is shown as observed, as it has no sound interval."
            }
            p {
                b { "RSD. " }
                "The standard deviation of the repeats over their mean. Its interval is a bootstrap of its logarithm over its \
                 standard error: of ten runs it holds the truth some nine times in ten."
            }
            p {
                b { "Found. " }
                "What is said to be found, surer than chance, to depend, to matter, or to show is held to one level for the \
                 whole page: of a study in which there is nothing to find, at most one page in twenty says that anything is. \
                 Everything else describes these runs. An interval is at 95\u{a0}% for itself: of twenty in a table, one misses."
            }
            p {
                b { "Runs for 1 %. " }
                "After CONFIRM (Maricq and others, OSDI '18): how many runs it takes until the non-parametric 95\u{a0}% \
                 interval of the median is expected to lie within 1\u{a0}% of it. It is said where the runs that there are \
                 tell it to a factor of 1.5, which takes forty or more."
            }
            p {
                b { "Shares of variance. " }
                "What a parameter explains is judged by how configurations differ, not by how repeats do, and corrected for \
                 chance. Parameters are taken up one at a time, the surest first, until none is left that is found; what two \
                 explain counts for the one taken up first. Of variation, the logarithm of the RSD is explained; of speed, that \
                 of throughput."
            }
            p {
                b { "Windows. " }
                "Charts over time show at most some sixty or a hundred and sixty points a line; bands keep the least and the \
                 most of what a point stands for, so no spike is lost."
            }
            p {
                b { "K-S range. " }
                "The largest Kolmogorov-Smirnov distance between the latency distributions of any two repeats: 0 where all \
                 are alike, 1 where two have nothing in common. Where it goes with the range of throughput, over \
                 configurations, the operation may be why throughput varies; a correlation is not a cause."
            }
            p {
                b { "Warm-up, changes, outliers. " }
                "A change of level is told by cumulative sums at 1\u{a0}%, with allowance for windows that resemble their \
                 neighbours. Outliers are told by Rosner's test, so that normal noise has one on a page in a hundred or fewer; a \
                 condition is far from its usual beyond 3.5 deviations of those of other runs."
            }
            p {
                b { "The machine. " }
                "A condition that drifts or remembers is compared from run to run, in the order of execution, so that what merely \
                 drifts along does not count: 1 where the one of two neighbours that has more of it, beside its own repeats, is \
                 always the faster, -1 where it is always the slower. One that comes in any order, as the place of data does, is \
                 compared over all repeats of a configuration, by ranks; where runs are slowed and never hastened, the place is \
                 judged by the fastest of them."
            }
        }
    };
    card("How to read this", content)
}
