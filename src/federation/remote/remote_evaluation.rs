//! The test of a block of samples as a remote job.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::cache_index::{CachedRef, Packing};
use super::remote_job::{JobRequest, JobResponse, RemoteJob};
use crate::federation::evaluation::{self, Block};
use crate::federation::gather::Gather;
use crate::federation::simulation_context::SimulationContext;
use crate::learning::{RowAnswer, Tally};
use crate::policy::{Predictor, RunContext};
use crate::wire::Body;

/// A block that waits to be tested.
pub(crate) struct RemoteEvaluation {
    /// Test that all blocks have in common.
    pub test: Arc<Test>,
    /// Index of the block.
    pub number: usize,
}

/// A test of the global model.
pub(crate) struct Test {
    pub simulation: Arc<SimulationContext>,
    pub predictor: Arc<dyn Predictor>,
    pub blocks: Vec<Block>,
    /// Head rows that are tested.
    pub seen: usize,
    /// State of the server whose model is tested, from which a rank makes an equal model.
    pub server: Body,
    pub digest: u64,
    pub tallies: Arc<Gather<Tally>>,
}

/// Order to a rank to test a block.
#[derive(Serialize, Deserialize)]
pub(crate) struct TestOrder {
    /// The server's state.
    pub server: CachedRef,
    pub seen: usize,
    /// Index of the block.
    pub block: usize,
}

/// Tally in the form in which it travels.
#[derive(Serialize, Deserialize)]
pub(crate) struct Counted {
    correct: Vec<u64>,
    total: Vec<u64>,
    predicted: Vec<u64>,
    not_a_number: u64,
    within: Vec<(u32, u64)>,
    answers: Option<Vec<RowAnswer>>,
}

impl From<Tally> for Counted {
    fn from(tally: Tally) -> Counted {
        let Tally { correct, total, predicted, not_a_number, within, answers } = tally;
        let within = within.into_iter().collect();
        Counted { correct, total, predicted, not_a_number, within, answers }
    }
}

impl From<Counted> for Tally {
    fn from(counted: Counted) -> Tally {
        let Counted { correct, total, predicted, not_a_number, within, answers } = counted;
        let within = within.into_iter().collect();
        Tally { correct, total, predicted, not_a_number, within, answers }
    }
}

impl RemoteJob for RemoteEvaluation {
    fn run(self: Box<Self>, ctx: &RunContext) {
        let RemoteEvaluation { test, number } = *self;
        let Test { simulation, predictor, blocks, seen, tallies, .. } = &*test;
        tallies.put(number, || {
            evaluation::score(simulation, ctx, &**predictor, &blocks[number], *seen)
        });
    }

    fn order(&self, packing: &mut Packing<'_>) -> Option<JobRequest> {
        let Test { simulation, digest, server, seen, .. } = &*self.test;
        if simulation.next.is_some() {
            return None;
        }
        let server = packing.content(*digest, || server.clone());
        Some(JobRequest::Test(TestOrder { server, seen: *seen, block: self.number }))
    }

    fn complete(
        self: Box<Self>,
        answer: JobResponse,
        _: Vec<Body>,
    ) -> Result<(), Box<dyn RemoteJob>> {
        let JobResponse::Tested(counted) = answer else { return Err(self) };
        self.test.tallies.put(self.number, || Ok(counted.into()));
        Ok(())
    }
}
