//! What a seed stands for.

use evenkeel_engine::device::Geometry;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};

use super::trouble::Trouble;
use crate::random::Random;
use crate::workload::Habits;

/// What is simulated, all of it drawn from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// Lives that end in a cut.
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
    /// What the drives do wrong after the last life, beyond losing power.
    pub trouble: Trouble,
}

impl Setup {
    /// What `seed` stands for.
    pub fn draw(seed: u64, cuts: u32) -> Self {
        let mut random = Random::new(seed);
        let atomic_sectors = random.chance(0.75);
        let sector_bytes = *random.pick(&[512, 512, 4096]);
        let pages = 24 + random.below(60);
        let log_bytes = match atomic_sectors {
            true => (96 + random.below(160)) << 10,
            false => (1 << 20) + (random.below(256) << 10),
        };
        let atomic_max_bytes = *random.pick(&[8192, 16384]);
        let journaling = match random.below(10) {
            0..6 => Journaling::Wasteless,
            6..8 => Journaling::Selective { threshold_bytes: atomic_max_bytes },
            8 => Journaling::WholePages,
            _ => Journaling::Ordered,
        };
        let stripe_bytes = 3000 + random.below(40_000);
        let clients = (1 + random.below(4)).min((pages * 4096).div_ceil(stripe_bytes));
        Self {
            seed,
            cuts,
            separate_log: random.coin(),
            sector_bytes,
            atomic_sectors,
            create: CreateOptions { size_bytes: pages * 4096, log_bytes, atomic_max_bytes },
            open: OpenOptions {
                journaling,
                batch_max_bytes: 4096 << random.below(5),
                commits_in_flight_max: 1 + random.index(3),
                home_writes_max: 1 + random.index(4),
                cached_pages_max: 1 << random.below(7),
                dirty_pages_max: 16_384,
            },
            arena_bytes: (80 << 10) + (random.index(10) << 13),
            habits: Habits {
                clients,
                operations: 200 / clients / u64::from(cuts).max(1),
                stripe_bytes,
                size_bytes: pages * 4096,
                atomic_max_bytes,
                large_share: 0.15,
                // The baselines write whole pages, and with them what others wrote there: they promise less.
                atomic_writes: matches!(journaling, Journaling::Wasteless | Journaling::Selective { .. }),
            },
            idle_lives: random.chance(0.2),
            trouble: Trouble::draw(&mut random),
        }
    }

    pub(super) fn geometry(&self, size_bytes: u64) -> Geometry {
        let Self { sector_bytes, atomic_sectors, .. } = *self;
        Geometry { size_bytes, sector_bytes, atomic_sectors }
    }
}
