//! Vision transformers with timm's names, which are also ours.
//!
//! The authors' releases of DINO, DINOv2, DeiT and MAE have them as well.

use super::{Family, Network, Rule, same, scaled};

pub static FAMILY: Family = Family {
    name: "timm ViT",
    network: Network::Vit,
    anchor: "patch_embed.proj.weight",
    rules: &RULES,
    words: &[],
    kept: &[],
    // `head.mlp` and the like are the projection heads of DINO; `mask_token` replaces hidden patches in training.
    passed: &[
        "head.*",
        "head_drop.*",
        "pre_logits.*",
        "fc.*",
        "classifier.*",
        "prototypes.*",
        "projection_head.*",
        "dino_head.*",
        "ibot_head.*",
        "mask_token",
        "dino_loss.*",
    ],
};

static RULES: [Rule; 18] = [
    same(&["cls_token"], "cls_token"),
    same(&["pos_embed"], "pos_embed"),
    same(&["patch_embed.proj.weight"], "patch_embed.proj.weight"),
    same(&["patch_embed.proj.bias"], "patch_embed.proj.bias"),
    same(&["blocks.{}.norm1.weight"], "blocks.{}.norm1.weight"),
    same(&["blocks.{}.norm1.bias"], "blocks.{}.norm1.bias"),
    same(&["blocks.{}.attn.qkv.weight"], "blocks.{}.attn.qkv.weight"),
    same(&["blocks.{}.attn.qkv.bias"], "blocks.{}.attn.qkv.bias"),
    scaled(&["blocks.{}.attn.proj.weight"], "blocks.{}.attn.proj.weight", "blocks.{}.ls1.gamma"),
    scaled(&["blocks.{}.attn.proj.bias"], "blocks.{}.attn.proj.bias", "blocks.{}.ls1.gamma"),
    same(&["blocks.{}.norm2.weight"], "blocks.{}.norm2.weight"),
    same(&["blocks.{}.norm2.bias"], "blocks.{}.norm2.bias"),
    same(&["blocks.{}.mlp.fc1.weight"], "blocks.{}.mlp.fc1.weight"),
    same(&["blocks.{}.mlp.fc1.bias"], "blocks.{}.mlp.fc1.bias"),
    scaled(&["blocks.{}.mlp.fc2.weight"], "blocks.{}.mlp.fc2.weight", "blocks.{}.ls2.gamma"),
    scaled(&["blocks.{}.mlp.fc2.bias"], "blocks.{}.mlp.fc2.bias", "blocks.{}.ls2.gamma"),
    same(&["norm.weight"], "norm.weight"),
    same(&["norm.bias"], "norm.bias"),
];
