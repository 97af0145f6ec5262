//! Stages: stretches of the timeline that give every client a task view.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::data::TaskView;
use crate::quantity::{ClientId, TaskId};

/// Part of the timeline that begins when a task arrives at its first client.
///
/// Where tasks reach clients at different times, other clients still work on an earlier one. With client tasks every
/// client has its own view (see [`ClientTasks`](crate::data::ClientTasks)).
#[derive(Clone, Debug)]
pub struct Stage {
    /// The task that arrives.
    pub task: TaskId,
    /// Number of tasks of the run.
    pub tasks: usize,
    /// View of every client that has the task.
    ///
    /// With client tasks, all rows that belong to client tasks of this stage.
    pub view: Arc<TaskView>,
    own: Arc<BTreeMap<ClientId, Arc<TaskView>>>,
}

impl Stage {
    /// Returns the stage of a view in a run of `tasks` tasks, with no client behind.
    pub fn of(view: Arc<TaskView>, tasks: usize) -> Stage {
        Stage { task: view.task, tasks, view, own: Arc::default() }
    }

    /// Returns the stage for a round in which some clients have their own views: of earlier tasks, or of client tasks.
    pub fn with_own(self, own: BTreeMap<ClientId, Arc<TaskView>>) -> Stage {
        Stage { own: Arc::new(own), ..self }
    }

    /// Returns the classes and head rows `client` works on in this stage.
    pub fn view_of(&self, client: ClientId) -> Arc<TaskView> {
        Arc::clone(self.own.get(&client).unwrap_or(&self.view))
    }

    /// Returns the clients of a round's cohort that work on an earlier task, with that task.
    pub fn behind(&self) -> impl Iterator<Item = (ClientId, TaskId)> {
        let views = self.own.iter().map(|(client, view)| (*client, view.task));
        views.filter(|(_, task)| *task < self.task)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_works_on_an_earlier_task_is_behind_and_has_its_view() {
        let view = |task: u16| {
            let first = u32::from(task) * 2;
            let rows = first as usize..first as usize + 2;
            Arc::new(TaskView { task: TaskId(task), rows, classes: vec![first, first + 1] })
        };
        let own = [(3, 0), (5, 1), (8, 2)].map(|(client, task)| (ClientId(client), view(task)));
        let stage = Stage::of(view(1), 3).with_own(own.into_iter().collect());
        assert_eq!(stage.behind().collect::<Vec<_>>(), [(ClientId(3), TaskId(0))]);
        let tasks = [3, 5, 8, 9].map(|client| stage.view_of(ClientId(client)).task.0);
        assert_eq!(tasks, [0, 1, 2, 1]);
    }
}
