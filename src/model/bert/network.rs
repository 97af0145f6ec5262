//! Public interface of BERT: from weights and tokens to features.

use std::fmt;
use std::sync::Arc;

use candle_core::{DType, Tensor};

use super::encoder::Encoder;
use super::sequences::Sequences;
use super::{BertConfig, BertPooling};
use crate::model::frozen_weights::FrozenWeights;
use crate::model::parameters::ParameterSet;
use crate::model::weights_file::{OpenWeights, WeightsSource};
use crate::model::{DeviceSpec, ModelError, ops};
use crate::weights::Network;

/// Frozen BERT encoder.
#[derive(Clone)]
pub struct Bert {
    config: BertConfig,
    encoder: Arc<Encoder>,
    weights: FrozenWeights,
    place: DeviceSpec,
}

impl fmt::Debug for Bert {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bert").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Bert {
    /// Reads a file of weights with Hugging Face's names, with or without the prefix `bert.`.
    ///
    /// Pooler and heads are skipped.
    ///
    /// # Errors
    /// Returns a [`ModelError`] that names file and tensor.
    pub fn load(source: &WeightsSource, config: BertConfig) -> Result<Bert, ModelError> {
        let opened = OpenWeights::open(source)?;
        let set = opened.parameters(Network::Bert, config.parameter_shapes())?;
        Bert::read(&source.name, config, &set)
    }

    /// Returns a network with these parameters, on the CPU. Unused entries are ignored.
    ///
    /// # Errors
    /// Returns an error if a parameter is missing or has another shape.
    pub fn from_parameters(config: BertConfig, set: &ParameterSet) -> Result<Bert, ModelError> {
        Bert::read("parameter set", config, set)
    }

    fn read(file: &str, config: BertConfig, set: &ParameterSet) -> Result<Bert, ModelError> {
        config.validate()?;
        let place = DeviceSpec::cpu();
        let weights = FrozenWeights::read(file, config.parameter_shapes(), set)?;
        let encoder = Arc::new(Encoder::new(&config, &weights, &place)?);
        Ok(Bert { config, encoder, weights, place })
    }

    /// Returns a copy on another device.
    ///
    /// # Errors
    /// Returns an error if the device has no room.
    pub fn at(&self, place: &DeviceSpec) -> Result<Bert, ModelError> {
        let encoder = Arc::new(Encoder::new(&self.config, &self.weights, place)?);
        Ok(Bert { encoder, place: place.clone(), ..self.clone() })
    }

    /// Returns the device on which the network computes, with the type between tokens and features.
    pub fn place(&self) -> &DeviceSpec {
        &self.place
    }

    /// Returns the dimensions.
    pub fn config(&self) -> &BertConfig {
        &self.config
    }

    /// Copies all parameters.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn parameters(&self) -> Result<ParameterSet, ModelError> {
        self.weights.parameters()
    }

    /// Returns the digest of all parameters, computed once.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn digest(&self) -> Result<blake3::Hash, ModelError> {
        self.weights.digest()
    }

    /// Returns features `(b, d)` of `tokens` `(b, n)`.
    ///
    /// # Errors
    /// Returns an error if the tokens do not fit.
    pub fn features(&self, tokens: &Tensor) -> Result<Tensor, ModelError> {
        if tokens.dtype() != DType::U32 || tokens.rank() != 2 {
            let reason = "a BERT reads text, and was given images; set `data.source = \"play\"`";
            return Err(ModelError::Input { reason: reason.to_owned() });
        }
        let (_, length) = tokens.dims2()?;
        if length > self.config.positions {
            let reason = format!(
                "sequences of {length} tokens exceed the {} positions of the network",
                self.config.positions
            );
            return Err(ModelError::Input { reason });
        }
        let sequences = Sequences::new(&tokens.to_vec2::<u32>()?, None);
        let hidden = self.hidden_states(&sequences)?;
        let each = sequences.tokens.iter().map(|tokens| {
            let own = hidden.narrow(0, tokens.start, tokens.len())?;
            pooled(&own, self.config.pooling)
        });
        Ok(Tensor::cat(&each.collect::<candle_core::Result<Vec<_>>>()?, 0)?)
    }

    /// Computes the last hidden states of all tokens, `(tokens, d)`.
    pub(super) fn hidden_states(&self, sequences: &Sequences) -> Result<Tensor, ModelError> {
        Ok(self.encoder.hidden_states(sequences)?.to_dtype(DType::F32)?)
    }
}

/// Returns the feature `(1, d)` of a sequence with these hidden states `(tokens, d)`.
fn pooled(hidden: &Tensor, pooling: BertPooling) -> candle_core::Result<Tensor> {
    match pooling {
        BertPooling::Cls => hidden.narrow(0, 0, 1),
        // The last token is the separator, so the one before it counts.
        BertPooling::Last => hidden.narrow(0, hidden.dim(0)?.saturating_sub(2), 1),
        BertPooling::Mean => ops::mean(hidden, 0)?.unsqueeze(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numerics::streams::{Domain, StreamKey};
    use candle_core::Device;
    use candle_nn::VarBuilder;
    use candle_transformers::models::bert::{BertModel, Config, HiddenAct};

    const CONFIG: BertConfig = BertConfig {
        vocabulary: 50,
        hidden: 48,
        layers: 3,
        heads: 4,
        intermediate: 80,
        positions: 16,
        length: 9,
        pooling: BertPooling::Mean,
    };

    fn weights() -> ParameterSet {
        let set = Bert::initial_parameters(&CONFIG, StreamKey::new(5, Domain::Init));
        // Biases and norms of their own, which start values do not have.
        let moved = |(name, mut parameter): (Arc<str>, crate::model::Parameter)| {
            let mut values = parameter.values.to_vec();
            values.iter_mut().enumerate().for_each(|(i, v)| *v += 0.1 * (i as f32 * 0.7).sin());
            parameter.values = values.into();
            (name, parameter)
        };
        set.iter().map(|(name, parameter)| moved((name.clone(), parameter.clone()))).collect()
    }

    #[test]
    fn poolings_take_their_tokens() -> candle_core::Result<()> {
        let hidden = Tensor::new(&[[1f32, 2.0], [3.0, 5.0], [8.0, -1.0]], &Device::Cpu)?;
        let of = |hidden: &Tensor, pooling| pooled(hidden, pooling).unwrap().to_vec2::<f32>();
        assert_eq!(of(&hidden, BertPooling::Cls)?, [[1.0, 2.0]]);
        assert_eq!(of(&hidden, BertPooling::Last)?, [[3.0, 5.0]]);
        assert_eq!(of(&hidden, BertPooling::Mean)?, [[4.0, 2.0]]);
        assert_eq!(of(&hidden.narrow(0, 0, 1)?, BertPooling::Last)?, [[1.0, 2.0]]);
        Ok(())
    }

    /// Another implementation of the architecture agrees, with padding masked rather than left out.
    #[test]
    fn hidden_states_are_those_of_candle_transformers() -> Result<(), ModelError> {
        let (set, device) = (weights(), Device::Cpu);
        let words = [vec![2, 7, 9, 41, 3, 0, 0], vec![2, 3, 0, 0, 0, 0, 0], vec![4; 7]];
        let segments = [vec![0, 0, 1, 1, 1, 0, 0], vec![0, 1, 0, 0, 0, 0, 0], vec![1; 7]];
        let sequences = Sequences::new(&words, Some(&segments));
        let ours = Bert::from_parameters(CONFIG, &set)?.hidden_states(&sequences)?;
        let ours = ours.to_vec2::<f32>()?;

        let tensors = set.iter().map(|(name, p)| Ok((name.to_string(), p.tensor(&device)?)));
        let tensors = tensors.collect::<Result<_, ModelError>>()?;
        let config = Config {
            vocab_size: CONFIG.vocabulary,
            hidden_size: CONFIG.hidden,
            num_hidden_layers: CONFIG.layers,
            num_attention_heads: CONFIG.heads,
            intermediate_size: CONFIG.intermediate,
            hidden_act: HiddenAct::Gelu,
            max_position_embeddings: CONFIG.positions,
            layer_norm_eps: 1e-12,
            ..Config::default()
        };
        let builder = VarBuilder::from_tensors(tensors, DType::F32, &device);
        let candle = BertModel::load(builder, &config)?;
        let table = |rows: &[Vec<u32>]| Tensor::from_vec(rows.concat(), (3, 7), &device);
        let (ids, types) = (table(&words)?, table(&segments)?);
        let theirs = candle.forward(&ids, &types, Some(&ids.ne(0u32)?))?.to_vec3::<f32>()?;
        for (sample, tokens) in sequences.tokens.iter().enumerate() {
            for (ours, theirs) in ours[tokens.clone()].iter().zip(&theirs[sample]) {
                let off = ours.iter().zip(theirs).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(off < 1e-5, "sample {sample} is off by {off}");
            }
        }
        Ok(())
    }

    #[test]
    fn features_do_not_depend_on_their_batch() -> Result<(), ModelError> {
        let bert = Bert::from_parameters(CONFIG, &weights())?;
        let rows = [[2u32, 7, 9, 3, 0], [2, 3, 0, 0, 0], [2, 8, 7, 6, 3]];
        let together = bert.features(&Tensor::new(&rows, &Device::Cpu)?)?.to_vec2::<f32>()?;
        for (row, feature) in rows.iter().zip(&together) {
            // Without the padding, too.
            let filled: Vec<u32> = row.iter().copied().filter(|word| *word != 0).collect();
            for alone in [row.to_vec(), filled] {
                let alone = Tensor::from_slice(&alone, (1, alone.len()), &Device::Cpu)?;
                let alone = bert.features(&alone)?.to_vec2::<f32>()?;
                let off = alone[0].iter().zip(feature).map(|(a, b)| (a - b).abs());
                assert!(off.fold(0.0, f32::max) < 1e-6);
            }
        }
        Ok(())
    }
}
