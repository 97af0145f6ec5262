//! The loss of MFCL's clients from the second task on.
//!
//! ```text
//! L = CE(W phi(x), y)             real images, rows of the task
//!   + w_ft CE(W sg(phi), [y; y~]) real and generated images, all rows seen; features have no gradient
//!   + w_kd mean |W_old (phi - phi_old)|^2    real and generated images, mean over old rows and images
//! ```
//! Real and generated images pass the network as one batch, whose moments batch norms use. Logits are of all rows seen.

use std::ops::Range;

use candle_core::{Result, Tensor};

use crate::data::TaskView;
use crate::learning::inversion::largest;
use crate::learning::{Classifier, LearningError};
use crate::methods::averaging::{Objective, TrainingStep};
use crate::model::{ImageGenerator, LinearHead, ModelError, ops};
use crate::numerics::streams::StreamKey;
use crate::policy::PolicyError;

/// Source of a client's generated images: generator, number per step, and random stream.
pub(super) struct ImageReplay {
    pub generator: ImageGenerator,
    /// Number of images in a step.
    pub images: usize,
    /// Stream key of the images' noise, which is drawn by step.
    pub key: StreamKey,
}

/// Loss of a client in a task after the first.
pub(super) struct MfclObjective {
    old: Classifier,
    /// Head weights of the old model, `W_old`, `(old rows, d)`.
    old_weight: Tensor,
    replay: ImageReplay,
    /// Head rows of the task.
    rows: Range<usize>,
    /// Weights `w_ft` and `w_kd` of the second and the third term.
    weights: (f64, f64),
    /// True if running moments move twice in a step.
    repeats: bool,
}

impl MfclObjective {
    /// Creates the loss of a client with this view from the old model and its images.
    pub fn new(
        view: &TaskView,
        (old, replay): (Classifier, ImageReplay),
        weights: (f64, f64),
        repeats: bool,
    ) -> std::result::Result<MfclObjective, PolicyError> {
        let rows = view.rows.clone();
        let reason = format!("the old model has no `{}`", LinearHead::WEIGHT);
        let weight = old.received().get(LinearHead::WEIGHT);
        let weight = weight.ok_or(ModelError::Input { reason })?.cut(0..rows.start)?;
        let old_weight = weight.tensor(&old.backbone().place().device)?;
        Ok(MfclObjective { old, old_weight, replay, rows, weights, repeats })
    }
}

impl Objective for MfclObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> std::result::Result<Tensor, LearningError> {
        let (batch, network) = (&pass.step.batch, pass.model);
        let step = pass.step.steps.first().copied().unwrap_or(0);
        let ImageReplay { generator, images, key } = &self.replay;
        let generated = generator.images(&generator.latents(*images, key.step(step))?)?;
        let pixels = Tensor::cat(&[&batch.pixels(pass.device)?, &generated], 0)?.contiguous()?;
        let old_features = self.old.features(&pixels)?.detach();
        let scores = self.old.logits(&old_features)?;
        let scores = scores.narrow(0, batch.len(), *images)?.narrow(1, 0, self.rows.start)?;
        let pseudo = scores.to_vec2::<f32>()?;
        let pseudo: Vec<u32> = pseudo.iter().map(|row| largest(row) as u32).collect();
        let features = network.features(&pixels)?;
        if self.repeats {
            // The release computes the features twice, which moves the running moments twice.
            network.features(&pixels)?;
        }
        let terms = client_terms(
            &features,
            |features| network.logits(features).map_err(candle_core::Error::wrap),
            (batch.labels(), &pseudo),
            &self.rows,
            (&old_features, &self.old_weight),
        )?;
        let [labels, head, distilled] = terms;
        let (ft, kd) = self.weights;
        Ok(((labels + (head * ft)?)? + (distilled * kd)?)?)
    }
}

/// Returns the three terms of the loss before their weights, each a scalar.
///
/// `features` `(n + m, d)` are of the real images with these labels, then of the generated ones with these
/// pseudo-labels; `logits` computes those of all rows seen, and `rows` are those of the task. The last pair holds the
/// old model's features of all images and the weights of its rows.
fn client_terms(
    features: &Tensor,
    logits: impl Fn(&Tensor) -> Result<Tensor>,
    (labels, pseudo): (&[u32], &[u32]),
    rows: &Range<usize>,
    (old_features, old_weight): (&Tensor, &Tensor),
) -> Result<[Tensor; 3]> {
    let real = features.narrow(0, 0, labels.len())?;
    let own = ops::cross_entropy(&logits(&real)?, labels, rows.clone())?;
    let all = [labels, pseudo].concat();
    let head = ops::cross_entropy(&logits(&features.detach())?, &all, 0..rows.end)?;
    let gap = ops::linear(&(features - old_features)?.contiguous()?, old_weight, None)?;
    Ok([own, head, ops::mean_all(&gap.sqr()?)?])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::Golden;
    use crate::learning::inversion::golden::GoldenNetwork;
    use candle_core::{Device, Var};

    fn tensor(values: &[f32], shape: (usize, usize)) -> Tensor {
        Tensor::from_slice(values, shape, &Device::Cpu).unwrap()
    }

    /// PyTorch's values and gradients of all terms, on four real and six generated images as one batch.
    #[test]
    fn golden_terms_of_the_client() {
        let Some(golden) = Golden::open("inversion") else { return };
        let (old, new) =
            (GoldenNetwork::new(&golden, "old", false), GoldenNetwork::new(&golden, "new", true));
        let pixels = Tensor::cat(&[golden.tensor("real"), golden.tensor("synthetic")], 0).unwrap();
        let (old_features, _) = old.features(&pixels);
        let scores = old.scores(&old_features.narrow(0, 4, 6).unwrap().contiguous().unwrap());
        let pseudo = scores.narrow(1, 0, 3).unwrap().to_vec2::<f32>().unwrap();
        let pseudo: Vec<u32> = pseudo.iter().map(|row| largest(row) as u32).collect();
        assert_eq!(pseudo, golden.labels("client.pseudo"));
        let labels = golden.labels("client.labels");
        let old_weight = old.weight.narrow(0, 0, 3).unwrap().contiguous().unwrap();
        let (features, _) = new.features(&pixels);
        for norm in 1..=3 {
            let [mean, variance] = new.running(norm);
            golden.assert_close(&format!("client.running1.bn{norm}.running_mean"), &mean);
            golden.assert_close(&format!("client.running1.bn{norm}.running_var"), &variance);
        }
        let [ce, ft, kd] = client_terms(
            &features,
            |features| Ok(new.scores(features)),
            (&labels, &pseudo),
            &(3..6),
            (&old_features, &old_weight),
        )
        .unwrap();
        let total = ((&ce + &ft).unwrap() + (&kd * 0.1).unwrap()).unwrap();
        for (name, term, parameters) in [
            ("ce", &ce, &["conv1.weight", "fc.weight"][..]),
            ("ft", &ft, &["fc.weight"]),
            ("kd", &kd, &["bn3.bias", "conv1.weight"]),
            ("total", &total, &["bn2.weight", "conv1.weight", "fc.bias", "fc.weight"]),
        ] {
            golden.assert_tensor(&format!("client.{name}"), term);
            let gradients = term.backward().unwrap();
            let of = |wanted: &str| {
                let (_, variable) = new.variables.iter().find(|(own, _)| own == wanted).unwrap();
                gradients.get(variable)
            };
            for parameter in parameters {
                let gradient = of(parameter).expect("a gradient");
                golden.assert_tensor(&format!("client.{name}.grad.{parameter}"), gradient);
            }
            if name == "ft" {
                assert!(of("conv1.weight").is_none(), "features of the second term are detached");
            }
            if name == "total" {
                let rows = of("conv3.weight").expect("a gradient").narrow(0, 0, 4).unwrap();
                let rows = rows.contiguous().unwrap();
                golden.assert_tensor("client.total.grad.conv3.weight.rows4", &rows);
            }
        }
        new.features(&pixels);
        golden.assert_close("client.running2.bn1.running_mean", &new.running(1)[0]);
    }

    /// Terms of two real images of class 2 and one generated of class 0, where two of three rows are old.
    fn small(features: &Tensor, head: &Tensor, old: (&Tensor, &Tensor)) -> [Tensor; 3] {
        let logits = |features: &Tensor| ops::linear(features, head, None);
        client_terms(features, logits, (&[2, 2], &[0]), &(2..3), old).unwrap()
    }

    /// By value: over a single row the first term is zero, the others by hand.
    #[test]
    fn terms_by_value() {
        let features = tensor(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], (3, 2));
        let head = tensor(&[0.5, 0.0, 0.0, 0.5, 1.0, -1.0], (3, 2));
        let old_features = tensor(&[0.0, 0.0, 0.0, 1.0, 3.0, 1.0], (3, 2));
        let old_weight = tensor(&[2.0, 0.0, 1.0, 1.0], (2, 2));
        let value = |term: &Tensor| f64::from(term.to_scalar::<f32>().unwrap());
        let [own, all, distilled] = small(&features, &head, (&old_features, &old_weight));
        assert_eq!(value(&own), 0.0);
        let ce = |z: [f64; 3], y: usize| z.iter().map(|z| libm::exp(*z)).sum::<f64>().ln() - z[y];
        // Logits (0.5, 0, 1), (0, 0.5, -1), (0.5, 0.5, 0).
        let wanted =
            (ce([0.5, 0.0, 1.0], 2) + ce([0.0, 0.5, -1.0], 2) + ce([0.5, 0.5, 0.0], 0)) / 3.0;
        assert!((value(&all) - wanted).abs() < 1e-6);
        // Gaps (1, 0), (0, 0), (-2, 0): old scores differ by (2, 1), nothing, (-4, -2); a mean over six numbers.
        assert!((value(&distilled) - (4.0 + 1.0 + 16.0 + 4.0) / 6.0).abs() < 1e-5);
    }

    /// MFCL card, invariants 1 and 2.
    #[test]
    fn gradients_reach_what_they_should() {
        let features = Var::from_tensor(&tensor(&[1.0, 0.2, 0.4, 1.0, 1.0, -1.0], (3, 2))).unwrap();
        let head =
            Var::from_tensor(&tensor(&[0.5, 0.0, 0.0, 0.5, 1.0, -1.0, 0.3, 0.4], (4, 2))).unwrap();
        let same = features.as_detached_tensor();
        let old_weight = tensor(&[2.0, 0.0, 1.0, 1.0], (2, 2));
        let logits = |features: &Tensor| ops::linear(features, &head, None);
        let terms = client_terms(&features, logits, (&[2, 3], &[0]), &(2..4), (&same, &old_weight));
        let [own, all, distilled] = terms.unwrap();
        let gradients = distilled.backward().unwrap();
        assert_eq!(distilled.to_scalar::<f32>().unwrap(), 0.0);
        let slope = gradients.get(&features).unwrap().to_vec2::<f32>().unwrap();
        assert!(slope.iter().flatten().all(|slope| *slope == 0.0), "at the old model");
        assert!(all.backward().unwrap().get(&features).is_none(), "features are detached");
        let gradients = own.backward().unwrap();
        let rows = gradients.get(&head).unwrap().to_vec2::<f32>().unwrap();
        assert!(rows[..2].iter().flatten().all(|slope| *slope == 0.0), "old rows");
        assert!(rows[2..].iter().flatten().all(|slope| slope.abs() > 1e-3), "{rows:?}");
        let slope = gradients.get(&features).unwrap().to_vec2::<f32>().unwrap();
        assert!(slope[2].iter().all(|slope| *slope == 0.0), "a generated image");
    }
}
