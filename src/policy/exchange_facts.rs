//! Facts of an exchange that are known before training.
//!
//! The specification of its messages follows from them. It is what `plan` prints, what load clients and skipped
//! stragglers send, and what a real message is checked against.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Role;
use crate::data::{AuxiliaryFacts, TaskView};
use crate::learning::PromptShape;
use crate::model::BackboneConfig;
use crate::quantity::TaskId;
pub use crate::scenario::WireForm;

/// Number of samples of a shard by head row.
pub type ClassCounts = BTreeMap<u32, u32>;

/// Facts about the model that are known before any weight is read.
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// The backbone's dimensions.
    pub backbone: BackboneConfig,
    /// Rows of the head: all classes of the run.
    pub classes: usize,
    /// Tasks of the run.
    pub tasks: usize,
    /// Clients that may take part in a task: all that own data, or of a fresh population as many as are sampled in it.
    pub clients: usize,
    /// Encoding of messages.
    pub form: WireForm,
    /// Unlabelled samples that belong to no client, where there are any.
    pub auxiliary: Option<AuxiliaryFacts>,
}

impl ModelFacts {
    /// Returns `multiplications` in sample passes: a forward and a backward through backbone and head, taken as three
    /// forwards.
    pub fn passes(&self, multiplications: f64) -> f64 {
        multiplications / (3.0 * self.forward())
    }

    /// Returns the multiplications of a forward pass of one sample.
    ///
    /// It goes through the backbone and a linear head of all classes.
    pub fn forward(&self) -> f64 {
        self.backbone.multiplications() + (self.backbone.dim() * self.classes) as f64
    }

    /// Returns a prefix prompt of `length` rows for the first `blocks` blocks, as many as there are.
    pub fn prompt_shape(&self, blocks: u32, length: u32) -> PromptShape {
        let depth = self.backbone.vit().map_or(0, |vit| vit.depth);
        PromptShape {
            blocks: depth.min(blocks as usize),
            length: length as usize,
            dim: self.backbone.dim(),
        }
    }
}

/// Facts about one exchange that are known before it happens.
#[derive(Clone, Debug)]
pub struct ExchangeFacts<'a> {
    /// Facts about the model and the run.
    pub model: &'a ModelFacts,
    /// The participant's task view.
    pub view: &'a Arc<TaskView>,
    /// The task that began last: the participant's own, except where clients keep tasks of their own.
    pub stage: TaskId,
    /// Index of the phase.
    pub phase: usize,
    /// Number of the round within its phase.
    pub round_in_phase: u32,
    /// The participant's role.
    pub role: Role,
    /// Label counts of the participant's shard, by head row.
    pub counts: &'a ClassCounts,
}
