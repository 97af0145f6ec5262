//! Messages of C2Prompt.
//!
//! They are Powder's messages, moments of classes (upload) and Gaussians (download) in round 0, and a histogram of
//! components and classes in the upload of every trained client task. The first control byte marks the kind of message;
//! Powder's control fields follow it unchanged.

use super::C2Prompt;
use super::moments::{ClientTaskMoments, Gaussians};
use crate::model::ParameterSet;
use crate::policy::{Message, MessageSpec, TensorSpec};
use crate::wire::TensorValues::{F32, U32};
use crate::wire::{Dtype, Kind, WireError};

const MEANS: &str = "means";
const VARIANCES: &str = "variances";
const COUNTS: &str = "counts";
const HISTOGRAM: &str = "histogram";

/// Returns the first control byte of a phase's messages: 0 for Powder's, 1 for moments, 2 for Gaussians.
fn tag(phase: usize) -> u8 {
    match C2Prompt::inner(phase) {
        Some(_) => 0,
        None if C2Prompt::asks(phase) => 1,
        None => 2,
    }
}

/// Returns control fields with the first byte of a phase in front.
pub fn tagged(phase: usize, control: &[u8]) -> Vec<u8> {
    [&[tag(phase)], control].concat()
}

/// Returns a message with the first control byte of a phase added.
pub fn closed(phase: usize, message: Message) -> Message {
    Message { control: tagged(phase, &message.control), ..message }
}

/// Removes the first control byte, which [`closed`] added.
///
/// # Errors
/// When the message belongs to another phase.
pub fn opened(phase: usize, message: Message) -> Result<Message, WireError> {
    match message.control.split_first() {
        Some((found, control)) if *found == tag(phase) => {
            Ok(Message { control: control.to_vec(), ..message })
        }
        _ => Err(WireError::Malformed("a message does not answer what was asked".to_owned())),
    }
}

/// Returns the specification of the histogram of a client task, `(components, classes)`.
pub fn histogram(components: usize, classes: usize) -> TensorSpec {
    TensorSpec::new(Kind::Statistics, HISTOGRAM, &[components, classes], Dtype::F32).kept()
}

/// Returns the scores of the histogram in an upload, if there is one.
///
/// # Errors
/// When the scores are not f32.
pub fn scores(message: &Message) -> Result<Option<Vec<f32>>, WireError> {
    let found = message.find(Kind::Statistics, HISTOGRAM);
    found.map(|tensor| Ok(tensor.as_f32()?.to_vec())).transpose()
}

impl Gaussians {
    /// Returns the specification of the download for this number of classes.
    pub fn layout(classes: usize, dim: usize) -> MessageSpec {
        let place = |name| TensorSpec::new(Kind::Prototypes, name, &[classes, dim], Dtype::F32);
        MessageSpec { extra: [MEANS, VARIANCES].map(place).into(), ..MessageSpec::default() }
    }

    /// Returns the download with these Gaussians.
    ///
    /// # Errors
    /// When the Gaussians do not have the width `dim`.
    pub fn write(self, dim: usize) -> Result<Message, WireError> {
        let layout = Gaussians::layout(self.classes, dim);
        let values = [F32(self.means.into()), F32(self.variances.into())];
        Message::filling(&layout, ParameterSet::new(), values)
    }

    /// Inverts [`write`](Gaussians::write).
    ///
    /// # Errors
    /// When the message does not contain Gaussians.
    pub fn read(message: &Message) -> Result<Gaussians, WireError> {
        let classes = message.tensor(Kind::Prototypes, MEANS)?.shape().first().copied();
        let [means, variances] = moments_in(message)?;
        Ok(Gaussians { classes: classes.unwrap_or(0), means, variances })
    }
}

impl ClientTaskMoments {
    /// Returns the specification of the upload for this number of classes.
    pub fn layout(classes: usize, dim: usize) -> MessageSpec {
        let mut extra = Gaussians::layout(classes, dim).extra;
        extra.push(TensorSpec::new(Kind::Prototypes, COUNTS, &[classes], Dtype::U32));
        MessageSpec {
            extra: extra.into_iter().map(TensorSpec::kept).collect(),
            ..MessageSpec::default()
        }
    }

    /// Returns the upload with these moments.
    ///
    /// # Errors
    /// When the moments do not have the width `dim`.
    pub fn write(self, dim: usize) -> Result<Message, WireError> {
        let layout = ClientTaskMoments::layout(self.counts.len(), dim);
        let values = [F32(self.means.into()), F32(self.variances.into()), U32(self.counts.into())];
        Message::filling(&layout, ParameterSet::new(), values)
    }

    /// Inverts [`write`](ClientTaskMoments::write).
    ///
    /// # Errors
    /// When the message does not contain moments.
    pub fn read(message: &Message) -> Result<ClientTaskMoments, WireError> {
        let [means, variances] = moments_in(message)?;
        let counts = message.tensor(Kind::Prototypes, COUNTS)?.as_u32()?.to_vec();
        Ok(ClientTaskMoments { means, variances, counts })
    }
}

fn moments_in(message: &Message) -> Result<[Vec<f32>; 2], WireError> {
    let of = |name| Ok(message.tensor(Kind::Prototypes, name)?.as_f32()?.to_vec());
    Ok([of(MEANS)?, of(VARIANCES)?])
}
