//! Classifier of any kind on top of the features.

use candle_core::{Device, Tensor};
use clap::ValueEnum;

use super::ModelError;
use super::cosine_head::CosineHead;
use super::head::LinearHead;
use super::ops::SampleGroups;
use super::parameters::{ParameterSet, Variables};
use super::prototype_head::PrototypeHead;
use crate::numerics::streams::StreamKey;
use crate::scenario::reader::Choice;

/// Kind of classifier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Choice)]
pub enum HeadKind {
    /// Weights and biases.
    ///
    /// `W f + b`.
    #[default]
    Linear,
    /// Cosines between features and weights, with a learned scale.
    Cosine,
    /// Distances from a learned prototype per class.
    Distance,
}

impl HeadKind {
    /// Returns the kind of head that a parameter set holds.
    pub fn of(set: &ParameterSet) -> HeadKind {
        match (set.get(CosineHead::SIGMA), set.get(PrototypeHead::PROTOTYPES)) {
            (Some(_), _) => HeadKind::Cosine,
            (None, Some(_)) => HeadKind::Distance,
            (None, None) => HeadKind::Linear,
        }
    }

    /// Returns the names of the parameters that have one row per class.
    pub fn by_row(self) -> &'static [&'static str] {
        match self {
            HeadKind::Linear => &[LinearHead::WEIGHT, LinearHead::BIAS],
            HeadKind::Cosine => &[CosineHead::WEIGHT],
            HeadKind::Distance => &[PrototypeHead::PROTOTYPES],
        }
    }

    /// Returns initial values of a head.
    pub fn initial_parameters(self, classes: usize, dim: usize, key: StreamKey) -> ParameterSet {
        match self {
            HeadKind::Linear => LinearHead::initial_parameters(classes, dim, key),
            HeadKind::Cosine => CosineHead::initial_parameters(classes, dim, key),
            HeadKind::Distance => PrototypeHead::initial_parameters(classes, dim, key),
        }
    }
}

/// Dimensions of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadShape {
    /// Kind of classifier.
    pub kind: HeadKind,
    /// Number of rows, one per class.
    pub rows: usize,
    /// Width of a feature.
    pub dim: usize,
}

impl HeadShape {
    /// Returns names and shapes of its parameters.
    pub fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let matrix = |name: &str| (name.to_owned(), vec![self.rows, self.dim]);
        match self.kind {
            HeadKind::Linear => {
                vec![matrix(LinearHead::WEIGHT), (LinearHead::BIAS.to_owned(), vec![self.rows])]
            }
            HeadKind::Cosine => {
                vec![matrix(CosineHead::WEIGHT), (CosineHead::SIGMA.to_owned(), vec![])]
            }
            HeadKind::Distance => vec![matrix(PrototypeHead::PROTOTYPES)],
        }
    }
}

/// Classifier of any kind: frozen tensors, or variables in training.
#[derive(Clone, Debug)]
pub enum ClassHead {
    /// Linear head, `W f + b`.
    Linear(LinearHead),
    /// Cosines with a learned scale.
    Cosine(CosineHead),
    /// Distances from prototypes.
    Distance(PrototypeHead),
}

impl ClassHead {
    /// Returns the frozen head that a set holds, on a device.
    ///
    /// # Errors
    /// Returns an error if an entry is missing or does not fit.
    pub fn frozen_at(set: &ParameterSet, device: &Device) -> Result<ClassHead, ModelError> {
        Ok(match HeadKind::of(set) {
            HeadKind::Linear => ClassHead::Linear(LinearHead::frozen_at(set, device)?),
            HeadKind::Cosine => ClassHead::Cosine(CosineHead::frozen_at(set, device)?),
            HeadKind::Distance => ClassHead::Distance(PrototypeHead::frozen_at(set, device)?),
        })
    }

    /// Returns the head over new variables, and these sorted by name.
    ///
    /// # Errors
    /// Fails as [`ClassHead::frozen_at`] does.
    pub fn trainable_at(
        set: &ParameterSet,
        device: &Device,
    ) -> Result<(ClassHead, Variables), ModelError> {
        Ok(match HeadKind::of(set) {
            HeadKind::Linear => {
                let (head, variables) = LinearHead::trainable_at(set, device)?;
                (ClassHead::Linear(head), variables)
            }
            HeadKind::Cosine => {
                let (head, variables) = CosineHead::trainable_at(set, device)?;
                (ClassHead::Cosine(head), variables)
            }
            HeadKind::Distance => {
                let (head, variables) = PrototypeHead::trainable_at(set, device)?;
                (ClassHead::Distance(head), variables)
            }
        })
    }

    /// Returns logits `(b, C)` of features `(b, d)`.
    ///
    /// # Errors
    /// Returns an error if the features have another width.
    pub fn logits(&self, features: &Tensor) -> Result<Tensor, ModelError> {
        match self {
            ClassHead::Linear(head) => head.logits(features),
            ClassHead::Cosine(head) => head.logits(features),
            ClassHead::Distance(head) => head.logits(features),
        }
    }

    /// Returns [`ClassHead::logits`] for the members of a pack, each with its own head.
    ///
    /// # Errors
    /// Returns an error if the features have another width, or there is not one head per member.
    pub fn pack_logits(
        &self,
        features: &Tensor,
        members: &SampleGroups,
    ) -> Result<Tensor, ModelError> {
        match self {
            ClassHead::Linear(head) => head.pack_logits(features, members),
            ClassHead::Cosine(head) => head.pack_logits(features, members),
            ClassHead::Distance(head) => head.pack_logits(features, members),
        }
    }

    /// Returns the number of head rows.
    ///
    /// # Errors
    /// Returns an error if the weight is no matrix.
    pub fn classes(&self) -> Result<usize, ModelError> {
        match self {
            ClassHead::Linear(head) => Ok(head.classes()),
            ClassHead::Cosine(head) => head.classes(),
            ClassHead::Distance(head) => head.classes(),
        }
    }
}
