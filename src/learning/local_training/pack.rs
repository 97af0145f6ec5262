//! The loop: one forward and one backward pass per step for all members of a pack.
//!
//! Trainables hold the members' values one behind the other, `(members, ..)`; losses come per member
//! and are differentiated as their sum, so that each member's gradient is its own. A member with
//! fewer steps than the others takes part with no sample once its batches are used up, and one that
//! meets a value that is not finite stops there; neither moves any more, and nobody else notices.

use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor, Var};

use super::course::{Course, PackBatch, Place, Turn};
use super::report::Progress;
use super::{TrainingPlan, TrainingReport};
use crate::data::Batch;
use crate::learning::optimiser::{Stride, clip_factor, member_norms};
use crate::learning::{LearningError, Optimiser};
use crate::model::ops::Groups;

/// Trains the members of a pack together: `trainables` hold the values of as many members as there
/// are courses, one behind the other, and `optimiser` moves them in the same order. `forward` gives the
/// mean loss of each member over its own samples, `(members)`, or `[]` for one member.
///
/// Each member gets the report and the values that it would get alone, to the bit where `forward`
/// computes each member's part as it would alone (as the grouped ops do on the CPU). It fails alone.
///
/// # Errors
/// What concerns all members: a trainable without gradient, an op that refuses.
pub fn train_pack(
    plan: &TrainingPlan,
    optimiser: &mut Optimiser,
    trainables: &[(Arc<str>, Var)],
    courses: &[Course<'_>],
    forward: impl FnMut(&PackBatch) -> Result<Tensor, LearningError>,
) -> Result<Vec<Result<TrainingReport, LearningError>>, LearningError> {
    let on_host = trainables.iter().all(|(_, var)| var.device().is_cpu());
    let watch = if on_host { Watch::EveryStep } else { Watch::EveryEpoch };
    train_watched(plan, optimiser, trainables, courses, watch, forward)
}

/// When losses are read. Reading one on an accelerator waits for everything that is queued there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Watch {
    /// Before the step is taken: a spoilt step is not.
    EveryStep,
    /// When the longest course has ended an epoch.
    EveryEpoch,
}

pub(super) fn train_watched(
    plan: &TrainingPlan,
    optimiser: &mut Optimiser,
    trainables: &[(Arc<str>, Var)],
    courses: &[Course<'_>],
    watch: Watch,
    mut forward: impl FnMut(&PackBatch) -> Result<Tensor, LearningError>,
) -> Result<Vec<Result<TrainingReport, LearningError>>, LearningError> {
    if optimiser.members() != courses.len() {
        let (of, courses) = (optimiser.members(), courses.len());
        return Err(LearningError::Shape(format!("an optimiser of {of} for {courses} courses")));
    }
    let mut pack = Pack::new(plan, trainables, courses);
    let longest = courses.iter().map(|c| c.loader.batches(plan.batch)).max().unwrap_or(0);
    let mut unread = Vec::new();
    while let Some(Upcoming { batch, turns }) = pack.next_step()? {
        let step = Step { losses: forward(&batch)?, turns };
        let seen = match watch {
            Watch::EveryStep => Some(step.losses()?),
            Watch::EveryEpoch => None,
        };
        if let Some(losses) = &seen {
            pack.watch(losses, &step.turns);
        }
        if !pack.goes_on(&step.turns) {
            continue;
        }
        let gradients = step.losses.backward()?;
        let strides = pack.strides(&step.turns, &gradients, optimiser.learning_rate(), watch)?;
        optimiser.step_members(&gradients, &strides)?;
        match seen {
            Some(losses) => pack.note(&losses, &step.turns),
            None => unread.push(step),
        }
        if unread.len() >= longest {
            pack.read(&mut unread)?;
        }
    }
    pack.read(&mut unread)?;
    Ok(pack.members.into_iter().map(|(_, progress)| progress.finish()).collect())
}

/// What the members learn from in a step; those without a turn have no sample in the batch.
struct Upcoming {
    batch: PackBatch,
    turns: Vec<Option<Taken>>,
}

/// One step of the pack: what each member took, and the losses `(members)` where they were computed.
struct Step {
    losses: Tensor,
    turns: Vec<Option<Taken>>,
}

impl Step {
    fn losses(&self) -> Result<Vec<f32>, LearningError> {
        let losses = self.losses.flatten_all()?.to_dtype(DType::F32)?.to_vec1::<f32>()?;
        if losses.len() != self.turns.len() {
            let (got, members) = (losses.len(), self.turns.len());
            return Err(LearningError::Shape(format!("{got} losses for {members} members")));
        }
        Ok(losses)
    }
}

/// What is remembered of a member's part of a step.
#[derive(Clone, Copy)]
struct Taken {
    /// The member's own count of steps, from 0.
    step: u64,
    epoch: u32,
    last: bool,
    samples: usize,
}

struct Pack<'a> {
    plan: &'a TrainingPlan,
    trainables: &'a [(Arc<str>, Var)],
    vars: Vec<Var>,
    members: Vec<(Place<'a>, Progress)>,
}

impl<'a> Pack<'a> {
    fn new(
        plan: &'a TrainingPlan,
        trainables: &'a [(Arc<str>, Var)],
        courses: &[Course<'a>],
    ) -> Pack<'a> {
        let member = |course: &Course<'a>| (Place::new(*course, plan), Progress::default());
        Pack {
            plan,
            trainables,
            vars: trainables.iter().map(|(_, var)| var.clone()).collect(),
            members: courses.iter().map(member).collect(),
        }
    }

    /// The next batch of every member that still learns; `None` when nobody does.
    fn next_step(&mut self) -> Result<Option<Upcoming>, LearningError> {
        let mut batches = Vec::with_capacity(self.members.len());
        let mut turns = Vec::with_capacity(self.members.len());
        for (place, progress) in &mut self.members {
            let turn = if progress.has_failed() { None } else { place.next() };
            turns.push(match turn {
                None => None,
                Some(Err(error)) => {
                    progress.fail(error.into());
                    None
                }
                Some(Ok(Turn { batch, step, epoch, last })) => {
                    let samples = batch.len();
                    batches.push(batch);
                    Some(Taken { step, epoch, last, samples })
                }
            });
        }
        if batches.is_empty() {
            return Ok(None);
        }
        let sizes: Vec<usize> = turns.iter().map(|turn| turn.map_or(0, |t| t.samples)).collect();
        let steps = turns.iter().map(|turn| turn.map_or(0, |t| t.step)).collect();
        let batch = PackBatch { batch: Batch::join(batches)?, groups: Groups::new(sizes), steps };
        Ok(Some(Upcoming { batch, turns }))
    }

    /// Members whose loss is not finite stop before the step.
    fn watch(&mut self, losses: &[f32], turns: &[Option<Taken>]) {
        for ((turn, loss), (_, progress)) in turns.iter().zip(losses).zip(&mut self.members) {
            if let Some(turn) = turn.filter(|_| !loss.is_finite()) {
                progress.spoil("loss".into(), turn.step);
            }
        }
    }

    /// Whether somebody has a step to take.
    fn goes_on(&self, turns: &[Option<Taken>]) -> bool {
        let members = turns.iter().zip(&self.members);
        members.into_iter().any(|(turn, (_, progress))| turn.is_some() && !progress.has_failed())
    }

    /// How far each member goes; members whose gradient is not finite stop.
    fn strides(
        &mut self,
        turns: &[Option<Taken>],
        gradients: &GradStore,
        base: f64,
        watch: Watch,
    ) -> Result<Vec<Option<Stride>>, LearningError> {
        let missing = self.trainables.iter().find(|(_, var)| gradients.get(var).is_none());
        if let Some((name, _)) = missing {
            return Err(LearningError::NoGradient { name: name.to_string() });
        }
        // Unclipped on an accelerator nothing is fetched: a spoilt gradient shows in the next loss.
        let norms = match self.plan.clip.is_some() || watch == Watch::EveryStep {
            true => member_norms(gradients, &self.vars, self.members.len())?,
            false => vec![0.0; self.members.len()],
        };
        let mut strides = Vec::with_capacity(turns.len());
        for (member, (turn, norm)) in turns.iter().zip(norms).enumerate() {
            let (plan, failed) = (self.plan, self.members[member].1.has_failed());
            let Some(turn) = turn.filter(|_| !failed) else {
                strides.push(None);
                continue;
            };
            if !norm.is_finite() {
                let what = self.spoilt(gradients, member)?;
                self.members[member].1.spoil(what, turn.step);
                strides.push(None);
                continue;
            }
            let rate = plan.schedule.rate(base, turn.epoch, plan.epochs);
            let scale = plan.clip.map_or(1.0, |limit| clip_factor(norm, limit));
            strides.push(Some(Stride { rate, scale }));
        }
        Ok(strides)
    }

    /// Which gradient of a member is not finite.
    fn spoilt(&self, gradients: &GradStore, member: usize) -> Result<String, LearningError> {
        for (name, var) in self.trainables {
            let norms = member_norms(gradients, std::slice::from_ref(var), self.members.len())?;
            if !norms[member].is_finite() {
                return Ok(format!("gradient of {name}"));
            }
        }
        Ok("gradient".into())
    }

    fn note(&mut self, losses: &[f32], turns: &[Option<Taken>]) {
        for ((turn, loss), (_, progress)) in turns.iter().zip(losses).zip(&mut self.members) {
            if let Some(turn) = turn {
                progress.note(*loss, turn.step, turn.samples, turn.last);
            }
        }
    }

    /// Fetches and notes the losses of steps that were taken.
    fn read(&mut self, steps: &mut Vec<Step>) -> Result<(), LearningError> {
        for step in steps.drain(..) {
            let losses = step.losses()?;
            self.note(&losses, &step.turns);
        }
        Ok(())
    }
}
