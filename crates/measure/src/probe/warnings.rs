//! What a reader must know before trusting the figures.
//!
//! Each warning says what is so and what to do about it.

use evenkeel_host::stack::Stack;

use super::report::{Matrix, Model, Point, Warning, WarningCode};
use super::session::{Measured, PointRuns};
use super::settings::Settings;
use crate::report::format;

/// Relative range over runs above which a mean is not to be trusted: the 10 % line that Cao et al. draw in
/// "On the Performance Variation in Modern Storage Stacks" (FAST '17) lies beyond what most stacks show.
const RELATIVE_RANGE_MAX: f64 = 0.10;

/// No durable write to a device on a bus returns faster.
const BUS_ROUND_TRIP_S: f64 = 5e-6;

/// No durable write to a turning disk returns faster on average: its head waits for the platter, which takes
/// half a turn of 4 ms at 15,000 rpm.
const HALF_TURN_S: f64 = 1e-3;

/// Share of the file system below which free space makes it slow.
const FREE_SHARE_MIN: f64 = 0.05;

pub(super) fn all(
    settings: &Settings,
    stack: &Stack,
    points: &[Point],
    matrix: Option<&Matrix>,
    model: Option<&Model>,
    below: &[bool],
    measured: &Measured,
) -> Vec<Warning> {
    let every_point = || {
        let in_matrix = matrix.iter().flat_map(|matrix| &matrix.cells).flat_map(|cell| &cell.points);
        let alone = if matrix.is_some() { &[] } else { points };
        in_matrix.chain(alone)
    };
    [
        mostly_disturbed(every_point()),
        too_fast(settings, stack, points),
        network(stack),
        loop_device(stack),
        nearly_full(stack),
        fell_back(measured),
        btrfs_falls_back(stack, measured),
        background(measured),
        imprecise(settings, measured),
        cut_short(settings, measured),
        varies(every_point()),
        disturbed(every_point()),
        model.and_then(|model| disagrees(points, model, below)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn warning(code: WarningCode, message: impl Into<String>) -> Option<Warning> {
    Some(Warning { code, message: message.into() })
}

fn too_fast(settings: &Settings, stack: &Stack, points: &[Point]) -> Option<Warning> {
    let because = |why: String| {
        warning(
            WarningCode::TooFastToBeTrue,
            format!("{why}; a power cut would lose what these writes acknowledged"),
        )
    };
    if stack.in_memory {
        return because(format!("{} on {} keeps its data in memory", stack.file_system, stack.device));
    }
    let no_barrier = ["nobarrier", "barrier=0"];
    if let Some(option) = stack.mount_options.split(',').find(|option| no_barrier.contains(option)) {
        return because(format!("the mount option {option} keeps flushes from the device"));
    }
    let smallest = points.first()?;
    let writers = f64::from(settings.writers);
    let latency_s = smallest.latency_s.mean;
    let shown = format!(
        "{} durable writes take {} each",
        format::bytes(smallest.buffer_bytes),
        format::seconds(latency_s)
    );
    if let Some(flushes) = smallest.device_flushes_per_op
        && stack.write_cache.as_deref() == Some("write back")
        && stack.fua == Some(false)
        && flushes * writers < 0.5
    {
        return because(format!(
            "the device says its write cache is volatile, yet only {flushes:.2} flushes reached it per \
             durable write"
        ));
    }
    let is_loop = stack.loop_file.is_some();
    if stack.rotational == Some(true)
        && !is_loop
        && !is_paravirtual(stack)
        && latency_s / writers < HALF_TURN_S
    {
        return because(format!(
            "{shown}, less than a turning disk needs, unless its cache is kept alive by a battery"
        ));
    }
    if !is_loop && latency_s / writers < BUS_ROUND_TRIP_S {
        return because(format!("{shown}, faster than any device on a bus answers"));
    }
    None
}

/// Whether a hypervisor stands in for the disk: it says that it rotates whatever is below.
fn is_paravirtual(stack: &Stack) -> bool {
    let name = stack.device.trim_start_matches("/dev/");
    ["vd", "xvd", "nbd"].iter().any(|kind| name.starts_with(kind))
        || stack.device_model.as_ref().is_some_and(|model| model.to_uppercase().contains("QEMU"))
}

fn network(stack: &Stack) -> Option<Warning> {
    if !stack.over_network {
        return None;
    }
    warning(
        WarningCode::NetworkFileSystem,
        format!(
            "{} is a network file system: the figures hold the network and the server too, and durability is \
             what the server promises; measure on the server for its disks alone",
            stack.file_system
        ),
    )
}

fn loop_device(stack: &Stack) -> Option<Warning> {
    let file = stack.loop_file.as_ref()?;
    warning(
        WarningCode::LoopDevice,
        format!(
            "{} is a loop device over {file}: the figures hold two file systems, not one; compare them only \
             with other loop devices over the same",
            stack.device
        ),
    )
}

fn nearly_full(stack: &Stack) -> Option<Warning> {
    let (free, size) = (stack.free_bytes?, stack.size_bytes?);
    if free as f64 >= FREE_SHARE_MIN * size as f64 || stack.in_memory {
        return None;
    }
    warning(
        WarningCode::NearlyFull,
        format!(
            "only {} of {} are free: file systems and drives slow down when nearly full; make room and measure \
             again",
            format::bytes(free),
            format::bytes(size)
        ),
    )
}

fn fell_back(measured: &Measured) -> Option<Warning> {
    let fallen: Vec<&PointRuns> =
        measured.points.iter().filter(|point| point.method != point.combination.method).collect();
    let first = fallen.first()?;
    warning(
        WarningCode::FellBackToBuffered,
        format!(
            "this file system cannot write {} directly: {} was used instead of {}",
            sizes(fallen.iter().map(|point| point.buffer_bytes)),
            first.method,
            first.combination.method
        ),
    )
}

/// Linux since 6.14: a direct write could change under the checksum that is taken of it (btrfs(5)).
fn btrfs_falls_back(stack: &Stack, measured: &Measured) -> Option<Warning> {
    let is_direct = measured.points.iter().any(|point| point.method.is_direct());
    let unchecked = ["nodatasum", "nodatacow"];
    let has_sums = !stack.mount_options.split(',').any(|option| unchecked.contains(&option));
    if stack.file_system != "btrfs" || !is_direct || !has_sums || kernel_version(&stack.kernel) < (6, 14) {
        return None;
    }
    warning(
        WarningCode::FellBackToBuffered,
        "btrfs writes files with checksums through the page cache even with O_DIRECT since Linux 6.14; mount with \
         nodatasum, or set chattr +C on the folder, to measure direct writes",
    )
}

fn kernel_version(release: &str) -> (u32, u32) {
    let mut numbers =
        release.split(|letter: char| !letter.is_ascii_digit()).map(|number| number.parse().ok());
    let mut next = || numbers.next().flatten().unwrap_or(0);
    (next(), next())
}

/// Traffic on the idle device that is more than a trickle, in bytes per second.
const BACKGROUND_MAX: f64 = 1e6;

fn background(measured: &Measured) -> Option<Warning> {
    let rate = measured.background_bytes_per_s.filter(|&rate| rate > BACKGROUND_MAX)?;
    warning(
        WarningCode::Disturbed,
        format!(
            "others moved {} on the device before the first run: latencies and amplification hold their traffic; \
             stop it and measure again",
            format::rate(rate)
        ),
    )
}

fn imprecise(settings: &Settings, measured: &Measured) -> Option<Warning> {
    let precision = settings.precision?;
    let is_wide = |point: &&PointRuns| !point.runs.is_empty() && !point.is_precise(precision);
    let mut wide: Vec<u64> = measured.points.iter().filter(is_wide).map(|point| point.buffer_bytes).collect();
    wide.sort_unstable();
    wide.dedup();
    if wide.is_empty() {
        return None;
    }
    warning(
        WarningCode::CutShort,
        format!(
            "the interval is still wider than {} at {}; give more --time or --runs",
            format::percent(precision),
            sizes(wide.into_iter())
        ),
    )
}

fn cut_short(settings: &Settings, measured: &Measured) -> Option<Warning> {
    let named = |wanted: &dyn Fn(&PointRuns) -> bool| {
        let mut found: Vec<u64> =
            measured.points.iter().filter(|point| wanted(point)).map(|point| point.buffer_bytes).collect();
        found.sort_unstable();
        found.dedup();
        (!found.is_empty()).then(|| sizes(found.into_iter()))
    };
    let is_dropped = |point: &PointRuns| point.runs.is_empty();
    let is_shortened =
        |point: &PointRuns| point.allotment.writes_per_run < settings.full_run_writes(point.buffer_bytes);
    let has_few_runs =
        |point: &PointRuns| settings.precision.is_none() && (point.runs.len() as u32) < settings.runs;
    let mut parts = Vec::new();
    if let Some(sizes) = named(&is_dropped) {
        parts.push(format!("{sizes} not measured"));
    }
    if let Some(sizes) = named(&|point| !is_dropped(point) && is_shortened(point)) {
        parts.push(format!("runs shortened at {sizes}"));
    }
    if let Some(sizes) = named(&|point| !is_dropped(point) && has_few_runs(point)) {
        parts.push(format!("fewer than {} runs at {sizes}", settings.runs));
    }
    if parts.is_empty() {
        return None;
    }
    let time =
        settings.time_budget_s.map_or(String::new(), |time_s| format!(" to fit {}", format::seconds(time_s)));
    warning(
        WarningCode::CutShort,
        format!("cut short{time}: {}; give more --time for narrower intervals", parts.join(", ")),
    )
}

fn varies<'a>(points: impl Iterator<Item = &'a Point>) -> Option<Warning> {
    let range = |point: &Point| point.throughput_bytes_per_s.relative_range;
    let unsteady: Vec<&Point> = points.filter(|point| range(point) > RELATIVE_RANGE_MAX).collect();
    let worst = unsteady.iter().max_by(|a, b| range(a).total_cmp(&range(b)))?;
    let mut which: Vec<u64> = unsteady.iter().map(|point| point.buffer_bytes).collect();
    which.sort_unstable();
    which.dedup();
    warning(
        WarningCode::VariesTooMuch,
        format!(
            "throughput varied by more than {} from run to run at {}; the largest relative range measured is {}, at {}: \
             single runs cannot be trusted here, use the intervals",
            format::percent(RELATIVE_RANGE_MAX),
            sizes(which.into_iter()),
            format::percent(range(worst)),
            format::bytes(worst.buffer_bytes)
        ),
    )
}

/// Where nothing that follows can be trusted: said first.
fn mostly_disturbed<'a>(points: impl Iterator<Item = &'a Point>) -> Option<Warning> {
    let (mut disturbed, mut runs) = (0, 0);
    for run in points.flat_map(|point| &point.run_data) {
        runs += 1;
        disturbed += usize::from(run.disturbance.is_some());
    }
    if !is_most(disturbed, runs) {
        return None;
    }
    warning(
        WarningCode::MostlyDisturbed,
        format!(
            "most runs, {disturbed} of {runs}, were disturbed from outside: these figures are of this machine with what else \
             it does; measure again when it is quiet"
        ),
    )
}

/// Whether others disturbed most runs of a point.
pub(super) fn is_mostly_disturbed(point: &Point) -> bool {
    is_most(point.run_data.iter().filter(|run| run.disturbance.is_some()).count(), point.run_data.len())
}

fn is_most(disturbed: usize, runs: usize) -> bool {
    2 * disturbed > runs
}

fn disturbed<'a>(points: impl Iterator<Item = &'a Point>) -> Option<Warning> {
    let (mut disturbed, mut counted, mut runs) = (0, 0, 0);
    for run in points.flat_map(|point| &point.run_data) {
        runs += 1;
        disturbed += usize::from(run.disturbance.is_some());
        counted += usize::from(run.disturbance.is_some() && run.counted);
    }
    if disturbed == 0 || is_most(disturbed, runs) {
        return None;
    }
    warning(
        WarningCode::Disturbed,
        format!(
            "{disturbed} of {runs} runs were disturbed from outside; {} of them are left out and {counted} count \
             for want of better ones; measure on a quieter machine to be sure",
            disturbed - counted
        ),
    )
}

/// Where the size at which the model has its optimum is shown to be worse than the best: `below` says which are.
fn disagrees(points: &[Point], model: &Model, below: &[bool]) -> Option<Warning> {
    let measured = super::recommend::best(points)?;
    let best = &points[measured];
    let distance = |point: &Point| (point.buffer_bytes as f64 / model.optimum_bytes).ln().abs();
    let nearest = (0..points.len()).min_by(|&a, &b| distance(&points[a]).total_cmp(&distance(&points[b])))?;
    if nearest.abs_diff(measured) <= 1 || !below[nearest] {
        return None;
    }
    warning(
        WarningCode::ModelDisagrees,
        format!(
            "the measured ratio peaks at {}, the model latency = l + x/B at {}: the stack does not behave like \
             a fixed cost plus a bandwidth, so trust the measured points",
            format::bytes(best.buffer_bytes),
            format::bytes(model.optimum_bytes as u64)
        ),
    )
}

/// Sizes as people read them: three or more in a row of the list as a span.
fn sizes(sizes: impl ExactSizeIterator<Item = u64>) -> String {
    let all: Vec<u64> = sizes.collect();
    match all.as_slice() {
        [first, .., last] if all.len() > 3 => {
            format!("{} sizes from {} to {}", all.len(), format::bytes(*first), format::bytes(*last))
        }
        few => few.iter().map(|&size| format::bytes(size)).collect::<Vec<_>>().join(", "),
    }
}
