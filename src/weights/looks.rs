//! What network a file looks like, for people who stated another one.

use std::collections::BTreeMap;

use super::{InferredVit, NameMap, Network};

/// Blocks of every stage, whether they are bottlenecks, and who has them.
const RESNETS: [([usize; 4], bool, &str); 5] = [
    ([2, 2, 2, 2], false, "ResNet-18"),
    ([3, 4, 6, 3], false, "ResNet-34"),
    ([3, 4, 6, 3], true, "ResNet-50"),
    ([3, 4, 23, 3], true, "ResNet-101"),
    ([3, 8, 36, 3], true, "ResNet-152"),
];

/// The network of a file in one phrase.
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
        Network::ResNet => looks_of_resnet(&shapes),
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

/// The residual network of these shapes.
pub fn looks_of_resnet(shapes: &BTreeMap<&str, &[usize]>) -> String {
    let stages: Vec<usize> =
        (1..=4).map(|stage| blocks(shapes, &format!("layer{stage}."))).collect();
    let bottlenecks = shapes.contains_key("layer1.0.conv3.weight");
    let known =
        RESNETS.iter().find(|(blocks, deep, _)| *blocks == stages[..] && *deep == bottlenecks);
    let width = shapes.get("conv1.weight").and_then(|shape| shape.first());
    let stem = shapes.get("conv1.weight").and_then(|shape| shape.get(2));
    let name = known.map_or("a residual network of another depth", |(_, _, name)| name);
    match (width, stem) {
        (Some(width), Some(stem)) => {
            format!("{name}, {width} channels wide, with a stem of {stem} x {stem}")
        }
        _ => name.to_owned(),
    }
}

/// How many numbers from 0 on follow a prefix of names: blocks, layers.
pub fn blocks(shapes: &BTreeMap<&str, &[usize]>, prefix: &str) -> usize {
    let has = |i: &usize| shapes.keys().any(|name| name.starts_with(&format!("{prefix}{i}.")));
    (0..).take_while(has).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residual_networks_are_told_by_their_blocks() {
        let looks = |stages: [usize; 4], deep: bool| {
            let mut shapes: BTreeMap<String, &[usize]> = BTreeMap::new();
            for (stage, blocks) in stages.into_iter().enumerate() {
                for block in 0..blocks {
                    shapes.insert(format!("layer{}.{block}.conv1.weight", stage + 1), &[1]);
                }
            }
            shapes.insert("conv1.weight".to_owned(), &[64, 3, 7, 7]);
            if deep {
                shapes.insert("layer1.0.conv3.weight".to_owned(), &[1]);
            }
            let shapes = shapes.iter().map(|(name, shape)| (name.as_str(), *shape)).collect();
            looks_of_resnet(&shapes)
        };
        let end = ", 64 channels wide, with a stem of 7 x 7";
        assert_eq!(looks([2, 2, 2, 2], false), format!("ResNet-18{end}"));
        assert_eq!(looks([3, 4, 6, 3], false), format!("ResNet-34{end}"));
        assert_eq!(looks([3, 4, 6, 3], true), format!("ResNet-50{end}"));
        assert_eq!(looks([3, 4, 23, 3], true), format!("ResNet-101{end}"));
        assert!(looks([1, 2, 3, 4], true).contains("another depth"));
    }
}
