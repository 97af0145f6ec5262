//! Stages of the training of FedHAF's clients: first the head, then the module.

use clap::ValueEnum;

use super::features::frozen_features;
use super::losses::{FedHafObjective, LossBatch};
use super::network::FedHafNetwork;
use super::{BatchNormMode, FedHaf};
use crate::data::Loader;
use crate::learning::{LearningError, MemberData, TrainingPlan, TrainingReport, train_pack};
use crate::methods::averaging::PackClient;
use crate::methods::held::HeldSamples;
use crate::model::{ByBatch, Drops, MaskPlace, NetworkShape, ParameterSet, Trains};
use crate::numerics::streams::Domain;
use crate::policy::{PolicyError, RunContext};
use crate::scenario::reader::Choice;

/// Stages of a client's training from the second task on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Stages {
    /// Two stages: first the head, then the module.
    Two,
    /// One stage on the sum of all losses (ablation).
    One,
}

/// Stage of a client's training.
pub(super) struct TrainingPart {
    trains: Trains,
    /// True if the head's losses are included, and if the module's are.
    pub parts: (bool, bool),
    epochs: u32,
}

impl TrainingPart {
    /// Returns the stages of a client's training.
    ///
    /// In the first task (`later` is false) module and head train together on the cross-entropy, as nothing else trains
    /// the module then. In later tasks the module trains on exemplars only: without any it stays as it is.
    pub fn all(config: &FedHaf, later: bool, has_old: bool, epochs: u32) -> Vec<TrainingPart> {
        let distils = has_old && config.module && config.lambda_fd + config.lambda_fb > 0.0;
        if !later {
            return vec![TrainingPart { trains: Trains::BOTH, parts: (true, false), epochs }];
        }
        if config.stages == Stages::One {
            return vec![TrainingPart { trains: Trains::BOTH, parts: (true, distils), epochs }];
        }
        let mut stages = vec![TrainingPart { trains: Trains::HEAD, parts: (true, false), epochs }];
        if distils {
            let epochs = config.module_epochs.unwrap_or(epochs);
            stages.push(TrainingPart { trains: Trains::MODULE, parts: (false, true), epochs });
        }
        stages
    }

    /// Returns the sample passes of a client's training.
    ///
    /// The client has `samples` of its task and `exemplars` of earlier ones. Every stage passes over both; if it
    /// distills, the previous model passes over exemplars, at a third of the cost.
    pub fn work(
        config: &FedHaf,
        later: bool,
        (samples, exemplars): (usize, usize),
        epochs: u32,
    ) -> f64 {
        let stages = TrainingPart::all(config, later, exemplars > 0, epochs);
        let passes = stages.iter().map(|stage| {
            let (head, module) = stage.parts;
            let asks = (head && config.lambda_kd > 0.0) || (module && config.lambda_fd > 0.0);
            let asked = if asks { exemplars as f64 / 3.0 } else { 0.0 };
            f64::from(stage.epochs) * ((samples + exemplars) as f64 + asked)
        });
        passes.sum()
    }

    /// Trains parameters on a loader of the task's samples and exemplars.
    ///
    /// All stages of a client get the samples in the same order.
    pub fn train(
        &self,
        (config, shape): (&FedHaf, &NetworkShape),
        member: &PackClient<'_, HeldSamples>,
        (loader, parameters): (&Loader, &ParameterSet),
        previous: Option<&ParameterSet>,
        ctx: &RunContext,
    ) -> Result<(ParameterSet, TrainingReport), PolicyError> {
        let view = &member.participant.view;
        // In the first task there are no running moments yet.
        let norms = if previous.is_some() { config.batch_norm } else { BatchNormMode::Batch };
        let rows = 0..view.seen();
        let by_batch = ByBatch::training(self.trains, norms);
        let network =
            FedHafNetwork::new(shape, parameters, self.trains, rows, by_batch, &ctx.device)?;
        // The previous model has outputs for old classes only.
        let teacher = |set| {
            let (rows, by_batch) =
                (0..view.rows.start, by_batch.taught_by(config.teacher_batch_norm));
            FedHafNetwork::new(shape, set, Trains::NOTHING, rows, by_batch, &ctx.device)
        };
        let previous = previous.map(teacher).transpose()?;
        let previous = previous.as_ref();
        let plan = TrainingPlan { epochs: self.epochs, ..ctx.training.clone() };
        let mut optimizer = plan.optimizer.clone().over(network.vars());
        let objective = FedHafObjective { config, network: &network, previous, parts: self.parts };
        let course = [MemberData { loader, key: member.key }];
        let reports = train_pack(&plan, &mut optimizer, network.variables(), &course, |step| {
            let features = frozen_features(&ctx.backbone, &step.batch, &ctx.device)
                .map_err(|error| LearningError::Shape(error.to_string()))?;
            let labels = step.batch.labels();
            let seen = LossBatch { features: &features, labels, rows: view.rows.clone() };
            let key = member.key.domain(Domain::Dropout);
            let place = MaskPlace { key, step: step.steps[0] };
            Ok(objective.loss(&seen, Drops { rate: config.dropout, place })?)
        })?;
        let report = reports.into_iter().next().unwrap_or_else(|| Ok(TrainingReport::default()))?;
        Ok((network.parameters()?, report))
    }
}
