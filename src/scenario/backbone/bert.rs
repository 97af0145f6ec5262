//! Keys of `kind = "bert"`.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{StartWeights, ignore, part};
use crate::scenario::CHARACTER_TOKENS;
use crate::scenario::reader::{Choice, Keys, Param, TableReader};

/// BERT that gives features of token sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BertSection {
    /// File of weights. Default `random`: drawn from the run's seed, one token per character.
    pub weights: StartWeights,
    /// File `vocab.txt` or `tokenizer.json` of the weights; required with a file. Absolute in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<PathBuf>,
    /// Hidden state that is the feature. Default `cls`.
    pub pooling: BertPooling,
    /// Patterns of tensors in the file that may be left over. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Set of weights to read from a file with several. Default: the one averaged over training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Shape: that of BERT-base with a file, small without.
    pub architecture: BertShape,
}

/// Hidden state that is the feature of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum BertPooling {
    /// State of the token before the text.
    Cls,
    /// State of the last token of the text.
    Last,
    /// Mean over all tokens.
    Mean,
}

/// Shape of a BERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Keys)]
#[keys(given(default: BertShape))]
pub struct BertShape {
    /// Number of tokens in the vocabulary.
    #[key(default = default.vocabulary, at_least = 1.0, at_most = 1_000_000.0)]
    pub vocabulary: u32,
    /// Width of the hidden states.
    #[key(default = default.hidden, at_least = 1.0, at_most = 1_000_000.0)]
    pub hidden: u32,
    /// Number of layers.
    #[key(default = default.layers, at_least = 1.0, at_most = 1_000_000.0)]
    pub layers: u32,
    /// Number of attention heads; must divide the width.
    #[key(default = default.heads, at_least = 1.0, at_most = 1_000_000.0)]
    pub heads: u32,
    /// Width of a layer's perceptron.
    #[key(default = default.intermediate, at_least = 1.0, at_most = 1_000_000.0)]
    pub intermediate: u32,
    /// Longest sequence, in tokens: the number of position embeddings.
    #[key(default = default.positions, at_least = 1.0, at_most = 1_000_000.0)]
    pub positions: u32,
}

/// Shape of `bert-base-uncased`.
const BASE: BertShape = BertShape {
    vocabulary: 30_522,
    hidden: 768,
    layers: 12,
    heads: 12,
    intermediate: 3_072,
    positions: 512,
};

/// Shape of a small network with one token per character.
const SMALL: BertShape = BertShape {
    vocabulary: CHARACTER_TOKENS,
    hidden: 128,
    layers: 2,
    heads: 4,
    intermediate: 256,
    positions: 512,
};

impl BertSection {
    /// Keys that have no meaning for images.
    pub(super) const KEYS: [&'static str; 2] = ["vocabulary", "pooling"];

    pub(super) fn read(table: &mut TableReader<'_>) -> BertSection {
        let weights =
            "weights: \"random\", a file with tensor names of Hugging Face, or `hf:OWNER/REPO`";
        let weights = StartWeights::read(table, weights);
        let default = if weights.is_file() { BASE } else { SMALL };
        let vocabulary = Param::<PathBuf>::unset(
            "vocabulary",
            "file `vocab.txt` or `tokenizer.json` of the weights",
        );
        let vocabulary = table.optional(&vocabulary);
        match (&weights, &vocabulary) {
            (StartWeights::Random, Some(_)) => table.reject(
                "vocabulary",
                "a random BERT reads one token per character",
                "not needed",
                "remove this line, or set `backbone.weights` to a file",
            ),
            (StartWeights::File(_), None) if !table.given("vocabulary") => table.reject(
                "weights",
                "a pretrained BERT needs its vocabulary",
                "no `vocabulary` here",
                "add `vocabulary = \"...\"`, the `vocab.txt` or `tokenizer.json` of the weights",
            ),
            _ => {}
        }
        let pooling = Param::new(
            "pooling",
            BertPooling::Cls,
            "hidden state that is the feature of a sequence",
        );
        let from_file = weights.is_file();
        let section = BertSection {
            weights,
            vocabulary,
            ignore: ignore::read(table, from_file),
            part: part::read(table, from_file),
            pooling: table.get(&pooling),
            architecture: table.table("architecture", |table| BertShape::read(table, default)),
        };
        let BertShape { hidden, heads, .. } = section.architecture;
        if !hidden.is_multiple_of(heads) {
            table.reject(
                "architecture",
                &format!("heads = {heads} does not divide the width {hidden}"),
                "does not fit",
                "change `heads` or `hidden`",
            );
        }
        section
    }
}
