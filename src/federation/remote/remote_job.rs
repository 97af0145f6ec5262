//! What ranks are asked and what they answer.

use serde::{Deserialize, Serialize};

use super::cache_index::Packing;
use super::remote_evaluation::{Counted, TestOrder};
use super::remote_training::{RemoteTrainingResult, TrainOrder};
use crate::policy::RunContext;
use crate::quantity::ClientId;
use crate::wire::Body;

/// A job that another rank may do as well.
pub(crate) trait RemoteJob: Send {
    /// Does it here.
    fn run(self: Box<Self>, ctx: &RunContext);

    /// What a rank is asked; nothing where only this process can do it.
    fn order(&self, packing: &mut Packing<'_>) -> Option<JobRequest>;

    /// Takes what a rank answered, on a worker of this process; gives the remote job back where it is no answer to it.
    fn complete(
        self: Box<Self>,
        answer: JobResponse,
        bodies: Vec<Body>,
    ) -> Result<(), Box<dyn RemoteJob>>;

    /// Whose data it is about: a rank that knows them has their features already.
    fn client(&self) -> Option<ClientId> {
        None
    }
}

/// The index of a parcel to a rank.
#[derive(Serialize, Deserialize)]
pub(crate) struct RequestHeader {
    /// Told back with the answer.
    pub ticket: u64,
    /// What the rank need not keep any more.
    pub forget: Vec<u64>,
    pub order: JobRequest,
}

/// What is to be done.
#[derive(Serialize, Deserialize)]
pub(crate) enum JobRequest {
    Train(TrainOrder),
    Test(TestOrder),
}

/// The index of a parcel from a rank.
#[derive(Serialize, Deserialize)]
pub(crate) struct ResponseHeader {
    pub ticket: u64,
    pub answer: JobResponse,
}

/// What came of it.
#[derive(Serialize, Deserialize)]
pub(crate) enum JobResponse {
    /// One per member, in order.
    Trained(Vec<RemoteTrainingResult>),
    Tested(Counted),
    /// It could not be done here, with the reason; rank 0 does it.
    Refused(String),
}
