//! Training of a generator against a frozen classifier.

use candle_core::Tensor;

use super::{content, diversity, norm_statistics, smoothness};
use crate::learning::optimizer::Adam;
use crate::learning::{Classifier, CountedWork, LearningError, OptimizerConfig};
use crate::model::{ImageGenerator, NormInput};
use crate::numerics::streams::StreamKey;

/// Weights of the terms of a generator's loss.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InversionLoss {
    /// Weight of [`content`].
    pub content: f64,
    /// Temperature of [`content`].
    pub temperature: f64,
    /// Weight of [`diversity`].
    pub diversity: f64,
    /// Weight of [`norm_statistics`].
    pub statistics: f64,
    /// Weight of [`smoothness`].
    pub smoothness: f64,
}

/// Terms of a generator's loss for a batch, before weighting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct InversionTerms {
    /// Value of [`content`].
    pub content: f64,
    /// Value of [`diversity`].
    pub diversity: f64,
    /// Value of [`norm_statistics`]; 0 without batch norms.
    pub statistics: f64,
    /// Value of [`smoothness`].
    pub smoothness: f64,
}

/// Steps of Adam that train a generator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InversionSteps {
    /// Number of steps.
    pub count: u32,
    /// Images per step.
    pub batch: usize,
    /// Learning rate.
    pub rate: f64,
}

impl InversionLoss {
    /// Returns the loss of `images` `(b, c, h, w)`, and its terms.
    ///
    /// `scores` `(b, K)` and the `inputs` of batch norms are a classifier's for these images.
    ///
    /// # Errors
    /// Returns an error if shapes do not fit.
    pub fn of(
        &self,
        images: &Tensor,
        scores: &Tensor,
        inputs: &[NormInput],
    ) -> Result<(Tensor, InversionTerms), LearningError> {
        let terms = [
            (self.content, content(scores, self.temperature)?),
            (self.diversity, diversity(scores)?),
            (self.smoothness, smoothness(images)?),
        ];
        let statistics = norm_statistics(inputs)?;
        let value = |term: &Tensor| -> Result<f64, LearningError> {
            Ok(f64::from(term.to_scalar::<f32>()?))
        };
        let [content, diversity, smoothness] = [&terms[0].1, &terms[1].1, &terms[2].1].map(value);
        let known = InversionTerms {
            content: content?,
            diversity: diversity?,
            statistics: statistics.as_ref().map(value).transpose()?.unwrap_or(0.0),
            smoothness: smoothness?,
        };
        let all = terms.into_iter().chain(statistics.map(|term| (self.statistics, term)));
        let mut total = Tensor::zeros((), candle_core::DType::F32, images.device())?;
        for (weight, term) in all {
            total = (total + (term * weight)?)?;
        }
        Ok((total, known))
    }
}

/// Trains a generator, by Adam without weight decay, for a classifier's first head rows. Returns the terms of the last
/// step's loss; `work` counts the steps.
///
/// The noise of step `s` is drawn at `key.step(s)`.
///
/// # Errors
/// Returns an error if a loss is not finite, or the network fails.
pub fn train_generator(
    generator: &ImageGenerator,
    (classifier, classes): (&Classifier, usize),
    loss: &InversionLoss,
    (steps, work): (InversionSteps, &CountedWork<'_>),
    key: StreamKey,
) -> Result<InversionTerms, LearningError> {
    let adam = OptimizerConfig::Adam(Adam { learning_rate: steps.rate, ..Adam::default() });
    let mut optimizer = adam.over(generator.vars());
    let mut last = InversionTerms::default();
    for step in 0..u64::from(steps.count) {
        let images = generator.images(&generator.latents(steps.batch, key.step(step))?)?;
        let (features, inputs) = classifier.backbone().tapped_features(&images)?;
        let scores = classifier.logits(&features)?.narrow(1, 0, classes)?.contiguous()?;
        let (total, terms) = loss.of(&images, &scores, &inputs)?;
        if !total.to_scalar::<f32>()?.is_finite() {
            return Err(LearningError::NonFinite { what: "loss of the generator".into(), step });
        }
        optimizer.step(&total.backward()?, steps.rate, 1.0)?;
        work.step();
        last = terms;
    }
    Ok(last)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::learning::StepCount;
    use crate::model::{
        Backbone, HeadStart, ImageGeneratorConfig, ParameterSet, ResNet, ResNetConfig,
    };
    use crate::numerics::streams::Domain;
    use candle_core::Device;

    const LOSS: InversionLoss = InversionLoss {
        content: 1.0,
        temperature: 1000.0,
        diversity: 1.0,
        statistics: 50.0,
        smoothness: 1e-3,
    };

    fn classifier(key: StreamKey) -> Classifier {
        let config =
            ResNetConfig { image: 8, channels: 1, width: 4, blocks: [1; 4], ..Default::default() };
        let set = ResNet::initial_parameters(&config, key);
        let head = HeadStart::Uniform.parameters(4, config.dim(), key);
        let backbone: Backbone = ResNet::from_parameters(config, &set).unwrap().into();
        Classifier::frozen(&Arc::new(backbone), &set.merge(&head)).unwrap()
    }

    fn trained(loss: &InversionLoss, count: u32) -> (ParameterSet, InversionTerms) {
        let key = StreamKey::new(3, Domain::Method);
        let config = ImageGeneratorConfig {
            latent: 8,
            width: 8,
            last: 4,
            upsamplings: 2,
            channels: 1,
            image: 8,
            ..ImageGeneratorConfig::default()
        };
        let start = ImageGenerator::initial_parameters(&config, key);
        let generator = ImageGenerator::trainable(config, &start, &Device::Cpu).unwrap();
        let steps = InversionSteps { count, batch: 16, rate: 5e-3 };
        let classifier = classifier(key);
        let counted = StepCount::default();
        let work = (steps, &counted.begin("generator", u64::from(count)));
        let terms = train_generator(&generator, (&classifier, 3), loss, work, key).unwrap();
        assert_eq!(counted.taken(), u64::from(count));
        (generator.parameters().unwrap(), terms)
    }

    #[test]
    fn training_lowers_the_loss_and_has_the_same_bits() {
        let total = |terms: InversionTerms| {
            terms.content + terms.diversity + 50.0 * terms.statistics + 1e-3 * terms.smoothness
        };
        let (first, last) = (trained(&LOSS, 1), trained(&LOSS, 40));
        let (before, after) = (total(first.1), total(last.1));
        assert!(after < 0.7 * before, "{before} {after}");
        assert_eq!(last.0.digest(), trained(&LOSS, 40).0.digest());
        assert_ne!(last.0.digest(), first.0.digest());
    }

    /// A generator that minimizes one term alone ends with less of it than one that minimizes another.
    #[test]
    fn every_weight_acts_on_its_own_term() {
        let nothing = InversionLoss {
            content: 0.0,
            diversity: 0.0,
            statistics: 0.0,
            smoothness: 0.0,
            ..LOSS
        };
        let end = |loss: InversionLoss| trained(&loss, 30).1;
        let rough = end(InversionLoss { smoothness: 1.0, ..nothing });
        let other = end(InversionLoss { statistics: 1.0, ..nothing });
        assert!(rough.smoothness < 0.5 * other.smoothness, "{rough:?} {other:?}");
        assert!(other.statistics < 0.5 * rough.statistics, "{rough:?} {other:?}");
        let one_class = InversionLoss { content: 1.0, temperature: 1.0, ..nothing };
        let (sure, spread) = (end(one_class), end(InversionLoss { diversity: 1.0, ..nothing }));
        assert!(sure.diversity > 2.0 * spread.diversity, "{sure:?} {spread:?}");
    }
}
