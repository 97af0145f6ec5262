//! Vision transformers of the JAX release of ViT and AugReg (`.npz`).
//!
//! Kernels have their inputs first, and heads as a separate axis.

use super::{Family, Network, Rule, laid, same};
use crate::weights::Layout;

pub static FAMILY: Family = Family {
    name: "JAX ViT",
    network: Network::Vit,
    anchor: "embedding/kernel",
    rules: &RULES,
    words: &[],
    kept: &[],
    passed: &["head/*", "pre_logits/*"],
};

static RULES: [Rule; 18] = [
    same(&["cls"], "cls_token"),
    same(&["Transformer/posembed_input/pos_embedding"], "pos_embed"),
    laid(&["embedding/kernel"], "patch_embed.proj.weight", Layout::Convolution),
    same(&["embedding/bias"], "patch_embed.proj.bias"),
    same(&["Transformer/encoderblock_{}/LayerNorm_0/scale"], "blocks.{}.norm1.weight"),
    same(&["Transformer/encoderblock_{}/LayerNorm_0/bias"], "blocks.{}.norm1.bias"),
    laid(
        &[
            "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/query/kernel",
            "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/key/kernel",
            "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/value/kernel",
        ],
        "blocks.{}.attn.qkv.weight",
        Layout::JoinedHeads,
    ),
    laid(
        &[
            "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/query/bias",
            "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/key/bias",
            "Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/value/bias",
        ],
        "blocks.{}.attn.qkv.bias",
        Layout::JoinedBiases,
    ),
    laid(
        &["Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/out/kernel"],
        "blocks.{}.attn.proj.weight",
        Layout::Heads,
    ),
    same(
        &["Transformer/encoderblock_{}/MultiHeadDotProductAttention_1/out/bias"],
        "blocks.{}.attn.proj.bias",
    ),
    same(&["Transformer/encoderblock_{}/LayerNorm_2/scale"], "blocks.{}.norm2.weight"),
    same(&["Transformer/encoderblock_{}/LayerNorm_2/bias"], "blocks.{}.norm2.bias"),
    laid(
        &["Transformer/encoderblock_{}/MlpBlock_3/Dense_0/kernel"],
        "blocks.{}.mlp.fc1.weight",
        Layout::Transposed,
    ),
    same(&["Transformer/encoderblock_{}/MlpBlock_3/Dense_0/bias"], "blocks.{}.mlp.fc1.bias"),
    laid(
        &["Transformer/encoderblock_{}/MlpBlock_3/Dense_1/kernel"],
        "blocks.{}.mlp.fc2.weight",
        Layout::Transposed,
    ),
    same(&["Transformer/encoderblock_{}/MlpBlock_3/Dense_1/bias"], "blocks.{}.mlp.fc2.bias"),
    same(&["Transformer/encoder_norm/scale"], "norm.weight"),
    same(&["Transformer/encoder_norm/bias"], "norm.bias"),
];
