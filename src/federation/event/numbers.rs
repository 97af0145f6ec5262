//! Measured numbers: the half of an entry that floats have touched.

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
    /// Named metrics (loss, steps, entropy ...).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, MetricValue>,
    /// Right answers per task, in the order of tasks.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskScore>,
    /// Right answers per class, in the order of head rows.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<ClassScore>,
    /// Correct answers per client task begun, in the order of stages and clients, where client tasks exist.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub client_tasks: Vec<ClientTaskScore>,
    /// Responses of the client models before aggregation, by participant, if they are measured.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub responses: Vec<Responses>,
}

/// Responses of one client's model to the test samples of all classes seen, before aggregation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Responses {
    /// Client that trained the model.
    pub client: ClientId,
    /// Training samples that the client holds, by head row.
    pub train_samples: Vec<u64>,
    /// Predictions, by head row.
    pub predicted: Vec<u64>,
}

/// Answers on the test samples of one task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskScore {
    /// The task the samples belong to.
    pub task: TaskId,
    /// Number of correct answers.
    pub correct: u64,
    /// Number of test samples.
    pub total: u64,
}

/// Answers on the test samples of one client's own task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientTaskScore {
    /// The stage of the client task.
    pub task: TaskId,
    /// Client that owns the task.
    pub client: ClientId,
    /// First head row of the client task.
    pub row: u32,
    /// Number of correct answers among the rows of the client task (task-incremental).
    pub within: u64,
    /// Correct answers among the rows of all client tasks begun (class-incremental).
    ///
    /// `None` if not measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correct: Option<u64>,
    /// Number of test samples.
    pub total: u64,
    /// True if the client leaves the task now.
    #[serde(default, skip_serializing_if = "super::is_false")]
    pub finished: bool,
}

/// Answers on the test samples of one class: `[row, correct, total]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassScore(pub u32, pub u64, pub u64);
