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
//! of a task are averaged over the clients that learnt it. What a client ahead has as the previous task's model is then
//! not settled: the group behind still trains those components in the first rounds of a period, and they are taken as
//! they are received in each round. (The release means to add the other group's components, but
//! takes the client's own in their place, and averages over everybody.)
//! Rounds are those of the scenario; the release's early stopping looks at the training data and is left out.

mod contrast;
mod objective;

use clap::ValueEnum;

use super::averaged::{Begun, Client, CrossEntropy, Objective};
use super::coda_prompt::{self, CodaPrompt, Orthogonal};
use super::entry::MethodEntry;
use super::parts::{AveragingMethod, ClientContext, LocalUpdate, Parts, Workload};
use super::prompted::{self, Prompted};
use crate::learning::Classifier;
use crate::policy::PolicyError;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};

/// What the contrastive continual loss compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum C2lForm {
    /// Squared distances of features, in a hinge.
    #[default]
    FeatureHinge,
    /// Cosines of features, in a softmax.
    FeatureSoftmax,
    /// Distances of prompts, in a hinge.
    Prompt,
    /// Nothing.
    Off,
}

/// The contrastive continual loss.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct C2l {
    /// What it compares.
    pub form: C2lForm,
    /// Of the softmax.
    pub temperature: f64,
    /// Weight of the distance to earlier prompts.
    pub gamma: f64,
    /// Margin of the hinge over prompts.
    pub alpha: f64,
}

/// The `[method]` table of Fed-CPrompt.
#[derive(Clone, Debug, PartialEq)]
pub struct FedCPrompt {
    /// Components as CODA-Prompt has them.
    pub coda: CodaPrompt,
    /// The contrastive continual loss.
    pub c2l: C2l,
}

impl Default for FedCPrompt {
    fn default() -> Self {
        defaults(FedCPrompt::read)
    }
}

impl FedCPrompt {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> FedCPrompt {
        let softmax =
            Param::new("attention_softmax", true, "attention passes a softmax over its entries");
        let orthogonal =
            Param::new("orthogonal", Orthogonal::Once, "when rows are made orthogonal");
        let source = "the release of Fed-CPrompt";
        let coda = CodaPrompt {
            attention_softmax: table.get(&softmax.source(source)),
            orthogonal: table.get(&orthogonal.source(source)),
            ..CodaPrompt::sizes(table)
        };
        let form = Param::new("c2l", C2lForm::FeatureHinge, "the contrastive continual loss");
        let temperature =
            Param::new("c2l_temperature", 0.5, "temperature of `c2l = \"feature-softmax\"`");
        let gamma = Param::new("c2l_gamma", 1.0, "weight of earlier prompts in `c2l = \"prompt\"`");
        let margin = "margin of `c2l = \"prompt\"`; earlier prompts that are farther do not act";
        let alpha = Param::new("c2l_alpha", 1.0, margin);
        let unknown = "our choice; the paper's value is not known";
        let c2l = C2l {
            form: table.get(&form.source(source)),
            temperature: table.get(&temperature.source(unknown).above(0.0)),
            gamma: table.get(&gamma.source(unknown).above(0.0)),
            alpha: table.get(&alpha.source(unknown).at_least(0.0)),
        };
        FedCPrompt { coda: CodaPrompt { prompted: Prompted::read(table), ..coda }, c2l }
    }
}

impl AveragingMethod for FedCPrompt {
    type State = ();
    type Memory = Begun;

    /// Everything but the loss is CODA-Prompt's.
    fn parts(&self) -> Parts<'_, (), Begun> {
        Parts { local: self, ..self.coda.base() }
    }
}

impl LocalUpdate<()> for FedCPrompt {
    fn objective(
        &self,
        &ClientContext { model, lab, .. }: &ClientContext<'_>,
        pack: &[Client<'_, ()>],
        _network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        Ok(match self.c2l.form {
            C2lForm::Off => Box::new(CrossEntropy),
            C2lForm::Prompt => Box::new(objective::OfPrompts::new(self, model, pack, lab)?),
            C2lForm::FeatureHinge | C2lForm::FeatureSoftmax => {
                Box::new(objective::OfFeatures::new(self, model, pack, lab)?)
            }
        })
    }

    /// Features of the received and of the previous model.
    fn work(&self, load: &Workload<'_>) -> f64 {
        let passes = match self.c2l.form {
            C2lForm::FeatureHinge | C2lForm::FeatureSoftmax => 2.0,
            C2lForm::Prompt | C2lForm::Off => 0.0,
        };
        prompted::work(load, passes)
    }
}

/// Its line in the registry.
pub(super) fn entry() -> MethodEntry {
    let MethodEntry { state, .. } = coda_prompt::entry();
    MethodEntry {
        idea: "CODA-Prompt's components with a contrastive loss that keeps the client's model near the \
               one it received and away from that of the previous task.",
        source: "Fed-CPrompt: Contrastive Prompt for Rehearsal-Free Federated Continual Learning, \
                 arXiv 2307.04869",
        state,
        ..MethodEntry::averaging("fed-cprompt", FedCPrompt::read)
    }
}
