//! Gradients that a client sends of its classes, each at one perturbed image.

use candle_core::{Tensor, Var};

use super::Proxy;
use crate::data::{Normalization, Shard, Transform};
use crate::learning::losses::{ClassReduction, sigmoid_cross_entropy};
use crate::learning::{Classifier, Herding};
use crate::methods::herded::features_by_row;
use crate::model::{Parameter, ParameterSet};
use crate::policy::{ModelFacts, PolicyError, RunContext};

/// Weight decay of the steps that move an image, as in the release.
const DECAY: f64 = 1e-5;

/// Returns a gradient of the LeNet for every class of a shard, `(classes, length)`.
///
/// Images are chosen and perturbed with the model just trained, over its first `seen` outputs.
///
/// # Errors
/// When the transform is random, an image cannot be read, or pixels have no gradient.
pub fn gradients(
    proxy: &Proxy,
    facts: &ModelFacts,
    (parameters, seen): (&ParameterSet, usize),
    shard: &Shard,
    ctx: &RunContext,
) -> Result<Parameter, PolicyError> {
    let (net, model) = (proxy.net(facts), Classifier::frozen(&ctx.backbone, parameters)?);
    let raw =
        Transform { normalization: Normalization::None, ..(*ctx.statistics_transform).clone() };
    let (mut all, mut classes) = (Vec::new(), 0);
    for (row, class) in features_by_row(shard, &model, ctx)? {
        let first = Herding::GreedyUnit.order(&class.features, class.dim(), 1);
        let Some(nearest) = first.first() else { continue };
        let image = ctx.dataset.train.input(&raw, &[class.samples[*nearest]], &ctx.device)?;
        let moved = perturbed(proxy, &model, (&image, row as usize, seen), ctx)?;
        let moved: Vec<f64> =
            moved.flatten_all()?.to_vec1::<f32>()?.into_iter().map(f64::from).collect();
        let (_, gradient) = net.gradient(&moved, row as usize);
        all.extend(gradient.into_iter().map(|value| value as f32));
        classes += 1;
    }
    let length = all.len() / usize::max(classes, 1);
    Ok(Parameter { shape: vec![classes, length], values: all.into() })
}

/// Returns an image `(1, c, h, w)` moved by gradient descent on its pixels.
///
/// The loss is the sigmoid cross-entropy of its class; the step is a tenth of the learning rate.
fn perturbed(
    proxy: &Proxy,
    model: &Classifier,
    (image, row, seen): (&Tensor, usize, usize),
    ctx: &RunContext,
) -> Result<Tensor, PolicyError> {
    let rate = ctx.training.first_rate() / 10.0;
    let mut targets = vec![0.0; seen];
    targets[row] = 1.0;
    let mut image = image.clone();
    for _ in 0..proxy.perturbation {
        let pixels = Var::from_tensor(&image)?;
        let logits = model.logits(&model.features(&pixels)?)?.narrow(1, 0, seen)?.contiguous()?;
        let loss = sigmoid_cross_entropy(&logits, &targets, ClassReduction::Mean)?;
        let gradients = loss.backward()?;
        let none = || PolicyError::Unsupported("pixels have no gradient".to_owned());
        let slope = gradients.get(&pixels).ok_or_else(none)?;
        image = (&image - ((slope + (&image * DECAY)?)? * rate)?)?.detach();
    }
    Ok(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes, digits};
    use crate::learning::OptimizerConfig;
    use crate::model::{Backbone, LinearHead, PixelShape};
    use crate::scenario::reader::defaults;

    /// Two steps by hand on a linear model of the pixels: each follows the slope `sum_c (sigmoid(z_c) - t_c) w_c / n`
    /// and the decay, at a tenth of the rate; unseen classes have no effect.
    #[test]
    fn an_image_goes_down_its_loss_and_fades() {
        let pixels = PixelShape { channels: 1, image: 8 };
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let ctx =
            RunContext::new(Backbone::Pixels(pixels), digits::embedded().unwrap(), task_sequence);
        let mut training = ctx.training.clone();
        training.optimizer = OptimizerConfig::sgd(40.0);
        let ctx = RunContext { training, ..ctx };
        let weight: Vec<f32> = (0..640).map(|i| (0.7 * i as f32).sin() * 0.3).collect();
        let bias: Vec<f32> = (0..10).map(|i| 0.1 * i as f32 - 0.4).collect();
        let mut head = ParameterSet::new();
        let matrix = Parameter { shape: vec![10, 64], values: weight.clone().into() };
        head.insert(LinearHead::WEIGHT, matrix);
        head.insert(LinearHead::BIAS, Parameter { shape: vec![10], values: bias.clone().into() });
        let model = Classifier::frozen(&ctx.backbone, &head).unwrap();
        let start: Vec<f32> = (0..64).map(|i| 100.0 * (0.3 * i as f32).cos()).collect();
        let image = Tensor::from_slice(&start, (1, 1, 8, 8), &ctx.device).unwrap();
        let proxy = Proxy { perturbation: 2, ..defaults(|table| Proxy::read(table, "GLFC")) };
        let moved = perturbed(&proxy, &model, (&image, 3, 5), &ctx).unwrap();
        let moved: Vec<f32> = moved.flatten_all().unwrap().to_vec1().unwrap();

        let mut by_hand: Vec<f64> = start.iter().map(|value| f64::from(*value)).collect();
        for _ in 0..2 {
            let mut slope = vec![0.0; 64];
            for class in 0..5 {
                let row = &weight[64 * class..][..64];
                let z: f64 = row.iter().zip(&by_hand).map(|(w, x)| f64::from(*w) * x).sum();
                let share = 1.0 / (1.0 + (-z - f64::from(bias[class])).exp());
                let pull = (share - f64::from(u8::from(class == 3))) / 5.0;
                slope.iter_mut().zip(row).for_each(|(slope, w)| *slope += pull * f64::from(*w));
            }
            let step = |(x, slope): (&mut f64, &f64)| *x -= 4.0 * (slope + 1e-5 * *x);
            by_hand.iter_mut().zip(&slope).for_each(step);
        }
        let far = |(a, b): (&f32, &f64)| (f64::from(*a) - b).abs();
        let gap = moved.iter().zip(&by_hand).map(far).fold(0.0, f64::max);
        let way = start.iter().zip(&by_hand).map(far).fold(0.0, f64::max);
        assert!(gap < 1e-4 && way > 0.1, "{gap} after {way}");
    }
}
