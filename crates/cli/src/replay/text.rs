//! A replay's report as text for a terminal.

use evenkeel_measure::replay::Writes;
use evenkeel_measure::replay::report::{KindFacts, ReplayReport, TargetFacts, TraceFacts};
use evenkeel_measure::report::format;
use evenkeel_trace::placement::Fit;

use crate::table;

/// Devices that a line has room for.
const DEVICES_SHOWN: usize = 8;

/// What stands where there are too few samples for a figure.
const TOO_FEW: &str = "-";

/// What is replayed, in a line or two.
pub(super) fn trace_text(trace: &TraceFacts) -> String {
    let share = |part: u64| format::percent(part as f64 / trace.requests.max(1) as f64);
    let flushes = if trace.flushes > 0 {
        format!(", {}", format::counted(trace.flushes, "flush request"))
    } else {
        String::new()
    };
    let mut text = format!(
        "{}: {}, {} in {}\n  {} reads of {}, {} writes of {}{flushes}\n",
        trace.path,
        trace.format,
        format::counted(trace.requests, "request"),
        format::duration(trace.duration_s),
        share(trace.reads),
        format::bytes_f64(trace.read_bytes as f64),
        share(trace.writes),
        format::bytes_f64(trace.written_bytes as f64),
    );
    let names = &trace.devices;
    let more = if names.len() > DEVICES_SHOWN { ", ..." } else { "" };
    let shown: Vec<&str> = names.iter().take(DEVICES_SHOWN).map(String::as_str).collect();
    let word = if names.len() == 1 { "device" } else { "devices" };
    let left_out = match trace.devices_left_out {
        0 => String::new(),
        many => format!(", {} left out", format::counted(many, "other")),
    };
    text += &format!(
        "  {word} {}{more}{left_out}; reaches {}\n",
        shown.join(", "),
        format::bytes_f64(trace.reach_bytes as f64)
    );
    if trace.skipped > 0 {
        text += &format!("  {} without bytes skipped\n", format::counted(trace.skipped, "record"));
    }
    text
}

/// Onto what, in a line.
pub(super) fn target_text(target: &TargetFacts) -> String {
    let size = format::bytes_f64(target.size_bytes as f64);
    let time = if target.kind == "model" { ", in virtual time" } else { "" };
    format!("onto {}: {}, {size}{time}\n", target.place, target.kind)
}

/// What was measured.
pub(super) fn report_text(report: &ReplayReport) -> String {
    let settings = &report.settings;
    let pace = match (settings.speed, settings.depth) {
        (Some(1.0), _) => "as recorded".to_owned(),
        (Some(speed), _) => format!("{} times as fast as recorded", format::number(speed)),
        (None, depth) => format!("as fast as possible, {} under way", depth.unwrap_or(1)),
    };
    let writes = match settings.writes {
        Writes::Durable => "durable",
        Writes::Buffered => "buffered",
    };
    let mut text = format!(
        "{pace}, {writes} writes, seed {}: {} of {} in {}\n\n",
        settings.seed,
        format::count(report.sent - report.failed),
        format::counted(report.trace.requests, "request"),
        format::duration(report.elapsed_s)
    );
    text += &kinds_table(report);
    text += "\n";
    if settings.speed.is_some() {
        text += "Latency counts from when each request was due; service, from when it was sent.\n";
    }
    // Virtual time is exact.
    if let (Some(max @ 1e-12..), Some(mean)) = (report.lateness_s.max, report.lateness_s.mean) {
        let median = report
            .lateness_s
            .p50
            .map_or(String::new(), |p50| format!(", half of them within {}", format::seconds(p50)));
        let mean = format::seconds(mean);
        text += &format!(
            "Requests were sent {mean} late on average{median}, {} at most.\n",
            format::seconds(max)
        );
    }
    if let Some(line) = worst_window(report) {
        text += &line;
    }
    text + &remarks(report)
}

fn kinds_table(report: &ReplayReport) -> String {
    let cell = |time: Option<f64>| time.map_or(TOO_FEW.to_owned(), format::seconds);
    let row = |name: &str, kind: &KindFacts| {
        let latency = &kind.latency_s;
        [
            name.to_owned(),
            format::count(kind.requests),
            format::bytes_f64(kind.bytes as f64),
            kind.throughput_bytes_per_s.map_or(TOO_FEW.to_owned(), format::rate),
            cell(latency.mean),
            cell(latency.p50),
            cell(latency.p90),
            cell(latency.p99),
            cell(latency.p999),
            cell(latency.max),
            cell(kind.service_s.p50),
            cell(kind.service_s.p99),
        ]
    };
    let kinds = [("reads", &report.reads), ("writes", &report.writes), ("flushes", &report.flushes)];
    let rows: Vec<_> =
        kinds.iter().filter(|(_, kind)| kind.requests > 0).map(|(name, kind)| row(name, kind)).collect();
    let header = [
        "",
        "requests",
        "bytes",
        "throughput",
        "latency",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "service p50",
        "p99",
    ];
    table::lay_out(header, &rows)
}

/// When it was slowest, where there was more than one window to compare.
fn worst_window(report: &ReplayReport) -> Option<String> {
    let windows = &report.windows;
    let worst = windows
        .list
        .iter()
        .max_by(|one, other| one.latency_max_s.unwrap_or(0.0).total_cmp(&other.latency_max_s.unwrap_or(0.0)));
    let worst = worst.filter(|_| windows.list.len() > 1)?;
    let (mean, max) = worst.latency_mean_s.zip(worst.latency_max_s)?;
    Some(format!(
        "Slowest from {} on: {} on average in {}, {} at most.\n",
        format::duration(worst.start_s),
        format::seconds(mean),
        format::duration(windows.length_s),
        format::seconds(max)
    ))
}

/// What a reader must know before trusting the figures.
fn remarks(report: &ReplayReport) -> String {
    let mut text = String::new();
    let mut remark = |many: u64, what: &str, why: &str| {
        if many > 0 {
            text += &format!("{} {why}.\n", format::counted(many, what));
        }
    };
    let fit = match report.settings.fit {
        Fit::Wrap => "wrapped at the target's end",
        Fit::Scale => "drawn together with the rest of the trace",
        Fit::Refuse => "moved",
    };
    remark(report.moved, "request", fit);
    let granule = format::bytes(u64::from(report.target.granule_bytes));
    remark(report.widened, "request", &format!("made larger: the target takes multiples of {granule}"));
    remark(report.retimed, "request", "sent with the one before: the trace has them too far out of order");
    remark(report.held_back, "request", "held back: too many others were under way");
    remark(report.failed, "request", "failed");
    text
}
