//! How long a member of a ring writes at a time, from what the slowest windows of its throughput get (paper 3, figure 6).
//!
//! ```text
//!   writes of pages at random, deep ──► bytes each 10 ms ──► for each length: what a twentieth of its windows
//!                                                            does not exceed, as a share of the mean
//! ```
//!
//! 1. A drive that writes is steady over long enough windows only. A turn that is shorter brings home now more and now less
//!    than the ring counts on.
//! 2. A longer turn takes the place of the default only where that is far from steady, and the longer one is steady: it
//!    takes more memory and log, and reads wait longer for a member.
//! 3. No turn is longer than the log holds: what comes in two turns waits in it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use evenkeel_engine::device::{Device, Durability, FlushScope};
use evenkeel_engine::env::Env;
use evenkeel_engine::error::DeviceError;
use evenkeel_engine::format::{PAGE, PAGE_BYTES};
use evenkeel_engine::join;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use schemars::JsonSchema;
use serde::Serialize;

use crate::replay::Payload;
use crate::report::format;
use crate::stats::quantile;

/// Lengths of turns that are looked at, in milliseconds.
pub const TURNS_MS: [u64; 5] = [250, 500, 1000, 2000, 4000];

/// Windows of which the slowest twentieth gets such a share of the mean are steady.
pub const STEADY: f64 = 0.8;

/// A turn of which they get less than this is worth a change.
pub const UNSTEADY: f64 = 0.67;

/// Writes under way at once, as a ring has them on a member.
const DEPTH: usize = 32;

/// Of a bucket.
const BUCKET_NS: u64 = 10_000_000;

/// A run has so many windows, at least, that do not overlap.
const WINDOWS_MIN: u64 = 5;

/// Of what is written.
const SEED: u64 = 3;

/// What is written to a drive over time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes whose writes ended in each bucket of 10 ms.
    buckets: Vec<u64>,
}

/// How steady turns of one length are.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct Steadiness {
    /// Length of the windows.
    pub window_s: f64,
    /// What a twentieth of them does not exceed, as a share of the mean.
    pub share: f64,
}

/// What writes of pages came to.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Turns {
    /// Bytes of pages that a member takes home in a second, in the mean.
    pub bytes_per_s: f64,
    /// By length.
    pub windows: Vec<Steadiness>,
    /// The turn to run.
    pub turn_s: f64,
    /// Why.
    pub reason: String,
}

/// Writes pages at random places for `duration_ns`, or until `is_stopped`, and flushes. What the device holds is lost.
///
/// # Errors
///
/// Those of the device.
pub async fn sample<E: Env, D: Device>(
    env: &E,
    device: &Rc<D>,
    duration_ns: u64,
    is_stopped: impl Fn() -> bool,
) -> Result<Written, DeviceError> {
    let pages = (device.geometry().size_bytes / PAGE_BYTES).max(1);
    let began_ns = env.now_ns();
    let (written, failed) = (RefCell::new(Written::default()), Cell::new(None));
    let (payload, number) = (Payload::new(SEED), Cell::new(0));
    join::all((0..DEPTH).map(|client| {
        let (written, failed, payload, number) = (&written, &failed, &payload, &number);
        let is_stopped = &is_stopped;
        async move {
            let mut random = StdRng::seed_from_u64(SEED + client as u64);
            let mut page = vec![0; PAGE];
            while failed.get().is_none() && !is_stopped() {
                payload.fill(number.replace(number.get() + 1), &mut page);
                let at = random.random_range(0..pages) * PAGE_BYTES;
                if let Err(error) = device.write(at, &page, Durability::Buffered).await {
                    return failed.set(Some(error));
                }
                let passed_ns = env.now_ns() - began_ns;
                if passed_ns >= duration_ns {
                    return;
                }
                written.borrow_mut().note(passed_ns, PAGE_BYTES);
            }
        }
    }))
    .await;
    match failed.into_inner() {
        Some(error) => Err(error),
        None => {
            // Nothing may have ended in the last of them.
            let passed_ns = duration_ns.min(env.now_ns() - began_ns);
            written.borrow_mut().note(passed_ns.saturating_sub(1), 0);
            device.flush(FlushScope::Whole).await.map(|()| written.into_inner())
        }
    }
}

impl Written {
    fn note(&mut self, passed_ns: u64, bytes: u64) {
        let bucket = (passed_ns / BUCKET_NS) as usize;
        self.buckets.resize(self.buckets.len().max(bucket + 1), 0);
        self.buckets[bucket] += bytes;
    }

    fn bytes_per_s(&self) -> f64 {
        let bytes: u64 = self.buckets.iter().sum();
        bytes as f64 * 1e9 / (self.buckets.len().max(1) as u64 * BUCKET_NS) as f64
    }

    /// What a twentieth of all windows of this length does not exceed, as a share of the mean; `None` where there are too few.
    fn share(&self, window_ms: u64) -> Option<f64> {
        let len = (window_ms * 1_000_000 / BUCKET_NS) as usize;
        if self.buckets.len() < len * WINDOWS_MIN as usize {
            return None;
        }
        let windows = self.buckets.windows(len).map(|window| window.iter().sum::<u64>() as f64);
        let each: Vec<f64> = windows.collect();
        let mean = self.bytes_per_s() * window_ms as f64 / 1e3;
        Some(quantile(&each, 0.05)? / mean)
    }
}

impl Turns {
    /// Of two members the one that needs the longer turn, or is less steady.
    pub fn harder(self, other: Self) -> Self {
        let least = |it: &Self| it.windows.iter().map(|it| it.share).fold(f64::INFINITY, f64::min);
        let is_harder =
            other.turn_s > self.turn_s || (other.turn_s == self.turn_s && least(&other) < least(&self));
        if is_harder { other } else { self }
    }

    /// The turn to run a member with that takes pages home so, where one of `default_s` is run otherwise and `log_bytes` hold
    /// what comes in two turns.
    pub fn of(written: &Written, default_s: f64, log_bytes: u64) -> Self {
        let bytes_per_s = written.bytes_per_s();
        let each = TURNS_MS.iter().filter_map(|&window_ms| {
            written.share(window_ms).map(|share| Steadiness { window_s: window_ms as f64 / 1e3, share })
        });
        let windows: Vec<Steadiness> = each.collect();
        let log_s = log_bytes as f64 / (2.0 * bytes_per_s);
        let told = |it: &Steadiness| {
            let (window, share) = (format::seconds(it.window_s), format::percent(it.share));
            format!("in turns of {window} the slowest twentieth takes home {share} of the mean")
        };
        let default = windows.iter().find(|it| it.window_s >= default_s);
        let longer = |it: &&Steadiness| it.window_s > default_s && it.share >= STEADY;
        let (turn_s, reason) = match (default, windows.iter().find(longer)) {
            (None, _) => (default_s, "too little time to see how steady the members are".to_owned()),
            (Some(default), _) if default.share >= UNSTEADY => (default_s, told(default)),
            (Some(default), None) => (default_s, format!("{}, and no longer one is steady", told(default))),
            (Some(default), Some(longer)) if longer.window_s > log_s => {
                let holds = format::seconds(log_s);
                (default_s, format!("{}; {}, but the log holds two of {holds}", told(default), told(longer)))
            }
            (Some(default), Some(longer)) => {
                (longer.window_s, format!("{}; {}", told(longer), told(default)))
            }
        };
        Self { bytes_per_s, windows, turn_s, reason }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of each bucket.
    fn written(seconds: u64, bytes_at: impl Fn(u64) -> u64) -> Written {
        let mut written = Written::default();
        for bucket in 0..seconds * 100 {
            written.note(bucket * BUCKET_NS, bytes_at(bucket));
        }
        written
    }

    const LOG_BYTES: u64 = 1 << 30;

    #[test]
    fn a_steady_drive_keeps_the_default() {
        let turns = Turns::of(&written(20, |bucket| 1000 + bucket % 7), 1.0, LOG_BYTES);
        assert!(turns.turn_s == 1.0 && turns.windows.len() == 5, "{turns:?}");
        assert!(turns.windows.iter().all(|it| it.share > 0.99), "{turns:?}");
    }

    #[test]
    fn a_drive_that_pauses_every_other_second_gets_turns_with_as_many_pauses_each() {
        let pauses = |bucket: u64| if bucket % 200 < 100 { 1000 } else { 0 };
        let turns = Turns::of(&written(20, pauses), 1.0, LOG_BYTES);
        assert!(turns.turn_s == 2.0, "{turns:?}");
        assert!(turns.reason.contains("in turns of 1 s"), "{turns:?}");
        let small_log = (1.5 * turns.bytes_per_s) as u64;
        let turns = Turns::of(&written(20, pauses), 1.0, small_log);
        assert!(turns.turn_s == 1.0 && turns.reason.contains("the log holds"), "{turns:?}");
    }

    #[test]
    fn where_no_turn_is_steady_or_the_run_was_short_the_default_stays() {
        let fades = |bucket: u64| if bucket < 1000 { 1000 } else { 1 };
        let turns = Turns::of(&written(20, fades), 1.0, LOG_BYTES);
        assert!(turns.turn_s == 1.0 && turns.reason.contains("no longer one"), "{turns:?}");
        let turns = Turns::of(&written(4, |_| 1000), 1.0, LOG_BYTES);
        assert!(turns.turn_s == 1.0 && turns.reason.contains("too little time"), "{turns:?}");
    }
}
