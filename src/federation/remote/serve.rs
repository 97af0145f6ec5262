//! Loop of a rank that has no event loop: it does the jobs that it is sent, until it is ended.

use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;

use crossbeam_channel::Sender;

use super::packet;
use super::rank_cache::RankCache;
use super::rank_channel::{Rank, RankChannel, TransportEvent};
use super::remote_evaluation::TestOrder;
use super::remote_job::{JobRequest, JobResponse, RequestHeader, ResponseHeader};
use super::remote_training::RemotePack;
use crate::federation::error::FederationError;
use crate::federation::evaluation;
use crate::federation::guard::guard;
use crate::federation::setup::Setup;
use crate::federation::simulation_context::SimulationContext;
use crate::federation::sink::JobKind;
use crate::federation::worker_pool::{Work, WorkerPool};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{PolicyError, Predictor, RunContext};
use crate::wire::Body;

/// Works for rank 0 until rank 0 drops the line.
///
/// `setup` must be made from the same scenario, data and weights as rank 0's; the caller has compared them.
///
/// # Errors
/// Returns [`FederationError::RankZero`] if rank 0 is lost, and an error if workers cannot be started.
pub fn serve(setup: Setup, line: &RankChannel) -> Result<(), FederationError> {
    let init = StreamKey::new(setup.rules.seed, Domain::Init);
    let contexts = setup.workers.contexts(&setup.ctx)?;
    let mut devices = WorkerPool::start(contexts, setup.shaker, Box::new(()), None)?;
    let simulation = SimulationContext::first(&setup)?;
    let hand = Arc::new(RankWorker {
        simulation,
        init,
        acquired: Mutex::default(),
        model: Mutex::default(),
    });
    let mut cache = RankCache::default();
    let lost = loop {
        let bytes = match line.incoming().recv() {
            Ok(TransportEvent::Packet { from: Rank::ZERO, bytes }) => bytes,
            Ok(TransportEvent::Packet { .. } | TransportEvent::Lost { rank: Rank(1..), .. }) => {
                continue;
            }
            Ok(TransportEvent::Lost { why, .. }) => break Some(why),
            Err(_) => break None,
        };
        let read = packet::open(bytes).and_then(|(header, frames)| Ok((header, frames.read()?)));
        let (header, bodies): (RequestHeader, _) = match read {
            Ok(read) => read,
            Err(why) => break Some(format!("it sent an invalid packet: {why}")),
        };
        let reply = Reply { outgoing: line.outgoing(), ticket: header.ticket };
        cache.forget(&header.forget);
        let task = match header.order {
            JobRequest::Train(order) => {
                order.unpack(&hand.simulation, &mut cache, &bodies).map(RankJob::Train)
            }
            JobRequest::Test(order) => {
                cache.body(order.server, &bodies).map(|server| RankJob::Test(order, server))
            }
        };
        match task {
            Ok(task) => {
                let hand = Arc::clone(&hand);
                devices.submit(task.kind(), reply.after(move |ctx| hand.work(task, ctx)));
            }
            Err(why) => reply.send(JobResponse::Refused(why), &[]),
        }
        devices.flush();
    };
    // Results that are still computed are not needed.
    devices.abandon();
    lost.map_or(Ok(()), |why| Err(FederationError::RankZero(why)))
}

/// Job of a worker.
enum RankJob {
    Train(RemotePack),
    /// Test of a block, with the server's state.
    Test(TestOrder, Body),
}

impl RankJob {
    fn kind(&self) -> JobKind {
        match self {
            RankJob::Train(_) => JobKind::Train,
            RankJob::Test(..) => JobKind::Evaluate,
        }
    }
}

/// Sender of the answer to one request.
struct Reply {
    outgoing: Sender<(Rank, Vec<u8>)>,
    ticket: u64,
}

type Done = Result<(JobResponse, Vec<Body>), String>;

impl Reply {
    /// Creates a job whose result is sent as the answer; a job that fails is refused.
    fn after(self, job: impl FnOnce(&RunContext) -> Done + Send + 'static) -> Work {
        Work::Local(Box::new(move |ctx| match guard(|| job(ctx)).and_then(|done| done) {
            Ok((answer, bodies)) => self.send(answer, &bodies),
            Err(why) => self.send(JobResponse::Refused(why), &[]),
        }))
    }

    fn send(self, answer: JobResponse, bodies: &[Body]) {
        let ticket = self.ticket;
        let sealed = packet::seal(&ResponseHeader { ticket, answer }, bodies).or_else(|error| {
            packet::seal(
                &ResponseHeader { ticket, answer: JobResponse::Refused(error.to_string()) },
                &[],
            )
        });
        if let Ok(bytes) = sealed {
            // No one listens after the line is gone.
            let _ = self.outgoing.send((Rank::ZERO, bytes));
        }
    }
}

/// Data that the jobs of a rank share.
struct RankWorker {
    simulation: Arc<SimulationContext>,
    /// Stream key of the server's initial draws.
    init: StreamKey,
    /// Numbers of the states that the method has loaded.
    acquired: Mutex<BTreeSet<u64>>,
    /// Model of the last test, by the number of the server's state that it was made from.
    model: Mutex<Option<(u64, Arc<dyn Predictor>)>>,
}

impl RankWorker {
    fn work(&self, task: RankJob, ctx: &RunContext) -> Done {
        match task {
            RankJob::Train(pack) => self.train(pack, ctx),
            RankJob::Test(order, server) => self.test(&order, &server, ctx),
        }
    }

    fn train(&self, pack: RemotePack, ctx: &RunContext) -> Done {
        for (id, remote_state) in pack.remote_state() {
            // Other jobs that need it wait until it is there.
            let mut acquired = self.acquired.lock();
            if !acquired.contains(id) {
                let method = &self.simulation.method;
                method
                    .load_remote_state(remote_state, ctx, self.init)
                    .map_err(|e| e.to_string())?;
                acquired.insert(*id);
            }
        }
        Ok(pack.client_update(&self.simulation, ctx))
    }

    fn test(&self, order: &TestOrder, server: &Body, ctx: &RunContext) -> Done {
        let predictor = self.predictor(order.server.id, server, ctx).map_err(|e| e.to_string())?;
        let blocks = evaluation::blocks(&self.simulation, order.seen);
        let block = blocks.get(order.block).ok_or("there is no such block of test samples")?;
        let tally = evaluation::score(&self.simulation, ctx, &*predictor, block, order.seen);
        let tally = tally.map_err(|error| error.to_string())?;
        Ok((JobResponse::Tested(tally.into()), Vec::new()))
    }

    /// Returns the model of a server's state, made once per state.
    fn predictor(
        &self,
        id: u64,
        saved: &Body,
        ctx: &RunContext,
    ) -> Result<Arc<dyn Predictor>, PolicyError> {
        let mut model = self.model.lock();
        if let Some((_, predictor)) = model.as_ref().filter(|(known, _)| *known == id) {
            return Ok(Arc::clone(predictor));
        }
        let mut server = self.simulation.method.server(ctx, self.init)?;
        server.load(saved)?;
        let predictor = server.predictor(ctx)?;
        *model = Some((id, Arc::clone(&predictor)));
        Ok(predictor)
    }
}
