//! The training loop.

use std::sync::mpsc;

use candle_core::{Device, Tensor};
use fedcast::data::{DataError, Image, Kernel, Normalization, Step, Transform, Workspace};
use fedcast::learning::evaluation::{argmax, blocks};
use fedcast::learning::optimizer::{clip_factor, sum_of_squares};
use fedcast::learning::{LearningError, OptimizerConfig, Schedule};
use fedcast::model::{Adaptation, LinearHead, ParameterSet, Variables, Vit, VitConfig, ops};
use fedcast::numerics::distributions::below;
use fedcast::numerics::streams::{Domain, StreamKey};

use crate::config::PretrainConfig;
use crate::glyphs::Glyphs;

/// Progress of training.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Steps done.
    pub step: u32,
    /// Steps in all.
    pub steps: u32,
    /// Mean loss of the batch.
    pub loss: f64,
    /// Fraction of the batch with a correct prediction, in percent.
    pub accuracy: f64,
}

/// A trained network.
#[derive(Clone, Debug)]
pub struct Pretrained {
    /// Its dimensions.
    pub network: VitConfig,
    /// timm's names; no head.
    pub parameters: ParameterSet,
    /// Accuracy on drawings that were not trained on, over all drawn classes, in percent.
    pub held_out_accuracy: f64,
}

/// Drawing numbers from here on are held out.
const HELD_OUT: u64 = 1 << 40;

/// Trains the network of `config` with up to `workers` threads (no more than there are shards) and
/// reports after every step. The result does not depend on `workers`.
///
/// # Errors
/// A configuration that does not fit together, or a loss that is not finite.
pub fn pretrain(
    config: &PretrainConfig,
    workers: usize,
    mut report: impl FnMut(Progress),
) -> Result<Pretrained, LearningError> {
    check(config)?;
    let init = StreamKey::new(config.seed, Domain::Init);
    let start = Vit::initial_parameters(&config.network, init);
    let network = Vit::with_trainables(config.network, &start)?;
    let head = LinearHead::initial_parameters(config.classes, config.network.dim, init.round(1));
    let (head, head_variables) = LinearHead::with_trainables(&head)?;
    let mut variables: Variables = network.variables().to_vec();
    variables.extend(head_variables);
    let student = Student {
        glyphs: Glyphs::new(config.seed, config.classes),
        transform: transform(&config.network),
        network,
        head,
        variables: &variables,
        config,
    };
    let rule = OptimizerConfig::adamw(config.learning_rate).weight_decay(config.weight_decay);
    let mut optimizer = rule.over(variables.iter().map(|(_, v)| v.clone()).collect());
    for step in 0..config.steps {
        let distillation = student.distillation(u64::from(step), workers)?;
        if !distillation.loss.is_finite() {
            return Err(LearningError::NonFinite { what: "loss".into(), step: step.into() });
        }
        let norm = distillation.gradients.iter().map(|g| sum_of_squares(g)).sum::<f64>().sqrt();
        let rate = rate(config, step);
        optimizer.step_slices(&distillation.gradients, rate, clip_factor(norm, 1.0))?;
        let accuracy = 100.0 * distillation.correct as f64 / config.batch as f64;
        report(Progress { step: step + 1, steps: config.steps, loss: distillation.loss, accuracy });
    }
    Ok(Pretrained {
        network: config.network,
        parameters: student.network.parameters()?,
        held_out_accuracy: student.held_out_accuracy()?,
    })
}

/// Linear warm-up, then a cosine to zero.
fn rate(config: &PretrainConfig, step: u32) -> f64 {
    if step < config.warm_up {
        return config.learning_rate * f64::from(step + 1) / f64::from(config.warm_up + 1);
    }
    let (at, of) = (step - config.warm_up, config.steps.saturating_sub(config.warm_up));
    Schedule::Cosine.rate(config.learning_rate, at, of)
}

/// Drawn images are 8 x 8; a larger network sees them resized.
pub fn transform(network: &VitConfig) -> Transform {
    let resize = Step::Resize { side: network.image, kernel: Kernel::Pillow };
    let steps = if network.image == 8 { Vec::new() } else { vec![resize] };
    Transform { steps, normalization: Normalization::Half, channels: None }
}

fn check(config: &PretrainConfig) -> Result<(), LearningError> {
    let refuse = |what: &str| Err(LearningError::Shape(what.to_owned()));
    config.network.validate()?;
    if config.network.channels != 1 {
        return refuse("drawn images are grey: give the network one channel");
    }
    if config.shards == 0 || config.batch == 0 || !config.batch.is_multiple_of(config.shards) {
        return refuse(
            "the batch must be a multiple of the number of shards, neither of them zero",
        );
    }
    if config.classes < 2 {
        return refuse("at least two classes are needed");
    }
    Ok(())
}

/// Network, head and what they learn from.
struct Student<'a> {
    glyphs: Glyphs,
    transform: Transform,
    network: Vit,
    head: LinearHead,
    variables: &'a Variables,
    config: &'a PretrainConfig,
}

/// Trains on one batch, or on a shard of it.
struct Lesson {
    loss: f64,
    correct: usize,
    gradients: Vec<Vec<f32>>,
}

impl Student<'_> {
    /// The whole batch of a step: shards in parallel, summed in their order.
    fn distillation(&self, step: u64, workers: usize) -> Result<Lesson, LearningError> {
        let shards = self.config.shards;
        let workers = workers.clamp(1, shards);
        let mut lessons: Vec<Option<Lesson>> = (0..shards).map(|_| None).collect();
        std::thread::scope(|scope| {
            let (sender, results) = mpsc::channel();
            for worker in 0..workers {
                let sender = sender.clone();
                scope.spawn(move || {
                    for shard in (worker..shards).step_by(workers) {
                        // The receiver outlives the scope's threads.
                        let _ = sender.send((shard, self.shard(step, shard)));
                    }
                });
            }
            drop(sender);
            for (shard, distillation) in results {
                lessons[shard] = Some(distillation?);
            }
            Ok::<(), LearningError>(())
        })?;
        let mut lessons = lessons.into_iter().flatten();
        let first = lessons.next();
        let mut sum = first.ok_or_else(|| LearningError::Shape("no shard was computed".into()))?;
        for distillation in lessons {
            sum.loss += distillation.loss;
            sum.correct += distillation.correct;
            for (to, from) in sum.gradients.iter_mut().zip(&distillation.gradients) {
                to.iter_mut().zip(from).for_each(|(a, b)| *a += b);
            }
        }
        Ok(sum)
    }

    fn shard(&self, step: u64, shard: usize) -> Result<Lesson, LearningError> {
        let size = self.config.batch / self.config.shards;
        let first = step * self.config.batch as u64 + (shard * size) as u64;
        let (pixels, labels) = self.images(first, size)?;
        let features = self.network.features(&pixels, &Adaptation::default())?;
        let logits = self.head.logits(&features)?;
        let loss = ops::cross_entropy(&logits, &labels, 0..self.config.classes)?;
        let share = 1.0 / self.config.shards as f64;
        let gradients = (&loss * share)?.backward()?;
        let taken = self.variables.iter().map(|(name, var)| {
            let found = gradients.get(var);
            let found =
                found.ok_or_else(|| LearningError::NoGradient { name: name.to_string() })?;
            Ok(found.flatten_all()?.to_vec1()?)
        });
        let gradients = taken.collect::<Result<_, LearningError>>()?;
        let loss = f64::from(loss.to_scalar::<f32>()?) * share;
        Ok(Lesson { loss, correct: correct(&logits, &labels)?, gradients })
    }

    /// Drawings `first..first + count` as `(count, 1, side, side)`, each of a random class.
    fn images(&self, first: u64, count: usize) -> Result<(Tensor, Vec<u32>), LearningError> {
        let mut workspace = Workspace::default();
        let key = StreamKey::new(self.config.seed, Domain::Drawing);
        let (mut pixels, mut labels) = (Vec::new(), Vec::new());
        for number in first..first + count as u64 {
            let class = below(&mut key.round(3).step(number).rng(), self.glyphs.len() as u64);
            let drawn = self.glyphs.draw(class as usize, number);
            let image = Image { channels: 1, height: 8, width: 8, pixels: drawn[..].into() };
            self.transform.apply(&image, key, &mut workspace, &mut pixels)?;
            labels.push(class as u32);
        }
        let side = self.config.network.image;
        let pixels = Tensor::from_vec(pixels, (count, 1, side, side), &Device::Cpu);
        Ok((pixels.map_err(DataError::from)?, labels))
    }

    fn held_out_accuracy(&self) -> Result<f64, LearningError> {
        let mut right = 0;
        for block in blocks(self.config.held_out, 500) {
            let (pixels, labels) = self.images(HELD_OUT + block.start as u64, block.len())?;
            let features = self.network.features(&pixels, &Adaptation::default())?.detach();
            right += correct(&self.head.logits(&features)?, &labels)?;
        }
        Ok(100.0 * right as f64 / self.config.held_out.max(1) as f64)
    }
}

fn correct(logits: &Tensor, labels: &[u32]) -> Result<usize, LearningError> {
    let rows = logits.to_vec2::<f32>()?;
    Ok(rows.iter().zip(labels).filter(|(z, y)| argmax(z) == Some(**y as usize)).count())
}
