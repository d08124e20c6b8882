//! Cumulative distributions in steps, and how far apart two are.

/// A cumulative distribution: values that ascend, and the share of all that is no larger. The last share is 1.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Steps {
    values: Vec<f64>,
    shares: Vec<f64>,
}

impl Steps {
    /// Of values, each with how often it occurred; the values ascend. Those that never occurred are left out.
    pub fn of_counts(counts: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut steps = Self::default();
        let mut sum = 0.0;
        for (value, count) in counts {
            if count > 0 {
                sum += count as f64;
                steps.values.push(value);
                steps.shares.push(sum);
            }
        }
        for share in &mut steps.shares {
            *share /= sum;
        }
        steps
    }

    /// Of single values.
    pub fn of_values(values: &[f64]) -> Self {
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        Self::of_counts(
            sorted.chunk_by(|one, other| one == other).map(|group| (group[0], group.len() as u64)),
        )
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Values and the shares no larger than them.
    pub fn points(&self) -> impl Iterator<Item = (f64, f64)> {
        self.values.iter().copied().zip(self.shares.iter().copied())
    }

    /// The least value that at least this share is no larger than; `None` if there is nothing.
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let at = self.shares.partition_point(|&below| below < share);
        self.values.get(at).or(self.values.last()).copied()
    }

    /// The Kolmogorov-Smirnov distance: the largest difference between the two shares at any value, from 0 to 1
    /// (Smirnov 1939, "On the estimation of the discrepancy between empirical curves of distribution for two
    /// independent samples"). `None` if there is nothing in one of them.
    pub fn distance(&self, other: &Self) -> Option<f64> {
        if self.is_empty() || other.is_empty() {
            return None;
        }
        let (mut mine, mut theirs, mut farthest) = (0, 0, 0.0_f64);
        while mine < self.values.len() && theirs < other.values.len() {
            let at = self.values[mine].min(other.values[theirs]);
            mine += usize::from(self.values[mine] <= at);
            theirs += usize::from(other.values[theirs] <= at);
            let share = |steps: &Self, next: usize| if next == 0 { 0.0 } else { steps.shares[next - 1] };
            farthest = farthest.max((share(self, mine) - share(other, theirs)).abs());
        }
        Some(farthest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_distance_is_scipys() {
        let one = Steps::of_values(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let other = Steps::of_values(&[2.5, 3.5, 4.5, 5.5, 9.5, 10.5]);
        // scipy.stats.ks_2samp(one, other).statistic, SciPy 1.17.1
        assert!((one.distance(&other).unwrap() - 0.333_333_333_333_333_3).abs() < 1e-12);
    }

    #[test]
    fn what_does_not_overlap_is_a_whole_apart_and_the_same_is_nothing_apart() {
        let (low, high) = (Steps::of_values(&[1.0, 2.0]), Steps::of_values(&[3.0]));
        assert_eq!(low.distance(&high), Some(1.0));
        assert_eq!(low.distance(&low), Some(0.0));
        assert_eq!(low.distance(&Steps::default()), None);
    }

    #[test]
    fn counts_become_shares() {
        let steps = Steps::of_counts([(1.0, 3), (2.0, 0), (4.0, 1)]);
        assert_eq!(steps.points().collect::<Vec<_>>(), [(1.0, 0.75), (4.0, 1.0)]);
        assert_eq!([0.0, 0.75, 0.76, 1.0].map(|share| steps.quantile(share).unwrap()), [1.0, 1.0, 4.0, 4.0]);
    }

    proptest! {
        #[test]
        fn the_distance_is_the_largest_difference(
            a in prop::collection::vec(0..20_i32, 1..30),
            b in prop::collection::vec(0..20_i32, 1..30),
        ) {
            let share = |of: &[i32], at: i32| of.iter().filter(|&&v| v <= at).count() as f64 / of.len() as f64;
            let expected = (0..20).map(|at| (share(&a, at) - share(&b, at)).abs()).fold(0.0, f64::max);
            let steps = |of: &[i32]| Steps::of_values(&of.iter().copied().map(f64::from).collect::<Vec<_>>());
            let found = steps(&a).distance(&steps(&b)).unwrap();
            prop_assert!((found - expected).abs() < 1e-12);
            prop_assert_eq!(steps(&b).distance(&steps(&a)), Some(found));
        }
    }
}
