//! Pull of a batch's class means, or of its samples, towards prototypes (FedProto).

use std::collections::BTreeMap;

use candle_core::{Result, Tensor, bail};
use clap::ValueEnum;

use super::closed_form;
use crate::scenario::reader::Choice;

/// Distance of a class mean, or of samples, from prototypes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum ProtoDistance {
    /// Mean of squared differences over the entries of a feature.
    MeanSquare,
    /// Sum of squared differences over the entries of a feature.
    Square,
    /// Euclidean distance, the root of the sum of squared differences.
    ///
    /// The gradient is zero at distance zero.
    Euclidean,
    /// Mean of squared differences over a batch, of each sample from the prototype of its class.
    ///
    /// It replaces the sum over classes. A sample without a prototype counts with distance zero.
    Samples,
}

/// Prototypes of some classes, of equal width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassPrototypes {
    /// Prototype of each class, `(dim,)`.
    by_class: BTreeMap<u32, Vec<f32>>,
}

impl FromIterator<(u32, Vec<f32>)> for ClassPrototypes {
    fn from_iter<I: IntoIterator<Item = (u32, Vec<f32>)>>(classes: I) -> ClassPrototypes {
        ClassPrototypes { by_class: classes.into_iter().collect() }
    }
}

impl ClassPrototypes {
    /// Returns true if no class has a prototype.
    pub fn is_empty(&self) -> bool {
        self.by_class.is_empty()
    }

    /// Returns the pull `sum_c distance(prototype_c, mean of the features of c)`, a scalar.
    ///
    /// The sum is over the classes among `labels` that have a prototype, with `features` `(b, dim)`; it is 0 if there
    /// is none. With `g` its derivative by the mean of a class, each of the class's `n` features in the batch gets `g /
    /// n`. With [`ProtoDistance::Samples`] it is `sum_i |f_i - prototype of i's class|^2 / (b dim)`.
    ///
    /// # Errors
    /// Returns an error if there is not one label per feature, or prototypes have another width.
    pub fn pull(
        &self,
        features: &Tensor,
        labels: &[u32],
        distance: ProtoDistance,
    ) -> Result<Tensor> {
        let (batch, dim) = features.dims2()?;
        let mut members: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for (at, label) in labels.iter().enumerate() {
            members.entry(*label).or_default().push(at);
        }
        members.retain(|class, _| self.by_class.contains_key(class));
        let fits = members.keys().all(|class| self.by_class[class].len() == dim);
        if labels.len() != batch || !fits {
            bail!("prototypes: {} labels for features {:?}", labels.len(), features.shape());
        }
        if distance == ProtoDistance::Samples {
            return self.pull_samples(features, labels, dim);
        }
        closed_form(features, |features| {
            let (mut total, mut slope) = (0.0, vec![0f32; features.len()]);
            for (class, members) in &members {
                let n = members.len() as f64;
                let at = |sample: &usize, axis: usize| f64::from(features[sample * dim + axis]);
                let gap = |(axis, prototype): (usize, &f32)| {
                    members.iter().map(|s| at(s, axis)).sum::<f64>() / n - f64::from(*prototype)
                };
                let gaps: Vec<f64> = self.by_class[class].iter().enumerate().map(gap).collect();
                let squares = gaps.iter().map(|gap| gap * gap).sum::<f64>();
                let (value, factor) = match distance {
                    ProtoDistance::MeanSquare => (squares / dim as f64, 2.0 / dim as f64),
                    ProtoDistance::Square => (squares, 2.0),
                    ProtoDistance::Euclidean if squares > 0.0 => {
                        (squares.sqrt(), 1.0 / squares.sqrt())
                    }
                    ProtoDistance::Euclidean | ProtoDistance::Samples => (0.0, 0.0),
                };
                total += value;
                for sample in members {
                    let own = &mut slope[sample * dim..(sample + 1) * dim];
                    own.iter_mut()
                        .zip(&gaps)
                        .for_each(|(own, gap)| *own = (factor * gap / n) as f32);
                }
            }
            (total, slope)
        })
    }

    /// Returns the mean of squares of all entries of `features - prototypes`, both `(b, dim)`.
    fn pull_samples(&self, features: &Tensor, labels: &[u32], dim: usize) -> Result<Tensor> {
        closed_form(features, |features| {
            let (mut total, mut slope) = (0.0, vec![0f32; features.len()]);
            let entries = features.len().max(1) as f64;
            for (sample, class) in labels.iter().enumerate() {
                let Some(prototype) = self.by_class.get(class) else { continue };
                let own = sample * dim..(sample + 1) * dim;
                let pairs = features[own.clone()].iter().zip(prototype);
                for (slope, (feature, prototype)) in slope[own].iter_mut().zip(pairs) {
                    let gap = f64::from(*feature) - f64::from(*prototype);
                    total += gap * gap / entries;
                    *slope = (2.0 * gap / entries) as f32;
                }
            }
            (total, slope)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use candle_core::{Device, Var};

    const DISTANCES: [ProtoDistance; 3] =
        [ProtoDistance::MeanSquare, ProtoDistance::Square, ProtoDistance::Euclidean];

    /// Value and gradient.
    fn pull(
        known: &ClassPrototypes,
        features: &[f32],
        labels: &[u32],
        distance: ProtoDistance,
    ) -> (f64, Vec<f32>) {
        let shape = (labels.len(), features.len() / labels.len());
        let var = Var::from_slice(features, shape, &Device::Cpu).unwrap();
        let pull = known.pull(&var, labels, distance).unwrap();
        let gradients = pull.backward().unwrap();
        let slope = gradients.get(&var).unwrap().flatten_all().unwrap().to_vec1().unwrap();
        (f64::from(pull.to_scalar::<f32>().unwrap()), slope)
    }

    #[test]
    fn golden_losses_of_prototypes() {
        let Some(golden) = Golden::open("losses") else { return };
        let narrow =
            |name: &str| -> Vec<f32> { golden.f64(name).into_iter().map(|v| v as f32).collect() };
        let rows = narrow("fp.proto");
        let known = (4..8).zip(rows.chunks(6).map(<[f32]>::to_vec)).collect();
        let (features, labels) = (narrow("fp.f"), golden.labels("labels"));
        let (value, slope) = pull(&known, &features, &labels, ProtoDistance::MeanSquare);
        golden.assert_close_f32("fedproto", &[value]);
        golden.assert_close_f32("fedproto.grad_f", &slope);
    }

    fn two() -> ClassPrototypes {
        [(3, vec![1.0, 0.0]), (5, vec![0.0, 2.0]), (9, vec![7.0, 7.0])].into_iter().collect()
    }

    /// FedProto card, invariant 3: `2 (mean_c - p_c) / (d n_c)` for every feature of a class, zero where the mean is
    /// the prototype; a class without a prototype, and a prototype without a sample, have no part.
    #[test]
    fn a_class_is_drawn_by_its_mean() {
        let (features, labels) = ([2.0f32, 1.0, 4.0, -3.0, 0.0, 4.0, 9.0, 9.0], [3u32, 3, 5, 4]);
        // The gaps of means from prototypes: (3, -1) - (1, 0) and (0, 4) - (0, 2).
        let gaps = [[2.0, -1.0], [2.0, -1.0], [0.0, 2.0], [0.0, 0.0]];
        let counts = [2.0, 2.0, 1.0, 1.0];
        for (distance, value, factors) in [
            (ProtoDistance::MeanSquare, 2.5 + 2.0, [1.0, 1.0, 1.0, 0.0]),
            (ProtoDistance::Square, 5.0 + 4.0, [2.0, 2.0, 2.0, 0.0]),
            (ProtoDistance::Euclidean, 5f64.sqrt() + 2.0, [0.2f64.sqrt(), 0.2f64.sqrt(), 0.5, 0.0]),
        ] {
            let (found, slope) = pull(&two(), &features, &labels, distance);
            assert!((found - value).abs() < 1e-6, "{distance:?}: {found}");
            for (sample, slope) in slope.chunks(2).enumerate() {
                for (axis, found) in slope.iter().enumerate() {
                    let wanted = factors[sample] * gaps[sample][axis] / counts[sample];
                    assert!((f64::from(*found) - wanted).abs() < 1e-6, "{distance:?} {sample}");
                }
            }
            let (value, slope) = pull(&two(), &[0.0, 1.0, 2.0, -1.0], &[3, 3], distance);
            assert_eq!((value, slope), (0.0, vec![0.0; 4]), "{distance:?}: on the prototype");
        }
    }

    /// The authors' code, lib/update.py: a mean of squares over samples and entries, also over samples without a
    /// prototype. Two samples on both sides of their prototype are pulled, their mean is not.
    #[test]
    fn samples_are_pulled_where_their_mean_is_not() {
        let (features, labels) = ([2.0f32, 3.0, 0.0, -3.0, 4.0, 4.0], [3u32, 3, 4]);
        let (value, slope) = pull(&two(), &features, &labels, ProtoDistance::Samples);
        // Gaps (1, 3) and (-1, -3) of three samples with two entries each.
        assert!((value - 20.0 / 6.0).abs() < 1e-6, "{value}");
        let wanted = [1.0, 3.0, -1.0, -3.0, 0.0, 0.0].map(|gap| 2.0 * gap / 6.0);
        for (found, wanted) in slope.iter().zip(wanted) {
            assert!((f64::from(*found) - wanted).abs() < 1e-6, "{slope:?}");
        }
        for distance in DISTANCES {
            assert_eq!(pull(&two(), &features, &labels, distance), (0.0, vec![0.0; 6]));
        }
    }

    /// FedProto card, invariant 6: features of one class may change places.
    #[test]
    fn samples_of_a_class_may_change_places() {
        let labels = [3u32, 5, 3, 3];
        let features = [2.0f32, 1.0, 0.5, 0.25, 4.0, -3.0, -1.0, 0.5];
        let mut turned = features;
        turned.copy_within(4..6, 0);
        turned[4..6].copy_from_slice(&features[..2]);
        for distance in DISTANCES {
            let (one, other) = (
                pull(&two(), &features, &labels, distance),
                pull(&two(), &turned, &labels, distance),
            );
            assert!((one.0 - other.0).abs() < 1e-6, "{distance:?}");
            assert_eq!(one.1, other.1, "{distance:?}: they are all drawn alike");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let features = Tensor::new(&[[1f32, 2.0, 3.0]], &Device::Cpu).unwrap();
        let known = two();
        assert!(known.pull(&features, &[3], ProtoDistance::Square).is_err(), "another width");
        assert!(known.pull(&features, &[3], ProtoDistance::Samples).is_err(), "another width");
        assert!(known.pull(&features, &[4], ProtoDistance::Square).is_ok(), "no client is sampled");
        assert!(known.pull(&features, &[4, 4], ProtoDistance::Square).is_err());
    }
}
