//! What a seed stands for.

use evenkeel_engine::device::Geometry;
use evenkeel_engine::format::layout::SUMS_PER_TABLE_PAGE;
use evenkeel_engine::format::record::TAG_BYTES;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions, Tuning};

use super::OPERATIONS_MIN;
use super::trouble::Trouble;
use crate::faults::FailingDiscards;
use crate::growing::Growths;
use crate::places::Places;
use crate::random::Random;
use crate::workload::Habits;

/// What is simulated, all of it drawn from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// Cuts that strike, before any trouble.
    pub cuts: u32,
    /// Whether the log has a device of its own.
    pub separate_log: bool,
    /// Sector of both drives.
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
    /// Whether every other life only opens the volume and takes it home, and is then switched off: what an
    /// earlier life left behind the end of the log is then still there.
    pub idle_lives: bool,
    /// Share of the writes that leave what the system in front of the home drive keeps in memory as it was; `None` where
    /// it keeps nothing.
    pub stale_share: Option<f64>,
    /// Whether it keeps that over a kill.
    pub keeps_cache: bool,
    /// Whether a network is between the volume and its drives, which delivers what a killed process sent when it likes.
    pub has_network: bool,
    /// Discards that fail on the home drive, which is as well as any, in every life.
    pub failing_discards: Option<FailingDiscards>,
    /// Whether all of it is moved, once the power was cut, to drives with other sectors and promises.
    pub moves: bool,
    /// What the drives do wrong after the last life, beyond losing power.
    pub trouble: Trouble,
    /// How the volume grows, from the size that it is made with to all of its clients' places.
    pub growths: Growths,
}

impl Setup {
    /// What `seed` stands for.
    pub fn draw(seed: u64, cuts: u32) -> Self {
        let mut random = Random::new(seed);
        let mut more = Random::new(seed ^ 0x7e41);
        let atomic_sectors = random.chance(0.75);
        let sector_bytes = *random.pick(&[512, 512, 4096]);
        let pages = 24 + random.below(60);
        let places = draw_places(pages, &mut more);
        let log_bytes = draw_log_bytes(atomic_sectors, sector_bytes, &mut random);
        let atomic_max_bytes = *random.pick(&[8192, 16384]);
        let journaling = match random.below(10) {
            0..6 => Journaling::Wasteless,
            6..8 => Journaling::Selective { threshold_bytes: atomic_max_bytes },
            8 => Journaling::WholePages,
            _ => Journaling::Ordered,
        };
        let stripe_bytes = 3000 + random.below(40_000);
        let clients = (1 + random.below(4)).min((pages * 4096).div_ceil(stripe_bytes));
        let mut setup = Self {
            seed,
            cuts,
            separate_log: random.coin(),
            sector_bytes,
            atomic_sectors,
            create: CreateOptions { size_bytes: places.volume_bytes(), log_bytes, atomic_max_bytes },
            open: OpenOptions {
                journaling,
                batch_max_bytes: 4096 << random.below(5),
                commits_in_flight_max: 1 + random.index(3),
                home_writes_max: 1 + random.index(4),
                cached_pages_max: 1 << random.below(7),
                dirty_pages_max: if more.coin() { 16_384 } else { 8 + more.index(24) },
                tuning: draw_tuning(atomic_sectors, sector_bytes, &mut more),
            },
            arena_bytes: (80 << 10) + (random.index(10) << 13),
            habits: Habits {
                clients,
                operations: operations_of_each(clients, cuts),
                stripe_bytes,
                places,
                atomic_max_bytes,
                large_share: 0.15,
                // The baselines write whole pages, and with them what others wrote there: they promise less.
                atomic_writes: matches!(journaling, Journaling::Wasteless | Journaling::Selective { .. }),
                flushes_beside_all: false,
            },
            idle_lives: random.chance(0.2),
            stale_share: more.chance(0.7).then(|| *more.pick(&[0.0, 0.1, 0.5])),
            keeps_cache: more.coin(),
            has_network: Random::new(seed ^ 0x6e62).chance(0.25),
            failing_discards: FailingDiscards::draw(&mut Random::new(seed ^ 0xd15c)),
            moves: false,
            trouble: Trouble::draw(&mut random),
            growths: Growths { first_bytes: places.volume_bytes(), ..Growths::default() },
        };
        // From a stream of their own, so that all other seeds are what they would be without these.
        let mut rare = Random::new(seed ^ 0x4c61);
        match rare.below(100) {
            0..6 => setup.part_lanes(&mut rare),
            6..14 => setup.even_records(&mut rare),
            14..24 => setup.move_about(&mut rare),
            _ => {}
        }
        let mut growing = Random::new(seed ^ 0x6707);
        if growing.chance(0.2)
            && let Some(growths) = Growths::draw(&setup.habits, &mut growing)
        {
            setup.create.size_bytes = growths.first_bytes;
            setup.growths = growths;
        }
        setup
    }

    /// The sizes that the volume has, one after the other.
    pub fn sizes(&self) -> Vec<u64> {
        self.growths.sizes(self.habits.places)
    }

    /// Lanes far apart: commits of one write each, and flushes that want some of what waits for another one, but sooner.
    fn part_lanes(&mut self, random: &mut Random) {
        self.open.batch_max_bytes = 512;
        self.open.commits_in_flight_max = 1;
        self.open.tuning.small_max_bytes = *random.pick(&[4096, 10_000]);
        self.habits.atomic_max_bytes = 2000;
        self.habits.flushes_beside_all = true;
    }

    /// Records nearly all of one length, many of them under way, and openings that write few: what one left behind the end
    /// of the log is then just where the next one's end is.
    fn even_records(&mut self, random: &mut Random) {
        (self.sector_bytes, self.atomic_sectors) = (4096, true);
        self.create.log_bytes = draw_log_bytes(true, 4096, random);
        self.open.tuning = draw_tuning(true, 4096, random);
        self.open.commits_in_flight_max = 4 + random.index(5);
        self.idle_lives = true;
        self.habits.stripe_bytes = 3000 + random.below(4000);
        self.habits.clients = 4;
        self.habits.operations = operations_of_each(self.habits.clients, self.cuts);
        self.habits.atomic_max_bytes = 300;
        self.habits.large_share = 0.0;
    }

    /// A log and portions that are enough on drives of any kind.
    fn move_about(&mut self, random: &mut Random) {
        self.moves = true;
        self.create.log_bytes = draw_log_bytes(false, self.sector_bytes, random);
        self.open.tuning = draw_tuning(false, self.sector_bytes, random);
        self.cuts += 2;
    }

    pub(super) fn geometry(&self, size_bytes: u64) -> Geometry {
        let Self { sector_bytes, atomic_sectors, .. } = *self;
        Geometry { size_bytes, sector_bytes, atomic_sectors }
    }
}

/// Operations of each client of a life that a cut may end.
fn operations_of_each(clients: u64, cuts: u32) -> u64 {
    OPERATIONS_MIN / clients / u64::from(cuts).max(1)
}

/// Bytes of a log that such drives leave enough room in, and that a life or two fill.
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
    // Discards as long as writes, so that no seed is another for them.
    Tuning { discard_pages_max: tuning.home_write_pages_max as u64, ..tuning }
}
