//! The same sweep on real file systems, over the devices by model in real time.

use std::path::Path;
use std::time::{Duration, Instant};

use evenkeel_host::durable_file::{DurableFile, Open};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_host::method::Method;
use evenkeel_host::scratch::ScratchFile;

use super::super::machine::{FileSystem, Machine, Measuring, Wanted};
use super::super::{Claim, Figure, Halted, Kind, Settings, Work};
use super::curve::{Curve, FILE_BYTES, Point, sizes};
use super::device::{Device, GIB, MIB};
use super::drawing;
use super::stack::Stack;
use crate::probe::timed_loop::{Source, timed_writes};

/// How long writes of a size go on at most, if there are [`WRITES_MIN`] of them.
const TIME_A_SIZE: Duration = Duration::from_secs(1);
const WRITES_MIN: u64 = 3;

/// The file systems of the paper that there are.
const STACKS: [(Stack, FileSystem); 3] =
    [(Stack::Xfs, FileSystem::Xfs), (Stack::Ext4, FileSystem::Ext4), (Stack::Btrfs, FileSystem::Btrfs)];

/// Adds to a figure what real file systems show on its device, where that may be measured: charts, and the figure's claims
/// of their curves.
pub(super) fn add_to(
    figure: &mut Figure,
    device: Device,
    settings: &Settings,
    work: &Work<'_>,
    claims: impl Fn(&[Curve]) -> Vec<Claim>,
) -> Result<(), Halted> {
    let Measuring::On(machine) = work.measuring() else { return Ok(()) };
    let measured = work.each_alone(&STACKS, |&(stack, file_system)| {
        match sweep(device, stack, file_system, machine, settings) {
            Err(_) if machine.interrupt().is_asked() => Err(Halted::Stopped),
            result => {
                Ok(result.map_err(|why| format!("{} could not be measured here: {why}.", stack.name())))
            }
        }
    })?;
    let curves: Vec<Curve> = match measured.into_iter().collect() {
        Ok(curves) => curves,
        Err(why) => {
            figure.notes.push(why);
            return Ok(());
        }
    };
    let drawn = drawing::figure(device, &curves);
    figure.charts.extend(drawn.charts.into_iter().map(|mut chart| {
        chart.title += ", measured";
        chart
    }));
    figure.tables.extend(drawn.tables.into_iter().map(|mut table| {
        table.title += ", measured";
        table
    }));
    figure.claims.extend(claims(&curves).into_iter().map(|claim| Claim { kind: Kind::Measured, ..claim }));
    figure.notes.push(format!(
        "Measured: file systems of this machine's kernel on a loop device, over nbdfuse, over `evenkeel drive {}` in real \
         time; of each size as many writes into a new file as fit into 16 MB and {} s, and at least {WRITES_MIN}. What the \
         way to the drive takes comes on top of its own time.",
        device.model(),
        TIME_A_SIZE.as_secs(),
    ));
    Ok(())
}

/// On which drive, and how large the partition is that the paper used.
fn wanted(device: Device, file_system: FileSystem) -> Wanted {
    let (drive_bytes, file_system_bytes) = match device {
        // A small disk keeps its whole range of seeks: its log would be half a stroke away.
        Device::Hdd => (200 * GIB, 19 * GIB),
        Device::Ssd => (19 * GIB, 19 * GIB),
        Device::SdCard => (1440 * MIB, 1440 * MIB),
    };
    Wanted { model: device.model(), drive_bytes, file_system, file_system_bytes }
}

fn sweep(
    device: Device,
    stack: Stack,
    file_system: FileSystem,
    machine: &dyn Machine,
    settings: &Settings,
) -> Result<Curve, String> {
    let mounted = machine.mount(&wanted(device, file_system))?;
    let source = Source::random(FILE_BYTES as usize, settings.seed);
    let path = mounted.folder().join("evenkeel-reproduce");
    let point = |buffer_bytes| point(&path, &source, buffer_bytes, machine.interrupt());
    let points: std::io::Result<Vec<Point>> = sizes(settings).into_iter().map(point).collect();
    let points = points.map_err(|error| format!("writing {}: {error}", path.display()))?;
    Ok(Curve::of(stack, points))
}

/// A new file, written as the paper's iozone does: past the page cache, each write durable before the next.
pub(super) fn point(
    path: &Path,
    source: &Source,
    buffer_bytes: u64,
    interrupt: &Interrupt,
) -> std::io::Result<Point> {
    let writes_max = (FILE_BYTES / buffer_bytes).max(WRITES_MIN);
    let (_scratch, mut file) =
        ScratchFile::make(path, |path| DurableFile::open(path, Method::DirectSync, Open::New))?;
    file.settle()?;
    let mut latencies_ns = Vec::with_capacity(writes_max as usize);
    let began = Instant::now();
    let is_enough = |done: u64| done == writes_max || done >= WRITES_MIN && began.elapsed() >= TIME_A_SIZE;
    while !is_enough(latencies_ns.len() as u64) {
        let offset = latencies_ns.len() as u64 * buffer_bytes;
        timed_writes(&mut file, source, offset, buffer_bytes as usize, 1, interrupt, &mut latencies_ns)?;
    }
    Ok(Point::of(buffer_bytes, &latencies_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_stands_on_writes_that_were_made_and_leaves_no_file() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let path = folder.path().join("file");
        let source = Source::random(FILE_BYTES as usize, 1);
        let point = point(&path, &source, FILE_BYTES, &Interrupt::default()).unwrap();
        assert_eq!(point.buffer_bytes, FILE_BYTES);
        let ratio = point.throughput_bytes_per_s * point.latency_s / FILE_BYTES as f64;
        assert!((0.999..1.001).contains(&ratio), "{point:?}");
        assert!(!path.exists());
    }

    #[test]
    fn a_point_ends_when_it_is_asked_to() {
        let folder = tempfile::tempdir_in(".").unwrap();
        let interrupt = Interrupt::default();
        interrupt.ask();
        let source = Source::random(4096, 1);
        let error = point(&folder.path().join("file"), &source, 4096, &interrupt).unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
    }
}
