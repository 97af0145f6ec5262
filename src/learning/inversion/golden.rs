//! Golden vectors of the losses: PyTorch's of a small classifier with formula weights, on images and on generated ones.

use std::sync::Arc;

use candle_core::{Device, Tensor, Var};
use parking_lot::Mutex;

use super::blur::kernel;
use super::training::InversionLoss;
use super::*;
use crate::golden::Golden;
use crate::learning::OptimizerConfig;
use crate::learning::optimizer::Adam;
use crate::model::generator::golden::{config, fill, first_rows, parameters};
use crate::model::{ImageGenerator, NORM_EPS, Norm, NormInput, Running, ops};

/// Inputs, outputs and stride of the convolutions.
const CONVOLUTIONS: [(usize, usize, usize); 3] = [(3, 8, 1), (8, 12, 2), (12, 16, 2)];

/// The classifier of the vectors with this tag: three convolutions with norms, a mean over pixels, a head of six rows.
pub(crate) struct GoldenNetwork {
    /// Variables by name; their tensors are those below.
    pub variables: Vec<(String, Var)>,
    convolutions: Vec<(Tensor, Norm)>,
    /// `(6, 16)`.
    pub weight: Tensor,
    pub bias: Tensor,
}

impl GoldenNetwork {
    /// In training mode batch norms use the moments of the batch.
    pub fn new(golden: &Golden, tag: &str, trains: bool) -> GoldenNetwork {
        let mut variables = Vec::new();
        let mut tensor = |name: &str, shape: &[usize], values: Option<Vec<f32>>| {
            let values = values.unwrap_or_else(|| fill(golden, &format!("{tag}.{name}"), shape));
            let tensor = Tensor::from_vec(values, shape, &Device::Cpu).unwrap();
            if !trains || name.contains("running") {
                return tensor;
            }
            let variable = Var::from_tensor(&tensor).unwrap();
            let tensor = variable.as_tensor().clone();
            variables.push((name.to_owned(), variable));
            tensor
        };
        let mut convolutions = Vec::new();
        for (stage, (inputs, outputs, _)) in (1..).zip(CONVOLUTIONS) {
            let kernel = tensor(&format!("conv{stage}.weight"), &[outputs, inputs, 3, 3], None);
            let mut of = |part: &str| tensor(&format!("bn{stage}.{part}"), &[outputs], None);
            let (mean, variance) = (of("running_mean"), of("running_var"));
            let (weight, bias) = (of("weight"), of("bias"));
            let batches = Tensor::new(0f32, &Device::Cpu).unwrap();
            let running = Arc::new(Mutex::new(Running { mean, variance, batches }));
            let norm = Norm { weight, bias, running, trains, eps: NORM_EPS };
            convolutions.push((kernel, norm));
        }
        let weight = tensor("fc.weight", &[6, 16], None);
        let stored = golden.f32(&format!("{tag}.fc.bias"));
        let bias = tensor("fc.bias", &[6], Some(stored));
        GoldenNetwork { variables, convolutions, weight, bias }
    }

    /// Features `(b, 16)`, and the inputs of the norms.
    pub fn features(&self, pixels: &Tensor) -> (Tensor, Vec<NormInput>) {
        let mut x = pixels.permute((0, 2, 3, 1)).unwrap().contiguous().unwrap();
        let mut inputs = Vec::new();
        for ((kernel, norm), (_, _, stride)) in self.convolutions.iter().zip(CONVOLUTIONS) {
            x = ops::conv2d(&x, kernel, stride, 1).unwrap();
            inputs.push(norm.seen(&x));
            x = norm.forward(&x, None, true).unwrap();
        }
        (ops::mean(&x.flatten(1, 2).unwrap(), 1).unwrap(), inputs)
    }

    /// Scores `(b, 6)`.
    pub fn scores(&self, features: &Tensor) -> Tensor {
        ops::linear(features, &self.weight, Some(&self.bias)).unwrap()
    }

    /// Running means and variances of a norm, counted from 1.
    pub fn running(&self, norm: usize) -> [Vec<f32>; 2] {
        let running = self.convolutions[norm - 1].1.running.lock();
        [&running.mean, &running.variance].map(|moment| moment.to_vec1().unwrap())
    }
}

const MFCL: InversionLoss = InversionLoss {
    content: 1.0,
    temperature: 1000.0,
    diversity: 1.0,
    statistics: 50.0,
    smoothness: 1e-3,
};

/// Columns seen, of six.
const SEEN: usize = 5;

fn seen(network: &GoldenNetwork, pixels: &Tensor) -> (Tensor, Vec<NormInput>) {
    let (features, inputs) = network.features(pixels);
    let scores = network.scores(&features).narrow(1, 0, SEEN).unwrap().contiguous().unwrap();
    (scores, inputs)
}

#[test]
fn golden_terms_of_given_images() {
    let Some(golden) = Golden::open("inversion") else { return };
    let teacher = GoldenNetwork::new(&golden, "teacher", false);
    let x = golden.variable("x");
    let (scores, inputs) = seen(&teacher, &x);
    for (layer, input) in (1..).zip(&inputs) {
        let moments = ops::differentiable_moments(&input.input).unwrap();
        golden.assert_tensor(&format!("bn.mean{layer}"), &moments.get(0).unwrap());
        golden.assert_tensor(&format!("bn.var{layer}"), &moments.get(1).unwrap());
    }
    let parts: Vec<f32> = inputs
        .iter()
        .map(|input| {
            let one = norm_statistics(std::slice::from_ref(input)).unwrap().expect("a norm");
            one.to_scalar().unwrap()
        })
        .collect();
    golden.assert_close("bn.klg.parts", &parts);
    let terms = [
        ("bn.klg", norm_statistics(&inputs).unwrap().expect("norms")),
        ("mfcl.ce", content(&scores, 1000.0).unwrap()),
        ("mfcl.diversity", diversity(&scores).unwrap()),
        ("mfcl.smooth", smoothness(&x).unwrap()),
    ];
    for (name, term) in terms {
        golden.assert_tensor(name, &term);
        let gradients = term.backward().unwrap();
        golden.assert_tensor(&format!("{name}.grad_x"), gradients.get(&x).expect("a gradient"));
    }
    golden.assert_close("blur.kernel", &kernel());
}

/// The whole loss on generated images, its gradients, and three steps of Adam.
#[test]
fn golden_training_of_the_generator() {
    let Some(golden) = Golden::open("inversion") else { return };
    let teacher = GoldenNetwork::new(&golden, "teacher", false);
    let generator =
        ImageGenerator::trainable(config(), &parameters(&golden), &Device::Cpu).unwrap();
    let z = golden.tensor("z");
    let loss = || {
        let images = generator.images(&z).unwrap();
        let (scores, inputs) = seen(&teacher, &images);
        MFCL.of(&images, &scores, &inputs).unwrap()
    };
    let (total, InversionTerms { content, diversity, statistics, smoothness }) = loss();
    golden.assert_close("mfcl.parts", &[content, diversity, statistics, smoothness]);
    golden.assert_tensor("mfcl.total", &total);
    let gradients = total.backward().unwrap();
    for (name, rows) in [
        ("bn0.bias", None),
        ("bn1.weight", None),
        ("conv1.weight", Some(4)),
        ("conv3.bias", None),
        ("conv3.weight", None),
        ("l1.weight", Some(24)),
    ] {
        let found = generator.variables().iter().find(|(own, _)| &**own == name);
        let gradient = gradients.get(&found.expect("a variable").1).expect("a gradient");
        match rows {
            None => golden.assert_tensor(&format!("mfcl.total.grad.{name}"), gradient),
            Some(rows) => golden.assert_tensor(
                &format!("mfcl.total.grad.{name}.rows{rows}"),
                &first_rows(gradient, rows),
            ),
        }
    }
    let adam = OptimizerConfig::Adam(Adam { learning_rate: 1e-3, ..Adam::default() });
    let mut optimizer = adam.over(generator.vars());
    let mut totals = Vec::new();
    for _ in 0..3 {
        let (total, _) = loss();
        totals.push(total.to_scalar::<f32>().unwrap());
        optimizer.step(&total.backward().unwrap(), 1e-3, 1.0).unwrap();
    }
    totals.push(loss().0.to_scalar::<f32>().unwrap());
    golden.assert_close("mfcl.trajectory", &totals);
}
