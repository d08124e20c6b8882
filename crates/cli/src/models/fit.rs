//! A drive model that comes near what a probe found, as the file that `evenkeel drive` takes.
//!
//! Two parts of a preset are fitted, one after the other until both stay: what a small synchronous write takes, and what
//! the largest one takes. Nothing else can be told from a probe: reads, garbage and the past are the preset's.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use evenkeel_measure::probe::report::{ProbeReport, SCHEMA};
use evenkeel_measure::report::format;
use evenkeel_sim::model::disk::{Disk, DiskShape};
use evenkeel_sim::model::flash::Flash;
use evenkeel_sim::model::flash::shape::Shape;
use evenkeel_sim::model::presets;
use evenkeel_sim::model::{Model, Operation, Request, closed_loop};

use crate::failure::Failure;

/// As large as the fitted drives are made for the fit.
const SIZE_BYTES: u64 = 4 << 30;
/// What goes into one request, and how many are under way.
const REQUEST_BYTES: u64 = 1280 << 10;
const DEPTH: u64 = 32;
/// Writes of each size.
const WRITES: u64 = 12;
const ROUNDS: u32 = 3;
const HALVINGS: u32 = 24;
/// Sectors.
const SECTOR: u64 = 512;

/// A point of the probe: bytes of the buffer, and seconds of a write.
type Point = (u64, f64);

/// The model for a probe's document, as TOML.
pub(crate) fn fit(path: &Path) -> Result<String, Failure> {
    let about = |why: String| Failure::about(path, why);
    let text = fs::read_to_string(path).map_err(|error| Failure::about(path, error))?;
    let report: ProbeReport = serde_json::from_str(&text)
        .map_err(|error| about(format!("{error}; name a probe.json that `evenkeel probe` wrote")))?;
    if report.schema != SCHEMA {
        return Err(about(format!("it is {}, and not {SCHEMA}", report.schema.escape_debug())));
    }
    let usable = |&(bytes, seconds): &Point| {
        (SECTOR..=SIZE_BYTES / 64).contains(&bytes) && seconds > 0.0 && seconds < 10.0
    };
    let points: Vec<Point> = report
        .points
        .iter()
        .map(|point| (point.buffer_bytes.next_multiple_of(SECTOR), point.latency_s.mean))
        .filter(usable)
        .collect();
    let (Some(&small), Some(&large)) = (points.first(), points.last()) else {
        return Err(about("it has no points that a drive could be fitted to".to_owned()));
    };
    if small.0 * 4 > large.0 {
        return Err(about("it has too few sizes: probe from 4 KiB to 4 MiB, say".to_owned()));
    }
    Ok(match report.stack.rotational {
        Some(true) => disk(small, large, &points),
        _ => flash(small, large, &points),
    })
}

/// The value from `low` to `high` at which what grows with it is nearest to `wanted`, by halving between logarithms.
fn solve(low: f64, high: f64, wanted: f64, grows: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (low, high);
    for _ in 0..HALVINGS {
        let middle = f64::sqrt(low * high);
        match grows(middle) < wanted {
            true => low = middle,
            false => high = middle,
        }
    }
    f64::sqrt(low * high)
}

/// What a synchronous write takes in seconds, the mean of some that follow each other.
fn latency_s(model: &mut impl Model, bytes: u64) -> f64 {
    let mut now_ns = 0;
    for write in 0..WRITES {
        let start = write * bytes;
        let requests = bytes.div_ceil(REQUEST_BYTES);
        let next = |number: u64| {
            let at = start + number * REQUEST_BYTES;
            Request::new(0, Operation::Write, at, REQUEST_BYTES.min(start + bytes - at))
        };
        now_ns += closed_loop::run(model, now_ns, DEPTH, requests, next).took_ns;
        let flush = |_| Request::new(0, Operation::Flush, 0, 0);
        now_ns += closed_loop::run(model, now_ns, 1, 1, flush).took_ns;
    }
    now_ns as f64 / 1e9 / WRITES as f64
}

fn flash(small: Point, large: Point, points: &[Point]) -> String {
    const BASE: &str = "sata-2011";
    let base = presets::find(BASE).expect("a preset of that name").parts();
    let mut shape = Shape { command_ns: 1000, write_command_ns: 1000, latency_ns: 1000, ..base };
    let of = |shape: &Shape, bytes| {
        let sized = presets::sized(shape.clone(), SIZE_BYTES).expect("parts of a drive");
        latency_s(&mut Flash::new(sized), bytes)
    };
    for _ in 0..ROUNDS {
        let program =
            solve(1e2, 1e9, small.1, |ns| of(&Shape { program_ns: ns as u64, ..shape.clone() }, small.0));
        shape.program_ns = program as u64;
        // Dies enough for the link to be what bounds large writes.
        let wanted = 4.0 * large.0 as f64 / large.1;
        let a_unit = f64::from(shape.planes * shape.page_bytes) * 1e9 / program.max(1.0);
        let chips = wanted / a_unit / f64::from(shape.channels * shape.dies);
        shape.chips = (chips.ceil() as u32).clamp(4, 64);
        shape.channel_bytes_per_s = (wanted as u64).clamp(100_000_000, 1_000_000_000_000);
        let rate = solve(1e4, 1e11, -large.1, |rate| {
            -of(&Shape { link_bytes_per_s: rate as u64, ..shape.clone() }, large.0)
        });
        shape.link_bytes_per_s = rate as u64;
    }
    let mut text = head(BASE, points, |bytes| of(&shape, bytes));
    let lines = [
        format!("program_us = {:.3}", shape.program_ns as f64 / 1e3),
        format!("link_mb_per_s = {:.3}", shape.link_bytes_per_s as f64 / 1e6),
        format!("channel_mb_per_s = {:.3}", shape.channel_bytes_per_s as f64 / 1e6),
        format!("chips = {}", shape.chips),
        "command_us = 1.0\nwrite_command_us = 1.0\nlatency_us = 1.0".to_owned(),
    ];
    lines.iter().for_each(|line| text += &format!("{line}\n"));
    text
}

fn disk(small: Point, large: Point, points: &[Point]) -> String {
    const BASE: &str = "sata-7200";
    let base = presets::find_disk(BASE).expect("a preset of that name").parts();
    let mut shape = base;
    let of = |shape: &DiskShape, bytes| {
        let sized = presets::sized_disk(shape.clone(), SIZE_BYTES).expect("parts of a disk");
        latency_s(&mut Disk::new(sized), bytes)
    };
    let track = |bytes: f64| {
        let outer = (bytes as u64 / SECTOR * SECTOR).clamp(8192, 1 << 29);
        [outer, outer / 2 / SECTOR * SECTOR]
    };
    for _ in 0..ROUNDS {
        let period = solve(6e-4, 0.6, small.1, |period| {
            of(&DiskShape { rpm: (60.0 / period) as u32, ..shape.clone() }, small.0)
        });
        shape.rpm = ((60.0 / period) as u32).clamp(100, 100_000);
        let outer = solve(8192.0, 5e8, -large.1, |bytes| {
            -of(&DiskShape { track_bytes: track(bytes), ..shape.clone() }, large.0)
        });
        shape.track_bytes = track(outer);
    }
    let mut text = head(BASE, points, |bytes| of(&shape, bytes));
    let _ = writeln!(text, "rpm = {}", shape.rpm);
    for (name, bytes) in ["outer_track_kib", "inner_track_kib"].into_iter().zip(shape.track_bytes) {
        let _ = writeln!(text, "{name} = {:?}", bytes as f64 / 1024.0);
    }
    text
}

/// What the file begins with: how near it comes.
fn head(base: &str, points: &[Point], model_s: impl Fn(u64) -> f64) -> String {
    let mut text = String::from(
        "# Fitted to synchronous writes of a probe. All that a probe does not show is the preset's.\n",
    );
    let _ = writeln!(text, "# {:>10}  {:>10}  {:>10}", "buffer", "probe", "model");
    for &(bytes, seconds) in points {
        let (probe, model) = (format::seconds(seconds), format::seconds(model_s(bytes)));
        let _ = writeln!(text, "# {:>10}  {probe:>10}  {model:>10}", format::bytes(bytes));
    }
    let _ = writeln!(text, "based_on = \"{base}\"");
    text
}

#[cfg(test)]
mod tests {
    use evenkeel_sim::model::presets::Parts;

    use super::*;

    /// What the two ends of a fit miss, as shares.
    fn misses(fitted: &str, points: &[Point]) -> Vec<f64> {
        let file = tempfile::Builder::new().suffix(".toml").tempfile_in(".").unwrap();
        fs::write(file.path(), fitted).unwrap();
        let model_s = |bytes| match super::super::user::read(file.path()).unwrap().parts {
            Parts::Flash(shape) => {
                latency_s(&mut Flash::new(presets::sized(shape, SIZE_BYTES).unwrap()), bytes)
            }
            Parts::Disk(shape) => {
                latency_s(&mut Disk::new(presets::sized_disk(shape, SIZE_BYTES).unwrap()), bytes)
            }
        };
        points.iter().map(|&(bytes, seconds)| (model_s(bytes) / seconds - 1.0).abs()).collect()
    }

    #[test]
    fn a_fitted_drive_writes_as_the_probe_found_at_both_ends() {
        let ends = [(4096, 0.0013), (4 << 20, 0.021)];
        let fitted = flash(ends[0], ends[1], &ends);
        assert!(misses(&fitted, &ends).into_iter().all(|miss| miss < 0.05), "{fitted}");
        let ends = [(4096, 0.0112), (16 << 20, 0.16)];
        let fitted = disk(ends[0], ends[1], &ends);
        assert!(misses(&fitted, &ends).into_iter().all(|miss| miss < 0.1), "{fitted}");
    }
}
