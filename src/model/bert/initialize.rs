//! Random initial values, drawn from named streams.

use super::{Bert, BertConfig};
use crate::model::parameters::{Parameter, ParameterSet};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Standard deviation of the embeddings.
///
/// It is larger than the 0.02 with which pretraining starts: nothing is trained here, and features of different
/// sequences must differ.
const EMBEDDINGS: f32 = 0.5;

impl Bert {
    /// Returns the parameters of an untrained network. Embeddings have standard deviation 0.5, matrices variance
    /// `1 / inputs`; biases are 0, norms 1 and 0. Every tensor has its own stream, keyed by its name.
    pub fn initial_parameters(config: &BertConfig, key: StreamKey) -> ParameterSet {
        let draw = |(name, shape): (String, Vec<usize>)| {
            let mut values = vec![0f32; shape.iter().product()];
            if let &[_, inputs] = shape.as_slice() {
                let deviation = match name.starts_with("embeddings.") {
                    true => EMBEDDINGS,
                    false => (1.0 / inputs as f64).sqrt() as f32,
                };
                fill_normal(&mut key.named(&name).rng(), &mut values);
                values.iter_mut().for_each(|v| *v *= deviation);
            } else if name.ends_with("LayerNorm.weight") {
                values.fill(1.0);
            }
            (name, Parameter { shape, values: values.into() })
        };
        config.parameter_shapes().into_iter().map(draw).collect()
    }
}
