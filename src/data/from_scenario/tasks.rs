//! Tasks of a scenario.

use std::sync::Arc;

use crate::data::{ClassPermutation, ClientTaskRules, ClientTasks, DataError, TaskSequence};
use crate::scenario::{ArrivalChoice, ClassOrder, PartitionKind, Scenario, SliceBy};

impl TaskSequence {
    /// Returns the tasks of a scenario for a data set of this many classes. With client tasks, they are over the data
    /// set of client tasks.
    ///
    /// # Errors
    /// Returns an error if the sizes of tasks do not fit the number of classes.
    pub fn from_scenario(scenario: &Scenario, classes: usize) -> Result<TaskSequence, DataError> {
        let (section, seed) = (&scenario.tasks, scenario.seed.class_order);
        if let Some(rules) = ClientTaskRules::from_scenario(scenario) {
            return Ok(TaskSequence::of_client_tasks(Arc::new(ClientTasks::draw(rules, classes)?)));
        }
        let order = match section.order {
            ClassOrder::Native => ClassPermutation::Native,
            ClassOrder::Seeded => ClassPermutation::Seeded(seed),
        };
        TaskSequence::new(classes, &order, &section.split)
    }
}

impl ClientTaskRules {
    /// Returns the settings of client tasks; `None` if the scenario has none.
    pub fn from_scenario(scenario: &Scenario) -> Option<ClientTaskRules> {
        let ArrivalChoice::ClientTasks {
            classes_per_client_task,
            overlap,
            switch_fraction: moving,
        } = scenario.tasks.arrival
        else {
            return None;
        };
        let (share, slices) = match scenario.partition.kind {
            PartitionKind::Slices { fraction: share, by } => (share, by),
            // Other kinds were refused when the scenario was read.
            _ => (1.0, SliceBy::Stage),
        };
        Some(ClientTaskRules {
            stages: scenario.tasks.count() as usize,
            clients: scenario.federation.clients,
            classes: classes_per_client_task as usize,
            overlap: overlap as usize,
            moving,
            share,
            slices,
            seed: scenario.seed.class_order,
        })
    }
}
