//! Several modelled drives with a volume on them.
//!
//! 1. The same seed and story give the same times.
//! 2. The drives have been filled and overwritten before the volume is made, as drives in use are.
//! 3. The log is on drives of its own, which take a durable write in about the time that one with capacitors takes; or on
//!    the members, where that is asked for.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability, Extent};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::layout::{Layout, log_bytes_with_superblocks};
use evenkeel_engine::format::stripes::Stripes;
use evenkeel_engine::format::{PAGE_BYTES, log_head, ring_head};
use evenkeel_engine::layout::mirror::{MirrorJournal, MirrorPages};
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::ring::RingOptions;
use evenkeel_engine::volume::{Volume, create};
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::model::device::{ModelDevice, SharedStorage};
use evenkeel_sim::model::presets;

use crate::reproduce::Halted;

/// A volume on modelled members.
pub type MirrorVolume = Volume<SimEnv, SimArena, MirrorRing, MirrorJournal<SimEnv, ModelDevice, ModelDevice>>;

/// Its ring.
pub type MirrorRing = MirrorPages<SimEnv, ModelDevice>;

/// Times as many frames as a drive has are overwritten before it is used.
const OVERWRITES: f64 = 2.0;

/// Sizes of drives are multiples of this.
const DRIVE_STEP_BYTES: u64 = 64 << 20;

/// How long drives are left alone between two lives.
const SETTLED_NS: u64 = 20_000_000_000;

/// Bytes of the memory that a kill does not lose.
const ARENA_BYTES: usize = 64 << 20;

/// What a mirror is made of.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Name of the members' preset.
    pub preset: String,
    /// How many.
    pub members: usize,
    /// Bytes of each: a smaller drive of the same shape.
    pub drive_bytes: u64,
    /// Bytes that the volume offers.
    pub volume_bytes: u64,
    /// Bytes of the log.
    pub log_bytes: u64,
    /// Whether the members hold it.
    pub log_on_members: bool,
    /// The stripes over the members; `None` for a mirror.
    pub stripes: Option<Stripes>,
    /// Chance.
    pub seed: u64,
}

impl Plan {
    /// A volume of `volume_bytes` on drives twice as large each, with a log of half of them. Chance follows from `seed`.
    pub fn of(preset: &str, members: usize, volume_bytes: u64, seed: u64) -> Self {
        Self {
            preset: preset.to_owned(),
            members,
            drive_bytes: 2 * volume_bytes,
            volume_bytes,
            log_bytes: volume_bytes / 2,
            log_on_members: false,
            stripes: None,
            seed,
        }
    }

    /// A volume of `volume_bytes` as stripes on drives twice as large each as their shares of it, with a log of half of it.
    pub fn striped(preset: &str, stripes: Stripes, volume_bytes: u64, seed: u64) -> Self {
        let drive_bytes = (2 * volume_bytes / stripes.data() as u64).next_multiple_of(DRIVE_STEP_BYTES);
        let mirror = Self::of(preset, stripes.members(), volume_bytes, seed);
        Self { drive_bytes, stripes: Some(stripes), ..mirror }
    }

    /// Of the bytes a second that all members together take home, what turns can: the paper's W_sep, w N (q - 1) / q^2, over
    /// w N / q (section 4.3).
    pub fn separated_share(&self) -> f64 {
        let readers = self.stripes.map_or(1, |stripes| stripes.data());
        (self.members - readers) as f64 / self.members as f64
    }

    /// Bytes of each log device behind the journal, where changes of stripes are logged.
    fn stripe_log_bytes(&self) -> u64 {
        if self.stripes.is_some() { self.log_bytes / 2 } else { 0 }
    }

    /// Log devices: one may be lost for each member that may be.
    fn log_devices(&self) -> u64 {
        match self.stripes {
            _ if self.log_on_members => 0,
            None => self.members as u64,
            Some(stripes) => stripes.parity() as u64 + 1,
        }
    }

    /// How the ring is run, as `chosen` but for what is fixed when it is made.
    fn ring_options(&self, chosen: RingOptions) -> RingOptions {
        RingOptions { log_bytes: self.ring_log_bytes(), stripes: self.stripes, ..chosen }
    }

    /// Bytes of each member that hold the log.
    fn ring_log_bytes(&self) -> u64 {
        if self.log_on_members { log_bytes_with_superblocks(self.log_bytes) } else { 0 }
    }
}

/// Drives with a new volume on them, which outlive runs.
pub struct Bed {
    plan: Plan,
    members: Vec<SharedStorage>,
    logs: Vec<SharedStorage>,
    arena: ArenaBytes,
}

impl std::fmt::Debug for Bed {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Bed").field("plan", &self.plan).finish_non_exhaustive()
    }
}

/// What a story has.
#[derive(Clone)]
pub struct Site {
    /// Time and tasks.
    pub env: SimEnv,
    /// The volume.
    pub volume: MirrorVolume,
    /// What it is on.
    pub ring: MirrorRing,
}

impl std::fmt::Debug for Site {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Site").field("ring", &self.ring).finish_non_exhaustive()
    }
}

fn unavailable(why: impl std::fmt::Display) -> Halted {
    Halted::Unavailable(why.to_string())
}

impl Bed {
    /// Drives with a past, and a new volume on them, full.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where the preset has no drives of this size, or the volume does not fit.
    pub fn new(plan: Plan) -> Result<Self, Halted> {
        let preset = presets::find(&plan.preset).ok_or_else(|| unavailable("no such preset"))?;
        let drive = |seed: u64, bytes: u64, preset: &presets::Preset, overwrites: f64| {
            let mut flash = preset.flash(bytes).map_err(unavailable)?;
            flash.keep_contents();
            if overwrites > 0.0 {
                flash.precondition(overwrites, seed);
            }
            Ok::<SharedStorage, Halted>(Rc::new(RefCell::new(flash)))
        };
        let home_bytes = Layout::home_bytes_for(plan.volume_bytes / PAGE_BYTES, plan.log_bytes, true);
        let share_bytes = plan.stripes.map_or(Some(home_bytes), |stripes| stripes.member_bytes(home_bytes));
        let held_bytes = ring_head::DATA_OFFSET + plan.ring_log_bytes();
        if share_bytes.is_none_or(|share_bytes| share_bytes + held_bytes > plan.drive_bytes) {
            return Err(unavailable("the volume does not fit the drives"));
        }
        let members = (0..plan.members as u64)
            .map(|member| drive(plan.seed + member, plan.drive_bytes, preset, OVERWRITES))
            .collect::<Result<Vec<_>, _>>()?;
        let log_preset = presets::find("steady").ok_or_else(|| unavailable("no such preset"))?;
        let log_bytes = plan.log_bytes + plan.stripe_log_bytes() + log_head::DATA_OFFSET + 2 * PAGE_BYTES;
        let log_bytes = log_bytes.next_multiple_of(256 << 20);
        let logs = (0..plan.log_devices())
            .map(|log| drive(plan.seed + log, log_bytes, log_preset, 0.0))
            .collect::<Result<Vec<_>, _>>()?;
        let bed = Self { plan, members, logs, arena: ArenaBytes::new(ARENA_BYTES) };
        bed.make()?;
        Ok(bed)
    }

    /// What it is made of.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    fn make(&self) -> Result<(), Halted> {
        let options = CreateOptions {
            size_bytes: self.plan.volume_bytes,
            log_bytes: self.plan.log_bytes,
            atomic_max_bytes: 16 << 10,
        };
        let mut executor = Executor::new(self.plan.seed);
        let env = executor.env();
        let made = executor.block_on(async {
            let ring_options = self.plan.ring_options(RingOptions::default());
            let ring = MirrorPages::new(env.clone(), self.devices(&env, &self.members), ring_options)?;
            let devices = self.devices(&env, &self.logs);
            let logs = MirrorJournal::new(env.clone(), devices, ring.clone(), u64::MAX >> 1)?;
            create(&ring, &logs, true, options, self.plan.seed | 1).await
        });
        made.map_err(unavailable)?.map_err(unavailable)?;
        let options = RingOptions { rest_ns: 0, ..RingOptions::default() };
        self.live(options, async |site| {
            let noise: Vec<u8> =
                (0..1 << 20).map(|at: u32| (at.wrapping_mul(0x9E37_79B9) >> 24) as u8).collect();
            for offset in (0..self.plan.volume_bytes).step_by(noise.len()) {
                let piece = (self.plan.volume_bytes - offset).min(noise.len() as u64);
                site.volume.write(offset, &noise[..piece as usize], Durability::Durable).await?;
            }
            Ok::<(), Error>(())
        })?
        .map_err(unavailable)
    }

    fn devices(&self, env: &SimEnv, models: &[SharedStorage]) -> Vec<Option<ModelDevice>> {
        let open = |model: &SharedStorage| {
            Some(ModelDevice::open(Rc::clone(model), env.clone(), Cuts::none(env.stop())))
        };
        models.iter().map(open).collect()
    }

    /// Opens the volume and tells the story on it; then everything goes home, and the drives come to rest.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where it does not open.
    pub fn live<R>(&self, options: RingOptions, story: impl AsyncFnOnce(Site) -> R) -> Result<R, Halted> {
        let mut executor = Executor::new(self.plan.seed);
        let env = executor.env();
        let told = executor.block_on(async {
            let site = self.open(&env, options).await?;
            let told = story(site.clone()).await;
            site.volume.checkpoint().await?;
            site.env.sleep(SETTLED_NS).await;
            Ok::<R, Error>(told)
        });
        told.map_err(unavailable)?.map_err(unavailable)
    }

    async fn open(&self, env: &SimEnv, options: RingOptions) -> Result<Site, Error> {
        let options = self.plan.ring_options(options);
        let ring = MirrorPages::new(env.clone(), self.devices(env, &self.members), options)?;
        let devices = self.devices(env, &self.logs);
        let logs = MirrorJournal::open(env.clone(), devices, ring.clone(), u64::MAX >> 1).await?;
        let (size_bytes, zone_bytes) = (logs.geometry().size_bytes, self.plan.stripe_log_bytes());
        logs.log_stripes_of(&ring, Extent::new(size_bytes - zone_bytes, zone_bytes));
        let arena = SimArena::open(self.arena.clone(), env.clone(), Cuts::none(env.stop()), self.plan.seed);
        let open = OpenOptions {
            cached_pages_max: 64,
            dirty_pages_max: (self.plan.log_bytes / 2 / PAGE_BYTES) as usize,
            ..OpenOptions::default()
        };
        debug_assert!(ring.geometry().size_bytes > 0);
        let volume =
            Volume::open(env.clone(), arena, Rc::new(ring.clone()), Rc::new(logs), true, open).await?;
        Ok(Site { env: env.clone(), volume, ring })
    }
}
