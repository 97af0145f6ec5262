//! Steps of a client: gradients of three models on one batch, projected onto a cone.
//!
//! A step is the nearest to the current gradient's that opposes neither the steps of the other gradients nor the way back
//! to the received model.

use candle_core::Tensor;

use super::{GradMa, LAST};
use crate::learning::losses::Linear;
use crate::learning::optimizer::lend;
use crate::learning::{Classifier, LearningError, PackBatch};
use crate::methods::averaging::{Objective, PackClient, TrainingStep, VectorStore};
use crate::methods::parts::ClientContext;
use crate::model::{Dropout, ModelError, Parameter, ParameterSet, Variables};
use crate::numerics::cone::{Program, moved};
use crate::policy::PolicyError;

/// Returns the projection `P(g; R, rho)` of a gradient `g` of one tensor.
///
/// It is `g` itself if `g` is in the cone, or if the cone is empty.
pub(super) fn turned<T: Copy + Into<f64>>(g: &[T], rows: &[&[T]], rho: f64) -> Vec<f64> {
    match Program::of(g, rows, rho).by_enumeration() {
        Some(multipliers) => moved(g, rows, &multipliers),
        None => g.iter().map(|value| (*value).into()).collect(),
    }
}

/// Loss whose gradient is the direction of the next step.
pub(super) struct GradMaObjective {
    rho: f64,
    decay: f64,
    /// Reference models, if clients project their steps.
    elsewhere: Option<ReferenceModels>,
    /// True if the model before the first step is that of an earlier round.
    came_back: bool,
    step: u64,
}

/// Models besides the current one at which gradients are computed.
struct ReferenceModels {
    /// Received model.
    start: Classifier,
    /// Model before the latest step.
    previous: Classifier,
}

impl GradMaObjective {
    pub fn new(
        method: &GradMa,
        ClientContext { model, shared, ctx }: &ClientContext<'_>,
        pack: &[PackClient<'_, VectorStore>],
        network: &Classifier,
    ) -> Result<GradMaObjective, PolicyError> {
        let (mut elsewhere, mut last) = (None, None);
        if let (true, Some(member)) = (method.at_clients(), pack.first()) {
            let view = &member.participant.view;
            let norms = shared.adaptation.settings(view).norms;
            let prompting = shared.adaptation.prompting(model, view.task.index(), true);
            let copy = |model: &ParameterSet| {
                let (rows, prompting) = (network.rows(), prompting.clone());
                let models = vec![model.clone()];
                Classifier::pack_normed(&ctx.backbone, models, rows, prompting, norms)
            };
            last = member.state.get(LAST).filter(|last| have_one_shape(last, &member.received));
            let previous = last.map(|last| member.received.clone().merge(last));
            let previous = copy(previous.as_ref().unwrap_or(&member.received))?;
            elsewhere = Some(ReferenceModels { start: copy(&member.received)?, previous });
        }
        let (rho, decay) = (method.client_margin, method.decay);
        Ok(GradMaObjective { rho, decay, elsewhere, came_back: last.is_some(), step: 0 })
    }

    /// Returns the losses of a model on a step's batch, and gradients with weight decay.
    fn gradients(
        &self,
        at: &Classifier,
        pass: &TrainingStep<'_>,
    ) -> Result<LossWithGradient, LearningError> {
        let (step, dropout): (&PackBatch, Option<Dropout>) = (pass.step, pass.dropout.clone());
        let losses = at.pack_losses(step, pass.device, dropout)?;
        let gradients = losses.backward()?;
        let one = |(name, variable): &(std::sync::Arc<str>, candle_core::Var)| {
            let missing = || LearningError::NoGradient { name: name.to_string() };
            let decay = if name.ends_with("bias") { 0.0 } else { self.decay as f32 };
            let gradient = gradients.get(variable).ok_or_else(missing)?;
            let gradient = lend(gradient, |gradient| Ok(gradient.to_vec()))?;
            if decay == 0.0 {
                return Ok(gradient);
            }
            let decayed = lend(variable, |values| {
                Ok(gradient
                    .iter()
                    .zip(values)
                    .map(|(slope, value)| slope + decay * value)
                    .collect())
            });
            Ok(decayed?)
        };
        let slopes = at.variables().iter().map(one).collect::<Result<_, LearningError>>()?;
        Ok(LossWithGradient { losses: losses.detach(), slopes })
    }
}

/// Losses, `(members)`, and the gradient of each variable.
struct LossWithGradient {
    losses: Tensor,
    slopes: Vec<Vec<f32>>,
}

impl Objective for GradMaObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let LossWithGradient { losses, mut slopes } = self.gradients(pass.model, pass)?;
        // Without an earlier round all three models are equal at the first step, and the gradient is in its cone.
        if let (Some(places), true) = (&self.elsewhere, self.step > 0 || self.came_back) {
            let start = match self.step {
                0 => slopes.clone(),
                _ => self.gradients(&places.start, pass)?.slopes,
            };
            let previous = match self.step {
                1 => start.clone(),
                _ => self.gradients(&places.previous, pass)?.slopes,
            };
            let (here, there) =
                (values(pass.model.variables())?, values(places.start.variables())?);
            for (at, slope) in slopes.iter_mut().enumerate() {
                let pairs = here[at].values.iter().zip(there[at].values.iter());
                let way: Vec<f32> = pairs.map(|(here, there)| here - there).collect();
                let rows = [&previous[at][..], &start[at], &way];
                let direction = turned(slope, &rows, self.rho);
                *slope = direction.into_iter().map(|value| value as f32).collect();
            }
        }
        if let Some(places) = &self.elsewhere {
            let now = pass.model.variables().iter().zip(places.previous.variables());
            for ((_, now), (_, previous)) in now {
                previous.set(&now.as_detached_tensor().copy()?)?;
            }
        }
        self.step += 1;
        let mut sum = losses;
        for (slope, (_, variable)) in slopes.into_iter().zip(pass.model.variables()) {
            let term = Linear::new(slope, variable)?.of(variable, 1)?;
            // Adds the gradient only; the value of the loss does not change.
            sum = sum.broadcast_add(&(&term - term.detach())?)?;
        }
        Ok(sum)
    }
}

/// Returns true if the tensors of a kept model have the shapes of the received ones: a head may have grown.
fn have_one_shape(kept: &ParameterSet, received: &ParameterSet) -> bool {
    kept.iter().all(|(name, kept)| received.get(name).is_some_and(|now| now.shape == kept.shape))
}

fn values(variables: &Variables) -> Result<Vec<Parameter>, ModelError> {
    variables.iter().map(|(_, variable)| Parameter::of(variable)).collect()
}
