//! What robust fits share: the scale of residuals, and the losses that keep far ones from ruling.

/// Huber's k, at which the loss is 95 % as efficient as least squares on normal residuals: Huber 1981,
/// "Robust Statistics", chapter 4.
const HUBER_K: f64 = 1.345;

/// Tukey's c, at which the bisquare is 95 % as efficient as least squares on normal residuals: Holland &
/// Welsch 1977, "Robust regression using iteratively reweighted least-squares".
const BISQUARE_C: f64 = 4.685;

/// Median absolute deviation to standard deviation, for normal residuals.
const MAD_TO_SD: f64 = 1.4826;

/// The scale of `residuals` in the sense of a standard deviation: their median absolute value, less the
/// `parameters` smallest ones, which a fit by least absolute residuals passes through whatever the noise
/// (Holland & Welsch 1977). Zero where nothing is left.
pub(super) fn scale(residuals: impl Iterator<Item = f64>, parameters: usize) -> f64 {
    let mut sizes: Vec<f64> = residuals.map(f64::abs).collect();
    sizes.sort_by(f64::total_cmp);
    let left = sizes.get(parameters..).unwrap_or_default();
    let upper = left.get(left.len() / 2).copied().unwrap_or(0.0);
    let lower = left.get(left.len().saturating_sub(1) / 2).copied().unwrap_or(0.0);
    MAD_TO_SD * (lower + upper) / 2.0
}

/// The weight of a residual of `z` scales under Huber's loss.
pub(super) fn huber_weight(z: f64) -> f64 {
    if z.abs() <= HUBER_K { 1.0 } else { HUBER_K / z.abs() }
}

/// Huber's loss of a residual of `z` scales: half its square near zero, growing linearly farther out.
pub(super) fn huber_loss(z: f64) -> f64 {
    let z = z.abs();
    if z <= HUBER_K { z * z / 2.0 } else { HUBER_K * (z - HUBER_K / 2.0) }
}

/// Tukey's bisquare weight of a residual of `z` scales: none beyond 4.685 of them.
pub(super) fn bisquare_weight(z: f64) -> f64 {
    let z = z / BISQUARE_C;
    if z.abs() < 1.0 { (1.0 - z * z).powi(2) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scale_is_that_of_the_many_not_of_the_far() {
        let residuals = [0.0, 0.0, -1.0, 1.0, 1.0, -1.0, 1.0, 100.0, -100.0];
        assert_eq!(scale(residuals.into_iter(), 2), MAD_TO_SD);
    }

    #[test]
    fn a_fit_through_every_point_leaves_no_scale() {
        assert_eq!(scale([0.0, 0.0].into_iter(), 2), 0.0);
        assert_eq!(scale(std::iter::empty(), 2), 0.0);
    }

    #[test]
    fn losses_and_weights_meet_where_their_pieces_do() {
        assert!((huber_loss(HUBER_K) - huber_loss(HUBER_K + 1e-12)).abs() < 1e-9);
        assert!((huber_weight(-HUBER_K) - 1.0).abs() < 1e-12);
        assert_eq!(huber_weight(2.0 * HUBER_K), 0.5);
        assert_eq!(bisquare_weight(0.0), 1.0);
        assert_eq!(bisquare_weight(-BISQUARE_C), 0.0);
    }
}
