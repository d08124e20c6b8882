//! Every crash of a small workload: each event of its life as the last, times each subset of the sectors that
//! were not flushed then.
//!
//! Up to [`EXHAUSTIVE_SECTORS`] unflushed sectors every subset is tried, beyond that a sample that holds the
//! empty and the full one. Every so many states the recovery is cut too, at each of its own events, and the
//! volume opened once more. Sectors are old or new here; torn ones are the business of the seeds.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Geometry;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::Layout;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions};
use evenkeel_engine::volume::{Volume, create};

use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, Halt};
use crate::image::{Image, SharedImage};
use crate::oracle::{Oracle, Violation};
use crate::random::Random;
use crate::workload::{Habits, Stage};

/// Unflushed sectors of which every subset is tried.
pub const EXHAUSTIVE_SECTORS: usize = 12;

/// Subsets tried where there are more.
const SAMPLED_SUBSETS: u64 = 64;

/// Of so many states, the recovery of one is cut too.
const RECOVERIES_CUT: u64 = 97;

/// How much to try.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Operations of the one client.
    pub operations: u64,
    /// States after which to stop.
    pub states_max: u64,
}

/// What was tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried {
    /// Events of the uncut life.
    pub events: u64,
    /// Crash states recovered from and judged.
    pub states: u64,
    /// Recoveries that were cut in their turn.
    pub recoveries_cut: u64,
}

/// The drives of a small volume, and what the volume on them may hold.
#[derive(Clone)]
struct World {
    home: Image,
    log: Image,
    oracle: Oracle,
}

/// How a life of the world ended.
struct Ended {
    world: World,
    events: u64,
    /// Nothing where the life was cut before it got so far.
    judged: Option<Result<(), Violation>>,
}

/// The small volume, its way of journaling drawn from the seed.
struct Small {
    seed: u64,
    create: CreateOptions,
    open: OpenOptions,
    separate_log: bool,
    habits: Habits,
}

/// Tries every crash of the workload that `seed` stands for.
///
/// # Errors
///
/// The first violation, with the event and subset that show it.
pub fn run(seed: u64, bounds: Bounds) -> Result<Tried, Violation> {
    let small = Small::draw(seed, bounds.operations);
    let fresh = small.created()?;
    let whole = small.life(&fresh, None, true);
    whole.judged.unwrap_or(Ok(()))?;
    let mut tried = Tried { events: whole.events, ..Tried::default() };
    let mut random = Random::new(seed ^ 0xe4);
    for event in 0..whole.events {
        let cut = small.life(&fresh, Some(event), true);
        let pending = cut.world.home.pending_len() + cut.world.log.pending_len();
        for subset in subsets(pending, &mut random) {
            if tried.states >= bounds.states_max {
                return Ok(tried);
            }
            tried.states += 1;
            small.try_state(&cut.world, subset, &mut tried, &mut random).map_err(|violation| Violation {
                what: format!("cut at event {event}, subset {subset:#x} of {pending}: {}", violation.what),
            })?;
        }
    }
    Ok(tried)
}

/// The subsets of so many sectors that are tried.
fn subsets(sectors: usize, random: &mut Random) -> Vec<u64> {
    if sectors <= EXHAUSTIVE_SECTORS {
        return (0..1 << sectors).collect();
    }
    let mut subsets: Vec<u64> = (0..SAMPLED_SUBSETS).map(|_| random.number()).collect();
    subsets.extend([0, u64::MAX]);
    subsets
}

impl Small {
    fn draw(seed: u64, operations: u64) -> Self {
        let mut random = Random::new(seed);
        let size_bytes = 16 * 4096;
        let journaling = match seed % 3 {
            0 | 1 => Journaling::Wasteless,
            _ => Journaling::Selective { threshold_bytes: 8192 },
        };
        Self {
            seed,
            create: CreateOptions { size_bytes, log_bytes: 192 << 10, atomic_max_bytes: 8192 },
            open: OpenOptions {
                journaling,
                batch_max_bytes: 8192,
                commits_in_flight_max: 1 + random.index(2),
                cached_pages_max: 16,
            },
            separate_log: seed.is_multiple_of(2),
            habits: Habits {
                clients: 1,
                operations,
                stripe_bytes: size_bytes,
                size_bytes,
                atomic_max_bytes: 4096,
                large_share: 0.1,
                atomic_writes: true,
                may_fail: false,
            },
        }
    }

    fn image(size_bytes: u64) -> Image {
        Image::new(Geometry { size_bytes, sector_bytes: 4096, atomic_sectors: true })
    }

    fn created(&self) -> Result<World, Violation> {
        let pages = self.create.size_bytes / 4096;
        let home =
            share(Self::image(Layout::home_bytes_for(pages, self.create.log_bytes, self.separate_log)));
        let log = share(Self::image(self.create.log_bytes + 2 * 4096));
        let mut executor = Executor::new(self.seed);
        let cuts = Cuts::none(executor.stop());
        let (home_drive, log_drive) = self.drives(&executor, &cuts, &home, &log);
        let made = executor.block_on(async {
            create(&*home_drive, &*log_drive, self.separate_log, self.create, self.seed | 1).await
        });
        match made {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Violation { what: error.to_string() }),
            Err(halt) => return Err(Violation { what: halt.to_string() }),
        }
        drop(executor);
        for image in [&home, &log] {
            image.borrow_mut().power_cut_subset(u64::MAX);
        }
        let oracle = Oracle::new(self.create.size_bytes as usize);
        let world = World { home: home.borrow().clone(), log: log.borrow().clone(), oracle };
        Ok(world)
    }

    fn drives(
        &self,
        executor: &Executor,
        cuts: &Cuts,
        home: &SharedImage,
        log: &SharedImage,
    ) -> (Rc<SimDrive>, Rc<SimDrive>) {
        let open = |image: &SharedImage| {
            let options = DriveOptions { seed: self.seed, ..DriveOptions::default() };
            Rc::new(SimDrive::open(Rc::clone(image), executor.env(), cuts.clone(), options))
        };
        let home = open(home);
        let log = if self.separate_log { open(log) } else { Rc::clone(&home) };
        (home, log)
    }

    /// Opens the volume of `world`, judges it, and lets the client work; cut at `at_event`, if any.
    fn life(&self, world: &World, at_event: Option<u64>, work: bool) -> Ended {
        let (home, log) = (share(world.home.clone()), share(world.log.clone()));
        let mut executor = Executor::new(self.seed);
        executor.limit_polls(200_000);
        let cuts = Cuts::new(CutPlan { at_event, kind: CutKind::PowerCut }, executor.stop());
        let (home_drive, log_drive) = self.drives(&executor, &cuts, &home, &log);
        let env = executor.env();
        let arena = SimArena::open(ArenaBytes::new(64 << 10), env.clone(), cuts.clone(), self.seed);
        let oracle = Rc::new(RefCell::new(world.oracle.clone()));
        let violation = Rc::new(RefCell::new(None));
        let (judge, seen) = (Rc::clone(&oracle), Rc::clone(&violation));
        let lived = executor.block_on(async {
            let volume =
                Volume::open(env.clone(), arena, home_drive, log_drive, self.separate_log, self.open).await?;
            let mut found = vec![0; self.create.size_bytes as usize];
            volume.read(0, &mut found).await?;
            if !env.is_stopped() {
                let judged = judge.borrow_mut().judge_power_cut(&found);
                if judged.is_err() || !work {
                    return Ok(judged);
                }
                let stage = Stage { volume, oracle: judge, violation: seen, env, habits: self.habits };
                stage.client(0, Random::new(self.seed)).await;
            }
            Ok::<_, Error>(Ok(()))
        });
        let events = cuts.events_so_far();
        drop(executor);
        let seen = violation.borrow_mut().take();
        let judged = match (lived, seen) {
            (_, Some(violation)) => Some(Err(violation)),
            (Err(Halt::Stopped { .. }), None) => None,
            (Err(halt), None) => Some(Err(Violation { what: halt.to_string() })),
            (Ok(Err(error)), None) => Some(Err(Violation { what: error.to_string() })),
            (Ok(Ok(judged)), None) => Some(judged),
        };
        let oracle = oracle.borrow().clone();
        let world = World { home: home.borrow().clone(), log: log.borrow().clone(), oracle };
        Ended { world, events, judged }
    }

    /// Lets the sectors of `subset` land, recovers and judges.
    fn try_state(
        &self,
        cut: &World,
        subset: u64,
        tried: &mut Tried,
        random: &mut Random,
    ) -> Result<(), Violation> {
        let mut world = cut.clone();
        land(&mut world, subset);
        let recovered = self.life(&world, None, false);
        recovered.judged.unwrap_or(Ok(()))?;
        if tried.states.is_multiple_of(RECOVERIES_CUT) {
            for event in 0..recovered.events {
                let mut again = self.life(&world, Some(event), false).world;
                land(&mut again, random.number());
                tried.recoveries_cut += 1;
                self.life(&again, None, false).judged.unwrap_or(Ok(())).map_err(|violation| Violation {
                    what: format!("recovery cut at event {event}: {}", violation.what),
                })?;
            }
        }
        Ok(())
    }
}

fn land(world: &mut World, subset: u64) {
    let of_home = world.home.pending_len();
    world.home.power_cut_subset(subset);
    world.log.power_cut_subset(subset.checked_shr(of_home as u32).unwrap_or(0));
}

fn share(image: Image) -> SharedImage {
    Rc::new(RefCell::new(image))
}
