//! Random distributions with the same bits on every platform.
//!
//! Common crates call the platform's `ln` and `exp`, whose last bit differs between systems; a partition or a virtual
//! time based on them would, too (the [guide](crate::guide::architecture) has measurements of `rand_distr`, with which
//! tests compare). Here every draw is a fixed sequence of words from the generator, exact arithmetic, and [`libm`]'s
//! pure-Rust functions. The number of words a draw takes never depends on the caller, and no draw keeps state between
//! calls.
//!
//! ```
//! use fedcast::numerics::distributions::{dirichlet, Categorical};
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! let mut rng = StreamKey::new(7, Domain::Partition).rng();
//! let shares = dirichlet(&mut rng, 0.1, 4); // four shares that sum to one
//! let owner = Categorical::new(&shares).unwrap().sample(&mut rng);
//! assert!(shares[owner] > 0.0);
//! ```

use std::collections::BTreeSet;

use rand::RngCore;

/// Spacing of the uniform draws, 2^-53.
const ULP: f64 = 1.0 / (1u64 << 53) as f64;

/// Draws a uniform number in `[0, 1)`, a multiple of 2^-53. It takes one word.
pub fn unit(rng: &mut impl RngCore) -> f64 {
    (rng.next_u64() >> 11) as f64 * ULP
}

/// Draws a uniform number strictly inside `(0, 1)`, whose logarithm is finite. It takes one word.
pub fn open_unit(rng: &mut impl RngCore) -> f64 {
    ((rng.next_u64() >> 12) as f64 + 0.5) * (2.0 * ULP)
}

/// Draws a uniform number in `[low, high)`. It takes one word.
pub fn uniform(rng: &mut impl RngCore, low: f64, high: f64) -> f64 {
    low + (high - low) * unit(rng)
}

/// Returns true with the given probability. It takes one word.
pub fn chance(rng: &mut impl RngCore, probability: f64) -> bool {
    unit(rng) < probability
}

/// Draws an integer below `n` without bias (Lemire 2019). `n = 0` gives 0.
pub fn below(rng: &mut impl RngCore, n: u64) -> u64 {
    if n == 0 {
        return 0;
    }
    let reject_under = n.wrapping_neg() % n;
    loop {
        let wide = u128::from(rng.next_u64()) * u128::from(n);
        if wide as u64 >= reject_under {
            return (wide >> 64) as u64;
        }
    }
}

/// Puts a slice into a uniformly random order (Fisher and Yates, from the end).
pub fn shuffle<T>(rng: &mut impl RngCore, items: &mut [T]) {
    for i in (1..items.len()).rev() {
        items.swap(i, below(rng, i as u64 + 1) as usize);
    }
}

/// Draws `count` different numbers below `n`, sorted, or all of them if `count >= n`.
///
/// By Floyd's algorithm, time and memory depend on `count`, not on `n`.
pub fn choose(rng: &mut impl RngCore, n: u64, count: u64) -> Vec<u64> {
    let mut chosen = BTreeSet::new();
    for j in n.saturating_sub(count)..n {
        let pick = below(rng, j + 1);
        if !chosen.insert(pick) {
            chosen.insert(j);
        }
    }
    chosen.into_iter().collect()
}

/// Draws two independent standard normals (Box and Muller). It takes two words.
pub fn normal_pair(rng: &mut impl RngCore) -> (f64, f64) {
    let radius = (-2.0 * libm::log(open_unit(rng))).sqrt();
    let angle = 2.0 * std::f64::consts::PI * unit(rng);
    (radius * libm::cos(angle), radius * libm::sin(angle))
}

/// Draws a standard normal. It takes two words; for many at once see [`fill_normal`].
pub fn standard_normal(rng: &mut impl RngCore) -> f64 {
    normal_pair(rng).0
}

/// Draws a normal with this mean and standard deviation. It takes two words.
pub fn normal(rng: &mut impl RngCore, mean: f64, deviation: f64) -> f64 {
    mean + deviation * standard_normal(rng)
}

/// Fills a slice with standard normals, two per pair of words. If the length is odd, the last partner is dropped.
pub fn fill_normal(rng: &mut impl RngCore, out: &mut [f32]) {
    for pair in out.chunks_mut(2) {
        let (a, b) = normal_pair(rng);
        pair[0] = a as f32;
        if let Some(second) = pair.get_mut(1) {
            *second = b as f32;
        }
    }
}

/// Draws an exponential number with this mean (not rate). It takes one word.
pub fn exponential(rng: &mut impl RngCore, mean: f64) -> f64 {
    -mean * libm::log(open_unit(rng))
}

/// Draws the natural logarithm of a Gamma(`shape`, 1) variable, `shape > 0`.
///
/// The algorithm is that of Marsaglia and Tsang (2000), with `Gamma(a) = Gamma(a + 1) U^(1/a)` below shape 1. The
/// logarithm stays finite when `U^(1/a)` underflows, as it often does at the small shapes of federated partitions.
pub fn log_gamma_draw(rng: &mut impl RngCore, shape: f64) -> f64 {
    if shape < 1.0 {
        let boost = libm::log(open_unit(rng)) / shape;
        return log_gamma_draw(rng, shape + 1.0) + boost;
    }
    let d = shape - 1.0 / 3.0;
    let c = 1.0 / (9.0 * d).sqrt();
    loop {
        let x = standard_normal(rng);
        let u = open_unit(rng);
        let v = 1.0 + c * x;
        if v <= 0.0 {
            continue;
        }
        let log_v = 3.0 * libm::log(v);
        if libm::log(u) < 0.5 * x * x + d - d * (v * v * v) + d * log_v {
            return libm::log(d) + log_v;
        }
    }
}

/// Draws shares of `n` parts from the symmetric Dirichlet(`beta`, ..., `beta`); they sum to one.
///
/// They are normalized as logarithms, so that no `beta` that a scenario accepts (1e-6 and more) gives 0/0.
pub fn dirichlet(rng: &mut impl RngCore, beta: f64, n: usize) -> Vec<f64> {
    let logs: Vec<f64> = (0..n).map(|_| log_gamma_draw(rng, beta)).collect();
    let largest = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut shares: Vec<f64> = logs.into_iter().map(|l| libm::exp(l - largest)).collect();
    let total: f64 = shares.iter().sum();
    shares.iter_mut().for_each(|s| *s /= total);
    shares
}

/// Distribution of an index in proportion to given weights, drawn by a search in their running sums.
#[derive(Clone, Debug)]
pub struct Categorical {
    /// Sums of the weights up to and including each index.
    sums: Vec<f64>,
}

impl Categorical {
    /// Creates the distribution of these weights, which need not sum to one.
    ///
    /// Returns `None` if a weight is negative or not finite, or all are zero.
    pub fn new(weights: &[f64]) -> Option<Categorical> {
        if weights.iter().any(|w| !w.is_finite() || *w < 0.0) {
            return None;
        }
        let mut sum = 0.0;
        let sums: Vec<f64> = weights
            .iter()
            .map(|w| {
                sum += w;
                sum
            })
            .collect();
        (sum > 0.0 && sum.is_finite()).then_some(Categorical { sums })
    }

    /// Draws an index whose weight is not zero. It takes one word.
    pub fn sample(&self, rng: &mut impl RngCore) -> usize {
        let total = self.sums[self.sums.len() - 1];
        let at = unit(rng) * total;
        let found = self.sums.partition_point(|&s| s <= at);
        if found < self.sums.len() {
            return found;
        }
        // If `at` was rounded up to the total, the last index with a weight is drawn.
        self.sums.partition_point(|&s| s < total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::{Domain, StreamKey};

    fn rng() -> impl RngCore {
        StreamKey::new(20_24, Domain::Method).rng()
    }

    fn moments(n: usize, mut draw: impl FnMut() -> f64) -> (f64, f64) {
        let all: Vec<f64> = (0..n).map(|_| draw()).collect();
        let mean = all.iter().sum::<f64>() / n as f64;
        (mean, all.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n as f64)
    }

    #[test]
    fn moments_are_those_of_the_laws() {
        let mut r = rng();
        let n = 40_000;
        let near = |what: &str, got: f64, want: f64, by: f64| {
            assert!((got - want).abs() < by, "{what}: {got} is not near {want}");
        };
        let (mean, var) = moments(n, || uniform(&mut r, 2.0, 4.0));
        near("uniform mean", mean, 3.0, 0.02);
        near("uniform variance", var, 1.0 / 3.0, 0.01);
        let (mean, var) = moments(n, || normal(&mut r, 1.0, 3.0));
        near("normal mean", mean, 1.0, 0.08);
        near("normal variance", var, 9.0, 0.3);
        let (mean, var) = moments(n, || exponential(&mut r, 2.0));
        near("exponential mean", mean, 2.0, 0.05);
        near("exponential variance", var, 4.0, 0.25);
        let (mean, _) = moments(n, || libm::exp(normal(&mut r, 0.0, 0.5)));
        near("log-normal mean", mean, (0.125f64).exp(), 0.02);
        for shape in [0.05, 0.5, 1.0, 4.0] {
            let (mean, var) = moments(n, || 2.0 * libm::exp(log_gamma_draw(&mut r, shape)));
            near("gamma mean", mean, 2.0 * shape, 0.04 * shape.sqrt() + 0.005);
            near("gamma variance", var, 4.0 * shape, 0.5 * shape + 0.02);
        }
        // One share of Dirichlet(b, ..., b) over n parts: mean 1/n, variance (n-1)/(n^2 (n b + 1)).
        let (mean, var) = moments(n, || dirichlet(&mut r, 0.1, 5)[0]);
        near("dirichlet mean", mean, 0.2, 0.01);
        near("dirichlet variance", var, 4.0 / 25.0 / 1.5, 0.004);
    }

    #[test]
    fn shares_sum_to_one_at_any_beta() {
        let mut r = rng();
        for beta in [1e-6, 1e-3, 0.05, 1.0, 1e6] {
            let shares = dirichlet(&mut r, beta, 100);
            assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-12, "beta {beta}");
            assert!(shares.iter().all(|s| (0.0..=1.0).contains(s)), "beta {beta}");
        }
    }

    #[test]
    fn a_weight_of_zero_is_never_drawn() {
        let mut r = rng();
        let categorical = Categorical::new(&[0.0, 0.3, 0.0, 0.7, 0.0]).unwrap();
        let mut counts = [0u32; 5];
        (0..10_000).for_each(|_| counts[categorical.sample(&mut r)] += 1);
        assert_eq!([counts[0], counts[2], counts[4]], [0, 0, 0]);
        assert!((2_800..3_200).contains(&counts[1]), "{counts:?}");
        assert!(Categorical::new(&[0.0, 0.0]).is_none());
        assert!(Categorical::new(&[1.0, f64::NAN]).is_none());
    }

    #[test]
    fn choices_are_different_sorted_and_fair() {
        let mut r = rng();
        let mut counts = [0u32; 6];
        for _ in 0..6_000 {
            let chosen = choose(&mut r, 6, 2);
            assert!(chosen[0] < chosen[1]);
            chosen.iter().for_each(|&c| counts[c as usize] += 1);
        }
        assert!(counts.iter().all(|c| (1_850..2_150).contains(c)), "{counts:?}");
        assert_eq!(choose(&mut r, 3, 9), [0, 1, 2]);
    }

    #[test]
    fn a_shuffle_is_fair() {
        let mut r = rng();
        let mut counts = [[0u32; 3]; 3];
        for _ in 0..6_000 {
            let mut items = [0, 1, 2];
            shuffle(&mut r, &mut items);
            items.iter().enumerate().for_each(|(place, &item)| counts[place][item] += 1);
        }
        assert!(counts.iter().flatten().all(|c| (1_850..2_150).contains(c)), "{counts:?}");
    }

    /// Box and Muller: the pair is a point at a radius and an angle, both of which the words say.
    #[test]
    fn a_pair_of_normals_is_a_point_of_the_plane() {
        let (mut r, mut again) = (rng(), rng());
        for _ in 0..100 {
            let (x, y) = normal_pair(&mut r);
            let squared = -2.0 * open_unit(&mut again).ln();
            let angle = std::f64::consts::TAU * unit(&mut again);
            assert!((x * x + y * y - squared).abs() < 1e-12 * squared.max(1.0));
            assert!((y.atan2(x).rem_euclid(std::f64::consts::TAU) - angle).abs() < 1e-9);
        }
    }

    /// With a total that is the smallest of numbers, half of all draws round up to it.
    #[test]
    fn a_draw_that_rounds_up_is_of_the_last_that_has_weight() {
        let mut r = rng();
        let categorical = Categorical::new(&[0.0, f64::from_bits(1), 0.0]).unwrap();
        assert!((0..100).all(|_| categorical.sample(&mut r) == 1));
    }

    /// Recorded once: a change of any bit breaks recorded partitions and virtual times.
    #[test]
    fn the_draws_never_change() {
        let mut r = rng();
        let bits: Vec<u64> = vec![
            unit(&mut r).to_bits(),
            below(&mut r, 1_000),
            standard_normal(&mut r).to_bits(),
            exponential(&mut r, 1.0).to_bits(),
            libm::exp(standard_normal(&mut r)).to_bits(),
            libm::exp(log_gamma_draw(&mut r, 0.05)).to_bits(),
            libm::exp(log_gamma_draw(&mut r, 3.5)).to_bits(),
            dirichlet(&mut r, 0.1, 3)[1].to_bits(),
            choose(&mut r, 100_000, 3)[1],
        ];
        assert_eq!(bits, PINNED, "{bits:#018x?}");
    }

    const PINNED: [u64; 9] = [
        0x3feb_db98_774d_5a83,
        790,
        0x3fe4_5edf_1bd7_bd7e,
        0x3fd7_e416_e6f3_ded6,
        0x4005_f3f8_657d_f9d3,
        0x3f2d_bb60_e3b4_36b3,
        0x3fdf_bf7a_ed98_5c8a,
        0x3e39_5273_5f0f_84cf,
        52_394,
    ];
}
