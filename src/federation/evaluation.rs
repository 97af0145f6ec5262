//! Tests of the global model: fixed blocks of test samples, each a job, counted in whole numbers.
//!
//! A block holds samples of one task in the order of the test split, so its content, and with it every bit, depends
//! neither on the workers nor on how many tasks have been seen. Where clients have their own tasks, a block holds
//! distinct images, each with the rows that begun client tasks have for it: a model that does not get the client task
//! is tested on every image once, independent of how many client tasks have it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::event::{ClassScore, ClientTaskScore, EvaluationPoint, Numbers, TaskScore};
use super::rules::TaskIdentity;
use super::simulation_context::SimulationContext;
use crate::data::{ClientTask, ClientTasks, Loader, Shard};
use crate::learning::{PredictionTask, RowAnswer, Tally};
use crate::policy::{PolicyError, Predictor, RunContext, Scope};

/// Answer to a test sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleAnswer {
    /// Number of the sample in the tested part of the data set, from 0, whichever samples were left out.
    pub sample: u32,
    /// True and predicted head rows.
    pub answer: RowAnswer,
}

/// A block of test samples.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub samples: Shard,
    prediction_task: PredictionTask,
}

/// Returns the test samples of all classes seen, or of the client tasks begun, in blocks.
pub(super) fn blocks(simulation: &SimulationContext, seen: usize) -> Vec<Block> {
    match (&simulation.task_sequence.client_tasks, simulation.rules.task_identity) {
        (None, _) => {
            let tasks = simulation.task_sequence.tasks.iter().filter(|view| view.seen() <= seen);
            tasks
                .flat_map(|view| {
                    cut(simulation, samples_of(simulation, &view.classes), |_| {
                        PredictionTask::Plainly
                    })
                })
                .collect()
        }
        (Some(_), TaskIdentity::Only) => {
            let of_client_task = |(client_task, client_tasks): (ClientTask, &ClientTasks)| {
                let view = client_tasks.view(client_task);
                let prediction_task = |_: &[u32]| PredictionTask::InClientTask(view.rows.clone());
                cut(simulation, samples_of(simulation, &view.classes), prediction_task)
            };
            started_client_tasks(simulation, seen).into_iter().flat_map(of_client_task).collect()
        }
        (Some(_), TaskIdentity::Both) => blocks_of_images(simulation, seen),
    }
}

/// Returns the test samples of some classes, in their order.
fn samples_of(simulation: &SimulationContext, classes: &[u32]) -> Vec<u32> {
    simulation.holdings.data().dataset.test.of_classes(classes.iter().copied())
}

fn cut(
    simulation: &SimulationContext,
    samples: Vec<u32>,
    prediction_task: impl Fn(&[u32]) -> PredictionTask,
) -> Vec<Block> {
    let block =
        |chunk: &[u32]| Block { samples: chunk.into(), prediction_task: prediction_task(chunk) };
    samples.chunks(simulation.evaluation_batch()).map(block).collect()
}

/// Returns every image that a begun client task has, once, in the order of the original data set.
fn blocks_of_images(simulation: &SimulationContext, seen: usize) -> Vec<Block> {
    let started = started_client_tasks(simulation, seen);
    let open: Arc<[_]> = started
        .iter()
        .map(|(client_task, client_tasks)| client_tasks.view(*client_task).rows.clone())
        .collect();
    let test = &simulation.holdings.data().dataset.test;
    // Samples are in the order of client tasks, so the rows of an image rise.
    let mut samples_of_image: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (client_task, client_tasks) in &started {
        for sample in samples_of(simulation, &client_tasks.view(*client_task).classes) {
            samples_of_image.entry(test.origin(sample)).or_default().push(sample);
        }
    }
    let rows_of = |sample: &u32| {
        let of = &samples_of_image[&test.origin(*sample)];
        of.iter()
            .map(|sample| simulation.task_sequence.row_of(test.labels()[*sample as usize]))
            .collect()
    };
    let prediction_task = |chunk: &[u32]| PredictionTask::InClientTasks {
        open: Arc::clone(&open),
        rows: chunk.iter().map(rows_of).collect(),
    };
    let first = samples_of_image.values().map(|samples| samples[0]).collect();
    cut(simulation, first, prediction_task)
}

/// Returns the client tasks that have begun when `seen` head rows have been seen, with their table.
fn started_client_tasks(
    simulation: &SimulationContext,
    seen: usize,
) -> Vec<(ClientTask, &ClientTasks)> {
    let Some(client_tasks) = &simulation.task_sequence.client_tasks else { return Vec::new() };
    let mut tasks = simulation.task_sequence.tasks.iter().rev();
    let Some(stage) = tasks.find(|view| view.seen() <= seen) else { return Vec::new() };
    client_tasks.started(stage.task).map(|client_task| (client_task, &**client_tasks)).collect()
}

/// Counts the predictor's answers in one block, over rows `0..seen` or those of the given client task.
pub(super) fn score(
    simulation: &SimulationContext,
    ctx: &RunContext,
    predictor: &dyn Predictor,
    block: &Block,
    seen: usize,
) -> Result<Tally, PolicyError> {
    let loader = Loader::new(
        Arc::clone(&simulation.holdings.data().dataset.test),
        Arc::clone(&block.samples),
        Arc::clone(&simulation.task_sequence),
        Arc::clone(&simulation.holdings.data().test_transform),
    );
    let copy = predictor.to_device(ctx)?;
    let predictor = copy.as_deref().unwrap_or(predictor);
    let loader = ctx.with_features_for(loader, predictor)?;
    let scope = match &block.prediction_task {
        PredictionTask::InClientTask(own) => Scope::Task(own.clone()),
        PredictionTask::Plainly | PredictionTask::InClientTasks { .. } => Scope::Seen(seen),
    };
    let mut tally = match &block.prediction_task {
        PredictionTask::Plainly if simulation.rules.answers => Tally::with_answers(seen),
        _ => Tally::new(seen),
    };
    // A block is a batch.
    for batch in loader.in_order(simulation.evaluation_batch()) {
        let batch = batch?;
        let scores = predictor.batch_scores(&batch, &ctx.device, &scope)?;
        let counted = block.prediction_task.tally(&mut tally, &scores, batch.labels());
        counted.map_err(|error| PolicyError::Unsupported(error.to_string()))?;
    }
    Ok(tally)
}

/// Returns the answers of a test with the numbers of their samples; `None` if they were not kept.
pub(super) fn answers(simulation: &SimulationContext, tally: &Tally) -> Option<Vec<SampleAnswer>> {
    let test = &simulation.holdings.data().dataset.test;
    let blocks = blocks(simulation, tally.total.len());
    let samples = blocks.iter().flat_map(|block| block.samples.iter());
    let answer = |(sample, answer): (&u32, &RowAnswer)| SampleAnswer {
        sample: test.number(*sample),
        answer: *answer,
    };
    Some(samples.zip(tally.answers.as_ref()?).map(answer).collect())
}

/// Returns the tally as the journal writes it, at the end of a task or in its middle.
pub(super) fn numbers(
    simulation: &SimulationContext,
    tally: &Tally,
    point: EvaluationPoint,
) -> Numbers {
    let seen =
        simulation.task_sequence.tasks.iter().filter(|view| view.seen() <= tally.total.len());
    let tasks = seen.map(|view| TaskScore {
        task: view.task,
        correct: tally.correct[view.rows.clone()].iter().sum(),
        total: tally.total[view.rows.clone()].iter().sum(),
    });
    let classes = tally.correct.iter().zip(&tally.total).enumerate();
    let classes = classes.map(|(row, (correct, total))| ClassScore(row as u32, *correct, *total));
    let client_tasks = client_task_scores(simulation, tally, point);
    Numbers {
        tasks: tasks.collect(),
        classes: classes.collect(),
        client_tasks,
        ..Numbers::default()
    }
}

fn client_task_scores(
    simulation: &SimulationContext,
    tally: &Tally,
    point: EvaluationPoint,
) -> Vec<ClientTaskScore> {
    let started = started_client_tasks(simulation, tally.total.len());
    let stage =
        simulation.task_sequence.tasks.iter().rev().find(|view| view.seen() <= tally.total.len());
    let leaving = match (&simulation.task_sequence.client_tasks, stage) {
        (Some(client_tasks), Some(stage)) if point == EvaluationPoint::Task => {
            client_tasks.finished(stage.task)
        }
        _ => Vec::new(),
    };
    let asked_all = simulation.rules.task_identity == TaskIdentity::Both;
    let score = |(client_task, client_tasks): (ClientTask, &ClientTasks)| {
        let rows = client_tasks.view(client_task).rows.clone();
        let row = rows.start as u32;
        ClientTaskScore {
            task: client_task.stage,
            client: client_task.client,
            row,
            within: tally.within.get(&row).copied().unwrap_or(0),
            correct: asked_all.then(|| tally.correct[rows.clone()].iter().sum()),
            total: tally.total[rows].iter().sum(),
            finished: leaving.contains(&client_task),
        }
    };
    started.into_iter().map(score).collect()
}
