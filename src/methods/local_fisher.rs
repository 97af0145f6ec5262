//! The Fisher information of a client's samples, for the methods that send it.

use std::ops::Range;

use super::task_labels::TaskLabels;
use crate::data::{Shard, TaskView};
use crate::learning::fisher::{FisherDiagonal, FisherForm, FisherPass};
use crate::model::ParameterSet;
use crate::policy::{PolicyError, RunContext};

/// Source of the default form of the Fisher information, for the methods that send it.
pub(super) const FORM_SOURCE: &str =
    "fed-mammoth; Matena and Raffel define the expectation over labels";

/// Returns the Fisher information of a model with these parameters on the samples of a shard.
///
/// The head rows `rows` compete in the softmax. Samples pass the statistics transform, with `labels` of the task of
/// `view`.
pub(super) fn local_fisher(
    (form, labels, view): (FisherForm, TaskLabels, &TaskView),
    (parameters, rows): (&ParameterSet, Range<usize>),
    shard: &Shard,
    ctx: &RunContext,
) -> Result<FisherDiagonal, PolicyError> {
    let mut pass = FisherPass::new(&ctx.backbone, parameters, rows, form)?;
    let loader = ctx.with_frozen_features(ctx.statistics_loader(shard), pass.frozen_part())?;
    for batch in loader.in_order(pass.batch(ctx.training.batch)) {
        let batch = batch?;
        let rows = batch.labels().iter().map(|row| labels.row(*row, &view.rows)).collect();
        pass.add_labeled(batch, rows, &ctx.device)?;
    }
    Ok(pass.finish())
}
