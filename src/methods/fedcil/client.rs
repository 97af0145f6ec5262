//! Local training of a client: a step of the discriminator and a step of the generator for every batch.

use std::collections::BTreeSet;

use super::losses::LabeledImages;
use super::memory::last_generator_of;
use super::moments::{GanOptimizers, NetworkMoments};
use super::state::FedCilState;
use super::steps::{Consistency, GanSteps, drawn_images};
use super::{FedCil, LastGenerator, MomentSpan};
use crate::learning::optimizer::{clip_factor, global_norm};
use crate::learning::{LearningError, MemberData, TrainingPlan, train_pack};
use crate::methods::averaging::{LocalTrainingResult, PackClient};
use crate::model::{AcGan, AcGenerator, of_generator};
use crate::numerics::streams::Domain;
use crate::policy::{ModelFacts, PolicyError, RunContext};

/// Generator that replays earlier classes, and their head rows.
struct ReplayedClasses {
    generator: AcGenerator,
    classes: Vec<u32>,
}

/// Pending step of the generator, which follows the discriminator's.
struct DueStep {
    step: u64,
    count: usize,
    rate: f64,
}

impl FedCil {
    /// Trains both networks on a client's samples and updates its state.
    pub(super) fn train(
        &self,
        model: &ModelFacts,
        member: &mut PackClient<'_, FedCilState>,
        ctx: &RunContext,
    ) -> Result<LocalTrainingResult, PolicyError> {
        let (config, device) = (self.config(model), &ctx.device);
        let view = &member.participant.view;
        let rows: BTreeSet<u32> = ctx.shard_label_counts(member.shard).into_keys().collect();
        member.state.enter(view.task, rows, self.moments);
        let replay = self.replay(model, member, ctx)?;
        let past = replay.iter().flat_map(|replay| replay.classes.iter().copied());
        let classes: BTreeSet<u32> = past.chain(member.state.current().iter().copied()).collect();
        let classes: Vec<u32> = classes.into_iter().collect();

        let gan = AcGan::trainable(config, &member.received, device)?;
        let sent = AcGenerator::frozen(config, &member.received, device)?;
        let seen: Vec<u32> = (0..view.seen() as u32).collect();
        let round = ctx.training.round.map_or(0, |(round, _)| round);
        let weights = self.consistency.weights(round);
        let key = member.key.domain(Domain::Method);
        let steps = GanSteps {
            consistency: weights.map(|weights| Consistency {
                generator: &sent,
                classes: &seen,
                weights,
            }),
            ..self.gan_steps((config, &gan), &classes, key, device)
        };
        let plan = self.plan(&ctx.training);
        let rule = &plan.optimizer;
        let GanOptimizers { mut discriminator, mut generator } =
            member.state.moments().optimizers(rule, &gan)?;
        let loader = ctx.train_loader(member.shard);
        let courses = [MemberData { loader: &loader, key: member.key }];
        let (mut due, mut last) = (None::<DueStep>, 0.0);
        let variables = gan.discriminator.variables();
        let reports = train_pack(&plan, &mut discriminator, variables, &courses, |step| {
            // The optimizer of the discriminator has stepped after the previous call.
            if let Some(due) = due.take() {
                last = generator_step(&steps, &mut generator, &plan, &due)?;
            }
            let number = step.steps.first().copied().unwrap_or(0);
            let labels = step.batch.labels().to_vec();
            let (count, images) = (labels.len(), step.batch.pixels(device)?);
            let rate = rate_of(&plan, number, loader.batches(plan.batch));
            due = Some(DueStep { step: number, count, rate });
            let replayed = replay.as_ref().map(|replay| {
                let purpose = format!("replay.{number}");
                let of = (&replay.classes[..], count);
                drawn_images((&config, &replay.generator), of, (steps.key, &purpose), device)
            });
            let new = LabeledImages { images, labels };
            steps.discriminator_loss(number, &new, replayed.transpose()?.as_ref())
        })?;
        let report = reports.into_iter().next().transpose()?.unwrap_or_default();
        if let Some(due) = due.take() {
            last = generator_step(&steps, &mut generator, &plan, &due)?;
        }
        let parameters = gan.parameters()?;
        if self.last_generator == LastGenerator::Own {
            member.state.keep(parameters.filter(of_generator));
        }
        if self.moments != MomentSpan::Round {
            let optimizers = GanOptimizers { discriminator, generator };
            member.state.keep_moments(NetworkMoments::of(optimizers, &gan)?);
        }
        let mut metrics = report.metrics();
        metrics.push(("loss_generator", last));
        Ok(LocalTrainingResult {
            parameters: member.received.clone().merge(&parameters),
            samples: member.shard.len(),
            rates: report.rates,
            first_epoch: report.first_epoch,
            metrics,
            ..LocalTrainingResult::default()
        })
    }

    /// Returns the generator that replays earlier classes; `None` in a client's first task.
    fn replay(
        &self,
        model: &ModelFacts,
        member: &PackClient<'_, FedCilState>,
        ctx: &RunContext,
    ) -> Result<Option<ReplayedClasses>, PolicyError> {
        let frozen = |set| AcGenerator::frozen(self.config(model), set, &ctx.device);
        match self.last_generator {
            LastGenerator::Own => {
                let past: Vec<u32> = member.state.past().iter().copied().collect();
                let last = member.state.last().filter(|_| !past.is_empty());
                let replay =
                    |set| Ok(ReplayedClasses { generator: frozen(set)?, classes: past.clone() });
                last.map(replay).transpose()
            }
            LastGenerator::Server => {
                let Some(set) = last_generator_of(member.download)? else { return Ok(None) };
                let classes = (0..member.participant.view.rows.start as u32).collect();
                Ok(Some(ReplayedClasses { generator: frozen(&set)?, classes }))
            }
        }
    }
}

/// Returns the learning rate of a client's step, by the schedule over epochs.
fn rate_of(plan: &TrainingPlan, step: u64, batches: usize) -> f64 {
    let epoch = step / batches.max(1) as u64;
    plan.schedule.rate(plan.optimizer.learning_rate(), epoch as u32, plan.epochs)
}

/// Takes a step of the generator, clipped as the discriminator's; returns the loss before it.
fn generator_step(
    steps: &GanSteps<'_>,
    optimizer: &mut crate::learning::Optimizer,
    plan: &TrainingPlan,
    due: &DueStep,
) -> Result<f64, LearningError> {
    let loss = steps.generator_loss(due.step, due.count)?;
    let value = f64::from(loss.to_scalar::<f32>()?);
    let gradients = loss.backward()?;
    let norm = global_norm(&gradients, &steps.gan.generator.vars())?;
    if !value.is_finite() || !norm.is_finite() {
        let what = "loss of the generator".to_owned();
        return Err(LearningError::NonFinite { what, step: due.step });
    }
    let scale = plan.clip.map_or(1.0, |limit| clip_factor(norm, limit));
    optimizer.step(&gradients, due.rate, scale)?;
    Ok(value)
}
