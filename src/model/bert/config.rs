//! The dimensions of a BERT and the shapes of its parameters.

use crate::model::ModelError;
pub use crate::scenario::BertPooling;

/// The dimensions of a [`Bert`](super::Bert).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BertConfig {
    /// Tokens it knows.
    pub vocabulary: usize,
    /// Width.
    pub hidden: usize,
    /// Number of layers, each of attention and a perceptron.
    pub layers: usize,
    /// Attention heads; they divide the width.
    pub heads: usize,
    /// Width of a layer's perceptron.
    pub intermediate: usize,
    /// Longest sequence it has positions for.
    pub positions: usize,
    /// Tokens of the sequences it is given.
    pub length: usize,
    /// Rule that makes a feature of the tokens' outputs.
    pub pooling: BertPooling,
}

/// Kinds of segments, of which one is used.
const TYPES: usize = 2;

impl BertConfig {
    /// The token that fills short sequences up.
    pub const PADDING: u32 = 0;

    /// Returns every parameter that features need: Hugging Face's name and shape, sorted by name.
    pub fn parameter_shapes(&self) -> Vec<(String, Vec<usize>)> {
        let BertConfig { vocabulary, hidden, intermediate, positions, .. } = *self;
        let mut shapes = Vec::new();
        let mut add = |name: String, shape: &[usize]| shapes.push((name, shape.to_vec()));
        for (table, rows) in [("word", vocabulary), ("position", positions), ("token_type", TYPES)]
        {
            add(format!("embeddings.{table}_embeddings.weight"), &[rows, hidden]);
        }
        let mut norms = vec!["embeddings.LayerNorm".to_owned()];
        for layer in 0..self.layers {
            let of = |name: &str| format!("encoder.layer.{layer}.{name}");
            let linear = [
                ("attention.self.query", hidden, hidden),
                ("attention.self.key", hidden, hidden),
                ("attention.self.value", hidden, hidden),
                ("attention.output.dense", hidden, hidden),
                ("intermediate.dense", intermediate, hidden),
                ("output.dense", hidden, intermediate),
            ];
            for (name, outputs, inputs) in linear {
                add(of(&format!("{name}.weight")), &[outputs, inputs]);
                add(of(&format!("{name}.bias")), &[outputs]);
            }
            norms.extend([of("attention.output.LayerNorm"), of("output.LayerNorm")]);
        }
        for norm in norms {
            add(format!("{norm}.weight"), &[hidden]);
            add(format!("{norm}.bias"), &[hidden]);
        }
        shapes.sort();
        shapes
    }

    /// Scalars of all parameters.
    pub fn parameter_count(&self) -> usize {
        self.parameter_shapes().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Checks that there is a network of these dimensions that takes these sequences.
    ///
    /// # Errors
    /// What does not fit.
    pub fn validate(&self) -> Result<(), ModelError> {
        let refuse = |reason: String| Err(ModelError::Input { reason });
        let BertConfig {
            vocabulary, hidden, layers, heads, intermediate, positions, length, ..
        } = *self;
        if [vocabulary, hidden, layers, heads, intermediate, positions, length].contains(&0) {
            return refuse(format!("a BERT of {self:?} has a dimension of zero"));
        }
        if !hidden.is_multiple_of(heads) {
            return refuse(format!("{heads} attention heads do not divide a width of {hidden}"));
        }
        if length > positions {
            return refuse(format!(
                "sequences of {length} tokens exceed the {positions} positions"
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published: 109,482,240 with the pooler of 590,592, which features do not need.
    #[test]
    fn bert_base_has_its_size() {
        let base = BertConfig {
            vocabulary: 30_522,
            hidden: 768,
            layers: 12,
            heads: 12,
            intermediate: 3_072,
            positions: 512,
            length: 82,
            pooling: BertPooling::Cls,
        };
        assert_eq!(base.parameter_count(), 109_482_240 - 590_592);
        assert!(base.validate().is_ok());
        let long = BertConfig { length: 513, ..base };
        assert!(long.validate().unwrap_err().to_string().contains("512 positions"));
        let uneven = BertConfig { heads: 5, ..base };
        assert!(uneven.validate().unwrap_err().to_string().contains("do not divide"));
    }
}
