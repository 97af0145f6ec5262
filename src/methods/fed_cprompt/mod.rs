//! **Fed-CPrompt** ("Contrastive Prompt for Rehearsal-Free Federated Continual Learning", FL workshop at ICML 2023,
//! arXiv 2307.04869).
//!
//! CODA-Prompt's components, whose attention passes a softmax and which are made orthogonal once, with a
//! contrastive continual loss: it keeps the current model near the aggregated one that the client received and away
//! from that of the previous task.
//!
//! ```text
//! client   E epochs: minimise CE over the rows of the current task + C2L(current, received, previous)
//! server   the components of the task, head <- means weighted by n_m
//! ```
//! The previous task's model needs no message of its own: its components are among those that travel, frozen.
//! Where clients are at different tasks (`tasks.arrival`), each uses the components of the tasks up to its own, and those
//! of a task are averaged over the clients that learnt it. (The release means to add the other group's components, but
//! takes the client's own in their place, and averages over everybody.)
//! Rounds are those of the scenario; the release's early stopping looks at the training data and is left out.

mod config;
mod contrast;

use std::ops::Range;
use std::sync::Arc;

use candle_core::{Device, Tensor};

pub use config::{C2l, C2lForm, FedCPromptConfig};

use super::coda_prompt::{self, CodaPrompt};
use super::prompted::{ExtraLoss, PromptKind, Prompted, PromptedConfig};
use crate::learning::prompting::ComponentPart;
use crate::learning::{Classifier, LearningError, PackBatch, PackOutputs, Prompting};
use crate::model::{Parameter, ParameterSet};
use crate::numerics::streams::StreamKey;
use crate::policy::{Lab, ModelFacts, PolicyError, WireForm};
use crate::scenario::{Complaint, Scenario};

/// Components with a contrastive loss.
#[derive(Clone, Debug)]
pub struct FedCPrompt {
    coda: CodaPrompt,
    c2l: C2l,
}

/// The method.
pub fn method(
    config: FedCPromptConfig,
    shared: PromptedConfig,
    facts: &ModelFacts,
) -> Prompted<FedCPrompt> {
    let FedCPromptConfig { components, c2l } = config;
    let coda = CodaPrompt::new(components, facts);
    Prompted::new(FedCPrompt { coda, c2l }, shared, facts)
}

impl FedCPrompt {
    /// The components of a task, of all blocks one behind the other, as each member received them.
    fn block_of(
        &self,
        task: usize,
        received: &[ParameterSet],
        device: &Device,
    ) -> Result<Vec<Tensor>, PolicyError> {
        let rows = self.coda.own_rows(task);
        let of_member = |set: &ParameterSet| -> Result<Tensor, PolicyError> {
            let mut values = Vec::new();
            for block in self.coda.blocks() {
                if let Some(Parameter { shape, values: all }) =
                    set.get(&ComponentPart::Prompt.name(block))
                {
                    let width: usize = shape[1..].iter().product();
                    values.extend_from_slice(&all[rows.start * width..rows.end * width]);
                }
            }
            let count = values.len();
            Ok(Tensor::from_vec(values, count, device)?)
        };
        received.iter().map(of_member).collect()
    }
}

impl PromptKind for FedCPrompt {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.coda.shapes()
    }

    fn initial_parameters(&self, init: StreamKey) -> ParameterSet {
        self.coda.initial_parameters(init)
    }

    fn has_rows(&self, name: &str) -> bool {
        self.coda.has_rows(name)
    }

    fn down_rows(&self, task: usize, form: WireForm) -> Range<usize> {
        self.coda.down_rows(task, form)
    }

    fn own_rows(&self, task: usize) -> Range<usize> {
        self.coda.own_rows(task)
    }

    fn inference_rows(&self, task: usize) -> Range<usize> {
        self.coda.inference_rows(task)
    }

    fn changes(&self, name: &str) -> bool {
        self.coda.changes(name)
    }

    fn begin_task(&self, task: usize, parameters: ParameterSet, init: StreamKey) -> ParameterSet {
        self.coda.begin_task(task, parameters, init)
    }

    fn training(&self, task: usize) -> Arc<dyn Prompting> {
        self.coda.training(task)
    }

    fn inference(&self, task: usize) -> Arc<dyn Prompting> {
        self.coda.inference(task)
    }

    fn extra_loss(
        &self,
        task: usize,
        received: &[ParameterSet],
        lab: &Lab,
    ) -> Result<Option<Box<dyn ExtraLoss>>, PolicyError> {
        // Frozen: no component trains.
        let model = |used: usize| {
            let prompting: Arc<dyn Prompting> = Arc::new(self.coda.components(used, 0..0));
            Classifier::pack_with(&lab.backbone, received.to_vec(), 0..1, Some(prompting))
        };
        let own = self.coda.own_rows(task);
        Ok(match self.c2l.form {
            C2lForm::Off => None,
            C2lForm::FeatureHinge | C2lForm::FeatureSoftmax => {
                let previous = (task > 0).then(|| model(own.start)).transpose()?;
                let (global, c2l) = (model(own.end)?, self.c2l);
                Some(Box::new(FeatureContrast {
                    global,
                    previous,
                    c2l,
                    device: lab.device.clone(),
                }))
            }
            C2lForm::Prompt => {
                let of = |task| self.block_of(task, received, &lab.device);
                let earlier = (0..task).map(of).collect::<Result<_, _>>()?;
                let (global, c2l) = (of(task)?, self.c2l);
                Some(Box::new(PromptContrast { global, earlier, c2l }))
            }
        })
    }

    /// Features of the received and of the previous model.
    fn extra_passes(&self) -> f64 {
        match self.c2l.form {
            C2lForm::FeatureHinge | C2lForm::FeatureSoftmax => 2.0,
            C2lForm::Prompt | C2lForm::Off => 0.0,
        }
    }
}

/// Compares features.
struct FeatureContrast {
    global: Classifier,
    /// None in the first task.
    previous: Option<Classifier>,
    c2l: C2l,
    device: Device,
}

impl ExtraLoss for FeatureContrast {
    fn losses(
        &self,
        _model: &Classifier,
        step: &PackBatch,
        outputs: &PackOutputs,
    ) -> Result<Tensor, LearningError> {
        let frozen = |model: &Classifier| model.pack_features(step, &self.device);
        let global = frozen(&self.global)?;
        let previous = self.previous.as_ref().map(frozen).transpose()?;
        let zero = Tensor::zeros((), outputs.features.dtype(), outputs.features.device())?;
        let mut losses = Vec::with_capacity(step.groups.members());
        for run in step.groups.runs() {
            if run.is_empty() {
                losses.push(zero.clone());
                continue;
            }
            let own = |all: &Tensor| all.narrow(0, run.start, run.len());
            let (now, global) = (own(&outputs.features)?, own(&global)?);
            let previous = previous.as_ref().map(own).transpose()?;
            losses.push(match self.c2l.form {
                C2lForm::FeatureSoftmax => {
                    contrast::softmax(&now, &global, previous.as_ref(), self.c2l.temperature)?
                }
                _ => contrast::hinge(&now, &global, previous.as_ref())?,
            });
        }
        Ok(Tensor::stack(&losses, 0)?)
    }
}

/// Compares the components of the task with what was received and with those of earlier tasks.
struct PromptContrast {
    /// By member.
    global: Vec<Tensor>,
    /// By earlier task and member.
    earlier: Vec<Vec<Tensor>>,
    c2l: C2l,
}

impl ExtraLoss for PromptContrast {
    fn losses(
        &self,
        model: &Classifier,
        step: &PackBatch,
        _outputs: &PackOutputs,
    ) -> Result<Tensor, LearningError> {
        let components: Vec<&Tensor> = (model.variables().iter())
            .filter(|(name, _)| name.ends_with(".component"))
            .map(|(_, variable)| variable.as_tensor())
            .collect();
        let mut losses = Vec::with_capacity(self.global.len());
        for (member, (global, run)) in self.global.iter().zip(step.groups.runs()).enumerate() {
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
        Ok(Tensor::stack(&losses, 0)?)
    }
}

/// Components are CODA-Prompt's.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    coda_prompt::check(scenario)
}
