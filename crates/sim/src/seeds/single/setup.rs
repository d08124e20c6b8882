//! What a seed on one drive stands for.

use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};

use super::trouble::Trouble;
use crate::growing::Growths;
use crate::latency::Latency;
use crate::random::Random;
use crate::seeds::OPERATIONS_MIN;
use crate::seeds::setup::{GROWS, Setup, draw_log_bytes, draw_places, draw_tuning};
use crate::testbed::Single;
use crate::workload::Habits;

impl Setup<Single> {
    /// What `seed` stands for.
    pub(super) fn draw_single(seed: u64, cuts: u32) -> Self {
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
            testbed: Single { separate_log: random.coin() },
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
            goes_on_until_enough: true,
            idle_runs: random.chance(0.2),
            stale_share: more.chance(0.7).then(|| *more.pick(&[0.0, 0.1, 0.5])),
            keeps_cache: more.coin(),
            has_network: Random::new(seed ^ 0x6e62).chance(0.25),
            moves: false,
            fault_share: 0.0,
            scrub_bytes_per_s: None,
            checkpoints: false,
            latency: Latency::default(),
            ending: Trouble::draw(&mut random),
            growths: Growths { first_bytes: places.volume_bytes(), ..Growths::default() },
        };
        // From a stream of their own, so that all other seeds are what they would be without these.
        let mut rare = Random::new(seed ^ 0x4c61);
        match rare.below(100) {
            0..6 => setup.part_lanes(&mut rare),
            6..14 => setup.even_records(&mut rare),
            14..24 => setup.move_about(&mut rare),
            24..32 => setup.write_large(&mut rare),
            _ => {}
        }
        setup.perhaps_growing(GROWS)
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
        self.idle_runs = true;
        self.habits.stripe_bytes = 3000 + random.below(4000);
        self.habits.clients = 4;
        self.habits.operations = operations_of_each(self.habits.clients, self.cuts);
        self.habits.atomic_max_bytes = 300;
        self.habits.large_share = 0.0;
    }

    /// Many clients whose writes go straight home side by side, on drives that take them.
    fn write_large(&mut self, random: &mut Random) {
        self.atomic_sectors = true;
        self.create.atomic_max_bytes = 8192;
        self.habits.atomic_max_bytes = 8192;
        self.open.journaling = match random.chance(0.7) {
            true => Journaling::Selective { threshold_bytes: 8192 },
            false => Journaling::Ordered,
        };
        self.habits.atomic_writes = self.open.journaling != Journaling::Ordered;
        self.create.log_bytes = draw_log_bytes(true, self.sector_bytes, random);
        self.open.tuning = draw_tuning(true, self.sector_bytes, random);
        // Those that only bulk waits for: else few of them would be side by side.
        self.open.tuning.small_max_bytes = 0;
        self.habits.stripe_bytes = 12_000 + random.below(12_000);
        self.habits.large_share = 0.7;
        let stripes = self.habits.places.known_bytes.div_ceil(self.habits.stripe_bytes);
        self.habits.clients = (3 + random.below(4)).min(stripes);
        self.habits.operations = operations_of_each(self.habits.clients, self.cuts);
    }

    /// A log and portions that are enough on drives of any kind.
    fn move_about(&mut self, random: &mut Random) {
        self.moves = true;
        self.create.log_bytes = draw_log_bytes(false, self.sector_bytes, random);
        self.open.tuning = draw_tuning(false, self.sector_bytes, random);
        self.cuts += 2;
    }
}

/// Operations of each client of a run that a cut may end.
fn operations_of_each(clients: u64, cuts: u32) -> u64 {
    OPERATIONS_MIN / clients / u64::from(cuts).max(1)
}
