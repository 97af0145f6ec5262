//! Layers of a BERT: embeddings, then attention and a perceptron in turn, each added to its input and normalized.

use candle_core::{Result, Tensor};

use super::BertConfig;
use super::sequences::Sequences;
use crate::model::frozen_weights::FrozenWeights;
use crate::model::ops::{self, Affine};
use crate::model::{DeviceSpec, ModelError};

/// Value added to variances, as in every published BERT.
const EPS: f64 = 1e-12;

/// Encoder up to its last hidden states (Devlin et al. 2019, section 3; Vaswani et al. 2017, section 3).
pub(super) struct Encoder {
    embeddings: Embeddings,
    layers: Vec<BertLayer>,
}

/// Embedding tables of words, positions and segments.
struct Embeddings {
    words: Tensor,
    positions: Tensor,
    segments: Tensor,
    norm: Affine,
}

/// Attention and perceptron of one layer.
struct BertLayer {
    heads: usize,
    /// Projections of queries, keys and values, stacked.
    packed: Affine,
    attended: Affine,
    attended_norm: Affine,
    widened: Affine,
    narrowed: Affine,
    norm: Affine,
}

/// Weights by name, on a device.
struct Named<'a> {
    weights: &'a FrozenWeights,
    place: &'a DeviceSpec,
}

impl Encoder {
    /// Moves the weights of a network of these dimensions to a device.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn new(
        config: &BertConfig,
        weights: &FrozenWeights,
        place: &DeviceSpec,
    ) -> std::result::Result<Encoder, ModelError> {
        let named = Named { weights, place };
        let embeddings = Embeddings {
            words: named.tensor("embeddings.word_embeddings.weight")?,
            positions: named.tensor("embeddings.position_embeddings.weight")?,
            segments: named.tensor("embeddings.token_type_embeddings.weight")?,
            norm: named.affine("embeddings.LayerNorm")?,
        };
        let layer = |layer: usize| {
            let of = |name: &str| named.affine(&format!("encoder.layer.{layer}.{name}"));
            let parts = ["query", "key", "value"].map(|part| of(&format!("attention.self.{part}")));
            let [queries, keys, values] = parts;
            Ok(BertLayer {
                heads: config.heads,
                packed: stacked(&[queries?, keys?, values?])?,
                attended: of("attention.output.dense")?,
                attended_norm: of("attention.output.LayerNorm")?,
                widened: of("intermediate.dense")?,
                narrowed: of("output.dense")?,
                norm: of("output.LayerNorm")?,
            })
        };
        let layers =
            (0..config.layers).map(layer).collect::<std::result::Result<_, ModelError>>()?;
        Ok(Encoder { embeddings, layers })
    }

    /// Computes the last hidden state of every token, `(tokens, d)`.
    ///
    /// # Errors
    /// Returns an error if a word, position or segment is not in its table.
    pub fn hidden_states(&self, sequences: &Sequences) -> Result<Tensor> {
        let mut x = self.embeddings.of(sequences)?;
        for layer in &self.layers {
            x = layer.forward(&x, sequences)?;
        }
        Ok(x)
    }
}

impl Embeddings {
    /// Returns the sum of the tokens' embeddings, `(tokens, d)`.
    fn of(&self, sequences: &Sequences) -> Result<Tensor> {
        let rows = |table: &Tensor, places: &[u32]| {
            table.index_select(&Tensor::new(places, table.device())?, 0)
        };
        let words = rows(&self.words, &sequences.words)?;
        let segments = rows(&self.segments, &sequences.segments)?;
        let positions = rows(&self.positions, &sequences.positions)?;
        self.norm.norm(&((words + segments)? + positions)?, EPS)
    }
}

impl BertLayer {
    /// Applies the layer to `x` `(tokens, d)`.
    fn forward(&self, x: &Tensor, sequences: &Sequences) -> Result<Tensor> {
        let attended = self.attended.linear(&self.attention(x, sequences)?, None)?;
        let x = self.attended_norm.norm(&(attended + x)?, EPS)?;
        let hidden = ops::gelu(&self.widened.linear(&x, None)?)?;
        self.norm.norm(&(self.narrowed.linear(&hidden, None)? + x)?, EPS)
    }

    /// Returns the weighted values that every token gets from its sequence, `(tokens, d)`.
    fn attention(&self, x: &Tensor, sequences: &Sequences) -> Result<Tensor> {
        let packed = self.packed.linear(x, None)?;
        let width = packed.dim(1)?;
        let (mut parts, mut start) = (Vec::with_capacity(sequences.runs.len()), 0);
        for &(count, length) in &sequences.runs {
            let tokens = count * length;
            let own = packed.narrow(0, start, tokens)?.reshape((count, length, width))?;
            let of = ops::attention_at(self.packed.precision, &own, self.heads, None, length)?;
            parts.push(of.reshape((tokens, ()))?);
            start += tokens;
        }
        Tensor::cat(&parts, 0)
    }
}

impl Named<'_> {
    fn tensor(&self, name: &str) -> std::result::Result<Tensor, ModelError> {
        self.weights.tensor(name, self.place)
    }

    fn affine(&self, layer: &str) -> std::result::Result<Affine, ModelError> {
        Ok(Affine {
            weight: self.tensor(&format!("{layer}.weight"))?,
            bias: self.tensor(&format!("{layer}.bias"))?,
            precision: self.place.products,
        })
    }
}

/// Stacks layers with the same inputs to one.
fn stacked(layers: &[Affine; 3]) -> Result<Affine> {
    let of = |part: fn(&Affine) -> &Tensor| Tensor::cat(&layers.each_ref().map(part), 0);
    let precision = layers[0].precision;
    Ok(Affine { weight: of(|layer| &layer.weight)?, bias: of(|layer| &layer.bias)?, precision })
}
