//! Mean, spread and interval of a figure over runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::moments::Moments;
use super::student;

/// Mean, spread and interval of a figure over runs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Summary {
    /// Arithmetic mean over runs.
    pub mean: f64,
    /// Sample standard deviation over runs (n - 1); `null` for one run.
    pub sd: Option<f64>,
    /// 95 % interval of the mean by Student's t with n - 1 degrees of freedom; `null` for one run.
    pub ci95: Option<[f64; 2]>,
    /// (max - min) / mean over runs.
    pub relative_range: f64,
}

/// Summarises one figure over runs, `values` holding one entry a run in any unit and order; the summary is in
/// the same unit.
///
/// The interval is Student's t (Student 1908, "The probable error of a mean") with n - 1 degrees of freedom.
/// The relative range, (max - min) / mean, is the measure of variation of Cao, Tarasov, Raman, Hildebrand &
/// Zadok 2017, "On the Performance Variation in Modern Storage Stacks" (FAST '17); it is taken of the mean's
/// magnitude, and is zero for equal values whatever their mean.
///
/// `None` for no values, and where a value or a result is not finite, as the relative range of values that
/// differ around zero.
#[must_use]
pub fn summarise(values: &[f64]) -> Option<Summary> {
    let moments = Moments::of(values)?;
    let range = moments.max - moments.min;
    let relative_range = if range == 0.0 { 0.0 } else { range / moments.mean.abs() };
    if !relative_range.is_finite() {
        return None;
    }
    Some(Summary {
        mean: moments.mean,
        sd: moments.variance.map(f64::sqrt),
        ci95: half_width(&moments).map(|half| [moments.mean - half, moments.mean + half]),
        relative_range,
    })
}

/// Half the width of the 95 % interval of the mean of `values`, in their unit: what a precision target is
/// compared with. Zero for equal values.
///
/// `None` for fewer than two values, and where a value is not finite.
#[must_use]
pub fn t_half_width(values: &[f64]) -> Option<f64> {
    half_width(&Moments::of(values)?)
}

fn half_width(moments: &Moments) -> Option<f64> {
    let error = moments.squared_error()?.sqrt();
    Some(student::factor_95(moments.degrees_of_freedom())? * error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn five_runs_are_summarised_as_scipy_does() {
        let summary = summarise(&[4.1, 3.9, 4.4, 4.0, 4.2]).unwrap();
        assert!((summary.mean - 4.12).abs() < 1e-12);
        // numpy.std(v, ddof=1) and scipy.stats.t.interval(0.95, 4, loc=mean, scale=scipy.stats.sem(v)),
        // SciPy 1.17.1
        assert!((summary.sd.unwrap() - 0.19235384061671362).abs() < 1e-12);
        let [low, high] = summary.ci95.unwrap();
        assert!((low - 3.881161161190001).abs() < 1e-9);
        assert!((high - 4.358838838809998).abs() < 1e-9);
        assert!((summary.relative_range - 0.5 / 4.12).abs() < 1e-12);
    }

    #[test]
    fn one_run_has_a_mean_but_no_spread() {
        let summary = summarise(&[7.0]).unwrap();
        assert_eq!(summary, Summary { mean: 7.0, sd: None, ci95: None, relative_range: 0.0 });
        assert_eq!(t_half_width(&[7.0]), None);
    }

    #[test]
    fn equal_runs_leave_no_doubt() {
        let summary = summarise(&[0.3; 4]).unwrap();
        let certain = Summary { mean: 0.3, sd: Some(0.0), ci95: Some([0.3, 0.3]), relative_range: 0.0 };
        assert_eq!(summary, certain);
        assert_eq!(summarise(&[0.0; 2]).unwrap().relative_range, 0.0);
    }

    #[test]
    fn no_runs_and_senseless_runs_have_no_summary() {
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[1.0, f64::NAN]), None);
        assert_eq!(summarise(&[-1.0, 1.0]), None);
    }

    proptest! {
        #[test]
        fn the_interval_is_centred_on_a_mean_among_the_values(
            values in prop::collection::vec(1e-6..1e9f64, 2..30),
        ) {
            let summary = summarise(&values).unwrap();
            let [low, high] = summary.ci95.unwrap();
            let half = t_half_width(&values).unwrap();
            prop_assert!(low <= summary.mean && summary.mean <= high);
            prop_assert!(((high - low) / 2.0 - half).abs() <= 1e-9 * high.abs().max(half));
            prop_assert!(values.iter().any(|v| *v <= summary.mean));
            prop_assert!(values.iter().any(|v| *v >= summary.mean));
        }

        #[test]
        fn the_unit_does_not_matter(
            values in prop::collection::vec(1.0..1e3f64, 2..30),
            factor in 1e-6..1e6f64,
        ) {
            let scaled: Vec<f64> = values.iter().map(|v| v * factor).collect();
            let (before, after) = (summarise(&values).unwrap(), summarise(&scaled).unwrap());
            prop_assert!((after.mean / (before.mean * factor) - 1.0).abs() < 1e-9);
            prop_assert!((after.relative_range - before.relative_range).abs() < 1e-9);
        }

        #[test]
        fn nothing_panics(values in prop::collection::vec(prop::num::f64::ANY, 0..6)) {
            let _ = summarise(&values);
            let _ = t_half_width(&values);
        }
    }
}
