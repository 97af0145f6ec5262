//! Plan of a run: messages, time and work, without data, weights or training.
//!
//! A plan is a [dry run](crate::federation::dry_run()): the same server and clients, clocks, links and
//! closing rules, and the method's layouts in place of workers. So the bytes are those of the run, to the byte, where
//! uploads do not depend on learned values. By default nothing fails; with faults a plan has those of the run.

mod blueprint;
mod frame;
mod tally;
mod work_count;

use std::collections::BTreeMap;

use serde::Serialize;

pub use blueprint::{Blueprint, Faults, plan, plan_with};
pub use frame::{FrameRange, PlannedFrame};

use crate::document::Document;
use crate::policy::UploadSize;
use crate::quantity::Bytes;
use crate::scenario::HeldOut;

/// Content of `fedcast plan` about a run.
#[derive(Clone, Debug, Serialize, Document)]
pub struct Plan {
    /// Name of the scenario.
    pub name: String,
    /// Name of the method.
    pub method: String,
    /// Dimensions of the backbone.
    pub backbone: PlannedBackbone,
    /// Clients that own data, or the size of a fresh population.
    pub clients: u32,
    /// Classes of the data set.
    pub classes: usize,
    /// Training samples of the data set, less those that are held out.
    pub samples: usize,
    /// Held-out samples, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub validation: Option<HeldOut>,
    /// Keys of the scenario that have no meaning for the method, or not everywhere.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// True if messages cross a link at all.
    pub charged: bool,
    /// True if the faults of the scenario are in it.
    pub faults: bool,
    /// One row per task and phase.
    pub phases: Vec<PlannedPhase>,
    /// Frames to the server of one client over the whole run, by phase.
    pub one_client: Vec<OneClient>,
    /// Floating-point operations of an answer to one sample after the last task.
    ///
    /// It includes the pass for a query.
    pub inference_flops: f64,
    /// Bytes held between rounds, if the method reports them beforehand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Sums over the run.
    pub total: Total,
}

/// Bytes that are held between rounds, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Document)]
pub struct Held {
    /// Bytes held by the server.
    pub server: u64,
    /// Bytes held by every client that has taken part.
    pub client: u64,
    /// Bytes held by all clients together, when each has taken part.
    pub clients: u64,
}

impl Plan {
    /// Returns the number count of the largest frame to one client in a round, before codecs.
    pub fn numbers_down(&self) -> u64 {
        let largest = self.phases.iter().map(|row| row.down.largest.raw).max();
        largest.unwrap_or(0) / BYTES_PER_NUMBER
    }
}

/// Bytes of a number before codecs: every tensor holds numbers of 32 bits, or is too small to matter.
const BYTES_PER_NUMBER: u64 = 4;

/// The backbone a run adapts.
#[derive(Clone, Debug, Serialize, Document)]
pub struct PlannedBackbone {
    /// Word in a scenario: `vit`, `resnet18`, `bert`, `pixels`.
    pub kind: &'static str,
    /// Color channels of its input.
    pub channels: usize,
    /// Pixels of both sides of its input, or tokens of a sequence.
    pub image: usize,
    /// Pixels of both sides of a patch, of a transformer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub patch: Option<usize>,
    /// Width of a feature.
    pub dim: usize,
    /// Blocks, of a transformer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<usize>,
    /// Number of scalars in all parameters, without buffers and head; 0 for `pixels`.
    pub parameters: usize,
}

impl PlannedBackbone {
    /// Returns the bytes of all its parameters before codecs: a message of full fine-tuning, except the head.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.parameters as u64 * BYTES_PER_NUMBER)
    }
}

/// One phase of one task.
#[derive(Clone, Debug, Serialize, Document)]
pub struct PlannedPhase {
    /// The task, from 1.
    pub task: u32,
    /// Classes it brings.
    pub new_classes: usize,
    /// Classes seen with it.
    pub seen_classes: usize,
    /// Name of the phase.
    pub phase: String,
    /// Rounds, at most.
    pub rounds: u32,
    /// Participants of all rounds together.
    pub participants: u64,
    /// Training samples of the cohorts of all rounds together.
    pub samples: u64,
    /// Passes that their participants make, as [`Total::sample_passes`] counts them.
    pub sample_passes: f64,
    /// Floating-point operations of their participants together, as [`Total::client_flops`] counts them.
    pub client_flops: f64,
    /// Assets to clients that lack them.
    pub assets: FrameRange,
    /// Frames to clients, without assets.
    pub down: FrameRange,
    /// Frames to the server.
    pub up: FrameRange,
    /// Frames of secure aggregation to clients.
    #[serde(skip_serializing_if = "FrameRange::is_empty")]
    pub protocol_down: FrameRange,
    /// Frames of secure aggregation to the server, in addition to the uploads.
    #[serde(skip_serializing_if = "FrameRange::is_empty")]
    pub protocol_up: FrameRange,
    /// Knowledge of the size of an upload before training.
    pub upload_size: UploadSize,
    /// True if messages to clients may be smaller, depending on the server's knowledge at that time.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub down_at_most: bool,
    /// Computation of the server, in sample passes.
    pub server_passes: f64,
    /// Computation of the server, in floating-point operations, aggregation not counted.
    pub server_flops: f64,
    /// Virtual seconds of all rounds together.
    pub virtual_s: f64,
}

/// The frames to the server of the client that sends most, over the whole run, in phases of one name.
///
/// Those of secure aggregation are among them.
#[derive(Clone, Debug, PartialEq, Serialize, Document)]
pub struct OneClient {
    /// Name of the phases.
    pub phase: String,
    /// Number of frames of all its participants.
    pub frames: u64,
    /// Their bytes.
    pub up: PlannedFrame,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Sums over a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Document)]
pub struct Total {
    /// Number of rounds that close, over all tasks and phases.
    pub rounds: u64,
    /// Jobs of local training: participants that finish their work, `client_trained` in a journal.
    pub training_jobs: u64,
    /// Participants that are certainly late, whose work a run does not compute: `client_skipped` in a journal.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_jobs: u64,
    /// Samples trained on, counted once per epoch as the cost model counts them.
    ///
    /// Of participants that finish their work, in time or too late: not of those that fail before.
    pub sample_passes: f64,
    /// Computation of the server, in sample passes.
    pub server_passes: f64,
    /// Floating-point operations of the clients whose passes count: two for a multiplication and its addition, of
    /// products and convolutions alone, as if nothing were kept between passes.
    pub client_flops: f64,
    /// Floating-point operations of the server, aggregation not counted.
    pub server_flops: f64,
    /// Entries of the journal, without those of tests and failures.
    pub entries: u64,
    /// Bytes to clients.
    pub down: u64,
    /// Bytes to the server.
    pub up: u64,
    /// Bytes that are not payload, both ways.
    pub control: u64,
    /// Payload before codecs, both ways.
    pub raw: u64,
    /// Payload by kind, both ways.
    pub kinds: BTreeMap<String, u64>,
    /// Virtual seconds.
    pub virtual_s: f64,
}
