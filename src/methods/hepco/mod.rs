//! **HePCo**, heterogeneous prompt consolidation (FL@FM, NeurIPS 2023).
//!
//! "HePCo: Data-Free Heterogeneous Prompt Consolidation for Continual Federated Learning"; published again as
//! "Continual Adaptation of Vision Transformers for Federated Learning" (TMLR 2024), whose tables were not read.
//!
//! Clients train a pool of prompts and a head on a frozen transformer. The server averages both, then repairs the
//! average without data in the space of the *query*, the feature of the unprompted transformer: small generators make
//! pseudo-queries for the task's classes and for earlier ones, and prompts and head are distilled on them.
//!
//! ```text
//! client   as FedAvg-Prompt; n_i(y), its samples of every class of the task           (fedavg_prompt)
//! server   P, k, W, b  <- uniform mean
//!          G, G_old    <- min CE of the teachers - l1 KL(Q_i || Q) - l2 sum_j |rho - rho_i|^2
//!          P, k        <- min sum_i omega_i(y) sum_j |rho - rho_i|^2 on G(y, eps), and towards the
//!                         server at the end of the last task on G_old                 (consolidation)
//!          W, b        <- min CE on both, all classes seen competing
//! ```
//! As released, and by default, the distance of prompts in `G` has no gradient: generators learn nothing from it
//! ([`mse_gradient`](ConsolidationSettings::mse_gradient)). The paper does not mention the counts that clients send;
//! its losses and label draws need them. Clients keep nothing between rounds. Where paper and release differ there is a
//! key of [`ConsolidationSettings`]; its ablations are zeros: `lambda_kl`, `lambda_mse`, `replay_ratio` (no previous
//! server), `prompt_steps`, `head_steps`. With both distillations at zero it is [FedAvg-Prompt](super::fedavg_prompt),
//! bit for bit.

pub mod consolidation;
mod label_counts;
mod memory;

pub use memory::HepcoMemory;

use self::consolidation::{Consolidation, ConsolidationSettings, Previous};
use self::label_counts::{LabelCounts, teacher};
use super::averaging::ClosedRound;
use super::entry::MethodEntry;
use super::fedavg_prompt::FedAvgPrompt;
use super::parts::{AveragingMethod, Demands, Parts, ServerUpdate, TaskEnd, TaskStart};
use crate::model::ParameterSet;
use crate::numerics::streams::Domain;
use crate::policy::{Capability, Metrics, ModelFacts, PolicyError, RoundContext, RunContext};
use crate::scenario::reader::Keys;

/// Keys of the `[method]` table of HePCo.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Hepco {
    /// Pools and head that clients train.
    #[key(flatten)]
    pub client: FedAvgPrompt,
    /// Repair of the averaged model.
    #[key(flatten)]
    pub server: ConsolidationSettings,
}

impl AveragingMethod for Hepco {
    type State = ();
    type Memory = HepcoMemory;

    /// Keeps all uploads, since every client teaches the server, and adds label counts to them.
    fn parts(&self) -> Parts<'_, (), HepcoMemory> {
        Parts { upload: &LabelCounts, server: self, keeps_uploads: true, ..self.client.base() }
    }
}

impl ServerUpdate<HepcoMemory> for Hepco {
    fn begin_task(&self, start: TaskStart<'_>, memory: &mut HepcoMemory, _: &mut ParameterSet) {
        memory.counts.resize(start.model.classes, 0);
    }

    fn server_update(
        &self,
        memory: &mut HepcoMemory,
        ClosedRound { model, aggregate, round, .. }: ClosedRound<'_>,
        theta: &mut ParameterSet,
    ) -> Result<Metrics, PolicyError> {
        let teachers = aggregate.kept_uploads.iter().map(|kept| teacher(kept, model.classes));
        let teachers = teachers.collect::<Result<Vec<_>, _>>()?;
        memory.count(&teachers);
        if !self.server.consolidates() {
            return Ok(Metrics::new());
        }
        let (settings, previous) =
            ((&self.server, self.client.pools(model)), memory.previous.as_ref());
        let (view, key) = (&round.stage.view, round.key(Domain::Method));
        let made = Consolidation::new(settings, view, theta, &teachers, previous, key)?;
        let Some(consolidation) = made else { return Ok(Metrics::new()) };
        let (moved, metrics) = consolidation.run()?;
        *theta = std::mem::take(theta).merge(&moved);
        Ok(metrics)
    }

    fn end_task(
        &self,
        memory: &mut HepcoMemory,
        theta: &ParameterSet,
        _end: TaskEnd<'_>,
        _ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        let (parameters, counts) = (theta.clone(), memory.counts.clone());
        memory.previous = Some(Previous { parameters, counts });
        Ok(())
    }

    fn work(&self, model: &ModelFacts, round: &RoundContext, updates: usize) -> f64 {
        let (task, shape) = (round.stage.task.index(), self.client.pools(model));
        model.passes(self.server.multiplications(&shape, model.classes, task, updates))
    }

    fn demands(&self) -> Demands {
        Demands::restricting(&[Capability::MixedTasks], "its server compares clients of one task")
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "FedAvg-Prompt whose server repairs the mean without data: generators produce pseudo-queries of new \
               and old classes, on which prompts and head are distilled from clients and from the previous task's \
               server.",
        source: "Halbe, Smith, Tian, Kira: HePCo: Data-Free Heterogeneous Prompt Consolidation for Continual \
                 Federated Learning, FL@FM, NeurIPS 2023",
        state: "server: prompts, keys, head, the same of the last task's end, label counts; client: nothing",
        ..MethodEntry::averaging("hepco", Hepco::read)
    }
}
