//! Names of phases: events tell them once and number them afterwards.

use std::collections::BTreeMap;

use crate::federation::Event;
use crate::quantity::TaskId;

/// Names by task and number.
#[derive(Clone, Debug, Default)]
pub(in crate::report) struct Phases(BTreeMap<(TaskId, u32), String>);

impl Phases {
    /// Learns a name, if the event tells one.
    pub fn take(&mut self, event: &Event) {
        if let Event::PhaseStarted { task, phase, name, .. } = event {
            self.0.insert((*task, *phase), name.clone());
        }
    }

    /// The name of a phase; its number, from 1, where nobody told one.
    pub fn name(&self, task: TaskId, phase: u32) -> String {
        self.0.get(&(task, phase)).cloned().unwrap_or_else(|| (phase + 1).to_string())
    }
}
