//! The figures of one device: three charts and a table; and the claims that the paper makes of each device.

use super::super::{Chart, Claim, Comparison, Figure, Scale, Series, Table, Unit};
use super::claim;
use super::curve::{Curve, Point, of};
use super::device::Device;
use super::stack::Stack;

/// Charts and table; claims are the caller's.
pub(super) fn figure(device: Device, curves: &[Curve]) -> Figure {
    let chart = |what: &str, meaning: &str, y_name: &str, y_unit, value: fn(&Point) -> f64| Chart {
        title: format!("{} {what}", device.name()),
        meaning: meaning.to_owned(),
        x_name: "buffer size".to_owned(),
        x_unit: Unit::Bytes,
        x_scale: Scale::Log,
        y_name: y_name.to_owned(),
        y_unit,
        y_scale: Scale::Log,
        series: curves.iter().map(|curve| series(curve, value)).collect(),
    };
    let charts = vec![
        chart(
            "throughput",
            "of a file of 16 MB, written synchronously",
            "throughput",
            Unit::BytesPerS,
            |point| point.throughput_bytes_per_s,
        ),
        chart("latency", "of one synchronous write, the mean", "latency", Unit::S, |point| point.latency_s),
        chart("ratio", "throughput over latency", "MB/s for each ms", Unit::Count, |point| {
            point.ratio() / 1e9
        }),
    ];
    Figure { charts, tables: vec![table(curves)], ..Figure::default() }
}

fn series(curve: &Curve, value: fn(&Point) -> f64) -> Series {
    let points = curve.points.iter().map(|point| (point.buffer_bytes as f64, value(point))).collect();
    Series { name: curve.stack.name().to_owned(), points }
}

fn table(curves: &[Curve]) -> Table {
    let shown = |value: f64, unit: Unit| if value.is_nan() { "-".to_owned() } else { unit.show(value) };
    let row = |curve: &Curve| {
        vec![
            curve.stack.name().to_owned(),
            shown(curve.latency_grows_from(), Unit::Bytes),
            shown(curve.throughput_level_from(), Unit::Bytes),
            Unit::Bytes.show(curve.peak().buffer_bytes as f64),
            shown(curve.optimum_bytes(), Unit::Bytes),
            shown(curve.line.map_or(f64::NAN, |line| line.fixed_latency_s), Unit::S),
            shown(curve.line.map_or(f64::NAN, |line| line.bandwidth_bytes_per_s), Unit::BytesPerS),
        ]
    };
    Table {
        title: "Phases, peak and line".to_owned(),
        header: ["", "latency grows from", "throughput constant from", "ratio greatest at", "l B", "l", "B"]
            .map(str::to_owned)
            .to_vec(),
        rows: curves.iter().map(row).collect(),
    }
}

/// What the paper says of every device, here of XFS; and the line's word on the peak.
pub(super) fn shared_claims(curves: &[Curve]) -> Vec<Claim> {
    let xfs = of(curves, Stack::Xfs);
    let sizes = xfs.points.iter().map(|point| point.buffer_bytes);
    let step = sizes.clone().zip(sizes.skip(1)).map(|(from, to)| to as f64 / from as f64).fold(1.0, f64::max);
    vec![
        claim(
            "three distinct phases as application buffer size grows [...] In the second phase throughput and latency increase \
             proportionally",
            Unit::Times,
            Comparison::about(1.0),
            xfs.growth_in_second_phase(),
            "growth of throughput over that of latency, as powers, over the second of the three phases that the fit finds, \
             XFS. That there are three follows from any fixed latency and bandwidth, and is not judged",
        ),
        claim(
            "throughput reaches a maximum",
            Unit::Times,
            Comparison::Within(0.9, 1.25),
            xfs.largest().throughput_bytes_per_s / xfs.points[xfs.points.len() - 2].throughput_bytes_per_s,
            "throughput at the largest buffer over that at the one before, XFS",
        ),
        claim(
            "(evenkeel's own) throughput over latency peaks at the fixed latency times the bandwidth",
            Unit::Times,
            Comparison::Within(1.0 / step, step),
            xfs.optimum_bytes() / xfs.peak().buffer_bytes as f64,
            "l B of the fitted line over the buffer where the ratio is greatest, XFS: within a step of the sweep",
        ),
    ]
}

/// XFS beside ext4 and btrfs at the smallest buffer.
pub(super) fn small_buffer_claims(curves: &[Curve]) -> Vec<Claim> {
    let latency = |stack| of(curves, stack).smallest().latency_s;
    vec![
        claim(
            "XFS has the best [latency], at about half of the latency of BTRFS",
            Unit::Times,
            Comparison::about(2.0),
            latency(Stack::Btrfs) / latency(Stack::Xfs),
            "latency of btrfs over that of XFS at the smallest buffer",
        )
        .paper_value(2.0),
        claim(
            "ext4 stays in the middle",
            Unit::Times,
            Comparison::Within(1.0, 3.0),
            (latency(Stack::Btrfs) / latency(Stack::Ext4)).min(latency(Stack::Ext4) / latency(Stack::Xfs)),
            "the lesser of btrfs over ext4 and ext4 over XFS, in latency at the smallest buffer",
        ),
    ]
}
