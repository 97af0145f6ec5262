//! `backbone.activation`: activation function in the perceptrons of a transformer.

use clap::ValueEnum;
use serde::Serialize;

use crate::scenario::reader::Choice;

/// Activation between the two layers of a perceptron; weights do not show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// GELU `x Phi(x)`, with the standard normal CDF `Phi`: ViT, DeiT and DINO in timm and Hugging Face.
    #[default]
    Gelu,
    /// QuickGELU `x s(1.702 x)`, with the logistic function `s`: OpenAI's CLIP and networks trained from it.
    QuickGelu,
}

/// Lower-case parts of names under which weights with QuickGELU are published.
const QUICK: [&str; 8] = [
    "quickgelu",
    "quick_gelu",
    "quick-gelu",
    "openai/clip",
    ".openai",
    "metaclip",
    "dfn2b",
    "dfn5b",
];

impl Activation {
    /// Returns the activation of published weights by their name, or by the last part of a file's path.
    pub(crate) fn of_weights(name: &str) -> Activation {
        let own = match name.strip_prefix("hf:") {
            Some(name) => name,
            None => name.rsplit(['/', '\\']).next().unwrap_or(name),
        };
        let own = own.to_lowercase();
        match QUICK.iter().any(|part| own.contains(part)) {
            true => Activation::QuickGelu,
            false => Activation::Gelu,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_weights_determine_the_activation() {
        for (name, quick) in [
            ("hf:openai/clip-vit-base-patch16", true),
            ("hf:timm/vit_base_patch16_clip_224.openai", true),
            ("hf:timm/vit_base_patch16_clip_quickgelu_224.metaclip_2pt5b", true),
            ("/data/ViT-B-16-QuickGELU.pth", true),
            ("/openai/clip/vit.safetensors", false),
            ("hf:timm/vit_base_patch16_clip_224.laion2b", false),
            ("hf:timm/vit_tiny_patch16_224.augreg_in21k", false),
        ] {
            let found = Activation::of_weights(name);
            assert_eq!(found == Activation::QuickGelu, quick, "{name}");
        }
    }
}
