//! Training of client tasks alone, as the reference of forward transfer.
//!
//! Powder's script compares the accuracy of a client task in a run with that of a "direct" run *of the same method*, in
//! which the model is put back after every round: each client task is one round of local training, from the model as it
//! starts. [`single_task_accuracies`] does that: every client task that a run begins gets a federation of its single
//! client, one round of the method in the client task's stage, and a test among its own rows. Nothing else takes part
//! and nothing is kept; links, clocks, privacy and faults have no part in it either.
//!
//! The published script measures models of its third rounds, whose training is distilled from an untrained teacher;
//! here a method sees its stage as in the run, so that what it does in the very first round of a run it does for
//! client tasks of the first stage.

use parking_lot::Mutex;
use std::fmt::Write as _;
use std::sync::Arc;

use super::RunError;
use super::assemble::{AssembleError, Assembly, assemble};
use crate::data::{ClientTask, TaskView, Transform};
use crate::federation::{Coding, Curve, Interrupt, MemorySink, Rules, Setup, simulate};
use crate::methods::Registry;
use crate::numerics::streams::StreamKey;
use crate::policy::{
    Method, MethodWrapper, Participant, Phase, PolicyError, RoundContext, RunContext, Server,
    ServerWrapper, Stage, Wrapped,
};
use crate::quantity::{ClientId, TaskId};
use crate::scenario::{Scenario, SingleTaskLine};

/// Trains every client task of a scenario alone, by number, and passes each result to `report`.
///
/// # Errors
/// Returns an error if all clients share the scenario's tasks, or if assembling or training fails.
pub fn single_task_accuracies(
    scenario: &Scenario,
    methods: &Registry,
    workers: Option<u32>,
    mut report: impl FnMut(&SingleTaskLine),
) -> Result<Vec<SingleTaskLine>, RunError> {
    let without_client_tasks = || {
        AssembleError::unsupported(
            "all clients share the tasks, so no client task can be trained alone",
            "set `tasks.arrival = \"client-tasks\"`",
        )
    };
    if !scenario.tasks.arrival.has_client_tasks() {
        return Err(without_client_tasks().into());
    }
    let Assembly { setup, .. } = assemble(scenario, methods, workers)?;
    let client_tasks =
        setup.ctx.task_sequence.client_tasks.clone().ok_or_else(without_client_tasks)?;
    let last = TaskId((client_tasks.rules().stages - 1) as u16);
    let mut lines = Vec::new();
    for client_task in client_tasks.started(last) {
        let view = client_tasks.view(client_task);
        let tested = setup.ctx.dataset.test.by_class()[view.rows.clone()].iter();
        let accuracy = match tested.map(Vec::len).sum() {
            0usize => None,
            _ => Some(alone(&setup, client_task, view)?),
        };
        let line = SingleTaskLine {
            stage: client_task.stage.0 + 1,
            client: client_task.client.0,
            accuracy,
        };
        report(&line);
        lines.push(line);
    }
    Ok(lines)
}

/// Returns the table that `record.single_task` reads.
///
/// A client task without test images has an empty cell.
pub fn single_task_table(lines: &[SingleTaskLine]) -> String {
    let mut text = "stage,client,finished,accuracy_til\n".to_owned();
    for SingleTaskLine { stage, client, accuracy } in lines {
        let accuracy = accuracy.map_or_else(String::new, |accuracy| accuracy.to_string());
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{stage},{client},1,{accuracy}");
    }
    text
}

/// Returns the accuracy of a client task trained alone, in `0..=1`.
fn alone(setup: &Setup, client_task: ClientTask, view: &Arc<TaskView>) -> Result<f64, RunError> {
    let one = SingleTaskMethod {
        inner: Arc::clone(&setup.method),
        client_task,
        view: Arc::clone(view),
        test: Arc::clone(&setup.test_transform),
        found: Arc::default(),
    };
    let rules = Rules {
        seed: setup.rules.seed,
        clients: setup.rules.clients,
        rounds: 1,
        curve: Curve::Never,
        evaluation_batch: setup.rules.evaluation_batch,
        pack: setup.rules.pack,
        ..Rules::default()
    };
    let federation = Setup {
        rules,
        name: setup.name.clone(),
        method: Arc::new(Wrapped(one.clone())),
        ctx: setup.ctx.clone(),
        test_transform: Arc::clone(&setup.test_transform),
        shards: setup.shards.clone(),
        facts: setup.facts.clone(),
        coding: Coding::default(),
        charged: setup.charged,
        workers: setup.workers.clone(),
        fleet: None,
        shaker: None,
        recorded: None,
        before: Vec::new(),
    };
    simulate(federation, Box::new(MemorySink::default()), Box::new(()), Interrupt::default())?;
    let found = *one.found.lock();
    let untested = || {
        AssembleError::unsupported(
            format!(
                "the client task of stage {} of client {} was not tested",
                client_task.stage.0 + 1,
                client_task.client.0
            ),
            "give its client training and test images",
        )
    };
    Ok(found.ok_or_else(untested)?)
}

/// A method with one participant: that of a client task's client, in the client task's stage.
#[derive(Clone)]
struct SingleTaskMethod {
    inner: Arc<dyn Method>,
    client_task: ClientTask,
    view: Arc<TaskView>,
    test: Arc<Transform>,
    /// The accuracy, once the client task was tested.
    found: Arc<Mutex<Option<f64>>>,
}

impl SingleTaskMethod {
    fn is_here(&self, stage: &Stage) -> bool {
        stage.task == self.client_task.stage
    }
}

impl MethodWrapper for SingleTaskMethod {
    fn inner(&self) -> &dyn Method {
        &*self.inner
    }

    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        let inner = self.inner.server(ctx, init)?;
        Ok(Box::new(Wrapped(SingleTaskServer { inner, method: self.clone() })))
    }

    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        match self.is_here(stage) {
            true => self.inner.phases(stage, rounds),
            false => Vec::new(),
        }
    }

    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        let own: Vec<ClientId> =
            cohort.iter().copied().filter(|client| *client == self.client_task.client).collect();
        if own.is_empty() { Vec::new() } else { self.inner.participants(round, &own) }
    }
}

/// Server of a single client task. Prepares the earlier stages, in which no client trains, and tests the client task
/// at its end.
struct SingleTaskServer {
    inner: Box<dyn Server>,
    method: SingleTaskMethod,
}

impl ServerWrapper for SingleTaskServer {
    fn inner(&self) -> &dyn Server {
        &*self.inner
    }

    fn inner_mut(&mut self) -> &mut dyn Server {
        &mut *self.inner
    }

    fn begin_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        if stage.task > self.method.client_task.stage {
            return Ok(());
        }
        self.inner.begin_stage(stage, ctx)
    }

    fn end_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        if self.method.is_here(stage) {
            self.inner.end_stage(stage, ctx)?;
            let (rows, test) = (self.method.view.rows.clone(), &self.method.test);
            let accuracy = ctx.accuracy_within(rows, test, &*self.inner.predictor(ctx)?)?;
            *self.method.found.lock() = accuracy;
        }
        Ok(())
    }
}
