//! All ways in which the values of one series can be arranged among those of another, where these are few.

/// The sum of products of each arrangement of `x` among `y`, values that are the same telling no two arrangements apart;
/// `None` where there are more than `most`.
pub(super) fn sums(x: &[f64], y: &[f64], most: usize) -> Option<Vec<f64>> {
    let mut sorted = x.to_vec();
    sorted.sort_by(f64::total_cmp);
    // By how many have been arranged, each arrangement is one more than the last of as many alike.
    let mut count = 1_usize;
    for alike in sorted.chunk_by(|one, other| one == other).scan(0, |arranged, alike| {
        let from = *arranged;
        *arranged += alike.len();
        Some(from + 1..=*arranged)
    }) {
        for (chosen, among) in alike.enumerate() {
            // Exact: a product of binomial coefficients.
            count = count.checked_mul(among)? / (chosen + 1);
        }
        if count > most {
            return None;
        }
    }
    let mut all = Vec::with_capacity(count);
    loop {
        all.push(sorted.iter().zip(y).map(|(x, y)| x * y).sum());
        if !step(&mut sorted) {
            return Some(all);
        }
    }
}

/// The next arrangement in the order of a dictionary; whether there is one.
fn step(values: &mut [f64]) -> bool {
    let Some(at) = values.windows(2).rposition(|pair| pair[0] < pair[1]) else { return false };
    let Some(other) = values.iter().rposition(|value| *value > values[at]) else { return false };
    values.swap(at, other);
    values[at + 1..].reverse();
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_arrangement_is_there_once() {
        assert_eq!(
            sums(&[3.0, 1.0, 2.0], &[100.0, 10.0, 1.0], 6),
            Some(vec![123.0, 132.0, 213.0, 231.0, 312.0, 321.0])
        );
        assert_eq!(sums(&[1.0, 0.0, 1.0, 0.0], &[8.0, 4.0, 2.0, 1.0], 6).map(|all| all.len()), Some(6));
        assert_eq!(sums(&[5.0, 5.0], &[1.0, 2.0], 1), Some(vec![15.0]));
        assert_eq!(sums(&[1.0; 40], &[1.0; 40], 1), Some(vec![40.0]));
        assert_eq!(sums(&[], &[], 1), Some(vec![0.0]));
    }

    #[test]
    fn more_than_asked_for_are_not_even_begun() {
        let many: Vec<f64> = (0..200).map(f64::from).collect();
        assert_eq!(sums(&many, &many, usize::MAX), None);
        assert_eq!(sums(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0], 5), None);
        assert_eq!(sums(&[1.0, 2.0], &[1.0, 2.0], 0), None);
    }
}
