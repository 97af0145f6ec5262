//! The event loop: takes the next event from the queue, sends it to its actor, carries out what the
//! actor asks for. It alone decides what happens when.
//!
//! An event is delivered and its answer awaited, so every mailbox is empty before the next event is
//! taken. An event that needs the answer of a worker waits for it when
//! it is popped: everything that could be handed to workers before has been.
//!
//! Entries are written to the sink in batches. The recorder puts them where they survive the process, as soon
//! as a wait is long enough to be noticed.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use actix::{Actor, Addr, Handler};
use tokio::join;

use super::client::{Directory, TrainingAnswer, TrainingJob};
use super::compute::Supplier;
use super::effect::Effect;
use super::envelope::{ActorMessage, Envelope, Pending};
use super::error::FederationError;
use super::event::{EndReason, Event, Numbers};
use super::interrupt::Interrupt;
use super::network::FrameNetwork;
use super::packs::{Packs, Ticket};
use super::queue::{ActorId, EventClass, EventQueue};
use super::recorder::{
    EntryLog, Flush, RecordAnswers, RecordModel, RecorderActor, SaveSnapshot, WantsSnapshot,
};
use super::remote::RemoteTraining;
use super::server::{AtServer, ServerActor, ServerMachine, ServerSnapshot, ToServer, WhoWaits};
use super::simulation_context::SimulationContext;
use super::sink::{EventSink, JobKind};
use super::snapshot::{self, Snapshot};
use super::worker_pool::{Work, WorkerPool};
use crate::quantity::VirtualTime;

/// End of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunEnd {
    /// Reason of the end.
    pub reason: EndReason,
    /// Entries recorded.
    pub entries: u64,
    /// The simulated clock at the end.
    pub at: VirtualTime,
}

pub(super) struct EventLoop {
    simulation: Arc<SimulationContext>,
    devices: WorkerPool,
    interrupt: Interrupt,
    queue: EventQueue<Upcoming>,
    network: FrameNetwork,
    packs: Packs<TrainingJob>,
    /// Answers of participants whose training began before their download arrived.
    ahead: BTreeMap<Ticket, TrainingAnswer>,
    server: Addr<ServerActor>,
    clients: Directory,
    log: EntryLog,
    recorder: Addr<RecorderActor>,
    now: VirtualTime,
}

/// Number of times that the event loop yields and looks again before it sleeps.
///
/// Most waits are shorter than a wake-up.
const GLANCES: u32 = 20;

/// Length of a wait after which recorded entries are flushed to disk.
const SETTLE_AFTER: Duration = Duration::from_millis(2);

/// Interval at which a waiting event loop checks for an interrupt.
const LOOK_UP: Duration = Duration::from_millis(100);

enum Upcoming {
    Known(ActorMessage),
    Pending(Pending),
    /// The end of a participant's training.
    Training(Ticket, Pending),
}

enum LoopStep {
    On,
    End(Result<(), FederationError>),
    Interrupted,
}

impl EventLoop {
    pub fn new(
        simulation: Arc<SimulationContext>,
        supplier: Supplier,
        server: ServerMachine,
        sink: Box<dyn EventSink>,
        devices: WorkerPool,
        interrupt: Interrupt,
    ) -> EventLoop {
        let mut queue = EventQueue::default();
        let start = Envelope::for_server(VirtualTime::ZERO, EventClass::Timer, ToServer::Start);
        put(&mut queue, start);
        let clients = Directory::new(Arc::clone(&simulation), supplier, Directory::LIVE);
        let network = FrameNetwork::new(&simulation.rules.links);
        let (log, recorder) = EntryLog::new(sink);
        EventLoop {
            simulation,
            network,
            devices,
            interrupt,
            queue,
            packs: Packs::default(),
            ahead: BTreeMap::new(),
            server: ServerActor(server).start(),
            clients,
            log,
            recorder: recorder.start(),
            now: VirtualTime::ZERO,
        }
    }

    /// Empties the queue, as a bug would.
    #[cfg(test)]
    pub fn forget_everything(&mut self) {
        self.queue = EventQueue::default();
    }

    /// Runs to the end. The last entry is [`Event::RunEnded`] unless recording itself failed.
    pub async fn run(mut self) -> Result<RunEnd, FederationError> {
        let (reason, result) = loop {
            match self.step().await {
                Ok(LoopStep::On) => {}
                Ok(LoopStep::End(Ok(()))) => break (EndReason::Done, Ok(())),
                Ok(LoopStep::Interrupted) => break (EndReason::Interrupted, Ok(())),
                Ok(LoopStep::End(Err(error))) | Err(error) => {
                    break (EndReason::Aborted, Err(error));
                }
            }
        };
        if !matches!(result, Err(FederationError::Sink(_))) {
            self.record(Event::RunEnded { reason }, None);
            let recorded = self.write();
            if result.is_ok() {
                recorded?;
            }
        }
        if reason != EndReason::Done {
            self.devices.abandon();
        }
        result.map(|()| RunEnd { reason, entries: self.log.written(), at: self.now })
    }

    async fn step(&mut self) -> Result<LoopStep, FederationError> {
        if self.interrupt.is_requested() {
            return Ok(LoopStep::Interrupted);
        }
        // What arrives at an instant comes before what actors do at it.
        while let Some(at) = self.network.next()
            && self.queue.next().is_none_or(|event| at <= event)
        {
            let queue = &mut self.queue;
            self.network.advance(&mut |frame| put(queue, frame));
        }
        let Some((place, upcoming)) = self.queue.pop() else {
            let waiting = self.server.send(WhoWaits).await.unwrap_or_default();
            return Err(FederationError::Deadlock { waiting });
        };
        self.now = place.at;
        if self.now == VirtualTime::END {
            return Err(FederationError::Impossible(clock_ended()));
        }
        let waited = match upcoming {
            Upcoming::Known(message) => Some(message),
            Upcoming::Pending(pending) => self.wait(pending).await?,
            Upcoming::Training(ticket, pending) => {
                let jobs = self.packs.need(ticket);
                self.train(jobs);
                self.wait(pending).await?
            }
        };
        let Some(message) = waited else { return Ok(LoopStep::Interrupted) };
        let effects = self.deliver(message).await?;
        self.carry_out(effects).await
    }

    /// Waits for a worker's answer; `None` after an interrupt.
    async fn wait(
        &mut self,
        mut pending: Pending,
    ) -> Result<Option<ActorMessage>, FederationError> {
        self.devices.flush();
        if let Poll::Ready(message) = poll_once(&mut pending).await {
            return Ok(Some(message));
        }
        let began = Instant::now();
        for _ in 0..GLANCES {
            std::thread::yield_now();
            if let Poll::Ready(message) = poll_once(&mut pending).await {
                self.devices.spent(JobKind::Idle, began.elapsed());
                return Ok(Some(message));
            }
        }
        let answer = self.sit_out(pending).await;
        self.devices.spent(JobKind::Idle, began.elapsed());
        answer
    }

    async fn sit_out(
        &mut self,
        mut pending: Pending,
    ) -> Result<Option<ActorMessage>, FederationError> {
        let mut pause = SETTLE_AFTER;
        loop {
            tokio::select! {
                biased;
                message = &mut pending => return Ok(Some(message)),
                () = tokio::time::sleep(pause) => {}
            }
            if self.interrupt.is_requested() {
                return Ok(None);
            }
            if pause == SETTLE_AFTER {
                self.write()?;
                self.send_to_recorder(Flush).await??;
                pause = LOOK_UP;
            }
        }
    }

    async fn deliver(&mut self, message: ActorMessage) -> Result<Vec<Effect>, FederationError> {
        let now = self.now;
        match message {
            ActorMessage::Server(what) => {
                let sent = self.server.send(AtServer { now, what }).await;
                sent.map_err(|_| FederationError::ActorGone("the server".into()))
            }
            ActorMessage::Client(id, what) => self.clients.deliver(now, id, what).await,
        }
    }

    async fn carry_out(&mut self, effects: Vec<Effect>) -> Result<LoopStep, FederationError> {
        let mut step = LoopStep::On;
        for effect in effects {
            match effect {
                Effect::Record(event, numbers) => self.record(event, numbers),
                Effect::Deliver(envelope) => put(&mut self.queue, envelope),
                Effect::DeliverResult { at, class, to, pending } => {
                    self.queue.push(at, class, to, Upcoming::Pending(pending));
                }
                Effect::Send(journey) => {
                    let queue = &mut self.queue;
                    self.network.send(self.now, journey, &mut |frame| put(queue, frame));
                }
                Effect::Submit(kind, work) => self.devices.submit(kind, work),
                Effect::GroupPacks(round, packs) => self.packs.open(round, packs),
                Effect::TrainAhead { ticket, job, answer } => {
                    let jobs = self.packs.ask(ticket, *job);
                    self.train(jobs);
                    self.ahead.insert(ticket, answer);
                }
                Effect::Train { at, to, ticket, job, pending } => {
                    let pending: Pending = match self.ahead.remove(&ticket) {
                        Some(ahead) => {
                            Box::pin(async move { join!(job.answer_from(ahead), pending).1 })
                        }
                        None => {
                            let jobs = self.packs.ask(ticket, *job);
                            self.train(jobs);
                            pending
                        }
                    };
                    let upcoming = Upcoming::Training(ticket, pending);
                    self.queue.push(at, EventClass::Timer, ActorId::Client(to), upcoming);
                }
                Effect::LeavePack(ticket) => {
                    let jobs = self.packs.drop_out(ticket);
                    self.train(jobs);
                }
                Effect::RecordAnswers(task, answers) => {
                    self.write()?;
                    self.send_to_recorder(RecordAnswers(task, answers)).await??;
                }
                Effect::RecordModel(task, state) => {
                    self.write()?;
                    self.send_to_recorder(RecordModel(task, state)).await??;
                }
                Effect::TakeSnapshot(kept) => self.snapshot(*kept).await?,
                Effect::SwitchContext(simulation) => self.turn(simulation).await?,
                Effect::End(result) => {
                    debug_assert!(result.is_err() || self.ahead.is_empty(), "trained for no one");
                    step = LoopStep::End(result);
                }
            }
        }
        if self.log.is_full() {
            self.write()?;
        }
        Ok(step)
    }

    /// Switches the context of the simulation for every actor.
    async fn turn(&mut self, simulation: Arc<SimulationContext>) -> Result<(), FederationError> {
        let lines = |simulation: &SimulationContext| {
            (simulation.rules.links.server_down, simulation.rules.links.server_up)
        };
        if lines(&simulation) != lines(&self.simulation) {
            if self.network.next().is_some() {
                return Err(FederationError::Impossible(
                    "the server's link cannot change while frames are in transit on it".into(),
                ));
            }
            self.network = FrameNetwork::new(&simulation.rules.links);
        }
        self.clients.turn(Arc::clone(&simulation)).await?;
        self.simulation = simulation;
        Ok(())
    }

    /// Takes a snapshot if the recorder wants one.
    async fn snapshot(&mut self, server: ServerSnapshot) -> Result<(), FederationError> {
        self.write()?;
        if !self.send_to_recorder(WantsSnapshot).await? {
            return Ok(());
        }
        let began = Instant::now();
        let ServerSnapshot { place, round, policy, caches, untransformed, mut out, frames } =
            server;
        let mut clients = Vec::new();
        if !self.simulation.stateless {
            for (id, kept) in self.clients.keep(out.keys().copied().collect()).await? {
                clients.push((id, kept.state));
                out.extend(kept.out);
            }
        }
        let (downloads, out) = snapshot::keep_downs(&out, frames);
        let entries = self.log.written();
        let server = policy;
        let snapshot = Snapshot {
            place,
            round,
            entries,
            server,
            caches,
            clients,
            downs: downloads,
            untransformed,
            out,
        };
        self.send_to_recorder(SaveSnapshot(snapshot)).await??;
        self.devices.spent(JobKind::Snapshot, began.elapsed());
        Ok(())
    }

    /// Hands a pack to the workers.
    fn train(&mut self, jobs: Vec<TrainingJob>) {
        if !jobs.is_empty() {
            let order = jobs.iter().map(TrainingJob::order).min().unwrap_or_default();
            let simulation = Arc::clone(&self.simulation);
            let remote_job = RemoteTraining::new(simulation, jobs);
            self.devices.submit_training(order, Work::Remote(Box::new(remote_job)));
        }
    }

    fn record(&mut self, event: Event, numbers: Option<Numbers>) {
        self.log.note(self.now, event, numbers);
    }

    /// Writes the collected entries to the sink.
    fn write(&mut self) -> Result<(), FederationError> {
        if self.log.is_empty() {
            return Ok(());
        }
        let began = Instant::now();
        self.log.write()?;
        self.devices.spent(JobKind::Journal, began.elapsed());
        Ok(())
    }

    /// Sends the recorder a message, and returns its answer.
    async fn send_to_recorder<M>(&self, message: M) -> Result<M::Result, FederationError>
    where
        M: actix::Message<Result: Send> + Send + 'static,
        RecorderActor: Handler<M>,
    {
        let answer = self.recorder.send(message).await;
        answer.map_err(|_| FederationError::ActorGone("the recorder".into()))
    }
}

/// Queues an envelope until its time.
fn put(queue: &mut EventQueue<Upcoming>, Envelope { at, class, to, message }: Envelope) {
    queue.push(at, class, to, Upcoming::Known(message));
}

fn clock_ended() -> String {
    "the virtual clock ended after 584 years\n  help: look for very large \
     values in [time], [links], [availability] and [round]"
        .into()
}

/// Looks once whether a worker has answered; costs no timer and no system call.
async fn poll_once(pending: &mut Pending) -> Poll<ActorMessage> {
    poll_fn(|context| Poll::Ready(pending.as_mut().poll(context))).await
}

#[cfg(test)]
mod tests;
