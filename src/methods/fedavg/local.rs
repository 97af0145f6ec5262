//! Local training of a pack: what FedAvg's clients do, and those of every method that builds on it.

use std::ops::Range;

use super::{Down, OldLogits, Up};
use crate::data::TaskView;
use crate::learning::{Classifier, Course, LearningError, Optimiser, TrainingReport, train_pack};
use crate::model::{Dropout, MaskPlace, ParameterSet};
use crate::numerics::streams::Domain;
use crate::policy::{Lab, Learnt, Member, Method, Outcome, PolicyError};

/// What a member has after its training.
pub(in crate::methods) struct Trained {
    /// Everything it received, with what trained as it is now.
    pub parameters: ParameterSet,
    /// How it went.
    pub report: TrainingReport,
}

/// Minimises the cross-entropy over the rows of the current task, or with the `old` ones, for all members
/// of a pack at once. `optimiser` is made for the classifier of the pack, `dropout` is the share of
/// entries dropped inside adapters; a member fails alone.
pub(in crate::methods) fn train_members<M: Method<Down = Down>>(
    members: &[Member<'_, M>],
    lab: &Lab,
    old: OldLogits,
    dropout: f64,
    optimiser: impl FnOnce(&Classifier) -> Optimiser,
) -> Result<Vec<Result<Trained, LearningError>>, PolicyError> {
    let Some(first) = members.first() else { return Ok(Vec::new()) };
    let received = members.iter().map(|member| member.down.parameters.clone()).collect();
    let model = Classifier::pack(&lab.backbone, received, old.rows(&first.seat.view))?;
    let loader =
        |member: &Member<'_, M>| lab.frozen(lab.train_loader(&member.shard), model.frozen_part());
    let loaders = members.iter().map(loader).collect::<Result<Vec<_>, _>>()?;
    let courses: Vec<_> = loaders
        .iter()
        .zip(members)
        .map(|(loader, member)| Course { loader, key: member.key })
        .collect();
    let mut optimiser = optimiser(&model);
    let reports = train_pack(&lab.training, &mut optimiser, model.variables(), &courses, |step| {
        let places = members.iter().zip(&step.steps).map(|(member, step)| MaskPlace {
            key: member.key.domain(Domain::Dropout),
            step: *step,
        });
        let dropout = Dropout { rate: dropout, places: places.collect() };
        model.pack_losses(step, &lab.device, Some(dropout))
    })?;
    let trained = model.pack_parameters()?.into_iter().zip(reports);
    Ok(trained.map(|(parameters, report)| Ok(Trained { parameters, report: report? })).collect())
}

/// What the members send where an upload is what they trained: of the head the rows that `up_rows` names.
pub(in crate::methods) fn uploads<M: Method<Down = Down>>(
    members: &[Member<'_, M>],
    trained: Vec<Result<Trained, LearningError>>,
    up_rows: impl Fn(&TaskView) -> Range<usize>,
) -> Learnt<Up> {
    let upload = |(member, trained): (&Member<'_, M>, Result<Trained, LearningError>)| {
        let Trained { parameters, report } = trained?;
        let up = Up::cut(&parameters, up_rows(&member.seat.view), member.shard.len())?;
        Ok(Outcome { up, metrics: report.metrics() })
    };
    members.iter().zip(trained).map(upload).collect()
}
