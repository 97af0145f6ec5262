//! FedHAF's client: chooses exemplars, trains the head, then the module.

use std::sync::Arc;

use super::exemplars::herd;
use super::features::{Model, frozen_features};
use super::losses::{Objective, Seen};
use super::network::Network;
use super::{FedHaf, Norms, Stages};
use crate::data::{Loader, Shard};
use crate::learning::{Course, LearningError, TrainingPlan, TrainingReport, train_pack};
use crate::methods::fedavg::{Down, Up};
use crate::model::{Drops, FrozenPart, MaskPlace, ParameterSet, Trains};
use crate::numerics::streams::Domain;
use crate::policy::{
    ClientPolicy, Failure, Lab, Member, Outcome, PolicyError, Predictor, one_by_one,
};

/// Serves every client; what each keeps are its exemplars.
pub struct FedHafClient {
    pub(super) method: Arc<FedHaf>,
}

impl ClientPolicy<FedHaf> for FedHafClient {
    fn train(
        &self,
        members: &mut [Member<'_, FedHaf>],
        lab: &Lab,
    ) -> Vec<Result<Outcome<Up>, Failure>> {
        one_by_one(members, |member| self.learn(member, lab))
    }

    fn predictor(
        &self,
        down: &Down,
        up: &Up,
        lab: &Lab,
    ) -> Result<Option<Arc<dyn Predictor>>, PolicyError> {
        let parameters = up.whole(down)?;
        let rows = super::rows_of(&parameters);
        Ok(Some(Arc::new(Model::new(&lab.backbone, self.method.shape, &parameters, rows)?)))
    }
}

/// One stage of a client's training.
struct Stage {
    trains: Trains,
    /// Whether the losses of the head count, and those of the module.
    parts: (bool, bool),
    epochs: u32,
}

impl FedHafClient {
    fn learn(
        &self,
        member: &mut Member<'_, FedHaf>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError> {
        let view = Arc::clone(&member.seat.view);
        herd(&self.method.config, member, lab)?;
        let old = member.state.before(view.task);
        let previous = self.previous(member, lab)?;
        let loader = lab.train_loader(&joined(&member.shard, &old));
        let loader = lab.frozen(loader, FrozenPart::Whole)?;
        let mut parameters = member.down.parameters.clone();
        let mut metrics = Vec::new();
        for stage in self.stages(previous.is_some(), !old.is_empty(), lab.training.epochs) {
            let (learnt, report) =
                self.train_stage(&stage, member, (&loader, &parameters), previous.as_ref(), lab)?;
            parameters = learnt;
            match stage.parts {
                (true, _) => metrics.extend(report.metrics()),
                (false, _) => {
                    let last = report.epoch_losses.last().copied().unwrap_or(0.0);
                    metrics.push(("loss_module", last));
                }
            }
        }
        metrics.push(("exemplars", old.len() as f64));
        let rows = self.method.up_rows(&view);
        Ok(Outcome { up: Up::cut(&parameters, rows, member.shard.len())?, metrics })
    }

    /// The model to distil from, frozen; it answers for the old classes.
    fn previous(
        &self,
        member: &Member<'_, FedHaf>,
        lab: &Lab,
    ) -> Result<Option<Network>, PolicyError> {
        let Some(parameters) = member.down.previous_parameters()? else { return Ok(None) };
        let (rows, shape) = (0..member.seat.view.rows.start, &self.method.shape);
        let network =
            Network::new(shape, &parameters, Trains::NOTHING, rows, Norms::Settled, &lab.device)?;
        Ok(Some(network))
    }

    /// In the first task nothing but the cross-entropy is there to train the module, so both learn from it
    /// together. Later the module learns from exemplars only: without any it stays as it is.
    fn stages(&self, later: bool, has_old: bool, epochs: u32) -> Vec<Stage> {
        let config = &self.method.config;
        let distils = has_old && config.module && config.lambda_fd + config.lambda_fb > 0.0;
        if !later {
            return vec![Stage { trains: Trains::BOTH, parts: (true, false), epochs }];
        }
        if config.stages == Stages::One {
            return vec![Stage { trains: Trains::BOTH, parts: (true, distils), epochs }];
        }
        let mut stages = vec![Stage { trains: Trains::HEAD, parts: (true, false), epochs }];
        if distils {
            let epochs = config.module_epochs.unwrap_or(epochs);
            stages.push(Stage { trains: Trains::MODULE, parts: (false, true), epochs });
        }
        stages
    }

    /// Both stages see the samples in the same order.
    fn train_stage(
        &self,
        stage: &Stage,
        member: &Member<'_, FedHaf>,
        (loader, parameters): (&Loader, &ParameterSet),
        previous: Option<&Network>,
        lab: &Lab,
    ) -> Result<(ParameterSet, TrainingReport), PolicyError> {
        let (view, config) = (&member.seat.view, &self.method.config);
        let (shape, rows) = (&self.method.shape, 0..view.seen());
        // In the first task there is nothing that could have settled.
        let norms = if previous.is_some() { config.norms } else { Norms::Batch };
        let network = Network::new(shape, parameters, stage.trains, rows, norms, &lab.device)?;
        let plan = TrainingPlan { epochs: stage.epochs, ..lab.training.clone() };
        let mut optimiser = plan.optimiser.clone().over(network.vars());
        let objective = Objective { config, network: &network, previous, parts: stage.parts };
        let course = [Course { loader, key: member.key }];
        let reports = train_pack(&plan, &mut optimiser, network.variables(), &course, |step| {
            let features = frozen_features(&lab.backbone, &step.batch, &lab.device)
                .map_err(|error| LearningError::Shape(error.to_string()))?;
            let labels = step.batch.labels();
            let seen = Seen { features: &features, labels, rows: view.rows.clone() };
            let key = member.key.domain(Domain::Dropout);
            let place = MaskPlace { key, step: step.steps[0] };
            Ok(objective.loss(&seen, Drops { rate: config.dropout, place })?)
        })?;
        let report = reports.into_iter().next().unwrap_or_else(|| Ok(TrainingReport::default()))?;
        Ok((network.parameters()?, report))
    }
}

/// The samples of the task and the exemplars of earlier ones, ascending.
fn joined(shard: &Shard, old: &[u32]) -> Shard {
    let mut all = [shard, old].concat();
    all.sort_unstable();
    all.into()
}
