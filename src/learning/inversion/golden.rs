//! Golden vectors of the losses: PyTorch's of a small classifier with formula weights, on images and on generated ones.

use candle_core::{Device, Tensor, Var};

use super::blur::kernel;
use super::norm_distance::norm_distance;
use super::student::student_loss;
use super::training::{InversionLoss, InversionTerms};
use super::*;
use crate::golden::Golden;
use crate::learning::OptimizerConfig;
use crate::learning::optimizer::Adam;
use crate::model::generator::golden::{config, fill, first_rows, parameters};
use crate::model::{ImageGenerator, NORM_EPS, Norm, NormInput, RunningMoments, ops};

/// Inputs, outputs and stride of the convolutions.
const CONVOLUTIONS: [(usize, usize, usize); 3] = [(3, 8, 1), (8, 12, 2), (12, 16, 2)];

/// The classifier of the vectors with this tag: three convolutions with norms, a mean over pixels, a head of six rows.
pub(crate) struct GoldenNetwork {
    /// Variables by name; their tensors are those below.
    pub variables: Vec<(String, Var)>,
    convolutions: Vec<(Tensor, Norm)>,
    /// Map of features, of the tag `anchored`: `(12, 16)` and its bias.
    mapping: Option<(Tensor, Tensor)>,
    /// `(6, 16)`, or `(6, 12)` behind a map.
    pub weight: Tensor,
    pub bias: Tensor,
}

impl GoldenNetwork {
    /// In training mode batch norms use the moments of the batch.
    pub fn new(golden: &Golden, tag: &str, trains: bool) -> GoldenNetwork {
        GoldenNetwork::of(golden, tag, trains, false)
    }

    /// LANDER's, with a map of features below the head, frozen.
    pub fn anchored(golden: &Golden) -> GoldenNetwork {
        GoldenNetwork::of(golden, "anchored", false, true)
    }

    fn of(golden: &Golden, tag: &str, trains: bool, maps: bool) -> GoldenNetwork {
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
            let running = RunningMoments::of(mean, variance).unwrap();
            let norm = Norm { weight, bias, running, trains, eps: NORM_EPS };
            convolutions.push((kernel, norm));
        }
        let mapping =
            maps.then(|| (tensor("att.weight", &[12, 16], None), tensor("att.bias", &[12], None)));
        let weight = tensor("fc.weight", &[6, if maps { 12 } else { 16 }], None);
        let stored = golden.f32(&format!("{tag}.fc.bias"));
        let bias = tensor("fc.bias", &[6], Some(stored));
        GoldenNetwork { variables, convolutions, mapping, weight, bias }
    }

    /// Features `(b, 16)`, mapped if there is a map, and the inputs of the norms.
    pub fn features(&self, pixels: &Tensor) -> (Tensor, Vec<NormInput>) {
        let mut x = pixels.permute((0, 2, 3, 1)).unwrap().contiguous().unwrap();
        let mut inputs = Vec::new();
        for ((kernel, norm), (_, _, stride)) in self.convolutions.iter().zip(CONVOLUTIONS) {
            x = ops::conv2d(&x, kernel, stride, 1).unwrap();
            inputs.push(norm.seen(&x));
            x = norm.forward(&x, None, true).unwrap();
        }
        let features = ops::mean(&x.flatten(1, 2).unwrap(), 1).unwrap();
        let features = match &self.mapping {
            Some((weight, bias)) => ops::linear(&features, weight, Some(bias)).unwrap(),
            None => features,
        };
        (features, inputs)
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

/// TARGET's and LANDER's distance of moments: of each norm, of all, and smoothed by those of earlier images.
#[test]
fn golden_distance_of_moments() {
    let Some(golden) = Golden::open("inversion") else { return };
    let teacher = GoldenNetwork::new(&golden, "teacher", false);
    let x = golden.variable("x");
    let (_, inputs) = teacher.features(&x);
    let mut parts = Vec::new();
    for NormInput { input, running_mean, running_variance } in &inputs {
        let moments = ops::differentiable_moments(input).unwrap();
        let [mean, variance] =
            [running_mean, running_variance].map(|moment| moment.to_vec1::<f32>().unwrap());
        // Where running moments are the batch's, nothing is left of a part.
        let own = |row| moments.get(row).unwrap().to_vec1::<f32>().unwrap();
        for running in [[own(0), variance].concat(), [mean, own(1)].concat()] {
            let part = norm_distance(&moments, &running, None).unwrap();
            parts.push(part.to_scalar::<f32>().unwrap());
        }
    }
    golden.assert_close("bn.l2.parts", &parts);
    let check = |name: &str, moments: &mut SmoothedMoments| {
        let term = moments.distance(&inputs).unwrap().expect("norms");
        golden.assert_tensor(name, &term);
        let gradients = term.backward().unwrap();
        golden.assert_tensor(&format!("{name}.grad_x"), gradients.get(&x).expect("a gradient"));
    };
    check("bn.l2", &mut SmoothedMoments::new(0.9));
    let mut moments = SmoothedMoments::new(0.9);
    let (_, before) = teacher.features(&golden.tensor("x_prev"));
    moments.distance(&before).unwrap();
    moments.end_call();
    check("bn.smooth", &mut moments);
    moments.end_call();
    let (means, variances) = moments.kept.as_ref().expect("kept")[0].split_at(8);
    golden.assert_close("bn.kept.mean1", means);
    golden.assert_close("bn.kept.var1", variances);
}

/// The student's loss of TARGET's and LANDER's servers: 400 times the divergence at temperature 20.
#[test]
fn golden_distillation_of_the_student() {
    let Some(golden) = Golden::open("inversion") else { return };
    let student = golden.variable("distil.s");
    let loss = student_loss(&student, &golden.f32("distil.f"), 20.0).unwrap();
    golden.assert_tensor("distil", &loss);
    let gradients = loss.backward().unwrap();
    golden.assert_tensor("distil.grad_s", gradients.get(&student).expect("a gradient"));
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
