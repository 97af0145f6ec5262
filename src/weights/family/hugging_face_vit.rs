//! Vision transformers with the names of Hugging Face's `transformers`: ViT, DeiT and DINO, with or without a model
//! prefix (`vit.`). Queries, keys and values are three projections there. DINOv2 has other names for some layers, and
//! LayerScale.

use super::{Family, Network, Rule, laid, same, scaled};
use crate::weights::Layout;

pub static FAMILY: Family = Family {
    name: "Hugging Face ViT",
    network: Network::Vit,
    anchor: "embeddings.patch_embeddings.projection.weight",
    rules: &RULES,
    words: &[],
    kept: &[],
    // The pooler is an additional layer on the class token.
    passed: &[
        "classifier.*",
        "cls_classifier.*",
        "distillation_classifier.*",
        "pooler.*",
        "decoder.*",
        "embeddings.mask_token",
    ],
};

static RULES: [Rule; 26] = [
    same(&["embeddings.cls_token"], "cls_token"),
    same(&["embeddings.position_embeddings"], "pos_embed"),
    same(&["embeddings.patch_embeddings.projection.weight"], "patch_embed.proj.weight"),
    same(&["embeddings.patch_embeddings.projection.bias"], "patch_embed.proj.bias"),
    same(&["encoder.layer.{}.layernorm_before.weight"], "blocks.{}.norm1.weight"),
    same(&["encoder.layer.{}.layernorm_before.bias"], "blocks.{}.norm1.bias"),
    laid(
        &[
            "encoder.layer.{}.attention.attention.query.weight",
            "encoder.layer.{}.attention.attention.key.weight",
            "encoder.layer.{}.attention.attention.value.weight",
        ],
        "blocks.{}.attn.qkv.weight",
        Layout::Joined,
    ),
    laid(
        &[
            "encoder.layer.{}.attention.attention.query.bias",
            "encoder.layer.{}.attention.attention.key.bias",
            "encoder.layer.{}.attention.attention.value.bias",
        ],
        "blocks.{}.attn.qkv.bias",
        Layout::Joined,
    ),
    scaled(
        &["encoder.layer.{}.attention.output.dense.weight"],
        "blocks.{}.attn.proj.weight",
        "encoder.layer.{}.layer_scale1.lambda1",
    ),
    scaled(
        &["encoder.layer.{}.attention.output.dense.bias"],
        "blocks.{}.attn.proj.bias",
        "encoder.layer.{}.layer_scale1.lambda1",
    ),
    same(&["encoder.layer.{}.layernorm_after.weight"], "blocks.{}.norm2.weight"),
    same(&["encoder.layer.{}.layernorm_after.bias"], "blocks.{}.norm2.bias"),
    same(&["encoder.layer.{}.intermediate.dense.weight"], "blocks.{}.mlp.fc1.weight"),
    same(&["encoder.layer.{}.intermediate.dense.bias"], "blocks.{}.mlp.fc1.bias"),
    same(&["encoder.layer.{}.output.dense.weight"], "blocks.{}.mlp.fc2.weight"),
    same(&["encoder.layer.{}.output.dense.bias"], "blocks.{}.mlp.fc2.bias"),
    // Names of DINOv2.
    same(&["encoder.layer.{}.norm1.weight"], "blocks.{}.norm1.weight"),
    same(&["encoder.layer.{}.norm1.bias"], "blocks.{}.norm1.bias"),
    same(&["encoder.layer.{}.norm2.weight"], "blocks.{}.norm2.weight"),
    same(&["encoder.layer.{}.norm2.bias"], "blocks.{}.norm2.bias"),
    same(&["encoder.layer.{}.mlp.fc1.weight"], "blocks.{}.mlp.fc1.weight"),
    same(&["encoder.layer.{}.mlp.fc1.bias"], "blocks.{}.mlp.fc1.bias"),
    scaled(
        &["encoder.layer.{}.mlp.fc2.weight"],
        "blocks.{}.mlp.fc2.weight",
        "encoder.layer.{}.layer_scale2.lambda1",
    ),
    scaled(
        &["encoder.layer.{}.mlp.fc2.bias"],
        "blocks.{}.mlp.fc2.bias",
        "encoder.layer.{}.layer_scale2.lambda1",
    ),
    same(&["layernorm.weight"], "norm.weight"),
    same(&["layernorm.bias"], "norm.bias"),
];
