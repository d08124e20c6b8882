//! What a seed stands for.

use evenkeel_engine::device::Geometry;
use evenkeel_engine::format::layout::log_bytes_with_superblocks;
use evenkeel_engine::format::{PAGE_BYTES, ring_head};
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};
use evenkeel_engine::ring::{Policy, RingOptions, WindowOptions};

use super::beyond::Beyond;
use crate::faults::FailingDiscards;
use crate::growing::Growths;
use crate::latency::Latency;
use crate::places::Places;
use crate::random::Random;
use crate::scenario::setup::{draw_log_bytes, draw_places, draw_tuning};
use crate::workload::Habits;

/// What is simulated, all of it drawn from a seed.
#[derive(Debug, Clone, Copy)]
pub struct Setup {
    /// The seed.
    pub seed: u64,
    /// Lives that a cut may end, before what goes beyond the redundancy.
    pub cuts: u32,
    /// Members of the ring.
    pub members: usize,
    /// Log devices; 0 where the log is on the members ([`RingOptions::log_bytes`]).
    pub logs: usize,
    /// Sector of all drives.
    pub sector_bytes: u32,
    /// Whether the drives promise old or new sectors.
    pub atomic_sectors: bool,
    /// How the volume is made.
    pub create: CreateOptions,
    /// How it is opened.
    pub open: OpenOptions,
    /// How the ring is run.
    pub ring: RingOptions,
    /// Bytes of the arena.
    pub arena_bytes: usize,
    /// What its clients do.
    pub habits: Habits,
    /// Bytes a second that are scrubbed in the background, if any.
    pub scrub_bytes_per_s: Option<u64>,
    /// Whether everything is taken home again and again, as it comes.
    pub checkpoints: bool,
    /// Share of the lives in which something goes wrong.
    pub mishaps: f64,
    /// What the drives take.
    pub latency: Latency,
    /// What goes wrong in the end, beyond what the redundancy bears.
    pub beyond: Beyond,
    /// Whether a network is between the volume and its devices, each by connections of its own, which delivers what a killed
    /// process sent when it likes.
    pub has_network: bool,
    /// How the volume grows, from the size that it is made with to all of its clients' places.
    pub growths: Growths,
}

impl Setup {
    /// What `seed` stands for, with so many members, or as many as the seed says.
    pub fn draw(seed: u64, cuts: u32, members: Option<usize>) -> Self {
        let mut random = Random::new(seed ^ 0x3177);
        let drawn = *random.pick(&[1, 2, 2, 2, 2, 3, 3, 3]);
        let members = members.unwrap_or(drawn);
        let atomic_sectors = random.chance(0.75);
        let sector_bytes = *random.pick(&[512, 512, 4096]);
        let pages = 16 + random.below(32);
        let places = match random.chance(0.9) {
            true => Places::together(pages * 4096),
            false => draw_places(pages.min(20), &mut random),
        };
        let log_bytes = draw_log_bytes(atomic_sectors, sector_bytes, &mut random);
        let atomic_max_bytes = *random.pick(&[8192, 16384]);
        let journaling = match random.below(10) {
            0..7 => Journaling::Wasteless,
            7 => Journaling::Selective { threshold_bytes: atomic_max_bytes },
            8 => Journaling::WholePages,
            _ => Journaling::Ordered,
        };
        let stripe_bytes = 3000 + random.below(40_000);
        let clients = (1 + random.below(3)).min((places.known_bytes).div_ceil(stripe_bytes));
        let mut drawn = Self {
            seed,
            cuts,
            members,
            logs: *random.pick(&[1, 2, 2, 2, 3]),
            sector_bytes,
            atomic_sectors,
            create: CreateOptions { size_bytes: places.volume_bytes(), log_bytes, atomic_max_bytes },
            open: OpenOptions {
                journaling,
                batch_max_bytes: 4096 << random.below(5),
                commits_in_flight_max: 1 + random.index(3),
                home_writes_max: 1 + random.index(4),
                cached_pages_max: 1 << random.below(6),
                dirty_pages_max: if random.coin() { 16_384 } else { 8 + random.index(24) },
                tuning: draw_tuning(atomic_sectors, sector_bytes, &mut random),
            },
            ring: draw_ring(&mut random),
            arena_bytes: (80 << 10) + (random.index(10) << 13),
            habits: Habits {
                clients,
                operations: 120 / clients / u64::from(cuts).max(1),
                stripe_bytes,
                places,
                atomic_max_bytes,
                large_share: 0.1,
                // The baselines write whole pages, and with them what others wrote there: they promise less.
                atomic_writes: matches!(journaling, Journaling::Wasteless | Journaling::Selective { .. }),
                flushes_beside_all: false,
            },
            scrub_bytes_per_s: random.chance(0.3).then(|| 1 << (18 + random.below(12))),
            checkpoints: random.coin(),
            mishaps: *random.pick(&[0.0, 0.5, 0.8, 1.0]),
            beyond: Beyond::draw(&mut random),
            has_network: Random::new(seed ^ 0x6e62).chance(0.25),
            growths: Growths { first_bytes: places.volume_bytes(), ..Growths::default() },
            latency: Latency { slow_writes_one_in: *random.pick(&[0, 0, 5, 30]), ..Latency::default() },
        };
        let mut growing = Random::new(seed ^ 0x6707);
        let growths = if growing.chance(0.2) { Growths::draw(&drawn.habits, &mut growing) } else { None };
        if let Some(growths) = growths {
            drawn.create.size_bytes = growths.first_bytes;
            drawn.growths = growths;
        }
        if Random::new(seed ^ 0x109e).chance(0.3) { drawn.with_log_on_members() } else { drawn }
    }

    /// The same without log devices.
    fn with_log_on_members(mut self) -> Self {
        self.logs = 0;
        self.ring.log_bytes = log_bytes_with_superblocks(self.create.log_bytes.next_multiple_of(PAGE_BYTES));
        self
    }

    /// Discards that fail on the member of this number, which is as well as any.
    pub(super) fn failing_discards(&self, number: usize) -> Option<FailingDiscards> {
        FailingDiscards::draw(&mut Random::new(self.seed ^ 0xd15c ^ ((number as u64) << 32)))
    }

    /// Whether the log is on the members.
    pub(super) fn has_log_on_members(&self) -> bool {
        self.ring.log_bytes > 0
    }

    /// Whether cuts come soon after a member was left out: a log that it had alone is taken home then.
    pub(super) fn ends_left_out(&self) -> bool {
        self.has_log_on_members() && Random::new(self.seed ^ 0x1e7f).chance(0.4)
    }

    /// Where on a member its pages begin.
    pub(super) fn data_offset(&self) -> u64 {
        ring_head::DATA_OFFSET + self.ring.log_bytes
    }

    pub(super) fn geometry(&self, size_bytes: u64) -> Geometry {
        let Self { sector_bytes, atomic_sectors, .. } = *self;
        Geometry { size_bytes, sector_bytes, atomic_sectors }
    }
}

/// Turns so short that a life has many, and a rebuild of many pieces.
pub(crate) fn draw_ring(random: &mut Random) -> RingOptions {
    let policies = [Policy::Turns, Policy::Turns, Policy::Mixed, Policy::ReadFirst, Policy::ReadAround];
    RingOptions {
        policy: *random.pick(&policies),
        turn_ns: *random.pick(&[100_000, 1_000_000, 5_000_000]),
        rest_ns: *random.pick(&[0, 50_000, 500_000]),
        rest_max_ns: *random.pick(&[100_000, 2_000_000]),
        window: WindowOptions {
            fixed: *random.pick(&[None, None, None, Some(0), Some(1), Some(2)]),
            ..WindowOptions::default()
        },
        depth_max: 1 + random.index(5),
        answer_max_ns: 20_000_000,
        log_bytes: 0,
        given_up: 0,
        rebuild_bytes_per_s: *random.pick(&[1 << 24, 1 << 27, 1 << 40]),
        rebuild_piece_bytes: *random.pick(&[4096, 20_480, 65_536, 256 << 10]),
    }
}
