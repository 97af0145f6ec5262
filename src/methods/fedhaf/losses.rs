//! FedHAF's losses on a batch of new samples (of the current task) and exemplars (of earlier ones).
//!
//! ```text
//! head     ce  mean over new    CE(F(x), y) over the current outputs
//!          kd  mean over old    KL(softmax F(x) || softmax F_prev(x)) over the old outputs
//! module   fd  mean over old    |F'(x) - F'_prev(x)|^2
//!          fb  (mean over new classes of |F'| - mean over old classes of |F'|)^2
//! ```
//! `|F'|` of a class is the mean norm of its samples in the batch. A part of a loss without samples is zero.

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::{Result, Tensor};
use clap::ValueEnum;

use super::FedHaf;
use super::network::FedHafNetwork;
use crate::learning::losses::{Distillation, distillation};
use crate::model::{Drops, ops};
use crate::scenario::reader::Choice;

/// Outputs that compete in the cross-entropy of new samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Supervision {
    /// Outputs of the current task (head splitting).
    Split,
    /// Outputs of all classes seen (the ablation "w/o CE").
    All,
}

/// Reduction of the squares of a feature's entries, in the module's losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Squares {
    /// Mean over the width, as in a mean squared error.
    Mean,
    /// Sum, as printed in the paper.
    Sum,
}

/// Batch of new samples and exemplars, as the losses need it.
pub(super) struct LossBatch<'a> {
    /// Frozen features `(b, d)`.
    pub features: &'a Tensor,
    /// Head rows, `(b)`.
    pub labels: &'a [u32],
    /// Head rows of the current task; those before it are old.
    pub rows: Range<usize>,
}

impl LossBatch<'_> {
    fn is_new(&self, label: u32) -> bool {
        label as usize >= self.rows.start
    }

    /// Returns the indices of the new samples in the batch, or of the exemplars.
    fn places(&self, new: bool) -> Vec<u32> {
        let of =
            |(place, label): (usize, &u32)| (self.is_new(*label) == new).then_some(place as u32);
        self.labels.iter().enumerate().filter_map(of).collect()
    }

    fn labels_at(&self, places: &[u32]) -> Vec<u32> {
        places.iter().map(|place| self.labels[*place as usize]).collect()
    }
}

fn select(x: &Tensor, places: &[u32]) -> Result<Tensor> {
    x.index_select(&Tensor::new(places, x.device())?, 0)
}

/// Returns a zero whose graph contains `of`; candle drops products with zero from its graph.
fn zero(of: &Tensor) -> Result<Tensor> {
    ops::sum_all(&of.sub(of)?)
}

/// Returns the loss of the head, a scalar: cross-entropy, and distillation from `previous`.
pub(super) fn of_head(
    config: &FedHaf,
    logits: &Tensor,
    seen: &LossBatch<'_>,
    previous: Option<&FedHafNetwork>,
) -> Result<Tensor> {
    let mut loss = zero(logits)?;
    if config.lambda_ce > 0.0 {
        loss = (loss + (cross_entropy(config, logits, seen)? * config.lambda_ce)?)?;
    }
    let old = seen.places(false);
    if let Some(previous) = previous.filter(|_| config.lambda_kd > 0.0 && !old.is_empty()) {
        let columns = 0..seen.rows.start;
        let teacher = before(previous, seen, &old, |previous, features| {
            previous.logits(&previous.adjust(features, None)?, None)
        })?;
        let teacher = teacher.narrow(1, 0, columns.len())?;
        let teacher = teacher.contiguous()?.flatten_all()?.to_vec1::<f32>()?;
        let own = select(logits, &old)?.narrow(1, 0, columns.len())?.contiguous()?;
        let kd = distillation(&own, &teacher, columns, 1.0, Distillation::ReverseKl)?;
        loss = (loss + (kd * config.lambda_kd)?)?;
    }
    Ok(loss)
}

/// Returns the previous model's outputs for the exemplars at the indices `old`.
///
/// If it normalizes by batch moments, they are those of the whole batch, as for the model that trains.
fn before(
    previous: &FedHafNetwork,
    seen: &LossBatch<'_>,
    old: &[u32],
    says: impl Fn(&FedHafNetwork, &Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    match previous.goes_by_batch() {
        true => select(&says(previous, seen.features)?, old),
        false => says(previous, &select(seen.features, old)?),
    }
}

/// Returns the cross-entropy of the new samples and, with `exemplars_in_ce`, of the exemplars.
fn cross_entropy(config: &FedHaf, logits: &Tensor, seen: &LossBatch<'_>) -> Result<Tensor> {
    let all = 0..seen.rows.end;
    let columns = match config.supervision {
        Supervision::Split => seen.rows.clone(),
        Supervision::All => all.clone(),
    };
    let mut parts = vec![(seen.places(true), columns)];
    if config.exemplars_in_ce {
        parts.push((seen.places(false), all));
    }
    let samples: usize = parts.iter().map(|(places, _)| places.len()).sum();
    let mut loss = zero(logits)?;
    for (places, columns) in parts {
        if !places.is_empty() {
            let labels = seen.labels_at(&places);
            let share = places.len() as f64 / samples as f64;
            let part = ops::cross_entropy(&select(logits, &places)?, &labels, columns)?;
            loss = (loss + (part * share)?)?;
        }
    }
    Ok(loss)
}

/// Returns the loss of the module, a scalar: distillation from `previous`, and balance of norms.
pub(super) fn of_module(
    config: &FedHaf,
    adjusted: &Tensor,
    seen: &LossBatch<'_>,
    previous: Option<&FedHafNetwork>,
) -> Result<Tensor> {
    let mut loss = zero(adjusted)?;
    let entries = match config.squares {
        Squares::Mean => adjusted.dim(1)? as f64,
        Squares::Sum => 1.0,
    };
    let old = seen.places(false);
    if let Some(previous) = previous.filter(|_| config.lambda_fd > 0.0 && !old.is_empty()) {
        let target = before(previous, seen, &old, |previous, x| previous.adjust(x, None))?;
        let gap = (select(adjusted, &old)? - target)?;
        let fd = (ops::sum_all(&gap.sqr()?)? / (old.len() as f64 * entries))?;
        loss = (loss + (fd * config.lambda_fd)?)?;
    }
    if let Some(shares) = balance(seen).filter(|_| config.lambda_fb > 0.0) {
        let norms = ((ops::sum(&adjusted.sqr()?, 1)? / entries)? + SMALLEST)?.sqrt()?;
        let shares = Tensor::new(shares.as_slice(), adjusted.device())?;
        let fb = ops::sum_all(&(norms * shares)?)?.sqr()?;
        loss = (loss + (fb * config.lambda_fb)?)?;
    }
    Ok(loss)
}

/// Constant that keeps the slope of the square root finite for features of zeros.
const SMALLEST: f64 = 1e-12;

/// Returns the weight of each sample's norm in the gap between new and old classes, `(b)`.
///
/// It is `1 / (samples of its class x classes of its side)`, negative for old classes; `None` if a side has no sample.
fn balance(seen: &LossBatch<'_>) -> Option<Vec<f32>> {
    let mut samples: BTreeMap<u32, usize> = BTreeMap::new();
    seen.labels.iter().for_each(|label| *samples.entry(*label).or_default() += 1);
    let new = samples.keys().filter(|label| seen.is_new(**label)).count();
    let old = samples.len() - new;
    let share = |label: &u32| {
        let (sign, classes) = if seen.is_new(*label) { (1.0, new) } else { (-1.0, old) };
        (sign / (samples[label] * classes) as f64) as f32
    };
    (new > 0 && old > 0).then(|| seen.labels.iter().map(share).collect())
}

/// Losses of head and module in a stage.
pub(super) struct FedHafObjective<'a> {
    pub config: &'a FedHaf,
    pub network: &'a FedHafNetwork,
    pub previous: Option<&'a FedHafNetwork>,
    /// True if the head's losses are included, and if the module's are.
    pub parts: (bool, bool),
}

impl FedHafObjective<'_> {
    /// Runs a forward pass and returns the loss of a batch, a scalar.
    pub fn loss(&self, seen: &LossBatch<'_>, drops: Drops) -> Result<Tensor> {
        let adjusted = self.network.adjust(seen.features, Some(drops))?;
        let (head, module) = self.parts;
        let mut loss = zero(&adjusted)?;
        if head {
            let logits = self.network.logits(&adjusted, Some(drops))?;
            loss = (loss + of_head(self.config, &logits, seen, self.previous)?)?;
        }
        if module {
            loss = (loss + of_module(self.config, &adjusted, seen, self.previous)?)?;
        }
        Ok(loss)
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
