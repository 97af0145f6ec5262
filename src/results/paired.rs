//! Paired differences between two arms, by seed.

use statrs::distribution::{ContinuousCDF, StudentsT};

use super::Spread;

/// Mean of paired differences with its confidence interval and test.
///
/// Runs of one seed share partition and class order, so much of the variation between seeds cancels in their
/// difference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Paired {
    /// Number of pairs.
    pub n: usize,
    /// Mean of `one - other`.
    pub mean: f64,
    /// Sample standard deviation of the differences; `None` for one pair.
    pub deviation: Option<f64>,
    /// Confidence interval of the mean at 95 %, by Student's t; `None` for one pair.
    pub interval: Option<(f64, f64)>,
    /// Two-sided p value; `None` for one pair and if all differences are equal up to rounding: t is undefined then.
    pub p: Option<f64>,
}

/// Relative difference up to which values count as equal.
const ROUNDING: f64 = 1e-12;

/// Returns true if two values differ in their last bits at most.
pub fn equal_up_to_rounding(one: f64, other: f64) -> bool {
    (one - other).abs() <= ROUNDING * one.abs().max(other.abs())
}

impl Paired {
    /// Name of the test.
    pub const TEST: &'static str = "paired t";

    /// Computes the statistics of pairs `(one, other)`; `None` without pairs.
    pub fn of(pairs: &[(f64, f64)]) -> Option<Paired> {
        let differences: Vec<f64> = pairs.iter().map(|(one, other)| one - other).collect();
        let Spread { n, mean, deviation } = Spread::of(&differences)?;
        // Differences that are equal on paper differ in their last bits.
        let scale =
            pairs.iter().fold(0.0, |most: f64, (one, other)| most.max(one.abs()).max(other.abs()));
        let deviation = deviation.map(|of| if of <= ROUNDING * scale { 0.0 } else { of });
        let student = StudentsT::new(0.0, 1.0, n.saturating_sub(1) as f64).ok();
        let error = deviation.map(|deviation| deviation / (n as f64).sqrt());
        let interval = student.zip(error).map(|(student, error)| {
            let reach = student.inverse_cdf(0.975) * error;
            (mean - reach, mean + reach)
        });
        let p = student
            .zip(error)
            .filter(|(_, error)| *error > 0.0)
            .map(|(student, error)| (2.0 * student.sf((mean / error).abs())).min(1.0));
        Some(Paired { n, mean, deviation, interval, p })
    }

    /// Formats a p value with three decimals; small ones as `<0.001`.
    pub fn show_p(p: f64) -> String {
        if p < 0.001 { "<0.001".to_owned() } else { format!("{p:.3}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(value: f64, expected: f64, tolerance: f64) {
        assert!((value - expected).abs() < tolerance, "{value} is not {expected}");
    }

    /// Differences 1, 2, 3, 4, 5: mean 3, deviation sqrt(2.5), error sqrt(0.5), t = 3 / sqrt(0.5) = 4.2426 with 4 degrees
    /// of freedom; t(0.975, 4) = 2.7764451 (tables), and with u = t^2/(t^2+4) = 18/22 the two-sided p of four degrees is
    /// 1 - (3 sqrt(u) - u^1.5) / 2.
    #[test]
    fn five_pairs_by_hand() {
        let pairs = [(11.0, 10.0), (12.0, 10.0), (4.0, 1.0), (4.0, 0.0), (0.0, -5.0)];
        let paired = Paired::of(&pairs).unwrap();
        assert_eq!((paired.n, paired.mean), (5, 3.0));
        near(paired.deviation.unwrap(), 2.5f64.sqrt(), 1e-12);
        let (low, high) = paired.interval.unwrap();
        near(low, 3.0 - 2.776_445_105 * 0.5f64.sqrt(), 1e-6);
        near(high, 3.0 + 2.776_445_105 * 0.5f64.sqrt(), 1e-6);
        let u: f64 = 18.0 / 22.0;
        near(paired.p.unwrap(), 1.0 - (3.0 * u.sqrt() - u.powf(1.5)) / 2.0, 1e-9);
        near(paired.p.unwrap(), 0.013_236, 1e-5);
    }

    #[test]
    fn differences_that_are_equal_up_to_rounding_have_no_p() {
        let pairs = [(0.3, 0.2), (0.7, 0.6), (0.1 + 0.2, 0.2)];
        assert!(
            pairs.iter().any(|(one, other)| one - other != 0.3 - 0.2),
            "they differ in their last bits"
        );
        let paired = Paired::of(&pairs).unwrap();
        assert_eq!((paired.deviation, paired.p), (Some(0.0), None));
        let (low, high) = paired.interval.unwrap();
        assert_eq!((low, high), (paired.mean, paired.mean));
    }

    /// With one degree of freedom t is Cauchy: p = 1 - 2 atan(t) / pi, t(0.975, 1) = tan(0.475 pi).
    #[test]
    fn two_pairs_are_cauchy_and_the_sign_is_one_minus_other() {
        let paired = Paired::of(&[(1.0, 2.0), (1.0, 4.0)]).unwrap();
        near(paired.mean, -2.0, 1e-12);
        let pi = std::f64::consts::PI;
        near(paired.p.unwrap(), 1.0 - 2.0 * 2f64.atan() / pi, 1e-9);
        near(paired.interval.unwrap().0, -2.0 - (0.475 * pi).tan(), 1e-6);
    }

    #[test]
    fn no_p_is_shown_as_nothing() {
        assert_eq!(
            [0.05, 0.001, 0.000_99, 0.0].map(Paired::show_p),
            ["0.050", "0.001", "<0.001", "<0.001"]
        );
    }

    #[test]
    fn what_no_test_can_say_is_left_out() {
        assert_eq!(Paired::of(&[]), None);
        let one = Paired::of(&[(3.0, 1.0)]).unwrap();
        assert_eq!((one.mean, one.deviation, one.interval, one.p), (2.0, None, None, None));
        let equal = Paired::of(&[(3.0, 1.0), (4.0, 2.0)]).unwrap();
        assert_eq!((equal.p, equal.interval), (None, Some((2.0, 2.0))));
    }
}
