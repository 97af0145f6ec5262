//! What a client of FedAvg-Prompt and of HePCo does: trains the pools and the rows of the task at hand.

use std::sync::Arc;

use super::{FedAvgPromptConfig, WeightedPool};
use crate::learning::{Classifier, Course, LearningError, train_pack};
use crate::methods::fedavg::{Down, Trained};
use crate::policy::{Lab, Member, Method, PolicyError};

/// Minimises the cross-entropy over the rows of the current task, for all members of a pack at once; a
/// member fails alone. Old rows are no variables, so no optimiser can move them.
pub(in crate::methods) fn train_pools<M: Method<Down = Down>>(
    config: &FedAvgPromptConfig,
    pool: WeightedPool,
    members: &[Member<'_, M>],
    lab: &Lab,
) -> Result<Vec<Result<Trained, LearningError>>, PolicyError> {
    let Some(first) = members.first() else { return Ok(Vec::new()) };
    let received = members.iter().map(|member| member.down.parameters.clone()).collect();
    let rows = first.seat.view.rows.clone();
    let model = Classifier::pack_with(&lab.backbone, received, rows, Some(Arc::new(pool)))?;
    let loader = |member: &Member<'_, M>| {
        let loader = lab.frozen(lab.train_loader(&member.shard), model.frozen_part())?;
        lab.queried(loader, config.query)
    };
    let loaders = members.iter().map(loader).collect::<Result<Vec<_>, PolicyError>>()?;
    let courses: Vec<_> = loaders
        .iter()
        .zip(members)
        .map(|(loader, member)| Course { loader, key: member.key })
        .collect();
    let rule = lab.training.optimiser.clone();
    let mut optimiser = rule.over_pack(model.vars(), model.members());
    let reports = train_pack(&lab.training, &mut optimiser, model.variables(), &courses, |step| {
        model.pack_losses(step, &lab.device, None)
    })?;
    let trained = model.pack_parameters()?.into_iter().zip(reports);
    Ok(trained.map(|(parameters, report)| Ok(Trained { parameters, report: report? })).collect())
}
