//! Distributions of a number, chosen by name: a scenario's speeds, bandwidths, delays and lifetimes.
//!
//! A distribution has a shape, which is multiplied by `scale`, moved by `offset` and then limited to `min` and `max`.
//! Values can be drawn from a generator, or read at the quantile of a given standard normal
//! ([`ScalarDistribution::at_normal`]). Values of two distributions at correlated normals are correlated, whatever
//! their shapes (a Gaussian copula). All functions are [`libm`]'s, so that a distribution gives the same values on
//! every platform.
//!
//! ```
//! use fedcast::numerics::scalar_distribution::ScalarDistribution;
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! let speed = ScalarDistribution::log_normal(2.0, 0.5);
//! assert_eq!(speed.at_normal(0.0), 2.0); // the median
//! let mut rng = StreamKey::new(7, Domain::Compute).client(17).rng();
//! assert!(speed.draw(&mut rng) > 0.0);
//! ```

use std::sync::Arc;

use rand::RngCore;

use super::distributions::{open_unit, standard_normal};

/// Shape of a distribution.
#[derive(Clone, Debug, PartialEq)]
pub enum DistributionKind {
    /// Constant value.
    Constant(f64),
    /// Uniform distribution between two values.
    Uniform {
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// Normal distribution.
    Normal {
        /// Mean of the distribution.
        mean: f64,
        /// Standard deviation of the distribution.
        deviation: f64,
    },
    /// Log-normal distribution, whose logarithm is normal.
    LogNormal {
        /// Median of the values.
        median: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Exponential distribution, that of waiting times without memory.
    Exponential {
        /// Mean of the values.
        mean: f64,
    },
    /// Pareto distribution with a power-law tail: `P(X > x)` falls as `x^-alpha`.
    Pareto {
        /// Median of the values.
        median: f64,
        /// Exponent of the tail, which is heavier the smaller it is. At 1 and below there is no mean.
        alpha: f64,
    },
    /// Ranks `1..=n` with weights `rank^-exponent`, of which it holds the running sums.
    Zipf(Arc<[f64]>),
    /// Uniform distribution over these values, sorted.
    Empirical(Arc<[f64]>),
}

/// Distribution of a number.
#[derive(Clone, Debug, PartialEq)]
pub struct ScalarDistribution {
    /// Shape before scale, offset and bounds.
    pub shape: DistributionKind,
    /// Factor of every value.
    pub scale: f64,
    /// Number that is added after scaling.
    pub offset: f64,
    /// Lower bound, to which smaller values are raised.
    pub min: f64,
    /// Upper bound, to which larger values are lowered.
    pub max: f64,
}

impl ScalarDistribution {
    /// Returns a distribution of this shape, without scale, offset or bounds.
    pub const fn new(shape: DistributionKind) -> ScalarDistribution {
        ScalarDistribution {
            shape,
            scale: 1.0,
            offset: 0.0,
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
        }
    }

    /// Returns the distribution of a constant.
    pub const fn constant(value: f64) -> ScalarDistribution {
        ScalarDistribution::new(DistributionKind::Constant(value))
    }

    /// Returns a log-normal distribution; `sigma` is the standard deviation of the logarithm.
    pub const fn log_normal(median: f64, sigma: f64) -> ScalarDistribution {
        ScalarDistribution::new(DistributionKind::LogNormal { median, sigma })
    }

    /// Returns the distribution of ranks `1..=ranks` with weights `rank^-exponent`.
    pub fn zipf(ranks: u32, exponent: f64) -> ScalarDistribution {
        let mut sum = 0.0;
        let weights = (1..=ranks.max(1)).map(|rank| {
            sum += libm::pow(f64::from(rank), -exponent);
            sum
        });
        ScalarDistribution::new(DistributionKind::Zipf(weights.collect()))
    }

    /// Returns the uniform distribution over these values; `None` if there are none, or one is NaN.
    pub fn empirical(mut values: Vec<f64>) -> Option<ScalarDistribution> {
        if values.is_empty() || values.iter().any(|value| value.is_nan()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        Some(ScalarDistribution::new(DistributionKind::Empirical(values.into())))
    }

    /// Returns the distribution of all values times `factor > 0`, such as in another unit.
    pub fn times(mut self, factor: f64) -> ScalarDistribution {
        match &mut self.shape {
            DistributionKind::Constant(value) => *value *= factor,
            DistributionKind::LogNormal { median, .. } => *median *= factor,
            _ => self.scale *= factor,
        }
        self.offset *= factor;
        self.min *= factor;
        self.max *= factor;
        self
    }

    /// Returns true if every draw is this value.
    pub fn is_always(&self, value: f64) -> bool {
        matches!(self.shape, DistributionKind::Constant(_)) && self.at_normal(0.0) == value
    }

    /// Draws a value. It takes no word for a constant, two for normals, and otherwise one.
    pub fn draw(&self, rng: &mut impl RngCore) -> f64 {
        match self.shape {
            DistributionKind::Constant(_) => self.at_normal(0.0),
            DistributionKind::Normal { .. } | DistributionKind::LogNormal { .. } => {
                self.at_normal(standard_normal(rng))
            }
            _ => self.finish(self.at_tail(open_unit(rng))),
        }
    }

    /// Returns the quantile at probability `Φ(z)`, with `Φ` the standard normal CDF.
    pub fn at_normal(&self, z: f64) -> f64 {
        self.finish(match self.shape {
            DistributionKind::Constant(value) => value,
            DistributionKind::Normal { mean, deviation } => mean + deviation * z,
            DistributionKind::LogNormal { median, sigma } => median * libm::exp(sigma * z),
            _ => self.at_tail(0.5 * libm::erfc(z * std::f64::consts::FRAC_1_SQRT_2)),
        })
    }

    /// Returns the value exceeded with probability `tail`, before scale, offset and bounds.
    fn at_tail(&self, tail: f64) -> f64 {
        match &self.shape {
            DistributionKind::Uniform { low, high } => high - (high - low) * tail,
            DistributionKind::Exponential { mean } => -mean * libm::log(tail),
            DistributionKind::Pareto { median, alpha } => {
                median * libm::pow(2.0 * tail, -1.0 / alpha)
            }
            DistributionKind::Zipf(sums) => {
                let total = sums[sums.len() - 1];
                let below = sums.partition_point(|sum| *sum <= (1.0 - tail) * total);
                (below.min(sums.len() - 1) + 1) as f64
            }
            DistributionKind::Empirical(values) => {
                let place = ((1.0 - tail) * values.len() as f64) as usize;
                values[place.min(values.len() - 1)]
            }
            // Constants and normals are only read at a normal, never at a tail.
            DistributionKind::Constant(value) => *value,
            DistributionKind::Normal { mean, .. } => *mean,
            DistributionKind::LogNormal { median, .. } => *median,
        }
    }

    fn finish(&self, value: f64) -> f64 {
        (self.scale * value + self.offset).max(self.min).min(self.max)
    }

    /// Returns a lower bound of all values. If values only approach 0, it is the smallest positive number.
    pub fn lowest(&self) -> f64 {
        let shape = match &self.shape {
            DistributionKind::Constant(value) => *value,
            DistributionKind::Uniform { low, .. } => *low,
            DistributionKind::Normal { mean, deviation } if *deviation == 0.0 => *mean,
            DistributionKind::Normal { .. } => f64::NEG_INFINITY,
            DistributionKind::LogNormal { .. } | DistributionKind::Exponential { .. } => {
                f64::MIN_POSITIVE
            }
            DistributionKind::Pareto { median, alpha } => median * libm::pow(2.0, -1.0 / alpha),
            DistributionKind::Zipf(_) => 1.0,
            DistributionKind::Empirical(values) => values[0],
        };
        // Rounding may make a positive bound zero, although the scale is positive.
        let scaled = if shape > 0.0 {
            (self.scale * shape).max(f64::MIN_POSITIVE)
        } else {
            self.scale * shape
        };
        (scaled + self.offset).max(self.min).min(self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::distributions::{exponential, normal, normal_pair};
    use crate::numerics::streams::{Domain, StreamKey};

    fn all() -> Vec<ScalarDistribution> {
        vec![
            ScalarDistribution::constant(3.0),
            ScalarDistribution::new(DistributionKind::Uniform { low: 1.0, high: 3.0 }),
            ScalarDistribution::new(DistributionKind::Normal { mean: 1.0, deviation: 2.0 }),
            ScalarDistribution::log_normal(2.0, 0.6),
            ScalarDistribution::new(DistributionKind::Exponential { mean: 50.0 }),
            ScalarDistribution {
                max: 60.0,
                ..ScalarDistribution::new(DistributionKind::Pareto { median: 1.0, alpha: 1.5 })
            },
            ScalarDistribution::zipf(10, 1.2),
            ScalarDistribution::empirical(vec![5.0, 1.0, 2.0, 2.0]).expect("has values"),
        ]
    }

    fn sorted(distribution: &ScalarDistribution, draws: u32) -> Vec<f64> {
        let at = |client| StreamKey::new(3, Domain::Compute).client(client).rng();
        let mut values: Vec<f64> =
            (0..draws).map(|client| distribution.draw(&mut at(client))).collect();
        values.sort_by(f64::total_cmp);
        values
    }

    /// The deciles of the draws are where the law says they are.
    #[test]
    fn draws_and_quantiles_are_of_one_law() {
        // Standard normal deciles 0.1, 0.3, 0.5, 0.7, 0.9.
        let deciles = [-1.281_551_6, -0.524_400_5, 0.0, 0.524_400_5, 1.281_551_6];
        for distribution in all() {
            let values = sorted(&distribution, 8_000);
            let (low, high) = (values[0], values[values.len() - 1]);
            for (place, z) in deciles.into_iter().enumerate() {
                let wanted = distribution.at_normal(z);
                let below = values.partition_point(|value| *value < wanted) as f64 / 8_000.0;
                let upto = values.partition_point(|value| *value <= wanted) as f64 / 8_000.0;
                let share = 0.1 + 0.2 * place as f64;
                assert!(below - 0.02 < share && share < upto + 0.02, "{distribution:?} at {share}");
            }
            assert!(
                distribution.lowest() <= low && high <= distribution.max,
                "{distribution:?}: {low} to {high}"
            );
        }
    }

    /// Far out the share of values above is zero.
    #[test]
    fn the_last_value_is_the_largest() {
        assert_eq!(
            ScalarDistribution::empirical(vec![1.0, 2.0, 6.0]).expect("values").at_normal(40.0),
            6.0
        );
        assert_eq!(ScalarDistribution::zipf(3, 1.0).at_normal(40.0), 3.0);
        let uniform = ScalarDistribution::new(DistributionKind::Uniform { low: 1.0, high: 3.0 });
        assert_eq!((uniform.at_normal(40.0), uniform.at_normal(-40.0)), (3.0, 1.0));
    }

    #[test]
    fn means_are_those_of_the_laws() {
        let mean = |distribution: ScalarDistribution| {
            sorted(&distribution, 20_000).iter().sum::<f64>() / 20_000.0
        };
        assert!(
            (mean(ScalarDistribution::new(DistributionKind::Exponential { mean: 2.0 })) - 2.0)
                .abs()
                < 0.05
        );
        assert!(
            (mean(ScalarDistribution::new(DistributionKind::Uniform { low: 1.0, high: 3.0 }))
                - 2.0)
                .abs()
                < 0.02
        );
        assert!(
            (mean(ScalarDistribution::new(DistributionKind::Normal { mean: 1.0, deviation: 0.5 }))
                - 1.0)
                .abs()
                < 0.02
        );
        // Pareto of least value 1 and alpha 3 has mean 1.5; its median is 2^(1/3).
        let pareto = DistributionKind::Pareto { median: libm::cbrt(2.0), alpha: 3.0 };
        assert!((mean(ScalarDistribution::new(pareto)) - 1.5).abs() < 0.03);
        // Zipf over two ranks with exponent 1: 2/3 and 1/3.
        assert!((mean(ScalarDistribution::zipf(2, 1.0)) - 4.0 / 3.0).abs() < 0.02);
        assert!(
            (mean(ScalarDistribution::empirical(vec![1.0, 2.0, 6.0]).expect("values")) - 3.0).abs()
                < 0.06
        );
    }

    #[test]
    fn a_law_draws_as_the_plain_distributions_do() {
        let rng = || StreamKey::new(1, Domain::Link).client(4).rng();
        let normal = normal(&mut rng(), 0.0, 0.6);
        assert_eq!(ScalarDistribution::log_normal(1.0, 0.6).draw(&mut rng()), libm::exp(normal));
        let delay = ScalarDistribution::new(DistributionKind::Exponential { mean: 50.0 });
        assert_eq!(delay.draw(&mut rng()), exponential(&mut rng(), 50.0));
        let (z, _) = normal_pair(&mut rng());
        assert_eq!(
            ScalarDistribution::log_normal(4.3, 0.5).times(1e6).at_normal(z),
            4.3e6 * libm::exp(0.5 * z)
        );
    }

    #[test]
    fn another_unit_is_the_same_law() {
        for distribution in all() {
            let moved = ScalarDistribution { offset: 2.0, min: 2.5, ..distribution };
            let (plain, times) = (moved.at_normal(0.3), moved.clone().times(8.0).at_normal(0.3));
            assert!((times - 8.0 * plain).abs() < 1e-9, "{moved:?}: {times} is not 8 x {plain}");
        }
    }

    #[test]
    fn scale_and_offset_move_the_lowest_value_too() {
        let moved = |shape| ScalarDistribution {
            scale: 2.0,
            offset: 5.0,
            ..ScalarDistribution::new(shape)
        };
        assert_eq!(moved(DistributionKind::Uniform { low: 1.5, high: 3.0 }).lowest(), 8.0);
        assert_eq!(moved(DistributionKind::Uniform { low: -1.5, high: 3.0 }).lowest(), 2.0);
        assert_eq!(moved(DistributionKind::Exponential { mean: 1.0 }).lowest(), 5.0);
        assert_eq!(
            ScalarDistribution { max: 6.0, ..moved(DistributionKind::Constant(1.0)) }.lowest(),
            6.0
        );
    }

    #[test]
    fn only_a_constant_is_always_its_value() {
        assert!(
            ScalarDistribution::constant(3.0).is_always(3.0)
                && !ScalarDistribution::constant(3.0).is_always(2.0)
        );
        assert!(
            ScalarDistribution { offset: 1.0, ..ScalarDistribution::constant(3.0) }.is_always(4.0)
        );
        // Its median is 3, which not every value is.
        assert!(!ScalarDistribution::log_normal(3.0, 0.5).is_always(3.0));
    }

    /// Recorded once: a change of any bit breaks recorded virtual times.
    #[test]
    fn the_values_never_change() {
        let bits: Vec<u64> =
            all().iter().map(|distribution| distribution.at_normal(0.7).to_bits()).collect();
        assert_eq!(bits, PINNED, "{bits:#018x?}");
    }

    const PINNED: [u64; 8] = [
        0x4008_0000_0000_0000,
        0x4004_20ea_b8ae_1954,
        0x4003_3333_3333_3333,
        0x4008_59f4_5c32_6bcc,
        0x4051_bcb2_63e7_3405,
        0x3ff9_f52d_38a5_dae5,
        0x4010_0000_0000_0000,
        0x4014_0000_0000_0000,
    ];
}
