//! `evenkeel probe PATH --soak TIME`: one size for hours.

use evenkeel_host::conditions::Machine;
use evenkeel_measure::probe::page::soak_page;
use evenkeel_measure::probe::settings::Settings;
use evenkeel_measure::probe::soak::{SoakReport, Stall, soak};
use evenkeel_measure::probe::{HostTarget, Place, soak_window_bytes};
use evenkeel_measure::report::format;

use super::text::stack_line;
use super::{command_line, leftovers, listen, refuse_read_only};
use crate::args::ProbeArgs;
use crate::failure::Failure;
use crate::outputs::Outputs;
use crate::progress::ProbeProgress;
use crate::stdout::tell;

/// Stalls that the terminal shows: the longest.
const STALLS_SHOWN: usize = 10;

/// The settings of a soak: of one size, 4 KiB unless told otherwise, in windows that fit the place.
pub(super) fn settings(args: &ProbeArgs, place: &Place, settings: Settings) -> Result<Settings, Failure> {
    let buffer_sizes = match (&args.sizes, args.like) {
        (Some(sizes), _) if sizes.0.len() > 1 => {
            return Err(Failure::Unusable("--soak writes one size; name one with --sizes".to_owned()));
        }
        (None, None) => vec![4096],
        _ => settings.buffer_sizes,
    };
    let window_max_bytes = Some(soak_window_bytes(place, settings.writers)?);
    Ok(Settings { buffer_sizes, window_max_bytes, ..settings })
}

/// Measures, writes soak.json, soak.csv and soak.html, prints what stalled.
pub(super) fn run(args: &ProbeArgs, place: Place, settings: &Settings, time_s: f64) -> Result<(), Failure> {
    let outputs = Outputs::choose("soak", args.out.as_deref(), args.force)?;
    let interrupt = listen()?;
    refuse_read_only(&place)?;
    leftovers::clear(&place, false)?;
    let mut target = HostTarget::new(place, settings, interrupt.clone())?;
    let stack = target.stack().stack.clone();
    tell(&format!("{}\n", stack_line(&stack)))?;
    let report = {
        let mut progress = ProbeProgress::new();
        soak(settings, &mut target, stack, time_s, &interrupt, &mut progress)
    };
    drop(target);
    let report = SoakReport { host: Some(Machine::this().name), command: Some(command_line()), ..report? };
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::Unusable(format!("cannot write the results: {error}"));
    let json = serde_json::to_string(&report).map_err(|error| unwritable(&error))?;
    let csv = report.windows_csv().map_err(|error| unwritable(&error))?;
    let written = outputs.write(&(json + "\n"), &csv, &soak_page(&report))?;
    let names = written.map(|path| path.display().to_string()).join(", ");
    tell(&format!("{}\nWrote {names}.\n", text(&report)))?;
    match report.failure {
        None => Ok(()),
        Some(failure) => Err(Failure::Unusable(format!(
            "{failure}; it ended {} early, and what was measured until then is kept",
            format::duration((time_s - report.duration_s).max(0.0))
        ))),
    }
}

fn text(report: &SoakReport) -> String {
    let or_dash = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), format::seconds);
    let mut text = format!(
        "{} writes of {} in {}: p50 {}, p99 {}, p99.9 {}, p99.99 {}, max {}.\n{} took 10 times the median or more, {} 100 \
         times.\n",
        format::count(report.writes),
        format::bytes(report.buffer_bytes),
        format::duration(report.duration_s),
        format::seconds(report.p50_s),
        or_dash(report.p99_s),
        or_dash(report.p999_s),
        or_dash(report.p9999_s),
        format::seconds(report.max_s),
        format::count(report.stalls_10x),
        format::count(report.stalls_100x),
    );
    let tenths: Vec<String> = report
        .throughput_by_tenth_bytes_per_s
        .iter()
        .map(|rate| rate.map_or_else(|| "-".to_owned(), |rate| format::number(rate * 1e-6)))
        .collect();
    text += &format!("Throughput by tenths of the time, MB/s: {}.\n", tenths.join(" "));
    if let Some(fall) = &report.fall {
        text += &format!("{}\n", format::sentence(&fall.sentence()));
    }
    let mut longest: Vec<&Stall> = report.stalls.iter().collect();
    longest.sort_by(|a, b| b.latency_s.total_cmp(&a.latency_s));
    longest.truncate(STALLS_SHOWN);
    if !longest.is_empty() {
        text += "The longest:\n";
    }
    for stall in longest {
        text += &format!(
            "  {} after {}: {}\n",
            format::seconds(stall.latency_s),
            format::duration(stall.started_s),
            stall.meanwhile.as_deref().unwrap_or("nothing was seen of others")
        );
    }
    text
}
