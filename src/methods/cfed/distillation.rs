//! Distillation on unlabeled samples, from soft targets that are computed once.

use std::collections::BTreeMap;
use std::ops::Range;

use candle_core::Tensor;

use super::Cfed;
use crate::data::{Batch, Shard};
use crate::learning::losses::{Distillation, distillation};
use crate::learning::{
    Classifier, LearningError, Teacher, TrainingPlan, TrainingReport, train_with,
};
use crate::methods::parts::{ModelAdaptation, TrainingSettings};
use crate::model::{Dropout, MaskPlace, ParameterSet};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{PolicyError, RunContext};

/// Logits of a teacher, by sample of the auxiliary data.
type Targets = BTreeMap<u32, Vec<f32>>;

/// Logits of all teachers of a student for all of its samples.
pub(super) struct TeacherLogits {
    by_teacher: Vec<Targets>,
    /// Index of every sample in its shard.
    places: BTreeMap<u32, usize>,
}

impl TeacherLogits {
    /// Returns the logits of models for auxiliary samples on the head rows `rows`, in evaluation mode.
    ///
    /// # Errors
    /// When a sample cannot be read, or the parameters do not fit.
    pub fn of(
        models: &[&ParameterSet],
        rows: &Range<usize>,
        samples: &Shard,
        ctx: &RunContext,
    ) -> Result<TeacherLogits, PolicyError> {
        let by_teacher = models.iter().map(|model| ask(model, rows.clone(), samples, ctx));
        let places = samples.iter().enumerate().map(|(place, sample)| (*sample, place)).collect();
        Ok(TeacherLogits { by_teacher: by_teacher.collect::<Result<_, _>>()?, places })
    }

    /// Returns the target logits of a sample in an epoch.
    ///
    /// Teachers take turns over samples and epochs, starting with the first in every round, as in the release.
    fn target(&self, epoch: u64, sample: u32) -> &[f32] {
        let turn =
            source(epoch * self.places.len() as u64, self.places[&sample], self.by_teacher.len());
        &self.by_teacher[turn][&sample]
    }
}

/// Returns the index of the teacher of a sample, of `models`.
///
/// `asked_before` counts the samples of earlier epochs.
fn source(asked_before: u64, sample: usize, models: usize) -> usize {
    ((asked_before + sample as u64) % models.max(1) as u64) as usize
}

/// Returns the logits of one model for a shard of auxiliary samples on the head rows `rows`, by sample.
fn ask(
    parameters: &ParameterSet,
    rows: Range<usize>,
    samples: &Shard,
    ctx: &RunContext,
) -> Result<Targets, PolicyError> {
    let teacher = Teacher::new(&ctx.backbone, parameters, rows, None)?;
    let auxiliary = auxiliary_samples(ctx)?;
    let loader = auxiliary.loader(samples, &ctx.task_sequence, &ctx.statistics_transform);
    let loader = ctx.with_frozen_features(loader, teacher.model().frozen_part())?;
    let (mut targets, width) = (Targets::new(), teacher.rows().len().max(1));
    for batch in loader.in_order(ctx.evaluation_batch) {
        let batch = batch?;
        let answers = teacher.answers(&batch, &ctx.device)?;
        let each = batch.samples().iter().zip(answers.chunks(width));
        targets.extend(each.map(|(sample, logits)| (*sample, logits.to_vec())));
    }
    Ok(targets)
}

/// Returns the auxiliary samples of the run, which are not training data of any client.
///
/// # Errors
/// When there are none, which is possible only in a run context that was assembled in Rust.
pub(super) fn auxiliary_samples(ctx: &RunContext) -> Result<&crate::data::Auxiliary, PolicyError> {
    let none = || PolicyError::Unsupported("there are no auxiliary samples".to_owned());
    ctx.auxiliary.as_deref().ok_or_else(none)
}

/// Model that distills teacher logits, and the settings of its training.
pub(super) struct CfedStudent<'a> {
    pub method: &'a Cfed,
    /// Initial parameters, and the head rows that train.
    pub received: (ParameterSet, Range<usize>),
    pub plan: TrainingPlan,
    pub settings: TrainingSettings,
    pub key: StreamKey,
}

impl CfedStudent<'_> {
    /// Trains the model on the targets of these samples.
    ///
    /// # Errors
    /// Returns the errors of training.
    pub fn learn(
        self,
        samples: &Shard,
        targets: &TeacherLogits,
        ctx: &RunContext,
    ) -> Result<(ParameterSet, TrainingReport), PolicyError> {
        let CfedStudent { method, received: (parameters, rows), plan, settings, key } = self;
        let received = parameters.clone();
        let (backbone, norms) = (&ctx.backbone, settings.norms);
        let network = Classifier::pack_normed(backbone, vec![parameters], rows, None, norms)?;
        let auxiliary = auxiliary_samples(ctx)?;
        let transform = match method.review_augments {
            true => &ctx.train_transform,
            false => &ctx.statistics_transform,
        };
        let loader = auxiliary.loader(samples, &ctx.task_sequence, transform);
        let loader = ctx.with_frozen_features(loader, network.frozen_part())?;
        let mut optimizer = plan.optimizer.clone().over_pack(network.vars(), 1);
        let factors = network.variables().iter().map(|(name, _)| method.fedavg.rate_factor(name));
        optimizer.set_rate_factors(factors.collect());
        let variables = network.variables();
        let (rate, mut step) = (settings.dropout, 0);
        let steps = loader.batches(plan.batch).max(1) as u64;
        let report =
            train_with(&plan, &mut optimizer, &loader, variables, key, |batch: &Batch| {
                let places = vec![MaskPlace { key: key.domain(Domain::Dropout), step }];
                let dropout = (rate > 0.0).then_some(Dropout { rate, places });
                let epoch = step / steps;
                step += 1;
                let logits = network.training_logits(batch, &ctx.device, dropout)?;
                let targets_of_batch =
                    batch.samples().iter().flat_map(|sample| targets.target(epoch, *sample));
                let targets_of_batch = targets_of_batch.copied();
                method.distilled(&logits, &targets_of_batch.collect::<Vec<f32>>())
            })?;
        let trained = network.pack_parameters()?.into_iter().next().unwrap_or(received);
        Ok((trained, report))
    }
}

impl Cfed {
    /// Returns the distillation loss `-weight mean_i sum_c q_ic log softmax(z_i / T)_c`, a scalar.
    ///
    /// `q` is the softmax of the teachers' logits at the temperature `T`; it covers the first columns of `z`.
    pub(super) fn distilled(
        &self,
        logits: &Tensor,
        targets: &[f32],
    ) -> Result<Tensor, LearningError> {
        let width = targets.len() / logits.dim(0)?.max(1);
        let own = logits.narrow(1, 0, width)?.contiguous()?;
        let form = Distillation::CrossEntropy;
        let loss = distillation(&own, targets, 0..width, self.temperature, form)?;
        Ok((loss * self.review_weight)?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use candle_core::{Device, Var};

    use super::*;
    use crate::data::{Auxiliary, ClassPermutation, TaskSequence, TaskSizes, digits};
    use crate::golden::Golden;
    use crate::learning::OptimizerConfig;
    use crate::model::{Backbone, LinearHead, Parameter, PixelShape};

    fn narrow(values: Vec<f64>) -> Vec<f32> {
        values.into_iter().map(|value| value as f32).collect()
    }

    fn check(golden: &Golden, name: &str, z: &[f32], targets: &[f32]) -> Vec<f32> {
        let columns = z.len() / 8;
        let z = Var::from_slice(z, (8, columns), &Device::Cpu).unwrap();
        let loss = Cfed::default().distilled(&z, targets).unwrap();
        golden.assert_close_f32(name, &[loss.to_scalar::<f32>().unwrap()]);
        let gradients = loss.backward().unwrap();
        gradients.get(&z).unwrap().flatten_all().unwrap().to_vec1().unwrap()
    }

    #[test]
    fn golden_cfed_distils_from_one_model_after_the_other() {
        let Some(golden) = Golden::open("cfed") else { return };
        let models = narrow(golden.f64("models"));
        let from = |before| (0..8).map(move |sample| source(before, sample, 3) as i64);
        assert_eq!(from(0).collect::<Vec<_>>(), golden.i64("cyclic.source"));
        assert_eq!(from(8).collect::<Vec<_>>(), golden.i64("cyclic.second"));
        let row = |(sample, model): (usize, i64)| {
            models[(model as usize * 8 + sample) * 6..][..6].to_vec()
        };
        let targets: Vec<f32> = from(0).enumerate().flat_map(row).collect();
        let softened = targets.chunks(6).flat_map(|row| {
            let all: Vec<f64> = row.iter().map(|z| libm::exp(f64::from(*z) / 2.0)).collect();
            let sum: f64 = all.iter().sum();
            all.into_iter().map(move |value| (value / sum) as f32)
        });
        golden.assert_close_f32("cyclic.q", &softened.collect::<Vec<f32>>());
        let z = narrow(golden.f64("z"));
        let slope = check(&golden, "cyclic.loss", &z, &targets);
        golden.assert_close_f32("cyclic.grad_z", &slope);
        // CFed card, invariants 1 and 2: for equal models a tenth of the entropy remains, and no gradient.
        let slope = check(&golden, "own.loss", &z, &z);
        assert!(slope.iter().all(|slope| slope.abs() < 1e-9));
    }

    /// A network without hidden layers on digits, and seven auxiliary samples.
    fn seven_samples() -> (RunContext, Shard) {
        let pixels = PixelShape { channels: 1, image: 8 };
        let task_sequence =
            TaskSequence::new(10, &ClassPermutation::Native, &TaskSizes::Even(2)).unwrap();
        let digits = digits::embedded().unwrap();
        let auxiliary = Auxiliary::new(&digits.train, 10, (7, true), 2).unwrap();
        let mut ctx = RunContext::new(Backbone::Pixels(pixels), digits, task_sequence);
        ctx.auxiliary = Some(Arc::new(auxiliary));
        let all = auxiliary_samples(&ctx).unwrap().of_server().unwrap();
        let samples = all.iter().copied().take(7).collect();
        (ctx, samples)
    }

    /// A head with the same output for every image.
    fn constant(output: [f32; 10]) -> ParameterSet {
        let mut head = ParameterSet::new();
        let zeros = Parameter { shape: vec![10, 64], values: [0.0; 640].into() };
        head.insert(LinearHead::WEIGHT, zeros);
        let bias = Parameter { shape: vec![10], values: output.into() };
        head.insert(LinearHead::BIAS, bias);
        head
    }

    /// Models with their own number as output for every image: of seven samples and three models the second epoch
    /// begins with the second model.
    #[test]
    fn models_are_asked_one_after_the_other() {
        let (ctx, samples) = seven_samples();
        let models = [0.0, 1.0, 2.0].map(|number| constant([number; 10]));
        let models: Vec<&ParameterSet> = models.iter().collect();
        let targets = TeacherLogits::of(&models, &(2..4), &samples, &ctx).unwrap();
        let turns =
            |epoch| samples.iter().map(|sample| targets.target(epoch, *sample)[0]).collect();
        let [first, second]: [Vec<f32>; 2] = [0, 1].map(turns);
        assert_eq!(first, [0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 0.0]);
        assert_eq!(second, [1.0, 2.0, 0.0, 1.0, 2.0, 0.0, 1.0]);
        assert_eq!(targets.target(0, samples[0]).len(), 2);
    }

    /// The second of two epochs is a first one in which the second teacher has the first turn.
    #[test]
    fn teachers_change_from_epoch_to_epoch() {
        let (ctx, samples) = seven_samples();
        let teachers = [2, 3, 4].map(|row| {
            let mut output = [0.0; 10];
            output[row] = 4.0;
            constant(output)
        });
        let [one, two, three] = [0, 1, 2].map(|at| &teachers[at]);
        let method = Cfed { review_weight: 1.0, ..Cfed::default() };
        let rows = 2..5;
        let learn = |received: ParameterSet, models: [&ParameterSet; 3], epochs| {
            // Batches are whole epochs, so that the order of samples does not count.
            let plan = TrainingPlan { epochs, batch: 7, clip: None, ..TrainingPlan::default() };
            let student = CfedStudent {
                method: &method,
                received: (received, rows.clone()),
                plan: TrainingPlan { optimizer: OptimizerConfig::sgd(0.1), ..plan },
                settings: method.fedavg.settings(&ctx.task_sequence.tasks[0]),
                key: StreamKey::new(5, Domain::Method),
            };
            let targets = TeacherLogits::of(&models, &rows, &samples, &ctx).unwrap();
            student.learn(&samples, &targets, &ctx).unwrap().0
        };
        let both = learn(constant([0.0; 10]), [one, two, three], 2);
        let first = learn(constant([0.0; 10]), [one, two, three], 1);
        let far = |other: &ParameterSet| {
            let gaps = both.iter().flat_map(|(name, own)| {
                let other = &other.get(name).unwrap().values;
                own.values.iter().zip(other.iter()).map(|(a, b)| (a - b).abs())
            });
            gaps.fold(0.0, f32::max)
        };
        let (turned, again) =
            (learn(first.clone(), [two, three, one], 1), learn(first, [one, two, three], 1));
        let (turned, again) = (far(&turned), far(&again));
        assert!(turned < 1e-6 && again > 1e-3, "{turned} {again}");
    }
}
