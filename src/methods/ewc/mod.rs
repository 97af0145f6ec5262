//! **EWC** (Kirkpatrick et al., PNAS 2017) over FedAvg: a penalty on changes of important parameters.
//!
//! Parameters that earlier tasks depend on, by their Fisher information, stay near their values.
//!
//! ```text
//! client   minimize  CE + lambda sum F (theta - theta*)^2      from the second task on; with `half`, lambda / 2
//! server   as FedAvg; after the last round of a task every participant gets theta and returns
//!          F_m = sum over (x, y)  p(y|x) (grad log p(y|x))^2   and its number of samples n_m
//!          F <- decay F + sum_m F_m / sum_m n_m,   theta* <- theta
//! ```
//! `theta*`, the model of the task before, and `F` are assets, sent once per task and client. With one anchor and one
//! decayed sum it is online EWC. The public code does not train in a task's last round, so that clients hold the global
//! model and can compute its Fisher information; with `skip_last_round` the final exchange replaces that round,
//! otherwise it follows it. In that code's mixed precision the penalty is divided by the scale of the loss, which
//! nearly switches it off; here it is not. Adam divides the penalty by the same moments as the rest of the gradient.
//! The code also takes labels modulo the number of the task's classes, in the loss and for the Fisher information
//! (`labels = "modulo"`).
//!
//! With `site = "client"` no anchor or Fisher information is sent. Every client keeps its own, renewed after each of
//! its rounds: `F <- a F + (1 - a) F_m`, where `a` is the fraction of classes known before the task. Rows that the old
//! `F` does not cover, such as the head rows of new classes in a task's first round, get `F_m` alone. The code of
//! TARGET, LANDER and STSA intends this, with `fisher = "batches"` over all classes seen, `fisher_clip = 1e-4`,
//! `lambda = 1000` and `half`. As far as the code shows, its penalty never reaches the network that trains, so that its
//! published results are those of plain FedAvg with uniform weights.

mod importance;
mod own;
mod penalty;

use std::sync::Arc;

use clap::ValueEnum;

pub use self::importance::Importance;
use self::importance::{fisher_places, fisher_section, fisher_shape};
pub use self::own::OwnImportance;
use self::penalty::EwcObjective;
use super::averaging::{
    ClosedRound, Objective, PackClient, PackResult, Requirement, SAMPLES, first_of, previous,
    sample_count,
};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::local_fisher::{FORM_SOURCE, local_fisher};
use super::parts::{
    AveragingMethod, ClientContext, Demands, DownloadExtras, FinalExchange, LocalTraining,
    LocalUpdate, ModelAdaptation, Parts, PreviousModel, ServerUpdate, TaskEnd,
};
use super::task_labels::{LABELS_SOURCE, TaskLabels};
use crate::data::TaskView;
use crate::learning::Classifier;
use crate::learning::fisher::FisherForm;
use crate::model::ParameterSet;
use crate::policy::{
    Asset, AssetSpec, ExchangeFacts, Metrics, Participant, PolicyError, RunContext, StalenessRule,
    TensorSpec,
};
use crate::scenario::reader::{Choice, Keys};
use crate::wire::{Kind, NamedTensor, Section};

/// Keeper of the earlier model and its Fisher information.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum FisherKeeper {
    /// The server, for all clients.
    Server,
    /// Each client, of that client's last model (TARGET, LANDER, STSA).
    Client,
}

/// Keys of the `[method]` table of EWC.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Ewc {
    /// Trained parameters and their aggregation.
    #[key(flatten)]
    pub fedavg: FedAvg,
    /// Weight of the penalty.
    #[key(default = 1.0, at_least = 0.0, source = "fed-mammoth; STSA's code has 1000 and half")]
    pub lambda: f64,
    /// Factor 1/2 on `lambda` in the penalty, as in the code of TARGET and STSA.
    #[key(default = false)]
    pub half: bool,
    /// Factor on the Fisher information of earlier tasks after every task.
    #[key(default = 0.9, at_least = 0.0, at_most = 1.0, source = "fed-mammoth")]
    pub decay: f64,
    /// Squared gradients that the Fisher information averages.
    #[key(default = FisherForm::Truth, source = FORM_SOURCE)]
    pub fisher: FisherForm,
    /// Upper bound of a Fisher information, per sample or batch; default: none.
    #[key(at_least = 0.0, source = "1e-4 in STSA's code")]
    pub fisher_clip: Option<f64>,
    /// Exchange of the Fisher information in place of a task's last round, instead of after it.
    #[key(default = true, source = "fed-mammoth")]
    pub skip_last_round: bool,
    /// Keeper of the earlier model and its Fisher information.
    #[key(default = FisherKeeper::Server)]
    pub site: FisherKeeper,
    /// Labels of samples in the loss and in the Fisher information.
    #[key(default = TaskLabels::Own, source = LABELS_SOURCE)]
    pub labels: TaskLabels,
}

impl Ewc {
    fn at_server(&self) -> bool {
        self.site == FisherKeeper::Server
    }

    fn clip(&self) -> f64 {
        self.fisher_clip.unwrap_or(f64::INFINITY)
    }

    fn strength(&self) -> f64 {
        if self.half { 0.5 * self.lambda } else { self.lambda }
    }

    /// Returns the anchor of a member: an earlier model and its Fisher information; `None` in the first task.
    fn anchor_of(
        &self,
        member: &PackClient<'_, OwnImportance>,
    ) -> Result<Option<(ParameterSet, ParameterSet)>, PolicyError> {
        if member.participant.view.rows.start == 0 {
            return Ok(None);
        }
        Ok(match self.site {
            FisherKeeper::Client => member.state.anchor(),
            FisherKeeper::Server => {
                previous::of(member.download)?.zip(Importance::of(member.download)?)
            }
        })
    }
}

impl AveragingMethod for Ewc {
    type State = OwnImportance;
    type Memory = Importance;

    fn parts(&self) -> Parts<'_, OwnImportance, Importance> {
        let base: Parts<'_, OwnImportance, Importance> =
            Parts { local: self, ..self.fedavg.base() };
        match self.site {
            FisherKeeper::Client => base,
            FisherKeeper::Server => Parts {
                download: self,
                previous_model: Some(PreviousModel::default()),
                server: self,
                final_exchange: Some(self),
                ..base
            },
        }
    }
}

impl DownloadExtras<Importance> for Ewc {
    fn asset_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<AssetSpec> {
        let parameters = self.fedavg.parameters(facts.model);
        fisher_shape(&parameters, self.fedavg.head_form, facts.view).into_iter().collect()
    }

    fn assets(
        &self,
        memory: &Importance,
        _participant: &Participant,
        _ctx: &RunContext,
    ) -> Result<Vec<Arc<Asset>>, PolicyError> {
        Ok(memory.asset().into_iter().collect())
    }
}

impl FinalExchange<OwnImportance, Importance> for Ewc {
    fn name(&self) -> &'static str {
        "fisher"
    }

    /// Returns the rounds that train: one less with `skip_last_round`, but at least one.
    fn training_rounds(&self, rounds: u32) -> u32 {
        match self.skip_last_round {
            true => rounds.saturating_sub(1).max(rounds.min(1)),
            false => rounds,
        }
    }

    fn tensor_specs(&self, facts: &ExchangeFacts<'_>) -> Vec<TensorSpec> {
        let rows = self.fedavg.head_form.down_rows(facts.view, facts.model.classes);
        let count = sample_count().summed(StalenessRule::Refuse);
        [count]
            .into_iter()
            .chain(fisher_places(&self.fedavg.parameters(facts.model), rows))
            .collect()
    }

    fn report(
        &self,
        context: &ClientContext<'_>,
        member: &mut PackClient<'_, OwnImportance>,
    ) -> Result<(Vec<Section>, Metrics), PolicyError> {
        let ClientContext { model, shared, ctx } = *context;
        let view = &member.participant.view;
        let model_there = (&member.received, shared.trained_rows(model, view));
        let sum = local_fisher(self.fisher_of(view), model_there, member.shard, ctx)?;
        let terms = NamedTensor::u32(SAMPLES, [], vec![sum.terms as u32])?;
        let rows = self.fedavg.head_form.down_rows(view, model.classes);
        let all = sum.scaled(1.0, f64::INFINITY, &member.received);
        let numbers = fisher_section(&self.fedavg.parameters(model), &all, rows)?;
        let tensors = std::iter::once(terms).chain(numbers).collect();
        Ok((vec![Section::new(Kind::Statistics, tensors)], Vec::new()))
    }

    fn aggregate(
        &self,
        memory: &mut Importance,
        ClosedRound { before, aggregate, .. }: ClosedRound<'_>,
    ) -> Result<Metrics, PolicyError> {
        let terms = aggregate.sum(SAMPLES)?.iter().sum();
        memory.add(&aggregate, before, (terms, self.decay, self.clip()))?;
        Ok(vec![("fisher_samples", terms)])
    }
}

impl ServerUpdate<Importance> for Ewc {
    fn end_task(
        &self,
        memory: &mut Importance,
        theta: &ParameterSet,
        TaskEnd { stage, .. }: TaskEnd<'_>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        memory.end_task(theta, stage, self.fedavg.head_form);
        Ok(())
    }
}

impl LocalUpdate<OwnImportance> for Ewc {
    fn client_update(
        &self,
        training: &LocalTraining<'_, OwnImportance>,
        pack: &mut [PackClient<'_, OwnImportance>],
    ) -> Result<PackResult, PolicyError> {
        let results = training.train(pack)?;
        if self.at_server() {
            return Ok(results);
        }
        for (member, trained) in pack.iter_mut().zip(&results) {
            let (Ok(trained), view) = (trained, &member.participant.view) else { continue };
            let there = (&trained.parameters, self.fisher_rows(view));
            let form = self.fisher_of(view);
            let sum = local_fisher(form, there, member.shard, training.context.ctx)?;
            let mean = 1.0 / sum.terms.max(1) as f64;
            let fisher = sum.scaled(mean, self.clip(), &trained.parameters);
            member.state.overwrite(&trained.parameters, fisher, view);
        }
        Ok(results)
    }

    fn objective(
        &self,
        _context: &ClientContext<'_>,
        pack: &[PackClient<'_, OwnImportance>],
        network: &Classifier,
    ) -> Result<Box<dyn Objective>, PolicyError> {
        let anchors = match self.lambda > 0.0 {
            true => pack.iter().map(|member| self.anchor_of(member)).collect::<Result<_, _>>()?,
            false => Vec::new(),
        };
        let task = first_of(pack)?.participant.view.rows.clone();
        let labels = (self.labels, task);
        Ok(Box::new(EwcObjective::new(network, anchors, self.strength(), labels)))
    }

    fn demands(&self) -> Demands {
        match self.site {
            FisherKeeper::Server => Demands::default(),
            FisherKeeper::Client => Demands::requiring([Requirement::returning_clients(
                "clients keep their own earlier model, but fresh clients have none",
                Some("`method.site = \"server\"`"),
            )]),
        }
    }
}

impl Ewc {
    /// Returns the settings of a member's Fisher information: its form, the labels of samples, and the task.
    fn fisher_of<'v>(&self, view: &'v TaskView) -> (FisherForm, TaskLabels, &'v TaskView) {
        (self.fisher, self.labels, view)
    }

    /// Returns the head rows over which a client's own Fisher information is computed: all classes seen.
    fn fisher_rows(&self, view: &TaskView) -> std::ops::Range<usize> {
        0..view.seen()
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg whose clients are penalized for moving away from the previous task's model, weighted per \
               parameter by the Fisher information of the tasks so far.",
        source: "Kirkpatrick et al., Overcoming catastrophic forgetting in neural networks, PNAS \
                 2017; HGP's benchmark",
        state: "server: the parameters, those of the task before and their Fisher; client: nothing \
                (with `site = \"client\"` its last model and its Fisher)",
        ..MethodEntry::averaging("ewc", Ewc::read)
    }
}
