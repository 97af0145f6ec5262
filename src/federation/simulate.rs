//! Entry points that run a simulation to its end.

use std::sync::Arc;

use super::compute::Supplier;
use super::error::FederationError;
use super::event_loop::{EventLoop, RunEnd};
use super::guard::guard;
use super::interrupt::Interrupt;
use super::server::ServerMachine;
use super::setup::Setup;
use super::simulation_context::SimulationContext;
use super::sink::{EventSink, ProfileSink};
use super::worker_pool::WorkerPool;
use crate::numerics::streams::{Domain, StreamKey};

/// Runs a federation to its end on the calling thread, with workers in other threads.
///
/// Every entry goes to `sink`, in order; its error ends the run. Wall times go to `profile`. After `interrupt` is
/// requested the run ends after the current event, with [`RunEnded`](super::Event::RunEnded) as its last entry. Must
/// not be called from inside an asynchronous runtime.
///
/// # Errors
/// Returns the reason if the run ends before its last task is over; events until then are recorded.
pub fn simulate(
    setup: Setup,
    sink: Box<dyn EventSink>,
    profile: Box<dyn ProfileSink>,
    interrupt: Interrupt,
) -> Result<RunEnd, FederationError> {
    let simulation = SimulationContext::first(&setup)?;
    let supplier = setup.supplier();
    let init = StreamKey::new(setup.rules.seed, Domain::Init);
    const STEP: &str = "be set up";
    let saved = setup.recorded.as_ref().and_then(|recorded| recorded.saved_server());
    let policies = || {
        // Participants that were out at the snapshot are computed before the server's state is loaded. What their
        // policies take from the server, such as frozen features, exists once any server has loaded that state.
        if let Some(saved) = saved {
            setup.method.server(&setup.ctx, init)?.load(saved)?;
        }
        setup.method.server(&setup.ctx, init)
    };
    let policy = guard(policies)
        .map_err(|message| FederationError::Panicked { step: STEP, message })?
        .map_err(|source| FederationError::Policy { step: STEP, source: Box::new(source) })?;
    let contexts = setup.workers.contexts(&setup.ctx)?;
    let devices = WorkerPool::start(contexts, setup.shaker, profile, setup.fleet)?;
    let server = ServerMachine::new(Arc::clone(&simulation), supplier.clone(), Some(policy));
    run_loop(simulation, supplier, server, devices, sink, interrupt)
}

/// Runs the event loop to its end.
pub(super) fn run_loop(
    simulation: Arc<SimulationContext>,
    supplier: Supplier,
    server: ServerMachine,
    devices: WorkerPool,
    sink: Box<dyn EventSink>,
    interrupt: Interrupt,
) -> Result<RunEnd, FederationError> {
    // Actors wait only for each other and for timers, so the runtime needs no I/O driver of the system.
    let runtime = || {
        let built = tokio::runtime::Builder::new_current_thread().enable_time().build();
        built.expect("a runtime without input and output asks the system for nothing")
    };
    actix::System::with_tokio_rt(runtime).block_on(async move {
        EventLoop::new(simulation, supplier, server, sink, devices, interrupt).run().await
    })
}
