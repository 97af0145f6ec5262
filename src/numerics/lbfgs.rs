//! L-BFGS (Liu and Nocedal 1989) in f64 without a line search. Steps along the quasi-Newton direction have a given
//! length.
//!
//! It follows PyTorch's optimizer of that name: the first step is shortened to `rate / |g|_1` if that is less, a pair
//! of differences is stored if its curvature is above `1e-10`, and the iterations of a call end early if nothing moves
//! any more.
//!
//! ```
//! use fedcast::numerics::lbfgs::Lbfgs;
//! // (x - 3)^2 + 10 (y + 1)^2
//! let value = |x: &[f64]| (x[0] - 3.0).powi(2) + 10.0 * (x[1] + 1.0).powi(2);
//! let slope = |x: &[f64]| vec![2.0 * (x[0] - 3.0), 20.0 * (x[1] + 1.0)];
//! let (mut lbfgs, mut x) = (Lbfgs::new(0.5, 20), vec![0.0, 0.0]);
//! for _ in 0..10 {
//!     lbfgs.call(&mut x, |x| (value(x), slope(x)));
//! }
//! assert!(value(&x) < 1e-8);
//! ```

use std::collections::VecDeque;

/// Largest number of stored pairs.
const HISTORY: usize = 100;
/// Largest gradient entry that counts as zero.
const FLAT: f64 = 1e-7;
/// Largest change that counts as zero.
const STILL: f64 = 1e-9;

/// State of L-BFGS between calls.
#[derive(Clone, Debug)]
pub struct Lbfgs {
    rate: f64,
    iterations: usize,
    /// Stored differences of points and of gradients.
    pairs: VecDeque<(Vec<f64>, Vec<f64>)>,
    scale: f64,
    /// Gradient and step of the last iteration.
    last: Option<(Vec<f64>, Vec<f64>)>,
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().map(|value| value.abs()).fold(0.0, f64::max)
}

impl Lbfgs {
    /// Returns an optimizer with steps of this length and this number of iterations per call.
    pub fn new(rate: f64, iterations: usize) -> Lbfgs {
        Lbfgs { rate, iterations, pairs: VecDeque::new(), scale: 1.0, last: None }
    }

    /// Moves `x` to decrease `f`, which returns a value and its gradient. Returns the value before.
    pub fn call(&mut self, x: &mut [f64], f: impl Fn(&[f64]) -> (f64, Vec<f64>)) -> f64 {
        let (before, mut gradient) = f(x);
        let mut value = before;
        if largest(&gradient) <= FLAT {
            return before;
        }
        for iteration in 1..=self.iterations {
            let first = self.last.is_none();
            if let Some((last, step)) = &self.last {
                let y: Vec<f64> = gradient.iter().zip(last).map(|(now, last)| now - last).collect();
                let curvature = dot(&y, step);
                if curvature > 1e-10 {
                    self.scale = curvature / dot(&y, &y);
                    self.pairs.push_back((step.clone(), y));
                    if self.pairs.len() > HISTORY {
                        self.pairs.pop_front();
                    }
                }
            }
            let direction = self.direction(&gradient);
            let shortened = (1.0 / gradient.iter().map(|g| g.abs()).sum::<f64>()).min(1.0);
            let length = if first { shortened * self.rate } else { self.rate };
            let step: Vec<f64> = direction.iter().map(|d| length * d).collect();
            let falls = dot(&gradient, &direction);
            // Also if nothing decreases any more: otherwise the last pair would be stored again and again.
            self.last = Some((gradient.clone(), step.clone()));
            if falls > -STILL {
                break;
            }
            x.iter_mut().zip(&step).for_each(|(x, step)| *x += step);
            let moved = largest(&step);
            if iteration == self.iterations {
                break;
            }
            let (now, slope) = f(x);
            let change = (now - value).abs();
            (value, gradient) = (now, slope);
            if largest(&gradient) <= FLAT || moved <= STILL || change < STILL {
                break;
            }
        }
        before
    }

    /// Returns `-H g` by the two-loop recursion over the stored pairs.
    fn direction(&self, gradient: &[f64]) -> Vec<f64> {
        let mut q: Vec<f64> = gradient.iter().map(|g| -g).collect();
        let mut parts = Vec::with_capacity(self.pairs.len());
        for (step, y) in self.pairs.iter().rev() {
            let rho = 1.0 / dot(y, step);
            let part = rho * dot(step, &q);
            q.iter_mut().zip(y).for_each(|(q, y)| *q -= part * y);
            parts.push((rho, part));
        }
        q.iter_mut().for_each(|q| *q *= self.scale);
        for ((step, y), (rho, part)) in self.pairs.iter().zip(parts.into_iter().rev()) {
            let back = rho * dot(y, &q);
            q.iter_mut().zip(step).for_each(|(q, step)| *q += (part - back) * step);
        }
        q
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The method is exact on a quadratic after as many whole steps as there are dimensions.
    ///
    /// The first step is shortened.
    #[test]
    fn a_quadratic_is_solved() {
        let curvature = [1.0, 4.0, 9.0];
        let f = |x: &[f64]| {
            let value = x.iter().zip(curvature).map(|(x, c)| 0.5 * c * (x - 1.0).powi(2)).sum();
            (value, x.iter().zip(curvature).map(|(x, c)| c * (x - 1.0)).collect())
        };
        let mut x = vec![0.0; 3];
        let mut once = Lbfgs::new(1.0, 1);
        assert_eq!(once.call(&mut x, f), 7.0);
        // -g = (1, 4, 9), over 14.
        assert!(x.iter().zip([1.0, 4.0, 9.0]).all(|(x, g)| (x - g / 14.0).abs() < 1e-12), "{x:?}");
        let mut all = Lbfgs::new(1.0, 40);
        all.call(&mut x, f);
        assert!(x.iter().all(|x| (x - 1.0).abs() < 1e-5), "{x:?}");
        // Where nothing falls any more nothing moves.
        let there = x.clone();
        all.call(&mut x, |x| (0.0, vec![0.0; x.len()]));
        assert_eq!(x, there);
    }

    /// Rosenbrock's valley with short steps.
    #[test]
    fn a_valley_is_followed() {
        let f = |x: &[f64]| {
            let (a, b) = (x[0], x[1]);
            let bend = b - a * a;
            let value = (1.0 - a).powi(2) + 100.0 * bend * bend;
            (value, vec![-2.0 * (1.0 - a) - 400.0 * a * bend, 200.0 * bend])
        };
        let (mut lbfgs, mut x) = (Lbfgs::new(0.1, 20), vec![-1.2, 1.0]);
        let begin = lbfgs.call(&mut x, f);
        (0..60).for_each(|_| {
            lbfgs.call(&mut x, f);
        });
        assert!(f(&x).0 < 1e-6 * begin, "{x:?}");
    }
}
