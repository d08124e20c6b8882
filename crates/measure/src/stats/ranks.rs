//! Ranks of values, tied ones sharing their mean.

/// The rank of each value from 1, in the order of the values.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    for group in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let shared = before as f64 + (group.len() as f64 + 1.0) / 2.0;
        group.iter().for_each(|&place| ranks[place] = shared);
        before += group.len();
    }
    ranks
}

/// The ranks less their mean.
pub(super) fn centred(values: &[f64]) -> Vec<f64> {
    let mean = (values.len() as f64 + 1.0) / 2.0;
    ranks(values).into_iter().map(|rank| rank - mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tied_values_share_their_mean_rank() {
        // scipy.stats.rankdata([3, 1, 3, 2, 3])
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 2.0, 3.0]), [4.0, 1.0, 4.0, 2.0, 4.0]);
        assert_eq!(centred(&[2.0, 1.0]), [0.5, -0.5]);
    }
}
