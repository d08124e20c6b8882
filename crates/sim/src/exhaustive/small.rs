//! The small volume whose every crash is tried: what a seed draws, its life, and a recovery.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Geometry;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE;
use evenkeel_engine::format::layout::{Layout, SUMS_PER_TABLE_PAGE};
use evenkeel_engine::format::record::TAG_BYTES;
use evenkeel_engine::options::{CreateOptions, Journaling, OpenOptions, Tuning};
use evenkeel_engine::volume::{Volume, create};

use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, Halt};
use crate::image::{Image, SharedImage};
use crate::oracle::{Oracle, Violation};
use crate::page_cache::PageCache;
use crate::places::Places;
use crate::random::Random;
use crate::workload::{Habits, Stage, read_known, run_clients};

/// Bytes that clients know.
const SIZE_BYTES: u64 = 8 * 4096;

/// Polls after which a life counts as one that does not end.
const POLLS_MAX: u64 = 200_000;

/// The drives of a small volume, and what the volume on them may hold.
#[derive(Clone)]
pub(super) struct World {
    pub(super) home: Image,
    pub(super) log: Image,
    pub(super) oracle: Rc<Oracle>,
}

/// The small volume, drawn from its seed.
pub(super) struct Small {
    seed: u64,
    create: CreateOptions,
    open: OpenOptions,
    separate_log: bool,
    sector_bytes: u32,
    pub(super) atomic_sectors: bool,
    /// Whether the life whose crashes are tried begins with the recovery from another crash.
    begins_crashed: bool,
    habits: Habits,
    /// Whether the system keeps what was read of the home drive in memory, as it was then.
    cache: bool,
}

/// Portions as small as there are.
fn least(random: &mut Random) -> Tuning {
    Tuning {
        small_max_bytes: *random.pick(&[0, 1000]),
        rescanned_max: random.index(2),
        crowded_min: 2 + random.index(3),
        turn_pages_max: 1,
        home_write_pages_max: 1 + random.index(2),
        shared_bulk_max_bytes: 1,
        shared_home_max_bytes: 1,
        kept_pages_max: 1,
        table_pages_max: Some(1),
        ..Tuning::default()
    }
}

/// A volume that was recovered.
pub(super) struct Recovered {
    /// All of its bytes.
    pub(super) found: Vec<u8>,
    /// The drives before each event of the recovery, and at its end.
    pub(super) moments: Vec<(Image, Image)>,
}

/// A life about to begin.
struct Life {
    executor: Executor,
    cuts: Cuts,
    home: SharedImage,
    log: SharedImage,
    home_drive: Rc<SimDrive>,
    log_drive: Rc<SimDrive>,
}

impl Small {
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
        let (places, tuning, log_bytes, cache) = match is_apart {
            false => (Places::together(SIZE_BYTES), Tuning::default(), log_bytes, false),
            true => {
                let (announced_max_bytes, log_bytes) = match (atomic_sectors, sector_bytes) {
                    (true, 512) => (7 * TAG_BYTES, 64 << 10),
                    (true, _) => (9 * TAG_BYTES, 320 << 10),
                    (false, 512) => (TAG_BYTES + PAGE, 960 << 10),
                    (false, _) => (5 * (TAG_BYTES + PAGE), 1120 << 10),
                };
                let tuning = Tuning { announced_max_bytes, ..least(&mut more) };
                (Places::apart(SIZE_BYTES, 3, SUMS_PER_TABLE_PAGE - 1, 260), tuning, log_bytes, true)
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
            separate_log: seed.is_multiple_of(2),
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
            cache,
        }
    }

    /// The world in which the life begins whose crashes are tried.
    pub(super) fn begin(&self) -> Result<World, Violation> {
        let world = self.created()?;
        if !self.begins_crashed {
            return Ok(world);
        }
        let mut random = Random::new(self.seed ^ 0xc4a5);
        let events = self.work(&world, None, None)?.1;
        let (mut world, _) = self.work(&world, Some(random.below(events)), None)?;
        world.home.power_cut(&mut random);
        world.log.power_cut(&mut random);
        Ok(world)
    }

    /// The life whose crashes are tried: the world before each of its events, and at its end.
    pub(super) fn moments(&self, world: &World) -> Result<Vec<World>, Violation> {
        let moments = Rc::new(RefCell::new(Vec::new()));
        let (last, _) = self.work(world, None, Some(Rc::clone(&moments)))?;
        let mut moments = moments.take();
        moments.push(last);
        Ok(moments)
    }

    fn image(&self, size_bytes: u64) -> Image {
        let Self { sector_bytes, atomic_sectors, .. } = *self;
        Image::new(Geometry { size_bytes, sector_bytes, atomic_sectors })
    }

    fn life(&self, home: Image, log: Image, at_event: Option<u64>) -> Life {
        let (home, log) = (share(home), share(log));
        let mut executor = Executor::new(self.seed);
        executor.limit_polls(POLLS_MAX);
        let cuts = Cuts::new(CutPlan { at_event, kind: CutKind::PowerCut }, executor.stop());
        let open = |image: &SharedImage, has_cache: bool| {
            let cache = has_cache.then(|| PageCache::shared(0.5));
            let options = DriveOptions { seed: self.seed, cache, ..DriveOptions::default() };
            Rc::new(SimDrive::open(Rc::clone(image), executor.env(), cuts.clone(), options))
        };
        let home_drive = open(&home, self.cache);
        let log_drive = if self.separate_log { open(&log, false) } else { Rc::clone(&home_drive) };
        Life { executor, cuts, home, log, home_drive, log_drive }
    }

    fn created(&self) -> Result<World, Violation> {
        let home_bytes =
            Layout::home_bytes_for(self.create.size_bytes / 4096, self.create.log_bytes, self.separate_log);
        let log_bytes = if self.separate_log { self.create.log_bytes + 2 * 4096 } else { 4096 };
        let mut life = self.life(self.image(home_bytes), self.image(log_bytes), None);
        let (home, log) = (Rc::clone(&life.home_drive), Rc::clone(&life.log_drive));
        let made = life.executor.block_on(async move {
            create(&*home, &*log, self.separate_log, self.create, self.seed | 1).await
        });
        made.map_err(violation)?.map_err(violation)?;
        let mut world = life.end(Rc::new(Oracle::new(SIZE_BYTES as usize)));
        // All that was not flushed is lost.
        world.home.power_cut_fates(&[]);
        world.log.power_cut_fates(&[]);
        Ok(world)
    }

    /// Opens the volume of `world`, judges it and lets clients work, up to the cut if there is one; answers the
    /// world at the end, and the events. `moments` takes the world before each event.
    fn work(
        &self,
        world: &World,
        at_event: Option<u64>,
        moments: Option<Rc<RefCell<Vec<World>>>>,
    ) -> Result<(World, u64), Violation> {
        let mut life = self.life(world.home.clone(), world.log.clone(), at_event);
        let oracle = Rc::new(RefCell::new(Oracle::clone(&world.oracle)));
        if let Some(moments) = moments {
            let (home, log, oracle) = (Rc::clone(&life.home), Rc::clone(&life.log), Rc::clone(&oracle));
            life.cuts.observe(move || {
                let mut moments = moments.borrow_mut();
                let oracle = share_oracle(moments.last(), &oracle.borrow());
                moments.push(World { home: home.borrow().clone(), log: log.borrow().clone(), oracle });
            });
        }
        let env = life.executor.env();
        let arena = SimArena::open(ArenaBytes::new(64 << 10), env.clone(), life.cuts.clone(), self.seed);
        let (home, log) = (Rc::clone(&life.home_drive), Rc::clone(&life.log_drive));
        let seen = Rc::new(RefCell::new(None));
        let (judge, accused) = (Rc::clone(&oracle), Rc::clone(&seen));
        let lived = life.executor.block_on(async move {
            let volume = Volume::open(env.clone(), arena, home, log, self.separate_log, self.open).await?;
            let found = read_known(&volume, self.habits.places).await?;
            if env.is_stopped() {
                return Ok(Ok(()));
            }
            let judged = judge.borrow_mut().judge_power_cut(&found);
            if judged.is_ok() {
                let (oracle, violation, habits) = (judge, accused, self.habits);
                let (operations_done, forgives) = (Rc::default(), Box::new(|_: &Error| false));
                let stage = Stage { volume, oracle, violation, env, habits, operations_done, forgives };
                let stage = Rc::new(stage);
                let seeds: Vec<u64> = (0..habits.clients).map(|client| self.seed ^ client << 32).collect();
                run_clients(&stage, &seeds).await;
            }
            Ok::<_, Error>(judged)
        });
        let events = life.cuts.events_so_far();
        if let Some(accused) = seen.borrow_mut().take() {
            return Err(accused);
        }
        match lived {
            Err(Halt::Stopped { .. }) => {}
            Err(halt) => return Err(violation(halt)),
            Ok(judged) => judged.map_err(violation)??,
        }
        let oracle = Rc::new(oracle.borrow().clone());
        Ok((life.end(oracle), events))
    }

    /// Opens the volume and reads all of it. `watch` asks for the drives on the way.
    pub(super) fn recover(&self, home: Image, log: Image, watch: bool) -> Result<Recovered, Violation> {
        let mut life = self.life(home, log, None);
        let moments = Rc::new(RefCell::new(Vec::new()));
        if watch {
            let (home, log, moments) = (Rc::clone(&life.home), Rc::clone(&life.log), Rc::clone(&moments));
            life.cuts.observe(move || {
                moments.borrow_mut().push((home.borrow().clone(), log.borrow().clone()));
            });
        }
        let env = life.executor.env();
        let arena = SimArena::open(ArenaBytes::new(64 << 10), env.clone(), life.cuts.clone(), self.seed);
        let (home, log) = (Rc::clone(&life.home_drive), Rc::clone(&life.log_drive));
        let recovered = life.executor.block_on(async move {
            let volume = Volume::open(env, arena, home, log, self.separate_log, self.open).await?;
            let found = read_known(&volume, self.habits.places).await?;
            Ok::<_, Error>(found)
        });
        let found = recovered.map_err(violation)?.map_err(violation)?;
        let (home, log) = (Rc::clone(&life.home), Rc::clone(&life.log));
        drop(life);
        let mut moments = moments.take();
        if watch {
            moments.push((home.borrow().clone(), log.borrow().clone()));
        }
        Ok(Recovered { found, moments })
    }
}

impl Life {
    fn end(self, oracle: Rc<Oracle>) -> World {
        let (home, log) = (Rc::clone(&self.home), Rc::clone(&self.log));
        drop(self);
        World { home: home.borrow().clone(), log: log.borrow().clone(), oracle }
    }
}

/// The oracle as it is now: that of the last moment, where it was told nothing since.
fn share_oracle(last: Option<&World>, oracle: &Oracle) -> Rc<Oracle> {
    match last {
        Some(last) if last.oracle.changes() == oracle.changes() => Rc::clone(&last.oracle),
        _ => Rc::new(oracle.clone()),
    }
}

fn share(image: Image) -> SharedImage {
    Rc::new(RefCell::new(image))
}

fn violation(cause: impl std::fmt::Display) -> Violation {
    Violation { what: cause.to_string() }
}
