//! What a durable record takes on this log: `l + x / B`, estimated from the volume's own commits.
//!
//! `l` is what each record costs however small it is, and `B` the rate at which its bytes pass. Their product is the batch at
//! which throughput over latency is greatest.
//!
//! ```text
//!   time of a record │          ╱ x / B
//!                    │       ╱·
//!                    │   ·╱           ·  the middle of the records of one size
//!                  l ┼╱─────────────► x
//! ```
//!
//! 1. Records count that had the drives to themselves: no other was under way, and nothing went home.
//! 2. What counts is the middle, for each size by itself. A record that takes a thousand times as long moves it by no more than
//!    one that takes twice as long.
//! 3. What is usual follows slowly. A step is told once it has lasted, at most one a minute, and is usual from then on.

use std::cell::{Cell, RefCell};

/// Sizes are told apart by powers of two, from this one on.
const LEAST_BYTES: u64 = 512;

/// As many of them.
const SIZES: usize = 16;

/// Records of a size that are wanted before anything is said of it.
const RECORDS_MIN: u64 = 64;

/// The middle moves by this share of itself for each record, once it is known.
const STEP_SHARE: u64 = 32;

/// What is usual moves towards what is found now with this time constant, and faster in the beginning,
const USUAL_OVER_NS: f64 = 300e9;

/// and nothing is said of a step before that is known from so long.
const KNOWN_NS: u64 = 120_000_000_000;

/// So many times as long as usual, or as short, is a step,
const STEP_TIMES: u64 = 2;

/// where it has lasted for so long,
const LASTS_NS: u64 = 10_000_000_000;

/// and none was told for so long.
const PAUSE_NS: u64 = 60_000_000_000;

/// The largest size is so many times the smallest where both say what a byte takes.
const SPREAD_MIN: u64 = 4;

/// What a durable record of a volume takes, where nothing else is under way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordCost {
    /// Bytes of the records there are most of, on average.
    pub bytes: u64,
    /// What half of those take at most, in ns.
    pub latency_ns: u64,
    /// The line through all sizes; `None` where they are too much alike.
    pub line: Option<CostLine>,
    /// Records that count.
    pub records: u64,
}

/// What a durable record of `x` bytes takes: `fixed_ns`, and `x / bytes_per_s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostLine {
    /// l, in ns.
    pub fixed_ns: f64,
    /// B, in bytes a second.
    pub bytes_per_s: f64,
}

impl CostLine {
    /// l x B: the batch at which throughput over latency is greatest, in bytes.
    pub fn batch_bytes(&self) -> f64 {
        self.fixed_ns / 1e9 * self.bytes_per_s
    }
}

/// A durable record takes much longer, or much less long, than it used to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// Bytes of the records that show it.
    pub(super) bytes: u64,
    pub(super) before_ns: u64,
    pub(super) now_ns: u64,
}

/// The records of a volume.
#[derive(Debug, Default)]
pub(super) struct RecordCosts {
    sizes: RefCell<[Size; SIZES]>,
    /// When a step was told last.
    told_ns: Cell<Option<u64>>,
}

/// Records of one size.
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    records: u64,
    mean_bytes: u64,
    /// The middle, of late.
    middle_ns: u64,
    /// The middle, as it is usually; 0 unknown.
    usual_ns: u64,
    usual_since_ns: u64,
    /// Since when it is known.
    known_since_ns: u64,
    /// Since when it is a step away from that.
    away_since_ns: Option<u64>,
}

impl RecordCosts {
    /// A record that had the drives to itself took so long. A step that this shows is answered.
    pub(super) fn note(&self, now_ns: u64, bytes: u64, took_ns: u64) -> Option<Step> {
        let mut sizes = self.sizes.borrow_mut();
        let size = &mut sizes[place_of(bytes)];
        size.note(now_ns, bytes, took_ns);
        let lasts = size.away_since_ns.is_some_and(|since_ns| now_ns.saturating_sub(since_ns) >= LASTS_NS);
        let is_paused = self.told_ns.get().is_some_and(|told_ns| now_ns.saturating_sub(told_ns) < PAUSE_NS);
        if !lasts || is_paused {
            return None;
        }
        let step = Step { bytes: size.mean_bytes, before_ns: size.usual_ns, now_ns: size.middle_ns };
        self.told_ns.set(Some(now_ns));
        // Other sizes are to be learnt anew: what was usual of them was so before the step.
        let kept = *size;
        *sizes = [Size::default(); SIZES];
        sizes[place_of(bytes)] =
            Size { usual_ns: kept.middle_ns.max(1), usual_since_ns: now_ns, away_since_ns: None, ..kept };
        Some(step)
    }

    /// What is known, if anything.
    pub(super) fn known(&self) -> Option<RecordCost> {
        let sizes = self.sizes.borrow();
        let known = || sizes.iter().filter(|size| size.records >= RECORDS_MIN);
        let most = known().max_by_key(|size| size.records)?;
        Some(RecordCost {
            bytes: most.mean_bytes,
            latency_ns: most.middle_ns,
            line: line_through(known()),
            records: known().map(|size| size.records).sum(),
        })
    }
}

impl Size {
    fn note(&mut self, now_ns: u64, bytes: u64, took_ns: u64) {
        self.records += 1;
        let over = self.records.min(RECORDS_MIN);
        let mean_bytes =
            (u128::from(self.mean_bytes) * u128::from(over - 1) + u128::from(bytes)) / u128::from(over);
        self.mean_bytes = mean_bytes as u64;
        if self.records == 1 {
            self.middle_ns = took_ns;
            return;
        }
        let step_ns = (self.middle_ns / self.records.min(STEP_SHARE)).max(1);
        self.middle_ns = match took_ns.cmp(&self.middle_ns) {
            std::cmp::Ordering::Greater => self.middle_ns.saturating_add(step_ns).min(took_ns),
            std::cmp::Ordering::Less => self.middle_ns.saturating_sub(step_ns).max(took_ns),
            std::cmp::Ordering::Equal => took_ns,
        };
        if self.records < RECORDS_MIN {
            return;
        }
        if self.usual_ns == 0 {
            (self.usual_ns, self.usual_since_ns, self.known_since_ns) =
                (self.middle_ns.max(1), now_ns, now_ns);
        }
        self.follow(now_ns);
        let is_away = self.middle_ns >= self.usual_ns.saturating_mul(STEP_TIMES)
            || self.usual_ns >= self.middle_ns.saturating_mul(STEP_TIMES);
        let known_for_ns = now_ns.saturating_sub(self.known_since_ns);
        match is_away && known_for_ns >= KNOWN_NS {
            true => _ = self.away_since_ns.get_or_insert(now_ns),
            false => self.away_since_ns = None,
        }
    }

    /// What is usual follows, by the ratio of both: seconds that take ten times as long weigh as those that take a tenth.
    fn follow(&mut self, now_ns: u64) {
        let passed_ns = now_ns.saturating_sub(self.usual_since_ns) as f64;
        let known_for_ns = now_ns.saturating_sub(self.known_since_ns) as f64;
        let share = (passed_ns / known_for_ns.clamp(1.0, USUAL_OVER_NS)).min(1.0);
        let times = (self.middle_ns.max(1) as f64 / self.usual_ns as f64).powf(share);
        let usual_ns = ((self.usual_ns as f64 * times) as u64).max(1);
        // Less than a ns is left to be moved later.
        if usual_ns != self.usual_ns || passed_ns >= USUAL_OVER_NS {
            (self.usual_ns, self.usual_since_ns) = (usual_ns, now_ns);
        }
    }
}

fn place_of(bytes: u64) -> usize {
    ((bytes / LEAST_BYTES).max(1).ilog2() as usize).min(SIZES - 1)
}

/// The line through the middles of sizes, each by how many records it has. No line falls, and none begins below nothing.
fn line_through<'a>(sizes: impl Iterator<Item = &'a Size> + Clone) -> Option<CostLine> {
    let bytes = || sizes.clone().map(|size| size.mean_bytes);
    if bytes().max()? < bytes().min()?.saturating_mul(SPREAD_MIN) {
        return None;
    }
    let weighted = || sizes.clone().map(|size| (weight(size), size.mean_bytes as f64, size.middle_ns as f64));
    let all: f64 = weighted().map(|(weight, ..)| weight).sum();
    let mean_bytes = weighted().map(|(weight, bytes, _)| weight * bytes).sum::<f64>() / all;
    let mean_ns = weighted().map(|(weight, _, took_ns)| weight * took_ns).sum::<f64>() / all;
    let together: f64 =
        weighted().map(|(weight, bytes, took_ns)| weight * (bytes - mean_bytes) * (took_ns - mean_ns)).sum();
    let alone: f64 = weighted().map(|(weight, bytes, _)| weight * (bytes - mean_bytes).powi(2)).sum();
    let byte_ns = together / alone;
    let fixed_ns = mean_ns - byte_ns * mean_bytes;
    (byte_ns > 0.0 && fixed_ns > 0.0).then_some(CostLine { fixed_ns, bytes_per_s: 1e9 / byte_ns })
}

/// A size of which there are very many says no more than one of many. An error is one of so many percent, so that what takes
/// longer counts less.
fn weight(size: &Size) -> f64 {
    size.records.min(1000) as f64 / (size.middle_ns.max(1) as f64).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    /// Noise as that of drives: most near the middle, and a long tail on one side. From SplitMix64, so that runs repeat.
    struct Noise(u64);

    impl Noise {
        fn unit(&mut self) -> f64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
        }

        /// A factor whose middle is 1: one in 50 is ten times as large, and more.
        fn factor(&mut self) -> f64 {
            let normal: f64 = (0..12).map(|_| self.unit()).sum::<f64>() - 6.0;
            let tail = if self.unit() < 0.02 { 10.0 / (self.unit() + 0.01) } else { 1.0 };
            (normal * 0.6).exp() * tail
        }
    }

    /// Records for so long, `a_second` of them, each of `bytes` and with a middle of `took_ns`; the steps that were told.
    fn run(
        costs: &RecordCosts,
        noise: &mut Noise,
        (from_s, to_s): (u64, u64),
        a_second: u64,
        bytes: u64,
        took_ns: impl Fn(f64) -> f64,
    ) -> Vec<(u64, Step)> {
        let mut told = Vec::new();
        for number in from_s * a_second..to_s * a_second {
            let now_ns = number * SECOND_NS / a_second;
            let took_ns = took_ns(now_ns as f64 / 1e9) * noise.factor();
            told.extend(costs.note(now_ns, bytes, took_ns as u64).map(|step| (now_ns / SECOND_NS, step)));
        }
        told
    }

    #[test]
    fn the_line_is_that_of_the_drive_in_spite_of_its_tail() {
        let (costs, mut noise) = (RecordCosts::default(), Noise(1));
        assert_eq!(costs.known(), None);
        for bytes in [1 << 10, 4 << 10, 64 << 10, 256 << 10] {
            // 200 us, and 500 MB/s.
            run(&costs, &mut noise, (0, 10), 50, bytes, |_| 200e3 + bytes as f64 * 2.0);
        }
        let known = costs.known().unwrap();
        let line = known.line.unwrap();
        assert!((150e3..270e3).contains(&line.fixed_ns), "{known:?}");
        assert!((350e6..700e6).contains(&line.bytes_per_s), "{known:?}");
        assert!((60e3..160e3).contains(&line.batch_bytes()), "{known:?}");
        assert_eq!(known.records, 2000);
    }

    #[test]
    fn records_of_one_size_have_a_latency_and_no_line() {
        let (costs, mut noise) = (RecordCosts::default(), Noise(2));
        run(&costs, &mut noise, (0, 100), 10, 1500, |_| 1e6);
        let known = costs.known().unwrap();
        assert_eq!((known.bytes, known.line), (1500, None));
        assert!((700_000..1_400_000).contains(&known.latency_ns), "{known:?}");
    }

    #[test]
    fn noise_and_pauses_of_seconds_are_no_step() {
        // 400 volumes for an hour each: no sentence of them all is false.
        for seed in 0..400 {
            let (costs, mut noise) = (RecordCosts::default(), Noise(seed));
            let a_second = 1 + seed % 20;
            // Five seconds of each minute take ten times as long.
            let pauses = |at_s: f64| if at_s % 60.0 < 5.0 { 2e6 } else { 2e5 };
            let told = run(&costs, &mut noise, (0, 3600), a_second, 4096, pauses);
            assert_eq!(told, [], "seed {seed}");
        }
    }

    #[test]
    fn a_step_is_told_once_and_its_end_too() {
        for seed in 0..100 {
            let (costs, mut noise) = (RecordCosts::default(), Noise(seed));
            let mut told = run(&costs, &mut noise, (0, 600), 20, 4096, |_| 2e5);
            told.extend(run(&costs, &mut noise, (600, 900), 20, 4096, |_| 8e5));
            told.extend(run(&costs, &mut noise, (900, 1200), 20, 4096, |_| 2e5));
            let times: Vec<u64> = told.iter().map(|(at_s, _)| *at_s).collect();
            let [slower, quicker] = times[..] else { panic!("seed {seed}: {told:?}") };
            assert!((610..630).contains(&slower) && (910..930).contains(&quicker), "seed {seed}: {told:?}");
            let Step { bytes, before_ns, now_ns } = told[0].1;
            assert_eq!(bytes, 4096);
            assert!(
                (140_000..280_000).contains(&before_ns) && (500_000..1_200_000).contains(&now_ns),
                "{told:?}"
            );
        }
    }

    #[test]
    fn a_slow_drift_is_followed_and_not_told() {
        let (costs, mut noise) = (RecordCosts::default(), Noise(3));
        let told = run(&costs, &mut noise, (0, 4 * 3600), 5, 4096, |at_s| 2e5 * (1.0 + at_s / 3600.0));
        assert_eq!(told, []);
        let known = costs.known().unwrap();
        assert!((700_000..1_400_000).contains(&known.latency_ns), "five times as long by now: {known:?}");
    }

    #[test]
    fn extremes_hurt_nothing() {
        let costs = RecordCosts::default();
        for number in 0..1000 {
            let took_ns = [0, u64::MAX, 1][number % 3];
            let _a_step_or_none =
                costs.note(u64::MAX / 1000 * number as u64, [0, u64::MAX, 1][number % 3], took_ns);
        }
        assert!(costs.known().is_some());
    }
}
