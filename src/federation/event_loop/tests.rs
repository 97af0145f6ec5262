//! Actors of clients in whole runs: how many live, and what those that ended remember.

use std::sync::Arc;

use super::*;
use crate::federation::event::Entry;
use crate::federation::rules::{CohortSize, ParticipationSection, Rules};
use crate::federation::sink::MemorySink;
use crate::federation::testing::{Echo, setup};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::{
    ClientResult, ExchangeFacts, Failure, Member, MessageKind, MessageSpec, Method, MethodProfile,
    Metrics, PolicyError, RunContext, Server,
};
use crate::wire::{Body, Kind, NamedTensor, Section};

/// Echo whose clients count their trainings.
struct CountingEcho;

const TRAININGS: &str = "trainings";

impl Method for CountingEcho {
    fn server(&self, ctx: &RunContext, init: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Echo.server(ctx, init)
    }
    fn profile(&self) -> MethodProfile {
        MethodProfile { stateless: false, ..Echo.profile() }
    }
    fn message_spec(&self, message: MessageKind, facts: &ExchangeFacts<'_>) -> MessageSpec {
        Echo.message_spec(message, facts)
    }
    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        let mut outcomes = Echo.train(members, ctx);
        for (member, outcome) in members.iter_mut().zip(&mut outcomes) {
            let before = member.state.sections.first().map_or(0.0, trainings);
            let now = NamedTensor::f32(TRAININGS, [1], vec![before + 1.0]).expect("fills");
            member.state = Body::new(vec![], vec![Section::new(Kind::Statistics, vec![now])]);
            let counted = outcome.as_mut().expect("an echo does not fail");
            counted.metrics = training_metrics(before + 1.0);
        }
        outcomes
    }
}

fn trainings(section: &Section) -> f32 {
    section.tensors[0].as_f32().expect("a number")[0]
}

fn training_metrics(trainings: f32) -> Metrics {
    vec![(TRAININGS, f64::from(trainings))]
}

/// Walks a run with at most `max_idle` idle actors.
///
/// Returns its entries and the maximum number of live actors.
fn entries_of(rules: Rules, method: Arc<dyn Method>, max_idle: usize) -> (Vec<Entry>, usize) {
    let setup = crate::federation::Setup { method, ..setup(rules) };
    let simulation = Arc::new(SimulationContext::new(&setup).expect("possible"));
    let devices = WorkerPool::start(vec![setup.ctx.clone()], None, Box::new(()), None);
    let devices = devices.expect("starts");
    let policy =
        simulation.method.server(&setup.ctx, StreamKey::new(0, Domain::Init)).expect("starts");
    let server = ServerMachine::new(Arc::clone(&simulation), Supplier::Workers, Some(policy));
    let memory = MemorySink::default();
    let sink = Box::new(memory.clone());
    let most = actix::System::new().block_on(async move {
        let interrupt = Interrupt::default();
        let clients = Directory::new(Arc::clone(&simulation), Supplier::Workers, max_idle);
        let mut event_loop =
            EventLoop::new(simulation, Supplier::Workers, server, sink, devices, interrupt);
        event_loop.clients = clients;
        let mut most = 0;
        loop {
            let step = event_loop.step().await.expect("goes on");
            most = most.max(event_loop.clients.live());
            if let LoopStep::End(end) = step {
                end.expect("ends well");
                event_loop.write().expect("is kept");
                return most;
            }
        }
    });
    (memory.entries(), most)
}

fn cohorts_of_five() -> Rules {
    let participants = CohortSize::Count { count: 5 };
    let participation = ParticipationSection { participants, ..ParticipationSection::default() };
    Rules { clients: 20, rounds: 6, participation, ..Rules::default() }
}

#[test]
fn registered_clients_start_no_actor() {
    let rules = Rules { clients: 3, rounds: 1, idle: 100_000, ..Rules::default() };
    let (_, most) = entries_of(rules, Arc::new(Echo), Directory::LIVE);
    assert_eq!(most, 3);
}

#[test]
fn actors_are_a_cohort_and_some_idle_ones() {
    let (_, most) = entries_of(cohorts_of_five(), Arc::new(CountingEcho), 4);
    assert!((6..=9).contains(&most), "{most} actors");
    let (_, most) = entries_of(cohorts_of_five(), Arc::new(Echo), 4);
    assert!((6..=9).contains(&most), "{most} actors");
}

#[test]
fn retired_clients_remember() {
    let (always, _) = entries_of(cohorts_of_five(), Arc::new(CountingEcho), usize::MAX);
    let (retired, most) = entries_of(cohorts_of_five(), Arc::new(CountingEcho), 0);
    assert_eq!(always, retired);
    assert_eq!(most, 5, "no client idles");
    let counts =
        retired.iter().filter(|entry| entry.event.name() == "client_trained").map(|entry| {
            let numbers = entry.numbers.as_ref().expect("training has numbers");
            numbers.metrics[TRAININGS].0
        });
    let counts: Vec<f64> = counts.collect();
    assert_eq!(counts.len(), 60);
    assert!(counts.contains(&4.0), "{counts:?}");
}
