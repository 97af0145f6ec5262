//! Requests to ranks and their answers.

use serde::{Deserialize, Serialize};

use super::cache_index::Packing;
use super::remote_evaluation::{Counted, TestOrder};
use super::remote_training::{RemoteTrainingResult, TrainOrder};
use crate::policy::RunContext;
use crate::quantity::ClientId;
use crate::wire::Body;

/// A job that another rank may do as well.
pub(crate) trait RemoteJob: Send {
    /// Runs the job on the calling worker.
    fn run(self: Box<Self>, ctx: &RunContext);

    /// Returns the order to a rank, or `None` if only this process can do the job.
    fn order(&self, packing: &mut Packing<'_>) -> Option<JobRequest>;

    /// Completes the job with a rank's answer, on a worker of this process.
    ///
    /// Returns the job if the answer does not fit.
    fn complete(
        self: Box<Self>,
        answer: JobResponse,
        bodies: Vec<Body>,
    ) -> Result<(), Box<dyn RemoteJob>>;

    /// Returns the client whose data the job needs: a rank that trained it before has its features already.
    fn client(&self) -> Option<ClientId> {
        None
    }
}

/// The index of a packet to a rank.
#[derive(Serialize, Deserialize)]
pub(crate) struct RequestHeader {
    /// Number that the answer repeats.
    pub ticket: u64,
    /// Items that the rank need not keep any longer.
    pub forget: Vec<u64>,
    pub order: JobRequest,
}

/// Job of a rank.
#[derive(Serialize, Deserialize)]
pub(crate) enum JobRequest {
    Train(TrainOrder),
    Test(TestOrder),
}

/// The index of a packet from a rank.
#[derive(Serialize, Deserialize)]
pub(crate) struct ResponseHeader {
    pub ticket: u64,
    pub answer: JobResponse,
}

/// Result of a job of a rank.
#[derive(Serialize, Deserialize)]
pub(crate) enum JobResponse {
    /// Results, one per member, in order.
    Trained(Vec<RemoteTrainingResult>),
    Tested(Counted),
    /// Refusal with its reason; rank 0 then does the job.
    Refused(String),
}
