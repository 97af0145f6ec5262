//! The network: candle's layers over tensors that we hold by name.

use std::fmt;
use std::sync::Arc;

use candle_core::{DType, Tensor};
use candle_transformers::models::bert::{BertModel, Config, HiddenAct};

use super::{BertConfig, Pooling};
use crate::model::frozen_weights::FrozenWeights;
use crate::model::parameters::ParameterSet;
use crate::model::weights_file::{OpenWeights, WeightsSource};
use crate::model::{ModelError, Place};
use crate::weights::Network;

/// As every published BERT.
const EPS: f64 = 1e-12;

/// A frozen BERT.
#[derive(Clone)]
pub struct Bert {
    config: BertConfig,
    network: Arc<BertModel>,
    weights: FrozenWeights,
    place: Place,
}

impl fmt::Debug for Bert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bert").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Bert {
    /// Reads a file of weights in Hugging Face's names, with or without `bert.` before them; pooler and heads are
    /// passed over.
    ///
    /// # Errors
    /// Told by file and tensor, see [`ModelError`].
    pub fn load(source: &WeightsSource, config: BertConfig) -> Result<Bert, ModelError> {
        let opened = OpenWeights::open(source)?;
        let set = opened.parameters(Network::Bert, config.parameter_shapes())?;
        Bert::read(&source.name, config, &set)
    }

    /// A network with these parameters (entries it has no place for are ignored), on the CPU.
    ///
    /// # Errors
    /// When a parameter is missing or of another shape.
    pub fn from_parameters(config: BertConfig, set: &ParameterSet) -> Result<Bert, ModelError> {
        Bert::read("parameter set", config, set)
    }

    fn read(file: &str, config: BertConfig, set: &ParameterSet) -> Result<Bert, ModelError> {
        config.validate()?;
        let place = Place::cpu();
        let weights = FrozenWeights::read(file, config.parameter_shapes(), set)?;
        let network = Arc::new(assemble(&config, &weights, &place)?);
        Ok(Bert { config, network, weights, place })
    }

    /// A copy at another place.
    ///
    /// # Errors
    /// When the device has no room.
    pub fn at(&self, place: &Place) -> Result<Bert, ModelError> {
        let network = Arc::new(assemble(&self.config, &self.weights, place)?);
        Ok(Bert { network, place: place.clone(), ..self.clone() })
    }

    /// Where it computes. Between tokens and features it does so in the type of the place.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// The dimensions.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// Copies all parameters.
    ///
    /// # Errors
    /// What the device reports.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        self.weights.parameters()
    }

    /// Digest of all of them, computed once.
    ///
    /// # Errors
    /// What the device reports.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        self.weights.digest()
    }

    /// The hidden states `(b, n, d)` of `tokens` `(b, n)`; those of padding mean nothing.
    ///
    /// # Errors
    /// When the tokens do not fit.
    pub fn hidden_states(&self, tokens: &Tensor, types: &Tensor) -> Result<Tensor, ModelError> {
        let mask = tokens.ne(BertConfig::PADDING)?;
        let hidden = self.network.forward(tokens, types, Some(&mask))?;
        Ok(hidden.to_dtype(DType::F32)?)
    }

    /// `tokens` `(b, n)` to features `(b, d)`.
    ///
    /// # Errors
    /// When the tokens do not fit.
    pub fn features(&self, tokens: &Tensor) -> Result<Tensor, ModelError> {
        if tokens.dtype() != DType::U32 || tokens.rank() != 2 {
            let reason = "a BERT reads text, and was given images; set `data.source = \"play\"`";
            return Err(ModelError::Input { reason: reason.to_owned() });
        }
        let (samples, length) = tokens.dims2()?;
        if length > self.config.positions {
            let reason = format!(
                "sequences of {length} tokens exceed the {} positions of the network",
                self.config.positions
            );
            return Err(ModelError::Input { reason });
        }
        let hidden = self.hidden_states(tokens, &tokens.zeros_like()?)?;
        // One row of weights per sample: which hidden states its feature is the sum of.
        let rows = tokens.to_vec2::<u32>()?;
        let weights = rows.iter().flat_map(|row| shares(row, self.config.pooling));
        let weights = Tensor::from_vec(weights.collect(), (samples, 1, length), tokens.device())?;
        Ok(weights.matmul(&hidden)?.squeeze(1)?)
    }
}

/// How much each token's hidden state counts in the feature.
fn shares(tokens: &[u32], pooling: Pooling) -> Vec<f32> {
    let filled = tokens.iter().filter(|token| **token != BertConfig::PADDING).count().max(1);
    let share = |at: usize| match pooling {
        Pooling::Cls => f32::from(u8::from(at == 0)),
        Pooling::Last => f32::from(u8::from(at == filled.saturating_sub(2))),
        Pooling::Mean if tokens[at] == BertConfig::PADDING => 0.0,
        Pooling::Mean => 1.0 / filled as f32,
    };
    (0..tokens.len()).map(share).collect()
}

fn assemble(
    config: &BertConfig,
    weights: &FrozenWeights,
    place: &Place,
) -> Result<BertModel, ModelError> {
    let of_candle = Config {
        vocab_size: config.vocabulary,
        hidden_size: config.hidden,
        num_hidden_layers: config.layers,
        num_attention_heads: config.heads,
        intermediate_size: config.intermediate,
        hidden_act: HiddenAct::Gelu,
        max_position_embeddings: config.positions,
        layer_norm_eps: EPS,
        ..Config::default()
    };
    Ok(BertModel::load(weights.at(place)?, &of_candle)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn poolings_leave_padding_out() {
        let of = |pooling| shares(&[2, 5, 7, 0], pooling);
        assert_eq!(of(Pooling::Cls), [1.0, 0.0, 0.0, 0.0]);
        assert_eq!(of(Pooling::Last), [0.0, 1.0, 0.0, 0.0]);
        assert_eq!(of(Pooling::Mean), [1.0 / 3.0, 1.0 / 3.0, 1.0 / 3.0, 0.0]);
    }
}
