//! What a client sends of its classes: gradients of one moved image each.

use candle_core::{Tensor, Var};

use super::Proxy;
use crate::data::{Normalisation, Shard, Transform};
use crate::learning::losses::{ClassReduction, sigmoid_cross_entropy};
use crate::learning::{Classifier, Herding};
use crate::methods::herded::features_by_row;
use crate::model::{Parameter, ParameterSet};
use crate::policy::{Lab, ModelFacts, PolicyError};

/// Weight decay of the steps that move an image (the release).
const DECAY: f64 = 1e-5;

/// The gradients of every class of a shard, `(classes, length)`, by the model as it was just trained, over the first
/// `seen` outputs.
///
/// # Errors
/// A transform that draws, images that cannot be read, or no gradient.
pub fn gradients(
    proxy: &Proxy,
    facts: &ModelFacts,
    (parameters, seen): (&ParameterSet, usize),
    shard: &Shard,
    lab: &Lab,
) -> Result<Parameter, PolicyError> {
    let (net, model) = (proxy.net(facts), Classifier::frozen(&lab.backbone, parameters)?);
    let raw = Transform { normalise: Normalisation::None, ..(*lab.statistics_transform).clone() };
    let (mut all, mut classes) = (Vec::new(), 0);
    for (row, class) in features_by_row(shard, &model, lab)? {
        let first = Herding::GreedyUnit.order(&class.features, class.dim(), 1);
        let Some(nearest) = first.first() else { continue };
        let image = lab.dataset.train.input(&raw, &[class.samples[*nearest]], &lab.device)?;
        let moved = perturbed(proxy, &model, (&image, row as usize, seen), lab)?;
        let moved: Vec<f64> =
            moved.flatten_all()?.to_vec1::<f32>()?.into_iter().map(f64::from).collect();
        let (_, gradient) = net.gradient(&moved, row as usize);
        all.extend(gradient.into_iter().map(|value| value as f32));
        classes += 1;
    }
    let length = all.len() / usize::max(classes, 1);
    Ok(Parameter { shape: vec![classes, length], values: all.into() })
}

/// An image `(1, c, h, w)` moved by gradient descent on its pixels, at a tenth of the learning rate, towards what the
/// model takes for its class.
fn perturbed(
    proxy: &Proxy,
    model: &Classifier,
    (image, row, seen): (&Tensor, usize, usize),
    lab: &Lab,
) -> Result<Tensor, PolicyError> {
    let rate = lab.training.first_rate() / 10.0;
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
