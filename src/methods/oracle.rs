//! **Oracle**: nothing is thrown away. In every task there is all data of the tasks so far, and all classes seen
//! compete: the upper bound that FedHAF's tables call Oracle, along the same tasks as everybody else.
//!
//! `site = "central"` is one site with all data of all clients, which sends nothing; `site = "clients"` is the
//! federated bound of MFCL's code: every client trains on what it has held in all tasks so far.
//! [`joint`](super::joint) is its end: all classes at once.

use std::sync::Arc;

use clap::ValueEnum;

use crate::data::Shard;
use crate::learning::{Classifier, train_with};
use crate::methods::fedavg::{self, FedAvg, FedAvgBy, FedAvgConfig, LocalRule, OldLogits, Up};
use crate::methods::held::HeldSamples;
use crate::methods::one_site;
use crate::policy::{Lab, Member, ModelFacts, Outcome, PolicyError};
use crate::quantity::TaskId;
use crate::scenario::reader::{Choice, Param, TableReader, defaults};
use crate::scenario::{Complaint, Population, Scenario};

/// Who has the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Site {
    /// One site has all of it, and sends nothing (FedHAF's Oracle).
    Central,
    /// Every client keeps its own (MFCL's Oracle).
    Clients,
}

impl Choice for Site {}

/// The `[method]` table of the oracle.
#[derive(Clone, Debug, PartialEq)]
pub struct OracleConfig {
    /// What trains and how.
    pub learning: FedAvgConfig,
    /// Who has the data.
    pub site: Site,
}

impl Default for OracleConfig {
    fn default() -> Self {
        defaults(OracleConfig::read)
    }
}

impl OracleConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> OracleConfig {
        let site = Param::new("site", Site::Central, "who has the data");
        let learning = FedAvgConfig::learning(table);
        let learning = FedAvgConfig { old_logits: OldLogits::Keep, ..learning };
        OracleConfig { learning, site: table.get(&site) }
    }
}

/// The method.
pub type Oracle = FedAvgBy<AllHeld>;

/// Training on everything that was held so far.
#[derive(Clone, Debug)]
pub struct AllHeld {
    site: Site,
}

impl Oracle {
    /// The method for a model of these dimensions.
    pub fn new(config: OracleConfig, facts: &ModelFacts) -> Oracle {
        let rule = AllHeld { site: config.site };
        FedAvgBy { fedavg: FedAvg::new(config.learning, facts), rule }
    }
}

impl LocalRule for AllHeld {
    type State = HeldSamples;

    fn learn(
        &self,
        fedavg: &FedAvg,
        member: &mut Member<'_, Oracle>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError> {
        let view = Arc::clone(&member.seat.view);
        let bytes = lab.dataset.train.sample_bytes()?;
        for missed in &member.missed {
            member.state.keep(missed.task, Arc::clone(&missed.shard), bytes);
        }
        member.state.keep(view.task, Arc::clone(&member.shard), bytes);
        let all: Shard = member.state.before(TaskId(view.task.0 + 1)).into();
        let received = &member.down.parameters;
        let model = Classifier::trainable(&lab.backbone, received, 0..view.seen())?;
        let mut optimiser = fedavg.optimiser(&model, &lab.training);
        let loader = lab.frozen(lab.train_loader(&all), model.frozen_part())?;
        let (plan, key, variables) = (&lab.training, member.key, model.variables());
        let report = train_with(plan, &mut optimiser, &loader, variables, key, |batch| {
            model.batch_loss(batch, &lab.device)
        })?;
        let up = Up::cut(&model.parameters()?, fedavg.up_rows(&view), all.len())?;
        Ok(Outcome { up, metrics: report.metrics() })
    }

    fn folds(&self) -> Result<(), &'static str> {
        match self.site {
            Site::Central => Err("a central oracle is one site, and nobody folds its uploads"),
            Site::Clients => Ok(()),
        }
    }

    fn charged(&self) -> bool {
        self.site == Site::Clients
    }
}

/// One site is one client, and whoever keeps everything must come back.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let mut complaints = fedavg::check(scenario);
    let site = scenario.method.parameters.get("site").and_then(toml::Value::as_str);
    let clients = scenario.federation.clients;
    let central = site != Some(&*Site::Clients.word());
    if central && clients != 1 {
        complaints.push(Complaint {
            key: "federation.clients",
            message: format!("a central oracle has one site, not {clients}"),
            label: "must be 1".to_owned(),
            help: "set `federation.clients = 1`, or `method.site = \"clients\"`".to_owned(),
        });
    }
    complaints.extend(central.then(|| one_site::complaint(scenario)).flatten());
    if scenario.participation.population == Population::Fresh {
        complaints.push(Complaint {
            key: "participation.population",
            message: "an oracle keeps all data it has held, and fresh clients never come back"
                .to_owned(),
            label: "nobody to keep anything".to_owned(),
            help: "set `participation.population = \"fixed\"`".to_owned(),
        });
    }
    complaints
}
