//! Whether two means differ, the variances being free to: Welch's t-test.

use super::moments::{Moments, satterthwaite};
use super::student;

/// The outcome of a t-test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TTest {
    /// The difference of the means (first less second) over its standard error; infinite where the means
    /// differ and neither sample varies.
    pub t: f64,
    /// Degrees of freedom, seldom whole.
    pub degrees_of_freedom: f64,
    /// The chance of a `t` at least as far from zero, were the means equal.
    pub p_two_sided: f64,
}

/// Tests whether the samples `a` and `b`, in one unit, come from populations of equal means: Welch 1947, "The
/// generalization of 'Student's' problem when several different population variances are involved".
///
/// Two samples that do not vary at all leave nothing to weigh their difference against: equal means give
/// p = 1, different means p = 0, both with the pooled n + m - 2 degrees of freedom.
///
/// `None` where a sample has fewer than two values or one that is not finite.
#[must_use]
pub fn welch(a: &[f64], b: &[f64]) -> Option<TTest> {
    let (a, b) = (Moments::of(a)?, Moments::of(b)?);
    let (error_a, error_b) = (a.squared_error()?, b.squared_error()?);
    let difference = a.mean - b.mean;
    let (freedom_a, freedom_b) = (a.degrees_of_freedom(), b.degrees_of_freedom());
    let Some(degrees_of_freedom) = satterthwaite((error_a, freedom_a), (error_b, freedom_b)) else {
        let (t, p_two_sided) =
            if difference == 0.0 { (0.0, 1.0) } else { (f64::INFINITY.copysign(difference), 0.0) };
        return Some(TTest { t, degrees_of_freedom: freedom_a + freedom_b, p_two_sided });
    };
    let t = difference / (error_a + error_b).sqrt();
    let p_two_sided = student::p_two_sided(t, degrees_of_freedom)?;
    Some(TTest { t, degrees_of_freedom, p_two_sided })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_close(found: f64, expected: f64) {
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} is not {expected}");
    }

    #[test]
    fn samples_that_differ_are_told_apart_as_scipy_does() {
        let many_a =
            [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4];
        let many_b =
            [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 30.5, 31.3];
        let few = [1.0, 1.2, 0.9];
        let others = [5.0, 5.5, 4.0, 7.0, 5.2];
        // scipy.stats.ttest_ind(a, b, equal_var=False), SciPy 1.17.1
        let cases: [(&[f64], &[f64], [f64; 3]); 3] = [
            (&many_a, &many_b, [-2.949236837313109, 27.31161047222031, 0.006460408027460322]),
            (&few, &others, [-8.72972972972973, 4.259176855953111, 0.0007112402563347108]),
            (&[2.0; 3], &others, [-6.881115122643248, 4.0, 0.002337304796962251]),
        ];
        for (a, b, [t, degrees_of_freedom, p]) in cases {
            let found = welch(a, b).unwrap();
            assert_close(found.t, t);
            assert_close(found.degrees_of_freedom, degrees_of_freedom);
            assert_close(found.p_two_sided, p);
        }
    }

    #[test]
    fn samples_far_apart_keep_a_probability_above_zero() {
        let near = [1.0, 1.001, 0.999, 1.0005];
        let far = [9.0, 9.001, 8.999, 9.0005, 9.0];
        // scipy.stats.ttest_ind(near, far, equal_var=False).pvalue, SciPy 1.17.1
        let p = welch(&near, &far).unwrap().p_two_sided;
        assert!((p / 3.963888757947601e-24 - 1.0).abs() < 1e-6, "{p}");
    }

    #[test]
    fn samples_without_variance_are_equal_or_not() {
        let same = welch(&[0.1; 3], &[0.1; 4]).unwrap();
        assert_eq!(same, TTest { t: 0.0, degrees_of_freedom: 5.0, p_two_sided: 1.0 });
        let lower = welch(&[0.1; 3], &[0.2; 4]).unwrap();
        assert_eq!(lower, TTest { t: f64::NEG_INFINITY, degrees_of_freedom: 5.0, p_two_sided: 0.0 });
    }

    #[test]
    fn one_value_is_no_sample() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(welch(&[], &[1.0, 2.0]), None);
        assert_eq!(welch(&[1.0, f64::NAN], &[1.0, 2.0]), None);
    }

    proptest! {
        #[test]
        fn the_order_of_the_samples_only_turns_the_sign(
            a in prop::collection::vec(1.0..9.0f64, 2..20),
            b in prop::collection::vec(1.0..9.0f64, 2..20),
        ) {
            let (there, back) = (welch(&a, &b).unwrap(), welch(&b, &a).unwrap());
            prop_assert!((there.t + back.t).abs() <= 1e-9 * there.t.abs());
            prop_assert!((there.p_two_sided - back.p_two_sided).abs() < 1e-9);
            prop_assert!((0.0..=1.0).contains(&there.p_two_sided));
            let least = a.len().min(b.len()) as f64 - 1.0;
            let most = (a.len() + b.len()) as f64 - 2.0;
            prop_assert!(there.degrees_of_freedom >= least * (1.0 - 1e-9));
            prop_assert!(there.degrees_of_freedom <= most * (1.0 + 1e-9));
        }

        #[test]
        fn nothing_panics(
            a in prop::collection::vec(prop::num::f64::ANY, 0..5),
            b in prop::collection::vec(prop::num::f64::ANY, 0..5),
        ) {
            let _ = welch(&a, &b);
        }
    }
}
