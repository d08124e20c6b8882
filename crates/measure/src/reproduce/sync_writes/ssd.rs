//! Figures 3, 4 and 8: the SSD.

use super::super::{Comparison, Figure, FigureModule, Halted, Settings, Unit, Work};
use super::curve::{Curve, of, sweeps};
use super::device::{Device, KIB, MIB};
use super::stack::Stack;
use super::{claim, drawing, kb, measured};

/// The SSD.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "writes-ssd",
    paper: 1,
    place: "figures 3, 4 and 8",
    title: "Synchronous writes on a SATA SSD",
    setup: &[
        "A new file of 16 MB, written sequentially and synchronously, past the page cache, in buffers of 4 KB to 16 MB.",
        "The SSD by model: sata-2011, of the presets the nearest to the paper's Samsung 850 (a desktop drive of 256 GB for \
         SATA with a volatile cache), on SATA II as there, scaled to the partition of 19 GB and never written.",
        "File systems by what the probe counted of them on loop devices: writes, bytes and flushes beside the data. F2FS \
         is missing.",
        "Assumed: requests of up to 1280 KB, 32 at a time (Linux 4.12); no time for the processor. 10 files of each size.",
    ],
    run,
};

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let curves = sweeps(Device::Ssd, settings, work)?;
    let mut figure = drawing::figure(Device::Ssd, &curves);
    figure.claims = claims(&curves);
    for (name, small, large) in [("XFS", 50_127.0, 230_612.0), ("ext4", 45_675.0, 197_912.0)] {
        let points = [(128.0 * KIB as f64, kb(small)), (4.0 * MIB as f64, kb(large))];
        figure.draw_paper("SSD throughput", name, &points);
    }
    measured::add_to(&mut figure, Device::Ssd, settings, work, claims)?;
    Ok(figure)
}

fn claims(curves: &[Curve]) -> Vec<super::Claim> {
    let mut claims = drawing::shared_claims(curves);
    claims.extend(own_claims(curves));
    claims
}

fn own_claims(curves: &[Curve]) -> Vec<super::Claim> {
    let throughput = |stack, bytes| of(curves, stack).at(bytes).throughput_bytes_per_s;
    let number = |words: &str, stack: Stack, bytes: u64, kilobytes: f64| {
        let note = format!("{} with buffers of {}", stack.name(), Unit::Bytes.show(bytes as f64));
        claim(words, Unit::BytesPerS, Comparison::about(kb(kilobytes)), throughput(stack, bytes), &note)
            .paper_value(kb(kilobytes))
    };
    let small = "with buffer size of 128 kB XFS achieves 50127 kB/s while ext4 manages 45675 kB/s";
    let large = "for buffer size of 4096 kB the throughput of XFS is 230612 kB/s while the throughput of ext4 is 197912 kB/s";
    vec![
        number(small, Stack::Xfs, 128 * KIB, 50_127.0),
        number(small, Stack::Ext4, 128 * KIB, 45_675.0),
        claim(
            "XFS and ext4 have a clear advantage, with XFS leading by a small margin",
            Unit::Times,
            Comparison::Within(1.0, 1.5),
            throughput(Stack::Xfs, 128 * KIB) / throughput(Stack::Ext4, 128 * KIB),
            "throughput of XFS over that of ext4 with buffers of 128 KB",
        )
        .paper_value(50_127.0 / 45_675.0),
        number(large, Stack::Xfs, 4 * MIB, 230_612.0),
        number(large, Stack::Ext4, 4 * MIB, 197_912.0),
        claim(
            "BTRFS ha[s] weak performance with small buffers, probably due to metadata overhead",
            Unit::Times,
            Comparison::Within(0.2, 0.8),
            throughput(Stack::Btrfs, 4 * KIB) / throughput(Stack::Ext4, 4 * KIB),
            "throughput of btrfs over that of ext4 with buffers of 4 KB",
        ),
        claim(
            "ext4 had a noticeable and consistent drop in throughput for the largest buffers",
            Unit::Times,
            Comparison::Within(0.5, 0.95),
            of(curves, Stack::Ext4).largest().throughput_bytes_per_s
                / of(curves, Stack::Ext4).most_bytes_per_s(),
            "throughput of ext4 with buffers of 16 MB over the most of its sweep: a twentieth at least. The paper takes the \
             processor for the reason, and here processors take no time",
        ),
    ]
}
