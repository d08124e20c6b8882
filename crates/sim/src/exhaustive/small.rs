//! What a seed draws: a volume so small, and clients that do so little, that every crash can be tried.

use evenkeel_engine::format::PAGE;
use evenkeel_engine::format::layout::SUMS_PER_TABLE_PAGE;
use evenkeel_engine::format::record::TAG_BYTES;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions, Tuning};

use crate::places::Places;
use crate::random::Random;
use crate::workload::Habits;

/// Bytes that clients know.
pub(super) const SIZE_BYTES: u64 = 8 * 4096;

/// The small volume, drawn from its seed.
pub(super) struct Small {
    pub(super) seed: u64,
    pub(super) create: CreateOptions,
    pub(super) open: OpenOptions,
    pub(super) sector_bytes: u32,
    pub(super) atomic_sectors: bool,
    /// Whether the run whose crashes are tried begins with the recovery from another crash.
    pub(super) begins_crashed: bool,
    pub(super) habits: Habits,
    /// Whether the system keeps what it reads of the first drive in memory, as it was then.
    pub(super) has_cache: bool,
}

/// Portions as small as there are.
fn least(random: &mut Random) -> Tuning {
    Tuning {
        small_max_bytes: *random.pick(&[0, 1000]),
        rescanned_max: random.index(2),
        crowded_min: 2 + random.index(3),
        turn_pages_max: 1,
        home_write_pages_max: 1 + random.index(2),
        discard_pages_max: 2,
        homecoming_pages_min: 1,
        shared_bulk_max_bytes: 1,
        shared_home_max_bytes: 1,
        bulk_min_bytes: 0,
        kept_pages_max: 1,
        table_pages_max: Some(1),
        ..Tuning::default()
    }
}

impl Small {
    /// That of `seed`, whose clients do so many operations together.
    pub(super) fn draw(seed: u64, operations: u64) -> Self {
        let mut random = Random::new(seed ^ 0xe4);
        let sector_bytes = if seed % 4 < 2 { 512 } else { 4096 };
        // One in five drives may leave a sector neither old nor new; there the log holds images of pages.
        let atomic_sectors = seed % 5 != 3;
        let log_bytes = match (atomic_sectors, sector_bytes) {
            (true, 512) => 32 << 10,
            (true, _) => 112 << 10,
            (false, _) => 880 << 10,
        };
        let journaling = match random.below(5) {
            0..3 => Journaling::Wasteless,
            3 => Journaling::Selective { threshold_bytes: 8192 },
            _ => *random.pick(&[Journaling::WholePages, Journaling::Ordered]),
        };
        let clients = 1 + random.below(2);
        // Every other one has several pages in its table, says little at once and is given portions as small as any.
        let mut more = Random::new(seed ^ 0x7e41);
        let is_apart = more.coin();
        let (places, tuning, log_bytes) = match is_apart {
            false => (Places::together(SIZE_BYTES), Tuning::default(), log_bytes),
            true => {
                let (announced_max_bytes, log_bytes) = match (atomic_sectors, sector_bytes) {
                    (true, 512) => (7 * TAG_BYTES, 64 << 10),
                    (true, _) => (9 * TAG_BYTES, 320 << 10),
                    (false, 512) => (TAG_BYTES + PAGE, 960 << 10),
                    (false, _) => (5 * (TAG_BYTES + PAGE), 1120 << 10),
                };
                let tuning = Tuning { announced_max_bytes, ..least(&mut more) };
                (Places::apart(SIZE_BYTES, 3, SUMS_PER_TABLE_PAGE - 1, 260), tuning, log_bytes)
            }
        };
        Self {
            seed,
            create: CreateOptions { size_bytes: places.volume_bytes(), log_bytes, atomic_max_bytes: 4096 },
            open: OpenOptions {
                journaling,
                batch_max_bytes: 4096 << random.below(2),
                commits_in_flight_max: 1 + random.index(2),
                home_writes_max: 1 + (seed % 3) as usize,
                cached_pages_max: 16,
                dirty_pages_max: 16_384,
                tuning,
            },
            sector_bytes,
            atomic_sectors,
            begins_crashed: random.coin(),
            habits: Habits {
                clients,
                operations: operations / clients,
                stripe_bytes: 5000,
                places,
                atomic_max_bytes: 4096,
                large_share: 0.15,
                atomic_writes: matches!(journaling, Journaling::Wasteless | Journaling::Selective { .. }),
                flushes_beside_all: false,
            },
            has_cache: is_apart,
        }
    }

    /// The same with all its pages side by side, and nothing of them in memory: whoever copies all of it copies little.
    pub(super) fn together(mut self) -> Self {
        self.habits.places = Places::together(SIZE_BYTES);
        self.create.size_bytes = SIZE_BYTES;
        self.has_cache = false;
        self
    }
}
