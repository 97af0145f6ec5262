//! Client tasks: tasks of which every client has its own (Powder's asynchronous benchmark,
//! `[tasks] arrival = "client-tasks"`).
//!
//! A client task is a pair of a stage and a client, with its own classes; a class that occurs in two client tasks has a
//! separate label and head row in each. All clients work on the client tasks of the first stage. When a later stage
//! begins, a newly drawn share of the clients moves to the client tasks of that stage, and the others stay with their
//! current ones, so that some client tasks never begin.
//!
//! ```text
//! stage   0          1          2              rows of client task (p, m): classes * (p * clients + m) ..
//! client 0 (0, 0)     (0, 0)     (2, 0)         one row per class of the client task
//! client 1 (0, 1)     (1, 1)     (1, 1)         (1, 0), (2, 1) are never begun
//! ```
//! Classes of a client task are drawn client by client, all stages of a client before the next client's: those of the
//! very first client task from all classes; for every other one, `u` classes come from a client task drawn before it,
//! with `u` uniform from `overlap` to the number of classes of a client task, and the rest from the other classes. So
//! clients share classes in every stage, including the first.
//!
//! The training images of a class are cut into slices, each a fraction `share` of them. The number of a client task's
//! slice is its stage (clients that share a class in a stage have the same images, and a client that meets a class
//! again has others), its own number or its client ([`SliceBy`]). Test images are not cut. Source: Powder's release,
//! `fl_main_hard.py`.
//!
//! The labels are those of a data set of their own ([`Dataset::for_client_tasks`](super::Dataset::for_client_tasks)),
//! in which the class ids are head rows; nothing else has to know that a class may have several.
//!
//! ```
//! use fedcast::data::{SliceBy, ClientTask, ClientTaskRules, ClientTasks};
//! use fedcast::quantity::{ClientId, TaskId};
//! let rules = ClientTaskRules { stages: 5, clients: 5, classes: 20, overlap: 0, moving: 0.5, share: 0.2, slices: SliceBy::Stage,
//!     seed: 7 };
//! let client_tasks = ClientTasks::draw(rules, 200)?;
//! assert_eq!((client_tasks.count(), client_tasks.rows()), (25, 500));
//! assert_eq!(client_tasks.movers(TaskId(1)).len(), 2); // two of five
//! let client_task = client_tasks.held(ClientId(3), TaskId(4));
//! assert_eq!(client_tasks.view(client_task).classes.len(), 20);
//! assert_eq!(client_tasks.client_task_of(&client_tasks.view(client_task).rows), Some(client_task));
//! # Ok::<(), fedcast::data::DataError>(())
//! ```

mod classes;
mod dataset;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

use super::{DataError, TaskView};
use crate::numerics::distributions::choose;
use crate::numerics::share::{floor, share_of};
use crate::numerics::streams::{Domain, StreamKey};
use crate::quantity::{ClientId, TaskId};
pub use crate::scenario::SliceBy;

/// A task of one client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientTask {
    /// Stage in which the client may begin it.
    pub stage: TaskId,
    /// Client that owns the task.
    pub client: ClientId,
}

/// Settings that client tasks are drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTaskRules {
    /// Stages of the run.
    pub stages: usize,
    /// Clients, each with a client task per stage.
    pub clients: u32,
    /// Classes of a client task.
    pub classes: usize,
    /// Smallest number of classes that a client task draws from an earlier one.
    pub overlap: usize,
    /// Fraction of clients that move when a later stage begins; their number is rounded down.
    pub moving: f64,
    /// Fraction of a class's training images that a client task has.
    pub share: f64,
    /// Rule that numbers the slices.
    pub slices: SliceBy,
    /// Seed of the classes and of the movers.
    pub seed: u64,
}

/// All client tasks of a run, and the clients that begin them in each stage.
#[derive(Clone, Debug, PartialEq)]
pub struct ClientTasks {
    rules: ClientTaskRules,
    /// Head rows of every client task, by its number.
    views: Vec<Arc<TaskView>>,
    /// Class id in the original data set of every head row.
    classes: Vec<u32>,
    /// Movers by stage, sorted.
    movers: Vec<Vec<ClientId>>,
}

impl ClientTaskRules {
    /// Returns the number of clients that move when a stage after the first begins.
    pub fn moving(&self) -> u32 {
        share_of(self.clients as usize, self.moving) as u32
    }

    /// Returns the number of slices that a class's training images are cut into.
    fn slices(&self) -> usize {
        floor(1.0 / self.share).max(1)
    }
}

impl ClientTasks {
    /// Draws the classes of all client tasks of a data set with `classes` classes, and each stage's movers.
    ///
    /// # Errors
    /// Returns an error if the settings are impossible, such as more classes in a client task than there are, or no
    /// client that moves.
    pub fn draw(rules: ClientTaskRules, classes: usize) -> Result<ClientTasks, DataError> {
        check(&rules, classes)?;
        let lists = classes::draw(&rules, classes);
        let count = u64::from(rules.clients);
        let movers = (0..rules.stages).map(|stage| {
            let moving = if stage == 0 { count } else { u64::from(rules.moving()) };
            let key = StreamKey::new(rules.seed, Domain::Arrival).task(stage as u32);
            let mut moving = choose(&mut key.rng(), count, moving);
            moving.sort_unstable();
            moving.into_iter().map(|client| ClientId(client as u32)).collect()
        });
        let movers = movers.collect();
        let view = |number: usize| {
            let rows = number * rules.classes..(number + 1) * rules.classes;
            let task = TaskId((number / rules.clients as usize) as u16);
            let classes = rows.clone().map(|row| row as u32).collect();
            Arc::new(TaskView { task, rows, classes })
        };
        let views = (0..lists.len()).map(view).collect();
        Ok(ClientTasks { views, classes: lists.concat(), movers, rules })
    }

    /// Returns the settings that they were drawn from.
    pub fn rules(&self) -> &ClientTaskRules {
        &self.rules
    }

    /// Returns the number of client tasks, begun or not.
    pub fn count(&self) -> usize {
        self.views.len()
    }

    /// Returns the number of head rows: one per class of every client task.
    pub fn rows(&self) -> usize {
        self.classes.len()
    }

    /// Returns a client task's number: `stage * clients + client`.
    pub fn number(&self, client_task: ClientTask) -> usize {
        client_task.stage.index() * self.rules.clients as usize + client_task.client.index()
    }

    /// Returns the client task of a number.
    pub fn client_task(&self, number: usize) -> ClientTask {
        let clients = self.rules.clients as usize;
        let client = ClientId((number % clients) as u32);
        ClientTask { stage: TaskId((number / clients) as u16), client }
    }

    /// Returns a client task's head rows and classes. The classes are those of
    /// [`Dataset::for_client_tasks`](super::Dataset::for_client_tasks), so they equal the head rows.
    pub fn view(&self, client_task: ClientTask) -> &Arc<TaskView> {
        &self.views[self.number(client_task)]
    }

    /// Returns the client task that has these head rows.
    pub fn client_task_of(&self, rows: &Range<usize>) -> Option<ClientTask> {
        let number = rows.start / self.rules.classes;
        let found = self.views.get(number).filter(|view| view.rows == *rows);
        found.map(|_| self.client_task(number))
    }

    /// Returns the class id in the original data set of a head row.
    pub fn class_at(&self, row: usize) -> u32 {
        self.classes[row]
    }

    /// Returns the clients that begin a client task in a stage, sorted; in the first stage all of them.
    pub fn movers(&self, stage: TaskId) -> &[ClientId] {
        &self.movers[stage.index()]
    }

    /// Returns true if the client task is ever begun.
    pub fn begins(&self, client_task: ClientTask) -> bool {
        self.movers(client_task.stage).binary_search(&client_task.client).is_ok()
    }

    /// Returns the client task that a client works on in a stage.
    pub fn held(&self, client: ClientId, stage: TaskId) -> ClientTask {
        let of = |stage: u16| ClientTask { stage: TaskId(stage), client };
        // The search ends at stage 0, in which all clients begin.
        (1..=stage.0).rev().map(of).find(|client_task| self.begins(*client_task)).unwrap_or(of(0))
    }

    /// Returns the client tasks begun up to a stage, by number.
    pub fn started(&self, stage: TaskId) -> impl Iterator<Item = ClientTask> + '_ {
        let stages = 0..=stage.0;
        stages.flat_map(move |stage| {
            let stage = TaskId(stage);
            self.movers(stage).iter().map(move |client| ClientTask { stage, client: *client })
        })
    }

    /// Returns the client tasks that their clients leave at the end of a stage, by number.
    ///
    /// These are the current ones of the next stage's movers; after the last stage, the current ones of all clients.
    pub fn finished(&self, stage: TaskId) -> Vec<ClientTask> {
        let next = stage.index() + 1;
        let all_clients: Vec<ClientId> = (0..self.rules.clients).map(ClientId).collect();
        let leave = self.movers.get(next).unwrap_or(&all_clients);
        let mut client_tasks: Vec<ClientTask> =
            leave.iter().map(|client| self.held(*client, stage)).collect();
        client_tasks.sort_unstable();
        client_tasks
    }

    /// Returns all rows of a stage's client tasks, begun or not.
    pub fn stage_view(&self, stage: TaskId) -> TaskView {
        let width = self.rules.clients as usize * self.rules.classes;
        let rows = stage.index() * width..(stage.index() + 1) * width;
        TaskView { task: stage, classes: rows.clone().map(|row| row as u32).collect(), rows }
    }
}

fn check(rules: &ClientTaskRules, classes: usize) -> Result<(), DataError> {
    let refuse = |what: String, advice: &str| Err(DataError::unfit(what, advice));
    if rules.classes == 0 || rules.classes > classes {
        let what =
            format!("client tasks of {} classes, and there are only {classes}", rules.classes);
        return refuse(what, "give client tasks at least one class and at most all");
    }
    if rules.overlap > rules.classes {
        let what =
            format!("client tasks of {} classes that share {}", rules.classes, rules.overlap);
        return refuse(what, "let client tasks share at most as many classes as they have");
    }
    if rules.stages == 0 || rules.stages > usize::from(u16::MAX) || rules.clients == 0 {
        let what = format!("{} stages of {} clients", rules.stages, rules.clients);
        return refuse(what, "client tasks need a stage and a client");
    }
    let positive = rules.share > 0.0 && rules.share <= 1.0;
    if !positive || !(0.0..=1.0).contains(&rules.moving) {
        let what = format!("a share of {} and {} moving", rules.share, rules.moving);
        return refuse(what, "shares are numbers up to 1");
    }
    if rules.stages > 1 && rules.moving() == 0 {
        let what = format!("{} of {} clients rounds down to 0", rules.moving, rules.clients);
        return refuse(what, "let a larger share of clients move, at least one");
    }
    Ok(())
}
