//! The server's student: a reinitialized copy of a classifier that learns from its teacher on generated images.

use std::ops::Range;
use std::sync::Arc;

use candle_core::Tensor;

use super::PoolReplay;
use crate::learning::losses::{Distillation, distillation, squared_gap};
use crate::learning::optimizer::{OptimizerState, Sgd, clip_factor, global_norm};
use crate::learning::{Classifier, LearningError, OptimizerConfig};
use crate::model::{Backbone, Parameter, ParameterSet};
use crate::numerics::distributions::fill_normal;
use crate::numerics::streams::StreamKey;

/// Standard deviation of a new student's batch-norm scales around 1.
const NORM_DEVIATION: f32 = 0.02;

/// Returns the initial parameters of a student of `teacher`, as in the releases of TARGET and LANDER.
///
/// Convolutions and linear layers are drawn again: weights normal with variance `2 / (inputs + outputs)` (Xavier),
/// biases standard normal. Scales of batch norms are drawn around 1 with a deviation of 0.02, their shifts are 0. All
/// else is kept, running moments and layer norms included. Every parameter has its own stream, keyed by its name.
pub fn student_start(teacher: &ParameterSet, key: StreamKey) -> ParameterSet {
    let shape_of = |layer: &str, part: &str| {
        teacher.get(&format!("{layer}.{part}")).map(|parameter| parameter.shape.len())
    };
    let drawn = |(name, parameter): (&Arc<str>, &Parameter)| {
        let Parameter { shape, values } = parameter;
        let (layer, part) = name.rsplit_once('.').unwrap_or((name, ""));
        let normal = |mean: f32, deviation: f32| {
            let mut drawn = vec![0.0; values.len()];
            fill_normal(&mut key.named(name).rng(), &mut drawn);
            drawn.iter_mut().for_each(|value| *value = mean + deviation * *value);
            Arc::from(drawn)
        };
        let is_norm = shape_of(layer, "running_mean").is_some();
        let values = match (part, shape_of(layer, "weight")) {
            ("weight", Some(2 | 4)) => {
                let window: usize = shape[2..].iter().product();
                let fans = window * (shape[0] + shape[1]);
                normal(0.0, (2.0 / fans.max(1) as f64).sqrt() as f32)
            }
            ("bias", Some(2 | 4)) => normal(0.0, 1.0),
            ("weight", _) if is_norm => normal(1.0, NORM_DEVIATION),
            ("bias", _) if is_norm => vec![0.0; values.len()].into(),
            _ => Arc::clone(values),
        };
        (Arc::clone(name), Parameter { shape: shape.clone(), values })
    };
    teacher.iter().map(drawn).collect()
}

/// Returns `T^2 KL(softmax f/T | softmax s/T)` of scores `(b, K)`, a mean over samples.
///
/// The teacher's scores are row-major.
///
/// # Errors
/// Returns an error if the numbers of scores differ.
pub fn student_loss(
    student: &Tensor,
    teacher: &[f32],
    temperature: f64,
) -> candle_core::Result<Tensor> {
    let columns = 0..student.dim(1)?;
    let loss = distillation(student, teacher, columns, temperature, Distillation::Kl)?;
    loss * (temperature * temperature)
}

/// Settings of a student's training after a call of a synthesis.
#[derive(Clone, Debug, PartialEq)]
pub struct StudentTraining {
    /// Steps of SGD.
    pub steps: u32,
    /// Images per step.
    pub batch: usize,
    /// The optimizer and its rate.
    pub sgd: Sgd,
    /// Temperature `T` of the distillation, which is multiplied by its square.
    pub temperature: f64,
    /// Weight of the mean squared gap of mapped features; 0 without a mapping.
    pub anchor_weight: f64,
    /// Largest norm of a gradient; `None` disables clipping.
    pub clip: Option<f64>,
}

impl StudentTraining {
    /// Trains a student by its teacher on images of a pool; returns its parameters.
    ///
    /// The loss is `T^2 KL(softmax f/T | softmax s/T) + a mean (h - h_f)^2`, with scores of the first `classes` head
    /// rows and mapped features `h`; `f` is the teacher. The momentum starts at zero.
    ///
    /// # Errors
    /// Returns an error if a loss is not finite, or the network fails.
    pub fn train(
        &self,
        student: (&Arc<Backbone>, &ParameterSet),
        teacher: (&Classifier, usize),
        pool: (&PoolReplay, StreamKey),
    ) -> Result<ParameterSet, LearningError> {
        Ok(self.train_on(student, None, teacher, pool)?.0)
    }

    /// Trains as [`train`](StudentTraining::train) does, with the optimizer state of an earlier training.
    ///
    /// # Errors
    /// Fails as [`train`](StudentTraining::train) does, and if the state has other parameters.
    pub fn train_on(
        &self,
        (backbone, student): (&Arc<Backbone>, &ParameterSet),
        state: Option<OptimizerState>,
        (teacher, classes): (&Classifier, usize),
        (pool, key): (&PoolReplay, StreamKey),
    ) -> Result<(ParameterSet, OptimizerState), LearningError> {
        let rows: Range<usize> = 0..classes;
        let device = &backbone.place().device;
        let network = Classifier::trainable(backbone, student, rows.clone())?;
        let rule = OptimizerConfig::Sgd(self.sgd.clone());
        let mut optimizer = rule.over(network.vars());
        if let Some(state) = state {
            optimizer.resume(state)?;
        }
        for step in 0..u64::from(self.steps) {
            let pixels = pool.batch(step, self.batch, key)?.pixels(device)?;
            let known = teacher.features(&pixels)?;
            let wanted = teacher.logits(&known)?.narrow(1, 0, classes)?.flatten_all()?;
            let features = network.features(&pixels)?;
            let logits = network.logits(&features)?;
            let (targets, temperature) = (wanted.to_vec1::<f32>()?, self.temperature);
            let mut loss = student_loss(&logits, &targets, temperature)?;
            if let Some(mapped) = network.mapped(&features)? {
                let anchors = teacher.mapped(&known)?.map(|h| h.flatten_all()?.to_vec1::<f32>());
                let gap = squared_gap(
                    &mapped,
                    &anchors.transpose()?.unwrap_or_default(),
                    0.0,
                    self.anchor_weight,
                )?;
                loss = (loss + gap)?;
            }
            if !loss.to_scalar::<f32>()?.is_finite() {
                return Err(LearningError::NonFinite { what: "loss of the student".into(), step });
            }
            let gradients = loss.backward()?;
            let scale = match self.clip {
                Some(limit) => clip_factor(global_norm(&gradients, &network.vars())?, limit),
                None => 1.0,
            };
            optimizer.step(&gradients, self.sgd.learning_rate, scale)?;
        }
        Ok((network.parameters()?, optimizer.into_state()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{ClassPermutation, TaskSequence, TaskSizes, Transform};
    use crate::learning::inversion::ImagePool;
    use crate::model::{HeadStart, ResNet, ResNetConfig, is_buffer};
    use crate::numerics::streams::Domain;

    fn key() -> StreamKey {
        StreamKey::new(6, Domain::Method)
    }

    fn teacher() -> (Arc<Backbone>, ParameterSet) {
        let config =
            ResNetConfig { image: 8, channels: 1, width: 4, blocks: [1; 4], ..Default::default() };
        let set = ResNet::initial_parameters(&config, key());
        let head = HeadStart::Uniform.parameters(4, config.dim(), key());
        let backbone: Backbone = ResNet::from_parameters(config, &set).unwrap().into();
        (Arc::new(backbone), set.merge(&head))
    }

    #[test]
    fn a_student_starts_as_releases_have_it() {
        let (_, teacher) = teacher();
        let student = student_start(&teacher, key());
        assert_eq!(student.digest(), student_start(&teacher, key()).digest());
        let values = |name: &str| student.get(name).unwrap().values.to_vec();
        let square = |name: &str| {
            let values = values(name);
            values.iter().map(|v| f64::from(v * v)).sum::<f64>() / values.len() as f64
        };
        // 9 (32 + 16) fans of a convolution, 4 + 32 of the head.
        assert!((square("layer4.0.conv1.weight") * 432.0 / 2.0 - 1.0).abs() < 0.1);
        assert!((square("head.weight") * 36.0 / 2.0 - 1.0).abs() < 0.4);
        assert!(values("head.bias").iter().any(|v| v.abs() > 0.2), "of deviation one");
        let scales = values("layer4.0.bn1.weight");
        assert!(scales.iter().all(|v| (v - 1.0).abs() < 0.1) && scales[0] != scales[1]);
        assert!(values("layer4.0.bn1.bias").iter().all(|v| *v == 0.0));
        for (name, parameter) in teacher.iter().filter(|(name, _)| is_buffer(name)) {
            assert_eq!(student.get(name), Some(parameter), "{name}");
        }
        // A layer norm, which has no running moments, and a class token.
        let plain = |shape: &[usize]| Parameter {
            shape: shape.to_vec(),
            values: vec![0.7; shape.iter().product()].into(),
        };
        let vit: ParameterSet = [
            ("norm.weight", plain(&[3])),
            ("norm.bias", plain(&[3])),
            ("cls_token", plain(&[1, 1, 3])),
            ("fc.weight", plain(&[2, 3])),
            ("fc.bias", plain(&[2])),
        ]
        .into_iter()
        .collect();
        let moved = student_start(&vit, key());
        let kept: Vec<&str> =
            vit.iter().filter(|(name, p)| moved.get(name) == Some(p)).map(|(n, _)| &**n).collect();
        assert_eq!(kept, ["cls_token", "norm.bias", "norm.weight"]);
    }

    fn training(steps: u32) -> StudentTraining {
        let sgd = Sgd { learning_rate: 0.02, momentum: 0.9, weight_decay: 0.0 };
        StudentTraining { steps, batch: 6, sgd, temperature: 2.0, anchor_weight: 0.0, clip: None }
    }

    /// Twice six steps with the momentum kept are not twice six steps without, and clipping shortens steps.
    #[test]
    fn momentum_may_go_on_and_gradients_may_be_clipped() {
        let (backbone, set) = teacher();
        let teacher = Classifier::frozen(&backbone, &set).unwrap();
        let pool = ImagePool::of([1, 8, 8], 6, (0..6 * 64).map(|i| (i * 7 % 251) as u8).collect());
        let tasks = TaskSequence::new(4, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let through = (&Arc::new(tasks), &Arc::new(Transform::default()));
        let pool = pool.replay(pool.by_name(6), through).unwrap();
        let start = student_start(&set, key());
        let of = |training: &StudentTraining, from: &ParameterSet, state| {
            training.train_on((&backbone, from), state, (&teacher, 3), (&pool, key())).unwrap()
        };
        let (half, state) = of(&training(6), &start, None);
        assert_eq!(state.steps, 6);
        let (kept, after) = of(&training(6), &half, Some(state));
        assert_eq!(after.steps, 12);
        assert_ne!(kept.digest(), of(&training(6), &half, None).0.digest());
        let whole = training(6).train((&backbone, &start), (&teacher, 3), (&pool, key())).unwrap();
        assert_eq!(whole.digest(), half.digest());
        let way = |set: &ParameterSet| {
            let values = |set: &ParameterSet| set.get("head.weight").unwrap().values.to_vec();
            let gaps = values(set).into_iter().zip(values(&start));
            gaps.map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
        };
        let clipped = StudentTraining { clip: Some(1e-3), ..training(6) };
        assert!(way(&of(&clipped, &start, None).0) < 0.1 * way(&half));
    }

    #[test]
    fn a_student_approaches_its_teacher() {
        let (backbone, set) = teacher();
        let teacher = Classifier::frozen(&backbone, &set).unwrap();
        let mut pool = ImagePool::new([1, 8, 8], 12);
        let values: Vec<f32> =
            (0..12 * 64).map(|i| ((i as f32 * 0.37).sin() + 1.0) / 2.0).collect();
        let images = Tensor::from_vec(values, (12, 1, 8, 8), &candle_core::Device::Cpu).unwrap();
        pool.add(&images).unwrap();
        let tasks = TaskSequence::new(4, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let through = (&Arc::new(tasks), &Arc::new(Transform::default()));
        let pool = pool.replay(pool.by_name(12), through).unwrap();
        let start = student_start(&set, key());
        let trained = |learning_rate| {
            let sgd = Sgd { learning_rate, momentum: 0.9, weight_decay: 0.0 };
            let training = StudentTraining { sgd, ..training(80) };
            training.train((&backbone, &start), (&teacher, 3), (&pool, key())).unwrap()
        };
        let gap = |set: &ParameterSet| {
            let student = Classifier::frozen(&backbone, set).unwrap();
            let of = |network: &Classifier| {
                let scores = network.logits(&network.features(&images).unwrap()).unwrap();
                scores.narrow(1, 0, 3).unwrap().to_vec2::<f32>().unwrap()
            };
            // Up to a constant per sample, which the softmax does not see.
            let centered = |rows: Vec<Vec<f32>>| -> Vec<f32> {
                let center = |row: Vec<f32>| {
                    let mean = row.iter().sum::<f32>() / 3.0;
                    row.into_iter().map(move |v| v - mean)
                };
                rows.into_iter().flat_map(center).collect()
            };
            let (a, b) = (centered(of(&student)), centered(of(&teacher)));
            a.iter().zip(&b).map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
        };
        // Running moments alone follow the images of the pool.
        let (before, after) = (trained(0.0), trained(0.02));
        assert!(gap(&after) < 0.5 * gap(&before), "{} {}", gap(&before), gap(&after));
        assert_eq!(after.digest(), trained(0.02).digest());
        // The fourth head row has not been seen and stays.
        let row = |set: &ParameterSet| set.get("head.weight").unwrap().cut(3..4).unwrap();
        assert_eq!(row(&after), row(&start));
    }
}
