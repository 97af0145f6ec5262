//! The Fisher information of a client's samples, for the methods that send it.

use std::ops::Range;

use crate::data::Shard;
use crate::learning::fisher::{FisherDiagonal, FisherForm, FisherPass};
use crate::model::ParameterSet;
use crate::policy::{PolicyError, RunContext};

/// Source of the form that they have by default.
pub(super) const FORM_SOURCE: &str =
    "fed-mammoth; Matena and Raffel define the expectation over labels";

/// Computes the Fisher of a model with these parameters on the samples of a shard.
///
/// The head rows `rows` compete; samples are as statistics passes see them.
pub(super) fn local_fisher(
    form: FisherForm,
    (parameters, rows): (&ParameterSet, Range<usize>),
    shard: &Shard,
    ctx: &RunContext,
) -> Result<FisherDiagonal, PolicyError> {
    let mut pass = FisherPass::new(&ctx.backbone, parameters, rows, form)?;
    let loader = ctx.with_frozen_features(ctx.statistics_loader(shard), pass.frozen_part())?;
    for batch in loader.in_order(pass.batch(ctx.training.batch)) {
        pass.add(batch?, &ctx.device)?;
    }
    Ok(pass.finish())
}
