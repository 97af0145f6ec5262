//! Herding: rules for the samples of a class that a client keeps.
//!
//! Every rule orders the samples of one class by frozen features alone. So the choice does not depend on training, and
//! a smaller share is a subset of a larger one.
//!
//! ```
//! use fedcast::learning::Herding;
//! let features = [0.0f32, 1.0, 2.0, 9.0]; // four samples of width 1, mean 3
//! assert_eq!(Herding::Nearest.order(&features, 1, 4), [2, 1, 0, 3]);
//! assert_eq!(Herding::Greedy.order(&features, 1, 2), [2, 1]); // means 2 and 1.5, nearest to 3
//! ```

use clap::ValueEnum;

use crate::scenario::reader::Choice;

/// Rule that orders the samples of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Herding {
    /// Samples nearest to the class mean (FedHAF, eq. 6).
    Nearest,
    /// Samples whose mean is nearest to the class mean (iCaRL).
    ///
    /// The next sample is the one that brings the mean of the chosen ones nearest to the class mean.
    Greedy,
    /// Greedy choice on features scaled to length one.
    ///
    /// The mean of these features is not scaled.
    GreedyUnit,
}

impl Herding {
    /// Returns the first `count` samples in the rule's order, by their `features`.
    ///
    /// These are `(samples, dim)`, row-major. Of equals, the lower index comes first.
    pub fn order<T: Copy + Into<f64>>(
        self,
        features: &[T],
        dim: usize,
        count: usize,
    ) -> Vec<usize> {
        let (rows, mean) = self.around_mean(features, dim);
        match self {
            Herding::Nearest => nearest(&rows, &mean, count),
            Herding::Greedy | Herding::GreedyUnit => greedy(&rows, &mean, count),
        }
    }

    /// Chooses `count` samples by the greedy rule, possibly a sample more than once.
    ///
    /// The releases of GLFC and LGA do so. The count may be larger than the number of samples.
    pub fn order_with_repeats<T: Copy + Into<f64>>(
        self,
        features: &[T],
        dim: usize,
        count: usize,
    ) -> Vec<usize> {
        let (rows, mean) = self.around_mean(features, dim);
        let (mut sum, mut order) = (vec![0.0; dim], Vec::new());
        while order.len() < count {
            let gaps = rows.iter().map(|row| gap(row, &sum, &mean, order.len()));
            let Some(at) = least(gaps) else { break };
            sum.iter_mut().zip(&rows[at]).for_each(|(sum, v)| *sum += v);
            order.push(at);
        }
        order
    }

    /// Returns the features as the rule uses them, and their mean.
    fn around_mean<T: Copy + Into<f64>>(
        self,
        features: &[T],
        dim: usize,
    ) -> (Vec<Vec<f64>>, Vec<f64>) {
        let mut rows: Vec<Vec<f64>> = features
            .chunks_exact(dim)
            .map(|row| row.iter().map(|v| (*v).into()).collect())
            .collect();
        if self == Herding::GreedyUnit {
            rows.iter_mut().for_each(|row| {
                let length = norm(row.iter().copied());
                row.iter_mut().for_each(|v| *v /= length.max(f64::MIN_POSITIVE));
            });
        }
        let mut mean = vec![0.0; dim];
        for row in &rows {
            mean.iter_mut().zip(row).for_each(|(sum, v)| *sum += v / rows.len() as f64);
        }
        (rows, mean)
    }
}

/// Returns the distance of the chosen samples' mean from the class mean if `row` is added to `sum`.
fn gap(row: &[f64], sum: &[f64], mean: &[f64], chosen: usize) -> f64 {
    let of = |((v, sum), mean): ((&f64, &f64), &f64)| mean - (sum + v) / (chosen + 1) as f64;
    norm(row.iter().zip(sum).zip(mean).map(of))
}

/// Returns the index of the smallest number, the first of equals.
fn least(numbers: impl Iterator<Item = f64>) -> Option<usize> {
    let placed = numbers.enumerate();
    placed.min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0))).map(|(at, _)| at)
}

fn nearest(rows: &[Vec<f64>], mean: &[f64], count: usize) -> Vec<usize> {
    let mut order: Vec<(f64, usize)> = rows
        .iter()
        .enumerate()
        .map(|(at, row)| (norm(row.iter().zip(mean).map(|(v, m)| v - m)), at))
        .collect();
    order.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    order.into_iter().take(count).map(|(_, at)| at).collect()
}

fn greedy(rows: &[Vec<f64>], mean: &[f64], count: usize) -> Vec<usize> {
    let mut sum = vec![0.0; mean.len()];
    let mut left: Vec<usize> = (0..rows.len()).collect();
    let mut order = Vec::new();
    while order.len() < count.min(rows.len()) {
        let gaps = left.iter().map(|at| gap(&rows[*at], &sum, mean, order.len()));
        let Some(place) = least(gaps) else { break };
        let at = left.remove(place);
        sum.iter_mut().zip(&rows[at]).for_each(|(sum, v)| *sum += v);
        order.push(at);
    }
    order
}

fn norm(values: impl Iterator<Item = f64>) -> f64 {
    values.map(|v| v * v).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::learning::kept;

    #[test]
    fn golden_herding_orders() {
        let Some(golden) = Golden::open("statistics") else { return };
        let (features, shape) = (golden.f64("herd.features"), golden.shape("herd.features"));
        let order = |rule: Herding, count: usize| -> Vec<i64> {
            rule.order(&features, shape[1], count).into_iter().map(|at| at as i64).collect()
        };
        assert_eq!(order(Herding::Greedy, 20), golden.i64("herd.greedy"));
        assert_eq!(order(Herding::GreedyUnit, 20), golden.i64("herd.greedy_unit"));
        assert_eq!(order(Herding::Nearest, 20), golden.i64("herd.nearest"));
        let few = order(Herding::Nearest, kept(20, 0.2));
        assert_eq!(few, golden.i64("herd.nearest_20pct"));
    }

    /// Of `-2, 1, 1.1, 0.5` the mean is 0.15. The nearest, 0.5, comes first either way; where it may be chosen again it
    /// is, until -2 brings the mean nearer.
    #[test]
    fn who_may_be_chosen_again_is_where_the_mean_is_nearer() {
        let features = [-2.0f32, 1.0, 1.1, 0.5];
        assert_eq!(Herding::Greedy.order(&features, 1, 4), [3, 1, 0, 2]);
        assert_eq!(Herding::Greedy.order(&features, 1, 2), [3, 1]);
        assert_eq!(Herding::Greedy.order_with_repeats(&features, 1, 4), [3, 3, 3, 0]);
        let more = Herding::Greedy.order_with_repeats(&features, 1, 9);
        assert_eq!((more.len(), &more[..4]), (9, &[3, 3, 3, 0][..]));
        assert!(Herding::Greedy.order_with_repeats::<f32>(&[], 1, 3).is_empty());
        let far = [-1.0f32, 1.0, 4.0];
        assert_eq!(Herding::Greedy.order_with_repeats(&far, 1, 3), [1, 1, 1]);
        assert_eq!(
            Herding::Greedy.order_with_repeats(&far, 1, 1),
            Herding::Nearest.order(&far, 1, 1)
        );
    }
}
