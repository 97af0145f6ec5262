//! Tests of models: the global one after rounds and tasks, those of clients before aggregation.

use std::sync::Arc;

use super::Computation;
use crate::federation::bias::{self, BiasMeasurement, Subject};
use crate::federation::error::FederationError;
use crate::federation::evaluation;
use crate::federation::exchange::Exchange;
use crate::federation::gather::Gather;
use crate::federation::remote::{RemoteEvaluation, Test};
use crate::federation::simulation_context::SimulationContext;
use crate::federation::sink::JobKind;
use crate::federation::snapshot::SnapshotPlace;
use crate::federation::worker_pool::Work;
use crate::learning::Tally;
use crate::policy::{Message, Participant, Predictor, RoundContext, RunContext};
use crate::wire::Body;

/// A test of the global model on all classes seen.
pub(in crate::federation) struct ModelTest {
    pub simulation: Arc<SimulationContext>,
    /// The round or task that it follows.
    pub after: SnapshotPlace,
    /// Model to be tested; `None` if a source has the result.
    pub predictor: Option<Arc<dyn Predictor>>,
    /// Head rows that are tested.
    pub seen: usize,
    /// State of the server that the model is made from.
    pub server: Body,
    pub digest: u64,
}

impl ModelTest {
    /// Posts one job for each block of the test set.
    pub(super) fn by_workers(self) -> Computation<Result<Vec<Tally>, FederationError>> {
        let ModelTest { simulation, predictor, seen, server, digest, .. } = self;
        let Some(predictor) = predictor else {
            let what = "a model that is to be tested is not there".to_owned();
            return Computation::Known(Err(FederationError::Impossible(what)));
        };
        let blocks = evaluation::blocks(&simulation, seen);
        let (tallies, result) = Gather::new(blocks.len());
        let test = Arc::new(Test { simulation, predictor, blocks, seen, server, digest, tallies });
        let remote_job = |number| RemoteEvaluation { test: Arc::clone(&test), number };
        let job = |number| (JobKind::Evaluate, Work::Remote(Box::new(remote_job(number))));
        let jobs = (0..test.blocks.len()).map(job).collect();
        Computation::jobs(jobs, result, FederationError::Evaluation)
    }
}

/// Model of a client before aggregation, as download and upload.
pub(crate) struct OwnModel {
    pub participant: Participant,
    pub sent: Arc<Message>,
    /// Upload of the client, without attack and noise.
    pub own: Message,
    pub exchange: Arc<Exchange>,
}

/// Client models of a round that are to be compared.
pub(in crate::federation) struct ComparisonRequest {
    pub simulation: Arc<SimulationContext>,
    pub context: Arc<RoundContext>,
    pub models: Vec<OwnModel>,
}

impl ComparisonRequest {
    /// Posts one job for each client.
    pub(super) fn by_workers(self) -> Computation<Result<BiasMeasurement, FederationError>> {
        let ComparisonRequest { simulation, context, mut models } = self;
        models.sort_by_key(|model| model.participant.id);
        let (seen, phase) = (context.stage.view.seen(), context.phase_name);
        let classes = simulation.facts.classes;
        let blocks: bias::Blocks = Arc::new(evaluation::blocks(&simulation, seen));
        let (gather, result) = Gather::new(models.len());
        let job = |(place, model): (usize, OwnModel)| {
            let (simulation, blocks) = (Arc::clone(&simulation), Arc::clone(&blocks));
            let gather = Arc::clone(&gather);
            let job = move |ctx: &RunContext| {
                let shard = simulation.participant_shard(phase, &model.participant);
                gather.put(place, || {
                    let OwnModel { exchange, sent, own, .. } = &model;
                    let facts = exchange.facts();
                    let predictor = match simulation.method.inspection() {
                        Some(inspection) => inspection.local_model(&facts, sent, own, ctx)?,
                        None => None,
                    };
                    // A head that grows with its client's tasks has no answer for classes of others.
                    let knows_all = |predictor: &Arc<dyn Predictor>| {
                        predictor.head_rows().is_none_or(|rows| rows.end >= seen)
                    };
                    let predictor = predictor.filter(knows_all);
                    let of = |predictor| {
                        let subject = Subject { client: model.participant.client, shard: &shard };
                        bias::portrait(&simulation, ctx, predictor, subject, &blocks, seen)
                    };
                    predictor.map(of).transpose()
                });
            };
            (JobKind::Bias, Work::Local(Box::new(job)))
        };
        let jobs = models.into_iter().enumerate().map(job).collect();
        let portraits = Computation::jobs(jobs, result, FederationError::Evaluation);
        portraits.map(move |portraits| portraits.map(|all| BiasMeasurement::of(all, classes)))
    }
}
