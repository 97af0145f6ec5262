//! Golden vectors of decomposed layers, the objective, messages and the masked mean: PyTorch in float64.

use candle_core::{DType, Tensor, Var};

use super::messages::{contribution, sparse_set, upload};
use super::sparse::{sent_units, thresholded};
use super::state::taken_over;
use super::terms::{LayerSlopes, LayerValues, LossTerms, PastLayer, TermWeights};
use super::{SplitLayer, WeitShape};
use crate::golden::Golden;
use crate::model::{Parameter, ParameterSet};
use crate::policy::ElementwiseAverage;

/// Weights at which every term has an effect.
const WEIGHTS: TermWeights =
    TermWeights { decay: 1e-2, base_decays: false, sparsity: 0.05, drift: 100.0 };

fn narrow(golden: &Golden, name: &str) -> Vec<f32> {
    golden.f64(name).into_iter().map(|value| value as f32).collect()
}

/// Parts of a layer in the golden file.
struct GoldenLayer {
    base: Vec<f32>,
    mask: Vec<f32>,
    adaptive: Vec<f32>,
    attention: Vec<f32>,
    knowledge: Vec<f32>,
    past: [Vec<f32>; 3],
}

impl GoldenLayer {
    fn read(golden: &Golden, layer: usize) -> GoldenLayer {
        let of = |name: &str| narrow(golden, &format!("{name}.{layer}"));
        GoldenLayer {
            base: of("B"),
            mask: of("m"),
            adaptive: of("A"),
            attention: of("alpha"),
            knowledge: of("KB"),
            past: ["m_past", "A_past", "start"].map(of),
        }
    }

    fn layer<'p>(&'p self, adaptive: &'p [f32]) -> LayerValues<'p> {
        let entries = self.knowledge.chunks(self.base.len());
        LayerValues {
            base: &self.base,
            mask: &self.mask,
            adaptive,
            knowledge: self.attention.iter().copied().zip(entries).collect(),
        }
    }

    fn past(&self) -> Vec<PastLayer<'_>> {
        let [mask, adaptive, start] = &self.past;
        let parts = mask.chunks(self.mask.len()).zip(adaptive.chunks(self.base.len()));
        parts
            .zip(start.chunks(self.base.len()))
            .map(|((mask, adaptive), start)| PastLayer { mask, adaptive, start })
            .collect()
    }
}

fn wide(values: &[f32], shape: &[usize]) -> Tensor {
    let wide: Vec<f64> = values.iter().map(|value| f64::from(*value)).collect();
    Tensor::from_vec(wide, shape, &candle_core::Device::Cpu).unwrap()
}

/// Variables of the reference network: two layers with biases, and a head.
struct DecomposedNetwork {
    thetas: [Var; 2],
    biases: [Var; 2],
    head: [Var; 2],
}

impl DecomposedNetwork {
    fn of(golden: &Golden, thetas: [&[f32]; 2]) -> DecomposedNetwork {
        let var = |tensor: Tensor| Var::from_tensor(&tensor).unwrap();
        let stored = |name: &str| {
            let values = golden.f64(name);
            let shape = golden.shape(name);
            var(Tensor::from_vec(values, shape, &candle_core::Device::Cpu).unwrap())
        };
        DecomposedNetwork {
            thetas: [var(wide(thetas[0], &[7, 5])), var(wide(thetas[1], &[4, 7]))],
            biases: ["bias.0", "bias.1"].map(stored),
            head: ["head.W", "head.b"].map(stored),
        }
    }

    fn logits(&self, golden: &Golden) -> Tensor {
        let x = golden.f64("x");
        let mut x = Tensor::from_vec(x, (6, 5), &candle_core::Device::Cpu).unwrap();
        for (theta, bias) in self.thetas.iter().zip(&self.biases) {
            let z = x.matmul(&theta.t().unwrap()).unwrap();
            x = z.broadcast_add(bias).unwrap().relu().unwrap();
        }
        let z = x.matmul(&self.head[0].t().unwrap()).unwrap();
        z.broadcast_add(&self.head[1]).unwrap()
    }

    fn loss(&self, golden: &Golden) -> Tensor {
        let labels = golden.labels("labels");
        let labels = Tensor::from_vec(labels, 6, &candle_core::Device::Cpu).unwrap();
        candle_nn::loss::cross_entropy(&self.logits(golden), &labels).unwrap()
    }
}

fn flat(tensor: &Tensor) -> Vec<f64> {
    tensor.flatten_all().unwrap().to_dtype(DType::F64).unwrap().to_vec1().unwrap()
}

#[test]
fn golden_fedweit_weights_and_objective() {
    let Some(golden) = Golden::open("fedweit") else { return };
    let parts = [0, 1].map(|layer| GoldenLayer::read(&golden, layer));
    let thetas = [0, 1].map(|at: usize| parts[at].layer(&parts[at].adaptive).compose());
    for (at, theta) in thetas.iter().enumerate() {
        golden.assert_close_f32(&format!("theta.{at}"), theta);
    }
    let network = DecomposedNetwork::of(&golden, [&thetas[0], &thetas[1]]);
    golden.assert_close_f32("logits", &flat(&network.logits(&golden)));
    let loss = network.loss(&golden);
    let ce = loss.to_scalar::<f64>().unwrap();
    golden.assert_close_f32("ce", &[ce]);
    let gradients = loss.backward().unwrap();
    let gradient = |var: &Var| flat(gradients.get(var).unwrap());
    let (mut terms, mut first) = (LossTerms::default(), LossTerms::default());
    for (at, parts) in parts.iter().enumerate() {
        let theta: Vec<f32> = gradient(&network.thetas[at]).iter().map(|g| *g as f32).collect();
        let layer = parts.layer(&parts.adaptive);
        let of = |weights: &TermWeights, retroactive: bool| -> (LayerSlopes, LossTerms) {
            let mut slopes = layer.slopes(&theta);
            let terms = layer.add_terms(weights, &parts.past(), retroactive, &mut slopes);
            (slopes, terms)
        };
        let (slopes, own) = of(&WEIGHTS, false);
        assert!(slopes.past.is_empty());
        terms = terms.plus(own);
        first = first.plus(of(&TermWeights { base_decays: true, ..WEIGHTS }, false).1);
        for (name, found) in [
            ("B", &slopes.base),
            ("m", &slopes.mask),
            ("A", &slopes.adaptive),
            ("alpha", &slopes.attention),
        ] {
            golden.assert_close_f32(&format!("grad.{name}.{at}"), found);
        }
        golden.assert_close_f32(&format!("grad.bias.{at}"), &gradient(&network.biases[at]));
        let (retroactive, again) = of(&WEIGHTS, true);
        assert_eq!((&retroactive.base, again), (&slopes.base, own));
        let masks: Vec<f64> = retroactive.past.iter().flat_map(|(mask, _)| mask.clone()).collect();
        let all: Vec<f64> = retroactive.past.iter().flat_map(|(_, all)| all.clone()).collect();
        golden.assert_close_f32(&format!("retro.grad.m_past.{at}"), &masks);
        golden.assert_close_f32(&format!("retro.grad.A_past.{at}"), &all);
        // At the base of the start of the task the drift term vanishes.
        let start = narrow(&golden, &format!("B_start.{at}"));
        let there = LayerValues { base: &start, ..parts.layer(&parts.adaptive) };
        let mut at_start = there.slopes(&theta);
        let drift = there.add_terms(&WEIGHTS, &parts.past(), false, &mut at_start).drift;
        assert!(drift < 1e-9, "card, invariant 2: {drift}");
    }
    golden.assert_close_f32("grad.head.W", &gradient(&network.head[0]));
    golden.assert_close_f32("grad.head.b", &gradient(&network.head[1]));
    golden.assert_close_f32("decay", &[terms.decay]);
    golden.assert_close_f32("decay_first", &[first.decay]);
    golden.assert_close_f32("sparse", &[terms.sparsity]);
    golden.assert_close_f32("drift", &[terms.drift]);
    golden.assert_close_f32("loss", &[ce + terms.sum()]);
}

#[test]
fn golden_fedweit_answers_and_filters() {
    let Some(golden) = Golden::open("fedweit") else { return };
    let thetas = [0, 1].map(|layer| {
        let parts = GoldenLayer::read(&golden, layer);
        let adaptive = thresholded(&parts.adaptive, 0.05);
        let theta = parts.layer(&adaptive).compose();
        golden.assert_close_f32(&format!("eval.theta.{layer}"), &theta);
        theta
    });
    let network = DecomposedNetwork::of(&golden, [&thetas[0], &thetas[1]]);
    golden.assert_close_f32("eval.logits", &flat(&network.logits(&golden)));
    let [base, mask, adaptive] = ["conv.B", "conv.m", "conv.A"].map(|name| narrow(&golden, name));
    let filter =
        LayerValues { base: &base, mask: &mask, adaptive: &adaptive, knowledge: Vec::new() };
    golden.assert_close_f32("conv.theta", &filter.compose());
}

#[test]
fn golden_fedweit_messages_and_mean() {
    let Some(golden) = Golden::open("fedweit") else { return };
    let layer = SplitLayer { name: "fc.weight".to_owned(), shape: vec![7, 5] };
    let shape = WeitShape { layers: vec![layer], local: Vec::new() };
    let set = |values: &[f32], shape: &[usize]| -> ParameterSet {
        let parameter = Parameter { shape: shape.to_vec(), values: values.into() };
        [("fc.weight", parameter)].into_iter().collect()
    };
    let (bases, masks) = (narrow(&golden, "up.B"), narrow(&golden, "up.m"));
    let zeros = set(&[0.0; 35], &[7, 5]);
    let (mut average, mut sent) = (ElementwiseAverage::default(), Vec::new());
    for (base, mask) in bases.chunks(35).zip(masks.chunks(7)) {
        sent.extend(sent_units(mask, 0.3).into_iter().map(i64::from));
        let (message, nonzero) =
            upload(&shape, &set(base, &[7, 5]), &set(mask, &[7]), 0.3).unwrap();
        assert_eq!(nonzero, 4 * 5, "card, invariant 5");
        let own = contribution(&shape, &zeros, &message).unwrap();
        let weights = own.named("sent.fc.weight").unwrap().as_f32().unwrap().to_vec();
        let values = own.parameters.get("fc.weight").unwrap().values.clone();
        let mut one = ElementwiseAverage::default();
        one.insert(&"fc.weight".into(), 0, (&[0.0; 35], &values, &weights));
        average = average.merge(one);
    }
    assert_eq!(sent, golden.i64("up.sent"));
    let mean = average.apply(zeros);
    let weights = average.weights("fc.weight").unwrap();
    let mean: Vec<f32> = mean.get("fc.weight").unwrap().values.to_vec();
    let mean: Vec<f32> =
        mean.iter().zip(weights).map(|(v, w)| if *w > 0.5 { *v } else { 0.0 }).collect();
    golden.assert_within("up.mean", &mean, 5e-7);
    let taken = taken_over(&set(&bases[..35], &[7, 5]), &set(&mean, &[7, 5]));
    golden.assert_within("up.taken", &taken.get("fc.weight").unwrap().values, 5e-7);
    let raw = narrow(&golden, "up.A_raw");
    let kept = sparse_set(&set(&raw, &[3, 7, 5]), 0.05);
    golden.assert_within("up.A", &kept.get("fc.weight").unwrap().values, 1e-7);
}
