//! Guess of the network in a file, for error messages about a wrong configuration.

use std::collections::BTreeMap;

use super::{InferredVit, NameMap, Network, ResNetLooks};

/// Describes the network of a file in one phrase.
pub fn looks(map: &NameMap) -> String {
    let shapes = map.shapes();
    match map.family.network {
        Network::Vit => match InferredVit::of("it", map) {
            Ok(vit) => {
                let InferredVit { image, patch, dim, depth, mlp, .. } = vit;
                format!(
                    "a ViT {dim} wide and {depth} deep, perceptrons of {mlp}, patches of {patch}, images of {image}"
                )
            }
            Err(_) => "a part of a vision transformer, or one of another kind".to_owned(),
        },
        Network::ResNet => ResNetLooks::of(&shapes).words(),
        Network::Bert => {
            let rows = |name: &str, axis: usize| shapes.get(name).and_then(|shape| shape.get(axis));
            let words = "embeddings.word_embeddings.weight";
            let layers = blocks(&shapes, "encoder.layer.");
            match (rows(words, 0), rows(words, 1)) {
                (Some(vocabulary), Some(hidden)) => {
                    format!("a BERT {hidden} wide and {layers} deep, of {vocabulary} tokens")
                }
                _ => "a part of a BERT".to_owned(),
            }
        }
    }
}

/// Returns the number of blocks or layers, which are numbered from 0 after a prefix of names.
pub fn blocks(shapes: &BTreeMap<&str, &[usize]>, prefix: &str) -> usize {
    let has = |i: &usize| shapes.keys().any(|name| name.starts_with(&format!("{prefix}{i}.")));
    (0..).take_while(has).count()
}
