//! Packs of prompts: bits, rows that train, queries.

use candle_core::DType;

use super::*;
use crate::data::Batch;
use crate::learning::{Classifier, PackBatch};
use crate::model::{Backbone, LinearHead, embedded_vit, prompts};
use crate::numerics::streams::{Domain, StreamKey};

const DIM: usize = 64;

/// A weighted prefix for block 1, whose rows 1 and 2 of 4 train, and the sum of cosines as a loss.
#[derive(Debug)]
struct WeightedPrefix;

impl Prompting for WeightedPrefix {
    fn first_block(&self) -> usize {
        1
    }

    fn trained(&self, _name: &str, _rows: usize) -> Range<usize> {
        1..3
    }

    fn adapt(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Adaptation, ModelError> {
        let weights = prompts::cosines(queries, pool.get("prompt.01.keys")?)?;
        let prompt = prompts::weighted(&weights, pool.get("prompt.01.prompts")?)?;
        // And one prompt for all samples.
        let shared = pool.get("prompt.01.prompts")?.get(2)?;
        let halves = |prompt| Prefix::halves(prompt).map(Some);
        let prefix = vec![None, halves(&prompt)?, halves(&shared)?];
        Ok(Adaptation { prefix, ..Adaptation::none() })
    }

    fn loss(&self, pool: &PromptTensors, queries: &Tensor) -> Result<Option<Tensor>, ModelError> {
        let similar = prompts::cosines(queries, pool.get("prompt.01.keys")?)?;
        Ok(Some(similar.sum(1)?.mean(0)?))
    }
}

fn received(shift: f32) -> ParameterSet {
    let of = |shape: &[usize]| Parameter {
        shape: shape.to_vec(),
        values: (0..shape.iter().product()).map(|i: usize| (i as f32 + shift).sin()).collect(),
    };
    let mut set = LinearHead::initial_parameters(4, DIM, StreamKey::new(1, Domain::Init));
    set.insert("prompt.01.keys", of(&[4, DIM]));
    set.insert("prompt.01.prompts", of(&[4, 6, DIM]));
    set
}

fn batch(samples: Range<u32>) -> Batch {
    let pixels = samples.clone().flat_map(|s| (0..64).map(move |i| (i * (s + 3)) as f32));
    let count = samples.len();
    let inputs = Box::new(Batch::Images {
        pixels: pixels.map(|v| (v * 0.37).sin()).collect(),
        shape: [count, 1, 8, 8],
        labels: samples.clone().map(|s| s % 2 + 1).collect(),
        samples: samples.clone().collect(),
    });
    let queries = samples.flat_map(|s| (0..DIM as u32).map(move |i| (i * (s + 7)) as f32));
    Batch::Queried { inputs, queries: queries.map(|v| (v * 0.11).cos()).collect() }
}

type PoolResult = (Vec<f32>, Vec<Vec<Vec<f32>>>);

/// Losses, and by variable the gradient of each member.
fn learn(received: Vec<ParameterSet>, batches: Vec<Batch>, sizes: Vec<usize>) -> PoolResult {
    let (backbone, members) = (Arc::new(Backbone::from(embedded_vit().unwrap())), sizes.len());
    let model =
        Classifier::pack_with(&backbone, received, 1..3, Some(Arc::new(WeightedPrefix))).unwrap();
    let step = PackBatch {
        batch: Batch::join(batches).unwrap(),
        groups: SampleGroups::new(sizes),
        steps: vec![0; members],
    };
    let losses = model.pack_losses(&step, &Device::Cpu, None).unwrap();
    let grads = losses.sum_all().unwrap().backward().unwrap();
    let by_member = |gradient: &Tensor| {
        let flat = gradient.reshape((members, ())).unwrap();
        flat.to_vec2::<f32>().unwrap()
    };
    let gradients = model.vars().iter().map(|v| by_member(grads.get(v).unwrap())).collect();
    (losses.flatten_all().unwrap().to_vec1().unwrap(), gradients)
}

#[test]
fn a_member_of_a_pack_gets_the_bits_it_gets_alone() {
    let sets = [received(0.0), received(0.5), received(1.0)];
    let sizes = vec![3, 0, 5];
    let (losses, gradients) = learn(sets.to_vec(), vec![batch(0..3), batch(3..8)], sizes);
    for (member, samples) in [(0, 0..3), (2, 3..8)] {
        let size = samples.len();
        let alone = learn(vec![sets[member].clone()], vec![batch(samples)], vec![size]);
        assert_eq!(losses[member], alone.0[0]);
        for (together, alone) in gradients.iter().zip(&alone.1) {
            assert!(alone[0].iter().any(|g| *g != 0.0));
            assert_eq!(together[member], alone[0]);
        }
    }
    assert_eq!(losses[1], 0.0);
    assert!(gradients.iter().all(|of| of[1].iter().all(|g| *g == 0.0)));
}

#[test]
fn only_the_trained_rows_are_variables_and_move() {
    let backbone = Arc::new(Backbone::from(embedded_vit().unwrap()));
    let start = received(0.0);
    let members = vec![start.clone(); 2];
    let model =
        Classifier::pack_with(&backbone, members, 1..3, Some(Arc::new(WeightedPrefix))).unwrap();
    let shapes: Vec<_> = model.variables().iter().map(|(_, v)| v.dims().to_vec()).collect();
    let expected: [&[usize]; 4] = [&[2, 2], &[2, 2, DIM], &[2, 2, DIM], &[2, 2, 6, DIM]];
    assert_eq!(shapes, expected);
    for variable in model.vars() {
        variable.set(&Tensor::ones(variable.shape(), DType::F32, &Device::Cpu).unwrap()).unwrap();
    }
    for now in model.pack_parameters().unwrap() {
        for (name, parameter) in now.iter() {
            let (before, width) = (start.get(name).unwrap(), parameter.values.len() / 4);
            for row in 0..4 {
                let of = |p: &Parameter| p.values[row * width..(row + 1) * width].to_vec();
                let expected = if (1..3).contains(&row) { vec![1.0; width] } else { of(before) };
                assert_eq!(of(parameter), expected, "{name}, row {row}");
            }
        }
    }
}

#[test]
fn brought_queries_are_those_that_are_computed() {
    let backbone = Arc::new(Backbone::from(embedded_vit().unwrap()));
    let model =
        Classifier::frozen_with(&backbone, &received(0.0), Some(Arc::new(WeightedPrefix))).unwrap();
    let images = batch(0..5);
    let pixels = images.pixels(&Device::Cpu).unwrap();
    let queries = backbone.frozen(&pixels, crate::model::FrozenPart::Whole).unwrap();
    let queries = queries.flatten_all().unwrap().to_vec1().unwrap();
    let brought = Batch::Queried { inputs: Box::new(images.inputs().clone()), queries };
    let of = |batch: &Batch| {
        model.batch_features(batch, &Device::Cpu).unwrap().to_vec2::<f32>().unwrap()
    };
    let computed = of(images.inputs());
    assert_eq!(of(&brought), computed);
    assert_eq!(model.features(&pixels).unwrap().to_vec2::<f32>().unwrap(), computed);
    assert_ne!(of(&images), computed, "prompts depend on queries");
}
