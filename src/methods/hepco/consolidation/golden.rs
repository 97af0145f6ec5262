//! The losses and gradients of HePCo's server step against independently computed ones.

use candle_core::{Device, Tensor, Var};

use super::generation::{GenerationLoss, GeneratorObjective, Value, adam};
use super::generator::{Generator, GeneratorLinear, GeneratorNorm};
use super::head_distillation::HeadStudent;
use super::models::{ConsolidationTeacher, Model, omega};
use super::prompt_distillation::{DistillationBatch, Student};
use crate::golden::Golden;
use crate::methods::hepco::consolidation::{KlForm, MseGradient, OmegaForm};
use crate::model::ops::ChannelMoments;

const BLOCKS: usize = 5;
const RELEASE: GenerationLoss = GenerationLoss {
    kl: 1.0,
    mse: 0.1,
    gradient: MseGradient::Detached,
    form: KlForm::ClientServer,
};
const CODE: GenerationLoss = GenerationLoss { gradient: MseGradient::Sum, ..RELEASE };
const PAPER: GenerationLoss = GenerationLoss { form: KlForm::ServerClient, ..CODE };

fn tensor(values: Vec<f32>, shape: &[usize]) -> Tensor {
    Tensor::from_vec(values, shape, &Device::Cpu).unwrap()
}

fn filled(golden: &Golden, name: &str, shape: &[usize], scale: f64) -> Tensor {
    tensor(golden.fill(name, shape, scale), shape)
}

fn model(golden: &Golden, name: &str) -> Model {
    let of = |j: usize, what: &str, shape: &[usize], scale| {
        filled(golden, &format!("{name}.{what}.{j}"), shape, scale)
    };
    let prompt = |j| of(j, "prompt", &[6, 4, 48], 0.5).flatten_from(1).unwrap();
    Model {
        keys: (0..BLOCKS).map(|j| of(j, "key", &[6, 48], 1.0)).collect(),
        prompts: (0..BLOCKS).map(prompt).collect(),
        weight: filled(golden, &format!("{name}.head.weight"), &[6, 48], 0.2),
        bias: filled(golden, &format!("{name}.head.bias"), &[6], 0.05),
    }
}

fn generator(golden: &Golden, name: &str) -> Generator {
    let var = |tensor: Tensor| Var::from_tensor(&tensor).unwrap();
    let fill = |part: &str, shape: &[usize], scale| {
        filled(golden, &format!("{name}.{part}"), shape, scale)
    };
    let layer = |part: &str, [outputs, inputs]: [usize; 2]| GeneratorLinear {
        weight: var(fill(
            &format!("{part}.weight"),
            &[outputs, inputs],
            2.0 / (inputs as f64).sqrt(),
        )),
        bias: var(fill(&format!("{part}.bias"), &[outputs], 0.05)),
    };
    let norm = |part: &str, channels: usize| {
        let whole = |what: &str| format!("{name}.{part}.{what}");
        let weight = golden.norm_fill(&whole("weight"), &[channels], 1.0);
        let variance = golden.var_fill(&whole("running_var"), &[channels]);
        GeneratorNorm {
            weight: var(tensor(weight, &[channels])),
            bias: var(fill(&format!("{part}.bias"), &[channels], 0.05)),
            running: ChannelMoments {
                mean: fill(&format!("{part}.running_mean"), &[channels], 0.05),
                variance: tensor(variance, &[channels]),
                rows: 0,
            },
        }
    };
    Generator {
        embedding: var(fill("embed.weight", &[6, 64], 1.0)),
        layers: [layer("fc1", [256, 128]), layer("fc2", [1024, 256]), layer("fc3", [48, 1024])],
        norms: [norm("bn1", 256), norm("bn2", 1024)],
    }
}

struct ConsolidationInputs {
    server: Model,
    clients: Vec<ConsolidationTeacher>,
    previous: Vec<ConsolidationTeacher>,
    labels: Vec<u32>,
    noise: Tensor,
    labels_old: Vec<u32>,
    noise_old: Tensor,
}

/// With clients that count by `omega`, or plainly.
fn inputs(golden: &Golden, plain: bool) -> ConsolidationInputs {
    let rows = |name: &str| golden.i64(name).into_iter().map(|y| y as u32).collect::<Vec<u32>>();
    let counts: Vec<Vec<u32>> = rows("counts").chunks(6).map(<[u32]>::to_vec).collect();
    let normalized = || omega(&counts, OmegaForm::Normalized);
    let weights = if plain { vec![vec![1.0; 6]; 3] } else { normalized() };
    let sum: f32 = normalized().iter().flatten().sum();
    assert!((sum - 1.0).abs() < 1e-6, "invariant 5: {sum}");
    let teacher = |(i, weights)| ConsolidationTeacher {
        model: model(golden, &format!("client{i}")),
        weights,
    };
    let noise = |name: &str| tensor(golden.f32(name), &golden.shape(name));
    ConsolidationInputs {
        server: model(golden, "server"),
        clients: weights.into_iter().enumerate().map(teacher).collect(),
        previous: vec![ConsolidationTeacher {
            model: model(golden, "prev"),
            weights: vec![1.0; 6],
        }],
        labels: rows("labels"),
        noise: noise("noise"),
        labels_old: rows("labels_old"),
        noise_old: noise("noise_old"),
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().unwrap().to_vec1().unwrap()
}

fn scalar(tensor: &Tensor) -> f32 {
    tensor.to_scalar().unwrap()
}

fn check_terms(golden: &Golden, form: &str, total: &Tensor, Value { heads, distance }: Value) {
    golden.assert_close(&format!("{form}.cls"), &[heads.classification]);
    golden.assert_close(&format!("{form}.kl"), &[heads.divergence]);
    golden.assert_close(&format!("{form}.mse"), &[distance]);
    golden.assert_close(&format!("{form}.total"), &[scalar(total)]);
}

#[test]
fn golden_hepco_generator_as_in_the_release() {
    generator_training("release", RELEASE);
}

#[test]
fn golden_hepco_generator_with_a_live_gradient_on_sums() {
    generator_training("code", CODE);
}

/// Gradients and losses of this form; values of the first step are those of both.
fn generator_training(form: &str, loss: GenerationLoss) {
    let Some(golden) = Golden::open("hepco") else { return };
    let i = inputs(&golden, false);
    let objective = GeneratorObjective::new(&i.server, &i.clients, loss).unwrap();
    let mut generator = generator(&golden, "gen_new");
    let mut optimizer = adam(1e-4).over(generator.vars());
    let mut trajectory = Vec::new();
    for step in 0..6 {
        let z = generator.train(&i.labels, &i.noise).unwrap();
        let (total, value) = objective.value(&z, &i.labels).unwrap();
        trajectory.push(scalar(&total));
        let gradients = total.backward().unwrap();
        if step == 0 {
            golden.assert_close("z", &values(&z));
            let running = &generator.norms[0].running;
            golden.assert_close("code.bn1.running_mean", &values(&running.mean));
            golden.assert_close("code.bn1.running_var", &values(&running.variance));
            check_terms(&golden, "code", &total, value);
            let of = |var: &Var| values(gradients.get(var).unwrap());
            let first = of(&generator.layers[0].weight);
            golden.assert_close(&format!("{form}.grad.fc1.weight"), &first);
            golden.assert_close(&format!("{form}.grad.embed.weight"), &of(&generator.embedding));
            golden.assert_close(&format!("{form}.grad.fc3.bias"), &of(&generator.layers[2].bias));
        }
        optimizer.step(&gradients, 1e-4, 1.0).unwrap();
    }
    golden.assert_close(&format!("{form}.trajectory"), &trajectory);
}

#[test]
fn golden_hepco_generator_as_in_the_paper() {
    let Some(golden) = Golden::open("hepco") else { return };
    let i = inputs(&golden, true);
    let objective = GeneratorObjective::new(&i.server, &i.clients, PAPER).unwrap();
    let mut generator = generator(&golden, "gen_new");
    let z = generator.train(&i.labels, &i.noise).unwrap();
    let (total, value) = objective.value(&z, &i.labels).unwrap();
    check_terms(&golden, "paper", &total, value);
    let gradients = total.backward().unwrap();
    let first = gradients.get(&generator.layers[0].weight).unwrap().narrow(0, 0, 8).unwrap();
    golden.assert_close("paper.grad.fc1.weight.rows8", &values(&first));
}

#[test]
fn golden_hepco_generator_of_old_classes() {
    let Some(golden) = Golden::open("hepco") else { return };
    let i = inputs(&golden, false);
    let objective = GeneratorObjective::new(&i.server, &i.previous, CODE).unwrap();
    let z = generator(&golden, "gen_old").train(&i.labels_old, &i.noise_old).unwrap();
    golden.assert_close("old.total", &[scalar(&objective.value(&z, &i.labels_old).unwrap().0)]);
}

#[test]
fn golden_hepco_distillation() {
    let Some(golden) = Golden::open("hepco") else { return };
    let of = |name: &str, labels: &[u32], noise: &Tensor| {
        generator(&golden, name).generate(labels, noise).unwrap()
    };
    for plain in [false, true] {
        let i = inputs(&golden, plain);
        let z = of("gen_new", &i.labels, &i.noise);
        let z_old = of("gen_old", &i.labels_old, &i.noise_old);
        golden.assert_close("distill.z", &values(&z));
        golden.assert_close("distill.z_old", &values(&z_old));
        let all = Tensor::cat(&[&z, &z_old], 0).unwrap();
        let all_labels = [i.labels.clone(), i.labels_old.clone()].concat();
        let (queries, labels) =
            if plain { (all.clone(), all_labels.clone()) } else { (z, i.labels.clone()) };
        let batches = [
            DistillationBatch { queries, labels, teachers: &i.clients },
            DistillationBatch {
                queries: z_old,
                labels: i.labels_old.clone(),
                teachers: &i.previous,
            },
        ];
        let mut student = Student::new(&i.server).unwrap();
        let (loss, by_keys) = student.gradients(&batches).unwrap();
        if plain {
            golden.assert_close("distill.paper", &[loss]);
            continue;
        }
        golden.assert_close("distill.code", &[loss]);
        golden.assert_close("distill.grad_prompt", &student.by_prompts.concat());
        golden.assert_close("distill.grad_key", &by_keys.concat());
        let head = HeadStudent::new(&i.server).unwrap();
        let loss = head.loss(&all, &all_labels).unwrap();
        golden.assert_close("head.loss", &[scalar(&loss)]);
        let gradients = loss.backward().unwrap();
        golden.assert_close("head.grad.weight", &values(gradients.get(&head.weight).unwrap()));
        golden.assert_close("head.grad.bias", &values(gradients.get(&head.bias).unwrap()));
    }
}
