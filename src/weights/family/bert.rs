//! Text encoders with Hugging Face's names, which are also ours.
//!
//! Only models converted from TensorFlow have other names.

use super::{Family, Network, Rule, same};

pub static FAMILY: Family = Family {
    name: "Hugging Face BERT",
    network: Network::Bert,
    anchor: "embeddings.word_embeddings.weight",
    rules: &RULES,
    words: &[],
    kept: &["embeddings.*", "encoder.*"],
    passed: &[
        "pooler.*",
        "cls.*",
        "classifier.*",
        "qa_outputs.*",
        // The numbers from 0 on, which older versions saved with the weights.
        "embeddings.position_ids",
    ],
};

static RULES: [Rule; 6] = [
    same(&["embeddings.LayerNorm.gamma"], "embeddings.LayerNorm.weight"),
    same(&["embeddings.LayerNorm.beta"], "embeddings.LayerNorm.bias"),
    same(
        &["encoder.layer.{}.attention.output.LayerNorm.gamma"],
        "encoder.layer.{}.attention.output.LayerNorm.weight",
    ),
    same(
        &["encoder.layer.{}.attention.output.LayerNorm.beta"],
        "encoder.layer.{}.attention.output.LayerNorm.bias",
    ),
    same(&["encoder.layer.{}.output.LayerNorm.gamma"], "encoder.layer.{}.output.LayerNorm.weight"),
    same(&["encoder.layer.{}.output.LayerNorm.beta"], "encoder.layer.{}.output.LayerNorm.bias"),
];
