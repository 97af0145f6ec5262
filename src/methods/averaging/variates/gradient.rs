//! Gradient of a client's loss over all its samples.

use std::ops::Range;

use crate::learning::{Classifier, whole_gradient};
use crate::methods::averaging::PackClient;
use crate::methods::parts::ClientContext;
use crate::model::{Parameter, ParameterSet};
use crate::numerics::streams::Domain;
use crate::policy::PolicyError;

/// Returns the gradient of the loss over all samples of a member, at the received model, by parameter.
pub(super) fn received_gradient<S>(
    ClientContext { model, shared, ctx }: &ClientContext<'_>,
    member: &PackClient<'_, S>,
) -> Result<ParameterSet, PolicyError> {
    let (view, received) = (&member.participant.view, vec![member.received.clone()]);
    let (rows, norms) = (shared.trained_rows(model, view), shared.adaptation.settings(view).norms);
    let network = Classifier::pack_normed(&ctx.backbone, received, rows.clone(), None, norms)?;
    let loader = ctx.with_frozen_features(ctx.train_loader(member.shard), network.frozen_part())?;
    let (batch, key) = (ctx.training.batch, member.key.domain(Domain::Augment));
    let gradient = whole_gradient(&network, &loader, batch, key, &ctx.device)?;
    let each = network.variables().iter().zip(gradient);
    let placed = each.map(|((name, _), gradient)| {
        Ok((name.clone(), placed(member.received.get(name), &gradient, &rows)?))
    });
    placed.collect()
}

/// Returns a gradient in the shape of its whole parameter: a gradient of `rows` gets zeros around.
fn placed(
    whole: Option<&Parameter>,
    gradient: &[f64],
    rows: &Range<usize>,
) -> Result<Parameter, PolicyError> {
    let missing = || PolicyError::Unsupported("a gradient of nothing that was received".to_owned());
    let whole = whole.ok_or_else(missing)?;
    let values: Vec<f32> = gradient.iter().map(|value| *value as f32).collect();
    if values.len() == whole.values.len() {
        return Ok(Parameter { shape: whole.shape.clone(), values: values.into() });
    }
    let mut shape = whole.shape.clone();
    shape[0] = rows.len();
    let zeros = vec![0.0; whole.values.len()].into();
    let zeros = Parameter { shape: whole.shape.clone(), values: zeros };
    Ok(zeros.with_rows(&Parameter { shape, values: values.into() }, rows.start)?)
}
