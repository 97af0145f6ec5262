//! Dimensions of a BERT and the shapes of its parameters.

use crate::model::ModelError;
pub use crate::scenario::BertPooling;

/// Dimensions of a [`Bert`](super::Bert).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BertConfig {
    /// Number of tokens in the vocabulary.
    pub vocabulary: usize,
    /// Width of a token.
    pub hidden: usize,
    /// Number of layers, each with attention and a perceptron.
    pub layers: usize,
    /// Number of attention heads; must divide the width.
    pub heads: usize,
    /// Width of a layer's perceptron.
    pub intermediate: usize,
    /// Largest length of a sequence for which there are position embeddings.
    pub positions: usize,
    /// Length of the input sequences, in tokens.
    pub length: usize,
    /// Rule that turns the tokens' outputs into a feature.
    pub pooling: BertPooling,
}

/// Number of segment types, of which only the first is used.
const TYPES: usize = 2;

impl BertConfig {
    /// Token that pads short sequences.
    pub const PADDING: u32 = 0;

    /// Returns Hugging Face's name and the shape of every parameter that features need, sorted by name.
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

    /// Returns the number of values in all parameters.
    pub fn parameter_count(&self) -> usize {
        self.parameter_shapes().iter().map(|(_, shape)| shape.iter().product::<usize>()).sum()
    }

    /// Checks that the dimensions fit together, and fit the input sequences.
    ///
    /// # Errors
    /// Returns an error that names the mismatch.
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
