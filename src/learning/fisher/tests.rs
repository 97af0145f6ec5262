//! Diagonals of a linear softmax classifier: stored vectors, the closed form, and sums over parts.

use candle_core::Device;

use super::*;
use crate::golden::Golden;
use crate::model::{LinearHead, PixelShape, ResNet, ResNetConfig};
use crate::numerics::streams::{Domain, StreamKey};

const FORMS: [FisherForm; 3] = [FisherForm::Truth, FisherForm::Expected, FisherForm::Empirical];

fn backbone(dim: usize) -> Arc<Backbone> {
    Arc::new(Backbone::Pixels(PixelShape { channels: dim, image: 1 }))
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

/// Returns a linear head of rows of `dim` numbers.
fn head(weight: &[f64], bias: &[f64], dim: usize) -> ParameterSet {
    let parameter =
        |shape: Vec<usize>, values: &[f64]| Parameter { shape, values: narrow(values).into() };
    let weight = parameter(vec![bias.len(), dim], weight);
    let bias = parameter(vec![bias.len()], bias);
    [(LinearHead::WEIGHT, weight), (LinearHead::BIAS, bias)].into_iter().collect()
}

fn samples(features: &[f64], labels: &[u32]) -> Batch {
    Batch::Features {
        values: narrow(features),
        shape: vec![labels.len(), features.len() / labels.len()],
        labels: labels.to_vec(),
        samples: (0..labels.len() as u32).collect(),
    }
}

/// Returns the diagonal over all samples, in batches of `batch`.
fn diagonal(
    head: &ParameterSet,
    rows: Range<usize>,
    form: FisherForm,
    (features, labels): (&[f64], &[u32]),
    batch: usize,
) -> FisherDiagonal {
    let dim = features.len() / labels.len();
    let mut pass = FisherPass::new(&backbone(dim), head, rows, form).unwrap();
    assert!(form == FisherForm::Batches || pass.batch(batch) >= batch);
    for (features, labels) in features.chunks(batch * dim).zip(labels.chunks(batch)) {
        pass.add(samples(features, labels), &Device::Cpu).unwrap();
    }
    pass.finish()
}

fn both(sum: &FisherDiagonal) -> [&[f64]; 2] {
    [LinearHead::WEIGHT, LinearHead::BIAS].map(|name| sum.of(name).unwrap())
}

#[test]
fn golden_fisher_of_clients() {
    let Some(golden) = Golden::open("statistics") else { return };
    let (h, labels, theta) =
        (golden.f64("fisher.h"), golden.labels("fisher.y"), golden.f64("fisher.theta"));
    for (name, form) in [("fisher.F", FisherForm::Truth), ("fisher.full", FisherForm::Expected)] {
        let clients = theta.chunks(20).zip(h.chunks(35)).zip(labels.chunks(7));
        let found = clients.flat_map(|((theta, h), labels)| {
            let sum = diagonal(&head(theta, &[0.0; 4], 5), 0..4, form, (h, labels), 7);
            assert_eq!(sum.terms, 7);
            both(&sum)[0].to_vec()
        });
        golden.assert_close_f32(name, &found.collect::<Vec<f64>>());
    }
}

/// EWC card, invariants 3 and 5: the sums of two clients are those of their data together; every form at every task.
#[test]
fn golden_ewc_fisher_of_tasks() {
    let Some(golden) = Golden::open("ewc") else { return };
    let names = [("truth", FORMS[0]), ("expected", FORMS[1]), ("empirical", FORMS[2])];
    let mut sums = [(); 3].map(|()| [vec![0.0; 30], vec![0.0; 6]]);
    for task in 0..3 {
        let of = |name: &str| golden.f64(&format!("theta{task}.{name}"));
        let theta = head(&of("W"), &of("b"), 5);
        let (h, y) = (golden.f64(&format!("h{task}")), golden.labels(&format!("y{task}")));
        let clients = golden.labels(&format!("client{task}"));
        let shard = |client: u32| -> (Vec<f64>, Vec<u32>) {
            let own = || (0..y.len()).filter(|at| clients[*at] == client);
            (
                own().flat_map(|at| h[5 * at..5 * at + 5].to_vec()).collect(),
                own().map(|at| y[at]).collect(),
            )
        };
        let rows = 2 * task..2 * task + 2;
        for ((name, form), sums) in names.iter().zip(&mut sums) {
            let parts = [0, 1].map(|client| {
                let (h, y) = shard(client);
                diagonal(&theta, rows.clone(), *form, (&h, &y), 64)
            });
            if task == 0 && *form == FisherForm::Truth {
                let each = |at: usize| {
                    parts.iter().flat_map(|part| both(part)[at].to_vec()).collect::<Vec<_>>()
                };
                golden.assert_close_f32("client_F0.W", &each(0));
                golden.assert_close_f32("client_F0.b", &each(1));
            }
            let terms = (parts[0].terms + parts[1].terms) as f64;
            for (at, what) in ["W", "b"].iter().enumerate() {
                let all = both(&parts[0])[at].iter().zip(both(&parts[1])[at]);
                let new: Vec<f64> = all.map(|(a, b)| (a + b) / terms).collect();
                golden.assert_close_f32(&format!("F{task}.{name}.{what}"), &new);
                sums[at].iter_mut().zip(&new).for_each(|(sum, new)| *sum = 0.9 * *sum + new);
                if task > 0 {
                    golden.assert_close_f32(&format!("after{task}.{name}.{what}"), &sums[at]);
                }
            }
        }
        let (h, y) = shard(0);
        let sum = diagonal(&theta, 0..2 * task + 2, FisherForm::Batches, (&h, &y), 4);
        assert_eq!(sum.terms as usize, y.len().div_ceil(4));
        for (clip, name) in [(f64::INFINITY, "batches"), (1e-4, "clipped")] {
            let mean = sum.scaled(1.0 / sum.terms as f64, clip, &theta);
            for (parameter, what) in [(LinearHead::WEIGHT, "W"), (LinearHead::BIAS, "b")] {
                let values = &mean.get(parameter).unwrap().values;
                golden.assert_close_f32(&format!("F{task}.{name}.{what}"), values);
            }
        }
    }
}

fn small() -> (ParameterSet, Vec<f64>, Vec<u32>) {
    let wave = |count: usize, by: f64| {
        (0..count).map(|i| ((i * i) as f64 * by).sin()).collect::<Vec<f64>>()
    };
    (head(&wave(12, 0.7), &wave(4, 0.3), 3), wave(27, 0.37), (0..9).map(|i| 1 + i % 3).collect())
}

/// FisherAVG card, invariant 7, and EWC's 5: `F_{W[c,j]} = p_y (1[y=c] - p_c)^2 h_j^2` for one sample, nothing for rows
/// that do not compete, and the sum over a union of data is that of its parts.
#[test]
fn sums_have_the_closed_form_of_a_linear_softmax() {
    let (theta, h, labels) = small();
    let one = diagonal(&theta, 1..4, FisherForm::Truth, (&h[..3], &labels[..1]), 1);
    let (w, b) = (theta.get(LinearHead::WEIGHT).unwrap(), theta.get(LinearHead::BIAS).unwrap());
    let logit = |c: usize| {
        let products = (0..3).map(|j| f64::from(w.values[3 * c + j]) * h[j]);
        libm::exp(products.sum::<f64>() + f64::from(b.values[c]))
    };
    let all: f64 = (1..4).map(logit).sum();
    let p = |c: usize| logit(c) / all;
    let y = labels[0] as usize;
    for c in 0..4 {
        let gap = if c == 0 { 0.0 } else { f64::from(u8::from(c == y)) - p(c) };
        for (j, h) in h[..3].iter().enumerate() {
            let wanted = p(y) * gap * gap * h * h;
            assert!((both(&one)[0][3 * c + j] - wanted).abs() < 1e-6, "{c} {j}");
        }
        assert!((both(&one)[1][c] - p(y) * gap * gap).abs() < 1e-6, "{c}");
    }
    for form in FORMS {
        let whole = diagonal(&theta, 1..4, form, (&h, &labels), 9);
        let singly = diagonal(&theta, 1..4, form, (&h, &labels), 1);
        let (early, late) = ((&h[..12], &labels[..4]), (&h[12..], &labels[4..]));
        let parts = [early, late].map(|part| diagonal(&theta, 1..4, form, part, 3));
        for at in 0..2 {
            for (i, sum) in both(&whole)[at].iter().enumerate() {
                assert!((sum - both(&singly)[at][i]).abs() <= 1e-6 * sum.abs(), "{form:?}");
                let halves = both(&parts[0])[at][i] + both(&parts[1])[at][i];
                assert!((sum - halves).abs() <= 1e-6 * sum.abs(), "{form:?}");
            }
        }
    }
}

/// An own residual network is processed sample by sample, by running moments: the rest of a batch does not matter,
/// and nothing is added up before it is squared.
#[test]
fn a_network_of_its_own_is_seen_sample_by_sample() {
    let config =
        ResNetConfig { image: 8, channels: 1, width: 2, blocks: [1; 4], ..ResNetConfig::default() };
    let set = ResNet::initial_parameters(&config, StreamKey::new(1, Domain::Init));
    let network: Arc<Backbone> = Arc::new(ResNet::from_parameters(config, &set).unwrap().into());
    let dim = network.dim();
    let wave: Vec<f64> = (0..2 * dim).map(|i| (i as f64 * 0.7).sin()).collect();
    let theta = set.merge(&head(&wave, &[0.1, -0.1], dim));
    let image = |seed: usize| Batch::Images {
        pixels: (0..64).map(|i| ((i * seed) as f32 * 0.37).sin()).collect(),
        shape: [1, 1, 8, 8],
        labels: vec![seed as u32 % 2],
        samples: vec![seed as u32],
    };
    let of = |seeds: &[usize]| {
        let mut pass = FisherPass::new(&network, &theta, 0..2, FisherForm::Empirical).unwrap();
        assert_eq!((pass.batch(16), pass.frozen_part()), (1, FrozenPart::Nothing));
        seeds.iter().for_each(|seed| pass.add(image(*seed), &Device::Cpu).unwrap());
        pass.finish()
    };
    let (one, other, all) = (of(&[3]), of(&[4]), of(&[3, 4]));
    let names: Vec<&Arc<str>> = all.by_name.keys().collect();
    assert!(names.iter().any(|name| ***name == *"conv1.weight"));
    assert!(names.iter().all(|name| !name.contains("running")), "{names:?}");
    for name in names {
        let parts = one.of(name).unwrap().iter().zip(other.of(name).unwrap());
        for (sum, (a, b)) in all.of(name).unwrap().iter().zip(parts) {
            assert!((sum - (a + b)).abs() <= 1e-9 * sum.abs(), "{name}");
        }
    }
    assert!(all.of("conv1.weight").unwrap().iter().any(|sum| *sum > 0.0));
}
