//! The loop: one forward and one backward pass per step for all members of a pack.
//!
//! Trainables hold the members' values stacked, `(members, ..)`; losses are per member and are differentiated as their
//! sum, so that each member gets its own gradient. A member that has fewer steps than the others takes part without
//! samples once its batches are used up, and one with a value that is not finite stops there. Neither changes any more,
//! and no other member is affected.

use std::sync::Arc;

use candle_core::backprop::GradStore;
use candle_core::{DType, Tensor, Var};

use super::course::{BatchCursor, MemberBatch, MemberData, PackBatch};
use super::report::{MemberProgress, Taken};
use super::{TrainingPlan, TrainingReport};
use crate::data::Batch;
use crate::learning::optimizer::{Stride, clip_factor, clip_factors, member_norms, squares_there};
use crate::learning::{LearningError, Optimizer};
use crate::model::ops::{self, SampleGroups};

/// Trains the members of a pack together.
///
/// `trainables` hold the stacked values of as many members as there are `courses`, and `optimizer` updates them in the
/// same order. `forward` gives the mean loss of each member over its own samples, `(members)`, or `[]` for one member.
///
/// Each member gets the report and the values that it would get alone, to the bit where `forward` computes each
/// member's part as it would alone (as the grouped ops do on the CPU). If a member fails, the others go on.
///
/// # Errors
/// Returns an error for failures of the whole pack: a trainable without gradient, or an operation that fails.
pub fn train_pack(
    plan: &TrainingPlan,
    optimizer: &mut Optimizer,
    trainables: &[(Arc<str>, Var)],
    courses: &[MemberData<'_>],
    forward: impl FnMut(&PackBatch) -> Result<Tensor, LearningError>,
) -> Result<Vec<Result<TrainingReport, LearningError>>, LearningError> {
    if optimizer.members() != courses.len() {
        let (of, courses) = (optimizer.members(), courses.len());
        return Err(LearningError::Shape(format!("an optimizer of {of} for {courses} courses")));
    }
    let on_host = trainables.iter().all(|(_, var)| ops::served(&[var]));
    let mut pack = MemberPack::new(plan, optimizer.learning_rate(), trainables, courses);
    match on_host {
        true => train_watched(&mut pack, optimizer, forward)?,
        false => train_unwatched(&mut pack, optimizer, forward)?,
    }
    Ok(pack.members.into_iter().map(|(_, progress)| progress.finish()).collect())
}

/// Trains, checking losses and gradients before each step, so that no step with a bad value is taken.
fn train_watched(
    pack: &mut MemberPack<'_>,
    optimizer: &mut Optimizer,
    mut forward: impl FnMut(&PackBatch) -> Result<Tensor, LearningError>,
) -> Result<(), LearningError> {
    while let Some(UpcomingBatch { batch, turns }) = pack.next_step()? {
        let losses = forward(&batch)?;
        let seen = per_member(&losses, turns.len())?.to_vec1::<f32>()?;
        pack.watch(&seen, &turns);
        if !pack.goes_on(&turns) {
            continue;
        }
        let gradients = losses.backward()?;
        let strides = pack.strides(&turns, &gradients)?;
        optimizer.step_members(&gradients, &strides)?;
        pack.note(&seen, &turns);
    }
    Ok(())
}

/// Trains without waiting: losses and gradients are read after each epoch of the member with the longest epochs.
///
/// Reading a number from an accelerator waits for everything that is queued there. A member with a bad value continues
/// until then with values that are not finite, and its error names the step at which that began.
fn train_unwatched(
    pack: &mut MemberPack<'_>,
    optimizer: &mut Optimizer,
    mut forward: impl FnMut(&PackBatch) -> Result<Tensor, LearningError>,
) -> Result<(), LearningError> {
    let longest = pack.longest_epoch();
    let mut unread = Vec::new();
    while let Some(UpcomingBatch { batch, turns }) = pack.next_step()? {
        let losses = forward(&batch)?;
        let gradients = losses.backward()?;
        pack.refuse_missing(&gradients)?;
        let squares = squares_there(&gradients, &pack.vars, pack.members.len())?;
        let scales = pack.plan.clip.map(|limit| clip_factors(&squares, limit)).transpose()?;
        let strides = pack.unclipped(&turns);
        optimizer.step_scaled(&gradients, &strides, scales.as_ref())?;
        // Detached, as the graph would keep every activation of the step.
        let losses = per_member(&losses.detach(), turns.len())?;
        unread.push(UnreadStep { losses, squares, turns });
        if unread.len() >= longest {
            pack.read(&mut unread)?;
        }
    }
    pack.read(&mut unread)
}

/// Returns losses as `(members)` in `f32`.
fn per_member(losses: &Tensor, members: usize) -> Result<Tensor, LearningError> {
    let losses = losses.flatten_all()?.to_dtype(DType::F32)?;
    if losses.elem_count() != members {
        let got = losses.elem_count();
        return Err(LearningError::Shape(format!("{got} losses for {members} members")));
    }
    Ok(losses)
}

/// Data of the members' next step; members without a turn have no sample in the batch.
struct UpcomingBatch {
    batch: PackBatch,
    turns: Vec<Option<Taken>>,
}

/// Results of a step that was taken and not yet read, where they were computed.
struct UnreadStep {
    /// Losses, `(members)`.
    losses: Tensor,
    /// Squared norms of gradients, `(variables, members)`.
    squares: Tensor,
    turns: Vec<Option<Taken>>,
}

struct MemberPack<'a> {
    plan: &'a TrainingPlan,
    /// Learning rate of the optimizer, before the schedule over epochs.
    base: f64,
    trainables: &'a [(Arc<str>, Var)],
    vars: Vec<Var>,
    members: Vec<(BatchCursor<'a>, MemberProgress)>,
}

impl<'a> MemberPack<'a> {
    fn new(
        plan: &'a TrainingPlan,
        base: f64,
        trainables: &'a [(Arc<str>, Var)],
        courses: &[MemberData<'a>],
    ) -> MemberPack<'a> {
        let member =
            |course: &MemberData<'a>| (BatchCursor::new(*course, plan), MemberProgress::default());
        MemberPack {
            plan,
            base,
            trainables,
            vars: trainables.iter().map(|(_, var)| var.clone()).collect(),
            members: courses.iter().map(member).collect(),
        }
    }

    /// Returns the next batch of every member that still trains; `None` when none does.
    fn next_step(&mut self) -> Result<Option<UpcomingBatch>, LearningError> {
        let mut batches = Vec::with_capacity(self.members.len());
        let mut turns = Vec::with_capacity(self.members.len());
        let (plan, base) = (self.plan, self.base);
        for (place, progress) in &mut self.members {
            let turn = if progress.has_failed() { None } else { place.next() };
            turns.push(match turn {
                None => None,
                Some(Err(error)) => {
                    progress.fail(error.into());
                    None
                }
                Some(Ok(MemberBatch { batch, step, epoch, last })) => {
                    let samples = batch.len();
                    batches.push(batch);
                    let rate = plan.schedule.rate(base, epoch, plan.epochs);
                    Some(Taken { step, last, samples, rate })
                }
            });
        }
        if batches.is_empty() {
            return Ok(None);
        }
        let sizes: Vec<usize> = turns.iter().map(|turn| turn.map_or(0, |t| t.samples)).collect();
        let steps = turns.iter().map(|turn| turn.map_or(0, |t| t.step)).collect();
        let batch =
            PackBatch { batch: Batch::join(batches)?, groups: SampleGroups::new(sizes), steps };
        Ok(Some(UpcomingBatch { batch, turns }))
    }

    /// Stops members whose loss is not finite, before the step.
    fn watch(&mut self, losses: &[f32], turns: &[Option<Taken>]) {
        for ((turn, loss), (_, progress)) in turns.iter().zip(losses).zip(&mut self.members) {
            if let Some(turn) = turn.filter(|_| !loss.is_finite()) {
                progress.spoil("loss".into(), turn.step);
            }
        }
    }

    /// Returns true if any member has a step to take.
    fn goes_on(&self, turns: &[Option<Taken>]) -> bool {
        let members = turns.iter().zip(&self.members);
        members.into_iter().any(|(turn, (_, progress))| turn.is_some() && !progress.has_failed())
    }

    /// Checks that every trainable has a gradient.
    fn refuse_missing(&self, gradients: &GradStore) -> Result<(), LearningError> {
        match self.trainables.iter().find(|(_, var)| gradients.get(var).is_none()) {
            Some((name, _)) => Err(LearningError::NoGradient { name: name.to_string() }),
            None => Ok(()),
        }
    }

    /// Returns the number of batches in the longest epoch of any member.
    fn longest_epoch(&self) -> usize {
        let batches = |(place, _): &(BatchCursor<'_>, MemberProgress)| place.batches_of_an_epoch();
        self.members.iter().map(batches).max().unwrap_or(0)
    }

    /// Returns the stride of each member, and stops members whose gradient is not finite.
    fn strides(
        &mut self,
        turns: &[Option<Taken>],
        gradients: &GradStore,
    ) -> Result<Vec<Option<Stride>>, LearningError> {
        self.refuse_missing(gradients)?;
        let norms = member_norms(gradients, &self.vars, self.members.len())?;
        let mut strides = self.unclipped(turns);
        for (member, (stride, norm)) in strides.iter_mut().zip(norms).enumerate() {
            let (Some(turn), Some(Stride { scale, .. })) = (turns[member], &mut *stride) else {
                continue;
            };
            if norm.is_finite() {
                *scale = self.plan.clip.map_or(1.0, |limit| clip_factor(norm, limit));
            } else {
                let what = self.spoilt(gradients, member)?;
                self.members[member].1.spoil(what, turn.step);
                *stride = None;
            }
        }
        Ok(strides)
    }

    /// Returns the stride, without clipping, of each member that has a turn and has not failed.
    fn unclipped(&self, turns: &[Option<Taken>]) -> Vec<Option<Stride>> {
        let members = turns.iter().zip(&self.members);
        let stride =
            |(turn, (_, progress)): (&Option<Taken>, &(BatchCursor<'_>, MemberProgress))| {
                let turn = turn.filter(|_| !progress.has_failed())?;
                Some(Stride { rate: turn.rate, scale: 1.0 })
            };
        members.map(stride).collect()
    }

    /// Returns the name of the variable for which a member's gradient is not finite.
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
                progress.note(*loss, turn);
            }
        }
    }

    /// Reads the losses and gradient norms of steps that were taken, all at once, and records them.
    fn read(&mut self, steps: &mut Vec<UnreadStep>) -> Result<(), LearningError> {
        if steps.is_empty() {
            return Ok(());
        }
        let all = |of: fn(&UnreadStep) -> &Tensor| {
            Tensor::stack(&steps.iter().map(of).collect::<Vec<_>>(), 0)
        };
        let losses = all(|step| &step.losses)?.to_vec2::<f32>()?;
        let squares = all(|step| &step.squares)?.to_vec3::<f32>()?;
        for ((step, losses), squares) in steps.drain(..).zip(losses).zip(squares) {
            self.watch(&losses, &step.turns);
            for ((name, _), squares) in self.trainables.iter().zip(squares) {
                let members = step.turns.iter().zip(squares).zip(&mut self.members);
                for ((turn, square), (_, progress)) in members {
                    if let Some(turn) = turn.filter(|_| !square.is_finite()) {
                        progress.spoil(format!("gradient of {name}"), turn.step);
                    }
                }
            }
            self.note(&losses, &step.turns);
        }
        Ok(())
    }
}
