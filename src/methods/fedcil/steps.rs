//! Training step of generator and discriminator, the same for clients and server.

use candle_core::{Device, Tensor};

use super::FedCil;
use super::losses::{ConsistencyWeights, LabeledImages, auxiliary, divergence};
use crate::learning::LearningError;
use crate::model::{AcGan, AcGanConfig, AcGenerator, GanAnswer, GanDropout, MaskPlace};
use crate::numerics::streams::{Domain, StreamKey};
use rand::Rng;

/// Indices of the discriminator's passes in a step, each with other dropout masks.
const REAL: usize = 0;
const GENERATED: usize = 1;
const REPLAYED: usize = 2;
const GENERATED_AGAIN: usize = 3;
const GENERATOR: usize = 4;
const CONSISTENT: usize = 5;

/// Consistency with the server's generator.
pub(super) struct Consistency<'a> {
    /// Generator that the server sent.
    pub generator: &'a AcGenerator,
    /// Head rows of all classes seen.
    pub classes: &'a [u32],
    pub weights: ConsistencyWeights,
}

/// Losses of both networks in the steps of a training.
pub(super) struct GanSteps<'a> {
    pub config: AcGanConfig,
    pub gan: &'a AcGan,
    pub device: &'a Device,
    /// Fraction of entries dropped in the discriminator.
    pub dropout: f64,
    /// Weight of the current task's images in the discriminator's loss.
    pub new_weight: f64,
    /// Head rows of the classes of which the generator makes images: those seen so far.
    pub classes: &'a [u32],
    /// Key of all random streams of the training.
    pub key: StreamKey,
    pub consistency: Option<Consistency<'a>>,
}

/// Returns `count` labels drawn uniformly among the head rows `classes`.
pub(super) fn drawn_labels(classes: &[u32], count: usize, key: StreamKey) -> Vec<u32> {
    let mut rng = key.rng();
    (0..count).map(|_| classes[rng.random_range(0..classes.len() as u32) as usize]).collect()
}

/// Returns generated images of randomly drawn labels, without gradients.
///
/// # Errors
/// Returns the errors of the generator.
pub(super) fn drawn_images(
    (config, generator): (&AcGanConfig, &AcGenerator),
    (classes, count): (&[u32], usize),
    key: (StreamKey, &str),
    device: &Device,
) -> Result<LabeledImages, LearningError> {
    let (key, purpose) = key;
    let labels = drawn_labels(classes, count, key.named(&format!("labels/{purpose}")));
    let noise = config.noise_of(&labels, key.named(&format!("noise/{purpose}")), device)?;
    Ok(LabeledImages { images: generator.images(&noise)?.detach(), labels })
}

impl FedCil {
    /// Returns the losses of these networks without consistency terms.
    ///
    /// `classes` are the head rows of generated images, `key` is that of all random streams.
    pub(super) fn gan_steps<'a>(
        &self,
        (config, gan): (AcGanConfig, &'a AcGan),
        classes: &'a [u32],
        key: StreamKey,
        device: &'a Device,
    ) -> GanSteps<'a> {
        let (dropout, new_weight) = (self.dropout, self.new_weight);
        GanSteps { config, gan, device, dropout, new_weight, classes, key, consistency: None }
    }
}

impl GanSteps<'_> {
    fn answer(&self, images: &Tensor, step: u64, pass: usize) -> Result<GanAnswer, LearningError> {
        Ok(self.gan.discriminator.forward(images, Some(self.masks(step, pass)))?)
    }

    fn masks(&self, step: u64, pass: usize) -> GanDropout {
        let place = MaskPlace { key: self.key.domain(Domain::Dropout), step };
        GanDropout { rate: self.dropout, place, pass }
    }

    fn generated(
        &self,
        count: usize,
        step: u64,
        purpose: &str,
    ) -> Result<LabeledImages, LearningError> {
        let (generator, purpose) = (&self.gan.generator, format!("{purpose}.{step}"));
        let of = (self.classes, count);
        drawn_images((&self.config, generator), of, (self.key, &purpose), self.device)
    }

    /// Returns the discriminator's loss of these images as real ones and of as many generated ones.
    fn branch(
        &self,
        real: &LabeledImages,
        step: u64,
        [own, other]: [usize; 2],
    ) -> Result<(Tensor, GanAnswer), LearningError> {
        let seen = self.answer(&real.images, step, own)?;
        let generated = self.generated(real.labels.len(), step, &format!("generated.{own}"))?;
        let answer = self.answer(&generated.images, step, other)?;
        let loss = (auxiliary(&seen, &real.labels, true)?
            + auxiliary(&answer, &generated.labels, false)?)?;
        Ok((loss, seen))
    }

    /// Returns the discriminator's loss on images of the current task and replayed ones, a scalar.
    ///
    /// # Errors
    /// Returns the errors of the networks.
    pub fn discriminator_loss(
        &self,
        step: u64,
        new: &LabeledImages,
        replayed: Option<&LabeledImages>,
    ) -> Result<Tensor, LearningError> {
        let (own, seen) = self.branch(new, step, [REAL, GENERATED])?;
        let loss = match replayed {
            None => own,
            Some(replayed) => {
                let (old, _) = self.branch(replayed, step, [REPLAYED, GENERATED_AGAIN])?;
                ((own * self.new_weight)? + (old * (1.0 - self.new_weight))?)?
            }
        };
        match &self.consistency {
            None => Ok(loss),
            Some(consistency) => Ok((loss + self.agreement(consistency, step, new, &seen)?)?),
        }
    }

    /// Returns the weighted sum of the consistency terms, a scalar.
    fn agreement(
        &self,
        consistency: &Consistency<'_>,
        step: u64,
        new: &LabeledImages,
        seen: &GanAnswer,
    ) -> Result<Tensor, LearningError> {
        let Consistency { generator, classes, weights } = consistency;
        let ConsistencyWeights { real, generated, labels } = *weights;
        let noise = |purpose: &str, labels: &[u32]| {
            let key = self.key.named(&format!("noise/{purpose}.{step}"));
            self.config.noise_of(labels, key, self.device)
        };
        let images = |generator: &AcGenerator, purpose: &str, labels: &[u32]| {
            Ok::<_, LearningError>(generator.images(&noise(purpose, labels)?)?.detach())
        };
        let mut sum = Tensor::zeros((), candle_core::DType::F32, self.device)?;
        if real > 0.0 {
            let same = images(generator, "same", &new.labels)?;
            let same = self.answer(&same, step, CONSISTENT)?;
            sum = (sum + (divergence(&same.classes, &seen.classes)? * real)?)?;
        }
        if generated > 0.0 || labels > 0.0 {
            let key = self.key.named(&format!("labels/all.{step}"));
            let rows = drawn_labels(classes, new.labels.len(), key);
            let sent = images(generator, "sent", &rows)?;
            let sent = self.answer(&sent, step, CONSISTENT + 1)?;
            if generated > 0.0 {
                let own = images(&self.gan.generator, "own", &rows)?;
                let own = self.answer(&own, step, CONSISTENT + 2)?;
                sum = (sum + (divergence(&sent.classes, &own.classes)? * generated)?)?;
            }
            let right =
                crate::model::ops::cross_entropy(&sent.classes, &rows, 0..self.config.classes)?;
            sum = (sum + (right * labels)?)?;
        }
        Ok(sum)
    }

    /// Returns the generator's loss for `count` images, judged by the current discriminator.
    ///
    /// # Errors
    /// Returns the errors of the networks.
    pub fn generator_loss(&self, step: u64, count: usize) -> Result<Tensor, LearningError> {
        let key = |what: &str| self.key.named(&format!("{what}/generator.{step}"));
        let labels = drawn_labels(self.classes, count, key("labels"));
        let noise = self.config.noise_of(&labels, key("noise"), self.device)?;
        let images = self.gan.generator.images(&noise)?;
        let judge = self.gan.discriminator.detached();
        let answer = judge.forward(&images, Some(self.masks(step, GENERATOR)))?;
        auxiliary(&answer, &labels, true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ops::testing::draw;
    use crate::model::{GanForm, ParameterSet};

    fn config() -> AcGanConfig {
        AcGanConfig {
            form: GanForm::Cifar,
            noise: 9,
            classes: 4,
            channels: 1,
            image: 8,
            divisor: 16,
        }
    }

    fn key() -> StreamKey {
        StreamKey::new(5, Domain::Method)
    }

    fn set(seed: u64) -> ParameterSet {
        config().initial_parameters(StreamKey::new(seed, Domain::Init))
    }

    fn batch(name: &str, labels: &[u32]) -> LabeledImages {
        LabeledImages { images: draw(name, (labels.len(), 1, 8, 8)), labels: labels.to_vec() }
    }

    /// Returns the losses of a method with dropout and weight 0.5, without consistency terms.
    fn steps_of<'a>(gan: &'a AcGan, classes: &'a [u32]) -> GanSteps<'a> {
        let method = FedCil { dropout: 0.5, new_weight: 0.5, ..FedCil::default() };
        method.gan_steps((config(), gan), classes, key(), &Device::Cpu)
    }

    fn value(tensor: &Tensor) -> f64 {
        f64::from(tensor.to_scalar::<f32>().unwrap())
    }

    /// Returns the discriminator's loss in a step of new networks, so that running moments do not matter.
    fn loss(new_weight: f64, replayed: Option<&LabeledImages>, weights: Option<[f64; 3]>) -> f64 {
        let gan = AcGan::trainable(config(), &set(1), &Device::Cpu).unwrap();
        let sent = AcGenerator::frozen(config(), &set(2), &Device::Cpu).unwrap();
        let weigh = |[real, generated, labels]: [f64; 3]| Consistency {
            generator: &sent,
            classes: &[0, 1, 2, 3],
            weights: ConsistencyWeights { real, generated, labels },
        };
        let consistency = weights.map(weigh);
        let steps = GanSteps { new_weight, consistency, ..steps_of(&gan, &[0, 2]) };
        value(&steps.discriminator_loss(3, &batch("new", &[2, 2, 0]), replayed).unwrap())
    }

    /// FedCIL card, section 5: both parts have the weights `w` and `1 - w`; without replay there are no weights.
    #[test]
    fn replay_and_new_images_share_the_weight() {
        let old = batch("old", &[0, 0, 2]);
        let [zero, some, one] = [0.0, 0.3, 1.0].map(|weight| loss(weight, Some(&old), None));
        assert!((some - (0.3 * one + 0.7 * zero)).abs() < 1e-5, "{zero} {some} {one}");
        assert!((zero - one).abs() > 1e-4);
        assert!((loss(0.3, None, None) - one).abs() < 1e-6, "the first task weighs alone");
    }

    /// Each weight scales one term; K3 is the cross-entropy of the server's images.
    #[test]
    fn terms_of_agreement_add_up() {
        let plain = loss(0.5, None, None);
        let term = |weights| loss(0.5, None, Some(weights)) - plain;
        let [real, generated, labels] =
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]].map(term);
        assert!(real > 0.0 && generated > 0.0 && labels > 1.0, "{real} {generated} {labels}");
        let all = term([0.5, 2.0, 3.0]);
        assert!((all - (0.5 * real + 2.0 * generated + 3.0 * labels)).abs() < 1e-4);
        assert_eq!(term([0.0; 3]), 0.0);
    }

    /// FedCIL card, section 5: K1, K2 and K3 of a discriminator without dropout equal those computed by hand.
    #[test]
    fn terms_of_agreement_are_those_of_the_release() {
        let gan = AcGan::trainable(config(), &set(1), &Device::Cpu).unwrap();
        let sent = AcGenerator::frozen(config(), &set(2), &Device::Cpu).unwrap();
        let new = batch("new", &[2, 2, 0]);
        let answer = |images: &Tensor| gan.discriminator.answer(images).unwrap().classes;
        let made = |generator: &AcGenerator, purpose: &str, labels: &[u32]| {
            let key = key().named(&format!("noise/{purpose}.3"));
            generator.images(&config().noise_of(labels, key, &Device::Cpu).unwrap()).unwrap()
        };
        let rows = drawn_labels(&[1, 3], 3, key().named("labels/all.3"));
        let (real, same) = (answer(&new.images), answer(&made(&sent, "same", &new.labels)));
        let (theirs, own) =
            (answer(&made(&sent, "sent", &rows)), answer(&made(&gan.generator, "own", &rows)));
        let by_hand = [
            value(&divergence(&same, &real).unwrap()),
            value(&divergence(&theirs, &own).unwrap()),
            value(&crate::model::ops::cross_entropy(&theirs, &rows, 0..4).unwrap()),
        ];
        for (at, expected) in by_hand.into_iter().enumerate() {
            let mut weights = [0.0; 3];
            weights[at] = 1.0;
            let [real, generated, labels] = weights;
            let weights = ConsistencyWeights { real, generated, labels };
            let consistency = Consistency { generator: &sent, classes: &[1, 3], weights };
            let steps = GanSteps { dropout: 0.0, ..steps_of(&gan, &[0, 2]) };
            let seen = gan.discriminator.answer(&new.images).unwrap();
            let found = value(&steps.agreement(&consistency, 3, &new, &seen).unwrap());
            assert!((found - expected).abs() < 1e-6, "K{}: {found} {expected}", at + 1);
        }
    }

    /// A step of the generator leaves no gradient in the discriminator, and the other way around.
    #[test]
    fn each_network_steps_alone() {
        let gan = AcGan::trainable(config(), &set(1), &Device::Cpu).unwrap();
        let steps = steps_of(&gan, &[0, 2]);
        let generator = steps.generator_loss(0, 4).unwrap().backward().unwrap();
        assert!(gan.generator.vars().iter().all(|var| generator.get(var).is_some()));
        assert!(gan.discriminator.vars().iter().all(|var| generator.get(var).is_none()));
        let batch = batch("new", &[2, 0]);
        let loss = steps.discriminator_loss(0, &batch, Some(&batch)).unwrap();
        let discriminator = loss.backward().unwrap();
        assert!(gan.discriminator.vars().iter().all(|var| discriminator.get(var).is_some()));
        assert!(gan.generator.vars().iter().all(|var| discriminator.get(var).is_none()));
    }

    /// The generator's loss is that of the discriminator for real images.
    #[test]
    fn a_generator_is_to_be_taken_for_real() {
        let gan = AcGan::trainable(config(), &set(1), &Device::Cpu).unwrap();
        let steps = GanSteps { dropout: 0.0, ..steps_of(&gan, &[3]) };
        let noise = config().noise_of(&[3; 4], key().named("noise/generator.6"), &Device::Cpu);
        let images = gan.generator.images(&noise.unwrap()).unwrap();
        let answer = gan.discriminator.answer(&images).unwrap();
        let expected = value(&auxiliary(&answer, &[3; 4], true).unwrap());
        let found = value(&steps.generator_loss(6, 4).unwrap());
        assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        assert!((found - value(&auxiliary(&answer, &[3; 4], false).unwrap())).abs() > 1e-6);
    }

    #[test]
    fn labels_are_drawn_among_given_classes() {
        let labels = drawn_labels(&[1, 5, 6], 300, key());
        let count = |class| labels.iter().filter(|label| **label == class).count();
        assert_eq!(count(1) + count(5) + count(6), 300);
        assert!([1, 5, 6].iter().all(|class| count(*class) > 70));
        assert_ne!(labels, drawn_labels(&[1, 5, 6], 300, key().step(1)));
    }
}
