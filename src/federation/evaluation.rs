//! Testing the global model: fixed blocks of test samples, each a job, counted in whole numbers.
//!
//! A block holds samples of one task in the order of the test split, so its content, and with it
//! every bit, depends neither on the workers nor on how many tasks have been seen.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::devices::guard;
use super::error::FederationError;
use super::event::{ClassScore, EvaluationPoint, Numbers, SlotScore, TaskScore};
use super::world::World;
use crate::data::{Loader, Shard, Slot, Slots, TaskView};
use crate::learning::evaluation::{tally_batch, tally_slot};
use crate::learning::{SlotRows, Tally};
use crate::policy::{Lab, PolicyError, Predictor, Scope};

/// A block of test samples.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub samples: Shard,
    /// Where they are of a slot.
    rows: Option<SlotRows>,
}

/// The test samples of all classes seen, cut into blocks task by task, or slot by slot of those begun.
pub(super) fn blocks(world: &World, seen: usize) -> Vec<Block> {
    let by_class = world.dataset.test.by_class();
    let begun = begun(world, seen);
    let open: Arc<[_]> = begun.iter().map(|(slot, slots)| slots.view(*slot).rows.clone()).collect();
    let of_slot = |(slot, slots): &(Slot, &Slots)| {
        let view = slots.view(*slot);
        let rows = SlotRows { own: view.rows.clone(), open: Arc::clone(&open) };
        (Arc::clone(view), Some(rows))
    };
    let views: Vec<(Arc<TaskView>, Option<SlotRows>)> = match world.curriculum.slots {
        Some(_) => begun.iter().map(of_slot).collect(),
        None => {
            let tasks = world.curriculum.tasks.iter().filter(|view| view.seen() <= seen);
            tasks.map(|view| (Arc::clone(view), None)).collect()
        }
    };
    let mut blocks = Vec::new();
    for (view, rows) in views {
        let mut samples: Vec<u32> = view
            .classes
            .iter()
            .flat_map(|class| by_class[*class as usize].iter().copied())
            .collect();
        samples.sort_unstable();
        let cut = samples.chunks(world.evaluation_batch());
        blocks.extend(cut.map(|chunk| Block { samples: chunk.into(), rows: rows.clone() }));
    }
    blocks
}

/// The slots begun by the time that so many rows have been seen, with all of them.
fn begun(world: &World, seen: usize) -> Vec<(Slot, &Slots)> {
    let Some(slots) = &world.curriculum.slots else { return Vec::new() };
    let mut tasks = world.curriculum.tasks.iter().rev();
    let Some(period) = tasks.find(|view| view.seen() <= seen) else { return Vec::new() };
    slots.begun(period.task).map(|slot| (slot, &**slots)).collect()
}

/// Counts the predictor's answers over rows `0..seen` in one block.
pub(super) fn score(
    world: &World,
    lab: &Lab,
    predictor: &dyn Predictor,
    block: &Block,
    seen: usize,
) -> Result<Tally, PolicyError> {
    let loader = Loader::new(
        Arc::clone(&world.dataset.test),
        Arc::clone(&block.samples),
        Arc::clone(&world.curriculum),
        Arc::clone(&world.test_transform),
    );
    let copy = predictor.at(lab)?;
    let predictor = copy.as_deref().unwrap_or(predictor);
    let loader = lab.frozen_of(loader, predictor)?;
    let mut tally = Tally::new(seen);
    for batch in loader.in_order(world.evaluation_batch()) {
        let batch = batch?;
        let scores = |scope: &Scope| predictor.batch_scores(&batch, &lab.device, scope);
        let all = scores(&Scope::Seen(seen))?;
        let counted = match &block.rows {
            None => tally_batch(&mut tally, &all, batch.labels(), 0..seen),
            Some(rows) => {
                let told = predictor.uses_the_task().then(|| Scope::Task(rows.own.clone()));
                let own = told.map(|scope| scores(&scope)).transpose()?;
                tally_slot(&mut tally, &all, own.as_ref(), batch.labels(), rows)
            }
        };
        counted.map_err(|error| PolicyError::Unsupported(error.to_string()))?;
    }
    Ok(tally)
}

/// The tally as the journal writes it, at the end of a task or in its middle.
pub(super) fn numbers(world: &World, tally: &Tally, point: EvaluationPoint) -> Numbers {
    let seen = world.curriculum.tasks.iter().filter(|view| view.seen() <= tally.total.len());
    let tasks = seen.map(|view| TaskScore {
        task: view.task,
        correct: tally.correct[view.rows.clone()].iter().sum(),
        total: tally.total[view.rows.clone()].iter().sum(),
    });
    let classes = tally.correct.iter().zip(&tally.total).enumerate();
    let classes = classes.map(|(row, (correct, total))| ClassScore(row as u32, *correct, *total));
    let slots = slot_scores(world, tally, point);
    Numbers { tasks: tasks.collect(), classes: classes.collect(), slots, ..Numbers::default() }
}

fn slot_scores(world: &World, tally: &Tally, point: EvaluationPoint) -> Vec<SlotScore> {
    let begun = begun(world, tally.total.len());
    let period = world.curriculum.tasks.iter().rev().find(|view| view.seen() <= tally.total.len());
    let leaving = match (&world.curriculum.slots, period) {
        (Some(slots), Some(period)) if point == EvaluationPoint::Task => {
            slots.finished(period.task)
        }
        _ => Vec::new(),
    };
    let score = |(slot, slots): (Slot, &Slots)| {
        let rows = slots.view(slot).rows.clone();
        let row = rows.start as u32;
        SlotScore {
            task: slot.period,
            client: slot.client,
            row,
            within: tally.within.get(&row).copied().unwrap_or(0),
            correct: tally.correct[rows.clone()].iter().sum(),
            total: tally.total[rows].iter().sum(),
            finished: leaving.contains(&slot),
        }
    };
    begun.into_iter().map(score).collect()
}

/// All answers, in order, or the first failure.
type Gathered<T> = Result<Vec<T>, FederationError>;

/// Collects the answers of several jobs; hands them over, in order, when the last one is in.
pub(super) struct Gather<T> {
    inner: Mutex<GatherInner<T>>,
}

struct GatherInner<T> {
    parts: Vec<Option<Result<T, FederationError>>>,
    missing: usize,
    done: Option<oneshot::Sender<Gathered<T>>>,
}

impl<T> Gather<T> {
    /// A place for `count` answers. The first failure, in order, is the answer of all.
    pub fn new(count: usize) -> (Arc<Gather<T>>, oneshot::Receiver<Gathered<T>>) {
        let (done, result) = oneshot::channel();
        let parts = (0..count).map(|_| None).collect();
        let inner = GatherInner { parts, missing: count, done: Some(done) };
        let gather = Arc::new(Gather { inner: Mutex::new(inner) });
        if count == 0 {
            gather.finish_if_complete(&mut gather.lock());
        }
        (gather, result)
    }

    /// Runs one of the jobs; a panic is a failure.
    pub fn put(&self, place: usize, work: impl FnOnce() -> Result<T, PolicyError>) {
        let answer = match guard(work) {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(PolicyError::Data(error))) => Err(FederationError::Data(error.to_string())),
            Ok(Err(PolicyError::Cache(error))) => Err(FederationError::Data(error.to_string())),
            Ok(Err(error)) if error.is_out_of_memory() => {
                Err(FederationError::Memory(error.to_string()))
            }
            Ok(Err(error)) => Err(FederationError::Evaluation(error.to_string())),
            Err(panic) => Err(FederationError::Evaluation(format!("panicked: {panic}"))),
        };
        let mut inner = self.lock();
        inner.parts[place] = Some(answer);
        inner.missing -= 1;
        self.finish_if_complete(&mut inner);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, GatherInner<T>> {
        self.inner.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn finish_if_complete(&self, inner: &mut GatherInner<T>) {
        if inner.missing > 0 {
            return;
        }
        let parts = std::mem::take(&mut inner.parts).into_iter().flatten().collect();
        if let Some(done) = inner.done.take() {
            // Nobody listens any more when the run was stopped.
            let _ = done.send(parts);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::DataError;

    #[test]
    fn a_sample_that_cannot_be_read_is_an_error_of_the_data() {
        let (gather, mut result) = Gather::new(2);
        gather.put(1, || Err::<u8, _>(PolicyError::Unsupported("of this".into())));
        let error = DataError::Missing {
            path: "cat.png".into(),
            expected: "an image".into(),
            advice: "Fetch it".into(),
        };
        gather.put(0, || Err(error.into()));
        let error = result.try_recv().expect("both are in").expect_err("the first failure");
        assert!(matches!(&error, FederationError::Data(why) if why.contains("cat.png")), "{error}");
    }
}
