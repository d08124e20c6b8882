//! The probe: how a storage stack behaves under synchronous writes, and which buffer to use.
//!
//! ```text
//! settings ──► session ──────────► assemble ──► fit, recommend, batching, matrix, warnings ──► report
//!              pilot, budget,      runs become
//!              shuffled rounds,    points
//!              repeats
//!                 │
//!              target  (host_target: files and devices; timed_loop: the only timed code)
//! ```
//!
//! After W. B. Mingardi and G. M. D. Vieira, "Characterizing Synchronous Writes in Stable Memory Devices":
//! sequential synchronous writes of a new file, buffers doubling from 4 KiB to 16 MiB, 30 runs, each run one
//! data point.
//!
//! 1. Runs of all points are interleaved and shuffled, so that a drift of the machine does not become a trend
//!    over buffer sizes.
//! 2. A figure stands on what was measured; what was not is absent, and a warning says why.
//! 3. Only what the user named is written, and what the probe made is removed however it ends; after a kill -9 by the next
//!    one (`leftovers`).

mod apart;
mod assemble;
mod batching;
pub mod budget;
pub mod credits;
pub mod csv;
pub mod curve;
mod disturbance;
mod goals;
mod group_commit;
pub(crate) mod honest_disk;
mod host_target;
pub mod leftovers;
pub mod like;
mod matrix;
pub mod page;
mod recommend;
pub mod report;
#[cfg(test)]
pub(crate) mod sample;
mod session;
pub mod settings;
pub mod soak;
pub mod soak_window;
pub mod target;
pub mod timed_loop;
mod warnings;

use std::time::{SystemTime, UNIX_EPOCH};

use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::stack::Stack;

use report::{MatrixCell, Point, ProbeReport};
use session::Measured;
use settings::Settings;
use target::{Target, TargetError};

pub use apart::PAIRS_ERROR_RATE;
pub use host_target::{HostTarget, Place, check_room, soak_window_bytes};
pub use session::{Observer, Progress, Stage};

/// Measures `target` as `settings` say and draws the conclusions.
///
/// # Errors
///
/// Whatever stops the measuring: see [`TargetError`]. Nothing of the target's making is left behind once
/// `target` is dropped.
pub fn run<T: Target>(
    settings: &Settings,
    target: &mut T,
    stack: Stack,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<ProbeReport, TargetError> {
    let reports = run_together(settings, std::slice::from_mut(target), vec![stack], interrupt, observer)?;
    Ok(reports.into_iter().next().expect("a report for the one target"))
}

/// Measures several targets in alternating runs, so that what the machine does meets all of them alike; answers a
/// report for each, whose runs of one number at one size belong together.
///
/// # Errors
///
/// As [`run`].
///
/// # Panics
///
/// Unless there is a stack for each target.
pub fn run_together<T: Target>(
    settings: &Settings,
    targets: &mut [T],
    stacks: Vec<Stack>,
    interrupt: &Interrupt,
    observer: &mut dyn Observer,
) -> Result<Vec<ProbeReport>, TargetError> {
    assert_eq!(targets.len(), stacks.len(), "a stack for each target");
    let started_unix_s = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |passed| passed.as_secs());
    let now_s = |targets: &[T]| targets.first().map_or(0.0, Target::now_s);
    let started_s = now_s(targets);
    let measured = session::measure(settings, targets, interrupt, observer)?;
    let duration_s = now_s(targets) - started_s;
    let all = stacks.into_iter().zip(&measured);
    let probes = measured.len();
    let levels = [apart::level_of_probe(settings, probes), apart::level_of_curve(probes)];
    Ok(all
        .map(|(stack, measured)| conclude(settings, stack, measured, levels, started_unix_s, duration_s))
        .collect())
}

/// A matrix has so many points that their histograms would be most of the document.
fn without_histograms(mut matrix: report::Matrix) -> report::Matrix {
    for point in matrix.cells.iter_mut().flat_map(|cell| &mut cell.points) {
        point.latency_histogram = Vec::new();
    }
    matrix
}

fn conclude(
    settings: &Settings,
    stack: Stack,
    measured: &Measured,
    [level, level_of_curve]: [f64; 2],
    started_unix_s: u64,
    duration_s: f64,
) -> ProbeReport {
    let mut cells: Vec<MatrixCell> = settings
        .combinations
        .iter()
        .map(|combination| MatrixCell {
            method: combination.method,
            file_state: combination.file_state,
            points: assemble::points(measured, *combination),
        })
        .filter(|cell| !cell.points.is_empty())
        .collect();
    let matrix = settings.is_matrix().then(|| matrix::concluded(&cells, measured.skipped.clone(), level));
    let matrix = matrix.map(without_histograms);
    let main = matrix::main_cell(&cells).map(|place| cells.swap_remove(place));
    let (combination, points) = match main {
        Some(cell) => {
            (settings::Combination { method: cell.method, file_state: cell.file_state }, cell.points)
        }
        None => (settings.combinations[0], Vec::new()),
    };

    // Sizes that had to fall back were written in another way: they are shown, and left out of the curve.
    let alike = |point: &&Point| point.method == combination.method;
    let like_the_rest: Vec<Point> = points.iter().filter(alike).cloned().collect();
    let compared = if like_the_rest.is_empty() { &points } else { &like_the_rest };
    let (model, phases) = curve::shown(compared, level_of_curve);
    // Whether a line is called one that does not fit is tested by itself, whatever is said of its parameters.
    let fitted = curve::fitted(compared);
    let unmeasured: Vec<u64> = measured
        .points
        .iter()
        .filter(|point| point.combination == combination && point.runs.is_empty())
        .map(|point| point.buffer_bytes)
        .collect();
    let like = settings.like.zip(points.first()).map(|(program, point)| program.judge(point));
    let recommendation =
        recommend::recommend(compared, settings, &unmeasured, level).filter(|_| settings.like.is_none());
    let batching = recommendation
        .as_ref()
        .and_then(|chosen| batching::in_records(settings, chosen, &points, model.as_ref()));
    let below =
        recommend::best(compared).map_or_else(Vec::new, |best| recommend::shown_below(compared, best, level));
    let warnings =
        warnings::all(settings, &stack, compared, matrix.as_ref(), fitted.as_ref(), &below, measured);
    ProbeReport {
        schema: report::SCHEMA.to_owned(),
        evenkeel_version: env!("CARGO_PKG_VERSION").to_owned(),
        started_unix_s,
        duration_s,
        seed: settings.seed,
        host: None,
        command: None,
        goals: settings.goals,
        stack,
        method: combination.method,
        file_state: combination.file_state,
        writers: settings.writers,
        runs: settings.runs,
        sessions: settings.sessions,
        quick: settings.quick,
        points,
        model,
        phases,
        recommendation,
        batching,
        matrix,
        like,
        warnings,
    }
}

/// The point at `buffer_bytes`.
fn point_at(points: &[Point], buffer_bytes: u64) -> Option<&Point> {
    points.iter().find(|point| point.buffer_bytes == buffer_bytes)
}

#[cfg(test)]
pub(crate) mod tests;
