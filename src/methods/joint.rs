//! **Joint**: one site that has all data and all classes at once, the usual upper bound.
//!
//! It is FedAvg with one client and one task, whose client keeps its optimiser from round to
//! round, so that `rounds x epochs` is one training. Nothing crosses a network, so no bytes are
//! charged. The papers state no recipe; `[client]` says how it trains, and 25 epochs (five
//! rounds of five) see each sample as often as the incremental runs of the HGP benchmark do.

use crate::learning::{Classifier, LearningError, Moments, OptimiserState, train_with};
use crate::methods::fedavg::{self, FedAvg, FedAvgBy, FedAvgConfig, LocalRule, Up};
use crate::methods::one_site;
use crate::policy::{ClientState, Lab, Member, ModelFacts, Outcome, PolicyError};
use crate::scenario::reader::{Param, TableReader, defaults};
use crate::scenario::{Complaint, Population, Scenario};
use crate::wire::{Body, Kind, MetaReader, MetaWriter, NamedTensor, Section, WireError};

/// The `[method]` table of Joint.
#[derive(Clone, Debug, PartialEq)]
pub struct JointConfig {
    /// What trains and how.
    pub learning: FedAvgConfig,
    /// Whether one optimiser lasts for the whole run.
    pub keep_optimiser: bool,
}

impl Default for JointConfig {
    fn default() -> Self {
        defaults(JointConfig::read)
    }
}

impl JointConfig {
    /// Reads the keys of a `[method]` table.
    pub fn read(table: &mut TableReader<'_>) -> JointConfig {
        let keep = Param::new("keep_optimiser", true, "one optimiser for the whole run");
        JointConfig { learning: FedAvgConfig::learning(table), keep_optimiser: table.get(&keep) }
    }
}

/// The method.
pub type Joint = FedAvgBy<OneTraining>;

/// Rounds that are parts of one training.
#[derive(Clone, Debug)]
pub struct OneTraining {
    keep_optimiser: bool,
}

impl Joint {
    /// The method for a model of these dimensions.
    pub fn new(config: JointConfig, facts: &ModelFacts) -> Joint {
        let fedavg = FedAvg::new(config.learning, facts);
        FedAvgBy { fedavg, rule: OneTraining { keep_optimiser: config.keep_optimiser } }
    }
}

/// The optimiser between rounds; `None` before the first.
#[derive(Clone, Debug, Default)]
pub struct JointState(Option<OptimiserState>);

impl ClientState for JointState {
    fn save(&self) -> Body {
        let Some(state) = &self.0 else { return Body::default() };
        let mut meta = MetaWriter::new();
        meta.u64(state.steps).u64(state.moments.len() as u64);
        let moments = state.moments.iter().enumerate().flat_map(|(at, moments)| {
            [("first", &moments.first), ("second", &moments.second)].map(|(which, values)| {
                NamedTensor::f32(format!("{at}.{which}"), [values.len()], values.clone())
                    .expect("a list fills its length")
            })
        });
        let section = Section::new(Kind::Weights, moments.collect());
        Body::new(meta.finish(), vec![section])
    }

    fn load(saved: &Body) -> Result<Self, WireError> {
        if saved.meta.is_empty() {
            return Ok(JointState(None));
        }
        let mut meta = MetaReader::new(&saved.meta);
        let (steps, variables) = (meta.u64()?, meta.u64()?);
        meta.finish()?;
        let values = |name: String| -> Result<Vec<f32>, WireError> {
            Ok(saved.tensor(Kind::Weights, &name)?.as_f32()?.to_vec())
        };
        let moments = (0..variables)
            .map(|at| {
                let first = values(format!("{at}.first"))?;
                Ok(Moments { first, second: values(format!("{at}.second"))? })
            })
            .collect::<Result<_, WireError>>()?;
        Ok(JointState(Some(OptimiserState { steps, moments })))
    }
}

impl LocalRule for OneTraining {
    type State = JointState;

    fn learn(
        &self,
        fedavg: &FedAvg,
        member: &mut Member<'_, Joint>,
        lab: &Lab,
    ) -> Result<Outcome<Up>, PolicyError> {
        let view = &member.seat.view;
        let model =
            Classifier::trainable(&lab.backbone, &member.down.parameters, view.rows.clone())?;
        let mut optimiser = fedavg.optimiser(&model, &lab.training);
        if let Some(state) = member.state.0.take() {
            optimiser.resume(state)?;
        }
        let loader = lab.frozen(lab.train_loader(&member.shard), model.frozen_part())?;
        let loss = |batch: &crate::data::Batch| -> Result<_, LearningError> {
            model.batch_loss(batch, &lab.device)
        };
        let variables = model.variables();
        let report =
            train_with(&lab.training, &mut optimiser, &loader, variables, member.key, loss)?;
        if self.keep_optimiser {
            member.state.0 = Some(optimiser.into_state()?);
        }
        let up = Up::cut(&model.parameters()?, fedavg.up_rows(view), member.shard.len())?;
        Ok(Outcome { up, metrics: report.metrics() })
    }

    fn folds(&self) -> Result<(), &'static str> {
        Err("joint training is one site, and nobody folds its uploads")
    }

    fn charged(&self) -> bool {
        false
    }
}

/// Joint is for one client, one task, everybody asked.
pub(super) fn check(scenario: &Scenario) -> Vec<Complaint> {
    let mut complaints = fedavg::check(scenario);
    let mut complain = |wrong: bool, key, message: String, label: &str, help: &str| {
        if wrong {
            let (label, help) = (label.to_owned(), help.to_owned());
            complaints.push(Complaint { key, message, label, help });
        }
    };
    let (clients, tasks) = (scenario.federation.clients, scenario.tasks.count());
    complain(
        clients != 1,
        "federation.clients",
        format!("joint training has one site, not {clients}"),
        "must be 1",
        "set `federation.clients = 1`; for several sites and one task use \"fedavg\"",
    );
    complain(
        tasks != 1,
        "tasks.count",
        format!("joint training sees all classes at once, not in {tasks} tasks"),
        "must be 1",
        "set `tasks.count = 1`; for one site and many tasks use \"fedavg\" with one client",
    );
    complain(
        scenario.participation.population == Population::Fresh,
        "participation.population",
        "joint training has one site that stays".to_owned(),
        "must be \"fixed\"",
        "set `participation.population = \"fixed\"`",
    );
    complaints.extend(one_site::complaint(scenario));
    complaints
}
