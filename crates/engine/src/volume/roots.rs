//! The two places of the root: read at the opening, written at checkpoints.
//!
//! The place that the superblock names holds the current root, durably. The cuts, and what is left of each place:
//!
//! | a cut                                           | the named place | the other one                       |
//! |-------------------------------------------------|-----------------|-------------------------------------|
//! | while a checkpoint writes to the other one      | whole           | old and new, torn                   |
//! | between its flush and the superblock            | whole           | the new root, whole; nobody names it |
//! | after the superblock, which names the other one | whole, new      | the root before                     |
//! | while that is brought up to date                | whole           | old and new, torn                   |
//! | after that                                      | whole           | the same, durable by the next flush |
//!
//! 1. A place is written only while the superblock in force names the other one.
//! 2. An opening takes each piece of the root from the place that is named, or where it is damaged there, from the
//!    other one if it fits there: of every copy that the device keeps. A piece that fits in none ends the opening.
//! 3. An opening takes no root but that of the newest superblock: the place that an older one names holds the newer root
//!    by then, in part or whole. What is left where the newest is lost is for a salvage, which reads the table.
//! 4. The root is read and written in runs: memory holds it once. To a store of units what it lacks is held once more, until it
//!    is written with what else is of its units.

use std::ops::Range;
use std::rc::Rc;

use super::Inner;
use super::home_writes::{HomeWrites, Outbound, Run};
use crate::counters::add;
use crate::device::{Extent, FlushScope};
use crate::env::{Arena, Env};
use crate::error::Error;
use crate::format::layout::Layout;
use crate::format::root::{WholeSum, piece_pages};
use crate::format::superblock::Superblock;
use crate::format::{PAGE, PAGE_BYTES, page_sum};
use crate::home::Root;
use crate::layout::{JournalStore, PageStore};
use crate::planted::{Bug, is_planted};

/// Pages of the root that are read or written at once; more where a piece has more.
const RUN_PAGES: usize = 64;

/// The pages of a root, in runs.
pub(super) fn runs_of(root_pages: usize) -> impl Iterator<Item = Range<usize>> {
    let run_pages = RUN_PAGES.max(piece_pages(root_pages));
    (0..root_pages).step_by(run_pages).map(move |start| start..root_pages.min(start + run_pages))
}

/// Reads the root that the superblock vouches for, and finds out what of it each place holds.
///
/// # Errors
///
/// [`Error::Unusable`] where a piece of it is nowhere; those of the device where none of it can be read.
pub(super) async fn read_root<H: PageStore>(
    device: &H,
    layout: &Layout,
    superblock: &Superblock,
) -> Result<Root, Error> {
    let named = superblock.root_slot;
    let sums = match superblock.whole_root_sum {
        None => read_pieces(device, layout, superblock).await?,
        Some(sum) => read_whole(device, layout.roots[usize::from(named)], sum).await?,
    };
    let mut root = Root::of(sums);
    for slot in [named, 1 - named] {
        let zone = layout.roots[usize::from(slot)];
        let wrong = look_at(device, zone, slot, &mut root).await;
        // Another copy of the device may be lost before this place is written anew.
        for page in wrong.into_iter().filter(|_| slot == named && device.traits().is_replicated) {
            let sum = root.page_sums()[page];
            root.vouch_for(slot, page, sum);
            device.repair(zone.offset + (page * PAGE) as u64, &root.page(page)).await?;
        }
    }
    Ok(root)
}

async fn read_pieces<H: PageStore>(
    device: &H,
    layout: &Layout,
    superblock: &Superblock,
) -> Result<Vec<u64>, Error> {
    let root_pages = (layout.roots[0].len / PAGE_BYTES) as usize;
    let piece_pages = piece_pages(root_pages);
    let mut sums = Vec::with_capacity(root_pages * PAGE / 8);
    let is_right = |piece: usize, bytes: &[u8]| {
        let page_sums: Vec<u64> = bytes.chunks_exact(PAGE).map(page_sum).collect();
        superblock.root_sums.is_right(piece, &page_sums)
    };
    let slots = match is_planted(Bug::OneRootRead) {
        false => vec![superblock.root_slot, 1 - superblock.root_slot],
        true => vec![superblock.root_slot],
    };
    let place = |slot: u8, page: usize| layout.roots[usize::from(slot)].offset + (page * PAGE) as u64;
    for run in runs_of(root_pages) {
        let mut bytes = vec![0; run.len() * PAGE];
        let read = device.read(place(superblock.root_slot, run.start), &mut bytes).await;
        for (piece, bytes) in (run.start / piece_pages..).zip(bytes.chunks_mut(piece_pages * PAGE)) {
            if read.is_err() || !is_right(piece, bytes) {
                let offsets = slots.iter().map(|&slot| place(slot, piece * piece_pages));
                if !read_from_any(device, offsets, bytes, |bytes| is_right(piece, bytes)).await {
                    return Err(damaged());
                }
            }
        }
        sums.extend(words(&bytes));
    }
    Ok(sums)
}

/// Whether a place of the root holds other than the superblock vouches for.
pub(super) async fn wrong_pieces<H: PageStore>(
    device: &H,
    layout: &Layout,
    superblock: &Superblock,
    slot: u8,
) -> bool {
    let zone = layout.roots[usize::from(slot)];
    let root_pages = (zone.len / PAGE_BYTES) as usize;
    let (piece_pages, mut whole) = (piece_pages(root_pages), WholeSum::default());
    for run in runs_of(root_pages) {
        let mut bytes = vec![0; run.len() * PAGE];
        if device.read(zone.offset + (run.start * PAGE) as u64, &mut bytes).await.is_err() {
            return true;
        }
        whole.take(&bytes);
        let mut pieces = (run.start / piece_pages..).zip(bytes.chunks(piece_pages * PAGE));
        let is_wrong = |(piece, bytes): (usize, &[u8])| {
            let page_sums: Vec<u64> = bytes.chunks_exact(PAGE).map(page_sum).collect();
            !superblock.root_sums.is_right(piece, &page_sums)
        };
        if superblock.whole_root_sum.is_none() && pieces.any(is_wrong) {
            return true;
        }
    }
    superblock.whole_root_sum.is_some_and(|sum| whole.sum() != sum)
}

/// Reads `into` from the first of these places, and the first copy there, that `is_right`; false where none is.
async fn read_from_any<H: PageStore>(
    device: &H,
    offsets: impl Iterator<Item = u64>,
    into: &mut [u8],
    is_right: impl Fn(&[u8]) -> bool,
) -> bool {
    for offset in offsets {
        for copy in (0..device.replicas()).filter(|&copy| device.has_replica(copy)) {
            if device.read_replica(copy, offset, into).await.is_ok() && is_right(into) {
                return true;
            }
        }
    }
    false
}

/// The root of a superblock of version 1, which vouches for it as a whole, in one place.
async fn read_whole<H: PageStore>(device: &H, zone: Extent, sum: u64) -> Result<Vec<u64>, Error> {
    let root_pages = (zone.len / PAGE_BYTES) as usize;
    for copy in (0..device.replicas()).filter(|&copy| device.has_replica(copy)) {
        let (mut sums, mut found) = (Vec::with_capacity(root_pages * PAGE / 8), WholeSum::default());
        for run in runs_of(root_pages) {
            let mut bytes = vec![0; run.len() * PAGE];
            if device.read_replica(copy, zone.offset + (run.start * PAGE) as u64, &mut bytes).await.is_err() {
                break;
            }
            found.take(&bytes);
            sums.extend(words(&bytes));
        }
        if sums.len() == root_pages * PAGE / 8 && found.sum() == sum {
            return Ok(sums);
        }
    }
    Err(damaged())
}

/// Notes which pages of the root a place holds, on every copy of the device; answers the others, which are written anew.
async fn look_at<H: PageStore>(device: &H, zone: Extent, slot: u8, root: &mut Root) -> Vec<usize> {
    let mut wrong = Vec::new();
    let sums = root.page_sums().to_vec();
    for run in runs_of(root.pages()) {
        let mut bytes = vec![0; run.len() * PAGE];
        let mut is_right = vec![true; run.len()];
        for copy in (0..device.replicas()).filter(|&copy| device.has_replica(copy)) {
            let offset = zone.offset + (run.start * PAGE) as u64;
            let is_read = device.read_replica(copy, offset, &mut bytes).await.is_ok();
            for ((is_right, page), sum) in
                is_right.iter_mut().zip(bytes.chunks_exact(PAGE)).zip(&sums[run.clone()])
            {
                *is_right &= is_read && page_sum(page) == *sum;
            }
        }
        for (page, is_right) in run.zip(is_right) {
            match is_right {
                true => root.found_at(slot, page, sums[page]),
                false => wrong.push(page),
            }
        }
    }
    wrong
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("chunks are words")))
}

fn damaged() -> Error {
    Error::Unusable("the root of the table of sums is damaged".to_owned())
}

impl<E: Env, A: Arena, H: PageStore, L: JournalStore> Inner<E, A, H, L> {
    /// What a place of the root, which the superblock in force does not name, lacks, one run after the other: it is written from
    /// now on.
    pub(super) fn begin_root(&self, slot: u8) -> impl Iterator<Item = (u64, Run)> {
        let lacking: Vec<u64> =
            self.home.table.begin_root(slot).into_iter().map(|page| page as u64).collect();
        let zone = self.home.layout().roots[usize::from(slot)];
        let of_run = |run: Range<u64>| {
            let starts = run.clone().step_by(RUN_PAGES);
            starts.map(move |start| start..run.end.min(start + RUN_PAGES as u64))
        };
        let pieces: Vec<Range<u64>> =
            super::checkpoint::runs(&lacking).into_iter().flat_map(of_run).collect();
        pieces.into_iter().map(move |pages| {
            let place = zone.offset + pages.start * PAGE_BYTES;
            let mut bytes = Vec::with_capacity(pages.clone().count() * PAGE);
            for page in pages {
                bytes.extend_from_slice(&self.home.table.root_page(page as usize));
            }
            add(&self.counters.table_bytes, bytes.len() as u64);
            add(&self.counters.root_bytes, bytes.len() as u64);
            (place, Run::Bytes(bytes))
        })
    }

    /// Brings the place of the root up to date that the superblock in force does not name. The next flush makes that
    /// durable, and the next superblock may name it.
    pub(super) async fn write_second_root(self: &Rc<Self>) -> Result<(), Error> {
        self.write_root_at(self.superblocks.inactive_root()).await
    }

    pub(super) async fn write_root_at(self: &Rc<Self>, slot: u8) -> Result<(), Error> {
        let writes = HomeWrites::new(self);
        for run in self.begin_root(slot) {
            writes.begin(Outbound::Runs(vec![run])).await;
        }
        writes.all_done().await?;
        self.home.table.root_is_written();
        Ok(())
    }

    /// Makes durable that both places hold the root: the last thing that is written home in order.
    pub(super) async fn settle_roots(self: &Rc<Self>) -> Result<(), Error> {
        let _turn = self.write_back.writer.take().await;
        self.check_alive()?;
        let settled = async {
            self.write_second_root().await?;
            Ok(self.home.device.flush(FlushScope::Whole).await?)
        };
        let guard = self.to_the_end();
        let settled = settled.await;
        guard.done();
        if let Err(error) = &settled {
            self.latch(Error::clone(error));
        }
        settled
    }
}
