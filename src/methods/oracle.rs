//! **Oracle**: no data is discarded. A task has all data of the tasks so far, and all classes seen compete: the upper
//! bound that FedHAF's tables call Oracle, along the same tasks as all other methods.
//!
//! `site = "central"` is one site with all data of all clients, which sends nothing; `site = "clients"` is the
//! federated bound of MFCL's code: every client trains on what it has held in all tasks so far. [`joint`](super::joint)
//! is its last stage alone: all classes at once.

use std::sync::Arc;

use clap::ValueEnum;

use super::averaging::{PackClient, PackResult, Requirement, train_sequentially};
use super::entry::MethodEntry;
use super::fedavg::FedAvg;
use super::held::HeldSamples;
use super::parts::{AveragingMethod, Demands, LocalTraining, LocalUpdate, Parts, Workload};
use super::trainable::TrainableKeys;
use crate::data::Shard;
use crate::policy::{Capability, PolicyError, Restriction};
use crate::quantity::TaskId;
use crate::scenario::reader::{Choice, Keys};

/// Holder of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Choice)]
pub enum Site {
    /// One site with all data, which sends nothing (FedHAF's Oracle).
    Central,
    /// Every client with its own data (MFCL's Oracle).
    Clients,
}

/// Keys of the `[method]` table of the oracle.
#[derive(Clone, Debug, PartialEq, Keys)]
pub struct Oracle {
    /// Trained parameters; all classes seen compete.
    #[key(read = FedAvg::read_keys(table, FEDAVG_KEYS))]
    pub fedavg: FedAvg,
    /// Holder of the data.
    #[key(default = Site::Central)]
    pub site: Site,
}

const FEDAVG_KEYS: TrainableKeys =
    TrainableKeys { module: true, ..TrainableKeys::ALONE.over_all_seen() };

impl AveragingMethod for Oracle {
    type State = HeldSamples;
    type Memory = ();

    fn parts(&self) -> Parts<'_, HeldSamples, ()> {
        Parts { local: self, uses_network: self.site == Site::Clients, ..self.fedavg.base() }
    }
}

impl LocalUpdate<HeldSamples> for Oracle {
    fn client_update(
        &self,
        training: &LocalTraining<'_, HeldSamples>,
        pack: &mut [PackClient<'_, HeldSamples>],
    ) -> Result<PackResult, PolicyError> {
        let bytes = training.context.ctx.dataset.train.sample_bytes()?;
        Ok(train_sequentially(pack, |member| {
            let task = member.participant.view.task;
            for missed in member.missed {
                member.state.keep(missed.task, Arc::clone(&missed.shard), bytes);
            }
            member.state.keep(task, Arc::clone(member.shard), bytes);
            let all: Shard = member.state.before(TaskId(task.0 + 1)).into();
            training.train_single(&member.with_shard(&all))
        }))
    }

    fn max_pack(&self, _usual: usize) -> usize {
        1
    }

    /// Returns the passes over all data so far, if a client's earlier tasks were as large as this one.
    fn work(&self, load: &Workload<'_>) -> f64 {
        load.passes_over(load.samples * (load.participant.view.task.index() + 1))
    }

    /// Requires one client if the site is central, and clients that return, since they keep all data.
    fn demands(&self) -> Demands {
        let one_site = || Requirement::one_site("a central oracle", "`method.site = \"clients\"`");
        let why = "an oracle keeps all earlier data, but fresh clients never come back";
        let returning = Requirement::returning_clients(why, None);
        match self.site {
            Site::Central => Demands {
                requirements: vec![one_site(), returning],
                restrictions: Restriction::against(
                    &Capability::ALL,
                    "a central oracle has one site, and no server aggregates its uploads",
                ),
            },
            Site::Clients => Demands::requiring([returning]),
        }
    }
}

pub(super) fn entry() -> MethodEntry {
    MethodEntry {
        idea: "All data of the tasks so far in every task, at one site or at the clients that held \
               it: the upper bound along the tasks.",
        source: "the Oracle rows of FedHAF (central) and of MFCL's code (clients)",
        state: "client: all data that it has held; server: the parameters",
        ..MethodEntry::averaging("oracle", Oracle::read)
    }
}
