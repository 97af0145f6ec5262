//! Cross-entropy with the contrastive continual loss, for the members of a pack.

use std::sync::Arc;

use candle_core::{Device, Tensor};

use super::{C2l, C2lForm, FedCPrompt, contrast};
use crate::learning::prompting::ComponentPart;
use crate::learning::{Classifier, LearningError, Prompting};
use crate::methods::averaging::{Objective, PackClient, TrainingStep};
use crate::model::ParameterSet;
use crate::policy::{ModelFacts, PolicyError, RunContext};

/// Cross-entropy plus the contrastive loss on features.
pub(super) struct FeatureContrast {
    /// Models that the members received.
    global: Classifier,
    /// Received models without the components of the task; `None` in the first task.
    previous: Option<Classifier>,
    c2l: C2l,
}

impl FeatureContrast {
    pub fn new(
        method: &FedCPrompt,
        model: &ModelFacts,
        pack: &[PackClient<'_, ()>],
        ctx: &RunContext,
    ) -> Result<FeatureContrast, PolicyError> {
        let task = task_of(pack);
        let own = method.coda.own_rows(model, task);
        // No component trains, so that the network is frozen.
        let frozen = |used: usize| {
            let prompting: Arc<dyn Prompting> = Arc::new(method.coda.components(model, used, 0..0));
            let received = pack.iter().map(|member| member.received.clone()).collect();
            Classifier::pack_with(&ctx.backbone, received, 0..1, Some(prompting))
        };
        let previous = (task > 0).then(|| frozen(own.start)).transpose()?;
        Ok(FeatureContrast { global: frozen(own.end)?, previous, c2l: method.c2l })
    }
}

impl Objective for FeatureContrast {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (outputs, step) = (pass.outputs()?, pass.step);
        let features = &outputs.features;
        let frozen = |model: &Classifier| model.pack_features(step, pass.device);
        let global = frozen(&self.global)?;
        let previous = self.previous.as_ref().map(frozen).transpose()?;
        let zero = Tensor::zeros((), features.dtype(), features.device())?;
        let mut losses = Vec::with_capacity(step.groups.members());
        for run in step.groups.runs() {
            if run.is_empty() {
                losses.push(zero.clone());
                continue;
            }
            let own = |all: &Tensor| all.narrow(0, run.start, run.len());
            let (now, global) = (own(features)?, own(&global)?);
            let previous = previous.as_ref().map(own).transpose()?;
            losses.push(match self.c2l.form {
                C2lForm::FeatureSoftmax => {
                    contrast::softmax(&now, &global, previous.as_ref(), self.c2l.temperature)?
                }
                _ => contrast::hinge(&now, &global, previous.as_ref())?,
            });
        }
        Ok((&outputs.losses + Tensor::stack(&losses, 0)?)?)
    }
}

/// Cross-entropy plus the contrastive loss on the task's components.
pub(super) struct PromptContrast {
    /// Received components of the task, by member.
    global: Vec<Tensor>,
    /// Components of earlier tasks, by task and member.
    earlier: Vec<Vec<Tensor>>,
    c2l: C2l,
}

impl PromptContrast {
    pub fn new(
        method: &FedCPrompt,
        model: &ModelFacts,
        pack: &[PackClient<'_, ()>],
        ctx: &RunContext,
    ) -> Result<PromptContrast, PolicyError> {
        let of = |task: usize| -> Result<Vec<Tensor>, PolicyError> {
            let sets = pack.iter().map(|member| &member.received);
            sets.map(|set| components(method, model, task, set, &ctx.device)).collect()
        };
        let task = task_of(pack);
        let earlier = (0..task).map(of).collect::<Result<_, _>>()?;
        Ok(PromptContrast { global: of(task)?, earlier, c2l: method.c2l })
    }
}

impl Objective for PromptContrast {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let outputs = pass.outputs()?;
        let components: Vec<&Tensor> = (pass.model.variables().iter())
            .filter(|(name, _)| name.ends_with(".component"))
            .map(|(_, variable)| variable.as_tensor())
            .collect();
        let mut losses = Vec::with_capacity(self.global.len());
        for (member, (global, run)) in self.global.iter().zip(pass.step.groups.runs()).enumerate() {
            if run.is_empty() {
                losses.push(Tensor::zeros((), global.dtype(), global.device())?);
                continue;
            }
            let own = |all: &&Tensor| match self.global.len() {
                1 => all.flatten_all(),
                _ => all.get(member)?.flatten_all(),
            };
            let own = components.iter().map(own).collect::<Result<Vec<_>, _>>()?;
            let now = Tensor::cat(&own, 0)?;
            let earlier: Vec<&Tensor> = self.earlier.iter().map(|task| &task[member]).collect();
            losses.push(contrast::prompts(&now, global, &earlier, self.c2l)?);
        }
        Ok((&outputs.losses + Tensor::stack(&losses, 0)?)?)
    }
}

/// Returns the task of a pack, from 0.
fn task_of(pack: &[PackClient<'_, ()>]) -> usize {
    pack.first().map_or(0, |member| member.participant.view.task.index())
}

/// Returns the components of a task as a vector, block after block.
fn components(
    method: &FedCPrompt,
    model: &ModelFacts,
    task: usize,
    set: &ParameterSet,
    device: &Device,
) -> Result<Tensor, PolicyError> {
    let rows = method.coda.own_rows(model, task);
    let mut values = Vec::new();
    for block in method.coda.blocks(model) {
        if let Some(all) = set.get(&ComponentPart::Prompt.name(block)) {
            values.extend_from_slice(&all.cut(rows.clone())?.values);
        }
    }
    let count = values.len();
    Ok(Tensor::from_vec(values, count, device)?)
}
