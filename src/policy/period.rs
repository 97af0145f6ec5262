//! Periods: stretches of the timeline that give every client a task view.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::TaskView;
use crate::quantity::{ClientId, TaskId};

/// A stretch of the timeline. It begins when a task arrives at its first client; where tasks reach
/// clients at different times, others still work on an earlier one. With slots every client has a view of its own
/// (see [`Slots`](crate::data::Slots)).
#[derive(Clone, Debug)]
pub struct Period {
    /// The task that arrives.
    pub task: TaskId,
    /// How many tasks the run has.
    pub tasks: usize,
    /// The view of every client that has the task; with slots, all rows that belong to slots of this period.
    pub view: Arc<TaskView>,
    own: Arc<BTreeMap<ClientId, Arc<TaskView>>>,
}

impl Period {
    /// The period of a view, of so many, in which nobody is behind.
    pub fn of(view: Arc<TaskView>, tasks: usize) -> Period {
        Period { task: view.task, tasks, view, own: Arc::default() }
    }

    /// As it is for a round, where some clients of the cohort have views of their own: of earlier tasks, or of slots.
    pub fn with_own(self, own: BTreeMap<ClientId, Arc<TaskView>>) -> Period {
        Period { own: Arc::new(own), ..self }
    }

    /// The classes and head rows `client` works on in this period.
    pub fn view_of(&self, client: ClientId) -> Arc<TaskView> {
        Arc::clone(self.own.get(&client).unwrap_or(&self.view))
    }

    /// The clients of a round's cohort that work on an earlier task, with that task.
    pub fn behind(&self) -> impl Iterator<Item = (ClientId, TaskId)> {
        let views = self.own.iter().map(|(client, view)| (*client, view.task));
        views.filter(|(_, task)| *task < self.task)
    }
}
