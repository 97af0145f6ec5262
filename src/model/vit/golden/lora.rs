//! `lora`: low-rank pairs at every linear layer, against PyTorch's autograd in float64.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use candle_core::{Tensor, Var};

use super::{flat, gradient, labels, on_both_paths, small_vit, stored, tensor, trained_head};
use crate::golden::Golden;
use crate::model::{
    Adaptation, Factor, LinearLayer, LoraPlace, LoraShape, ModelError, Vit, lora_name, loras_of,
    ops, testing,
};
use crate::numerics::streams::{Domain, StreamKey};

const COLUMNS: Range<usize> = 4..8;

/// Returns the factors of pairs at these layers of all blocks as variables, by name.
pub(crate) fn filled(
    golden: &Golden,
    vit: &Vit,
    layers: &[LinearLayer],
) -> BTreeMap<Arc<str>, Var> {
    let mut variables = BTreeMap::new();
    for block in 0..vit.config().depth {
        for layer in layers {
            let (inputs, outputs) = (layer.inputs(vit.config()), layer.outputs(vit.config()));
            for (factor, word, shape) in
                [(Factor::A, "A", [4, inputs]), (Factor::B, "B", [outputs, 4])]
            {
                let values =
                    golden.fill(&format!("lora.{block}.{}.{word}", layer.name()), &shape, 0.2);
                let variable = Var::from_tensor(&tensor(values, &shape)).expect("a variable");
                variables.insert(lora_name(block, LoraPlace::at(*layer), factor).into(), variable);
            }
        }
    }
    variables
}

/// Returns the pairs of these variables, and nothing else.
pub(crate) fn adapted(variables: &BTreeMap<Arc<str>, Var>) -> Result<Adaptation, ModelError> {
    let factors = variables.iter().map(|(name, v)| (Arc::clone(name), vec![v.as_tensor().clone()]));
    Ok(Adaptation { loras: loras_of(factors)?, ..Adaptation::none() })
}

/// Computes features, logits, loss and all gradients of one set of layers.
///
/// `compare` compares the gradients.
fn compare_all(
    file: &str,
    layers: &[LinearLayer],
    compare: impl Fn(&Golden, &dyn Fn(usize, LinearLayer, Factor) -> Vec<f32>),
) -> Result<(), ModelError> {
    let (Some(golden), Some(images)) = (Golden::open("lora"), Golden::open("vit_tokens")) else {
        return Ok(());
    };
    let vit = small_vit(&images);
    let variables = filled(&golden, &vit, layers);
    let features = vit.features(&stored(&images, "x"), &adapted(&variables)?)?;
    golden.assert_close(&format!("{file}.feature"), &flat(&features));
    let (_, _, head) = trained_head(
        tensor(images.fill("head.weight", &[10, 48], 0.2), &[10, 48]),
        tensor(images.fill("head.bias", &[10], 0.05), &[10]),
    );
    let logits = head.logits(&features)?;
    golden.assert_close(&format!("{file}.logits"), &flat(&logits));
    let loss = ops::cross_entropy(&logits, &labels(&images), COLUMNS)?;
    golden.assert_close(&format!("{file}.loss"), &flat(&loss));
    let grads = loss.backward()?;
    compare(&golden, &|block, layer, factor| {
        gradient(&grads, &variables[&*lora_name(block, LoraPlace::at(layer), factor)])
    });
    Ok(())
}

#[test]
fn golden_lora_at_queries_keys_and_values() -> Result<(), ModelError> {
    on_both_paths(|| {
        compare_all("qkv", &[LinearLayer::Qkv], |golden, gradient| {
            for (name, factor) in [("qkv.grad_a", Factor::A), ("qkv.grad_b", Factor::B)] {
                let all = (0..4).flat_map(|block| gradient(block, LinearLayer::Qkv, factor));
                golden.assert_close(name, &all.collect::<Vec<f32>>());
            }
        })
    })
}

#[test]
fn golden_lora_at_all_layers() -> Result<(), ModelError> {
    on_both_paths(|| {
        compare_all("all", &LinearLayer::ALL, |golden, gradient| {
            for layer in LinearLayer::ALL {
                for (word, factor) in [("A", Factor::A), ("B", Factor::B)] {
                    let name = format!("all.grad.{}.{word}", layer.name());
                    golden.assert_close(&name, &gradient(1, layer, factor));
                }
            }
        })
    })
}

fn image() -> Tensor {
    tensor((0..2 * 3 * 1024).map(|i| (i as f32 * 0.7).sin()).collect(), &[2, 3, 32, 32])
}

/// A pair with `B = 0` adds nothing, to the bit, alone and after one that does.
///
/// Each place adds to its own columns.
#[test]
fn zero_pairs_are_neutral_to_the_bit_and_places_are_their_own() -> Result<(), ModelError> {
    let key = StreamKey::new(1, Domain::Init);
    let config = crate::model::VitConfig {
        image: 32,
        patch: 8,
        dim: 48,
        depth: 2,
        heads: 3,
        mlp: 96,
        ..Default::default()
    };
    let vit = Vit::frozen_at(config, &Vit::initial_parameters(&config, key), &testing::place())?;
    let features = |factors: Vec<(Arc<str>, Vec<Tensor>)>| -> Result<Vec<f32>, ModelError> {
        let adaptation = Adaptation { loras: loras_of(factors)?, ..Adaptation::none() };
        Ok(flat(&vit.features(&image(), &adaptation)?))
    };
    let plain = flat(&vit.features(&image(), &Adaptation::none())?);
    let places = [LoraPlace::Qkv, LoraPlace::Q, LoraPlace::V, LoraPlace::Fc2].to_vec();
    let shape = LoraShape { vit: config, blocks: 9, places, rank: 2, tasks: Some(2) };
    let set = shape.initial_parameters(key);
    assert_eq!(set.len(), 2 * 4 * 2);
    // Of every factor both pairs, with `B` of the first times `first`.
    type Pairs = Vec<(Arc<str>, Vec<Tensor>)>;
    let pairs = |first: f64, second: bool| -> Result<Pairs, ModelError> {
        let mut factors = Vec::new();
        for (name, parameter) in set.iter() {
            let whole = parameter.tensor(&testing::device())?;
            let mut tensors = crate::model::lora_pairs(&whole, 1)?;
            if Factor::of(name) == Some(Factor::B) {
                tensors[0] = (tensors[0].ones_like()? * first)?;
            }
            tensors.truncate(1 + usize::from(second));
            factors.push((Arc::clone(name), tensors));
        }
        Ok(factors)
    };
    assert_eq!(features(pairs(0.0, true)?)?, plain);
    assert_ne!(features(pairs(0.1, false)?)?, plain);
    assert_eq!(features(pairs(0.1, true)?)?, features(pairs(0.1, false)?)?);

    // Queries and values alone are the rows of those in a pair of all three.
    let a = tensor((0..2 * 48).map(|i| (i as f32).cos() / 7.0).collect(), &[2, 48]);
    let b = tensor((0..48 * 2).map(|i| (i as f32 * 1.3).sin()).collect(), &[48, 2]);
    let zeros = (b.zeros_like()?, b.zeros_like()?);
    let named = |place, b: Tensor| {
        vec![
            (Arc::from(lora_name(0, place, Factor::A)), vec![a.clone()]),
            (Arc::from(lora_name(0, place, Factor::B)), vec![b]),
        ]
    };
    for (place, rows) in
        [(LoraPlace::Q, [&b, &zeros.0, &zeros.1]), (LoraPlace::V, [&zeros.0, &zeros.1, &b])]
    {
        let whole = features(named(LoraPlace::Qkv, Tensor::cat(&rows, 0)?))?;
        let alone = features(named(place, b.clone()))?;
        let near = whole.iter().zip(&alone).all(|(a, b)| (a - b).abs() < 1e-5);
        assert!(near && alone != plain, "{place:?}");
    }
    // A factor without its partner.
    let alone = named(LoraPlace::Q, b.clone());
    for lacking in [0, 1] {
        let error = features(vec![alone[lacking].clone()]).unwrap_err().to_string();
        assert!(error.contains("lacks its partner"), "{error}");
    }
    Ok(())
}

/// Card of LoRM, section 2: 64,512 numbers of A and 82,944 of B for each rank on ViT-B/16; card of PILoRA: 12,288.
#[test]
fn pairs_have_the_numbers_of_the_cards() {
    let vit = crate::model::VitConfig::preset("vit-base").unwrap();
    let count = |blocks, places: &[LoraPlace], rank| {
        let shape = LoraShape { vit, blocks, places: places.to_vec(), rank, tasks: None };
        let of = |factor| {
            let own = shape.shapes().into_iter();
            let own = own.filter(move |(name, _)| Factor::of(name) == Some(factor));
            own.map(|(_, shape)| shape.iter().product::<usize>()).sum::<usize>()
        };
        (of(Factor::A), of(Factor::B))
    };
    let all = LinearLayer::ALL.map(LoraPlace::at);
    assert_eq!(count(12, &all, 1), (64_512, 82_944));
    assert_eq!(count(99, &all, 16), (16 * 64_512, 16 * 82_944));
    assert_eq!(count(1, &[LoraPlace::V, LoraPlace::Q], 4), (6_144, 6_144));
}
