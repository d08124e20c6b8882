//! Seeds of mirrors.

use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};
use evenkeel_engine::ring::{Policy, RingOptions, WindowOptions};

use super::beyond::Beyond;
use super::setup::{GROWS, STRIPED_GROWS, draw_log_bytes, draw_places, draw_tuning};
use super::{Machine, Outcome, Seeded, Setup, simulate};
use crate::growing::Growths;
use crate::latency::Latency;
use crate::oracle::Violation;
use crate::places::Places;
use crate::random::Random;
use crate::testbed::Mirror;
use crate::workload::Habits;

impl Seeded for Mirror {
    type Ending = Beyond;

    const SALT: u64 = 0x41b5;

    const RECOVERY_EVENTS: u64 = 100;

    fn draw(seed: u64, cuts: u32, members: Option<usize>) -> Setup<Self> {
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
        let logs = *random.pick(&[1, 2, 2, 2, 3]);
        let create = CreateOptions { size_bytes: places.volume_bytes(), log_bytes, atomic_max_bytes };
        let open = OpenOptions {
            journaling,
            batch_max_bytes: 4096 << random.below(5),
            commits_in_flight_max: 1 + random.index(3),
            home_writes_max: 1 + random.index(4),
            cached_pages_max: 1 << random.below(6),
            dirty_pages_max: if random.coin() { 16_384 } else { 8 + random.index(24) },
            tuning: draw_tuning(atomic_sectors, sector_bytes, &mut random),
        };
        let ring = draw_ring(&mut random);
        let mirror = Self { members, logs, ring, journal_bytes: 0 }.with_journal_of(&create);
        let has_log_on_members = Random::new(seed ^ 0x109e).chance(0.3);
        let setup = Setup {
            seed,
            cuts,
            testbed: if has_log_on_members { mirror.with_log_on_members(&create) } else { mirror },
            sector_bytes,
            atomic_sectors,
            create,
            open,
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
            goes_on_until_enough: false,
            idle_runs: false,
            stale_share: None,
            keeps_cache: false,
            moves: false,
            scrub_bytes_per_s: random.chance(0.3).then(|| 1 << (18 + random.below(12))),
            checkpoints: random.coin(),
            fault_share: *random.pick(&[0.0, 0.5, 0.8, 1.0]),
            ending: Beyond::draw(&mut random),
            has_network: Random::new(seed ^ 0x6e62).chance(0.25),
            growths: Growths { first_bytes: places.volume_bytes(), ..Growths::default() },
            latency: Latency { slow_writes_one_in: *random.pick(&[0, 0, 5, 30]), ..Latency::default() },
        };
        setup.perhaps_growing(GROWS)
    }

    fn simulate(setup: Setup<Self>, is_told: bool) -> (Vec<String>, Result<Outcome, Violation>) {
        simulate(setup, is_told)
    }

    fn end(machine: &mut Machine<Self>) -> Result<(), Violation> {
        machine.go_beyond(machine.setup.ending)
    }
}

/// Seeds of stripes, with two cuts, that broke a promise once.
pub const STRIPED_ONCE_BROKEN: [(u64, (usize, usize)); 16] = [
    (602, (4, 2)),
    (1217, (4, 2)),
    (1774, (4, 2)),
    (2031, (4, 2)),
    (2332, (4, 2)),
    (3534, (2, 1)),
    (10_182, (4, 2)),
    (10_741, (4, 2)),
    (50_002_137, (4, 2)),
    (70_006_888, (4, 2)),
    (71_016_943, (4, 2)),
    (80_008_632, (4, 2)),
    (50_100_543, (2, 1)),
    (60_013_652, (2, 1)),
    (85_033_637, (2, 1)),
    (111_376, (2, 1)),
];

/// The same, since seeds grow, and replace log devices; the last two since drives held something before, and rot.
pub const STRIPED_BROKEN_SINCE: [(u64, (usize, usize)); 5] =
    [(64_482, (2, 1)), (159_533, (2, 1)), (169_342, (2, 1)), (21_773, (2, 1)), (22_101, (4, 2))];

/// What a seed stands for on a ring with stripes.
pub fn draw_striped(seed: u64, cuts: u32, (data, parity): (usize, usize)) -> Setup<Mirror> {
    let mut setup = Mirror::draw(seed, cuts, Some(data + parity));
    let mut random = Random::new(seed ^ 0x57a1);
    setup.testbed.ring.stripes = Stripes::new(data, parity, *random.pick(&[4096, 8192, 16384, 65_536]));
    (setup.testbed.ring.log_bytes, setup.testbed.logs) = (0, *random.pick(&[1, 2, 2, 3]));
    setup.create.size_bytes = setup.habits.places.volume_bytes();
    setup.growths = Growths { first_bytes: setup.habits.places.volume_bytes(), ..Growths::default() };
    if setup.ending == Beyond::RotEverywhere {
        setup.ending = Beyond::StripeLogUnread;
    }
    setup.perhaps_growing(STRIPED_GROWS)
}

/// Turns so short that a run has many, and a rebuild of many pieces.
pub(crate) fn draw_ring(random: &mut Random) -> RingOptions {
    let policies = [
        Policy::Turns,
        Policy::Auto,
        Policy::Turns,
        Policy::Auto,
        Policy::Mixed,
        Policy::ReadFirst,
        Policy::ReadAround,
    ];
    let ring = RingOptions {
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
        ..RingOptions::default()
    };
    // As much as a rebuild copies, so that no seed is another for it.
    RingOptions { settled_bytes: ring.rebuild_piece_bytes, ..ring }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_that_once_broke_a_promise_stay_what_they_were() {
        for (seed, shape) in STRIPED_ONCE_BROKEN {
            let setup = draw_striped(seed, 2, shape);
            assert_eq!((setup.growths.count, setup.logs_replaced_share()), (0, 0.0), "seed {seed}");
        }
        for (seed, shape) in STRIPED_ONCE_BROKEN.into_iter().chain(STRIPED_BROKEN_SINCE).take(19) {
            let setup = draw_striped(seed, 2, shape);
            let is_other =
                setup.has_used_drives() || setup.rots_beneath_rebuilds() || setup.ends_log_replaced();
            assert!(!is_other, "seed {seed}");
        }
    }
}
