//! The paper's figures, and what explains them.

use maud::{Markup, PreEscaped, html};

use crate::report::charts::{
    Bar, BoxRow, Edge, Row, RowChart, Span, Swatch, band_chart, box_chart, line_chart, numbered_chart,
    row_chart, scatter_chart, span_chart,
};
use crate::report::format;
use crate::report::page;
use crate::report::{Chart, Scale, Series, Unit};
use crate::study::analysis::groups::FILE_SYSTEM;
use crate::study::analysis::operations::STRONG;
use crate::study::analysis::remedies::remedy_names;
use crate::study::analysis::{Figure, Layout, Variation};
use crate::study::report::StudyReport;
use crate::study::tables::figure_name;

/// Configurations of a file system in figure 2, those that vary most.
const CONFIGURATIONS_MAX: usize = 12;
/// Terms of a chart of shares.
const TERMS_MAX: usize = 10;
/// Layouts shown where there is no case study.
const LAYOUTS_MAX: usize = 3;
/// Charts of a kind: more case studies or layouts are in the tables.
const CHARTS_MAX: usize = 12;

/// A chart with what is written above and below it.
struct Shown {
    title: String,
    meaning: String,
    svg: String,
    legend: Vec<(Swatch, String)>,
}

/// All of them, each under its heading.
pub(super) fn all(report: &StudyReport) -> Markup {
    let parts: [(&str, Vec<Shown>); 11] = [
        ("What explains variation", shares(report, Figure::Variation)),
        ("Figure 1: range against throughput", scatters(report)),
        ("Figure 2: the same configurations under each workload", ranges(report)),
        ("Figure 3: what the remedies brought", boxes(report)),
        ("Figure 4: where data sets lay", spans(report)),
        ("Figure 5: throughput over time", bands(report)),
        ("Figure 6: range against window size", windows(report)),
        ("Figure 7: instantaneous throughput", instants(report)),
        ("Figure 8: distributions of latency", latencies(report)),
        ("Figure 9: latency against throughput", operations(report)),
        ("What explains speed", shares(report, Figure::Throughput)),
    ];
    html! {
        @for (heading, charts) in parts {
            @if !charts.is_empty() {
                h2.of { (heading) }
                div.figures.study {
                    @for chart in charts {
                        figure.card {
                            figcaption { h2 { (chart.title) } p { (chart.meaning) } }
                            div.scroll { (PreEscaped(chart.svg)) }
                            @if !chart.legend.is_empty() { (page::legend(&chart.legend)) }
                        }
                    }
                }
            }
        }
    }
}

/// What the colours of bars say that may be found.
fn found_or_not() -> Vec<(Swatch, String)> {
    vec![
        (Swatch::Bar(0), "surer than chance, over the whole page".to_owned()),
        (Swatch::Bar(5), "not surer than chance".to_owned()),
    ]
}

fn legend<'a>(names: impl Iterator<Item = &'a str>) -> Vec<(Swatch, String)> {
    names.enumerate().map(|(at, name)| (Swatch::Line(at), name.to_owned())).collect()
}

/// File systems in the order of their colours: that of the plan.
fn file_systems(report: &StudyReport) -> Vec<&str> {
    let mut names: Vec<&str> = report.variation.iter().map(|row| row.file_system.as_str()).collect();
    let factor = report.study.factors.iter().find(|factor| factor.name == FILE_SYSTEM);
    // Where there are several devices, the name of one follows.
    let of = |name: &str, value: &str| {
        name == value || name.strip_prefix(value).is_some_and(|rest| rest.starts_with(" on "))
    };
    let place = |name: &str| factor.and_then(|factor| factor.values.iter().position(|value| of(name, value)));
    names.sort_unstable_by_key(|name| (place(name), *name));
    names.dedup();
    names
}

fn workloads(report: &StudyReport) -> impl Iterator<Item = &str> {
    report.study.workloads.iter().map(String::as_str)
}

fn scatters(report: &StudyReport) -> Vec<Shown> {
    let names = file_systems(report);
    let chart = |workload: &str| {
        let of = |name: &str| -> Vec<(f64, f64)> {
            let rows =
                report.variation.iter().filter(|row| row.workload == workload && row.file_system == name);
            rows.filter_map(|row| Some((row.mean_operations_per_s, row.relative_range?))).collect()
        };
        let chart = Chart {
            title: workload.to_owned(),
            meaning: String::new(),
            x_name: "mean throughput, operations/s".to_owned(),
            x_unit: Unit::PerS,
            x_scale: Scale::Log,
            y_name: "range of throughput over its mean".to_owned(),
            y_unit: Unit::Share,
            y_scale: Scale::Linear,
            series: names.iter().map(|name| Series { name: (*name).to_owned(), points: of(name) }).collect(),
        };
        let is_empty = chart.series.iter().all(|series| series.points.is_empty());
        (!is_empty).then(|| Shown {
            svg: scatter_chart(&chart),
            title: chart.title,
            meaning: "a point a configuration; to the right is faster, below is steadier".to_owned(),
            legend: names
                .iter()
                .enumerate()
                .map(|(at, name)| (Swatch::Dot(at), (*name).to_owned()))
                .collect(),
        })
    };
    workloads(report).filter_map(chart).collect()
}

fn ranges(report: &StudyReport) -> Vec<Shown> {
    let highest = report.variation.iter().filter_map(|row| row.relative_range).fold(0.0, f64::max).max(0.01);
    let chart = |name: &str| {
        let of_it: Vec<&Variation> = report.variation.iter().filter(|row| row.file_system == name).collect();
        let mut labels: Vec<(&str, f64)> = Vec::new();
        for row in of_it.iter().filter(|row| row.relative_range.is_some()) {
            let range = row.relative_range.unwrap_or(0.0);
            match labels.iter_mut().find(|(label, _)| *label == row.configuration) {
                Some((_, widest)) => *widest = widest.max(range),
                None => labels.push((&row.configuration, range)),
            }
        }
        labels.sort_by(|one, other| other.1.total_cmp(&one.1));
        let all = labels.len();
        let bar = |label: &str, (series, workload): (usize, &str)| {
            let row = of_it.iter().find(|row| row.configuration == label && row.workload == workload);
            let range = row.and_then(|row| row.relative_range);
            Bar {
                series,
                value: range,
                interval: None,
                figure: range.map_or_else(|| format::NOT_AVAILABLE.to_owned(), format::percent),
            }
        };
        let rows = labels.iter().take(CONFIGURATIONS_MAX).map(|(label, _)| Row {
            name: (*label).to_owned(),
            bars: workloads(report).enumerate().map(|workload| bar(label, workload)).collect(),
        });
        let chart = RowChart {
            title: format!("Range of throughput of {name}"),
            unit: Unit::Share,
            ends: [0.0, highest],
            mark: None,
            rows: rows.collect(),
        };
        let meaning = match all > CONFIGURATIONS_MAX {
            true => format!(
                "range of throughput of the {CONFIGURATIONS_MAX} configurations that vary most, of {all}"
            ),
            false => "range of throughput of every configuration".to_owned(),
        };
        (all > 0).then(|| Shown {
            title: name.to_owned(),
            meaning,
            svg: row_chart(&chart),
            legend: workloads(report)
                .enumerate()
                .map(|(at, name)| (Swatch::Bar(at), name.to_owned()))
                .collect(),
        })
    };
    file_systems(report).into_iter().filter_map(chart).collect()
}

fn shares(report: &StudyReport, figure: Figure) -> Vec<Shown> {
    let of_figure = report.explained.iter().filter(|explained| explained.figure == figure);
    let chart = |explained: &crate::study::analysis::Explained| {
        let judged: Vec<_> = explained.terms.iter().filter(|term| term.share.is_some()).collect();
        let row = |term: &&crate::study::analysis::Explanation| Row {
            name: if term.found { format!("{} — found", term.name()) } else { term.name() },
            bars: vec![Bar {
                series: if term.found { 0 } else { 5 },
                value: term.share,
                interval: term.ci95,
                figure: term.share.map_or_else(String::new, format::percent),
            }],
        };
        let chart = RowChart {
            title: format!("Share of variance explained: {}", figure_name(explained)),
            unit: Unit::Share,
            ends: [0.0, 1.0],
            mark: None,
            rows: judged.iter().take(TERMS_MAX).map(row).collect(),
        };
        let mut meaning = format!(
            "share of the variance over {} configurations, with its 95 % interval, which reaches 0 unless it is found",
            explained.configurations
        );
        if judged.len() > TERMS_MAX {
            meaning += &format!("; {TERMS_MAX} of {}, single parameters first", judged.len());
        }
        if let Some(repeats) = explained.between_repeats {
            meaning += &format!("; repeats of the same configuration make {}", format::percent(repeats));
        }
        if !explained.not_told_apart.is_empty() {
            meaning += &format!("; not told apart from those found: {}", explained.not_told_apart.join(", "));
        }
        (!judged.is_empty()).then(|| Shown {
            title: explained.workload.clone().unwrap_or_else(|| "all workloads".to_owned()),
            meaning,
            svg: row_chart(&chart),
            legend: found_or_not(),
        })
    };
    of_figure.filter_map(chart).collect()
}

fn boxes(report: &StudyReport) -> Vec<Shown> {
    let chart = |case: &crate::study::analysis::CaseStudy| {
        let mut before: Vec<&str> = Vec::new();
        let mut rows = Vec::new();
        for one in &case.boxes {
            let names: Vec<&str> = remedy_names(&one.remedies).collect();
            let is_more = before.iter().all(|name| names.contains(name));
            // As in the paper, what a set adds to the one before it; where it does not, all of it.
            let added: Vec<&str> =
                names.iter().copied().filter(|name| !is_more || !before.contains(name)).collect();
            let name = match (names.len(), is_more) {
                (0, _) => "baseline".to_owned(),
                (_, true) => format!("+ {}", added.join(" + ")),
                (_, false) => format!("only {}", names.join(" + ")),
            };
            rows.push(BoxRow {
                name,
                quartiles: one.quartiles_operations_per_s,
                values: one.operations_per_s.clone(),
                figure: one.relative_range.map_or_else(|| format::NOT_AVAILABLE.to_owned(), format::percent),
            });
            before = names;
        }
        Shown {
            title: format!("{} under {}", case.configuration, case.workload),
            meaning: "throughput of each run; box from first to third quartile, line at the median, whiskers to least and \
                      most; the range at the end"
                .to_owned(),
            svg: box_chart(&format!("{} under {}", case.configuration, case.workload), Unit::PerS, &rows),
            legend: Vec::new(),
        }
    };
    report.case_studies.iter().take(CHARTS_MAX).map(chart).collect()
}

/// The layouts of a chart: those of a case study together, or one of those that vary most.
fn spans(report: &StudyReport) -> Vec<Shown> {
    let mut charts = Vec::new();
    for case in report.case_studies.iter().take(CHARTS_MAX) {
        let with = |one: &crate::study::analysis::RemedyBox| {
            let mut all = report.layouts.iter();
            let layout =
                all.find(|layout| layout.workload == case.workload && layout.configuration == one.label)?;
            Some((layout, one.remedies.clone()))
        };
        let layouts: Vec<(&Layout, String)> = case.boxes.iter().filter_map(with).collect();
        charts.extend(span(format!("{} under {}", case.configuration, case.workload), &layouts));
    }
    if charts.is_empty() {
        let mut moving: Vec<&Layout> =
            report.layouts.iter().filter(|layout| layout.wandering > 0.0).collect();
        let strength = |layout: &Layout| layout.correlation.map_or(0.0, f64::abs);
        moving.sort_by(|one, other| strength(other).total_cmp(&strength(one)));
        for layout in moving.into_iter().take(LAYOUTS_MAX) {
            let title = format!("{} under {}", layout.configuration, layout.workload);
            charts.extend(span(title, &[(layout, "its runs".to_owned())]));
        }
    }
    charts
}

fn span(title: String, layouts: &[(&Layout, String)]) -> Option<Shown> {
    let mut spans = Vec::new();
    for (series, (layout, _)) in layouts.iter().enumerate() {
        spans.extend(layout.runs.iter().map(|run| {
            let [low, middle, high] = run.quartiles_bytes;
            let places = [run.first_bytes, low, middle, high, run.end_bytes].map(|place| place as f64);
            Span { series, operations_per_s: run.operations_per_s, places }
        }));
    }
    (!spans.is_empty()).then(|| Shown {
        svg: span_chart(&title, &spans),
        title,
        meaning:
            "a run a line, from the first to the last byte of its data set, thick where the middle half lies"
                .to_owned(),
        legend: match layouts.len() {
            1 => Vec::new(),
            _ => legend(layouts.iter().map(|(_, name)| name.as_str())),
        },
    })
}

fn bands(report: &StudyReport) -> Vec<Shown> {
    let names = file_systems(report);
    let chart = |workload: &str| {
        let mut of_it: Vec<_> = report.bands.iter().filter(|band| band.workload == workload).collect();
        // In the colours of figure 1.
        of_it.sort_by_key(|band| names.iter().position(|name| *name == band.file_system));
        let series = of_it.iter().map(|band| Series {
            name: format!("{} ({})", band.file_system, band.configuration),
            points: band.points.iter().map(|point| (point.time_s, point.mean_operations_per_s)).collect(),
        });
        let edges: Vec<Vec<Edge>> = of_it
            .iter()
            .map(|band| {
                let edge = |point: &crate::study::analysis::BandPoint| {
                    (point.time_s, point.least_operations_per_s, point.most_operations_per_s)
                };
                band.points.iter().map(edge).collect()
            })
            .collect();
        let chart = over_time(workload, "throughput, operations/s", Unit::PerS, series.collect());
        (!of_it.is_empty()).then(|| Shown {
            svg: band_chart(&chart, &edges),
            title: chart.title,
            meaning: format!(
                "mean of the repeats in windows of {}, in a band from the slowest to the fastest; of each file system the \
                 configuration that varies most",
                format::seconds(of_it[0].window_s)
            ),
            legend: chart.series.iter().enumerate().map(|(at, one)| (Swatch::Bar(at), one.name.clone())).collect(),
        })
    };
    workloads(report).filter_map(chart).collect()
}

fn over_time(title: &str, y_name: &str, y_unit: Unit, series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        meaning: String::new(),
        x_name: "time from the begin of the run".to_owned(),
        x_unit: Unit::S,
        x_scale: Scale::Linear,
        y_name: y_name.to_owned(),
        y_unit,
        y_scale: Scale::Linear,
        series,
    }
}

fn instants(report: &StudyReport) -> Vec<Shown> {
    let chart = |run: &crate::study::analysis::Instantaneous| {
        let points = run.points.iter().map(|point| (point.time_s, point.mean)).collect();
        let edges = vec![run.points.iter().map(|point| (point.time_s, point.least, point.most)).collect()];
        let title = format!("{} under {}", run.file_system, run.workload);
        let series = vec![Series { name: run.configuration.clone(), points }];
        let chart = over_time(&title, "throughput over that of the fastest window", Unit::Share, series);
        let together = match run.windows_of_a_point {
            1 => String::new(),
            many => format!("; {many} windows a point, in a band from the slowest to the fastest"),
        };
        Shown {
            svg: band_chart(&chart, &edges),
            title,
            meaning: format!(
                "windows of {} of repeat {} of {}{together}",
                format::seconds(run.window_s),
                run.repeat,
                run.configuration
            ),
            legend: Vec::new(),
        }
    };
    report.instantaneous.iter().map(chart).collect()
}

fn windows(report: &StudyReport) -> Vec<Shown> {
    let same = |one: &crate::study::analysis::WindowRanges, other: &crate::study::analysis::WindowRanges| {
        one.workload == other.workload && one.file_system == other.file_system
    };
    let chart = |rows: &[crate::study::analysis::WindowRanges]| {
        let series: Vec<Series> = rows
            .iter()
            .map(|row| Series { name: format::seconds(row.window_s), points: row.cdf.clone() })
            .collect();
        let legend = legend(series.iter().map(|one| one.name.as_str()));
        let chart = Chart {
            title: format!("{} under {}", rows[0].file_system, rows[0].workload),
            meaning: String::new(),
            x_name: "range of throughput in a window over its mean".to_owned(),
            x_unit: Unit::Share,
            x_scale: Scale::Linear,
            y_name: "share of windows and configurations".to_owned(),
            y_unit: Unit::Share,
            y_scale: Scale::Linear,
            series,
        };
        Shown {
            svg: line_chart(&chart),
            title: chart.title,
            meaning: "how many ranges are no larger, for each length of the window".to_owned(),
            legend,
        }
    };
    report.window_ranges.chunk_by(same).map(chart).collect()
}

fn latencies(report: &StudyReport) -> Vec<Shown> {
    let mut all = Vec::new();
    // An operation looks the same under each workload.
    let each = report.latency_curves.iter().flat_map(|curves| &curves.operations);
    let mut kinds: Vec<&str> = each.map(|curve| curve.name.as_str()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for curves in &report.latency_curves {
        let operations = format!("every operation in repeat {} of {}", curves.repeat, curves.configuration);
        let repeats = format!("{} in every repeat of {}", curves.farthest_operation, curves.configuration);
        for (title, meaning, curves) in [
            (curves.workload.clone(), operations, &curves.operations),
            (format!("{}: {}", curves.workload, curves.farthest_operation), repeats, &curves.repeats),
        ] {
            let series: Vec<Series> = curves
                .iter()
                .map(|curve| Series { name: curve.name.clone(), points: curve.cdf.clone() })
                .collect();
            if series.is_empty() {
                continue;
            }
            let number = |(at, one): (usize, &Series)| kinds.binary_search(&one.name.as_str()).unwrap_or(at);
            let numbers: Vec<usize> = series.iter().enumerate().map(number).collect();
            let names = series.iter().map(|one| one.name.clone());
            let legend = numbers.iter().map(|&number| Swatch::Line(number)).zip(names).collect();
            let chart = Chart {
                title,
                meaning,
                x_name: "latency".to_owned(),
                x_unit: Unit::S,
                x_scale: Scale::Log,
                y_name: "share of operations no longer".to_owned(),
                y_unit: Unit::Share,
                y_scale: Scale::Linear,
                series,
            };
            let svg = numbered_chart(&chart, &numbers);
            all.push(Shown { svg, title: chart.title, meaning: chart.meaning, legend });
        }
    }
    all
}

fn operations(report: &StudyReport) -> Vec<Shown> {
    type Rows = crate::study::analysis::OperationCorrelation;
    let same =
        |one: &Rows, other: &Rows| one.workload == other.workload && one.file_system == other.file_system;
    let chart = |rows: &[Rows]| {
        let row = |row: &Rows| Row {
            name: if row.found { format!("{} — found", row.operation) } else { row.operation.clone() },
            bars: vec![Bar {
                series: if row.found { 0 } else { 5 },
                value: Some(row.coefficient),
                interval: row.ci95,
                figure: format::number_short(row.coefficient),
            }],
        };
        let title = format!("{} under {}", rows[0].file_system, rows[0].workload);
        let chart = RowChart {
            title: format!("Correlation of the range of latency with that of throughput, {title}"),
            unit: Unit::Times,
            ends: [-1.0, 1.0],
            mark: Some(STRONG),
            rows: rows.iter().map(row).collect(),
        };
        Shown {
            title,
            meaning: format!(
                "correlation over {} configurations, with its 95 % interval, which reaches 0 unless it is found; dashed: strong, \
                 from {STRONG} on; found is what is surer than chance over the whole page",
                rows.iter().map(|row| row.configurations).max().unwrap_or(0)
            ),
            svg: row_chart(&chart),
            legend: found_or_not(),
        }
    };
    report.operation_correlations.chunk_by(same).map(chart).collect()
}
