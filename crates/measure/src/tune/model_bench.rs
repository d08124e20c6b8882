//! Volumes on a simulated drive, which holds the log too.
//!
//! 1. The drive has been filled and overwritten before, as drives in use are; a disk needs no past.
//! 2. The same seed and settings give the same figures.

use std::cell::RefCell;
use std::rc::Rc;

use evenkeel_engine::device::Device as _;
use evenkeel_engine::env::Env;
use evenkeel_engine::error::Error;
use evenkeel_engine::format::PAGE_BYTES;
use evenkeel_engine::options::{CreateOptions, OpenOptions};
use evenkeel_engine::ring::RingOptions;
use evenkeel_engine::volume::{Volume, create};
use evenkeel_host::interrupt::Interrupt;
use evenkeel_sim::arena::{ArenaBytes, SimArena};
use evenkeel_sim::cuts::Cuts;
use evenkeel_sim::executor::{Executor, SimEnv};
use evenkeel_sim::model::device::{ModelDevice, SharedStorage};
use evenkeel_sim::model::presets;

use super::Candidate;
use super::bench::{Bench, Halted};
use super::line::{self, Sample};
use super::load::{self, Load, Run};
use super::turns::{self, Progress, Turns};

/// Bytes of the volume.
const VOLUME_BYTES: u64 = 256 << 20;
/// Bytes of its log, as `create` makes it for so large a volume.
const LOG_BYTES: u64 = 32 << 20;
/// And of that of a ring of such drives.
const RING_LOG_BYTES: u64 = 512 << 20;
const ARENA_BYTES: usize = 64 << 20;
/// Memory for pages, as `serve` has it.
const CACHED_PAGES: usize = (64 << 20) / PAGE_BYTES as usize;
/// Times as many frames as the drive has are overwritten before it is used.
const OVERWRITES: f64 = 2.0;

/// A simulated drive with a volume on it.
pub struct ModelBench {
    model: SharedStorage,
    arena: ArenaBytes,
    seed: u64,
    interrupt: Interrupt,
}

impl std::fmt::Debug for ModelBench {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("ModelBench").field("seed", &self.seed).finish_non_exhaustive()
    }
}

fn unavailable(why: impl std::fmt::Display) -> Halted {
    Halted::Unavailable(why.to_string())
}

impl ModelBench {
    /// A drive of the preset `name`, twice as large as the volume on it. `interrupt` ends the trials.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where there is none of that name.
    pub fn new(name: &str, seed: u64, interrupt: Interrupt) -> Result<Self, Halted> {
        let drive_bytes = 2 * (VOLUME_BYTES + LOG_BYTES);
        let model: SharedStorage = match (presets::find(name), presets::find_disk(name)) {
            (Some(preset), _) => {
                let mut flash = preset.flash(drive_bytes).map_err(unavailable)?;
                flash.keep_contents();
                flash.precondition(OVERWRITES, seed);
                Rc::new(RefCell::new(flash))
            }
            (None, Some(preset)) => {
                let mut disk = preset.disk(drive_bytes).map_err(unavailable)?;
                disk.keep_contents();
                Rc::new(RefCell::new(disk))
            }
            (None, None) => {
                return Err(unavailable(format!(
                    "no drive is called {name}; `evenkeel drive --list` names them"
                )));
            }
        };
        Ok(Self { model, arena: ArenaBytes::new(ARENA_BYTES), seed, interrupt })
    }

    /// How long a turn of it is to be as a member of a ring, as it is written to for so long.
    ///
    /// # Errors
    ///
    /// [`Halted`].
    pub fn turns(&mut self, duration_ns: u64) -> Result<Turns, Halted> {
        let mut executor = Executor::new(self.seed);
        let env = executor.env();
        let device = self.device(&env);
        let range_bytes = device.geometry().size_bytes;
        let progress = Progress { tell: &mut |_, _| (), is_stopped: &|| self.interrupt.is_asked() };
        let written = executor.block_on(turns::sample(&env, &[(device, range_bytes)], duration_ns, progress));
        let written = written.map_err(unavailable)?.map_err(unavailable)?;
        match self.interrupt.is_asked() {
            true => Err(Halted::Stopped),
            false => {
                Ok(Turns::of(&written, RingOptions::default().turn_ns as f64 / 1e9, RING_LOG_BYTES / 4 * 3))
            }
        }
    }

    fn device(&self, env: &SimEnv) -> Rc<ModelDevice> {
        Rc::new(ModelDevice::open(Rc::clone(&self.model), env.clone(), Cuts::none(env.stop())))
    }
}

impl Bench for ModelBench {
    fn line(&mut self) -> Result<Vec<Sample>, Halted> {
        let mut executor = Executor::new(self.seed);
        let env = executor.env();
        let device = self.device(&env);
        let sampled = executor.block_on(line::sample(&env, &device));
        sampled.map_err(unavailable)?.map_err(unavailable)
    }

    fn trial(&mut self, candidate: Candidate, load: &Load, duration_s: f64) -> Result<Run, Halted> {
        if self.interrupt.is_asked() {
            return Err(Halted::Stopped);
        }
        let mut executor = Executor::new(self.seed);
        let env = executor.env();
        let device = self.device(&env);
        self.arena.clear();
        let options =
            CreateOptions { size_bytes: VOLUME_BYTES, log_bytes: LOG_BYTES, atomic_max_bytes: 16 << 10 };
        let base = OpenOptions { cached_pages_max: CACHED_PAGES, ..OpenOptions::default() }
            .with_pages_max(CACHED_PAGES);
        let run = executor.block_on(async {
            create(&*device, &*device, false, options, self.seed | 1).await?;
            let arena = SimArena::open(self.arena.clone(), env.clone(), Cuts::none(env.stop()), self.seed);
            let (home, log) = (Rc::clone(&device), Rc::clone(&device));
            let volume = Volume::open(env.clone(), arena, home, log, false, candidate.options(base)).await?;
            let volume = Rc::new(volume);
            let began_ns = env.now_ns();
            let run = load::run(&env, &volume, load, (duration_s * 1e9) as u64, self.seed).await;
            volume.checkpoint().await?;
            let took_ns = env.now_ns() - began_ns;
            Ok::<_, Error>(run.map(|run| Run { took_ns, ..run }))
        });
        run.map_err(unavailable)?.map_err(unavailable)?
    }
}
