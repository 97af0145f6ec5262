//! A method on the real engine, watched: what its server sends, what its clients answer, what both keep. Links and
//! clocks are ideal and nothing fails, so a round is what the method makes of it.
//!
//! One task is run at a time, and tests look at the server, or change it, in between. Around the method stands one that
//! passes everything on: it samples no client in other tasks, checks every message against its layout and writes it
//! down.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use fedcast::data::{Loader, Shard, TaskView};
use fedcast::federation::{
    Coding, Curve, Event, Interrupt, MemorySink, OnBadUpdate, Rules, Setup, simulate,
};
use fedcast::learning::Tally;
use fedcast::learning::evaluation::evaluate;
use fedcast::numerics::streams::{Domain, StreamKey};
use fedcast::policy::{
    Aggregate, Asset, ClientResult, ExchangeFacts, Failure, Member, Message, MessageKind,
    MessageSpec, Method, MethodWrapper, ModelFacts, Participant, Phase, PolicyError, Predictor,
    RoundContext, RunContext, Scope, Server, Stage, UploadSize, Wrapped,
};
use fedcast::quantity::{ClientId, ParticipantId, Round};
use fedcast::wire::{
    Body, BodyShape, Codec, CodecPlan, FrameHeader, FrameSize, WireError, decode, encode,
};

pub const SEED: u64 = 5;

/// One participant's exchange.
pub struct Exchange {
    pub task: usize,
    pub phase: &'static str,
    pub participant: Participant,
    pub down: Body,
    pub assets: Vec<Arc<Asset>>,
    pub up: Result<Body, Failure>,
    pub metrics: Vec<(&'static str, f64)>,
}

/// A run in the making.
pub struct Engine {
    pub method: Arc<dyn Method>,
    pub facts: ModelFacts,
    pub ctx: RunContext,
    pub server: Box<dyn Server>,
    pub states: BTreeMap<ClientId, Body>,
    pub exchanges: Vec<Exchange>,
    /// Metrics of the server in every round, as in the journal.
    pub metrics: Vec<BTreeMap<String, f64>>,
    pub round: u32,
}

impl Engine {
    pub fn new(method: Arc<dyn Method>, facts: ModelFacts, ctx: RunContext) -> Engine {
        let server = fresh(&*method, &ctx);
        let (states, exchanges) = (BTreeMap::new(), Vec::new());
        Engine { method, facts, ctx, server, states, exchanges, metrics: Vec::new(), round: 0 }
    }

    /// All tasks in turn, each dealt to `clients`.
    pub fn run(self, clients: usize, rounds: u32) -> Engine {
        let tasks = self.ctx.task_sequence.tasks.len();
        self.tasks(tasks, clients, rounds)
    }

    /// The first tasks in turn, each dealt to `clients`.
    pub fn tasks(mut self, tasks: usize, clients: usize, rounds: u32) -> Engine {
        for task in 0..tasks {
            let shards = super::deal(&self.ctx, &self.view(task), clients);
            self.task(task, &shards, rounds);
        }
        self
    }

    /// One task with these shards.
    pub fn task(&mut self, task: usize, shards: &[Shard], rounds: u32) {
        self.walk(Part { task, before: self.round, phases: usize::MAX }, shards, rounds);
    }

    /// One task with these shards, of clients that held shards of the task before without being sampled.
    pub fn task_after_missing(&mut self, task: usize, missed: &[Shard], shards: &[Shard]) {
        let part = Part { task, before: self.round, phases: usize::MAX };
        self.walk_holding(part, shards, 1, |other| (other + 1 == task).then(|| missed.to_vec()));
    }

    /// A task up to the end of its first phase.
    pub fn first_phase(&mut self, task: usize, shards: &[Shard], rounds: u32) {
        self.walk(Part { task, before: self.round, phases: 1 }, shards, rounds);
    }

    fn walk(&mut self, part: Part, shards: &[Shard], rounds: u32) {
        self.walk_holding(part, shards, rounds, |_| None);
    }

    /// `missed` gives the shards of other tasks, in which no client is sampled.
    fn walk_holding(
        &mut self,
        part: Part,
        shards: &[Shard],
        rounds: u32,
        missed: impl Fn(usize) -> Option<Vec<Shard>>,
    ) {
        assert!(part.task > 0 || part.before == 0, "rounds before the first task");
        let tasks = self.ctx.task_sequence.tasks.len();
        let nothing = vec![Shard::from([]); shards.len()];
        let held = (0..tasks).map(|task| match task == part.task {
            true => shards.to_vec(),
            false => missed(task).unwrap_or_else(|| nothing.clone()),
        });
        let seen = Seen {
            server: std::mem::replace(&mut self.server, fresh(&*self.method, &self.ctx)),
            states: std::mem::take(&mut self.states),
            exchanges: Vec::new(),
            context: None,
        };
        let watched = Watched {
            method: Arc::clone(&self.method),
            facts: self.facts.clone(),
            part,
            seen: Arc::new(Mutex::new(seen)),
        };
        let rules = Rules {
            seed: SEED,
            clients: shards.len() as u32,
            rounds,
            curve: Curve::Never,
            on_bad_update: OnBadUpdate::Drop,
            ..Rules::default()
        };
        let setup = Setup {
            facts: self.facts.clone(),
            coding: Coding { verify: true, ..Coding::default() },
            workers: 1.into(),
            ..Setup::new(
                "watched",
                Arc::new(Wrapped(watched.clone())),
                self.ctx.clone(),
                held.collect(),
                rules,
            )
        };
        let journal = MemorySink::default();
        simulate(setup, Box::new(journal.clone()), Box::new(()), Interrupt::default())
            .expect("the run comes to its end");
        let mut seen = watched.seen();
        std::mem::swap(&mut self.server, &mut seen.server);
        self.states = std::mem::take(&mut seen.states);
        let mut exchanges = std::mem::take(&mut seen.exchanges);
        exchanges.sort_by_key(|(place, _)| *place);
        for entry in journal.entries() {
            match entry.event {
                Event::RoundOpened { round, .. } => self.round = round.0 + 1,
                Event::RoundClosed { round, .. } if round.0 >= part.before => {
                    let metrics = entry.numbers.map(|numbers| numbers.metrics).unwrap_or_default();
                    let plain = metrics.into_iter().map(|(name, figure)| (name, figure.0));
                    self.metrics.push(plain.collect());
                }
                Event::UpdateRejected { round, participant, reason: why, .. } => {
                    let rejected =
                        exchanges.iter().find(|(place, _)| *place == (round, participant));
                    let upload = rejected.and_then(|(_, exchange)| exchange.up.as_ref().ok());
                    assert!(
                        upload.is_some_and(|upload| !upload.is_finite()),
                        "{participant} of {round}: {why}"
                    );
                }
                _ => {}
            }
        }
        self.exchanges.extend(exchanges.into_iter().map(|(_, exchange)| exchange));
    }

    /// Returns the predictions for the test samples of the tasks so far, among their classes.
    pub fn tally(&self, seen: usize) -> Tally {
        tally(&*self.server.predictor(&self.ctx).unwrap(), &self.ctx, seen)
    }

    /// Accuracy on the test samples of the first `seen` head rows, among those.
    pub fn accuracy(&self, seen: usize) -> f64 {
        self.tally(seen).accuracy(0..seen).expect("test samples of these rows")
    }

    pub fn last(&self) -> &Exchange {
        self.exchanges.last().unwrap()
    }

    pub fn view(&self, task: usize) -> Arc<TaskView> {
        Arc::clone(&self.ctx.task_sequence.tasks[task])
    }
}

fn fresh(method: &dyn Method, ctx: &RunContext) -> Box<dyn Server> {
    method.server(ctx, StreamKey::new(SEED, Domain::Init)).unwrap()
}

/// Part of a run that is executed.
#[derive(Clone, Copy)]
struct Part {
    task: usize,
    /// Rounds that were over before.
    before: u32,
    /// Most phases to execute; a task that goes on does not end.
    phases: usize,
}

/// Observations of that part.
struct Seen {
    server: Box<dyn Server>,
    states: BTreeMap<ClientId, Body>,
    exchanges: Vec<((Round, ParticipantId), Exchange)>,
    context: Option<RoundContext>,
}

#[derive(Clone)]
struct Watched {
    method: Arc<dyn Method>,
    facts: ModelFacts,
    part: Part,
    seen: Arc<Mutex<Seen>>,
}

impl Watched {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn is_here(&self, stage: &Stage) -> bool {
        stage.task.index() == self.part.task
    }

    /// The layouts of a member's messages.
    fn layouts(&self, member: &Member, round: &RoundContext, ctx: &RunContext) -> [MessageSpec; 2] {
        let counts = ctx.shard_label_counts(&member.shard);
        let facts = ExchangeFacts {
            model: &self.facts,
            view: &member.participant.view,
            stage: round.stage.task,
            phase: round.phase,
            round_in_phase: round.round_in_phase,
            role: member.participant.role,
            counts: &counts,
        };
        [
            self.method.message_spec(MessageKind::Download, &facts),
            self.method.message_spec(MessageKind::Upload, &facts),
        ]
    }

    fn train_one(&self, member: &mut Member, ctx: &RunContext) -> Result<ClientResult, Failure> {
        let round = self.seen().context.clone().expect("a round is open");
        let [down_layout, up_layout] = self.layouts(member, &round, ctx);
        let client = member.participant.client;
        if let Some(state) = self.seen().states.remove(&client) {
            member.state = state;
        }
        let download = through_the_wire(&member.download.body());
        if up_layout.size != UploadSize::FromValues && !down_layout.is_upper_bound {
            assert_eq!(download.shape(), down_layout.body(), "a Down differs from its layout");
        }
        let assets = member.download.assets.clone();
        let named: Vec<_> = assets.iter().map(|asset| asset.body.shape()).collect();
        let promised: Vec<_> = down_layout.assets.iter().map(|asset| asset.body.clone()).collect();
        let size = |shape: &BodyShape| FrameSize::of_shape(shape, &CodecPlan::default()).payload;
        match down_layout.is_upper_bound {
            true => {
                assert_eq!(named.len(), promised.len());
                let sizes = named.iter().zip(&promised);
                let fits = |(named, promised): (&_, &_)| size(named) <= size(promised);
                assert!(sizes.into_iter().all(fits), "a Down names larger assets than its layout");
            }
            false => assert_eq!(named, promised, "a Down names other assets than its layout"),
        }
        let mut outcomes = self.method.train(std::slice::from_mut(member), ctx);
        let outcome = outcomes.remove(0);
        let metrics = outcome.as_ref().map(|o| o.metrics.clone()).unwrap_or_default();
        let upload = outcome.as_ref().map(|outcome| through_the_wire(&outcome.upload.body()));
        if let (Ok(body), true) = (&upload, up_layout.size != UploadSize::FromValues) {
            assert_eq!(body.shape(), up_layout.body(), "an Up differs from its layout");
        }
        let mut seen = self.seen();
        seen.states.insert(client, member.state.clone());
        let exchange = Exchange {
            task: round.stage.task.index(),
            phase: round.phase_name,
            participant: member.participant.clone(),
            down: download,
            assets,
            up: upload.map_err(Clone::clone),
            metrics,
        };
        seen.exchanges.push(((round.round, member.participant.id), exchange));
        outcome
    }
}

impl MethodWrapper for Watched {
    fn inner(&self) -> &dyn Method {
        &*self.method
    }

    fn server(&self, _: &RunContext, _: StreamKey) -> Result<Box<dyn Server>, PolicyError> {
        Ok(Box::new(self.clone()))
    }

    fn phases(&self, stage: &Stage, rounds: u32) -> Vec<Phase> {
        match (self.is_here(stage), stage.task.index()) {
            (true, _) => {
                self.method.phases(stage, rounds).into_iter().take(self.part.phases).collect()
            }
            (false, 0) => vec![Phase::train(self.part.before)],
            (false, _) => Vec::new(),
        }
    }

    fn participants(&self, round: &RoundContext, cohort: &[ClientId]) -> Vec<Participant> {
        match self.is_here(&round.stage) {
            true => self.method.participants(round, cohort),
            false => Vec::new(),
        }
    }

    fn train(
        &self,
        members: &mut [Member],
        ctx: &RunContext,
    ) -> Vec<Result<ClientResult, Failure>> {
        members.iter_mut().map(|member| self.train_one(member, ctx)).collect()
    }
}

impl Server for Watched {
    fn begin_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        match self.is_here(stage) {
            true => self.seen().server.begin_stage(stage, ctx),
            false => Ok(()),
        }
    }

    fn broadcast(
        &mut self,
        round: &RoundContext,
        participants: &[Participant],
        ctx: &RunContext,
    ) -> Result<Vec<Arc<Message>>, PolicyError> {
        if !self.is_here(&round.stage) {
            return Ok(Vec::new());
        }
        let mut seen = self.seen();
        seen.context = Some(round.clone());
        seen.server.broadcast(round, participants, ctx)
    }

    fn end_round(
        &mut self,
        round: &RoundContext,
        aggregate: Option<Aggregate>,
        ctx: &RunContext,
    ) -> Result<(), PolicyError> {
        match self.is_here(&round.stage) {
            true => self.seen().server.end_round(round, aggregate, ctx),
            false => Ok(()),
        }
    }

    fn end_stage(&mut self, stage: &Stage, ctx: &RunContext) -> Result<(), PolicyError> {
        match self.is_here(stage) && self.part.phases > 1 {
            true => self.seen().server.end_stage(stage, ctx),
            false => Ok(()),
        }
    }

    fn predictor(&self, ctx: &RunContext) -> Result<Arc<dyn Predictor>, PolicyError> {
        self.seen().server.predictor(ctx)
    }

    fn metrics(&self) -> Vec<(&'static str, f64)> {
        self.seen().server.metrics()
    }

    fn save(&self) -> Body {
        self.seen().server.save()
    }

    fn load(&mut self, saved: &Body) -> Result<(), WireError> {
        self.seen().server.load(saved)
    }
}

/// Scores every test sample of the first `seen` head rows.
pub fn tally(predictor: &dyn Predictor, ctx: &RunContext, seen: usize) -> Tally {
    let test = &ctx.dataset.test;
    let row = |i: &u32| ctx.task_sequence.row_of(test.labels()[*i as usize]) as usize;
    let shard: Shard = (0..test.len() as u32).filter(|i| row(i) < seen).collect();
    let (task_sequence, transform) = (&ctx.task_sequence, &ctx.statistics_transform);
    let loader =
        Loader::new(Arc::clone(test), shard, Arc::clone(task_sequence), Arc::clone(transform));
    let scope = Scope::Seen(seen);
    evaluate(&loader, 16, super::CLASSES, 0..seen, |batch| {
        predictor.scores(&ctx.pixels(batch)?, &scope)
    })
    .unwrap()
}

/// Encodes and decodes a body.
pub fn through_the_wire(body: &Body) -> Body {
    let frame = encode(&FrameHeader::default(), body, &CodecPlan::new(Codec::F32)).unwrap();
    let (_, decoded) = decode(&frame).unwrap();
    assert_eq!(decoded.digest(), body.digest());
    decoded
}
