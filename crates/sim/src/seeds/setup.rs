//! What a seed stands for, and what the draws of all layouts share.

use evenkeel_engine::device::Geometry;
use evenkeel_engine::format::layout::SUMS_PER_TABLE_PAGE;
use evenkeel_engine::format::record::TAG_BYTES;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};
use evenkeel_engine::options::{CreateOptions, OpenOptions, Tuning};

use super::Seeded;
use crate::faults::FailingDiscards;
use crate::growing::Growths;
use crate::latency::Latency;
use crate::places::Places;
use crate::random::Random;
use crate::workload::Habits;

/// What is simulated, all of it drawn from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Setup<T: Seeded> {
    /// The seed.
    pub seed: u64,
    /// Cuts, before what goes wrong in the end.
    pub cuts: u32,
    /// What the volume lies on.
    pub testbed: T,
    /// Sector of all drives.
    pub sector_bytes: u32,
    /// Whether the drives promise old or new sectors.
    pub atomic_sectors: bool,
    /// How the volume is made.
    pub create: CreateOptions,
    /// How it is opened.
    pub open: OpenOptions,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// What its clients do.
    pub habits: Habits,
    /// Whether runs follow one another until so many cuts struck, clients did
    /// [`OPERATIONS_MIN`](super::OPERATIONS_MIN) operations, a checkpoint was taken and the log went on from its start;
    /// otherwise there is one for each cut that may end it, and one more.
    pub goes_on_until_enough: bool,
    /// Whether every other run only opens the volume and takes it home, and is then switched off: what an earlier run left
    /// behind the end of the log is then still there.
    pub idle_runs: bool,
    /// Share of the writes that leave what the system in front of the first drive keeps in memory as it was; `None` where
    /// it keeps nothing.
    pub stale_share: Option<f64>,
    /// Whether it keeps that over a kill.
    pub keeps_cache: bool,
    /// Whether a network is between the volume and its drives, each by connections of its own, which delivers what a killed
    /// process sent when it likes.
    pub has_network: bool,
    /// Whether all of it is moved, once the power was cut, to drives with other sectors and promises.
    pub moves: bool,
    /// Share of the runs in which something goes wrong with drives that others stand in for.
    pub fault_share: f64,
    /// Bytes a second that are scrubbed in the background, if any.
    pub scrub_bytes_per_s: Option<u64>,
    /// Whether everything is taken home again and again, as it comes.
    pub checkpoints: bool,
    /// What the drives take.
    pub latency: Latency,
    /// What goes wrong in the end.
    pub ending: T::Ending,
    /// How the volume grows, from the size that it is made with to all of its clients' places.
    pub growths: Growths,
}

impl<T: Seeded> Setup<T> {
    /// Discards that fail on the drive of this number, which is as well as any.
    pub(super) fn failing_discards(&self, number: usize) -> Option<FailingDiscards> {
        let drawn = FailingDiscards::draw(&mut Random::new(self.seed ^ 0xd15c ^ ((number as u64) << 32)));
        drawn.filter(|_| T::IS_REDUNDANT || number == 0)
    }

    /// Whether cuts come soon after a device failed: a log that it had alone is taken home then.
    pub(super) fn ends_failed(&self) -> bool {
        self.testbed.is_log_spread() && Random::new(self.seed ^ 0x1e7f).chance(0.4)
    }

    /// Whether cuts come while a device that lacked writes is copied to, of some seeds, so that the others are what they were.
    pub(super) fn ends_copying(&self) -> bool {
        self.comes_back_share() > 0.0 && Random::new(self.seed ^ 0xc0b1).chance(0.3)
    }

    /// Share of the runs in which devices that are away come back while they go on.
    pub(super) fn comes_back_share(&self) -> f64 {
        if Random::new(self.seed ^ 0xbac4).chance(0.6) { 0.8 } else { 0.0 }
    }

    /// Share of the runs in which devices of the log are replaced while they go on: of some seeds, so that the others are
    /// what they were.
    pub(super) fn logs_replaced_share(&self) -> f64 {
        let may = self.testbed.log_drives() > 0;
        let salt = if self.testbed.stripe_log().is_some() { STRIPED_LOGS_REPLACED } else { 0x109d };
        if may && Random::new(self.seed ^ salt).chance(0.4) { 0.8 } else { 0.0 }
    }

    /// Whether cuts come soon after a device of the log was replaced, of some seeds, so that the others are what they were.
    pub(super) fn ends_log_replaced(&self) -> bool {
        let is_striped = self.testbed.stripe_log().is_some();
        is_striped
            && self.logs_replaced_share() > 0.0
            && Random::new(self.seed ^ LOG_REPLACED_LAST).chance(0.3)
    }

    /// Whether pages rot beneath a rebuild, of some seeds of stripes; of the others that have members, in each.
    pub(super) fn rots_beneath_rebuilds(&self) -> bool {
        self.testbed.stripe_log().is_none() || Random::new(self.seed ^ ROTS_BENEATH).chance(0.3)
    }

    /// Whether the drives held something before the volume was made, and those that replace them too: of some seeds, so that
    /// the others are what they were.
    pub(super) fn has_used_drives(&self) -> bool {
        Random::new(self.seed ^ USED).chance(0.25)
    }

    /// Of a drive of so many bytes.
    pub(crate) fn geometry(&self, size_bytes: u64) -> Geometry {
        let Self { sector_bytes, atomic_sectors, .. } = *self;
        Geometry { size_bytes, sector_bytes, atomic_sectors }
    }

    /// The same, where one of five volumes is made small and grows; which of them, the salt says.
    pub(super) fn perhaps_growing(mut self, salt: u64) -> Self {
        let mut random = Random::new(self.seed ^ salt);
        if random.chance(0.2)
            && let Some(growths) = Growths::draw(&self.habits, &mut random)
        {
            self.create.size_bytes = growths.first_bytes;
            self.growths = growths;
        }
        self
    }
}

/// Which volumes grow.
pub(super) const GROWS: u64 = 0x6707;

/// Which of those with stripes do, and of which the log devices are replaced: none of [`super::STRIPED_ONCE_BROKEN`], which are
/// what they were before seeds had that.
pub(super) const STRIPED_GROWS: u64 = 0x670b;
const STRIPED_LOGS_REPLACED: u64 = 0x1_0226;

/// Whose drives held something before: of none that once broke a promise.
const USED: u64 = 0x06c6;

/// In which of those with stripes pages rot beneath a rebuild: in none that once broke a promise.
const ROTS_BENEATH: u64 = 0x4937;

/// Which of those with stripes end soon after a device of the log was replaced: none that once broke a promise.
const LOG_REPLACED_LAST: u64 = 0x10ee;

/// Bytes of a log that such drives leave enough room in, and that a run or two fill.
pub(crate) fn draw_log_bytes(atomic_sectors: bool, sector_bytes: u32, random: &mut Random) -> u64 {
    match atomic_sectors {
        true if sector_bytes == 4096 => (112 + random.below(144)) << 10,
        true => (96 + random.below(160)) << 10,
        false => (1 << 20) + (random.below(256) << 10),
    }
}

/// So many pages in one piece, or in pieces near where the table of sums goes from one of its pages to the next.
pub(crate) fn draw_places(pages: u64, random: &mut Random) -> Places {
    if random.chance(0.4) {
        return Places::together(pages * PAGE_BYTES);
    }
    let piece = 4 + random.below(12);
    // Now and then half a table page apart.
    let stride = (SUMS_PER_TABLE_PAGE - 3 + random.below(7)) >> random.below(2);
    let first = SUMS_PER_TABLE_PAGE - random.below(piece + 1);
    Places::apart(pages * PAGE_BYTES, piece, first, stride)
}

/// Portions so small that a small volume has every seam of a large one; for some seeds those of a real one.
pub(crate) fn draw_tuning(atomic_sectors: bool, sector_bytes: u32, random: &mut Random) -> Tuning {
    if random.chance(0.2) {
        return Tuning::default();
    }
    // So few bytes that a checkpoint speaks in several records, and so many that the log has room for them.
    let announced_max_bytes = match (atomic_sectors, sector_bytes) {
        (true, 512) => TAG_BYTES * (12 + random.index(40)),
        (true, _) => TAG_BYTES * (64 + random.index(40)),
        // Images are whole pages.
        (false, 512) => (TAG_BYTES + PAGE) * (1 + random.index(4)) + random.index(2000),
        (false, _) => (TAG_BYTES + PAGE) * (5 + random.index(4)) + random.index(2000),
    };
    let tuning = Tuning {
        small_max_bytes: *random.pick(&[0, 1000, 4096, 10_000, 64 << 10]),
        rescanned_max: *random.pick(&[0, 1, 3, 64]),
        crowded_min: *random.pick(&[2, 4, 32]),
        turn_pages_max: *random.pick(&[1, 2, 5, 128]),
        announced_max_bytes,
        home_write_pages_max: *random.pick(&[1, 2, 64]),
        shared_bulk_max_bytes: *random.pick(&[1, 4096, 20_000, 192 << 10]),
        shared_home_max_bytes: *random.pick(&[1, 4096, 20_000, 256 << 10]),
        kept_pages_max: *random.pick(&[1, 3, 8]),
        table_pages_max: *random.pick(&[Some(1), Some(2), Some(4), None]),
        ..Tuning::default()
    };
    // Discards as long as writes, pages come home by as many as take turns, the system keeps long reads where turns are not of
    // two pages, and large writes go home by what is crowded, so that no seed is another for them.
    Tuning {
        discard_pages_max: tuning.home_write_pages_max as u64,
        homecoming_pages_min: tuning.turn_pages_max,
        system_keeps_long_reads: tuning.turn_pages_max != 2,
        bulk_min_bytes: match tuning.crowded_min {
            2 => 0,
            4 => 20_000,
            _ => tuning.bulk_min_bytes,
        },
        ..tuning
    }
}
