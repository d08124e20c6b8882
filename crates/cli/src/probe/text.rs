//! A probe's report as text for a terminal.

use evenkeel_host::stack::Stack;
use evenkeel_measure::probe::curve;
use evenkeel_measure::probe::report::{Batching, Matrix, Point, ProbeReport, Rule, Warning, WarningCode};
use evenkeel_measure::report::format;

use crate::table;

/// What is measured, in one line.
pub(crate) fn stack_line(stack: &Stack) -> String {
    let model = stack.device_model.as_ref().map_or(String::new(), |model| format!(" ({model})"));
    let cache = stack.write_cache.as_ref().map_or(String::new(), |cache| format!(", cache {cache}"));
    format!("{}: {} on {}{model}{cache}, Linux {}", stack.path, stack.file_system, stack.device, stack.kernel)
}

/// Everything that the terminal shows of a report, without the recommendation that failed its goals.
pub(crate) fn report_text(report: &ProbeReport, wide: bool) -> String {
    let mut text = String::new();
    let (first, others): (Vec<&Warning>, Vec<&Warning>) =
        report.warnings.iter().partition(|warning| warning.code == WarningCode::MostlyDisturbed);
    for warning in first {
        text += &format!("Warning: {}.\n\n", warning.message);
    }
    match &report.matrix {
        Some(matrix) => text += &matrix_text(matrix),
        None => {
            text += &format!("{} over a file that is {}\n\n", report.method, report.file_state);
            text += &points_table(&report.points, wide);
        }
    }
    let sentences = curve::sentences(report);
    if !sentences.is_empty() {
        text += &format!("\n{}\n", sentences.join("\n"));
    }
    if !others.is_empty() {
        text.push('\n');
    }
    for warning in others {
        text += &format!("Warning: {}.\n", warning.message);
    }
    if let Some(matrix) = &report.matrix {
        text.push('\n');
        for sentence in &matrix.advice {
            text += &format!("{}\n", format::sentence(sentence));
        }
    }
    if let Some(recommendation) =
        report.recommendation.as_ref().filter(|chosen| chosen.buffer_bytes.is_some())
    {
        let reason = match report.matrix {
            Some(_) => format!(
                "with {} over a file that is {}: {}",
                report.method, report.file_state, recommendation.reason
            ),
            None => recommendation.reason.clone(),
        };
        text += &format!("\n{}\n", format::sentence(&reason));
        if recommendation.rule == Rule::BestRatio {
            text += if report.model.is_some() {
                "On a line l + x/B the best ratio is half of the top throughput at twice the least latency; a goal of \
                 your own (--min-throughput, --max-latency) serves better.\n"
            } else {
                "A goal of your own (--min-throughput, --max-latency) serves better.\n"
            };
        }
    }
    if let Some(like) = &report.like {
        text += &format!("\n{}\nFrom: {}.\n", format::sentence(&like.sentence()), like.source);
    }
    if let Some(batching) = &report.batching {
        text += &format!("{}\n", batching_lines(batching));
    }
    text
}

fn points_table(points: &[Point], wide: bool) -> String {
    let rows: Vec<_> = points.iter().map(point_row).collect();
    if !wide {
        // What fits 80 columns.
        let narrow = |row: &[String; 15]| [0, 1, 2, 3, 4, 7, 9, 14].map(|column| row[column].clone());
        let rows: Vec<_> = rows.iter().map(narrow).collect();
        let header = ["buffer", "throughput", "95 %", "writes/s", "latency", "p99", "max", "runs"];
        return table::lay_out(header, &rows);
    }
    let header = [
        "buffer",
        "throughput",
        "95 %",
        "writes/s",
        "latency",
        "95 %",
        "p50",
        "p99",
        "p99.9",
        "max",
        "ratio MB/s/ms",
        "flushes",
        "amplified",
        "writes",
        "runs",
    ];
    table::lay_out(header, &rows)
}

fn point_row(point: &Point) -> [String; 15] {
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let time = |value: Option<f64>| or_dash(value.map(format::seconds));
    let half_width = |ci95: Option<[f64; 2]>, mean: f64| {
        or_dash(ci95.map(|[low, high]| format!("+-{}", format::percent((high - low) / 2.0 / mean))))
    };
    let throughput = &point.throughput_bytes_per_s;
    let latency = &point.latency_s;
    [
        format::bytes(point.buffer_bytes),
        format::rate(throughput.mean),
        half_width(throughput.ci95, throughput.mean),
        format::number(point.writes_per_s()),
        format::seconds(latency.mean),
        half_width(latency.ci95, latency.mean),
        time(latency.p50),
        time(latency.p99),
        time(latency.p999),
        format::seconds(latency.max),
        format::number(point.ratio * 1e-9),
        or_dash(point.device_flushes_per_op.map(format::number)),
        or_dash(point.device_bytes_per_user_byte.map(|bytes| format!("{bytes:.2}x"))),
        format::count(point.writes),
        point.runs.to_string(),
    ]
}

fn matrix_text(matrix: &Matrix) -> String {
    let header = ["method", "file", "buffer", "latency", "p99", "writes/s", "throughput"];
    let mut rows = Vec::new();
    for cell in &matrix.cells {
        for point in &cell.points {
            let [buffer, throughput, _, writes, latency, _, _, p99, ..] = point_row(point);
            let (method, state) = (cell.method.to_string(), cell.file_state.to_string());
            rows.push([method, state, buffer, latency, p99, writes, throughput]);
        }
    }
    let mut text = format!("\n{}", table::lay_out(header, &rows));
    for skip in &matrix.skipped {
        text += &format!("Skipped {} over {}: {}.\n", skip.method, skip.file_state, skip.reason);
    }
    text
}

fn batching_lines(batching: &Batching) -> String {
    let mut text = format!(
        "One buffer carries {} of {}",
        format::counted(batching.records_per_batch, "record"),
        format::bytes(batching.record_bytes)
    );
    if let (Some(rate), Some(fill_s), Some(durable_s), Some(utilisation)) =
        (batching.arrival_rate_per_s, batching.fill_time_s, batching.mean_durable_s, batching.utilisation)
    {
        text.push_str(&format!(
            "; at {} records/s it fills in {}, a record is durable {} after it arrives on average, and {} of the \
             throughput is used",
            format::number(rate),
            format::seconds(fill_s),
            format::seconds(durable_s),
            format::percent(utilisation)
        ));
        if utilisation >= 1.0 {
            text.push_str(": more than this stack can take, so the queue would grow without bound");
        }
    }
    if let Some(durable_s) = batching.group_commit_durable_s {
        text.push_str(&format!(
            ". Without waiting for it to fill (what arrives during a write joins the next), a record is durable {} after \
             it arrives",
            format::seconds(durable_s)
        ));
    }
    text + "."
}
