//! Updates of parameters as targets: the gradient of an image should point where an upload's parameters moved.
//!
//! ```text
//! update   u = theta_received - theta_sent, each parameter divided by the factor on its learning rate
//! loss     1 - <g, u> / (|g| |u|)     g = gradient of the training loss of the image at theta_received
//! ```
//! Lengths of updates depend on learning rates and numbers of steps, directions less so: hence the cosine, as in
//! Geiping et al., "Inverting Gradients - How easy is it to break privacy in federated learning?", NeurIPS 2020. The
//! gradient with respect to the pixels is a central difference of the training loss's pixel gradients, with the
//! parameters moved a little along the derivative of the loss by `g` and against it. So no second derivative is needed.

use std::sync::Arc;

use candle_core::{Tensor, Var};

use crate::learning::{Classifier, LearningError};
use crate::model::ops;

/// Euclidean length of the parameter move in the central difference of pixel gradients.
///
/// With smaller moves the rounding of 32-bit gradients dominates, with larger ones the curvature.
const MOVE: f64 = 1e-2;

/// Network as a client received it, and the move of its parameters in training.
#[derive(Debug)]
pub struct UpdateMatching {
    network: Classifier,
    /// Values of the variables as received.
    start: Vec<Tensor>,
    /// True for variables that moved and whose factor is above 0; others are ignored.
    counts: Vec<bool>,
    /// Received minus trained values of all variables, concatenated; 0 for ignored variables.
    update: Tensor,
}

impl UpdateMatching {
    /// Returns the update between a network and its trained copy, or `None` if nothing moved.
    ///
    /// Both are over the variables that may train. `factors` are factors on learning rates by name; a variable with a
    /// factor of 0 does not count, nor does one that did not move.
    ///
    /// # Errors
    /// Returns an error if the networks have different variables.
    pub fn new(
        network: Classifier,
        trained: &Classifier,
        factors: &dyn Fn(&str) -> f64,
    ) -> Result<Option<UpdateMatching>, LearningError> {
        let (mut start, mut moves, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for ((name, received), (other, sent)) in network.variables().iter().zip(trained.variables())
        {
            if name != other {
                return Err(LearningError::NoGradient { name: other.to_string() });
            }
            start.push(received.as_tensor().copy()?.detach());
            let factor = factors(name);
            let inverse = if factor > 0.0 { 1.0 / factor } else { 0.0 };
            let moved = (received.as_tensor().sub(sent)?.detach().flatten_all()? * inverse)?;
            counts.push(length(&moved)? > 0.0);
            moves.push(moved);
        }
        if moves.is_empty() {
            return Ok(None);
        }
        let update = Tensor::cat(&moves, 0)?;
        Ok((length(&update)? > 0.0).then_some(UpdateMatching { network, start, counts, update }))
    }

    /// Returns the update, received minus trained values. It points in the direction of the gradient that caused it.
    pub fn update(&self) -> &Tensor {
        &self.update
    }

    /// Returns the gradient of the training loss of one image with a label, `(values of all variables)`.
    ///
    /// It is 0 at variables that do not count.
    ///
    /// # Errors
    /// Returns an error if the image does not fit the network.
    pub fn gradient(&self, pixels: &Tensor, label: u32) -> Result<Tensor, LearningError> {
        let gradients = self.network.image_loss(&pixels.detach(), &[label])?.backward()?;
        let of = |((_, variable), counts): (&(Arc<str>, Var), &bool)| match gradients
            .get(variable)
            .filter(|_| *counts)
        {
            Some(gradient) => gradient.flatten_all(),
            None => variable.as_tensor().zeros_like()?.flatten_all(),
        };
        let variables = self.network.variables().iter().zip(&self.counts);
        let all = variables.map(of).collect::<candle_core::Result<Vec<_>>>()?;
        Ok(Tensor::cat(&all, 0)?)
    }

    /// Returns the loss of an image for a target, and its gradient with respect to the pixels.
    ///
    /// The image is `(1, channels, height, width)`, the target like [`update`](UpdateMatching::update).
    ///
    /// # Errors
    /// Returns an error if the image does not fit the network.
    pub fn value_and_slope(
        &self,
        pixels: &Tensor,
        label: u32,
        target: &Tensor,
    ) -> Result<(f64, Tensor), LearningError> {
        let gradient = self.gradient(pixels, label)?;
        let (own, wanted) = (length(&gradient)?, length(target)?);
        if own == 0.0 || wanted == 0.0 {
            return Ok((1.0, pixels.detach().zeros_like()?));
        }
        let cosine = sum(&gradient.mul(target)?)? / (own * wanted);
        // Derivative of the loss with respect to the gradient, which is orthogonal to the gradient.
        let slope = ((&gradient * (cosine / (own * own)))? - (target / (own * wanted))?)?;
        let steepness = length(&slope)?;
        if steepness == 0.0 {
            return Ok((1.0 - cosine, pixels.detach().zeros_like()?));
        }
        let step = MOVE / steepness;
        let up = self.pixel_slope(pixels, label, &slope, step)?;
        let down = self.pixel_slope(pixels, label, &slope, -step)?;
        self.moved(&slope, 0.0)?;
        Ok((1.0 - cosine, ((up - down)? / (2.0 * step))?))
    }

    /// Returns the pixel gradient of the training loss, with moved parameters.
    fn pixel_slope(
        &self,
        pixels: &Tensor,
        label: u32,
        direction: &Tensor,
        step: f64,
    ) -> Result<Tensor, LearningError> {
        self.moved(direction, step)?;
        let pixels = Var::from_tensor(&pixels.detach())?;
        let gradients = self.network.image_loss(pixels.as_tensor(), &[label])?.backward()?;
        Ok(match gradients.get(&pixels) {
            Some(slope) => slope.clone(),
            None => pixels.as_tensor().zeros_like()?,
        })
    }

    /// Sets the variables to their start, moved by `step` times a direction.
    fn moved(&self, direction: &Tensor, step: f64) -> Result<(), LearningError> {
        let mut first = 0;
        for ((_, variable), start) in self.network.variables().iter().zip(&self.start) {
            let count = start.elem_count();
            let own = direction.narrow(0, first, count)?.reshape(start.shape())?;
            variable.set(&(start + (own * step)?)?)?;
            first += count;
        }
        Ok(())
    }
}

fn sum(values: &Tensor) -> Result<f64, LearningError> {
    Ok(f64::from(ops::sum_all(values)?.to_scalar::<f32>()?))
}

fn length(values: &Tensor) -> Result<f64, LearningError> {
    Ok(sum(&values.sqr()?)?.sqrt())
}

#[cfg(test)]
mod tests {
    use candle_core::Device;

    use super::*;
    use crate::model::{Backbone, LinearHead, Parameter, ParameterSet, PixelShape};
    use crate::numerics::distributions::fill_normal;
    use crate::numerics::streams::{Domain, StreamKey};

    fn parameter(shape: &[usize], step: u64, deviation: f32) -> Parameter {
        let mut values = vec![0.0; shape.iter().product()];
        fill_normal(&mut StreamKey::new(3, Domain::Attack).step(step).rng(), &mut values);
        values.iter_mut().for_each(|value| *value *= deviation);
        Parameter { shape: shape.to_vec(), values: values.into() }
    }

    fn head(step: u64, deviation: f32) -> ParameterSet {
        [
            (LinearHead::WEIGHT, parameter(&[5, 64], step, deviation)),
            (LinearHead::BIAS, parameter(&[5], step + 1, deviation)),
        ]
        .into_iter()
        .collect()
    }

    /// Features are the pixels, so that losses are smooth.
    fn network(set: &ParameterSet) -> Classifier {
        let backbone = Arc::new(Backbone::Pixels(PixelShape { channels: 1, image: 8 }));
        Classifier::trainable(&backbone, set, 0..5).unwrap()
    }

    fn image_of(pixels: Vec<f32>) -> Tensor {
        Tensor::from_vec(pixels, (1, 1, 8, 8), &Device::Cpu).unwrap()
    }

    fn moved_by(factor: f64) -> UpdateMatching {
        let (start, end) = (network(&head(0, 0.3)), network(&head(7, 0.3)));
        UpdateMatching::new(start, &end, &|_| factor).unwrap().unwrap()
    }

    #[test]
    fn updates_are_received_less_trained_values_over_factors() {
        let (received, sent) = (head(0, 0.3), head(7, 0.3));
        let found = moved_by(0.5).update().to_vec1::<f32>().unwrap();
        let names = [LinearHead::BIAS, LinearHead::WEIGHT];
        let of = |set: &ParameterSet| -> Vec<f32> {
            names.iter().flat_map(|name| set.get(name).unwrap().values.to_vec()).collect()
        };
        for ((found, received), sent) in found.iter().zip(of(&received)).zip(of(&sent)) {
            assert!((found - 2.0 * (received - sent)).abs() < 1e-5);
        }
        let same = UpdateMatching::new(network(&received), &network(&received), &|_| 1.0).unwrap();
        assert!(same.is_none(), "nothing moved");
        let still = UpdateMatching::new(network(&received), &network(&sent), &|_| 0.0).unwrap();
        assert!(still.is_none(), "nothing that counts moved");
    }

    /// A variable that stayed, or has no rate, would only lengthen the gradient.
    #[test]
    fn variables_that_do_not_count_have_no_gradient() {
        let (received, sent) = (head(0, 0.3), head(7, 0.3));
        let without = |name: &'static str| move |other: &str| f64::from(u8::from(other != name));
        let stayed: ParameterSet = [
            (LinearHead::WEIGHT, received.get(LinearHead::WEIGHT).unwrap().clone()),
            (LinearHead::BIAS, sent.get(LinearHead::BIAS).unwrap().clone()),
        ]
        .into_iter()
        .collect();
        let no_bias =
            UpdateMatching::new(network(&received), &network(&sent), &without(LinearHead::BIAS));
        let no_weight = UpdateMatching::new(network(&received), &network(&stayed), &|_| 1.0);
        for (matching, is_zero) in [(no_bias, [true, false]), (no_weight, [false, true])] {
            let matching = matching.unwrap().unwrap();
            let gradient = matching.gradient(&image_of(vec![0.5; 64]), 2).unwrap();
            for values in [matching.update(), &gradient] {
                let values = values.to_vec1::<f32>().unwrap();
                let (bias, weight) = values.split_at(5);
                let found = [bias, weight].map(|part| part.iter().all(|value| *value == 0.0));
                assert_eq!(found, is_zero);
            }
        }
    }

    /// The slope against differences of the loss; a step of gradient descent is matched by its image alone.
    #[test]
    fn slopes_are_those_of_the_loss_and_vanish_at_the_image() {
        let matching = moved_by(1.0);
        let pixels: Vec<f32> = (0..64).map(|at| ((at * 7 % 11) as f32) / 11.0).collect();
        let (image, target) = (image_of(pixels.clone()), matching.update().clone());
        let (value, slope) = matching.value_and_slope(&image, 2, &target).unwrap();
        let slope = slope.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        let scale = slope.iter().fold(0f32, |most, slope| most.max(slope.abs()));
        assert!(value > 0.5 && scale > 1e-3, "{value} {scale}");
        for at in 0..64 {
            let moved = |by: f32| {
                let mut pixels = pixels.clone();
                pixels[at] += by;
                matching.value_and_slope(&image_of(pixels), 2, &target).unwrap().0
            };
            let difference = ((moved(0.02) - moved(-0.02)) / 0.04) as f32;
            let apart = (difference - slope[at]).abs();
            assert!(apart < 0.02 * scale, "{at}: {difference} {}", slope[at]);
        }
        let gradient = matching.gradient(&image, 2).unwrap();
        let step = |factor: f64| (&gradient * factor).unwrap();
        assert!(matching.value_and_slope(&image, 2, &step(0.1)).unwrap().0 < 1e-5);
        assert!(matching.value_and_slope(&image, 2, &step(-0.1)).unwrap().0 > 2.0 - 1e-5);
        assert!(matching.value_and_slope(&image, 3, &step(0.1)).unwrap().0 > 0.1);
    }
}
