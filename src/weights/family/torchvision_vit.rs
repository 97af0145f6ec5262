//! Vision transformers with torchvision's names. Their attention is PyTorch's own, with queries, keys and values joined
//! as ours. The layers of the perceptrons had other names before torchvision 0.13.

use super::{Family, Network, Rule, same};

pub static FAMILY: Family = Family {
    name: "torchvision ViT",
    network: Network::Vit,
    anchor: "conv_proj.weight",
    rules: &RULES,
    words: &[],
    kept: &[],
    passed: &["heads.*", "head.*"],
};

static RULES: [Rule; 22] = [
    same(&["class_token"], "cls_token"),
    same(&["encoder.pos_embedding"], "pos_embed"),
    same(&["conv_proj.weight"], "patch_embed.proj.weight"),
    same(&["conv_proj.bias"], "patch_embed.proj.bias"),
    same(&["encoder.layers.encoder_layer_{}.ln_1.weight"], "blocks.{}.norm1.weight"),
    same(&["encoder.layers.encoder_layer_{}.ln_1.bias"], "blocks.{}.norm1.bias"),
    same(
        &["encoder.layers.encoder_layer_{}.self_attention.in_proj_weight"],
        "blocks.{}.attn.qkv.weight",
    ),
    same(
        &["encoder.layers.encoder_layer_{}.self_attention.in_proj_bias"],
        "blocks.{}.attn.qkv.bias",
    ),
    same(
        &["encoder.layers.encoder_layer_{}.self_attention.out_proj.weight"],
        "blocks.{}.attn.proj.weight",
    ),
    same(
        &["encoder.layers.encoder_layer_{}.self_attention.out_proj.bias"],
        "blocks.{}.attn.proj.bias",
    ),
    same(&["encoder.layers.encoder_layer_{}.ln_2.weight"], "blocks.{}.norm2.weight"),
    same(&["encoder.layers.encoder_layer_{}.ln_2.bias"], "blocks.{}.norm2.bias"),
    same(&["encoder.layers.encoder_layer_{}.mlp.0.weight"], "blocks.{}.mlp.fc1.weight"),
    same(&["encoder.layers.encoder_layer_{}.mlp.0.bias"], "blocks.{}.mlp.fc1.bias"),
    same(&["encoder.layers.encoder_layer_{}.mlp.3.weight"], "blocks.{}.mlp.fc2.weight"),
    same(&["encoder.layers.encoder_layer_{}.mlp.3.bias"], "blocks.{}.mlp.fc2.bias"),
    // Names before torchvision 0.13.
    same(&["encoder.layers.encoder_layer_{}.mlp.linear_1.weight"], "blocks.{}.mlp.fc1.weight"),
    same(&["encoder.layers.encoder_layer_{}.mlp.linear_1.bias"], "blocks.{}.mlp.fc1.bias"),
    same(&["encoder.layers.encoder_layer_{}.mlp.linear_2.weight"], "blocks.{}.mlp.fc2.weight"),
    same(&["encoder.layers.encoder_layer_{}.mlp.linear_2.bias"], "blocks.{}.mlp.fc2.bias"),
    same(&["encoder.ln.weight"], "norm.weight"),
    same(&["encoder.ln.bias"], "norm.bias"),
];
