//! How much of each point fits the time: runs are shortened first, then fewer, then points are dropped: small sizes
//! first, which take longest, or large ones where the smallest size that does is looked for.
//!
//! A full run of 4 KiB writes takes 4,096 of them, one of 16 MiB four. Where all do not fit, the longest
//! runs are shortened to a common length, which on a slow disk means those of small buffers; a run keeps at
//! least [`short_run_writes`](super::settings::short_run_writes).

use super::settings::short_run_writes;

/// Fewest runs with which a point still has an interval worth showing.
pub const RUNS_MIN: u32 = 3;

/// Share of the time left for repeating disturbed runs.
const REPEATS_SHARE: f64 = 0.1;

/// What a pilot run showed of a point's cost.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cost {
    /// Bytes in each write.
    pub buffer_bytes: u64,
    /// Writes in a full run.
    pub full_writes: u64,
    /// Seconds that a run takes besides its writes.
    pub setup_s: f64,
    /// Seconds a write.
    pub write_s: f64,
}

/// How much of a point is to be measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allotment {
    /// Writes in each run, by each writer.
    pub writes_per_run: u64,
    /// Runs; 0 where the point is dropped.
    pub runs: u32,
}

/// Which sizes are dropped first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstToGo {
    /// The small ones.
    Small,
    /// The large ones.
    Large,
}

impl Cost {
    fn run_s(&self, writes: u64) -> f64 {
        self.setup_s + writes as f64 * self.write_s
    }

    fn full_s(&self) -> f64 {
        self.run_s(self.full_writes)
    }

    fn short_s(&self) -> f64 {
        self.run_s(short_run_writes(self.buffer_bytes))
    }

    /// Most writes whose run takes at most `run_s`.
    fn writes_within(&self, run_s: f64) -> u64 {
        let writes = ((run_s - self.setup_s) / self.write_s.max(1e-9)).max(0.0) as u64;
        writes.clamp(short_run_writes(self.buffer_bytes).min(self.full_writes), self.full_writes)
    }
}

/// Fits `runs` runs of every point into `time_s` seconds; in full where `time_s` is `None`. The answer has an
/// entry for each entry of `costs`, which may be in any order.
pub fn allot(costs: &[Cost], runs: u32, time_s: Option<f64>, first_to_go: FirstToGo) -> Vec<Allotment> {
    let Some(time_s) = time_s else {
        return vec_of_full_runs(costs, runs);
    };
    let usable_s = time_s * (1.0 - REPEATS_SHARE);

    let mut kept: Vec<usize> = (0..costs.len()).collect();
    kept.sort_by_key(|&place| costs[place].buffer_bytes);
    if first_to_go == FirstToGo::Small {
        kept.reverse();
    }
    let runs_min = RUNS_MIN.min(runs);
    let shortest_s = |kept: &[usize]| kept.iter().map(|&place| costs[place].short_s()).sum::<f64>();
    while kept.len() > 1 && shortest_s(&kept) * f64::from(runs_min) > usable_s {
        kept.pop();
    }
    let affordable = usable_s / shortest_s(&kept).max(1e-9);
    let runs = if affordable < f64::from(runs) { (affordable as u32).max(runs_min) } else { runs };

    let cap_s = longest_run_s(costs, &kept, usable_s / f64::from(runs));
    let mut allotments = vec![Allotment { writes_per_run: 0, runs: 0 }; costs.len()];
    for &place in &kept {
        allotments[place] = Allotment { writes_per_run: costs[place].writes_within(cap_s), runs };
    }
    allotments
}

fn vec_of_full_runs(costs: &[Cost], runs: u32) -> Vec<Allotment> {
    let full = |cost: &Cost| Allotment { writes_per_run: cost.full_writes, runs };
    costs.iter().map(full).collect()
}

/// The common bound on a run's length with which one round of all kept points takes at most `round_s`.
fn longest_run_s(costs: &[Cost], kept: &[usize], round_s: f64) -> f64 {
    let round_with = |cap_s: f64| -> f64 {
        kept.iter().map(|&place| costs[place].run_s(costs[place].writes_within(cap_s))).sum()
    };
    let (mut low_s, mut high_s) = (0.0, kept.iter().map(|&place| costs[place].full_s()).fold(0.0, f64::max));
    if round_with(high_s) <= round_s {
        return high_s;
    }
    for _ in 0..50 {
        let middle_s = (low_s + high_s) / 2.0;
        if round_with(middle_s) <= round_s {
            low_s = middle_s;
        } else {
            high_s = middle_s;
        }
    }
    low_s
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A stack with `fixed_s` a write and `bandwidth` bytes per second, at the paper's sizes.
    fn stack(fixed_s: f64, bandwidth: f64) -> Vec<Cost> {
        (12..=24)
            .map(|power| Cost {
                buffer_bytes: 1 << power,
                full_writes: ((16 << 20) >> power).max(4),
                setup_s: 0.002,
                write_s: fixed_s + f64::from(1 << power) / bandwidth,
            })
            .collect()
    }

    fn total_s(costs: &[Cost], allotments: &[Allotment]) -> f64 {
        costs
            .iter()
            .zip(allotments)
            .map(|(cost, allotted)| f64::from(allotted.runs) * cost.run_s(allotted.writes_per_run))
            .sum()
    }

    #[test]
    fn a_fast_stack_is_measured_in_full() {
        let costs = stack(50e-6, 1e9);
        let allotments = allot(&costs, 30, Some(120.0), FirstToGo::Small);
        assert_eq!(allotments, allot(&costs, 30, None, FirstToGo::Small));
        assert_eq!(allotments[0], Allotment { writes_per_run: 4096, runs: 30 });
        assert_eq!(allotments[12], Allotment { writes_per_run: 4, runs: 30 });
    }

    #[test]
    fn on_a_slow_disk_small_buffers_are_shortened_and_every_size_keeps_its_runs() {
        let costs = stack(8e-3, 120e6);
        let allotments = allot(&costs, 30, Some(120.0), FirstToGo::Small);
        assert!(total_s(&costs, &allotments) <= 120.0);
        assert!(allotments.iter().all(|allotted| allotted.runs == 30));
        assert!(allotments[0].writes_per_run < 4096);
        assert!(allotments[0].writes_per_run >= allotments[12].writes_per_run);
    }

    #[test]
    fn where_nothing_else_helps_small_sizes_are_dropped_first() {
        let costs = stack(1.0, 10e6);
        let allotments = allot(&costs, 30, Some(60.0), FirstToGo::Small);
        let dropped = allotments.iter().filter(|allotted| allotted.runs == 0).count();
        assert!(dropped > 0 && dropped < costs.len());
        assert!(allotments[..dropped].iter().all(|allotted| allotted.runs == 0));
        assert!(allotments[dropped..].iter().all(|allotted| allotted.runs == RUNS_MIN));
    }

    #[test]
    fn large_sizes_are_dropped_first_where_the_smallest_that_does_is_wanted() {
        let costs = stack(1.0, 10e6);
        let allotments = allot(&costs, 30, Some(60.0), FirstToGo::Large);
        let kept = allotments.iter().filter(|allotted| allotted.runs > 0).count();
        assert!(kept > 0 && kept < costs.len());
        assert!(allotments[..kept].iter().all(|allotted| allotted.runs == RUNS_MIN));
    }

    proptest! {
        #[test]
        fn the_time_is_kept_wherever_it_can_be(
            fixed_s in 1e-6..0.1_f64, bandwidth in 1e6..1e10_f64, time_s in 5.0..600.0_f64, runs in 1..60_u32,
        ) {
            let costs = stack(fixed_s, bandwidth);
            let allotments = allot(&costs, runs, Some(time_s), FirstToGo::Small);
            let kept = allotments.iter().filter(|allotted| allotted.runs > 0).count();
            prop_assert!(kept >= 1);
            prop_assert!(kept == 1 || total_s(&costs, &allotments) <= time_s);
            for (cost, allotted) in costs.iter().zip(&allotments).filter(|(_, allotted)| allotted.runs > 0) {
                prop_assert!(allotted.writes_per_run >= short_run_writes(cost.buffer_bytes));
                prop_assert!(allotted.writes_per_run <= cost.full_writes);
                prop_assert!(allotted.runs <= runs);
            }
        }
    }
}
