//! Golden vectors of L2P, DualPrompt and CODA-Prompt: outputs, losses and gradients.

use std::sync::Arc;

use candle_core::Tensor;

use super::*;
use crate::data::Batch;
use crate::golden::Golden;
use crate::learning::{Classifier, PackBatch};
use crate::model::ops::SampleGroups;
use crate::model::vit::golden::small_vit;
use crate::model::{
    Backbone, FrozenPart, Parameter, ParameterSet, Pooling, PromptPosition, testing,
};

const CLASSES: usize = 10;
const DIM: usize = 48;

/// The file of a method, and the images and the network that it shares with others.
struct GoldenSetting {
    golden: Golden,
    images: Golden,
    backbone: Arc<Backbone>,
    received: ParameterSet,
}

impl GoldenSetting {
    fn open(file: &str) -> Option<GoldenSetting> {
        let (golden, images) = (Golden::open(file)?, Golden::open("vit_tokens")?);
        let backbone = Arc::new(Backbone::from(small_vit(&images)));
        let mut received = ParameterSet::new();
        let weight = images.fill("head.weight", &[CLASSES, DIM], 0.2);
        received.insert("head.weight", parameter(&[CLASSES, DIM], weight));
        let bias = images.fill("head.bias", &[CLASSES], 0.05);
        received.insert("head.bias", parameter(&[CLASSES], bias));
        Some(GoldenSetting { golden, images, backbone, received })
    }

    fn with(&mut self, name: &str, shape: &[usize], values: Vec<f32>) {
        self.received.insert(name, parameter(shape, values));
    }

    fn batch(&self) -> Batch {
        let labels: Vec<u32> = self.images.i64("labels").into_iter().map(|y| y as u32).collect();
        let samples = (0..labels.len() as u32).collect();
        let shape = [labels.len(), 3, 32, 32];
        Batch::Images { pixels: self.images.f32("x"), shape, labels, samples }
    }

    fn queries(&self) -> Tensor {
        let pixels = self.batch().pixels(&testing::device()).unwrap();
        self.backbone.frozen(&pixels, FrozenPart::Whole).unwrap()
    }

    /// Trains a step on the whole batch with rows [4, 8): loss, features, and the gradient of each variable.
    fn learn(&self, prompting: impl Prompting + 'static) -> GoldenStep {
        let received = vec![self.received.clone()];
        let prompting: Arc<dyn Prompting> = Arc::new(prompting);
        let model = Classifier::pack_with(&self.backbone, received, 4..8, Some(prompting)).unwrap();
        let batch = self.batch();
        let groups = SampleGroups::one(batch.len());
        let step = PackBatch { batch, groups, steps: vec![0] };
        let outputs = model.pack_outputs(&step, &testing::device(), None).unwrap();
        let grads = outputs.losses.sum_all().unwrap().backward().unwrap();
        let gradient = |(name, variable): &(Arc<str>, candle_core::Var)| {
            (name.to_string(), flat(grads.get(variable).expect("a gradient")))
        };
        let gradients = model.variables().iter().map(gradient).collect();
        GoldenStep { loss: flat(&outputs.losses)[0], features: outputs.features, gradients }
    }

    /// Logits of all ten rows.
    fn logits(&self, features: &Tensor) -> Vec<f32> {
        let head =
            Classifier::frozen(&self.backbone, &self.received.filter(|n| n.starts_with("head")));
        flat(&head.unwrap().logits(features).unwrap())
    }

    fn check_head(&self, step: &GoldenStep) {
        let padded = |name: &str, width: usize| {
            let mut all = vec![0f32; CLASSES * width];
            all[4 * width..8 * width].copy_from_slice(&step.gradients[name]);
            all
        };
        self.golden.assert_close("grad_head_weight", &padded("head.weight", DIM));
        self.golden.assert_close("grad_head_bias", &padded("head.bias", 1));
    }
}

struct GoldenStep {
    loss: f32,
    features: Tensor,
    gradients: BTreeMap<String, Vec<f32>>,
}

fn parameter(shape: &[usize], values: Vec<f32>) -> Parameter {
    Parameter { shape: shape.to_vec(), values: values.into() }
}

fn flat(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn pulled(pull: f64) -> SelectedPrompts {
    let position = PromptPosition::ClsCopy;
    SelectedPrompts { top: 2, length: 3, pull, position, pooling: Pooling::ClsAndPrompts }
}

#[test]
fn golden_l2p() {
    let Some(mut setting) = GoldenSetting::open("l2p") else { return };
    let pool = setting.golden.fill("pool", &[5, 3, DIM], 0.5);
    setting.with(POOL, &[5, 3, DIM], pool);
    let keys = setting.golden.fill("keys", &[5, DIM], 1.0);
    setting.with(KEYS, &[5, DIM], keys);
    let golden = &setting.golden;

    let keys = setting.received.get(KEYS).unwrap().tensor(&testing::device()).unwrap();
    let similar = crate::model::prompts::cosines(&setting.queries(), &keys).unwrap();
    golden.assert_close("sim", &flat(&similar));
    let chosen = crate::model::prompts::selection(&similar, 2).unwrap().concat();
    golden.assert_close("selected", &chosen);

    let step = setting.learn(pulled(0.1));
    golden.assert_close("loss", &[step.loss]);
    golden.assert_close("pooled", &flat(&step.features));
    golden.assert_close("logits", &setting.logits(&step.features));
    golden.assert_close("grad_pool", &step.gradients[POOL]);
    golden.assert_close("grad_keys", &step.gradients[KEYS]);
    setting.check_head(&step);

    // Without the pull term keys are constants, and nothing else changes.
    let plain = setting.learn(pulled(0.0));
    golden.assert_close("ce", &[plain.loss]);
    golden.assert_within("pull", &[(plain.loss - step.loss) * 10.0], 1e-5);
    assert!(!plain.gradients.contains_key(KEYS));
    assert_eq!(plain.gradients[POOL], step.gradients[POOL]);

    let alone = setting.learn(SelectedPrompts { pooling: Pooling::Prompts, ..pulled(0.0) });
    golden.assert_close("pooled_prompts_only", &flat(&alone.features));

    let offsets = setting.images.fill("offsets", &[1, 6, DIM], 0.02);
    let offsets = Tensor::from_vec(offsets, (6, DIM), &testing::device()).unwrap();
    let position = PromptPosition::Misordered(offsets);
    let step = setting.learn(SelectedPrompts { position, ..pulled(0.0) });
    golden.assert_close("misordered.pooled", &flat(&step.features));
    golden.assert_close("misordered.ce", &[step.loss]);
    golden.assert_close("misordered.grad_pool", &step.gradients[POOL]);
}

/// `(blocks, 2, .., length, d)` by block as `(.., 2 length, d)`; the middle axis has `middle` entries.
fn by_block(values: &[f32], blocks: usize, middle: usize, length: usize) -> Vec<Vec<f32>> {
    let shape = (blocks, 2, middle, length * DIM);
    let whole = Tensor::from_slice(values, shape, &testing::device()).unwrap();
    (0..blocks).map(|j| flat(&whole.get(j).unwrap().transpose(0, 1).unwrap())).collect()
}

/// Returns the inverse for gradients, one of `blocks` each.
fn by_kind(gradients: &[&Vec<f32>], middle: usize, length: usize) -> Vec<f32> {
    let of = |values: &&Vec<f32>| {
        let whole = Tensor::from_slice(values, (middle, 2, length * DIM), &testing::device());
        flat(&whole.unwrap().transpose(0, 1).unwrap())
    };
    gradients.iter().flat_map(of).collect()
}

#[test]
fn golden_dualprompt() {
    let Some(mut setting) = GoldenSetting::open("dualprompt") else { return };
    let general = setting.golden.fill("g_prompt", &[2, 2, 3, DIM], 0.5);
    for (block, values) in by_block(&general, 2, 1, 3).into_iter().enumerate() {
        setting.with(&general_name(block), &[6, DIM], values);
    }
    let experts = setting.golden.fill("e_prompt", &[2, 2, 3, 4, DIM], 0.5);
    for (block, values) in by_block(&experts, 2, 3, 4).into_iter().enumerate() {
        setting.with(&expert_name(2 + block), &[3, 8, DIM], values);
    }
    let keys = setting.golden.fill("keys", &[3, DIM], 1.0);
    setting.with(EXPERT_KEYS, &[3, DIM], keys);
    let golden = &setting.golden;

    let given = Experts {
        general: 0..2,
        experts: 2..4,
        expert: Expert::Given(1),
        pull: 1.0,
        layout: ExpertLayout::Own,
    };
    let step = setting.learn(given.clone());
    golden.assert_close("loss", &[step.loss]);
    golden.assert_close("feature", &flat(&step.features));
    golden.assert_close("logits", &setting.logits(&step.features));
    let gradients = |name: fn(usize) -> String, blocks: [usize; 2]| {
        blocks.map(|block| step.gradients[&name(block)].clone())
    };
    let general = gradients(general_name, [0, 1]);
    golden.assert_close("grad_g", &by_kind(&general.each_ref(), 1, 3));
    // Only expert 1 is a variable: the gradient of the others is zero.
    let padded = gradients(expert_name, [2, 3]).map(|own| {
        let zeros = vec![0f32; own.len()];
        [zeros.clone(), own, zeros].concat()
    });
    golden.assert_close("grad_e", &by_kind(&padded.each_ref(), 3, 4));
    let zeros = vec![0f32; DIM];
    let keys = [zeros.clone(), step.gradients[EXPERT_KEYS].clone(), zeros].concat();
    golden.assert_close("grad_keys", &keys);
    setting.check_head(&step);
    golden.assert_close("ce", &[setting.learn(Experts { pull: 0.0, ..given.clone() }).loss]);

    let keys = setting.received.get(EXPERT_KEYS).unwrap().tensor(&testing::device()).unwrap();
    let queries = setting.queries();
    golden.assert_close("sim", &flat(&crate::model::prompts::cosines(&queries, &keys).unwrap()));
    let nearest = Experts { expert: Expert::Nearest(0..3), ..given };
    let chosen = nearest.nearest(&keys, &queries, &(0..3)).unwrap();
    golden.assert_close("selected", &chosen.to_vec1::<u32>().unwrap());
    let model =
        Classifier::frozen_with(&setting.backbone, &setting.received, Some(Arc::new(nearest)));
    let features = model.unwrap().batch_features(&setting.batch(), &testing::device()).unwrap();
    golden.assert_close("infer.feature", &flat(&features));
    golden.assert_close("infer.logits", &setting.logits(&features));
}

#[test]
fn golden_coda() {
    let Some(mut setting) = GoldenSetting::open("coda") else { return };
    let parts = [
        (ComponentPart::Prompt, "p", vec![6, 4, DIM], 0.5),
        (ComponentPart::Key, "k", vec![6, DIM], 1.0),
        (ComponentPart::Attention, "a", vec![6, DIM], 1.0),
    ];
    for (part, short, shape, scale) in &parts {
        for block in 0..3 {
            let values = setting.golden.fill(&format!("{short}.{block}"), shape, *scale);
            setting.with(&part.name(block), shape, values);
        }
    }
    let golden = &setting.golden;
    let plain = Components { blocks: 0..3, used: 4, trained: 2..4, penalty: 0.0, softmax: false };
    let tensors: PromptTensors = (setting.received.iter())
        .map(|(name, p)| (Arc::clone(name), p.tensor(&testing::device()).unwrap()))
        .collect();
    let queries = setting.queries();
    let weights = |of: &Components| -> Vec<f32> {
        (0..3).flat_map(|block| flat(&of.weights(&tensors, block, &queries).unwrap())).collect()
    };
    golden.assert_close("weights", &weights(&plain));
    let soft = Components { softmax: true, ..plain.clone() };
    golden.assert_close("weights_softmax_a", &weights(&soft));
    let prompt = |block| flat(&plain.prompt(&tensors, block, &queries).unwrap());
    golden.assert_close("prompts", &(0..3).flat_map(prompt).collect::<Vec<f32>>());

    let step = setting.learn(plain.clone());
    golden.assert_close("loss", &[step.loss]);
    golden.assert_close("feature", &flat(&step.features));
    golden.assert_close("logits", &setting.logits(&step.features));
    setting.check_head(&step);
    let whole = Components { trained: 0..4, penalty: 1.0, ..plain };
    let penalized = setting.learn(whole.clone());
    let unpenalized = setting.learn(Components { penalty: 0.0, ..whole.clone() });
    let ortho = whole.loss(&tensors, &queries).unwrap().unwrap();
    golden.assert_close("ortho", &flat(&ortho));
    for (part, short, ..) in &parts {
        let of = |step: &GoldenStep| -> Vec<f32> {
            (0..3).flat_map(|block| step.gradients[&part.name(block)].clone()).collect()
        };
        golden.assert_close(&format!("grad_{short}"), &of(&step));
        let pairs = of(&penalized).into_iter().zip(of(&unpenalized));
        let by_penalty: Vec<f32> = pairs.map(|(with, without)| with - without).collect();
        golden.assert_close(&format!("ortho.grad_{short}"), &by_penalty);
    }
}
