//! Means and variances of classes, at clients and of all their samples together.

use std::collections::BTreeMap;

use crate::policy::PolicyError;

/// Diagonal Gaussians of the classes of a slot, with how many samples they are of.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassMoments {
    /// `(classes, d)`, row-major.
    pub means: Vec<f32>,
    /// `(classes, d)`; divided by the number of samples, not by one less.
    pub variances: Vec<f32>,
    /// By class.
    pub counts: Vec<u32>,
}

/// Sums over features of some classes.
#[derive(Clone, Debug)]
pub struct MomentSums {
    dim: usize,
    counts: Vec<u32>,
    sums: Vec<f64>,
    squares: Vec<f64>,
}

impl MomentSums {
    /// Of nothing.
    pub fn new(classes: usize, dim: usize) -> MomentSums {
        let zeros = vec![0.0; classes * dim];
        MomentSums { dim, counts: vec![0; classes], sums: zeros.clone(), squares: zeros }
    }

    /// A sample of a class.
    pub fn add(&mut self, class: usize, feature: &[f32]) {
        self.counts[class] += 1;
        let place = class * self.dim;
        for (at, value) in feature.iter().enumerate().take(self.dim) {
            let value = f64::from(*value);
            self.sums[place + at] += value;
            self.squares[place + at] += value * value;
        }
    }

    /// The moments of what was added; zeros for a class without a sample.
    pub fn finish(self) -> ClassMoments {
        let of = |at: usize| f64::from(self.counts[at / self.dim.max(1)].max(1));
        let mean = |at: usize| self.sums[at] / of(at);
        let variance = |at: usize| (self.squares[at] / of(at) - mean(at) * mean(at)).max(0.0);
        let all = 0..self.sums.len();
        ClassMoments {
            means: all.clone().map(|at| mean(at) as f32).collect(),
            variances: all.map(|at| variance(at) as f32).collect(),
            counts: self.counts,
        }
    }
}

/// Global mean and variance of classes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaussians {
    /// How many.
    pub classes: usize,
    /// `(classes, d)`, row-major.
    pub means: Vec<f32>,
    /// `(classes, d)`; negative where nobody has reported the class.
    pub variances: Vec<f32>,
}

/// Mean and variance of a class over all clients, of width `d`.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassGaussian {
    /// The mean.
    pub mean: Vec<f64>,
    /// The variance by dimension.
    pub variance: Vec<f64>,
}

/// By class id, the moments of all samples that clients reported: `mu = sum p mu_k`,
/// `var = sum p (mu_k^2 + var_k) - mu^2` with `p` the shares of samples (law of total variance).
///
/// # Errors
/// When a report has not as many numbers as its classes need.
pub fn pooled(
    reports: &[(&[u32], &ClassMoments)],
    dim: usize,
) -> Result<BTreeMap<u32, ClassGaussian>, PolicyError> {
    let mut sums: BTreeMap<u32, (f64, Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for (classes, moments) in reports {
        let wanted = classes.len() * dim;
        if moments.means.len() != wanted || moments.variances.len() != wanted {
            return Err(PolicyError::Unsupported(format!(
                "moments of {} values for {} classes of width {dim}",
                moments.means.len(),
                classes.len()
            )));
        }
        for (place, (class, count)) in classes.iter().zip(&moments.counts).enumerate() {
            let (total, means, squares) =
                sums.entry(*class).or_insert_with(|| (0.0, vec![0.0; dim], vec![0.0; dim]));
            let count = f64::from(*count);
            *total += count;
            for at in 0..dim {
                let mean = f64::from(moments.means[place * dim + at]);
                let variance = f64::from(moments.variances[place * dim + at]);
                means[at] += count * mean;
                squares[at] += count * (mean * mean + variance);
            }
        }
    }
    sums.retain(|_, (total, _, _)| *total > 0.0);
    let moments = |(total, means, squares): (f64, Vec<f64>, Vec<f64>)| {
        let mean: Vec<f64> = means.into_iter().map(|sum| sum / total).collect();
        let variance = squares.iter().zip(&mean);
        let variance = variance.map(|(sum, mean)| (sum / total - mean * mean).max(0.0)).collect();
        ClassGaussian { mean, variance }
    };
    Ok(sums.into_iter().map(|(class, sums)| (class, moments(sums))).collect())
}

impl Gaussians {
    /// Those of these classes.
    pub fn of(classes: &[u32], pooled: &BTreeMap<u32, ClassGaussian>, dim: usize) -> Gaussians {
        let mut gaussians = Gaussians { classes: classes.len(), ..Gaussians::default() };
        for class in classes {
            match pooled.get(class) {
                Some(ClassGaussian { mean, variance }) => {
                    gaussians.means.extend(mean.iter().map(|v| *v as f32));
                    gaussians.variances.extend(variance.iter().map(|v| *v as f32));
                }
                None => {
                    gaussians.means.resize(gaussians.means.len() + dim, 0.0);
                    gaussians.variances.resize(gaussians.variances.len() + dim, -1.0);
                }
            }
        }
        gaussians
    }

    /// `1 / (var + eps)` with a floor under the variances of a class; zeros for classes that nobody reported.
    pub fn precisions(&self, dim: usize, eps: f64, floor: f64) -> Vec<f32> {
        let of_class = |variances: &[f32]| -> Vec<f32> {
            if variances.iter().any(|v| *v < 0.0) {
                return vec![0.0; variances.len()];
            }
            let mean = variances.iter().map(|v| f64::from(*v)).sum::<f64>() / dim as f64;
            let precision = |v: &f32| (1.0 / (f64::from(*v).max(floor * mean) + eps)) as f32;
            variances.iter().map(precision).collect()
        };
        self.variances.chunks(dim.max(1)).flat_map(of_class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 3;

    fn feature(sample: usize) -> Vec<f32> {
        (0..DIM).map(|at| ((sample * 7 + at) as f32 * 0.61).sin() * 2.0).collect()
    }

    fn moments(samples: &[usize]) -> ClassMoments {
        let mut sums = MomentSums::new(1, DIM);
        samples.iter().for_each(|sample| sums.add(0, &feature(*sample)));
        sums.finish()
    }

    /// C2Prompt's card, invariant 1.
    #[test]
    fn moments_of_clients_are_those_of_all_their_samples_however_they_were_dealt() {
        let all: Vec<usize> = (0..12).collect();
        let whole = moments(&all);
        for cuts in [vec![1, 5], vec![6], vec![2, 3, 4, 11], vec![]] {
            let mut parts = Vec::new();
            let mut start = 0;
            for end in cuts.into_iter().chain([all.len()]) {
                parts.push(moments(&all[start..end]));
                start = end;
            }
            let reports: Vec<(&[u32], &ClassMoments)> =
                parts.iter().map(|part| (&[4u32][..], part)).collect();
            let pooled = pooled(&reports, DIM).unwrap();
            let ClassGaussian { mean: means, variance: variances } = &pooled[&4];
            for at in 0..DIM {
                assert!((means[at] - f64::from(whole.means[at])).abs() < 1e-6);
                assert!((variances[at] - f64::from(whole.variances[at])).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn a_class_that_nobody_reported_pulls_nowhere_and_small_variances_have_a_floor() {
        let gaussians = Gaussians::of(&[9], &BTreeMap::new(), DIM);
        assert_eq!(gaussians.precisions(DIM, 1e-4, 0.01), [0.0; DIM]);
        let one = Gaussians { classes: 1, means: vec![0.0; DIM], variances: vec![0.0, 0.0, 3.0] };
        let found = one.precisions(DIM, 1e-4, 0.1);
        assert!((found[0] - 1.0 / 0.1001).abs() < 1e-3 && (found[2] - 1.0 / 3.0001).abs() < 1e-6);
        // A class of one sample has no variance at all.
        let single = Gaussians { classes: 1, means: vec![0.0; DIM], variances: vec![0.0; DIM] };
        assert!(single.precisions(DIM, 1e-4, 0.1).iter().all(|p| (*p - 1e4).abs() < 1.0));
    }

    #[test]
    fn reports_of_another_size_are_refused() {
        let wrong = moments(&[1]);
        assert!(pooled(&[(&[1, 2], &wrong)], DIM).is_err());
    }
}
