//! What the stories share: a run of one drive, from power-on to its end.
#![allow(dead_code, unreachable_pub)] // Each story file uses its own part of this.

use evenkeel_engine::device::{Device, Durability, Extent, Geometry};
use evenkeel_sim::cuts::{CutKind, CutPlan, Cuts};
use evenkeel_sim::drive::{DriveOptions, SimDrive};
use evenkeel_sim::executor::{Executor, Halt, SimEnv};
use evenkeel_sim::image::SharedImage;

pub const SECTOR: u64 = 512;

/// 64 sectors of 512 bytes that are old or new after a cut.
pub const ATOMIC: Geometry = Geometry { size_bytes: 64 * SECTOR, sector_bytes: 512, atomic_sectors: true };

/// Bytes of `sectors` sectors, all `mark`.
pub fn marked(mark: u8, sectors: u64) -> Vec<u8> {
    vec![mark; (sectors * SECTOR) as usize]
}

pub fn sectors(first: u64, count: u64) -> Extent {
    Extent::new(first * SECTOR, count * SECTOR)
}

/// Runs `story` on a drive over `image` until its end or the cut; says how it ended and how many events
/// happened.
pub fn run_drive<T, F: Future<Output = T>>(
    image: &SharedImage,
    options: DriveOptions,
    at_event: Option<u64>,
    story: impl FnOnce(SimEnv, SimDrive) -> F,
) -> (Result<T, Halt>, u64) {
    let (result, events, _) = run_drive_traced(image, options, at_event, story);
    (result, events)
}

/// As [`run_drive`]; gives the trace hash as well.
pub fn run_drive_traced<T, F: Future<Output = T>>(
    image: &SharedImage,
    options: DriveOptions,
    at_event: Option<u64>,
    story: impl FnOnce(SimEnv, SimDrive) -> F,
) -> (Result<T, Halt>, u64, u64) {
    let mut executor = Executor::new(options.seed);
    executor.limit_polls(1_000_000);
    let cuts = Cuts::new(CutPlan { at_event, kind: CutKind::PowerCut }, executor.stop());
    let drive = SimDrive::open(image.clone(), executor.env(), cuts.clone(), options);
    let result = executor.block_on(story(executor.env(), drive));
    (result, cuts.events_so_far(), executor.trace_hash())
}

pub fn seeded(seed: u64) -> DriveOptions {
    DriveOptions { seed, ..DriveOptions::default() }
}

/// The first byte of each of the first `count` sectors of the medium, each sector being of one byte
/// throughout.
pub fn durable_marks(image: &SharedImage, count: u64) -> Vec<u8> {
    marks(count, |offset, into| image.borrow().read_durable(offset, into))
}

/// As [`durable_marks`], of what a read finds.
pub fn visible_marks(image: &SharedImage, count: u64) -> Vec<u8> {
    marks(count, |offset, into| image.borrow().read(offset, into))
}

fn marks(count: u64, read: impl Fn(u64, &mut [u8])) -> Vec<u8> {
    let mark = |sector| {
        let mut bytes = marked(0, 1);
        read(sector * SECTOR, &mut bytes);
        assert!(bytes.iter().all(|&byte| byte == bytes[0]), "sector {sector} is torn");
        bytes[0]
    };
    (0..count).map(mark).collect()
}

/// A buffered write of whole sectors, all `mark`.
pub async fn write(drive: &SimDrive, first: u64, count: u64, mark: u8) {
    drive.write(first * SECTOR, &marked(mark, count), Durability::Buffered).await.expect("a healthy write");
}
