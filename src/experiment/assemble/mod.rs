//! From a scenario to everything a simulation needs.
//!
//! [`load`] reads and checks, [`blueprint`] knows what can be known without data and weights,
//! [`assemble`] opens both.

mod blueprint;
mod division;
mod error;
mod inputs;
mod rules;
mod training;
mod weight_sets;
mod workforce;

use std::path::Path;
use std::sync::Arc;

pub use blueprint::{
    DrawnPartitions, Holders, ListedDataset, assumed, check_requirements, class_sizes, divide,
    holders_of, listed_dataset, partition_key, task_sequence_of,
};
pub use division::{DividedData, divided};
pub use error::AssembleError;
pub use inputs::{Assembly, assemble, assemble_by};
pub use rules::{round_closing, rules};
pub use training::training_plan;
pub use workforce::{ClientSize, pack, received_values, workforce};

use super::plan::Blueprint;
use crate::data::{AuxiliaryFacts, TaskSequence};
use crate::federation::{Coding, Rules, RunSpec};
use crate::methods::Registry;
use crate::model::{BackboneConfig, backbone_config};
use crate::policy::ModelFacts;
use crate::scenario::{Override, Scenario, ScenarioError};
use crate::wire::CodecPlan;

/// Reads a scenario, puts overrides over it, and checks all that can be checked without data.
pub fn load(
    path: &Path,
    overrides: &[String],
    methods: &Registry,
) -> Result<Scenario, ScenarioError> {
    let overrides: Vec<Override> = overrides.iter().map(Override::new).collect();
    Ok(Scenario::load(path, &overrides, methods)?.scenario)
}

/// Returns the codecs of a scenario's messages.
fn coding(scenario: &Scenario) -> Result<Coding, AssembleError> {
    let wire = &scenario.wire;
    let (down, up) = (CodecPlan::from_section(&wire.down)?, CodecPlan::from_section(&wire.up)?);
    Ok(Coding { down, up, verify: wire.verify })
}

/// Returns the facts about the model that the method gets.
fn facts(
    scenario: &Scenario,
    backbone: BackboneConfig,
    task_sequence: &TaskSequence,
    rules: &Rules,
    auxiliary: Option<AuxiliaryFacts>,
) -> ModelFacts {
    ModelFacts {
        backbone,
        classes: task_sequence.classes(),
        tasks: task_sequence.tasks.len(),
        clients: rules.clients_of_a_task() as usize,
        form: scenario.wire.form,
        auxiliary,
    }
}

/// Returns everything that follows from the scenario alone.
pub fn blueprint(scenario: &Scenario, methods: &Registry) -> Result<Blueprint, AssembleError> {
    let listed = listed_dataset(scenario)?;
    let assumed = assumed(scenario, listed.as_ref());
    let (data, auxiliary_samples) = match listed {
        Some(ListedDataset { data, auxiliary_samples }) => (Some(data), auxiliary_samples),
        None => (None, None),
    };
    let class_sizes = class_sizes(scenario, data.as_ref())?;
    let task_sequence = Arc::new(task_sequence_of(scenario, class_sizes.len())?);
    check_requirements(scenario, class_sizes.len())?;
    let class_sizes = task_sequence.class_sizes(class_sizes);
    let auxiliary = AuxiliaryFacts::from_scenario(scenario, auxiliary_samples)?;
    let clients = scenario.federation.clients;
    Ok(Blueprint {
        name: scenario.name.clone(),
        holders: holders_of(scenario, clients, &task_sequence, data.as_ref())?,
        class_sizes,
        notes: data.map(|data| data.notes).unwrap_or_default().into_iter().chain(assumed).collect(),
        validation: scenario.data.validation_set(),
        ignored: scenario.ignored(),
        terms: terms(scenario, (backbone_config(scenario), auxiliary), task_sequence, methods)?,
    })
}

/// Returns the specification of a run over this backbone, auxiliary data, and tasks.
pub(super) fn terms(
    scenario: &Scenario,
    (backbone, auxiliary): (BackboneConfig, Option<AuxiliaryFacts>),
    task_sequence: Arc<TaskSequence>,
    methods: &Registry,
) -> Result<RunSpec, AssembleError> {
    let rules = rules(scenario, &task_sequence);
    let facts = facts(scenario, backbone, &task_sequence, &rules, auxiliary);
    let method = methods.build(&scenario.method, &facts)?;
    Ok(RunSpec {
        rules,
        name: scenario.method.name.clone(),
        charged: method.profile().uses_network,
        method,
        task_sequence,
        training: training_plan(scenario, methods),
        facts,
        coding: coding(scenario)?,
    })
}
