//! The methods of fedcast, as the registry lists them.

use std::sync::Arc;

use super::MethodEntry;
use crate::methods::adapter;
use crate::methods::coda_prompt;
use crate::methods::dualprompt;
use crate::methods::fed_cprompt;
use crate::methods::fedavg;
use crate::methods::fedavg_prompt;
use crate::methods::fedhaf;
use crate::methods::fedlwf_2t;
use crate::methods::fedprox;
use crate::methods::hepco;
use crate::methods::hgp;
use crate::methods::joint;
use crate::methods::l2p;
use crate::methods::oracle;
use crate::methods::stsa::{self, Stsa, StsaConfig};
use crate::policy::{ModelFacts, erase};

/// All of them, in the order in which they are shown.
pub(super) fn builtin() -> Vec<MethodEntry> {
    vec![
        hgp::entry(),
        fedavg::entry(),
        joint::entry(),
        adapter::entry(),
        stsa_entry(),
        stsa_e_entry(),
        fedavg_prompt::entry(),
        hepco::entry(),
        fedhaf::entry(),
        fedprox::entry(),
        fedlwf_2t::entry(),
        oracle::entry(),
        l2p::entry(),
        dualprompt::entry(),
        coda_prompt::entry(),
        fed_cprompt::entry(),
    ]
}

fn stsa_entry() -> MethodEntry {
    MethodEntry {
        name: "stsa",
        idea: "A ridge head on random ReLU features of a frozen network, in closed form, from Gram \
               matrices and class sums that add over clients and tasks; no gradient.",
        source: "STSA: Federated Class-Incremental Learning via Spatial-Temporal Statistics \
                 Aggregation, arXiv 2506.01327",
        state: "server: the sums and the head; client: nothing",
        messages: "down: a seed; up, once per task: Gram matrix (D x D), sums of the task's classes",
        clip: None,
        upon_features: true,
        read: Arc::new(|table| {
            let config = StsaConfig::exact(table);
            Box::new(move |facts: &ModelFacts| erase(Stsa::new(config, facts)))
        }),
        check: stsa::check,
    }
}

fn stsa_e_entry() -> MethodEntry {
    MethodEntry {
        name: "stsa-e",
        idea: "STSA whose clients send class sums and counts only: the server estimates the Gram \
               matrix from the scatter of the units' class means.",
        messages: "down: a seed; up, once per task and unit: sums and counts of the task's classes",
        read: Arc::new(|table| {
            let config = StsaConfig::estimated(table);
            Box::new(move |facts: &ModelFacts| erase(Stsa::new(config, facts)))
        }),
        ..stsa_entry()
    }
}
