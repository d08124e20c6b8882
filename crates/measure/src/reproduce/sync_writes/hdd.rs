//! Figures 1, 2 and 7: the disk.

use super::super::{Comparison, Figure, FigureModule, Halted, Settings, Unit, Work};
use super::curve::{Curve, of, sweeps};
use super::device::{Device, KIB, MIB};
use super::stack::Stack;
use super::{claim, drawing, measured};
use crate::report::format;

/// The disk.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "writes-hdd",
    paper: 1,
    place: "figures 1, 2 and 7",
    title: "Synchronous writes on a disk",
    setup: &[
        "A new file of 16 MB, written sequentially and synchronously, past the page cache, in buffers of 4 KB to 16 MB.",
        "A disk of 1 TB and 7200 rpm by model (sata-7200), on SATA II, its write cache on.",
        "File systems by what the probe counted of them on loop devices: writes, bytes and flushes beside the data.",
        "Assumed: a partition of 19 GB at the beginning of the disk, logs in its middle, requests of up to 1280 KB, 32 \
         at a time (Linux 4.12); no time for the processor. 10 files of each size.",
    ],
    run,
};

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let curves = sweeps(Device::Hdd, settings, work)?;
    let mut figure = drawing::figure(Device::Hdd, &curves);
    figure.claims = claims(&curves);
    measured::add_to(&mut figure, Device::Hdd, settings, work, claims)?;
    Ok(figure)
}

fn claims(curves: &[Curve]) -> Vec<super::Claim> {
    let mut claims = drawing::shared_claims(curves);
    claims.extend(drawing::small_buffer_claims(curves));
    claims.extend(own_claims(curves));
    claims
}

fn own_claims(curves: &[Curve]) -> Vec<super::Claim> {
    let xfs = of(curves, Stack::Xfs);
    let near_512_kib = xfs.at(512 * KIB);
    let at_most = |stack| of(curves, stack).largest().throughput_bytes_per_s;
    let all = [Stack::Xfs, Stack::Ext4, Stack::Btrfs].map(at_most);
    let (least, most) =
        all.iter().fold((f64::MAX, 0.0_f64), |(least, most), &at| (least.min(at), most.max(at)));
    vec![
        claim(
            "latency remains mostly constant for small buffer sizes",
            Unit::Times,
            Comparison::Within(0.8, 1.25),
            xfs.at(64 * KIB).latency_s / xfs.smallest().latency_s,
            "latency at 64 KB over that at 4 KB, XFS",
        ),
        claim(
            "considering XFS on the HDD the throughput starts to level off at buffer sizes of 4096 kB to 8192 kB",
            Unit::Bytes,
            Comparison::Within((4 * MIB) as f64, (8 * MIB) as f64),
            xfs.throughput_level_from(),
            "where the fit's phase of constant throughput begins, XFS",
        )
        .paper_value((4 * MIB) as f64),
        claim(
            "while latency starts picking up with buffer sizes of 512 kB to 1024 kB",
            Unit::Bytes,
            Comparison::Within((512 * KIB) as f64, MIB as f64),
            xfs.latency_grows_from(),
            &format!(
                "where the fit's phase of constant latency ends, XFS. By eye it is later: with buffers of {} latency is {} \
                 that of the smallest",
                format::bytes(near_512_kib.buffer_bytes),
                Unit::Times.show(near_512_kib.latency_s / xfs.smallest().latency_s)
            ),
        )
        .paper_value((512 * KIB) as f64),
        claim(
            "with a saturated disk file system differences start to disappear",
            Unit::Times,
            Comparison::Within(1.0, 1.25),
            most / least,
            "throughput at the largest buffer, best file system over worst",
        ),
        claim(
            "the buffer size of 4096 kB [...] marks a point where the average throughput of ext4 surpasses the throughput of XFS",
            Unit::Times,
            Comparison::Within(1.0, 1.5),
            of(curves, Stack::Ext4).at(4 * MIB).throughput_bytes_per_s / xfs.at(4 * MIB).throughput_bytes_per_s,
            "throughput of ext4 over that of XFS with buffers of 4 MB. Here both differ in what they write beside the data, \
             and ext4 writes more",
        ),
    ]
}
