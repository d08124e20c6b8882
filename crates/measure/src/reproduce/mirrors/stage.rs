//! A mirror and a trace on it, played as fast as makes plain replication block its reads.

use evenkeel_engine::ring::{Policy, RingOptions};

use super::bed::{Bed, Plan};
use super::clients::{Clients, Wrote};
use super::trace::{Play, Played, Requests};
use crate::reproduce::{Halted, Work};

/// Bytes of the volume, unless another size is asked for.
pub const VOLUME_BYTES: u64 = 512 << 20;

/// The share of time that reads are to be blocked under plain replication.
const BLOCKED_SHARE: f64 = 0.25;

/// A read is blocked for what it takes beyond so many times the median of reads without writes.
const BLOCKED_MEDIANS: f64 = 10.0;

/// Reads from which that median is taken, at the trace's own speed.
const MEDIAN_READS: u64 = 2000;

/// Requests under way beyond which plain replication counts as blocked all the time while the speed is looked for,
const QUICK_UNDER_WAY_MAX: u64 = 1_000;

/// and beyond which a policy does not serve what comes.
const UNDER_WAY_MAX: u64 = 20_000;

/// Writes under way while it is found how many the drives take.
const FLOOD_UNDER_WAY: usize = 64;

/// How often the interval that holds the speed is halved.
const HALVINGS: u32 = 5;

/// Beyond it no trace is played.
const SPEED_MAX: f64 = 1e6;

/// A bed and what is played on it.
#[derive(Debug)]
pub struct Stage {
    bed: Bed,
    requests: Requests,
    long_ns: u64,
}

impl Stage {
    /// A volume of `volume_bytes` on as many drives as `members`, twice as large each. Its log has half of them, and memory
    /// room for a quarter of them that are not home. Chance follows from `seed`.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where there are no such drives.
    pub fn new(
        preset: &str,
        members: usize,
        requests: Requests,
        volume_bytes: u64,
        seed: u64,
    ) -> Result<Self, Halted> {
        Self::on(Plan::of(preset, members, volume_bytes, seed), requests)
    }

    /// The same on what is made by a plan.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn on(plan: Plan, requests: Requests) -> Result<Self, Halted> {
        let mut stage = Self { bed: Bed::new(plan)?, requests, long_ns: u64::MAX };
        let alone = stage.play(Policy::Turns, 1.0, MEDIAN_READS, 0, true)?;
        stage.long_ns = (alone.reads.quantile_s(0.5) * BLOCKED_MEDIANS * 1e9) as u64;
        Ok(stage)
    }

    /// The bytes a second that its writes take home by themselves, as fast as all members together take them for so many
    /// seconds: mixed, what the paper calls w.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where the volume does not open.
    pub fn write_rate(&self, policy: Policy, seconds: u64) -> Result<f64, Halted> {
        let options = RingOptions { policy, ..RingOptions::default() };
        self.bed.live(options, async |site| {
            self.requests.flood(&site, FLOOD_UNDER_WAY, seconds).await; // what a new load costs at first is over
            self.requests.flood(&site, FLOOD_UNDER_WAY, seconds).await
        })
    }

    /// Lets clients write that wait each for its own write, beside reads.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where the volume does not open.
    pub fn write_by_clients(&self, policy: Policy, clients: Clients) -> Result<Wrote, Halted> {
        let options = RingOptions { policy, ..RingOptions::default() };
        self.bed.live(options, async |site| clients.write(&site, self.bed.plan().volume_bytes).await)
    }

    /// What it is on.
    pub fn plan(&self) -> &Plan {
        self.bed.plan()
    }

    /// Its requests.
    pub fn requests(&self) -> &Requests {
        &self.requests
    }

    /// Plays it so many times as fast as it was recorded, until so many reads are done and so many seconds are over.
    ///
    /// # Errors
    ///
    /// [`Halted::Unavailable`] where the volume does not open.
    pub fn play(
        &self,
        policy: Policy,
        speed: f64,
        reads: u64,
        seconds: u64,
        reads_only: bool,
    ) -> Result<Played, Halted> {
        let (long_ns, under_way_max) = (self.long_ns, UNDER_WAY_MAX);
        self.played(policy, Play { speed, reads, seconds, reads_only, long_ns, under_way_max })
    }

    fn played(&self, policy: Policy, play: Play) -> Result<Played, Halted> {
        let options = RingOptions { policy, ..RingOptions::default() };
        self.bed.live(options, async |site| self.requests.play(&site, play).await)
    }

    /// The speed at which plain replication blocks reads for about a quarter of the time, found from so many reads;
    /// `tried` is told each speed and the share of time.
    ///
    /// # Errors
    ///
    /// [`Halted::Stopped`] where a stop was asked for; as [`Self::play`].
    pub fn speed(&self, reads: u64, work: &Work<'_>, tried: impl Fn(f64, f64)) -> Result<f64, Halted> {
        let blocked = |speed: f64| {
            if work.is_stopped() {
                return Err(Halted::Stopped);
            }
            let play = Play {
                speed,
                reads,
                seconds: 0,
                reads_only: false,
                long_ns: self.long_ns,
                under_way_max: QUICK_UNDER_WAY_MAX,
            };
            let played = self.played(Policy::Mixed, play)?;
            tried(speed, played.blocked_share());
            Ok(played.blocked_share())
        };
        let (mut slow, mut fast) = (1.0, 8.0);
        while blocked(fast)? < BLOCKED_SHARE && fast < SPEED_MAX {
            (slow, fast) = (fast, fast * 2.0);
        }
        for _ in 0..HALVINGS {
            let middle = f64::sqrt(slow * fast);
            match blocked(middle)? < BLOCKED_SHARE {
                true => slow = middle,
                false => fast = middle,
            }
        }
        // The slower one: at the other more may come than is served.
        Ok(slow)
    }
}
