//! Training of the averaged networks at the server, on images that the clients' generators make.
//!
//! Labels are drawn uniformly among those of the generated images, then an image for each label. So classes count
//! equally, however many clients have them.

use std::collections::BTreeMap;

use candle_core::{Device, Tensor};
use rand::Rng;

use super::labels::ClientClasses;
use super::losses::LabeledImages;
use super::moments::NetworkMoments;
use super::steps::drawn_images;
use super::{FedCil, FedCilMemory, LastGenerator};
use crate::learning::LearningError;
use crate::methods::averaging::ClosedRound;
use crate::model::{AcGan, AcGanConfig, AcGenerator, ParameterSet, of_generator};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{KeptUpload, Metrics, PolicyError};

/// Generator, and the head rows of the classes of which it makes images.
struct ImageSource {
    generator: AcGenerator,
    classes: Vec<u32>,
}

/// Generators of a round: for the current task, and for earlier ones.
#[derive(Default)]
struct ImageSources {
    current: Vec<ImageSource>,
    past: Vec<ImageSource>,
}

/// Returns `count` images of a pool, whose labels are drawn uniformly among those of the pool.
pub(super) fn balanced(
    pool: &LabeledImages,
    count: usize,
    key: StreamKey,
) -> Result<LabeledImages, LearningError> {
    let mut by_label = BTreeMap::<u32, Vec<u32>>::new();
    for (at, label) in (0..).zip(&pool.labels) {
        by_label.entry(*label).or_default().push(at);
    }
    let present: Vec<(&u32, &Vec<u32>)> = by_label.iter().collect();
    let mut rng = key.rng();
    let (mut labels, mut places) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for _ in 0..count {
        let (label, images) = present[rng.random_range(0..present.len() as u32) as usize];
        labels.push(*label);
        places.push(images[rng.random_range(0..images.len() as u32) as usize]);
    }
    let places = Tensor::from_vec(places, count, pool.images.device())?;
    Ok(LabeledImages { images: pool.images.index_select(&places, 0)?, labels })
}

/// Returns a balanced batch of `count` images, drawn from as many images of each source.
fn batch_of(
    config: &AcGanConfig,
    sources: &[ImageSource],
    count: usize,
    (key, purpose): (StreamKey, &str),
    device: &Device,
) -> Result<Option<LabeledImages>, LearningError> {
    let mut pool: Option<LabeledImages> = None;
    for (number, source) in sources.iter().enumerate() {
        let purpose = format!("{purpose}.{number}");
        let of = (&source.classes[..], count);
        let made = drawn_images((config, &source.generator), of, (key, &purpose), device)?;
        pool = Some(match pool {
            None => made,
            Some(LabeledImages { images, mut labels }) => {
                labels.extend(made.labels);
                LabeledImages { images: Tensor::cat(&[&images, &made.images], 0)?, labels }
            }
        });
    }
    let key = key.named(&format!("balance/{purpose}"));
    pool.map(|pool| balanced(&pool, count, key)).transpose()
}

impl FedCil {
    /// Stores the generators of a round's uploads; returns those that make images.
    fn sources(
        &self,
        memory: &mut FedCilMemory,
        closing: &ClosedRound<'_>,
    ) -> Result<ImageSources, PolicyError> {
        let (config, device) = (self.config(closing.model), &closing.ctx.device);
        let source = |set: &ParameterSet, classes: Vec<u32>| {
            let generator = AcGenerator::frozen(config, set, device)?;
            Ok::<ImageSource, PolicyError>(ImageSource { generator, classes })
        };
        let mut sources = ImageSources::default();
        for kept @ KeptUpload { meta, update, .. } in &closing.aggregate.kept_uploads {
            let ClientClasses { current, past } = ClientClasses::of(update)?;
            let participant = &meta.participant;
            let own = closing.trained(kept)?.filter(of_generator);
            memory.known.extend(current.iter().chain(&past));
            let key = u64::from(participant.client.0) << 32
                | u64::from(participant.dummy_client.map_or(0, |dummy_client| dummy_client + 1));
            let before = match self.last_generator {
                LastGenerator::Server => memory.last(),
                LastGenerator::Own => {
                    memory.take(key, participant.view.task, own.clone());
                    memory.before(key)
                }
            };
            if let Some(before) = before.filter(|_| !past.is_empty()) {
                sources.past.push(source(before, past)?);
            }
            if !current.is_empty() {
                sources.current.push(source(&own, current)?);
            }
        }
        Ok(sources)
    }

    /// Trains the averaged networks `theta` on images of the round's generators; returns metrics.
    pub(super) fn fine_tune(
        &self,
        memory: &mut FedCilMemory,
        closing: &ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let ImageSources { current, past } = self.sources(memory, closing)?;
        if current.is_empty() {
            return Ok(Metrics::new());
        }
        let (config, device) = (self.config(closing.model), &closing.ctx.device);
        let gan = AcGan::trainable(config, theta, device)?;
        let classes: Vec<u32> = memory.known.iter().copied().collect();
        let key = closing.round.key(Domain::Method);
        let steps = self.gan_steps((config, &gan), &classes, key, device);
        let rule = self.server.optimizer();
        let mut optimizers = memory.moments().optimizers(&rule, &gan)?;
        let (count, rate) = (self.server.batch as usize, self.server.rate);
        let (mut of_discriminator, mut of_generator) = (0.0, 0.0);
        let work = closing.ctx.server_steps.begin("networks", u64::from(self.server.steps));
        for step in 0..u64::from(self.server.steps) {
            let draw = |sources: &[ImageSource], purpose: &str| {
                let purpose = format!("{purpose}.{step}");
                batch_of(&config, sources, count, (key, &purpose), device)
            };
            let Some(new) = draw(&current, "current")? else { break };
            let replayed = draw(&past, "past")?;
            let loss = steps.discriminator_loss(step, &new, replayed.as_ref())?;
            of_discriminator = checked(&loss, step)?;
            optimizers.discriminator.step(&loss.backward()?, rate, 1.0)?;
            let loss = steps.generator_loss(step, count)?;
            of_generator = checked(&loss, step)?;
            optimizers.generator.step(&loss.backward()?, rate, 1.0)?;
            work.step();
        }
        memory.keep_moments(NetworkMoments::of(optimizers, &gan)?);
        *theta = std::mem::take(theta).merge(&gan.parameters()?);
        Ok(vec![
            ("server_loss_discriminator", of_discriminator),
            ("server_loss_generator", of_generator),
            ("replayed_generators", past.len() as f64),
        ])
    }
}

fn checked(loss: &Tensor, step: u64) -> Result<f64, LearningError> {
    let value = f64::from(loss.to_scalar::<f32>()?);
    match value.is_finite() {
        true => Ok(value),
        false => Err(LearningError::NonFinite { what: "loss of the server".to_owned(), step }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FedCIL card, invariant 3: of 96, 3 and 1 images of three classes, each class is drawn a third of the time.
    #[test]
    fn a_balanced_draw_is_uniform_over_labels() {
        let labels: Vec<u32> =
            [vec![7; 96], vec![2; 3], vec![5; 1]].into_iter().flatten().collect();
        let values: Vec<f32> = (0..100).map(|at| at as f32).collect();
        let images = Tensor::from_vec(values, (100, 1, 1, 1), &Device::Cpu).unwrap();
        let pool = LabeledImages { images, labels };
        let key = StreamKey::new(1, Domain::Method);
        let drawn = balanced(&pool, 3000, key).unwrap();
        for label in [2, 5, 7] {
            let count = drawn.labels.iter().filter(|drawn| **drawn == label).count();
            assert!((900..1100).contains(&count), "{label}: {count}");
        }
        let places = drawn.images.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        for (place, label) in places.iter().zip(&drawn.labels) {
            assert_eq!(pool.labels[*place as usize], *label, "an image of its label");
        }
        assert!([96.0, 97.0, 98.0].iter().all(|place| places.contains(place)));
        assert_eq!(
            balanced(&pool, 9, key).unwrap().labels,
            balanced(&pool, 9, key).unwrap().labels
        );
        assert_ne!(balanced(&pool, 9, key.step(1)).unwrap().labels, drawn.labels[..9]);
    }
}
