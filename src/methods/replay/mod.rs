//! Common parts of ER and DER++: a client's reservoir, and a step that also trains on draws from it.

mod state;
mod terms;

use std::ops::Range;

use candle_core::Tensor;
use clap::ValueEnum;

pub use self::state::ReplayMemory;
pub(super) use self::terms::{LabeledLogits, ReplayTerms, StoredLogits};
use super::averaging::{LocalTrainingResult, Objective, PackClient, TrainingStep, take_single};
use super::parts::LocalTraining;
use crate::data::{Batch, Shard};
use crate::learning::exemplars::BufferedSample;
use crate::learning::{Classifier, LearningError};
use crate::numerics::distributions::choose;
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{PolicyError, RunContext};
use crate::scenario::reader::{Choice, Keys};

/// First step of a client's stream at which draws are made; earlier steps are for the reservoir.
const DRAWS: u64 = 1 << 40;
/// First epoch number of the augmentation of draws; smaller ones are for the client's own samples.
const EPOCHS: u64 = 1 << 20;

/// Samples that are offered to a client's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum Offered {
    /// Samples of every step, in all epochs and rounds: an image may be stored several times.
    #[default]
    EveryStep,
    /// Each sample once, in the first epoch of the client's first round of a task.
    ///
    /// Also those of tasks that the client held without being sampled, without logits.
    Once,
}

/// Samples that a client remembers, and the number that a step draws.
#[derive(Clone, Copy, Debug, PartialEq, Keys)]
pub struct Buffer {
    /// Largest number of samples that a client remembers.
    #[key(name = "buffer_size", default = 200, at_most = 1e6, source = "fed-mammoth")]
    pub size: u32,
    /// Remembered samples drawn per step; default: the size of the batch.
    #[key(at_least = 1.0)]
    pub replay_batch_size: Option<u32>,
    /// Samples that are offered to the memory.
    #[key(default = Offered::EveryStep, source = "releases of ER and DER++")]
    pub offered: Offered,
    /// Remembered samples in the weight of an upload, too.
    #[key(name = "count_buffer", default = false, source = "not in any release")]
    pub counts: bool,
}

impl Buffer {
    /// Returns the number of samples that a step draws, for this batch size and memory.
    pub fn drawn(&self, batch: usize, remembered: usize) -> usize {
        self.replay_batch_size.map_or(batch, |draw| draw as usize).min(remembered)
    }
}

/// Configuration of a method's replay.
pub(super) struct Replay {
    pub buffer: Buffer,
    pub terms: ReplayTerms,
    /// Number of head rows whose logits are stored with a sample; `None`: no logits.
    pub notes: Option<usize>,
}

/// Trains a member with replay and fills its memory.
pub(super) fn learn(
    training: &LocalTraining<'_, ReplayMemory>,
    replay: &Replay,
    member: &mut PackClient<'_, ReplayMemory>,
) -> Result<LocalTrainingResult, PolicyError> {
    let ctx = training.context.ctx;
    let mut memory = std::mem::take(&mut member.state);
    let capacity = replay.buffer.size as usize;
    memory.sample_bytes = ctx.dataset.train.sample_bytes()?;
    let once = replay.buffer.offered == Offered::Once;
    for missed in member.missed.iter().filter(|_| once) {
        if memory.begin(missed.task) {
            for sample in missed.shard.iter() {
                let new = BufferedSample { sample: *sample, logits: Vec::new() };
                memory.offer(capacity, new, member.key);
            }
        }
    }
    let offering = match (once, memory.begin(member.participant.view.task)) {
        (false, _) => u64::MAX,
        (true, true) => member.shard.len().div_ceil(ctx.training.batch.max(1)) as u64,
        (true, false) => 0,
    };
    let trained = training.train_with_objective(std::slice::from_ref(member), |_| {
        let (key, memory) = (member.key, &mut memory);
        Ok(Box::new(Replaying { replay, ctx, key, memory, offering }))
    })?;
    member.state = memory;
    let mut trained = take_single(trained)?;
    let kept = member.state.reservoir.slots().len();
    trained.metrics.push(("remembered", kept as f64));
    if replay.buffer.counts {
        trained.samples += kept;
    }
    Ok(trained)
}

/// Objective of a step with draws from the memory, which then offers the batch to the memory.
struct Replaying<'a> {
    replay: &'a Replay,
    ctx: &'a RunContext,
    key: StreamKey,
    memory: &'a mut ReplayMemory,
    /// Number of steps, from the first, whose batches are offered.
    offering: u64,
}

impl Replaying<'_> {
    /// Draws slots for a step without replacement; none if there are none.
    fn draw(&self, slots: &[usize], place: (u64, u64), batch: usize) -> Vec<usize> {
        drawn_slots(self.key, slots, place, self.replay.buffer.drawn(batch, slots.len()))
    }

    /// Reads the samples of these slots in their order, augmented as in training, and their stored logits.
    fn read(
        &self,
        slots: &[usize],
        (step, which): (u64, u64),
        model: &Classifier,
    ) -> Result<(Batch, Vec<Vec<f32>>), LearningError> {
        let held = self.memory.reservoir.slots();
        let shard: Shard = slots.iter().map(|slot| held[*slot].sample).collect();
        let loader = self.ctx.train_loader(&shard);
        let loader = self.ctx.with_frozen_features(loader, model.frozen_part());
        let loader = loader.map_err(|error| LearningError::Shape(error.to_string()))?;
        let (epoch, key) = (EPOCHS + 2 * step + which, self.key.domain(Domain::Augment));
        let batch = loader.epoch_in_order(epoch, slots.len(), key).next();
        let none = || LearningError::Shape("nothing was drawn".to_owned());
        let batch = batch.ok_or_else(none)??;
        Ok((batch, notes_of(held, slots)))
    }

    fn offer(&mut self, batch: &Batch, logits: &Tensor) -> Result<(), LearningError> {
        let notes = self.replay.notes.unwrap_or(0);
        let logits = match notes {
            0 => vec![Vec::new(); batch.len()],
            _ => logits.detach().to_vec2::<f32>()?,
        };
        for (sample, mut logits) in batch.samples().iter().zip(logits) {
            logits.truncate(notes);
            let new = BufferedSample { sample: *sample, logits };
            self.memory.offer(self.replay.buffer.size as usize, new, self.key);
        }
        Ok(())
    }
}

impl Objective for Replaying<'_> {
    fn losses(&mut self, pass: &TrainingStep<'_>) -> Result<Tensor, LearningError> {
        let (batch, step, terms) = (&pass.step.batch, pass.step.steps[0], &self.replay.terms);
        let all: Vec<usize> = (0..self.memory.reservoir.slots().len()).collect();
        let second = self.draw(&all, (step, 0), batch.len());
        let second = match terms.replays() && !second.is_empty() {
            true => Some(self.read(&second, (step, 0), pass.model)?.0),
            false => None,
        };
        let of = |batch: &Batch| logits_of(pass, batch);
        let (logits, replayed) = match &second {
            // One batch, so that batch norms use the moments of both.
            Some(second) if terms.joint => {
                let both = of(&Batch::join([batch.clone(), second.clone()])?)?;
                let own = both.narrow(0, 0, batch.len())?.contiguous()?;
                (own, Some(both.narrow(0, batch.len(), second.len())?.contiguous()?))
            }
            Some(second) => (of(batch)?, Some(of(second)?)),
            None => (of(batch)?, None),
        };
        let replayed = replayed.as_ref().zip(second.as_ref());
        let replayed =
            replayed.map(|(logits, batch)| LabeledLogits { logits, labels: batch.labels() });
        let noted_slots: Vec<usize> = match terms.remembers() {
            true => all.into_iter().filter(|slot| self.has_notes(*slot)).collect(),
            false => Vec::new(),
        };
        let first = self.draw(&noted_slots, (step, 1), batch.len());
        let first = match first.is_empty() {
            true => None,
            false => Some(self.read(&first, (step, 1), pass.model)?),
        };
        let first = match &first {
            Some((drawn, noted)) => Some((of(drawn)?, noted)),
            None => None,
        };
        let noted = first.as_ref().map(|(logits, noted)| StoredLogits { logits, noted });
        let own = LabeledLogits { logits: &logits, labels: batch.labels() };
        let loss = terms.loss(own, replayed, noted)?;
        if step < self.offering {
            self.offer(batch, &logits)?;
        }
        Ok(loss)
    }
}

/// Draws `count` of these slots for draw `which` of a step, without replacement.
fn drawn_slots(
    key: StreamKey,
    slots: &[usize],
    (step, which): (u64, u64),
    count: usize,
) -> Vec<usize> {
    let key = key.domain(Domain::Method).step(DRAWS + 2 * step + which);
    let drawn = choose(&mut key.rng(), slots.len() as u64, count as u64);
    drawn.into_iter().map(|at| slots[at as usize]).collect()
}

/// Returns the stored logits of these slots, in order; slots of one sample have different ones.
fn notes_of(held: &[BufferedSample], slots: &[usize]) -> Vec<Vec<f32>> {
    slots.iter().map(|slot| held[*slot].logits.clone()).collect()
}

impl Replaying<'_> {
    fn has_notes(&self, slot: usize) -> bool {
        !self.memory.reservoir.slots()[slot].logits.is_empty()
    }
}

/// Returns the logits of a batch by the model that is trained.
fn logits_of(pass: &TrainingStep<'_>, batch: &Batch) -> Result<Tensor, LearningError> {
    pass.model.training_logits(batch, pass.device, pass.dropout.clone())
}

/// Replaces the stored logits of a task's samples by those of this model, in evaluation mode.
///
/// `rows` are the head rows of the task; `notes` is the number of logits that are stored.
pub(super) fn note_again(
    memory: &mut ReplayMemory,
    rows: Range<usize>,
    (parameters, notes): (&crate::model::ParameterSet, usize),
    ctx: &RunContext,
) -> Result<(), PolicyError> {
    let model = Classifier::frozen(&ctx.backbone, parameters)?;
    let of_task = |sample: u32| {
        let row = ctx.task_sequence.row_of(ctx.dataset.train.labels()[sample as usize]);
        rows.contains(&(row as usize))
    };
    let own = memory.reservoir.slots_mut().filter(|slot| of_task(slot.sample));
    let mut own: Vec<&mut BufferedSample> = own.collect();
    let shard: Shard = own.iter().map(|slot| slot.sample).collect();
    let loader = ctx.with_frozen_features(ctx.statistics_loader(&shard), model.frozen_part())?;
    let mut said = Vec::with_capacity(own.len());
    for batch in loader.in_order(ctx.evaluation_batch) {
        let features = model.batch_features(&batch?, &ctx.device)?;
        said.extend(model.logits(&features)?.to_vec2::<f32>()?);
    }
    for (slot, mut logits) in own.iter_mut().zip(said) {
        logits.truncate(notes);
        slot.logits = logits;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
