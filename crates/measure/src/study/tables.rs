//! The tables of a report, once for the page and for the files of comma-separated values: on the page figures are rounded
//! and carry their unit, in the files they have full precision in the unit that the column's name says.

mod table;

use super::analysis::{Explained, Figure, RunsNeeded};
use super::findings::condition;
use super::report::StudyReport;
use crate::report::Unit;

pub use table::{Cell, Table};

fn text(words: impl Into<String>) -> Cell {
    Cell::Text(words.into())
}

fn share(value: Option<f64>) -> Cell {
    Cell::Figure(value, Unit::Share)
}

fn count(value: usize) -> Cell {
    Cell::Figure(Some(value as f64), Unit::Count)
}

fn rate(value: f64) -> Cell {
    Cell::Figure(Some(value), Unit::PerS)
}

/// Every table, in the order of the page.
pub fn tables(report: &StudyReport) -> Vec<Table> {
    vec![
        variation(report),
        explained(report),
        levels(report),
        remedies(report),
        remedy_effects(report),
        layouts(report),
        windows(report),
        latencies(report),
        operations(report),
        operations_beside_repeats(report),
        steadiness(report),
        outliers(report),
        conditions(report),
        left_out(report),
        configurations(report),
    ]
}

fn variation(report: &StudyReport) -> Table {
    let needed = |needed: Option<RunsNeeded>| match needed {
        Some(RunsNeeded { more_than_10000: true, .. }) => text("more than 10000"),
        Some(RunsNeeded { runs: None, .. }) => text("cannot be said"),
        Some(RunsNeeded { runs, .. }) => Cell::Figure(runs.map(|runs| runs as f64), Unit::Count),
        None => Cell::Figure(None, Unit::Count),
    };
    let rows = report.variation.iter().map(|row| {
        vec![
            text(&row.configuration),
            text(&row.workload),
            count(row.runs),
            rate(row.mean_operations_per_s),
            rate(row.median_operations_per_s),
            Cell::Interval(row.median_ci95, Unit::PerS),
            share(row.rsd),
            Cell::Interval(row.rsd_ci95, Unit::Share),
            share(row.relative_range),
            needed(row.runs_for_1_percent),
            needed(row.runs_for_5_percent),
        ]
    });
    Table {
        name: "variation",
        title: "Every configuration under every workload",
        columns: vec![
            ("configuration", "configuration"),
            ("workload", "workload"),
            ("runs", "runs"),
            ("mean_operations_per_s", "mean"),
            ("median_operations_per_s", "median"),
            ("median_ci95", "its 95 % interval"),
            ("rsd", "RSD"),
            ("rsd_ci95", "its 95 % interval"),
            ("relative_range", "range"),
            ("runs_for_1_percent", "runs for 1 %"),
            ("runs_for_5_percent", "runs for 5 %"),
        ],
        rows: rows.collect(),
    }
}

/// What is explained, in words.
pub fn figure_name(explained: &Explained) -> String {
    let figure = match explained.figure {
        Figure::Throughput => "throughput",
        Figure::Variation => "variation",
    };
    format!("{figure}, {}", explained.workload.as_deref().unwrap_or("all workloads"))
}

fn explained(report: &StudyReport) -> Table {
    let rows = report.explained.iter().flat_map(|explained| {
        explained.terms.iter().map(|term| {
            vec![
                text(term.name()),
                text(figure_name(explained)),
                share(term.share),
                Cell::Interval(term.ci95, Unit::Share),
                Cell::Figure(term.p, Unit::Count),
                text(if term.found { "yes" } else { "no" }),
                count(explained.configurations),
            ]
        })
    });
    Table {
        name: "explained",
        title: "What each parameter and pair explains",
        columns: vec![
            ("parameters", "parameters"),
            ("figure", "of"),
            ("share", "share of variance"),
            ("share_ci95", "its 95 % interval"),
            ("p", "p"),
            ("found", "surer than chance"),
            ("configurations", "configurations"),
        ],
        rows: rows.collect(),
    }
}

fn levels(report: &StudyReport) -> Table {
    let mut rows = Vec::new();
    for explained in &report.explained {
        let unit = match (explained.figure, &explained.workload) {
            (_, None) => Unit::Times,
            (Figure::Throughput, _) => Unit::PerS,
            (Figure::Variation, _) => Unit::Share,
        };
        for term in explained.terms.iter().filter(|term| term.found) {
            rows.extend(term.levels.iter().map(|level| {
                vec![
                    text(format!("{} {}", term.name(), level.value)),
                    text(figure_name(explained)),
                    count(level.configurations),
                    Cell::Figure(Some(level.typical), unit),
                ]
            }));
        }
    }
    Table {
        name: "levels",
        title: "The values of the parameters found",
        columns: vec![
            ("value", "value"),
            ("figure", "of"),
            ("configurations", "configurations"),
            ("typical", "typical"),
        ],
        rows,
    }
}

fn remedies(report: &StudyReport) -> Table {
    let rows = report.case_studies.iter().flat_map(|case| {
        case.boxes.iter().map(|one| {
            vec![
                text(&one.remedies),
                text(&case.configuration),
                text(&case.workload),
                count(one.operations_per_s.len()),
                rate(one.quartiles_operations_per_s[0]),
                rate(one.quartiles_operations_per_s[2]),
                rate(one.quartiles_operations_per_s[4]),
                share(one.rsd),
                Cell::Interval(one.rsd_ci95, Unit::Share),
                share(one.relative_range),
            ]
        })
    });
    Table {
        name: "remedies",
        title: "What the remedies brought",
        columns: vec![
            ("remedies", "remedies"),
            ("configuration", "configuration"),
            ("workload", "workload"),
            ("runs", "runs"),
            ("least_operations_per_s", "least"),
            ("median_operations_per_s", "median"),
            ("most_operations_per_s", "most"),
            ("rsd", "RSD"),
            ("rsd_ci95", "its 95 % interval"),
            ("relative_range", "range"),
        ],
        rows: rows.collect(),
    }
}

fn remedy_effects(report: &StudyReport) -> Table {
    let rows = report.remedy_effects.iter().map(|effect| {
        vec![
            text(&effect.remedies),
            count(effect.compared),
            count(effect.pairs),
            share(effect.rsd_ratio),
            Cell::Figure(effect.p, Unit::Count),
            text(if effect.found { "yes" } else { "no" }),
        ]
    });
    Table {
        name: "remedy-effects",
        title: "Whether remedies bring repeats closer together",
        columns: vec![
            ("remedies", "remedies"),
            ("compared", "compared on"),
            ("pairs", "pairs of runs"),
            ("rsd_ratio", "RSD over that without"),
            ("p", "p"),
            ("found", "surer than chance"),
        ],
        rows: rows.collect(),
    }
}

fn layouts(report: &StudyReport) -> Table {
    let rows = report.layouts.iter().map(|row| {
        vec![
            text(&row.configuration),
            text(&row.workload),
            count(row.runs.len()),
            share(Some(row.wandering)),
            Cell::Figure(row.correlation, Unit::Count),
            Cell::Interval(row.correlation_ci95, Unit::Count),
        ]
    });
    Table {
        name: "layouts",
        title: "Where data sets lay",
        columns: vec![
            ("configuration", "configuration"),
            ("workload", "workload"),
            ("runs", "runs"),
            ("wandering", "middle moves by"),
            ("correlation", "correlation with throughput"),
            ("correlation_ci95", "its 95 % interval"),
        ],
        rows: rows.collect(),
    }
}

fn windows(report: &StudyReport) -> Table {
    let rows = report.window_ranges.iter().map(|row| {
        vec![
            text(&row.file_system),
            text(&row.workload),
            Cell::Figure(Some(row.window_s), Unit::S),
            count(row.ranges),
            share(Some(row.median)),
            share(Some(row.p90)),
            share(Some(row.above_20_percent)),
        ]
    });
    Table {
        name: "windows",
        title: "Range against window size",
        columns: vec![
            ("file_system", "file system"),
            ("workload", "workload"),
            ("window_s", "window"),
            ("ranges", "ranges"),
            ("median", "median"),
            ("p90", "nine in ten within"),
            ("above_20_percent", "above 20 %"),
        ],
        rows: rows.collect(),
    }
}

fn latencies(report: &StudyReport) -> Table {
    let time = |value: Option<f64>| Cell::Figure(value, Unit::S);
    let rows = report.latency_ranges.iter().map(|row| {
        vec![
            text(&row.configuration),
            text(&row.workload),
            text(&row.operation),
            Cell::Figure(Some(row.operations as f64), Unit::Count),
            time(Some(row.mean_s)),
            time(row.p50_s),
            time(row.p99_s),
            time(row.p999_s),
            Cell::Figure(row.ks_range, Unit::Count),
        ]
    });
    Table {
        name: "latencies",
        title: "Latency of every operation",
        columns: vec![
            ("configuration", "configuration"),
            ("workload", "workload"),
            ("operation", "operation"),
            ("operations", "operations"),
            ("mean_s", "mean"),
            ("p50_s", "median"),
            ("p99_s", "p99"),
            ("p999_s", "p99.9"),
            ("ks_range", "K-S range"),
        ],
        rows: rows.collect(),
    }
}

fn operations(report: &StudyReport) -> Table {
    let rows = report.operation_correlations.iter().map(|row| {
        vec![
            text(&row.operation),
            text(&row.file_system),
            text(&row.workload),
            count(row.configurations),
            Cell::Figure(Some(row.coefficient), Unit::Count),
            Cell::Interval(row.ci95, Unit::Count),
            text(if row.found { "yes" } else { "no" }),
        ]
    });
    Table {
        name: "operations",
        title: "Range of latency against range of throughput",
        columns: vec![
            ("operation", "operation"),
            ("file_system", "file system"),
            ("workload", "workload"),
            ("configurations", "configurations"),
            ("coefficient", "r"),
            ("coefficient_ci95", "its 95 % interval"),
            ("found", "surer than chance"),
        ],
        rows: rows.collect(),
    }
}

fn operations_beside_repeats(report: &StudyReport) -> Table {
    let rows = report.operations_beside_repeats.iter().map(|row| {
        vec![
            text(&row.operation),
            text(&row.file_system),
            text(&row.workload),
            count(row.runs),
            Cell::Figure(Some(row.coefficient), Unit::Count),
            text(if row.found { "yes" } else { "no" }),
        ]
    });
    Table {
        name: "operations-beside-repeats",
        title: "Latency against throughput, of runs beside their repeats",
        columns: vec![
            ("operation", "operation"),
            ("file_system", "file system"),
            ("workload", "workload"),
            ("runs", "runs"),
            ("coefficient", "correlation"),
            ("found", "surer than chance"),
        ],
        rows: rows.collect(),
    }
}

fn steadiness(report: &StudyReport) -> Table {
    let rows = report.steadiness.iter().map(|row| {
        vec![
            text(&row.configuration),
            text(&row.workload),
            count(row.runs),
            count(row.runs_that_change),
            count(row.runs_that_warm_up),
            Cell::Figure(row.warm_up_s, Unit::S),
            share(row.warm_up_ratio),
            count(row.runs_never_steady),
            count(row.runs_serially_correlated),
            Cell::Figure(row.of_neighbours, Unit::Count),
        ]
    });
    Table {
        name: "steadiness",
        title: "Warm-up and changes of level",
        columns: vec![
            ("configuration", "configuration"),
            ("workload", "workload"),
            ("runs", "runs"),
            ("runs_that_change", "change level"),
            ("runs_that_warm_up", "warm up"),
            ("warm_up_s", "for"),
            ("warm_up_ratio", "at, of later throughput"),
            ("runs_never_steady", "not steady by half"),
            ("runs_serially_correlated", "serially correlated"),
            ("of_neighbours", "correlation of neighbours"),
        ],
        rows: rows.collect(),
    }
}

fn outliers(report: &StudyReport) -> Table {
    let rows = report.outliers.iter().map(|row| {
        let odd = row.odd_conditions.iter().map(|odd| {
            let show = |value| condition(&odd.name, value);
            format!("{} {} (otherwise {})", odd.name, show(odd.value), show(odd.median))
        });
        vec![
            text(&row.configuration),
            text(&row.workload),
            Cell::Figure(Some(row.repeat as f64), Unit::Count),
            Cell::Figure(Some(row.place as f64), Unit::Count),
            text(row.started_at.clone().unwrap_or_default()),
            rate(row.operations_per_s),
            rate(row.median_operations_per_s),
            text(odd.collect::<Vec<_>>().join("; ")),
        ]
    });
    Table {
        name: "outliers",
        title: "Runs that do not belong to their repeats",
        columns: vec![
            ("configuration", "configuration"),
            ("workload", "workload"),
            ("repeat", "repeat"),
            ("place", "place in the order"),
            ("started_at", "begun"),
            ("operations_per_s", "throughput"),
            ("median_operations_per_s", "median of all repeats"),
            ("odd_conditions", "odd about the machine"),
        ],
        rows: rows.collect(),
    }
}

fn conditions(report: &StudyReport) -> Table {
    let plain = |value: f64| Cell::Figure(Some(value), Unit::Count);
    let rows = report.condition_correlations.iter().map(|row| {
        vec![
            text(&row.condition),
            count(row.runs),
            plain(row.coefficient),
            Cell::Figure(row.between_repeats, Unit::Count),
            Cell::Figure(row.between_neighbours, Unit::Count),
            Cell::Figure(row.p, Unit::Count),
            text(if row.found { "yes" } else { "no" }),
            plain(row.least),
            plain(row.median),
            plain(row.most),
        ]
    });
    Table {
        name: "conditions",
        title: "What the machine was like, against throughput",
        columns: vec![
            ("condition", "condition"),
            ("runs", "runs"),
            ("coefficient", "rank correlation with throughput"),
            ("between_repeats", "between repeats"),
            ("between_neighbours", "from run to run"),
            ("p", "p"),
            ("found", "surer than chance"),
            ("least", "least"),
            ("median", "median"),
            ("most", "most"),
        ],
        rows: rows.collect(),
    }
}

fn left_out(report: &StudyReport) -> Table {
    let rows = report.left_out.iter().map(|row| {
        vec![
            text(&row.configuration),
            text(&row.workload),
            count(row.runs),
            text(if row.skipped { "skipped" } else { "failed" }),
            text(&row.message),
        ]
    });
    Table {
        name: "left-out",
        title: "Runs without figures",
        columns: vec![
            ("configuration", "configuration"),
            ("workload", "workload"),
            ("runs", "runs"),
            ("state", "state"),
            ("message", "message"),
        ],
        rows: rows.collect(),
    }
}

fn configurations(report: &StudyReport) -> Table {
    let rows = report.study.configurations.iter().flat_map(|configuration| {
        let values = report.study.factors.iter().zip(&configuration.values);
        values.filter_map(|(factor, value)| {
            Some(vec![text(&configuration.label), text(&factor.name), text(value.clone()?)])
        })
    });
    Table {
        name: "configurations",
        title: "What each configuration is",
        columns: vec![("configuration", "configuration"), ("factor", "parameter"), ("value", "value")],
        rows: rows.collect(),
    }
}
