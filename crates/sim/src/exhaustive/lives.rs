//! The lives of a small volume: the one whose crashes are tried, those before it, and recoveries.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::Geometry;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::options::OpenOptions;

use super::bed::{Bed, Drives, VolumeOn, kinds_without};
use super::small::{SIZE_BYTES, Small};
use crate::arena::{ArenaBytes, SimArena};
use crate::cuts::{CutKind, CutPlan, Cuts};
use crate::drive::{DriveOptions, SimDrive};
use crate::executor::{Executor, Halt, SimEnv};
use crate::image::{Image, SharedImage};
use crate::oracle::{Oracle, Violation};
use crate::page_cache::PageCache;
use crate::random::Random;
use crate::workload::{Stage, read_known, run_clients};

/// Polls after which a life counts as one that does not end.
const POLLS_MAX: u64 = 200_000;

/// The drives of a small volume, and what the volume on them may hold.
#[derive(Clone)]
pub(super) struct World {
    pub(super) drives: Drives,
    pub(super) oracle: Rc<Oracle>,
}

/// A small volume on its drives.
pub(super) struct Lives<B> {
    pub(super) small: Small,
    pub(super) bed: B,
}

/// A volume that was recovered.
pub(super) struct Recovered {
    /// All of its bytes, or why it refused to open.
    pub(super) found: Result<Vec<u8>, String>,
    /// The drives before each event of the recovery, and at its end; and whether all bytes were served by then.
    pub(super) moments: Vec<(Drives, bool)>,
}

/// The drives in a life, and what is known of them.
pub(super) struct Machine<B: Bed> {
    pub(super) env: SimEnv,
    pub(super) cuts: Cuts,
    pub(super) bed: B,
    pub(super) seed: u64,
    pub(super) there: Vec<bool>,
    images: RefCell<Vec<SharedImage>>,
    had_all: Vec<bool>,
    may_lack: Cell<bool>,
    parts: RefCell<Option<B::Parts>>,
}

impl<B: Bed> Machine<B> {
    /// The drives as they are.
    fn drives(&self) -> Drives {
        let images = self.images.borrow().iter().map(|image| image.borrow().clone()).collect();
        let have_all = match &*self.parts.borrow() {
            Some(parts) => self.bed.have_all(parts),
            None => self.had_all.clone(),
        };
        Drives { images, have_all, may_lack: self.may_lack.get() }
    }

    /// What tells of the drives, once the volume is open.
    pub(super) fn parts(&self) -> Option<B::Parts> {
        self.parts.borrow().clone()
    }

    /// Whether it had everything when the life began.
    pub(super) fn had_all(&self, drive: usize) -> bool {
        self.had_all[drive]
    }

    /// Whether a drive was taken away for good, since the volume was last opened, that may have held what no other does.
    pub(super) fn may_lack(&self) -> bool {
        self.may_lack.get()
    }

    /// Whether another of its kind has everything now.
    pub(super) fn may_lose(&self, lost: usize) -> bool {
        let have_all = self.drives().have_all;
        let is_alike = |drive: usize| drive != lost && self.bed.kind(drive) == self.bed.kind(lost);
        (0..have_all.len()).any(|drive| is_alike(drive) && have_all[drive])
    }

    /// A blank drive in the place of another, which is gone for good.
    pub(super) fn replace_blank(&self, drive: usize) -> SimDrive {
        let geometry = self.images.borrow()[drive].borrow().geometry();
        let image = Image::shared(geometry);
        self.images.borrow_mut()[drive] = Rc::clone(&image);
        self.may_lack.set(true);
        self.open_drive(drive, image)
    }

    fn open_drive(&self, drive: usize, image: SharedImage) -> SimDrive {
        let cache = self.bed.is_cached(drive).then(|| PageCache::shared(0.5));
        let options = DriveOptions { seed: self.seed, cache, ..DriveOptions::default() };
        SimDrive::open(image, self.env.clone(), self.cuts.clone(), options)
    }

    /// Opens the volume on the drives that are there.
    async fn open(&self, options: OpenOptions) -> Result<VolumeOn<B>, Error> {
        let (env, bytes) = (self.env.clone(), ArenaBytes::new(64 << 10));
        let arena = SimArena::open(bytes, env.clone(), self.cuts.clone(), self.seed);
        let (volume, parts) = self.bed.open(env, arena, self.open_drives(), options).await?;
        if !self.env.is_stopped() {
            self.parts.replace(Some(parts));
            self.may_lack.set(false);
        }
        Ok(volume)
    }

    fn open_drives(&self) -> Vec<Option<SimDrive>> {
        let images = self.images.borrow().clone();
        let open =
            |(drive, image): (usize, SharedImage)| self.there[drive].then(|| self.open_drive(drive, image));
        images.into_iter().enumerate().map(open).collect()
    }
}

/// A life about to begin.
struct Life<B: Bed> {
    executor: Executor,
    machine: Rc<Machine<B>>,
}

impl<B: Bed> Lives<B> {
    /// The world in which the life begins whose crashes are tried.
    pub(super) fn begin(&self) -> Result<World, Violation> {
        let world = self.created()?;
        let there_before = self.bed.there_before();
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

    /// The life whose crashes are tried: the world before each of its events, and at its end.
    pub(super) fn moments(&self, world: &World) -> Result<Vec<World>, Violation> {
        let moments = Rc::new(RefCell::new(Vec::new()));
        let all = vec![true; world.drives.images.len()];
        let there = Some(self.bed.there())
            .filter(|there| kinds_without(&self.bed, &world.drives.have_all, there) == 0);
        let (last, _) = self.work(world, &there.unwrap_or(all), None, Some(Rc::clone(&moments)))?;
        let mut moments = moments.take();
        moments.push(last);
        Ok(moments)
    }

    fn life(&self, drives: Drives, there: &[bool], at_event: Option<u64>) -> Life<B> {
        let Drives { images, have_all, may_lack } = drives;
        let mut executor = Executor::new(self.small.seed);
        executor.limit_polls(POLLS_MAX);
        let cuts = Cuts::new(CutPlan { at_event, kind: CutKind::PowerCut }, executor.stop());
        let env = executor.env();
        let share = |image: Image| Rc::new(RefCell::new(image));
        let machine = Machine {
            env,
            cuts,
            bed: self.bed.clone(),
            seed: self.small.seed,
            there: there.to_vec(),
            images: RefCell::new(images.into_iter().map(share).collect()),
            had_all: have_all.iter().zip(there).map(|(had_all, there)| *had_all && *there).collect(),
            may_lack: Cell::new(may_lack),
            parts: RefCell::default(),
        };
        Life { executor, machine: Rc::new(machine) }
    }

    fn created(&self) -> Result<World, Violation> {
        let Small { seed, create, sector_bytes, atomic_sectors, .. } = self.small;
        let image = |size_bytes| Image::new(Geometry { size_bytes, sector_bytes, atomic_sectors });
        let images: Vec<Image> = self.bed.drive_bytes(&create).into_iter().map(image).collect();
        let all = vec![true; images.len()];
        let mut life = self.life(Drives { images, have_all: all.clone(), may_lack: false }, &all, None);
        let machine = Rc::clone(&life.machine);
        let made = life.executor.block_on(async move {
            let (env, drives) = (machine.env.clone(), machine.open_drives());
            machine.bed.create(env, drives, create, seed | 1).await
        });
        made.map_err(Violation::of)?.map_err(Violation::of)?;
        let mut drives = life.machine.drives();
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
        let mut life = self.life(world.drives.clone(), there, at_event);
        let oracle = Rc::new(RefCell::new(Oracle::clone(&world.oracle)));
        let happens = B::IS_REDUNDANT && moments.is_some();
        if let Some(moments) = moments {
            let (machine, oracle) = (Rc::downgrade(&life.machine), Rc::clone(&oracle));
            life.machine.cuts.observe(move || {
                let Some(machine) = machine.upgrade() else { return };
                let mut moments = moments.borrow_mut();
                let oracle = share_oracle(moments.last(), &oracle.borrow());
                moments.push(World { drives: machine.drives(), oracle });
            });
        }
        let (machine, habits) = (Rc::clone(&life.machine), self.small.habits);
        let may_refuse = self.bed.may_refuse(&world.drives, there);
        let (seed, open) = (self.small.seed, self.small.open);
        let seen = Rc::new(RefCell::new(None));
        let (judge, accused) = (Rc::clone(&oracle), Rc::clone(&seen));
        let lived = life.executor.block_on(async move {
            let env = machine.env.clone();
            let volume = match machine.open(open).await {
                Err(Error::Unusable(_) | Error::Unsuited(_)) if may_refuse => return Ok(Ok(())),
                opened => opened?,
            };
            let found = read_known(&volume, habits.places).await?;
            if env.is_stopped() {
                return Ok(Ok(()));
            }
            let judged = judge.borrow_mut().judge_power_cut(&found);
            if judged.is_ok() {
                let (oracle, violation) = (judge, Rc::clone(&accused));
                let (operations_done, forgives) = (Rc::default(), Box::new(|_: &Error| false));
                let stage = Stage {
                    volume: volume.clone(),
                    oracle,
                    violation,
                    env,
                    habits,
                    operations_done,
                    forgives,
                };
                let stage = Rc::new(stage);
                let seeds: Vec<u64> = (0..habits.clients).map(|client| seed ^ client << 32).collect();
                let goes_on = Rc::new(Cell::new(happens));
                if happens {
                    let (machine, goes_on) = (Rc::clone(&machine), Rc::clone(&goes_on));
                    machine.env.clone().spawn(async move {
                        B::go_on(machine).await;
                        goes_on.set(false);
                    });
                }
                run_clients(&stage, &seeds).await;
                while goes_on.get() {
                    machine.env.sleep(100_000).await;
                }
                if accused.borrow().is_none()
                    && let Err(unsettled) = B::settle(&machine, &volume).await
                {
                    return Ok(Err(unsettled));
                }
            }
            Ok::<_, Error>(judged)
        });
        let events = life.machine.cuts.events_so_far();
        let drives = life.machine.drives();
        if let Some(accused) = seen.borrow_mut().take() {
            return Err(accused);
        }
        match lived {
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
        let mut life = self.life(drives, there, None);
        let moments = Rc::new(RefCell::new(Vec::new()));
        let served = Rc::new(Cell::new(false));
        if watch {
            let (machine, moments) = (Rc::downgrade(&life.machine), Rc::clone(&moments));
            let served = Rc::clone(&served);
            life.machine.cuts.observe(move || {
                let Some(machine) = machine.upgrade() else { return };
                moments.borrow_mut().push((machine.drives(), served.get()));
            });
        }
        let machine = Rc::clone(&life.machine);
        let (open, places, has_served) = (self.small.open, self.small.habits.places, Rc::clone(&served));
        let recovered = life.executor.block_on(async move {
            let volume = match machine.open(open).await {
                Err(Error::Unusable(why)) if B::IS_REDUNDANT => return Ok(Ok(Err(why))),
                opened => opened?,
            };
            let found = read_known(&volume, places).await?;
            has_served.set(true);
            if watch && let Err(unsettled) = B::settle(&machine, &volume).await {
                return Ok(Err(unsettled));
            }
            Ok::<_, Error>(Ok(Ok(found)))
        });
        let drives = life.machine.drives();
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
