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
//! 1. Records count beside which no other record of the volume was under way, and nothing went home.
//! 2. What counts is the middle, for each size by itself. A record that takes a thousand times as long moves it by no more than
//!    one that takes twice as long.
//! 3. What is usual follows slowly. A step is told once the new middle is known and has lasted, at most one a minute, and is
//!    usual from then on.
//! 4. What was not seen for five minutes is not told any more.

use std::cell::{Cell, RefCell};

use crate::events::Event;

/// Sizes are told apart by powers of the root of two, from this one on: records that grow within one do not look like a slower drive.
const LEAST_BYTES: u64 = 512;

/// As many of them: up to 32 MiB.
const SIZES: usize = 32;

/// Records of a size that are wanted before anything is said of it, or of a step.
const RECORDS_MIN: u64 = 64;

/// The middle moves by this share of itself for each record, in the end.
const STEP_SHARE: u64 = 32;

/// What is usual moves towards what is found now with this time constant, and faster in the beginning. What is older is
/// forgotten likewise.
const USUAL_OVER_NS: f64 = 300e9;

/// Nothing is said of a step before what is usual is known from so long.
const KNOWN_NS: u64 = 120_000_000_000;

/// So many times as long as usual, or as short, is a step,
const STEP_TIMES: f64 = 2.0;

/// where it makes at least this difference: processors that sleep more deeply make less,
const STEP_MIN_NS: f64 = 100_000.0;

/// and has lasted for so long,
const LASTS_NS: u64 = 10_000_000_000;

/// of which no more counts between two records,
const GAP_MAX_NS: u64 = 1_000_000_000;

/// and none was told for so long.
const PAUSE_NS: u64 = 60_000_000_000;

/// A line needs sizes of which the largest is so many times the smallest,
const SPREAD_MIN: u64 = 4;

/// and takes so many times as long: else it is one through noise.
const RISE_MIN: f64 = 1.5;

/// What a durable record of a volume takes, where no other is under way and nothing goes home.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RecordCost {
    /// Bytes of the records that there were most of lately, on average.
    pub bytes: u64,
    /// What half of those take at most, in ns.
    pub latency_ns: u64,
    /// The line through all sizes; `None` where they are too much alike, or no line goes through them.
    pub line: Option<CostLine>,
    /// Records that count, those of five minutes ago by a third.
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
    /// How many, those of long ago by less.
    weight: f64,
    mean_bytes: f64,
    seen_ns: u64,
    /// The middle, of late, and from how many records since it was begun anew.
    middle_ns: f64,
    learnt: u64,
    /// The middle, as it is usually; 0 unknown. Since when it is known.
    usual_ns: f64,
    known_since_ns: u64,
    /// For how long it has been a step away from that, where it is.
    away_ns: Option<u64>,
}

impl RecordCosts {
    /// A record beside which nothing was under way took so long. A step that this shows is answered, to be
    /// told.
    pub(super) fn note(&self, now_ns: u64, bytes: u64, took_ns: u64) -> Option<Event> {
        let mut sizes = self.sizes.borrow_mut();
        let size = &mut sizes[place_of(bytes)];
        size.note(now_ns, bytes, took_ns);
        let lasts = size.away_ns.is_some_and(|away_ns| away_ns >= LASTS_NS) && size.learnt >= RECORDS_MIN;
        let is_paused = self.told_ns.get().is_some_and(|told_ns| now_ns.saturating_sub(told_ns) < PAUSE_NS);
        if !lasts || is_paused {
            return None;
        }
        let step = Event::RecordsChanged {
            bytes: size.mean_bytes as u64,
            before_ns: size.usual_ns as u64,
            now_ns: size.middle_ns as u64,
        };
        self.told_ns.set(Some(now_ns));
        // Other sizes are to be learnt anew: what was usual of them was so before the step.
        let kept = Size { usual_ns: size.middle_ns, away_ns: None, ..*size };
        *sizes = [Size::default(); SIZES];
        sizes[place_of(bytes)] = kept;
        Some(step)
    }

    /// What is known now, if anything.
    pub(super) fn known(&self, now_ns: u64) -> Option<RecordCost> {
        let sizes = self.sizes.borrow();
        let known: Vec<Size> = sizes.iter().filter_map(|size| size.as_of(now_ns)).collect();
        let most = known.iter().max_by(|one, other| one.weight.total_cmp(&other.weight))?;
        Some(RecordCost {
            bytes: most.mean_bytes as u64,
            latency_ns: most.middle_ns as u64,
            line: line_through(known.iter()),
            records: known.iter().map(|size| size.weight).sum::<f64>() as u64,
        })
    }
}

impl Size {
    /// What is known of it now, those of long ago counted by less; `None` where that is nothing of late. While a step is learnt, that is
    /// what was learnt so far.
    fn as_of(&self, now_ns: u64) -> Option<Self> {
        let gap_ns = now_ns.saturating_sub(self.seen_ns) as f64;
        let is_known = self.usual_ns > 0.0 && gap_ns <= USUAL_OVER_NS;
        is_known.then(|| Self { weight: self.weight * faded(gap_ns), ..*self })
    }

    fn note(&mut self, now_ns: u64, bytes: u64, took_ns: u64) {
        let gap_ns = now_ns.saturating_sub(self.seen_ns);
        self.seen_ns = now_ns;
        self.weight = self.weight * faded(gap_ns as f64) + 1.0;
        self.mean_bytes += (bytes as f64 - self.mean_bytes) / self.weight.min(RECORDS_MIN as f64);
        self.move_middle(took_ns as f64);
        if self.usual_ns == 0.0 {
            if self.learnt < RECORDS_MIN {
                return;
            }
            (self.usual_ns, self.known_since_ns) = (self.middle_ns, now_ns);
        }
        // What it was before a step stays to be told.
        if self.away_ns.is_none() {
            self.follow(now_ns, gap_ns);
        }
        let (least_ns, most_ns) = (self.usual_ns.min(self.middle_ns), self.usual_ns.max(self.middle_ns));
        let is_away = most_ns >= least_ns * STEP_TIMES && most_ns - least_ns >= STEP_MIN_NS;
        let known_for_ns = now_ns.saturating_sub(self.known_since_ns);
        self.away_ns = match (is_away && known_for_ns >= KNOWN_NS, self.away_ns) {
            (false, _) => None,
            (true, Some(away_ns)) => Some(away_ns + gap_ns.min(GAP_MAX_NS)),
            (true, None) => {
                // The middle is on its way to somewhere: it is learnt anew, with large steps at first.
                self.learnt = 0;
                Some(0)
            }
        };
    }

    /// Towards what a record took, by a share of itself, and no further.
    fn move_middle(&mut self, took_ns: f64) {
        self.learnt += 1;
        if self.middle_ns == 0.0 {
            self.middle_ns = took_ns.max(1.0);
            return;
        }
        let share = match self.learnt {
            0..16 => 4,
            16..48 => 8,
            _ => STEP_SHARE,
        };
        let step_ns = self.middle_ns / share as f64;
        self.middle_ns += (took_ns.max(1.0) - self.middle_ns).clamp(-step_ns, step_ns);
    }

    /// What is usual follows, by the ratio of both: seconds that take ten times as long weigh as those that take a tenth. One
    /// record moves it no further than the middle, so that where few come it does not run after a step.
    fn follow(&mut self, now_ns: u64, gap_ns: u64) {
        let known_for_ns = now_ns.saturating_sub(self.known_since_ns) as f64;
        let share = gap_ns as f64 / known_for_ns.clamp(1.0, USUAL_OVER_NS);
        // In the beginning it is the mean so far.
        let share_max = if known_for_ns < KNOWN_NS as f64 { 1.0 } else { 1.0 / (4 * STEP_SHARE) as f64 };
        let share = share.min(share_max);
        self.usual_ns *= (self.middle_ns / self.usual_ns).powf(share);
    }
}

/// What is left of a weight after so long.
fn faded(gap_ns: f64) -> f64 {
    (-gap_ns / USUAL_OVER_NS).exp()
}

fn place_of(bytes: u64) -> usize {
    let octave = (bytes / LEAST_BYTES).max(1).ilog2();
    let begin = u128::from(LEAST_BYTES << octave);
    let is_upper = u128::from(bytes).pow(2) >= 2 * begin.pow(2);
    (2 * octave as usize + usize::from(is_upper)).min(SIZES - 1)
}

/// The line through the middles of sizes, each by how many records it has. No line falls, and none begins below nothing.
fn line_through<'a>(sizes: impl Iterator<Item = &'a Size> + Clone) -> Option<CostLine> {
    let by_bytes = |one: &&Size, other: &&Size| one.mean_bytes.total_cmp(&other.mean_bytes);
    let (smallest, largest) = (sizes.clone().min_by(by_bytes)?, sizes.clone().max_by(by_bytes)?);
    let is_spread = largest.mean_bytes >= smallest.mean_bytes * SPREAD_MIN as f64;
    if !is_spread || largest.middle_ns < smallest.middle_ns * RISE_MIN {
        return None;
    }
    let weighted = || sizes.clone().map(|size| (weight(size), size.mean_bytes, size.middle_ns));
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
    size.weight.min(1000.0) / size.middle_ns.powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What an event of a step says.
    #[derive(Debug, Clone, Copy, PartialEq)]
    struct Step {
        bytes: u64,
        before_ns: u64,
        now_ns: u64,
    }

    impl From<Event> for Step {
        fn from(event: Event) -> Self {
            let Event::RecordsChanged { bytes, before_ns, now_ns } = event else { panic!("{event:?}") };
            Self { bytes, before_ns, now_ns }
        }
    }

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
            told.extend(
                costs.note(now_ns, bytes, took_ns as u64).map(|step| (now_ns / SECOND_NS, step.into())),
            );
        }
        told
    }

    #[test]
    fn the_line_is_that_of_the_drive_in_spite_of_its_tail() {
        let (costs, mut noise) = (RecordCosts::default(), Noise(1));
        assert_eq!(costs.known(0), None);
        for bytes in [1 << 10, 4 << 10, 64 << 10, 256 << 10] {
            // 200 us, and 500 MB/s.
            run(&costs, &mut noise, (0, 10), 50, bytes, |_| 200e3 + bytes as f64 * 2.0);
        }
        let known = costs.known(10 * SECOND_NS).unwrap();
        let line = known.line.unwrap();
        assert!((150e3..270e3).contains(&line.fixed_ns), "{known:?}");
        assert!((350e6..700e6).contains(&line.bytes_per_s), "{known:?}");
        assert!((60e3..160e3).contains(&line.batch_bytes()), "{known:?}");
        assert!((1900..=2000).contains(&known.records), "{known:?}");
        assert_eq!(costs.known(311 * SECOND_NS), None, "nothing was seen for long");
    }

    #[test]
    fn records_of_which_the_largest_hardly_takes_longer_have_a_latency_and_no_line() {
        for (seed, sizes) in [(2, &[1500][..]), (3, &[1 << 10, 4 << 10])] {
            let (costs, mut noise) = (RecordCosts::default(), Noise(seed));
            for &bytes in sizes {
                run(&costs, &mut noise, (0, 100), 10, bytes, |_| 1e6 + bytes as f64 * 2.0);
            }
            let known = costs.known(100 * SECOND_NS).unwrap();
            assert_eq!(known.line, None);
            assert!((700_000..1_400_000).contains(&known.latency_ns), "{known:?}");
        }
    }

    #[test]
    fn noise_and_pauses_of_seconds_are_no_step() {
        // 400 volumes for an hour each: no sentence of them all is false.
        for seed in 0..400 {
            let (costs, mut noise) = (RecordCosts::default(), Noise(seed));
            let a_second = 1 + seed % 20;
            // Five seconds of each minute take ten times as long.
            let pauses = |at_s: f64| if at_s % 60.0 < 5.0 { 4e6 } else { 4e5 };
            let told = run(&costs, &mut noise, (0, 3600), a_second, 4096, pauses);
            assert_eq!(told, [], "seed {seed}");
        }
    }

    #[test]
    fn records_that_grow_are_no_step() {
        for seed in 0..100 {
            let (costs, mut noise) = (RecordCosts::default(), Noise(seed));
            // 20 MB/s: what a record takes is as its bytes are. They grow by half of a power of two every five minutes.
            for (number, kib) in [64_u32, 90, 127, 180, 255, 361, 511].into_iter().enumerate() {
                let from_s = 300 * number as u64;
                let took_ns = |_| f64::from(kib) * 51_200.0;
                let told = run(&costs, &mut noise, (from_s, from_s + 300), 5, u64::from(kib) << 10, took_ns);
                assert_eq!(told, [], "seed {seed}");
            }
        }
    }

    #[test]
    fn sizes_are_told_apart_by_half_powers_of_two() {
        let places = [0, 512, 724, 725, 1023, 1024, 4096, 6000, u64::MAX].map(place_of);
        assert_eq!(places, [0, 0, 0, 1, 1, 2, 6, 7, SIZES - 1]);
    }

    #[test]
    fn a_step_is_told_once_and_its_end_too() {
        for seed in 0..100 {
            // One a second, and as many as a client alone writes; four times as long, and forty times.
            for (a_second, slow_ns, lasts_s) in
                [(1, 8e5, 200), (1, 8e6, 200), (20, 8e5, 30), (2_000, 8e6, 20)]
            {
                if a_second > 100 && seed > 3 {
                    continue;
                }
                let (costs, mut noise) = (RecordCosts::default(), Noise(seed));
                let mut told = run(&costs, &mut noise, (0, 600), a_second, 4096, |_| 2e5);
                told.extend(run(&costs, &mut noise, (600, 1200), a_second, 4096, |_| slow_ns));
                told.extend(run(&costs, &mut noise, (1200, 1800), a_second, 4096, |_| 2e5));
                let [(slower_s, slower), (quicker_s, quicker)] = told[..] else {
                    panic!("seed {seed}, {a_second} a second: {told:?}")
                };
                assert!(
                    (610..610 + lasts_s).contains(&slower_s),
                    "seed {seed}, {a_second} a second: {told:?}"
                );
                assert!(
                    (1210..1210 + lasts_s).contains(&quicker_s),
                    "seed {seed}, {a_second} a second: {told:?}"
                );
                let is_about = |found: u64, truth: f64| (0.6..1.7).contains(&(found as f64 / truth));
                assert_eq!(slower.bytes, 4096);
                assert!(is_about(slower.before_ns, 2e5) && is_about(slower.now_ns, slow_ns), "{told:?}");
                assert!(is_about(quicker.before_ns, slow_ns) && is_about(quicker.now_ns, 2e5), "{told:?}");
            }
        }
    }

    #[test]
    fn a_slow_drift_is_followed_and_not_told() {
        let (costs, mut noise) = (RecordCosts::default(), Noise(3));
        let told = run(&costs, &mut noise, (0, 4 * 3600), 5, 4096, |at_s| 2e5 * (1.0 + at_s / 3600.0));
        assert_eq!(told, []);
        let known = costs.known(4 * 3600 * SECOND_NS).unwrap();
        assert!((700_000..1_400_000).contains(&known.latency_ns), "five times as long by now: {known:?}");
    }

    #[test]
    fn silence_behind_a_hiccup_is_not_ten_seconds_of_it() {
        for seed in 0..100 {
            let (costs, mut noise) = (RecordCosts::default(), Noise(seed));
            for burst in 0..200 {
                // A hundred records in a second, of which the last thirty take ten times as long; then nothing for 14 s.
                for number in 0..100 {
                    let now_ns = 15 * SECOND_NS * burst + number * SECOND_NS / 100;
                    let took_ns = if number < 70 { 3e5 } else { 3e6 } * noise.factor();
                    assert_eq!(costs.note(now_ns, 4096, took_ns as u64), None, "seed {seed}, burst {burst}");
                }
            }
        }
    }

    #[test]
    fn extremes_hurt_nothing() {
        let costs = RecordCosts::default();
        for number in 0..1000 {
            let took_ns = [0, u64::MAX, 1][number % 3];
            let _a_step_or_none =
                costs.note(u64::MAX / 1000 * number as u64, [0, u64::MAX, 1][number % 3], took_ns);
        }
        assert!(costs.known(u64::MAX / 1000 * 999).is_some());
    }
}
