//! Volumes of which a part was overwritten or rotted, and what a salvage gives of them.
//!
//! 1. A page that the drive still holds comes as it is there: with its sum, or where nothing that vouches for its sum is
//!    left.
//! 2. A page that is not what was written is named.
//! 3. Where the roots are whole nothing else is named: not beyond the pages that were harmed, nor beyond those that a harmed
//!    page of the table speaks of.

use std::rc::Rc;

use evenkeel_engine::device::{Durability, Extent, Geometry};
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::format::layout::{Layout, SUMS_PER_TABLE_PAGE, SizesBefore};
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::salvage::{self, Available, KnownVolume, MirrorHeads, Part};

use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::Cuts;
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, SimEnv};
use crate::image::{Image, Payload, SharedImage};
use crate::oracle::Violation;
use crate::random::Random;
use crate::testbed::{Single, Testbed};

/// The volume's number.
const VOLUME: u64 = 1;

/// Bytes of its log.
const LOG_BYTES: u64 = 256 << 10;

/// Bytes of the arena.
const ARENA_BYTES: usize = 256 << 10;

/// What is left of a volume that was stopped in order, and what it held.
struct Remaining {
    home: SharedImage,
    layout: Layout,
    bytes: Vec<u8>,
}

/// Makes a volume, stops it, damages it and salvages it.
///
/// # Errors
///
/// What of the above does not hold.
pub fn run(seed: u64) -> Result<(), Violation> {
    let mut random = Random::new(seed ^ 0xDA3A6E);
    let remaining = Remaining::of(&mut random).map_err(Violation::of)?;
    let nameable = remaining.damage(&mut random);
    remaining.judge(seed, nameable)
}

impl Remaining {
    fn of(random: &mut Random) -> Result<Self, Error> {
        let pages = 500 + random.below(700);
        let mut bytes = vec![0; (pages * PAGE_BYTES) as usize];
        let options =
            CreateOptions { size_bytes: bytes.len() as u64, log_bytes: LOG_BYTES, atomic_max_bytes: 16384 };
        let testbed = Single { separate_log: true };
        let geometry = |size_bytes| Geometry { size_bytes, sector_bytes: 512, atomic_sectors: true };
        let image = |(_, size_bytes)| Image::shared(geometry(size_bytes));
        let images: Vec<SharedImage> = testbed.drives(&options).into_iter().map(image).collect();
        run_whole(random.number(), async |env, cuts| {
            let open = |image| SimDrive::open(image, env.clone(), cuts.clone(), DriveOptions::default());
            let drives: Vec<_> = images.iter().map(|image| Some(open(Rc::clone(image)))).collect();
            testbed.create(env.clone(), drives.clone(), options, VOLUME).await?;
            let arena = SimArena::open(ArenaBytes::new(ARENA_BYTES), env.clone(), cuts.clone(), 0);
            let (volume, _) = testbed.open(env.clone(), arena, drives, OpenOptions::default()).await?;
            for _ in 0..20 + random.below(40) {
                let extent = run_of_pages(random, pages);
                let within = extent.offset as usize..extent.end() as usize;
                if random.chance(0.2) {
                    bytes[within].fill(0);
                    volume.write_zeroes(extent, Durability::Buffered).await?;
                } else {
                    random.fill(&mut bytes[within.clone()]);
                    volume.write(extent.offset, &bytes[within], Durability::Buffered).await?;
                }
            }
            volume.close().await
        })?;
        let home = Rc::clone(&images[0]);
        home.borrow_mut().power_cut(random);
        Ok(Self { home, layout: testbed.layout(&options), bytes })
    }

    /// Harms one part, or roots and table together. Answers the bytes of the volume that may be named for it.
    fn damage(&self, random: &mut Random) -> Extent {
        let (roots, table) = (self.layout.roots, self.layout.segments[0].table);
        let all = Extent::new(0, self.bytes.len() as u64);
        match random.below(4) {
            0 => {
                self.overwrite(roots[0].offset, roots[1].end(), random);
                all
            }
            1 => {
                let sectors = random.below(table.len / 512) + 1;
                self.overwrite(roots[0].offset, table.offset + sectors * 512, random);
                all
            }
            2 => {
                let start = table.offset + random.below(table.len / 512) * 512;
                let end = table.end().min(start + 512 * (1 + random.below(12)));
                self.overwrite(start, end, random);
                let first = (start - table.offset) / PAGE_BYTES;
                let behind = (end - table.offset).div_ceil(PAGE_BYTES);
                let said_bytes = SUMS_PER_TABLE_PAGE * PAGE_BYTES;
                Extent::new(first * said_bytes, (behind - first) * said_bytes)
            }
            _ => {
                let data = run_of_pages(random, self.layout.pages);
                let start = self.layout.page_offset(data.offset / PAGE_BYTES);
                self.overwrite(start, start + data.len, random);
                data
            }
        }
    }

    /// With zeros or noise, in whole sectors.
    fn overwrite(&self, start: u64, end: u64, random: &mut Random) {
        let mut bytes = vec![0; (end - start) as usize];
        if random.coin() {
            random.fill(&mut bytes);
        }
        let mut home = self.home.borrow_mut();
        let extent = Extent::new(start, end - start);
        let write = home.begin_write(extent, Payload::Bytes(bytes.into()), Durability::Durable);
        home.complete_write(write);
    }

    /// Whether a salvage gives what is there, and names what is not, within `nameable`.
    fn judge(&self, seed: u64, nameable: Extent) -> Result<(), Violation> {
        let known = KnownVolume {
            volume: VOLUME,
            size_bytes: self.bytes.len() as u64,
            atomic_max_bytes: 16384,
            log_bytes: None,
            sizes_before: SizesBefore::default(),
            separate_log: true,
            is_ring: false,
            heads: MirrorHeads::default(),
        };
        let (found, named) = run_whole(seed, async |env, cuts| {
            let device = SimDrive::open(Rc::clone(&self.home), env.clone(), cuts, DriveOptions::default());
            let home = vec![Part { device, offset: 0, place: 0 }];
            // It was stopped in order: nothing of the log is needed.
            let remains =
                Available { home, log: Vec::new(), is_log_in_parts: false, arena: None, causes: Vec::new() };
            let opened = salvage::open(env, remains, &known, OpenOptions::default(), |_, _| ()).await?;
            let (mut found, mut named) = (vec![0; self.bytes.len()], opened.named.clone());
            opened.read(0, &mut found, &mut named).await;
            Ok::<_, Error>((found, named))
        })
        .map_err(Violation::of)?;
        if let Some(beyond) = named.ranges().iter().find(|range| !nameable.holds(&range.extent)) {
            let condition = beyond.condition.name();
            let what = format!("{:?} is named {condition}, and {nameable:?} alone was harmed", beyond.extent);
            return Err(Violation::of(what));
        }
        let mut on_drive = vec![0; PAGE_BYTES as usize];
        for page in 0..self.layout.pages {
            let extent = Extent::new(page * PAGE_BYTES, PAGE_BYTES);
            let range = extent.offset as usize..extent.end() as usize;
            let (wanted, given) = (&self.bytes[range.clone()], &found[range]);
            if given == wanted {
                continue;
            }
            self.home.borrow().read_durable(self.layout.page_offset(page), &mut on_drive);
            // Of a page of zeros only its sum tells that it is one.
            if on_drive == wanted && wanted.iter().any(|&byte| byte != 0) {
                return Err(Violation::of(format!("page {page} is on the drive, and was not given")));
            }
            if !named.touches(&extent) {
                return Err(Violation::of(format!("page {page} is not what it was, and is not named")));
            }
        }
        Ok(())
    }
}

/// Up to 32 pages in a row.
fn run_of_pages(random: &mut Random, pages: u64) -> Extent {
    let count = 1 + random.below(32);
    Extent::new(random.below(pages - count) * PAGE_BYTES, count * PAGE_BYTES)
}

/// A run that nothing cuts short.
fn run_whole<T>(seed: u64, story: impl AsyncFnOnce(SimEnv, Cuts) -> T) -> T {
    let mut executor = Executor::new(seed);
    let cuts = Cuts::none(executor.stop());
    let story = story(executor.env(), cuts);
    executor.block_on(story).expect("nothing cuts it")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_drive_holds_is_given_and_what_is_not_right_is_named() {
        for seed in 0..60 {
            if let Err(violation) = run(seed) {
                panic!("seed {seed}: {}", violation.what);
            }
        }
    }
}
