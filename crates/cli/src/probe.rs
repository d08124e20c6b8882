//! `evenkeel probe`.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_host::durable_file::{is_block_device, size_bytes};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::{FileState, Method};
use evenkeel_host::stack::{Stack, StackProbe};
use evenkeel_measure::probe::report::{Batching, Matrix, Phases, Point, ProbeReport};
use evenkeel_measure::probe::settings::{
    Combination, DEFAULT_RUNS, DEFAULT_SIZES, Goals, LatencyBound, Records, Settings,
};
use evenkeel_measure::probe::{self, HostTarget, Place};
use evenkeel_measure::report::{csv, format, html};

use crate::args::{PercentileArg, ProbeArgs};
use crate::failure::Failure;
use crate::outputs::Outputs;
use crate::progress::ProbeProgress;
use crate::table;

/// Time for everything where somebody watches.
const TERMINAL_TIME_S: f64 = 120.0;

/// Time for everything with `--quick`: "under 20 seconds" with room for the last run and the report.
const QUICK_TIME_S: f64 = 14.0;

/// Runs where there is little time or much to measure.
const FEWER_RUNS: u32 = 10;

/// Measures, writes the results, prints them.
pub(crate) fn run(args: &ProbeArgs) -> Result<(), Failure> {
    let place = choose_place(args)?;
    let settings = settings(args, &place)?;
    if args.dry_run {
        return dry_run(&place, &settings);
    }
    let outputs = Outputs::choose("probe", args.out.as_deref(), args.force)?;
    let interrupt = Interrupt::on_signals()
        .map_err(|error| Failure::Unusable(format!("cannot listen for Ctrl-C: {error}")))?;
    refuse_read_only(&place)?;
    let mut target = HostTarget::new(place, &settings, interrupt.clone())?;
    let stack = target.stack().stack.clone();
    println!("{}", stack_line(&stack));
    let report = {
        let mut progress = ProbeProgress::new();
        probe::run(&settings, &mut target, stack, &interrupt, &mut progress)
    };
    drop(target);
    let report = report?;
    let written = write_results(&outputs, &report)?;
    print_report(&report);
    println!(
        "\nWrote {}.",
        written.map(|path| path.display().to_string()).join(", ")
    );
    match &report.recommendation {
        Some(recommendation) if recommendation.buffer_bytes.is_none() => {
            Err(Failure::No(recommendation.reason.clone()))
        }
        _ => Ok(()),
    }
}

fn choose_place(args: &ProbeArgs) -> Result<Place, Failure> {
    let path = &args.path;
    let found = match path.metadata() {
        Ok(found) => Some(found),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Failure::about(path, error)),
    };
    let overwrites = found.as_ref().is_some_and(|found| !found.is_dir());
    if let Some(destroy) = &args.destroy {
        if !overwrites {
            let what = "--destroy is for a block device or a file that exists; leave it out";
            return Err(Failure::about(path, what));
        }
        if destroy != path {
            let what = format!(
                "--destroy names {} instead; repeat the same name",
                destroy.display()
            );
            return Err(Failure::about(path, what));
        }
    }
    match found {
        Some(found) if found.is_dir() => Ok(Place::Folder(path.clone())),
        Some(found) if !found.is_file() && !is_block_device(path) => Err(Failure::about(
            path,
            "neither a folder, nor a file, nor a block device",
        )),
        Some(_) if args.destroy.is_none() => Err(Failure::about(
            path,
            format!(
                "it exists and would be overwritten; to lose what it holds, add --destroy {}",
                path.display()
            ),
        )),
        Some(_) => Ok(Place::Existing(path.clone())),
        None => match Place::NewFile(path.clone()).existing().is_dir() {
            true => Ok(Place::NewFile(path.clone())),
            false => Err(Failure::about(
                path,
                "there is no such folder; name a folder or a file in one",
            )),
        },
    }
}

fn settings(args: &ProbeArgs, place: &Place) -> Result<Settings, Failure> {
    let in_place = matches!(place, Place::Existing(_));
    let states = match args.file_state.map(FileState::from) {
        Some(state) if in_place && state != FileState::Written => {
            let what = format!("what exists is overwritten, so --file-state {state} cannot be had of it");
            return Err(Failure::about(&args.path, what));
        }
        Some(state) => vec![state],
        None if in_place => vec![FileState::Written],
        None if args.matrix => FileState::ALL.to_vec(),
        None => vec![FileState::Fresh],
    };
    let methods = if args.matrix {
        Method::ALL.to_vec()
    } else {
        vec![args.method.into()]
    };
    let combinations = states
        .iter()
        .flat_map(|&file_state| {
            methods
                .iter()
                .map(move |&method| Combination { method, file_state })
        })
        .collect();
    let default_sizes = || match args.matrix {
        true => vec![4 << 10, 64 << 10, 1 << 20],
        false => DEFAULT_SIZES.map(|power| 1 << power).collect(),
    };
    let watched = std::io::stderr().is_terminal() || std::io::stdout().is_terminal();
    let default_time_s = match (args.quick, watched) {
        (true, _) => Some(QUICK_TIME_S),
        (false, true) => Some(TERMINAL_TIME_S),
        (false, false) => None,
    };
    let few_runs = args.quick || args.matrix;
    Ok(Settings {
        buffer_sizes: args.sizes.clone().map_or_else(default_sizes, |sizes| sizes.0),
        combinations,
        runs: args
            .runs
            .unwrap_or(if few_runs { FEWER_RUNS } else { DEFAULT_RUNS }),
        writers: args.writers,
        time_budget_s: args.time.or(default_time_s),
        precision: args.precision,
        seed: args.seed.unwrap_or_else(clock_seed),
        quick: args.quick,
        goals: Goals {
            min_throughput_bytes_per_s: args.min_throughput,
            max_latency_s: args.max_latency,
            bound: match args.percentile {
                PercentileArg::Mean => LatencyBound::Mean,
                PercentileArg::P50 => LatencyBound::P50,
                PercentileArg::P99 => LatencyBound::P99,
                PercentileArg::P999 => LatencyBound::P999,
            },
        },
        records: args.record_size.map(|record_bytes| Records {
            record_bytes,
            arrival_rate_per_s: args.arrival_rate,
        }),
    })
}

fn clock_seed() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |passed| u64::from(passed.subsec_nanos()))
}

fn refuse_read_only(place: &Place) -> Result<(), Failure> {
    let path = place.existing();
    let stack = StackProbe::of(path).map_err(|error| Failure::about(path, error))?;
    if stack.read_only {
        let what = "the file system is mounted read-only; choose another, or remount it writable";
        return Err(Failure::about(path, what));
    }
    Ok(())
}

fn dry_run(place: &Place, settings: &Settings) -> Result<(), Failure> {
    let path = place.existing();
    let stack = StackProbe::of(path).map_err(|error| Failure::about(path, error))?;
    let longest = settings.run_bytes_max();
    let all_writers = longest.saturating_mul(u64::from(settings.writers));
    println!("{}", stack_line(&stack.stack));
    println!(
        "Would measure {} sizes from {} to {}, {} runs each, with {} writers.",
        settings.buffer_sizes.len() * settings.combinations.len(),
        format::bytes(settings.buffer_sizes.first().copied().unwrap_or(0)),
        format::bytes(settings.buffer_sizes.last().copied().unwrap_or(0)),
        settings.runs,
        settings.writers
    );
    match place {
        Place::Existing(path) => {
            let size = size_bytes(path).map_err(|error| Failure::about(path, error))?;
            println!(
                "Would overwrite the first {} of {}, which is {} large. What is there is lost.",
                format::bytes(all_writers.min(size)),
                path.display(),
                format::bytes(size)
            );
        }
        Place::Folder(_) | Place::NewFile(_) => println!(
            "Would write files of up to {} in all in {}, and remove them again.",
            format::bytes(all_writers),
            path.display()
        ),
    }
    println!("Nothing was written.");
    Ok(())
}

fn write_results(outputs: &Outputs, report: &ProbeReport) -> Result<[PathBuf; 3], Failure> {
    let unwritable =
        |error: &dyn std::fmt::Display| Failure::Unusable(format!("cannot write the report: {error}"));
    let json = serde_json::to_string_pretty(report).map_err(|error| unwritable(&error))?;
    let csv = csv::probe_csv(report).map_err(|error| unwritable(&error))?;
    outputs.write(&(json + "\n"), &csv, &html::probe_page(report))
}

fn stack_line(stack: &Stack) -> String {
    let model = stack
        .device_model
        .as_ref()
        .map_or(String::new(), |model| format!(" ({model})"));
    let cache = stack
        .write_cache
        .as_ref()
        .map_or(String::new(), |cache| format!(", cache {cache}"));
    format!(
        "{}: {} on {}{model}{cache}, Linux {}",
        stack.path, stack.file_system, stack.device, stack.kernel
    )
}

fn print_report(report: &ProbeReport) {
    match &report.matrix {
        Some(matrix) => print_matrix(matrix),
        None => {
            println!("{} over a file that is {}\n", report.method, report.file_state);
            print!("{}", points_table(&report.points));
        }
    }
    if let Some(model) = &report.model {
        println!(
            "\nModel: a write costs {} plus its bytes at {} (r2 {:.3}); the ratio peaks at {}.",
            format::seconds(model.fixed_latency_s),
            format::rate(model.bandwidth_bytes_per_s),
            model.r2,
            format::bytes_f64(model.optimum_bytes)
        );
    }
    if let Some(line) = report.phases.as_ref().and_then(phases_line) {
        println!("{line}");
    }
    if !report.warnings.is_empty() {
        println!();
    }
    for warning in &report.warnings {
        println!("Warning: {}.", warning.message);
    }
    if let Some(matrix) = &report.matrix {
        println!();
        for sentence in &matrix.advice {
            println!("{sentence}.");
        }
    }
    if let Some(recommendation) = &report.recommendation
        && recommendation.buffer_bytes.is_some()
        && report.matrix.is_none()
    {
        println!("\n{}.", sentence(&recommendation.reason));
    }
    if let Some(batching) = &report.batching {
        println!("{}", batching_lines(batching));
    }
}

fn phases_line(phases: &Phases) -> Option<String> {
    let constant_latency = phases
        .constant_latency
        .map(|range| format!("latency is constant up to {}", format::bytes_f64(range.to_bytes)));
    let constant_throughput = phases.constant_throughput.map(|range| {
        format!(
            "throughput is constant from {} on",
            format::bytes_f64(range.from_bytes)
        )
    });
    let parts: Vec<String> = [constant_latency, constant_throughput]
        .into_iter()
        .flatten()
        .collect();
    (!parts.is_empty()).then(|| format!("Phases: {}.", parts.join("; ")))
}

fn sentence(reason: &str) -> String {
    let mut letters = reason.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}

fn points_table(points: &[Point]) -> String {
    let header = [
        "buffer",
        "throughput",
        "95 %",
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
    let rows: Vec<_> = points.iter().map(point_row).collect();
    table::lay_out(header, &rows)
}

fn point_row(point: &Point) -> [String; 14] {
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
        format::seconds(latency.mean),
        half_width(latency.ci95, latency.mean),
        time(latency.p50),
        time(latency.p99),
        time(latency.p999),
        format::seconds(latency.max),
        format::number(point.ratio * 1e-9),
        or_dash(point.device_flushes_per_op.map(format::number)),
        or_dash(
            point
                .device_bytes_per_user_byte
                .map(|bytes| format!("{bytes:.2}x")),
        ),
        format::count(point.writes),
        point.runs.to_string(),
    ]
}

fn print_matrix(matrix: &Matrix) {
    let header = [
        "method",
        "file",
        "buffer",
        "latency",
        "p99",
        "throughput",
        "flushes",
        "amplified",
    ];
    let mut rows = Vec::new();
    for cell in &matrix.cells {
        for point in &cell.points {
            let [
                buffer,
                throughput,
                _,
                latency,
                _,
                _,
                p99,
                _,
                _,
                _,
                flushes,
                amplified,
                ..,
            ] = point_row(point);
            let (method, state) = (cell.method.to_string(), cell.file_state.to_string());
            rows.push([
                method, state, buffer, latency, p99, throughput, flushes, amplified,
            ]);
        }
    }
    println!();
    print!("{}", table::lay_out(header, &rows));
    for skip in &matrix.skipped {
        println!(
            "Skipped {} over {}: {}.",
            skip.method, skip.file_state, skip.reason
        );
    }
}

fn batching_lines(batching: &Batching) -> String {
    let mut text = format!(
        "One buffer carries {} records of {}",
        format::count(batching.records_per_batch),
        format::bytes(batching.record_bytes)
    );
    if let (Some(rate), Some(fill_s), Some(durable_s), Some(utilisation)) = (
        batching.arrival_rate_per_s,
        batching.fill_time_s,
        batching.mean_durable_s,
        batching.utilisation,
    ) {
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
    if let Some(records) = batching.group_commit_records {
        text.push_str(&format!(
            ". Without waiting for it to fill (what arrives during a write joins the next), a batch would carry {} \
             records on average",
            format::number(records)
        ));
    }
    text + "."
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_becomes_a_sentence() {
        assert_eq!(sentence("write 4 KiB"), "Write 4 KiB");
        assert_eq!(sentence(""), "");
    }
}
