//! Feature inversion: reconstruction of images from features that a network computed from them.
//!
//! An attacker who knows the network searches for an image whose features are those that a client sent, or whose
//! gradient moves the parameters as a client did. The image is either pixels that start as noise, or the output of an
//! untrained network for fixed noise, whose architecture alone favors plausible images. Sources: Ulyanov et al., "Deep
//! Image Prior", CVPR 2018; Zhao et al., "What Makes Instance Discrimination Good for Transfer Learning?", arXiv
//! 2006.06606; HGP's figure C and STSA's appendix E.1, which use them.
//!
//! ```
//! use candle_core::{Device, Tensor};
//! use fedcast::learning::feature_inversion::{ImagePrior, InversionPlan, invert, psnr};
//! use fedcast::learning::LearningError;
//! use fedcast::numerics::streams::{Domain, StreamKey};
//! // Features that are the pixels themselves give the image away.
//! let image = Tensor::from_vec(vec![0.1f32, 0.9, 0.5, 0.3], (1, 1, 2, 2), &Device::Cpu)?;
//! let plan = InversionPlan { prior: ImagePrior::Pixels, steps: 300, rate: 0.05 };
//! let features = |pixels: &Tensor| Ok::<_, LearningError>(pixels.flatten_from(1)?);
//! let key = StreamKey::new(1, Domain::Attack);
//! let found = invert(&image.flatten_all()?, [1, 2, 2], features, plan, key)?;
//! assert!(psnr(&found.pixels, &[0.1, 0.9, 0.5, 0.3]) > 40.0);
//! # Ok::<(), LearningError>(())
//! ```

mod image_prior;
mod lpips;
mod similarity;
mod update_matching;

use candle_core::{Device, Tensor};

use super::LearningError;
use super::optimizer::{Adam, OptimizerConfig};
use crate::model::ops;
use crate::numerics::streams::StreamKey;
pub use image_prior::ImagePrior;
use image_prior::PriorImage;
pub use lpips::{LPIPS_LEAST_SIDE, Lpips, LpipsError, lpips_scale};
pub use similarity::{psnr, ssim};
pub use update_matching::UpdateMatching;

/// Settings of an inversion.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InversionPlan {
    /// Parametrization of the image.
    pub prior: ImagePrior,
    /// Number of steps of Adam.
    pub steps: u32,
    /// Learning rate.
    pub rate: f64,
}

/// Reconstructed image.
#[derive(Clone, Debug, PartialEq)]
pub struct InvertedImage {
    /// `channels * height * width` values in `[0, 1]`.
    pub pixels: Vec<f32>,
    /// Loss at the first step: the mean squared error of the features, or 1 - cosine for updates.
    pub first_loss: f64,
    /// Loss of the reconstructed image.
    pub loss: f64,
}

/// Searches for the image of `[channels, side, side]` whose features are `target` `(width,)`.
///
/// `features` maps images `(1, channels, side, side)` in `[0, 1]` to `(1, width)`. All random numbers are drawn at
/// `key`.
///
/// # Errors
/// Returns an error if the loss is not finite, or `features` fails.
pub fn invert<E: From<LearningError> + From<candle_core::Error>>(
    target: &Tensor,
    shape: [usize; 3],
    features: impl Fn(&Tensor) -> Result<Tensor, E>,
    plan: InversionPlan,
    key: StreamKey,
) -> Result<InvertedImage, E> {
    let target = target.unsqueeze(0)?;
    let loss = |image: &Tensor| -> Result<(f64, Tensor), E> {
        let loss = ops::mean_all(&(features(image)? - &target)?.sqr()?)?;
        Ok((f64::from(loss.to_scalar::<f32>()?), loss))
    };
    search(shape, target.device(), loss, plan, key)
}

/// Searches for the image whose gradient has the direction of a given vector.
///
/// The image has `[channels, side, side]` and the label. The target is an update of a client
/// ([`UpdateMatching::update`]) or the [gradient](UpdateMatching::gradient) of an image. `scale` maps images in `[0,
/// 1]` to the input of the network. Losses of the result are those of the update.
///
/// # Errors
/// Returns an error if the loss is not finite, or if the network or `scale` fails.
pub fn invert_update<E: From<LearningError> + From<candle_core::Error>>(
    matching: &UpdateMatching,
    (target, label): (&Tensor, u32),
    shape: [usize; 3],
    scale: impl Fn(&Tensor) -> Result<Tensor, E>,
    plan: InversionPlan,
    key: StreamKey,
) -> Result<InvertedImage, E> {
    let loss = |image: &Tensor| -> Result<(f64, Tensor), E> {
        let pixels = scale(image)?;
        let (value, slope) = matching.value_and_slope(&pixels, label, target)?;
        // Auxiliary scalar whose gradient with respect to the pixels is the slope.
        Ok((value, ops::sum_all(&pixels.mul(&slope.detach())?)?))
    };
    search(shape, target.device(), loss, plan, key)
}

/// Optimizes an image by Adam. `loss` returns the value for an image, and a tensor whose gradient is that of the value.
fn search<E: From<LearningError> + From<candle_core::Error>>(
    shape: [usize; 3],
    device: &Device,
    loss: impl Fn(&Tensor) -> Result<(f64, Tensor), E>,
    plan: InversionPlan,
    key: StreamKey,
) -> Result<InvertedImage, E> {
    let prior = PriorImage::new(plan.prior, shape, device, key).map_err(E::from)?;
    let rule = OptimizerConfig::Adam(Adam { learning_rate: plan.rate, ..Adam::default() });
    let mut optimizer = rule.over(prior.variables());
    let mut first_loss = None;
    let checked = |value: f64, step: u64| match value.is_finite() {
        true => Ok(value),
        false => Err(LearningError::NonFinite { what: "loss of an inversion".into(), step }),
    };
    for step in 0..u64::from(plan.steps) {
        let (value, loss) = loss(&prior.image()?)?;
        first_loss.get_or_insert(checked(value, step)?);
        optimizer.step(&loss.backward()?, plan.rate, 1.0)?;
    }
    let image = prior.image()?.detach();
    let (loss, _) = loss(&image)?;
    let loss = checked(loss, u64::from(plan.steps))?;
    let pixels = image.flatten_all()?.to_vec1::<f32>()?;
    Ok(InvertedImage { pixels, first_loss: first_loss.unwrap_or(loss), loss })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Adaptation, Backbone, ResNet, ResNetConfig};
    use crate::numerics::streams::Domain;

    fn key() -> StreamKey {
        StreamKey::new(4, Domain::Attack)
    }

    #[test]
    fn features_of_a_network_are_approached_by_both_priors() {
        let config =
            ResNetConfig { image: 8, channels: 3, width: 4, blocks: [1; 4], ..Default::default() };
        let set = ResNet::initial_parameters(&config, key());
        let network: Backbone = ResNet::from_parameters(config, &set).unwrap().into();
        let features = |pixels: &Tensor| -> Result<Tensor, LearningError> {
            Ok(network.features(pixels, &Adaptation::none())?)
        };
        let image: Vec<f32> = (0..192).map(|at| ((at * 7 % 11) as f32) / 11.0).collect();
        let image = Tensor::from_vec(image, (1, 3, 8, 8), &Device::Cpu).unwrap();
        let target = features(&image).unwrap().flatten_all().unwrap();
        for prior in [ImagePrior::Pixels, ImagePrior::Network] {
            let plan = InversionPlan { prior, steps: 60, rate: 0.02 };
            let found = invert(&target, [3, 8, 8], features, plan, key()).unwrap();
            assert!(found.loss < found.first_loss / 4.0, "{prior:?}: {found:?}");
            assert!(found.pixels.iter().all(|value| (0.0..=1.0).contains(value)));
            let again = invert(&target, [3, 8, 8], features, plan, key()).unwrap();
            assert_eq!(again, found);
            let other = invert(&target, [3, 8, 8], features, plan, key().client(1)).unwrap();
            assert_ne!(other.pixels, found.pixels);
        }
    }

    #[test]
    fn a_loss_that_is_not_finite_ends_the_search() {
        let target = Tensor::new(&[f32::NAN], &Device::Cpu).unwrap();
        let plan = InversionPlan { prior: ImagePrior::Pixels, steps: 2, rate: 0.1 };
        let features = |pixels: &Tensor| Ok::<_, LearningError>(pixels.flatten_from(1)?);
        let error = invert(&target, [1, 1, 1], features, plan, key()).unwrap_err();
        assert!(error.to_string().contains("loss of an inversion"), "{error}");
    }
}
