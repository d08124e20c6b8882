//! Figures 5, 6 and 9: the memory card.

use super::super::{Comparison, Figure, FigureModule, Halted, Settings, Unit, Work};
use super::curve::{Curve, of, sweeps};
use super::device::{Device, MIB};
use super::stack::Stack;
use super::{claim, drawing, kb, measured};

/// The memory card.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "writes-sdcard",
    paper: 1,
    place: "figures 5, 6 and 9",
    title: "Synchronous writes on a memory card",
    setup: &[
        "A new file of 16 MB, written sequentially and synchronously, past the page cache, in buffers of 4 KB to 16 MB.",
        "A memory card by model (sd-card: no volatile cache, pages of 16 KB), scaled to the partition of 1.44 GB and \
         never written.",
        "File systems by what the probe counted of them on loop devices: writes, bytes and flushes beside the data. F2FS \
         is missing.",
        "Assumed: requests of up to 512 KB, one at a time, as card readers take them; no time for the processor. 10 files \
         of each size.",
    ],
    run,
};

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let curves = sweeps(Device::SdCard, settings, work)?;
    let mut figure = drawing::figure(Device::SdCard, &curves);
    figure.claims = claims(&curves);
    for (name, kilobytes) in [("XFS", 25_469.0), ("ext4", 24_368.0), ("F2FS", 16_321.0)] {
        figure.draw_paper("SDCARD throughput", name, &[(MIB as f64, kb(kilobytes))]);
    }
    measured::add_to(&mut figure, Device::SdCard, settings, work, claims)?;
    Ok(figure)
}

fn claims(curves: &[Curve]) -> Vec<super::Claim> {
    let mut claims = drawing::shared_claims(curves);
    claims.extend(own_claims(curves));
    claims
}

fn own_claims(curves: &[Curve]) -> Vec<super::Claim> {
    let throughput = |stack| of(curves, stack).at(MIB).throughput_bytes_per_s;
    let words = "With a buffer size of 1 MB XFS reaches 25469 kB/s while ext4 throughput is 24368 kB/s";
    let number = |stack: Stack, kilobytes: f64| {
        let note = format!("{} with buffers of 1 MB", stack.name());
        claim(words, Unit::BytesPerS, Comparison::about(kb(kilobytes)), throughput(stack), &note)
            .paper_value(kb(kilobytes))
    };
    vec![
        number(Stack::Xfs, 25_469.0),
        number(Stack::Ext4, 24_368.0),
        claim(
            "a not statistically significant difference",
            Unit::Times,
            Comparison::Within(0.9, 1.1),
            throughput(Stack::Xfs) / throughput(Stack::Ext4),
            "throughput of XFS over that of ext4 with buffers of 1 MB",
        )
        .paper_value(25_469.0 / 24_368.0),
    ]
}
