//! **Fed-CPrompt** (FL workshop at ICML 2023, arXiv 2307.04869).
//!
//! "Contrastive Prompt for Rehearsal-Free Federated Continual Learning".
//!
//! The method trains CODA-Prompt's components, with a softmax on attention vectors and orthogonal rows from the start,
//! and adds a contrastive continual loss, which keeps the current model near the aggregated one that the client
//! received and away from that of the previous task.
//!
//! ```text
//! client   E epochs: minimize CE over the rows of the current task + C2L(current, received, previous)
//! server   the components of the task, head <- means weighted by n_m
//! ```
//! The previous task's model needs no separate message: its components are among those that are sent, frozen. If
//! clients are at different tasks (`tasks.arrival`), each uses the components of the tasks up to its own, and those of
//! a task are averaged over the clients that trained it. The previous task's model of a client ahead then still
//! changes: the clients behind train its components in the first rounds of a stage, and they are used as received in
//! each round. (The release intends to add the other group's components, but takes the client's own in their place, and
//! averages over all clients.) Rounds are those of the scenario; the release's early stopping looks at the training
//! data and is left out.

mod contrast;
mod objective;

use clap::ValueEnum;

use super::averaging::{CrossEntropy, LatestTask, Objective, PackClient};
use super::coda_prompt::{self, CodaPrompt, ComponentSizes, Orthogonal};
use super::entry::MethodEntry;
use super::parts::{AveragingMethod, ClientContext, LocalUpdate, Parts, Workload};
use super::prompted::{self, PoolForm, Prompted};
use crate::learning::Classifier;
use crate::policy::PolicyError;
use crate::scenario::reader::{Choice, Keys};

/// Quantities that the contrastive continual loss compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum C2lForm {
    /// Squared distances of features, in a hinge.
    #[default]
    FeatureHinge,
    /// Cosines of features, in a softmax.
    FeatureSoftmax,
    /// Distances of prompts, in a hinge.
    Prompt,
    /// No contrastive loss.
    Off,
}

/// Source of defaults that the release sets.
const RELEASE: &str = "the release of Fed-CPrompt";

/// Source of all other defaults.
const OURS: &str = "our choice; the paper's value is not known";

/// Contrastive continual loss.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
pub struct C2l {
    /// Quantities that the contrastive continual loss compares.
    #[key(name = "c2l", default = C2lForm::FeatureHinge, source = RELEASE)]
    pub form: C2lForm,
    /// Temperature of `c2l = "feature-softmax"`.
    #[key(name = "c2l_temperature", default = 0.5, source = OURS, above = 0.0)]
    pub temperature: f64,
    /// Weight of the distance to earlier prompts in `c2l = "prompt"`.
    #[key(name = "c2l_gamma", default = 1.0, source = OURS, above = 0.0)]
    pub gamma: f64,
    /// Margin of `c2l = "prompt"`; earlier prompts at a larger distance have no effect.
    #[key(name = "c2l_alpha", default = 1.0, source = OURS, at_least = 0.0)]
    pub alpha: f64,
}

/// Keys of the `[method]` table of Fed-CPrompt.
#[derive(Keys)]
struct FedCPromptTable {
    /// Softmax of the attention vector over its entries.
    #[key(default = true, source = RELEASE)]
    attention_softmax: bool,
    /// Time at which rows are made orthogonal.
    #[key(default = Orthogonal::Once, source = RELEASE)]
    orthogonal: Orthogonal,
    /// Sizes of components.
    #[key(flatten)]
    sizes: ComponentSizes,
    /// Components in messages.
    #[key(default = PoolForm::Fixed, source = "the public code of HGP")]
    component_form: PoolForm,
    /// Contrastive continual loss.
    #[key(flatten)]
    c2l: C2l,
    /// Keys of all methods with prompts.
    #[key(flatten)]
    prompted: Prompted,
}

/// CODA-Prompt with the contrastive continual loss.
#[derive(Clone, Debug, PartialEq)]
pub struct FedCPrompt {
    /// CODA-Prompt's components and settings.
    pub coda: CodaPrompt,
    /// Settings of the contrastive continual loss.
    pub c2l: C2l,
}

impl Default for FedCPrompt {
    fn default() -> Self {
        FedCPromptTable::default().into()
    }
}

impl From<FedCPromptTable> for FedCPrompt {
    fn from(table: FedCPromptTable) -> Self {
        let FedCPromptTable {
            attention_softmax,
            orthogonal,
            sizes,
            component_form: components,
            c2l,
            prompted,
        } = table;
        let usual = CodaPrompt::default();
        let coda = CodaPrompt {
            attention_softmax,
            orthogonal,
            sizes,
            component_form: components,
            prompted,
            ..usual
        };
        FedCPrompt { coda, c2l }
    }
}

impl AveragingMethod for FedCPrompt {
    type State = ();
    type Memory = LatestTask;

    /// Returns CODA-Prompt's parts with the contrastive loss.
    fn parts(&self) -> Parts<'_, (), LatestTask> {
        Parts { local: self, ..self.coda.base() }
    }
}

impl LocalUpdate<()> for FedCPrompt {
    fn objective(
        &self,
        &ClientContext { model, ctx, .. }: &ClientContext<'_>,
        pack: &[PackClient<'_, ()>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        Ok(match self.c2l.form {
            C2lForm::Off => Box::new(CrossEntropy),
            C2lForm::Prompt => Box::new(objective::PromptContrast::new(self, model, pack, ctx)?),
            C2lForm::FeatureHinge | C2lForm::FeatureSoftmax => {
                Box::new(objective::FeatureContrast::new(self, model, pack, ctx)?)
            }
        })
    }

    /// Charges forward passes of the received and of the previous model if features are compared.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let passes = match self.c2l.form {
            C2lForm::FeatureHinge | C2lForm::FeatureSoftmax => 2.0,
            C2lForm::Prompt | C2lForm::Off => 0.0,
        };
        prompted::work(load, passes)
    }
}

pub(super) fn entry() -> MethodEntry {
    let MethodEntry { state, .. } = coda_prompt::entry();
    MethodEntry {
        idea: "CODA-Prompt's components with a contrastive loss that keeps the client's model near the \
               one it received and away from that of the previous task.",
        source: "Fed-CPrompt: Contrastive Prompt for Rehearsal-Free Federated Continual Learning, \
                 arXiv 2307.04869",
        state,
        ..MethodEntry::averaging::<FedCPrompt>("fed-cprompt", |table| {
            FedCPromptTable::read(table).into()
        })
    }
}
