//! Reported moments of the classes of a client task, and the Gaussians that the server returns.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::learning::compensation::Whitening;
use crate::numerics::gaussian::ClassMoments;
use crate::policy::{ClassDisclosure, PolicyError};

/// Mean, variance and number of samples for each class of a client task.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClientTaskMoments {
    /// Means, `(classes, d)`, row-major.
    pub means: Vec<f32>,
    /// Variances, `(classes, d)`; divided by the number of samples, not by one less.
    pub variances: Vec<f32>,
    /// Samples by class.
    pub counts: Vec<u32>,
}

impl ClientTaskMoments {
    /// Computes the moments of every class from its features, `(samples, d)` each.
    pub fn fit(by_class: &[Vec<f32>], dim: usize) -> ClientTaskMoments {
        let mut found = ClientTaskMoments::default();
        for features in by_class {
            let moments = ClassMoments::fit(dim, features.chunks_exact(dim.max(1)));
            let ClassMoments { count, mut mean, mut variance } = moments;
            mean.resize(dim, 0.0);
            variance.resize(dim, 0.0);
            found.means.extend(mean.into_iter().map(|v| v as f32));
            found.variances.extend(variance.into_iter().map(|v| v as f32));
            found.counts.push(count as u32);
        }
        found
    }

    /// Returns the means of the classes with samples; `rows` are the head rows of all classes.
    pub fn disclosed(&self, rows: &Range<usize>, dim: usize) -> Vec<ClassDisclosure> {
        let class = |(at, row): (usize, usize)| {
            let ClassMoments { count, mean, .. } = self.class(at, dim);
            (count > 0).then_some(ClassDisclosure { row, samples: count, mean })
        };
        rows.clone().enumerate().filter_map(class).collect()
    }

    fn class(&self, class: usize, dim: usize) -> ClassMoments {
        let wide = |values: &[f32]| {
            let row = &values[class * dim..(class + 1) * dim];
            row.iter().map(|v| f64::from(*v)).collect()
        };
        let (mean, variance) = (wide(&self.means), wide(&self.variances));
        ClassMoments { count: u64::from(self.counts[class]), mean, variance }
    }
}

/// Returns the moments over all clients' samples of each reported class, by class id.
///
/// # Errors
/// When a report does not have the number of values that its classes need.
pub fn pooled(
    reports: &[(&[u32], &ClientTaskMoments)],
    dim: usize,
) -> Result<BTreeMap<u32, ClassMoments>, PolicyError> {
    let mut by_class: BTreeMap<u32, Vec<ClassMoments>> = BTreeMap::new();
    for (classes, moments) in reports {
        let wanted = classes.len() * dim;
        let ClientTaskMoments { means, variances, counts } = moments;
        if [means.len(), variances.len()] != [wanted; 2] || counts.len() != classes.len() {
            return Err(PolicyError::Unsupported(format!(
                "moments of {} values for {} classes of width {dim}",
                means.len(),
                classes.len()
            )));
        }
        for (place, class) in classes.iter().enumerate() {
            by_class.entry(*class).or_default().push(moments.class(place, dim));
        }
    }
    let pooled =
        |(class, parts): (u32, Vec<ClassMoments>)| (class, ClassMoments::pooled(dim, &parts));
    Ok(by_class.into_iter().map(pooled).filter(|(_, all)| all.count > 0).collect())
}

/// Mean and variance of classes over all clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gaussians {
    /// Number of classes.
    pub classes: usize,
    /// Means, `(classes, d)`, row-major.
    pub means: Vec<f32>,
    /// Variances, `(classes, d)`; -1 for a class that no client has reported.
    pub variances: Vec<f32>,
}

impl Gaussians {
    /// Returns the Gaussians of `classes`, in this order.
    pub fn of(classes: &[u32], pooled: &BTreeMap<u32, ClassMoments>, dim: usize) -> Gaussians {
        let mut gaussians = Gaussians { classes: classes.len(), ..Gaussians::default() };
        for class in classes {
            let unknown = || (vec![0.0; dim], vec![-1.0; dim]);
            let known = |all: &ClassMoments| (all.mean.clone(), all.variance.clone());
            let (mean, variance) = pooled.get(class).map_or_else(unknown, known);
            gaussians.means.extend(mean.into_iter().map(|v| v as f32));
            gaussians.variances.extend(variance.into_iter().map(|v| v as f32));
        }
        gaussians
    }

    /// Returns the factors on squared distances, `(classes, d)`; zeros for classes that no client reported.
    pub fn precisions(&self, dim: usize, whitening: Whitening) -> Vec<f32> {
        let of_class = |variances: &[f32]| -> Vec<f32> {
            if variances.iter().any(|v| *v < 0.0) {
                return vec![0.0; variances.len()];
            }
            let wide: Vec<f64> = variances.iter().map(|v| f64::from(*v)).collect();
            whitening.precision(&wide).into_iter().map(|v| v as f32).collect()
        };
        self.variances.chunks(dim.max(1)).flat_map(of_class).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIM: usize = 3;

    fn moments(samples: &[usize]) -> ClientTaskMoments {
        let values = samples.iter().flat_map(|sample| {
            (0..DIM).map(move |at| ((sample * 7 + at) as f32 * 0.61).sin() * 2.0)
        });
        ClientTaskMoments::fit(&[values.collect()], DIM)
    }

    #[test]
    fn reports_have_as_many_numbers_as_their_classes_need() {
        let whole = moments(&[1, 2, 3]);
        let refused = |change: fn(&mut ClientTaskMoments)| {
            let mut report = whole.clone();
            change(&mut report);
            pooled(&[(&[4], &report)], DIM).is_err()
        };
        assert!(!refused(|_| ()));
        assert!(refused(|report| report.means.truncate(DIM - 1)));
        assert!(refused(|report| report.variances.truncate(DIM - 1)));
        assert!(refused(|report| report.counts.push(report.counts[0])));
    }

    /// C2Prompt's card, invariant 1, after encoding: any division of samples among clients gives the same Gaussians.
    #[test]
    fn gaussians_are_those_of_all_samples_however_they_were_dealt() {
        let all: Vec<usize> = (0..12).collect();
        let whole = moments(&all);
        for cuts in [vec![1, 5], vec![6], vec![2, 3, 4, 11], vec![]] {
            let mut parts = Vec::new();
            let mut start = 0;
            for end in cuts.into_iter().chain([all.len()]) {
                parts.push(moments(&all[start..end]));
                start = end;
            }
            let reports: Vec<(&[u32], &ClientTaskMoments)> =
                parts.iter().map(|part| (&[4u32][..], part)).collect();
            let found = Gaussians::of(&[4], &pooled(&reports, DIM).unwrap(), DIM);
            for at in 0..DIM {
                assert!((found.means[at] - whole.means[at]).abs() < 1e-6);
                assert!((found.variances[at] - whole.variances[at]).abs() < 1e-5);
            }
        }
    }

    #[test]
    fn an_unreported_class_pulls_nowhere() {
        let unreported = ClientTaskMoments::fit(&[Vec::new()], DIM);
        let pooled = pooled(&[(&[9], &unreported)], DIM).unwrap();
        let gaussians = Gaussians::of(&[9], &pooled, DIM);
        assert_eq!(gaussians.precisions(DIM, Whitening::default()), [0.0; DIM]);
        // A class of one sample has no variance, but a positive precision.
        let single = Gaussians { classes: 1, means: vec![0.0; DIM], variances: vec![0.0; DIM] };
        let found = single.precisions(DIM, Whitening::default());
        assert!(found.iter().all(|p| (*p - 1e4).abs() < 1.0));
    }

    #[test]
    fn reports_of_another_size_are_refused() {
        let wrong = moments(&[1]);
        assert!(pooled(&[(&[1, 2], &wrong)], DIM).is_err());
    }
}
