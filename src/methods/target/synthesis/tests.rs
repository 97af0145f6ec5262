//! Golden vectors of the generator's loss and its steps, and what a synthesis leaves.

use candle_core::Device;

use super::*;
use crate::data::{Normalization, Transform};
use crate::golden::Golden;
use crate::learning::inversion::golden::GoldenNetwork;
use crate::methods::image_synthesis::testing::{
    agreement, assert_part, generator, on_digits, small_resnet, windows,
};
use crate::methods::parts::AveragingMethod;
use crate::model::HeadStart;
use crate::numerics::streams::Domain;

/// Mean and deviation of the vectors: CIFAR-100's as the release has them.
const CHANNELS: [(f32, f32); 3] = [(0.5071, 0.2675), (0.4867, 0.2565), (0.4408, 0.2761)];

/// The generator of the vectors with formula weights, and its noise.
fn copy<'a>(golden: &Golden, norm: &'a ChannelScales) -> GeneratorCopy<'a> {
    GeneratorCopy {
        images: generator(golden, "target"),
        noise: golden.variable("z"),
        crop: CropFlip { padding: 4, flip: 0.5 },
        norm,
    }
}

fn variable(copy: &GeneratorCopy<'_>, name: &str) -> Var {
    let mut all = copy.images.variables().iter();
    all.find(|(own, _)| &**own == name).expect("a variable").1.clone()
}

#[test]
fn golden_images_and_what_the_model_sees() {
    let Some(golden) = Golden::open("inversion") else { return };
    let norm = ChannelScales::new(&CHANNELS, &Device::Cpu).unwrap();
    let copy = copy(&golden, &norm);
    let (images, seen) = copy.forward(&windows(&golden)).unwrap();
    golden.assert_tensor("target.image", &images);
    golden.assert_tensor("target.augmented", &seen);
    let chirp = crate::golden::Wave::Chirp;
    let direction = golden.map_wave(chirp, "gen.target.direction", &[6, 3, 12, 12], |w| w);
    let direction = Tensor::from_vec(direction, (6, 3, 12, 12), &Device::Cpu).unwrap();
    let gradients = (images * direction).unwrap().sum_all().unwrap().backward().unwrap();
    for (part, rows) in [
        ("bn2.bias", None),
        ("conv1.weight", Some(4)),
        ("conv3.bias", None),
        ("l1.weight", Some(24)),
    ] {
        let gradient = gradients.get(&variable(&copy, part)).expect("a gradient");
        assert_part(&golden, &format!("target.direction.grad.{part}"), rows, gradient);
    }
}

/// The adversarial term on given images.
#[test]
fn golden_divergence_of_given_images() {
    let Some(golden) = Golden::open("inversion") else { return };
    let (teacher, student) = (
        GoldenNetwork::new(&golden, "teacher", false),
        GoldenNetwork::new(&golden, "student", false),
    );
    let x = golden.variable("x");
    let scores = |network: &GoldenNetwork| network.scores(&network.features(&x).0);
    let (f, s) = (scores(&teacher), scores(&student));
    assert_eq!(agreement(&f, &s), golden.i64("target.adv.agree"));
    let term = adversarial(&f, &s).unwrap();
    golden.assert_tensor("target.adv", &term);
    let gradients = term.backward().unwrap();
    golden.assert_tensor("target.adv.grad_x", gradients.get(&x).expect("a gradient"));
}

/// Terms, their weighted sum and its gradients; three steps of Adam and their gradients.
#[test]
fn golden_loss_steps_and_meta_gradient() {
    let Some(golden) = Golden::open("inversion") else { return };
    let norm = ChannelScales::new(&CHANNELS, &Device::Cpu).unwrap();
    let copy = copy(&golden, &norm);
    let (teacher, student) = (
        GoldenNetwork::new(&golden, "teacher", false),
        GoldenNetwork::new(&golden, "student", false),
    );
    let (labels, windows) = (golden.labels("targets"), windows(&golden));
    let mut agree = Vec::new();
    let mut loss = || {
        let (_, seen) = copy.forward(&windows).unwrap();
        let (features, norms) = teacher.features(&seen);
        let (scores, other) =
            (teacher.scores(&features), student.scores(&student.features(&seen).0));
        if agree.is_empty() {
            agree = agreement(&scores, &other);
        }
        let known = GeneratorAnswers { scores: &scores, norms: &norms, student: Some(&other) };
        let parts = terms(&known, &labels, &mut SmoothedMoments::new(0.9)).unwrap();
        let weighted = [0.5, 10.0, 1.0].iter().zip(&parts).map(|(w, part)| (part * *w).unwrap());
        let total = weighted.reduce(|a, b| (a + b).unwrap()).expect("terms");
        (parts, total)
    };
    let (parts, total) = loss();
    let parts: Vec<f32> = parts.iter().map(|part| part.to_scalar().unwrap()).collect();
    golden.assert_close("target.parts", &parts);
    golden.assert_tensor("target.total", &total);
    let gradients = total.backward().unwrap();
    golden.assert_tensor("target.total.grad.z", gradients.get(&copy.noise).expect("a gradient"));
    for (part, rows) in [
        ("bn2.bias", None),
        ("conv1.weight", Some(4)),
        ("conv3.bias", None),
        ("conv3.weight", None),
        ("l1.weight", Some(24)),
    ] {
        let gradient = gradients.get(&variable(&copy, part)).expect("a gradient");
        assert_part(&golden, &format!("target.total.grad.{part}"), rows, gradient);
    }
    let mut optimizer = copy.optimizer(2e-3, 1e-2);
    let mut meta = MetaGradient::new(MetaStep::Fomaml, &copy.images.vars());
    let mut totals = Vec::new();
    for _ in 0..3 {
        let (_, total) = loss();
        totals.push(total.to_scalar::<f32>().unwrap());
        let gradients = total.backward().unwrap();
        meta.add(&gradients, &copy.images.vars()).unwrap();
        optimizer.step(&gradients, 2e-3, 1.0).unwrap();
    }
    totals.push(loss().1.to_scalar::<f32>().unwrap());
    golden.assert_close("target.trajectory", &totals);
    golden.assert_tensor("target.z_after", copy.noise.as_tensor());
    let sums = meta.finish(&copy.images.vars(), &copy.images.vars()).unwrap();
    for (part, rows) in [("bn1.weight", None), ("conv2.weight", Some(4)), ("conv3.weight", None)] {
        let place = copy.images.variables().iter().position(|(own, _)| &**own == part);
        let place = place.expect("a variable");
        let shape = copy.images.vars()[place].shape().clone();
        let sum = Tensor::from_vec(sums[place].clone(), shape, &Device::Cpu).unwrap();
        assert_part(&golden, &format!("target.meta.{part}"), rows, &sum);
    }
    assert_eq!(agree, golden.i64("target.agree"));
}

/// The way from the copy back to the generator, times 67.
#[test]
fn reptile_points_from_the_copy_to_the_generator() {
    let var = |values: &[f32]| Var::from_slice(values, values.len(), &Device::Cpu).unwrap();
    let (own, copy) = ([var(&[1.0, 2.0])], [var(&[0.5, 4.0])]);
    let loss = copy[0].sum_all().unwrap();
    let mut meta = MetaGradient::new(MetaStep::Reptile, &own);
    meta.add(&loss.backward().unwrap(), &copy).unwrap();
    assert_eq!(meta.finish(&own, &copy).unwrap(), [[33.5, -134.0]]);
    let mut sum = MetaGradient::new(MetaStep::Fomaml, &own);
    for _ in 0..2 {
        sum.add(&loss.backward().unwrap(), &copy).unwrap();
    }
    assert_eq!(sum.finish(&own, &copy).unwrap(), [[2.0, 2.0]]);
}

#[test]
fn labels_are_drawn_among_all_classes() {
    let key = StreamKey::new(1, Domain::Method);
    let labels = drawn_labels(5, 500, key);
    let count = |class| labels.iter().filter(|label| **label == class).count();
    assert!((0..5).all(|class| (70..130).contains(&count(class))));
    assert_eq!(labels, drawn_labels(5, 500, key));
    assert_ne!(labels, drawn_labels(5, 500, key.step(1)));
}

/// A small network on digits, and a synthesis of a few calls for it.
fn run(change: impl Fn(&mut TargetMethod)) -> ImagePool {
    let mut method = TargetMethod { synthesis_rounds: 3, warmup: 1, ..TargetMethod::default() };
    let synthesis = &mut method.synthesis;
    (synthesis.batch, synthesis.steps, synthesis.padding) = (8, 4, 1);
    synthesis.adversarial = 4.0;
    (synthesis.width, synthesis.latent) = (4, 6);
    (synthesis.student_steps, synthesis.student_batch) = (2, 4);
    change(&mut method);
    let key = StreamKey::new(3, Domain::Init);
    let (network, set) = small_resnet(key);
    let mut ctx = on_digits(network, 1);
    let head = HeadStart::Uniform.parameters(10, ctx.backbone.config().dim(), key);
    let theta = set.merge(&head);
    let normalization = Normalization::Explicit { mean: vec![0.3], deviation: vec![0.4] };
    ctx.train_transform = Transform { normalization, ..Transform::default() }.into();
    let model = ctx.facts(2);
    let before = theta.digest();
    assert!(method.parts().previous_model.is_some());
    let key = key.domain(Domain::Method);
    let pool =
        TargetSynthesis { method: &method, model: &model, ctx: &ctx, key }.run(&theta, 5).unwrap();
    assert_eq!(theta.digest(), before);
    pool
}

/// TARGET card, invariants 4 and 6: a batch for every call, of pixels that are not all alike.
#[test]
fn a_synthesis_leaves_its_images_and_repeats() {
    let pool = run(|_| ());
    assert_eq!((pool.len(), pool.bytes().len()), (24, 24 * 64));
    assert_eq!(pool, run(|_| ()));
    assert!(pool.bytes().iter().any(|byte| *byte != pool.bytes()[0]));
    assert_eq!(run(|method| method.replayed_images = 5).len(), 5);
}

/// Every weight and key that acts on images changes them.
#[test]
fn settings_of_a_synthesis_act() {
    let changes: [fn(&mut TargetMethod); 16] = [
        |_| (),
        |method| method.synthesis.statistics = 0.0,
        |method| method.synthesis.momentum = 0.0,
        |method| method.synthesis.labels = 0.0,
        |method| method.synthesis.adversarial = 0.0,
        |method| method.synthesis.student_rate = 0.0,
        |method| method.synthesis.rate = 1e-4,
        |method| method.synthesis.flip = 0.0,
        |method| method.synthesis.padding = 0,
        |method| method.latent_lr = 0.0,
        |method| method.meta = MetaStep::Reptile,
        |method| method.label_range = super::super::LabelRange::ButLast,
        |method| method.answer_rows = AnswerRows::All,
        |method| method.student_clip = 1e-3,
        |method| method.warmup = 2,
        |method| method.synthesis.temperature = 1.0,
    ];
    let pools: Vec<Vec<u8>> = changes.iter().map(|change| run(change).bytes().to_vec()).collect();
    for (at, pool) in pools.iter().enumerate().skip(1) {
        assert!(*pool != pools[0], "change {at}");
    }
}

/// The step of the lowest loss is kept: with a rate that spoils the copy it is the first one.
#[test]
fn the_images_of_the_lowest_loss_are_kept() {
    let of = |steps, rate| {
        run(move |method| {
            (method.synthesis_rounds, method.warmup, method.latent_lr) = (1, 9, 0.0);
            let synthesis = &mut method.synthesis;
            (synthesis.steps, synthesis.rate) = (steps, rate);
            (synthesis.padding, synthesis.flip) = (0, 0.0);
        })
    };
    assert_eq!(of(1, 1e-3), of(6, 1e4), "no later step is better");
    assert_ne!(of(1, 1e-3), of(6, 1e-2), "here a later step is");
}

/// The first call's copy starts as the generator does, later ones where its steps led.
#[test]
fn the_generator_goes_on_from_call_to_call() {
    let of = |calls, meta| {
        run(move |method| (method.synthesis_rounds, method.warmup, method.meta) = (calls, 9, meta))
    };
    let (one, two) = (of(1, MetaStep::Fomaml), of(2, MetaStep::Fomaml));
    assert_eq!(one.len(), 8);
    assert!(two.bytes() != of(2, MetaStep::Reptile).bytes());
    assert_eq!(one, of(1, MetaStep::Reptile), "in the first call it has not moved");
}
