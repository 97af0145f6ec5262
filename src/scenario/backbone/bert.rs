//! The keys of `kind = "bert"`.

use std::path::PathBuf;

use clap::ValueEnum;
use serde::Serialize;

use super::{StartWeights, ignore, part};
use crate::scenario::CHARACTER_TOKENS;
use crate::scenario::reader::{Choice, Keys, Param, TableReader};

/// A BERT that gives features of token sequences.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BertSection {
    /// Its weights. Default `random`: drawn from the run's seed, one token per character.
    pub weights: StartWeights,
    /// The `vocab.txt` or `tokenizer.json` beside the weights; required with a file. Absolute in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<PathBuf>,
    /// Which hidden state is a feature. Default `cls`.
    pub pooling: Pooling,
    /// Patterns of tensors in the file that may be left over. Default: none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignore: Vec<String>,
    /// Which of several sets of weights in the file is read. Default: the one that was averaged over training.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// Its shape: that of BERT-base with a file, small without.
    pub architecture: BertShape,
}

/// Which hidden state is the feature of a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Pooling {
    /// Of the token in front of the text.
    Cls,
    /// Of the last token of the text.
    Last,
    /// The mean over all tokens.
    Mean,
}

/// The shape of a BERT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Keys)]
#[keys(given(default: BertShape))]
pub struct BertShape {
    /// Tokens it knows.
    #[key(default = default.vocabulary, at_least = 1.0, at_most = 1_000_000.0)]
    pub vocabulary: u32,
    /// Width.
    #[key(default = default.hidden, at_least = 1.0, at_most = 1_000_000.0)]
    pub hidden: u32,
    /// Layers.
    #[key(default = default.layers, at_least = 1.0, at_most = 1_000_000.0)]
    pub layers: u32,
    /// Attention heads.
    ///
    /// They divide the width.
    #[key(default = default.heads, at_least = 1.0, at_most = 1_000_000.0)]
    pub heads: u32,
    /// Width of a layer's perceptron.
    #[key(default = default.intermediate, at_least = 1.0, at_most = 1_000_000.0)]
    pub intermediate: u32,
    /// Longest sequence.
    ///
    /// Positions that it has embeddings for.
    #[key(default = default.positions, at_least = 1.0, at_most = 1_000_000.0)]
    pub positions: u32,
}

/// `bert-base-uncased`.
const BASE: BertShape = BertShape {
    vocabulary: 30_522,
    hidden: 768,
    layers: 12,
    heads: 12,
    intermediate: 3_072,
    positions: 512,
};

/// Of one token per character.
const SMALL: BertShape = BertShape {
    vocabulary: CHARACTER_TOKENS,
    hidden: 128,
    layers: 2,
    heads: 4,
    intermediate: 256,
    positions: 512,
};

impl BertSection {
    /// Its keys that images have no use for.
    pub(super) const KEYS: [&'static str; 2] = ["vocabulary", "pooling"];

    pub(super) fn read(table: &mut TableReader<'_>) -> BertSection {
        let weights = "\"random\", a file in Hugging Face's names, or `hf:OWNER/REPO`";
        let weights = StartWeights::read(table, weights);
        let default = if weights.is_file() { BASE } else { SMALL };
        let vocabulary =
            Param::<PathBuf>::unset("vocabulary", "`vocab.txt` or `tokenizer.json` of the weights");
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
                "a pretrained BERT reads the pieces of its own vocabulary",
                "which one?",
                "add `vocabulary = \"...\"`, the `vocab.txt` or `tokenizer.json` of the weights",
            ),
            _ => {}
        }
        let pooling = Param::new("pooling", Pooling::Cls, "which hidden state is a feature");
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
                &format!("{heads} heads do not divide a width of {hidden}"),
                "does not fit",
                "change `heads` or `hidden`",
            );
        }
        section
    }
}
