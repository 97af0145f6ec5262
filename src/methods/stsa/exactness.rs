//! Error of STSA-E against STSA: its head against that of the exact statistics, and the bounds from theory.
//!
//! With `A = G + lambda I` of the exact statistics and `A', P'` of the estimated ones, `A W = P` and
//! `A' W' = P'` give
//! ```text
//! W' - W = A'^-1 ((A - A') W + P' - P)
//! |W' - W| <= (|A - A'| |W| + |P' - P|) / lambda_min(A')             in Frobenius norms
//! ```
//! This is the chain of inequalities by which the paper proves Theorem 3.3 (where `P' = P`), with what it
//! hides in constants put in: the bound holds in every single run. Proposition 3.2 predicts `|A - A'|`:
//! for Gaussian features of covariance `S` a class of `N` samples in `U` units contributes
//! ```text
//! E |G' - G|^2 = (N - U) (N - 1) / (U - 1) * (|S|^2 + tr(S)^2)
//! ```
//! Corollary 3.4 compares with a true `W` of a noisy linear model, which real features do not have.

use super::class_sums::ClassSums;
use crate::numerics::dense::eigenvalues;
use crate::numerics::ridge::Ridge;
use crate::numerics::symmetric::{Gram, Symmetric};

/// Sums over all tasks so far, and the head that solves for them.
pub struct Statistics<'a> {
    /// Gram matrix `G`.
    pub gram: &'a Symmetric,
    /// Class sums `P^T`, `(classes, D)`.
    pub correlation: &'a [f64],
    /// Ridge regression of these sums.
    pub head: &'a Ridge,
}

/// Distance of the estimated head from the exact one, and its bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeadError {
    /// Relative error `|W' - W| / |W|`.
    pub error: f64,
    /// Upper bound of the error by the inequality; infinite if `A'` is not positive definite.
    pub bound: f64,
}

/// Compares the estimated head with that of the exact statistics; `None` if the exact head is zero.
pub fn head_error(estimated: &Statistics<'_>, exact: &Statistics<'_>) -> Option<HeadError> {
    let size = norm(exact.head.weights.iter().copied());
    if size == 0.0 {
        return None;
    }
    let mut gap = estimated.gram.clone();
    gap.add_scaled(-1.0, exact.gram);
    let shift = estimated.head.penalty - exact.head.penalty;
    // The difference of penalties adds s I to that of the matrices: |M + s I|^2 = |M|^2 + 2 s tr M + s^2 D.
    let order = gap.order() as f64;
    let squared = gap.norm().powi(2) + shift * (2.0 * gap.trace() + shift * order);
    let smallest = smallest_eigenvalue(estimated.gram) + estimated.head.penalty;
    // Rounding may make the square negative; `max(0.0)` would also hide a NaN.
    let distance = if squared < 0.0 { 0.0 } else { squared.sqrt() };
    let left = distance * size + apart(estimated.correlation, exact.correlation);
    Some(HeadError {
        error: apart(&estimated.head.weights, &exact.head.weights) / size,
        bound: if smallest > 0.0 { left / smallest / size } else { f64::INFINITY },
    })
}

fn smallest_eigenvalue(matrix: &Symmetric) -> f64 {
    eigenvalues(matrix).ok().and_then(|values| values.first().copied()).unwrap_or(f64::NEG_INFINITY)
}

fn apart(a: &[f64], b: &[f64]) -> f64 {
    norm(a.iter().zip(b).map(|(a, b)| a - b))
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|value| value * value).sum::<f64>().sqrt()
}

/// Returns the expected squared error of the unbiased estimate of a class in `units` units.
///
/// Proposition 3.2 gives it, from the class's exact Gram matrix, sum and number of samples. A class of one unit is
/// estimated by its mean: its error is its scatter, `(N - 1)^2 |S|^2`.
pub fn expected_square(gram: &Symmetric, sum: &[f64], samples: f64, units: f64) -> f64 {
    if samples < 2.0 || units < 1.0 {
        return 0.0;
    }
    let mut mean = Gram::new(gram.order());
    mean.add(sum);
    let mut covariance = Symmetric::zeros(gram.order());
    covariance.add_scaled(1.0 / (samples - 1.0), gram);
    covariance.add_scaled(-1.0 / (samples - 1.0) / samples, &mean.finish());
    let (size, trace) = (covariance.norm(), covariance.trace());
    if units == 1.0 {
        return ((samples - 1.0) * size).powi(2);
    }
    let factor = (samples - units) * (samples - 1.0) / (units - 1.0);
    factor.max(0.0) * (size * size + trace * trace)
}

/// Exact sums over all training samples so far, which no server of a federation could know.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact {
    /// Gram matrix `G`.
    pub gram: Symmetric,
    /// Class sums `P^T` of all classes.
    pub sums: ClassSums,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::dummy_clients::{DummyClientSplit, cut, key};
    use crate::methods::stsa::{Estimation, OneUnit, UnitCount, UnitStatistics, estimate};
    use crate::numerics::distributions::standard_normal;
    use crate::numerics::ridge::{Penalty, ridge};
    use crate::numerics::streams::{Domain, StreamKey};
    use crate::quantity::{ClientId, TaskId};

    const WIDTH: usize = 6;
    const CLASSES: usize = 2;
    const RULE: Estimation = Estimation {
        unit_count: UnitCount::Nonempty,
        one_unit: OneUnit::Mean,
        diagnostics: false,
        head_error: true,
    };

    /// Rectified Gaussians around the means of two classes.
    struct RectifiedGaussians {
        rows: Vec<f64>,
        classes: Vec<usize>,
        seed: u64,
    }

    impl RectifiedGaussians {
        fn new(seed: u64, samples: usize) -> RectifiedGaussians {
            let mut rng = StreamKey::new(seed, Domain::Method).rng();
            let classes: Vec<usize> = (0..samples).map(|i| i % CLASSES).collect();
            let mut rows = Vec::new();
            for class in &classes {
                for at in 0..WIDTH {
                    let mean = if at % CLASSES == *class { 1.5 } else { 0.2 };
                    rows.push((mean + standard_normal(&mut rng)).max(0.0));
                }
            }
            RectifiedGaussians { rows, classes, seed }
        }

        fn samples(&self) -> impl Iterator<Item = (&[f64], usize)> {
            self.rows.chunks(WIDTH).zip(self.classes.iter().copied())
        }

        /// `G` and `P^T` as they are.
        fn exact(&self) -> (Symmetric, ClassSums) {
            let (mut gram, mut sums) = (Gram::new(WIDTH), ClassSums::zeros(CLASSES, WIDTH));
            gram.add(&self.rows);
            for (row, class) in self.samples() {
                sums.row_mut(class).iter_mut().zip(row).for_each(|(sum, h)| *sum += h);
            }
            (gram.finish(), sums)
        }

        fn units(&self, count: u32) -> Vec<UnitStatistics> {
            let parts = cut(
                self.classes.len(),
                count,
                DummyClientSplit::RemainderLast,
                key(self.seed, TaskId(0), ClientId(0)),
            );
            let unit = |places: &Vec<u32>| {
                let mut unit = UnitStatistics::empty(CLASSES, WIDTH);
                for place in places {
                    let at = *place as usize;
                    unit.add(&self.rows[at * WIDTH..][..WIDTH], self.classes[at]);
                }
                unit
            };
            parts.iter().map(unit).collect()
        }

        fn compared(&self, count: u32, penalty: f64) -> HeadError {
            let (gram, sums) = self.exact();
            let units = self.units(count);
            let guess = estimate(&units, units.len(), WIDTH, &RULE);
            let of = |gram| ridge(gram, &sums.values, Penalty::Absolute(penalty), 0).unwrap();
            let (exact, estimated) = (of(&gram), of(&guess));
            let statistics = |gram, head| Statistics { gram, correlation: &sums.values, head };
            head_error(&statistics(&guess, &estimated), &statistics(&gram, &exact)).unwrap()
        }
    }

    /// `A x = b` by Gauss and Jordan, with nothing of ours.
    fn solved(mut a: Vec<Vec<f64>>, mut b: Vec<f64>) -> Vec<f64> {
        for i in 0..b.len() {
            let pivot = a[i][i];
            a[i].iter_mut().for_each(|v| *v /= pivot);
            b[i] /= pivot;
            for j in (0..b.len()).filter(|j| *j != i) {
                let (factor, line) = (a[j][i], a[i].clone());
                a[j].iter_mut().zip(&line).for_each(|(v, w)| *v -= factor * w);
                b[j] -= factor * b[i];
            }
        }
        b
    }

    /// The estimate by the paper's formula, two solutions, and their distance, written out.
    #[test]
    fn the_error_is_what_an_independent_computation_gives() {
        let (drawn, penalty) = (RectifiedGaussians::new(5, 40), 3.0);
        let units = drawn.units(4);
        let square = || vec![vec![0.0; WIDTH]; WIDTH];
        let (mut exact, mut guess) = (square(), square());
        let mut sums = vec![vec![0.0; WIDTH]; CLASSES];
        let add = |to: &mut Vec<Vec<f64>>, weight: f64, row: &[f64]| {
            for i in 0..WIDTH {
                for j in 0..WIDTH {
                    to[i][j] += weight * row[i] * row[j];
                }
            }
        };
        for (row, class) in drawn.samples() {
            add(&mut exact, 1.0, row);
            sums[class].iter_mut().zip(row).for_each(|(sum, h)| *sum += h);
        }
        for (class, sum) in sums.iter().enumerate() {
            let held: Vec<&UnitStatistics> =
                units.iter().filter(|unit| unit.counts[class] > 0.0).collect();
            let n: f64 = held.iter().map(|unit| unit.counts[class]).sum();
            let u = held.len() as f64;
            for unit in held {
                let weight = (n - 1.0) / (u - 1.0) / unit.counts[class];
                add(&mut guess, weight, unit.sums.row(class));
            }
            add(&mut guess, -(n - u) / ((u - 1.0) * n), sum);
        }
        for matrix in [&mut exact, &mut guess] {
            (0..WIDTH).for_each(|i| matrix[i][i] += penalty);
        }
        let (mut gap, mut size) = (0.0, 0.0);
        for sum in sums {
            let (w, v) = (solved(exact.clone(), sum.clone()), solved(guess.clone(), sum));
            gap += w.iter().zip(&v).map(|(w, v)| (w - v).powi(2)).sum::<f64>();
            size += w.iter().map(|w| w * w).sum::<f64>();
        }
        let wanted = (gap / size).sqrt();
        let found = drawn.compared(4, penalty).error;
        assert!(wanted > 0.01 && (found / wanted - 1.0).abs() < 1e-9, "{found} and not {wanted}");
    }

    /// In one dimension the inequality is an equality.
    #[test]
    fn the_bound_is_tight_where_it_can_be_and_holds_everywhere() {
        let one = |gram: f64, sum: f64, penalty: f64| {
            let gram = Symmetric::from_full(1, &[gram]).unwrap();
            let head = ridge(&gram, &[sum], Penalty::Absolute(penalty), 0).unwrap();
            (gram, vec![sum], head)
        };
        // 12 / (5 + 1) = 2.
        let exact = one(5.0, 12.0, 1.0);
        let compare = |other: (Symmetric, Vec<f64>, Ridge)| {
            head_error(
                &Statistics { gram: &other.0, correlation: &other.1, head: &other.2 },
                &Statistics { gram: &exact.0, correlation: &exact.1, head: &exact.2 },
            )
            .unwrap()
        };
        let same_sums = compare(one(9.0, 12.0, 3.0));
        // 12 / 12 = 1 instead of 2; (|12 - 6| 2 + 0) / 12 / 2.
        assert!((same_sums.error - 0.5).abs() < 1e-12, "{same_sums:?}");
        assert!((same_sums.bound - 0.5).abs() < 1e-12, "{same_sums:?}");
        let others = compare(one(9.0, 18.0, 3.0));
        // 18 / 12 = 1.5; (6 2 + 6) / 12 / 2.
        assert!((others.error - 0.25).abs() < 1e-12, "{others:?}");
        assert!((others.bound - 0.75).abs() < 1e-12, "{others:?}");
        // Two dimensions, diag(5, 5) + 1 and diag(9, 9) + 3: the identity's share has both of their entries.
        let two = |gram: f64, penalty: f64| {
            let gram = Symmetric::from_full(2, &[gram, 0.0, 0.0, gram]).unwrap();
            let head = ridge(&gram, &[12.0, 0.0], Penalty::Absolute(penalty), 0).unwrap();
            (gram, head)
        };
        let ((exact, head), (other, guess)) = (two(5.0, 1.0), two(9.0, 3.0));
        let sums = [12.0, 0.0];
        let found = head_error(
            &Statistics { gram: &other, correlation: &sums, head: &guess },
            &Statistics { gram: &exact, correlation: &sums, head: &head },
        )
        .unwrap();
        assert!((found.bound - 72_f64.sqrt() / 12.0).abs() < 1e-12, "{found:?}");
        for seed in 0..20 {
            let found = RectifiedGaussians::new(seed, 60).compared(3, 0.5);
            assert!(found.error > 0.0 && found.error <= found.bound, "{seed}: {found:?}");
            assert!(found.bound.is_finite());
        }
        let ones = RectifiedGaussians::new(1, 60).compared(60, 0.5);
        assert!(ones.error < 1e-12 && ones.bound < 1e-9, "a sample each: {ones:?}");
    }

    /// Corollary 3.4: more units, smaller error. `(N - U) / (U - 1)` falls from 59 to 3 and to 0.9 a class.
    #[test]
    fn the_error_falls_with_the_number_of_units() {
        let mean = |count: u32, of: fn(HeadError) -> f64| {
            (0..40)
                .map(|seed| of(RectifiedGaussians::new(seed, 240).compared(count, 5.0)))
                .sum::<f64>()
                / 40.0
        };
        for of in [|found: HeadError| found.error, |found: HeadError| found.bound] {
            let [few, some, many] = [3, 30, 80].map(|count| mean(count, of));
            assert!(some < 0.6 * few && many < 0.8 * some && many > 0.0, "{few} {some} {many}");
        }
    }

    /// Against draws: Gaussians of known covariance, whose exact matrix predicts the error of its estimate.
    #[test]
    fn the_expected_error_is_the_mean_one() {
        let (samples, draws) = (24usize, 3000);
        for count in [2u32, 6, 12] {
            let (mut expected, mut found) = (0.0, 0.0);
            for draw in 0..draws {
                let mut rng = StreamKey::new(11, Domain::Method).step(draw).rng();
                let rows: Vec<f64> = (0..samples * WIDTH)
                    .map(|at| (at % WIDTH + 1) as f64 * standard_normal(&mut rng) + 1.0)
                    .collect();
                let drawn = RectifiedGaussians { rows, classes: vec![0; samples], seed: draw };
                let (gram, sums) = drawn.exact();
                let units = drawn.units(count);
                let mut gap = estimate(&units, units.len(), WIDTH, &RULE);
                gap.add_scaled(-1.0, &gram);
                found += gap.norm().powi(2) / draws as f64;
                expected += expected_square(&gram, sums.row(0), samples as f64, f64::from(count))
                    / draws as f64;
            }
            // A sample covariance is a little longer than the covariance, by 1 / (N - 1) of tr^2.
            let off = found / expected;
            assert!((0.85..1.05).contains(&off), "{count} units: {found}, expected {expected}");
        }
    }

    #[test]
    fn a_class_of_one_unit_misses_its_scatter() {
        let drawn = RectifiedGaussians { classes: vec![0; 30], ..RectifiedGaussians::new(2, 30) };
        let (gram, sums) = drawn.exact();
        let mut gap = estimate(&drawn.units(1), 1, WIDTH, &RULE);
        gap.add_scaled(-1.0, &gram);
        let expected = expected_square(&gram, sums.row(0), 30.0, 1.0).sqrt();
        assert!((expected / gap.norm() - 1.0).abs() < 1e-9, "{expected} {}", gap.norm());
        assert_eq!(expected_square(&gram, sums.row(0), 30.0, 30.0), 0.0, "a sample each");
        // 1, 3 and 5 in two units: (3 - 2) (3 - 1) / (2 - 1) (4^2 + 4^2); 1 and 3 in one: (2 - 1)^2 2^2.
        let one = |value: f64| Symmetric::from_full(1, &[value]).unwrap();
        assert_eq!(expected_square(&one(35.0), &[9.0], 3.0, 2.0), 64.0);
        assert_eq!(expected_square(&one(10.0), &[4.0], 2.0, 1.0), 4.0);
        assert_eq!(expected_square(&gram, sums.row(0), 1.0, 1.0), 0.0, "nothing to miss");
    }
}
