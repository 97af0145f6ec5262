//! Golden vectors of the generator's loss, and what a synthesis keeps.

use super::*;
use crate::golden::Golden;
use crate::learning::inversion::golden::GoldenNetwork;
use crate::methods::image_synthesis::testing::{
    agreement, assert_part, generator, on_digits, small_resnet, windows,
};
use crate::methods::lander::Lander;
use crate::methods::parts::ModelAdaptation;
use crate::model::generator::golden::fill;
use crate::model::{Backbone, PixelShape};
use crate::numerics::streams::Domain;

/// The generator of the vectors, with formula weights.
fn lander(golden: &Golden) -> LanderGenerator {
    let named = |name: &str| format!("gen.lander.{name}");
    let noise = LabelNoise::new((12, 20), (6, 2), &Device::Cpu).unwrap();
    for (name, variable) in noise.variables() {
        let shape = variable.dims().to_vec();
        let chirp = crate::golden::Wave::Chirp;
        let values = match name.ends_with(".weight") && name.starts_with("le1") {
            true => golden.map_wave(chirp, &named(name), &shape, |w| w),
            false => fill(golden, &named(name), &shape),
        };
        variable.set(&Tensor::from_vec(values, shape, &Device::Cpu).unwrap()).unwrap();
    }
    LanderGenerator {
        noise,
        images: generator(golden, "lander"),
        pixels: PixelNorm::new(&[PIXELS; 3], &Device::Cpu).unwrap(),
        crop: CropFlip { padding: 4, flip: 0.5 },
    }
}

fn anchors(golden: &Golden) -> Anchors {
    let values = golden.f32("embedding");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.csv");
    let line = |row: &[f32]| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",");
    std::fs::write(&path, values.chunks(12).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    let table = super::super::LabelEmbeddings::read(&path, 6, 12).unwrap();
    Anchors { table, order: (0..6).collect(), radius: 0.015, weight: 5.0 }
}

fn variable(generator: &LanderGenerator, name: &str) -> Var {
    let mut all = generator.images.variables().iter().chain(generator.noise.variables());
    all.find(|(own, _)| &**own == name).expect("a variable").1.clone()
}

#[test]
fn golden_images_of_label_embeddings() {
    let Some(golden) = Golden::open("inversion") else { return };
    let (generator, anchors) = (lander(&golden), anchors(&golden));
    let labels = golden.labels("targets");
    let embeddings = Tensor::from_vec(anchors.of(&labels), (6, 12), &Device::Cpu).unwrap();
    let (images, _) = generator.forward(&embeddings, &windows(&golden)).unwrap();
    golden.assert_tensor("lander.image", &images);
    let chirp = crate::golden::Wave::Chirp;
    let direction = golden.map_wave(chirp, "gen.lander.direction", &[6, 3, 12, 12], |w| w);
    let direction = Tensor::from_vec(direction, (6, 3, 12, 12), &Device::Cpu).unwrap();
    let gradients = (images * direction).unwrap().sum_all().unwrap().backward().unwrap();
    check(&golden, "lander.direction", &generator, &gradients);
}

fn check(
    golden: &Golden,
    name: &str,
    generator: &LanderGenerator,
    gradients: &candle_core::backprop::GradStore,
) {
    for (part, rows) in [
        ("n1.weight", None),
        ("le1.0.weight", None),
        ("le1.2.bias", None),
        ("l1.weight", Some(24)),
        ("conv2.weight", Some(4)),
        ("conv3.weight", None),
    ] {
        let gradient = gradients.get(&variable(generator, part)).expect("a gradient");
        assert_part(golden, &format!("{name}.grad.{part}"), rows, gradient);
    }
}

/// The bound on given images, and the same within a wide radius.
#[test]
fn golden_bound_of_given_images() {
    let Some(golden) = Golden::open("inversion") else { return };
    let (network, mut anchors) = (GoldenNetwork::anchored(&golden), anchors(&golden));
    let (x, labels) = (golden.variable("x"), golden.labels("targets"));
    let (features, _) = network.features(&x);
    let bound = anchors.bound(&features, &labels, 1.0).unwrap();
    golden.assert_tensor("lander.bound", &bound);
    let gradients = bound.backward().unwrap();
    golden.assert_tensor("lander.bound.grad_x", gradients.get(&x).expect("a gradient"));
    anchors.radius = 100.0;
    golden.assert_tensor("lander.bound_off", &anchors.bound(&features, &labels, 1.0).unwrap());
}

/// All terms of the loss, its gradients, and three steps of Adam on all that learns.
#[test]
fn golden_loss_and_steps_of_the_generator() {
    let Some(golden) = Golden::open("inversion") else { return };
    let (generator, anchors) = (lander(&golden), anchors(&golden));
    let teacher = GoldenNetwork::anchored(&golden);
    let student = GoldenNetwork::new(&golden, "student", false);
    let labels = golden.labels("targets");
    let embeddings = Tensor::from_vec(anchors.of(&labels), (6, 12), &Device::Cpu).unwrap();
    let windows = windows(&golden);
    let mut agree = Vec::new();
    let mut loss = || {
        let (_, seen) = generator.forward(&embeddings, &windows).unwrap();
        let (mapped, norms) = teacher.features(&seen);
        let scores = teacher.scores(&mapped);
        let other = student.scores(&student.features(&seen).0);
        let known =
            SeenImages { scores: &scores, mapped: &mapped, norms: &norms, student: Some(&other) };
        if agree.is_empty() {
            agree = agreement(&scores, &other);
        }
        let parts = terms(&known, &labels, &mut SmoothedMoments::new(0.9), &anchors).unwrap();
        let total = weighted(&parts, [1.0, 0.5, 1.0, anchors.weight]).unwrap();
        (parts, total)
    };
    let (parts, total) = loss();
    let parts: Vec<f32> = parts.iter().map(|part| part.to_scalar().unwrap()).collect();
    golden.assert_close("lander.parts", &parts);
    golden.assert_tensor("lander.total", &total);
    let gradients = total.backward().unwrap();
    check(&golden, "lander.total", &generator, &gradients);
    let of = |var: &Var| gradients.get(var).expect("a gradient").clone();
    golden.assert_tensor("lander.total.grad.mean", &of(&generator.pixels.mean));
    golden.assert_tensor("lander.total.grad.std", &of(&generator.pixels.deviation));
    let mut optimizer = generator.optimizer(2e-3, 1e-2);
    let mut totals = Vec::new();
    for _ in 0..3 {
        let (_, total) = loss();
        totals.push(total.to_scalar::<f32>().unwrap());
        optimizer.step(&total.backward().unwrap(), 2e-3, 1.0).unwrap();
    }
    totals.push(loss().1.to_scalar::<f32>().unwrap());
    golden.assert_close("lander.trajectory", &totals);
    golden.assert_tensor("lander.mean_after", generator.pixels.mean.as_tensor());
    golden.assert_tensor("lander.std_after", generator.pixels.deviation.as_tensor());
    assert_eq!(agree, golden.i64("lander.agree"));
}

/// LANDER card, invariant 3.
#[test]
fn every_class_is_generated_equally_often() {
    let key = StreamKey::new(1, Domain::Method);
    let labels = balanced_labels(100, 256, key);
    let of = |labels: &[u32], class| labels.iter().filter(|label| **label == class).count();
    assert_eq!(labels.len(), 256);
    assert!((0..100).all(|class| of(&labels[..200], class) == 2));
    assert!(labels[200..].iter().all(|label| *label < 100));
    assert_ne!(labels[200..], balanced_labels(100, 256, key.step(1))[200..]);
    assert_eq!(balanced_labels(3, 6, key), [0, 1, 2, 0, 1, 2]);
    assert_eq!(balanced_labels(9, 4, key).len(), 4);
}

/// Mean and deviation of the pixels themselves: zeros and ones.
#[test]
fn pixels_are_normalized_by_channel() {
    let pixels = PixelNorm::new(&[PIXELS; 2], &Device::Cpu).unwrap();
    let images = Tensor::new(&[[[[0.5f32, 0.7]], [[0.3, 0.5]]]], &Device::Cpu).unwrap();
    pixels.deviation.set(&Tensor::new(&[0.2f32, 0.1], &Device::Cpu).unwrap()).unwrap();
    let seen = pixels.apply(&images).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    for (got, wanted) in seen.iter().zip([0.0, 1.0, -2.0, 0.0]) {
        assert!((got - wanted).abs() < 1e-5, "{seen:?}");
    }
}

/// As the samples are normalized, and none of it learns.
#[test]
fn the_samples_normalization_may_be_kept() {
    let channels = [(0.3f32, 0.4f32)];
    let pixels = PixelNorm::new(&channels, &Device::Cpu).unwrap();
    let images = Tensor::new(&[[[[0.3f32, 0.7]]]], &Device::Cpu).unwrap();
    let seen = pixels.apply(&images).unwrap().flatten_all().unwrap().to_vec1::<f32>().unwrap();
    assert!(seen[0].abs() < 1e-6 && (seen[1] - 1.0).abs() < 1e-6, "{seen:?}");
    let of = |normalization, rate: f64| {
        run(move |method| {
            (method.image_normalization, method.normalization_lr) = (normalization, rate);
        })
        .0
    };
    let (data, learned) = (ImageNormalization::Data, ImageNormalization::Learned);
    assert_eq!(of(data, 0.0), of(data, 1.0), "its rate has no effect");
    assert_ne!(of(data, 0.0), of(learned, 0.0), "digits are not normalized by default");
}

/// A small network on digits, and a synthesis of a few calls for it.
fn run(change: impl Fn(&mut Lander)) -> (ImagePool, ParameterSet) {
    let mut method = Lander { embedding_width: 12, ..Lander::default() };
    (method.synthesis_rounds, method.warmup, method.noise_block) = (3, 2, 3);
    method.replayed_images = 100;
    let synthesis = &mut method.synthesis;
    (synthesis.batch, synthesis.steps) = (8, 3);
    (synthesis.width, synthesis.latent) = (4, 6);
    (synthesis.student_steps, synthesis.student_batch, synthesis.padding) = (2, 4, 1);
    change(&mut method);
    let key = StreamKey::new(3, Domain::Init);
    let ctx = on_digits(small_resnet(key).0, 1);
    let model = ctx.facts(2);
    let theta = method.initial(&model, &ctx, key).unwrap();
    let (anchors, before) = (method.anchors(&ctx).unwrap(), theta.digest());
    let synthesis = Synthesis {
        method: &method,
        anchors: &anchors,
        model: &model,
        ctx: &ctx,
        key: key.domain(Domain::Method),
    };
    let pool = synthesis.run(&theta, 5).unwrap();
    assert_eq!(theta.digest(), before);
    (pool, theta)
}

/// LANDER card, invariant 4: calls after the warm-up, and the warm-up's last one.
#[test]
fn a_synthesis_keeps_its_images_and_repeats() {
    let (pool, _) = run(|_| ());
    assert_eq!((pool.len(), pool.bytes().len()), (4 * 8, 4 * 8 * 64));
    assert_eq!(pool, run(|_| ()).0);
    assert!(pool.bytes().iter().any(|byte| *byte != pool.bytes()[0]));
}

/// Every weight and key that acts on images changes them.
#[test]
fn settings_of_a_synthesis_act() {
    let changes: [fn(&mut Lander); 13] = [
        |_| (),
        |method| method.synthesis.statistics = 0.0,
        |method| method.synthesis.momentum = 0.0,
        |method| method.synthesis.labels = 0.0,
        |method| method.synthesis.adversarial = 0.0,
        |method| method.synthesis.student_rate = 0.0,
        |method| method.anchor_weight = 0.0,
        |method| method.radius = 1e6,
        |method| method.normalization_lr = 0.0,
        |method| method.synthesis.rate = 1e-4,
        |method| method.synthesis.flip = 0.0,
        |method| method.noise_block = 8,
        |method| method.image_normalization = super::super::ImageNormalization::Data,
    ];
    let pools: Vec<Vec<u8>> = changes.iter().map(|change| run(change).0.bytes().to_vec()).collect();
    for (at, pool) in pools.iter().enumerate().skip(1) {
        assert!(*pool != pools[0], "change {at}");
    }
}

/// The step of the lowest loss is kept: with a rate that spoils the generator it is the first one.
#[test]
fn the_images_of_the_lowest_loss_are_kept() {
    let of = |steps, rate| {
        run(move |method| {
            (method.synthesis_rounds, method.warmup) = (1, 0);
            method.normalization_lr = 0.0;
            let synthesis = &mut method.synthesis;
            (synthesis.steps, synthesis.rate) = (steps, rate);
            (synthesis.padding, synthesis.flip) = (0, 0.0);
        })
        .0
    };
    assert_eq!(of(1, 1e-3), of(6, 1e4), "no later step is better");
    assert_ne!(of(1, 1e-3), of(6, 1e-2), "here a later step is");
}

#[test]
fn other_orders_of_classes_have_other_anchors() {
    let pixels = PixelShape { channels: 1, image: 8 };
    let ctx_of = |seed| on_digits(Backbone::Pixels(pixels), seed);
    let method = Lander { embedding_width: 12, ..Lander::default() };
    let (one, other) = (ctx_of(1), ctx_of(2));
    let class = one.task_sequence.order[0];
    let row = other.task_sequence.row_of(class);
    let (a, b) = (method.anchors(&one).unwrap(), method.anchors(&other).unwrap());
    assert_eq!(a.of(&[0]), b.of(&[row]));
}
