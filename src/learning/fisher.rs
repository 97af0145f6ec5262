//! Diagonal of the Fisher information: sensitivity of the predictions for some samples to every parameter.
//!
//! With `g = grad log p(y|x)`, `p` the softmax over the head rows that train, of one sample at a time:
//!
//! ```text
//! truth      sum over (x, y)  p(y|x) g^2                the true label only, weighted by its probability (fed-mammoth)
//! expected   sum over x and c  p(c|x) g_c^2             the Fisher itself, over all labels (Matena and Raffel)
//! empirical  sum over (x, y)  g^2                       the true label only
//! batches    sum over mini-batches  (their mean g)^2    in training mode (TARGET, LANDER, STSA)
//! ```
//! These are sums in f64, not means: the sum over two sets of samples is the sum of theirs. Gradients of single samples
//! must be squared before they are added. Where a pack can hold several copies of the model, every sample gets its own
//! copy, and one backward pass gives one gradient per copy. If the backbone or a module trains, samples are processed
//! one by one, with the running moments of batch norms.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use super::optimizer::lend;
use super::{Classifier, LearningError, PackBatch};
use crate::data::Batch;
use crate::model::ops::{SampleGroups, grouped_cross_entropy};
use crate::model::{Backbone, FrozenPart, ModelError, Parameter, ParameterSet};
use crate::numerics::wide::each;
use crate::scenario::reader::Choice;

/// Squared gradients that are summed for the Fisher diagonal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum FisherForm {
    /// Squared gradient for the true label of each sample, times the probability of the label.
    Truth,
    /// Squared gradients for all labels of each sample, each times the probability of the label.
    ///
    /// The Fisher information by definition; it takes a backward pass per class.
    Expected,
    /// Squared gradient for the true label of each sample.
    Empirical,
    /// Squared mean gradient of each mini-batch, with the network in training mode.
    Batches,
}

/// Largest number of model copies in a pack, and of the values that they hold together.
const COPIES: usize = 64;
const NUMBERS: usize = 1 << 24;

/// Sum over samples or mini-batches for every trainable value; zero for rows that do not train.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FisherDiagonal {
    by_name: BTreeMap<Arc<str>, Vec<f64>>,
    /// Number of samples or mini-batches.
    pub terms: u64,
}

impl FisherDiagonal {
    /// Returns the sums of a parameter, flattened, for all of its rows.
    pub fn of(&self, name: &str) -> Option<&[f64]> {
        self.by_name.get(name).map(Vec::as_slice)
    }

    /// Returns each sum times `factor`, limited to `clip`, in f32 and with the names and shapes of `like`.
    pub fn scaled(&self, factor: f64, clip: f64, like: &ParameterSet) -> ParameterSet {
        let numbers =
            |sums: &[f64]| sums.iter().map(|sum| (factor * sum).min(clip) as f32).collect();
        let of = |(name, sums): (&Arc<str>, &Vec<f64>)| {
            let shape = like.get(name)?.shape.clone();
            Some((Arc::clone(name), Parameter { shape, values: numbers(sums) }))
        };
        self.by_name.iter().filter_map(of).collect()
    }
}

/// Accumulation of a diagonal over samples.
pub struct FisherPass {
    network: Classifier,
    form: FisherForm,
    sum: FisherDiagonal,
}

impl FisherPass {
    /// Returns empty sums for a model with these parameters, of whose head `rows` train.
    ///
    /// # Errors
    /// Returns an error if parameters are missing or do not fit the backbone.
    pub fn new(
        backbone: &Arc<Backbone>,
        parameters: &ParameterSet,
        rows: Range<usize>,
        form: FisherForm,
    ) -> Result<FisherPass, ModelError> {
        let copies = match Classifier::packs(backbone, parameters) && form != FisherForm::Batches {
            true => (NUMBERS / parameters.flat_length().max(1)).clamp(1, COPIES),
            false => 1,
        };
        let received = vec![parameters.clone(); copies];
        let network = match form {
            FisherForm::Batches => Classifier::pack(backbone, received, rows)?,
            _ => Classifier::evaluating(backbone, received, rows)?,
        };
        let mut sum = FisherDiagonal::default();
        for (name, _) in network.variables() {
            let numbers = parameters.get(name).map_or(0, |whole| whole.values.len());
            sum.by_name.insert(Arc::clone(name), vec![0.0; numbers]);
        }
        Ok(FisherPass { network, form, sum })
    }

    /// Returns the frozen part, whose output a cache may supply instead of pixels.
    pub fn frozen_part(&self) -> FrozenPart {
        self.network.frozen_part()
    }

    /// Returns the number of samples to pass to [`add`](FisherPass::add): one per copy, or a mini-batch.
    pub fn batch(&self, mini_batch: usize) -> usize {
        match self.form {
            FisherForm::Batches => mini_batch,
            _ => self.network.members(),
        }
    }

    /// Adds a batch of at most [`batch`](FisherPass::batch) samples.
    ///
    /// # Errors
    /// Returns an error if the batch does not fit, or a label is not among the rows.
    pub fn add(&mut self, batch: Batch, device: &Device) -> Result<(), LearningError> {
        let labels = batch.labels().to_vec();
        self.add_labeled(batch, labels, device)
    }

    /// Adds a batch with other `labels` than its own: head rows, one per sample.
    ///
    /// # Errors
    /// Fails as [`add`](FisherPass::add) does.
    pub fn add_labeled(
        &mut self,
        batch: Batch,
        labels: Vec<u32>,
        device: &Device,
    ) -> Result<(), LearningError> {
        let (samples, copies) = (batch.len(), self.network.members());
        let rows = self.network.rows();
        let groups = match self.form {
            FisherForm::Batches => SampleGroups::one(samples),
            _ => SampleGroups::new(
                (0..copies).map(|at| usize::from(at < samples)).collect::<Vec<_>>(),
            ),
        };
        let step = PackBatch { batch, groups, steps: vec![0; copies] };
        let logits = self.network.pack_logits(&step, device, None)?.logits;
        let own = |label: u32| label.wrapping_sub(rows.start as u32);
        match self.form {
            FisherForm::Expected => {
                for row in 0..rows.len() as u32 {
                    self.add_squares(&logits, &vec![row; samples], &step.groups)?;
                }
            }
            _ => {
                let labels: Vec<u32> = labels.into_iter().map(own).collect();
                self.add_squares(&logits, &labels, &step.groups)?;
            }
        }
        self.sum.terms += if self.form == FisherForm::Batches { 1 } else { samples as u64 };
        Ok(())
    }

    /// Squared gradients of the losses for these labels, one per member that has samples.
    fn add_squares(
        &mut self,
        logits: &Tensor,
        labels: &[u32],
        groups: &SampleGroups,
    ) -> Result<(), LearningError> {
        let losses = grouped_cross_entropy(logits, labels, 0..self.network.rows().len(), groups)?;
        let weights: Vec<f64> = match self.form {
            FisherForm::Empirical | FisherForm::Batches => vec![1.0; groups.members()],
            // The loss of one sample is -log p.
            FisherForm::Truth | FisherForm::Expected => {
                let losses = losses.flatten_all()?.to_vec1::<f32>()?;
                losses.into_iter().map(|loss| libm::exp(-f64::from(loss))).collect()
            }
        };
        let gradients = losses.backward()?;
        for (name, variable) in self.network.variables() {
            let (Some(gradient), Some(place)) =
                (gradients.get(variable), self.network.place_of(name))
            else {
                continue;
            };
            let Some(sums) = self.sum.by_name.get_mut(name) else { continue };
            let sums = &mut sums[place];
            lend(gradient, |gradient| {
                let members = gradient.chunks_exact(sums.len().max(1)).zip(groups.sizes());
                for ((gradient, _), weight) in members.zip(&weights).filter(|((_, n), _)| **n > 0) {
                    let weight = *weight;
                    each(sums, gradient, move |sum, g| {
                        *sum += weight * f64::from(*g) * f64::from(*g);
                    });
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Returns the accumulated sums.
    pub fn finish(self) -> FisherDiagonal {
        self.sum
    }
}

#[cfg(test)]
mod tests;
