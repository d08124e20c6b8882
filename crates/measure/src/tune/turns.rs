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
//!    takes more memory and log, and reads wait longer for a member. One stall may look like that, so it has to show in two
//!    runs ([`Turns::once_more`]).
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

/// Windows of which they get less than this are so far from steady that a longer turn is looked for.
pub const UNSTEADY: f64 = 0.67;

/// Writes under way at once, as a ring has them on a member.
const DEPTH: usize = 32;

/// Of a bucket.
const BUCKET_NS: u64 = 10_000_000;

/// A run has so many windows, at least, that do not overlap.
const WINDOWS_MIN: u64 = 5;

/// A run is so long at least that windows longer than those of a second show.
pub const RUN_MIN_S: f64 = 10.0;

/// Bytes that are filled at once.
const FILLED_BYTES: usize = 1 << 20;

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
    /// Bytes of pages that the slowest member takes home in a second, in the mean.
    pub bytes_per_s: f64,
    /// By length; of several members the least.
    pub windows: Vec<Steadiness>,
    /// The turn to run.
    pub turn_s: f64,
    /// Why.
    pub reason: String,
}

/// How a run goes on and ends.
pub struct Progress<'a> {
    /// Hears bytes that are filled, and bytes in all; then nanoseconds of the run.
    pub tell: &'a mut dyn FnMut(u64, u64),
    /// Whether it is to end at once.
    pub is_stopped: &'a dyn Fn() -> bool,
}

/// Fills the first `range_bytes` of each device and then writes pages at random places in them for `duration_ns`, on all devices side
/// by side; flushes at the end. What they hold there is lost.
///
/// # Errors
///
/// Those of the devices.
pub async fn sample<E: Env, D: Device>(
    env: &E,
    devices: &[(Rc<D>, u64)],
    duration_ns: u64,
    progress: Progress<'_>,
) -> Result<Vec<Written>, DeviceError> {
    let Progress { tell, is_stopped } = progress;
    let payload = Payload::new(SEED);
    let all_bytes: u64 = devices.iter().map(|(_, range_bytes)| range_bytes).sum();
    let (mut filled, mut done_bytes) = (vec![0; FILLED_BYTES], 0);
    for (device, range_bytes) in devices {
        let mut offset = 0;
        while offset < *range_bytes && !is_stopped() {
            let piece = filled.len().min(usize::try_from(range_bytes - offset).unwrap_or(usize::MAX));
            payload.fill(done_bytes, &mut filled[..piece]);
            device.write(offset, &filled[..piece], Durability::Buffered).await?;
            offset += piece as u64;
            done_bytes += piece as u64;
            tell(done_bytes, all_bytes);
        }
        device.flush(FlushScope::Whole).await?;
    }
    let began_ns = env.now_ns();
    let written: Vec<RefCell<Written>> = devices.iter().map(|_| RefCell::default()).collect();
    let (failed, number, told) = (Cell::new(None), Cell::new(0), RefCell::new(tell));
    let writers = devices.iter().zip(&written).flat_map(|it| (0..DEPTH).map(move |writer| (it, writer)));
    join::all(writers.map(|(((device, range_bytes), written), writer)| {
        let (failed, number, told, payload) = (&failed, &number, &told, &payload);
        async move {
            let mut random = StdRng::seed_from_u64(SEED + writer as u64);
            let mut page = vec![0; PAGE];
            let pages = (range_bytes / PAGE_BYTES).max(1);
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
                if written.borrow_mut().note(passed_ns, PAGE_BYTES) {
                    (told.borrow_mut())(passed_ns, duration_ns);
                }
            }
        }
    }))
    .await;
    if let Some(error) = failed.into_inner() {
        return Err(error);
    }
    // Nothing may have ended in the last buckets.
    let passed_ns = duration_ns.min(env.now_ns() - began_ns);
    for (written, (device, _)) in written.iter().zip(devices) {
        written.borrow_mut().note(passed_ns.saturating_sub(1), 0);
        device.flush(FlushScope::Whole).await?;
    }
    Ok(written.into_iter().map(RefCell::into_inner).collect())
}

impl Written {
    /// Whether a bucket was begun with that.
    fn note(&mut self, passed_ns: u64, bytes: u64) -> bool {
        let bucket = (passed_ns / BUCKET_NS) as usize;
        let is_new = bucket >= self.buckets.len();
        self.buckets.resize(self.buckets.len().max(bucket + 1), 0);
        self.buckets[bucket] += bytes;
        is_new
    }

    fn bytes_per_s(&self) -> f64 {
        let bytes: u64 = self.buckets.iter().sum();
        bytes as f64 * 1e9 / (self.buckets.len().max(1) as u64 * BUCKET_NS) as f64
    }

    /// What a twentieth of all windows of this length does not exceed, as a share of the mean; `None` where there are too few, or
    /// nothing was written.
    fn share(&self, window_ms: u64) -> Option<f64> {
        let len = (window_ms * 1_000_000 / BUCKET_NS) as usize;
        let mean = self.bytes_per_s() * window_ms as f64 / 1e3;
        if self.buckets.len() < len * WINDOWS_MIN as usize || mean == 0.0 {
            return None;
        }
        let windows = self.buckets.windows(len).map(|window| window.iter().sum::<u64>() as f64);
        let each: Vec<f64> = windows.collect();
        Some(quantile(&each, 0.05)? / mean)
    }
}

impl Turns {
    /// The turn to run members with that take pages home so, where one of `default_s` is run otherwise and a member's part of what
    /// waits is `room_bytes` at most.
    pub fn of(members: &[Written], default_s: f64, room_bytes: u64) -> Self {
        let rates = || members.iter().map(Written::bytes_per_s);
        let (slowest, fastest) = (rates().fold(f64::INFINITY, f64::min), rates().fold(0.0, f64::max));
        let least = |window_ms: u64| {
            let shares: Option<Vec<f64>> = members.iter().map(|member| member.share(window_ms)).collect();
            shares?.into_iter().reduce(f64::min)
        };
        let each = TURNS_MS.iter().filter_map(|&window_ms| {
            least(window_ms).map(|share| Steadiness { window_s: window_ms as f64 / 1e3, share })
        });
        let windows: Vec<Steadiness> = each.collect();
        let room_s = room_bytes as f64 / (2.0 * fastest);
        let told = |it: &Steadiness| {
            let (window, share) = (format::seconds(it.window_s), format::percent(it.share));
            format!("a twentieth of all windows of {window} gets at most {share} of the mean")
        };
        let default = windows.iter().find(|it| it.window_s >= default_s);
        let longer = || windows.iter().filter(|it| it.window_s > default_s);
        let (turn_s, reason) = match (default, longer().find(|it| it.share >= STEADY)) {
            (None, _) => (default_s, "too little was written to see how steady the members are".to_owned()),
            (Some(default), _) if default.share >= UNSTEADY => (default_s, told(default)),
            (Some(default), None) if longer().next().is_none() => {
                (default_s, format!("{}; longer ones were not looked at", told(default)))
            }
            (Some(default), None) => {
                (default_s, format!("{}; longer ones are not steady either", told(default)))
            }
            (Some(default), Some(longer)) if longer.window_s > room_s => {
                let holds = format::seconds(room_s);
                (
                    default_s,
                    format!("{}; {}, but the log holds two turns of {holds}", told(default), told(longer)),
                )
            }
            (Some(default), Some(longer)) => {
                (longer.window_s, format!("{}; {}", told(longer), told(default)))
            }
        };
        Self { bytes_per_s: if slowest.is_finite() { slowest } else { 0.0 }, windows, turn_s, reason }
    }

    /// What a second run says of a longer turn: it is chosen where both say so.
    pub fn once_more(self, again: Self) -> Self {
        if again.turn_s >= self.turn_s {
            return self;
        }
        Self { reason: format!("{}, in a second run", again.reason), ..again }
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

    const ROOM_BYTES: u64 = 1 << 30;

    fn turns(written: Written, room_bytes: u64) -> Turns {
        Turns::of(&[written], 1.0, room_bytes)
    }

    fn pauses(bucket: u64) -> u64 {
        if bucket % 200 < 100 { 1000 } else { 0 }
    }

    #[test]
    fn a_steady_drive_keeps_the_default() {
        let turns = turns(written(20, |bucket| 1000 + bucket % 7), ROOM_BYTES);
        assert!(turns.turn_s == 1.0 && turns.windows.len() == 5, "{turns:?}");
        assert!(turns.windows.iter().all(|it| it.share > 0.99), "{turns:?}");
    }

    #[test]
    fn a_drive_that_pauses_every_other_second_gets_turns_with_as_many_pauses_each() {
        let found = turns(written(20, pauses), ROOM_BYTES);
        assert!(found.turn_s == 2.0 && found.reason.contains("windows of 1 s"), "{found:?}");
        let found = turns(written(20, pauses), (3.9 * found.bytes_per_s) as u64);
        assert!(found.turn_s == 1.0 && found.reason.contains("the log holds"), "{found:?}");
    }

    #[test]
    fn where_no_turn_is_steady_or_the_run_was_short_the_default_stays() {
        let fades = |bucket: u64| if bucket < 1000 { 1000 } else { 1 };
        let found = turns(written(20, fades), ROOM_BYTES);
        assert!(found.turn_s == 1.0 && found.reason.contains("not steady either"), "{found:?}");
        let found = turns(written(6, pauses), ROOM_BYTES);
        assert!(found.turn_s == 1.0 && found.reason.contains("not looked at"), "{found:?}");
        for nothing in [written(4, |_| 1000), written(20, |_| 0)] {
            let found = turns(nothing, ROOM_BYTES);
            assert!(found.turn_s == 1.0 && found.reason.contains("too little"), "{found:?}");
        }
    }

    #[test]
    fn of_two_members_the_one_that_pauses_counts_and_the_log_is_that_of_the_faster_one() {
        let (steady, paused) = (written(20, |_| 5000), written(20, pauses));
        let found = Turns::of(&[steady.clone(), paused.clone()], 1.0, ROOM_BYTES);
        assert!(found.turn_s == 2.0 && found.bytes_per_s == paused.bytes_per_s(), "{found:?}");
        let found = Turns::of(&[steady.clone(), paused], 1.0, (3.9 * steady.bytes_per_s()) as u64);
        assert!(found.turn_s == 1.0 && found.reason.contains("the log holds"), "{found:?}");
    }

    #[test]
    fn one_stall_changes_nothing() {
        let stalls = |bucket: u64| if (400..440).contains(&bucket) { 0 } else { 1000 };
        let (stalled, steady) =
            (turns(written(10, stalls), ROOM_BYTES), turns(written(10, |_| 1000), ROOM_BYTES));
        assert!(stalled.turn_s == 2.0 && steady.turn_s == 1.0, "{stalled:?}");
        assert_eq!(stalled.clone().once_more(steady).turn_s, 1.0);
        assert_eq!(stalled.clone().once_more(stalled).turn_s, 2.0);
    }
}
