//! Testing the global model: fixed blocks of test samples, each a job, counted in whole numbers.
//!
//! A block holds samples of one task in the order of the test split, so its content, and with it
//! every bit, depends neither on the workers nor on how many tasks have been seen.

use std::sync::{Arc, Mutex};

use tokio::sync::oneshot;

use super::devices::guard;
use super::error::FederationError;
use super::event::{ClassScore, Numbers, TaskScore};
use super::world::World;
use crate::data::{Loader, Shard};
use crate::learning::Tally;
use crate::learning::evaluation::tally_batch;
use crate::policy::{Lab, PolicyError, Predictor, Scope};

/// A block of test samples.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub samples: Shard,
}

/// The test samples of all classes seen, cut into blocks task by task.
pub(super) fn blocks(world: &World, seen: usize) -> Vec<Block> {
    let by_class = world.dataset.test.by_class();
    let mut blocks = Vec::new();
    for view in world.curriculum.tasks.iter().filter(|view| view.seen() <= seen) {
        let mut samples: Vec<u32> = view
            .classes
            .iter()
            .flat_map(|class| by_class[*class as usize].iter().copied())
            .collect();
        samples.sort_unstable();
        let cut = samples.chunks(world.evaluation_batch());
        blocks.extend(cut.map(|chunk| Block { samples: chunk.into() }));
    }
    blocks
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
        let scores = predictor.batch_scores(&batch, &lab.device, &Scope::Seen(seen))?;
        tally_batch(&mut tally, &scores, batch.labels(), 0..seen)
            .map_err(|error| PolicyError::Unsupported(error.to_string()))?;
    }
    Ok(tally)
}

/// The tally as the journal writes it.
pub(super) fn numbers(world: &World, tally: &Tally) -> Numbers {
    let seen = world.curriculum.tasks.iter().filter(|view| view.seen() <= tally.total.len());
    let tasks = seen.map(|view| TaskScore {
        task: view.task,
        correct: tally.correct[view.rows.clone()].iter().sum(),
        total: tally.total[view.rows.clone()].iter().sum(),
    });
    let classes = tally.correct.iter().zip(&tally.total).enumerate();
    let classes = classes.map(|(row, (correct, total))| ClassScore(row as u32, *correct, *total));
    Numbers { tasks: tasks.collect(), classes: classes.collect(), ..Numbers::default() }
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
