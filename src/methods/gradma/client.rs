//! A client's steps: gradients at three places on the same batch, and the direction nearest to the first that goes
//! against none of them.

use candle_core::Tensor;

use super::GradMa;
use crate::learning::losses::Linear;
use crate::learning::optimizer::lend;
use crate::learning::{Classifier, LearningError, PackBatch};
use crate::methods::averaging::{Objective, PackClient, TrainingStep};
use crate::methods::parts::ClientContext;
use crate::model::{Dropout, ModelError, Parameter, Variables};
use crate::numerics::cone::{Program, moved};
use crate::policy::PolicyError;

/// `P(g; R, rho)` of a tensor; `g` itself where it is within the cone, or nothing is.
pub(super) fn turned<T: Copy + Into<f64>>(g: &[T], rows: &[&[T]], rho: f64) -> Vec<f64> {
    match Program::of(g, rows, rho).by_enumeration() {
        Some(multipliers) => moved(g, rows, &multipliers),
        None => g.iter().map(|value| (*value).into()).collect(),
    }
}

/// A loss whose gradient is the direction of the next step.
pub(super) struct GradMaObjective {
    rho: f64,
    decay: f64,
    /// Reference models, if clients turn their steps.
    elsewhere: Option<ReferenceModels>,
    step: u64,
}

/// The two other places where gradients are taken.
struct ReferenceModels {
    /// Model at the received parameters.
    start: Classifier,
    /// Model before the last step.
    previous: Classifier,
}

impl GradMaObjective {
    pub fn new(
        method: &GradMa,
        ClientContext { model, shared, ctx }: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        network: &Classifier,
    ) -> Result<GradMaObjective, PolicyError> {
        let mut elsewhere = None;
        if let (true, Some(member)) = (method.at_clients(), pack.first()) {
            let view = &member.participant.view;
            let norms = shared.adaptation.settings(view).norms;
            let prompting = shared.adaptation.prompting(model, view.task.index(), true);
            let copy = || {
                let received = vec![member.received.clone()];
                let (rows, prompting) = (network.rows(), prompting.clone());
                Classifier::pack_normed(&ctx.backbone, received, rows, prompting, norms)
            };
            elsewhere = Some(ReferenceModels { start: copy()?, previous: copy()? });
        }
        Ok(GradMaObjective { rho: method.client_margin, decay: method.decay, elsewhere, step: 0 })
    }

    /// Computes the loss at a place, and the gradient of each variable.
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

/// Losses `(members)`, and the gradient of each variable.
struct LossWithGradient {
    losses: Tensor,
    slopes: Vec<Vec<f32>>,
}

impl Objective for GradMaObjective {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let LossWithGradient { losses, mut slopes } = self.gradients(pass.model, pass)?;
        // At the first step all three places are one, and the gradient is in its own cone.
        if let (Some(places), true) = (&self.elsewhere, self.step > 0) {
            let start = self.gradients(&places.start, pass)?.slopes;
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
            // The gradient alone: the value stays that of the loss.
            sum = sum.broadcast_add(&(&term - term.detach())?)?;
        }
        Ok(sum)
    }
}

fn values(variables: &Variables) -> Result<Vec<Parameter>, ModelError> {
    variables.iter().map(|(_, variable)| Parameter::of(variable)).collect()
}
