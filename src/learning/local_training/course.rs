//! Training data of the members of a pack, step by step.

use super::TrainingPlan;
use crate::data::{Batch, Batches, DataError, Loader};
use crate::model::ops::SampleGroups;
use crate::numerics::streams::{Domain, StreamKey};

/// Training data of one member of a pack.
#[derive(Clone, Copy, Debug)]
pub struct MemberData<'a> {
    /// Samples of the member.
    pub loader: &'a Loader,
    /// Key of the order of samples (domain `Shuffle`) and of augmentation (`Augment`).
    pub key: StreamKey,
}

/// Samples of one step: the batches of all members that have one left.
#[derive(Clone, Debug)]
pub struct PackBatch {
    /// Samples of all members, concatenated in their order.
    pub batch: Batch,
    /// Assignment of the samples to members; a member without a batch has none.
    pub groups: SampleGroups,
    /// Step number of each member, from 0.
    pub steps: Vec<u64>,
}

/// Position of a member in its training: the batches left, epoch after epoch.
pub(super) struct BatchCursor<'a> {
    course: MemberData<'a>,
    batch: usize,
    epochs: u32,
    /// Current epoch, whose remaining batches are in `batches`.
    epoch: u32,
    batches: Batches<'a>,
    /// Steps per epoch; `left` are those that remain of the current one.
    whole: usize,
    left: usize,
    step: u64,
    /// Total number of steps, if set in place of epochs.
    steps: Option<u64>,
}

/// Batch of one member in a step.
pub(super) struct MemberBatch {
    pub batch: Batch,
    /// Step number of the member, from 0.
    pub step: u64,
    pub epoch: u32,
    /// True if this batch ends an epoch, or the training.
    pub last: bool,
}

impl<'a> BatchCursor<'a> {
    pub fn new(course: MemberData<'a>, plan: &TrainingPlan) -> BatchCursor<'a> {
        let whole = plan.batches_of(course.loader.batches(plan.batch)) as usize;
        BatchCursor {
            course,
            batch: plan.batch,
            epochs: match plan.steps {
                _ if whole == 0 => 0,
                Some(_) => u32::MAX,
                None => plan.epochs,
            },
            epoch: 0,
            batches: epoch(course, 0, plan.batch),
            whole,
            left: whole,
            step: 0,
            steps: plan.steps,
        }
    }

    /// Returns the number of steps per epoch.
    pub fn batches_of_an_epoch(&self) -> usize {
        self.whole
    }

    /// Returns the member's next batch; `None` at the end of its training.
    pub fn next(&mut self) -> Option<Result<MemberBatch, DataError>> {
        if self.left == 0 {
            self.epoch += 1;
            self.left = self.whole;
            if self.epoch < self.epochs {
                self.batches = epoch(self.course, self.epoch, self.batch);
            }
        }
        if self.epoch >= self.epochs || self.steps == Some(self.step) {
            return None;
        }
        self.left -= 1;
        let (step, epoch) = (self.step, self.epoch);
        self.step += 1;
        let last = self.left == 0 || self.steps == Some(self.step);
        Some(self.batches.next()?.map(|batch| MemberBatch { batch, step, epoch, last }))
    }
}

fn epoch(course: MemberData<'_>, epoch: u32, batch: usize) -> Batches<'_> {
    let (shuffle, augment) =
        (course.key.domain(Domain::Shuffle), course.key.domain(Domain::Augment));
    course.loader.epoch(u64::from(epoch), batch, shuffle, augment)
}
