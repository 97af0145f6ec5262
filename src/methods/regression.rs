//! Linear layers that a server merges by the regression mean (RegMean, LoRM): the moments of their inputs that clients
//! send, and the merged weights.
//!
//! ```text
//! client   G = sum X^T X of a layer's inputs over its samples; off-diagonals times gamma     (measure)
//! message  "moments/<weight>": all of G, its lower triangle, or with gamma = 0 its diagonal   (place)
//! server   "answers/<weight>" = W G, as an upload arrives; then sums of both, in f64          (answers, merge)
//! ```

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use clap::ValueEnum;

use super::averaging::PackClient;
use crate::learning::{Classifier, InputMoments, MomentForm};
use crate::model::{LinearHead, LinearLayer, ParameterSet};
use crate::numerics::regression_mean::{SecondMoments, regression_mean};
use crate::numerics::streams::Domain;
use crate::numerics::symmetric::{Symmetric, packed_len};
use crate::policy::{
    Aggregate, Message, MessageSpec, ModelFacts, PolicyError, RunContext, StalenessRule, TensorSpec,
};
use crate::scenario::reader::{Choice, Keys};
use crate::wire::{Dtype, Kind, NamedTensor, WireError};

/// Relative precision of eigenvalues of summed moments, in parts of the trace: moments travel as f32.
const PRECISION: f64 = f32::EPSILON as f64;

/// Weights of a direction in which no client has inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Unseen {
    /// Zero, by the pseudo-inverse.
    Zero,
    /// Weight before the round.
    Keep,
}

/// Linear layer that is merged by the regression mean.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layer {
    /// Name of the layer's weight.
    pub weight: String,
    /// Width of its input.
    pub inputs: usize,
    /// Number of rows of the whole weight.
    pub outputs: usize,
    /// Number of inputs per sample.
    pub tokens: usize,
}

impl Layer {
    /// Returns block, kind and sizes of the linear layers of all blocks, in forward order.
    pub fn of_blocks(model: &ModelFacts) -> impl Iterator<Item = (usize, LinearLayer, Layer)> {
        let vit = model.backbone.vit().copied();
        vit.into_iter().flat_map(|vit| {
            (0..vit.depth).flat_map(move |block| {
                LinearLayer::ALL.map(|layer| {
                    let (weight, tokens) = (layer.weight(block), vit.tokens());
                    let (inputs, outputs) = (layer.inputs(&vit), layer.outputs(&vit));
                    (block, layer, Layer { weight, inputs, outputs, tokens })
                })
            })
        })
    }

    /// Returns the linear head on features, as a layer.
    pub fn head(model: &ModelFacts) -> Layer {
        let (inputs, outputs) = (model.backbone.dim(), model.classes);
        Layer { weight: LinearHead::WEIGHT.to_owned(), inputs, outputs, tokens: 1 }
    }

    /// Returns the name of the tensor of the layer's input moments.
    pub fn moments(&self) -> String {
        format!("moments/{}", self.weight)
    }

    /// Returns the name of the tensor of products `W G` of the layer's weight and moments.
    pub fn answers(&self) -> String {
        format!("answers/{}", self.weight)
    }

    fn is_head(&self) -> bool {
        self.weight == LinearHead::WEIGHT
    }
}

/// Moments of inputs: their computation and form in messages.
#[derive(Clone, Debug, PartialEq, Keys)]
#[keys(given((backbone, head): (f64, f64), source: &'static str))]
pub struct InputStatistics {
    /// Factor on off-diagonal moments of layers below the head; 0: only the diagonal.
    #[key(default = backbone, at_least = 0.0, at_most = 1.0, source = source)]
    pub gamma_backbone: f64,
    /// Factor on off-diagonal moments of the head's inputs; 0: only the diagonal.
    #[key(default = head, at_least = 0.0, at_most = 1.0, source = source)]
    pub gamma_head: f64,
    /// Lower triangles of second moments in uploads, in place of whole matrices.
    #[key(default = false, source = "the public code: all of the matrix")]
    pub symmetric: bool,
}

impl InputStatistics {
    pub(super) fn gamma(&self, layer: &Layer) -> f64 {
        if layer.is_head() { self.gamma_head } else { self.gamma_backbone }
    }

    /// Returns the relative precision at which small eigenvalues of a layer's summed moments count as zero.
    ///
    /// It is 0 if `0 < gamma < 1`: such moments are positive definite if there are inputs, and small eigenvalues are
    /// not rounding errors.
    pub(super) fn precision(&self, layer: &Layer) -> f64 {
        let gamma = self.gamma(layer);
        if gamma > 0.0 && gamma < 1.0 { 0.0 } else { PRECISION }
    }

    /// Returns the number of entries of a layer's moments in a sum: of a diagonal or a lower triangle.
    pub(super) fn numbers(&self, layer: &Layer) -> usize {
        match self.gamma(layer) == 0.0 {
            true => layer.inputs,
            false => packed_len(layer.inputs),
        }
    }

    /// Returns the specification of a layer's moments in an upload.
    ///
    /// Late moments are refused, since they belong to another round's models.
    pub(super) fn place(&self, layer: &Layer) -> TensorSpec {
        let of = |shape: &[usize]| {
            TensorSpec::new(Kind::Statistics, layer.moments(), shape, Dtype::F32)
                .summed(StalenessRule::Refuse)
        };
        match (self.gamma(layer) == 0.0, self.symmetric) {
            (true, _) => of(&[layer.inputs]),
            (false, true) => of(&[packed_len(layer.inputs)]).symmetric(),
            (false, false) => of(&[layer.inputs, layer.inputs]).symmetric(),
        }
    }

    /// Returns the tensors of the moments of these layers; moments that were not measured are zero.
    pub(super) fn tensors(
        &self,
        layers: &[Layer],
        moments: &BTreeMap<String, SecondMoments>,
    ) -> Result<Vec<NamedTensor>, WireError> {
        let tensor = |layer: &Layer| {
            let place = self.place(layer);
            match moments.get(&layer.weight) {
                Some(SecondMoments::Diagonal(diagonal)) => place.tensor(diagonal),
                Some(SecondMoments::Full(matrix)) => place.tensor(matrix.packed()),
                None => place.tensor(&vec![0.0; self.numbers(layer)]),
            }
        };
        layers.iter().map(tensor).collect()
    }

    /// Returns a layer's moments from an upload.
    pub(super) fn sent(&self, layer: &Layer, update: &Message) -> Result<SecondMoments, WireError> {
        let tensor = update.tensor(Kind::Statistics, &layer.moments())?;
        let numbers = tensor.numbers();
        match tensor.shape() {
            [rows, columns] if rows == columns => {
                let matrix = Symmetric::from_full(*rows, &numbers);
                matrix.map(SecondMoments::Full).ok_or_else(|| misshapen(layer))
            }
            _ => self.added(layer, &numbers),
        }
    }

    /// Returns a layer's moments from the numbers of a sum: a diagonal or a lower triangle.
    fn added(&self, layer: &Layer, numbers: &[f64]) -> Result<SecondMoments, WireError> {
        match self.gamma(layer) == 0.0 {
            true if numbers.len() == layer.inputs => Ok(SecondMoments::Diagonal(numbers.to_vec())),
            true => Err(misshapen(layer)),
            false => {
                let matrix = Symmetric::from_packed(layer.inputs, numbers.to_vec());
                matrix.map(SecondMoments::Full).ok_or_else(|| misshapen(layer))
            }
        }
    }

    /// Returns the sum of a layer's moments over the uploads of a round.
    ///
    /// # Errors
    /// When no upload had them.
    pub(super) fn total(
        &self,
        layer: &Layer,
        aggregate: &Aggregate,
    ) -> Result<SecondMoments, PolicyError> {
        Ok(self.added(layer, aggregate.sum(&layer.moments())?)?)
    }

    /// Returns the input moments of all linear layers for a client's samples, by name of weight.
    ///
    /// The samples pass a frozen network once, augmented as in training. Off-diagonals are multiplied by gamma.
    ///
    /// # Errors
    /// When samples cannot be read, or do not fit.
    pub(super) fn measure<S>(
        &self,
        network: &Classifier,
        member: &PackClient<'_, S>,
        ctx: &RunContext,
    ) -> Result<BTreeMap<String, SecondMoments>, PolicyError> {
        let form = |gamma: f64| match gamma == 0.0 {
            true => MomentForm::Diagonal,
            false => MomentForm::Full,
        };
        let blocks = Arc::new(InputMoments::new(form(self.gamma_backbone)));
        let head = InputMoments::new(form(self.gamma_head));
        let loader =
            ctx.with_frozen_features(ctx.train_loader(member.shard), network.frozen_part())?;
        let key = member.key.domain(Domain::Augment).named("moments");
        for batch in loader.in_order_drawn(ctx.evaluation_batch, key) {
            let hook = Arc::clone(&blocks);
            let features = network.tapped_features(&batch?, &ctx.device, hook)?;
            head.add(LinearHead::WEIGHT.to_owned(), &features)?;
        }
        let of_blocks =
            blocks.finish()?.into_iter().map(|(name, own)| (name, own, self.gamma_backbone));
        let of_head = head.finish()?.into_iter().map(|(name, own)| (name, own, self.gamma_head));
        let all = of_blocks.chain(of_head);
        Ok(all.map(|(name, moments, gamma)| (name, moments.shrunk(gamma))).collect())
    }

    /// Merges the rows of a layer's weight that were sent, and writes them into `theta`.
    ///
    /// # Errors
    /// When no upload had moments, or a sum is not finite.
    pub(super) fn merge(
        &self,
        (layer, rows): (&Layer, Range<usize>),
        unseen: Unseen,
        (before, aggregate): (&ParameterSet, &Aggregate),
        theta: &mut ParameterSet,
    ) -> Result<(), PolicyError> {
        let Some(whole) = before.get(&layer.weight) else { return Ok(()) };
        let mut part = whole.cut(rows.clone())?;
        part.values = self.merged(layer, unseen, &part.values, aggregate)?.into();
        theta.insert(layer.weight.as_str(), whole.with_rows(&part, rows.start)?);
        Ok(())
    }

    /// Returns the merged rows of a layer's weight, `(rows, inputs)`; `before` are the old ones.
    fn merged(
        &self,
        layer: &Layer,
        unseen: Unseen,
        before: &[f32],
        aggregate: &Aggregate,
    ) -> Result<Vec<f32>, PolicyError> {
        let total = self.total(layer, aggregate)?;
        let mut answers = aggregate.sum(&layer.answers())?.to_vec();
        let before: Vec<f64> = before.iter().map(|value| f64::from(*value)).collect();
        if unseen == Unseen::Keep {
            // The merge is of differences from `before`, which are zero in directions where no client has inputs.
            answers.iter_mut().zip(total.after(&before)).for_each(|(sum, own)| *sum -= own);
        }
        let rounding = total.rounding(self.precision(layer));
        let mut merged = regression_mean(&answers, &total, rounding)?;
        if unseen == Unseen::Keep {
            merged.iter_mut().zip(&before).for_each(|(value, before)| *value += before);
        }
        Ok(merged.into_iter().map(|value| value as f32).collect())
    }
}

/// Returns the values of a parameter in f64, and its number of rows.
///
/// # Errors
/// When the set has no parameter of this name.
pub(super) fn values_of(set: &ParameterSet, name: &str) -> Result<(Vec<f64>, usize), WireError> {
    let missing = || WireError::Malformed(format!("a message without `{name}`"));
    let found = set.get(name).ok_or_else(missing)?;
    Ok((found.values.iter().map(|value| f64::from(*value)).collect(), found.rows()))
}

/// Specifies the sum of a layer's products in place of the mean of a parameter.
///
/// Specifications without the parameter stay as they are.
pub(super) fn answer_in_place_of(parameter: &str, layer: &Layer, upload: &mut MessageSpec) {
    let place = upload.parameters.iter_mut().find(|place| *place.name == *parameter);
    let Some(place) = place else { return };
    place.aggregation.mean = None;
    let outputs = place.shape.first().copied().unwrap_or(0);
    upload.extra.push(answers_place(layer, outputs));
}

/// Returns the product of a client's weights `(outputs, inputs)` and moments, which the server sums.
pub(super) fn answers(
    layer: &Layer,
    (weights, outputs): (&[f64], usize),
    moments: &SecondMoments,
) -> Result<NamedTensor, WireError> {
    NamedTensor::f64(layer.answers(), [outputs, layer.inputs], moments.after(weights))
}

/// Returns the specification of a layer's products in a contribution.
fn answers_place(layer: &Layer, outputs: usize) -> TensorSpec {
    let shape = [outputs, layer.inputs];
    TensorSpec::new(Kind::Statistics, layer.answers(), &shape, Dtype::F64)
        .summed(StalenessRule::Refuse)
}

/// Cost of statistics, in multiplications.
impl InputStatistics {
    /// Returns the multiplications per sample of the moments of a layer's inputs.
    pub(super) fn measuring(&self, layer: &Layer) -> f64 {
        layer.tokens as f64 * self.product(layer, 1)
    }

    /// Returns the multiplications of the product of `rows` rows of weights and a layer's moments.
    pub(super) fn product(&self, layer: &Layer, rows: usize) -> f64 {
        let inputs = layer.inputs as f64;
        let row = if self.gamma(layer) == 0.0 { inputs } else { inputs.powi(2) };
        rows as f64 * row
    }

    /// Returns the multiplications of the regression mean of `rows` rows.
    ///
    /// These are a product with the inverse and, unless moments are diagonal, those of the inverse.
    pub(super) fn solving(&self, layer: &Layer, rows: usize) -> f64 {
        let inverse = if self.gamma(layer) == 0.0 { 0.0 } else { inverse(layer.inputs) };
        inverse + self.product(layer, rows)
    }
}

/// Returns the multiplications of the pseudo-inverse of a matrix of order `order`, by its eigenvectors.
pub(super) fn inverse(order: usize) -> f64 {
    10.0 * (order as f64).powi(3)
}

fn misshapen(layer: &Layer) -> WireError {
    WireError::Malformed(format!("`{}` has another shape", layer.moments()))
}
