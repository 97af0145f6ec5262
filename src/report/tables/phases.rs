//! Names of phases: an event gives the name once, later ones give the number.

use std::collections::BTreeMap;

use crate::federation::Event;
use crate::quantity::TaskId;

/// Names of phases by task and number.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct Phases(BTreeMap<(TaskId, u32), String>);

impl Phases {
    /// Stores the name of a phase if the event gives one.
    pub fn take(&mut self, event: &Event) {
        if let Event::PhaseStarted { task, phase, name, .. } = event {
            self.0.insert((*task, *phase), name.clone());
        }
    }

    /// Returns the name of a phase, or its number from 1 if no event named it.
    pub fn name(&self, task: TaskId, phase: u32) -> String {
        self.0.get(&(task, phase)).cloned().unwrap_or_else(|| (phase + 1).to_string())
    }
}
