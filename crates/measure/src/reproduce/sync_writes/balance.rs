//! Section 4.4: the devices beside each other, each under XFS.

use super::super::{Claim, Comparison, Figure, FigureModule, Halted, Settings, Table, Unit, Work};
use super::claim;
use super::curve::{Curve, sweep};
use super::device::Device;
use super::stack::Stack;

/// The devices beside each other.
pub(super) const MODULE: FigureModule = FigureModule {
    name: "writes-balance",
    paper: 1,
    place: "sections 4.2 to 4.4",
    title: "Throughput and latency of the three devices in balance",
    setup: &[
        "The devices of the other figures, each under XFS, at the buffer where throughput over latency is greatest.",
        "The paper does not say where on its disk the partition was: here it is at the beginning, where the model is twice \
         as fast as at the end.",
    ],
    run,
};

fn run(settings: &Settings, work: &Work<'_>) -> Result<Figure, Halted> {
    let curves = work.each(&Device::ALL, |&device| Ok(sweep(device, Stack::Xfs, settings)))?;
    Ok(figure(&curves))
}

fn figure(curves: &[Curve]) -> Figure {
    let row = |(device, curve): (&Device, &Curve)| {
        let best = curve.peak();
        vec![
            device.name().to_owned(),
            Unit::Bytes.show(best.buffer_bytes as f64),
            Unit::BytesPerS.show(best.throughput_bytes_per_s),
            Unit::S.show(best.latency_s),
            Unit::Count.show(best.ratio() / 1e9),
            Unit::BytesPerS.show(curve.largest().throughput_bytes_per_s),
            Unit::S.show(curve.smallest().latency_s),
        ]
    };
    let table = Table {
        title: "At the best buffer, and at the ends".to_owned(),
        header: [
            "device",
            "best buffer",
            "throughput",
            "latency",
            "MB/s for each ms",
            "throughput at 16 MB",
            "latency at 4 KB",
        ]
        .map(str::to_owned)
        .to_vec(),
        rows: Device::ALL.iter().zip(curves).map(row).collect(),
    };
    Figure { tables: vec![table], claims: claims(curves), ..Figure::default() }
}

/// What throughput of the disk rests on.
const BEGINNING: &str = "the disk at its beginning, at its end it is half as fast";

fn claims(curves: &[Curve]) -> Vec<Claim> {
    let [hdd, ssd, card] = curves else { return Vec::new() };
    let times = |words: &str, paper: f64, value: f64, note: &str| {
        claim(words, Unit::Times, Comparison::about(paper), value, note).paper_value(paper)
    };
    let faster = "with throughput and latency of SSD about 4x better";
    let card_words = "Maximum throughput of the SDCARD is about half of the HDD, but latency is about half";
    let surprise = "the optimum throughput/latency ratio is about the same for both devices, but with the SDCARD showing \
                    latencies that are 10x smaller. Throughput is lower, however, but only about 4x lower";
    let most = |curve: &Curve| curve.largest().throughput_bytes_per_s;
    let least = |curve: &Curve| curve.smallest().latency_s;
    vec![
        times(faster, 4.0, most(ssd) / most(hdd), &format!("throughput at 16 MB, SSD over HDD; {BEGINNING}")),
        times(faster, 4.0, least(hdd) / least(ssd), "latency at 4 KB, HDD over SSD"),
        claim(
            "the SSD device reaches its maximum throughput with smaller buffers than the HDD",
            Unit::Times,
            Comparison::more(2.0),
            hdd.peak().buffer_bytes as f64 / ssd.peak().buffer_bytes as f64,
            "the buffer where the ratio is greatest, HDD over SSD: a doubling at least",
        ),
        times(
            card_words,
            0.5,
            most(card) / most(hdd),
            &format!("throughput at 16 MB, SDCARD over HDD; {BEGINNING}"),
        ),
        times(card_words, 0.5, least(card) / least(hdd), "latency at 4 KB, SDCARD over HDD"),
        times(surprise, 1.0, card.peak().ratio() / hdd.peak().ratio(), "greatest ratio, SDCARD over HDD"),
        times(surprise, 10.0, hdd.peak().latency_s / card.peak().latency_s, "latency there, HDD over SDCARD"),
        times(
            surprise,
            4.0,
            hdd.peak().throughput_bytes_per_s / card.peak().throughput_bytes_per_s,
            "throughput there, HDD over SDCARD",
        ),
    ]
}
