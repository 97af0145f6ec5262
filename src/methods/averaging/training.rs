//! Clients of a pack, before and after their training.

use crate::data::Shard;
use crate::model::ParameterSet;
use crate::numerics::streams::StreamKey;
use crate::policy::{Message, MissedTask, Participant, PolicyError};
use crate::wire::{Kind, NamedTensor, Section, WireError};

use super::SAMPLES;

/// One participant of a pack.
pub struct PackClient<'a, S> {
    /// Participant of the round: its client, role and task view.
    pub participant: &'a Participant,
    /// Download from the server.
    pub download: &'a Message,
    /// Received parameters, with rows at the server's indices; zeros before the first row that was sent.
    pub received: ParameterSet,
    /// State that the client kept.
    pub state: S,
    /// The participant's samples.
    pub shard: &'a Shard,
    /// Key of the random streams of the client's training in this round.
    pub key: StreamKey,
    /// Tasks whose shards the client held since its last contact with the server.
    pub missed: &'a [MissedTask],
}

impl<'a, S> PackClient<'a, S> {
    /// Returns the member with other samples and an empty state.
    pub fn with_shard<'b>(&'b self, shard: &'b Shard) -> PackClient<'b, S>
    where
        S: Default,
    {
        let (received, state) = (self.received.clone(), S::default());
        let PackClient { participant, download, key, missed, .. } = *self;
        PackClient { participant, download, received, state, shard, key, missed }
    }
}

/// Result of a member's local training.
#[derive(Clone, Debug, Default)]
pub struct LocalTrainingResult {
    /// All received parameters; the trained ones have their final values.
    pub parameters: ParameterSet,
    /// Number of samples by which it is weighted.
    pub samples: usize,
    /// Sum of the learning rates of its steps, before factors of parameters.
    pub rates: f64,
    /// Sum of the losses of the first epoch's steps, each computed before its step.
    pub first_epoch: f64,
    /// Vectors sent besides the parameters, with the same rows.
    ///
    /// See [`sections`](crate::methods::parts::UploadExtras::sections).
    pub vectors: ParameterSet,
    /// Named metrics for the journal.
    pub metrics: Vec<(&'static str, f64)>,
}

impl LocalTrainingResult {
    /// Returns the section of an upload with the number of samples.
    ///
    /// # Errors
    /// Returns an error only if values do not fill the tensor, which cannot happen here.
    pub fn sample_count(&self) -> Result<Section, WireError> {
        let samples = NamedTensor::u32(SAMPLES, [], vec![self.samples as u32])?;
        Ok(Section::new(Kind::Statistics, vec![samples]))
    }
}

/// Results of the members of a pack, in their order; each may fail by itself.
pub type PackResult = Vec<Result<LocalTrainingResult, PolicyError>>;

/// Returns the first member of a pack, for properties that all members share.
///
/// # Errors
/// When the pack is empty.
pub(in crate::methods) fn first_of<'p, 'c, S>(
    pack: &'p [PackClient<'c, S>],
) -> Result<&'p PackClient<'c, S>, PolicyError> {
    let none = || PolicyError::Unsupported("no client to train".to_owned());
    pack.first().ok_or_else(none)
}

/// Returns the result of the only member of a pack.
///
/// # Errors
/// When the pack is empty, or the member failed.
pub(in crate::methods) fn take_single(
    results: PackResult,
) -> Result<LocalTrainingResult, PolicyError> {
    let none = || PolicyError::Unsupported("no client was trained".to_owned());
    results.into_iter().next().ok_or_else(none)?
}

/// Trains the members of a pack one after another.
pub fn train_sequentially<'m, S>(
    pack: &mut [PackClient<'m, S>],
    learn: impl FnMut(&mut PackClient<'m, S>) -> Result<LocalTrainingResult, PolicyError>,
) -> PackResult {
    pack.iter_mut().map(learn).collect()
}
