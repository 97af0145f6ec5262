//! `backbone.activation`: what stands between the layers of a transformer's perceptrons.

use clap::ValueEnum;
use serde::Serialize;

use crate::scenario::reader::Choice;

/// Activation between the layers of a perceptron; it cannot be seen in weights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, ValueEnum, Choice)]
#[serde(rename_all = "kebab-case")]
pub enum Activation {
    /// `x Phi(x)` with the normal distribution function, as timm and Hugging Face have it in ViT, DeiT and DINO.
    #[default]
    Gelu,
    /// `x s(1.702 x)` with the logistic function, as in OpenAI's CLIP and in networks trained from it.
    QuickGelu,
}

/// Parts of the names under which weights with QuickGELU are published, in small letters.
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
    /// The activation of weights of this name, or of a file whose name is the last part of this path.
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
    fn names_of_weights_tell_the_activation() {
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
