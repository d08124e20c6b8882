//! The runs of a small volume: the one whose crashes are tried, those before it, and recoveries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::Geometry;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::Layout;

use super::choices::kinds_without;
use super::event::Event;
use super::small::{SIZE_BYTES, Small};
use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, Halt};
use crate::fixture::{Fixture, Run};
use crate::ground_truth::{Device, Disk, Drives};
use crate::image::Image;
use crate::oracle::{Oracle, Violation};
use crate::page_cache::PageCache;
use crate::random::Random;
use crate::testbed::Testbed;
use crate::workload::{read_known, run_clients};

/// Polls after which a run counts as one that does not end.
const POLLS_MAX: u64 = 200_000;

/// Bytes of the arena.
const ARENA_BYTES: usize = 64 << 10;

/// Share of writes that leave what the system keeps in memory as it was, where it keeps something.
const STALE_SHARE: f64 = 0.5;

/// The drives of a small volume, and what the volume on them may hold.
#[derive(Clone)]
pub(super) struct World {
    pub(super) drives: Drives,
    pub(super) oracle: Rc<Oracle>,
}

/// A small volume on its drives.
pub(super) struct Runs<T: Testbed> {
    pub(super) small: Small,
    pub(super) testbed: T,
    /// What happens to the drives beside the cut.
    pub(super) event: Event,
    layout: Rc<Layout>,
}

/// A volume that was recovered.
pub(super) struct Recovered {
    /// All of its bytes, or why it refused to open.
    pub(super) found: Result<Vec<u8>, String>,
    /// The drives before each event of the recovery, and at its end; and whether all bytes were served by then.
    pub(super) moments: Vec<(Drives, bool)>,
}

impl<T: Testbed> Runs<T> {
    pub(super) fn new(small: Small, testbed: T, event: Event) -> Self {
        let layout = Rc::new(testbed.layout(&small.create));
        Self { small, testbed, event, layout }
    }

    /// The world in which the run begins whose crashes are tried.
    pub(super) fn begin(&self) -> Result<World, Violation> {
        let world = self.created()?;
        let there_before = self.event.there_before();
        if !self.small.begins_crashed && there_before.is_none() {
            return Ok(world);
        }
        let there = there_before.unwrap_or_else(|| vec![true; world.drives.images.len()]);
        let mut random = Random::new(self.small.seed ^ 0xc4a5);
        let events = self.work(&world, &there, None, None)?.1;
        if events == 0 {
            return Ok(world); // it refused, as it may
        }
        let (mut world, _) = self.work(&world, &there, Some(random.below(events)), None)?;
        for image in &mut world.drives.images {
            image.power_cut(&mut random);
        }
        Ok(world)
    }

    /// The run whose crashes are tried: the world before each of its events, and at its end.
    pub(super) fn moments(&self, world: &World) -> Result<Vec<World>, Violation> {
        let moments = Rc::new(RefCell::new(Vec::new()));
        let all = vec![true; world.drives.images.len()];
        let there = Some(self.event.there())
            .filter(|there| kinds_without(&self.testbed, &world.drives.have_all, there) == 0);
        let (last, _) = self.work(world, &there.unwrap_or(all), None, Some(Rc::clone(&moments)))?;
        let mut moments = moments.take();
        moments.push(last);
        Ok(moments)
    }

    /// Whether the volume may refuse to open, with all that there is or with a part of it.
    pub(super) fn may_refuse(&self, drives: &Drives, there: &[bool]) -> bool {
        let is_log_in_parts = self.testbed.is_log_spread() && (drives.may_lack || there.contains(&false));
        is_log_in_parts || kinds_without(&self.testbed, &drives.have_all, there) > 0
    }

    fn run(&self, drives: Drives, there: &[bool], at_event: Option<u64>) -> Run<T> {
        let seed = self.small.seed;
        let mut executor = Executor::new(seed);
        executor.limit_polls(POLLS_MAX);
        let cuts = Cuts::new(CutPlan { at_event, kind: CutKind::PowerCut }, executor.stop());
        let env = executor.env();
        let mut devices = Vec::new();
        for (number, (image, have_all)) in drives.images.into_iter().zip(drives.have_all).enumerate() {
            let image = Rc::new(RefCell::new(image));
            let is_cached = number == 0 && self.small.has_cache;
            let cache = is_cached.then(|| PageCache::shared(STALE_SHARE));
            let options = DriveOptions { seed, cache, is_away: !there[number], ..DriveOptions::default() };
            let drive = SimDrive::open(Rc::clone(&image), env.clone(), cuts.clone(), options);
            let kind = self.testbed.kind(number);
            devices.push(Device::new(kind, Disk::clean(image, have_all), drive, there[number]));
        }
        let arena = SimArena::open(ArenaBytes::new(ARENA_BYTES), env.clone(), cuts.clone(), seed);
        let layout = Rc::clone(&self.layout);
        let fixture = Fixture::new(env, cuts, layout, self.testbed, devices, drives.may_lack);
        Run { executor, arena, fixture: Rc::new(fixture) }
    }

    fn created(&self) -> Result<World, Violation> {
        let Small { seed, create, sector_bytes, atomic_sectors, .. } = self.small;
        let image = |(_, size_bytes)| Image::new(Geometry { size_bytes, sector_bytes, atomic_sectors });
        let images: Vec<Image> = self.testbed.drives(&create).into_iter().map(image).collect();
        let all = vec![true; images.len()];
        let drives = Drives { images, have_all: all.clone(), may_lack: false };
        let Run { mut executor, fixture, .. } = self.run(drives, &all, None);
        let (shared, testbed) = (Rc::clone(&fixture), self.testbed);
        let made = executor.block_on(async move {
            testbed.create(shared.env.clone(), shared.drives(), create, seed | 1).await
        });
        made.map_err(Violation::of)?.map_err(Violation::of)?;
        let mut drives = fixture.truth.borrow().snapshot();
        // All that was not flushed is lost.
        for image in &mut drives.images {
            image.power_cut_fates(&[]);
        }
        Ok(World { drives, oracle: Rc::new(Oracle::new(SIZE_BYTES as usize)) })
    }

    /// Opens the volume of `world`, judges it and lets clients work, up to the cut if there is one; answers the
    /// world at the end, and the events. `moments` takes the world before each event.
    fn work(
        &self,
        world: &World,
        there: &[bool],
        at_event: Option<u64>,
        moments: Option<Rc<RefCell<Vec<World>>>>,
    ) -> Result<(World, u64), Violation> {
        let Run { mut executor, arena, fixture } = self.run(world.drives.clone(), there, at_event);
        let oracle = Rc::new(RefCell::new(Oracle::clone(&world.oracle)));
        let event = moments.is_some().then(|| self.event.clone()).filter(|_| T::IS_REDUNDANT);
        if let Some(moments) = moments {
            let (observed, oracle) = (Rc::downgrade(&fixture), Rc::clone(&oracle));
            fixture.cuts.observe(move || {
                let Some(fixture) = observed.upgrade() else { return };
                let mut moments = moments.borrow_mut();
                let oracle = share_oracle(moments.last(), &oracle.borrow());
                moments.push(World { drives: fixture.truth.borrow().snapshot(), oracle });
            });
        }
        let (shared, habits, judge) = (Rc::clone(&fixture), self.small.habits, Rc::clone(&oracle));
        let may_refuse = self.may_refuse(&world.drives, there);
        let (seed, open) = (self.small.seed, self.small.open);
        let ended = executor.block_on(async move {
            let env = shared.env.clone();
            let volume = match shared.open(arena, open).await {
                Err(Error::Unusable(_) | Error::Unsuited(_)) if may_refuse => return Ok(Ok(())),
                opened => opened?,
            };
            let found = read_known(&volume, habits.places).await?;
            if env.is_stopped() {
                return Ok(Ok(()));
            }
            let judged = judge.borrow_mut().judge_power_cut(&found);
            if judged.is_ok() {
                let workload = shared.workload(&volume, &judge, habits, Rc::default(), |_| false);
                let seeds: Vec<u64> = (0..habits.clients).map(|client| seed ^ client << 32).collect();
                let goes_on = Rc::new(Cell::new(event.is_some()));
                if let Some(event) = event {
                    let (happening, goes_on) = (Rc::clone(&shared), Rc::clone(&goes_on));
                    env.spawn(async move {
                        event.happen(&happening, seed).await;
                        goes_on.set(false);
                    });
                }
                run_clients(&workload, &seeds).await;
                while goes_on.get() {
                    env.sleep(100_000).await;
                }
                if shared.violation.borrow().is_none()
                    && let Err(unsettled) = shared.settle_all(&volume).await
                {
                    return Ok(Err(unsettled));
                }
            }
            Ok::<_, Error>(judged)
        });
        let events = fixture.cuts.events_so_far();
        let drives = fixture.truth.borrow().snapshot();
        if let Some(seen) = fixture.violation.take() {
            return Err(seen);
        }
        match ended {
            Err(Halt::Stopped { .. }) => {}
            Err(halt) => return Err(Violation::of(halt)),
            Ok(judged) => judged.map_err(Violation::of)??,
        }
        let oracle = Rc::new(oracle.borrow().clone());
        Ok((World { drives, oracle }, events))
    }

    /// Opens the volume and reads all of it. `watch` asks for the drives on the way, until they have settled.
    pub(super) fn recover(
        &self,
        drives: Drives,
        there: &[bool],
        watch: bool,
    ) -> Result<Recovered, Violation> {
        let Run { mut executor, arena, fixture } = self.run(drives, there, None);
        let moments = Rc::new(RefCell::new(Vec::new()));
        let served = Rc::new(Cell::new(false));
        if watch {
            let (observed, moments) = (Rc::downgrade(&fixture), Rc::clone(&moments));
            let served = Rc::clone(&served);
            fixture.cuts.observe(move || {
                let Some(fixture) = observed.upgrade() else { return };
                moments.borrow_mut().push((fixture.truth.borrow().snapshot(), served.get()));
            });
        }
        let shared = Rc::clone(&fixture);
        let (open, places, has_served) = (self.small.open, self.small.habits.places, Rc::clone(&served));
        let recovered = executor.block_on(async move {
            let volume = match shared.open(arena, open).await {
                Err(Error::Unusable(why)) if T::IS_REDUNDANT => return Ok(Ok(Err(why))),
                opened => opened?,
            };
            let found = read_known(&volume, places).await?;
            has_served.set(true);
            if watch && let Err(unsettled) = shared.settle_all(&volume).await {
                return Ok(Err(unsettled));
            }
            Ok::<_, Error>(Ok(Ok(found)))
        });
        let drives = fixture.truth.borrow().snapshot();
        let found = recovered.map_err(Violation::of)?.map_err(Violation::of)??;
        let mut moments = moments.take();
        if watch {
            moments.push((drives, served.get()));
        }
        Ok(Recovered { found, moments })
    }
}

/// The oracle as it is now: that of the last moment, where it was told nothing since.
fn share_oracle(last: Option<&World>, oracle: &Oracle) -> Rc<Oracle> {
    match last {
        Some(last) if last.oracle.changes() == oracle.changes() => Rc::clone(&last.oracle),
        _ => Rc::new(oracle.clone()),
    }
}
