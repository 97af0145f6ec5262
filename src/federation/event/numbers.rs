//! What was measured: the half of an entry that floats have touched.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::federation::metric_value::{Digest, MetricValue};
use crate::quantity::{ClientId, TaskId};

/// Everything derived from floats that belongs to an event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Numbers {
    /// Digest of the tensors the event is about (an upload, the server's state).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// Named figures (loss, steps, entropy ...).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricValue>,
    /// Right answers per task, in the order of tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskScore>,
    /// Right answers per class, in the order of head rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassScore>,
    /// Right answers per slot begun, in the order of stages and clients, where clients have slots.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotScore>,
    /// What the models of clients answered before synchronisation, in the order of participants, where that is
    /// measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<Responses>,
}

/// How one client's model answered the test samples of all classes seen, before synchronisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    pub client: ClientId,
    /// Training samples that the client holds, by head row.
    pub held: Vec<u64>,
    /// Answers, by head row.
    pub answered: Vec<u64>,
}

/// Answers on the test samples of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskScore {
    /// The task the samples belong to.
    pub task: TaskId,
    /// How many were answered rightly.
    pub correct: u64,
    /// How many there are.
    pub total: u64,
}

/// Answers on the test samples of one client's own task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotScore {
    /// The stage of the slot.
    pub task: TaskId,
    pub client: ClientId,
    /// Its first head row.
    pub row: u32,
    /// How many were answered rightly among the rows of the slot (task-incremental).
    pub within: u64,
    /// How many among the rows of all slots begun (class-incremental); `None` where that was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct: Option<u64>,
    /// How many there are.
    pub total: u64,
    /// Whether its client leaves it now.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub finished: bool,
}

/// Answers on the test samples of one class: `[row, correct, total]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassScore(pub u32, pub u64, pub u64);
