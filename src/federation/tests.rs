//! The state machines without actors, threads or a runtime; the aggregation; the deadlock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::aggregation::{AggregationMode, AggregationTree, PartialAggregate, Upload};
use super::client::{ClientMachine, ClientMemory, train_together};
use super::compute::Supplier;
use super::effect::Effect;
use super::envelope::{ActorMessage, Envelope, Pending};
use super::event::Event;
use super::event_loop::EventLoop;
use super::exchange::Exchange;
use super::network::FrameNetwork;
use super::queue::{ActorId, EventClass, EventQueue};
use super::rules::{Curve, Rules};
use super::server::{ServerMachine, ToServer};
use super::testing::{number, participant, setup};
use super::worker_pool::WorkerPool;
use super::{FederationError, Interrupt, MemorySink};
use crate::numerics::streams::{Domain, StreamKey};
use crate::policy::UploadMeta;
use crate::quantity::{ParticipantId, Round, TaskId, VirtualTime};

fn server(
    simulation: &Arc<super::simulation_context::SimulationContext>,
    ctx: &crate::policy::RunContext,
) -> ServerMachine {
    let policy = simulation.method.server(ctx, StreamKey::new(0, Domain::Init)).expect("starts");
    ServerMachine::new(Arc::clone(simulation), Supplier::Workers, Some(policy))
}

/// Drives both machines in thirty lines: jobs run at once, on this thread.
fn drive(setup: super::Setup) -> Vec<Event> {
    enum QueuedMessage {
        Known(ActorMessage),
        Pending(Pending),
    }
    let simulation =
        Arc::new(super::simulation_context::SimulationContext::new(&setup).expect("possible"));
    let mut server = server(&simulation, &setup.ctx);
    let mut clients = BTreeMap::new();
    let mut queue = EventQueue::default();
    let mut events = Vec::new();
    let (mut network, mut now) = (FrameNetwork::new(&simulation.rules.links), VirtualTime::ZERO);
    let mut effects = server.step(VirtualTime::ZERO, ToServer::Start);
    loop {
        for effect in effects {
            match effect {
                Effect::Record(event, _) => events.push(event),
                Effect::Deliver(Envelope { at, class, to, message }) => {
                    queue.push(at, class, to, QueuedMessage::Known(message));
                }
                Effect::DeliverResult { at, class, to, pending } => {
                    queue.push(at, class, to, QueuedMessage::Pending(pending));
                }
                Effect::Send(journey) => network.send(now, journey, &mut |frame| {
                    queue.push(
                        frame.at,
                        frame.class,
                        frame.to,
                        QueuedMessage::Known(frame.message),
                    );
                }),
                Effect::Submit(_, work) => work.run(&setup.ctx),
                Effect::Train { at, to, job, pending, .. } => {
                    train_together(&simulation, &setup.ctx, vec![*job]);
                    queue.push(
                        at,
                        EventClass::Timer,
                        ActorId::Client(to),
                        QueuedMessage::Pending(pending),
                    );
                }
                Effect::GroupPacks(..)
                | Effect::TrainAhead { .. }
                | Effect::LeavePack(_)
                | Effect::RecordAnswers(..)
                | Effect::RecordModel(..)
                | Effect::SwitchContext(_)
                | Effect::TakeSnapshot(_) => {}
                Effect::End(end) => {
                    end.expect("ends well");
                    assert!(clients.values().all(ClientMachine::is_idle), "all work is over");
                    return events;
                }
            }
        }
        let (place, upcoming) = queue.pop().expect("something happens until the end");
        now = place.at;
        let message = match upcoming {
            QueuedMessage::Known(message) => message,
            QueuedMessage::Pending(mut pending) => {
                match pending.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    Poll::Ready(message) => message,
                    Poll::Pending => panic!("its job was posted before and has run"),
                }
            }
        };
        effects = match message {
            ActorMessage::Server(what) => server.step(place.at, what),
            ActorMessage::Client(id, what) => clients
                .entry(id)
                .or_insert_with(|| {
                    let terms = (Arc::clone(&simulation), Supplier::Workers);
                    ClientMachine::new(id, terms, ClientMemory::default())
                })
                .step(place.at, what),
        };
    }
}

#[test]
fn machines_run_without_actors_and_give_the_same_events() {
    let rules = Rules { clients: 3, rounds: 2, ..Rules::default() };
    let driven = drive(setup(rules.clone()));
    let names: Vec<&str> = driven.iter().map(Event::name).collect();
    let count = |name| names.iter().filter(|n| **n == name).count();
    assert_eq!(
        (count("round_closed"), count("client_trained"), count("frame_charged")),
        (4, 12, 24)
    );
    let memory = MemorySink::default();
    let sink = Box::new(memory.clone());
    super::simulate(setup(rules), sink, Box::new(()), Interrupt::default()).expect("ends well");
    let simulated: Vec<Event> = memory.entries().into_iter().map(|entry| entry.event).collect();
    assert_eq!(driven[..], simulated[..simulated.len() - 1]);
}

#[test]
fn an_unchanged_model_is_not_tested_twice() {
    let rules = Rules { clients: 1, rounds: 1, curve: Curve::Round, ..Rules::default() };
    let setup = setup(rules);
    let simulation =
        Arc::new(super::simulation_context::SimulationContext::new(&setup).expect("possible"));
    assert_eq!(super::evaluation::blocks(&simulation, 5).len(), 3, "blocks of one task");
    let evaluated = |e: &&Event| e.name() == "evaluated";
    assert_eq!(drive(setup).iter().filter(evaluated).count(), 4);
}

#[test]
fn a_deadlock_names_those_that_wait() {
    let setup = setup(Rules::default());
    let simulation =
        Arc::new(super::simulation_context::SimulationContext::new(&setup).expect("possible"));
    let memory = MemorySink::default();
    let devices =
        WorkerPool::start(vec![setup.ctx.clone()], None, Box::new(()), None).expect("starts");
    let sink = memory.clone();
    let error = actix::System::new()
        .block_on(async move {
            let server = server(&simulation, &setup.ctx);
            let mut event_loop = EventLoop::new(
                simulation,
                Supplier::Workers,
                server,
                Box::new(sink),
                devices,
                Interrupt::default(),
            );
            event_loop.forget_everything();
            event_loop.run().await
        })
        .expect_err("cannot go on");
    assert!(matches!(&error, FederationError::Deadlock { waiting } if waiting.len() == 1));
    assert!(error.to_string().contains("the server has not begun"), "{error}");
    assert_eq!(memory.entries().len(), 1, "the journal says that the run was aborted");
}

/// Returns an upload of the participant in this place.
fn upload_of(
    setup: &super::Setup,
    simulation: &super::simulation_context::SimulationContext,
    place: u32,
) -> Upload {
    let participant = participant(setup, place);
    let key = super::specs::SpecKey { stage: TaskId(0), phase: 0, round_in_phase: 0 };
    let of = (&participant.view, participant.role);
    let exchange = Exchange::new(simulation, of, key, Default::default());
    Upload {
        meta: UploadMeta::timely(participant, Round(0)),
        sent: Arc::new(number(0.0)),
        body: number(place as f32).body(),
        exchange: Some(Arc::new(exchange)),
    }
}

#[test]
fn parts_in_order_wait_one_per_level() {
    let setup = setup(Rules { clients: 100, ..Rules::default() });
    let simulation = super::simulation_context::SimulationContext::new(&setup).expect("possible");
    let mode = AggregationMode::Plain(Arc::clone(&setup.method));
    let (tree, _result) = AggregationTree::new(mode, 100);
    for place in 0..100u32 {
        tree.transform_upload(upload_of(&setup, &simulation, place));
        // Beyond the last participant leaves are empty, so that everything merges.
        let waiting = match place {
            99 => 0,
            _ => (place + 1).count_ones() as usize,
        };
        assert_eq!(tree.waiting_parts(), waiting, "after {place}");
    }
}

proptest! {
    /// In every order of arrival, parts are merged in participant order.
    #[test]
    fn an_aggregation_is_in_participant_order(
        arrivals in prop::collection::vec(any::<bool>(), 0..20)
            .prop_map(|present| present.into_iter().enumerate().collect::<Vec<_>>())
            .prop_shuffle()
    ) {
        let setup = setup(Rules { clients: 20, ..Rules::default() });
        let simulation = super::simulation_context::SimulationContext::new(&setup).expect("possible");
        let (aggregation, mut aggregate) = AggregationTree::new(AggregationMode::Plain(Arc::clone(&setup.method)), arrivals.len());
        for (place, present) in &arrivals {
            if *present {
                aggregation.transform_upload(upload_of(&setup, &simulation, *place as u32));
            } else {
                aggregation.skip(ParticipantId(*place as u32));
            }
        }
        aggregation.seal();
        let part = aggregate.try_recv().expect("all participants are accounted for").part;
        let kept = match part {
            Some(PartialAggregate::Plain(aggregate)) => aggregate.kept_uploads,
            None => Vec::new(),
            Some(_) => panic!("nothing is masked here"),
        };
        let got: Vec<u32> = kept.iter().map(|kept| kept.meta.participant.id.0).collect();
        let mut wanted: Vec<u32> =
            arrivals.iter().filter(|a| a.1).map(|a| a.0 as u32).collect();
        wanted.sort_unstable();
        prop_assert_eq!(got, wanted);
    }
}
