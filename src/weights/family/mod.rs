//! Families of tensor names in checkpoints: one table of rules per family, each in a separate file.

mod bert;
mod hugging_face_resnet;
mod hugging_face_vit;
mod jax_vit;
mod resnet;
mod rules;
mod timm_vit;
mod torchvision_vit;

pub use rules::{Family, Network, Rule};
use rules::{laid, same, scaled};

/// All known families, in the order in which they are tried.
pub static FAMILIES: [&Family; 7] = [
    &timm_vit::FAMILY,
    &hugging_face_vit::FAMILY,
    &torchvision_vit::FAMILY,
    &jax_vit::FAMILY,
    &resnet::FAMILY,
    &hugging_face_resnet::FAMILY,
    &bert::FAMILY,
];

/// Prefixes that programs put before all names of a network.
pub(super) const PREFIXES: [&str; 17] = [
    "module.",
    "model.",
    "backbone.",
    "network.",
    "net.",
    "base_model.",
    "_orig_mod.",
    "student.",
    "teacher.",
    "vit.",
    "deit.",
    "dinov2.",
    "dinov2_with_registers.",
    "vision_model.",
    "bert.",
    "resnet.",
    "feature_extractor.",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::matches;
    use std::collections::BTreeSet;

    #[test]
    fn rules_agree_in_holes_and_no_tensor_is_used_twice() {
        for family in FAMILIES {
            let mut used = BTreeSet::new();
            for rule in family.rules {
                let holes = |name: &str| name.matches("{}").count();
                for from in rule.from {
                    assert!(used.insert(from), "{}: {from} twice", family.name);
                    assert!(holes(from) == holes(rule.to) && holes(from) < 2, "{from}");
                    assert!(!family.passed.iter().any(|pattern| matches(pattern, from)), "{from}");
                }
            }
            let anchor = family.our_words(family.anchor);
            let kept = family.kept.iter().any(|pattern| matches(pattern, &anchor));
            assert!(kept || used.contains(&family.anchor), "{}: its anchor is unused", family.name);
        }
    }
}
